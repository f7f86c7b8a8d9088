/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "oplog/hub.h"

#include <stdlib.h>

#include "base/mem.h"

/* Waiters woken under one hold of a lock. */
enum { WAKE_CHUNK = 64 };

/* One parked request; on the heap, since its op's arena does not survive the park. */
struct node {
    struct node *next, *prev;
    struct hub *hub;
    struct hub_topic *topic; /* NULL: woken, on no list */
    struct mutex *mx;        /* of the topic; stays when the topic is gone */
    struct waiter *w;
    uint64_t after;
    bool expanded, system;
};

struct hub_topic {
    struct hub_topic *next;    /* in its bucket */
    struct hub_bucket *bucket; /* NULL: cluster or tailers */
    struct node *nodes;
    _Atomic int64_t *counter;
    struct scope scope; /* without the two flags, which are each node's */
    uint64_t hash;
    size_t len; /* of the name */
    char name[];
};

static const char passed_tag; /* op->waiter.list: `wanted` is where the wait ended */

/* --- topics -------------------------------------------------------------------------------- */

static struct hub_topic *topic_new(const struct scope *s, const char *name, uint64_t hash,
                                   _Atomic int64_t *counter)
{
    size_t n = strlen(name) + 1, db_len = s->db == NULL ? 0 : strlen(s->db) + 1;
    struct hub_topic *t = mem_must_zero(1, sizeof(*t) + n + db_len);

    memcpy(t->name, name, n);
    t->len = n - 1;
    t->hash = hash;
    t->counter = counter;
    t->scope.kind = s->kind;
    t->scope.ns = t->name;
    if (db_len > 0)
        t->scope.db = memcpy(t->name + n, s->db, db_len);
    return t;
}

void hub_init(struct hub *h, uint64_t announced)
{
    const struct scope cluster = {.kind = SCOPE_CLUSTER}, tailers = {.kind = SCOPE_OPLOG};

    memset(h, 0, sizeof(*h));
    for (int i = 0; i < HUB_SHARDS; i++)
        mutex_init(&h->shards[i]);
    mutex_init(&h->wide_mx);
    h->buckets = mem_must_zero(HUB_BUCKETS, sizeof(*h->buckets));
    h->cluster = topic_new(&cluster, "", 0, &h->nclusters);
    h->tailers = topic_new(&tailers, "", 0, &h->ntailers);
    atomic_init(&h->announced, announced);
    atomic_init(&h->expected, announced);
}

void hub_fini(struct hub *h)
{
    ASSERT(atomic_load(&h->streams) == 0 && atomic_load(&h->ntailers) == 0);
    free(h->cluster);
    free(h->tailers);
    free(h->buckets);
    for (int i = 0; i < HUB_SHARDS; i++)
        mutex_fini(&h->shards[i]);
    mutex_fini(&h->wide_mx);
}

static struct mutex *shard_of(struct hub *h, uint64_t hash)
{
    return &h->shards[hash % HUB_BUCKETS % HUB_SHARDS];
}

static struct hub_bucket *bucket_of(struct hub *h, uint64_t hash)
{
    return &h->buckets[hash % HUB_BUCKETS];
}

/* The hash's bit in the key of a bucket with several topics. */
static uint64_t hash_bit(uint64_t hash)
{
    return UINT64_C(2) << (hash >> 32) % 63;
}

static void publish_key(struct hub_bucket *b)
{
    const struct hub_topic *t = b->topics;
    uint64_t key = 0;

    if (t != NULL && t->next == NULL)
        key = t->hash & ~UINT64_C(1);
    if (t != NULL && key == 0) {
        for (key = 1; t != NULL; t = t->next)
            key |= hash_bit(t->hash);
    }
    atomic_store(&b->key, key);
}

/* False: no topic of the bucket has this hash. */
static bool may_be_watched(struct hub *h, uint64_t hash)
{
    uint64_t key = atomic_load(&bucket_of(h, hash)->key);

    if ((key & 1) != 0)
        return (key & hash_bit(hash)) != 0;
    return key != 0 && key == (hash & ~UINT64_C(1));
}

static struct hub_topic *topic_find(struct hub_bucket *b, const struct scope_name *name)
{
    struct hub_topic *t = b->topics;

    while (t != NULL && (t->hash != name->hash || t->len != name->len ||
                         memcmp(t->name, name->p, name->len) != 0))
        t = t->next;
    return t;
}

