/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Arithmetic operators. The result's type is the widest operand's (int, long, double, decimal);
 * an int that overflows becomes a long, a long that overflows a double. A null or missing operand
 * makes the result null.
 */
#include <limits.h>
#include <math.h>

#include "query/expr_op.h"

struct decimal number_decimal(struct bv v)
{
    switch (v.type) {
    case BV_DECIMAL:
        return decimal_load(v.p);
    case BV_DOUBLE:
        return decimal_from_f64(bv_f64(v));
    case BV_INT32:
        return decimal_from_i64(bv_i32(v));
    default:
        return decimal_from_i64(bv_i64(v));
    }
}

struct bv number_from_decimal(struct arena *a, struct decimal d)
{
    return (struct bv){arena_dup(a, &d, 16), 16, BV_DECIMAL};
}

struct bv number_from_i64(struct arena *a, int64_t x, bool wide)
{
    if (wide || x > INT32_MAX || x < INT32_MIN)
        return bv_new_i64(a, x);
    return bv_new_i32(a, (int32_t)x);
}

static int64_t integer(struct bv v)
{
    return v.type == BV_INT32 ? bv_i32(v) : bv_i64(v);
}

static bool is_integer(struct bv v)
{
    return v.type == BV_INT32 || v.type == BV_INT64;
}

enum binary { ADD, SUB, MUL };

static struct decimal decimal_binary(enum binary what, struct decimal x, struct decimal y)
{
    switch (what) {
    case ADD:
        return decimal_add(x, y);
    case SUB:
        return decimal_sub(x, y);
    default:
        return decimal_mul(x, y);
    }
}

static double f64_binary(enum binary what, double x, double y)
{
    switch (what) {
    case ADD:
        return x + y;
    case SUB:
        return x - y;
    default:
        return x * y;
    }
}

static bool i64_binary(enum binary what, int64_t x, int64_t y, int64_t *ret)
{
    switch (what) {
    case ADD:
        return __builtin_add_overflow(x, y, ret);
    case SUB:
        return __builtin_sub_overflow(x, y, ret);
    default:
        return __builtin_mul_overflow(x, y, ret);
    }
}

static struct bv number_binary(struct arena *a, enum binary what, struct bv x, struct bv y,
                               bool *ret_overflow)
{
    bool wide = x.type == BV_INT64 || y.type == BV_INT64;
    int64_t n;

    *ret_overflow = false;
    if (x.type == BV_DECIMAL || y.type == BV_DECIMAL)
        return number_from_decimal(a, decimal_binary(what, number_decimal(x), number_decimal(y)));
    if (x.type == BV_DOUBLE || y.type == BV_DOUBLE)
        return bv_new_f64(a, f64_binary(what, bv_to_f64(x), bv_to_f64(y)));
    if (!i64_binary(what, integer(x), integer(y), &n))
        return number_from_i64(a, n, wide);
    *ret_overflow = true;
    return bv_new_f64(a, f64_binary(what, (double)integer(x), (double)integer(y)));
}

struct bv number_add(struct arena *a, struct bv x, struct bv y, bool *ret_overflow)
{
    return number_binary(a, ADD, x, y, ret_overflow);
}

struct bv number_mul(struct arena *a, struct bv x, struct bv y, bool *ret_overflow)
{
    return number_binary(a, MUL, x, y, ret_overflow);
}

/* --- $add $subtract $multiply $divide $mod ---------------------------------------------------- */

/* A date moved by a number of milliseconds; fractions are rounded to the nearest. */
static int date_shift(const struct expr *e, struct eval *ev, int64_t date, struct bv ms, bool back,
                      struct bv *ret)
{
    int64_t n, sum;

