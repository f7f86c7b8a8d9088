/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Numbers in key strings.
 *
 * All four number types share one order and numbers that compare equal give equal bytes. A
 * magnitude is an integer with its lowest bit meaning "a fraction follows" (so 1 is 02, 1.5 is 03
 * 80 00 ...), or, below 1 and from 2^63 on, the bits of a double. Negative numbers have their
 * payload complemented.
 *
 * A decimal that no double equals is written as the next double toward zero, `base`, and a mark in
 * bits that doubles leave zero:
 *     two spare bits: 1 and 3: a continuation follows, 2: the value is base rounded up to 15
 *     digits (what people write: 0.1, 19.99), and 1 < 2 < 3 as the value is below, at or above it;
 *     one spare bit: a continuation follows.
 * The continuation counts units of the 34th digit of base, 8 bytes; fewer than 2^62 fit between
 * two normal doubles. Where doubles are subnormal or there are none the 16 bytes of the normalised
 * decimal itself are written, which sort as numbers do.
 *
 * A double stands for its value rounded to 34 digits here, as in bv_cmp().
 */
#include "storage/key_string_number.h"

#include <float.h>
#include <math.h>

#include "base/decimal.h"

typedef unsigned __int128 u128;

enum { TYPE_INT32 = 0, TYPE_INT64 = 1, TYPE_DOUBLE = 2, TYPE_DECIMAL = 3 };

#define TWO_63        9223372036854775808.0
#define TWO_53        9007199254740992.0
#define TWO_M255      0x1p-255
#define TWO_256       0x1p256
#define TOP_BIT       (1ULL << 63)
#define SCALED_OFFSET (1ULL << 62) /* lifts doubles below 2^-255 over the decimals below them */
#define EXPONENT_BIAS 6176
#define EXPONENT_MAX  12287 /* biased */

/* A positive decimal with as many digits as it can have (34, unless its exponent is the least). */
struct norm {
    u128 coef;
    uint32_t exp; /* biased */
};

/* --- decimals ------------------------------------------------------------------------------- */

static u128 pow10_u128(unsigned n)
{
    u128 x = 1;

    while (n-- > 0)
        x *= 10;
    return x;
}

static u128 coef_min(void)
{
    return (u128)1000000000000000ULL * 1000000000000000ULL * 1000; /* 10^33 */
}

static struct norm norm_of(struct decimal d)
{
    struct norm n = {.coef = ((u128)(d.hi & 0x1ffffffffffffULL) << 64) | d.lo,
                     .exp = (uint32_t)((d.hi >> 49) & 0x3fff)};

    while (n.coef < coef_min() && n.exp > 0) {
        n.coef *= 10;
        n.exp--;
    }
    return n;
}

static struct norm norm_of_f64(double m)
{
    return norm_of(decimal_from_f64_exact(m));
}

static int norm_cmp(struct norm a, struct norm b)
{
    if (a.exp != b.exp)
        return a.exp < b.exp ? -1 : 1;
    return (a.coef > b.coef) - (a.coef < b.coef);
}

/* Up to the next number of 15 digits. */
static struct norm norm_round_up(struct norm n)
{
    u128 unit = pow10_u128(19);

    n.coef = (n.coef + unit - 1) / unit * unit;
    if (n.coef >= coef_min() * 10) {
        n.coef /= 10;
        n.exp++;
    }
    return n;
}

static struct decimal norm_decimal(struct norm n, bool negative)
{
    return (struct decimal){.lo = (uint64_t)n.coef,
                            .hi = (negative ? TOP_BIT : 0) | ((uint64_t)n.exp << 49) |
                                  (uint64_t)(n.coef >> 64)};
}

/* The largest double that is not above n; 0: none. */
static double norm_base(struct norm n)
{
    double b = decimal_to_f64(norm_decimal(n, false));

    if (isinf(b))
        b = DBL_MAX;
    if (b > 0 && norm_cmp(norm_of_f64(b), n) > 0)
        b = nextafter(b, 0);
    return b;
}

/* --- writing -------------------------------------------------------------------------------- */