static struct hub_topic *topic_get(struct hub *h, const struct scope *s)
{
    const char *p = s->kind == SCOPE_COLLECTION ? s->ns : s->db;
    struct scope_name name = {p, strlen(p), name_hash(p)};
    struct hub_bucket *b = bucket_of(h, name.hash);
    struct hub_topic *t = topic_find(b, &name);

    if (t != NULL)
        return t;
    t = topic_new(s, p, name.hash, NULL);
    t->bucket = b;
    t->next = b->topics;
    b->topics = t;
    publish_key(b);
    return t;
}

static void topic_put(struct hub_topic *t)
{
    struct hub_topic **p;

    if (t->nodes != NULL || t->bucket == NULL)
        return;
    for (p = &t->bucket->topics; *p != t; p = &(*p)->next)
        ;
    *p = t->next;
    publish_key(t->bucket);
    free(t);
}

/* --- parking ------------------------------------------------------------------------------- */

static void count(struct node *n, int64_t delta)
{
    if (n->topic->counter != NULL)
        atomic_fetch_add(n->topic->counter, delta);
    if (n->topic != n->hub->tailers)
        atomic_fetch_add(&n->hub->streams, delta);
}

static void link_node(struct node *n)
{
    struct hub_topic *t = n->topic;

    n->next = t->nodes;
    if (t->nodes != NULL)
        t->nodes->prev = n;
    t->nodes = n;
    count(n, 1);
}

static void unlink_node(struct node *n)
{
    struct hub_topic *t = n->topic;

    if (n->prev != NULL)
        n->prev->next = n->next;
    else
        t->nodes = n->next;
    if (n->next != NULL)
        n->next->prev = n->prev;
    count(n, -1);
    n->next = n->prev = NULL;
    n->topic = NULL;
}

static void unpark(struct op *op)
{
    struct node *n = op->park_list;
    uint64_t announced = atomic_load(&n->hub->announced);
    struct hub_topic *t;

    mutex_lock(n->mx);
    t = n->topic;
    op->waiter.list = (void *)(uintptr_t)&passed_tag;
    op->waiter.wanted = n->after;
    if (t != NULL) {
        if (t != n->hub->tailers && announced > n->after)
            op->waiter.wanted = announced;
        unlink_node(n);
        topic_put(t);
    }
    mutex_unlock(n->mx);
    free(n);
    op->unpark = NULL;
    op->park_list = NULL;
}

uint64_t hub_passed(const struct op *op)
{
    return op->waiter.list == &passed_tag ? op->waiter.wanted : 0;
}

static struct mutex *lock_topic(struct hub *h, const struct scope *s, struct hub_topic **ret)
{
    bool narrow = s->kind == SCOPE_COLLECTION || s->kind == SCOPE_DATABASE;
    struct mutex *mx = &h->wide_mx;

    if (narrow)
        mx = shard_of(h, name_hash(s->kind == SCOPE_COLLECTION ? s->ns : s->db));
    mutex_lock(mx);
    if (narrow)
        *ret = topic_get(h, s);
    else
        *ret = s->kind == SCOPE_CLUSTER ? h->cluster : h->tailers;
    return mx;
}

int hub_park(struct hub *h, struct op *op, const struct scope *s, uint64_t after,
             enum hub_check (*check)(void *arg), void *arg)
{
    struct node *n = mem_must_zero(1, sizeof(*n));
    struct hub_topic *t;
    int rc = INT_PARK;

    ASSERT(op->unpark == NULL);
    n->mx = lock_topic(h, s, &t);
    n->hub = h;
    n->topic = t;
    n->w = &op->waiter;
    n->after = after;
    n->expanded = s->expanded;
    n->system = s->system;
    link_node(n);
    if (check(arg) == HUB_READ_AGAIN) {
        unlink_node(n);
        topic_put(t);
        rc = 0;
    } else {
        op->waiter.list = NULL;
        op->park_list = n;
        op->unpark = unpark;
    }
    mutex_unlock(n->mx);
    if (rc == 0)
        free(n);
    return rc;
}

/* --- waking -------------------------------------------------------------------------------- */

/* A test of one entry against the nodes of one topic, each pair of flags tried once. */
struct tested {
    const struct oplog_row *row; /* NULL: every node is meant */
    uint64_t optime;
    int8_t result[2][2]; /* 0: not tried, else 1 no, 2 yes */
};