    if (ms.type == BV_DOUBLE) {
        struct bv whole = bv_new_f64(ev->scratch, round(bv_f64(ms)));

        if (!bv_to_i64(whole, &n))
            return op_fail(ev->op, ERR_OVERFLOW, "date overflow in %s", expr_name(e));
    } else if (!bv_to_i64(ms, &n)) {
        return op_fail(ev->op, ERR_OVERFLOW, "date overflow in %s", expr_name(e));
    }
    if (back ? __builtin_sub_overflow(date, n, &sum) : __builtin_add_overflow(date, n, &sum))
        return op_fail(ev->op, ERR_OVERFLOW, "date overflow in %s", expr_name(e));
    *ret = bv_new_date(ev->scratch, sum);
    return 0;
}

int eval_add(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv sum = bv_new_i32(ev->scratch, 0), date = BV_NONE;
    bool overflow, null = false;

    for (uint32_t i = 0; i < e->nargs; i++) {
        struct bv v;

        TRY_RETURN(expr_eval(e->args[i], ev, &v));
        if (bv_is_nullish(v)) {
            null = true;
        } else if (v.type == BV_DATE) {
            if (date.type == BV_DATE)
                return op_fail(ev->op, 16612, "only one date allowed in an $add expression");
            date = v;
        } else if (!bv_is_number(v)) {
            return op_fail(ev->op, ERR_TYPE_MISMATCH,
                           "$add only supports numeric or date types, not %s",
                           bv_type_name(v.type));
        } else {
            sum = number_add(ev->scratch, sum, v, &overflow);
        }
    }
    if (null) {
        *ret = bv_null;
        return 0;
    }
    if (date.type == BV_DATE)
        return date_shift(e, ev, bv_i64(date), sum, false, ret);
    *ret = sum;
    return 0;
}

int eval_multiply(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv product = bv_new_i32(ev->scratch, 1);
    bool overflow, null = false;

    for (uint32_t i = 0; i < e->nargs; i++) {
        struct bv v;

        TRY_RETURN(expr_eval(e->args[i], ev, &v));
        if (bv_is_nullish(v))
            null = true;
        else if (!bv_is_number(v))
            return op_fail(ev->op, ERR_TYPE_MISMATCH,
                           "$multiply only supports numeric types, not %s", bv_type_name(v.type));
        else
            product = number_mul(ev->scratch, product, v, &overflow);
    }
    *ret = null ? bv_null : product;
    return 0;
}

/* Evaluates two operands; *ret_null when one of them is null or missing. */
static int two(const struct expr *e, struct eval *ev, struct bv *ret_x, struct bv *ret_y,
               bool *ret_null)
{
    TRY_RETURN(expr_eval(e->args[0], ev, ret_x));
    TRY_RETURN(expr_eval(e->args[1], ev, ret_y));
    *ret_null = bv_is_nullish(*ret_x) || bv_is_nullish(*ret_y);
    return 0;
}

int eval_subtract(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv x, y;
    bool null, overflow;
    int64_t diff;

    TRY_RETURN(two(e, ev, &x, &y, &null));
    if (null) {
        *ret = bv_null;
        return 0;
    }
    if (bv_is_number(x) && bv_is_number(y)) {
        *ret = number_binary(ev->scratch, SUB, x, y, &overflow);
        return 0;
    }
    if (x.type == BV_DATE && y.type == BV_DATE) {
        if (__builtin_sub_overflow(bv_i64(x), bv_i64(y), &diff))
            return op_fail(ev->op, ERR_OVERFLOW, "date overflow in $subtract");
        *ret = bv_new_i64(ev->scratch, diff);
        return 0;
    }
    if (x.type == BV_DATE && bv_is_number(y))
        return date_shift(e, ev, bv_i64(x), y, true, ret);
    return op_fail(ev->op, ERR_TYPE_MISMATCH, "can't $subtract %s from %s", bv_type_name(y.type),
                   bv_type_name(x.type));
}

