/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Updates of all three forms applied: to a document that is there, and for an upsert to the
 * document that its filter describes.
 */
#include "query/document.h"
#include "query/update_internal.h"

#define TOO_LARGE_AFTER_UPDATE 17419

static int check_size_and_depth(struct op *op, struct bv doc, bool depth)
{
    if (doc.len > LIMIT_DOC_BYTES)
        return op_fail(op, TOO_LARGE_AFTER_UPDATE,
                       "Resulting document after update is larger than %d", LIMIT_DOC_BYTES);
    if (depth && document_too_deep(doc))
        return op_fail(op, ERR_OVERFLOW, "Document exceeds maximum nested object depth: %d",
                       LIMIT_DEPTH_STORED);
    return 0;
}

/* --- the three forms -------------------------------------------------------------------------- */

static void apply_init(struct update_apply *x, const struct update *u, struct eval *ev,
                       struct bv doc, int32_t position)
{
    x->op = ev->op;
    x->ev = ev;
    x->a = ev->scratch;
    x->u = u;
    x->doc = doc;
    x->position = position;
    x->inserting = false;
    x->candidate_begun = false;
    x->depth = 0;
}

/* A new document takes the old one's _id; one of its own must be equal to it. */
static int keep_id(struct op *op, struct arena *a, struct bv old_doc, struct bv doc,
                   uint64_t now_ts, struct bv *ret)
{
    struct bv old_id = bv_get(old_doc, "_id"), id = bv_get(doc, "_id");

    if (!bv_is_missing(id) && !bv_is_missing(old_id) && bv_cmp(id, old_id) != 0)
        return op_fail(op, ERR_IMMUTABLE_FIELD,
                       "After applying the update, the (immutable) field '_id' was found to have "
                       "been altered to _id: %s",
                       bv_show(a, id, 200));
    return document_with_id(op, a, doc, bv_is_missing(old_id) ? id : old_id, now_ts, ret);
}

/* The pipeline runs in an exec of its own, whose scratch its stages may reset. */
static int run_pipeline(const struct update *u, struct eval *ev, struct bv doc, struct bv *ret)
{
    struct exec x;
    struct bv out = BV_NONE;
    int rc;

    exec_init(&x, ev->op);
    memcpy(x.ev.vars, ev->vars, sizeof(x.ev.vars));
    x.ev.now_ms = ev->now_ms;
    x.ev.cluster_time = ev->cluster_time;
    for (int i = 0; i < u->vars->n; i++) {
        int slot = u->vars->slots[i];

        if (!bv_is_missing(u->vars->values[slot]))
            x.ev.vars[slot] = u->vars->values[slot];
    }
    rc = pipeline_apply_row(u->pipeline, &x, doc, &out);
    if (rc == 0)
        rc = keep_id(ev->op, ev->scratch, doc, out, 0, ret);
    exec_fini(&x);
    return rc;
}

static int wrap_diff(struct op *op, struct arena *a, const struct diff_node *diff, struct bv *ret)
{
    struct bw w;

    bw_init(&w, a);
    bw_i32(&w, "$v", 2);
    diff_write(diff, &w, "diff");
    *ret = bw_done(&w);
    if (bv_is_missing(*ret))
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for an update's oplog entry");
    return 0;
}

static int apply_operators(struct update_apply *x, struct update_result *ret)
{
    struct diff_node *diff = NULL;
    struct bv doc = BV_NONE;

    if (x->u->root->nchildren == 0)
        return 0;
    TRY_RETURN(update_apply_tree(x, &doc, &diff));
    if (diff_node_empty(diff))
        return 0;
    TRY_RETURN(check_size_and_depth(x->op, doc, x->u->may_deepen));
    TRY_RETURN(wrap_diff(x->op, x->a, diff, &ret->entry_o));
    ret->doc = doc;
    ret->changed = true;
    return 0;
}

static int apply_replacement(struct update_apply *x, struct update_result *ret)
{
    struct bv doc = BV_NONE;

    TRY_RETURN(keep_id(x->op, x->a, x->doc, x->u->spec,
                       x->u->keep_empty_ts ? 0 : x->ev->cluster_time, &doc));
    if (bv_identical(doc, x->doc))
        return 0;
    TRY_RETURN(check_size_and_depth(x->op, doc, true));
    *ret = (struct update_result){true, doc, doc, true};
    return 0;
}

