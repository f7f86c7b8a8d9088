/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * $unwind: a row per element of an array.
 *
 * The row being unwound is copied into memory of the stage's own, since the rows made of it go
 * down the pipeline one by one while scratch memory is reset between them.
 */
#include "query/expr_op.h"
#include "query/stage.h"

struct unwind {
    struct stage s;
    struct expr_path path;
    const char *index; /* includeArrayIndex; NULL: not wanted */
    bool preserve;

    struct arena held; /* the row being unwound */
    struct bv row;     /* BV_NONE: fetch the next one */
    struct biter it;   /* over its array */
    int64_t at;
};

/* Copies doc with the field at path[i] replaced by v (missing: removed). Documents that are not
 * there are made. */
static void copy_with(const struct unwind *u, uint32_t i, struct bv doc, struct bv v, struct bw *w)
{
    const char *name = u->path.names[i];
    uint32_t len = u->path.lens[i];
    struct biter it = biter(doc);
    struct belem e;
    bool seen = false;

    while (biter_next(&it, &e)) {
        if (e.key_len != len || memcmp(e.key, name, len) != 0) {
            bw_elem(w, &e);
            continue;
        }
        seen = true;
        if (i + 1 == u->path.n) {
            bw_bvn(w, name, len, v);
        } else if (e.v.type == BV_DOC) {
            bw_doc_beginn(w, name, len);
            copy_with(u, i + 1, e.v, v, w);
            bw_end(w);
        } else {
            bw_elem(w, &e);
        }
    }
    if (!seen && i + 1 == u->path.n)
        bw_bvn(w, name, len, v);
}

/* Copies doc with a top-level or nested field set, as $addFields would; the last one wins. */
static void set_path(const char *path, struct bv doc, struct bv v, struct bw *w)
{
    size_t len = strcspn(path, ".");
    struct biter it = biter(doc);
    bool seen = false;
    struct belem e;

    while (biter_next(&it, &e)) {
        if (e.key_len != len || memcmp(e.key, path, len) != 0) {
            bw_elem(w, &e);
            continue;
        }
        seen = true;
        if (path[len] == '\0') {
            bw_bvn(w, path, len, v);
        } else {
            bw_doc_beginn(w, path, len);
            set_path(path + len + 1, e.v.type == BV_DOC ? e.v : bv_empty_doc, v, w);
            bw_end(w);
        }
    }
    if (seen)
        return;
    if (path[len] == '\0') {
        bw_bvn(w, path, len, v);
    } else {
        bw_doc_beginn(w, path, len);
        set_path(path + len + 1, bv_empty_doc, v, w);
        bw_end(w);
    }
}

/* The row to give: `row` with the array replaced by v, and the index (-1: null). */
static int make_row(struct unwind *u, struct exec *x, bool replace, struct bv v, int64_t index,
                    struct bv *ret)
{
    struct bv doc = u->row;
    struct bw w;

    if (replace) {
        bw_init(&w, &x->scratch);
        copy_with(u, 0, doc, v, &w);
        TRY_RETURN(expr_done(&x->ev, &w, &doc));
    }
    if (u->index != NULL) {
        struct bv number = index < 0 ? bv_null : bv_new_i64(&x->scratch, index);

        bw_init(&w, &x->scratch);
        set_path(u->index, doc, number, &w);
        TRY_RETURN(expr_done(&x->ev, &w, &doc));
    }
    *ret = doc;
    return 0;
}

/* The value at the path, through documents only. */
static struct bv find(const struct unwind *u, struct bv v)
{
    for (uint32_t i = 0; i < u->path.n; i++) {
        if (v.type != BV_DOC)
            return BV_NONE;
        v = bv_getn(v, u->path.names[i], u->path.lens[i]);
    }
    return v;
}

/* Begins with a new row. *ret_given: it gave a row at once; else its array is being unwound, or it
 * was dropped (u->row is missing then). */
