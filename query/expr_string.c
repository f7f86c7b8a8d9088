/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * String operators. Lengths and positions are bytes, or code points where the name ends in CP;
 * case is changed for ASCII letters only, as MongoDB does.
 */
#include <ctype.h>

#include "query/expr_op.h"
#include "query/utf8.h"

struct text {
    const char *s;
    uint32_t n;
};

static struct text text_of(struct bv v)
{
    struct text t;

    t.s = bv_str(v, &t.n);
    return t;
}

/* Operand i as text where numbers and dates may stand too. */
static int text_arg(const struct expr *e, struct eval *ev, uint32_t i, struct text *ret)
{
    struct bv v;

    TRY_RETURN(expr_eval(e->args[i], ev, &v));
    TRY_RETURN(expr_coerce_string(ev, v, &v));
    *ret = text_of(v);
    return 0;
}

int eval_concat(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv *parts = arena_try(ev->scratch, sizeof(*parts) * (e->nargs + 1));
    size_t total = 0;
    bool null = false;
    char *out = NULL;

    if (parts == NULL)
        return op_no_memory(ev->op);
    for (uint32_t i = 0; i < e->nargs; i++) {
        TRY_RETURN(expr_eval(e->args[i], ev, &parts[i]));
        if (bv_is_nullish(parts[i])) {
            null = true;
            break;
        }
        if (parts[i].type != BV_STRING)
            return op_fail(ev->op, 16702, "$concat only supports strings, not %s",
                           bv_type_name(parts[i].type));
        total += text_of(parts[i]).n;
    }
    if (null) {
        *ret = bv_null;
        return 0;
    }
    TRY_RETURN(expr_string_room(ev, total, &out, ret));
    for (uint32_t i = 0; i < e->nargs; i++) {
        struct text t = text_of(parts[i]);

        memcpy(out, t.s, t.n);
        out += t.n;
    }
    return 0;
}

