/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Transactions and pins: their beginning and end, and who waits for their end. */
#include "query/txn.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "query/ddl_internal.h"
#include "query/txn_internal.h"

enum { LOCK_WAIT_MS = 5 /* (M) maxTransactionLockRequestTimeoutMillis */ };
enum { PAUSE_MS_MIN = 1, PAUSE_MS_MAX = 50 };

/* --- the table ------------------------------------------------------------------------------- */

struct txn_table *txn_table_new(void)
{
    struct txn_table *t = mem_must_zero(1, sizeof(*t));

    atomic_init(&t->lock_wait_ms, LOCK_WAIT_MS);
    atomic_init(&t->entry_ops, INT32_MAX);
    waitlist_init(&t->waiters);
    mutex_init(&t->mx);
    cond_init(&t->cv);
    return t;
}

void txn_table_free(struct txn_table *t)
{
    if (t == NULL)
        return;
    ASSERT(atomic_load(&t->open) == 0 && atomic_load(&t->pinned) == 0);
    waitlist_fini(&t->waiters);
    pthread_cond_destroy(&t->cv);
    mutex_fini(&t->mx);
    free(t);
}

void txn_table_stats(struct txn_table *t, struct txn_table_stats *ret)
{
    *ret = (struct txn_table_stats){.open = atomic_load(&t->open),
                                    .pinned = atomic_load(&t->pinned),
                                    .writing = atomic_load(&t->writing),
                                    .waited = atomic_load(&t->waited),
                                    .write_conflicts = atomic_load(&t->write_conflicts)};
}

int64_t txn_lock_wait_ms(struct txn_table *t)
{
    return atomic_load(&t->lock_wait_ms);
}

void txn_set_lock_wait_ms(struct txn_table *t, int64_t ms)
{
    atomic_store(&t->lock_wait_ms, ms);
}

int64_t txn_entry_ops(struct txn_table *t)
{
    return atomic_load(&t->entry_ops);
}

void txn_set_entry_ops(struct txn_table *t, int64_t n)
{
    atomic_store(&t->entry_ops, n);
}

/* --- beginning ------------------------------------------------------------------------------- */

static int new_txn(struct op *op, bool read_only, struct txn **ret)
{
    struct txn_table *table = op->database->txns;
    _Atomic int64_t *n = read_only ? &table->pinned : &table->open;
    struct txn *t;

    atomic_fetch_add(n, 1);
    if (atomic_load(&table->open) + atomic_load(&table->pinned) > LIMIT_TRANSACTIONS) {
        atomic_fetch_sub(n, 1);
        return op_fail(op, ERR_RESOURCE_EXHAUSTED,
                       "too many transactions and snapshots are open (%d)", LIMIT_TRANSACTIONS);
    }
    t = mem_must_zero(1, sizeof(*t));
    t->db = op->database;
    t->read_only = read_only;
    t->lsid = BV_NONE;
    arena_init(&t->arena);
    *ret = t;
    return 0;
}

int txn_begin(struct op *op, struct bv lsid, int64_t txn_number, struct txn **ret)
{
    struct txn *t;
    int rc;

    TRY_RETURN(new_txn(op, false, &t));
    t->lsid = bv_dup(&t->arena, lsid);
    t->number = txn_number;
    /* Before the snapshot: what is visible at this optime must be in it. */
    t->read_optime = oplog_visible(t->db->oplog);
    TRY(stx_begin(t->db->engine, op, &t->stx));
    stx_set_op(t->stx, NULL);
    *ret = t;
    return 0;
fail:
    txn_release(t);
    return rc;
}

int txn_begin_snapshot(struct op *op, struct txn **ret, uint64_t *ret_at)
{
    struct txn *t;
    int rc;

    TRY_RETURN(new_txn(op, true, &t));
    TRY(oplog_begin_snapshot(t->db->oplog, op, &t->stx, &t->read_optime));
    stx_set_op(t->stx, NULL);
    *ret_at = t->read_optime;
    *ret = t;
    return 0;
fail:
    txn_release(t);
    return rc;
}

void txn_enter(struct txn *t, struct op *op)
{
    ASSERT(op->txn == NULL && stx_op(t->stx) == NULL);
    op->txn = t;
    stx_set_op(t->stx, op);
}

void txn_leave(struct op *op)
{
    if (op->txn == NULL)
        return;
    stx_set_op(op->txn->stx, NULL);
    op->txn = NULL;
}

/* --- the end --------------------------------------------------------------------------------- */

static void wake_waiters(struct txn_table *table)
{
    uint64_t ended;

    mutex_lock(&table->mx);
    ended = atomic_fetch_add(&table->ended, 1) + 1;
    pthread_cond_broadcast(&table->cv);
    mutex_unlock(&table->mx);
    waitlist_wake(&table->waiters, ended);
}

