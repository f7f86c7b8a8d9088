/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Conversions: $convert and $toBool, $toDate, $toDecimal, $toDouble, $toInt, $toLong, $toObjectId,
 * $toString; and the looser coercion to text that string operators use.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "query/expr_date.h"

/* --- text
 * -------------------------------------------------------------------------------------------- */

/* As MongoDB prints doubles: up to 16 digits, no trailing zeros. */
static int double_text(double d, char buf[static 48])
{
    if (isnan(d))
        return snprintf(buf, 48, "NaN");
    if (isinf(d))
        return snprintf(buf, 48, "%s", d < 0 ? "-Infinity" : "Infinity");
    return snprintf(buf, 48, "%.16g", d);
}

/* The text of a number, date, boolean or ObjectId; -1: v is none of them. */
static int scalar_text(struct bv v, char buf[static 48])
{
    switch (v.type) {
    case BV_DOUBLE:
        return double_text(bv_f64(v), buf);
    case BV_INT32:
        return snprintf(buf, 48, "%d", bv_i32(v));
    case BV_INT64:
        return snprintf(buf, 48, "%" PRId64, bv_i64(v));
    case BV_DECIMAL:
        return decimal_to_str(decimal_load(v.p), buf);
    case BV_DATE:
        return (int)date_iso_text(bv_i64(v), buf);
    case BV_BOOL:
        return snprintf(buf, 48, "%s", bv_bool(v) ? "true" : "false");
    case BV_OID:
        for (int i = 0; i < 12; i++)
            snprintf(buf + 2 * i, 3, "%02x", v.p[i]);
        return 24;
    default:
        return -1;
    }
}

int expr_coerce_string(struct eval *ev, struct bv v, struct bv *ret)
{
    char buf[48];
    int n = -1;

    if (v.type == BV_STRING || v.type == BV_SYMBOL || v.type == BV_CODE) {
        *ret = v;
        return 0;
    }
    if (bv_is_nullish(v))
        return expr_string(ev, "", 0, ret);
    if (v.type == BV_TIMESTAMP)
        n = snprintf(buf, sizeof(buf), "Timestamp(%" PRIu64 ", %u)", bv_ts(v) >> 32,
                     (uint32_t)bv_ts(v));
    else if (v.type != BV_BOOL && v.type != BV_OID)
        n = scalar_text(v, buf);
    if (n < 0)
        return op_fail(ev->op, 16007, "can't convert from BSON type %s to String",
                       bv_type_name(v.type));
    return expr_string(ev, buf, (size_t)n, ret);
}

/* --- conversions to one type
 * --------------------------------------------------------------------------- */

static int unsupported(struct eval *ev, struct bv v, uint8_t to)
{
    return op_fail(ev->op, ERR_CONVERSION_FAILURE,
                   "Unsupported conversion from %s to %s in $convert with no onError value",
                   bv_type_name(v.type), bv_type_name(to));
}

static int overflow(struct eval *ev, struct bv v)
{
    return op_fail(ev->op, ERR_CONVERSION_FAILURE,
                   "Conversion would overflow target type in $convert with no onError value: %s",
                   bv_show(ev->scratch, v, 64));
}

static int parse_failure(struct eval *ev, struct bv v, const char *why)
{
    uint32_t n;
    const char *s = bv_str(v, &n);

    return op_fail(ev->op, ERR_CONVERSION_FAILURE,
                   "Failed to parse number '%.*s' in $convert with no onError value: %s",
                   (int)(n < 100 ? n : 100), s, why);
}

static int to_bool(struct eval *ev, struct bv v, struct bv *ret)
{
    switch (v.type) {
    case BV_BOOL:
    case BV_INT32:
    case BV_INT64:
    case BV_DOUBLE:
    case BV_DECIMAL:
        *ret = bv_new_bool(bv_truthy(v));
        return 0;
    case BV_STRING:
    case BV_OID:
    case BV_DATE:
    case BV_TIMESTAMP:
    case BV_BINARY:
    case BV_DOC:
    case BV_ARRAY:
    case BV_REGEX:
    case BV_CODE:
    case BV_SYMBOL:
    case BV_MINKEY:
    case BV_MAXKEY:
        *ret = bv_true;
        return 0;
    default:
        return unsupported(ev, v, BV_BOOL);
    }
}

static int to_string(struct eval *ev, struct bv v, struct bv *ret)
{
    char buf[48];
    int n;

    if (v.type == BV_STRING) {
        *ret = v;
        return 0;
    }
    n = scalar_text(v, buf);
    if (n < 0)
        return unsupported(ev, v, BV_STRING);
    return expr_string(ev, buf, (size_t)n, ret);
}

