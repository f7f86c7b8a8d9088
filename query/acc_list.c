/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Accumulators that keep many values: $push, $addToSet, and the kinds that keep n of them: $firstN,
 * $lastN, $minN, $maxN, $top, $topN, $bottom, $bottomN.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "query/accumulator.h"
#include "query/expr_op.h"
#include "query/sort_key.h"

/* --- values one after the other
 * --------------------------------------------------------------------- */

struct list {
    struct held *items;
    size_t n, cap;
    size_t bytes;  /* held by this list */
    size_t *slots; /* $addToSet: hash table of item numbers + 1 */
    size_t nslots;
};

static void list_free(void *state)
{
    struct list *l = state;

    for (size_t i = 0; i < l->n; i++)
        held_free(&l->items[i]);
    free(l->items);
    free(l->slots);
    memset(l, 0, sizeof(*l));
}

static int list_room(struct list *l, struct eval *ev)
{
    size_t cap = l->cap == 0 ? 4 : l->cap * 2;
    struct held *items;

    if (l->n < l->cap)
        return 0;
    items = mem_try_resize(l->items, cap * sizeof(*items));
    if (items == NULL)
        return op_fail(ev->op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory in an accumulator");
    memset(items + l->cap, 0, (cap - l->cap) * sizeof(*items));
    l->bytes += (cap - l->cap) * sizeof(*items);
    l->items = items;
    l->cap = cap;
    return 0;
}

/* Inserts a copy of v before item `at`. */
static int list_insert(struct list *l, const struct accumulator *acc, struct eval *ev, size_t at,
                       struct bv v, size_t *bytes)
{
    size_t before = l->bytes;
    struct held h = {0};

    TRY_RETURN(list_room(l, ev));
    TRY_RETURN(held_set(&h, ev->op, v, &l->bytes));
    memmove(l->items + at + 1, l->items + at, (l->n - at) * sizeof(*l->items));
    l->items[at] = h;
    l->n++;
    *bytes += l->bytes - before;
    if (l->bytes > LIMIT_PUSH_BYTES)
        return op_fail(ev->op, ERR_EXCEEDED_MEMORY_LIMIT,
                       "%s used too much memory and cannot spill to disk. Memory limit: %d bytes",
                       acc->row->name, LIMIT_PUSH_BYTES);
    return 0;
}

static void list_remove(struct list *l, size_t at, size_t *bytes)
{
    l->bytes -= l->items[at].cap;
    *bytes -= l->items[at].cap;
    held_free(&l->items[at]);
    l->n--;
    memmove(l->items + at, l->items + at + 1, (l->n - at) * sizeof(*l->items));
    memset(l->items + l->n, 0, sizeof(*l->items));
}

static int list_result(const void *state, const struct accumulator *acc, struct eval *ev,
                       struct bv *ret)
{
    const struct list *l = state;
    struct bw w;

    (void)acc;
    bw_init_array(&w, ev->scratch);
    for (size_t i = 0; i < l->n; i++)
        bw_bv(&w, NULL, held_value(&l->items[i]));
    return expr_done(ev, &w, ret);
}

/* The values as they are: missing ones do not occur in any list. */
static int list_partial(const void *state, const struct accumulator *acc, struct eval *ev,
                        struct bv *ret)
{
    return list_result(state, acc, ev, ret);
}

static int list_merge(void *state, const struct accumulator *acc, struct eval *ev,
                      struct bv partial, size_t *bytes)
{
    struct biter it = biter(partial);
    struct belem e;

    while (biter_next(&it, &e))
        TRY_RETURN(acc->row->ops->add(state, acc, ev, e.v, bytes));
    return 0;
}

/* --- $push
 * ------------------------------------------------------------------------------------------- */

static int push_add(void *state, const struct accumulator *acc, struct eval *ev, struct bv v,
                    size_t *bytes)
{
    struct list *l = state;

    if (bv_is_missing(v))
        return 0;
    return list_insert(l, acc, ev, l->n, v, bytes);
}

ACC_OPS(acc_push, .size = sizeof(struct list), .add = push_add, .merge = list_merge,
        .partial = list_partial, .result = list_result, .free = list_free);

/* --- $addToSet
 * ----------------------------------------------------------------------------------------- */

/* The slot where v is, or where it would go. */
static size_t find_slot(const struct list *l, struct bv v)
{
    size_t i = (size_t)bv_hash(v) & (l->nslots - 1);

    while (l->slots[i] != 0 && bv_cmp(held_value(&l->items[l->slots[i] - 1]), v) != 0)
        i = (i + 1) & (l->nslots - 1);
    return i;
}

static int grow_slots(struct list *l, struct eval *ev, size_t *bytes)
{
    size_t n = l->nslots == 0 ? 16 : l->nslots * 2;
    size_t *slots = mem_try_zero(n, sizeof(*slots));

    if (slots == NULL)
        return op_fail(ev->op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory in an accumulator");
    free(l->slots);
    l->bytes += (n - l->nslots) * sizeof(*slots);
    *bytes += (n - l->nslots) * sizeof(*slots);
    l->slots = slots;
    l->nslots = n;
    for (size_t i = 0; i < l->n; i++)
        slots[find_slot(l, held_value(&l->items[i]))] = i + 1;
    return 0;
}

static int set_add(void *state, const struct accumulator *acc, struct eval *ev, struct bv v,
                   size_t *bytes)
{
    struct list *l = state;
    size_t slot;

    if (bv_is_missing(v))
        return 0;
    if (2 * (l->n + 1) > l->nslots)
        TRY_RETURN(grow_slots(l, ev, bytes));
    slot = find_slot(l, v);
    if (l->slots[slot] != 0)
        return 0;
    TRY_RETURN(list_insert(l, acc, ev, l->n, v, bytes));
    l->slots[slot] = l->n;
    return 0;
}

ACC_OPS(acc_add_to_set, .size = sizeof(struct list), .add = set_add, .merge = list_merge,
        .partial = list_partial, .result = list_result, .free = list_free);

/* --- $firstN (mode 1) and $lastN (mode -1)
 * --------------------------------------------------------------- */

static int first_n_add(void *state, const struct accumulator *acc, struct eval *ev, struct bv v,
                       size_t *bytes)
{
    struct list *l = state;

    if (acc->row->mode > 0 && l->n == (size_t)acc->n)
        return 0;
    TRY_RETURN(list_insert(l, acc, ev, l->n, bv_is_missing(v) ? bv_null : v, bytes));
    if (l->n > (size_t)acc->n)
        list_remove(l, 0, bytes);
    return 0;
}

ACC_OPS(acc_first_n, .size = sizeof(struct list), .add = first_n_add, .merge = list_merge,
        .partial = list_partial, .result = list_result, .free = list_free);

/* --- kinds that keep the n best in order
 * ------------------------------------------------------------------- */

typedef int (*order_fn)(const struct accumulator *acc, struct bv a, struct bv b);

/* Keeps v if it is among the n first by `order`; those that came earlier win ties. */
static int keep_ordered(struct list *l, const struct accumulator *acc, struct eval *ev, struct bv v,
                        order_fn order, size_t *bytes)
{
    size_t lo = 0, hi = l->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (order(acc, held_value(&l->items[mid]), v) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == (size_t)acc->n)
        return 0;
    TRY_RETURN(list_insert(l, acc, ev, lo, v, bytes));
    if (l->n > (size_t)acc->n)
        list_remove(l, l->n - 1, bytes);
    return 0;
}

static int min_order(const struct accumulator *acc, struct bv a, struct bv b)
{
    return bv_cmp(a, b) * acc->row->mode;
}

static int min_n_add(void *state, const struct accumulator *acc, struct eval *ev, struct bv v,
                     size_t *bytes)
{
    if (bv_is_nullish(v))
        return 0;
    return keep_ordered(state, acc, ev, v, min_order, bytes);
}

ACC_OPS(acc_min_n, .size = sizeof(struct list), .add = min_n_add, .merge = list_merge,
        .partial = list_partial, .result = list_result, .free = list_free);

/* Items of $top and its kin are {k: [keys...], v: output}. $bottom keeps the last ones: it orders
 * the other way round, later arrivals first, and turns the list round in the end. */
static int top_order(const struct accumulator *acc, struct bv a, struct bv b)
{
    struct biter ia = biter(bv_get(a, "k")), ib = biter(bv_get(b, "k"));
    struct belem ea, eb;

    for (uint32_t i = 0; biter_next(&ia, &ea) && biter_next(&ib, &eb); i++) {
        int c = bv_cmp(ea.v, eb.v);

        if (c != 0)
            return acc->sort->parts[i].descending ? -c : c;
    }
    return 0;
}

static int bottom_order(const struct accumulator *acc, struct bv a, struct bv b)
{
    int c = -top_order(acc, a, b);

    return c == 0 ? 1 : c;
}

static int top_keep(void *state, const struct accumulator *acc, struct eval *ev, struct bv item,
                    size_t *bytes)
{
    return keep_ordered(state, acc, ev, item, acc->row->mode > 0 ? top_order : bottom_order, bytes);
}

static int top_add(void *state, const struct accumulator *acc, struct eval *ev, struct bv v,
                   size_t *bytes)
{
    struct bv keys[SORT_KEYS_MAX], item;
    struct bw w;

    TRY_RETURN(sort_keys(acc->sort, ev->op, ev->current, keys));
    bw_init(&w, ev->scratch);
    bw_arr_begin(&w, "k");
    for (uint32_t i = 0; i < acc->sort->n; i++)
        bw_bv(&w, NULL, keys[i]);
    bw_end(&w);
    bw_bv(&w, "v", bv_is_missing(v) ? bv_null : v);
    TRY_RETURN(expr_done(ev, &w, &item));
    return top_keep(state, acc, ev, item, bytes);
}

/* Items in order of arrival, as far as ties are concerned: $bottom's list is last first. */
static int top_merge(void *state, const struct accumulator *acc, struct eval *ev, struct bv partial,
                     size_t *bytes)
{
    struct bv *items;
    uint32_t n;

    TRY_RETURN(expr_elements(ev, partial, &items, &n));
    for (uint32_t i = 0; i < n; i++)
        TRY_RETURN(top_keep(state, acc, ev, items[acc->row->mode > 0 ? i : n - 1 - i], bytes));
    return 0;
}

static int top_result(const void *state, const struct accumulator *acc, struct eval *ev,
                      struct bv *ret)
{
    const struct list *l = state;
    struct bw w;

    if (acc->single) {
        *ret = l->n == 0 ? bv_null : bv_get(held_value(&l->items[0]), "v");
        return 0;
    }
    bw_init_array(&w, ev->scratch);
    for (size_t i = 0; i < l->n; i++) {
        size_t at = acc->row->mode > 0 ? i : l->n - 1 - i;

        bw_bv(&w, NULL, bv_get(held_value(&l->items[at]), "v"));
    }
    return expr_done(ev, &w, ret);
}

ACC_OPS(acc_top, .size = sizeof(struct list), .add = top_add, .merge = top_merge,
        .partial = list_partial, .result = top_result, .free = list_free);

/* --- parsing {input, n} and {n, sortBy, output}
 * -------------------------------------------------------------- */

static int parse_count(struct op *op, struct arena *a, struct bv spec, struct expr_vars *vars,
                       int64_t *ret)
{
    struct expr *e;
    struct bv v;

    TRY_RETURN(expr_parse(op, a, spec, vars, &e));
    if (!expr_constant(e, &v))
        return op_fail(op, ERR_NOT_IMPLEMENTED,
                       "an 'n' that depends on the group's _id is not supported yet");
    if (!bv_is_number(v))
        return op_fail(op, 5787902, "Value for 'n' must be of integral type, but found %s",
                       bv_show(&op->arena, v, 64));
    if (!bv_to_i64_exact(v, ret))
        return op_fail(op, 5787903, "Value for 'n' must be of integral type, but found %s",
                       bv_show(&op->arena, v, 64));
    if (*ret <= 0)
        return op_fail(op, 5787908, "'n' must be greater than 0, found %lld", (long long)*ret);
    return 0;
}

int acc_parse_n(struct op *op, struct arena *a, struct bv spec, struct expr_vars *vars,
                struct accumulator *ret)
{
    struct biter it = biter(spec);
    struct belem e;

    if (spec.type != BV_DOC)
        return op_fail(op, 5787900, "specification must be an object; found %s: %s", ret->row->name,
                       bv_show(&op->arena, spec, 128));
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "n") == 0)
            TRY_RETURN(parse_count(op, a, e.v, vars, &ret->n));
        else if (strcmp(e.key, "input") == 0)
            TRY_RETURN(expr_parse(op, a, e.v, vars, &ret->arg));
        else
            return op_fail(op, 5787901, "Unknown argument for '%s' operator: %s", ret->row->name,
                           e.key);
    }
    if (ret->n == 0)
        return op_fail(op, 5787906, "Missing value for 'n'");
    if (ret->arg == NULL)
        return op_fail(op, 5787907, "Missing value for 'input'");
    return 0;
}

