/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Accumulators that keep one value: $min, $max, $first, $last, $mergeObjects. */
#include "query/accumulator.h"
#include "query/expr_op.h"

struct kept {
    struct held value;
    bool set;
};

static void kept_free(void *state)
{
    held_free(&((struct kept *)state)->value);
}

static int keep(struct kept *k, struct eval *ev, struct bv v, size_t *bytes)
{
    k->set = true;
    return held_set(&k->value, ev->op, v, bytes);
}

/* {} when nothing came yet, {v: value}, or {m: true} for a value that is missing. */
static int kept_partial(const void *state, const struct accumulator *acc, struct eval *ev,
                        struct bv *ret)
{
    const struct kept *k = state;
    struct bw w;

    (void)acc;
    bw_init(&w, ev->scratch);
    if (k->set) {
        bw_bool(&w, "m", k->value.type == BV_MISSING);
        bw_bv(&w, "v", held_value(&k->value));
    }
    return expr_done(ev, &w, ret);
}

static int kept_merge(void *state, const struct accumulator *acc, struct eval *ev,
                      struct bv partial, size_t *bytes)
{
    if (bv_empty(partial))
        return 0;
    return acc->row->ops->add(state, acc, ev, bv_get(partial, "v"), bytes);
}

static int kept_result(const void *state, const struct accumulator *acc, struct eval *ev,
                       struct bv *ret)
{
    const struct kept *k = state;

    (void)acc;
    (void)ev;
    *ret = k->set ? held_value(&k->value) : bv_null;
    return 0;
}

/* --- $min and $max: mode 1 and -1
 * -------------------------------------------------------------------- */

static int extreme_add(void *state, const struct accumulator *acc, struct eval *ev, struct bv v,
                       size_t *bytes)
{
    struct kept *k = state;

    if (bv_is_nullish(v))
        return 0;
    if (k->set && bv_cmp(v, held_value(&k->value)) * acc->row->mode >= 0)
        return 0;
    return keep(k, ev, v, bytes);
}

ACC_OPS(acc_extreme, .size = sizeof(struct kept), .add = extreme_add, .merge = kept_merge,
        .partial = kept_partial, .result = kept_result, .free = kept_free);

/* --- $first and $last
 * ---------------------------------------------------------------------------------- */

static int first_add(void *state, const struct accumulator *acc, struct eval *ev, struct bv v,
                     size_t *bytes)
{
    struct kept *k = state;

    (void)acc;
    return k->set ? 0 : keep(k, ev, v, bytes);
}

static int last_add(void *state, const struct accumulator *acc, struct eval *ev, struct bv v,
                    size_t *bytes)
{
    (void)acc;
    return keep(state, ev, v, bytes);
}

ACC_OPS(acc_first, .size = sizeof(struct kept), .add = first_add, .merge = kept_merge,
        .partial = kept_partial, .result = kept_result, .free = kept_free);
ACC_OPS(acc_last, .size = sizeof(struct kept), .add = last_add, .merge = kept_merge,
        .partial = kept_partial, .result = kept_result, .free = kept_free);

/* --- $mergeObjects
 * ---------------------------------------------------------------------------------------- */

/* old with the fields of v: those it has keep their place, new ones go to the end. */
static int merge_docs(struct eval *ev, struct bv old, struct bv v, struct bv *ret)
{
    struct biter it = biter(old);
    struct belem e;
    struct bw w;

    bw_init(&w, ev->scratch);
    while (biter_next(&it, &e)) {
        struct bv newer = bv_getn(v, e.key, e.key_len);

        TRY_RETURN(op_work(ev->op, v.len));
        bw_bvn(&w, e.key, e.key_len, bv_is_missing(newer) ? e.v : newer);
    }
    it = biter(v);
    while (biter_next(&it, &e)) {
        TRY_RETURN(op_work(ev->op, old.len));
        if (bv_is_missing(bv_getn(old, e.key, e.key_len)))
            bw_elem(&w, &e);
    }
    return expr_done(ev, &w, ret);
}

static int merge_add(void *state, const struct accumulator *acc, struct eval *ev, struct bv v,
                     size_t *bytes)
{
    struct kept *k = state;
    struct bv merged = v;

    (void)acc;
    if (bv_is_nullish(v))
        return 0;
    if (v.type != BV_DOC)
        return op_fail(ev->op, 40400,
                       "$mergeObjects requires object inputs, but input %s is of type %s",
                       bv_show(ev->scratch, v, 128), bv_type_name(v.type));
    if (k->set)
        TRY_RETURN(merge_docs(ev, held_value(&k->value), v, &merged));
    return keep(k, ev, merged, bytes);
}

static int merge_result(const void *state, const struct accumulator *acc, struct eval *ev,
                        struct bv *ret)
{
    const struct kept *k = state;

    (void)acc;
    (void)ev;
    *ret = k->set ? held_value(&k->value) : bv_empty_doc;
    return 0;
}

ACC_OPS(acc_merge_objects, .size = sizeof(struct kept), .add = merge_add, .merge = kept_merge,
        .partial = kept_partial, .result = merge_result, .free = kept_free);
