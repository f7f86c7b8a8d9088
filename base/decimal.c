/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/decimal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* How Debian's libbidgcc000.a was built: arguments by value, rounding and flags explicit. */
#define DECIMAL_CALL_BY_REFERENCE      0
#define DECIMAL_GLOBAL_ROUNDING        0
#define DECIMAL_GLOBAL_EXCEPTION_FLAGS 0
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes" /* the library's header */
#include <bid_conf.h>
#include <bid_functions.h>
#pragma GCC diagnostic pop

static BID_UINT128 in(struct decimal d)
{
    BID_UINT128 b;

    b.w[0] = d.lo;
    b.w[1] = d.hi;
    return b;
}

static struct decimal out(BID_UINT128 b)
{
    return (struct decimal){b.w[0], b.w[1]};
}

struct decimal decimal_from_i64(int64_t x)
{
    return out(bid128_from_int64(x));
}

struct decimal decimal_from_f64_exact(double x)
{
    unsigned flags = 0;

    return out(binary64_to_bid128(x, BID_ROUNDING_TO_NEAREST, &flags));
}

struct decimal decimal_from_f64(double x)
{
    char buf[40];
    struct decimal d;

    if (!isfinite(x) || x == 0)
        return decimal_from_f64_exact(x);
    snprintf(buf, sizeof(buf), "%.14e", x);
    if (!decimal_from_str(buf, strlen(buf), &d))
        return decimal_from_f64_exact(x);
    return d;
}

static bool is_word(const char *s, size_t n)
{
    static const char *const words[] = {"inf", "infinity", "nan"};

    if (n > 0 && (*s == '+' || *s == '-')) {
        s++;
        n--;
    }
    for (size_t i = 0; i < 3; i++) {
        if (strlen(words[i]) == n && strncasecmp(s, words[i], n) == 0)
            return true;
    }
    return false;
}

static bool is_digits(const char **s, const char *end)
{
    const char *start = *s;

    while (*s < end && **s >= '0' && **s <= '9')
        (*s)++;
    return *s > start;
}

static bool is_number(const char *s, size_t n)
{
    const char *end = s + n;
    bool digits;

    if (s < end && (*s == '+' || *s == '-'))
        s++;
    digits = is_digits(&s, end);
    if (s < end && *s == '.') {
        s++;
        digits = is_digits(&s, end) || digits;
    }
    if (!digits)
        return false;
    if (s < end && (*s == 'e' || *s == 'E')) {
        s++;
        if (s < end && (*s == '+' || *s == '-'))
            s++;
        if (!is_digits(&s, end))
            return false;
    }
    return s == end;
}

bool decimal_from_str(const char *s, size_t n, struct decimal *ret)
{
    char buf[512];
    unsigned flags = 0;

    if (n == 0 || n >= sizeof(buf) || !(is_word(s, n) || is_number(s, n)))
        return false;
    memcpy(buf, s, n);
    buf[n] = '\0';
    *ret = out(bid128_from_string(buf, BID_ROUNDING_TO_NEAREST, &flags));
    return true;
}

double decimal_to_f64(struct decimal d)
{
    unsigned flags = 0;

    return bid128_to_binary64(in(d), BID_ROUNDING_TO_NEAREST, &flags);
}

bool decimal_to_i64(struct decimal d, int64_t *ret, bool *ret_exact)
{
    unsigned flags = 0;
    BID_SINT64 x = bid128_to_int64_xint(in(d), &flags);

    if ((flags & BID_INVALID_EXCEPTION) != 0)
        return false;
    *ret = x;
    *ret_exact = (flags & BID_INEXACT_EXCEPTION) == 0;
    return true;
}

bool decimal_is_nan(struct decimal d)
{
    return bid128_isNaN(in(d)) != 0;
}

bool decimal_is_inf(struct decimal d)
{
    return bid128_isInf(in(d)) != 0;
}

bool decimal_is_zero(struct decimal d)
{
    return bid128_isZero(in(d)) != 0;
}

bool decimal_is_negative(struct decimal d)
{
    return (d.hi >> 63) != 0;
}

int decimal_cmp(struct decimal a, struct decimal b)
{
    unsigned flags = 0;
    bool na = decimal_is_nan(a), nb = decimal_is_nan(b);

    if (na || nb)
        return (int)nb - (int)na;
    if (bid128_quiet_less(in(a), in(b), &flags) != 0)
        return -1;
    return bid128_quiet_greater(in(a), in(b), &flags) != 0 ? 1 : 0;
}

