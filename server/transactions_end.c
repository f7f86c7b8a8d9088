/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Transactions from outside: who ends them, and what they look like. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/cache_pressure.h"
#include "server/executor.h"
#include "server/server.h"
#include "server/transactions_internal.h"

/* Adds what is left of st to *list, or dooms it. */
static void end_locked(struct session_txn *st, int code, struct remains **list)
{
    struct remains *r;

    mutex_assert_held(&st->all->mx);
    if (st->user != NULL) {
        st->doom = code;
        request_interrupt(st->user, code);
        return;
    }
    r = mem_must(sizeof(*r));
    txn_close_locked(st, TXN_ABORTED, r);
    r->next = *list;
    *list = r;
}

static void bury_all(struct server *s, struct remains *list)
{
    while (list != NULL) {
        struct remains *r = list;

        list = r->next;
        txn_bury(s, r);
        free(r);
    }
}

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct lsid_key));
}

void transactions_end_sessions(struct server *s, struct lsid_key *keys, size_t n, int code)
{
    struct transactions *t = s->transactions;
    struct remains *dead = NULL;

    if (n == 0)
        return;
    qsort(keys, n, sizeof(*keys), compare_keys);
    mutex_lock(&t->mx);
    for (struct session_txn *st = t->oldest, *next; st != NULL; st = next) {
        next = st->next;
        if (bsearch(&st->lsid, keys, n, sizeof(*keys), compare_keys) != NULL)
            end_locked(st, code, &dead);
    }
    mutex_unlock(&t->mx);
    bury_all(s, dead);
}

void transactions_end_all(struct server *s, const struct request *except, int code)
{
    struct transactions *t = s->transactions;
    struct remains *dead = NULL;

    mutex_lock(&t->mx);
    for (struct session_txn *st = t->oldest, *next; st != NULL; st = next) {
        next = st->next;
        if (st->user == NULL || st->user != except)
            end_locked(st, code, &dead);
    }
    mutex_unlock(&t->mx);
    bury_all(s, dead);
}

/* --- from time to time ------------------------------------------------------------------------ */

static void log_end(const struct session_txn *st, const char *why)
{
    log_event(LOG_WARNING, "transaction", "transaction aborted", {"reason", LOG_STR(why)},
              {"txnNumber", LOG_NUM(st->number)},
              {"openMs", LOG_NUM((clock_mono_us() - st->start_us) / 1000)}, );
}

static void end_expired_locked(struct transactions *t, int64_t now, struct remains **dead)
{
    mutex_assert_held(&t->mx);
    for (struct session_txn *st = t->oldest, *next; st != NULL; st = next) {
        next = st->next;
        if (st->expiry_us > now || st->doom != 0)
            continue;
        log_end(st, "it has exceeded transactionLifetimeLimitSeconds");
        end_locked(st, ERR_TXN_LIFETIME_EXCEEDED, dead);
    }
}

/* Under pressure for as long as from one look to the next, the oldest one goes, if it is as old as
 * the pressure. Its client may begin it again. */
static void end_oldest_locked(struct transactions *t, int64_t now, bool pressed,
                              struct remains **dead)
{
    struct session_txn *st = t->oldest;

    mutex_assert_held(&t->mx);
    if (!pressed) {
        t->pressed_us = 0;
    } else if (t->pressed_us == 0) {
        t->pressed_us = now;
    } else if (st != NULL && st->doom == 0 && st->start_us < t->pressed_us) {
        log_end(st, "it keeps the cache from being cleaned, and is the oldest one");
        end_locked(st, ERR_WRITE_CONFLICT, dead);
    }
}

static bool any_open(struct transactions *t)
{
    bool any;

    mutex_lock(&t->mx);
    any = t->oldest != NULL;
    mutex_unlock(&t->mx);
    return any;
}

void transactions_sweep(struct server *s)
{
    struct transactions *t = s->transactions;
    struct remains *dead = NULL;
    int64_t now = clock_mono_us();
    bool pressed = any_open(t) &&
                   cache_is_pressed(atomic_load(&s->database)->engine, CACHE_DIRTY_TRANSACTIONS);

    mutex_lock(&t->mx);
    end_expired_locked(t, now, &dead);
    end_oldest_locked(t, now, pressed, &dead);
    mutex_unlock(&t->mx);
    bury_all(s, dead);
}

/* --- looking at them -------------------------------------------------------------------------- */

int64_t transactions_lifetime_s(struct transactions *t)
{
    int64_t seconds;

    mutex_lock(&t->mx);
    seconds = t->lifetime_s;
    mutex_unlock(&t->mx);
    return seconds;
}

void transactions_set_lifetime_s(struct transactions *t, int64_t seconds)
{
    mutex_lock(&t->mx);
    t->lifetime_s = seconds;
    mutex_unlock(&t->mx);
}

void transactions_stats(struct transactions *t, struct transaction_stats *ret)
{
    mutex_lock(&t->mx);
    *ret = t->stats;
    for (const struct session_txn *st = t->oldest; st != NULL; st = st->next) {
        ret->open++;
        ret->active += st->user != NULL;
    }
    mutex_unlock(&t->mx);
}

static void describe_locked(const struct session_txn *st, struct transaction_row *r)
{
    int64_t now = clock_mono_us();

    mutex_assert_held(&st->all->mx);
    *r = (struct transaction_row){.lsid = st->lsid,
                                  .user = st->user,
                                  .txn_number = st->number,
                                  .read_level = st->read_level,
                                  .read_level_given = st->read_level_given,
                                  .read_optime = st->read_optime,
                                  .start_ms = st->start_ms,
                                  .expiry_ms = st->start_ms + (st->expiry_us - st->start_us) / 1000,
                                  .open_us = now - st->start_us,
                                  .active_us = st->active_us +
                                               (st->user == NULL ? 0 : now - st->entered_us)};
}

int transactions_list(struct transactions *t, struct op *op, struct transaction_row **ret,
                      size_t *ret_n)
{
    struct transaction_row *rows;
    size_t n = 0;

    mutex_lock(&t->mx);
    for (const struct session_txn *st = t->oldest; st != NULL; st = st->next)
        n++;
    rows = arena_try(&op->arena, (n + 1) * sizeof(*rows));
    n = 0;
    for (const struct session_txn *st = t->oldest; rows != NULL && st != NULL; st = st->next)
        describe_locked(st, &rows[n++]);
    mutex_unlock(&t->mx);
    if (rows == NULL)
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory to list the transactions");
    *ret = rows;
    *ret_n = n;
    return 0;
}
