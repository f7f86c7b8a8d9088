/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Cutting arrays of a projected document: $slice and the positional operator of find. */
#include "base/bw.h"
#include "query/projection_internal.h"

struct cut {
    struct op *op;
    struct bw w;
    const struct doc_path *path;
    int64_t skip, limit; /* of a slice */
    bool positional;
    int32_t position; /* of the element that the filter matched; -1: none */
};

static int cut_doc(struct cut *x, uint32_t part, struct bv doc);

static void slice_range(const struct cut *x, int64_t n, int64_t *from, int64_t *to)
{
    int64_t skip = x->skip;

    if (skip < 0)
        skip = n + skip < 0 ? 0 : n + skip;
    *from = skip < n ? skip : n;
    *to = x->limit < n - *from ? *from + x->limit : n;
}

static void copy_range(struct cut *x, struct bv array, int64_t from, int64_t to)
{
    struct biter it = biter(array);
    struct belem e;

    for (int64_t i = 0; i < to && biter_next(&it, &e); i++) {
        if (i >= from)
            bw_bv(&x->w, NULL, e.v);
    }
}

/* The first array on the path shrinks to its matched element. */
static int cut_to_position(struct cut *x, struct bv array)
{
    if (x->position < 0)
        return op_fail(x->op, 51246,
                       "positional operator '.$' couldn't find a matching element in the array");
    if ((uint32_t)x->position >= bv_count(array))
        return op_fail(x->op, 51247, "positional operator '.$' element mismatch");
    copy_range(x, array, x->position, (int64_t)x->position + 1);
    return 0;
}

static int cut_array(struct cut *x, uint32_t part, struct bv array)
{
    struct biter it = biter(array);
    struct belem e;
    int64_t from, to;

    if (x->positional)
        return cut_to_position(x, array);
    if (part == x->path->n) {
        slice_range(x, bv_count(array), &from, &to);
        copy_range(x, array, from, to);
        return 0;
    }
    while (biter_next(&it, &e)) {
        if (e.v.type == BV_DOC) {
            bw_doc_begin(&x->w, NULL);
            TRY_RETURN(cut_doc(x, part, e.v));
            bw_end(&x->w);
        } else {
            bw_bv(&x->w, NULL, e.v);
        }
    }
    return 0;
}

static int cut_doc(struct cut *x, uint32_t part, struct bv doc)
{
    const struct path_part *name = &x->path->parts[part];
    struct biter it = biter(doc);
    struct belem e;

    while (biter_next(&it, &e)) {
        bool here = e.key_len == name->len && memcmp(e.key, name->name, name->len) == 0;

        if (here && e.v.type == BV_ARRAY) {
            bw_arr_beginn(&x->w, e.key, e.key_len);
            TRY_RETURN(cut_array(x, part + 1, e.v));
            bw_end(&x->w);
        } else if (here && e.v.type == BV_DOC && part + 1 < x->path->n) {
            bw_doc_beginn(&x->w, e.key, e.key_len);
            TRY_RETURN(cut_doc(x, part + 1, e.v));
            bw_end(&x->w);
        } else {
            bw_elem(&x->w, &e);
        }
    }
    return 0;
}

int projection_slice(struct op *op, struct arena *a, const struct pslice *s, struct bv doc,
                     struct bv *ret)
{
    struct cut x = {.op = op, .path = s->path, .skip = s->skip, .limit = s->limit};

    bw_init(&x.w, a);
    TRY_RETURN(cut_doc(&x, 0, doc));
    return projection_done(op, &x.w, ret);
}

int projection_positional(const struct projection *p, struct eval *ev, struct bv original,
                          struct bv doc, struct bv *ret)
{
    struct cut x = {.op = ev->op, .path = p->positional, .positional = true, .position = -1};
    bool hit;

    TRY_RETURN(match_test(p->filter, ev, original, &hit, &x.position));
    bw_init(&x.w, ev->scratch);
    TRY_RETURN(cut_doc(&x, 0, doc));
    return projection_done(ev->op, &x.w, ret);
}
