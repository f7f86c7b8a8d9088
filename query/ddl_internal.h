/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by the files of the DDL path; see query/ddl.h. All under the exclusive locks. */
#ifndef RUNNEL_QUERY_DDL_INTERNAL_H
#define RUNNEL_QUERY_DDL_INTERNAL_H

#include "oplog/append.h"
#include "query/ddl.h"
#include "storage/catalog_write.h"

/* Commits the catalog rows written in t with their entries; nothing is logged for "local". */
int ddl_commit(struct op *op, struct stx *t, const char *ns, const struct oplog_op *ops,
               size_t n) MUST_CHECK;
/* "db.$cmd" for an entry about ns (a collection's or just a database's name). */
const char *ddl_cmd_ns(struct op *op, const char *ns);
/* A command entry about a collection. */
struct oplog_op ddl_entry(struct op *op, const char *ns, const uint8_t *uuid, struct bv o,
                          struct bv o2);
/* {numRecords: n} */
struct bv ddl_num_records(struct op *op, struct coll *k);

/* 26 when there is no such collection; a reference otherwise. */
int ddl_get(struct op *op, const char *ns, struct coll **ret) MUST_CHECK;
int ddl_drop_locked(struct op *op, struct coll *k) MUST_CHECK;
struct oplog_op ddl_drop_entry(struct op *op, struct coll *k);
/* Completes the specs and leaves out those that k has; *ret_n of them are new. */
int ddl_new_specs(struct op *op, struct coll *k, struct bv given, bool ignore_unknown,
                  struct bv *ret, size_t *ret_n) MUST_CHECK;
/* Builds the complete specs on k and publishes the new version. */
int ddl_add_indexes_locked(struct op *op, struct coll *k, const struct bv *specs,
                           size_t n) MUST_CHECK;

/* --- making a collection --------------------------------------------------------------------- */

int ddl_check_db_case(struct op *op, const char *ns) MUST_CHECK; /* 13297 */
/* Unpublished, without tables. */
struct coll *ddl_new_coll(struct op *op, const char *ns, struct bv options);
int ddl_make_tables(struct op *op, struct coll *k) MUST_CHECK;
/* {create: "c", ...options, idIndex: {v, key, name}} */
struct bv ddl_create_doc(struct op *op, struct coll *k);
/* {createIndexes: "c", v, key, name, ...}: what an empty collection logs, one entry an index. */
struct bv ddl_index_doc(struct op *op, struct coll *k, struct bv spec);
/* Gives up a collection that was not published: its tables go to the reaper. Any thread. */
void ddl_abandon(struct database *db, struct coll *k);

/* --- in a transaction (ddl_txn.c) ------------------------------------------------------------ */

int ddl_create_in_txn(struct op *op, const char *ns, struct bv options) MUST_CHECK;
/* 263 for a collection that the transaction has not made itself, or has put documents into. */
int ddl_create_indexes_in_txn(struct op *op, const char *ns, struct bv specs, bool ignore_unknown,
                              struct ddl_index_result *ret) MUST_CHECK;
/* At the commit: the row, in the transaction; then, behind it, the catalog in memory. */
int ddl_put_created(struct op *op, struct stx *t, struct coll *k) MUST_CHECK;
void ddl_publish_created(struct database *db, struct coll *k, uint64_t optime);

/* Database shared and up to two collections exclusive, in lock order. */
struct ddl_locks {
    struct nslock db[2], coll[2];
};
int ddl_lock(struct op *op, const char *ns_a, const char *ns_b /* NULL: one */,
             struct ddl_locks *ret) MUST_CHECK;
void ddl_unlock(struct op *op, struct ddl_locks *l);

/* "db" of "db.coll", in the op's arena. */
const char *ddl_db_of(struct op *op, const char *ns);

#endif
