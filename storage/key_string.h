/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Key strings: BSON values as bytes whose memcmp order is BSON order, in MongoDB's KeyString V1
 * format, with type bits on the side. Used for index keys, for _id and for resume tokens.
 *
 * Values that compare equal give equal bytes (1, 1.0 and NumberLong(1)); what is lost goes to the
 * type bits. Descending fields are written with every byte inverted. Pure; any thread.
 *
 * A value is a type byte and its payload, integers big-endian (decimal type bytes):
 *     4 end of key | 10 MinKey | 15 undefined | 20 null | 30..51 numbers | 60 string, symbol:
 *     bytes with 00 as 00 FF, then 00 | 70 object: per field a generic type byte, name 00, value;
 *     then 00 | 80 array: values, then 00 | 90 binary: length (FF + 4 bytes from 255 on), subtype,
 *     bytes | 100 ObjectId | 110 false, 111 true | 120 date, sign bit flipped | 130 timestamp |
 *     140 regex: pattern 00 flags 00 | 150 DBPointer: length, ns, oid | 160 code as string |
 *     170 code with scope: string, object | 240 MaxKey
 * Numbers: storage/key_string_number.c.
 *
 * Type bits: symbols 1, strings 0; numbers two bits (int32 00, int64 01, double 10, decimal 11 and
 * more); packed low bit first. None is stored while all are 0.
 */
#ifndef RUNNEL_STORAGE_KEY_STRING_H
#define RUNNEL_STORAGE_KEY_STRING_H

#include "base/bw.h"

struct ks_builder {
    struct arena *arena;
    uint8_t *buf;
    size_t len, cap;
    uint8_t *bits;   /* type bits, low bit first; bits past bits_cap are 0 */
    size_t bits_len; /* in bits */
    size_t bits_cap; /* bytes */
    bool bits_set;   /* any bit is 1 */
    bool failed;     /* memory was out: the key is worthless and further calls do nothing */
};

void ks_init(struct ks_builder *k, struct arena *arena);
void ks_reset(struct ks_builder *k); /* empty again; keeps the memory */
/* Missing values are written as null (index keys). Nesting is bounded by what bv_check() allowed.
 */
void ks_append(struct ks_builder *k, struct bv v, bool descending);
void ks_append_end(struct ks_builder *k); /* the byte 0x04 */
/* The type bits as stored: NULL and 0 when no bit is set; else, for n bytes of bits, the byte
 * itself (n is 1 and its top bit clear), or 80+n and the bytes (n <= 127), or 80, n in 4
 * little-endian bytes, and the bytes. In the arena. */
const uint8_t *ks_type_bits(struct ks_builder *k, size_t *ret_len);

struct ks_reader {
    const uint8_t *p, *end;
    const uint8_t *bits; /* type bits without their header; NULL: all zero */
    size_t bits_len;     /* bytes */
    size_t bit_at;
    bool inverted; /* set by the caller before a field that was written descending */
};
/* type_bits: in the form that ks_type_bits gives, or NULL. 50811 for broken bytes. */
int ks_reader_init(struct ks_reader *r, const uint8_t *p, size_t len, const uint8_t *type_bits,
                   size_t type_bits_len, struct error *err) MUST_CHECK;
/* Decodes the next value into the arena. *ret BV_NONE: the end byte or the end of the bytes. Trusts
 * nothing: 50811 with text for broken bytes or nesting above LIMIT_DEPTH_MESSAGE. */
int ks_read(struct ks_reader *r, struct arena *arena, struct error *err, struct bv *ret) MUST_CHECK;

#endif
