/* SPDX-License-Identifier: GPL-3.0-or-later */
/* renameCollection: a catalog change within a database, copy and drop across two. */
#include "base/fault.h"
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

/* The options, with `temp` or without it. */
static struct bv options_with(struct op *op, struct bv options, bool temp)
{
    struct biter it = biter(options);
    struct belem e;
    struct bw w;

    bw_init(&w, &op->arena);
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "temp") != 0)
            bw_elem(&w, &e);
    }
    if (temp)
        bw_bool(&w, "temp", true);
    return bw_done(&w);
}

struct rename {
    struct coll *from;
    const char *to;
    struct coll *target; /* had the name `to`, and goes; NULL: none */
    struct coll *source; /* `from` is its copy, so it goes; NULL: none */
};

static int write_rows(struct stx *t, const struct rename *r, struct coll *renamed)
{
    if (r->target != NULL)
        TRY_RETURN(catalog_remove_row(t, r->target));
    if (r->source != NULL)
        TRY_RETURN(catalog_remove_row(t, r->source));
    return catalog_put_row(t, renamed);
}

static void publish(struct op *op, const struct rename *r, struct coll *renamed)
{
    struct catalog *c = op->database->catalog;

    if (r->target != NULL)
        catalog_publish(c, r->target, NULL, op->wrote_optime);
    catalog_publish(c, r->from, renamed, op->wrote_optime);
    if (r->source != NULL)
        catalog_publish(c, r->source, NULL, op->wrote_optime);
}

/* All that a rename changes, in one transaction: no name is ever missing or there twice. */
static int commit_rename(struct op *op, const struct rename *r)
{
    struct coll *from = r->from, *renamed = coll_copy(from);
    struct bv o2 = r->target == NULL ? BV_NONE : ddl_num_records(op, r->target);
    struct oplog_op entries[2];
    struct stx *t = NULL;
    size_t n = 0;
    int rc;

    entries[n++] =
        ddl_entry(op, from->ns, from->uuid, rename_entry(op, from, r->to, r->target), o2);
    if (r->source != NULL)
        entries[n++] = ddl_drop_entry(op, r->source);
    coll_edit_rename(renamed, r->to);
    coll_edit_options(renamed, options_with(op, from->options, false));
    TRY(stx_begin(op->database->engine, op, &t));
    TRY(write_rows(t, r, renamed));
    FAULT(DDL_RENAME_BEFORE_COMMIT);
    rc = ddl_commit(op, t, from->ns, entries, n);
    t = NULL;
    TRY(rc);
    publish(op, r, renamed);
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
        TRY(op_dup(op, &op->arena, bv_doc(tcursor_value(c).p), &docs[n]));
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
        struct bv *docs = NULL;
        size_t done;
        int64_t inserted;

        arena_init(&op->arena);
        rc = read_some(op, from, &rid, &docs, &n);
        FAULT(RENAME_COPY);
        if (rc == 0 && n > 0)
            rc = write_insert(&w, docs, 0, n, NULL, &done, &inserted);
        arena_fini(&op->arena);
    } while (rc == 0 && n > 0);
    op->arena = kept;
    op->err->info = NULL;
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

/* As MongoDB does it: a temporary collection in the target database is filled and renamed. A death
 * before that leaves it to the next start (ddl_drop_temporary()). */
static int rename_across(struct op *op, struct coll *from, const char *to, struct coll *target)
{
    struct database *db = op->database;
    const char *tmp_ns = arena_printf(&op->arena, "%s.tmp%05u.renameCollection", ddl_db_of(op, to),
                                      (unsigned)(oplog_allocated(db->oplog) % 100000));
    struct rename r = {.to = to, .target = target, .source = from};
    struct coll *tmp = NULL;
    int rc;

    TRY_RETURN(ddl_create_locked(op, tmp_ns, options_with(op, from->options, true)));
    TRY(ddl_get(op, tmp_ns, &tmp));
    TRY(copy_indexes(op, from, tmp));
    coll_unref(tmp);
    tmp = NULL;
    TRY(ddl_get(op, tmp_ns, &tmp));
    TRY(copy_documents(op, from, tmp));
    r.from = tmp;
    TRY(commit_rename(op, &r));
    coll_unref(tmp);
    return 0;
fail:
    /* The temporary collection must not stay; the first error is the one to tell. */
    if (tmp != NULL && coll_is_current(tmp)) {
        struct error err = *op->err;

        if (ddl_drop_locked(op, tmp) == 0)
            *op->err = err;
    }
    coll_unref(tmp);
    return rc;
}

static int check_names(struct op *op, const char *from, const char *to)
{
    if (strcmp(from, to) == 0)
        return op_fail(op, ERR_ILLEGAL_OPERATION, "Can't rename a collection to itself");
    if ((strncmp(from, "local.", 6) == 0) != (strncmp(to, "local.", 6) == 0))
        return op_fail(
            op, ERR_ILLEGAL_OPERATION,
            "Cannot rename collections between a replicated and an unreplicated database");
    return 0;
}

int ddl_rename(struct op *op, const char *from_ns, const char *to, bool drop_target)
{
    struct database *db = op->database;
    struct coll *from = NULL, *target = NULL;
    struct ddl_locks locks;
    int rc;

    TRY_RETURN(check_names(op, from_ns, to));
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
        rc = commit_rename(op, &(struct rename){.from = from, .to = to, .target = target});
    else
        rc = rename_across(op, from, to, target);
fail:
    coll_unref(from);
    coll_unref(target);
    ddl_unlock(op, &locks);
    return rc;
}
