/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values as text, the way MongoDB prints them in error messages: { a: 1, b: "x" }. */
#include "base/bv.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/decimal.h"
#include "base/utf8.h"

struct text {
    char *buf;
    size_t len, max;
};

static void put(struct text *t, const char *s, size_t n)
{
    size_t room = t->max - t->len;

    if (n > room)
        n = room;
    memcpy(t->buf + t->len, s, n);
    t->len += n;
}

static void puts_(struct text *t, const char *s)
{
    put(t, s, strlen(s));
}

static void put_hex(struct text *t, const uint8_t *p, size_t n)
{
    char two[3];

    for (size_t i = 0; i < n && t->len < t->max; i++) {
        snprintf(two, sizeof(two), "%02x", p[i]);
        put(t, two, 2);
    }
}

/* Doubles show a fraction, so that they can be told from integers: 2.0, inf.0, nan.0. */
static void put_f64(struct text *t, double d)
{
    char buf[40];

    snprintf(buf, sizeof(buf), "%.16g", isnan(d) ? fabs(d) : d);
    puts_(t, buf);
    if (strpbrk(buf, ".e") == NULL)
        puts_(t, ".0");
}

static void put_value(struct text *t, struct bv v);

static void put_container(struct text *t, struct bv v)
{
    struct biter it = biter(v);
    struct belem e;
    const char *sep = " ";

    if (bv_empty(v)) {
        puts_(t, v.type == BV_DOC ? "{}" : "[]");
        return;
    }
    puts_(t, v.type == BV_DOC ? "{" : "[");
    while (t->len < t->max && biter_next(&it, &e)) {
        puts_(t, sep);
        sep = ", ";
        if (v.type == BV_DOC) {
            put(t, e.key, e.key_len);
            puts_(t, ": ");
        }
        put_value(t, e.v);
    }
    puts_(t, v.type == BV_DOC ? " }" : " ]");
}

static void put_scalar(struct text *t, struct bv v)
{
    char buf[64];
    uint32_t n;
    uint8_t subtype;
    const uint8_t *bin;

    switch (v.type) {
    case BV_INT32:
        snprintf(buf, sizeof(buf), "%" PRId32, bv_i32(v));
        break;
    case BV_INT64:
        snprintf(buf, sizeof(buf), "%" PRId64, bv_i64(v));
        break;
    case BV_DATE:
        snprintf(buf, sizeof(buf), "new Date(%" PRId64 ")", bv_i64(v));
        break;
    case BV_TIMESTAMP:
        snprintf(buf, sizeof(buf), "Timestamp(%" PRIu64 ", %" PRIu64 ")", bv_ts(v) >> 32,
                 bv_ts(v) & 0xffffffffu);
        break;
    case BV_DECIMAL:
        decimal_to_str(decimal_load(v.p), buf);
        break;
    case BV_OID:
        puts_(t, "ObjectId('");
        put_hex(t, v.p, 12);
        puts_(t, "')");
        return;
    case BV_BINARY:
        bin = bv_bin(v, &n, &subtype);
        snprintf(buf, sizeof(buf), "BinData(%u, ", subtype);
        puts_(t, buf);
        put_hex(t, bin, n);
        puts_(t, ")");
        return;
    default:
        snprintf(buf, sizeof(buf), "%s", bv_type_name(v.type));
        break;
    }
    puts_(t, buf);
}

static void put_value(struct text *t, struct bv v)
{
    const char *s;
    uint32_t n;

    switch (v.type) {
    case BV_DOUBLE:
        put_f64(t, bv_f64(v));
        break;
    case BV_STRING:
    case BV_SYMBOL:
        s = bv_str(v, &n);
        puts_(t, "\"");
        put(t, s, n);
        puts_(t, "\"");
        break;
    case BV_DOC:
    case BV_ARRAY:
        put_container(t, v);
        break;
    case BV_BOOL:
        puts_(t, bv_bool(v) ? "true" : "false");
        break;
    case BV_NULL:
        puts_(t, "null");
        break;
    case BV_REGEX:
        puts_(t, "/");
        puts_(t, (const char *)v.p);
        puts_(t, "/");
        puts_(t, (const char *)v.p + strlen((const char *)v.p) + 1);
        break;
    default:
        put_scalar(t, v);
        break;
    }
}

char *bv_show(struct arena *a, struct bv v, size_t max)
{
    struct text t = {.buf = arena_alloc(a, max + 4), .max = max};

    put_value(&t, v);
    if (t.len == t.max) {
        memcpy(t.buf + t.len, "...", 3);
        t.len += 3;
    }
    t.buf[t.len] = '\0';
    utf8_clean(t.buf);
    return t.buf;
}
