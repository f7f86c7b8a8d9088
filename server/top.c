/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/top.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutex.h"

/* A chain belongs to the shard of its index: SHARDS divides CHAINS. */
enum { SHARDS = 64, CHAINS = 8192, SHARD_MAX = TOP_MAX / SHARDS };

struct node {
    struct node *next; /* in its chain */
    struct top_entry entry;
    uint32_t hash;
    char ns[];
};

struct shard {
    struct mutex mx;
    unsigned n; /* mx: nodes */
};

struct top {
    struct shard shards[SHARDS];
    struct node *chains[CHAINS]; /* under their shard's mx */
};

struct top *top_new(void)
{
    struct top *t = mem_must_zero(1, sizeof(*t));

    for (int i = 0; i < SHARDS; i++)
        mutex_init(&t->shards[i].mx);
    return t;
}

/* All of the shard's nodes; the caller holds its mutex, or is the last who knows of it. */
static void free_nodes(struct top *t, size_t shard)
{
    for (size_t i = shard; i < CHAINS; i += SHARDS) {
        struct node *n = t->chains[i];

        while (n != NULL) {
            struct node *next = n->next;

            free(n);
            n = next;
        }
        t->chains[i] = NULL;
    }
    t->shards[shard].n = 0;
}

void top_free(struct top *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < SHARDS; i++) {
        free_nodes(t, i);
        mutex_fini(&t->shards[i].mx);
    }
    free(t);
}

enum top_kind top_kind_of(const char *command)
{
    static const struct {
        const char *name;
        enum top_kind kind;
    } names[] = {
        {"find", TOP_QUERIES},  {"getMore", TOP_GETMORE}, {"insert", TOP_INSERT},
        {"update", TOP_UPDATE}, {"delete", TOP_REMOVE},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(command, names[i].name) == 0)
            return names[i].kind;
    return TOP_COMMANDS;
}

static uint32_t hash_of(const char *ns)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (const char *p = ns; *p != '\0'; p++)
        h = (h ^ (uint8_t)*p) * 16777619u;
    return h;
}

static struct shard *shard_of(struct top *t, uint32_t hash)
{
    return &t->shards[hash % SHARDS];
}

/* The link to the namespace's node, or the end of its chain. The shard's mutex is held. */
static struct node **find_locked(struct top *t, const char *ns, uint32_t hash)
{
    struct node **p = &t->chains[hash % CHAINS];

    mutex_assert_held(&shard_of(t, hash)->mx);
    while (*p != NULL && ((*p)->hash != hash || strcmp((*p)->ns, ns) != 0))
        p = &(*p)->next;
    return p;
}

static struct node *add_locked(struct top *t, const char *ns, uint32_t hash)
{
    struct shard *s = shard_of(t, hash);
    struct node **chain = &t->chains[hash % CHAINS], *n;
    size_t len = strlen(ns) + 1;

    mutex_assert_held(&s->mx);
    if (s->n == SHARD_MAX)
        free_nodes(t, hash % SHARDS); /* a client that names thousands starts their counts over */
    n = mem_must_zero(1, sizeof *n + len);
    memcpy(n->ns, ns, len);
    n->hash = hash;
    n->next = *chain;
    *chain = n;
    s->n++;
    return n;
}

void top_record(struct top *t, const char *ns, enum top_kind kind, int64_t us)
{
    uint32_t hash = hash_of(ns);
    struct shard *s = shard_of(t, hash);
    struct node *n;

    mutex_lock(&s->mx);
    n = *find_locked(t, ns, hash);
    if (n == NULL)
        n = add_locked(t, ns, hash);
    n->entry.kinds[kind].us += us;
    n->entry.kinds[kind].count++;
    mutex_unlock(&s->mx);
}

void top_get(struct top *t, const char *ns, struct top_entry *ret)
{
    uint32_t hash = hash_of(ns);
    struct shard *s = shard_of(t, hash);
    struct node *n;

    mutex_lock(&s->mx);
    n = *find_locked(t, ns, hash);
    *ret = n != NULL ? n->entry : (struct top_entry){0};
    mutex_unlock(&s->mx);
}

static int by_ns(const void *a, const void *b)
{
    return strcmp(((const struct top_named *)a)->ns, ((const struct top_named *)b)->ns);
}

/* Appends the shard's nodes to the list of *n. */
static struct top_named *list_shard(struct top *t, size_t shard, struct arena *a,
                                    struct top_named *list, size_t *n)
{
    struct shard *s = &t->shards[shard];

    mutex_lock(&s->mx);
    if (s->n > 0) {
        list = arena_regrow(a, list, *n * sizeof *list, (*n + s->n) * sizeof *list);
        if (list == NULL) /* TOP_MAX bounds it */
            mem_out((*n + s->n) * sizeof *list, __builtin_return_address(0));
        for (size_t i = shard; i < CHAINS; i += SHARDS)
            for (struct node *p = t->chains[i]; p != NULL; p = p->next)
                list[(*n)++] = (struct top_named){arena_strdup(a, p->ns), p->entry};
    }
    mutex_unlock(&s->mx);
    return list;
}

struct top_named *top_list(struct top *t, struct arena *a, size_t *ret_n)
{
    struct top_named *list = NULL;
    size_t n = 0;

    for (size_t i = 0; i < SHARDS; i++)
        list = list_shard(t, i, a, list, &n);
    if (n > 0)
        qsort(list, n, sizeof *list, by_ns);
    *ret_n = n;
    return list;
}

void top_forget(struct top *t, const char *ns)
{
    uint32_t hash = hash_of(ns);
    struct shard *s = shard_of(t, hash);
    struct node **p, *gone;

    mutex_lock(&s->mx);
    p = find_locked(t, ns, hash);
    gone = *p;
    if (gone != NULL) {
        *p = gone->next;
        s->n--;
    }
    mutex_unlock(&s->mx);
    free(gone);
}
