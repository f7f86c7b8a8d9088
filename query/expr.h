/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Aggregation expressions.
 *
 * Parsed into an arena (the cursor's), evaluated against a root document into a scratch arena.
 * A result is a view into the root, the constants or the scratch arena.
 */
#ifndef RUNNEL_QUERY_EXPR_H
#define RUNNEL_QUERY_EXPR_H

#include "base/op.h"

struct expr;

/* Variables by slot. Names are resolved to slots when parsing. */
enum { EXPR_VARS_MAX = 64 };
struct expr_vars { /* parse-time scope: names of user variables, innermost last */
    const char *names[EXPR_VARS_MAX];
    int slots[EXPR_VARS_MAX];
    int n;
    int nslots; /* slots used so far by the whole parse */
    /* let variables of the command: constants, by slot */
    struct bv values[EXPR_VARS_MAX];
};

/* One evaluation context; lives for a batch. */
struct eval {
    struct op *op;
    struct arena *scratch; /* reset by whoever drops a row */
    struct bv root;        /* $$ROOT */
    struct bv current;     /* $$CURRENT; the same as root unless rebound */
    struct bv vars[EXPR_VARS_MAX];
    int64_t now_ms;        /* $$NOW, constant for the command */
    uint64_t cluster_time; /* $$CLUSTER_TIME */
};
/* $$NOW is the wall clock now; callers that must keep it over batches set now_ms themselves. */
void eval_init(struct eval *ev, struct op *op, struct arena *scratch);
/* The document that paths are read from. */
static inline void eval_set_row(struct eval *ev, struct bv doc)
{
    ev->root = doc;
    ev->current = doc;
}

/* An expression as it stands in a pipeline: constant, "$path", "$$var.path", {$op: ...}, object,
 * array. Errors with MongoDB's codes, set in op. vars may be NULL. */
int expr_parse(struct op *op, struct arena *a, struct bv v, struct expr_vars *vars,
               struct expr **ret) MUST_CHECK;
/* BV_NONE: missing. */
int expr_eval(const struct expr *e, struct eval *ev, struct bv *ret) MUST_CHECK;
/* True, and the value, when it does not depend on the document. */
bool expr_constant(const struct expr *e, struct bv *ret);
/* "a.b" when the expression is exactly the field path "$a.b"; else NULL. */
const char *expr_field_path(const struct expr *e);
/* Calls fn for every field path read ("" for the whole document). */
void expr_paths(const struct expr *e, void (*fn)(void *arg, const char *path), void *arg);

/* True when it reads the document at all ($$ROOT included). */
bool expr_reads_document(const struct expr *e);
/* True when it may differ from one evaluation to the next ($rand). */
bool expr_volatile(const struct expr *e);
/* True for names of operators ("$add"), also of those that are not built. */
bool expr_known(const char *name);

/* Parses a `let` document {name: expression} into vars (values evaluated at once: they may not
 * read fields). */
int expr_parse_let(struct op *op, struct arena *a, struct bv let, struct eval *ev,
                   struct expr_vars *vars) MUST_CHECK;

/* Arithmetic shared with update operators and accumulators: result type rules of $add and
 * $multiply (int32 overflows to int64, int64 to double; double wins over ints; decimal over all;
 * ret_overflow set when $inc would have to fail). Operands must be numbers. */
struct bv number_add(struct arena *a, struct bv x, struct bv y, bool *ret_overflow);
struct bv number_mul(struct arena *a, struct bv x, struct bv y, bool *ret_overflow);

#endif
