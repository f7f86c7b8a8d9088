/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * $sum, $avg, $count, $stdDevPop, $stdDevSamp. What is no number is passed over.
 *
 * Sums do not depend on the order of their terms more than they must: integers are added exactly,
 * doubles with a compensation term, decimals apart, and the three meet in the result.
 */
#include <math.h>

#include "query/accumulator.h"
#include "query/expr_op.h"

struct sum {
    __int128 ints;
    double hi, lo; /* the doubles: hi + lo */
    struct decimal decimals;
    int64_t count;
    bool has_long, has_double, has_decimal;
};

static void add_double(struct sum *s, double x)
{
    double sum = s->hi + x, part;

    s->has_double = true;
    if (!isfinite(sum)) {
        s->hi = sum;
        s->lo = 0;
        return;
    }
    part = sum - s->hi;
    s->lo += (s->hi - (sum - part)) + (x - part);
    s->hi = sum;
}

static void add_decimal(struct sum *s, struct decimal d)
{
    s->decimals = s->has_decimal ? decimal_add(s->decimals, d) : d;
    s->has_decimal = true;
}

static int sum_add(void *state, const struct accumulator *acc, struct eval *ev, struct bv v,
                   size_t *bytes)
{
    struct sum *s = state;

    (void)acc;
    (void)ev;
    (void)bytes;
    switch (v.type) {
    case BV_INT32:
        s->ints += bv_i32(v);
        break;
    case BV_INT64:
        s->ints += bv_i64(v);
        s->has_long = true;
        break;
    case BV_DOUBLE:
        add_double(s, bv_f64(v));
        break;
    case BV_DECIMAL:
        add_decimal(s, decimal_load(v.p));
        break;
    default:
        return 0;
    }
    s->count++;
    return 0;
}

static int sum_merge(void *state, const struct accumulator *acc, struct eval *ev, struct bv partial,
                     size_t *bytes)
{
    struct sum *s = state, t;
    uint32_t n;

    (void)acc;
    (void)ev;
    (void)bytes;
    memcpy(&t, bv_bin(partial, &n, NULL), sizeof(t));
    s->ints += t.ints;
    if (t.has_double) {
        add_double(s, t.hi);
        add_double(s, t.lo);
    }
    if (t.has_decimal)
        add_decimal(s, t.decimals);
    s->has_long |= t.has_long;
    s->count += t.count;
    return 0;
}

static int sum_partial(const void *state, const struct accumulator *acc, struct eval *ev,
                       struct bv *ret)
{
    (void)acc;
    *ret = acc_partial_bytes(ev, state, sizeof(struct sum));
    return 0;
}

static double sum_f64(const struct sum *s)
{
    return (double)s->ints + s->hi + s->lo;
}

static struct decimal i128_decimal(__int128 x)
{
    struct decimal unit = decimal_from_i64(1000000000000000000);
    int64_t high = (int64_t)(x / 1000000000000000000), low = (int64_t)(x % 1000000000000000000);

    return decimal_add(decimal_mul(decimal_from_i64(high), unit), decimal_from_i64(low));
}

static struct decimal sum_decimal(const struct sum *s)
{
    struct decimal d = decimal_add(s->decimals, i128_decimal(s->ints));

    if (!s->has_double)
        return d;
    return decimal_add(decimal_add(d, decimal_from_f64(s->hi)), decimal_from_f64(s->lo));
}

static int sum_result(const void *state, const struct accumulator *acc, struct eval *ev,
                      struct bv *ret)
{
    const struct sum *s = state;

    (void)acc;
    if (s->has_decimal)
        *ret = number_from_decimal(ev->scratch, sum_decimal(s));
    else if (s->has_double || s->ints > INT64_MAX || s->ints < INT64_MIN)
        *ret = bv_new_f64(ev->scratch, sum_f64(s));
    else
        *ret = number_from_i64(ev->scratch, (int64_t)s->ints, s->has_long);
    return 0;
}

static int avg_result(const void *state, const struct accumulator *acc, struct eval *ev,
                      struct bv *ret)
{
    const struct sum *s = state;

    (void)acc;
    if (s->count == 0)
        *ret = bv_null;
    else if (s->has_decimal)
        *ret = number_from_decimal(ev->scratch,
                                   decimal_div(sum_decimal(s), decimal_from_i64(s->count)));
    else
        *ret = bv_new_f64(ev->scratch, sum_f64(s) / (double)s->count);
    return 0;
}

