/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Update documents read: which form an update has, its operators and paths, and array filters.
 */
#include <ctype.h>
#include <stdlib.h>

#include "query/update_internal.h"

static const struct update_op ops[] = {
#define UPDATE_OP(name, parse, apply, creates) {name, parse, apply, creates},
#include "query/update_ops.def"
#undef UPDATE_OP
};

static int cmp_op(const void *key, const void *row)
{
    return strcasecmp(key, ((const struct update_op *)row)->name);
}

static const struct update_op *find_op(const char *name)
{
    const struct update_op *o =
        bsearch(name, ops, sizeof(ops) / sizeof(ops[0]), sizeof(ops[0]), cmp_op);

    return o != NULL && strcmp(o->name, name) == 0 ? o : NULL;
}

/* --- paths ------------------------------------------------------------------------------------ */

static struct update_filter *find_filter(struct update_parser *p, const char *id, size_t len)
{
    for (size_t i = 0; i < p->nfilters; i++) {
        if (strlen(p->filters[i].id) == len && memcmp(p->filters[i].id, id, len) == 0)
            return &p->filters[i];
    }
    return NULL;
}

/* $[] and $[id]: text as the part stands in the path. */
static int parse_each(struct update_parser *p, const char *path, struct update_part *part)
{
    const char *id = part->name + 2;
    size_t len = part->len - 3;
    struct update_filter *f;

    part->kind = PART_EACH;
    if (len == 0)
        return 0;
    f = find_filter(p, id, len);
    if (f == NULL)
        return op_fail(p->op, ERR_BAD_VALUE,
                       "No array filter found for identifier '%.*s' in path '%s'", (int)len, id,
                       path);
    f->used = true;
    part->filter = f;
    return 0;
}

static int parse_part(struct update_parser *p, const char *path, uint32_t i,
                      struct update_part *part)
{
    const char *s = part->name;

    part->kind = PART_NAME;
    part->index = path_index(s, part->len);
    if (part->len == 0)
        return op_fail(p->op, ERR_EMPTY_FIELD_NAME,
                       "The update path '%s' contains an empty field name, which is not allowed.",
                       path);
    if (s[0] != '$')
        return 0;
    if (part->len == 1) {
        part->kind = PART_POSITIONAL;
        if (i == 0)
            return op_fail(p->op, ERR_BAD_VALUE,
                           "Cannot have positional (i.e. '$') element in the first position in "
                           "path '%s'",
                           path);
        return 0;
    }
    if (s[1] == '[' && s[part->len - 1] == ']') {
        if (i == 0)
            return op_fail(p->op, ERR_BAD_VALUE,
                           "Cannot have array filter identifier (i.e. '$[<id>]') element in the "
                           "first position in path '%s'",
                           path);
        return parse_each(p, path, part);
    }
    if (i == 0)
        return op_fail(p->op, ERR_DOLLAR_PREFIXED_FIELD_NAME,
                       "The dollar ($) prefixed field '%.*s' in '%s' is not allowed in the context "
                       "of an update's replacement document. Consider using an aggregation "
                       "pipeline with $replaceWith.",
                       (int)part->len, s, path);
    return 0;
}

static int split_path(struct update_parser *p, const char *path, struct update_leaf *l)
{
    struct update_part *parts;
    uint32_t n = 1, positional = 0;

    if (path[0] == '\0')
        return op_fail(p->op, ERR_EMPTY_FIELD_NAME, "An empty update path is not valid.");
    for (const char *s = path; *s != '\0'; s++)
        n += *s == '.';
    if (n > LIMIT_DEPTH_MESSAGE)
        return op_fail(p->op, ERR_OVERFLOW, "an update path has more than %d parts",
                       LIMIT_DEPTH_MESSAGE);
    parts = ARENA_ARRAY(p->a, struct update_part, n);
    for (uint32_t i = 0; i < n; i++) {
        parts[i].name = path;
        parts[i].len = (uint32_t)strcspn(path, ".");
        path += parts[i].len + 1;
        TRY_RETURN(parse_part(p, l->path, i, &parts[i]));
        positional += parts[i].kind == PART_POSITIONAL;
    }
    if (positional > 1)
        return op_fail(p->op, ERR_BAD_VALUE,
                       "Too many positional (i.e. '$') elements found in path '%s'", l->path);
    l->parts = parts;
    l->nparts = n;
    return 0;
}

int update_add_leaf(struct update_parser *p, const struct update_op *op, const char *path,
                    struct bv arg, struct update_leaf **ret)
{
    struct update_leaf *l = ARENA_NEW(p->a, struct update_leaf);

