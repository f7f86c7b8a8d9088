/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Changes of the catalog: collections, indexes, options. Each is one storage transaction with its
 * oplog entry. Schema thread only (op->on_schema_thread); callers return INT_TO_SCHEMA first.
 *
 * Order of work (trap T10, WiredTiger's schema calls are not transactional): to create, first the
 * tables, then row and entry in one transaction; to drop, row and entry first, the tables later by
 * the reaper, when nobody can read them any more. A crash between leaves tables that the catalog
 * does not name; start-up removes them.
 */
#ifndef RUNNEL_QUERY_DDL_H
#define RUNNEL_QUERY_DDL_H

#include "query/database.h"

/* Makes a collection whose exclusive lock the caller holds. `options` as in the create command,
 * checked already; recorded as given. 48 when it exists. */
int ddl_create_locked(struct op *op, const char *ns, struct bv options) MUST_CHECK;
/* The same, taking the locks: INT_PARK possible. */
int ddl_create(struct op *op, const char *ns, struct bv options) MUST_CHECK;

struct ddl_drop_result {
    bool existed;
    uint32_t nindexes;
};
int ddl_drop(struct op *op, const char *ns, struct ddl_drop_result *ret) MUST_CHECK;
/* All collections, then the dropDatabase entry, in one transaction. */
int ddl_drop_database(struct op *op, const char *db, bool *ret_existed) MUST_CHECK;
/* Within one database or across two (a copy takes the name as the source goes). 26, 48, 20. */
int ddl_rename(struct op *op, const char *from, const char *to, bool drop_target) MUST_CHECK;
/* At start-up, before anybody is served: drops the temporary collections that a death has left,
 * with their oplog entries. */
int ddl_drop_temporary(struct op *op) MUST_CHECK;

struct ddl_collmod {
    bool has_images, images;
    struct bv index; /* {name|keyPattern, hidden?, ...}; BV_NONE: none */
    struct bv args;  /* all arguments, for the oplog entry */
};
/* Appends what the reply tells (hidden_old, ...) to w. */
int ddl_collmod(struct op *op, const char *ns, const struct ddl_collmod *m,
                struct bw *w) MUST_CHECK;

struct ddl_index_result {
    uint32_t before, after;
    bool created_collection;
};
/* `specs`: array of index specs as the client sent them. Checks all, then builds all or none. */
int ddl_create_indexes(struct op *op, const char *ns, struct bv specs, bool ignore_unknown,
                       struct ddl_index_result *ret) MUST_CHECK;
/* `which`: name, "*", key document, or array of names. */
int ddl_drop_indexes(struct op *op, const char *ns, struct bv which,
                     uint32_t *ret_before) MUST_CHECK;

/* query/index_spec.c: checks one client spec and completes it ({v, key, name, options...}). */
int index_spec_complete(struct op *op, const char *ns, struct bv spec, bool ignore_unknown,
                        struct bv *ret) MUST_CHECK;
/* 0: new. Sets *ret_same when an equal index exists; 85 or 86 when it conflicts with one. */
int index_spec_compare(struct op *op, struct coll *k, struct bv spec, bool *ret_same) MUST_CHECK;

#endif
