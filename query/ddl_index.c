/* SPDX-License-Identifier: GPL-3.0-or-later */
/* createIndexes and dropIndexes. Builds run under the collection's exclusive lock (trap T12). */
#include <sys/random.h>

#include "base/fault.h"
#include "base/limits.h"
#include "query/ddl_internal.h"
#include "storage/record_write.h"

/* --- entries --------------------------------------------------------------------------------- */

struct bv ddl_index_doc(struct op *op, struct coll *k, struct bv spec)
{
    struct bw w;

    bw_init(&w, &op->arena);
    bw_str(&w, "createIndexes", k->name);
    bw_fields(&w, spec);
    return bw_done(&w);
}

/* {startIndexBuild|commitIndexBuild|abortIndexBuild: "c", indexBuildUUID, indexes: [...], cause?}
 */
static struct bv build_entry(struct op *op, const char *what, struct coll *k,
                             const uint8_t uuid[16], const struct bv *specs, size_t n,
                             const struct error *cause)
{
    char name[32];
    struct bw w;

    bw_init(&w, &op->arena);
    bw_str(&w, what, k->name);
    bw_uuid(&w, "indexBuildUUID", uuid);
    bw_arr_begin(&w, "indexes");
    for (size_t i = 0; i < n; i++)
        bw_bv(&w, NULL, specs[i]);
    bw_end(&w);
    if (cause != NULL) {
        bw_doc_begin(&w, "cause");
        bw_bool(&w, "ok", false);
        bw_i32(&w, "code", cause->code);
        bw_str(&w, "codeName", error_name(cause->code, name));
        bw_str(&w, "errmsg", cause->text);
        bw_end(&w);
    }
    return bw_done(&w);
}

static int log_only(struct op *op, struct coll *k, struct bv o)
{
    struct oplog_op entry = ddl_entry(op, k->ns, k->uuid, o, BV_NONE);
    struct stx *t;

    TRY_RETURN(stx_begin(op->database->engine, op, &t));
    return ddl_commit(op, t, k->ns, &entry, 1);
}

/* --- building -------------------------------------------------------------------------------- */

struct build {
    struct op *op;
    struct coll *old, *now;
    const struct bv *specs;
    size_t n;
    bool two_phase; /* the collection has documents */
    uint8_t uuid[16];
};

/* The new indexes are the last n of `now`. */
static struct index *built_index(struct build *b, size_t i)
{
    return &b->now->indexes[b->now->nindexes - b->n + i];
}

static int fill(struct build *b)
{
    struct op *op = b->op;
    struct engine *e = op->database->engine;
    int rc;

    for (size_t i = 0; i < b->n; i++) {
        struct index *ix = built_index(b, i);

        TRY_RETURN(engine_table_create(e, ix->ident, TABLE_BYTES, true, op->err));
        if (b->two_phase)
            TRY_RETURN(index_build(e, op, b->now, ix));
    }
    rc = FAULT_ERROR(INDEX_BUILD);
    return rc == 0 ? 0 : op_fail(op, rc, "fault point in an index build");
}

static int commit_build(struct build *b)
{
    struct op *op = b->op;
    struct oplog_op *entries = ARENA_ARRAY(&op->arena, struct oplog_op, b->n);
    size_t n = b->two_phase ? 1 : b->n;
    struct stx *t;
    int rc;

    if (b->two_phase) {
        struct bv o = build_entry(op, "commitIndexBuild", b->old, b->uuid, b->specs, b->n, NULL);

        entries[0] = ddl_entry(op, b->old->ns, b->old->uuid, o, BV_NONE);
    } else {
        for (size_t i = 0; i < b->n; i++)
            entries[i] = ddl_entry(op, b->old->ns, b->old->uuid,
                                   ddl_index_doc(op, b->old, b->specs[i]), BV_NONE);
    }
    TRY_RETURN(stx_begin(op->database->engine, op, &t));
    rc = catalog_put_row(t, b->now);
    if (rc != 0) {
        stx_rollback(t);
        return rc;
    }
    return ddl_commit(op, t, b->old->ns, entries, n);
}

