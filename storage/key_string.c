/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Writing key strings. This is on the path of every insert: the common types (integers, strings,
 * ObjectIds, dates) cost one capacity check and a copy, and while all type bits are zero only their
 * number is kept.
 */
#include "storage/key_string.h"

#include "storage/key_string_number.h"

#define BUF_MIN 64

static bool reserve(struct ks_builder *k, size_t n)
{
    size_t cap;
    uint8_t *p;

    if (k->failed)
        return false;
    if (n <= k->cap - k->len)
        return true;
    cap = k->cap == 0 ? BUF_MIN : k->cap * 2;
    if (cap < k->len + n)
        cap = k->len + n;
    p = arena_regrow(k->arena, k->buf, k->cap, cap);
    if (p == NULL) {
        k->failed = true;
        return false;
    }
    k->buf = p;
    k->cap = cap;
    return true;
}

static void put(struct ks_builder *k, const void *p, size_t n)
{
    if (!reserve(k, n) || n == 0)
        return;
    memcpy(k->buf + k->len, p, n);
    k->len += n;
}

static void put_byte(struct ks_builder *k, uint8_t b)
{
    if (reserve(k, 1))
        k->buf[k->len++] = b;
}

static void put_u32(struct ks_builder *k, uint32_t x)
{
    x = __builtin_bswap32(x);
    put(k, &x, 4);
}

static void put_u64(struct ks_builder *k, uint64_t x)
{
    x = __builtin_bswap64(x);
    put(k, &x, 8);
}

static void put_bit_one(struct ks_builder *k)
{
    size_t at = k->bits_len / 8;

    if (at >= k->bits_cap) {
        size_t cap = at < 8 ? 16 : at * 2;
        uint8_t *p = arena_regrow(k->arena, k->bits, k->bits_cap, cap);

        if (p == NULL) {
            k->failed = true;
            return;
        }
        memset(p + k->bits_cap, 0, cap - k->bits_cap);
        k->bits = p;
        k->bits_cap = cap;
    }
    k->bits[at] = (uint8_t)(k->bits[at] | 1u << (k->bits_len % 8));
    k->bits_set = true;
}

static void put_bits(struct ks_builder *k, uint32_t bits, unsigned n)
{
    if (bits == 0) {
        k->bits_len += n;
        return;
    }
    while (n-- > 0) {
        if ((bits >> n & 1) != 0)
            put_bit_one(k);
        k->bits_len++;
    }
}

void ks_init(struct ks_builder *k, struct arena *arena)
{
    memset(k, 0, sizeof(*k));
    k->arena = arena;
}

void ks_reset(struct ks_builder *k)
{
    k->len = 0;
    if (k->bits_set)
        memset(k->bits, 0, k->bits_cap);
    k->bits_len = 0;
    k->bits_set = false;
}

/* The type byte of a value, or of its kind where it depends on the value. */
static uint8_t generic_byte(uint8_t type)
{
    switch (type) {
    case BV_MINKEY:
        return 10;
    case BV_UNDEFINED:
        return 15;
    case BV_MISSING:
    case BV_NULL:
        return 20;
    case BV_INT32:
    case BV_INT64:
    case BV_DOUBLE:
    case BV_DECIMAL:
        return 30;
    case BV_STRING:
    case BV_SYMBOL:
        return 60;
    case BV_DOC:
        return 70;
    case BV_ARRAY:
        return 80;
    case BV_BINARY:
        return 90;
    case BV_OID:
        return 100;
    case BV_BOOL:
        return 110;
    case BV_DATE:
        return 120;
    case BV_TIMESTAMP:
        return 130;
    case BV_REGEX:
        return 140;
    case BV_DBPOINTER:
        return 150;
    case BV_CODE:
        return 160;
    case BV_CODE_SCOPE:
        return 170;
    default:
        return 240;
    }
}

static void put_text(struct ks_builder *k, const char *s, size_t n)
{
    const char *nul;

    if (!reserve(k, n + 1))
        return;
    while ((nul = n == 0 ? NULL : memchr(s, 0, n)) != NULL) {
        size_t part = (size_t)(nul - s) + 1;

        put(k, s, part);
        put_byte(k, 0xff);
        s += part;
        n -= part;
    }
    put(k, s, n);
    put_byte(k, 0);
}

static void put_number(struct ks_builder *k, struct bv v)
{
    struct ks_number n;

    ks_number_encode(v, &n);
    put(k, n.bytes, n.len);
    put_bits(k, n.bits, n.nbits);
}

