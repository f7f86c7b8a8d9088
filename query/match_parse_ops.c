/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Operands of filter operators: one parser per family of match_ops.def. */
#include <math.h>
#include <stdlib.h>

#include "base/decimal.h"
#include "base/limits.h"
#include "query/match_internal.h"

static int bad_value(struct match_parser *p, const char *text)
{
    return op_fail(p->op, ERR_BAD_VALUE, "%s", text);
}

/* "$size: "x"", as MongoDB shows an element in error texts. */
static const char *show_elem(struct match_parser *p, const struct belem *e)
{
    return arena_printf(p->a, "%s: %s", e->key, bv_show(p->a, e->v, 200));
}

int match_parse_comparison(struct match_parser *p, const struct match_at *at, const struct belem *e,
                           enum match_kind k, struct match **ret)
{
    struct match *m;

    if (e->v.type == BV_UNDEFINED)
        return bad_value(p, "cannot compare to undefined");
    if (e->v.type == BV_REGEX) {
        if (k == MATCH_NE)
            return bad_value(p, "Can't have regex as arg to $ne.");
        if (k != MATCH_EQ)
            return op_fail(p->op, ERR_BAD_VALUE,
                           "Can't have RegEx as arg to predicate over field '%s'.", at->path);
    }
    m = match_node(p, k, at, e);
    if (k == MATCH_NE) {
        m->test = MATCH_EQ;
        m->negate = true;
    }
    *ret = m;
    return 0;
}

/* --- regular expressions -------------------- */

/* A short pattern may compile to much; all of a filter together is bounded. */
#define REGEX_BYTES_MAX (64u * 1024 * 1024)

static int compile_regex(struct match_parser *p, const char *pattern, size_t pattern_len,
                         const char *flags, size_t flags_len, struct match_regex *ret)
{
    ret->pattern = pattern;
    ret->flags = flags;
    TRY_RETURN(regex_compile(p->op, p->a, pattern, pattern_len, flags, flags_len, &ret->code));
    if (p->a->bytes - p->start_bytes > REGEX_BYTES_MAX)
        return op_fail(p->op, ERR_EXCEEDED_MEMORY_LIMIT,
                       "the regular expressions of the filter are too large");
    return 0;
}

/* --- $in, $nin ----------------------------------------------------------------------------- */

static int cmp_values(const void *a, const void *b)
{
    return bv_cmp(*(const struct bv *)a, *(const struct bv *)b);
}

