/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The only way to commit a change: with its oplog entries, in the caller's transaction.
 * Restricted like storage/table_write.h: query/write*.c, query/ddl*.c and oplog/ only.
 */
#ifndef RUNNEL_OPLOG_APPEND_H
#define RUNNEL_OPLOG_APPEND_H

#include "oplog/oplog.h"
#include "storage/txn.h"

/*
 * Takes n optimes (the last step before the commit), writes the entries and pre-images, calls
 * `extra` (may be NULL) to write rows that need the optime and cannot conflict (the session's
 * retry record), commits without sync and closes the slot, on success and failure alike.
 * The transaction is over when this returns. n == 0: plain commit of catalog-only changes.
 * On success op->wrote_optime and op->ack_visible are raised to the last optime.
 * Optime of ops[i] is *ret_first + i. ERR_WRITE_CONFLICT: nothing happened, start again.
 * While the disk has made no ceiling durable under which there are optimes left, the request waits
 * for it without the transaction: INT_PARK if it has changed nothing before, else on its thread;
 * its interrupts, deadline and wtimeout end the wait with their errors. With --no-oplog optimes are
 * taken but no rows are written.
 */
int oplog_commit(struct oplog *o, struct op *op, struct stx *t, const struct oplog_op *ops,
                 size_t n, int (*extra)(void *arg, struct stx *t, uint64_t first), void *arg,
                 uint64_t *ret_first) MUST_CHECK;

/* The same for a transaction that can not be had again: where oplog_commit() would wait it returns
 * INT_NO_OPTIME, and the transaction is as it was. */
int oplog_commit_held(struct oplog *o, struct op *op, struct stx *t, const struct oplog_op *ops,
                      size_t n, int (*extra)(void *arg, struct stx *t, uint64_t first), void *arg,
                      uint64_t *ret_first) MUST_CHECK;
/* And the wait itself, which may also be a part of the caller's. 0: try again; INT_PARK; the error
 * of what has ended the wait. */
int oplog_wait_room(struct oplog *o, struct op *op) MUST_CHECK;

#endif
