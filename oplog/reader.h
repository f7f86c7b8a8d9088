/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reading entries in order, from the hub's ring where the position lies inside it, else from the
 * table, skipping segments that cannot concern the scope. A reader lives for one batch (or one
 * call) of one thread and holds a storage transaction only while it reads the table.
 */
#ifndef RUNNEL_OPLOG_READER_H
#define RUNNEL_OPLOG_READER_H

#include "oplog/oplog.h"

struct oplog_reader;

/*
 * Yields entries with optime >= from (or <= from, going down, when `backward`), none above the
 * horizon loaded at opening (durable, or visible for SCOPE_OPLOG). With a scope other than
 * SCOPE_OPLOG only entries that scope_matches() accepts. ERR_CAPPED_POSITION_LOST when `from`
 * lies below the oldest live entry (forward; the caller turns it into 286 or 136 and decides
 * whether a complete oplog makes it legal by passing from = oldest).
 */
int oplog_reader_open(struct oplog *o, struct op *op, uint64_t from, const struct scope *s,
                      bool backward, struct oplog_reader **ret) MUST_CHECK;
/* *ret_found false: the horizon (or the beginning) is reached. The row's bytes stay valid until
 * the next call. ERR_CAPPED_POSITION_LOST when retention overtook the reader. */
int oplog_reader_next(struct oplog_reader *r, struct oplog_row *ret, bool *ret_found) MUST_CHECK;
/* Newest optime known to be passed: entries up to here were returned or do not match. */
uint64_t oplog_reader_position(const struct oplog_reader *r);
uint64_t oplog_reader_horizon(const struct oplog_reader *r);
void oplog_reader_close(struct oplog_reader *r); /* NULL: nothing */

/* One entry by exact optime, copied into the arena; BV_NONE: none. */
int oplog_get(struct oplog *o, struct op *op, uint64_t optime, struct arena *a,
              struct bv *ret) MUST_CHECK;

/* Pre-image of the change at (optime, index in applyOps); BV_NONE: none. Copied. */
int image_get(struct oplog *o, struct op *op, uint64_t optime, int64_t index, struct arena *a,
              struct bv *ret) MUST_CHECK;
/* Calls fn with each stored image as a config.system.preimages document:
 * {_id: {nsUUID, ts, applyOpsIndex}, operationTime, preImage}. */
int image_each(struct oplog *o, struct op *op, int (*fn)(void *arg, struct bv doc),
               void *arg) MUST_CHECK;

#endif