/* A decimal integer and nothing else. */
static int parse_integer(struct eval *ev, struct bv v, int64_t *ret)
{
    uint32_t n, i = 0;
    const char *s = bv_str(v, &n);
    bool negative = n > 0 && s[0] == '-';
    int64_t x = 0;

    if (n > 0 && (s[0] == '-' || s[0] == '+'))
        i++;
    if (i == n)
        return parse_failure(ev, v, "No digits");
    for (; i < n; i++) {
        int digit = s[i] - '0';

        if (digit < 0 || digit > 9)
            return parse_failure(ev, v, "Did not consume whole string.");
        if (__builtin_mul_overflow(x, 10, &x) ||
            __builtin_sub_overflow(x, digit, &x)) /* downward: INT64_MIN has no positive */
            return parse_failure(ev, v, "Overflow");
    }
    if (!negative && __builtin_sub_overflow((int64_t)0, x, &x))
        return parse_failure(ev, v, "Overflow");
    *ret = x;
    return 0;
}

static int to_integer(struct eval *ev, struct bv v, uint8_t to, struct bv *ret)
{
    int64_t n = 0;

    switch (v.type) {
    case BV_BOOL:
        n = bv_bool(v);
        break;
    case BV_STRING:
        TRY_RETURN(parse_integer(ev, v, &n));
        break;
    case BV_DATE:
        if (to == BV_INT32)
            return unsupported(ev, v, to);
        n = bv_i64(v);
        break;
    case BV_INT32:
    case BV_INT64:
    case BV_DOUBLE:
    case BV_DECIMAL:
        if (!bv_to_i64(v, &n))
            return overflow(ev, v);
        break;
    default:
        return unsupported(ev, v, to);
    }
    if (to == BV_INT32) {
        if (n > INT32_MAX || n < INT32_MIN)
            return overflow(ev, v);
        *ret = bv_new_i32(ev->scratch, (int32_t)n);
    } else {
        *ret = bv_new_i64(ev->scratch, n);
    }
    return 0;
}

/* What strtod takes and MongoDB does not: leading spaces, hexadecimal. */
static int parse_double(struct eval *ev, struct bv v, double *ret)
{
    uint32_t n;
    const char *s = bv_str(v, &n);
    char *end;

    if (n == 0)
        return parse_failure(ev, v, "Empty string");
    if (strspn(s, "0123456789+-.eEnNaAiIfFtTyY") != n)
        return parse_failure(ev, v, "Did not consume whole string.");
    *ret = strtod(s, &end);
    if (end != s + n)
        return parse_failure(ev, v, "Did not consume whole string.");
    if (isinf(*ret) && strpbrk(s, "iI") == NULL)
        return parse_failure(ev, v, "Out of range");
    return 0;
}

static int to_double(struct eval *ev, struct bv v, struct bv *ret)
{
    double d = 0;

    switch (v.type) {
    case BV_BOOL:
        d = bv_bool(v);
        break;
    case BV_STRING:
        TRY_RETURN(parse_double(ev, v, &d));
        break;
    case BV_DATE:
        d = (double)bv_i64(v);
        break;
    case BV_DECIMAL:
        d = bv_to_f64(v);
        if (isinf(d) && !decimal_is_inf(decimal_load(v.p)))
            return overflow(ev, v);
        break;
    case BV_INT32:
    case BV_INT64:
    case BV_DOUBLE:
        d = bv_to_f64(v);
        break;
    default:
        return unsupported(ev, v, BV_DOUBLE);
    }
    *ret = bv_new_f64(ev->scratch, d);
    return 0;
}

static int to_decimal(struct eval *ev, struct bv v, struct bv *ret)
{
    struct decimal d;
    const char *s;
    uint32_t n;

    switch (v.type) {
    case BV_BOOL:
        d = decimal_from_i64(bv_bool(v));
        break;
    case BV_DATE:
        d = decimal_from_i64(bv_i64(v));
        break;
    case BV_STRING:
        s = bv_str(v, &n);
        if (!decimal_from_str(s, n, &d))
            return parse_failure(ev, v, "Failed to parse string to decimal");
        break;
    case BV_INT32:
    case BV_INT64:
    case BV_DOUBLE:
    case BV_DECIMAL:
        d = number_decimal(v);
        break;
    default:
        return unsupported(ev, v, BV_DECIMAL);
    }
    *ret = number_from_decimal(ev->scratch, d);
    return 0;
}