static uint64_t f64_bits(double x)
{
    uint64_t u;

    memcpy(&u, &x, 8);
    return u;
}

/* The low n bytes of x, big-endian; complemented when negative. */
static void put(struct ks_number *k, bool negative, uint64_t x, unsigned n)
{
    if (negative)
        x = ~x;
    x = __builtin_bswap64(x << (64 - 8 * n));
    memcpy(k->bytes + k->len, &x, n);
    k->len = (uint8_t)(k->len + n);
}

static void put_ctype(struct ks_number *k, int ctype)
{
    k->bytes[k->len++] = (uint8_t)ctype;
}

static unsigned byte_count(uint64_t x)
{
    return (unsigned)(64 - __builtin_clzll(x) + 7) / 8;
}

/* shifted: magnitude << 1 | has fraction. */
static void put_shifted(struct ks_number *k, bool negative, uint64_t shifted)
{
    unsigned n = byte_count(shifted);

    put_ctype(k, negative ? KS_ZERO - 1 - (int)n : KS_INT + (int)n);
    put(k, negative, shifted, n);
}

static void put_i64(struct ks_number *k, int64_t x);

/* m is positive and finite, and is not an integer below 2^63 unless `forced`; mark goes to the
 * spare bits. */
static void put_base(struct ks_number *k, bool negative, double m, unsigned mark)
{
    if (m >= TWO_63) {
        put_ctype(k, negative ? KS_NEG_LARGE : KS_POS_LARGE);
        put(k, negative, (f64_bits(m) << 1 & ~TOP_BIT) | mark, 8);
    } else if (m >= 1) {
        uint64_t ip = (uint64_t)m;
        unsigned f = (unsigned)__builtin_clzll(ip << 1) / 8;
        uint64_t e = (uint64_t)ldexp(m, (int)(8 * f)) + ((ip + 1) << (8 * f));

        put_ctype(k, negative ? KS_NEG_LARGE + 1 + (int)f : KS_POS_LARGE - 1 - (int)f);
        put(k, negative, e | mark, 8);
    } else {
        uint64_t e =
            m >= TWO_M255 ? f64_bits(m) << 2 : (f64_bits(m * TWO_256) << 1) + SCALED_OFFSET;

        put_ctype(k, negative ? KS_NEG_SMALL : KS_POS_SMALL);
        put(k, negative, e | mark, 8);
    }
}

static void put_f64(struct ks_number *k, double d)
{
    double m = fabs(d);

    if (isnan(d)) {
        put_ctype(k, KS_NAN);
    } else if (isinf(d)) {
        put_ctype(k, d < 0 ? KS_NEG_LARGE : KS_POS_LARGE);
        put(k, d < 0, UINT64_MAX, 8);
    } else if (m < TWO_63 && d == (double)(int64_t)d) {
        put_i64(k, (int64_t)d);
    } else {
        put_base(k, d < 0, m, 0);
    }
}

static void put_i64(struct ks_number *k, int64_t x)
{
    if (x == 0)
        put_ctype(k, KS_ZERO);
    else if (x == INT64_MIN)
        put_base(k, true, TWO_63, 0);
    else
        put_shifted(k, x < 0, (uint64_t)(x < 0 ? -x : x) << 1);
}

static void put_words(struct ks_number *k, bool negative, struct norm n, uint64_t top)
{
    struct decimal d = norm_decimal(n, false);

    put(k, negative, d.hi | top, 8);
    put(k, negative, d.lo, 8);
}

/* How far n lies above base, in units of base's last digit. */
static uint64_t units_above(struct norm n, struct norm base)
{
    return (uint64_t)(n.coef * pow10_u128(n.exp - base.exp) - base.coef);
}