struct decimal decimal_add(struct decimal a, struct decimal b)
{
    unsigned flags = 0;

    return out(bid128_add(in(a), in(b), BID_ROUNDING_TO_NEAREST, &flags));
}

struct decimal decimal_sub(struct decimal a, struct decimal b)
{
    unsigned flags = 0;

    return out(bid128_sub(in(a), in(b), BID_ROUNDING_TO_NEAREST, &flags));
}

struct decimal decimal_mul(struct decimal a, struct decimal b)
{
    unsigned flags = 0;

    return out(bid128_mul(in(a), in(b), BID_ROUNDING_TO_NEAREST, &flags));
}

struct decimal decimal_div(struct decimal a, struct decimal b)
{
    unsigned flags = 0;

    return out(bid128_div(in(a), in(b), BID_ROUNDING_TO_NEAREST, &flags));
}

struct decimal decimal_mod(struct decimal a, struct decimal b)
{
    unsigned flags = 0;

    return out(bid128_fmod(in(a), in(b), &flags));
}

struct decimal decimal_abs(struct decimal d)
{
    d.hi &= ~(1ULL << 63);
    return d;
}

struct decimal decimal_round(struct decimal d, int places, int mode)
{
    static const unsigned modes[] = {BID_ROUNDING_TO_NEAREST, BID_ROUNDING_TO_ZERO,
                                     BID_ROUNDING_DOWN, BID_ROUNDING_UP};
    unsigned flags = 0;
    BID_UINT128 unit =
        bid128_scalbn(bid128_from_int64(1), -places, BID_ROUNDING_TO_NEAREST, &flags);
    BID_UINT128 r;

    if (decimal_is_nan(d) || decimal_is_inf(d))
        return d;
    r = bid128_quantize(in(d), unit, modes[mode], &flags);
    /* A value with no room for that many places is already exact. */
    return (flags & BID_INVALID_EXCEPTION) != 0 ? d : out(r);
}

struct decimal decimal_fn(enum decimal_fn fn, struct decimal d)
{
    unsigned flags = 0;
    BID_UINT128 x = in(d);

    switch (fn) {
    case DEC_SQRT:
        return out(bid128_sqrt(x, BID_ROUNDING_TO_NEAREST, &flags));
    case DEC_EXP:
        return out(bid128_exp(x, BID_ROUNDING_TO_NEAREST, &flags));
    case DEC_LN:
        return out(bid128_log(x, BID_ROUNDING_TO_NEAREST, &flags));
    case DEC_LOG10:
        return out(bid128_log10(x, BID_ROUNDING_TO_NEAREST, &flags));
    }
    return d;
}

struct decimal decimal_pow(struct decimal a, struct decimal b)
{
    unsigned flags = 0;

    return out(bid128_pow(in(a), in(b), BID_ROUNDING_TO_NEAREST, &flags));
}

/* MongoDB prints as the decimal128 specification says: plain for exponents near zero. */
int decimal_to_str(struct decimal d, char buf[static 48])
{
    char raw[64];
    unsigned flags = 0;
    const char *e;
    int exponent, adjusted, n;
    bool negative;

    if (decimal_is_nan(d))
        return snprintf(buf, 48, "NaN");
    if (decimal_is_inf(d))
        return snprintf(buf, 48, "%sInfinity", decimal_is_negative(d) ? "-" : "");
    bid128_to_string(raw, in(d), &flags); /* "+123E-2" */
    negative = raw[0] == '-';
    e = strchr(raw, 'E');
    if (e == NULL)
        return snprintf(buf, 48, "%s", raw);
    n = (int)(e - raw) - 1;
    exponent = 0;
    sscanf(e + 1, "%d", &exponent);
    adjusted = exponent + n - 1;
    if (exponent > 0 || adjusted < -6) {
        if (n == 1)
            return snprintf(buf, 48, "%s%cE%+d", negative ? "-" : "", raw[1], adjusted);
        return snprintf(buf, 48, "%s%c.%.*sE%+d", negative ? "-" : "", raw[1], n - 1, raw + 2,
                        adjusted);
    }
    if (exponent == 0)
        return snprintf(buf, 48, "%s%.*s", negative ? "-" : "", n, raw + 1);
    if (n + exponent > 0)
        return snprintf(buf, 48, "%s%.*s.%.*s", negative ? "-" : "", n + exponent, raw + 1,
                        -exponent, raw + 1 + n + exponent);
    return snprintf(buf, 48, "%s0.%.*s%.*s", negative ? "-" : "", -(n + exponent), "00000000", n,
                    raw + 1);
}
