/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/fuzz/notation.h"

#include <errno.h>
#include <stdlib.h>

#include "base/decimal.h"
#include "base/limits.h"

struct reader {
    const uint8_t *at, *end;
    struct arena *a;
    struct bw w;
    unsigned depth;
};

static int hex(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool separates(uint8_t c)
{
    return c == ' ' || c == ',' || c == ':' || c == '\n' || c == '\t' || c == '\r';
}

static bool ends_word(uint8_t c)
{
    return separates(c) || strchr("{}[]()", c) != NULL;
}

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && separates(*r->at))
        r->at++;
}

static bool accept(struct reader *r, uint8_t c)
{
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* --- words ------------------------------------------------------------------------------------ */

/* Up to the closing quote or the end. */
static char *quoted(struct reader *r, uint8_t quote, size_t *ret_len)
{
    char *s = arena_alloc(r->a, (size_t)(r->end - r->at) + 1);
    size_t n = 0;

    while (r->at < r->end && *r->at != quote) {
        if (r->end - r->at >= 4 && r->at[0] == '\\' && r->at[1] == 'x' && hex(r->at[2]) >= 0 &&
            hex(r->at[3]) >= 0) {
            s[n++] = (char)(hex(r->at[2]) * 16 + hex(r->at[3]));
            r->at += 4;
        } else {
            s[n++] = (char)*r->at++;
        }
    }
    accept(r, quote);
    s[n] = '\0';
    *ret_len = n;
    return s;
}

static char *word(struct reader *r, size_t *ret_len)
{
    const uint8_t *start;

    skip_blanks(r);
    if (r->at < r->end && (*r->at == '\'' || *r->at == '"'))
        return quoted(r, *r->at++, ret_len);
    start = r->at;
    while (r->at < r->end && !ends_word(*r->at))
        r->at++;
    *ret_len = (size_t)(r->at - start);
    return arena_strndup(r->a, (const char *)start, *ret_len);
}

static int64_t whole(struct reader *r)
{
    size_t n;

    return strtoll(word(r, &n), NULL, 10);
}

/* --- values ----------------------------------------------------------------------------------- */

static void put_value(struct reader *r, const char *key);

static void put_bytes(struct reader *r, const char *key, enum bv_type type, const void *p, size_t n)
{
    bw_bv(&r->w, key, (struct bv){p, (uint32_t)n, (uint8_t)type});
}

/* STRING and its kin: length, bytes, NUL. */
static uint8_t *string_bytes(struct reader *r, const char *s, size_t n, size_t *ret_len)
{
    uint8_t *p = arena_zalloc(r->a, n + 5);
    uint32_t len = (uint32_t)n + 1;

    memcpy(p, &len, 4);
    memcpy(p + 4, s, n);
    *ret_len = n + 5;
    return p;
}

static void put_string(struct reader *r, const char *key, enum bv_type type)
{
    size_t n, len;
    char *s = word(r, &n);
    uint8_t *p = string_bytes(r, s, n, &len);

    put_bytes(r, key, type, p, len);
}

static void hex_bytes(struct reader *r, uint8_t ret[12])
{
    size_t n;
    char *s = word(r, &n);

    memset(ret, 0, 12);
    for (size_t i = 0; i < n && i < 24; i++)
        ret[i / 2] = (uint8_t)(ret[i / 2] << 4 | (hex((uint8_t)s[i]) & 15));
}

static void put_pointer(struct reader *r, const char *key)
{
    size_t n, len;
    char *s = word(r, &n);
    uint8_t oid[12], *p = string_bytes(r, s, n, &len), *all = arena_alloc(r->a, len + 12);

    hex_bytes(r, oid);
    memcpy(all, p, len);
    memcpy(all + len, oid, 12);
    put_bytes(r, key, BV_DBPOINTER, all, len + 12);
}

/* Code with scope: int32 total length, string, document. */
static void put_scope(struct reader *r, const char *key)
{
    struct bw outer = r->w;
    size_t n, len;
    char *s = word(r, &n);
    uint8_t *p = string_bytes(r, s, n, &len), *all;
    struct bv doc;
    uint32_t total;

    bw_init(&r->w, r->a);
    put_value(r, "v");
    doc = bw_done(&r->w);
    r->w = outer;
    total = (uint32_t)(4 + len + doc.len);
    all = arena_alloc(r->a, total);
    memcpy(all, &total, 4);
    memcpy(all + 4, p, len);
    memcpy(all + 4 + len, doc.p, doc.len);
    put_bytes(r, key, BV_CODE_SCOPE, all, total);
}

static void put_call(struct reader *r, const char *key, const char *name)
{
    uint8_t oid[12];
    size_t n;

    if (strcmp(name, "date") == 0) {
        bw_date(&r->w, key, whole(r));
    } else if (strcmp(name, "ts") == 0) {
        uint64_t seconds = (uint64_t)whole(r);

        bw_ts(&r->w, key, seconds << 32 | (uint32_t)whole(r));
    } else if (strcmp(name, "oid") == 0) {
        hex_bytes(r, oid);
        bw_oid(&r->w, key, oid);
    } else if (strcmp(name, "bin") == 0) {
        uint8_t subtype = (uint8_t)whole(r);
        char *s = word(r, &n);

        bw_bin(&r->w, key, subtype, s, n);
    } else if (strcmp(name, "code") == 0) {
        put_string(r, key, BV_CODE);
    } else if (strcmp(name, "symbol") == 0) {
        put_string(r, key, BV_SYMBOL);
    } else if (strcmp(name, "scope") == 0) {
        put_scope(r, key);
    } else if (strcmp(name, "ptr") == 0) {
        put_pointer(r, key);
    } else {
        put_string(r, key, BV_STRING);
    }
    skip_blanks(r);
    accept(r, ')');
}

/* False: the word is no number. */
static bool put_number(struct reader *r, const char *key, const char *s, size_t n)
{
    struct decimal d;
    char *end;
    long long x;
    double f;

    if (n == 0 || strchr("+-.0123456789", s[0]) == NULL)
        return false;
    errno = 0;
    x = strtoll(s, &end, 10);
    if (end == s + n - 1 && *end == 'L') {
        bw_i64(&r->w, key, x);
    } else if (end == s + n && errno == 0) {
        if (x == (int32_t)x)
            bw_i32(&r->w, key, (int32_t)x);
        else
            bw_i64(&r->w, key, x);
    } else if (s[n - 1] == 'm' && decimal_from_str(s, n - 1, &d)) {
        put_bytes(r, key, BV_DECIMAL, &d, sizeof(d));
    } else {
        f = strtod(s, &end);
        if (end != s + n)
            return false;
        bw_f64(&r->w, key, f);
    }
    return true;
}

static void put_word(struct reader *r, const char *key, const char *s, size_t n)
{
    const struct {
        const char *word;
        struct bv v;
    } words[] = {{"true", bv_true},
                 {"false", bv_false},
                 {"null", bv_null},
                 {"undefined", bv_undefined},
                 {"NaN", bv_new_f64(r->a, __builtin_nan(""))},
                 {"Inf", bv_new_f64(r->a, __builtin_inf())},
                 {"MinKey", bv_minkey},
                 {"MaxKey", bv_maxkey}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i].word, s) == 0) {
            bw_bv(&r->w, key, words[i].v);
            return;
        }
    }
    if (!put_number(r, key, s, n))
        bw_strn(&r->w, key, s, n);
}

