/* SPDX-License-Identifier: GPL-3.0-or-later */
/* renameCollection: a catalog change within a database, copy and drop across two. */
#include "query/ddl_internal.h"
#include "query/write_internal.h"

#define COPY_BYTES (4 * 1024 * 1024)

/* {renameCollection: "db.a", to: "db.b", stayTemp: false, dropTarget?: UUID} */
static struct bv rename_entry(struct op *op, struct coll *from, const char *to, struct coll *target)
{
    struct bw w;

    bw_init(&w, &op->arena);
    bw_str(&w, "renameCollection", from->ns);
    bw_str(&w, "to", to);
    bw_bool(&w, "stayTemp", false);
    if (target != NULL)
        bw_uuid(&w, "dropTarget", target->uuid);
    return bw_done(&w);
}

static int write_rows(struct op *op, struct stx *t, struct coll *renamed, struct coll *target)
{
    (void)op;
    if (target != NULL)
        TRY_RETURN(catalog_remove_row(t, target));
    return catalog_put_row(t, renamed);
}

int ddl_rename_locked(struct op *op, struct coll *from, const char *to, struct coll *target)
{
    struct database *db = op->database;
    struct bv o2 = target == NULL ? BV_NONE : ddl_num_records(op, target);
    struct oplog_op entry =
        ddl_entry(op, from->ns, from->uuid, rename_entry(op, from, to, target), o2);
    struct coll *renamed = coll_copy(from);
    struct stx *t = NULL;
    int rc;

    coll_edit_rename(renamed, to);
    TRY(stx_begin(db->engine, op, &t));
    TRY(write_rows(op, t, renamed, target));
    rc = ddl_commit(op, t, from->ns, &entry, 1);
    t = NULL;
    TRY(rc);
    if (target != NULL)
        catalog_publish(db->catalog, target, NULL, op->wrote_optime);
    catalog_publish(db->catalog, from, renamed, op->wrote_optime);
    return 0;
fail:
    stx_rollback(t);
    coll_unref(renamed);
    return rc;
}

/* --- across databases ------------------------------------------------------------------------ */

/* The next documents behind *rid, copied into the arena; about COPY_BYTES of them. */
static int read_some(struct op *op, struct coll *from, uint64_t *rid, struct bv **ret,
                     size_t *ret_n)
{
    struct stx *t;
    struct tcursor *c = NULL;
    struct bv *docs = ARENA_ARRAY(&op->arena, struct bv, WRITE_GROUP_DOCS);
    size_t n = 0, bytes = 0;
    bool found;
    int rc;

    TRY_RETURN(stx_begin(op->database->engine, op, &t));
    TRY(tcursor_open(t, from->ident, TABLE_RECORDS, &c));
    TRY(tcursor_seek_num(c, *rid, SEEK_GT, &found));
    while (found && n < WRITE_GROUP_DOCS && bytes < COPY_BYTES) {
        docs[n] = bv_dup(&op->arena, bv_doc(tcursor_value(c).p));
        bytes += docs[n++].len;
        *rid = tcursor_num(c);
        TRY(tcursor_next(c, &found));
    }
    rc = 0;
    *ret = docs;
    *ret_n = n;
fail:
    tcursor_close(c);
    stx_rollback(t);
    return rc;
}

static int copy_documents(struct op *op, struct coll *from, struct coll *to)
{
    struct arena kept = op->arena;
    uint64_t rid = 0;
    size_t n = 0;
    int rc;

    /* Each round works in an arena of its own, so that memory does not grow with the copy; and with
     * a writer of its own, which keeps room in that arena. */
    do {
        struct writer w = {.op = op, .ns = to->ns, .coll = to, .logged = true};
        struct bv *docs;
        size_t done;
        int64_t inserted;

        arena_init(&op->arena);
        rc = read_some(op, from, &rid, &docs, &n);
        if (rc == 0 && n > 0)
            rc = write_insert(&w, docs, 0, n, NULL, &done, &inserted);
        arena_fini(&op->arena);
    } while (rc == 0 && n > 0);
    op->arena = kept;
    op->err.info = NULL;
    return rc;
}

static int copy_indexes(struct op *op, struct coll *from, struct coll *to)
{
    struct bv *specs = ARENA_ARRAY(&op->arena, struct bv, from->nindexes);
    size_t n = 0;

    for (uint32_t i = 1; i < from->nindexes; i++)
        specs[n++] = from->indexes[i].spec;
    return n == 0 ? 0 : ddl_add_indexes_locked(op, to, specs, n);
}

/* As MongoDB does it: a temporary collection in the target database is filled and renamed. */
static int rename_across(struct op *op, struct coll *from, const char *to, struct coll *target)
{
    struct database *db = op->database;
    const char *tmp_ns = arena_printf(&op->arena, "%s.tmp%05u.renameCollection", ddl_db_of(op, to),
                                      (unsigned)(oplog_allocated(db->oplog) % 100000));
    struct coll *tmp = NULL;
    int rc;

    TRY_RETURN(ddl_create_locked(op, tmp_ns, from->options));
    TRY(ddl_get(op, tmp_ns, &tmp));
    TRY(copy_indexes(op, from, tmp));
    coll_unref(tmp);
    tmp = NULL;
    TRY(ddl_get(op, tmp_ns, &tmp));
    TRY(copy_documents(op, from, tmp));
    TRY(ddl_rename_locked(op, tmp, to, target));
    TRY(ddl_drop_locked(op, from));
    coll_unref(tmp);
    return 0;
fail:
    /* The temporary collection must not stay; the first error is the one to tell. */
    if (tmp != NULL && coll_is_current(tmp)) {
        struct error err = op->err;

        if (ddl_drop_locked(op, tmp) == 0)
            op->err = err;
    }
    coll_unref(tmp);
    return rc;
}

int ddl_rename(struct op *op, const char *from_ns, const char *to, bool drop_target)
{
    struct database *db = op->database;
    struct coll *from = NULL, *target = NULL;
    struct ddl_locks locks;
    int rc;

    if (strcmp(from_ns, to) == 0)
        return op_fail(op, ERR_ILLEGAL_OPERATION, "Can't rename a collection to itself");
    TRY_RETURN(ddl_lock(op, from_ns, to, &locks));
    from = catalog_get(db->catalog, from_ns);
    if (from == NULL) {
        rc = op_fail(op, ERR_NAMESPACE_NOT_FOUND, "Source collection %s does not exist", from_ns);
        goto fail;
    }
    target = catalog_get(db->catalog, to);
    if (target != NULL && !drop_target) {
        rc = op_fail(op, ERR_NAMESPACE_EXISTS, "target namespace exists");
        goto fail;
    }
    if (strcmp(ddl_db_of(op, from_ns), ddl_db_of(op, to)) == 0)
        rc = ddl_rename_locked(op, from, to, target);
    else
        rc = rename_across(op, from, to, target);
fail:
    coll_unref(from);
    coll_unref(target);
    ddl_unlock(op, &locks);
    return rc;
}
