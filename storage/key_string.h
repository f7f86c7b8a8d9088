/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Key strings: BSON values as bytes whose memcmp order is BSON order, in MongoDB's KeyString V1
 * format, with type bits on the side (reference: docs/key-strings.md). Used for index keys, for
 * _id and for resume tokens.
 *
 * Values that compare equal give equal bytes (1, 1.0 and NumberLong(1)); what is lost goes to the
 * type bits. Descending fields are written with every byte inverted.
 */
#ifndef RUNNEL_STORAGE_KEY_STRING_H
#define RUNNEL_STORAGE_KEY_STRING_H

#include "base/bw.h"

struct ks_builder {
    struct arena *arena;
    uint8_t *buf;
    size_t len, cap;
    uint8_t *bits; /* type bits, low bit first */
    size_t bits_len, bits_cap; /* in bits */
    bool bits_set; /* any bit is 1 */
};

void ks_init(struct ks_builder *k, struct arena *arena);
void ks_reset(struct ks_builder *k);
/* Missing values are written as null (index keys) */
void ks_append(struct ks_builder *k, struct bv v, bool descending);
void ks_append_end(struct ks_builder *k); /* the byte 0x04 */
/* The typeBits field: NULL and 0 when no bit is set; see E.4 for the header bytes. */
const uint8_t *ks_type_bits(struct ks_builder *k, size_t *ret_len);

struct ks_reader {
    const uint8_t *p, *end;
    const uint8_t *bits; /* packed type bits (the form ks_type_bits gives), or NULL: all zero */
    size_t bits_len, bit_at;
};
/* 0 or an error code with text (ERR 50810..50830 or ERR_FAILED_TO_PARSE for broken bytes). */
int ks_reader_init(struct ks_reader *r, const uint8_t *p, size_t len, const uint8_t *type_bits,
                   size_t type_bits_len, struct error *err) MUST_CHECK;
/* Decodes the next value into the arena; ERR -> text in err. *ret BV_NONE: the end byte or end. */
int ks_read(struct ks_reader *r, struct arena *arena, struct error *err,
            struct bv *ret) MUST_CHECK;

#endif
