/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Projection specifications into trees.
 *
 * All forms share one tree. What a specification is, inclusion or exclusion, is settled by its
 * first field that is neither _id nor a $slice; the rest must agree (31253, 31254). Two fields
 * that name the same path or one inside the other collide (31249, 31250).
 */
#include <stdlib.h>

#include "base/bw.h"
#include "base/limits.h"
#include "query/projection_internal.h"

enum ptype { TYPE_OPEN, TYPE_INCLUSION, TYPE_EXCLUSION };

struct pparser {
    struct op *op;
    struct arena *a;
    enum projection_use use;
    struct expr_vars *vars;
    enum ptype type;
    enum ptype id; /* what was said of _id */
    bool elem_match;
    size_t path_bytes; /* of the paths of nested fields, which are written out */
    struct projection *p;
};

/* A path under construction: the dotted name from the root. */
struct ppath {
    const char *text;
    unsigned depth;
};

static uint32_t hash_name(const char *s, size_t n)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)s[i]) * 16777619u;
    return h ^ (h >> 15);
}

struct pnode *pnode_child(const struct pnode *p, const char *name, size_t len)
{
    uint32_t mask = p->table_size - 1;

    if (p->n == 0)
        return NULL;
    for (uint32_t i = hash_name(name, len) & mask; p->table[i] != 0; i = (i + 1) & mask) {
        struct pnode *c = p->children[p->table[i] - 1];

        if (c->len == len && memcmp(c->name, name, len) == 0)
            return c;
    }
    return NULL;
}

static void table_add(struct pnode *p, uint32_t child)
{
    uint32_t mask = p->table_size - 1;
    uint32_t i = hash_name(p->children[child]->name, p->children[child]->len) & mask;

    while (p->table[i] != 0)
        i = (i + 1) & mask;
    p->table[i] = child + 1;
}

