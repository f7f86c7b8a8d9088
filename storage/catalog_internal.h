/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What catalog.c, catalog_rows.c and coll.c share. */
#ifndef RUNNEL_STORAGE_CATALOG_INTERNAL_H
#define RUNNEL_STORAGE_CATALOG_INTERNAL_H

#include "base/mutex.h"
#include "storage/catalog_write.h"

#define CATALOG_IDENT  "catalog"
#define SIZES_IDENT    "sizes"
#define MULTIKEY_IDENT "multikey"

struct dead_ident {
    struct dead_ident *next;
    char ident[IDENT_MAX];
};

/* A name under which there was a collection, by its hash: two names with one hash make a snapshot
 * be refused in vain, no more. */
struct gone_name {
    uint64_t hash, optime;
};

enum { GONE_NAMES = 512 };

struct catalog {
    struct engine *engine;
    _Atomic int refs;           /* the opener and every struct coll */
    _Atomic int64_t next_ident; /* number of the next ident */

    struct mutex mx;       /* guards all of the below */
    struct coll **by_ns;   /* published ones, sorted by ns */
    struct coll **by_uuid; /* the same ones, sorted by uuid */
    size_t n, cap;
    struct dead_ident *dead; /* oldest first */
    struct dead_ident **dead_end;
    struct gone_name gone[GONE_NAMES]; /* the newest, in a circle */
    uint64_t ngone;                    /* ever */
    uint64_t gone_forgotten;           /* newest optime of those that fell out of it */
};

void catalog_unref(struct catalog *c);

/* An empty version: counters (a new set when `counters` is NULL), no options, no indexes. */
struct coll *coll_alloc(struct catalog *c, const char *ns, const uint8_t uuid[16],
                        struct coll_counters *counters);
/* With the given ident instead of a fresh one, and the state of an earlier version or NULL. */
struct index *coll_add_index_as(struct coll *k, const char *ident, struct bv spec,
                                struct index_state *state);

/* Row of one collection, in the arena. */
struct bv coll_to_row(struct arena *a, struct coll *k);
/* NULL for a row that is none. */
struct coll *coll_from_row(struct catalog *c, struct bv row);

#endif
