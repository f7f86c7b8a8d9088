/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the families of operators (query/expr_*.c) share: the parsed tree, the parser, the helpers.
 * Users of expressions include query/expr.h only.
 *
 * An operator is a row of query/expr_ops.def and an evaluation function in its family's file.
 * Every expression a node depends on stands in its args, so that walks (constant folding, paths
 * read) need to know nothing of operators. A named argument that was not given is a NULL entry.
 */
#ifndef RUNNEL_QUERY_EXPR_OP_H
#define RUNNEL_QUERY_EXPR_OP_H

#include "base/bw.h"
#include "base/decimal.h"
#include "base/limits.h"
#include "query/expr.h"

enum expr_kind {
    EXPR_CONST,  /* value */
    EXPR_PATH,   /* base variable and, perhaps, a path into it */
    EXPR_OBJECT, /* names[i]: args[i] */
    EXPR_LIST,   /* [args...] */
    EXPR_CALL,   /* row(args...) */
};

/* What a path starts from: a user variable's slot (>= 0) or one of these. */
enum expr_base {
    BASE_CURRENT = -1,
    BASE_ROOT = -2,
    BASE_NOW = -3,
    BASE_CLUSTER_TIME = -4,
};

struct expr_path {
    const char *full; /* "a.b"; "" for the variable itself */
    const char **names;
    uint32_t *lens;
    uint32_t n;
};

struct expr {
    enum expr_kind kind;
    bool is_volatile; /* differs from one evaluation to the next: never folded */
    int base;         /* PATH */
    uint32_t nargs;
    const struct expr_row *row; /* CALL */
    struct expr **args;
    const char **names;    /* OBJECT */
    struct expr_path path; /* PATH */
    struct bv value;       /* CONST; missing is a value too */
    void *data;            /* CALL: what the operator's parser prepared; int slots etc. */
};

struct expr_parser {
    struct op *op;
    struct arena *a;
    struct expr_vars *vars; /* never NULL */
    unsigned depth;
};

typedef int (*expr_parse_fn)(struct expr_parser *p, struct bv spec, struct expr *e);
typedef int (*expr_eval_fn)(const struct expr *e, struct eval *ev, struct bv *ret);

/* A row of expr_ops.def. */
struct expr_row {
    const char *name;
    int min, max;        /* number of operands; max -1: any */
    int code_not_object; /* named arguments: errors */
    int code_unknown;
    const char *fields;  /* named arguments: "name=<code when missing> optional ..." */
    expr_parse_fn parse; /* NULL: operands by min and max, or by fields */
    expr_eval_fn eval;   /* NULL: known to MongoDB, not built here */
};

/* --- parsing -------------------------------------------------------------------------------- */

/* One operand, one level deeper. */
int expr_parse_operand(struct expr_parser *p, struct bv v, struct expr **ret) MUST_CHECK;
/* Named arguments of row->fields into e->args, in the order of the fields. */
int expr_parse_named(struct expr_parser *p, struct bv spec, struct expr *e) MUST_CHECK;
/* Declares a variable for what is parsed until expr_scope_end(p, mark). The name is checked:
 * "this", "value" and the like are ours and pass. */
int expr_scope_add(struct expr_parser *p, const char *name, int *ret_slot) MUST_CHECK;
static inline int expr_scope_begin(const struct expr_parser *p)
{
    return p->vars->n;
}
static inline void expr_scope_end(struct expr_parser *p, int mark)
{
    p->vars->n = mark;
}
/* MongoDB's rules for names that users give to variables; CURRENT passes. */
int expr_check_var_name(struct op *op, const char *name) MUST_CHECK;
/* Checks and splits a dotted path ("a.b", no dollar) into the arena. */
int expr_parse_path(struct op *op, struct arena *a, const char *s, size_t n,
                    struct expr_path *ret) MUST_CHECK;
/* A string of the spec as a C string; an embedded NUL is error 16411. */
int expr_cstr(struct expr_parser *p, struct bv v, const char **ret) MUST_CHECK;

/* --- evaluating ----------------------------------------------------------------------------- */

/* Operand i; BV_NONE for a named one that was not given. */
static inline int expr_arg(const struct expr *e, uint32_t i, struct eval *ev, struct bv *ret)
{
    if (e->args[i] == NULL) {
        *ret = BV_NONE;
        return 0;
    }
    return expr_eval(e->args[i], ev, ret);
}

/* The finished document or array; an error when it grew past what a value may have. */
int expr_done(struct eval *ev, struct bw *w, struct bv *ret) MUST_CHECK;
/* A new string in the scratch arena, its size checked. */
int expr_string(struct eval *ev, const char *s, size_t n, struct bv *ret) MUST_CHECK;
/* Room for n bytes of a string being built: *ret_bytes is where they go. */
int expr_string_room(struct eval *ev, size_t n, char **ret_bytes, struct bv *ret) MUST_CHECK;
/* Follows a path from v as "$v.path" does: arrays on the way give arrays. */
int expr_path_eval(const struct expr_path *path, struct bv v, struct eval *ev,
                   struct bv *ret) MUST_CHECK;
/* Every few hundred turns of a loop over client data. */
static inline int expr_tick(struct eval *ev, uint32_t i)
{
    return (i & 1023) == 1023 ? op_check(ev->op) : 0;
}
/* The name of the operator, for error texts. */
static inline const char *expr_name(const struct expr *e)
{
    return e->row->name;
}

static inline struct bv expr_null(void)
{
    return bv_null;
}

/* A number as it is needed for decimal arithmetic. */
struct decimal number_decimal(struct bv v);
struct bv number_from_decimal(struct arena *a, struct decimal d);
/* int32 when it fits and `wide` is false, else int64. */
struct bv number_from_i64(struct arena *a, int64_t x, bool wide);

/* Strings as they are, null and missing as "", numbers and dates as text; 16007 for the rest. */
int expr_coerce_string(struct eval *ev, struct bv v, struct bv *ret) MUST_CHECK;
/* Optional operand i of a search: a whole number >= 0, 40096 or 40097 else. Untouched when not
 * given. */
int expr_search_bound(const struct expr *e, struct eval *ev, uint32_t i, const char *what,
                      int64_t *ret) MUST_CHECK;
/* Elements of an array for random access; views, the table in the scratch arena. */
int expr_elements(struct eval *ev, struct bv array, struct bv **ret, uint32_t *ret_n) MUST_CHECK;

#define EXPR_ARGS(name, min, max, fn) int fn(const struct expr *e, struct eval *ev, struct bv *ret);
#define EXPR_NAMED(name, not_object, unknown, fields, fn)                                          \
    int fn(const struct expr *e, struct eval *ev, struct bv *ret);
#define EXPR_CUSTOM(name, parser, fn)                                                              \
    int parser(struct expr_parser *p, struct bv spec, struct expr *e);                             \
    int fn(const struct expr *e, struct eval *ev, struct bv *ret);
#define EXPR_UNBUILT(name)
#include "query/expr_ops.def"
#undef EXPR_ARGS
#undef EXPR_NAMED
#undef EXPR_CUSTOM
#undef EXPR_UNBUILT

#endif