/* n is not equal to the double m, m < n, and not an integer below 2^63. */
static void put_between(struct ks_number *k, bool negative, struct norm n, double m)
{
    struct norm base = norm_of_f64(m);

    if (m >= TWO_53 && m < TWO_63) {
        u128 one = pow10_u128(EXPONENT_BIAS - n.exp);
        uint64_t shifted = (uint64_t)(n.coef / one) << 1 | 1;

        put_shifted(k, negative, shifted);
        if (byte_count(shifted) < 8)
            put(k, negative, 3, 1);
        put(k, negative, (uint64_t)(n.coef % one), 8);
    } else if (m >= TWO_63 || m < TWO_M255) {
        put_base(k, negative, m, 1);
        if (m < DBL_MIN)
            put_words(k, negative, n, 0);
        else
            put(k, negative, units_above(n, base), 8);
    } else {
        int c = norm_cmp(n, norm_round_up(base));

        put_base(k, negative, m, c < 0 ? 1 : c == 0 ? 2 : 3);
        if (c != 0)
            put(k, negative, units_above(n, base), 8);
    }
}

static void put_decimal(struct ks_number *k, struct decimal d)
{
    bool negative = decimal_is_negative(d), exact;
    struct norm n;
    double m;
    int64_t i;

    if (decimal_is_nan(d) || decimal_is_inf(d)) {
        put_f64(k, decimal_is_nan(d) ? (double)NAN
                   : negative        ? -(double)INFINITY
                                     : (double)INFINITY);
        return;
    }
    if (decimal_to_i64(d, &i, &exact) && exact) {
        put_i64(k, i);
        return;
    }
    n = norm_of(decimal_abs(d));
    if (norm_cmp(n, norm_of_f64(DBL_MAX)) > 0) {
        put_ctype(k, negative ? KS_NEG_LARGE : KS_POS_LARGE);
        put_words(k, negative, n, TOP_BIT);
        return;
    }
    m = norm_base(n);
    if (m == 0) {
        put_ctype(k, negative ? KS_NEG_SMALL : KS_POS_SMALL);
        put_words(k, negative, n, 0);
    } else if (norm_cmp(norm_of_f64(m), n) == 0) {
        put_f64(k, negative ? -m : m);
    } else {
        put_between(k, negative, n, m);
    }
}

/* 11 and the low six bits of the exponent; a zero keeps sign and exponent whole. */
static void decimal_bits(struct ks_number *k, struct decimal d)
{
    uint32_t exp = (uint32_t)((d.hi >> 49) & 0x3fff);

    if (decimal_is_nan(d) || decimal_is_inf(d)) {
        k->bits = TYPE_DECIMAL << 6;
        k->nbits = 8;
    } else if (!decimal_is_zero(d)) {
        k->bits = (TYPE_DECIMAL << 6) | (exp & 63);
        k->nbits = 8;
    } else {
        if ((d.hi & (3ULL << 61)) == (3ULL << 61)) /* a zero in a form that nobody writes */
            exp = EXPONENT_BIAS;
        k->bits = ((25u + (decimal_is_negative(d) ? 3u : 0u) + (exp >> 12)) << 12) | (exp & 0xfff);
        k->nbits = 17;
    }
}

void ks_number_encode(struct bv v, struct ks_number *k)
{
    double d;

    k->len = 0;
    k->nbits = 2;
    switch (v.type) {
    case BV_INT32:
        k->bits = TYPE_INT32;
        put_i64(k, bv_i32(v));
        break;
    case BV_INT64:
        k->bits = TYPE_INT64;
        put_i64(k, bv_i64(v));
        break;
    case BV_DOUBLE:
        d = bv_f64(v);
        k->bits = TYPE_DOUBLE;
        if (d == 0 && signbit(d)) {
            k->bits = TYPE_DECIMAL << 3;
            k->nbits = 5;
        }
        put_f64(k, d);
        break;
    default:
        decimal_bits(k, decimal_load(v.p));
        put_decimal(k, decimal_load(v.p));
        break;
    }
}

/* --- reading -------------------------------------------------------------------------------- */

struct number_reader {
    struct ks_reader *r;
    struct arena *arena;
    struct error *err;
    bool negative;
    uint32_t type;     /* from the type bits */
    uint32_t exponent; /* decimal: low six bits */
};

