/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Filter documents into trees: the grammar. Operators are looked up in match_ops.def; their
 * operands are read by match_parse_ops.c. Recursion is bounded by LIMIT_EXPR_DEPTH.
 */
#include "base/limits.h"
#include "query/match_internal.h"

struct match_op {
    const char *name;
    match_parse_fn parse; /* NULL: known to MongoDB but not built */
    enum match_kind kind;
};

#define OPERATOR(name, fn, kind) {name, match_##fn, kind},
#define UNBUILT(name)            {name, NULL, MATCH_OTHER},
#define NOTHING(...)

static const struct match_op field_operators[] = {
#define FIELD_OP         OPERATOR
#define UNBUILT_FIELD_OP UNBUILT
#define TOP_OP           NOTHING
#define UNBUILT_TOP_OP   NOTHING
#include "query/match_ops.def"
#undef FIELD_OP
#undef UNBUILT_FIELD_OP
#undef TOP_OP
#undef UNBUILT_TOP_OP
    {NULL, NULL, MATCH_OTHER}};

static const struct match_op top_operators[] = {
#define FIELD_OP         NOTHING
#define UNBUILT_FIELD_OP NOTHING
#define TOP_OP           OPERATOR
#define UNBUILT_TOP_OP   UNBUILT
#include "query/match_ops.def"
#undef FIELD_OP
#undef UNBUILT_FIELD_OP
#undef TOP_OP
#undef UNBUILT_TOP_OP
    {NULL, NULL, MATCH_OTHER}};

static const struct match_op *find_operator(const struct match_op *table, const char *name)
{
    for (const struct match_op *o = table; o->name != NULL; o++) {
        if (strcmp(o->name, name) == 0)
            return o;
    }
    return NULL;
}

bool match_is_top_operator(const char *name)
{
    return find_operator(top_operators, name) != NULL;
}

static bool is_dbref_name(const char *name)
{
    return strcmp(name, "$ref") == 0 || strcmp(name, "$id") == 0 || strcmp(name, "$db") == 0;
}

bool match_is_operators(struct bv v)
{
    struct belem e;

    if (v.type != BV_DOC || bv_is_missing(bv_first(v, &e)) || e.key[0] != '$')
        return false;
    /* {$ref, $id, ...} in any order is a value */
    if (is_dbref_name(e.key))
        return bv_is_missing(bv_get(v, "$ref")) || bv_is_missing(bv_get(v, "$id"));
    return true;
}

struct match *match_node(struct match_parser *p, enum match_kind kind, const struct match_at *at,
                         const struct belem *e)
{
    struct match *m = ARENA_NEW(p->a, struct match);

    m->kind = m->test = kind;
    m->path = "";
    m->value = BV_NONE;
    if (at != NULL) {
        m->path = at->path;
        m->dp = at->dp;
    }
    if (e != NULL) {
        m->op = e->key;
        m->value = e->v;
    }
    return m;
}