static int change_case(const struct expr *e, struct eval *ev, bool up, struct bv *ret)
{
    struct text t;
    char *out = NULL;

    TRY_RETURN(text_arg(e, ev, 0, &t));
    TRY_RETURN(expr_string_room(ev, t.n, &out, ret));
    for (uint32_t i = 0; i < t.n; i++) {
        char c = t.s[i];

        if (up ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z')
            c = (char)(c ^ 0x20);
        out[i] = c;
    }
    return 0;
}

int eval_to_lower(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return change_case(e, ev, false, ret);
}

int eval_to_upper(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return change_case(e, ev, true, ret);
}

int eval_strcasecmp(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct text a, b;
    int c = 0;

    TRY_RETURN(text_arg(e, ev, 0, &a));
    TRY_RETURN(text_arg(e, ev, 1, &b));
    for (uint32_t i = 0; c == 0 && i < a.n && i < b.n; i++) {
        int x = toupper((unsigned char)a.s[i]), y = toupper((unsigned char)b.s[i]);

        c = (x > y) - (x < y);
    }
    if (c == 0)
        c = (a.n > b.n) - (a.n < b.n);
    *ret = bv_new_i32(ev->scratch, c);
    return 0;
}

static int length(const struct expr *e, struct eval *ev, int code, bool chars, struct bv *ret)
{
    struct text t;
    struct bv v;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    if (v.type != BV_STRING)
        return op_fail(ev->op, code, "%s requires a string argument, found: %s", expr_name(e),
                       bv_type_name(v.type));
    t = text_of(v);
    *ret = bv_new_i32(ev->scratch, (int32_t)(chars ? utf8_count(t.s, t.n) : t.n));
    return 0;
}

int eval_str_len_bytes(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return length(e, ev, 34473, false, ret);
}

int eval_str_len_cp(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return length(e, ev, 34471, true, ret);
}

/* --- parts of strings
 * ------------------------------------------------------------------------------- */

int eval_substr_bytes(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv from_v, n_v;
    int64_t from, n;
    struct text t;

    TRY_RETURN(text_arg(e, ev, 0, &t));
    TRY_RETURN(expr_eval(e->args[1], ev, &from_v));
    TRY_RETURN(expr_eval(e->args[2], ev, &n_v));
    if (!bv_to_i64(from_v, &from))
        return op_fail(ev->op, 16034,
                       "%s:  starting index must be a numeric type (is BSON type %s)", expr_name(e),
                       bv_type_name(from_v.type));
    if (!bv_to_i64(n_v, &n))
        return op_fail(ev->op, 16035, "%s:  length must be a numeric type (is BSON type %s)",
                       expr_name(e), bv_type_name(n_v.type));
    if (from < 0)
        return op_fail(ev->op, 50752, "%s:  starting index must be non-negative (got: %lld)",
                       expr_name(e), (long long)from);
    if (from >= t.n)
        return expr_string(ev, "", 0, ret);
    if (utf8_is_continuation(t.s[from]))
        return op_fail(ev->op, 28656,
                       "%s:  Invalid range, starting index is a UTF-8 continuation byte.",
                       expr_name(e));
    if (n < 0 || n > t.n - from)
        n = t.n - from;
    if (from + n < t.n && utf8_is_continuation(t.s[from + n]))
        return op_fail(ev->op, 28657,
                       "%s:  Invalid range, ending index is in the middle of a UTF-8 character.",
                       expr_name(e));
    return expr_string(ev, t.s + from, (size_t)n, ret);
}

static int cp_bound(const struct expr *e, struct eval *ev, uint32_t i, const char *what, int code,
                    int code_negative, int64_t *ret)
{
    struct bv v;

    TRY_RETURN(expr_eval(e->args[i], ev, &v));
    if (!bv_is_number(v))
        return op_fail(ev->op, code, "$substrCP: %s must be a numeric type (is BSON type %s)", what,
                       bv_type_name(v.type));
    if (!bv_to_i64_exact(v, ret) || *ret > INT32_MAX || *ret < INT32_MIN)
        return op_fail(ev->op, code + 1,
                       "$substrCP: %s cannot be represented as a 32-bit integral value: %s", what,
                       bv_show(ev->scratch, v, 64));
    if (*ret < 0)
        return op_fail(ev->op, code_negative, "$substrCP: %s must be a nonnegative integer.", what);
    return 0;
}

int eval_substr_cp(const struct expr *e, struct eval *ev, struct bv *ret)
{
    int64_t from, n;
    struct text t;
    size_t start;

    TRY_RETURN(text_arg(e, ev, 0, &t));
    TRY_RETURN(cp_bound(e, ev, 1, "starting index", 34450, 34455, &from));
    TRY_RETURN(cp_bound(e, ev, 2, "length", 34452, 34454, &n));
    start = utf8_offset(t.s, t.n, (uint64_t)from);
    return expr_string(ev, t.s + start, utf8_offset(t.s + start, t.n - start, (uint64_t)n), ret);
}

static const char *find(const char *s, size_t n, struct text what)
{
    return memmem(s, n, what.s, what.n);
}

int eval_split(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv v, by;
    struct text t, sep;
    const char *at, *end, *hit;
    struct bw w;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    TRY_RETURN(expr_eval(e->args[1], ev, &by));
    if (bv_is_nullish(v) || bv_is_nullish(by)) {
        *ret = bv_null;
        return 0;
    }
    if (v.type != BV_STRING)
        return op_fail(ev->op, 40085,
                       "$split requires an expression that evaluates to a string as a first "
                       "argument, found: %s",
                       bv_type_name(v.type));
    if (by.type != BV_STRING)
        return op_fail(ev->op, 40086,
                       "$split requires an expression that evaluates to a string as a second "
                       "argument, found: %s",
                       bv_type_name(by.type));
    t = text_of(v);
    sep = text_of(by);
    if (sep.n == 0)
        return op_fail(ev->op, 40087, "$split requires a non-empty separator");
    bw_init_array(&w, ev->scratch);
    at = t.s;
    end = t.s + t.n;
    while ((hit = find(at, (size_t)(end - at), sep)) != NULL) {
        bw_strn(&w, NULL, at, (size_t)(hit - at));
        at = hit + sep.n;
    }
    bw_strn(&w, NULL, at, (size_t)(end - at));
    return expr_done(ev, &w, ret);
}

/* --- searching
 * --------------------------------------------------------------------------------------- */

static int index_of(const struct expr *e, struct eval *ev, bool chars, struct bv *ret)
{
    int64_t start = 0, end = INT64_MAX, from, to, found = -1;
    struct text t, what;
    const char *hit;
    struct bv v, sub;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    if (bv_is_nullish(v)) {
        *ret = bv_null;
        return 0;
    }
    if (v.type != BV_STRING)
        return op_fail(ev->op, chars ? 40093 : 40091,
                       "%s requires a string as the first argument, found: %s", expr_name(e),
                       bv_type_name(v.type));
    TRY_RETURN(expr_eval(e->args[1], ev, &sub));
    if (sub.type != BV_STRING)
        return op_fail(ev->op, chars ? 40094 : 40092,
                       "%s requires a string as the second argument, found: %s", expr_name(e),
                       bv_type_name(sub.type));
    TRY_RETURN(expr_search_bound(e, ev, 2, "starting", &start));
    TRY_RETURN(expr_search_bound(e, ev, 3, "ending", &end));
    t = text_of(v);
    what = text_of(sub);
    from = start;
    to = end;
    if (chars) {
        if ((uint64_t)start > utf8_count(t.s, t.n))
            from = (int64_t)t.n + 1;
        else
            from = (int64_t)utf8_offset(t.s, t.n, (uint64_t)start);
        to = (int64_t)utf8_offset(t.s, t.n, (uint64_t)end);
    }
    if (to > t.n)
        to = t.n;
    if (from <= to) {
        hit = find(t.s + from, (size_t)(to - from), what);
        if (hit != NULL)
            found = chars ? (int64_t)utf8_count(t.s, (size_t)(hit - t.s)) : hit - t.s;
    }
    *ret = bv_new_i32(ev->scratch, (int32_t)found);
    return 0;
}

int eval_index_of_bytes(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return index_of(e, ev, false, ret);
}

int eval_index_of_cp(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return index_of(e, ev, true, ret);
}

/* --- trimming: args input, chars
 * ------------------------------------------------------------------------ */

/* What is trimmed by default: NUL, white space, and the spaces of Unicode. */
static const char default_chars[] =
    "\0 \t\n\v\f\r\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200A";

static bool in_chars(struct text chars, const char *c, size_t size)
{
    for (size_t i = 0; i < chars.n;) {
        size_t n = utf8_size(chars.s + i, chars.n - i);

        if (n == size && memcmp(chars.s + i, c, n) == 0)
            return true;
        i += n;
    }
    return false;
}

static int trim(const struct expr *e, struct eval *ev, bool left, bool right, struct bv *ret)
{
    struct text t, chars = {default_chars, sizeof(default_chars) - 1};
    size_t start = 0, end, kept;
    struct bv v, c;

    TRY_RETURN(expr_arg(e, 0, ev, &v));
    TRY_RETURN(expr_arg(e, 1, ev, &c));
    if (bv_is_nullish(v) || (e->args[1] != NULL && bv_is_nullish(c))) {
        *ret = bv_null;
        return 0;
    }
    if (v.type != BV_STRING)
        return op_fail(ev->op, 50699,
                       "%s requires its input to be a string, got %s (of type %s) "
                       "instead.",
                       expr_name(e), bv_show(ev->scratch, v, 64), bv_type_name(v.type));
    if (e->args[1] != NULL && c.type != BV_STRING)
        return op_fail(ev->op, 50700,
                       "%s requires 'chars' to be a string, got %s (of type %s) instead.",
                       expr_name(e), bv_show(ev->scratch, c, 64), bv_type_name(c.type));
    t = text_of(v);
    if (e->args[1] != NULL)
        chars = text_of(c);
    while (left && start < t.n) {
        size_t n = utf8_size(t.s + start, t.n - start);

        TRY_RETURN(op_work(ev->op, chars.n));
        if (!in_chars(chars, t.s + start, n))
            break;
        start += n;
    }
    /* `kept` ends behind the last character that stays. */
    kept = right ? start : t.n;
    for (end = start; right && end < t.n;) {
        size_t n = utf8_size(t.s + end, t.n - end);

        TRY_RETURN(op_work(ev->op, chars.n));
        if (!in_chars(chars, t.s + end, n))
            kept = end + n;
        end += n;
    }
    return expr_string(ev, t.s + start, kept - start, ret);
}

int eval_trim(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return trim(e, ev, true, true, ret);
}

int eval_ltrim(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return trim(e, ev, true, false, ret);
}

int eval_rtrim(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return trim(e, ev, false, true, ret);
}

/* --- replacing: args input, find, replacement
 * ------------------------------------------------------------ */

/* The three operands; *ret_null when one of them is null. */
static int replace_args(const struct expr *e, struct eval *ev, struct text t[static 3],
                        bool *ret_null)
{
    static const char *const names[] = {"input", "find", "replacement"};
    static const int codes[] = {51746, 51745, 51744};

    *ret_null = false;
    for (uint32_t i = 0; i < 3; i++) {
        struct bv v;

        TRY_RETURN(expr_arg(e, i, ev, &v));
        if (bv_is_nullish(v))
            *ret_null = true;
        else if (v.type != BV_STRING)
            return op_fail(ev->op, codes[i], "%s requires that '%s' be a string, found: %s",
                           expr_name(e), names[i], bv_show(ev->scratch, v, 64));
        else
            t[i] = text_of(v);
    }
    return 0;
}

/* Where `what` occurs from `at` on; an empty string occurs before every character and at the end.
 */
static const char *next_hit(const char *at, const char *end, struct text what)
{
    return at > end ? NULL : find(at, (size_t)(end - at), what);
}

/* Bytes of the character at `at`; 1 at the end. */
static size_t char_size(const char *at, const char *end)
{
    return at < end ? utf8_size(at, (size_t)(end - at)) : 1;
}

static int replace(const struct expr *e, struct eval *ev, bool all, struct bv *ret)
{
    struct text t[3];
    const char *at, *end, *hit;
    size_t hits = 0, size;
    char *out = NULL;
    bool null;

    TRY_RETURN(replace_args(e, ev, t, &null));
    if (null) {
        *ret = bv_null;
        return 0;
    }
    end = t[0].s + t[0].n;
    for (at = t[0].s; (hit = next_hit(at, end, t[1])) != NULL && (all || hits == 0); hits++)
        at = hit + (t[1].n > 0 ? t[1].n : char_size(hit, end));
    if (t[2].n > 0 && hits > LIMIT_INTERNAL_BYTES / t[2].n)
        return op_fail(ev->op, ERR_BSON_TOO_LARGE, "the result of %s is too large", expr_name(e));
    TRY_RETURN(expr_string_room(ev, t[0].n - hits * t[1].n + hits * t[2].n, &out, ret));
    for (at = t[0].s; hits > 0; hits--) {
        hit = next_hit(at, end, t[1]);
        out = mempcpy(out, at, (size_t)(hit - at));
        out = mempcpy(out, t[2].s, t[2].n);
        at = hit + t[1].n;
        if (t[1].n > 0 || at == end)
            continue;
        size = char_size(at, end);
        out = mempcpy(out, at, size);
        at += size;
    }
    if (at < end)
        memcpy(out, at, (size_t)(end - at));
    return 0;
}

int eval_replace_one(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return replace(e, ev, false, ret);
}

int eval_replace_all(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return replace(e, ev, true, ret);
}
