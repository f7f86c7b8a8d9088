/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Evaluating expressions: the nodes that are no operators, what operators build values with, and
 * views of a tree. Recursion is as deep as the tree, which the parser bounds.
 */
#include "query/expr.h"

#include <string.h>

#include "base/clock.h"
#include "query/expr_op.h"

/* What evaluating a node costs besides going through its value, in op_work()'s bytes. */
enum { EVAL_WORK = 32 };

/* --- paths and variables -------------------------------------------------------------------- */

/* Element of doc by a name inside a longer string. */
static struct bv path_get(const struct expr_path *path, uint32_t i, struct bv doc)
{
    return bv_getn(doc, path->names[i], path->lens[i]);
}

/* Appends what the path from part i on finds in v (a document) to an array being written. */
static void path_collect(const struct expr_path *path, uint32_t i, struct bv v, struct bw *w)
{
    struct biter it;
    struct belem e;

    while (i < path->n && v.type == BV_DOC)
        v = path_get(path, i++, v);
    if (i == path->n) {
        bw_bv(w, NULL, v);
        return;
    }
    if (v.type != BV_ARRAY)
        return;
    bw_arr_begin(w, NULL);
    it = biter(v);
    while (biter_next(&it, &e)) {
        if (e.v.type == BV_DOC)
            path_collect(path, i, e.v, w);
    }
    bw_end(w);
}

int expr_path_eval(const struct expr_path *path, struct bv v, struct eval *ev, struct bv *ret)
{
    struct biter it;
    struct belem e;
    struct bw w;
    uint32_t i = 0;

    while (i < path->n && v.type == BV_DOC)
        v = path_get(path, i++, v);
    if (i == path->n || v.type != BV_ARRAY) {
        *ret = i == path->n ? v : BV_NONE;
        return 0;
    }
    bw_init_array(&w, ev->scratch);
    it = biter(v);
    while (biter_next(&it, &e)) {
        if (e.v.type == BV_DOC)
            path_collect(path, i, e.v, &w);
    }
    return expr_done(ev, &w, ret);
}

static int eval_base(const struct expr *e, struct eval *ev, struct bv *ret)
{
    switch (e->base) {
    case BASE_CURRENT:
        *ret = ev->current;
        break;
    case BASE_ROOT:
        *ret = ev->root;
        break;
    case BASE_NOW:
        *ret = bv_new_date(ev->scratch, ev->now_ms);
        break;
    case BASE_CLUSTER_TIME:
        *ret = bv_new_ts(ev->scratch, ev->cluster_time);
        break;
    default:
        *ret = ev->vars[e->base];
    }
    return 0;
}

/* --- evaluating ----------------------------------------------------------------------------- */

void eval_init(struct eval *ev, struct op *op, struct arena *scratch)
{
    memset(ev, 0, sizeof(*ev));
    ev->op = op;
    ev->scratch = scratch;
    ev->now_ms = clock_wall_ms();
}

int expr_done(struct eval *ev, struct bw *w, struct bv *ret)
{
    struct bv v = bw_done(w);

    if (v.type == BV_MISSING)
        return op_fail(ev->op, ERR_BSON_TOO_LARGE,
                       "a value computed by an expression is too large or nested too deep");
    if (ev->scratch->bytes > LIMIT_EXPR_BYTES)
        return op_fail(ev->op, ERR_EXCEEDED_MEMORY_LIMIT,
                       "expressions of one document used more than %d bytes", LIMIT_EXPR_BYTES);
    *ret = v;
    return 0;
}

int expr_string_room(struct eval *ev, size_t n, char **ret_bytes, struct bv *ret)
{
    uint32_t size = (uint32_t)n + 1;
    uint8_t *p;

    if (n > LIMIT_INTERNAL_BYTES)
        return op_fail(ev->op, ERR_BSON_TOO_LARGE, "a string of %zu bytes is too large", n);
    p = arena_try(ev->scratch, n + 5);
    if (p == NULL || ev->scratch->bytes > LIMIT_EXPR_BYTES)
        return op_fail(ev->op, ERR_EXCEEDED_MEMORY_LIMIT,
                       "expressions of one document used more than %d bytes", LIMIT_EXPR_BYTES);
    memcpy(p, &size, 4);
    p[4 + n] = '\0';
    *ret_bytes = (char *)p + 4;
    *ret = (struct bv){p, size + 4, BV_STRING};
    return 0;
}

