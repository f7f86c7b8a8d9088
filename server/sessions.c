/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A hash table in shards, each with a mutex. A session that requests use is pinned: it holds a
 * list of them, so that killing a session finds its running requests, which cannot end while the
 * shard is locked.
 */
#include "server/sessions.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "server/executor.h"
#include "server/server.h"
#include "server/transactions.h"

enum { SHARDS = 16, BUCKETS_FIRST = 64 };

struct lsession {
    struct lsession *next;
    struct lsid_key key;
    int64_t last_use_us, last_use_ms;
    struct request *users;   /* linked by request.next */
    struct request *writer;  /* has a txnNumber: a retryable write or part of a transaction */
    struct waiter *waiting;  /* for the writer to end */
    struct session_txn *txn; /* NULL: never had one; made by the writer, freed with the session */
    bool ended;              /* forget it when the last user goes */
};

struct shard {
    struct mutex mx;
    struct lsession **buckets;
    size_t nbuckets, n;
};

struct sessions {
    struct shard shards[SHARDS];
    _Atomic int64_t count;
    int64_t max;
};

/* SHA-256 of the empty string: the uid of everybody while there is no authentication. */
static const uint8_t nobody[32] = {0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4,
                                   0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b,
                                   0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55};

struct sessions *sessions_new(int64_t max)
{
    struct sessions *s = mem_must_zero(1, sizeof(*s));

    s->max = max;
    for (int i = 0; i < SHARDS; i++) {
        struct shard *sh = &s->shards[i];

        mutex_init(&sh->mx);
        sh->nbuckets = BUCKETS_FIRST;
        sh->buckets = mem_must_zero(sh->nbuckets, sizeof(struct lsession *));
    }
    return s;
}

void sessions_free(struct sessions *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < SHARDS; i++) {
        struct shard *sh = &s->shards[i];

        for (size_t b = 0; b < sh->nbuckets; b++) {
            while (sh->buckets[b] != NULL) {
                struct lsession *l = sh->buckets[b];

                ASSERT(l->users == NULL);
                sh->buckets[b] = l->next;
                session_txn_free(l->txn);
                free(l);
            }
        }
        free(sh->buckets);
        mutex_fini(&sh->mx);
    }
    free(s);
}

/* The ids are random, but a client may choose them: all bytes count. */
static uint64_t hash_key(const struct lsid_key *k)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < 16; i++)
        h = (h ^ k->bytes[i]) * 1099511628211u;
    return h ^ (h >> 29);
}

static struct shard *shard_of(struct sessions *s, const struct lsid_key *k, uint64_t *ret_hash)
{
    *ret_hash = hash_key(k);
    return &s->shards[*ret_hash % SHARDS];
}

static struct lsession **find_locked(struct shard *sh, uint64_t hash, const struct lsid_key *k)
{
    struct lsession **p = &sh->buckets[(hash / SHARDS) % sh->nbuckets];

    mutex_assert_held(&sh->mx);
    while (*p != NULL && memcmp(&(*p)->key, k, sizeof(*k)) != 0)
        p = &(*p)->next;
    return p;
}

static void grow_locked(struct shard *sh)
{
    size_t n = sh->nbuckets * 2;
    struct lsession **now = mem_try_zero(n, sizeof(struct lsession *));

    mutex_assert_held(&sh->mx);
    if (now == NULL)
        return; /* longer chains, then */
    for (size_t b = 0; b < sh->nbuckets; b++) {
        while (sh->buckets[b] != NULL) {
            struct lsession *l = sh->buckets[b], **to;

            sh->buckets[b] = l->next;
            to = &now[(hash_key(&l->key) / SHARDS) % n];
            l->next = *to;
            *to = l;
        }
    }
    free(sh->buckets);
    sh->buckets = now;
    sh->nbuckets = n;
}

/* NULL: there are too many. */
static struct lsession *get_locked(struct sessions *s, struct shard *sh, uint64_t hash,
                                   const struct lsid_key *k)
{
    struct lsession **p = find_locked(sh, hash, k);
    struct lsession *l = *p;

    if (l == NULL) {
        if (atomic_load(&s->count) >= s->max)
            return NULL;
        l = mem_try_zero(1, sizeof(*l));
        if (l == NULL)
            return NULL;
        l->key = *k;
        *p = l;
        atomic_fetch_add(&s->count, 1);
        if (++sh->n > 2 * sh->nbuckets)
            grow_locked(sh);
    }
    l->last_use_us = clock_mono_us();
    l->last_use_ms = clock_wall_ms();
    l->ended = false;
    return l;
}

static void remove_locked(struct sessions *s, struct shard *sh, struct lsession **p)
{
    struct lsession *l = *p;

    mutex_assert_held(&sh->mx);
    ASSERT(l->users == NULL && l->waiting == NULL);
    *p = l->next;
    sh->n--;
    atomic_fetch_sub(&s->count, 1);
    session_txn_free(l->txn);
    free(l);
}

