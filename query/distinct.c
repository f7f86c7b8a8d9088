/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "query/distinct.h"

#include <stdlib.h>

#include "base/limits.h"
#include "query/doc_path.h"

struct distinct {
    struct arena *arena;
    struct doc_path *path;
    struct bv *values; /* in order of arrival */
    size_t n, cap;
    size_t *slots; /* open addressing: index into values + 1, 0: free */
    size_t nslots;
    size_t bytes;
};

int distinct_new(struct op *op, const char *path, struct distinct **ret)
{
    struct distinct *d = ARENA_NEW(&op->arena, struct distinct);

    d->arena = &op->arena;
    d->path = doc_path_new(d->arena, path);
    if (d->path == NULL)
        return op_fail(op, ERR_OVERFLOW, "FieldPath is too long");
    d->nslots = 64;
    d->slots = ARENA_ARRAY(d->arena, size_t, d->nslots);
    *ret = d;
    return 0;
}

static size_t slot_of(const struct distinct *d, struct bv v)
{
    size_t i = bv_hash(v) & (d->nslots - 1);

    while (d->slots[i] != 0 && bv_cmp(d->values[d->slots[i] - 1], v) != 0)
        i = (i + 1) & (d->nslots - 1);
    return i;
}

static int grow_slots(struct distinct *d, struct op *op)
{
    size_t *slots = ARENA_TRY_ARRAY(d->arena, size_t, d->nslots * 2);

    if (slots == NULL)
        return op_no_memory(op);
    d->nslots *= 2;
    d->slots = slots;
    for (size_t i = 0; i < d->n; i++)
        d->slots[slot_of(d, d->values[i])] = i + 1;
    return 0;
}

static int add_value(struct distinct *d, struct op *op, struct bv v)
{
    size_t slot = slot_of(d, v);

    if (d->slots[slot] != 0)
        return 0;
    d->bytes += v.len + 8;
    if (d->bytes > LIMIT_DOC_BYTES)
        return op_fail(op, 17217, "distinct too big, 16mb cap");
    if (d->n == d->cap) {
        size_t cap = d->cap == 0 ? 32 : d->cap * 2;
        struct bv *grown =
            arena_regrow(d->arena, d->values, d->cap * sizeof(*grown), cap * sizeof(*grown));

        if (grown == NULL)
            return op_no_memory(op);
        d->values = grown;
        d->cap = cap;
    }
    TRY_RETURN(op_dup(op, d->arena, v, &d->values[d->n]));
    d->n++;
    d->slots[slot] = d->n;
    if (d->n * 2 > d->nslots)
        return grow_slots(d, op);
    return 0;
}

/* The recursion is as deep as the path and the arrays on it, both bounded by the nesting limit. */
static int walk(struct distinct *d, struct op *op, struct bv v, uint32_t part)
{
    struct biter it;
    struct belem e;

    TRY_RETURN(op_work(op, v.len));
    if (part == d->path->n && v.type != BV_ARRAY)
        return bv_is_missing(v) ? 0 : add_value(d, op, v);
    if (v.type == BV_DOC)
        return walk(d, op, bv_getn(v, d->path->parts[part].name, d->path->parts[part].len),
                    part + 1);
    if (v.type != BV_ARRAY)
        return 0;
    if (part < d->path->n && d->path->parts[part].index >= 0)
        TRY_RETURN(
            walk(d, op, bv_getn(v, d->path->parts[part].name, d->path->parts[part].len), part + 1));
    it = biter(v);
    while (biter_next(&it, &e)) {
        if (part == d->path->n)
            TRY_RETURN(add_value(d, op, e.v));
        else if (e.v.type == BV_DOC)
            TRY_RETURN(walk(d, op, e.v, part));
    }
    return 0;
}

int distinct_add(struct distinct *d, struct op *op, struct bv doc)
{
    return walk(d, op, doc, 0);
}

const struct bv *distinct_values(const struct distinct *d, size_t *ret_n)
{
    *ret_n = d->n;
    return d->values;
}