static void put_value(struct ks_builder *k, struct bv v);

static void put_fields(struct ks_builder *k, struct bv doc)
{
    struct biter it = biter(doc);
    struct belem e;

    while (biter_next(&it, &e)) {
        put_byte(k, generic_byte(e.v.type));
        put(k, e.key, e.key_len + 1);
        put_value(k, e.v);
    }
    put_byte(k, 0);
}

static void put_elements(struct ks_builder *k, struct bv array)
{
    struct biter it = biter(array);
    struct belem e;

    while (biter_next(&it, &e))
        put_value(k, e.v);
    put_byte(k, 0);
}

static void put_binary(struct ks_builder *k, struct bv v)
{
    uint32_t n;
    uint8_t subtype;
    const uint8_t *p = bv_bin(v, &n, &subtype);

    put_byte(k, n < 255 ? (uint8_t)n : 255);
    if (n >= 255)
        put_u32(k, n);
    put_byte(k, subtype);
    put(k, p, n);
}

static void put_string(struct ks_builder *k, struct bv v)
{
    uint32_t n;
    const char *s = bv_str(v, &n);

    put_text(k, s, n);
}

/* After the type byte; v is none of the types that ctypes or whole bytes stand for. */
static void put_payload(struct ks_builder *k, struct bv v)
{
    uint32_t n;

    switch (v.type) {
    case BV_STRING:
    case BV_SYMBOL:
        put_string(k, v);
        put_bits(k, v.type == BV_SYMBOL, 1);
        break;
    case BV_DOC:
        put_fields(k, v);
        break;
    case BV_ARRAY:
        put_elements(k, v);
        break;
    case BV_BINARY:
        put_binary(k, v);
        break;
    case BV_OID:
        put(k, v.p, 12);
        break;
    case BV_DATE:
        put_u64(k, (uint64_t)bv_i64(v) ^ (1ULL << 63));
        break;
    case BV_TIMESTAMP:
        put_u64(k, bv_ts(v));
        break;
    case BV_REGEX: /* two C strings, as in BSON */
        put(k, v.p, v.len);
        break;
    case BV_DBPOINTER:
        memcpy(&n, v.p, 4);
        put_u32(k, n - 1);
        put(k, v.p + 4, n - 1);
        put(k, v.p + 4 + n, 12);
        break;
    case BV_CODE:
        put_string(k, v);
        break;
    case BV_CODE_SCOPE: /* int32 length, string, document */
        memcpy(&n, v.p + 4, 4);
        put_text(k, (const char *)v.p + 8, n - 1);
        put_fields(k, bv_doc(v.p + 8 + n));
        break;
    default:
        break;
    }
}

static void put_value(struct ks_builder *k, struct bv v)
{
    if (k->failed)
        return;
    if (bv_is_number(v)) {
        put_number(k, v);
    } else if (v.type == BV_BOOL) {
        put_byte(k, bv_bool(v) ? 111 : 110);
    } else {
        put_byte(k, generic_byte(v.type));
        put_payload(k, v);
    }
}

void ks_append(struct ks_builder *k, struct bv v, bool descending)
{
    size_t from = k->len;

    put_value(k, v);
    if (!descending)
        return;
    for (size_t i = from; i < k->len; i++)
        k->buf[i] = (uint8_t)~k->buf[i];
}

void ks_append_end(struct ks_builder *k)
{
    put_byte(k, 4);
}

const uint8_t *ks_type_bits(struct ks_builder *k, size_t *ret_len)
{
    size_t n = (k->bits_len + 7) / 8, head, have = n < k->bits_cap ? n : k->bits_cap;
    uint8_t *out;

    if (!k->bits_set) {
        *ret_len = 0;
        return NULL;
    }
    head = n == 1 && k->bits[0] < 0x80 ? 0 : n <= 127 ? 1 : 5;
    out = arena_try(k->arena, head + n);
    if (out == NULL) {
        k->failed = true;
        *ret_len = 0;
        return NULL;
    }
    if (head > 0)
        out[0] = head == 1 ? (uint8_t)(0x80 | n) : 0x80;
    if (head == 5) {
        uint32_t n32 = (uint32_t)n;

        memcpy(out + 1, &n32, 4);
    }
    memcpy(out + head, k->bits, have);
    memset(out + head + have, 0, n - have);
    *ret_len = head + n;
    return out;
}
