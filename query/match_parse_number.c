/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Operands of the filter operators that take numbers or types; see match_parse_ops.c. */
#include <math.h>

#include "query/match_internal.h"

/* --- $exists, $type, $size, $mod ---------------------------------------------------------------
 */

int match_parse_exists(struct match_parser *p, const struct match_at *at, const struct belem *e,
                       enum match_kind k, struct match **ret)
{
    *ret = match_node(p, k, at, e);
    (*ret)->negate = !bv_truthy(e->v);
    return 0;
}

static int type_from_name(struct match_parser *p, struct bv v, uint64_t *bits)
{
    if (bv_str_is(v, "number")) {
        *bits |= match_type_bit(BV_INT32) | match_type_bit(BV_INT64) | match_type_bit(BV_DOUBLE) |
                 match_type_bit(BV_DECIMAL);
        return 0;
    }
    for (unsigned type = BV_DOUBLE; type <= BV_MINKEY; type++) {
        if ((type <= BV_DECIMAL || type >= BV_MAXKEY) &&
            bv_str_is(v, bv_type_name((uint8_t)type)) && !bv_str_is(v, "unknown")) {
            *bits |= match_type_bit((uint8_t)type);
            return 0;
        }
    }
    return op_fail(p->op, ERR_BAD_VALUE, "Unknown type name alias: %s", bv_str(v, NULL));
}

static int type_from_number(struct match_parser *p, struct bv v, uint64_t *bits)
{
    int64_t n;

    if (!bv_to_i64_exact(v, &n))
        return op_fail(p->op, ERR_BAD_VALUE, "Invalid numerical type code: %s",
                       bv_show(p->a, v, 60));
    if (n == 0)
        return match_bad_value(p, "Invalid numerical type code: 0. Instead use {$exists:false}.");
    if (n == -1)
        *bits |= match_type_bit(BV_MINKEY);
    else if (n == BV_MAXKEY)
        *bits |= match_type_bit(BV_MAXKEY);
    else if (n >= 1 && n <= BV_DECIMAL)
        *bits |= match_type_bit((uint8_t)n);
    else
        return op_fail(p->op, ERR_BAD_VALUE, "Invalid numerical type code: %lld", (long long)n);
    return 0;
}

static int type_add(struct match_parser *p, struct bv v, uint64_t *bits)
{
    if (v.type == BV_STRING)
        return type_from_name(p, v, bits);
    if (bv_is_number(v))
        return type_from_number(p, v, bits);
    return op_fail(p->op, ERR_TYPE_MISMATCH, "type must be represented as a number or a string");
}

int match_parse_type(struct match_parser *p, const struct match_at *at, const struct belem *e,
                     enum match_kind k, struct match **ret)
{
    struct match *m = match_node(p, k, at, e);

    if (e->v.type == BV_ARRAY) {
        struct biter it = biter(e->v);
        struct belem v;

        while (biter_next(&it, &v))
            TRY_RETURN(type_add(p, v.v, &m->u.types));
        if (m->u.types == 0)
            return op_fail(p->op, ERR_FAILED_TO_PARSE, "%s must match at least one type", at->path);
    } else {
        TRY_RETURN(type_add(p, e->v, &m->u.types));
    }
    *ret = m;
    return 0;
}

/* A whole number that fits a long; `what` is put before the error text. */
static int whole_number(struct match_parser *p, const struct belem *e, const char *what, int code,
                        bool non_negative, int64_t *ret)
{
    double d = bv_to_f64(e->v);

    if (!bv_is_number(e->v))
        return op_fail(p->op, code, "%sExpected a number in: %s", what, match_show_elem(p, e));
    if (isnan(d))
        return op_fail(p->op, code, "%sExpected an integer, but found NaN in: %s", what,
                       match_show_elem(p, e));
    if (!bv_to_i64(e->v, ret))
        return op_fail(p->op, code, "%sCannot represent as a 64-bit integer: %s", what,
                       match_show_elem(p, e));
    if (!bv_to_i64_exact(e->v, ret))
        return op_fail(p->op, code, "%sExpected an integer: %s", what, match_show_elem(p, e));
    if (non_negative && *ret < 0)
        return op_fail(p->op, code, "%sExpected a non-negative number in: %s", what,
                       match_show_elem(p, e));
    return 0;
}

int match_parse_size(struct match_parser *p, const struct match_at *at, const struct belem *e,
                     enum match_kind k, struct match **ret)
{
    struct match *m = match_node(p, k, at, e);

    TRY_RETURN(whole_number(p, e, "Failed to parse $size. ", ERR_BAD_VALUE, true, &m->u.size));
    *ret = m;
    return 0;
}