static int apply_pipeline(struct update_apply *x, struct update_result *ret)
{
    struct bv doc = BV_NONE, diff = BV_NONE;
    struct bw w;

    TRY_RETURN(run_pipeline(x->u, x->ev, x->doc, &doc));
    if (bv_identical(doc, x->doc))
        return 0;
    TRY_RETURN(check_size_and_depth(x->op, doc, true));
    TRY_RETURN(diff_compute(x->op, x->a, x->doc, doc, &diff));
    *ret = (struct update_result){true, doc, doc, true};
    if (bv_is_missing(diff))
        return 0;
    bw_init(&w, x->a);
    bw_i32(&w, "$v", 2);
    bw_bv(&w, "diff", diff);
    ret->entry_o = bw_done(&w);
    ret->is_replacement = false;
    if (bv_is_missing(ret->entry_o))
        return op_fail(x->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for an update's oplog entry");
    return 0;
}

int update_apply(const struct update *u, struct eval *ev, struct bv old_doc, int32_t position,
                 struct update_result *ret)
{
    struct update_apply x;

    apply_init(&x, u, ev, old_doc, position);
    *ret = (struct update_result){false, old_doc, BV_NONE, false};
    switch (u->form) {
    case UPDATE_OPERATORS:
        return apply_operators(&x, ret);
    case UPDATE_REPLACEMENT:
        return apply_replacement(&x, ret);
    case UPDATE_PIPELINE:
        return apply_pipeline(&x, ret);
    }
    return 0;
}

/* --- upserts ---------------------------------------------------------------------------------- */

/* The fields that a filter pins to one value, as a tree of $set leaves. */
static int collect_equalities(struct update_parser *p, const struct match *m)
{
    static const struct update_op pinned = {"$set", NULL, update_set, CREATES};
    struct update_leaf *l = NULL;

    switch (match_kind(m)) {
    case MATCH_EQ:
        return update_add_leaf(p, &pinned, match_path(m), match_value(m), &l);
    case MATCH_AND:
    case MATCH_ALL:
        break;
    case MATCH_OR:
        if (match_nchildren(m) == 1)
            break;
        return 0;
    default:
        return 0;
    }
    for (size_t i = 0; i < match_nchildren(m); i++)
        TRY_RETURN(collect_equalities(p, match_child(m, i)));
    return 0;
}

static int not_single(struct op *op, const struct update_leaf *later,
                      const struct update_leaf *prefix)
{
    if (later == prefix || strcmp(later->path, prefix->path) == 0)
        return op_fail(op, ERR_NOT_SINGLE_VALUE_FIELD,
                       "cannot infer query fields to set, path '%s' is matched twice",
                       prefix->path);
    return op_fail(op, ERR_NOT_SINGLE_VALUE_FIELD,
                   "cannot infer query fields to set, both paths '%s' and '%s' are matched",
                   later->path, prefix->path);
}

/* The document that the filter's equalities describe; of a replacement's filter only the _id. */
static int filter_doc(struct eval *ev, const struct match *filter, bool only_id, struct bv *ret)
{
    struct update u = {.form = UPDATE_OPERATORS};
    struct update_parser p = {.op = ev->op, .a = ev->scratch, .u = &u};
    const struct update_leaf *later = NULL, *prefix = NULL;
    struct update_apply x;
    struct diff_node *diff = NULL;
    size_t n = 0;

    TRY_RETURN(collect_equalities(&p, filter));
    for (size_t i = 0; only_id && i < p.nleaves; i++) {
        if (strcmp(p.leaves[i]->path, "_id") == 0)
            p.leaves[n++] = p.leaves[i];
    }
    if (only_id)
        p.nleaves = n;
    TRY_RETURN(update_build_tree(&p, &u.root, &later, &prefix));
    if (later != NULL)
        return not_single(ev->op, later, prefix);
    apply_init(&x, &u, ev, bv_empty_doc, -1);
    return update_apply_tree(&x, ret, &diff);
}

int update_upsert_doc(const struct update *u, struct eval *ev, const struct match *filter,
                      struct bv *ret)
{
    struct bv base = BV_NONE, doc = BV_NONE;
    struct diff_node *diff = NULL;
    struct update_apply x;

    TRY_RETURN(filter_doc(ev, filter, u->form == UPDATE_REPLACEMENT, &base));
    switch (u->form) {
    case UPDATE_OPERATORS:
        apply_init(&x, u, ev, base, -1);
        x.inserting = true;
        TRY_RETURN(update_apply_tree(&x, &doc, &diff));
        break;
    case UPDATE_REPLACEMENT:
        TRY_RETURN(keep_id(ev->op, ev->scratch, base, u->spec, 0, &doc));
        break;
    case UPDATE_PIPELINE:
        TRY_RETURN(run_pipeline(u, ev, base, &doc));
        break;
    }
    return document_prepare(ev->op, ev->scratch, doc, 0, ret);
}
