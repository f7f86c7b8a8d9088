/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One hash table under one mutex, which is never held while a cursor is run or freed: a cursor is
 * first taken out of the table, or pinned.
 */
#include "base/mem.h"
#include "server/cursors_internal.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "server/executor.h"
#include "server/server.h"

enum { BUCKETS_FIRST = 256 };

struct cursors {
    struct mutex mx;
    struct cursor_entry **buckets;
    size_t nbuckets, n;
    /* Those that may time out and nobody uses, the longest unused first: what a sweep costs does
     * not grow with the number of the others. */
    struct cursor_entry *idle, **idle_tail;
    int64_t timed_out;
    int64_t max;
};

struct cursors *cursors_new(int64_t max)
{
    struct cursors *cs = mem_must_zero(1, sizeof(*cs));

    cs->max = max;
    mutex_init(&cs->mx);
    cs->nbuckets = BUCKETS_FIRST;
    cs->idle_tail = &cs->idle;
    cs->buckets = mem_must_zero(cs->nbuckets, sizeof(struct cursor_entry *));
    return cs;
}

void cursors_free(struct cursors *cs)
{
    if (cs == NULL)
        return;
    ASSERT(cs->n == 0);
    free(cs->buckets);
    mutex_fini(&cs->mx);
    free(cs);
}

/* --- the table -------------------------------------------------------------------------------- */

static struct cursor_entry **find_locked(struct cursors *cs, int64_t id)
{
    struct cursor_entry **p = &cs->buckets[(uint64_t)id % cs->nbuckets];

    mutex_assert_held(&cs->mx);
    while (*p != NULL && (*p)->id != id)
        p = &(*p)->next;
    return p;
}

static void grow_locked(struct cursors *cs)
{
    size_t n = cs->nbuckets * 2;
    struct cursor_entry **now = mem_try_zero(n, sizeof(struct cursor_entry *));

    if (now == NULL)
        return; /* longer chains, then */
    for (size_t b = 0; b < cs->nbuckets; b++) {
        while (cs->buckets[b] != NULL) {
            struct cursor_entry *e = cs->buckets[b];

            cs->buckets[b] = e->next;
            e->next = now[(uint64_t)e->id % n];
            now[(uint64_t)e->id % n] = e;
        }
    }
    free(cs->buckets);
    cs->buckets = now;
    cs->nbuckets = n;
}

/* Ids are random, so that nobody guesses another client's. */
static int64_t new_id_locked(struct cursors *cs)
{
    int64_t id;

    do {
        if (getrandom(&id, sizeof(id), 0) != sizeof(id))
            abort();
        id &= INT64_MAX;
    } while (id == 0 || *find_locked(cs, id) != NULL);
    return id;
}

/* Nobody uses it now. What others see of it is what it was then. */
static void note_use_locked(struct cursors *cs, struct cursor_entry *e)
{
    mutex_assert_held(&cs->mx);
    e->last_use_us = clock_mono_us();
    e->seen_rows = e->delivered;
    e->seen_batches++;
    if (e->no_timeout)
        return;
    e->newer = NULL;
    e->idle_link = cs->idle_tail;
    *cs->idle_tail = e;
    cs->idle_tail = &e->newer;
}

static void leave_idle_locked(struct cursors *cs, struct cursor_entry *e)
{
    mutex_assert_held(&cs->mx);
    if (e->idle_link == NULL)
        return;
    *e->idle_link = e->newer;
    if (e->newer != NULL)
        e->newer->idle_link = e->idle_link;
    else
        cs->idle_tail = e->idle_link;
    e->idle_link = NULL;
}

int cursor_entry_insert(struct cursors *cs, struct op *op, struct cursor_entry *e)
{
    struct cursor_entry *kept = mem_must(sizeof(*kept));

    mutex_lock(&cs->mx);
    if (cs->n >= (size_t)cs->max) {
        mutex_unlock(&cs->mx);
        free(kept);
        return op_fail(op, ERR_RESOURCE_EXHAUSTED, "too many open cursors: %lld",
                       (long long)cs->max);
    }
    if (cs->n > 2 * cs->nbuckets)
        grow_locked(cs);
    e->id = new_id_locked(cs);
    *kept = *e;
    note_use_locked(cs, kept);
    *find_locked(cs, e->id) = kept;
    cs->n++;
    mutex_unlock(&cs->mx);
    return 0;
}