static void put_regex(struct reader *r, const char *key)
{
    size_t n, flags_len, total;
    char *pattern = quoted(r, '/', &n), *flags = word(r, &flags_len), *all;

    n = strlen(pattern);
    flags_len = strlen(flags);
    total = n + 1 + flags_len + 1;
    all = arena_zalloc(r->a, total);
    memcpy(all, pattern, n);
    memcpy(all + n + 1, flags, flags_len);
    put_bytes(r, key, BV_REGEX, all, total);
}

static void put_members(struct reader *r, uint8_t close)
{
    r->depth++;
    for (;;) {
        char *key = NULL;
        size_t n;

        skip_blanks(r);
        if (r->at == r->end || accept(r, close))
            break;
        if (close == '}')
            key = word(r, &n);
        put_value(r, key);
    }
    r->depth--;
    bw_end(&r->w);
}

/* Consumes at least one byte, unless there are none. */
static void put_value(struct reader *r, const char *key)
{
    bool room = r->depth < LIMIT_DEPTH_STORED;
    size_t n;

    skip_blanks(r);
    if (r->at == r->end) {
        bw_null(&r->w, key);
    } else if (*r->at == '\'' || *r->at == '"') {
        char *s = word(r, &n);

        bw_strn(&r->w, key, s, n);
    } else if (room && accept(r, '{')) {
        bw_doc_begin(&r->w, key);
        put_members(r, '}');
    } else if (room && accept(r, '[')) {
        bw_arr_begin(&r->w, key);
        put_members(r, ']');
    } else if (accept(r, '/')) {
        put_regex(r, key);
    } else if (ends_word(*r->at)) {
        bw_i32(&r->w, key, *r->at++);
    } else {
        char *s = word(r, &n);

        if (r->depth < LIMIT_DEPTH_STORED && accept(r, '(')) {
            r->depth++;
            put_call(r, key, s);
            r->depth--;
        } else {
            put_word(r, key, s, n);
        }
    }
}

struct bv notation(struct arena *a, const uint8_t *data, size_t size)
{
    struct reader r = {.at = data, .end = data + size, .a = a};

    bw_init_array(&r.w, a);
    skip_blanks(&r);
    while (r.at < r.end) {
        put_value(&r, NULL);
        skip_blanks(&r);
    }
    return bw_done(&r.w);
}

/* --- for targets ------------------------------------------------------------------------------ */

void input_open(struct input *in, const uint8_t *data, size_t size)
{
    struct bv all;

    op_init(&in->op);
    all = notation(&in->op.arena, data, size);
    check_sound(all);
    in->values = biter(all);
}

void input_close(struct input *in)
{
    op_fini(&in->op);
}

struct bv input_next(struct input *in)
{
    struct belem e;

    return biter_next(&in->values, &e) ? e.v : BV_NONE;
}

struct bv input_doc(struct input *in)
{
    struct bv v = input_next(in);

    return v.type == BV_DOC ? v : bv_empty_doc;
}

void check_failure(const struct op *op, int rc)
{
    ASSERT(rc > 0);
    ASSERT(op->err->code == rc);
    ASSERT(op->err->text[0] != '\0');
}

void check_sound(struct bv doc)
{
    struct error err;

    ASSERT(bv_is_container(doc));
    ASSERT(bv_check(doc.p, doc.len, LIMIT_DEPTH_MESSAGE, &err) == 0);
}
