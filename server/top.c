/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/top.h"

#include <stdlib.h>
#include <string.h>

#include "base/mutex.h"

enum { BUCKETS = 64, BUCKET_MAX = TOP_MAX / BUCKETS };

struct node {
    struct node *next;
    struct top_entry entry;
    char ns[];
};

struct bucket {
    struct mutex mx;
    struct node *nodes; /* mx; the most recently made first */
    unsigned n;         /* mx */
};

struct top {
    struct bucket buckets[BUCKETS];
};

struct top *top_new(void)
{
    struct top *t = calloc(1, sizeof *t);

    ASSERT(t != NULL);
    for (int i = 0; i < BUCKETS; i++)
        mutex_init(&t->buckets[i].mx);
    return t;
}

static void free_nodes(struct bucket *b)
{
    struct node *n = b->nodes;

    while (n != NULL) {
        struct node *next = n->next;

        free(n);
        n = next;
    }
    b->nodes = NULL;
    b->n = 0;
}

void top_free(struct top *t)
{
    if (t == NULL)
        return;
    for (int i = 0; i < BUCKETS; i++) {
        free_nodes(&t->buckets[i]);
        mutex_fini(&t->buckets[i].mx);
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

static struct bucket *bucket_of(struct top *t, const char *ns)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (const char *p = ns; *p != '\0'; p++)
        h = (h ^ (uint8_t)*p) * 16777619u;
    return &t->buckets[h % BUCKETS];
}

static struct node *find_locked(struct bucket *b, const char *ns)
{
    mutex_assert_held(&b->mx);
    for (struct node *n = b->nodes; n != NULL; n = n->next)
        if (strcmp(n->ns, ns) == 0)
            return n;
    return NULL;
}

static struct node *add_locked(struct bucket *b, const char *ns)
{
    size_t len = strlen(ns) + 1;
    struct node *n;

    mutex_assert_held(&b->mx);
    if (b->n == BUCKET_MAX)
        free_nodes(b); /* a client that names thousands of namespaces starts their counts over */
    n = calloc(1, sizeof *n + len);
    ASSERT(n != NULL);
    memcpy(n->ns, ns, len);
    n->next = b->nodes;
    b->nodes = n;
    b->n++;
    return n;
}

void top_record(struct top *t, const char *ns, enum top_kind kind, int64_t us)
{
    struct bucket *b = bucket_of(t, ns);
    struct node *n;

    mutex_lock(&b->mx);
    n = find_locked(b, ns);
    if (n == NULL)
        n = add_locked(b, ns);
    n->entry.kinds[kind].us += us;
    n->entry.kinds[kind].count++;
    mutex_unlock(&b->mx);
}

void top_get(struct top *t, const char *ns, struct top_entry *ret)
{
    struct bucket *b = bucket_of(t, ns);
    struct node *n;

    mutex_lock(&b->mx);
    n = find_locked(b, ns);
    *ret = n != NULL ? n->entry : (struct top_entry){0};
    mutex_unlock(&b->mx);
}

static int by_ns(const void *a, const void *b)
{
    return strcmp(((const struct top_named *)a)->ns, ((const struct top_named *)b)->ns);
}

struct top_named *top_list(struct top *t, struct arena *a, size_t *ret_n)
{
    struct top_named *list = NULL;
    size_t n = 0;

    for (int i = 0; i < BUCKETS; i++) {
        struct bucket *b = &t->buckets[i];

        mutex_lock(&b->mx);
        if (b->n > 0) {
            list = arena_regrow(a, list, n * sizeof *list, (n + b->n) * sizeof *list);
            ASSERT(list != NULL); /* TOP_MAX bounds it */
        }
        for (struct node *p = b->nodes; p != NULL; p = p->next)
            list[n++] = (struct top_named){arena_strdup(a, p->ns), p->entry};
        mutex_unlock(&b->mx);
    }
    if (n > 0)
        qsort(list, n, sizeof *list, by_ns);
    *ret_n = n;
    return list;
}

void top_forget(struct top *t, const char *ns)
{
    struct bucket *b = bucket_of(t, ns);

    mutex_lock(&b->mx);
    for (struct node **p = &b->nodes; *p != NULL; p = &(*p)->next)
        if (strcmp((*p)->ns, ns) == 0) {
            struct node *gone = *p;

            *p = gone->next;
            free(gone);
            b->n--;
            break;
        }
    mutex_unlock(&b->mx);
}