static struct cursor_entry *remove_locked(struct cursors *cs, struct cursor_entry **p)
{
    struct cursor_entry *e = *p;

    mutex_assert_held(&cs->mx);
    leave_idle_locked(cs, e);
    *p = e->next;
    cs->n--;
    return e;
}

void cursor_entry_clear(struct cursor_entry *e)
{
    qcursor_free(e->c);
    free(e->stash);
}

static void entry_free(struct cursor_entry *e)
{
    cursor_entry_clear(e);
    free(e);
}

/* Frees a list linked by next, outside the lock. */
static void free_list(struct cursor_entry *list)
{
    while (list != NULL) {
        struct cursor_entry *e = list;

        list = e->next;
        entry_free(e);
    }
}

/* Marks a pinned cursor and interrupts its request, or moves an idle one to *list. Returns where
 * the walk goes on. */
static struct cursor_entry **kill_locked(struct cursors *cs, struct cursor_entry **p, int code,
                                         struct cursor_entry **list)
{
    struct cursor_entry *e = *p;

    if (e->pinned != NULL) {
        e->killed = true;
        request_interrupt(e->pinned, code);
        return &e->next;
    }
    remove_locked(cs, p);
    e->next = *list;
    *list = e;
    return p;
}

bool cursors_kill(struct cursors *cs, struct request *rq, int64_t id, const char *ns)
{
    struct cursor_entry *dead = NULL, **p;
    bool found;

    (void)rq;
    mutex_lock(&cs->mx);
    p = find_locked(cs, id);
    found = *p != NULL && !(*p)->killed && (ns == NULL || strcmp((*p)->c->ns, ns) == 0);
    if (found)
        kill_locked(cs, p, ERR_CURSOR_KILLED, &dead);
    mutex_unlock(&cs->mx);
    free_list(dead);
    return found;
}

/* Kills every cursor that `doomed` chooses. */
static void kill_where(struct cursors *cs, int code,
                       bool (*doomed)(const struct cursor_entry *e, const void *arg),
                       const void *arg)
{
    struct cursor_entry *dead = NULL;

    mutex_lock(&cs->mx);
    for (size_t b = 0; b < cs->nbuckets; b++) {
        struct cursor_entry **p = &cs->buckets[b];

        while (*p != NULL)
            p = doomed(*p, arg) ? kill_locked(cs, p, code, &dead) : &(*p)->next;
    }
    mutex_unlock(&cs->mx);
    free_list(dead);
}

struct key_set {
    const struct lsid_key *keys;
    size_t n;
};

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct lsid_key));
}

static bool of_sessions(const struct cursor_entry *e, const void *arg)
{
    const struct key_set *set = arg;

    return e->has_lsid &&
           bsearch(&e->lsid, set->keys, set->n, sizeof(struct lsid_key), compare_keys) != NULL;
}

void cursors_kill_sessions(struct cursors *cs, struct lsid_key *keys, size_t n)
{
    struct key_set set = {keys, n};

    if (n == 0)
        return;
    qsort(keys, n, sizeof(*keys), compare_keys);
    kill_where(cs, ERR_CURSOR_KILLED, of_sessions, &set);
}

static bool of_any_session(const struct cursor_entry *e, const void *arg)
{
    (void)arg;
    return e->has_lsid;
}

void cursors_kill_all_sessions(struct cursors *cs)
{
    kill_where(cs, ERR_CURSOR_KILLED, of_any_session, NULL);
}

static bool of_txn(const struct cursor_entry *e, const void *arg)
{
    const struct cursor_entry *like = arg;

    return e->has_lsid && e->txn_number == like->txn_number &&
           memcmp(&e->lsid, &like->lsid, sizeof(e->lsid)) == 0;
}

void cursors_kill_txn(struct cursors *cs, const struct lsid_key *lsid, int64_t txn_number)
{
    struct cursor_entry like = {.lsid = *lsid, .txn_number = txn_number};

    kill_where(cs, ERR_CURSOR_KILLED, of_txn, &like);
}