static int take(struct number_reader *n, unsigned bytes, uint64_t *ret)
{
    uint8_t buf[8];
    uint64_t x = 0;

    TRY_RETURN(ks_take(n->r, bytes, buf, n->err));
    for (unsigned i = 0; i < bytes; i++)
        x = x << 8 | buf[i];
    if (n->negative)
        x = ~x & (bytes == 8 ? UINT64_MAX : (1ULL << (8 * bytes)) - 1);
    *ret = x;
    return 0;
}

static struct bv make_decimal(struct number_reader *n, struct norm v)
{
    uint32_t shift = n->type == TYPE_DECIMAL ? (n->exponent - v.exp) & 63 : UINT32_MAX;
    struct decimal d;
    uint8_t *p;

    while (v.exp < EXPONENT_MAX && v.coef != 0 &&
           (v.coef >= coef_min() * 10 || (shift > 0 && v.coef % 10 == 0))) {
        v.coef /= 10;
        v.exp++;
        shift -= shift > 0;
    }
    d = norm_decimal(v, n->negative);
    p = arena_dup(n->arena, &d, 16);
    return (struct bv){p, 16, BV_DECIMAL};
}

static struct bv make_f64(struct number_reader *n, double m)
{
    double d = n->negative ? -m : m;

    if (n->type == TYPE_INT64 && d == -TWO_63)
        return bv_new_i64(n->arena, INT64_MIN);
    if (n->type != TYPE_DECIMAL || isnan(m))
        return bv_new_f64(n->arena, d);
    return make_decimal(n, norm_of_f64(m));
}

static struct bv make_integer(struct number_reader *n, uint64_t m)
{
    int64_t x = n->negative ? -(int64_t)m : (int64_t)m;

    switch (n->type) {
    case TYPE_INT32:
        if (x >= INT32_MIN && x <= INT32_MAX)
            return bv_new_i32(n->arena, (int32_t)x);
        return bv_new_i64(n->arena, x);
    case TYPE_INT64:
        return bv_new_i64(n->arena, x);
    case TYPE_DOUBLE:
        return bv_new_f64(n->arena, (double)x);
    default:
        return make_decimal(n, norm_of(decimal_from_i64((int64_t)m)));
    }
}

static int read_words(struct number_reader *n, uint64_t hi, struct bv *ret)
{
    uint64_t lo;

    TRY_RETURN(take(n, 8, &lo));
    *ret = make_decimal(n, norm_of((struct decimal){.lo = lo, .hi = hi & ~TOP_BIT}));
    return 0;
}

static int read_continued(struct number_reader *n, struct norm base, struct bv *ret)
{
    uint64_t units;

    TRY_RETURN(take(n, 8, &units));
    base.coef += units;
    *ret = make_decimal(n, base);
    return 0;
}

static int read_marked(struct number_reader *n, double m, unsigned mark, struct bv *ret)
{
    if (mark == 0)
        *ret = make_f64(n, m);
    else if (mark == 2)
        *ret = make_decimal(n, norm_round_up(norm_of_f64(m)));
    else
        return read_continued(n, norm_of_f64(m), ret);
    return 0;
}

static double f64_of_bits(uint64_t u)
{
    double d;

    memcpy(&d, &u, 8);
    return d;
}

static int read_large(struct number_reader *n, struct bv *ret)
{
    uint64_t e;

    TRY_RETURN(take(n, 8, &e));
    if (e == UINT64_MAX) {
        struct decimal inf =
            decimal_from_f64_exact(n->negative ? -(double)INFINITY : (double)INFINITY);

        *ret = n->type == TYPE_DECIMAL ? (struct bv){arena_dup(n->arena, &inf, 16), 16, BV_DECIMAL}
                                       : make_f64(n, (double)INFINITY);
        return 0;
    }
    if ((e & TOP_BIT) != 0)
        return read_words(n, e, ret);
    /* The exponent's top bit was shifted out: it is always set from 2 on. */
    double m = f64_of_bits((e & ~1ULL) >> 1 | 1ULL << 62);

    if (!isfinite(m))
        return ks_broken(n->err);
    return read_marked(n, m, e & 1, ret);
}

