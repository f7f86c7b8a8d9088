/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The catalog in memory: finding, listing and publishing collections, and idents that died. */
#include "storage/catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/limits.h"
#include "base/mem.h"
#include "storage/catalog_internal.h"

/* --- two sorted arrays --------------------------------------------------------------------- */

/* Position of the first collection whose ns is >= the given one. */
static size_t ns_position(const struct catalog *c, const char *ns)
{
    size_t lo = 0, hi = c->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (strcmp(c->by_ns[mid]->ns, ns) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static size_t uuid_position(const struct catalog *c, const uint8_t uuid[16])
{
    size_t lo = 0, hi = c->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (memcmp(c->by_uuid[mid]->uuid, uuid, 16) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void insert_at(struct coll **array, size_t n, size_t at, struct coll *k)
{
    memmove(array + at + 1, array + at, (n - at) * sizeof(struct coll *));
    array[at] = k;
}

static void remove_at(struct coll **array, size_t n, size_t at)
{
    memmove(array + at, array + at + 1, (n - at - 1) * sizeof(struct coll *));
}

static void add_locked(struct catalog *c, struct coll *k)
{
    mutex_assert_held(&c->mx);
    if (c->n == c->cap) {
        c->cap = c->cap == 0 ? 64 : c->cap * 2;
        c->by_ns = mem_must_resize(c->by_ns, c->cap * sizeof(struct coll *));
        c->by_uuid = mem_must_resize(c->by_uuid, c->cap * sizeof(struct coll *));
    }
    insert_at(c->by_ns, c->n, ns_position(c, k->ns), k);
    insert_at(c->by_uuid, c->n, uuid_position(c, k->uuid), k);
    c->n++;
    atomic_store(&k->current, true);
}

static void remove_locked(struct catalog *c, struct coll *k)
{
    size_t at_ns = ns_position(c, k->ns), at_uuid = uuid_position(c, k->uuid);

    mutex_assert_held(&c->mx);
    ASSERT(at_ns < c->n && c->by_ns[at_ns] == k && c->by_uuid[at_uuid] == k);
    remove_at(c->by_ns, c->n, at_ns);
    remove_at(c->by_uuid, c->n, at_uuid);
    c->n--;
    atomic_store(&k->current, false);
}

/* FNV-1a, 64 bits. */
static uint64_t hash_ns(const char *ns)
{
    uint64_t h = UINT64_C(14695981039346656037);

    while (*ns != '\0')
        h = (h ^ (uint8_t)*ns++) * UINT64_C(1099511628211);
    return h;
}

/* --- finding ------------------------------------------------------------------------------- */

struct coll *catalog_get(struct catalog *c, const char *ns)
{
    struct coll *k = NULL;
    size_t at;

    mutex_lock(&c->mx);
    at = ns_position(c, ns);
    if (at < c->n && strcmp(c->by_ns[at]->ns, ns) == 0)
        k = coll_ref(c->by_ns[at]);
    mutex_unlock(&c->mx);
    return k;
}

struct coll *catalog_get_uuid(struct catalog *c, const uint8_t uuid[16])
{
    struct coll *k = NULL;
    size_t at;

    mutex_lock(&c->mx);
    at = uuid_position(c, uuid);
    if (at < c->n && memcmp(c->by_uuid[at]->uuid, uuid, 16) == 0)
        k = coll_ref(c->by_uuid[at]);
    mutex_unlock(&c->mx);
    return k;
}

/* All names of a database follow each other: they share the prefix "db." */
static void db_range_locked(struct catalog *c, const char *db, size_t *ret_from, size_t *ret_to)
{
    char prefix[LIMIT_DB_NAME + 2];
    size_t at = 0;

    mutex_assert_held(&c->mx);
    *ret_from = *ret_to = 0;
    if (db == NULL || *db == '\0') {
        *ret_to = c->n;
        return;
    }
    if (snprintf(prefix, sizeof(prefix), "%s.", db) >= (int)sizeof(prefix))
        return; /* longer than any name */
    for (*ret_from = at = ns_position(c, prefix); at < c->n; at++) {
        if (strcmp(c->by_ns[at]->db, db) != 0)
            break;
    }
    *ret_to = at;
}

struct coll **catalog_list(struct catalog *c, struct arena *a, const char *db, size_t *ret_n)
{
    struct coll **list;
    size_t from, to;

    mutex_lock(&c->mx);
    db_range_locked(c, db, &from, &to);
    list = ARENA_ARRAY(a, struct coll *, to - from + 1);
    for (size_t i = from; i < to; i++)
        list[i - from] = coll_ref(c->by_ns[i]);
    mutex_unlock(&c->mx);
    *ret_n = to - from;
    return list;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char **catalog_dbs(struct catalog *c, struct arena *a, size_t *ret_n)
{
    const char **names;
    size_t n = 0;

    mutex_lock(&c->mx);
    names = ARENA_ARRAY(a, const char *, c->n + 1);
    for (size_t i = 0; i < c->n; i++) {
        const char *db = c->by_ns[i]->db;

        if (n == 0 || strcmp(names[n - 1], db) != 0)
            names[n++] = arena_strdup(a, db);
    }
    mutex_unlock(&c->mx);
    /* "a-b.x" comes before "a.x", but the name "a" before "a-b". */
    qsort(names, n, sizeof(*names), by_text);
    *ret_n = n;
    return names;
}

bool catalog_db_exists(struct catalog *c, const char *db)
{
    size_t from, to;

    mutex_lock(&c->mx);
    db_range_locked(c, db, &from, &to);
    mutex_unlock(&c->mx);
    return from < to;
}

const char *catalog_db_other_case(struct catalog *c, struct arena *a, const char *db)
{
    const char *other = NULL;

    mutex_lock(&c->mx);
    for (size_t i = 0; i < c->n && other == NULL; i++) {
        const char *name = c->by_ns[i]->db;

        if (strcasecmp(name, db) == 0 && strcmp(name, db) != 0)
            other = arena_strdup(a, name);
    }
    mutex_unlock(&c->mx);
    return other;
}

/* --- publishing ---------------------------------------------------------------------------- */

static void note_gone_locked(struct catalog *c, const char *ns, uint64_t optime)
{
    struct gone_name *g = &c->gone[c->ngone++ % GONE_NAMES];

    mutex_assert_held(&c->mx);
    if (g->optime > c->gone_forgotten)
        c->gone_forgotten = g->optime;
    g->hash = hash_ns(ns);
    g->optime = optime;
}

bool catalog_gone_since(struct catalog *c, const char *ns, uint64_t optime)
{
    uint64_t hash = hash_ns(ns);
    bool gone;

    mutex_lock(&c->mx);
    gone = c->gone_forgotten > optime;
    for (size_t i = 0; i < GONE_NAMES && !gone; i++)
        gone = c->gone[i].hash == hash && c->gone[i].optime > optime;
    mutex_unlock(&c->mx);
    return gone;
}

void catalog_publish(struct catalog *c, struct coll *old, struct coll *now, uint64_t optime)
{
    mutex_lock(&c->mx);
    if (old != NULL && (now == NULL || strcmp(old->ns, now->ns) != 0))
        note_gone_locked(c, old->ns, optime);
    if (now != NULL)
        now->changed = optime;
    if (old != NULL) {
        remove_locked(c, old);
        old->dropped = now == NULL;
        old->successor = now == NULL ? NULL : coll_ref(now);
    }
    if (now != NULL)
        add_locked(c, now);
    mutex_unlock(&c->mx);
    coll_unref(old); /* the published reference */
}

void catalog_add_dead(struct catalog *c, const char *ident)
{
    struct dead_ident *d = mem_must_zero(1, sizeof(*d));

    strncpy(d->ident, ident, sizeof(d->ident) - 1);
    mutex_lock(&c->mx);
    *c->dead_end = d;
    c->dead_end = &d->next;
    mutex_unlock(&c->mx);
}

bool catalog_take_dead(struct catalog *c, char ret_ident[static IDENT_MAX])
{
    struct dead_ident *d;

    mutex_lock(&c->mx);
    d = c->dead;
    if (d != NULL) {
        c->dead = d->next;
        if (c->dead == NULL)
            c->dead_end = &c->dead;
    }
    mutex_unlock(&c->mx);
    if (d == NULL)
        return false;
    memcpy(ret_ident, d->ident, IDENT_MAX);
    free(d);
    return true;
}

void catalog_unref(struct catalog *c)
{
    if (atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    while (c->dead != NULL) {
        struct dead_ident *d = c->dead;

        c->dead = d->next;
        free(d);
    }
    free(c->by_ns);
    free(c->by_uuid);
    mutex_fini(&c->mx);
    free(c);
}
