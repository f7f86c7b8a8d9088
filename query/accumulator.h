/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Accumulators of $group, and of the expressions of the same names.
 *
 * An accumulator is a row of query/accumulators.def with the functions of its kind. Its state is
 * row->size bytes, zeroed at first, 16-byte aligned, owned by the caller; what a state holds
 * besides is on the heap and counted in *bytes, so that $group knows when to spill. A state that
 * is spilled becomes a value (partial) and is merged again later, in order of arrival.
 */
#ifndef RUNNEL_QUERY_ACCUMULATOR_H
#define RUNNEL_QUERY_ACCUMULATOR_H

#include "base/bw.h"
#include "base/decimal.h"
#include "base/limits.h"
#include "query/expr.h"

struct accumulator;
struct stage_parser;

struct acc_ops {
    size_t size;
    int (*add)(void *state, const struct accumulator *acc, struct eval *ev, struct bv v,
               size_t *bytes);
    int (*merge)(void *state, const struct accumulator *acc, struct eval *ev, struct bv partial,
                 size_t *bytes);
    int (*partial)(const void *state, const struct accumulator *acc, struct eval *ev,
                   struct bv *ret);
    /* Missing counts as null in $group. The value lives in the scratch arena or the state. */
    int (*result)(const void *state, const struct accumulator *acc, struct eval *ev,
                  struct bv *ret);
    void (*free)(void *state); /* NULL: nothing on the heap */
};

struct acc_row {
    const char *name;
    const struct acc_ops *ops;
    /* Parses what stands behind the name; NULL: one expression. */
    int (*parse)(struct op *op, struct arena *a, struct bv spec, struct expr_vars *vars,
                 struct accumulator *ret);
    int mode; /* tells members of one kind apart; the kind's own meaning */
};

/* A parsed accumulator. */
struct accumulator {
    const struct acc_row *row;
    struct expr *arg;       /* evaluated per row, its value given to add() */
    int64_t n;              /* how many values the N kinds keep */
    bool single;            /* $top, $bottom: the value itself and no array */
    struct sort_spec *sort; /* of $top and its kin; their arg gives {k: [keys...], v: output} */
};

/* NULL: no such accumulator. */
const struct acc_row *acc_find(const char *name);
/* Parses {$name: spec}'s spec. */
int acc_parse(struct op *op, struct arena *a, const struct acc_row *row, struct bv spec,
              struct expr_vars *vars, struct accumulator *ret) MUST_CHECK;
/* Evaluates the argument for ev's row and adds it. */
int acc_add_row(void *state, const struct accumulator *acc, struct eval *ev,
                size_t *bytes) MUST_CHECK;

/* --- for the families
 * ------------------------------------------------------------------------------ */

/* One value kept on the heap. */
struct held {
    uint8_t *p;
    uint32_t len, cap;
    uint8_t type;
};
int held_set(struct held *h, struct op *op, struct bv v, size_t *bytes) MUST_CHECK;
void held_free(struct held *h);
static inline struct bv held_value(const struct held *h)
{
    return (struct bv){h->p, h->len, h->type};
}

/* The partial of a state without pointers is the state. */
struct bv acc_partial_bytes(struct eval *ev, const void *state, size_t size);

/* Defines the operations of a kind. */
#define ACC_OPS(name, ...) const struct acc_ops name = {__VA_ARGS__}

#define ACCUMULATOR(name, operations, parser, mode) extern const struct acc_ops operations;
#include "query/accumulators.def"
#undef ACCUMULATOR

int acc_parse_count(struct op *op, struct arena *a, struct bv spec, struct expr_vars *vars,
                    struct accumulator *ret);
int acc_parse_n(struct op *op, struct arena *a, struct bv spec, struct expr_vars *vars,
                struct accumulator *ret);
int acc_parse_top(struct op *op, struct arena *a, struct bv spec, struct expr_vars *vars,
                  struct accumulator *ret);
int acc_parse_top_n(struct op *op, struct arena *a, struct bv spec, struct expr_vars *vars,
                    struct accumulator *ret);

#endif