static int begin_row(struct unwind *u, struct exec *x, struct bv row, struct bv *ret,
                     bool *ret_given)
{
    struct bv v = find(u, row);

    *ret_given = false;
    if (v.type == BV_ARRAY && !bv_empty(v)) {
        arena_reset(&u->held);
        TRY_RETURN(op_dup(x->op, &u->held, row, &u->row));
        u->it = biter(find(u, u->row));
        u->at = 0;
        arena_reset(&x->scratch);
        return 0;
    }
    if ((bv_is_nullish(v) || v.type == BV_ARRAY) && !u->preserve) {
        arena_reset(&x->scratch);
        return 0;
    }
    u->row = row;
    *ret_given = true;
    TRY_RETURN(make_row(u, x, v.type == BV_ARRAY, BV_NONE, -1, ret));
    u->row = BV_NONE;
    return 0;
}

static int unwind_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct unwind *u = (struct unwind *)s;
    struct belem e;

    for (;;) {
        struct bv row;
        bool given;

        if (!bv_is_missing(u->row)) {
            if (biter_next(&u->it, &e)) {
                *ret_more = true;
                return make_row(u, x, true, e.v, u->at++, ret);
            }
            u->row = BV_NONE;
        }
        TRY_RETURN(op_check(x->op));
        TRY_RETURN(stage_next(s->source, x, &row, ret_more));
        *ret = row;
        if (bv_is_missing(row))
            return 0;
        TRY_RETURN(begin_row(u, x, row, ret, &given));
        if (given)
            return 0;
    }
}

static void unwind_close(struct stage *s)
{
    arena_fini(&((struct unwind *)s)->held);
}

static const struct stage_ops unwind_ops = {
    .name = "$unwind", .next = unwind_next, .close = unwind_close};

static int parse_index(struct stage_parser *p, struct bv v, struct unwind *u)
{
    struct expr_path path;
    const char *s;
    uint32_t n;

    if (v.type != BV_STRING || (s = bv_str(v, &n), n == 0))
        return op_fail(p->op, 28810,
                       "expected a non-empty string for the includeArrayIndex  option to $unwind "
                       "stage, got %s",
                       bv_type_name(v.type));
    if (s[0] == '$')
        return op_fail(p->op, 28822,
                       "includeArrayIndex option to $unwind stage should not be prefixed with a "
                       "'$': %s",
                       s);
    TRY_RETURN(expr_parse_path(p->op, p->a, s, n, &path));
    u->index = path.full;
    return 0;
}

static int parse_options(struct stage_parser *p, struct unwind *u, struct bv *ret_path)
{
    struct biter it = biter(p->spec);
    struct belem e;

    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "path") == 0) {
            if (e.v.type != BV_STRING)
                return op_fail(p->op, 28808,
                               "expected a string as the path for $unwind stage, got %s",
                               bv_type_name(e.v.type));
            *ret_path = e.v;
        } else if (strcmp(e.key, "preserveNullAndEmptyArrays") == 0) {
            if (e.v.type != BV_BOOL)
                return op_fail(p->op, 28809,
                               "expected a boolean for the preserveNullAndEmptyArrays option to "
                               "$unwind stage, got %s",
                               bv_type_name(e.v.type));
            u->preserve = bv_bool(e.v);
        } else if (strcmp(e.key, "includeArrayIndex") == 0) {
            TRY_RETURN(parse_index(p, e.v, u));
        } else {
            return op_fail(p->op, 28811, "unrecognized option to $unwind stage: %s", e.key);
        }
    }
    return 0;
}

int stage_unwind_parse(struct stage_parser *p, struct stage **ret)
{
    struct unwind *u = STAGE_NEW(p, struct unwind, &unwind_ops);
    struct bv path = BV_NONE;
    const char *s;
    uint32_t n;

    if (p->spec.type == BV_STRING)
        path = p->spec;
    else if (p->spec.type == BV_DOC)
        TRY_RETURN(parse_options(p, u, &path));
    else
        return op_fail(p->op, 15981,
                       "expected either a string or an object as specification for $unwind stage, "
                       "got %s",
                       bv_type_name(p->spec.type));
    if (bv_is_missing(path) || (s = bv_str(path, &n), n == 0))
        return op_fail(p->op, 28812, "no path specified to $unwind stage");
    if (s[0] != '$')
        return op_fail(p->op, 28818,
                       "path option to $unwind stage should be prefixed with a '$': %s", s);
    TRY_RETURN(expr_parse_path(p->op, p->a, s + 1, n - 1, &u->path));
    *ret = &u->s;
    return 0;
}
