/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Parsing expressions into a tree.
 *
 * What is kept is copied into the arena. Variables are resolved to slots (a stack: the slot of a
 * variable is its depth, so siblings share slots), and constants are folded bottom up. An error
 * while folding is dropped and comes back at evaluation, so that a branch that is never taken does
 * not fail. The depth of the tree is bounded by LIMIT_EXPR_DEPTH.
 */
#include "query/expr.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "query/expr_op.h"

static const struct expr_row rows[] = {
#define EXPR_ARGS(name, min, max, fn)          {name, min, max, 0, 0, NULL, NULL, fn},
#define EXPR_NAMED(name, obj, unk, fields, fn) {name, 0, 0, obj, unk, fields, NULL, fn},
#define EXPR_CUSTOM(name, parser, fn)          {name, 0, 0, 0, 0, NULL, parser, fn},
#define EXPR_UNBUILT(name)                     {name, 0, 0, 0, 0, NULL, NULL, NULL},
#include "query/expr_ops.def"
#undef EXPR_ARGS
#undef EXPR_NAMED
#undef EXPR_CUSTOM
#undef EXPR_UNBUILT
};

#define NROWS (sizeof(rows) / sizeof(rows[0]))

/* Tables are sorted with case ignored; no two names differ in case only. */
static int cmp_row(const void *key, const void *row)
{
    return strcasecmp(key, ((const struct expr_row *)row)->name);
}

static const struct expr_row *find_row(const char *name)
{
    const struct expr_row *row = bsearch(name, rows, NROWS, sizeof(rows[0]), cmp_row);

    return row != NULL && strcmp(row->name, name) == 0 ? row : NULL;
}

bool expr_known(const char *name)
{
    return find_row(name) != NULL;
}

/* --- paths and variables -------------------------------------------------------------------- */

static int check_path_name(struct op *op, const char *s, size_t n)
{
    if (n == 0)
        return op_fail(op, 15998, "FieldPath field names may not be empty strings.");
    if (s[0] == '$')
        return op_fail(op, 16410,
                       "FieldPath field names may not start with '$'. Consider using $getField or "
                       "$setField.");
    return 0;
}

int expr_parse_path(struct op *op, struct arena *a, const char *s, size_t n, struct expr_path *ret)
{
    struct expr_path path = {0};
    const char *at, *end;
    uint32_t parts = 1;

    if (n == 0)
        return op_fail(op, 40352, "FieldPath cannot be constructed with empty string");
    if (memchr(s, '\0', n) != NULL)
        return op_fail(op, 16411, "FieldPath field names may not contain '\\0'.");
    if (s[n - 1] == '.')
        return op_fail(op, 40353, "FieldPath must not end with a '.'.");
    for (size_t i = 0; i < n; i++)
        parts += s[i] == '.';
    if (parts > LIMIT_DEPTH_MESSAGE)
        return op_fail(op, ERR_OVERFLOW, "FieldPath is too long");
    path.full = arena_try_strndup(a, s, n);
    if (path.full == NULL)
        return op_no_memory(op);
    path.names = arena_alloc(a, parts * sizeof(*path.names));
    path.lens = arena_alloc(a, parts * sizeof(*path.lens));
    end = path.full + n;
    for (at = path.full; at <= end;) {
        const char *dot = memchr(at, '.', (size_t)(end - at));
        size_t len = (size_t)((dot != NULL ? dot : end) - at);

        TRY_RETURN(check_path_name(op, at, len));
        path.names[path.n] = at;
        path.lens[path.n++] = (uint32_t)len;
        at += len + 1;
    }
    *ret = path;
    return 0;
}

int expr_cstr(struct expr_parser *p, struct bv v, const char **ret)
{
    uint32_t n;
    const char *s = bv_str(v, &n);

    if (memchr(s, '\0', n) != NULL)
        return op_fail(p->op, 16411, "FieldPath field names may not contain '\\0'.");
    *ret = arena_try_strndup(p->a, s, n);
    return *ret == NULL ? op_no_memory(p->op) : 0;
}

static bool var_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

int expr_check_var_name(struct op *op, const char *name)
{
    if (name[0] == '\0')
        return op_fail(op, ERR_FAILED_TO_PARSE, "empty variable names are not allowed");
    if (strcmp(name, "CURRENT") == 0)
        return 0;
    if (!((name[0] >= 'a' && name[0] <= 'z') || (unsigned char)name[0] >= 0x80))
        return op_fail(op, ERR_FAILED_TO_PARSE,
                       "'%s' starts with an invalid character for a user variable name", name);
    for (const char *c = name + 1; *c != '\0'; c++) {
        if (!var_char(*c))
            return op_fail(op, ERR_FAILED_TO_PARSE,
                           "'%s' contains an invalid character for a variable name: '%c'", name,
                           *c);
    }
    return 0;
}

