/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/bv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/decimal.h"

static const uint8_t empty_bytes[5] = {5, 0, 0, 0, 0};
static const uint8_t bool_bytes[2] = {0, 1};

const struct bv bv_empty_doc = {empty_bytes, 5, BV_DOC};
const struct bv bv_empty_array = {empty_bytes, 5, BV_ARRAY};
const struct bv bv_null = {empty_bytes, 0, BV_NULL};
const struct bv bv_undefined = {empty_bytes, 0, BV_UNDEFINED};
const struct bv bv_false = {bool_bytes, 1, BV_BOOL};
const struct bv bv_true = {bool_bytes + 1, 1, BV_BOOL};
const struct bv bv_minkey = {empty_bytes, 0, BV_MINKEY};
const struct bv bv_maxkey = {empty_bytes, 0, BV_MAXKEY};

/* Bytes of a value of the given type at p; only for checked BSON. */
static uint32_t value_size(uint8_t type, const uint8_t *p)
{
    uint32_t n;

    switch (type) {
    case BV_DOUBLE:
    case BV_DATE:
    case BV_TIMESTAMP:
    case BV_INT64:
        return 8;
    case BV_INT32:
        return 4;
    case BV_BOOL:
        return 1;
    case BV_OID:
        return 12;
    case BV_DECIMAL:
        return 16;
    case BV_STRING:
    case BV_CODE:
    case BV_SYMBOL:
        memcpy(&n, p, 4);
        return n + 4;
    case BV_DOC:
    case BV_ARRAY:
    case BV_CODE_SCOPE:
        memcpy(&n, p, 4);
        return n;
    case BV_BINARY:
        memcpy(&n, p, 4);
        return n + 5;
    case BV_REGEX:
        n = (uint32_t)strlen((const char *)p) + 1;
        return n + (uint32_t)strlen((const char *)p + n) + 1;
    case BV_DBPOINTER:
        memcpy(&n, p, 4);
        return n + 4 + 12;
    default:
        return 0;
    }
}

struct biter biter(struct bv doc)
{
    if (!bv_is_container(doc))
        return (struct biter){NULL, NULL};
    return (struct biter){doc.p + 4, doc.p + doc.len - 1};
}

bool biter_next(struct biter *it, struct belem *e)
{
    const uint8_t *p = it->p;

    if (p >= it->end)
        return false;
    e->v.type = *p++;
    e->key = (const char *)p;
    e->key_len = (uint32_t)strlen(e->key);
    p += e->key_len + 1;
    e->v.p = p;
    e->v.len = value_size(e->v.type, p);
    it->p = p + e->v.len;
    return true;
}

struct bv bv_getn(struct bv doc, const char *name, size_t name_len)
{
    struct biter it = biter(doc);
    struct belem e;

    while (biter_next(&it, &e)) {
        if (e.key_len == name_len && memcmp(e.key, name, name_len) == 0)
            return e.v;
    }
    return BV_NONE;
}

struct bv bv_get(struct bv doc, const char *name)
{
    return bv_getn(doc, name, strlen(name));
}

struct bv bv_path(struct bv doc, const char *path)
{
    struct bv v = doc;

    for (;;) {
        const char *dot = strchr(path, '.');

        v = bv_getn(v, path, dot == NULL ? strlen(path) : (size_t)(dot - path));
        if (dot == NULL || bv_is_missing(v))
            return v;
        path = dot + 1;
    }
}

bool bv_empty(struct bv doc)
{
    return !bv_is_container(doc) || doc.len <= 5;
}

uint32_t bv_count(struct bv doc)
{
    struct biter it = biter(doc);
    struct belem e;
    uint32_t n = 0;

    while (biter_next(&it, &e))
        n++;
    return n;
}

struct bv bv_first(struct bv doc, struct belem *ret_elem)
{
    struct biter it = biter(doc);
    struct belem e;

    if (!biter_next(&it, &e))
        return BV_NONE;
    if (ret_elem != NULL)
        *ret_elem = e;
    return e.v;
}

bool bv_str_is(struct bv v, const char *s)
{
    uint32_t n;
    const char *p;

    if (v.type != BV_STRING)
        return false;
    p = bv_str(v, &n);
    return n == strlen(s) && memcmp(p, s, n) == 0;
}

static bool f64_to_i64(double d, int64_t *ret)
{
    if (!(d >= -9223372036854775808.0 && d < 9223372036854775808.0))
        return false;
    *ret = (int64_t)d;
    return true;
}

