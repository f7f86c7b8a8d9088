/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One hash table under one mutex, which is never held while a cursor is run or freed: a cursor is
 * first taken out of the table, or pinned.
 */
#include "server/cursors.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "server/executor.h"
#include "server/server.h"

enum { BUCKETS_FIRST = 256, AWAIT_DEFAULT_MS = 1000 };

struct cursor_entry {
    struct cursor_entry *next;
    struct qcursor *c;
    int64_t id; /* 0: not registered */
    struct lsid_key lsid;
    bool has_lsid;
    bool majority; /* readConcern of the command that opened it */
    bool no_timeout;
    bool killed;            /* goes when it is unpinned */
    struct request *pinned; /* uses it; else NULL */
    int64_t last_use_us;
    int64_t budget_us;        /* left of the opening command's maxTimeMS; 0: no limit */
    int64_t limit, delivered; /* rows */
    uint8_t *stash;           /* a row that did not fit into the last batch */
};

struct cursors {
    struct mutex mx;
    struct cursor_entry **buckets;
    size_t nbuckets, n;
    int64_t timed_out;
};

struct cursors *cursors_new(void)
{
    struct cursors *cs = calloc(1, sizeof(*cs));

    if (cs == NULL)
        abort();
    mutex_init(&cs->mx);
    cs->nbuckets = BUCKETS_FIRST;
    cs->buckets = calloc(cs->nbuckets, sizeof(struct cursor_entry *));
    if (cs->buckets == NULL)
        abort();
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
    struct cursor_entry **now = calloc(n, sizeof(struct cursor_entry *));

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

static int insert_entry(struct cursors *cs, struct op *op, struct cursor_entry *e)
{
    mutex_lock(&cs->mx);
    if (cs->n >= LIMIT_CURSORS) {
        mutex_unlock(&cs->mx);
        return op_fail(op, ERR_RESOURCE_EXHAUSTED, "too many open cursors: %d", LIMIT_CURSORS);
    }
    if (cs->n > 2 * cs->nbuckets)
        grow_locked(cs);
    e->id = new_id_locked(cs);
    e->next = NULL;
    *find_locked(cs, e->id) = e;
    cs->n++;
    mutex_unlock(&cs->mx);
    return 0;
}

static struct cursor_entry *remove_locked(struct cursors *cs, struct cursor_entry **p)
{
    struct cursor_entry *e = *p;

    mutex_assert_held(&cs->mx);
    *p = e->next;
    cs->n--;
    return e;
}

static void entry_free(struct cursor_entry *e)
{
    qcursor_free(e->c);
    free(e->stash);
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
    found = *p != NULL && !(*p)->killed && strcmp((*p)->c->ns, ns) == 0;
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
    for (size_t b = 0; b < cs->nbuckets; b++) {
        struct cursor_entry **p = &cs->buckets[b];

        while (*p != NULL) {
            if ((*p)->pinned != NULL || (*p)->no_timeout || (*p)->last_use_us > before) {
                p = &(*p)->next;
                continue;
            }
            p = kill_locked(cs, p, ERR_CURSOR_KILLED, &dead);
            cs->timed_out++;
        }
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
            ret->parked += e->pinned != NULL && parking_state(&e->pinned->parking) == PARK_PARKED;
        }
    }
    ret->timed_out = cs->timed_out;
    mutex_unlock(&cs->mx);
}

/* --- pinning ---------------------------------------------------------------------------------- */

static int check_session(struct op *op, const struct cursor_entry *e, struct request *rq)
{
    bool has = !bv_is_missing(rq->lsid);
    struct lsid_key k;

    if (e->has_lsid && !has)
        return op_fail(op, 50736,
                       "Cannot run getMore on cursor %lld, which was created in a session, without "
                       "an lsid",
                       (long long)e->id);
    if (!e->has_lsid && has)
        return op_fail(
            op, 50737,
            "Cannot run getMore on cursor %lld, which was not created in a session, in a "
            "session",
            (long long)e->id);
    if (!has)
        return 0;
    k = lsid_key(rq->lsid);
    if (memcmp(&k, &e->lsid, sizeof(k)) != 0)
        return op_fail(op, 50738,
                       "Cannot run getMore on cursor %lld, which was created in another session",
                       (long long)e->id);
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
    if (e->pinned != NULL)
        return op_fail(op, ERR_CURSOR_IN_USE, "cursor id %lld is already in use", (long long)id);
    e->pinned = rq;
    rq->cursor = e;
    return 0;
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
    e->last_use_us = clock_mono_us();
    dead = e->killed;
    if (dead)
        remove_locked(cs, find_locked(cs, e->id));
    mutex_unlock(&cs->mx);
    if (dead)
        entry_free(e);
}