int expr_scope_add(struct expr_parser *p, const char *name, int *ret_slot)
{
    struct expr_vars *vars = p->vars;

    if (vars->n == EXPR_VARS_MAX)
        return op_fail(p->op, ERR_FAILED_TO_PARSE, "more than %d variables in scope",
                       EXPR_VARS_MAX);
    vars->names[vars->n] = name;
    vars->slots[vars->n] = vars->n;
    vars->values[vars->n] = BV_NONE;
    *ret_slot = vars->n++;
    if (vars->nslots < vars->n)
        vars->nslots = vars->n;
    return 0;
}

/* Position in the scope, innermost first; -1: not there. */
static int find_var(const struct expr_vars *vars, const char *name, size_t n)
{
    for (int i = vars->n - 1; i >= 0; i--) {
        if (strlen(vars->names[i]) == n && memcmp(vars->names[i], name, n) == 0)
            return i;
    }
    return -1;
}

static bool name_is(const char *s, size_t n, const char *name)
{
    return n == strlen(name) && memcmp(s, name, n) == 0;
}

/* The variable of "$$name": into e->base, or e as a constant. */
static int resolve_var(struct expr_parser *p, const char *s, size_t n, struct expr *e)
{
    int i = find_var(p->vars, s, n);

    e->kind = EXPR_PATH;
    if (i >= 0) {
        e->base = p->vars->slots[i];
        if (p->vars->values[i].type == BV_MISSING)
            return 0;
        e->kind = EXPR_CONST;
        /* a cursor outlives the command */
        return op_dup(p->op, p->a, p->vars->values[i], &e->value);
    }
    if (name_is(s, n, "ROOT"))
        e->base = BASE_ROOT;
    else if (name_is(s, n, "CURRENT"))
        e->base = BASE_CURRENT;
    else if (name_is(s, n, "NOW"))
        e->base = BASE_NOW;
    else if (name_is(s, n, "CLUSTER_TIME"))
        e->base = BASE_CLUSTER_TIME;
    else if (name_is(s, n, "REMOVE"))
        e->kind = EXPR_CONST;
    else if (n == 0)
        return op_fail(p->op, ERR_FAILED_TO_PARSE, "empty variable names are not allowed");
    else
        return op_fail(p->op, 17276, "Use of undefined variable: %.*s", (int)n, s);
    return 0;
}

/* --- folding -------------------------------------------------------------------------------- */

static bool all_constant(const struct expr *e)
{
    for (uint32_t i = 0; i < e->nargs; i++) {
        if (e->args[i] != NULL && e->args[i]->kind != EXPR_CONST)
            return false;
    }
    return true;
}

/* Turns a node whose operands are constants into a constant, when it evaluates without error. */
static __attribute__((noinline)) void fold(struct expr_parser *p, struct expr *e)
{
    struct eval ev;
    struct bv v;

    if (e->kind == EXPR_CONST || e->kind == EXPR_PATH || e->is_volatile || !all_constant(e))
        return;
    eval_init(&ev, p->op, p->a);
    if (expr_eval(e, &ev, &v) != 0) {
        p->op->err->code = 0;
        return;
    }
    e->kind = EXPR_CONST;
    e->value = v;
}

/* --- parsing -------------------------------------------------------------------------------- */

static int parse_dollar_string(struct expr_parser *p, const char *s, uint32_t n, struct expr *e)
{
    const char *dot;
    size_t name_len;

    if (n == 1)
        return op_fail(p->op, 16872, "'$' by itself is not a valid FieldPath");
    if (s[1] != '$') {
        e->kind = EXPR_PATH;
        e->base = BASE_CURRENT;
        return expr_parse_path(p->op, p->a, s + 1, n - 1, &e->path);
    }
    dot = memchr(s + 2, '.', n - 2);
    name_len = dot != NULL ? (size_t)(dot - s - 2) : n - 2;
    e->path.full = "";
    TRY_RETURN(resolve_var(p, s + 2, name_len, e));
    if (dot == NULL)
        return 0;
    TRY_RETURN(expr_parse_path(p->op, p->a, dot + 1, (size_t)(s + n - dot - 1), &e->path));
    if (e->kind == EXPR_CONST) {
        struct eval ev;

        eval_init(&ev, p->op, p->a);
        return expr_path_eval(&e->path, e->value, &ev, &e->value);
    }
    return 0;
}

