/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/bw.h"

#include <stdlib.h>

#include "base/mem.h"

/* Not every writer of a small document looks whether it failed: memory for those is there. */
static void *regrow(struct bw *w, uint32_t cap)
{
    void *p;

    if (w->arena == NULL)
        return cap <= ARENA_SMALL_MAX ? mem_must_resize(w->buf, cap) : mem_try_resize(w->buf, cap);
    p = arena_regrow(w->arena, w->buf, w->cap, cap);
    if (p == NULL && cap <= ARENA_SMALL_MAX)
        mem_out(cap, __builtin_return_address(0));
    return p;
}

static bool grow(struct bw *w, size_t n)
{
    uint32_t cap;
    void *p;

    if (w->failed)
        return false;
    if (n > LIMIT_BW_BYTES - w->len) {
        w->failed = true;
        return false;
    }
    cap = w->cap == 0 ? 256 : w->cap;
    while (cap - w->len < n)
        cap = cap > LIMIT_BW_BYTES / 2 ? LIMIT_BW_BYTES : cap * 2;
    p = regrow(w, cap);
    if (p == NULL) {
        w->failed = w->no_memory = true;
        return false;
    }
    w->buf = p;
    w->cap = cap;
    return true;
}

static inline bool reserve(struct bw *w, size_t n)
{
    return n <= w->cap - w->len ? !w->failed : grow(w, n);
}

bool bw_room(struct bw *w, size_t n)
{
    return reserve(w, n);
}

static struct bw_level *level(struct bw *w, uint32_t depth)
{
    return depth < BW_DEPTH_NEAR ? &w->near[depth] : &w->far[depth - BW_DEPTH_NEAR];
}

static struct bw_level *top(struct bw *w)
{
    return level(w, w->depth - 1);
}

/* Makes sure that there is room for one more open document. */
static bool reserve_level(struct bw *w)
{
    size_t n = (BW_DEPTH - BW_DEPTH_NEAR) * sizeof(struct bw_level);

    if (w->depth < BW_DEPTH_NEAR || w->far != NULL)
        return w->depth < BW_DEPTH;
    w->far = w->arena != NULL ? arena_try(w->arena, n) : mem_try(n);
    return w->far != NULL;
}

static void open_level(struct bw *w, bool array)
{
    if (!reserve_level(w) || !reserve(w, 4)) {
        w->failed = true;
        return;
    }
    w->depth++;
    *top(w) = (struct bw_level){w->len, array ? 0 : UINT32_MAX};
    w->len += 4;
}

static void start(struct bw *w, struct arena *arena, bool array)
{
    w->buf = NULL;
    w->len = 0;
    w->cap = 0;
    w->arena = arena;
    w->depth = 0;
    w->failed = w->no_memory = false;
    w->far = NULL;
    open_level(w, array);
}

void bw_init(struct bw *w, struct arena *arena)
{
    start(w, arena, false);
}

void bw_init_array(struct bw *w, struct arena *arena)
{
    start(w, arena, true);
}

void bw_fini(struct bw *w)
{
    if (w->arena == NULL) {
        free(w->buf);
        free(w->far);
    }
    w->buf = NULL;
    w->far = NULL;
}

uint32_t bw_size(const struct bw *w)
{
    return w->len;
}

static void close_level(struct bw *w)
{
    uint32_t at, n;

    if (!reserve(w, 1))
        return;
    ASSERT(w->depth > 0);
    w->buf[w->len++] = 0;
    at = top(w)->start;
    w->depth--;
    n = w->len - at;
    memcpy(w->buf + at, &n, 4);
}

void bw_end(struct bw *w)
{
    close_level(w);
}

struct bv bw_done(struct bw *w)
{
    bool array;

    if (w->failed)
        return BV_NONE;
    ASSERT(w->depth == 1);
    array = w->near[0].index != UINT32_MAX;
    close_level(w);
    if (w->failed)
        return BV_NONE;
    return (struct bv){w->buf, w->len, array ? BV_ARRAY : BV_DOC};
}

/* The decimal digits of x, without a NUL. */
static size_t write_index(char *out, uint32_t x)
{
    char digits[10];
    size_t n = 0;

    do
        digits[n++] = (char)('0' + x % 10);
    while ((x /= 10) != 0);
    for (size_t i = 0; i < n; i++)
        out[i] = digits[n - 1 - i];
    return n;
}

/* Writes type and name, and leaves room for n value bytes; NULL when failed. */
static uint8_t *head(struct bw *w, uint8_t type, const char *key, size_t key_len, size_t n)
{
    char index[12];
    uint8_t *p;

    if (w->failed)
        return NULL;
    if (top(w)->index != UINT32_MAX) {
        key = index;
        key_len = write_index(index, top(w)->index++);
    }
    if (!reserve(w, key_len + 2 + n))
        return NULL;
    p = w->buf + w->len;
    *p++ = type;
    memcpy(p, key, key_len);
    p += key_len;
    *p++ = 0;
    w->len += (uint32_t)(key_len + 2 + n);
    return p;
}