/* The cursor is at its end, or broken: it goes with the request that has it pinned. */
static void doom(struct request *rq)
{
    struct cursors *cs = rq->server->cursors;

    mutex_lock(&cs->mx);
    rq->cursor->killed = true;
    mutex_unlock(&cs->mx);
    cursor_unpin(rq);
}

/* --- batches ---------------------------------------------------------------------------------- */

struct batch {
    struct cursor_entry *e;
    const struct batch_opts *o;
    struct bw *w;
    int64_t n;
    uint64_t bytes;
    bool ended; /* nothing will ever come again */
};

static bool batch_full(const struct batch *b)
{
    int64_t most = b->o->batch_size;

    if (b->e->limit > 0 && b->e->delivered >= b->e->limit)
        return true;
    if (b->o->first)
        return b->n >= (most < 0 ? LIMIT_FIRST_BATCH : most);
    return most > 0 && b->n >= most;
}

/* Puts a row into the batch, or keeps it for the next one when it does not fit. */
static bool put_row(struct batch *b, struct bv row)
{
    struct qcursor *c = b->e->c;

    if (b->n > 0 && b->bytes + row.len > LIMIT_BATCH_BYTES) {
        b->e->stash = malloc(row.len);
        if (b->e->stash == NULL)
            abort();
        memcpy(b->e->stash, row.p, row.len);
        return false;
    }
    bw_bv(b->w, NULL, row);
    b->n++;
    b->bytes += row.len;
    b->e->delivered++;
    if (c->ops->delivered != NULL)
        c->ops->delivered(c, row);
    return true;
}

static int fill(struct batch *b, struct exec *x)
{
    struct qcursor *c = b->e->c;

    if (b->e->stash != NULL) {
        put_row(b, bv_doc(b->e->stash)); /* the first row of a batch always fits */
        free(b->e->stash);
        b->e->stash = NULL;
    }
    while (!batch_full(b) && !b->ended) {
        struct bv row;
        bool more;

        TRY_RETURN(c->ops->next(c, x, &row, &more));
        if (bv_is_missing(row)) {
            b->ended = !more;
            return 0;
        }
        if (row.len > LIMIT_INTERNAL_BYTES)
            return op_fail(x->op, ERR_BSON_TOO_LARGE,
                           "BSONObj size: %u (0x%X) is invalid. Size must be between 0 and %d",
                           row.len, row.len, LIMIT_INTERNAL_BYTES);
        if (!put_row(b, row))
            return 0;
        arena_reset(&x->scratch);
        if (c->invalidated)
            b->ended = true;
    }
    if (b->e->limit > 0 && b->e->delivered >= b->e->limit)
        b->ended = true;
    return 0;
}

/* Between batches a cursor holds nothing. */
static void rest(struct qcursor *c, struct exec *x)
{
    c->ops->save(c, x);
    stx_rollback(x->stx);
    x->stx = NULL;
}

static void begin_reply(struct request *rq, const struct batch_opts *o)
{
    bw_doc_begin(&rq->reply, "cursor");
    bw_arr_begin(&rq->reply, o->field);
}

static void end_reply(struct request *rq, struct cursor_entry *e, int64_t id)
{
    struct bw *w = &rq->reply;
    struct qcursor *c = e->c;

    bw_end(w);
    if (c->ops->resume_token != NULL)
        bw_bv(w, "postBatchResumeToken", c->ops->resume_token(c, &rq->op.arena));
    bw_i64(w, "id", id);
    bw_str(w, "ns", c->ns);
    bw_end(w);
}

static bool is_interruption(int code)
{
    return code == ERR_MAX_TIME_MS_EXPIRED || code == ERR_CURSOR_KILLED ||
           code == ERR_INTERRUPTED || code == ERR_INTERRUPTED_AT_SHUTDOWN;
}

static void prefix_error(struct request *rq, int rc)
{
    const char *prefix = "PlanExecutor error during aggregation :: caused by :: ";

    if (rc <= 0 || is_interruption(rc))
        return;
    if (strcmp(rq->cmd->name, "getMore") == 0)
        prefix = "Executor error during getMore :: caused by :: ";
    else if (strcmp(rq->cmd->name, "find") == 0)
        prefix = "Executor error during find command :: caused by :: ";
    error_prefix(&rq->op.err, prefix);
}

static struct cursor_entry *entry_new(struct request *rq, struct qcursor *c,
                                      const struct batch_opts *o)
{
    struct cursor_entry *e = calloc(1, sizeof(*e));

    if (e == NULL)
        abort();
    e->c = c;
    e->has_lsid = !bv_is_missing(rq->lsid);
    if (e->has_lsid)
        e->lsid = lsid_key(rq->lsid);
    e->majority = rq->read_level == READ_MAJORITY || rq->read_level == READ_LINEARIZABLE;
    e->no_timeout = o->no_timeout;
    e->limit = o->limit;
    return e;
}

