/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Array operators that bind variables or order: $map, $filter, $reduce, $sortArray. */
#include <stdlib.h>

#include "query/expr_op.h"
#include "query/sort_key.h"

/* What $map, $filter and $reduce have in common: a spec's fields by position. */
struct field {
    const char *name;
    int missing; /* code; 0: optional */
    struct bv v;
};

static int read_fields(struct expr_parser *p, const struct expr *e, struct bv spec, int not_object,
                       int unknown, struct field *fields, size_t n)
{
    struct biter it = biter(spec);
    struct belem el;

    if (spec.type != BV_DOC)
        return op_fail(p->op, not_object, "%s only supports an object as its argument",
                       expr_name(e));
    while (biter_next(&it, &el)) {
        size_t i = 0;

        while (i < n && strcmp(el.key, fields[i].name) != 0)
            i++;
        if (i == n)
            return op_fail(p->op, unknown, "Unrecognized parameter to %s: %s", expr_name(e),
                           el.key);
        fields[i].v = el.v;
    }
    for (size_t i = 0; i < n; i++) {
        if (bv_is_missing(fields[i].v) && fields[i].missing != 0)
            return op_fail(p->op, fields[i].missing, "Missing '%s' parameter to %s", fields[i].name,
                           expr_name(e));
    }
    return 0;
}

/* Declares the variable that `as` names ("this" when missing). */
static int declare(struct expr_parser *p, struct bv as, int *ret_slot)
{
    const char *name = "this";

    if (!bv_is_missing(as)) {
        if (as.type != BV_STRING)
            return op_fail(p->op, ERR_TYPE_MISMATCH, "'as' must be a string, not %s",
                           bv_type_name(as.type));
        TRY_RETURN(expr_cstr(p, as, &name));
        TRY_RETURN(expr_check_var_name(p->op, name));
    }
    return expr_scope_add(p, name, ret_slot);
}

static void set_args(struct expr_parser *p, struct expr *e, uint32_t nargs, uint32_t nslots)
{
    e->nargs = nargs;
    e->args = ARENA_ARRAY(p->a, struct expr *, nargs);
    e->data = ARENA_ARRAY(p->a, int, nslots);
}

/* --- $map: args input, in
 * ---------------------------------------------------------------------------- */

int parse_map(struct expr_parser *p, struct bv spec, struct expr *e)
{
    struct field f[] = {{"input", 16880, BV_NONE}, {"as", 0, BV_NONE}, {"in", 16882, BV_NONE}};
    int mark = expr_scope_begin(p);

    TRY_RETURN(read_fields(p, e, spec, 16878, 16879, f, 3));
    set_args(p, e, 2, 1);
    TRY_RETURN(expr_parse_operand(p, f[0].v, &e->args[0]));
    TRY_RETURN(declare(p, f[1].v, e->data));
    TRY_RETURN(expr_parse_operand(p, f[2].v, &e->args[1]));
    expr_scope_end(p, mark);
    return 0;
}

int eval_map(const struct expr *e, struct eval *ev, struct bv *ret)
{
    int slot = *(int *)e->data;
    struct bv input, v;
    struct biter it;
    struct belem el;
    struct bw w;

    TRY_RETURN(expr_eval(e->args[0], ev, &input));
    if (bv_is_nullish(input)) {
        *ret = bv_null;
        return 0;
    }
    if (input.type != BV_ARRAY)
        return op_fail(ev->op, 16883, "input to $map must be an array not %s",
                       bv_type_name(input.type));
    bw_init_array(&w, ev->scratch);
    it = biter(input);
    for (uint32_t i = 0; biter_next(&it, &el); i++) {
        TRY_RETURN(expr_tick(ev, i));
        ev->vars[slot] = el.v;
        TRY_RETURN(expr_eval(e->args[1], ev, &v));
        bw_bv(&w, NULL, bv_is_missing(v) ? bv_null : v);
    }
    return expr_done(ev, &w, ret);
}

/* --- $filter: args input, cond, limit or NULL
 * -------------------------------------------------------- */