/* Nobody works in it or may come back to it. */
static bool idle_locked(const struct lsession *l)
{
    return l->users == NULL && !session_txn_open(l->txn);
}

struct lsid_key lsid_key(struct bv lsid)
{
    struct lsid_key k;
    uint32_t n;

    memcpy(k.bytes, bv_bin(bv_get(lsid, "id"), &n, NULL), 16);
    memcpy(k.bytes + 16, bv_bin(bv_get(lsid, "uid"), &n, NULL), 32);
    return k;
}

static int too_many(struct op *op)
{
    return op_fail(op, ERR_TOO_MANY_LOGICAL_SESSIONS,
                   "Unable to add session into the cache because the number of active sessions is "
                   "too high");
}

int session_checkout(struct request *rq)
{
    struct sessions *s = rq->server->sessions;
    struct lsid_key k = lsid_key(rq->env->lsid);
    uint64_t hash;
    struct shard *sh = shard_of(s, &k, &hash);
    struct lsession *l;

    mutex_lock(&sh->mx);
    l = get_locked(s, sh, hash, &k);
    if (l != NULL) {
        rq->next = l->users;
        l->users = rq;
        rq->session = l;
    }
    mutex_unlock(&sh->mx);
    return l == NULL ? too_many(&rq->op) : 0;
}

static void end_write_locked(struct lsession *l)
{
    l->writer = NULL;
    for (struct waiter *w = l->waiting; w != NULL; w = w->next)
        w->wake(w);
}

void session_checkin(struct request *rq)
{
    struct sessions *s = rq->server->sessions;
    struct lsession *l = rq->session;
    struct request **p;
    struct shard *sh;
    uint64_t hash;

    if (l == NULL)
        return;
    sh = shard_of(s, &l->key, &hash);
    mutex_lock(&sh->mx);
    for (p = &l->users; *p != rq; p = &(*p)->next)
        ;
    *p = rq->next;
    if (l->writer == rq)
        end_write_locked(l);
    l->last_use_us = clock_mono_us();
    rq->session = NULL;
    if (l->ended && idle_locked(l))
        remove_locked(s, sh, find_locked(sh, hash, &l->key));
    mutex_unlock(&sh->mx);
}

static void unpark_writer(struct op *op)
{
    struct lsession *l = op->park_list;
    struct waiter *w = &op->waiter;
    struct shard *sh = op->waiter.list;

    mutex_lock(&sh->mx);
    if (w->prev != NULL)
        w->prev->next = w->next;
    else
        l->waiting = w->next;
    if (w->next != NULL)
        w->next->prev = w->prev;
    w->next = w->prev = NULL;
    mutex_unlock(&sh->mx);
    op->unpark = NULL;
    op->park_list = NULL;
    w->list = NULL;
}

int session_write_begin(struct request *rq)
{
    struct lsession *l = rq->session;
    struct waiter *w = &rq->op.waiter;
    struct shard *sh;
    uint64_t hash;
    int rc = 0;

    ASSERT(l != NULL);
    sh = shard_of(rq->server->sessions, &l->key, &hash);
    mutex_lock(&sh->mx);
    if (l->writer == NULL || l->writer == rq) {
        l->writer = rq;
    } else {
        ASSERT(rq->op.unpark == NULL);
        w->prev = NULL;
        w->next = l->waiting;
        if (l->waiting != NULL)
            l->waiting->prev = w;
        l->waiting = w;
        w->list = sh;
        rq->op.park_list = l;
        rq->op.unpark = unpark_writer;
        rc = INT_PARK;
    }
    mutex_unlock(&sh->mx);
    return rc;
}

void session_write_end(struct request *rq)
{
    struct lsession *l = rq->session;
    struct shard *sh;
    uint64_t hash;

    if (l == NULL)
        return;
    sh = shard_of(rq->server->sessions, &l->key, &hash);
    mutex_lock(&sh->mx);
    if (l->writer == rq)
        end_write_locked(l);
    mutex_unlock(&sh->mx);
}

struct session_txn **session_txn(struct request *rq)
{
    return &rq->session->txn;
}