static bool every(const struct cursor_entry *e, const void *arg)
{
    (void)e;
    (void)arg;
    return true;
}

void cursors_kill_all(struct cursors *cs, int code)
{
    kill_where(cs, code, every, NULL);
}

void cursors_sweep(struct cursors *cs, int64_t timeout_ms)
{
    int64_t before = clock_mono_us() - timeout_ms * 1000;
    struct cursor_entry *dead = NULL;

    mutex_lock(&cs->mx);
    while (cs->idle != NULL && cs->idle->last_use_us <= before) {
        kill_locked(cs, find_locked(cs, cs->idle->id), ERR_CURSOR_KILLED, &dead);
        cs->timed_out++;
    }
    mutex_unlock(&cs->mx);
    free_list(dead);
}

void cursors_stats(struct cursors *cs, struct cursor_stats *ret)
{
    *ret = (struct cursor_stats){0};
    mutex_lock(&cs->mx);
    for (size_t b = 0; b < cs->nbuckets; b++) {
        for (const struct cursor_entry *e = cs->buckets[b]; e != NULL; e = e->next) {
            ret->open++;
            ret->pinned += e->pinned != NULL;
            ret->no_timeout += e->no_timeout;
            ret->change_streams += e->c->change_stream;
            ret->parked += e->c->change_stream && e->pinned != NULL &&
                           parking_state(&e->pinned->parking) == PARK_PARKED;
        }
    }
    ret->timed_out = cs->timed_out;
    mutex_unlock(&cs->mx);
}

static void describe_locked(struct cursors *cs, const struct cursor_entry *e, struct arena *a,
                            struct cursor_row *r)
{
    mutex_assert_held(&cs->mx);
    *r = (struct cursor_row){.id = e->id,
                             .user = e->pinned,
                             .ns = arena_strdup(a, e->c->ns),
                             .created_ms = e->created_ms,
                             .last_use_us = e->last_use_us,
                             .rows = e->seen_rows,
                             .batches = e->seen_batches,
                             .has_lsid = e->has_lsid,
                             .no_timeout = e->no_timeout,
                             .tailable = e->c->tailable,
                             .await_data = e->c->await_data,
                             .change_stream = e->c->change_stream,
                             .lsid = e->lsid};
    if (!r->change_stream)
        return;
    e->c->ops->watch(e->c, &r->watch);
    if (r->watch.scope.db != NULL)
        r->watch.scope.db = arena_strdup(a, r->watch.scope.db);
    if (r->watch.scope.ns != NULL)
        r->watch.scope.ns = arena_strdup(a, r->watch.scope.ns);
}

static int by_user(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct cursor_row *)a)->user;
    uintptr_t y = (uintptr_t)((const struct cursor_row *)b)->user;

    return x < y ? -1 : x > y;
}

int cursors_list(struct cursors *cs, struct op *op, struct cursor_row **ret, size_t *ret_n)
{
    struct cursor_row *rows;
    size_t n = 0;

    mutex_lock(&cs->mx);
    rows = arena_try(&op->arena, (cs->n + 1) * sizeof(*rows));
    for (size_t b = 0; rows != NULL && b < cs->nbuckets; b++) {
        for (const struct cursor_entry *e = cs->buckets[b]; e != NULL; e = e->next)
            describe_locked(cs, e, &op->arena, &rows[n++]);
    }
    mutex_unlock(&cs->mx);
    if (rows == NULL)
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory to list the cursors");
    qsort(rows, n, sizeof(*rows), by_user);
    *ret = rows;
    *ret_n = n;
    return 0;
}

/* --- pinning ---------------------------------------------------------------------------------- */

/* A cursor is used where it was opened: in its session or outside of any, and likewise in its
 * transaction. */
