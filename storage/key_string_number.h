/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Numbers in key strings; for storage/key_string*.c only. */
#ifndef RUNNEL_STORAGE_KEY_STRING_NUMBER_H
#define RUNNEL_STORAGE_KEY_STRING_NUMBER_H

#include "storage/key_string.h"

enum { KS_NUMBER_MAX = 28 };

/* First bytes ("ctypes") of numbers, ascending. An integer of k bytes has KS_INT + k, a negative
 * one KS_ZERO - 1 - k. */
enum ks_number_ctype {
    KS_NAN = 30,
    KS_NEG_LARGE = 31, /* <= -2^63 */
    KS_NEG_SMALL = 40, /* -1 < x < 0 */
    KS_ZERO = 41,
    KS_POS_SMALL = 42, /* 0 < x < 1 */
    KS_INT = 42,
    KS_POS_LARGE = 51, /* >= 2^63 */
};

struct ks_number {
    uint8_t bytes[KS_NUMBER_MAX];
    uint8_t len;
    uint8_t nbits; /* type bits: the low nbits of `bits`, the highest of them first */
    uint32_t bits;
};

/* v: INT32, INT64, DOUBLE or DECIMAL. */
void ks_number_encode(struct bv v, struct ks_number *ret);

/* Reads what follows the ctype byte, and the type bits. A value that its type bits do not fit (a
 * token whose _typeBits were lost) comes back as the narrowest type that holds it. */
int ks_number_read(struct ks_reader *r, uint8_t ctype, struct arena *arena, struct error *err,
                   struct bv *ret) MUST_CHECK;

/* Shared by the readers. ks_take copies n bytes, inverted back where needed. */
int ks_take(struct ks_reader *r, size_t n, uint8_t *out, struct error *err) MUST_CHECK;
uint32_t ks_take_bits(struct ks_reader *r, unsigned n);
int ks_broken(struct error *err);

#endif
