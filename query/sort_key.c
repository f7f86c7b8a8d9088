/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "query/sort_key.h"

#include <string.h>

#include "query/expr_op.h"

static int parse_direction(struct op *op, const struct belem *e, bool *ret_descending)
{
    int64_t n;

    if (e->v.type == BV_DOC) {
        if (!bv_is_missing(bv_get(e->v, "$meta")))
            return op_fail(op, ERR_NOT_IMPLEMENTED, "sorting by $meta is not supported yet");
        return op_fail(op, 17312, "$meta is the only expression supported by $sort right now");
    }
    if (!bv_is_number(e->v)) {
        char *shown = bv_show(&op->arena, e->v, 128);

        return op_fail(op, 15974, "Illegal key in $sort specification: %s: %s", e->key, shown);
    }
    if (!bv_to_i64_exact(e->v, &n) || (n != 1 && n != -1))
        return op_fail(op, 15975,
                       "$sort key ordering must be 1 (for ascending) or -1 (for descending)");
    *ret_descending = n < 0;
    return 0;
}

int sort_spec_parse(struct op *op, struct arena *a, struct bv doc, struct sort_spec *ret)
{
    struct biter it = biter(doc);
    struct belem e;

    memset(ret, 0, sizeof(*ret));
    if (doc.type != BV_DOC)
        return op_fail(op, 15973, "the $sort key specification must be an object");
    while (biter_next(&it, &e)) {
        struct sort_part *part = &ret->parts[ret->n];
        struct expr_path path;

        if (ret->n == SORT_KEYS_MAX)
            return op_fail(op, ERR_BAD_VALUE, "too many compound keys");
        TRY_RETURN(parse_direction(op, &e, &part->descending));
        TRY_RETURN(expr_parse_path(op, a, e.key, e.key_len, &path));
        part->names = path.names;
        part->lens = path.lens;
        part->nnames = path.n;
        ret->n++;
    }
    return 0;
}

/* Where the walk along one part's path stands. */
struct walk {
    struct bv v;
    uint32_t at; /* names already followed */
    bool final;  /* v is the key, even if it is an array */
};

struct expansion {
    const struct sort_spec *spec;
    struct op *op;
    struct bv *best;
    bool have;
};

static bool part_is_index(const struct sort_part *part, uint32_t at)
{
    for (uint32_t i = 0; i < part->lens[at]; i++) {
        if (part->names[at][i] < '0' || part->names[at][i] > '9')
            return false;
    }
    return true;
}

/* Follows the path until its end or an array whose elements must be tried; true: the latter. */
static bool advance(const struct sort_part *part, struct walk *w)
{
    while (!w->final && w->at < part->nnames) {
        if (w->v.type == BV_ARRAY) {
            struct bv element = BV_NONE;

            if (part_is_index(part, w->at))
                element = bv_getn(w->v, part->names[w->at], part->lens[w->at]);
            if (bv_is_missing(element))
                return true;
            w->v = element;
            w->at++;
            continue;
        }
        w->v = w->v.type == BV_DOC ? bv_getn(w->v, part->names[w->at], part->lens[w->at]) : BV_NONE;
        w->at++;
        if (bv_is_missing(w->v))
            w->final = true;
    }
    if (!w->final && w->v.type == BV_ARRAY)
        return true;
    w->final = true;
    return false;
}

static void consider(struct expansion *x, const struct walk *walks)
{
    struct bv keys[SORT_KEYS_MAX];

    for (uint32_t i = 0; i < x->spec->n; i++)
        keys[i] = bv_is_missing(walks[i].v) ? bv_null : walks[i].v;
    if (x->have && sort_keys_cmp(x->spec, x->best, keys) <= 0)
        return;
    memcpy(x->best, keys, x->spec->n * sizeof(keys[0]));
    x->have = true;
}

/* One walk, with the array it stands at replaced by an element of it (BV_NONE: it has none). */
static struct walk enter(const struct sort_part *part, struct walk w, struct bv element, bool empty)
{
    bool leaf = w.at == part->nnames;

    w.v = element;
    if (leaf) {
        w.final = true;
        if (empty)
            w.v = bv_undefined;
    } else if (element.type != BV_DOC) {
        w.v = BV_NONE;
        w.final = true;
    }
    return w;
}

/* Tries every element of the first array that a walk meets. Each level of recursion follows a path
 * by one name at least, and paths are bounded. */
static int expand(struct expansion *x, const struct walk *from)
{
    const struct sort_spec *spec = x->spec;
    struct walk walks[SORT_KEYS_MAX], inner[SORT_KEYS_MAX];
    bool stuck[SORT_KEYS_MAX];
    struct bv array = BV_NONE;
    struct biter it;
    struct belem e;

    for (uint32_t i = 0; i < spec->n; i++) {
        walks[i] = from[i];
        stuck[i] = advance(&spec->parts[i], &walks[i]);
        if (!stuck[i])
            continue;
        if (!bv_is_missing(array) && array.p != walks[i].v.p)
            return op_fail(x->op, ERR_BAD_VALUE, "cannot sort with keys that are parallel arrays");
        array = walks[i].v;
    }
    if (bv_is_missing(array)) {
        consider(x, walks);
        return 0;
    }
    TRY_RETURN(op_work(x->op, array.len));
    it = biter(array);
    e.v = BV_NONE;
    for (bool empty = bv_empty(array); empty || biter_next(&it, &e);) {
        for (uint32_t i = 0; i < spec->n; i++)
            inner[i] = stuck[i] ? enter(&spec->parts[i], walks[i], e.v, empty) : walks[i];
        TRY_RETURN(expand(x, inner));
        if (empty)
            break;
    }
    return 0;
}

/* False when an array is met. */
static bool plain_key(const struct sort_part *part, struct bv v, struct bv *ret)
{
    for (uint32_t i = 0; i < part->nnames; i++) {
        if (v.type != BV_DOC) {
            v = BV_NONE;
            break;
        }
        v = bv_getn(v, part->names[i], part->lens[i]);
        if (v.type == BV_ARRAY)
            return false;
    }
    *ret = bv_is_missing(v) ? bv_null : v;
    return true;
}

int sort_keys(const struct sort_spec *spec, struct op *op, struct bv doc, struct bv *ret_keys)
{
    struct walk walks[SORT_KEYS_MAX];
    struct expansion x = {.spec = spec, .op = op, .best = ret_keys};
    uint32_t i = 0;

    while (i < spec->n && plain_key(&spec->parts[i], doc, &ret_keys[i]))
        i++;
    if (i == spec->n)
        return 0;
    for (i = 0; i < spec->n; i++)
        walks[i] = (struct walk){.v = doc};
    return expand(&x, walks);
}

int sort_keys_cmp(const struct sort_spec *spec, const struct bv *a, const struct bv *b)
{
    for (uint32_t i = 0; i < spec->n; i++) {
        int c = bv_cmp(a[i], b[i]);

        if (c != 0)
            return spec->parts[i].descending ? -c : c;
    }
    return 0;
}