int session_lsid(struct request *rq, struct bv given, struct bv *ret)
{
    struct op *op = &rq->op;
    struct biter it = biter(given);
    struct belem e;
    struct bv id = BV_NONE;
    const uint8_t *bytes;
    uint8_t subtype;
    uint32_t n;
    struct bw w;

    if (given.type != BV_DOC)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "BSON field 'lsid' is the wrong type '%s', expected type 'object'",
                       bv_type_name(given.type));
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "id") == 0)
            id = e.v;
        else if (strcmp(e.key, "uid") == 0) {
            if (e.v.type != BV_BINARY || (bytes = bv_bin(e.v, &n, &subtype), n != sizeof(nobody)))
                return op_fail(op, ERR_TYPE_MISMATCH,
                               "BSON field 'lsid.uid' must be binary data of 32 bytes");
            if (memcmp(bytes, nobody, sizeof(nobody)) != 0)
                return op_fail(op, ERR_UNAUTHORIZED,
                               "not authorized to use the logical session of another user");
        } else if (strcmp(e.key, "txnNumber") != 0 && strcmp(e.key, "txnUUID") != 0) {
            return op_fail(op, ERR_IDL_UNKNOWN_FIELD,
                           "BSON field 'lsid.%.200s' is an unknown field.", e.key);
        }
    }
    if (bv_is_missing(id))
        return op_fail(op, ERR_IDL_MISSING_FIELD,
                       "BSON field 'lsid.id' is missing but a required field");
    if (id.type != BV_BINARY)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "BSON field 'lsid.id' is the wrong type '%s', expected type 'binData'",
                       bv_type_name(id.type));
    bytes = bv_bin(id, &n, &subtype);
    if (n != 16 || subtype != 4)
        return op_fail(op, subtype != 4 ? ERR_TYPE_MISMATCH : ERR_INVALID_UUID,
                       "BSON field 'lsid.id' must be a UUID");
    bw_init(&w, &op->arena);
    bw_uuid(&w, "id", bytes);
    bw_bin(&w, "uid", 0, nobody, sizeof(nobody));
    *ret = bw_done(&w);
    return 0;
}

int session_refresh(struct sessions *s, struct op *op, struct bv lsid)
{
    struct lsid_key k = lsid_key(lsid);
    uint64_t hash;
    struct shard *sh = shard_of(s, &k, &hash);
    bool ok;

    mutex_lock(&sh->mx);
    ok = get_locked(s, sh, hash, &k) != NULL;
    mutex_unlock(&sh->mx);
    return ok ? 0 : too_many(op);
}

void sessions_end(struct sessions *s, struct bv lsid)
{
    struct lsid_key k = lsid_key(lsid);
    uint64_t hash;
    struct shard *sh = shard_of(s, &k, &hash);
    struct lsession **p;

    mutex_lock(&sh->mx);
    p = find_locked(sh, hash, &k);
    if (*p != NULL && !idle_locked(*p))
        (*p)->ended = true;
    else if (*p != NULL)
        remove_locked(s, sh, p);
    mutex_unlock(&sh->mx);
}

static void interrupt_locked(struct lsession *l, struct request *except)
{
    for (struct request *rq = l->users; rq != NULL; rq = rq->next) {
        if (rq != except)
            request_interrupt(rq, ERR_INTERRUPTED);
    }
}

void sessions_interrupt(struct sessions *s, struct bv lsid, struct request *except)
{
    if (!bv_is_missing(lsid)) {
        struct lsid_key k = lsid_key(lsid);
        uint64_t hash;
        struct shard *sh = shard_of(s, &k, &hash);
        struct lsession *l;

        mutex_lock(&sh->mx);
        l = *find_locked(sh, hash, &k);
        if (l != NULL)
            interrupt_locked(l, except);
        mutex_unlock(&sh->mx);
        return;
    }
    for (int i = 0; i < SHARDS; i++) {
        struct shard *sh = &s->shards[i];

        mutex_lock(&sh->mx);
        for (size_t b = 0; b < sh->nbuckets; b++) {
            for (struct lsession *l = sh->buckets[b]; l != NULL; l = l->next)
                interrupt_locked(l, except);
        }
        mutex_unlock(&sh->mx);
    }
}

void sessions_sweep(struct sessions *s, int64_t ahead_us,
                    void (*fn)(void *arg, const struct lsid_key *key), void *arg)
{
    int64_t before = clock_mono_us() + ahead_us - SESSION_TIMEOUT_MINUTES * 60 * INT64_C(1000000);

    for (int i = 0; i < SHARDS; i++) {
        struct shard *sh = &s->shards[i];

        mutex_lock(&sh->mx);
        for (size_t b = 0; b < sh->nbuckets; b++) {
            struct lsession **p = &sh->buckets[b];

            while (*p != NULL) {
                if ((*p)->users != NULL || (*p)->last_use_us > before) {
                    p = &(*p)->next;
                    continue;
                }
                fn(arg, &(*p)->key);
                if (idle_locked(*p))
                    remove_locked(s, sh, p);
                else
                    p = &(*p)->next;
            }
        }
        mutex_unlock(&sh->mx);
    }
}

int64_t sessions_count(struct sessions *s)
{
    return atomic_load(&s->count);
}

void sessions_each(struct sessions *s,
                   void (*fn)(void *arg, const struct lsid_key *key, int64_t last_use_ms),
                   void *arg)
{
    for (int i = 0; i < SHARDS; i++) {
        struct shard *sh = &s->shards[i];

        mutex_lock(&sh->mx);
        for (size_t b = 0; b < sh->nbuckets; b++) {
            for (struct lsession *l = sh->buckets[b]; l != NULL; l = l->next)
                fn(arg, &l->key, l->last_use_ms);
        }
        mutex_unlock(&sh->mx);
    }
}