static int in_alloc(struct match_parser *p, struct bv array, struct match_in *in)
{
    struct biter it = biter(array);
    struct belem v;
    size_t nvalues = 0, nregexes = 0;

    while (biter_next(&it, &v)) {
        if (v.v.type == BV_REGEX)
            nregexes++;
        else
            nvalues++;
    }
    in->values = arena_try(p->a, nvalues * sizeof(in->values[0]));
    in->regexes = arena_try(p->a, nregexes * sizeof(in->regexes[0]));
    if (in->values == NULL || in->regexes == NULL)
        return op_fail(p->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for the filter");
    return 0;
}

static void in_sort(struct match_in *in)
{
    size_t n = 0;

    if (in->nvalues == 0)
        return;
    qsort(in->values, in->nvalues, sizeof(in->values[0]), cmp_values);
    for (size_t i = 0; i < in->nvalues; i++) {
        if (n == 0 || bv_cmp(in->values[n - 1], in->values[i]) != 0)
            in->values[n++] = in->values[i];
    }
    in->nvalues = n;
}

static int compile_value(struct match_parser *p, struct bv regex, struct match_regex *ret)
{
    const char *pattern = (const char *)regex.p;
    size_t n = strlen(pattern);

    return compile_regex(p, pattern, n, pattern + n + 1, strlen(pattern + n + 1), ret);
}

int match_parse_in(struct match_parser *p, const struct match_at *at, const struct belem *e,
                   enum match_kind k, struct match **ret)
{
    struct match *m = match_node(p, k, at, e);
    struct match_in *in = &m->u.in;
    struct biter it = biter(e->v);
    struct belem v;

    if (e->v.type != BV_ARRAY)
        return op_fail(p->op, ERR_BAD_VALUE, "%s needs an array", e->key);
    TRY_RETURN(in_alloc(p, e->v, in));
    while (biter_next(&it, &v)) {
        if (match_is_operators(v.v))
            return op_fail(p->op, ERR_BAD_VALUE, "cannot nest $ under %s", e->key);
        if (v.v.type == BV_UNDEFINED)
            return bad_value(p, "InMatchExpression equality cannot be undefined");
        if (v.v.type == BV_REGEX) {
            TRY_RETURN(compile_value(p, v.v, &in->regexes[in->nregexes]));
            in->nregexes++;
            continue;
        }
        in->has_null |= v.v.type == BV_NULL;
        in->values[in->nvalues++] = v.v;
    }
    in_sort(in);
    m->test = MATCH_IN;
    m->negate = k == MATCH_NIN;
    *ret = m;
    return 0;
}

int match_parse_regex(struct match_parser *p, const struct match_at *at, const struct belem *e,
                      enum match_kind k, struct match **ret)
{
    struct match *m = match_node(p, k, at, e);
    struct bv options = bv_get(at->siblings, "$options");
    const char *pattern, *flags = "";
    uint32_t n, nflags = 0;

    if (!bv_is_missing(options)) {
        if (options.type != BV_STRING)
            return bad_value(p, "$options has to be a string");
        flags = bv_str(options, &nflags);
    }
    if (e->v.type == BV_REGEX) {
        pattern = (const char *)e->v.p;
        n = (uint32_t)strlen(pattern);
        if (pattern[n + 1] != '\0') {
            if (!bv_is_missing(options))
                return op_fail(p->op, 51074, "options set in both $regex and $options");
            flags = pattern + n + 1;
            nflags = (uint32_t)strlen(flags);
        }
    } else if (e->v.type == BV_STRING) {
        pattern = bv_str(e->v, &n);
    } else {
        return bad_value(p, "$regex has to be a string");
    }
    TRY_RETURN(compile_regex(p, pattern, n, flags, nflags, &m->u.regex));
    *ret = m;
    return 0;
}

int match_parse_options(struct match_parser *p, const struct match_at *at, const struct belem *e,
                        enum match_kind k, struct match **ret)
{
    (void)e;
    (void)k;
    (void)ret;
    if (bv_is_missing(bv_get(at->siblings, "$regex")))
        return bad_value(p, "$options needs a $regex");
    return 0;
}

/* --- $not, $all, $elemMatch ------------------------------------------------------------------ */

int match_parse_not(struct match_parser *p, const struct match_at *at, const struct belem *e,
                    enum match_kind k, struct match **ret)
{
    struct match *m = match_node(p, k, at, NULL);
    struct match_list l = {NULL, 0, 0};

    if (e->v.type == BV_REGEX) {
        struct match_at inner = *at;
        struct belem regex = *e;
        struct match *child = NULL;

        inner.siblings = BV_NONE;
        regex.key = "$regex";
        TRY_RETURN(match_parse_regex(p, &inner, &regex, MATCH_REGEX, &child));
        TRY_RETURN(match_list_add(p, &l, child));
    } else {
        struct match_at inner = *at;

        if (e->v.type != BV_DOC)
            return bad_value(p, "$not needs a regex or a document");
        if (bv_empty(e->v))
            return bad_value(p, "$not cannot be empty");
        inner.siblings = e->v;
        inner.depth++;
        TRY_RETURN(match_check_depth(p, inner.depth, e->v));
        TRY_RETURN(match_parse_operators(p, &inner, e->v, &l));
    }
    m->children = arena_alloc(p->a, sizeof(m->children[0]));
    m->children[0] = match_list_and(p, &l);
    m->nchildren = 1;
    *ret = m;
    return 0;
}

static bool is_elem_match(struct bv v)
{
    struct belem e;

    return v.type == BV_DOC && !bv_is_missing(bv_first(v, &e)) && strcmp(e.key, "$elemMatch") == 0;
}

static int parse_all_member(struct match_parser *p, const struct match_at *at, struct belem v,
                            bool elem_match, struct match **ret)
{
    if (elem_match) {
        struct belem inner;

        if (!is_elem_match(v.v))
            return bad_value(p, "$all/$elemMatch has to be consistent");
        bv_first(v.v, &inner);
        return match_parse_elem_match(p, at, &inner, MATCH_ELEM_OBJECT, ret);
    }
    if (match_is_operators(v.v))
        return bad_value(p, "no $ expressions in $all");
    if (v.v.type == BV_REGEX) {
        struct match_at inner = *at;

        inner.siblings = BV_NONE;
        v.key = "$regex";
        return match_parse_regex(p, &inner, &v, MATCH_REGEX, ret);
    }
    v.key = "$eq";
    return match_parse_comparison(p, at, &v, MATCH_EQ, ret);
}

int match_parse_all(struct match_parser *p, const struct match_at *at, const struct belem *e,
                    enum match_kind k, struct match **ret)
{
    struct match_list l = {NULL, 0, 0};
    struct biter it = biter(e->v);
    struct belem v;
    struct match *m;
    bool elem_match = is_elem_match(bv_first(e->v, NULL));

    if (e->v.type != BV_ARRAY)
        return bad_value(p, "$all needs an array");
    while (biter_next(&it, &v)) {
        struct match *child = NULL;

        TRY_RETURN(parse_all_member(p, at, v, elem_match, &child));
        TRY_RETURN(match_list_add(p, &l, child));
    }
    if (l.n == 0) {
        *ret = match_node(p, MATCH_ALWAYS_FALSE, NULL, NULL);
        return 0;
    }
    m = match_node(p, k, at, e);
    m->children = l.v;
    m->nchildren = l.n;
    *ret = m;
    return 0;
}

int match_parse_elem_match(struct match_parser *p, const struct match_at *at, const struct belem *e,
                           enum match_kind k, struct match **ret)
{
    struct match *m = match_node(p, k, at, e);
    struct match_list l = {NULL, 0, 0};
    struct match *child = NULL;
    struct belem first;

    if (e->v.type != BV_DOC)
        return bad_value(p, "$elemMatch needs an Object");
    TRY_RETURN(match_check_depth(p, at->depth + 1, e->v));
    if (match_is_operators(e->v) && !bv_is_missing(bv_first(e->v, &first)) &&
        !match_is_top_operator(first.key)) {
        struct match_at inner = {.path = "",
                                 .dp = doc_path_new(p->a, ""),
                                 .siblings = e->v,
                                 .depth = at->depth + 1,
                                 .in_elem_match = true};

        m->kind = m->test = MATCH_ELEM_VALUE;
        TRY_RETURN(match_parse_operators(p, &inner, e->v, &l));
        child = match_list_and(p, &l);
    } else {
        TRY_RETURN(match_parse_filter(p, e->v, at->depth + 1, true, &child));
    }
    m->children = arena_alloc(p->a, sizeof(m->children[0]));
    m->children[0] = child;
    m->nchildren = 1;
    *ret = m;
    return 0;
}

/* --- $exists, $type, $size, $mod ---------------------------------------------------------------
 */

int match_parse_exists(struct match_parser *p, const struct match_at *at, const struct belem *e,
                       enum match_kind k, struct match **ret)
{
    *ret = match_node(p, k, at, e);
    (*ret)->negate = !bv_truthy(e->v);
    return 0;
}

static int type_from_name(struct match_parser *p, struct bv v, uint64_t *bits)
{
    if (bv_str_is(v, "number")) {
        *bits |= match_type_bit(BV_INT32) | match_type_bit(BV_INT64) | match_type_bit(BV_DOUBLE) |
                 match_type_bit(BV_DECIMAL);
        return 0;
    }
    for (unsigned type = BV_DOUBLE; type <= BV_MINKEY; type++) {
        if ((type <= BV_DECIMAL || type >= BV_MAXKEY) &&
            bv_str_is(v, bv_type_name((uint8_t)type)) && !bv_str_is(v, "unknown")) {
            *bits |= match_type_bit((uint8_t)type);
            return 0;
        }
    }
    return op_fail(p->op, ERR_BAD_VALUE, "Unknown type name alias: %s", bv_str(v, NULL));
}

static int type_from_number(struct match_parser *p, struct bv v, uint64_t *bits)
{
    int64_t n;

    if (!bv_to_i64_exact(v, &n))
        return op_fail(p->op, ERR_BAD_VALUE, "Invalid numerical type code: %s",
                       bv_show(p->a, v, 60));
    if (n == 0)
        return bad_value(p, "Invalid numerical type code: 0. Instead use {$exists:false}.");
    if (n == -1)
        *bits |= match_type_bit(BV_MINKEY);
    else if (n == BV_MAXKEY)
        *bits |= match_type_bit(BV_MAXKEY);
    else if (n >= 1 && n <= BV_DECIMAL)
        *bits |= match_type_bit((uint8_t)n);
    else
        return op_fail(p->op, ERR_BAD_VALUE, "Invalid numerical type code: %lld", (long long)n);
    return 0;
}

static int type_add(struct match_parser *p, struct bv v, uint64_t *bits)
{
    if (v.type == BV_STRING)
        return type_from_name(p, v, bits);
    if (bv_is_number(v))
        return type_from_number(p, v, bits);
    return op_fail(p->op, ERR_TYPE_MISMATCH, "type must be represented as a number or a string");
}

int match_parse_type(struct match_parser *p, const struct match_at *at, const struct belem *e,
                     enum match_kind k, struct match **ret)
{
    struct match *m = match_node(p, k, at, e);

    if (e->v.type == BV_ARRAY) {
        struct biter it = biter(e->v);
        struct belem v;

        while (biter_next(&it, &v))
            TRY_RETURN(type_add(p, v.v, &m->u.types));
        if (m->u.types == 0)
            return op_fail(p->op, ERR_FAILED_TO_PARSE, "%s must match at least one type", at->path);
    } else {
        TRY_RETURN(type_add(p, e->v, &m->u.types));
    }
    *ret = m;
    return 0;
}

/* A whole number that fits a long; `what` is put before the error text. */
static int whole_number(struct match_parser *p, const struct belem *e, const char *what, int code,
                        bool non_negative, int64_t *ret)
{
    double d = bv_to_f64(e->v);

    if (!bv_is_number(e->v))
        return op_fail(p->op, code, "%sExpected a number in: %s", what, show_elem(p, e));
    if (isnan(d))
        return op_fail(p->op, code, "%sExpected an integer, but found NaN in: %s", what,
                       show_elem(p, e));
    if (!bv_to_i64(e->v, ret))
        return op_fail(p->op, code, "%sCannot represent as a 64-bit integer: %s", what,
                       show_elem(p, e));
    if (!bv_to_i64_exact(e->v, ret))
        return op_fail(p->op, code, "%sExpected an integer: %s", what, show_elem(p, e));
    if (non_negative && *ret < 0)
        return op_fail(p->op, code, "%sExpected a non-negative number in: %s", what,
                       show_elem(p, e));
    return 0;
}

int match_parse_size(struct match_parser *p, const struct match_at *at, const struct belem *e,
                     enum match_kind k, struct match **ret)
{
    struct match *m = match_node(p, k, at, e);

    TRY_RETURN(whole_number(p, e, "Failed to parse $size. ", ERR_BAD_VALUE, true, &m->u.size));
    *ret = m;
    return 0;
}

/* Fractions are cut off. */
static int mod_number(struct match_parser *p, struct bv v, const char *which, int64_t *ret)
{
    double d = bv_to_f64(v);

    if (!bv_is_number(v))
        return op_fail(p->op, ERR_BAD_VALUE, "malformed mod, %s not a number", which);
    if (isnan(d) || isinf(d))
        return op_fail(p->op, ERR_BAD_VALUE,
                       "malformed mod, %s value is invalid :: caused by :: Unable to coerce "
                       "NaN/Inf to integral type",
                       which);
    if (!bv_to_i64(v, ret))
        return op_fail(p->op, ERR_BAD_VALUE,
                       "malformed mod, %s value is invalid :: caused by :: Out of bounds coercing "
                       "to integral value",
                       which);
    return 0;
}

int match_parse_mod(struct match_parser *p, const struct match_at *at, const struct belem *e,
                    enum match_kind k, struct match **ret)
{
    struct match *m = match_node(p, k, at, e);
    struct biter it = biter(e->v);
    struct belem v;

    if (e->v.type != BV_ARRAY)
        return bad_value(p, "malformed mod, needs to be an array");
    if (bv_count(e->v) < 2)
        return bad_value(p, "malformed mod, not enough elements");
    if (bv_count(e->v) > 2)
        return bad_value(p, "malformed mod, too many elements");
    biter_next(&it, &v);
    TRY_RETURN(mod_number(p, v.v, "divisor", &m->u.mod.divisor));
    biter_next(&it, &v);
    TRY_RETURN(mod_number(p, v.v, "remainder", &m->u.mod.remainder));
    if (m->u.mod.divisor == 0)
        return bad_value(p, "divisor cannot be 0");
    *ret = m;
    return 0;
}

/* --- $bits... -------------------------------------------------------------------------------- */

static int bits_alloc(struct match_parser *p, size_t n, uint32_t **ret)
{
    *ret = arena_try(p->a, n * sizeof(**ret));
    if (*ret == NULL)
        return op_fail(p->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for the filter");
    return 0;
}

static int bits_from_mask(struct match_parser *p, const uint8_t *mask, uint32_t nbytes,
                          struct match *m)
{
    uint32_t *at, n = 0;

    for (uint32_t i = 0; i < nbytes; i++)
        n += (uint32_t)__builtin_popcount(mask[i]);
    TRY_RETURN(bits_alloc(p, n, &at));
    n = 0;
    for (uint32_t i = 0; i < nbytes; i++) {
        for (uint32_t bit = 0; bit < 8; bit++) {
            if ((mask[i] >> bit & 1) != 0)
                at[n++] = i * 8 + bit;
        }
    }
    m->u.bits.at = at;
    m->u.bits.n = n;
    return 0;
}

static int bits_from_array(struct match_parser *p, struct bv array, struct match *m)
{
    struct biter it = biter(array);
    struct belem v;
    uint32_t *at, n = 0;

    TRY_RETURN(bits_alloc(p, bv_count(array), &at));
    while (biter_next(&it, &v)) {
        int64_t bit;

        TRY_RETURN(
            whole_number(p, &v, "Failed to parse bit position. ", ERR_BAD_VALUE, true, &bit));
        if (bit > INT32_MAX)
            return op_fail(p->op, ERR_BAD_VALUE,
                           "Failed to parse bit position. Cannot represent "
                           "as an int: %s",
                           show_elem(p, &v));
        at[n++] = (uint32_t)bit;
    }
    m->u.bits.at = at;
    m->u.bits.n = n;
    return 0;
}

int match_parse_bits(struct match_parser *p, const struct match_at *at, const struct belem *e,
                     enum match_kind k, struct match **ret)
{
    static const char *const names[] = {"$bitsAllSet", "$bitsAllClear", "$bitsAnySet",
                                        "$bitsAnyClear"};
    struct match *m = match_node(p, k, at, e);

    for (int i = 0; i < 4; i++) {
        if (strcmp(names[i], e->key) == 0)
            m->u.bits.test = (enum bits_test)i;
    }
    if (bv_is_number(e->v)) {
        int64_t mask;

        TRY_RETURN(whole_number(p, e, "", ERR_FAILED_TO_PARSE, true, &mask));
        TRY_RETURN(bits_from_mask(p, (const uint8_t *)&mask, sizeof(mask), m));
    } else if (e->v.type == BV_BINARY) {
        uint32_t n;
        const uint8_t *bytes = bv_bin(e->v, &n, NULL);

        TRY_RETURN(bits_from_mask(p, bytes, n, m));
    } else if (e->v.type == BV_ARRAY) {
        TRY_RETURN(bits_from_array(p, e->v, m));
    } else {
        return op_fail(p->op, ERR_BAD_VALUE,
                       "%s takes an Array, a number, or a BinData but received: %s", at->path,
                       show_elem(p, e));
    }
    *ret = m;
    return 0;
}

int match_parse_comment(struct match_parser *p, const struct match_at *at, const struct belem *e,
                        enum match_kind k, struct match **ret)
{
    (void)p;
    (void)at;
    (void)e;
    (void)k;
    (void)ret;
    return 0;
}

/* --- operators in place of a field ------------------------------------------------------------ */

int match_parse_top_comment(struct match_parser *p, const struct match_at *at,
                            const struct belem *e, enum match_kind k, struct match **ret)
{
    return match_parse_comment(p, at, e, k, ret);
}

int match_parse_logic(struct match_parser *p, const struct match_at *at, const struct belem *e,
                      enum match_kind k, struct match **ret)
{
    struct match_list l = {NULL, 0, 0};
    struct biter it = biter(e->v);
    struct belem v;
    struct match *m;

    if (e->v.type != BV_ARRAY)
        return op_fail(p->op, ERR_BAD_VALUE, "%s must be an array", e->key);
    if (bv_empty(e->v))
        return bad_value(p, "$and/$or/$nor must be a nonempty array");
    while (biter_next(&it, &v)) {
        struct match *child = NULL;

        if (v.v.type != BV_DOC)
            return bad_value(p, "$or/$and/$nor entries need to be full objects");
        TRY_RETURN(match_parse_filter(p, v.v, at->depth + 1, at->in_elem_match, &child));
        TRY_RETURN(match_list_add(p, &l, child));
    }
    m = match_node(p, k, NULL, NULL);
    m->children = l.v;
    m->nchildren = l.n;
    *ret = m;
    return 0;
}

int match_parse_constant(struct match_parser *p, const struct match_at *at, const struct belem *e,
                         enum match_kind k, struct match **ret)
{
    int64_t n;

    (void)at;
    if (!bv_to_i64_exact(e->v, &n))
        return op_fail(p->op, ERR_FAILED_TO_PARSE, "Expected an integer: %s", show_elem(p, e));
    if (n != 1)
        return op_fail(p->op, ERR_FAILED_TO_PARSE, "%s must be an integer value of 1", e->key);
    *ret = match_node(p, k, NULL, NULL);
    return 0;
}

struct path_list {
    struct arena *a;
    const char **v;
    size_t n, cap;
};

static void add_path(void *arg, const char *path)
{
    struct path_list *l = arg;
    size_t len = strcspn(path, ".");

    for (size_t i = 0; i < l->n; i++) {
        if (strncmp(l->v[i], path, len) == 0 && l->v[i][len] == '\0')
            return;
    }
    if (l->n == l->cap) {
        const char **v;

        l->cap = l->cap == 0 ? 8 : l->cap * 2;
        v = ARENA_ARRAY(l->a, const char *, l->cap);
        for (size_t i = 0; i < l->n; i++)
            v[i] = l->v[i];
        l->v = v;
    }
    l->v[l->n++] = arena_strndup(l->a, path, len);
}

int match_parse_expr(struct match_parser *p, const struct match_at *at, const struct belem *e,
                     enum match_kind k, struct match **ret)
{
    struct match *m = match_node(p, k, NULL, e);
    struct path_list paths = {p->a, NULL, 0, 0};
    struct expr_vars *vars = NULL;

    if (at->in_elem_match)
        return bad_value(p, "$expr can only be applied to the top-level document");
    if (p->o != NULL && p->o->vars != NULL)
        vars = arena_dup(p->a, p->o->vars, sizeof(*vars)); /* the parser adds names of its own */
    TRY_RETURN(expr_parse(p->op, p->a, e->v, vars, &m->u.expr.e));
    expr_paths(m->u.expr.e, add_path, &paths);
    m->u.expr.paths = paths.v;
    m->u.expr.npaths = paths.n;
    *ret = m;
    return 0;
}
