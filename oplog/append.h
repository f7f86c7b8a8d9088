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
 * With --no-oplog optimes are taken but no rows are written.
 */
int oplog_commit(struct oplog *o, struct op *op, struct stx *t, const struct oplog_op *ops,
                 size_t n, int (*extra)(void *arg, struct stx *t, uint64_t first), void *arg,
                 uint64_t *ret_first) MUST_CHECK;

#endif