ACC_OPS(acc_sum, .size = sizeof(struct sum), .add = sum_add, .merge = sum_merge,
        .partial = sum_partial, .result = sum_result);
ACC_OPS(acc_avg, .size = sizeof(struct sum), .add = sum_add, .merge = sum_merge,
        .partial = sum_partial, .result = avg_result);

/* --- $count
 * ---------------------------------------------------------------------------------------- */

static int count_add(void *state, const struct accumulator *acc, struct eval *ev, struct bv v,
                     size_t *bytes)
{
    (void)acc;
    (void)ev;
    (void)v;
    (void)bytes;
    ++*(int64_t *)state;
    return 0;
}

static int count_merge(void *state, const struct accumulator *acc, struct eval *ev,
                       struct bv partial, size_t *bytes)
{
    (void)acc;
    (void)ev;
    (void)bytes;
    *(int64_t *)state += bv_i64(partial);
    return 0;
}

static int count_partial(const void *state, const struct accumulator *acc, struct eval *ev,
                         struct bv *ret)
{
    (void)acc;
    *ret = bv_new_i64(ev->scratch, *(const int64_t *)state);
    return 0;
}

static int count_result(const void *state, const struct accumulator *acc, struct eval *ev,
                        struct bv *ret)
{
    (void)acc;
    *ret = number_from_i64(ev->scratch, *(const int64_t *)state, false);
    return 0;
}

int acc_parse_count(struct op *op, struct arena *a, struct bv spec, struct expr_vars *vars,
                    struct accumulator *ret)
{
    (void)a;
    (void)vars;
    (void)ret;
    if (spec.type != BV_DOC || !bv_empty(spec))
        return op_fail(op, ERR_TYPE_MISMATCH, "$count takes no arguments, i.e. $count:{}");
    return 0;
}

ACC_OPS(acc_count, .size = sizeof(int64_t), .add = count_add, .merge = count_merge,
        .partial = count_partial, .result = count_result);

/* --- standard deviation: mode 0 of a population, 1 of a sample
 * ----------------------------------------- */

struct std_dev {
    int64_t count;
    double mean, m2; /* sum of squared distances from the mean */
};

static int std_dev_add(void *state, const struct accumulator *acc, struct eval *ev, struct bv v,
                       size_t *bytes)
{
    struct std_dev *s = state;
    double delta;

    (void)acc;
    (void)ev;
    (void)bytes;
    if (!bv_is_number(v))
        return 0;
    delta = bv_to_f64(v) - s->mean;
    s->count++;
    s->mean += delta / (double)s->count;
    s->m2 += delta * (bv_to_f64(v) - s->mean);
    return 0;
}

static int std_dev_merge(void *state, const struct accumulator *acc, struct eval *ev,
                         struct bv partial, size_t *bytes)
{
    struct std_dev *s = state, t;
    double delta, total;
    uint32_t n;

    (void)acc;
    (void)ev;
    (void)bytes;
    memcpy(&t, bv_bin(partial, &n, NULL), sizeof(t));
    if (t.count == 0)
        return 0;
    delta = t.mean - s->mean;
    total = (double)(s->count + t.count);
    s->mean += delta * (double)t.count / total;
    s->m2 += t.m2 + delta * delta * (double)s->count * (double)t.count / total;
    s->count += t.count;
    return 0;
}

static int std_dev_partial(const void *state, const struct accumulator *acc, struct eval *ev,
                           struct bv *ret)
{
    (void)acc;
    *ret = acc_partial_bytes(ev, state, sizeof(struct std_dev));
    return 0;
}

static int std_dev_result(const void *state, const struct accumulator *acc, struct eval *ev,
                          struct bv *ret)
{
    const struct std_dev *s = state;
    int64_t n = s->count - acc->row->mode;

    *ret = n > 0 ? bv_new_f64(ev->scratch, sqrt(s->m2 / (double)n)) : bv_null;
    return 0;
}

ACC_OPS(acc_std_dev, .size = sizeof(struct std_dev), .add = std_dev_add, .merge = std_dev_merge,
        .partial = std_dev_partial, .result = std_dev_result);