static int to_date(struct eval *ev, struct bv v, struct bv *ret)
{
    int64_t ms = 0;
    const char *s;
    uint32_t n;

    switch (v.type) {
    case BV_INT64:
    case BV_DOUBLE:
    case BV_DECIMAL:
        if (!bv_to_i64(v, &ms))
            return overflow(ev, v);
        break;
    case BV_STRING:
        s = bv_str(v, &n);
        TRY_RETURN(date_from_text(ev->op, s, n, NULL, 0, TZ_UTC, false, &ms));
        break;
    default:
        if (!expr_date_of(v, &ms))
            return unsupported(ev, v, BV_DATE);
    }
    *ret = bv_new_date(ev->scratch, ms);
    return 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static int to_oid(struct eval *ev, struct bv v, struct bv *ret)
{
    uint8_t oid[12];
    const char *s;
    uint32_t n;

    if (v.type == BV_OID) {
        *ret = v;
        return 0;
    }
    if (v.type != BV_STRING)
        return unsupported(ev, v, BV_OID);
    s = bv_str(v, &n);
    if (n != 24)
        return op_fail(ev->op, ERR_CONVERSION_FAILURE,
                       "Failed to parse objectId '%.*s' in $convert with no onError value: Invalid "
                       "string length for parsing to OID, expected 24 but found %u",
                       (int)(n < 100 ? n : 100), s, n);
    for (int i = 0; i < 12; i++) {
        int hi = hex_digit(s[2 * i]), lo = hex_digit(s[2 * i + 1]);

        if (hi < 0 || lo < 0)
            return op_fail(ev->op, ERR_CONVERSION_FAILURE,
                           "Failed to parse objectId '%.24s' in $convert with no onError value: "
                           "Invalid character found in hex string",
                           s);
        oid[i] = (uint8_t)(hi << 4 | lo);
    }
    *ret = bv_new_oid(ev->scratch, oid);
    return 0;
}

static int convert(struct eval *ev, struct bv v, uint8_t to, struct bv *ret)
{
    switch (to) {
    case BV_BOOL:
        return to_bool(ev, v, ret);
    case BV_STRING:
        return to_string(ev, v, ret);
    case BV_INT32:
    case BV_INT64:
        return to_integer(ev, v, to, ret);
    case BV_DOUBLE:
        return to_double(ev, v, ret);
    case BV_DECIMAL:
        return to_decimal(ev, v, ret);
    case BV_DATE:
        return to_date(ev, v, ret);
    case BV_OID:
        return to_oid(ev, v, ret);
    default:
        return unsupported(ev, v, to);
    }
}

/* --- operators
 * ------------------------------------------------------------------------------------------ */

static int convert_operand(const struct expr *e, struct eval *ev, uint8_t to, struct bv *ret)
{
    struct bv v;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    if (bv_is_nullish(v)) {
        *ret = bv_null;
        return 0;
    }
    return convert(ev, v, to, ret);
}

#define CONVERSION(name, type)                                                                     \
    int name(const struct expr *e, struct eval *ev, struct bv *ret)                                \
    {                                                                                              \
        return convert_operand(e, ev, (type), ret);                                                \
    }

CONVERSION(eval_to_bool, BV_BOOL)
CONVERSION(eval_to_date, BV_DATE)
CONVERSION(eval_to_decimal, BV_DECIMAL)
CONVERSION(eval_to_double, BV_DOUBLE)
CONVERSION(eval_to_int, BV_INT32)
CONVERSION(eval_to_long, BV_INT64)
CONVERSION(eval_to_object_id, BV_OID)
CONVERSION(eval_to_string, BV_STRING)

/* The type that `to` names, by its name or its number. */
static int target_type(struct eval *ev, struct bv to, uint8_t *ret)
{
    static const uint8_t types[] = {BV_DOUBLE, BV_STRING, BV_DOC,     BV_ARRAY,     BV_BINARY,
                                    BV_OID,    BV_BOOL,   BV_DATE,    BV_NULL,      BV_REGEX,
                                    BV_INT32,  BV_INT64,  BV_DECIMAL, BV_TIMESTAMP, BV_MINKEY,
                                    BV_MAXKEY, BV_CODE,   BV_SYMBOL,  BV_UNDEFINED};
    int64_t n = INT64_MIN;

    if (to.type != BV_STRING && !bv_to_i64_exact(to, &n))
        return op_fail(ev->op, ERR_FAILED_TO_PARSE,
                       "$convert's 'to' argument must be a string or number, but is %s",
                       bv_type_name(to.type));
    for (size_t i = 0; i < sizeof(types); i++) {
        int64_t number = types[i] == BV_MINKEY ? -1 : types[i];

        if (to.type == BV_STRING ? bv_str_is(to, bv_type_name(types[i])) : n == number) {
            *ret = types[i];
            return 0;
        }
    }
    if (to.type == BV_STRING)
        return op_fail(ev->op, ERR_BAD_VALUE, "Unknown type name: %s",
                       bv_show(ev->scratch, to, 64));
    return op_fail(ev->op, ERR_FAILED_TO_PARSE,
                   "In $convert, numeric value for 'to' does not correspond to a BSON type: %lld",
                   (long long)n);
}

/* args: input, to, onError, onNull */
int eval_convert(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv v, to;
    uint8_t type = 0;
    int rc;

    TRY_RETURN(expr_arg(e, 0, ev, &v));
    TRY_RETURN(expr_arg(e, 1, ev, &to));
    if (bv_is_nullish(v)) {
        *ret = bv_null;
        return e->args[3] != NULL ? expr_eval(e->args[3], ev, ret) : 0;
    }
    if (bv_is_nullish(to)) {
        *ret = bv_null;
        return 0;
    }
    TRY_RETURN(target_type(ev, to, &type));
    rc = convert(ev, v, type, ret);
    if (rc == ERR_CONVERSION_FAILURE && e->args[2] != NULL)
        return expr_eval(e->args[2], ev, ret);
    return rc;
}
