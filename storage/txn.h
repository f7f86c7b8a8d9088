/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Storage transactions: one leased WiredTiger session with snapshot isolation.
 *
 * A transaction belongs to one thread at a time. Its snapshot is taken by stx_begin(). Errors:
 * ERR_WRITE_CONFLICT from a write means the transaction is lost: roll back and start again.
 * ERR_DUPLICATE_KEY leaves it usable. After any other error it may be read on, but stx_commit()
 * refuses it: a record may be half written. WiredTiger's codes are translated here and nowhere
 * else; a panic of the engine ends the process.
 *
 * Cursors opened in a transaction must be closed before it ends.
 */
#ifndef RUNNEL_STORAGE_TXN_H
#define RUNNEL_STORAGE_TXN_H

#include "storage/engine.h"

struct stx;

/* Never waits: the pool grows to its limit; beyond it ERR_TEMPORARILY_UNAVAILABLE. */
int stx_begin(struct engine *e, struct op *op, struct stx **ret) MUST_CHECK;
/* Commits without syncing the log. The transaction is over, whatever is returned. */
int stx_commit(struct stx *t) MUST_CHECK;
void stx_rollback(struct stx *t); /* NULL: nothing */
/* Drops the snapshot and takes a new one; for readers between batches. No writes before it. Open
 * cursors stay open and lose their position. */
int stx_refresh(struct stx *t) MUST_CHECK;
struct op *stx_op(struct stx *t);
/* A transaction that outlives a request works for the op of the request in hand. */
void stx_set_op(struct stx *t, struct op *op);
struct engine *stx_engine(struct stx *t);
bool stx_has_written(const struct stx *t);

#endif