/* Fractions are cut off. */
static int mod_number(struct match_parser *p, struct bv v, const char *which, int64_t *ret)
{
    double d = bv_to_f64(v);

    if (!bv_is_number(v))
        return op_fail(p->op, ERR_BAD_VALUE, "malformed mod, %s not a number", which);
    if (isnan(d) || isinf(d))
        return op_fail(p->op, ERR_BAD_VALUE,
                       "malformed mod, %s value is invalid :: caused by :: Unable to coerce "
                       "NaN/Inf to integral type",
                       which);
    if (!bv_to_i64(v, ret))
        return op_fail(p->op, ERR_BAD_VALUE,
                       "malformed mod, %s value is invalid :: caused by :: Out of bounds coercing "
                       "to integral value",
                       which);
    return 0;
}

int match_parse_mod(struct match_parser *p, const struct match_at *at, const struct belem *e,
                    enum match_kind k, struct match **ret)
{
    struct match *m = match_node(p, k, at, e);
    struct biter it = biter(e->v);
    struct belem v;

    if (e->v.type != BV_ARRAY)
        return match_bad_value(p, "malformed mod, needs to be an array");
    if (bv_count(e->v) < 2)
        return match_bad_value(p, "malformed mod, not enough elements");
    if (bv_count(e->v) > 2)
        return match_bad_value(p, "malformed mod, too many elements");
    biter_next(&it, &v);
    TRY_RETURN(mod_number(p, v.v, "divisor", &m->u.mod.divisor));
    biter_next(&it, &v);
    TRY_RETURN(mod_number(p, v.v, "remainder", &m->u.mod.remainder));
    if (m->u.mod.divisor == 0)
        return match_bad_value(p, "divisor cannot be 0");
    *ret = m;
    return 0;
}

/* --- $bits... -------------------------------------------------------------------------------- */

static int bits_alloc(struct match_parser *p, size_t n, uint32_t **ret)
{
    *ret = arena_try(p->a, n * sizeof(**ret));
    if (*ret == NULL)
        return op_fail(p->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for the filter");
    return 0;
}

static int bits_from_mask(struct match_parser *p, const uint8_t *mask, uint32_t nbytes,
                          struct match *m)
{
    uint32_t *at, n = 0;

    for (uint32_t i = 0; i < nbytes; i++)
        n += (uint32_t)__builtin_popcount(mask[i]);
    TRY_RETURN(bits_alloc(p, n, &at));
    n = 0;
    for (uint32_t i = 0; i < nbytes; i++) {
        for (uint32_t bit = 0; bit < 8; bit++) {
            if ((mask[i] >> bit & 1) != 0)
                at[n++] = i * 8 + bit;
        }
    }
    m->u.bits.at = at;
    m->u.bits.n = n;
    return 0;
}

static int bits_from_array(struct match_parser *p, struct bv array, struct match *m)
{
    struct biter it = biter(array);
    struct belem v;
    uint32_t *at, n = 0;

    TRY_RETURN(bits_alloc(p, bv_count(array), &at));
    while (biter_next(&it, &v)) {
        int64_t bit;

        TRY_RETURN(
            whole_number(p, &v, "Failed to parse bit position. ", ERR_BAD_VALUE, true, &bit));
        if (bit > INT32_MAX)
            return op_fail(p->op, ERR_BAD_VALUE,
                           "Failed to parse bit position. Cannot represent "
                           "as an int: %s",
                           match_show_elem(p, &v));
        at[n++] = (uint32_t)bit;
    }
    m->u.bits.at = at;
    m->u.bits.n = n;
    return 0;
}

int match_parse_bits(struct match_parser *p, const struct match_at *at, const struct belem *e,
                     enum match_kind k, struct match **ret)
{
    static const char *const names[] = {"$bitsAllSet", "$bitsAllClear", "$bitsAnySet",
                                        "$bitsAnyClear"};
    struct match *m = match_node(p, k, at, e);

    for (int i = 0; i < 4; i++) {
        if (strcmp(names[i], e->key) == 0)
            m->u.bits.test = (enum bits_test)i;
    }
    if (bv_is_number(e->v)) {
        int64_t mask;

        TRY_RETURN(whole_number(p, e, "", ERR_FAILED_TO_PARSE, true, &mask));
        TRY_RETURN(bits_from_mask(p, (const uint8_t *)&mask, sizeof(mask), m));
    } else if (e->v.type == BV_BINARY) {
        uint32_t n;
        const uint8_t *bytes = bv_bin(e->v, &n, NULL);

        TRY_RETURN(bits_from_mask(p, bytes, n, m));
    } else if (e->v.type == BV_ARRAY) {
        TRY_RETURN(bits_from_array(p, e->v, m));
    } else {
        return op_fail(p->op, ERR_BAD_VALUE,
                       "%s takes an Array, a number, or a BinData but received: %s", at->path,
                       match_show_elem(p, e));
    }
    *ret = m;
    return 0;
}