int ddl_add_indexes_locked(struct op *op, struct coll *k, const struct bv *specs, size_t n)
{
    struct database *db = op->database;
    struct build b = {.op = op, .old = k, .specs = specs, .n = n};
    struct error err;
    bool started = false;
    int rc;

    b.two_phase = atomic_load(&k->counters->count) > 0;
    b.now = coll_copy(k);
    for (size_t i = 0; i < n; i++)
        coll_edit_add_index(b.now, specs[i]);
    ASSERT(getrandom(b.uuid, sizeof(b.uuid), 0) == sizeof(b.uuid));
    b.uuid[6] = (uint8_t)((b.uuid[6] & 0x0f) | 0x40);
    b.uuid[8] = (uint8_t)((b.uuid[8] & 0x3f) | 0x80);
    if (b.two_phase) {
        TRY(log_only(op, k, build_entry(op, "startIndexBuild", k, b.uuid, specs, n, NULL)));
        started = true;
        FAULT(INDEX_BUILD_START);
    }
    TRY(fill(&b));
    TRY(commit_build(&b));
    catalog_publish(db->catalog, k, b.now, op->wrote_optime);
    return 0;
fail:
    FAULT(INDEX_BUILD_ABORT);
    err = *op->err;
    for (size_t i = 0; i < n; i++)
        catalog_add_dead(db->catalog, built_index(&b, i)->ident);
    /* That the abort is not logged changes nothing that a reader relies on. */
    if (started &&
        log_only(op, k, build_entry(op, "abortIndexBuild", k, b.uuid, specs, n, &err)) == 0)
        *op->err = err;
    *op->err = err;
    coll_unref(b.now);
    return rc;
}

int ddl_new_specs(struct op *op, struct coll *k, struct bv given, bool ignore_unknown,
                  struct bv *ret, size_t *ret_n)
{
    struct biter it = biter(given);
    struct belem e;
    size_t n = 0;

    while (biter_next(&it, &e)) {
        struct bv spec;
        bool same = false;

        TRY_RETURN(index_spec_complete(op, k->ns, e.v, ignore_unknown, &spec));
        TRY_RETURN(index_spec_compare(op, k, spec, &same));
        for (size_t i = 0; i < n && !same; i++) {
            same = bv_identical(ret[i], spec);
            if (!same && (bv_cmp_docs(bv_get(ret[i], "key"), bv_get(spec, "key")) == 0 ||
                          bv_cmp(bv_get(ret[i], "name"), bv_get(spec, "name")) == 0))
                return op_fail(op, ERR_INDEX_KEY_SPECS_CONFLICT,
                               "Identical index already specified in the same command: %s",
                               bv_show(&op->arena, spec, 300));
        }
        if (!same)
            ret[n++] = spec;
    }
    if (k->nindexes + n > LIMIT_INDEXES)
        return op_fail(op, ERR_CANNOT_CREATE_INDEX,
                       "add index fails, too many indexes for collection %s", k->ns);
    *ret_n = n;
    return 0;
}

/* Checks every spec against nothing, so that a bad one creates no collection. */
static int check_specs(struct op *op, const char *ns, struct bv specs, bool ignore_unknown)
{
    struct biter it = biter(specs);
    struct belem e;
    struct bv spec;

    if (bv_empty(specs))
        return op_fail(op, ERR_BAD_VALUE, "Must specify at least one index to create");
    while (biter_next(&it, &e))
        TRY_RETURN(index_spec_complete(op, ns, e.v, ignore_unknown, &spec));
    return 0;
}

int ddl_create_indexes(struct op *op, const char *ns, struct bv specs, bool ignore_unknown,
                       struct ddl_index_result *ret)
{
    struct bv *todo = ARENA_TRY_ARRAY(&op->arena, struct bv, bv_count(specs) + 1);
    struct ddl_locks locks;
    struct coll *k = NULL;
    size_t n = 0;
    int rc;

    memset(ret, 0, sizeof(*ret));
    if (todo == NULL)
        return op_no_memory(op);
    TRY_RETURN(check_specs(op, ns, specs, ignore_unknown));
    if (bv_count(specs) >= LIMIT_INDEXES)
        return op_fail(op, ERR_CANNOT_CREATE_INDEX,
                       "add index fails, too many indexes for collection %s", ns);
    if (op->txn != NULL)
        return ddl_create_indexes_in_txn(op, ns, specs, ignore_unknown, ret);
    TRY_RETURN(ddl_lock(op, ns, NULL, &locks));
    k = catalog_get(op->database->catalog, ns);
    if (k == NULL) {
        TRY(ddl_create_locked(op, ns, bv_empty_doc));
        ret->created_collection = true;
        TRY(ddl_get(op, ns, &k));
    }
    TRY(ddl_new_specs(op, k, specs, ignore_unknown, todo, &n));
    if (n > 0)
        TRY(ddl_add_indexes_locked(op, k, todo, n));
    ret->before = k->nindexes;
    ret->after = k->nindexes + (uint32_t)n;
    rc = 0;
fail:
    coll_unref(k);
    ddl_unlock(op, &locks);
    return rc;
}

