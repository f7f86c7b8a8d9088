/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collMod: change-stream images of a collection, hidden indexes. */
#include "base/fault.h"
#include "query/ddl_internal.h"

struct change {
    struct op *op;
    struct coll *old, *now;
    const struct ddl_collmod *m;
    struct index *index; /* of `old`; NULL: none is changed */
    bool hidden;         /* what the index becomes */
};

/* The options as they will be: an enabled image setting is recorded, a disabled one is absent. */
static struct bv new_options(struct change *c)
{
    struct biter it = biter(c->old->options);
    struct belem e;
    struct bw w;

    bw_init(&w, &c->op->arena);
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "changeStreamPreAndPostImages") != 0)
            bw_elem(&w, &e);
    }
    if (c->m->images) {
        bw_doc_begin(&w, "changeStreamPreAndPostImages");
        bw_bool(&w, "enabled", true);
        bw_end(&w);
    }
    return bw_done(&w);
}

static int find_index(struct change *c)
{
    struct op *op = c->op;
    struct bv name = bv_get(c->m->index, "name"), key = bv_get(c->m->index, "keyPattern");

    if (bv_is_missing(name) == bv_is_missing(key))
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "Must specify either index name or key pattern, and not both");
    if (name.type == BV_STRING)
        c->index = coll_index_by_name(c->old, bv_str(name, NULL));
    else if (key.type == BV_DOC)
        c->index = coll_index_by_key(c->old, key);
    if (c->index == NULL)
        return op_fail(op, ERR_INDEX_NOT_FOUND, "cannot find index %s for ns %s",
                       bv_show(&op->arena, bv_is_missing(name) ? key : name, 200), c->old->ns);
    return 0;
}

static int parse_index(struct change *c)
{
    struct op *op = c->op;
    struct biter it = biter(c->m->index);
    struct belem e;
    bool given = false;

    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "hidden") == 0) {
            if (e.v.type != BV_BOOL)
                return op_fail(op, ERR_TYPE_MISMATCH,
                               "BSON field 'collMod.index.hidden' is the wrong type '%s', expected "
                               "type 'bool'",
                               bv_type_name(e.v.type));
            c->hidden = bv_bool(e.v);
            given = true;
        } else if (strcmp(e.key, "name") != 0 && strcmp(e.key, "keyPattern") != 0) {
            return op_fail(op, ERR_NOT_IMPLEMENTED, "'collMod.index.%s' is not supported yet",
                           e.key);
        }
    }
    if (!given)
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "no expireAfterSeconds, hidden, unique, or prepareUnique field");
    TRY_RETURN(find_index(c));
    if (c->index->is_id && c->hidden)
        return op_fail(op, ERR_BAD_VALUE, "can't hide _id index");
    return 0;
}

static struct bv hidden_spec(struct change *c)
{
    struct biter it = biter(c->index->spec);
    struct belem e;
    struct bw w;

    bw_init(&w, &c->op->arena);
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "hidden") != 0)
            bw_elem(&w, &e);
    }
    if (c->hidden)
        bw_bool(&w, "hidden", true);
    return bw_done(&w);
}

/* {collMod: "c", changeStreamPreAndPostImages?, index?: {name, hidden}} */
static struct bv entry_o(struct change *c)
{
    struct bw w;

    bw_init(&w, &c->op->arena);
    bw_str(&w, "collMod", c->old->name);
    if (c->m->has_images) {
        bw_doc_begin(&w, "changeStreamPreAndPostImages");
        bw_bool(&w, "enabled", c->m->images);
        bw_end(&w);
    }
    if (c->index != NULL) {
        bw_doc_begin(&w, "index");
        bw_str(&w, "name", c->index->name);
        bw_bool(&w, "hidden", c->hidden);
        bw_end(&w);
    }
    return bw_done(&w);
}

/* {collectionOptions_old: {uuid, ...}, indexOptions_old?: {hidden}} */
static struct bv entry_o2(struct change *c)
{
    struct bw w;

    bw_init(&w, &c->op->arena);
    bw_doc_begin(&w, "collectionOptions_old");
    bw_uuid(&w, "uuid", c->old->uuid);
    bw_fields(&w, c->old->options);
    bw_end(&w);
    if (c->index != NULL) {
        bw_doc_begin(&w, "indexOptions_old");
        bw_bool(&w, "hidden", c->index->hidden);
        bw_end(&w);
    }
    return bw_done(&w);
}

static int apply(struct change *c, struct bw *w)
{
    struct op *op = c->op;
    struct database *db = op->database;
    struct oplog_op entry;
    struct stx *t = NULL;
    int rc;

    if (c->m->index.type == BV_DOC)
        TRY_RETURN(parse_index(c));
    entry = ddl_entry(op, c->old->ns, c->old->uuid, entry_o(c), entry_o2(c));
    c->now = coll_copy(c->old);
    if (c->m->has_images)
        coll_edit_options(c->now, new_options(c));
    if (c->index != NULL)
        coll_edit_index_spec(c->now, c->index->name, hidden_spec(c));
    TRY(stx_begin(db->engine, op, &t));
    TRY(catalog_put_row(t, c->now));
    FAULT(COLL_MOD);
    rc = ddl_commit(op, t, c->old->ns, &entry, 1);
    t = NULL;
    TRY(rc);
    if (c->index != NULL) {
        bw_bool(w, "hidden_old", c->index->hidden);
        bw_bool(w, "hidden_new", c->hidden);
    }
    catalog_publish(db->catalog, c->old, c->now, c->op->wrote_optime);
    return 0;
fail:
    stx_rollback(t);
    coll_unref(c->now);
    return rc;
}

int ddl_collmod(struct op *op, const char *ns, const struct ddl_collmod *m, struct bw *w)
{
    struct change c = {.op = op, .m = m};
    struct ddl_locks locks;
    int rc;

    TRY_RETURN(ddl_lock(op, ns, NULL, &locks));
    rc = ddl_get(op, ns, &c.old);
    if (rc == 0)
        rc = apply(&c, w);
    coll_unref(c.old);
    ddl_unlock(op, &locks);
    return rc;
}
