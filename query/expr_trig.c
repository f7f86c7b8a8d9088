/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Trigonometry, by the C library. Decimals are calculated as doubles and given back as decimals,
 * so they have no more than a double's digits.
 */
#include <math.h>

#include "query/expr_op.h"

/* Operand i as a double; *ret_null when it is null. */
static int number_arg(const struct expr *e, struct eval *ev, uint32_t i, int code, struct bv *ret,
                      bool *ret_null)
{
    TRY_RETURN(expr_eval(e->args[i], ev, ret));
    if (bv_is_nullish(*ret))
        *ret_null = true;
    else if (!bv_is_number(*ret))
        return op_fail(ev->op, code, "%s only supports numeric types, not %s", expr_name(e),
                       bv_type_name(ret->type));
    return 0;
}

static struct bv result(struct eval *ev, double d, bool decimal)
{
    return decimal ? number_from_decimal(ev->scratch, decimal_from_f64(d))
                   : bv_new_f64(ev->scratch, d);
}

/* fn of the operand, which must lie in [lo, hi] (or be NaN). */
static int apply(const struct expr *e, struct eval *ev, double (*fn)(double), double lo, double hi,
                 struct bv *ret)
{
    bool null = false;
    struct bv v;
    double x;

    TRY_RETURN(number_arg(e, ev, 0, 28765, &v, &null));
    if (null) {
        *ret = bv_null;
        return 0;
    }
    x = bv_to_f64(v);
    if (x < lo || x > hi)
        return op_fail(ev->op, 50989, "cannot apply %s to %s, value must be in [%g,%g]",
                       expr_name(e), bv_show(ev->scratch, v, 64), lo, hi);
    *ret = result(ev, fn(x), v.type == BV_DECIMAL);
    return 0;
}

static double to_degrees(double x)
{
    return x * (180 / M_PI);
}

static double to_radians(double x)
{
    return x * (M_PI / 180);
}

#define MATH(name, fn, lo, hi)                                                                     \
    int name(const struct expr *e, struct eval *ev, struct bv *ret)                                \
    {                                                                                              \
        return apply(e, ev, (fn), (lo), (hi), ret);                                                \
    }

/* The largest finite value as a bound refuses the infinities. */
#define FINITE __DBL_MAX__

MATH(eval_sin, sin, -FINITE, FINITE)
MATH(eval_cos, cos, -FINITE, FINITE)
MATH(eval_tan, tan, -FINITE, FINITE)
MATH(eval_asin, asin, -1, 1)
MATH(eval_acos, acos, -1, 1)
MATH(eval_atan, atan, -INFINITY, INFINITY)
MATH(eval_sinh, sinh, -INFINITY, INFINITY)
MATH(eval_cosh, cosh, -INFINITY, INFINITY)
MATH(eval_tanh, tanh, -INFINITY, INFINITY)
MATH(eval_asinh, asinh, -INFINITY, INFINITY)
MATH(eval_acosh, acosh, 1, INFINITY)
MATH(eval_atanh, atanh, -1, 1)
MATH(eval_radians_to_degrees, to_degrees, -INFINITY, INFINITY)
MATH(eval_degrees_to_radians, to_radians, -INFINITY, INFINITY)

int eval_atan2(const struct expr *e, struct eval *ev, struct bv *ret)
{
    bool null = false;
    struct bv y, x;

    TRY_RETURN(number_arg(e, ev, 0, 51044, &y, &null));
    TRY_RETURN(number_arg(e, ev, 1, 51045, &x, &null));
    if (null)
        *ret = bv_null;
    else
        *ret = result(ev, atan2(bv_to_f64(y), bv_to_f64(x)),
                      y.type == BV_DECIMAL || x.type == BV_DECIMAL);
    return 0;
}