int expr_string(struct eval *ev, const char *s, size_t n, struct bv *ret)
{
    char *p = NULL;

    TRY_RETURN(expr_string_room(ev, n, &p, ret));
    if (n > 0)
        memcpy(p, s, n);
    return 0;
}

int expr_elements(struct eval *ev, struct bv array, struct bv **ret, uint32_t *ret_n)
{
    uint32_t n = bv_count(array), i = 0;
    struct bv *list = arena_try(ev->scratch, sizeof(struct bv) * ((size_t)n + 1));
    struct biter it = biter(array);
    struct belem e;

    if (list == NULL || ev->scratch->bytes > LIMIT_EXPR_BYTES)
        return op_fail(ev->op, ERR_EXCEEDED_MEMORY_LIMIT,
                       "expressions of one document used more than %d bytes", LIMIT_EXPR_BYTES);
    while (biter_next(&it, &e))
        list[i++] = e.v;
    *ret = list;
    *ret_n = n;
    return 0;
}

static int eval_object(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bw w;
    struct bv v;

    bw_init(&w, ev->scratch);
    for (uint32_t i = 0; i < e->nargs; i++) {
        TRY_RETURN(expr_eval(e->args[i], ev, &v));
        bw_bv(&w, e->names[i], v);
    }
    return expr_done(ev, &w, ret);
}

static int eval_list(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bw w;
    struct bv v;

    bw_init_array(&w, ev->scratch);
    for (uint32_t i = 0; i < e->nargs; i++) {
        TRY_RETURN(expr_eval(e->args[i], ev, &v));
        bw_bv(&w, NULL, bv_is_missing(v) ? bv_null : v);
    }
    return expr_done(ev, &w, ret);
}

static int eval_node(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv v;

    switch (e->kind) {
    case EXPR_CONST:
        *ret = e->value;
        return 0;
    case EXPR_PATH:
        TRY_RETURN(eval_base(e, ev, &v));
        if (e->path.n > 0) {
            TRY_RETURN(op_work(ev->op, v.len));
            return expr_path_eval(&e->path, v, ev, ret);
        }
        *ret = v;
        return 0;
    case EXPR_OBJECT:
        return eval_object(e, ev, ret);
    case EXPR_LIST:
        return eval_list(e, ev, ret);
    case EXPR_CALL:
        return e->row->eval(e, ev, ret);
    }
    ASSERT(false);
    return ERR_INTERNAL;
}

int expr_eval(const struct expr *e, struct eval *ev, struct bv *ret)
{
    TRY_RETURN(eval_node(e, ev, ret));
    return op_work(ev->op, EVAL_WORK + ret->len);
}

/* --- looking at a tree ---------------------------------------------------------------------- */

bool expr_constant(const struct expr *e, struct bv *ret)
{
    if (e->kind != EXPR_CONST)
        return false;
    *ret = e->value;
    return true;
}

const char *expr_field_path(const struct expr *e)
{
    if (e->kind != EXPR_PATH || e->path.n == 0)
        return NULL;
    return e->base == BASE_CURRENT || e->base == BASE_ROOT ? e->path.full : NULL;
}

void expr_paths(const struct expr *e, void (*fn)(void *arg, const char *path), void *arg)
{
    if (e->kind == EXPR_PATH && (e->base == BASE_CURRENT || e->base == BASE_ROOT))
        fn(arg, e->path.full);
    for (uint32_t i = 0; i < e->nargs; i++) {
        if (e->args[i] != NULL)
            expr_paths(e->args[i], fn, arg);
    }
}

static void note_read(void *arg, const char *path)
{
    (void)path;
    *(bool *)arg = true;
}

bool expr_reads_document(const struct expr *e)
{
    bool reads = false;

    expr_paths(e, note_read, &reads);
    return reads;
}

bool expr_volatile(const struct expr *e)
{
    bool found = e->is_volatile;

    for (uint32_t i = 0; i < e->nargs && !found; i++)
        found = e->args[i] != NULL && expr_volatile(e->args[i]);
    return found;
}
