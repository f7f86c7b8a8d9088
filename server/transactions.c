/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The states of all sessions' transactions under one mutex, and the open ones in a list by age.
 * A struct txn is begun, committed and aborted outside the mutex, by the request that has the
 * session, or by whoever took it out of its session while nobody had it.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "oplog/retry.h"
#include "server/cursors.h"
#include "server/server.h"
#include "server/stable_api.h"
#include "server/transactions_internal.h"

struct transactions *transactions_new(void)
{
    struct transactions *t = mem_must_zero(1, sizeof(*t));

    mutex_init(&t->mx);
    t->lifetime_s = TXN_LIFETIME_DEFAULT_S;
    return t;
}

void transactions_free(struct transactions *t)
{
    if (t == NULL)
        return;
    ASSERT(t->oldest == NULL);
    mutex_fini(&t->mx);
    free(t);
}

void session_txn_free(struct session_txn *st)
{
    free(st);
}

bool session_txn_open(struct session_txn *st)
{
    bool open;

    if (st == NULL)
        return false;
    mutex_lock(&st->all->mx);
    open = st->state == TXN_IN_PROGRESS;
    mutex_unlock(&st->all->mx);
    return open;
}

/* --- the open ones ---------------------------------------------------------------------------- */

static void open_locked(struct session_txn *st)
{
    struct transactions *t = st->all;

    mutex_assert_held(&t->mx);
    st->state = TXN_IN_PROGRESS;
    st->next = NULL;
    st->prev = t->newest;
    *(t->newest == NULL ? &t->oldest : &t->newest->next) = st;
    t->newest = st;
    t->stats.started++;
}

void txn_close_locked(struct session_txn *st, enum txn_state state, struct remains *ret)
{
    struct transactions *t = st->all;

    mutex_assert_held(&t->mx);
    ASSERT(st->state == TXN_IN_PROGRESS);
    *(st->prev == NULL ? &t->oldest : &st->prev->next) = st->next;
    *(st->next == NULL ? &t->newest : &st->next->prev) = st->prev;
    st->next = st->prev = NULL;
    *ret = (struct remains){st->txn, st->lsid, st->number, st->has_cursors, NULL};
    st->state = state;
    st->txn = NULL;
    st->doom = 0;
    st->has_cursors = false;
    if (state == TXN_COMMITTED)
        t->stats.committed++;
    else
        t->stats.aborted++;
}

void txn_bury(struct server *s, const struct remains *r)
{
    if (r->txn != NULL)
        txn_abort(r->txn);
    if (r->has_cursors)
        cursors_kill_txn(s->cursors, &r->lsid, r->number);
}

/* --- a request begins ------------------------------------------------------------------------- */

static int too_old(struct request *rq, const struct session_txn *st)
{
    bool txn = st->state != TXN_RETRYABLE;

    return op_fail(
        &rq->op, ERR_TRANSACTION_TOO_OLD,
        "%s %lld %s session %s because a newer %s with txnNumber %lld has already "
        "started on this session.",
        rq->env->has_autocommit ? "Cannot start transaction" : "Retryable write with txnNumber",
        (long long)rq->env->txn_number, rq->env->has_autocommit ? "on" : "is prohibited on",
        bv_show(&rq->op.arena, rq->env->lsid, 200), txn ? "transaction" : "retryable write",
        (long long)st->number);
}

static int check_start_locked(struct request *rq, const struct session_txn *st)
{
    if (rq->env->txn_number < st->number)
        return too_old(rq, st);
    if (rq->env->txn_number == st->number)
        return op_fail(&rq->op, ERR_CONFLICTING_OPERATION,
                       "Only servers in a sharded cluster can start a new transaction at the "
                       "active transaction number");
    return 0;
}

static int check_api_locked(struct request *rq, const struct session_txn *st)
{
    if (stable_api_same(&rq->env->api, &st->api))
        return 0;
    return op_fail(&rq->op, ERR_API_MISMATCH,
                   "API parameter mismatch: %s used params %s, the transaction's first command "
                   "used %s",
                   rq->cmd->name, stable_api_show(&rq->op.arena, &rq->env->api),
                   stable_api_show(&rq->op.arena, &st->api));
}

static int check_continue_locked(struct request *rq, const struct session_txn *st)
{
    struct op *op = &rq->op;
    long long number = rq->env->txn_number;

    if (rq->env->txn_number < st->number)
        return too_old(rq, st);
    if (rq->env->txn_number != st->number || st->state == TXN_NONE || st->state == TXN_RETRYABLE)
        return op_fail(op, ERR_NO_SUCH_TRANSACTION,
                       "Given transaction number %lld does not match any in-progress "
                       "transactions. The active transaction number is %lld",
                       number, (long long)st->number);
    if (st->state == TXN_ABORTED)
        return op_fail(op, ERR_NO_SUCH_TRANSACTION,
                       "Transaction with { txnNumber: %lld } has been aborted.", number);
    if (st->state == TXN_COMMITTED && rq->cmd->run != cmd_commitTransaction)
        return op_fail(op, ERR_TRANSACTION_COMMITTED,
                       "Transaction with { txnNumber: %lld } has been committed.", number);
    return 0;
}