static bool concerns(struct tested *c, const struct node *n)
{
    int8_t *r = &c->result[n->expanded][n->system];

    if (n->after >= c->optime)
        return false;
    if (c->row == NULL)
        return true;
    if (*r == 0) {
        struct scope s = n->topic->scope;

        s.expanded = n->expanded;
        s.system = n->system;
        *r = scope_matches(&s, c->row) ? 2 : 1;
    }
    return *r == 2;
}

/* Wakes up to WAKE_CHUNK nodes; false when no more are concerned. */
static bool wake_some(struct hub_topic *t, struct tested *c)
{
    struct node *n = t->nodes, *next;
    int woken = 0;

    for (; n != NULL && woken < WAKE_CHUNK; n = next) {
        struct waiter *w = n->w;

        next = n->next;
        if (!concerns(c, n))
            continue;
        unlink_node(n);
        w->wake(w);
        woken++;
    }
    return n != NULL;
}

/* The name's topic, woken chunk by chunk; others get at the lock in between. */
static void wake_name(struct hub *h, const struct scope_name *name, struct tested *c)
{
    bool more = may_be_watched(h, name->hash);

    while (more) {
        struct hub_topic *t;

        mutex_lock(shard_of(h, name->hash));
        t = topic_find(bucket_of(h, name->hash), name);
        more = t != NULL && wake_some(t, c);
        if (t != NULL)
            topic_put(t);
        mutex_unlock(shard_of(h, name->hash));
    }
}

static void wake_wide(struct hub *h, struct hub_topic *t, struct tested *c)
{
    bool more = atomic_load(t->counter) > 0;

    while (more) {
        mutex_lock(&h->wide_mx);
        more = wake_some(t, c);
        mutex_unlock(&h->wide_mx);
    }
}

static void wake_bucket(struct hub *h, size_t i, struct tested *c)
{
    bool more = atomic_load(&h->buckets[i].key) != 0;

    while (more) {
        struct hub_topic *t, *next;

        more = false;
        mutex_lock(&h->shards[i % HUB_SHARDS]);
        for (t = h->buckets[i].topics; t != NULL && !more; t = next) {
            next = t->next;
            more = wake_some(t, c);
            topic_put(t);
        }
        mutex_unlock(&h->shards[i % HUB_SHARDS]);
    }
}

void hub_wake_all(struct hub *h, uint64_t upto)
{
    struct tested c = {.optime = upto};

    if (atomic_load(&h->streams) == 0)
        return;
    for (size_t i = 0; i < HUB_BUCKETS; i++)
        wake_bucket(h, i, &c);
    wake_wide(h, h->cluster, &c);
}

struct wake_arg {
    struct hub *hub;
    const struct oplog_row *row;
};

static void wake_named(void *arg, const struct scope_name *name)
{
    struct wake_arg *a = arg;
    struct tested c = {.row = a->row, .optime = a->row->optime};

    if (name == NULL)
        hub_wake_all(a->hub, a->row->optime);
    else
        wake_name(a->hub, name, &c);
}

void hub_wake(struct hub *h, const struct oplog_row *row)
{
    struct wake_arg a = {h, row};
    struct tested c = {.row = row, .optime = row->optime};

    if (atomic_load(&h->streams) == 0)
        return;
    scope_names(row, wake_named, &a);
    wake_wide(h, h->cluster, &c);
}

void hub_wake_tailers(struct hub *h, uint64_t visible)
{
    struct tested c = {.optime = visible};

    if (atomic_load(&h->ntailers) > 0)
        wake_wide(h, h->tailers, &c);
}

/* --- asking -------------------------------------------------------------------------------- */

struct wants_arg {
    struct hub *hub;
    bool wanted;
};

/* Hashes may be alike: at worst a sync comes some milliseconds early. */
static void wants_name(void *arg, const struct scope_name *name)
{
    struct wants_arg *a = arg;

    if (name == NULL || may_be_watched(a->hub, name->hash))
        a->wanted = true;
}

void hub_expect(struct hub *h, uint64_t optime)
{
    uint64_t old = atomic_load(&h->expected);

    while (old < optime && !atomic_compare_exchange_weak(&h->expected, &old, optime))
        ;
}

bool hub_wants(struct hub *h, const struct oplog_row *row)
{
    static const struct scope widest = {
        .kind = SCOPE_CLUSTER, .expanded = true, .system = true, .migration = true};
    struct wants_arg a = {h, false};

    if (atomic_load(&h->streams) == 0)
        return false;
    if (atomic_load(&h->nclusters) > 0 && scope_matches(&widest, row))
        return true;
    scope_names(row, wants_name, &a);
    return a.wanted;
}
