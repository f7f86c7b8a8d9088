/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Set operators: arrays as sets, by BSON comparison. Results are in BSON order, each value once. */
#include <stdlib.h>

#include "query/expr_op.h"

struct set {
    struct bv *v; /* sorted, unique */
    uint32_t n;
};

static int cmp_values(const void *a, const void *b)
{
    return bv_cmp(*(const struct bv *)a, *(const struct bv *)b);
}

static void sort_unique(struct set *s)
{
    uint32_t n = 0;

    if (s->n > 1)
        qsort(s->v, s->n, sizeof(*s->v), cmp_values);
    for (uint32_t i = 0; i < s->n; i++) {
        if (n == 0 || bv_cmp(s->v[n - 1], s->v[i]) != 0)
            s->v[n++] = s->v[i];
    }
    s->n = n;
}

static bool set_has(const struct set *s, struct bv v)
{
    return s->n > 0 && bsearch(&v, s->v, s->n, sizeof(*s->v), cmp_values) != NULL;
}

static int make_set(struct eval *ev, struct bv array, struct set *ret)
{
    TRY_RETURN(expr_elements(ev, array, &ret->v, &ret->n));
    sort_unique(ret);
    return 0;
}

static int write_set(struct eval *ev, const struct set *s, struct bv *ret)
{
    struct bw w;

    bw_init_array(&w, ev->scratch);
    for (uint32_t i = 0; i < s->n; i++)
        bw_bv(&w, NULL, s->v[i]);
    return expr_done(ev, &w, ret);
}

/* Operand i as an array; *ret_null when it is null or missing. */
static int array_arg(const struct expr *e, struct eval *ev, uint32_t i, int code, struct bv *ret,
                     bool *ret_null)
{
    TRY_RETURN(expr_eval(e->args[i], ev, ret));
    *ret_null = bv_is_nullish(*ret);
    if (!*ret_null && ret->type != BV_ARRAY)
        return op_fail(ev->op, code,
                       "All operands of %s must be arrays. One argument is of type: %s",
                       expr_name(e), bv_type_name(ret->type));
    return 0;
}

int eval_set_union(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct set all;
    struct bv v;
    struct bw w;
    bool null;

    bw_init_array(&w, ev->scratch);
    for (uint32_t i = 0; i < e->nargs; i++) {
        TRY_RETURN(array_arg(e, ev, i, 17043, &v, &null));
        if (null) {
            *ret = bv_null;
            return 0;
        }
        bw_fields(&w, v);
    }
    TRY_RETURN(expr_done(ev, &w, &v));
    TRY_RETURN(make_set(ev, v, &all));
    return write_set(ev, &all, ret);
}

int eval_set_intersection(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct set common = {0};

    for (uint32_t i = 0; i < e->nargs; i++) {
        struct set next;
        struct bv v;
        uint32_t n = 0;
        bool null;

        TRY_RETURN(array_arg(e, ev, i, 17047, &v, &null));
        if (null) {
            *ret = bv_null;
            return 0;
        }
        TRY_RETURN(make_set(ev, v, &next));
        if (i == 0) {
            common = next;
            continue;
        }
        for (uint32_t j = 0; j < common.n; j++) {
            if (set_has(&next, common.v[j]))
                common.v[n++] = common.v[j];
        }
        common.n = n;
    }
    return write_set(ev, &common, ret);
}

/* Keeps the order of the first operand. */
int eval_set_difference(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct set all, without, seen;
    struct biter it;
    struct belem el;
    struct bv x, y;
    bool null_x, null_y;
    struct bw w;

    TRY_RETURN(array_arg(e, ev, 0, 17048, &x, &null_x));
    TRY_RETURN(array_arg(e, ev, 1, 17049, &y, &null_y));
    if (null_x || null_y) {
        *ret = bv_null;
        return 0;
    }
    TRY_RETURN(make_set(ev, y, &without));
    TRY_RETURN(make_set(ev, x, &all));
    /* `seen` marks members of `all` by setting them missing once they were written. */
    seen.n = all.n;
    seen.v = arena_try(ev->scratch, all.n * sizeof(*all.v));
    if (seen.v == NULL)
        return op_no_memory(ev->op);
    if (all.n > 0)
        memcpy(seen.v, all.v, all.n * sizeof(*all.v));
    bw_init_array(&w, ev->scratch);
    it = biter(x);
    while (biter_next(&it, &el)) {
        const struct bv *at = bsearch(&el.v, all.v, all.n, sizeof(*all.v), cmp_values);

        ASSERT(at != NULL);
        if (bv_is_missing(seen.v[at - all.v]) || set_has(&without, el.v))
            continue;
        seen.v[at - all.v] = BV_NONE;
        bw_bv(&w, NULL, el.v);
    }
    return expr_done(ev, &w, ret);
}

/* Operands that may not be null. */
static int strict_set(const struct expr *e, struct eval *ev, uint32_t i, int code, struct set *ret)
{
    struct bv v;

    TRY_RETURN(expr_eval(e->args[i], ev, &v));
    if (v.type != BV_ARRAY)
        return op_fail(ev->op, code,
                       "All operands of %s must be arrays. Argument %u is of type: %s",
                       expr_name(e), i + 1, bv_type_name(v.type));
    return make_set(ev, v, ret);
}

int eval_set_equals(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct set first, next;

    *ret = bv_true;
    TRY_RETURN(strict_set(e, ev, 0, 17044, &first));
    for (uint32_t i = 1; i < e->nargs; i++) {
        TRY_RETURN(strict_set(e, ev, i, 17044, &next));
        if (next.n != first.n)
            *ret = bv_false;
        for (uint32_t j = 0; j < next.n && next.n == first.n; j++) {
            if (bv_cmp(next.v[j], first.v[j]) != 0)
                *ret = bv_false;
        }
    }
    return 0;
}

int eval_set_is_subset(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct set part, whole;

    TRY_RETURN(strict_set(e, ev, 0, 17046, &part));
    TRY_RETURN(strict_set(e, ev, 1, 17042, &whole));
    *ret = bv_true;
    for (uint32_t i = 0; i < part.n; i++) {
        if (!set_has(&whole, part.v[i]))
            *ret = bv_false;
    }
    return 0;
}

static int elements_true(const struct expr *e, struct eval *ev, int code, bool all, struct bv *ret)
{
    struct bv array;
    struct biter it;
    struct belem el;

    TRY_RETURN(expr_eval(e->args[0], ev, &array));
    if (array.type != BV_ARRAY)
        return op_fail(ev->op, code, "%s's argument must be an array, but is %s", expr_name(e),
                       bv_type_name(array.type));
    *ret = bv_new_bool(all);
    it = biter(array);
    while (biter_next(&it, &el)) {
        if (bv_truthy(el.v) != all) {
            *ret = bv_new_bool(!all);
            break;
        }
    }
    return 0;
}

int eval_all_elements_true(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return elements_true(e, ev, 17040, true, ret);
}

int eval_any_element_true(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return elements_true(e, ev, 17041, false, ret);
}