int eval_divide(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv x, y;
    bool null;

    TRY_RETURN(two(e, ev, &x, &y, &null));
    if (bv_is_number(x) && bv_is_number(y)) {
        if (!bv_truthy(y))
            return op_fail(ev->op, ERR_BAD_VALUE, "can't $divide by zero");
        if (x.type == BV_DECIMAL || y.type == BV_DECIMAL)
            *ret =
                number_from_decimal(ev->scratch, decimal_div(number_decimal(x), number_decimal(y)));
        else
            *ret = bv_new_f64(ev->scratch, bv_to_f64(x) / bv_to_f64(y));
        return 0;
    }
    if (!null)
        return op_fail(ev->op, ERR_TYPE_MISMATCH,
                       "$divide only supports numeric types, not %s and %s", bv_type_name(x.type),
                       bv_type_name(y.type));
    *ret = bv_null;
    return 0;
}

int eval_mod(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv x, y;
    bool null;

    TRY_RETURN(two(e, ev, &x, &y, &null));
    if (bv_is_number(x) && bv_is_number(y)) {
        if (!bv_truthy(y))
            return op_fail(ev->op, 16610, "can't $mod by zero");
        if (x.type == BV_DECIMAL || y.type == BV_DECIMAL)
            *ret =
                number_from_decimal(ev->scratch, decimal_mod(number_decimal(x), number_decimal(y)));
        else if (x.type == BV_DOUBLE || y.type == BV_DOUBLE)
            *ret = bv_new_f64(ev->scratch, fmod(bv_to_f64(x), bv_to_f64(y)));
        else /* LLONG_MIN % -1 would trap */
            *ret = number_from_i64(ev->scratch, integer(y) == -1 ? 0 : integer(x) % integer(y),
                                   x.type == BV_INT64 || y.type == BV_INT64);
        return 0;
    }
    if (!null)
        return op_fail(ev->op, 16611, "$mod only supports numeric types, not %s and %s",
                       bv_type_name(x.type), bv_type_name(y.type));
    *ret = bv_null;
    return 0;
}

/* --- one number ---------------------------------------------------------------------------------
 */

/* Evaluates the one operand; *ret_null when it is null or missing. */
static int one(const struct expr *e, struct eval *ev, struct bv *ret, bool *ret_null)
{
    TRY_RETURN(expr_eval(e->args[0], ev, ret));
    *ret_null = bv_is_nullish(*ret);
    if (!*ret_null && !bv_is_number(*ret))
        return op_fail(ev->op, 28765, "%s only supports numeric types, not %s", expr_name(e),
                       bv_type_name(ret->type));
    if (*ret_null)
        *ret = bv_null;
    return 0;
}

int eval_abs(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv v;
    bool null;

    TRY_RETURN(one(e, ev, &v, &null));
    *ret = v;
    if (null)
        return 0;
    if (v.type == BV_DOUBLE) {
        *ret = bv_new_f64(ev->scratch, fabs(bv_f64(v)));
    } else if (v.type == BV_DECIMAL) {
        *ret = number_from_decimal(ev->scratch, decimal_abs(decimal_load(v.p)));
    } else if (integer(v) == INT64_MIN) {
        return op_fail(ev->op, 28680, "can't take $abs of long long min");
    } else if (integer(v) < 0) {
        *ret = number_from_i64(ev->scratch, -integer(v), v.type == BV_INT64);
    }
    return 0;
}

/* $ceil and $floor: integers pass as they are. */
static int whole(const struct expr *e, struct eval *ev, bool up, struct bv *ret)
{
    struct bv v;
    bool null;

    TRY_RETURN(one(e, ev, &v, &null));
    if (v.type == BV_DOUBLE)
        v = bv_new_f64(ev->scratch, up ? ceil(bv_f64(v)) : floor(bv_f64(v)));
    else if (v.type == BV_DECIMAL)
        v = number_from_decimal(ev->scratch, decimal_round(decimal_load(v.p), 0, up ? 3 : 2));
    *ret = v;
    return 0;
}

int eval_ceil(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return whole(e, ev, true, ret);
}

int eval_floor(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return whole(e, ev, false, ret);
}