static void start_locked(struct session_txn *st, struct request *rq)
{
    mutex_assert_held(&st->all->mx);
    st->number = rq->env->txn_number;
    st->api = rq->env->api;
    st->read_level = rq->env->read_level;
    st->read_level_given = rq->env->read_concern_given;
    st->start_us = clock_mono_us();
    st->start_ms = clock_wall_ms();
    st->expiry_us = st->start_us + st->all->lifetime_s * 1000000;
    st->active_us = 0;
    st->read_optime = 0;
    open_locked(st);
}

/* Takes the session's transaction for rq, or fails. *ret_old: what it replaces. */
static int take_locked(struct session_txn *st, struct request *rq, struct remains *ret_old)
{
    mutex_assert_held(&st->all->mx);
    if (!rq->env->start_transaction) {
        TRY_RETURN(check_continue_locked(rq, st));
    } else {
        TRY_RETURN(check_start_locked(rq, st));
        if (st->state == TXN_IN_PROGRESS)
            txn_close_locked(st, TXN_ABORTED, ret_old);
        start_locked(st, rq);
    }
    st->user = rq;
    st->entered_us = clock_mono_us();
    rq->txn = st;
    return rq->env->start_transaction ? 0 : check_api_locked(rq, st);
}

/* A retryable write ends the transaction that it makes old. */
static int retryable_locked(struct session_txn *st, struct request *rq, struct remains *ret_old)
{
    mutex_assert_held(&st->all->mx);
    if (rq->env->txn_number < st->number)
        return too_old(rq, st);
    if (rq->env->txn_number == st->number && st->state != TXN_RETRYABLE)
        return op_fail(&rq->op, ERR_INCOMPLETE_TXN_HISTORY,
                       "Cannot retry a retryable write that has been converted into a "
                       "transaction");
    if (st->state == TXN_IN_PROGRESS)
        txn_close_locked(st, TXN_ABORTED, ret_old);
    st->number = rq->env->txn_number;
    st->state = TXN_RETRYABLE;
    return 0;
}

/* What the session has done before this process, or before it had a transaction. */
static int load(struct request *rq, struct session_txn *st)
{
    struct op *op = &rq->op;
    struct retry_record r;

    TRY_RETURN(retry_load(op->database->engine, op, rq->env->lsid, &op->arena, &r));
    st->number = r.found ? r.txn_number : -1;
    st->state = !r.found ? TXN_NONE : r.committed ? TXN_COMMITTED : TXN_RETRYABLE;
    return 0;
}

static int get_state(struct request *rq, struct session_txn **ret)
{
    struct session_txn **place = session_txn(rq), *st = *place;
    int rc;

    if (st == NULL && rq->env->has_autocommit) {
        st = mem_must_zero(1, sizeof(*st));
        st->all = rq->server->transactions;
        st->lsid = lsid_key(rq->env->lsid);
        TRY(load(rq, st));
        *place = st;
    }
    *ret = st;
    return 0;
fail:
    free(st);
    return rc;
}

static int begin_storage(struct request *rq, struct session_txn *st)
{
    struct txn *txn;

    TRY_RETURN(txn_begin(&rq->op, rq->env->lsid, rq->env->txn_number, &txn));
    mutex_lock(&st->all->mx);
    st->txn = txn;
    st->read_optime = txn_read_optime(txn);
    mutex_unlock(&st->all->mx);
    return 0;
}

/* In the session's transaction: goes on after a wait, or for the first time. */
static int go_in(struct request *rq)
{
    struct session_txn *st = rq->txn;

    if (st->txn == NULL)
        return 0; /* committed before: the commit is asked for again */
    txn_enter(st->txn, &rq->op);
    rq->in_txn = true;
    return rq->cmd->run == cmd_aggregate ? txn_rules_stages(rq) : 0;
}

int transaction_enter(struct request *rq)
{
    struct session_txn *st;
    struct remains old = {0};
    int rc;

    if (rq->env->txn_number < 0 || rq->session == NULL)
        return 0;
    TRY_RETURN(session_write_begin(rq));
    if (rq->txn != NULL)
        return go_in(rq);
    TRY_RETURN(get_state(rq, &st));
    if (st == NULL)
        return 0;
    mutex_lock(&st->all->mx);
    rc = rq->env->has_autocommit ? take_locked(st, rq, &old) : retryable_locked(st, rq, &old);
    mutex_unlock(&st->all->mx);
    txn_bury(rq->server, &old);
    if (rc != 0 || !rq->env->has_autocommit)
        return rc;
    if (rq->env->start_transaction)
        TRY_RETURN(begin_storage(rq, st));
    return go_in(rq);
}