bool bv_to_i64(struct bv v, int64_t *ret)
{
    bool exact;

    switch (v.type) {
    case BV_INT32:
        *ret = bv_i32(v);
        return true;
    case BV_INT64:
        *ret = bv_i64(v);
        return true;
    case BV_DOUBLE:
        return f64_to_i64(bv_f64(v), ret);
    case BV_DECIMAL:
        return decimal_to_i64(decimal_load(v.p), ret, &exact);
    default:
        return false;
    }
}

bool bv_to_i64_exact(struct bv v, int64_t *ret)
{
    bool exact;

    switch (v.type) {
    case BV_DOUBLE:
        return f64_to_i64(bv_f64(v), ret) && (double)*ret == bv_f64(v);
    case BV_DECIMAL:
        return decimal_to_i64(decimal_load(v.p), ret, &exact) && exact;
    default:
        return bv_to_i64(v, ret);
    }
}

double bv_to_f64(struct bv v)
{
    switch (v.type) {
    case BV_INT32:
        return bv_i32(v);
    case BV_INT64:
        return (double)bv_i64(v);
    case BV_DOUBLE:
        return bv_f64(v);
    case BV_DECIMAL:
        return decimal_to_f64(decimal_load(v.p));
    default:
        return 0;
    }
}

bool bv_truthy(struct bv v)
{
    switch (v.type) {
    case BV_MISSING:
    case BV_NULL:
    case BV_UNDEFINED:
        return false;
    case BV_BOOL:
        return bv_bool(v);
    case BV_INT32:
        return bv_i32(v) != 0;
    case BV_INT64:
        return bv_i64(v) != 0;
    case BV_DOUBLE:
        return bv_f64(v) != 0;
    case BV_DECIMAL:
        return !decimal_is_zero(decimal_load(v.p));
    default:
        return true;
    }
}

static struct bv new_fixed(struct arena *a, uint8_t type, const void *src, uint32_t n)
{
    return (struct bv){arena_dup(a, src, n), n, type};
}

struct bv bv_new_i32(struct arena *a, int32_t x)
{
    return new_fixed(a, BV_INT32, &x, 4);
}

struct bv bv_new_i64(struct arena *a, int64_t x)
{
    return new_fixed(a, BV_INT64, &x, 8);
}

struct bv bv_new_f64(struct arena *a, double x)
{
    return new_fixed(a, BV_DOUBLE, &x, 8);
}

struct bv bv_new_date(struct arena *a, int64_t ms)
{
    return new_fixed(a, BV_DATE, &ms, 8);
}

struct bv bv_new_ts(struct arena *a, uint64_t ts)
{
    return new_fixed(a, BV_TIMESTAMP, &ts, 8);
}

struct bv bv_new_str(struct arena *a, const char *s, size_t len)
{
    uint8_t *p = arena_alloc(a, len + 5);
    uint32_t n = (uint32_t)len + 1;

    memcpy(p, &n, 4);
    if (len > 0)
        memcpy(p + 4, s, len);
    p[4 + len] = 0;
    return (struct bv){p, n + 4, BV_STRING};
}

struct bv bv_new_oid(struct arena *a, const uint8_t oid[12])
{
    return new_fixed(a, BV_OID, oid, 12);
}

struct bv bv_new_bin(struct arena *a, uint8_t subtype, const void *data, size_t len)
{
    uint8_t *p = arena_alloc(a, len + 5);
    uint32_t n = (uint32_t)len;

    memcpy(p, &n, 4);
    p[4] = subtype;
    if (len > 0)
        memcpy(p + 5, data, len);
    return (struct bv){p, n + 5, BV_BINARY};
}

struct bv bv_dup(struct arena *a, struct bv v)
{
    if (v.len > 0)
        v.p = arena_dup(a, v.p, v.len);
    return v;
}

/* --- comparing ------------------------------------------------------------------------------ */

int bv_type_class(uint8_t type)
{
    switch (type) {
    case BV_MINKEY:
        return -1;
    case BV_MISSING:
    case BV_UNDEFINED:
        return 0;
    case BV_NULL:
        return 5;
    case BV_INT32:
    case BV_INT64:
    case BV_DOUBLE:
    case BV_DECIMAL:
        return 10;
    case BV_STRING:
    case BV_SYMBOL:
        return 15;
    case BV_DOC:
        return 20;
    case BV_ARRAY:
        return 25;
    case BV_BINARY:
        return 30;
    case BV_OID:
        return 35;
    case BV_BOOL:
        return 40;
    case BV_DATE:
        return 45;
    case BV_TIMESTAMP:
        return 47;
    case BV_REGEX:
        return 50;
    case BV_DBPOINTER:
        return 55;
    case BV_CODE:
        return 60;
    case BV_CODE_SCOPE:
        return 65;
    default:
        return 127;
    }
}

