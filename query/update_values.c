/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sets and vectors of values, for operators that look at whole arrays. */
#include "query/update_internal.h"

/* Open addressing, at most half full. */
struct value_set {
    struct bv *slots; /* BV_MISSING: free */
    size_t mask;
};

static int no_memory(struct op *op)
{
    return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory to update an array");
}

int value_set_new(struct op *op, struct arena *a, size_t n, struct value_set **ret)
{
    struct value_set *s = ARENA_NEW(a, struct value_set);
    size_t cap = 8;

    while (cap < 2 * n)
        cap *= 2;
    s->mask = cap - 1;
    s->slots = arena_try(a, cap * sizeof(s->slots[0]));
    if (s->slots == NULL)
        return no_memory(op);
    memset(s->slots, 0, cap * sizeof(s->slots[0]));
    *ret = s;
    return 0;
}

static struct bv *lookup(const struct value_set *s, struct bv v)
{
    size_t i = bv_hash(v) & s->mask;

    while (!bv_is_missing(s->slots[i]) && bv_cmp(s->slots[i], v) != 0)
        i = (i + 1) & s->mask;
    return &s->slots[i];
}

bool value_set_add(struct value_set *s, struct bv v)
{
    struct bv *slot = lookup(s, v);

    if (!bv_is_missing(*slot))
        return false;
    *slot = v;
    return true;
}

bool value_set_has(const struct value_set *s, struct bv v)
{
    return !bv_is_missing(*lookup(s, v));
}

int values_collect(struct op *op, struct arena *a, const struct bv *arrays, size_t narrays,
                   struct values *ret)
{
    struct biter it;
    struct belem e;
    size_t n = 0;

    for (size_t i = 0; i < narrays; i++)
        n += bv_count(arrays[i]);
    ret->n = 0;
    ret->v = arena_try(a, (n + 1) * sizeof(ret->v[0]));
    if (ret->v == NULL)
        return no_memory(op);
    for (size_t i = 0; i < narrays; i++) {
        it = biter(arrays[i]);
        while (biter_next(&it, &e))
            ret->v[ret->n++] = e.v;
    }
    return 0;
}

int values_write(struct op *op, struct arena *a, const struct values *v, struct bv *ret)
{
    struct bw w;

    bw_init_array(&w, a);
    for (size_t i = 0; i < v->n; i++)
        bw_bv(&w, NULL, v->v[i]);
    *ret = bw_done(&w);
    return bv_is_missing(*ret) ? no_memory(op) : 0;
}
