/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The catalog: which collections and indexes exist, in memory and in the table "catalog".
 *
 * In memory every version of a collection is an immutable struct coll with a reference count. A
 * reader takes a reference, opens its snapshot and needs no lock: a dropped collection's or index's
 * table goes away only when the last version that uses it is gone (the reaper asks
 * catalog_take_dead()). Writers additionally hold the namespace locks (base/nslock.h) from lookup
 * to commit.
 *
 * DDL: under the exclusive lock, on the schema thread: build a new struct coll with coll_edit_*,
 * write its row in the transaction that also carries the oplog entry (catalog_put_row and so on,
 * declared in catalog_write.h), commit, then catalog_publish().
 *
 * On disk, table "catalog", key = ident of the collection's table ("coll-17"), value BSON:
 *     {ident, ns, uuid, options: {...as given...}, indexes: [{ident, spec: {v, key, name, ...}}]}
 * plus the key "meta": {nextIdent: int64}, written with every row, so that no number that a row
 * ever used is handed out again.
 *
 * Table "multikey", key = ident of an index, no value: the indexes that have expanded an array.
 *
 * Table "sizes", key = ident, value BSON {count, bytes, nextRid}: written by a clean close, removed
 * by the next open. Where it lacks a collection (after a crash: all) the records are counted again.
 *
 * Start-up drops tables with our names ("coll-", "index-", "tmp-") that no row names: they are left
 * over from DDL or sorting that a crash cut short. A row that names a missing table is damage, and
 * opening fails.
 */
#ifndef RUNNEL_STORAGE_CATALOG_H
#define RUNNEL_STORAGE_CATALOG_H

#include "storage/table.h"

struct catalog;

enum { INDEX_PATHS_MAX = 32 };

struct index_field {
    const char *path;
    bool descending;
};

/* What the versions of one index share. */
struct index_state {
    _Atomic int refs;
    _Atomic bool multikey;
};

struct index {
    char ident[IDENT_MAX];
    const char *name;
    struct bv spec; /* as listIndexes shows it: {v, key, name, ...} */
    struct bv key;  /* spec.key */
    struct index_field fields[INDEX_PATHS_MAX];
    uint32_t nfields;
    bool is_id, unique, sparse, hidden;
    struct index_state *state;
};

/* Counters shared by all versions of one collection; atomics. */
struct coll_counters {
    _Atomic int refs;
    _Atomic int64_t next_rid; /* next record id to hand out */
    _Atomic int64_t count;    /* documents */
    _Atomic int64_t bytes;    /* BSON bytes */
};

struct coll {
    _Atomic int refs;
    _Atomic bool current;   /* published, and not replaced or dropped since */
    bool dropped;           /* published, then removed: its tables die with it */
    struct coll *successor; /* the version that replaced it; held, so that versions die in order */
    char ident[IDENT_MAX];
    const char *ns; /* "db.coll" */
    const char *db;
    const char *name; /* within ns */
    uint8_t uuid[16];
    struct bv options; /* as listCollections shows them */
    bool images;       /* changeStreamPreAndPostImages.enabled */
    bool temp;         /* does not outlive the process: the next start drops it */
    uint64_t changed;  /* optime at which this version was published; 0: at start-up */
    uint32_t nindexes;
    struct index *indexes; /* [0] is the _id index */
    struct coll_counters *counters;
    struct arena arena; /* owns all of the above */
    struct catalog *catalog;
};

int catalog_open(struct engine *e, struct error *err, struct catalog **ret) MUST_CHECK;
/* Writes the sizes. No thread uses the catalog any more; references that are still held stay good
 * until they are dropped. Before engine_close(). */
void catalog_close(struct catalog *c);

/* A reference, or NULL when there is no such collection. */
struct coll *catalog_get(struct catalog *c, const char *ns);
struct coll *catalog_get_uuid(struct catalog *c, const uint8_t uuid[16]);
struct coll *coll_ref(struct coll *k);
void coll_unref(struct coll *k); /* NULL: nothing */
/* True while k is the published version of its collection (not dropped or altered since). */
bool coll_is_current(struct coll *k);

/* Whether a collection of this name may have gone (dropped, or renamed away) above that optime. Of
 * many, only the newest are remembered; about older ones the answer is yes. */
bool catalog_gone_since(struct catalog *c, const char *ns, uint64_t optime);

/* All collections of a database ("" or NULL: of all), sorted by name; references the caller
 * drops; array in the arena. */
struct coll **catalog_list(struct catalog *c, struct arena *a, const char *db, size_t *ret_n);
/* Names of databases that have a collection, sorted. */
const char **catalog_dbs(struct catalog *c, struct arena *a, size_t *ret_n);
bool catalog_db_exists(struct catalog *c, const char *db);
/* The name of a database that differs from db in case only; NULL: none (error 13297). */
const char *catalog_db_other_case(struct catalog *c, struct arena *a, const char *db);

/* Whether a document may lie at several keys of the index. Never goes back to false. What a
 * snapshot shows is covered by the answer after it was opened: a writer sets it before it commits
 * its first such key. */
static inline bool index_is_multikey(const struct index *ix)
{
    return atomic_load(&ix->state->multikey);
}

/* NULL: none. By key: same fields, order and directions. */
struct index *coll_index_by_name(struct coll *k, const char *name);
struct index *coll_index_by_key(struct coll *k, struct bv key);

#endif
