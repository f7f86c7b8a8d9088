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
 * SCOPE_OPLOG only entries that scope_matches() accepts. Forward: from 0 begins at the oldest live
 * entry; any other `from` at or below the newest entry ever removed is ERR_CAPPED_POSITION_LOST
 * (the caller turns it into 286 or 136). The scope's strings must outlive the reader.
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

/* True when the image of a change made at wall_ms may no longer be used (oplog_set_image_expiry).
 */
bool image_expired(struct oplog *o, int64_t wall_ms);

/* Pre-image of the change at (optime, index in applyOps); BV_NONE: none, or expired. Copied. */
int image_get(struct oplog *o, struct op *op, uint64_t optime, int64_t index, struct arena *a,
              struct bv *ret) MUST_CHECK;

/* Calls fn with each stored image from (optime, index) on as a document of config.system.preimages,
 * oldest first: {_id: {nsUUID, ts, applyOpsIndex}, operationTime, preImage}. The
 * document lives until fn returns; a code other than 0 from fn ends the walk and is returned. */
int image_each(struct oplog *o, struct op *op, uint64_t optime, int64_t index,
               int (*fn)(void *arg, struct bv doc), void *arg) MUST_CHECK;

#endif