static int count_error(struct expr_parser *p, const struct expr_row *row, uint32_t n)
{
    if (row->min == row->max)
        return op_fail(p->op, 16020, "Expression %s takes exactly %d arguments. %u were passed in.",
                       row->name, row->min, n);
    if (row->max < 0)
        return op_fail(p->op, strcmp(row->name, "$ifNull") == 0 ? 1257300 : 28667,
                       "%s needs at least %d arguments, had: %u", row->name, row->min, n);
    return op_fail(p->op, 28667,
                   "Expression %s takes at least %d arguments, and at most %d, but %u were passed "
                   "in.",
                   row->name, row->min, row->max, n);
}

static int parse_list(struct expr_parser *p, struct bv array, struct expr *e)
{
    struct biter it = biter(array);
    struct belem el;

    e->args = arena_try(p->a, sizeof(struct expr *) * ((size_t)bv_count(array) + 1));
    if (e->args == NULL)
        return op_fail(p->op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory parsing an expression");
    while (biter_next(&it, &el)) {
        TRY_RETURN(expr_parse_operand(p, el.v, &e->args[e->nargs]));
        e->nargs++;
    }
    return 0;
}

static int parse_args(struct expr_parser *p, struct bv spec, struct expr *e)
{
    const struct expr_row *row = e->row;

    if (spec.type == BV_ARRAY) {
        TRY_RETURN(parse_list(p, spec, e));
    } else {
        e->args = arena_alloc(p->a, sizeof(struct expr *));
        TRY_RETURN(expr_parse_operand(p, spec, &e->args[0]));
        e->nargs = 1;
    }
    if ((int)e->nargs < row->min || (row->max >= 0 && (int)e->nargs > row->max))
        return count_error(p, row, e->nargs);
    return 0;
}

/* The position of a field in "name=<code> name ..."; -1: none. *ret_code: 0 when optional. */
static int named_field(const char *fields, uint32_t at, const char *name, size_t n, int *ret_code)
{
    int index = 0;

    for (const char *f = fields; *f != '\0'; index++) {
        size_t len = strcspn(f, "= ");

        *ret_code = f[len] == '=' ? atoi(f + len + 1) : 0;
        if (name != NULL ? len == n && memcmp(f, name, n) == 0 : (uint32_t)index == at)
            return index;
        f += strcspn(f, " ");
        f += strspn(f, " ");
    }
    return -1;
}

static const char *named_name(struct arena *a, const char *fields, uint32_t at)
{
    while (at-- > 0) {
        fields += strcspn(fields, " ");
        fields += strspn(fields, " ");
    }
    return arena_strndup(a, fields, strcspn(fields, "= "));
}

int expr_parse_named(struct expr_parser *p, struct bv spec, struct expr *e)
{
    const struct expr_row *row = e->row;
    struct biter it = biter(spec);
    struct belem el;
    int code;

    if (spec.type != BV_DOC)
        return op_fail(p->op, row->code_not_object,
                       "%s only supports an object as its argument, found: %s", row->name,
                       bv_type_name(spec.type));
    while (named_field(row->fields, e->nargs, NULL, 0, &code) >= 0)
        e->nargs++;
    e->args = ARENA_ARRAY(p->a, struct expr *, e->nargs);
    while (biter_next(&it, &el)) {
        int i = named_field(row->fields, 0, el.key, el.key_len, &code);

        if (i < 0)
            return op_fail(p->op, row->code_unknown, "%s found an unknown argument: %s", row->name,
                           el.key);
        TRY_RETURN(expr_parse_operand(p, el.v, &e->args[i]));
    }
    for (uint32_t i = 0; i < e->nargs; i++) {
        if (e->args[i] != NULL)
            continue;
        named_field(row->fields, i, NULL, 0, &code);
        if (code != 0)
            return op_fail(p->op, code, "%s requires '%s' to be specified", row->name,
                           named_name(p->a, row->fields, i));
    }
    return 0;
}

static int parse_call(struct expr_parser *p, struct bv doc, struct expr *e)
{
    struct belem el;
    struct bv spec = bv_first(doc, &el);

    if (bv_count(doc) != 1)
        return op_fail(p->op, 15983,
                       "An object representing an expression must have exactly one field: %s",
                       bv_show(p->a, doc, 256));
    e->row = find_row(el.key);
    if (e->row == NULL)
        return op_fail(p->op, ERR_INVALID_PIPELINE_OPERATOR, "Unrecognized expression '%s'",
                       el.key);
    if (e->row->eval == NULL)
        return op_fail(p->op, ERR_NOT_IMPLEMENTED, "The expression %s is not supported yet",
                       el.key);
    e->kind = EXPR_CALL;
    if (e->row->parse != NULL)
        return e->row->parse(p, spec, e);
    return e->row->fields != NULL ? expr_parse_named(p, spec, e) : parse_args(p, spec, e);
}

static int parse_object(struct expr_parser *p, struct bv doc, struct expr *e)
{
    struct biter it = biter(doc);
    struct belem el;
    uint32_t n = bv_count(doc);

    e->kind = EXPR_OBJECT;
    e->args = arena_try(p->a, sizeof(struct expr *) * ((size_t)n + 1));
    e->names = arena_try(p->a, sizeof(char *) * ((size_t)n + 1));
    if (e->args == NULL || e->names == NULL)
        return op_fail(p->op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory parsing an expression");
    while (biter_next(&it, &el)) {
        TRY_RETURN(check_path_name(p->op, el.key, el.key_len));
        if (memchr(el.key, '.', el.key_len) != NULL)
            return op_fail(p->op, 16412,
                           "FieldPath field names may not contain '.'. Consider using $getField or "
                           "$setField.");
        e->names[e->nargs] = arena_try_strndup(p->a, el.key, el.key_len);
        if (e->names[e->nargs] == NULL)
            return op_no_memory(p->op);
        TRY_RETURN(expr_parse_operand(p, el.v, &e->args[e->nargs]));
        e->nargs++;
    }
    return 0;
}

static int parse_node(struct expr_parser *p, struct bv v, struct expr *e)
{
    struct belem el;
    const char *s;
    uint32_t n;

    switch (v.type) {
    case BV_STRING:
        s = bv_str(v, &n);
        if (n > 0 && s[0] == '$')
            return parse_dollar_string(p, s, n, e);
        break;
    case BV_DOC:
        bv_first(v, &el);
        if (!bv_empty(v) && el.key[0] == '$')
            return parse_call(p, v, e);
        return parse_object(p, v, e);
    case BV_ARRAY:
        e->kind = EXPR_LIST;
        return parse_list(p, v, e);
    default:
        break;
    }
    e->kind = EXPR_CONST;
    return op_dup(p->op, p->a, v, &e->value);
}

int expr_parse_operand(struct expr_parser *p, struct bv v, struct expr **ret)
{
    struct expr *e;
    int rc;

    if (p->depth == LIMIT_EXPR_DEPTH)
        return op_fail(p->op, ERR_OVERFLOW, "expression is nested deeper than %d levels",
                       LIMIT_EXPR_DEPTH);
    e = ARENA_NEW(p->a, struct expr);
    p->depth++;
    rc = parse_node(p, v, e);
    p->depth--;
    if (rc != 0)
        return rc;
    fold(p, e);
    *ret = e;
    return 0;
}

int expr_parse(struct op *op, struct arena *a, struct bv v, struct expr_vars *vars,
               struct expr **ret)
{
    struct expr_parser p = {.op = op, .a = a, .vars = vars};

    if (vars == NULL)
        p.vars = ARENA_NEW(a, struct expr_vars);
    return expr_parse_operand(&p, v, ret);
}

int expr_parse_let(struct op *op, struct arena *a, struct bv let, struct eval *ev,
                   struct expr_vars *vars)
{
    struct expr_parser p = {.op = op, .a = a, .vars = ARENA_NEW(a, struct expr_vars)};
    struct biter it = biter(let);
    struct belem el;
    struct expr *e;
    int slot;

    while (biter_next(&it, &el)) {
        struct arena *scratch = ev->scratch;
        int rc;

        TRY_RETURN(expr_check_var_name(op, el.key));
        TRY_RETURN(expr_parse_operand(&p, el.v, &e));
        if (expr_reads_document(e))
            return op_fail(op, 4890500,
                           "Command let Expression tried to access a field, but this is not "
                           "allowed because command let expressions run before the query examines "
                           "any documents.");
        p.vars = vars;
        rc = expr_scope_add(&p, arena_strdup(a, el.key), &slot);
        p.vars = ARENA_NEW(a, struct expr_vars);
        if (rc != 0)
            return rc;
        ev->scratch = a;
        rc = expr_eval(e, ev, &vars->values[slot]);
        ev->scratch = scratch;
        if (rc != 0)
            return rc;
        ev->vars[slot] = vars->values[slot];
    }
    return 0;
}