static int parse_ordered(struct op *op, struct arena *a, struct bv spec, struct expr_vars *vars,
                         struct accumulator *ret)
{
    struct biter it = biter(spec);
    struct belem e;

    if (spec.type != BV_DOC)
        return op_fail(op, 5788001, "specification must be an object; found %s: %s", ret->row->name,
                       bv_show(&op->arena, spec, 128));
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "n") == 0 && !ret->single) {
            TRY_RETURN(parse_count(op, a, e.v, vars, &ret->n));
        } else if (strcmp(e.key, "output") == 0) {
            TRY_RETURN(expr_parse(op, a, e.v, vars, &ret->arg));
        } else if (strcmp(e.key, "sortBy") == 0) {
            if (e.v.type != BV_DOC)
                return op_fail(op, 5788604,
                               "expected 'sortBy' to already be an object in the "
                               "arguments to %s",
                               ret->row->name);
            ret->sort = ARENA_NEW(a, struct sort_spec);
            TRY_RETURN(sort_spec_parse(op, a, e.v, ret->sort));
        } else {
            return op_fail(op, 5788002, "Unknown argument to %s: %s", ret->row->name, e.key);
        }
    }
    if (ret->n == 0)
        return op_fail(op, 5788003, "Missing value for 'n' in %s", ret->row->name);
    if (ret->arg == NULL)
        return op_fail(op, 5788004, "Missing value for 'output' in %s", ret->row->name);
    if (ret->sort == NULL)
        return op_fail(op, 5788005, "Missing value for 'sortBy' in %s", ret->row->name);
    return 0;
}

int acc_parse_top(struct op *op, struct arena *a, struct bv spec, struct expr_vars *vars,
                  struct accumulator *ret)
{
    ret->single = true;
    ret->n = 1;
    return parse_ordered(op, a, spec, vars, ret);
}

int acc_parse_top_n(struct op *op, struct arena *a, struct bv spec, struct expr_vars *vars,
                    struct accumulator *ret)
{
    return parse_ordered(op, a, spec, vars, ret);
}
