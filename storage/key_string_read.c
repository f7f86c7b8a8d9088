/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reading key strings. The bytes may come from a client (resume tokens): every length is checked
 * and nesting is bounded.
 */
#include <stdlib.h>

#include "base/limits.h"
#include "storage/key_string_number.h"

enum { ERR_BROKEN = 50811 };

int ks_broken(struct error *err)
{
    error_set(err, ERR_BROKEN, "KeyString format error: broken or truncated key string");
    return ERR_BROKEN;
}

int ks_take(struct ks_reader *r, size_t n, uint8_t *out, struct error *err)
{
    if ((size_t)(r->end - r->p) < n)
        return ks_broken(err);
    if (n > 0)
        memcpy(out, r->p, n);
    if (r->inverted) {
        for (size_t i = 0; i < n; i++)
            out[i] = (uint8_t)~out[i];
    }
    r->p += n;
    return 0;
}

uint32_t ks_take_bits(struct ks_reader *r, unsigned n)
{
    uint32_t x = 0;

    while (n-- > 0) {
        size_t at = r->bit_at / 8;
        uint32_t bit = at < r->bits_len ? r->bits[at] >> (r->bit_at % 8) & 1u : 0;

        x = x << 1 | bit;
        r->bit_at++;
    }
    return x;
}

int ks_reader_init(struct ks_reader *r, const uint8_t *p, size_t len, const uint8_t *type_bits,
                   size_t type_bits_len, struct error *err)
{
    size_t head = 1, n;

    memset(r, 0, sizeof(*r));
    r->p = p;
    r->end = p + len;
    if (type_bits == NULL || type_bits_len == 0)
        return 0;
    if (type_bits[0] < 0x80) {
        head = 0;
        n = 1;
    } else if (type_bits[0] > 0x80) {
        n = type_bits[0] & 0x7f;
    } else {
        uint32_t n32;

        if (type_bits_len < 5)
            return ks_broken(err);
        memcpy(&n32, type_bits + 1, 4);
        head = 5;
        n = n32;
    }
    if (n != type_bits_len - head)
        return ks_broken(err);
    r->bits = type_bits + head;
    r->bits_len = n;
    return 0;
}

struct reading {
    struct ks_reader *r;
    struct arena *arena;
    struct error *err;
    struct bw *w;
    unsigned depth;
};

