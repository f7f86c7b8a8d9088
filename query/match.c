/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The read-only view of a filter tree: for the planner, for push-down, for explain. */
#include "base/bw.h"
#include "query/match_internal.h"

bool match_is_empty(const struct match *m)
{
    return m->kind == MATCH_ALWAYS_TRUE;
}

enum match_kind match_kind(const struct match *m)
{
    return m->kind;
}

const char *match_path(const struct match *m)
{
    return m->path;
}

struct bv match_value(const struct match *m)
{
    return m->value;
}

size_t match_nchildren(const struct match *m)
{
    return m->nchildren;
}

const struct match *match_child(const struct match *m, size_t i)
{
    return m->children[i];
}

size_t match_in_values(const struct match *m, const struct bv **ret, bool *ret_regexes)
{
    *ret = m->u.in.values;
    *ret_regexes = m->u.in.nregexes > 0;
    return m->u.in.nvalues;
}

void match_regex(const struct match *m, const char **ret_pattern, const char **ret_flags)
{
    *ret_pattern = m->u.regex.pattern;
    *ret_flags = m->u.regex.flags;
}

void match_paths(const struct match *m, void (*fn)(void *arg, const char *path), void *arg)
{
    if (m->kind == MATCH_EXPR) {
        for (size_t i = 0; i < m->u.expr.npaths; i++)
            fn(arg, m->u.expr.paths[i]);
        return;
    }
    if (m->dp != NULL) {
        fn(arg, m->dp->parts[0].name);
        return;
    }
    for (size_t i = 0; i < m->nchildren; i++)
        match_paths(m->children[i], fn, arg);
}

/* --- explain ---------------------------------------------------------------------------------- */

static void show(const struct match *m, struct bw *w);
static void show_operator(const struct match *m, struct bw *w);

static void show_list(const struct match *m, struct bw *w, const char *op)
{
    bw_arr_begin(w, op);
    for (size_t i = 0; i < m->nchildren; i++) {
        bw_doc_begin(w, NULL);
        show(m->children[i], w);
        bw_end(w);
    }
    bw_end(w);
}

static void show_regex(const struct match_regex *re, struct bw *w)
{
    bw_str(w, "$regex", re->pattern);
    if (re->flags[0] != '\0')
        bw_str(w, "$options", re->flags);
}

/* The operators of a leaf, of a list of leaves of one path, or of what $not negates. */
static void show_operators(const struct match *m, struct bw *w)
{
    if (m->kind == MATCH_AND || m->kind == MATCH_ALL) {
        for (size_t i = 0; i < m->nchildren; i++)
            show_operator(m->children[i], w);
    } else {
        show_operator(m, w);
    }
}

static void show_operator(const struct match *m, struct bw *w)
{
    switch (m->kind) {
    case MATCH_NE:
    case MATCH_NIN:
        bw_doc_begin(w, "$not");
        bw_bv(w, m->kind == MATCH_NE ? "$eq" : "$in", m->value);
        bw_end(w);
        break;
    case MATCH_NOT:
        bw_doc_begin(w, "$not");
        show_operators(m->children[0], w);
        bw_end(w);
        break;
    case MATCH_EXISTS:
        if (m->negate)
            bw_doc_begin(w, "$not");
        bw_bool(w, "$exists", true);
        if (m->negate)
            bw_end(w);
        break;
    case MATCH_REGEX:
        show_regex(&m->u.regex, w);
        break;
    case MATCH_ELEM_VALUE:
        bw_doc_begin(w, "$elemMatch");
        show_operators(m->children[0], w);
        bw_end(w);
        break;
    case MATCH_ELEM_OBJECT:
        bw_doc_begin(w, "$elemMatch");
        show(m->children[0], w);
        bw_end(w);
        break;
    default:
        bw_bv(w, m->op, m->value);
        break;
    }
}

static void show(const struct match *m, struct bw *w)
{
    switch (m->kind) {
    case MATCH_ALWAYS_TRUE:
        break;
    case MATCH_ALWAYS_FALSE:
        bw_i32(w, "$alwaysFalse", 1);
        break;
    case MATCH_AND:
    case MATCH_ALL:
        show_list(m, w, "$and");
        break;
    case MATCH_OR:
        show_list(m, w, "$or");
        break;
    case MATCH_NOR:
        show_list(m, w, "$nor");
        break;
    case MATCH_EXPR:
        bw_bv(w, "$expr", m->value);
        break;
    default:
        bw_doc_begin(w, m->path);
        show_operator(m, w);
        bw_end(w);
        break;
    }
}

struct bv match_show(const struct match *m, struct arena *a)
{
    struct bw w;
    struct bv doc;

    bw_init(&w, a);
    show(m, &w);
    doc = bw_done(&w);
    return bv_is_missing(doc) ? bv_empty_doc : doc; /* nested deeper than a writer can */
}