int match_list_add(struct match_parser *p, struct match_list *l, const struct match *m)
{
    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? 4 : l->cap * 2;
        void *v = arena_regrow(p->a, l->v, l->cap * sizeof(l->v[0]), cap * sizeof(l->v[0]));

        if (v == NULL)
            return op_fail(p->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for the filter");
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = m;
    return 0;
}

struct match *match_list_and(struct match_parser *p, struct match_list *l)
{
    struct match *m;

    if (l->n == 0)
        return match_node(p, MATCH_ALWAYS_TRUE, NULL, NULL);
    if (l->n == 1)
        return (struct match *)l->v[0];
    m = match_node(p, MATCH_AND, NULL, NULL);
    m->children = l->v;
    m->nchildren = l->n;
    return m;
}

int match_bad_value(struct match_parser *p, const char *text)
{
    return op_fail(p->op, ERR_BAD_VALUE, "%s", text);
}

const char *match_show_elem(struct match_parser *p, const struct belem *e)
{
    return arena_printf(p->a, "%s: %s", e->key, bv_show(p->a, e->v, 200));
}

int match_check_depth(struct match_parser *p, unsigned depth, struct bv at)
{
    if (depth <= LIMIT_EXPR_DEPTH)
        return 0;
    return op_fail(p->op, ERR_BAD_VALUE, "exceeded maximum query tree depth of %d at %s",
                   LIMIT_EXPR_DEPTH, bv_show(p->a, at, 200));
}

int match_parse_operators(struct match_parser *p, const struct match_at *at, struct bv doc,
                          struct match_list *l)
{
    struct biter it = biter(doc);
    struct belem e;

    while (biter_next(&it, &e)) {
        const struct match_op *o = find_operator(field_operators, e.key);
        struct match *m = NULL;

        if (o == NULL)
            return op_fail(p->op, ERR_BAD_VALUE, "unknown operator: %s", e.key);
        if (o->parse == NULL)
            return op_fail(p->op, ERR_NOT_IMPLEMENTED, "%s is not supported", e.key);
        TRY_RETURN(o->parse(p, at, &e, o->kind, &m));
        if (m != NULL)
            TRY_RETURN(match_list_add(p, l, m));
    }
    return 0;
}

/* {path: value}: a regular expression, operators, or a value to be equal to. */
static int parse_field(struct match_parser *p, const struct belem *e, unsigned depth, bool in_elem,
                       struct match_list *l)
{
    struct match_at at = {.path = e->key, .depth = depth, .in_elem_match = in_elem};
    struct belem eq = *e;
    struct match *m = NULL;

    at.dp = doc_path_new(p->a, e->key);
    if (at.dp == NULL)
        return op_fail(p->op, ERR_BAD_VALUE, "a field path has more than %d parts",
                       DOC_PATH_PARTS_MAX);
    at.path = at.dp->text;
    if (match_is_operators(e->v)) {
        at.siblings = e->v;
        return match_parse_operators(p, &at, e->v, l);
    }
    if (e->v.type == BV_REGEX) {
        eq.key = "$regex";
        TRY_RETURN(match_parse_regex(p, &at, &eq, MATCH_REGEX, &m));
    } else {
        eq.key = "$eq";
        TRY_RETURN(match_parse_comparison(p, &at, &eq, MATCH_EQ, &m));
    }
    return match_list_add(p, l, m);
}

static int parse_top_operator(struct match_parser *p, const struct belem *e, unsigned depth,
                              bool in_elem, struct match_list *l)
{
    const struct match_op *o = find_operator(top_operators, e->key);
    const struct match_at at = {
        .path = "", .siblings = BV_NONE, .depth = depth, .in_elem_match = in_elem};
    struct match *m = NULL;

    if (o == NULL)
        return op_fail(p->op, ERR_BAD_VALUE,
                       "unknown top level operator: %s. If you have a field name that starts with "
                       "a '$' symbol, consider using $getField or $setField.",
                       e->key);
    if (o->parse == NULL)
        return op_fail(p->op, ERR_NOT_IMPLEMENTED, "%s is not supported", e->key);
    TRY_RETURN(o->parse(p, &at, e, o->kind, &m));
    return m == NULL ? 0 : match_list_add(p, l, m);
}

int match_parse_filter(struct match_parser *p, struct bv filter, unsigned depth, bool in_elem_match,
                       struct match **ret)
{
    struct match_list l = {NULL, 0, 0};
    struct biter it = biter(filter);
    struct belem e;

    TRY_RETURN(match_check_depth(p, depth, filter));
    while (biter_next(&it, &e)) {
        if (e.key[0] == '$' && !(in_elem_match && is_dbref_name(e.key)))
            TRY_RETURN(parse_top_operator(p, &e, depth, in_elem_match, &l));
        else
            TRY_RETURN(parse_field(p, &e, depth, in_elem_match, &l));
    }
    *ret = match_list_and(p, &l);
    return 0;
}

int match_parse(struct op *op, struct arena *a, struct bv filter, const struct match_options *o,
                struct match **ret)
{
    struct match_parser p = {op, a, o, a->bytes};

    TRY_RETURN(op_dup(op, a, filter, &filter));
    return match_parse_filter(&p, filter, 0, false, ret);
}