/* --- dropping -------------------------------------------------------------------------------- */

static int mark_index(struct op *op, struct coll *k, struct index *ix, struct bv what, bool *marked)
{
    if (ix == NULL && what.type == BV_DOC)
        return op_fail(op, ERR_INDEX_NOT_FOUND, "can't find index with key: %s",
                       bv_show(&op->arena, what, 200));
    if (ix == NULL)
        return op_fail(op, ERR_INDEX_NOT_FOUND, "index not found with name [%s]",
                       bv_str(what, NULL));
    if (ix->is_id)
        return op_fail(op, ERR_INVALID_OPTIONS, "cannot drop _id index");
    marked[ix - k->indexes] = true;
    return 0;
}

/* Which indexes to drop. */
static int mark(struct op *op, struct coll *k, struct bv which, bool *marked)
{
    struct biter it = biter(which);
    struct belem e;

    if (bv_str_is(which, "*")) {
        for (uint32_t i = 0; i < k->nindexes; i++)
            marked[i] = !k->indexes[i].is_id;
        return 0;
    }
    if (which.type == BV_STRING)
        return mark_index(op, k, coll_index_by_name(k, bv_str(which, NULL)), which, marked);
    if (which.type == BV_DOC)
        return mark_index(op, k, coll_index_by_key(k, which), which, marked);
    while (biter_next(&it, &e)) {
        if (e.v.type != BV_STRING)
            return op_fail(op, ERR_TYPE_MISMATCH,
                           "dropIndexes %s has a non-string element in 'index'", k->ns);
        TRY_RETURN(mark_index(op, k, coll_index_by_name(k, bv_str(e.v, NULL)), e.v, marked));
    }
    return 0;
}

static int drop_marked(struct op *op, struct coll *k, const bool *marked)
{
    struct database *db = op->database;
    struct oplog_op *entries = ARENA_ARRAY(&op->arena, struct oplog_op, k->nindexes);
    struct coll *now = coll_copy(k);
    struct stx *t = NULL;
    size_t n = 0;
    int rc;

    for (uint32_t i = 0; i < k->nindexes; i++) {
        struct bw w;

        if (!marked[i])
            continue;
        bw_init(&w, &op->arena);
        bw_str(&w, "dropIndexes", k->name);
        bw_str(&w, "index", k->indexes[i].name);
        entries[n++] = ddl_entry(op, k->ns, k->uuid, bw_done(&w), k->indexes[i].spec);
        coll_edit_drop_index(now, k->indexes[i].name);
    }
    if (n == 0) {
        coll_unref(now);
        return 0;
    }
    TRY(stx_begin(db->engine, op, &t));
    TRY(catalog_put_row(t, now));
    rc = ddl_commit(op, t, k->ns, entries, n);
    t = NULL;
    TRY(rc);
    catalog_publish(db->catalog, k, now, op->wrote_optime);
    return 0;
fail:
    stx_rollback(t);
    coll_unref(now);
    return rc;
}

int ddl_drop_indexes(struct op *op, const char *ns, struct bv which, uint32_t *ret_before)
{
    bool marked[LIMIT_INDEXES] = {false};
    struct ddl_locks locks;
    struct coll *k;
    int rc;

    TRY_RETURN(ddl_lock(op, ns, NULL, &locks));
    k = catalog_get(op->database->catalog, ns);
    if (k == NULL) {
        rc = op_fail(op, ERR_NAMESPACE_NOT_FOUND, "ns not found %s", ns);
        goto fail;
    }
    TRY(mark(op, k, which, marked));
    *ret_before = k->nindexes;
    rc = drop_marked(op, k, marked);
fail:
    coll_unref(k);
    ddl_unlock(op, &locks);
    return rc;
}
