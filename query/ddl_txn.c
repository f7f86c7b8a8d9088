/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Collections and indexes made inside a transaction.
 *
 * The collection's lock is exclusive until the transaction ends, its tables are made at once, and
 * the transaction has the new version for itself: nobody else finds it in the catalog. The catalog
 * row goes into the transaction at its commit, under a key that nobody else writes; what all
 * changes of the catalog write, the number of the next ident, is committed apart and before. An
 * abort leaves tables that no row names, for the reaper or, after a crash, for start-up.
 */
#include "base/fault.h"
#include "query/ddl_internal.h"
#include "query/txn_internal.h"

static int put_meta(struct op *op)
{
    struct database *db = op->database;
    struct stx *t;
    uint64_t none;
    int rc;

    TRY_RETURN(stx_begin(db->engine, op, &t));
    rc = catalog_put_meta(t, db->catalog);
    if (rc != 0) {
        stx_rollback(t);
        return rc;
    }
    return oplog_commit(db->oplog, op, t, NULL, 0, NULL, NULL, &none);
}

/* The collection is the transaction's from here on. */
static int adopt(struct op *op, struct txn_coll *c, struct coll *k)
{
    struct oplog_op entry = ddl_entry(op, c->ns, k->uuid, ddl_create_doc(op, k), BV_NONE);

    TRY_RETURN(put_meta(op));
    FAULT(DDL_TXN_META);
    TRY_RETURN(txn_add_ops(op->txn, op, &entry, 1));
    c->k = k;
    c->created = true;
    return 0;
}

int ddl_create_in_txn(struct op *op, const char *ns, struct bv options)
{
    struct txn_coll *c;
    struct coll *k;
    int rc;

    ASSERT(op->on_schema_thread);
    TRY_RETURN(txn_touch(op, ns, NSLOCK_EXCLUSIVE, &c));
    if (c->k != NULL)
        return op_fail(op, ERR_NAMESPACE_EXISTS, "Collection %s already exists.", ns);
    TRY_RETURN(ddl_check_db_case(op, ns));
    k = ddl_new_coll(op, ns, options);
    TRY(ddl_make_tables(op, k));
    TRY(adopt(op, c, k));
    return 0;
fail:
    ddl_abandon(op->database, k);
    return rc;
}

static int add_indexes(struct op *op, struct txn_coll *c, const struct bv *specs, size_t n)
{
    struct database *db = op->database;
    struct coll *now = coll_copy(c->k);
    struct index *ix = NULL;
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        struct oplog_op entry =
            ddl_entry(op, c->ns, c->k->uuid, ddl_index_doc(op, c->k, specs[i]), BV_NONE);

        ix = coll_edit_add_index(now, specs[i]);
        rc = engine_table_create(db->engine, ix->ident, TABLE_BYTES, true, op->err);
        if (rc == 0)
            rc = txn_add_ops(op->txn, op, &entry, 1);
    }
    if (rc == 0)
        rc = put_meta(op);
    if (rc == 0) {
        coll_unref(c->k);
        c->k = now;
        return 0;
    }
    for (uint32_t i = c->k->nindexes; i < now->nindexes; i++)
        catalog_add_dead(db->catalog, now->indexes[i].ident);
    coll_unref(now);
    return rc;
}

int ddl_create_indexes_in_txn(struct op *op, const char *ns, struct bv specs, bool ignore_unknown,
                              struct ddl_index_result *ret)
{
    struct bv *todo = ARENA_TRY_ARRAY(&op->arena, struct bv, bv_count(specs) + 1);
    struct txn_coll *c;
    size_t n;

    if (todo == NULL)
        return op_no_memory(op);
    TRY_RETURN(txn_touch(op, ns, NSLOCK_SHARED, &c));
    ret->created_collection = c == NULL || c->k == NULL;
    if (ret->created_collection) {
        TRY_RETURN(ddl_create_in_txn(op, ns, bv_empty_doc));
        TRY_RETURN(txn_touch(op, ns, NSLOCK_EXCLUSIVE, &c));
    }
    TRY_RETURN(ddl_new_specs(op, c->k, specs, ignore_unknown, todo, &n));
    if (n > 0 && (!c->created || c->docs > 0))
        return op_fail(op, ERR_NOT_SUPPORTED_IN_TXN,
                       "Cannot create new indexes on existing collection %s in a multi-document "
                       "transaction.",
                       ns);
    ret->before = c->k->nindexes;
    ret->after = ret->before + (uint32_t)n;
    return n == 0 ? 0 : add_indexes(op, c, todo, n);
}

int ddl_put_created(struct op *op, struct stx *t, struct coll *k)
{
    struct coll *there = catalog_get(op->database->catalog, k->ns);

    ASSERT(there == NULL); /* the lock has kept everybody out */
    TRY_RETURN(ddl_check_db_case(op, k->ns));
    return catalog_put_new_row(t, k);
}

void ddl_publish_created(struct database *db, struct coll *k, uint64_t optime)
{
    catalog_publish(db->catalog, NULL, coll_ref(k), optime);
}
