/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Read concern and write concern: what a command asks for, what it may ask for, and what its
 * request or its reply waits for therefore. By the thread that runs the request.
 *
 * docs/consistency.md tells what each level promises.
 */
#ifndef RUNNEL_SERVER_CONCERNS_H
#define RUNNEL_SERVER_CONCERNS_H

#include "server/command.h"

/* --- read concern (read_concern.c) ------------------------------------------------------------ */

/* A level by its name; 14 for what is no string, 2 for an unknown one. */
int read_level_parse(struct op *op, struct bv v, enum read_level *ret) MUST_CHECK;
const char *read_level_name(enum read_level level);
/* The readConcern field: sets rq->read_*, after_cluster_time, at_cluster_time. */
int read_concern_parse(struct request *rq, struct bv v) MUST_CHECK;
/* With the envelope complete: sets the default level, and refuses (72) one that the command does
 * not take. Transactions have rules of their own: not for a request in one. */
int read_concern_check(struct request *rq) MUST_CHECK;
/* Waits until what afterClusterTime names can be read. INT_PARK, or 72 for a time beyond the
 * cluster's. */
int read_concern_wait(struct request *rq) MUST_CHECK;
/* The command has succeeded: what the reply of a read waits for. A linearizable read writes its
 * noop here. */
int read_concern_finish(struct request *rq) MUST_CHECK;

/* --- write concern (write_concern.c) ---------------------------------------------------------- */

/* A writeConcern document. Leaves *ret, which holds the default, as it is for an empty one. */
int write_concern_parse(struct op *op, struct bv v, struct write_concern *ret) MUST_CHECK;
/* What a command without a write concern has while nobody has set another default. */
void write_concern_implicit(struct write_concern *ret);
/* With the envelope complete: sets what was not given from the default, and refuses (72) one for a
 * command that takes none. */
int write_concern_check(struct request *rq) MUST_CHECK;
/* No errors are reported to who asked for no acknowledgement. */
bool write_concern_is_silent(const struct write_concern *wc);
/* The command has succeeded: what its reply waits for, and the error of a write concern that
 * nothing can fulfil. */
void write_concern_finish(struct request *rq);
/* The document of the concern for errors and getDefaultRWConcern: w, j, wtimeout. */
void write_concern_write(const struct write_concern *wc, struct bw *w);
/* The finished reply waits for its durability no longer, because of `code` (64: wtimeout, 50:
 * maxTimeMS, 11601: killOp): it will be sent with a writeConcernError, or, for a read, becomes that
 * error. */
void concern_gives_up(struct request *rq, int code);

#endif
