/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Accumulators used as expressions: $sum, $avg, $min, $max, $stdDevPop, $stdDevSamp, $mergeObjects
 * over their operands (one operand that is an array: over its elements), and $firstN, $lastN,
 * $minN, $maxN over an array. Their meaning is query/accumulators.def's.
 */
#include "query/accumulator.h"
#include "query/expr_op.h"

#define STATE_MAX 128

/* A state on the stack, aligned as states must be. */
struct local {
    const struct accumulator *acc;
    size_t bytes;
    _Alignas(16) uint8_t state[STATE_MAX];
};

static void local_init(struct local *l, const struct accumulator *acc)
{
    ASSERT(acc->row->ops->size <= STATE_MAX);
    memset(l, 0, sizeof(*l));
    l->acc = acc;
}

static void local_free(struct local *l)
{
    if (l->acc->row->ops->free != NULL)
        l->acc->row->ops->free(l->state);
}

static int add(struct local *l, struct eval *ev, struct bv v)
{
    return l->acc->row->ops->add(l->state, l->acc, ev, v, &l->bytes);
}

static int add_elements(struct local *l, struct eval *ev, struct bv array)
{
    struct biter it = biter(array);
    struct belem e;

    for (uint32_t i = 0; biter_next(&it, &e); i++) {
        TRY_RETURN(expr_tick(ev, i));
        TRY_RETURN(add(l, ev, e.v));
    }
    return 0;
}

/* The result outlives the state. */
static int finish(struct local *l, struct eval *ev, struct bv *ret)
{
    struct bv v;

    TRY_RETURN(l->acc->row->ops->result(l->state, l->acc, ev, &v));
    return op_dup(ev->op, ev->scratch, v, ret);
}

int eval_accumulate(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct accumulator acc = {.row = acc_find(expr_name(e))};
    struct local l;
    int rc;

    local_init(&l, &acc);
    for (uint32_t i = 0; i < e->nargs; i++) {
        struct bv v;

        TRY(expr_eval(e->args[i], ev, &v));
        if (e->nargs == 1 && v.type == BV_ARRAY)
            TRY(add_elements(&l, ev, v));
        else
            TRY(add(&l, ev, v));
    }
    TRY(finish(&l, ev, ret));
fail:
    local_free(&l);
    return rc;
}

/* {input, n} */
int eval_accumulate_n(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct accumulator acc = {.row = acc_find(expr_name(e))};
    struct bv input, n;
    struct local l;
    int rc;

    TRY_RETURN(expr_arg(e, 0, ev, &input));
    TRY_RETURN(expr_arg(e, 1, ev, &n));
    if (bv_is_nullish(input)) {
        *ret = bv_null;
        return 0;
    }
    if (input.type != BV_ARRAY)
        return op_fail(ev->op, 5788200, "Argument must be an array, but was of type: %s",
                       bv_type_name(input.type));
    if (!bv_to_i64_exact(n, &acc.n))
        return op_fail(ev->op, 5787902, "Value for 'n' must be of integral type, but found %s",
                       bv_show(ev->scratch, n, 64));
    if (acc.n <= 0)
        return op_fail(ev->op, 5787908, "'n' must be greater than 0, found %lld", (long long)acc.n);
    local_init(&l, &acc);
    TRY(add_elements(&l, ev, input));
    TRY(finish(&l, ev, ret));
fail:
    local_free(&l);
    return rc;
}
