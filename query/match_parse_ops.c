/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Operands of filter operators: one parser per family of match_ops.def. */
#include <stdlib.h>

#include "base/limits.h"
#include "query/match_internal.h"

int match_parse_comparison(struct match_parser *p, const struct match_at *at, const struct belem *e,
                           enum match_kind k, struct match **ret)
{
    struct match *m;

    if (e->v.type == BV_UNDEFINED)
        return match_bad_value(p, "cannot compare to undefined");
    if (e->v.type == BV_REGEX) {
        if (k == MATCH_NE)
            return match_bad_value(p, "Can't have regex as arg to $ne.");
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
            return match_bad_value(p, "InMatchExpression equality cannot be undefined");
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
            return match_bad_value(p, "$options has to be a string");
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
        return match_bad_value(p, "$regex has to be a string");
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
        return match_bad_value(p, "$options needs a $regex");
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
            return match_bad_value(p, "$not needs a regex or a document");
        if (bv_empty(e->v))
            return match_bad_value(p, "$not cannot be empty");
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
            return match_bad_value(p, "$all/$elemMatch has to be consistent");
        bv_first(v.v, &inner);
        return match_parse_elem_match(p, at, &inner, MATCH_ELEM_OBJECT, ret);
    }
    if (match_is_operators(v.v))
        return match_bad_value(p, "no $ expressions in $all");
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
        return match_bad_value(p, "$all needs an array");
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
        return match_bad_value(p, "$elemMatch needs an Object");
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
        return match_bad_value(p, "$and/$or/$nor must be a nonempty array");
    while (biter_next(&it, &v)) {
        struct match *child = NULL;

        if (v.v.type != BV_DOC)
            return match_bad_value(p, "$or/$and/$nor entries need to be full objects");
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
        return op_fail(p->op, ERR_FAILED_TO_PARSE, "Expected an integer: %s",
                       match_show_elem(p, e));
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
        return match_bad_value(p, "$expr can only be applied to the top-level document");
    if (p->o != NULL && p->o->vars != NULL)
        vars = arena_dup(p->a, p->o->vars, sizeof(*vars)); /* the parser adds names of its own */
    TRY_RETURN(expr_parse(p->op, p->a, e->v, vars, &m->u.expr.e));
    expr_paths(m->u.expr.e, add_path, &paths);
    m->u.expr.paths = paths.v;
    m->u.expr.npaths = paths.n;
    *ret = m;
    return 0;
}