void txn_release(struct txn *t)
{
    struct txn_table *table = t->db->txns;

    for (struct txn_coll *c = t->colls; c != NULL; c = c->next) {
        coll_unref(c->k);
        nslock_release(t->db->locks, &c->lock);
    }
    for (struct txn_db *d = t->dbs; d != NULL; d = d->next)
        nslock_release(t->db->locks, &d->lock);
    if (t->nops > 0)
        atomic_fetch_sub(&table->writing, 1);
    atomic_fetch_sub(t->read_only ? &table->pinned : &table->open, 1);
    if (!t->read_only)
        wake_waiters(table);
    free(t->ops);
    arena_fini(&t->arena);
    free(t);
}

void txn_abort(struct txn *t)
{
    if (t == NULL)
        return;
    stx_rollback(t->stx);
    for (struct txn_coll *c = t->colls; c != NULL; c = c->next) {
        if (c->created) {
            ddl_abandon(t->db, c->k);
            c->k = NULL;
        }
    }
    txn_release(t);
}

/* --- a full cache ---------------------------------------------------------------------------- */

int txn_write_error(struct op *op, int code)
{
    const struct txn *t = op->txn;

    if (t == NULL || (code != ERR_WRITE_CONFLICT && code != ERR_TEMPORARILY_UNAVAILABLE))
        return code;
    /* The engine gives up the oldest transaction when it finds no more room. */
    if (t->bytes > engine_cache_bytes(t->db->engine) / 2)
        return op_fail(op, ERR_TXN_TOO_LARGE_FOR_CACHE,
                       "transaction is too large and will not fit in the storage engine cache");
    return code == ERR_WRITE_CONFLICT
               ? code
               : op_fail(
                     op, ERR_WRITE_CONFLICT,
                     "Write conflict: the storage cache is full. Please retry your operation or "
                     "multi-document transaction.");
}

/* --- waiting for an end ---------------------------------------------------------------------- */

uint64_t txn_ended(struct database *db)
{
    return atomic_load(&db->txns->ended);
}

bool txn_any_writing(struct database *db)
{
    return atomic_load(&db->txns->writing) > 0;
}

void txn_note_conflict(struct database *db)
{
    atomic_fetch_add_explicit(&db->txns->write_conflicts, 1, memory_order_relaxed);
}

static int64_t pause_us(unsigned attempt)
{
    int64_t ms = attempt >= 6 ? PAUSE_MS_MAX : PAUSE_MS_MIN << attempt;

    return (ms < PAUSE_MS_MAX ? ms : PAUSE_MS_MAX) * 1000;
}

/* The time belongs to this wait alone: the next one of the same request sets its own. */
static void unpark(struct op *op)
{
    waitlist_unpark(op);
    op->park_deadline_us = 0;
}

/* A thread that must not give up what its request has done so far. */
static int sleep_ended(struct op *op, uint64_t seen, int64_t until_us)
{
    struct txn_table *table = op->database->txns;

    if (op->deadline_us != 0 && op->deadline_us < until_us)
        until_us = op->deadline_us;
    op_note_stuck(op, true);
    mutex_lock(&table->mx);
    while (atomic_load(&table->ended) <= seen && clock_mono_us() < until_us)
        (void)mutex_wait(&table->mx, &table->cv, until_us);
    mutex_unlock(&table->mx);
    op_note_stuck(op, false);
    return op_check(op);
}

int txn_wait_ended(struct op *op, uint64_t seen, unsigned attempt)
{
    struct txn_table *table = op->database->txns;
    int64_t now_us = clock_mono_us();

    atomic_fetch_add_explicit(&table->waited, 1, memory_order_relaxed);
    if (op->wrote_optime != 0 || op->waiter.wake == NULL)
        return sleep_ended(op, seen, now_us + pause_us(attempt));
    /* Each wait is a run of the request. */
    op->park_deadline_us = now_us + pause_us(op->runs - (op->runs > 0));
    if (waitlist_park(&table->waiters, op, seen + 1, &table->ended) == INT_PARK) {
        op->unpark = unpark;
        return INT_PARK;
    }
    op->park_deadline_us = 0;
    return 0;
}

/* --- asking ---------------------------------------------------------------------------------- */

struct stx *txn_stx(struct txn *t)
{
    return t->stx;
}

uint64_t txn_read_optime(const struct txn *t)
{
    return t->read_optime;
}

bool txn_read_only(const struct txn *t)
{
    return t->read_only;
}

bool txn_has_ops(const struct txn *t)
{
    return t->nops > 0;
}

size_t txn_nops(const struct txn *t)
{
    return t->nops;
}

size_t txn_bytes(const struct txn *t)
{
    return t->bytes;
}