static int read_small(struct number_reader *n, struct bv *ret)
{
    uint64_t e;
    double m;

    TRY_RETURN(take(n, 8, &e));
    if (e >= f64_bits(TWO_M255) << 2) {
        m = f64_of_bits(e >> 2);
        if (m >= 1)
            return ks_broken(n->err);
        return read_marked(n, m, e & 3, ret);
    }
    if (e < (f64_bits(DBL_TRUE_MIN * TWO_256) << 1) + SCALED_OFFSET)
        return read_words(n, e, ret);
    m = f64_of_bits((e - SCALED_OFFSET) >> 1) / TWO_256;
    if ((e & 1) != 0 && m < DBL_MIN) {
        TRY_RETURN(take(n, 8, &e));
        return read_words(n, e, ret);
    }
    return read_marked(n, m, e & 1, ret);
}

/* bytes: those of the shifted integer part. */
static int read_integer(struct number_reader *n, unsigned bytes, struct bv *ret)
{
    uint64_t shifted, rest, units, ip;
    unsigned f = 8 - bytes;
    struct norm base;

    TRY_RETURN(take(n, bytes, &shifted));
    ip = shifted >> 1;
    if (ip == 0)
        return ks_broken(n->err);
    if ((shifted & 1) == 0) {
        *ret = make_integer(n, ip);
        return 0;
    }
    if (ip < (uint64_t)TWO_53) {
        TRY_RETURN(take(n, f, &rest));
        return read_marked(n, (double)ip + ldexp((double)(rest & ~3ULL), -(int)(8 * f)), rest & 3,
                           ret);
    }
    if (f > 0)
        TRY_RETURN(take(n, 1, &rest));
    TRY_RETURN(take(n, 8, &units));
    base = norm_of(decimal_from_i64((int64_t)ip));
    base.coef += units;
    *ret = make_decimal(n, base);
    return 0;
}

static int read_zero(struct number_reader *n, struct bv *ret)
{
    uint32_t code;
    struct norm zero = {0, 0};

    if (n->type != TYPE_DECIMAL) {
        *ret = n->type == TYPE_DOUBLE  ? bv_new_f64(n->arena, 0)
               : n->type == TYPE_INT64 ? bv_new_i64(n->arena, 0)
                                       : bv_new_i32(n->arena, 0);
        return 0;
    }
    code = ks_take_bits(n->r, 3);
    if (code == 0) {
        *ret = bv_new_f64(n->arena, -0.0);
        return 0;
    }
    if (code == 7)
        return ks_broken(n->err);
    code--;
    zero.exp = (code % 3) << 12 | ks_take_bits(n->r, 12);
    struct decimal d = norm_decimal(zero, code >= 3);

    *ret = (struct bv){arena_dup(n->arena, &d, 16), 16, BV_DECIMAL};
    return 0;
}

static int read_nan(struct number_reader *n, struct bv *ret)
{
    struct decimal nan = {.lo = 0, .hi = 0x7c00000000000000ULL};

    if (n->type == TYPE_DECIMAL)
        *ret = (struct bv){arena_dup(n->arena, &nan, 16), 16, BV_DECIMAL};
    else
        *ret = bv_new_f64(n->arena, (double)NAN);
    return 0;
}

int ks_number_read(struct ks_reader *r, uint8_t ctype, struct arena *arena, struct error *err,
                   struct bv *ret)
{
    struct number_reader n = {.r = r, .arena = arena, .err = err, .negative = ctype < KS_ZERO};

    n.type = ks_take_bits(r, 2);
    if (ctype == KS_ZERO)
        return read_zero(&n, ret);
    if (n.type == TYPE_DECIMAL)
        n.exponent = ks_take_bits(r, 6);
    if (ctype == KS_NAN)
        return read_nan(&n, ret);
    if (ctype == KS_NEG_LARGE || ctype == KS_POS_LARGE)
        return read_large(&n, ret);
    if (ctype == KS_NEG_SMALL || ctype == KS_POS_SMALL)
        return read_small(&n, ret);
    return read_integer(&n, (unsigned)(n.negative ? KS_ZERO - 1 - ctype : ctype - KS_INT), ret);
}
