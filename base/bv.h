/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Views of BSON values: documents stay bytes.
 *
 * A struct bv is a type byte and a pointer at the value's own BSON encoding (what follows the
 * field name). It owns nothing; whoever made the bytes keeps them alive. Type 0 means "missing".
 * A document or array view points at its int32 length. Views are passed by value.
 *
 * Everything here trusts the bytes: they were checked once by bv_check() when they came in from a
 * client, or were written by us.
 *
 * Layout of an element: type byte, name, NUL, value. Values: double 8 | string int32 length with
 * NUL, bytes, NUL | document and array int32 length ... 00 | binary int32 length, subtype, bytes |
 * oid 12 | bool 1 | date int64 | regex pattern NUL flags NUL | int32 | timestamp u32 i, u32 t |
 * int64 | decimal 16 | the rest as in bsonspec.org.
 */
#ifndef RUNNEL_BASE_BV_H
#define RUNNEL_BASE_BV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"

enum bv_type {
    BV_MISSING = 0x00,
    BV_DOUBLE = 0x01,
    BV_STRING = 0x02,
    BV_DOC = 0x03,
    BV_ARRAY = 0x04,
    BV_BINARY = 0x05,
    BV_UNDEFINED = 0x06,
    BV_OID = 0x07,
    BV_BOOL = 0x08,
    BV_DATE = 0x09,
    BV_NULL = 0x0A,
    BV_REGEX = 0x0B,
    BV_DBPOINTER = 0x0C,
    BV_CODE = 0x0D,
    BV_SYMBOL = 0x0E,
    BV_CODE_SCOPE = 0x0F,
    BV_INT32 = 0x10,
    BV_TIMESTAMP = 0x11,
    BV_INT64 = 0x12,
    BV_DECIMAL = 0x13,
    BV_MAXKEY = 0x7F,
    BV_MINKEY = 0xFF,
};

struct bv {
    const uint8_t *p; /* the value's bytes */
    uint32_t len;     /* how many */
    uint8_t type;     /* enum bv_type */
};

struct belem {
    const char *key;  /* NUL-terminated, inside the document */
    uint32_t key_len; /* without the NUL */
    struct bv v;
};

struct biter {
    const uint8_t *p, *end;
};

#define BV_NONE ((struct bv){NULL, 0, BV_MISSING})

/* A document given as bytes that begin with its own length. */
static inline struct bv bv_doc(const uint8_t *bytes)
{
    uint32_t len;

    memcpy(&len, bytes, 4);
    return (struct bv){bytes, len, BV_DOC};
}

extern const struct bv bv_empty_doc, bv_empty_array, bv_null, bv_true, bv_false, bv_minkey,
    bv_maxkey, bv_undefined;

/* Iterates over a document or array. Any other type iterates over nothing. */
struct biter biter(struct bv doc);
bool biter_next(struct biter *it, struct belem *e);

/* The bytes of the whole element (type byte to end of value), for copying. */
static inline const uint8_t *belem_bytes(const struct belem *e, uint32_t *ret_len)
{
    const uint8_t *start = (const uint8_t *)e->key - 1;

    *ret_len = (uint32_t)(e->v.p + e->v.len - start);
    return start;
}

/* Field by exact name (no dots); BV_NONE when absent or doc is no document or array. */
struct bv bv_get(struct bv doc, const char *name);
struct bv bv_getn(struct bv doc, const char *name, size_t name_len);
/* Field by dotted path through documents and, by index, through arrays; no implicit descent. */
struct bv bv_path(struct bv doc, const char *path);
bool bv_empty(struct bv doc);
uint32_t bv_count(struct bv doc);
struct bv bv_first(struct bv doc, struct belem *ret_elem); /* BV_NONE when empty */

/* --- reading ------------------------------------------------------------------------------ */

static inline bool bv_is_missing(struct bv v)
{
    return v.type == BV_MISSING;
}

static inline bool bv_is_nullish(struct bv v)
{
    return v.type == BV_MISSING || v.type == BV_NULL || v.type == BV_UNDEFINED;
}

static inline bool bv_is_number(struct bv v)
{
    return v.type == BV_INT32 || v.type == BV_INT64 || v.type == BV_DOUBLE || v.type == BV_DECIMAL;
}

static inline bool bv_is_container(struct bv v)
{
    return v.type == BV_DOC || v.type == BV_ARRAY;
}

static inline int32_t bv_i32(struct bv v)
{
    int32_t x;

    memcpy(&x, v.p, 4);
    return x;
}