static int cmp_i64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int cmp_f64(double a, double b)
{
    if (a < b)
        return -1;
    if (a > b)
        return 1;
    if (a == b)
        return 0;
    return (isnan(a) ? 0 : 1) - (isnan(b) ? 0 : 1);
}

/* Exact, unlike a conversion of the int64 to double. */
static int cmp_i64_f64(int64_t a, double b)
{
    int64_t ib;

    if (isnan(b))
        return 1;
    if (b >= 9223372036854775808.0)
        return -1;
    if (b < -9223372036854775808.0)
        return 1;
    ib = (int64_t)b;
    if (a != ib)
        return a < ib ? -1 : 1;
    return cmp_f64(0, b - (double)ib);
}

/* A double counts as the decimal of 34 digits nearest to it, as in key strings. */
static int cmp_decimal(struct decimal d, struct bv b)
{
    int64_t n;

    if (b.type == BV_DECIMAL)
        return decimal_cmp(d, decimal_load(b.p));
    if (b.type == BV_DOUBLE)
        return decimal_cmp(d, decimal_from_f64_exact(bv_f64(b)));
    n = b.type == BV_INT32 ? bv_i32(b) : bv_i64(b);
    return decimal_cmp(d, decimal_from_i64(n));
}

static int cmp_numbers(struct bv a, struct bv b)
{
    bool ai = a.type == BV_INT32 || a.type == BV_INT64;
    bool bi = b.type == BV_INT32 || b.type == BV_INT64;
    int64_t x = 0, y = 0;

    if (a.type == BV_DECIMAL)
        return cmp_decimal(decimal_load(a.p), b);
    if (b.type == BV_DECIMAL)
        return -cmp_decimal(decimal_load(b.p), a);
    if (ai)
        x = a.type == BV_INT32 ? bv_i32(a) : bv_i64(a);
    if (bi)
        y = b.type == BV_INT32 ? bv_i32(b) : bv_i64(b);
    if (ai && bi)
        return cmp_i64(x, y);
    if (ai)
        return cmp_i64_f64(x, bv_f64(b));
    if (bi)
        return -cmp_i64_f64(y, bv_f64(a));
    return cmp_f64(bv_f64(a), bv_f64(b));
}

static int cmp_bytes(const void *a, size_t an, const void *b, size_t bn)
{
    size_t n = an < bn ? an : bn;
    int c = n == 0 ? 0 : memcmp(a, b, n);

    return c != 0 ? c : (an > bn) - (an < bn);
}

static int cmp_strings(struct bv a, struct bv b)
{
    uint32_t an, bn;
    const char *as = bv_str(a, &an), *bs = bv_str(b, &bn);

    return cmp_bytes(as, an, bs, bn);
}

static int cmp_containers(struct bv a, struct bv b, bool names)
{
    struct biter ia = biter(a), ib = biter(b);
    struct belem ea, eb;

    for (;;) {
        bool more_a = biter_next(&ia, &ea), more_b = biter_next(&ib, &eb);
        int c;

        if (!more_a || !more_b)
            return (int)more_a - (int)more_b;
        c = bv_type_class(ea.v.type) - bv_type_class(eb.v.type);
        if (c == 0 && names)
            c = cmp_bytes(ea.key, ea.key_len, eb.key, eb.key_len);
        if (c == 0)
            c = bv_cmp(ea.v, eb.v);
        if (c != 0)
            return c;
    }
}

static int cmp_binary(struct bv a, struct bv b)
{
    uint32_t an, bn;
    uint8_t as, bs;
    const uint8_t *ap = bv_bin(a, &an, &as), *bp = bv_bin(b, &bn, &bs);

    if (an != bn)
        return an < bn ? -1 : 1;
    if (as != bs)
        return as < bs ? -1 : 1;
    return an == 0 ? 0 : memcmp(ap, bp, an);
}

static int cmp_regex(struct bv a, struct bv b)
{
    const char *pa = (const char *)a.p, *pb = (const char *)b.p;
    int c = strcmp(pa, pb);

    return c != 0 ? c : strcmp(pa + strlen(pa) + 1, pb + strlen(pb) + 1);
}

