/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A table of fixed places under one mutex, which is not held while a storage transaction begins or
 * ends: a place is reserved first (`user` without `txn`) and cleared before its transaction ends.
 */
#include "server/snapshots.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "oplog/waitlist.h"
#include "query/txn.h"
#include "server/cache_pressure.h"
#include "server/server.h"

struct snapshot {
    struct txn *txn;
    uint64_t at; /* 0: being taken, or the place is free */
    int64_t since_us, used_us;
    struct request *user; /* reads from it now, or is taking it */
    bool doomed;          /* goes when its user leaves */
};

struct snapshots {
    struct mutex mx;
    struct snapshot all[LIMIT_SNAPSHOTS];
    struct waitlist waiting; /* for `left` to grow */
    _Atomic int64_t too_old; /* reads refused */
    _Atomic uint64_t left;   /* how often a place became free or idle */
    _Atomic int64_t window_s;
    bool pressed; /* the cache was at the last sweep; the sweeper's */
};

struct snapshots *snapshots_new(void)
{
    struct snapshots *s = mem_must_zero(1, sizeof(*s));

    mutex_init(&s->mx);
    waitlist_init(&s->waiting);
    atomic_init(&s->window_s, SNAPSHOT_WINDOW_DEFAULT_S);
    return s;
}

void snapshots_free(struct snapshots *s)
{
    if (s == NULL)
        return;
    snapshots_drop_all(s);
    waitlist_fini(&s->waiting);
    mutex_fini(&s->mx);
    free(s);
}

static void clear(struct snapshot *p)
{
    memset(p, 0, sizeof(*p));
}

/* --- finding a place -------------------------------------------------------------------------- */

/* The snapshot of a time: an idle one where there are several. NULL: it is not pinned. */
static struct snapshot *find_locked(struct snapshots *s, uint64_t at)
{
    struct snapshot *found = NULL;

    mutex_assert_held(&s->mx);
    for (size_t i = 0; i < LIMIT_SNAPSHOTS; i++) {
        struct snapshot *p = &s->all[i];

        if (p->txn != NULL && p->at == at && !p->doomed && (found == NULL || p->user == NULL))
            found = p;
    }
    return found;
}

/* A free place, or that of the idle snapshot which was used least recently, whose transaction the
 * caller ends. NULL: all are in use. */
static struct snapshot *place_locked(struct snapshots *s, struct txn **ret_old)
{
    struct snapshot *best = NULL;

    mutex_assert_held(&s->mx);
    *ret_old = NULL;
    for (size_t i = 0; i < LIMIT_SNAPSHOTS; i++) {
        struct snapshot *p = &s->all[i];

        if (p->user == NULL && (best == NULL || p->used_us < best->used_us))
            best = p; /* a free place was never used */
    }
    if (best != NULL) {
        *ret_old = best->txn;
        clear(best);
    }
    return best;
}

static int park_locked(struct snapshots *s, struct op *op)
{
    uint64_t left = atomic_load(&s->left);

    mutex_assert_held(&s->mx);
    return waitlist_park(&s->waiting, op, left + 1, &s->left);
}

static void wake(struct snapshots *s)
{
    waitlist_wake(&s->waiting, atomic_load(&s->left));
}

/* --- reading ---------------------------------------------------------------------------------- */

static int too_old(struct request *rq)
{
    uint64_t at = rq->env->at_cluster_time;

    atomic_fetch_add(&rq->server->snapshots->too_old, 1);
    return op_fail(&rq->op, ERR_SNAPSHOT_TOO_OLD,
                   "Read timestamp Timestamp(%llu, %llu) is older than the oldest available "
                   "timestamp.",
                   (unsigned long long)(at >> 32), (unsigned long long)(at & UINT32_MAX));
}

static void enter(struct request *rq, struct snapshot *p)
{
    rq->snapshot = p;
    rq->env->at_cluster_time = p->at;
    txn_enter(p->txn, &rq->op);
}

/* Fills a place that is reserved for rq. */
static int take(struct request *rq, struct snapshot *p)
{
    struct snapshots *s = rq->server->snapshots;
    struct op *op = &rq->op;
    struct oplog *o = op->database->oplog;
    struct txn *t = NULL;
    uint64_t want = rq->env->at_cluster_time, at = 0;
    int rc;

    /* A time that the clock has not reached becomes the newest one; one that it has passed without
     * a write is the same as the one before it. */
    if ((int64_t)(want >> 32) >= clock_wall_ms() / 1000)
        oplog_advance_clock(o, want);
    rc = txn_begin_snapshot(op, &t, &at);
    if (rc == 0 && want != 0 && at > want) {
        txn_abort(t);
        rc = too_old(rq);
    } else if (rc == 0 && want != 0) {
        at = want;
        oplog_advance_clock(o, want); /* no write to come is at or below it */
    }
    mutex_lock(&s->mx);
    if (rc == 0) {
        p->txn = t;
        p->at = at;
        p->since_us = clock_mono_us();
    } else {
        clear(p);
        atomic_fetch_add(&s->left, 1);
    }
    mutex_unlock(&s->mx);
    if (rc != 0) {
        wake(s);
        return rc;
    }
    enter(rq, p);
    return 0;
}

/* What a read without a time may share: nothing was written since. The database "local" is written
 * without optimes. */
static uint64_t time_to_share(struct request *rq)
{
    return strcmp(rq->op.db, "local") == 0 ? 0 : oplog_allocated(rq->op.database->oplog);
}