static int no_memory(struct reading *s)
{
    return error_set(s->err, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory");
}

/* Up to the next 00 (which is consumed). In the arena, NUL-terminated. With `escaped`, 00 FF stands
 * for a NUL inside. */
static int take_text(struct reading *s, bool escaped, const char **ret, size_t *ret_len)
{
    struct ks_reader *r = s->r;
    uint8_t nul = r->inverted ? 0xff : 0, escape = r->inverted ? 0 : 0xff;
    const uint8_t *p = r->p;
    size_t n = 0;
    uint8_t *out;

    for (;;) {
        p = p == r->end ? NULL : memchr(p, nul, (size_t)(r->end - p));
        if (p == NULL)
            return ks_broken(s->err);
        if (!escaped || p + 1 == r->end || p[1] != escape)
            break;
        p += 2;
    }
    out = arena_try(s->arena, (size_t)(p - r->p) + 1);
    if (out == NULL)
        return no_memory(s);
    while (r->p <= p) {
        uint8_t b = r->inverted ? (uint8_t) ~*r->p : *r->p;

        out[n++] = b;
        r->p += b == 0 && r->p < p ? 2 : 1;
    }
    *ret = (const char *)out;
    *ret_len = n - 1;
    return 0;
}

static int read_value(struct reading *s, uint8_t type, const char *key, size_t key_len);

static int read_fields(struct reading *s)
{
    const char *name;
    size_t n;
    uint8_t type;

    for (;;) {
        TRY_RETURN(ks_take(s->r, 1, &type, s->err));
        if (type == 0)
            return 0;
        TRY_RETURN(take_text(s, false, &name, &n));
        TRY_RETURN(ks_take(s->r, 1, &type, s->err));
        TRY_RETURN(read_value(s, type, name, n));
    }
}

static int read_elements(struct reading *s)
{
    uint8_t type;

    for (;;) {
        TRY_RETURN(ks_take(s->r, 1, &type, s->err));
        if (type == 0)
            return 0;
        TRY_RETURN(read_value(s, type, "", 0));
    }
}

static int read_container(struct reading *s, bool array, const char *key, size_t key_len)
{
    if (s->depth == LIMIT_DEPTH_MESSAGE)
        return ks_broken(s->err);
    s->depth++;
    if (array) {
        bw_arr_beginn(s->w, key, key_len);
        TRY_RETURN(read_elements(s));
    } else {
        bw_doc_beginn(s->w, key, key_len);
        TRY_RETURN(read_fields(s));
    }
    bw_end(s->w);
    s->depth--;
    return 0;
}

/* A value of fixed size, or whose bytes follow one another. */
static int read_bytes(struct reading *s, size_t n, uint8_t **ret)
{
    uint8_t *p;

    if ((size_t)(s->r->end - s->r->p) < n)
        return ks_broken(s->err);
    p = arena_try(s->arena, n + 5);
    if (p == NULL)
        return no_memory(s);
    TRY_RETURN(ks_take(s->r, n, p + 5, s->err));
    *ret = p + 5;
    return 0;
}

static int read_u32(struct reading *s, uint32_t *ret)
{
    uint8_t b[4];

    TRY_RETURN(ks_take(s->r, 4, b, s->err));
    *ret = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    return 0;
}

static int read_binary(struct reading *s, struct bv *ret)
{
    uint8_t n8, subtype, *p;
    uint32_t n;

    TRY_RETURN(ks_take(s->r, 1, &n8, s->err));
    n = n8;
    if (n8 == 255)
        TRY_RETURN(read_u32(s, &n));
    TRY_RETURN(ks_take(s->r, 1, &subtype, s->err));
    TRY_RETURN(read_bytes(s, n, &p));
    memcpy(p - 5, &n, 4);
    p[-1] = subtype;
    *ret = (struct bv){p - 5, n + 5, BV_BINARY};
    return 0;
}

static int read_u64(struct reading *s, uint64_t flip, uint8_t type, struct bv *ret)
{
    uint64_t x;
    uint8_t b[8];

    TRY_RETURN(ks_take(s->r, 8, b, s->err));
    memcpy(&x, b, 8);
    x = __builtin_bswap64(x) ^ flip;
    *ret = (struct bv){arena_dup(s->arena, &x, 8), 8, type};
    return 0;
}

static int read_string(struct reading *s, uint8_t type, struct bv *ret)
{
    const char *text;
    size_t n;

    TRY_RETURN(take_text(s, true, &text, &n));
    *ret = bv_new_str(s->arena, text, n);
    ret->type = type;
    if (type == BV_STRING && ks_take_bits(s->r, 1) != 0)
        ret->type = BV_SYMBOL;
    return 0;
}

static int read_regex(struct reading *s, struct bv *ret)
{
    const char *pattern, *flags;
    size_t np, nf;
    uint8_t *p;

    TRY_RETURN(take_text(s, false, &pattern, &np));
    TRY_RETURN(take_text(s, false, &flags, &nf));
    p = arena_try(s->arena, np + nf + 2);
    if (p == NULL)
        return no_memory(s);
    memcpy(p, pattern, np + 1);
    memcpy(p + np + 1, flags, nf + 1);
    *ret = (struct bv){p, (uint32_t)(np + nf + 2), BV_REGEX};
    return 0;
}

static int read_dbpointer(struct reading *s, struct bv *ret)
{
    uint32_t n, n1;
    uint8_t *ns, oid[12], *p;

    TRY_RETURN(read_u32(s, &n));
    TRY_RETURN(read_bytes(s, n, &ns));
    TRY_RETURN(ks_take(s->r, 12, oid, s->err));
    p = arena_try(s->arena, (size_t)n + 17);
    if (p == NULL)
        return no_memory(s);
    n1 = n + 1;
    memcpy(p, &n1, 4);
    memcpy(p + 4, ns, n);
    p[4 + n] = 0;
    memcpy(p + 5 + n, oid, 12);
    *ret = (struct bv){p, n + 17, BV_DBPOINTER};
    return 0;
}

static int read_code_scope(struct reading *s, struct bv *ret)
{
    const char *text;
    size_t n;
    uint32_t head, total;
    struct bw *outer = s->w, scope;
    struct bv doc;
    uint8_t *p;
    int rc;

    TRY_RETURN(take_text(s, true, &text, &n));
    if (s->depth == LIMIT_DEPTH_MESSAGE)
        return ks_broken(s->err);
    bw_init(&scope, s->arena);
    s->w = &scope;
    s->depth++;
    rc = read_fields(s);
    s->depth--;
    s->w = outer;
    if (rc != 0)
        return rc;
    doc = bw_done(&scope);
    if (bv_is_missing(doc))
        return ks_broken(s->err);
    head = (uint32_t)n + 1;
    total = 8 + head + doc.len;
    p = arena_try(s->arena, total);
    if (p == NULL)
        return no_memory(s);
    memcpy(p, &total, 4);
    memcpy(p + 4, &head, 4);
    memcpy(p + 8, text, head);
    memcpy(p + 8 + head, doc.p, doc.len);
    *ret = (struct bv){p, total, BV_CODE_SCOPE};
    return 0;
}

static int read_scalar(struct reading *s, uint8_t type, struct bv *ret)
{
    uint8_t *p;

    if (type >= KS_NAN && type <= KS_POS_LARGE)
        return ks_number_read(s->r, type, s->arena, s->err, ret);
    switch (type) {
    case 10:
        *ret = bv_minkey;
        return 0;
    case 15:
        *ret = bv_undefined;
        return 0;
    case 20:
        *ret = bv_null;
        return 0;
    case 60:
        return read_string(s, BV_STRING, ret);
    case 90:
        return read_binary(s, ret);
    case 100:
        TRY_RETURN(read_bytes(s, 12, &p));
        *ret = (struct bv){p, 12, BV_OID};
        return 0;
    case 110:
    case 111:
        *ret = bv_new_bool(type == 111);
        return 0;
    case 120:
        return read_u64(s, 1ULL << 63, BV_DATE, ret);
    case 130:
        return read_u64(s, 0, BV_TIMESTAMP, ret);
    case 140:
        return read_regex(s, ret);
    case 150:
        return read_dbpointer(s, ret);
    case 160:
        return read_string(s, BV_CODE, ret);
    case 170:
        return read_code_scope(s, ret);
    case 240:
        *ret = bv_maxkey;
        return 0;
    default:
        return ks_broken(s->err);
    }
}

static int read_value(struct reading *s, uint8_t type, const char *key, size_t key_len)
{
    struct bv v;

    if (type == 70 || type == 80)
        return read_container(s, type == 80, key, key_len);
    TRY_RETURN(read_scalar(s, type, &v));
    bw_bvn(s->w, key, key_len, v);
    return 0;
}

int ks_read(struct ks_reader *r, struct arena *arena, struct error *err, struct bv *ret)
{
    struct bw w;
    struct reading s = {.r = r, .arena = arena, .err = err, .w = &w};
    struct bv doc;
    uint8_t type;

    if (r->p == r->end || *r->p == 4) {
        *ret = BV_NONE;
        return 0;
    }
    TRY_RETURN(ks_take(r, 1, &type, err));
    if (type != 70 && type != 80)
        return read_scalar(&s, type, ret);
    bw_init(&w, arena);
    TRY_RETURN(read_value(&s, type, "", 0));
    doc = bw_done(&w);
    if (bv_is_missing(doc))
        return ks_broken(err);
    *ret = bv_first(doc, NULL);
    return 0;
}