static size_t key_size(const char *key)
{
    return key == NULL ? 0 : strlen(key);
}

void bw_doc_beginn(struct bw *w, const char *key, size_t key_len)
{
    if (head(w, BV_DOC, key, key_len, 0) != NULL)
        open_level(w, false);
}

void bw_arr_beginn(struct bw *w, const char *key, size_t key_len)
{
    if (head(w, BV_ARRAY, key, key_len, 0) != NULL)
        open_level(w, true);
}

void bw_doc_begin(struct bw *w, const char *key)
{
    bw_doc_beginn(w, key, key_size(key));
}

void bw_arr_begin(struct bw *w, const char *key)
{
    bw_arr_beginn(w, key, key_size(key));
}

void bw_bvn(struct bw *w, const char *key, size_t key_len, struct bv v)
{
    uint8_t *p;

    if (v.type == BV_MISSING)
        return;
    p = head(w, v.type, key, key_len, v.len);
    if (p != NULL && v.len > 0)
        memcpy(p, v.p, v.len);
}

void bw_bv(struct bw *w, const char *key, struct bv v)
{
    bw_bvn(w, key, key_size(key), v);
}

void bw_elem(struct bw *w, const struct belem *e)
{
    bw_bvn(w, e->key, e->key_len, e->v);
}

void bw_fields(struct bw *w, struct bv doc)
{
    uint32_t n;

    if (w->failed || !bv_is_container(doc))
        return;
    if (top(w)->index != UINT32_MAX) {
        struct biter it = biter(doc);
        struct belem e;

        while (biter_next(&it, &e))
            bw_elem(w, &e);
        return;
    }
    n = doc.len - 5;
    if (!reserve(w, n))
        return;
    memcpy(w->buf + w->len, doc.p + 4, n);
    w->len += n;
}

static void fixed(struct bw *w, uint8_t type, const char *key, const void *src, size_t n)
{
    uint8_t *p = head(w, type, key, key_size(key), n);

    if (p != NULL && n > 0)
        memcpy(p, src, n);
}

void bw_i32(struct bw *w, const char *key, int32_t x)
{
    fixed(w, BV_INT32, key, &x, 4);
}

void bw_i64(struct bw *w, const char *key, int64_t x)
{
    fixed(w, BV_INT64, key, &x, 8);
}

void bw_f64(struct bw *w, const char *key, double x)
{
    fixed(w, BV_DOUBLE, key, &x, 8);
}

void bw_bool(struct bw *w, const char *key, bool x)
{
    uint8_t b = x;

    fixed(w, BV_BOOL, key, &b, 1);
}

void bw_null(struct bw *w, const char *key)
{
    fixed(w, BV_NULL, key, NULL, 0);
}

void bw_strn(struct bw *w, const char *key, const char *s, size_t n)
{
    uint8_t *p = head(w, BV_STRING, key, key_size(key), n + 5);
    uint32_t size = (uint32_t)n + 1;

    if (p == NULL)
        return;
    memcpy(p, &size, 4);
    if (n > 0)
        memcpy(p + 4, s, n);
    p[4 + n] = 0;
}

void bw_str(struct bw *w, const char *key, const char *s)
{
    bw_strn(w, key, s, strlen(s));
}

void bw_date(struct bw *w, const char *key, int64_t ms)
{
    fixed(w, BV_DATE, key, &ms, 8);
}

void bw_ts(struct bw *w, const char *key, uint64_t ts)
{
    fixed(w, BV_TIMESTAMP, key, &ts, 8);
}

void bw_oid(struct bw *w, const char *key, const uint8_t oid[12])
{
    fixed(w, BV_OID, key, oid, 12);
}

void bw_bin(struct bw *w, const char *key, uint8_t subtype, const void *data, size_t n)
{
    uint8_t *p = head(w, BV_BINARY, key, key_size(key), n + 5);
    uint32_t size = (uint32_t)n;

    if (p == NULL)
        return;
    memcpy(p, &size, 4);
    p[4] = subtype;
    if (n > 0)
        memcpy(p + 5, data, n);
}

void bw_uuid(struct bw *w, const char *key, const uint8_t uuid[16])
{
    bw_bin(w, key, 4, uuid, 16);
}

struct bw_mark bw_mark(const struct bw *w)
{
    uint32_t index = w->depth <= BW_DEPTH_NEAR ? w->near[w->depth - 1].index
                                               : w->far[w->depth - 1 - BW_DEPTH_NEAR].index;

    return (struct bw_mark){w->len, w->depth, index};
}

void bw_rewind(struct bw *w, struct bw_mark mark)
{
    if (w->failed)
        return;
    w->len = mark.len;
    w->depth = mark.depth;
    top(w)->index = mark.index;
}