/* int32 length, the code as a string, the scope as a document */
static int cmp_code_scope(struct bv a, struct bv b)
{
    struct bv code_a = {a.p + 4, 0, BV_CODE}, code_b = {b.p + 4, 0, BV_CODE};
    int c = cmp_strings(code_a, code_b);
    uint32_t na, nb;

    if (c != 0)
        return c;
    (void)bv_str(code_a, &na);
    (void)bv_str(code_b, &nb);
    return cmp_containers(bv_doc(a.p + 8 + na + 1), bv_doc(b.p + 8 + nb + 1), true);
}

int bv_cmp(struct bv a, struct bv b)
{
    int c = bv_type_class(a.type) - bv_type_class(b.type);

    if (c != 0)
        return c;
    switch (a.type) {
    case BV_INT32:
    case BV_INT64:
    case BV_DOUBLE:
    case BV_DECIMAL:
        return cmp_numbers(a, b);
    case BV_STRING:
    case BV_SYMBOL:
    case BV_CODE:
        return cmp_strings(a, b);
    case BV_DOC:
        return cmp_containers(a, b, true);
    case BV_ARRAY:
        return cmp_containers(a, b, false);
    case BV_BINARY:
        return cmp_binary(a, b);
    case BV_OID:
        return memcmp(a.p, b.p, 12);
    case BV_BOOL:
        return (int)bv_bool(a) - (int)bv_bool(b);
    case BV_DATE:
        return cmp_i64(bv_i64(a), bv_i64(b));
    case BV_TIMESTAMP:
        return (bv_ts(a) > bv_ts(b)) - (bv_ts(a) < bv_ts(b));
    case BV_REGEX:
        return cmp_regex(a, b);
    case BV_DBPOINTER:
        return a.len != b.len ? (a.len < b.len ? -1 : 1) : memcmp(a.p, b.p, a.len);
    case BV_CODE_SCOPE:
        return cmp_code_scope(a, b);
    default:
        return 0;
    }
}

int bv_cmp_docs(struct bv a, struct bv b)
{
    return cmp_containers(a, b, true);
}

static uint64_t hash_bytes(uint64_t h, const void *p, size_t n)
{
    const uint8_t *b = p;

    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * 0x100000001b3u;
    return h;
}

static uint64_t hash_into(uint64_t h, struct bv v)
{
    int class = bv_type_class(v.type);
    struct biter it;
    struct belem e;

    h = hash_bytes(h, &class, sizeof(class));
    if (bv_is_number(v)) {
        /* Equal numbers of different types convert to the same double. */
        double d = bv_to_f64(v);

        if (d == 0 || isnan(d))
            d = isnan(d) ? 1.5 : 0;
        return hash_bytes(h, &d, sizeof(d));
    }
    if (v.type == BV_CODE_SCOPE) { /* by the code alone: equal scopes may differ in bytes */
        struct bv code = {v.p + 4, 0, BV_CODE};
        uint32_t n;
        const char *s = bv_str(code, &n);

        return hash_bytes(h, s, n);
    }
    if (!bv_is_container(v))
        return hash_bytes(h, v.p, v.len);
    it = biter(v);
    while (biter_next(&it, &e)) {
        if (v.type == BV_DOC)
            h = hash_bytes(h, e.key, e.key_len + 1);
        h = hash_into(h, e.v);
    }
    return h;
}

uint64_t bv_hash(struct bv v)
{
    uint64_t h = hash_into(0xcbf29ce484222325u, v);

    return h ^ (h >> 29);
}

const char *bv_type_name(uint8_t type)
{
    switch (type) {
    case BV_MISSING:
        return "missing";
    case BV_DOUBLE:
        return "double";
    case BV_STRING:
        return "string";
    case BV_DOC:
        return "object";
    case BV_ARRAY:
        return "array";
    case BV_BINARY:
        return "binData";
    case BV_UNDEFINED:
        return "undefined";
    case BV_OID:
        return "objectId";
    case BV_BOOL:
        return "bool";
    case BV_DATE:
        return "date";
    case BV_NULL:
        return "null";
    case BV_REGEX:
        return "regex";
    case BV_DBPOINTER:
        return "dbPointer";
    case BV_CODE:
        return "javascript";
    case BV_SYMBOL:
        return "symbol";
    case BV_CODE_SCOPE:
        return "javascriptWithScope";
    case BV_INT32:
        return "int";
    case BV_TIMESTAMP:
        return "timestamp";
    case BV_INT64:
        return "long";
    case BV_DECIMAL:
        return "decimal";
    case BV_MAXKEY:
        return "maxKey";
    case BV_MINKEY:
        return "minKey";
    default:
        return "unknown";
    }
}