int parse_filter(struct expr_parser *p, struct bv spec, struct expr *e)
{
    struct field f[] = {{"input", 28648, BV_NONE},
                        {"as", 0, BV_NONE},
                        {"cond", 28650, BV_NONE},
                        {"limit", 0, BV_NONE}};
    int mark = expr_scope_begin(p);

    TRY_RETURN(read_fields(p, e, spec, 28646, 28647, f, 4));
    set_args(p, e, 3, 1);
    TRY_RETURN(expr_parse_operand(p, f[0].v, &e->args[0]));
    if (!bv_is_missing(f[3].v))
        TRY_RETURN(expr_parse_operand(p, f[3].v, &e->args[2]));
    TRY_RETURN(declare(p, f[1].v, e->data));
    TRY_RETURN(expr_parse_operand(p, f[2].v, &e->args[1]));
    expr_scope_end(p, mark);
    return 0;
}

static int filter_limit(const struct expr *e, struct eval *ev, int64_t *ret)
{
    struct bv v;

    *ret = INT64_MAX;
    TRY_RETURN(expr_arg(e, 2, ev, &v));
    if (bv_is_nullish(v))
        return 0;
    if (!bv_to_i64_exact(v, ret) || *ret > INT32_MAX || *ret < INT32_MIN)
        return op_fail(ev->op, 327391,
                       "$filter: limit must be represented as a 32-bit integral value: %s",
                       bv_show(ev->scratch, v, 64));
    if (*ret < 1)
        return op_fail(ev->op, 327392, "$filter: limit must be greater than 0: %lld",
                       (long long)*ret);
    return 0;
}

int eval_filter(const struct expr *e, struct eval *ev, struct bv *ret)
{
    int slot = *(int *)e->data;
    struct bv input, v;
    struct biter it;
    struct belem el;
    struct bw w;
    int64_t left;

    TRY_RETURN(expr_eval(e->args[0], ev, &input));
    if (bv_is_nullish(input)) {
        *ret = bv_null;
        return 0;
    }
    if (input.type != BV_ARRAY)
        return op_fail(ev->op, 28651, "input to $filter must be an array not %s",
                       bv_type_name(input.type));
    TRY_RETURN(filter_limit(e, ev, &left));
    bw_init_array(&w, ev->scratch);
    it = biter(input);
    for (uint32_t i = 0; left > 0 && biter_next(&it, &el); i++) {
        TRY_RETURN(expr_tick(ev, i));
        ev->vars[slot] = el.v;
        TRY_RETURN(expr_eval(e->args[1], ev, &v));
        if (!bv_truthy(v))
            continue;
        bw_bv(&w, NULL, el.v);
        left--;
    }
    return expr_done(ev, &w, ret);
}

/* --- $reduce: args input, initialValue, in
 * ------------------------------------------------------------ */

int parse_reduce(struct expr_parser *p, struct bv spec, struct expr *e)
{
    struct field f[] = {
        {"input", 40077, BV_NONE}, {"initialValue", 40078, BV_NONE}, {"in", 40079, BV_NONE}};
    int mark = expr_scope_begin(p), *slots;

    TRY_RETURN(read_fields(p, e, spec, 40075, 40076, f, 3));
    set_args(p, e, 3, 2);
    slots = e->data;
    TRY_RETURN(expr_parse_operand(p, f[0].v, &e->args[0]));
    TRY_RETURN(expr_parse_operand(p, f[1].v, &e->args[1]));
    TRY_RETURN(expr_scope_add(p, "this", &slots[0]));
    TRY_RETURN(expr_scope_add(p, "value", &slots[1]));
    TRY_RETURN(expr_parse_operand(p, f[2].v, &e->args[2]));
    expr_scope_end(p, mark);
    return 0;
}

