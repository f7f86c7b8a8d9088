/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/nslock.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/mutex.h"

#define SHARDS  16
#define BUCKETS 64

struct nslock_entry {
    struct nslock_entry *next;
    struct shard *shard;
    unsigned refs;              /* holders and waiters; freed at 0 */
    unsigned shared;            /* shared holders */
    bool exclusive;             /* held exclusively */
    unsigned exclusive_waiting; /* parked requests that want it exclusively */
    struct waiter *waiting;     /* head of a doubly linked list */
    char name[];
};

struct shard {
    struct mutex mx;
    struct nslock_entry *buckets[BUCKETS];
};

struct nslock_table {
    struct shard shards[SHARDS];
};

enum { WANT_SHARED = 0, WANT_EXCLUSIVE = 1 };

struct nslock_table *nslock_table_new(void)
{
    struct nslock_table *t = mem_must_zero(1, sizeof(*t));

    for (int i = 0; i < SHARDS; i++)
        mutex_init(&t->shards[i].mx);
    return t;
}

void nslock_table_free(struct nslock_table *t)
{
    if (t == NULL)
        return;
    for (int i = 0; i < SHARDS; i++) {
        for (int b = 0; b < BUCKETS; b++)
            ASSERT(t->shards[i].buckets[b] == NULL);
        mutex_fini(&t->shards[i].mx);
    }
    free(t);
}

static uint32_t hash_name(const char *name)
{
    uint32_t h = 2166136261u;

    while (*name != '\0')
        h = (h ^ (uint8_t)*name++) * 16777619u;
    return h ^ (h >> 15);
}

/* The entry of this name with one more reference. */
static struct nslock_entry *entry_get_locked(struct shard *s, uint32_t hash, const char *name)
{
    struct nslock_entry **head = &s->buckets[(hash / SHARDS) % BUCKETS];
    struct nslock_entry *e;
    size_t n = strlen(name) + 1;

    mutex_assert_held(&s->mx);
    for (e = *head; e != NULL; e = e->next) {
        if (strcmp(e->name, name) == 0) {
            e->refs++;
            return e;
        }
    }
    e = mem_must_zero(1, sizeof(*e) + n);
    memcpy(e->name, name, n);
    e->shard = s;
    e->refs = 1;
    e->next = *head;
    *head = e;
    return e;
}

static void entry_put_locked(struct nslock_entry *e)
{
    struct nslock_entry **p;

    mutex_assert_held(&e->shard->mx);
    if (--e->refs > 0)
        return;
    p = &e->shard->buckets[(hash_name(e->name) / SHARDS) % BUCKETS];
    while (*p != e)
        p = &(*p)->next;
    *p = e->next;
    free(e);
}

static bool grant_locked(struct nslock_entry *e, enum nslock_mode mode)
{
    if (e->exclusive)
        return false;
    if (mode == NSLOCK_EXCLUSIVE) {
        if (e->shared > 0)
            return false;
        e->exclusive = true;
        return true;
    }
    if (e->exclusive_waiting > 0)
        return false;
    e->shared++;
    return true;
}

/* Takes the op's waiter off the entry it waits for. */
static void unpark(struct op *op)
{
    struct nslock_entry *e = op->park_list;
    struct shard *s = e->shard;
    struct waiter *w = &op->waiter;

    mutex_lock(&s->mx);
    if (w->prev != NULL)
        w->prev->next = w->next;
    else
        e->waiting = w->next;
    if (w->next != NULL)
        w->next->prev = w->prev;
    w->next = w->prev = NULL;
    if (w->wanted == WANT_EXCLUSIVE && --e->exclusive_waiting == 0) {
        /* Shared requests were kept out by this one; it may have given up. */
        for (struct waiter *o = e->waiting; o != NULL; o = o->next)
            o->wake(o);
    }
    entry_put_locked(e);
    mutex_unlock(&s->mx);
    op->unpark = NULL;
    op->park_list = NULL;
}

static void park_locked(struct nslock_entry *e, struct op *op, enum nslock_mode mode)
{
    struct waiter *w = &op->waiter;

    ASSERT(op->unpark == NULL);
    w->wanted = mode == NSLOCK_EXCLUSIVE ? WANT_EXCLUSIVE : WANT_SHARED;
    if (mode == NSLOCK_EXCLUSIVE)
        e->exclusive_waiting++;
    w->prev = NULL;
    w->next = e->waiting;
    if (e->waiting != NULL)
        e->waiting->prev = w;
    e->waiting = w;
    op->park_list = e;
    op->unpark = unpark;
}

int nslock_acquire(struct nslock_table *t, struct op *op, const char *name, enum nslock_mode mode,
                   struct nslock *ret)
{
    uint32_t hash = hash_name(name);
    struct shard *s = &t->shards[hash % SHARDS];
    struct nslock_entry *e;
    int rc = 0;

    mutex_lock(&s->mx);
    e = entry_get_locked(s, hash, name);
    if (grant_locked(e, mode)) {
        ret->entry = e;
        ret->mode = mode;
    } else {
        park_locked(e, op, mode); /* keeps the reference */
        rc = INT_PARK;
    }
    mutex_unlock(&s->mx);
    return rc;
}

int nslock_try(struct nslock_table *t, const char *name, enum nslock_mode mode, struct nslock *ret)
{
    uint32_t hash = hash_name(name);
    struct shard *s = &t->shards[hash % SHARDS];
    struct nslock_entry *e;
    int rc = 0;

    mutex_lock(&s->mx);
    e = entry_get_locked(s, hash, name);
    if (grant_locked(e, mode)) {
        ret->entry = e;
        ret->mode = mode;
    } else {
        entry_put_locked(e);
        rc = ERR_LOCK_TIMEOUT;
    }
    mutex_unlock(&s->mx);
    return rc;
}

void nslock_release(struct nslock_table *t, struct nslock *l)
{
    struct nslock_entry *e = l->entry;
    struct shard *s;

    (void)t;
    if (e == NULL)
        return;
    s = e->shard;
    mutex_lock(&s->mx);
    if (l->mode == NSLOCK_EXCLUSIVE)
        e->exclusive = false;
    else
        e->shared--;
    if (e->shared == 0) {
        for (struct waiter *w = e->waiting; w != NULL; w = w->next)
            w->wake(w);
    }
    entry_put_locked(e);
    mutex_unlock(&s->mx);
    l->entry = NULL;
}
