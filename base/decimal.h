/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The wall around Intel's decimal library: BSON's decimal128 in the 16 bytes a struct bv points
 * at. Arithmetic rounds half to even. Pure; any thread.
 */
#ifndef RUNNEL_BASE_DECIMAL_H
#define RUNNEL_BASE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct decimal {
    uint64_t lo, hi; /* little-endian BSON layout: lo first */
};

static inline struct decimal decimal_load(const uint8_t *p)
{
    struct decimal d;

    __builtin_memcpy(&d, p, 16);
    return d;
}

struct decimal decimal_from_i64(int64_t x);
struct decimal decimal_from_f64(double x);       /* 15 significant digits, as MongoDB converts */
struct decimal decimal_from_f64_exact(double x); /* all 34 digits: for comparing */
/* False when s is not a decimal number. */
bool decimal_from_str(const char *s, size_t n, struct decimal *ret);
double decimal_to_f64(struct decimal d);
/* Truncates; false for NaN, infinities and values outside int64. */
bool decimal_to_i64(struct decimal d, int64_t *ret, bool *ret_exact);
int decimal_to_str(struct decimal d, char buf[static 48]); /* length */
bool decimal_is_nan(struct decimal d);
bool decimal_is_inf(struct decimal d);
bool decimal_is_zero(struct decimal d);
bool decimal_is_negative(struct decimal d);
/* NaN equals NaN and is below everything else. */
int decimal_cmp(struct decimal a, struct decimal b);

struct decimal decimal_add(struct decimal a, struct decimal b);
struct decimal decimal_sub(struct decimal a, struct decimal b);
struct decimal decimal_mul(struct decimal a, struct decimal b);
struct decimal decimal_div(struct decimal a, struct decimal b);
struct decimal decimal_mod(struct decimal a, struct decimal b); /* sign of a */
/* places < 0 rounds left of the point; mode 0 half even, 1 toward zero, 2 down, 3 up */
struct decimal decimal_round(struct decimal d, int places, int mode);
struct decimal decimal_abs(struct decimal d);
enum decimal_fn { DEC_SQRT, DEC_EXP, DEC_LN, DEC_LOG10 };
struct decimal decimal_fn(enum decimal_fn fn, struct decimal d);
struct decimal decimal_pow(struct decimal a, struct decimal b);

#endif
