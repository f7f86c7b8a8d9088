/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * $push and its modifiers $each, $position, $sort and $slice, applied in this order. Without the
 * last three the new elements are logged one by one; with them the array is logged whole.
 */
#include <stdlib.h>

#include "query/update_internal.h"

enum push_sort { SORT_NONE, SORT_VALUES, SORT_FIELDS };

struct push {
    struct bv items; /* array */
    bool plain;      /* none but $each */
    bool has_slice, has_position;
    int64_t slice, position;
    enum push_sort sort;
    int direction;     /* SORT_VALUES */
    struct bv pattern; /* SORT_FIELDS */
};

static int parse_integer(struct update_parser *p, const struct belem *e, bool *ret_has,
                         int64_t *ret)
{
    if (!bv_is_number(e->v))
        return op_fail(p->op, ERR_BAD_VALUE,
                       "The value for %s must be an integer value but was given type: %s", e->key,
                       bv_type_name(e->v.type));
    if (!bv_to_i64_exact(e->v, ret))
        return op_fail(p->op, ERR_BAD_VALUE,
                       "The value for %s must be an integer value but was given: %s", e->key,
                       bv_show(p->a, e->v, 100));
    *ret_has = true;
    return 0;
}

static bool is_direction(struct bv v, int64_t *ret)
{
    return bv_is_number(v) && bv_to_i64_exact(v, ret) && (*ret == 1 || *ret == -1);
}

static int check_sort_path(struct update_parser *p, const char *path)
{
    size_t n = strlen(path);

    if (n == 0)
        return op_fail(p->op, ERR_BAD_VALUE, "The $sort field cannot be empty");
    if (path[0] == '.' || path[n - 1] == '.' || strstr(path, "..") != NULL)
        return op_fail(p->op, ERR_BAD_VALUE,
                       "The $sort field is a dotted field but has an empty part: %s", path);
    return 0;
}

static int parse_sort(struct update_parser *p, const struct belem *e, struct push *push)
{
    struct biter it = biter(e->v);
    struct belem f;
    int64_t n;

    if (bv_is_number(e->v)) {
        if (!is_direction(e->v, &n))
            return op_fail(p->op, ERR_BAD_VALUE, "The $sort element value must be either 1 or -1");
        push->sort = SORT_VALUES;
        push->direction = (int)n;
        return 0;
    }
    if (e->v.type != BV_DOC)
        return op_fail(p->op, ERR_BAD_VALUE,
                       "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} "
                       "to sort embedded fields");
    if (bv_empty(e->v))
        return op_fail(p->op, ERR_BAD_VALUE,
                       "The $sort pattern is empty when it should be a set of fields.");
    while (biter_next(&it, &f)) {
        TRY_RETURN(check_sort_path(p, f.key));
        if (!is_direction(f.v, &n))
            return op_fail(p->op, ERR_BAD_VALUE, "The $sort element value must be either 1 or -1");
    }
    push->sort = SORT_FIELDS;
    push->pattern = e->v;
    return 0;
}

static int parse_clauses(struct update_parser *p, struct bv clauses, struct push *push)
{
    struct biter it = biter(clauses);
    struct belem e;

    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "$each") == 0) {
            if (e.v.type != BV_ARRAY)
                return op_fail(p->op, ERR_BAD_VALUE,
                               "The argument to $each in $push must be an array but it was of "
                               "type: %s",
                               bv_type_name(e.v.type));
            push->items = e.v;
            continue;
        }
        push->plain = false;
        if (strcmp(e.key, "$slice") == 0)
            TRY_RETURN(parse_integer(p, &e, &push->has_slice, &push->slice));
        else if (strcmp(e.key, "$position") == 0)
            TRY_RETURN(parse_integer(p, &e, &push->has_position, &push->position));
        else if (strcmp(e.key, "$sort") == 0)
            TRY_RETURN(parse_sort(p, &e, push));
        else
            return op_fail(p->op, ERR_BAD_VALUE, "Unrecognized clause in $push: %s", e.key);
    }
    return 0;
}

int update_parse_push(struct update_parser *p, struct update_leaf *l)
{
    struct push *push = ARENA_NEW(p->a, struct push);
    struct values one = {&l->arg, 1};

    push->plain = true;
    l->parsed = push;
    if (l->arg.type == BV_DOC && !bv_is_missing(bv_get(l->arg, "$each")))
        return parse_clauses(p, l->arg, push);
    return values_write(p->op, p->a, &one, &push->items);
}

