/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Array operators: elements, slices, searching, building. Those with variables: expr_map.c. */
#include "query/expr_op.h"

/* A number that must fit into an int32. */
static int int_arg(const struct expr *e, struct eval *ev, struct bv v, const char *what,
                   int code_type, int code_range, int64_t *ret)
{
    if (!bv_is_number(v))
        return op_fail(ev->op, code_type, "%s's %s argument must be a numeric value, but is %s",
                       expr_name(e), what, bv_type_name(v.type));
    if (!bv_to_i64_exact(v, ret) || *ret > INT32_MAX || *ret < INT32_MIN)
        return op_fail(ev->op, code_range,
                       "%s's %s argument must be representable as a 32-bit integer: %s",
                       expr_name(e), what, bv_show(ev->scratch, v, 64));
    return 0;
}

/* Element i of an array, counted from the end when negative; missing when there is none. */
static struct bv element_at(struct bv array, int64_t i)
{
    struct biter it = biter(array);
    struct belem e;

    if (i < 0)
        i += bv_count(array);
    if (i < 0)
        return BV_NONE;
    while (biter_next(&it, &e)) {
        if (i-- == 0)
            return e.v;
    }
    return BV_NONE;
}

int eval_array_elem_at(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv array, index;
    int64_t i;

    TRY_RETURN(expr_eval(e->args[0], ev, &array));
    TRY_RETURN(expr_eval(e->args[1], ev, &index));
    if (bv_is_nullish(array) || bv_is_nullish(index)) {
        *ret = bv_null;
        return 0;
    }
    if (array.type != BV_ARRAY)
        return op_fail(ev->op, 28689, "$arrayElemAt's first argument must be an array, but is %s",
                       bv_type_name(array.type));
    TRY_RETURN(int_arg(e, ev, index, "second", 28690, 28691, &i));
    *ret = element_at(array, i);
    return 0;
}

static int end_of(const struct expr *e, struct eval *ev, int64_t i, struct bv *ret)
{
    struct bv array;

    TRY_RETURN(expr_eval(e->args[0], ev, &array));
    if (bv_is_nullish(array)) {
        *ret = bv_null;
        return 0;
    }
    if (array.type != BV_ARRAY)
        return op_fail(ev->op, 28689, "%s's argument must be an array, but is %s", expr_name(e),
                       bv_type_name(array.type));
    *ret = element_at(array, i);
    return 0;
}

int eval_first(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return end_of(e, ev, 0, ret);
}

int eval_last(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return end_of(e, ev, -1, ret);
}

int eval_concat_arrays(const struct expr *e, struct eval *ev, struct bv *ret)
{
    bool null = false;
    struct bw w;

    bw_init_array(&w, ev->scratch);
    for (uint32_t i = 0; i < e->nargs; i++) {
        struct bv v;

        TRY_RETURN(expr_eval(e->args[i], ev, &v));
        if (bv_is_nullish(v))
            null = true;
        else if (v.type != BV_ARRAY)
            return op_fail(ev->op, 28664, "$concatArrays only supports arrays, not %s",
                           bv_type_name(v.type));
        else
            bw_fields(&w, v);
        if (null)
            break;
    }
    if (null) {
        *ret = bv_null;
        return 0;
    }
    return expr_done(ev, &w, ret);
}

int eval_in(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv v, array;
    struct biter it;
    struct belem el;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    TRY_RETURN(expr_eval(e->args[1], ev, &array));
    if (array.type != BV_ARRAY)
        return op_fail(ev->op, 40081, "$in requires an array as a second argument, found: %s",
                       bv_type_name(array.type));
    *ret = bv_false;
    it = biter(array);
    while (biter_next(&it, &el)) {
        if (!bv_is_missing(v) && bv_cmp(el.v, v) == 0) {
            *ret = bv_true;
            break;
        }
    }
    return 0;
}

/* Optional start and end of a search: whole numbers >= 0. */
int expr_search_bound(const struct expr *e, struct eval *ev, uint32_t i, const char *what,
                      int64_t *ret)
{
    struct bv v;
    int64_t n;

    if (i >= e->nargs)
        return 0;
    TRY_RETURN(expr_eval(e->args[i], ev, &v));
    if (!bv_to_i64_exact(v, &n) || n > INT32_MAX || n < INT32_MIN)
        return op_fail(
            ev->op, 40096,
            "%s requires an integral %s index, found a value of type: %s, with value: %s",
            expr_name(e), what, bv_type_name(v.type), bv_show(ev->scratch, v, 64));
    if (n < 0)
        return op_fail(ev->op, 40097, "%s requires a nonnegative %s index, found: %lld",
                       expr_name(e), what, (long long)n);
    *ret = n;
    return 0;
}