static int grow(struct pparser *c, struct pnode *p)
{
    uint32_t cap = p->cap == 0 ? 4 : p->cap * 2;
    void *children = arena_regrow(c->a, p->children, p->cap * sizeof(p->children[0]),
                                  cap * sizeof(p->children[0]));
    uint32_t *table = arena_try(c->a, 2 * cap * sizeof(*table));

    if (children == NULL || table == NULL)
        return op_fail(c->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for the projection");
    memset(table, 0, 2 * cap * sizeof(*table));
    p->children = children;
    p->cap = cap;
    p->table = table;
    p->table_size = 2 * cap;
    for (uint32_t i = 0; i < p->n; i++)
        table_add(p, i);
    return 0;
}

static int add_child(struct pparser *c, struct pnode *p, const char *name, size_t len,
                     struct pnode **ret)
{
    struct pnode *n = ARENA_NEW(c->a, struct pnode);

    n->name = arena_try_strndup(c->a, name, len);
    if (n->name == NULL)
        return op_no_memory(c->op);
    n->len = (uint32_t)len;
    if (p->n == p->cap)
        TRY_RETURN(grow(c, p));
    p->children[p->n] = n;
    table_add(p, p->n++);
    *ret = n;
    return 0;
}

/* The leaf for a dotted path, made anew. */
static int add_leaf(struct pparser *c, const char *path, enum pnode_kind kind, struct pnode **ret)
{
    struct pnode *p = &c->p->root;
    const char *part = path;

    for (;;) {
        size_t len = strcspn(part, ".");
        bool last = part[len] == '\0';
        struct pnode *child = pnode_child(p, part, len);

        p->computed |= kind == PNODE_EXPR || kind == PNODE_ELEM_MATCH;
        if (child != NULL && last)
            return op_fail(c->op, 31250, "Path collision at %s", path);
        if (child != NULL && child->kind != PNODE_TREE)
            return op_fail(c->op, 31249, "Path collision at %s remaining portion %s", path,
                           part + len + 1);
        if (child == NULL)
            TRY_RETURN(add_child(c, p, part, len, &child));
        if (last) {
            child->kind = kind;
            child->computed = kind == PNODE_EXPR || kind == PNODE_ELEM_MATCH;
            *ret = child;
            return 0;
        }
        p = child;
        part += len + 1;
    }
}

static int check_name(struct pparser *c, const char *name, unsigned depth)
{
    const char *part = name;
    size_t n = strlen(name);

    if (n == 0)
        return op_fail(c->op, 40352, "FieldPath cannot be constructed with empty string");
    if (name[n - 1] == '.')
        return op_fail(c->op, 40353, "FieldPath must not end with a '.'.");
    for (;; part++) {
        size_t len = strcspn(part, ".");

        if (++depth > LIMIT_DEPTH_MESSAGE)
            return op_fail(c->op, ERR_OVERFLOW, "FieldPath is too long");
        if (len == 0)
            return op_fail(c->op, 15998, "FieldPath field names may not be empty strings.");
        if (part[0] == '$')
            return op_fail(c->op, 16410,
                           "FieldPath field names may not start with '$'. Consider using "
                           "$getField or $setField.");
        part += len;
        if (*part == '\0')
            return 0;
    }
}

static int include(struct pparser *c, const char *path)
{
    struct pnode *leaf;

    if (strcmp(path, "_id") == 0) {
        c->id = TYPE_INCLUSION;
    } else {
        if (c->type == TYPE_EXCLUSION)
            return op_fail(c->op, 31253, "Cannot do inclusion on field %s in exclusion projection",
                           path);
        c->type = TYPE_INCLUSION;
    }
    return add_leaf(c, path, PNODE_INCLUDE, &leaf);
}

static int exclude(struct pparser *c, const char *path)
{
    struct pnode *leaf;

    if (strcmp(path, "_id") == 0) {
        c->id = TYPE_EXCLUSION;
    } else {
        if (c->type == TYPE_INCLUSION)
            return op_fail(c->op, 31254, "Cannot do exclusion on field %s in inclusion projection",
                           path);
        c->type = TYPE_EXCLUSION;
    }
    return add_leaf(c, path, PNODE_EXCLUDE, &leaf);
}

static int compute(struct pparser *c, const char *path, struct bv v)
{
    struct pnode *leaf;
    struct expr *e = NULL;

    if (c->use != PROJECT_ADD_FIELDS) {
        if (c->type == TYPE_EXCLUSION)
            return op_fail(c->op, 31252,
                           "Cannot use expression other than $meta in exclusion projection");
        c->type = TYPE_INCLUSION;
    }
    TRY_RETURN(expr_parse(c->op, c->a, v, c->vars, &e));
    TRY_RETURN(add_leaf(c, path, PNODE_EXPR, &leaf));
    leaf->expr = e;
    return 0;
}

static int split(struct pparser *c, const char *path, const struct doc_path **ret)
{
    *ret = doc_path_new(c->a, path);
    return *ret == NULL ? op_fail(c->op, ERR_OVERFLOW, "FieldPath is too long") : 0;
}

/* --- forms of find only ------------------------------------------------------------------------
 */

static int parse_slice(struct pparser *c, const char *path, struct bv v, bool *ret_done)
{
    struct pslice *s = ARENA_NEW(c->a, struct pslice), **at;
    struct belem e;
    struct biter it = biter(v);
    struct pnode *leaf;

    *ret_done = false;
    if (v.type == BV_ARRAY) {
        if (bv_count(v) != 2 || !biter_next(&it, &e) || !bv_to_i64(e.v, &s->skip))
            return 0; /* the expression $slice */
        if (!biter_next(&it, &e) || !bv_to_i64(e.v, &s->limit) || s->limit <= 0)
            return op_fail(c->op, 28724, "$slice limit must be positive");
    } else if (bv_to_i64(v, &s->limit)) {
        if (s->limit < 0) {
            s->skip = s->limit;
            s->limit = s->limit == INT64_MIN ? INT64_MAX : -s->limit;
        }
    } else {
        return op_fail(c->op, 28667,
                       "Invalid $slice syntax. The given syntax %s did not match "
                       "the find() syntax.",
                       bv_show(c->a, v, 100));
    }
    TRY_RETURN(split(c, path, &s->path));
    for (at = &c->p->slices; *at != NULL; at = &(*at)->next)
        continue;
    *at = s;
    /* Named, so that an inclusion keeps it; an exclusion keeps it anyway. */
    TRY_RETURN(add_leaf(c, path, PNODE_INCLUDE, &leaf));
    *ret_done = true;
    return 0;
}

static int parse_elem_match(struct pparser *c, const char *path, struct bv operators)
{
    struct bw w;
    struct match *m = NULL;
    const struct match_options o = {.vars = c->vars};
    struct pnode *leaf;

    if (c->p->positional != NULL)
        return op_fail(c->op, 31256, "Cannot specify positional operator and $elemMatch.");
    if (strchr(path, '.') != NULL)
        return op_fail(c->op, 31275, "Cannot use $elemMatch projection on a nested field.");
    if (bv_first(operators, NULL).type != BV_DOC)
        return op_fail(c->op, 31274, "elemMatch: Invalid argument, object required, but got %s",
                       bv_type_name(bv_first(operators, NULL).type));
    if (c->type == TYPE_EXCLUSION)
        return op_fail(c->op, 31252,
                       "Cannot use expression other than $meta in exclusion projection");
    c->type = TYPE_INCLUSION;
    c->elem_match = true;
    bw_init(&w, c->a);
    bw_bv(&w, path, operators);
    TRY_RETURN(match_parse(c->op, c->a, bw_done(&w), &o, &m));
    TRY_RETURN(add_leaf(c, path, PNODE_ELEM_MATCH, &leaf));
    leaf->elem_match = m;
    return 0;
}

/* "a.b.$": a.b is included, and reduced to the element that the filter matched. */
static int parse_positional(struct pparser *c, const char *path, struct bv v)
{
    char *stem = arena_try_strndup(c->a, path, strlen(path) - 2);

    if (stem == NULL)
        return op_no_memory(c->op);
    TRY_RETURN(check_name(c, stem, 0));
    if (!bv_truthy(v) || !(bv_is_number(v) || v.type == BV_BOOL))
        return op_fail(c->op, 31395, "positional projection cannot be used with exclusion");
    if (c->p->positional != NULL)
        return op_fail(c->op, 31276,
                       "Cannot specify more than one positional projection per query.");
    if (c->elem_match)
        return op_fail(c->op, 31255, "Cannot specify positional operator and $elemMatch.");
    if (c->p->filter == NULL || match_is_empty(c->p->filter))
        return op_fail(c->op, 51050,
                       "Projections with a positional operator require a matching query");
    TRY_RETURN(split(c, stem, &c->p->positional));
    return include(c, stem);
}

static bool is_positional(const char *path)
{
    size_t n = strlen(path);

    return n > 2 && strcmp(path + n - 2, ".$") == 0;
}

/* --- the specification -------------------------------------------------------------------------
 */

static int parse_field(struct pparser *c, struct ppath at, struct bv v);

static int parse_operator(struct pparser *c, const char *path, struct bv v, const char *op_name)
{
    bool done = false;

    if (strcmp(op_name, "$meta") == 0 && c->use != PROJECT_ADD_FIELDS)
        return op_fail(c->op, ERR_NOT_IMPLEMENTED, "$meta is not supported");
    if (c->use == PROJECT_FIND && bv_count(v) == 1) {
        if (strcmp(op_name, "$elemMatch") == 0)
            return parse_elem_match(c, path, v);
        if (strcmp(op_name, "$slice") == 0)
            TRY_RETURN(parse_slice(c, path, bv_first(v, NULL), &done));
        if (done)
            return 0;
    }
    return compute(c, path, v);
}

static int join_path(struct pparser *c, const char *path, const struct belem *e, const char **ret)
{
    size_t n = strlen(path);
    char *text = arena_try(c->a, n + e->key_len + 2);

    if (text == NULL)
        return op_no_memory(c->op);
    memcpy(text, path, n);
    text[n] = '.';
    memcpy(text + n + 1, e->key, e->key_len + 1);
    *ret = text;
    return 0;
}

static int parse_object(struct pparser *c, struct ppath at, struct bv v)
{
    struct biter it = biter(v);
    struct belem e;

    if (bv_empty(v)) {
        if (c->use == PROJECT_ADD_FIELDS)
            return compute(c, at.text, v);
        return op_fail(c->op, 51270,
                       "An empty sub-projection is not a valid value. Found empty object at path");
    }
    bv_first(v, &e);
    if (e.key[0] == '$')
        return parse_operator(c, at.text, v, e.key);
    while (biter_next(&it, &e)) {
        struct ppath sub = {NULL, at.depth + 1};

        c->path_bytes += strlen(at.text) + e.key_len + 2;
        if (c->path_bytes > LIMIT_INTERNAL_BYTES)
            return op_fail(c->op, ERR_OVERFLOW, "the paths of the projection are too long");
        TRY_RETURN(join_path(c, at.text, &e, &sub.text));
        if (c->use == PROJECT_ADD_FIELDS && strchr(e.key, '.') != NULL)
            return op_fail(c->op, 16412,
                           "FieldPath field names may not contain '.'. Consider using $getField "
                           "or $setField.");
        TRY_RETURN(check_name(c, e.key, at.depth));
        TRY_RETURN(parse_field(c, sub, e.v));
    }
    return 0;
}

static int parse_field(struct pparser *c, struct ppath at, struct bv v)
{
    if (at.depth > LIMIT_EXPR_DEPTH)
        return op_fail(c->op, ERR_OVERFLOW, "projection is nested too deeply");
    if (v.type == BV_DOC)
        return parse_object(c, at, v);
    if (c->use != PROJECT_ADD_FIELDS && (bv_is_number(v) || v.type == BV_BOOL))
        return bv_truthy(v) ? include(c, at.text) : exclude(c, at.text);
    return compute(c, at.text, v);
}

static int parse_top(struct pparser *c, const struct belem *e)
{
    const char *dollar = strstr(e->key, ".$");

    if (c->use == PROJECT_FIND) {
        if (dollar != NULL && dollar[2] == '.')
            return op_fail(c->op, 31394,
                           "As of 4.4, it's illegal to specify positional operator in the middle "
                           "of a path.Positional projection may only be used at the end, for "
                           "example: a.b.$. If the query previously used a form like a.b.$.d, "
                           "remove the parts following the '$' and the results will be "
                           "equivalent.");
        if (is_positional(e->key))
            return parse_positional(c, e->key, e->v);
    }
    TRY_RETURN(check_name(c, e->key, 0));
    return parse_field(c, (struct ppath){e->key, 1}, e->v);
}

static int parse_unset(struct pparser *c, struct bv spec)
{
    struct biter it = biter(spec);
    struct belem e = {"", 0, spec};

    if (spec.type != BV_STRING && spec.type != BV_ARRAY)
        return op_fail(c->op, 31002, "$unset specification must be a string or an array");
    if (spec.type == BV_ARRAY && bv_empty(spec))
        return op_fail(c->op, 31119,
                       "$unset specification must be a string or an array with at least one "
                       "field");
    c->type = TYPE_EXCLUSION;
    while (spec.type == BV_STRING || biter_next(&it, &e)) {
        struct pnode *leaf;

        if (e.v.type != BV_STRING)
            return op_fail(c->op, 31120,
                           "$unset specification must be a string or an array "
                           "containing only string values");
        TRY_RETURN(check_name(c, bv_str(e.v, NULL), 0));
        TRY_RETURN(add_leaf(c, bv_str(e.v, NULL), PNODE_EXCLUDE, &leaf));
        if (spec.type == BV_STRING)
            break;
    }
    return 0;
}

/* Settles the type and what is done with _id, when all fields are read. */
static int finish(struct pparser *c)
{
    struct pnode *id = pnode_child(&c->p->root, "_id", 3);

    if (c->use == PROJECT_ADD_FIELDS)
        return 0;
    if (c->type == TYPE_OPEN)
        c->type = c->id == TYPE_INCLUSION ? TYPE_INCLUSION : TYPE_EXCLUSION;
    c->p->inclusion = c->type == TYPE_INCLUSION;
    c->p->plain = c->p->inclusion || c->p->root.n > 0;
    if (c->p->inclusion && id == NULL) {
        TRY_RETURN(add_child(c, &c->p->root, "_id", 3, &id));
        id->kind = PNODE_INCLUDE;
    }
    return 0;
}

static int parse_fields(struct pparser *c, struct bv spec)
{
    struct biter it = biter(spec);
    struct belem e;

    if (bv_empty(spec) && c->use == PROJECT_STAGE)
        return op_fail(c->op, 51272, "projection specification must have at least one field");
    if (bv_empty(spec) && c->use == PROJECT_ADD_FIELDS)
        return op_fail(c->op, 40177, "specification must have at least one field");
    while (biter_next(&it, &e))
        TRY_RETURN(parse_top(c, &e));
    return 0;
}

int projection_parse(struct op *op, struct arena *a, struct bv spec, enum projection_use use,
                     struct expr_vars *vars, const struct match *filter, struct projection **ret)
{
    struct pparser c = {.op = op, .a = a, .use = use, .vars = vars};
    int rc;

    c.p = ARENA_NEW(a, struct projection);
    c.p->filter = filter;
    TRY_RETURN(op_dup(op, a, spec, &spec));
    rc = use == PROJECT_UNSET ? parse_unset(&c, spec) : parse_fields(&c, spec);
    if (rc == 0)
        rc = finish(&c);
    if (rc != 0) {
        if (use == PROJECT_STAGE)
            error_prefix(op->err, "Invalid $project :: caused by :: ");
        else if (use == PROJECT_ADD_FIELDS)
            error_prefix(op->err, "Invalid $addFields :: caused by :: ");
        return rc;
    }
    *ret = c.p;
    return 0;
}
