/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Applying projections, in passes over one document:
 *   1. included fields are kept, or excluded ones dropped, in the document's order;
 *   2. computed fields replace the field of their name or are appended in the order of the spec;
 *      expressions see the original document;
 *   3. $slice and the positional operator cut arrays of the result.
 * Arrays on a path are entered element by element. A pass that has nothing to do is left out.
 *
 * Recursion is bounded by the depth of documents and of specifications.
 */
#include "base/bw.h"
#include "base/limits.h"
#include "query/projection_internal.h"

struct apply {
    const struct projection *p;
    struct eval *ev;
    struct bv root; /* the original document */
    struct bw w;
};

int projection_done(struct op *op, struct bw *w, struct bv *ret)
{
    struct bv doc = bw_done(w);

    if (bv_is_missing(doc))
        return op_fail(op, ERR_BSON_TOO_LARGE, "a projected document is too large or too deep");
    *ret = doc;
    return 0;
}

/* --- pass 1 ------------------------------------------------------------------------------------
 */

static void keep_doc(struct apply *x, const struct pnode *p, struct bv doc);

static void keep_value(struct apply *x, const struct pnode *p, const struct belem *e)
{
    struct biter it = biter(e->v);
    struct belem v;

    if (e->v.type == BV_DOC) {
        bw_doc_beginn(&x->w, e->key, e->key_len);
        keep_doc(x, p, e->v);
        bw_end(&x->w);
    } else if (e->v.type == BV_ARRAY) {
        bw_arr_beginn(&x->w, e->key, e->key_len);
        while (biter_next(&it, &v))
            keep_value(x, p, &v);
        bw_end(&x->w);
    } else if (!x->p->inclusion) {
        bw_elem(&x->w, e);
    }
}

static void keep_doc(struct apply *x, const struct pnode *p, struct bv doc)
{
    struct biter it = biter(doc);
    struct belem e;

    while (biter_next(&it, &e)) {
        const struct pnode *c = pnode_child(p, e.key, e.key_len);

        if (c == NULL) {
            if (!x->p->inclusion)
                bw_elem(&x->w, &e);
        } else if (c->kind == PNODE_INCLUDE) {
            bw_elem(&x->w, &e);
        } else if (c->kind == PNODE_TREE) {
            keep_value(x, c, &e);
        }
    }
}

/* --- pass 2 ------------------------------------------------------------------------------------
 */

static int compute_doc(struct apply *x, const struct pnode *p, struct bv doc);

static int elem_match(struct apply *x, const struct pnode *c, const char *key, size_t len)
{
    struct bv array = bv_getn(x->root, c->name, c->len);
    struct biter it = biter(array);
    struct belem e;
    int32_t position = -1;
    bool hit = false;

    if (array.type != BV_ARRAY)
        return 0;
    TRY_RETURN(match_test(c->elem_match, x->ev, x->root, &hit, &position));
    if (!hit)
        return 0;
    for (int32_t i = 0; biter_next(&it, &e); i++) {
        if (i == position) {
            bw_arr_beginn(&x->w, key, len);
            bw_bv(&x->w, NULL, e.v);
            bw_end(&x->w);
        }
    }
    return 0;
}

/* Fields below a path are set in documents, in every element of arrays, and in place of others. */
static int compute_below(struct apply *x, const struct pnode *c, const char *key, size_t len,
                         struct bv v)
{
    struct biter it = biter(v);
    struct belem e;

    if (v.type == BV_ARRAY) {
        bw_arr_beginn(&x->w, key, len);
        while (biter_next(&it, &e))
            TRY_RETURN(compute_below(x, c, NULL, 0, e.v));
    } else {
        bw_doc_beginn(&x->w, key, len);
        TRY_RETURN(compute_doc(x, c, v.type == BV_DOC ? v : bv_empty_doc));
    }
    bw_end(&x->w);
    return 0;
}

static int compute_child(struct apply *x, const struct pnode *c, struct bv v)
{
    struct bv result = BV_NONE;

    if (c->kind == PNODE_ELEM_MATCH)
        return elem_match(x, c, c->name, c->len);
    if (c->kind == PNODE_TREE)
        return compute_below(x, c, c->name, c->len, v);
    TRY_RETURN(expr_eval(c->expr, x->ev, &result));
    bw_bvn(&x->w, c->name, c->len, result);
    return 0;
}

static int compute_doc(struct apply *x, const struct pnode *p, struct bv doc)
{
    struct biter it = biter(doc);
    struct belem e;
    const struct pnode *id = p == &x->p->root ? pnode_child(p, "_id", 3) : NULL;
    bool id_first = id != NULL && id->computed && bv_is_missing(bv_get(doc, "_id"));

    if (id_first)
        TRY_RETURN(compute_child(x, id, BV_NONE));
    while (biter_next(&it, &e)) {
        const struct pnode *c = pnode_child(p, e.key, e.key_len);

        if (c != NULL && c->computed)
            TRY_RETURN(compute_child(x, c, e.v));
        else
            bw_elem(&x->w, &e);
    }
    for (uint32_t i = 0; i < p->n; i++) {
        const struct pnode *c = p->children[i];

        TRY_RETURN(op_work(x->ev->op, doc.len));
        if (c->computed && !(id_first && c == id) && bv_is_missing(bv_getn(doc, c->name, c->len)))
            TRY_RETURN(compute_child(x, c, BV_NONE));
    }
    return 0;
}

int projection_apply(const struct projection *p, struct eval *ev, struct bv doc, struct bv *ret)
{
    struct apply x = {.p = p, .ev = ev, .root = doc};
    struct bv out = doc;

    TRY_RETURN(op_work(ev->op, doc.len));
    if (p->plain) {
        bw_init(&x.w, ev->scratch);
        keep_doc(&x, &p->root, out);
        TRY_RETURN(projection_done(ev->op, &x.w, &out));
    }
    if (p->root.computed) {
        struct bv root = ev->root, current = ev->current;
        int rc;

        ev->root = ev->current = doc;
        bw_init(&x.w, ev->scratch);
        rc = compute_doc(&x, &p->root, out);
        ev->root = root;
        ev->current = current;
        TRY_RETURN(rc);
        TRY_RETURN(projection_done(ev->op, &x.w, &out));
    }
    for (const struct pslice *s = p->slices; s != NULL; s = s->next)
        TRY_RETURN(projection_slice(ev->op, ev->scratch, s, out, &out));
    if (p->positional != NULL)
        TRY_RETURN(projection_positional(p, ev, doc, out, &out));
    *ret = out;
    return 0;
}

static void modified(const struct pnode *p, void (*fn)(void *arg, const char *path), void *arg)
{
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->children[i]->kind != PNODE_INCLUDE)
            fn(arg, p->children[i]->name);
    }
}

void projection_modified_paths(const struct projection *p, void (*fn)(void *arg, const char *path),
                               void *arg)
{
    if (p->inclusion) {
        fn(arg, "");
        return;
    }
    modified(&p->root, fn, arg);
    for (const struct pslice *s = p->slices; s != NULL; s = s->next)
        fn(arg, s->path->parts[0].name);
}