    l->op = op;
    l->path = path;
    l->arg = arg;
    l->seq = (uint32_t)p->nleaves;
    TRY_RETURN(split_path(p, path, l));
    if (p->nleaves == p->cap_leaves) {
        size_t cap = p->cap_leaves == 0 ? 8 : p->cap_leaves * 2;
        void *grown = arena_regrow(p->a, p->leaves, p->cap_leaves * sizeof(struct update_leaf *),
                                   cap * sizeof(struct update_leaf *));

        if (grown == NULL)
            return op_fail(p->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for an update's paths");
        p->leaves = grown;
        p->cap_leaves = cap;
    }
    p->leaves[p->nleaves++] = l;
    *ret = l;
    return 0;
}

/* --- array filters ---------------------------------------------------------------------------- */

/* The top-level names that a filter reads. */
struct filter_names {
    const char *first, *other;
};

static void note_name(void *arg, const char *name)
{
    struct filter_names *n = arg;

    if (n->first == NULL)
        n->first = name;
    else if (strcmp(n->first, name) != 0 && n->other == NULL)
        n->other = name;
}

static bool is_identifier(const char *s)
{
    if (*s < 'a' || *s > 'z')
        return false;
    for (; *s != '\0'; s++) {
        if (!isalnum((unsigned char)*s))
            return false;
    }
    return true;
}

static int parse_filter(struct update_parser *p, const struct belem *e)
{
    struct match_options o = {.vars = p->vars};
    struct filter_names names = {NULL, NULL};
    struct match *m = NULL;

    if (e->v.type != BV_DOC)
        return op_fail(p->op, ERR_TYPE_MISMATCH,
                       "BSON field 'arrayFilters.%s' is the wrong type '%s', expected type "
                       "'object'",
                       e->key, bv_type_name(e->v.type));
    if (match_parse(p->op, p->a, e->v, &o, &m) != 0) {
        error_prefix(p->op->err, "Error parsing array filter :: caused by :: ");
        return p->op->err->code;
    }
    match_paths(m, note_name, &names);
    if (names.first == NULL)
        return op_fail(p->op, ERR_FAILED_TO_PARSE,
                       "Cannot use an expression without a top-level field name in arrayFilters");
    if (names.other != NULL)
        return op_fail(p->op, ERR_FAILED_TO_PARSE,
                       "Error parsing array filter :: caused by :: Expected a single top-level "
                       "field name, found '%s' and '%s'",
                       names.first, names.other);
    if (!is_identifier(names.first))
        return op_fail(p->op, ERR_BAD_VALUE,
                       "Error parsing array filter :: caused by :: The top-level field name must "
                       "be an alphanumeric string beginning with a lowercase letter, found '%s'",
                       names.first);
    if (find_filter(p, names.first, strlen(names.first)) != NULL)
        return op_fail(p->op, ERR_FAILED_TO_PARSE,
                       "Found multiple array filters with the same top-level field name %s",
                       names.first);
    p->filters[p->nfilters++] = (struct update_filter){.id = names.first, .match = m};
    return 0;
}

/* Filters are looked up by a walk over all of them. */
#define ARRAY_FILTERS_MAX 1000

static int parse_filters(struct update_parser *p, struct bv filters)
{
    struct biter it = biter(filters);
    struct belem e;
    uint32_t n = bv_count(filters);

    if (n > ARRAY_FILTERS_MAX)
        return op_fail(p->op, ERR_BAD_VALUE, "an update has more than %d array filters",
                       ARRAY_FILTERS_MAX);
    p->filters = ARENA_ARRAY(p->a, struct update_filter, n);
    while (biter_next(&it, &e))
        TRY_RETURN(parse_filter(p, &e));
    return 0;
}

static int check_filters_used(struct update_parser *p)
{
    for (size_t i = 0; i < p->nfilters; i++) {
        if (!p->filters[i].used)
            return op_fail(p->op, ERR_FAILED_TO_PARSE,
                           "The array filter for identifier '%s' was not used in the update %s",
                           p->filters[i].id, bv_show(p->a, p->u->spec, 500));
    }
    return 0;
}

/* --- forms ------------------------------------------------------------------------------------ */

static int parse_operator(struct update_parser *p, const struct belem *e)
{
    const struct update_op *o = find_op(e->key);
    struct biter it = biter(e->v);
    struct belem f;

    if (o == NULL)
        return op_fail(p->op, ERR_FAILED_TO_PARSE,
                       "Unknown modifier: %s. Expected a valid update modifier or pipeline-style "
                       "update specified as an array",
                       e->key);
    if (e->v.type != BV_DOC)
        return op_fail(p->op, ERR_FAILED_TO_PARSE,
                       "Modifiers operate on fields but we found type %s instead. For example: "
                       "{$mod: {<field>: ...}} not {%s: %s}",
                       bv_type_name(e->v.type), e->key, bv_show(p->a, e->v, 200));
    while (biter_next(&it, &f)) {
        struct update_leaf *l = NULL;

        TRY_RETURN(update_add_leaf(p, o, f.key, f.v, &l));
        TRY_RETURN(o->parse(p, l));
    }
    return 0;
}

/* True when the value, put at that depth, would nest deeper than a stored document may. */
static bool too_deep_at(struct bv v, uint32_t depth)
{
    struct error err;

    if (!bv_is_container(v))
        return depth > LIMIT_DEPTH_STORED;
    return depth >= LIMIT_DEPTH_STORED ||
           bv_check(v.p, v.len, LIMIT_DEPTH_STORED - depth, &err) != 0;
}

static void note_depths(struct update_parser *p)
{
    for (size_t i = 0; i < p->nleaves; i++)
        p->u->may_deepen |= too_deep_at(p->leaves[i]->arg, p->leaves[i]->nparts);
    for (size_t i = 0; i < p->u->nrenames; i++)
        p->u->may_deepen |= p->u->renames[i]->target->nparts > p->u->renames[i]->source->nparts;
}

static int parse_operators(struct update_parser *p, const struct update_spec *spec)
{
    const struct update_leaf *later = NULL, *prefix = NULL;
    struct biter it = biter(spec->u);
    struct belem e;

    TRY_RETURN(parse_filters(p, spec->array_filters));
    while (biter_next(&it, &e))
        TRY_RETURN(parse_operator(p, &e));
    TRY_RETURN(check_filters_used(p));
    TRY_RETURN(update_build_tree(p, &p->u->root, &later, &prefix));
    if (later != NULL)
        return op_fail(p->op, ERR_CONFLICTING_UPDATE_OPERATORS,
                       "Updating the path '%s' would create a conflict at '%s'", later->path,
                       prefix->path);
    note_depths(p);
    return 0;
}

static int parse_replacement(struct op *op, const struct update_spec *spec)
{
    struct biter it = biter(spec->u);
    struct belem e;

    if (spec->multi)
        return op_fail(op, ERR_FAILED_TO_PARSE,
                       "multi update is not supported for replacement-style update");
    if (!bv_empty(spec->array_filters))
        return op_fail(op, ERR_FAILED_TO_PARSE,
                       "arrayFilters may not be specified for replacement-style updates");
    while (biter_next(&it, &e)) {
        if (e.key[0] == '$')
            return op_fail(op, ERR_DOLLAR_PREFIXED_FIELD_NAME,
                           "The dollar ($) prefixed field '%s' in '%s' is not allowed in the "
                           "context of an update's replacement document. Consider using an "
                           "aggregation pipeline with $replaceWith.",
                           e.key, e.key);
    }
    return 0;
}

/* The command's variables with the update's constants behind them. */
static int add_constants(struct op *op, struct arena *a, struct update *u,
                         const struct update_spec *spec)
{
    struct biter it = biter(spec->constants);
    struct expr_vars *v = ARENA_NEW(a, struct expr_vars);
    struct belem e;

    if (spec->vars != NULL)
        *v = *spec->vars;
    u->vars = v;
    while (biter_next(&it, &e)) {
        if (v->n == EXPR_VARS_MAX || v->nslots == EXPR_VARS_MAX)
            return op_fail(op, ERR_FAILED_TO_PARSE, "more than %d variables in scope",
                           EXPR_VARS_MAX);
        v->names[v->n] = e.key;
        v->slots[v->n] = v->nslots;
        v->values[v->nslots] = e.v;
        v->n++;
        v->nslots++;
    }
    return 0;
}

static int parse_pipeline(struct op *op, struct arena *a, struct update *u,
                          const struct update_spec *spec)
{
    struct pipeline_ctx ctx = {.for_update = true};

    if (!bv_empty(spec->array_filters))
        return op_fail(op, ERR_FAILED_TO_PARSE,
                       "arrayFilters may not be specified for pipeline-syle updates");
    TRY_RETURN(add_constants(op, a, u, spec));
    ctx.vars = u->vars;
    u->pipeline = ARENA_NEW(a, struct pipeline);
    return pipeline_parse(op, a, spec->u, &ctx, u->pipeline);
}

int update_parse(struct op *op, struct arena *a, const struct update_spec *spec,
                 struct update **ret)
{
    struct update *u = ARENA_NEW(a, struct update);
    struct update_parser p = {.op = op, .a = a, .u = u, .vars = spec->vars};
    struct belem first;

    u->spec = spec->u;
    u->keep_empty_ts = spec->keep_empty_ts;
    if (!bv_is_container(spec->u))
        return op_fail(op, ERR_FAILED_TO_PARSE,
                       "Update argument must be either an object or an array");
    if (spec->u.type == BV_ARRAY) {
        u->form = UPDATE_PIPELINE;
        TRY_RETURN(parse_pipeline(op, a, u, spec));
        *ret = u;
        return 0;
    }
    if (!bv_empty(spec->constants))
        return op_fail(op, 51198, "Constant values may only be specified for pipeline updates");
    if (!bv_is_missing(bv_first(spec->u, &first)) && first.key[0] == '$') {
        u->form = UPDATE_OPERATORS;
        TRY_RETURN(parse_operators(&p, spec));
    } else {
        u->form = UPDATE_REPLACEMENT;
        TRY_RETURN(parse_replacement(op, spec));
    }
    *ret = u;
    return 0;
}

enum update_form update_form(const struct update *u)
{
    return u->form;
}