static inline int64_t bv_i64(struct bv v) /* INT64, DATE */
{
    int64_t x;

    memcpy(&x, v.p, 8);
    return x;
}

static inline double bv_f64(struct bv v)
{
    double x;

    memcpy(&x, v.p, 8);
    return x;
}

/* seconds << 32 | increment: compares and sorts as MongoDB's timestamps do */
static inline uint64_t bv_ts(struct bv v)
{
    uint64_t x;

    memcpy(&x, v.p, 8);
    return x;
}

static inline bool bv_bool(struct bv v)
{
    return v.p[0] != 0;
}

/* STRING, SYMBOL, CODE: bytes without the final NUL (they may contain NULs). */
static inline const char *bv_str(struct bv v, uint32_t *ret_len)
{
    int32_t n;

    memcpy(&n, v.p, 4);
    if (ret_len != NULL)
        *ret_len = (uint32_t)n - 1;
    return (const char *)v.p + 4;
}

/* True when v is the string s. */
bool bv_str_is(struct bv v, const char *s);

static inline const uint8_t *bv_bin(struct bv v, uint32_t *ret_len, uint8_t *ret_subtype)
{
    int32_t n;

    memcpy(&n, v.p, 4);
    *ret_len = (uint32_t)n;
    if (ret_subtype != NULL)
        *ret_subtype = v.p[4];
    return v.p + 5;
}

/* Any number type as an int64 without loss of its integral part: false for non-numbers, NaN and
 * values outside int64 (fractions are truncated toward zero; bv_to_i64_exact refuses them). */
bool bv_to_i64(struct bv v, int64_t *ret);
bool bv_to_i64_exact(struct bv v, int64_t *ret);
/* Any number as a double (decimals rounded); 0 for non-numbers. */
double bv_to_f64(struct bv v);
/* The truth value of commands' booleans and of expressions: false, 0, null, undefined, missing
 * are false; all else is true. */
bool bv_truthy(struct bv v);

/* --- making (in an arena) ------------------------------------------------------------------ */

struct bv bv_new_i32(struct arena *a, int32_t x);
struct bv bv_new_i64(struct arena *a, int64_t x);
struct bv bv_new_f64(struct arena *a, double x);
struct bv bv_new_date(struct arena *a, int64_t ms);
struct bv bv_new_ts(struct arena *a, uint64_t ts);
struct bv bv_new_str(struct arena *a, const char *s, size_t len);
struct bv bv_new_oid(struct arena *a, const uint8_t oid[12]);
struct bv bv_new_bin(struct arena *a, uint8_t subtype, const void *data, size_t len);
static inline struct bv bv_new_bool(bool b)
{
    return b ? bv_true : bv_false;
}
/* A copy whose bytes live in the arena. For small values of our own; others go by op_dup(). */
struct bv bv_dup(struct arena *a, struct bv v);

/* --- comparing ----------------------------------------------------------------------------- */

/* BSON comparison order: type class first (numbers are one class, strings and symbols one,
 * missing and undefined sort before null), then value. Returns <0, 0, >0. */
int bv_cmp(struct bv a, struct bv b);
/* Same with field names of the outermost elements ignored/considered as MongoDB's woCompare. */
int bv_cmp_docs(struct bv a, struct bv b);
/* Same type and same bytes (1 and 1.0 differ): "does this update change anything". */
static inline bool bv_identical(struct bv a, struct bv b)
{
    return a.type == b.type && a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}
/* The type class number used for ordering: equal for types that compare with each other. */
int bv_type_class(uint8_t type);
/* A hash that is equal for values that compare equal. */
uint64_t bv_hash(struct bv v);

/* --- names and checking --------------------------------------------------------------------- */

/* "int", "long", "objectId", ... as in $type and error texts; "missing" for type 0. */
const char *bv_type_name(uint8_t type);

/*
 * Structural check of untrusted bytes as one BSON document: lengths, terminators, known types,
 * booleans 0 or 1, nesting at most max_depth. Field names and strings may hold any bytes (MongoDB
 * does not check UTF-8 either). Needs no stack in proportion to the nesting.
 * Returns 0, ERR_INVALID_BSON or ERR_OVERFLOW (too deep), with text in err.
 */
int bv_check(const uint8_t *bytes, size_t len, unsigned max_depth, struct error *err) MUST_CHECK;

/* Any value as MongoDB prints it in error texts, "{ a: 1, b: \"x\" }", cut after max bytes with
 * "...". NUL-terminated, in the arena. */
char *bv_show(struct arena *a, struct bv v, size_t max);

#endif
