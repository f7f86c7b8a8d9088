/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Creating and dropping collections and databases. */
#include "query/ddl_internal.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/fault.h"
#include "base/log.h"

/* --- shared pieces --------------------------------------------------------------------------- */

const char *ddl_db_of(struct op *op, const char *ns)
{
    return arena_strndup(&op->arena, ns, strcspn(ns, "."));
}

const char *ddl_cmd_ns(struct op *op, const char *ns)
{
    return arena_printf(&op->arena, "%.*s.$cmd", (int)strcspn(ns, "."), ns);
}

struct oplog_op ddl_entry(struct op *op, const char *ns, const uint8_t *uuid, struct bv o,
                          struct bv o2)
{
    return (struct oplog_op){
        .op = 'c', .ns = ddl_cmd_ns(op, ns), .uuid = uuid, .o = o, .o2 = o2, .stmt_id = -1};
}

struct bv ddl_num_records(struct op *op, struct coll *k)
{
    struct bw w;

    bw_init(&w, &op->arena);
    bw_i64(&w, "numRecords", atomic_load(&k->counters->count));
    return bw_done(&w);
}

int ddl_commit(struct op *op, struct stx *t, const char *ns, const struct oplog_op *ops, size_t n)
{
    struct oplog *o = op->database->oplog;
    bool logged = strncmp(ns, "local.", 6) != 0;
    uint64_t first;
    int rc;

    while ((rc = oplog_commit_held(o, op, t, ops, logged ? n : 0, NULL, NULL, &first)) ==
           INT_NO_OPTIME) {
        rc = oplog_wait_room(o, op);
        if (rc != 0) {
            stx_rollback(t);
            return rc;
        }
    }
    TRY_RETURN(rc);
    FAULT(DDL_COMMITTED);
    if (!logged)
        op->ack_flush = oplog_flush_ticket(o);
    return 0;
}

int ddl_get(struct op *op, const char *ns, struct coll **ret)
{
    *ret = catalog_get(op->database->catalog, ns);
    if (*ret == NULL)
        return op_fail(op, ERR_NAMESPACE_NOT_FOUND, "ns does not exist: %s", ns);
    return 0;
}

void ddl_unlock(struct op *op, struct ddl_locks *l)
{
    struct nslock_table *t = op->database->locks;

    for (int i = 0; i < 2; i++)
        nslock_release(t, &l->coll[i]);
    for (int i = 0; i < 2; i++)
        nslock_release(t, &l->db[i]);
}

int ddl_lock(struct op *op, const char *ns_a, const char *ns_b, struct ddl_locks *ret)
{
    struct nslock_table *t = op->database->locks;
    struct ddl_locks l;
    const char *db_a, *db_b;
    int rc;

    memset(&l, 0, sizeof(l));
    if (ns_b != NULL && strcmp(ns_b, ns_a) < 0) {
        const char *swap = ns_a;

        ns_a = ns_b;
        ns_b = swap;
    }
    db_a = ddl_db_of(op, ns_a);
    db_b = ns_b == NULL ? db_a : ddl_db_of(op, ns_b);
    TRY(nslock_acquire(t, op, db_a, NSLOCK_SHARED, &l.db[0]));
    if (strcmp(db_a, db_b) != 0)
        TRY(nslock_acquire(t, op, db_b, NSLOCK_SHARED, &l.db[1]));
    TRY(nslock_acquire(t, op, ns_a, NSLOCK_EXCLUSIVE, &l.coll[0]));
    if (ns_b != NULL)
        TRY(nslock_acquire(t, op, ns_b, NSLOCK_EXCLUSIVE, &l.coll[1]));
    *ret = l;
    return 0;
fail:
    ddl_unlock(op, &l);
    return rc;
}

/* --- create ---------------------------------------------------------------------------------- */

static void random_uuid(uint8_t uuid[16])
{
    ASSERT(getrandom(uuid, 16, 0) == 16);
    uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x40);
    uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}

/* {create: "c", ...options, idIndex: {v, key, name}} */
struct bv ddl_create_doc(struct op *op, struct coll *k)
{
    struct bw w;

    bw_init(&w, &op->arena);
    bw_str(&w, "create", k->name);
    bw_fields(&w, k->options);
    bw_bv(&w, "idIndex", k->indexes[0].spec);
    return bw_done(&w);
}

int ddl_make_tables(struct op *op, struct coll *k)
{
    struct engine *e = op->database->engine;

    TRY_RETURN(engine_table_create(e, k->ident, TABLE_RECORDS, true, op->err));
    return engine_table_create(e, k->indexes[0].ident, TABLE_BYTES, true, op->err);
}

void ddl_abandon(struct database *db, struct coll *k)
{
    catalog_add_dead(db->catalog, k->ident);
    for (uint32_t i = 0; i < k->nindexes; i++)
        catalog_add_dead(db->catalog, k->indexes[i].ident);
    coll_unref(k);
}

int ddl_check_db_case(struct op *op, const char *ns)
{
    const char *db = ddl_db_of(op, ns);
    const char *other = catalog_db_other_case(op->database->catalog, &op->arena, db);

    if (other != NULL)
        return op_fail(op, 13297,
                       "db already exists with different case already have: [%s] trying to create "
                       "[%s]",
                       other, db);
    return 0;
}

struct coll *ddl_new_coll(struct op *op, const char *ns, struct bv options)
{
    uint8_t uuid[16];

    random_uuid(uuid);
    return coll_new(op->database->catalog, ns, uuid, options);
}