/* --- a request ends --------------------------------------------------------------------------- */

/* Errors that MongoDB finds before a command has the session: they leave its transaction alone. */
static bool spares_transaction(const struct request *rq, int rc)
{
    if (rq->env->start_transaction)
        return false;
    return rc == ERR_IDL_DUPLICATE_FIELD || rc == ERR_IDL_MISSING_FIELD ||
           rc == ERR_IDL_UNKNOWN_FIELD;
}

static void go_out(struct request *rq)
{
    if (rq->in_txn)
        txn_leave(&rq->op);
    rq->in_txn = false;
}

/* One transaction alone must not fill the cache: what it has changed stays there until its end. */
static int check_size(struct request *rq)
{
    const struct txn *t = rq->txn->txn;
    uint64_t cache = engine_cache_bytes(rq->op.database->engine);

    if (t == NULL || (double)txn_bytes(t) < LIMIT_TXN_CACHE_SHARE * (double)cache)
        return 0;
    return op_fail(&rq->op, ERR_TXN_TOO_LARGE_FOR_CACHE,
                   "transaction is too large and will not fit in the storage engine cache: %zu "
                   "bytes of operations",
                   txn_bytes(t));
}

int transaction_leave(struct request *rq, int rc)
{
    struct session_txn *st = rq->txn;
    struct remains dead = {0};
    int doom;

    if (st == NULL)
        return rc;
    if (rc == 0)
        rc = check_size(rq);
    go_out(rq);
    if (rc == INT_PARK || rc == INT_TO_SCHEMA)
        return rc;
    mutex_lock(&st->all->mx);
    doom = st->state == TXN_IN_PROGRESS ? st->doom : 0;
    if (st->state == TXN_IN_PROGRESS &&
        (doom != 0 || rq->txn_failed || (rc != 0 && !spares_transaction(rq, rc))))
        txn_close_locked(st, TXN_ABORTED, &dead);
    st->active_us += clock_mono_us() - st->entered_us;
    st->user = NULL;
    st->doom = 0;
    mutex_unlock(&st->all->mx);
    rq->txn = NULL;
    rq->txn_failed = false;
    txn_bury(rq->server, &dead);
    session_write_end(rq);
    return rc == 0 && doom != 0 ? op_fail(&rq->op, doom, "the transaction was ended by the server")
                                : rc;
}

void transaction_drop(struct request *rq)
{
    if (rq->txn != NULL)
        (void)!transaction_leave(rq, ERR_CLIENT_DISCONNECT);
}

void transaction_fail(struct request *rq)
{
    rq->txn_failed = rq->txn != NULL;
}

void transaction_owns_cursor(struct request *rq)
{
    struct session_txn *st = rq->txn;

    mutex_lock(&st->all->mx);
    st->has_cursors = true;
    mutex_unlock(&st->all->mx);
}

/* --- commit and abort ------------------------------------------------------------------------- */

static int check_in_transaction(struct request *rq)
{
    if (rq->txn == NULL)
        return op_fail(&rq->op, ERR_COMMAND_FAILED, "%s must be run within a transaction",
                       rq->cmd->name);
    return 0;
}

int transaction_commit(struct request *rq)
{
    struct session_txn *st;
    struct remains done = {0};
    uint64_t optime = 0;
    int rc;

    TRY_RETURN(check_in_transaction(rq));
    st = rq->txn;
    if (st->txn == NULL)
        return 0; /* again: the reply waits for the write concern as the first one did */
    rc = txn_commit(st->txn, &rq->op, &optime); /* which leaves it, but when it waits */
    if (rc == INT_PARK)
        return rc;
    rq->in_txn = false;
    mutex_lock(&st->all->mx);
    txn_close_locked(st, rc == 0 ? TXN_COMMITTED : TXN_ABORTED, &done);
    if (rc == 0 && optime != 0)
        st->all->stats.record_writes++;
    mutex_unlock(&st->all->mx);
    done.txn = NULL; /* freed */
    txn_bury(rq->server, &done);
    return rc;
}

int transaction_abort(struct request *rq)
{
    struct remains dead;

    TRY_RETURN(check_in_transaction(rq));
    go_out(rq);
    mutex_lock(&rq->txn->all->mx);
    txn_close_locked(rq->txn, TXN_ABORTED, &dead);
    mutex_unlock(&rq->txn->all->mx);
    txn_bury(rq->server, &dead);
    return 0;
}