int eval_index_of_array(const struct expr *e, struct eval *ev, struct bv *ret)
{
    int64_t start = 0, end = INT64_MAX, found = -1, i = 0;
    struct bv array, v;
    struct biter it;
    struct belem el;

    TRY_RETURN(expr_eval(e->args[0], ev, &array));
    if (bv_is_nullish(array)) {
        *ret = bv_null;
        return 0;
    }
    if (array.type != BV_ARRAY)
        return op_fail(ev->op, 40090,
                       "$indexOfArray requires an array as a first argument, found: %s",
                       bv_type_name(array.type));
    TRY_RETURN(expr_eval(e->args[1], ev, &v));
    TRY_RETURN(expr_search_bound(e, ev, 2, "starting", &start));
    TRY_RETURN(expr_search_bound(e, ev, 3, "ending", &end));
    it = biter(array);
    for (; found < 0 && i < end && biter_next(&it, &el); i++) {
        if (i >= start && !bv_is_missing(v) && bv_cmp(el.v, v) == 0)
            found = i;
    }
    *ret = bv_new_i32(ev->scratch, (int32_t)found);
    return 0;
}

int eval_range(const struct expr *e, struct eval *ev, struct bv *ret)
{
    static const char *const what[] = {"starting", "ending", "step"};
    int64_t n[3] = {0, 0, 1};
    struct bw w;

    for (uint32_t i = 0; i < e->nargs; i++) {
        struct bv v;

        TRY_RETURN(expr_eval(e->args[i], ev, &v));
        TRY_RETURN(int_arg(e, ev, v, what[i], 34443 + 2 * (int)i, 34444 + 2 * (int)i, &n[i]));
    }
    if (n[2] == 0)
        return op_fail(ev->op, 34449, "$range requires a non-zero step value");
    bw_init_array(&w, ev->scratch);
    for (uint32_t turn = 0; n[2] > 0 ? n[0] < n[1] : n[0] > n[1]; n[0] += n[2]) {
        bw_i32(&w, NULL, (int32_t)n[0]);
        TRY_RETURN(expr_tick(ev, turn++));
        if (w.failed)
            break;
    }
    return expr_done(ev, &w, ret);
}

int eval_reverse_array(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv array, *list;
    struct bw w;
    uint32_t n;

    TRY_RETURN(expr_eval(e->args[0], ev, &array));
    if (bv_is_nullish(array)) {
        *ret = bv_null;
        return 0;
    }
    if (array.type != BV_ARRAY)
        return op_fail(ev->op, 34435,
                       "The argument to $reverseArray must be an array, but was of type: %s",
                       bv_type_name(array.type));
    TRY_RETURN(expr_elements(ev, array, &list, &n));
    bw_init_array(&w, ev->scratch);
    while (n > 0)
        bw_bv(&w, NULL, list[--n]);
    return expr_done(ev, &w, ret);
}

int eval_size(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv array;

    TRY_RETURN(expr_eval(e->args[0], ev, &array));
    if (array.type != BV_ARRAY)
        return op_fail(ev->op, 17124, "The argument to $size must be an array, but was of type: %s",
                       bv_type_name(array.type));
    *ret = bv_new_i32(ev->scratch, (int32_t)bv_count(array));
    return 0;
}

/* The elements from..from+n of an array. */
static int slice(struct eval *ev, struct bv array, int64_t from, int64_t n, struct bv *ret)
{
    struct biter it = biter(array);
    struct belem e;
    struct bw w;

    bw_init_array(&w, ev->scratch);
    for (int64_t i = 0; i < from + n && biter_next(&it, &e); i++) {
        if (i >= from)
            bw_bv(&w, NULL, e.v);
    }
    return expr_done(ev, &w, ret);
}

int eval_slice(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv array, v[2];
    int64_t n[2], size, from = 0;

    TRY_RETURN(expr_eval(e->args[0], ev, &array));
    for (uint32_t i = 1; i < e->nargs; i++)
        TRY_RETURN(expr_eval(e->args[i], ev, &v[i - 1]));
    if (bv_is_nullish(array) || bv_is_nullish(v[0]) || (e->nargs == 3 && bv_is_nullish(v[1]))) {
        *ret = bv_null;
        return 0;
    }
    if (array.type != BV_ARRAY)
        return op_fail(ev->op, 28724,
                       "First argument to $slice must be an array, but is of type: %s",
                       bv_type_name(array.type));
    TRY_RETURN(int_arg(e, ev, v[0], "second", 28725, 28726, &n[0]));
    size = bv_count(array);
    if (e->nargs == 2) {
        if (n[0] < 0) {
            from = size + n[0] > 0 ? size + n[0] : 0;
            n[0] = -n[0];
        }
        return slice(ev, array, from, n[0], ret);
    }
    TRY_RETURN(int_arg(e, ev, v[1], "third", 28727, 28728, &n[1]));
    if (n[1] <= 0)
        return op_fail(ev->op, 28729, "Third argument to $slice must be positive: %lld",
                       (long long)n[1]);
    from = n[0] >= 0 ? n[0] : size + n[0] > 0 ? size + n[0] : 0;
    return slice(ev, array, from, n[1], ret);
}