/* --- applying --------------------------------------------------------------------------------- */

struct sort_item {
    struct bv v;
    size_t place; /* keeps the sort stable */
};

static int cmp_by_fields(struct bv pattern, struct bv a, struct bv b)
{
    struct biter it = biter(pattern);
    struct belem e;

    while (biter_next(&it, &e)) {
        struct bv x = bv_path(a, e.key), y = bv_path(b, e.key);
        int64_t direction = 1;
        int c = bv_cmp(bv_is_missing(x) ? bv_null : x, bv_is_missing(y) ? bv_null : y);

        (void)is_direction(e.v, &direction);
        if (c != 0)
            return direction < 0 ? -c : c;
    }
    return 0;
}

static int cmp_items(const void *pa, const void *pb, void *arg)
{
    const struct sort_item *a = pa, *b = pb;
    const struct push *push = arg;
    int c;

    if (push->sort == SORT_FIELDS)
        c = cmp_by_fields(push->pattern, a->v, b->v);
    else
        c = bv_cmp(a->v, b->v) * push->direction;
    return c != 0 ? c : (a->place > b->place) - (a->place < b->place);
}

static int sort_values(struct update_apply *x, const struct push *push, struct values *v)
{
    struct sort_item *items = arena_try(x->a, (v->n + 1) * sizeof(*items));

    if (items == NULL)
        return op_fail(x->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory to sort an array");
    for (size_t i = 0; i < v->n; i++)
        items[i] = (struct sort_item){v->v[i], i};
    qsort_r(items, v->n, sizeof(*items), cmp_items, (void *)(uintptr_t)push);
    for (size_t i = 0; i < v->n; i++)
        v->v[i] = items[i].v;
    return 0;
}

/* The old elements with the new ones at their place: a negative position counts from the end. */
static int insert_items(struct update_apply *x, const struct push *push, struct bv old,
                        struct values *ret)
{
    struct bv arrays[2] = {old, push->items};
    size_t nold = bv_count(old), nnew, at = nold;
    struct values all, out;

    TRY_RETURN(values_collect(x->op, x->a, arrays, 2, &all));
    *ret = all;
    if (!push->has_position)
        return 0;
    nnew = all.n - nold;
    if (push->position >= 0 && (uint64_t)push->position < nold)
        at = (size_t)push->position;
    else if (push->position < 0)
        at = push->position < -(int64_t)nold ? 0 : (size_t)((int64_t)nold + push->position);
    out.n = all.n;
    out.v = arena_try(x->a, (all.n + 1) * sizeof(out.v[0]));
    if (out.v == NULL)
        return op_fail(x->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory to update an array");
    memcpy(out.v, all.v, at * sizeof(all.v[0]));
    memcpy(out.v + at, all.v + nold, nnew * sizeof(all.v[0]));
    memcpy(out.v + at + nnew, all.v + at, (nold - at) * sizeof(all.v[0]));
    *ret = out;
    return 0;
}

/* The first n elements, or with n < 0 the last -n. */
static void slice(struct values *v, int64_t n)
{
    uint64_t keep = n < 0 ? (uint64_t) - (n + 1) + 1 : (uint64_t)n;

    if (keep >= v->n)
        return;
    if (n < 0)
        v->v += v->n - keep;
    v->n = (size_t)keep;
}

int update_push(struct update_apply *x, const struct update_leaf *l, struct bv old,
                struct outcome *ret)
{
    const struct push *push = l->parsed;
    struct values v;

    if (!bv_is_missing(old) && old.type != BV_ARRAY)
        return op_fail(x->op, ERR_BAD_VALUE,
                       "The field '%s' must be an array but is of type %s in document {%s}",
                       update_path_text(x), bv_type_name(old.type), update_id_text(x));
    if (push->plain) {
        if (bv_is_missing(old))
            return outcome_set(ret, push->items);
        if (bv_empty(push->items))
            return outcome_none(ret);
        *ret = (struct outcome){OUTCOME_APPEND, push->items};
        return 0;
    }
    TRY_RETURN(insert_items(x, push, old, &v));
    if (push->sort != SORT_NONE)
        TRY_RETURN(sort_values(x, push, &v));
    if (push->has_slice)
        slice(&v, push->slice);
    ret->kind = OUTCOME_SET;
    return values_write(x->op, x->a, &v, &ret->v);
}
