/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Bits of ints and longs; the result is a long when an operand is. */
#include "query/expr_op.h"

enum bit_op { BIT_AND, BIT_OR, BIT_XOR };

static int bits(const struct expr *e, struct eval *ev, enum bit_op what, struct bv *ret)
{
    int64_t sum = what == BIT_AND ? -1 : 0;
    bool wide = false, null = false;

    for (uint32_t i = 0; i < e->nargs; i++) {
        struct bv v;
        int64_t n;

        TRY_RETURN(expr_eval(e->args[i], ev, &v));
        if (bv_is_nullish(v)) {
            null = true;
            continue;
        }
        if (v.type != BV_INT32 && v.type != BV_INT64)
            return op_fail(ev->op, ERR_TYPE_MISMATCH, "%s only supports int and long operands.",
                           expr_name(e));
        n = v.type == BV_INT32 ? bv_i32(v) : bv_i64(v);
        wide |= v.type == BV_INT64;
        sum = what == BIT_AND ? sum & n : what == BIT_OR ? sum | n : sum ^ n;
    }
    *ret = null ? bv_null : number_from_i64(ev->scratch, sum, wide);
    return 0;
}

int eval_bit_and(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return bits(e, ev, BIT_AND, ret);
}

int eval_bit_or(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return bits(e, ev, BIT_OR, ret);
}

int eval_bit_xor(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return bits(e, ev, BIT_XOR, ret);
}

int eval_bit_not(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv v;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    if (bv_is_nullish(v))
        *ret = bv_null;
    else if (v.type == BV_INT32)
        *ret = bv_new_i32(ev->scratch, ~bv_i32(v));
    else if (v.type == BV_INT64)
        *ret = bv_new_i64(ev->scratch, ~bv_i64(v));
    else
        return op_fail(ev->op, ERR_TYPE_MISMATCH, "$bitNot only supports int and long, not: %s.",
                       bv_type_name(v.type));
    return 0;
}