/* --- $zip
 * ----------------------------------------------------------------------------------------- */

/* args: inputs..., defaults...; data: {number of inputs, use the longest} */
struct zip {
    uint32_t ninputs, ndefaults;
    bool longest;
};

static int parse_zip_list(struct expr_parser *p, struct bv v, int code, const char *what,
                          struct expr **args, uint32_t *ret_n)
{
    struct biter it = biter(v);
    struct belem e;

    if (v.type != BV_ARRAY)
        return op_fail(p->op, code, "%s must be an array of expressions, found %s", what,
                       bv_type_name(v.type));
    while (biter_next(&it, &e)) {
        TRY_RETURN(expr_parse_operand(p, e.v, &args[*ret_n]));
        ++*ret_n;
    }
    return 0;
}

int parse_zip(struct expr_parser *p, struct bv spec, struct expr *e)
{
    struct bv inputs = BV_NONE, defaults = BV_NONE;
    struct zip *zip = ARENA_NEW(p->a, struct zip);
    struct biter it = biter(spec);
    struct belem el;

    if (spec.type != BV_DOC)
        return op_fail(p->op, 34460, "$zip only supports an object as an argument, found %s",
                       bv_type_name(spec.type));
    while (biter_next(&it, &el)) {
        if (strcmp(el.key, "inputs") == 0) {
            inputs = el.v;
        } else if (strcmp(el.key, "defaults") == 0) {
            defaults = el.v;
        } else if (strcmp(el.key, "useLongestLength") == 0) {
            if (el.v.type != BV_BOOL)
                return op_fail(p->op, 34463, "useLongestLength must be a bool, found %s",
                               bv_type_name(el.v.type));
            zip->longest = bv_bool(el.v);
        } else {
            return op_fail(p->op, 34464, "$zip found an unknown argument: %s", el.key);
        }
    }
    if (bv_is_missing(inputs) || (inputs.type == BV_ARRAY && bv_empty(inputs)))
        return op_fail(p->op, 34465, "$zip requires at least one input array");
    e->data = zip;
    e->args = arena_try(p->a, sizeof(struct expr *) * (bv_count(inputs) + bv_count(defaults) + 1));
    if (e->args == NULL)
        return op_fail(p->op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory parsing an expression");
    TRY_RETURN(parse_zip_list(p, inputs, 34461, "inputs", e->args, &zip->ninputs));
    if (!bv_is_missing(defaults))
        TRY_RETURN(parse_zip_list(p, defaults, 34462, "defaults", e->args + zip->ninputs,
                                  &zip->ndefaults));
    e->nargs = zip->ninputs + zip->ndefaults;
    if (zip->ndefaults > 0 && !zip->longest)
        return op_fail(p->op, 34466, "cannot specify defaults unless useLongestLength is true");
    if (zip->ndefaults > 0 && zip->ndefaults != zip->ninputs)
        return op_fail(p->op, 34467, "defaults and inputs must have the same length");
    return 0;
}

int eval_zip(const struct expr *e, struct eval *ev, struct bv *ret)
{
    const struct zip *zip = e->data;
    struct biter *its = arena_try(ev->scratch, zip->ninputs * sizeof(*its));
    struct bv *defaults = arena_try(ev->scratch, zip->ninputs * sizeof(*defaults));
    uint32_t length = zip->longest ? 0 : UINT32_MAX;
    struct bw w;

    if (its == NULL || defaults == NULL)
        return op_fail(ev->op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory in $zip");
    for (uint32_t i = 0; i < zip->ninputs; i++) {
        struct bv v;
        uint32_t n;

        TRY_RETURN(expr_eval(e->args[i], ev, &v));
        if (bv_is_nullish(v)) {
            *ret = bv_null;
            return 0;
        }
        if (v.type != BV_ARRAY)
            return op_fail(ev->op, 34468, "$zip found a non-array expression in input: %s",
                           bv_show(ev->scratch, v, 64));
        n = bv_count(v);
        if (zip->longest ? n > length : n < length)
            length = n;
        its[i] = biter(v);
        defaults[i] = bv_null;
        if (zip->ndefaults > 0)
            TRY_RETURN(expr_eval(e->args[zip->ninputs + i], ev, &defaults[i]));
    }
    bw_init_array(&w, ev->scratch);
    for (uint32_t row = 0; row < length; row++) {
        struct belem el;

        TRY_RETURN(expr_tick(ev, row));
        bw_arr_begin(&w, NULL);
        for (uint32_t i = 0; i < zip->ninputs; i++) {
            struct bv v = biter_next(&its[i], &el) ? el.v : defaults[i];

            bw_bv(&w, NULL, bv_is_missing(v) ? bv_null : v);
        }
        bw_end(&w);
    }
    return expr_done(ev, &w, ret);
}