/* A function of a double with its decimal twin. */
static struct bv transcendental(struct eval *ev, struct bv v, double (*fn)(double),
                                enum decimal_fn dec)
{
    if (v.type == BV_DECIMAL)
        return number_from_decimal(ev->scratch, decimal_fn(dec, decimal_load(v.p)));
    return bv_new_f64(ev->scratch, fn(bv_to_f64(v)));
}

int eval_exp(const struct expr *e, struct eval *ev, struct bv *ret)
{
    bool null;

    TRY_RETURN(one(e, ev, ret, &null));
    if (!null)
        *ret = transcendental(ev, *ret, exp, DEC_EXP);
    return 0;
}

static bool is_nan(struct bv v)
{
    return v.type == BV_DECIMAL ? decimal_is_nan(decimal_load(v.p)) : isnan(bv_to_f64(v));
}

/* Greater than zero, or NaN, which passes through. */
static bool positive(struct bv v)
{
    return is_nan(v) || bv_to_f64(v) > 0 ||
           (v.type == BV_DECIMAL && !decimal_is_zero(decimal_load(v.p)) &&
            !decimal_is_negative(decimal_load(v.p)));
}

static int logarithm(const struct expr *e, struct eval *ev, int code, double (*fn)(double),
                     enum decimal_fn dec, struct bv *ret)
{
    struct bv v;
    bool null;

    TRY_RETURN(one(e, ev, &v, &null));
    if (!null && !positive(v))
        return op_fail(ev->op, code, "%s's argument must be a positive number, but is %s",
                       expr_name(e), bv_show(ev->scratch, v, 64));
    *ret = null ? bv_null : transcendental(ev, v, fn, dec);
    return 0;
}

int eval_ln(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return logarithm(e, ev, 28766, log, DEC_LN, ret);
}

int eval_log10(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return logarithm(e, ev, 28761, log10, DEC_LOG10, ret);
}

int eval_sqrt(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv v;
    bool null;

    TRY_RETURN(one(e, ev, &v, &null));
    if (!null && !positive(v) && bv_truthy(v))
        return op_fail(ev->op, 28714, "$sqrt's argument must be greater than or equal to 0");
    *ret = null ? bv_null : transcendental(ev, v, sqrt, DEC_SQRT);
    return 0;
}

int eval_log(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv v, base;
    bool null;

    TRY_RETURN(two(e, ev, &v, &base, &null));
    if (null) {
        *ret = bv_null;
        return 0;
    }
    if (!bv_is_number(v))
        return op_fail(ev->op, 28756, "$log's argument must be numeric, not %s",
                       bv_type_name(v.type));
    if (!bv_is_number(base))
        return op_fail(ev->op, 28757, "$log's base must be numeric, not %s",
                       bv_type_name(base.type));
    if (!positive(v))
        return op_fail(ev->op, 28758, "$log's argument must be a positive number, but is %s",
                       bv_show(ev->scratch, v, 64));
    if (!positive(base) || bv_to_f64(base) == 1)
        return op_fail(ev->op, 28759,
                       "$log's base must be a positive number not equal to 1, but is %s",
                       bv_show(ev->scratch, base, 64));
    if (v.type == BV_DECIMAL || base.type == BV_DECIMAL)
        *ret =
            number_from_decimal(ev->scratch, decimal_div(decimal_fn(DEC_LN, number_decimal(v)),
                                                         decimal_fn(DEC_LN, number_decimal(base))));
    else
        *ret = bv_new_f64(ev->scratch, log(bv_to_f64(v)) / log(bv_to_f64(base)));
    return 0;
}

/* base^n in int64; false when it overflows. */
static bool i64_pow(int64_t base, int64_t n, int64_t *ret)
{
    int64_t result = 1;

    while (n > 0) {
        if ((n & 1) != 0 && __builtin_mul_overflow(result, base, &result))
            return false;
        n >>= 1;
        if (n > 0 && __builtin_mul_overflow(base, base, &base))
            return false;
    }
    *ret = result;
    return true;
}

