/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What each collection was used for, and how long it took: the `top` command and latencyStats.
 *
 * One entry per namespace that a command named, in a hash table whose shards have a mutex each:
 * what a command costs here does not grow with their number. Any thread. At most TOP_MAX namespaces
 * are remembered; those of collections that are gone make room for new ones.
 */
#ifndef RUNNEL_SERVER_TOP_H
#define RUNNEL_SERVER_TOP_H

#include <stdint.h>

#include "base/op.h"

enum top_kind {
    TOP_QUERIES,
    TOP_GETMORE,
    TOP_INSERT,
    TOP_UPDATE,
    TOP_REMOVE,
    TOP_COMMANDS,
    TOP_KINDS
};

enum { TOP_MAX = 16384 };

struct top_count {
    int64_t us, count;
};

struct top_entry {
    struct top_count kinds[TOP_KINDS];
};

struct top;

struct top *top_new(void);
void top_free(struct top *t); /* NULL: nothing */

/* The kind of use that a command is, by its name. */
enum top_kind top_kind_of(const char *command);
void top_record(struct top *t, const char *ns, enum top_kind kind, int64_t us);
/* All zero when the namespace was never used. */
void top_get(struct top *t, const char *ns, struct top_entry *ret);

/* A copy of everything, sorted by namespace, in the arena. */
struct top_named {
    const char *ns;
    struct top_entry entry;
};
struct top_named *top_list(struct top *t, struct arena *a, size_t *ret_n);
/* Forgets a namespace: its collection was dropped. */
void top_forget(struct top *t, const char *ns);

#endif