/* Reserves an existing snapshot or a place for one. */
static int reserve_locked(struct request *rq, struct snapshot **ret, struct txn **ret_old)
{
    struct snapshots *s = rq->server->snapshots;
    struct snapshot *p;

    *ret_old = NULL;
    if (rq->env->at_cluster_time != 0) {
        p = find_locked(s, rq->env->at_cluster_time);
        if (p != NULL && p->user != NULL)
            return park_locked(s, &rq->op);
        if (p == NULL && rq->env->at_cluster_time < oplog_allocated(rq->op.database->oplog))
            return too_old(rq);
    } else {
        p = find_locked(s, time_to_share(rq));
        if (p != NULL && p->user != NULL)
            p = NULL;
    }
    if (p == NULL)
        p = place_locked(s, ret_old);
    if (p == NULL)
        return park_locked(s, &rq->op);
    p->user = rq;
    p->used_us = clock_mono_us();
    *ret = p;
    return 0;
}

int snapshot_enter(struct request *rq)
{
    struct snapshots *s = rq->server->snapshots;
    struct snapshot *p = NULL;
    struct txn *old;
    int rc;

    if (rq->snapshot != NULL)
        return 0;
    mutex_lock(&s->mx);
    rc = reserve_locked(rq, &p, &old);
    mutex_unlock(&s->mx);
    txn_abort(old);
    if (rc != 0)
        return rc;
    if (p->txn == NULL)
        return take(rq, p);
    enter(rq, p);
    return 0;
}

void snapshot_leave(struct request *rq)
{
    struct snapshots *s = rq->server->snapshots;
    struct snapshot *p = rq->snapshot;
    struct txn *old = NULL;

    if (p == NULL)
        return;
    rq->snapshot = NULL;
    txn_leave(&rq->op);
    mutex_lock(&s->mx);
    p->user = NULL;
    p->used_us = clock_mono_us();
    if (p->doomed) {
        old = p->txn;
        clear(p);
    }
    atomic_fetch_add(&s->left, 1);
    mutex_unlock(&s->mx);
    txn_abort(old);
    wake(s);
}

/* --- giving up -------------------------------------------------------------------------------- */

/* Takes a snapshot out of the table; its transaction, for the caller to end, or NULL when its user
 * must leave first. */
static struct txn *doom_locked(struct snapshots *s, struct snapshot *p)
{
    struct txn *t = p->txn;

    mutex_assert_held(&s->mx);
    if (p->user != NULL) {
        p->doomed = true;
        return NULL;
    }
    clear(p);
    return t;
}

static void end_expired(struct snapshots *s)
{
    int64_t before = clock_mono_us() - atomic_load(&s->window_s) * 1000000;
    struct txn *old[LIMIT_SNAPSHOTS];
    size_t n = 0;

    mutex_lock(&s->mx);
    for (size_t i = 0; i < LIMIT_SNAPSHOTS; i++) {
        struct snapshot *p = &s->all[i];

        if (p->txn != NULL && !p->doomed && p->since_us <= before)
            old[n++] = doom_locked(s, p);
    }
    mutex_unlock(&s->mx);
    for (size_t i = 0; i < n; i++)
        txn_abort(old[i]);
}

static bool any_pinned(struct snapshots *s)
{
    struct snapshots_stats st;

    snapshots_stats(s, &st);
    return st.pinned > 0;
}

void snapshots_sweep(struct snapshots *s, struct engine *e)
{
    end_expired(s);
    if (!any_pinned(s) || e == NULL || !cache_is_pressed(e, CACHE_DIRTY_SNAPSHOTS)) {
        s->pressed = false;
        return;
    }
    /* For as long as from one look to the next: a burst of writes is no reason. */
    if (s->pressed && snapshots_drop_oldest(s))
        log_event(LOG_WARNING, "snapshots",
                  "the oldest snapshot of reads keeps the cache from being cleaned: given up", );
    s->pressed = true;
}

bool snapshots_drop_oldest(struct snapshots *s)
{
    struct snapshot *oldest = NULL;
    struct txn *t = NULL;

    mutex_lock(&s->mx);
    for (size_t i = 0; i < LIMIT_SNAPSHOTS; i++) {
        struct snapshot *p = &s->all[i];

        if (p->txn != NULL && !p->doomed && (oldest == NULL || p->at < oldest->at))
            oldest = p;
    }
    if (oldest != NULL)
        t = doom_locked(s, oldest);
    mutex_unlock(&s->mx);
    txn_abort(t);
    return oldest != NULL;
}

void snapshots_drop_all(struct snapshots *s)
{
    while (snapshots_drop_oldest(s))
        ;
}

/* --- numbers ---------------------------------------------------------------------------------- */

int64_t snapshots_window_s(struct snapshots *s)
{
    return atomic_load(&s->window_s);
}

void snapshots_set_window_s(struct snapshots *s, int64_t seconds)
{
    atomic_store(&s->window_s, seconds);
}

void snapshots_stats(struct snapshots *s, struct snapshots_stats *ret)
{
    *ret = (struct snapshots_stats){.too_old = atomic_load(&s->too_old)};
    mutex_lock(&s->mx);
    for (size_t i = 0; i < LIMIT_SNAPSHOTS; i++) {
        const struct snapshot *p = &s->all[i];

        if (p->txn == NULL)
            continue;
        ret->pinned++;
        ret->in_use += p->user != NULL;
        if (ret->oldest == 0 || p->at < ret->oldest)
            ret->oldest = p->at;
    }
    mutex_unlock(&s->mx);
}