int eval_pow(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv base, n;
    int64_t result;
    bool null;

    TRY_RETURN(two(e, ev, &base, &n, &null));
    if (null) {
        *ret = bv_null;
        return 0;
    }
    if (!bv_is_number(base))
        return op_fail(ev->op, 28762, "$pow's base must be numeric, not %s",
                       bv_type_name(base.type));
    if (!bv_is_number(n))
        return op_fail(ev->op, 28763, "$pow's exponent must be numeric, not %s",
                       bv_type_name(n.type));
    if (!bv_truthy(base) && bv_to_f64(n) < 0)
        return op_fail(ev->op, 28764, "$pow cannot take a base of 0 and a negative exponent");
    if (base.type == BV_DECIMAL || n.type == BV_DECIMAL)
        *ret =
            number_from_decimal(ev->scratch, decimal_pow(number_decimal(base), number_decimal(n)));
    else if (is_integer(base) && is_integer(n) && integer(n) >= 0 &&
             i64_pow(integer(base), integer(n), &result))
        *ret = number_from_i64(ev->scratch, result, base.type == BV_INT64 || n.type == BV_INT64);
    else
        *ret = bv_new_f64(ev->scratch, pow(bv_to_f64(base), bv_to_f64(n)));
    return 0;
}

/* --- $round $trunc
 * -------------------------------------------------------------------------------- */

static int64_t i64_round(int64_t x, int places, bool half_even)
{
    int64_t unit = 1, rest, down;

    for (; places < 0; places++) {
        if (__builtin_mul_overflow(unit, 10, &unit))
            return 0;
    }
    rest = x % unit;
    down = x - rest;
    if (!half_even || rest == 0)
        return down;
    rest = rest < 0 ? -rest : rest;
    if (rest > unit - rest || (rest == unit - rest && (down / unit) % 2 != 0)) {
        if (__builtin_add_overflow(down, x < 0 ? -unit : unit, &down))
            return x;
    }
    return down;
}

/* How many places the second operand asks for. */
static int places_of(const struct expr *e, struct eval *ev, struct bv v, int *ret)
{
    int64_t n;

    if (!bv_to_i64_exact(v, &n))
        return op_fail(ev->op, 51082, "precision argument to %s must be a integral value",
                       expr_name(e));
    if (n < -20 || n > 100)
        return op_fail(ev->op, 51083,
                       "cannot apply %s with precision value %lld value must be in "
                       "[-20, 100]",
                       expr_name(e), (long long)n);
    *ret = (int)n;
    return 0;
}

static int round_to(const struct expr *e, struct eval *ev, bool half_even, struct bv *ret)
{
    struct bv v, place = BV_NONE;
    int places = 0;
    double d;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    if (e->nargs == 2)
        TRY_RETURN(expr_eval(e->args[1], ev, &place));
    if (bv_is_nullish(v) || (e->nargs == 2 && bv_is_nullish(place))) {
        *ret = bv_null;
        return 0;
    }
    if (!bv_is_number(v))
        return op_fail(ev->op, 51081, "%s only supports numeric types, not %s", expr_name(e),
                       bv_type_name(v.type));
    if (e->nargs == 2)
        TRY_RETURN(places_of(e, ev, place, &places));
    *ret = v;
    switch (v.type) {
    case BV_DECIMAL:
        *ret = number_from_decimal(ev->scratch,
                                   decimal_round(decimal_load(v.p), places, half_even ? 0 : 1));
        break;
    case BV_DOUBLE:
        d = bv_f64(v);
        if (!isfinite(d))
            break;
        if (places == 0)
            d = half_even ? rint(d) : trunc(d);
        else
            d = decimal_to_f64(decimal_round(decimal_from_f64(d), places, half_even ? 0 : 1));
        *ret = bv_new_f64(ev->scratch, d);
        break;
    default:
        if (places < 0)
            *ret = number_from_i64(ev->scratch, i64_round(integer(v), places, half_even),
                                   v.type == BV_INT64);
    }
    return 0;
}

int eval_round(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return round_to(e, ev, true, ret);
}

int eval_trunc(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return round_to(e, ev, false, ret);
}