int eval_reduce(const struct expr *e, struct eval *ev, struct bv *ret)
{
    const int *slots = e->data;
    struct bv input, v;
    struct biter it;
    struct belem el;

    TRY_RETURN(expr_eval(e->args[0], ev, &input));
    if (bv_is_nullish(input)) {
        *ret = bv_null;
        return 0;
    }
    if (input.type != BV_ARRAY)
        return op_fail(ev->op, 40080, "$reduce requires that 'input' be an array, found: %s",
                       bv_show(ev->scratch, input, 64));
    TRY_RETURN(expr_eval(e->args[1], ev, &v));
    it = biter(input);
    for (uint32_t i = 0; biter_next(&it, &el); i++) {
        TRY_RETURN(expr_tick(ev, i));
        ev->vars[slots[0]] = el.v;
        ev->vars[slots[1]] = v;
        TRY_RETURN(expr_eval(e->args[2], ev, &v));
    }
    *ret = v;
    return 0;
}

/* --- $sortArray: args input; data: the pattern
 * -------------------------------------------------------- */

struct sort_array {
    struct sort_spec spec; /* n == 0: by whole values */
    bool descending;
};

int parse_sort_array(struct expr_parser *p, struct bv spec, struct expr *e)
{
    struct field f[] = {{"input", 2942502, BV_NONE}, {"sortBy", 2942503, BV_NONE}};
    struct sort_array *sa = ARENA_NEW(p->a, struct sort_array);
    int64_t n;

    TRY_RETURN(read_fields(p, e, spec, 2942500, 2942501, f, 2));
    set_args(p, e, 1, 0);
    e->data = sa;
    TRY_RETURN(expr_parse_operand(p, f[0].v, &e->args[0]));
    if (f[1].v.type == BV_DOC) {
        if (bv_empty(f[1].v))
            return op_fail(p->op, 2942507, "$sortArray requires at least one sort key");
        return sort_spec_parse(p->op, p->a, f[1].v, &sa->spec);
    }
    if (!bv_to_i64_exact(f[1].v, &n) || (n != 1 && n != -1))
        return op_fail(p->op, 2942507, "$sortArray sort key must be 1, -1 or a sort pattern");
    sa->descending = n < 0;
    return 0;
}

struct sortable {
    struct bv v;
    const struct bv *keys;
    uint32_t at;
};

static int cmp_sortable(const void *x, const void *y, void *arg)
{
    const struct sortable *a = x, *b = y;
    const struct sort_array *sa = arg;
    int c;

    if (sa->spec.n > 0) {
        c = sort_keys_cmp(&sa->spec, a->keys, b->keys);
    } else {
        c = bv_cmp(a->v, b->v);
        if (sa->descending)
            c = -c;
    }
    return c != 0 ? c : (a->at > b->at) - (a->at < b->at);
}

int eval_sort_array(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct sort_array *sa = e->data;
    struct bv input, *elements, keys[SORT_KEYS_MAX];
    struct sortable *list;
    struct bw w;
    uint32_t n;

    TRY_RETURN(expr_eval(e->args[0], ev, &input));
    if (bv_is_nullish(input)) {
        *ret = bv_null;
        return 0;
    }
    if (input.type != BV_ARRAY)
        return op_fail(ev->op, 2942504,
                       "The input argument to $sortArray must be an array, but was of type: %s",
                       bv_type_name(input.type));
    TRY_RETURN(expr_elements(ev, input, &elements, &n));
    list = arena_try(ev->scratch, ((size_t)n + 1) * sizeof(*list));
    if (list == NULL)
        return op_fail(ev->op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory in $sortArray");
    for (uint32_t i = 0; i < n; i++) {
        list[i] = (struct sortable){elements[i], NULL, i};
        if (sa->spec.n == 0)
            continue;
        TRY_RETURN(sort_keys(&sa->spec, ev->op, elements[i], keys));
        list[i].keys = arena_dup(ev->scratch, keys, sa->spec.n * sizeof(keys[0]));
    }
    qsort_r(list, n, sizeof(*list), cmp_sortable, sa);
    bw_init_array(&w, ev->scratch);
    for (uint32_t i = 0; i < n; i++)
        bw_bv(&w, NULL, list[i].v);
    return expr_done(ev, &w, ret);
}