int ddl_create_locked(struct op *op, const char *ns, struct bv options)
{
    struct database *db = op->database;
    struct coll *k = catalog_get(db->catalog, ns);
    struct stx *t = NULL;
    struct oplog_op entry;
    int rc;

    ASSERT(op->on_schema_thread);
    if (k != NULL) {
        coll_unref(k);
        return op_fail(op, ERR_NAMESPACE_EXISTS, "Collection %s already exists.", ns);
    }
    TRY_RETURN(ddl_check_db_case(op, ns));
    k = ddl_new_coll(op, ns, options);
    TRY(ddl_make_tables(op, k));
    FAULT(DDL_CREATE_BEFORE_COMMIT);
    TRY(stx_begin(db->engine, op, &t));
    TRY(catalog_put_row(t, k));
    entry = ddl_entry(op, ns, k->uuid, ddl_create_doc(op, k), BV_NONE);
    rc = ddl_commit(op, t, ns, &entry, 1);
    t = NULL;
    TRY(rc);
    catalog_publish(db->catalog, NULL, k, op->wrote_optime);
    return 0;
fail:
    stx_rollback(t);
    ddl_abandon(db, k);
    return rc;
}

int ddl_create(struct op *op, const char *ns, struct bv options)
{
    struct ddl_locks locks;
    int rc;

    if (op->txn != NULL)
        return ddl_create_in_txn(op, ns, options);
    TRY_RETURN(ddl_lock(op, ns, NULL, &locks));
    rc = ddl_create_locked(op, ns, options);
    ddl_unlock(op, &locks);
    return rc;
}

/* --- drop ------------------------------------------------------------------------------------ */

struct oplog_op ddl_drop_entry(struct op *op, struct coll *k)
{
    struct bw w;

    bw_init(&w, &op->arena);
    bw_str(&w, "drop", k->name);
    return ddl_entry(op, k->ns, k->uuid, bw_done(&w), ddl_num_records(op, k));
}

int ddl_drop_locked(struct op *op, struct coll *k)
{
    struct database *db = op->database;
    struct oplog_op entry = ddl_drop_entry(op, k);
    struct stx *t;
    int rc;

    TRY_RETURN(stx_begin(db->engine, op, &t));
    rc = catalog_remove_row(t, k);
    if (rc != 0) {
        stx_rollback(t);
        return rc;
    }
    TRY_RETURN(ddl_commit(op, t, k->ns, &entry, 1));
    FAULT(DDL_DROP_AFTER_COMMIT);
    catalog_publish(db->catalog, k, NULL, op->wrote_optime);
    return 0;
}

int ddl_drop(struct op *op, const char *ns, struct ddl_drop_result *ret)
{
    struct ddl_locks locks;
    struct coll *k;
    int rc = 0;

    memset(ret, 0, sizeof(*ret));
    TRY_RETURN(ddl_lock(op, ns, NULL, &locks));
    k = catalog_get(op->database->catalog, ns);
    if (k != NULL) {
        rc = ddl_drop_locked(op, k);
        ret->existed = true;
        ret->nindexes = k->nindexes;
    }
    coll_unref(k);
    ddl_unlock(op, &locks);
    return rc;
}

int ddl_drop_temporary(struct op *op)
{
    size_t n;
    struct coll **colls = catalog_list(op->database->catalog, &op->arena, NULL, &n);
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        if (rc == 0 && colls[i]->temp) {
            log_event(LOG_INFO, "storage", "dropping a temporary collection",
                      {"ns", LOG_STR(colls[i]->ns)}, );
            FAULT(DROP_TEMPORARY);
            rc = ddl_drop_locked(op, colls[i]);
        }
        coll_unref(colls[i]);
    }
    return rc;
}

static int drop_all(struct op *op, const char *db_name, struct coll **colls, size_t n)
{
    struct database *db = op->database;
    struct oplog_op *entries = ARENA_ARRAY(&op->arena, struct oplog_op, n + 1);
    struct bw w;
    struct stx *t;

    TRY_RETURN(stx_begin(db->engine, op, &t));
    for (size_t i = 0; i < n; i++) {
        int rc = catalog_remove_row(t, colls[i]);

        if (rc != 0) {
            stx_rollback(t);
            return rc;
        }
        entries[i] = ddl_drop_entry(op, colls[i]);
    }
    FAULT(DROP_DATABASE);
    bw_init(&w, &op->arena);
    bw_i32(&w, "dropDatabase", 1);
    entries[n] = ddl_entry(op, db_name, NULL, bw_done(&w), BV_NONE);
    TRY_RETURN(ddl_commit(op, t, colls[0]->ns, entries, n + 1));
    FAULT(DDL_DROP_AFTER_COMMIT);
    for (size_t i = 0; i < n; i++)
        catalog_publish(db->catalog, colls[i], NULL, op->wrote_optime);
    return 0;
}

int ddl_drop_database(struct op *op, const char *db_name, bool *ret_existed)
{
    struct database *db = op->database;
    struct nslock lock = {0};
    struct coll **colls;
    size_t n;
    int rc = 0;

    TRY_RETURN(nslock_acquire(db->locks, op, db_name, NSLOCK_EXCLUSIVE, &lock));
    colls = catalog_list(db->catalog, &op->arena, db_name, &n);
    *ret_existed = n > 0;
    if (n > 0)
        rc = drop_all(op, db_name, colls, n);
    for (size_t i = 0; i < n; i++)
        coll_unref(colls[i]);
    nslock_release(db->locks, &lock);
    return rc;
}