/* What is left of maxTimeMS bounds the later batches of a cursor that does not wait. */
static void set_budget(struct cursor_entry *e, struct op *op)
{
    int64_t now = clock_mono_us();

    e->last_use_us = now;
    if (op->deadline_us == 0 || e->c->await_data)
        return;
    e->budget_us = op->deadline_us > now ? op->deadline_us - now : 1;
}

int cursor_first_batch(struct request *rq, struct qcursor *c, const struct batch_opts *o)
{
    struct cursor_entry *e = entry_new(rq, c, o);
    struct batch b = {.e = e, .o = o, .w = &rq->reply};
    struct exec x;
    int rc;

    rq->change_stream = c->change_stream;
    begin_reply(rq, o);
    exec_init(&x, &rq->op);
    rc = fill(&b, &x);
    rest(c, &x);
    exec_fini(&x);
    if (rc != 0) {
        prefix_error(rq, rc);
        goto out;
    }
    if (b.ended || o->single) {
        end_reply(rq, e, 0);
        goto out;
    }
    set_budget(e, &rq->op);
    rc = insert_entry(rq->server->cursors, &rq->op, e);
    if (rc != 0)
        goto out;
    end_reply(rq, e, e->id);
    return 0;
out:
    entry_free(e);
    return rc;
}

/* Fills until there is a row, the end, or nothing more to wait for. INT_PARK: the waiter is
 * registered and the cursor rests. */
static int fill_waiting(struct request *rq, struct batch *b, struct exec *x)
{
    struct op *op = &rq->op;
    struct qcursor *c = b->e->c;

    for (;;) {
        int rc = fill(b, x);

        if (rc == INT_PARK && b->n > 0) {
            op->unpark(op);
            rc = 0;
        } else if (rc == INT_PARK) {
            rest(c, x);
        }
        if (rc != 0 || b->n > 0 || b->ended || !c->await_data || c->ops->wait == NULL ||
            clock_mono_us() >= op->park_deadline_us)
            return rc;
        rest(c, x);
        TRY_RETURN(op_check(op));
        TRY_RETURN(c->ops->wait(c, x));
    }
}

static int begin_get_more(struct request *rq, int64_t id, const char *ns, int64_t max_time_ms)
{
    struct op *op = &rq->op;
    struct cursors *cs = rq->server->cursors;
    struct cursor_entry *e;
    int rc;

    if (rq->cursor == NULL) {
        mutex_lock(&cs->mx);
        rc = pin_locked(cs, rq, id, ns);
        mutex_unlock(&cs->mx);
        if (rc != 0)
            return rc;
    }
    e = rq->cursor;
    rq->change_stream = e->c->change_stream;
    if (e->majority)
        rq->read_level = READ_MAJORITY;
    if (!e->c->await_data && max_time_ms >= 0)
        return op_fail(op, ERR_BAD_VALUE,
                       "cannot set maxTimeMS on getMore command for a non-awaitData cursor");
    if (e->budget_us > 0 && op->deadline_us == 0)
        op->deadline_us = op->start_us + e->budget_us;
    if (op->park_deadline_us == 0)
        op->park_deadline_us =
            op->start_us + (max_time_ms >= 0 ? max_time_ms : AWAIT_DEFAULT_MS) * 1000;
    return 0;
}

/* True for errors that say nothing about the cursor: it may be used again. */
static bool cursor_survives(struct cursor_entry *e, int rc)
{
    return rc == INT_PARK || (rc == ERR_MAX_TIME_MS_EXPIRED && e->c->await_data);
}

int cursor_get_more(struct request *rq, int64_t id, const char *ns, const struct batch_opts *o,
                    int64_t max_time_ms)
{
    struct op *op = &rq->op;
    struct batch b = {.o = o, .w = &rq->reply};
    struct cursor_entry *e;
    struct exec x;
    int rc;

    TRY_RETURN(begin_get_more(rq, id, ns, max_time_ms));
    e = b.e = rq->cursor;
    begin_reply(rq, o);
    exec_init(&x, op);
    rc = fill_waiting(rq, &b, &x);
    if (rc != INT_PARK)
        rest(e->c, &x);
    exec_fini(&x);
    if (rc != 0) {
        prefix_error(rq, rc);
        if (!cursor_survives(e, rc))
            doom(rq);
        return rc;
    }
    if (b.ended) {
        end_reply(rq, e, 0);
        doom(rq);
        return 0;
    }
    end_reply(rq, e, e->id);
    if (e->budget_us > 0)
        set_budget(e, op);
    rq->exhaust_reply = rq->exhaust;
    return 0;
}
