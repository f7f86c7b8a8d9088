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
int ddl_rename_locked(struct op *op, struct coll *from, const char *to,
                      struct coll *target) MUST_CHECK;
/* Builds the complete specs on k and publishes the new version. */
int ddl_add_indexes_locked(struct op *op, struct coll *k, const struct bv *specs,
                           size_t n) MUST_CHECK;

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