static int check_session(struct op *op, const struct cursor_entry *e, struct request *rq)
{
    bool has = !bv_is_missing(rq->env->lsid);
    long long id = e->id;
    struct lsid_key k;

    if (!e->has_lsid && has)
        return op_fail(op, 50736,
                       "Cannot run getMore on cursor %lld, which was not created in a session, in "
                       "session %s",
                       id, bv_show(&op->arena, rq->env->lsid, 200));
    if (e->has_lsid && !has)
        return op_fail(op, 50737,
                       "Cannot run getMore on cursor %lld, which was created in a session, without "
                       "an lsid",
                       id);
    if (!has)
        return 0;
    k = lsid_key(rq->env->lsid);
    if (memcmp(&k, &e->lsid, sizeof(k)) != 0)
        return op_fail(op, 50738,
                       "Cannot run getMore on cursor %lld, which was created in another session, "
                       "in session %s",
                       id, bv_show(&op->arena, rq->env->lsid, 200));
    return 0;
}

static int check_transaction(struct op *op, const struct cursor_entry *e, struct request *rq)
{
    long long id = e->id;

    if (rq->env->txn_number >= 0 && e->txn_number < 0)
        return op_fail(op, 50739,
                       "Cannot run getMore on cursor %lld, which was not created in a transaction, "
                       "in transaction %lld",
                       id, (long long)rq->env->txn_number);
    if (rq->env->txn_number < 0 && e->txn_number >= 0)
        return op_fail(op, 50740,
                       "Cannot run getMore on cursor %lld, which was created in transaction %lld, "
                       "without a txnNumber",
                       id, (long long)e->txn_number);
    if (rq->env->txn_number != e->txn_number)
        return op_fail(op, 50741,
                       "Cannot run getMore on cursor %lld, which was created in transaction %lld, "
                       "in transaction %lld",
                       id, (long long)e->txn_number, (long long)rq->env->txn_number);
    return 0;
}

static int pin_locked(struct cursors *cs, struct request *rq, int64_t id, const char *ns)
{
    struct op *op = &rq->op;
    struct cursor_entry *e = *find_locked(cs, id);

    if (e == NULL || e->killed)
        return op_fail(op, ERR_CURSOR_NOT_FOUND, "cursor id %lld not found", (long long)id);
    if (strcmp(e->c->ns, ns) != 0)
        return op_fail(op, ERR_UNAUTHORIZED,
                       "Requested getMore on namespace '%.300s', but cursor belongs to a different "
                       "namespace %.300s",
                       ns, e->c->ns);
    TRY_RETURN(check_session(op, e, rq));
    TRY_RETURN(check_transaction(op, e, rq));
    if (e->pinned != NULL)
        return op_fail(op, ERR_CURSOR_IN_USE, "cursor id %lld is already in use", (long long)id);
    leave_idle_locked(cs, e);
    e->pinned = rq;
    rq->cursor = e;
    return 0;
}

int cursor_pin(struct request *rq, int64_t id, const char *ns)
{
    struct cursors *cs = rq->server->cursors;
    int rc;

    mutex_lock(&cs->mx);
    rc = pin_locked(cs, rq, id, ns);
    mutex_unlock(&cs->mx);
    return rc;
}

/* An idle cursor outlives its client's connection, for it belongs to the session. A getMore that
 * has not come to its end when the client goes takes the cursor with it, as any failure does. */
static bool was_killed(struct request *rq)
{
    int code = atomic_load(&rq->op.interrupt);

    return code != 0 && (code != ERR_CLIENT_DISCONNECT || rq->phase == REQUEST_RUN);
}

void cursor_unpin(struct request *rq)
{
    struct cursors *cs = rq->server->cursors;
    struct cursor_entry *e = rq->cursor;
    bool dead;

    if (e == NULL)
        return;
    rq->cursor = NULL;
    mutex_lock(&cs->mx);
    e->pinned = NULL;
    note_use_locked(cs, e);
    dead = e->killed || was_killed(rq);
    if (dead)
        remove_locked(cs, find_locked(cs, e->id));
    mutex_unlock(&cs->mx);
    if (dead)
        entry_free(e);
}

void cursor_doom(struct request *rq)
{
    struct cursors *cs = rq->server->cursors;

    mutex_lock(&cs->mx);
    rq->cursor->killed = true;
    mutex_unlock(&cs->mx);
    cursor_unpin(rq);
}
