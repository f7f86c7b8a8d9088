/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Shared by query/update*.c: the tree of paths that an update document becomes, and how operators
 * see one field.
 *
 * An operator document is parsed into leaves (an operator and its argument at a path). They are
 * sorted by path - part by part, numbers by value and before names - which is the order in which
 * MongoDB (5.0 and later) works and makes new fields; neighbours in that order show conflicts. From
 * the sorted leaves comes a tree with a node per path part. Applying walks the tree and the old
 * document together, writing the new document and its diff.
 */
#ifndef RUNNEL_QUERY_UPDATE_INTERNAL_H
#define RUNNEL_QUERY_UPDATE_INTERNAL_H

#include "base/diff.h"
#include "base/limits.h"
#include "query/doc_path.h"
#include "query/pipeline.h"
#include "query/update.h"

enum update_part_kind {
    PART_NAME,       /* a field name or an array index */
    PART_POSITIONAL, /* $ */
    PART_EACH,       /* $[] or $[id] */
};

/* An entry of arrayFilters. */
struct update_filter {
    const char *id;
    const struct match *match; /* of {id: element} */
    bool used;
};

struct update_part {
    const char *name;
    uint32_t len;
    enum update_part_kind kind;
    int32_t index;                      /* PART_NAME: as an array index, or -1 */
    const struct update_filter *filter; /* PART_EACH; NULL: all elements */
};

struct update_leaf;
struct update_apply;
struct update_parser;
struct outcome;

enum update_creates { CREATES, CREATES_NOTHING, CREATES_ON_INSERT, CREATES_WITH_SOURCE };

struct update_op {
    const char *name;
    /* Checks l->arg and may fill l->parsed. */
    int (*parse)(struct update_parser *p, struct update_leaf *l);
    /* What becomes of the field; `old` is BV_NONE where there is none. */
    int (*apply)(struct update_apply *x, const struct update_leaf *l, struct bv old,
                 struct outcome *ret);
    enum update_creates creates;
};

/* $rename: the two leaves that it became. */
struct update_rename {
    const struct update_leaf *source, *target;
    size_t at; /* in update_apply.renamed */
};

struct update_leaf {
    const struct update_op *op;
    const char *path; /* as written */
    const struct update_part *parts;
    uint32_t nparts;
    uint32_t seq;  /* place in the update document */
    struct bv arg; /* borrowed from the update document */
    const void *parsed;
};

struct update_node {
    const struct update_part *part; /* NULL: the root */
    const struct update_leaf *leaf; /* NULL: an inner node */
    struct update_node **children;  /* in the order of update_cmp_parts() */
    size_t nchildren;
};

struct update {
    enum update_form form;
    struct bv spec;           /* the update as given */
    struct update_node *root; /* UPDATE_OPERATORS */
    const struct update_rename **renames;
    size_t nrenames;
    bool may_deepen;           /* the new document may be nested too deeply */
    bool keep_empty_ts;        /* see struct update_spec */
    struct pipeline *pipeline; /* UPDATE_PIPELINE */
    struct expr_vars *vars;    /* with the constants */
};

struct update_parser {
    struct op *op;
    struct arena *a;
    struct update *u;
    const struct expr_vars *vars; /* of the command, for $expr; may be NULL */
    struct update_filter *filters;
    size_t nfilters;
    struct update_leaf **leaves;
    size_t nleaves, cap_leaves;
};

/* --- parsing (update_parse.c, update_tree.c) -------------------------------------------------- */

int update_cmp_parts(const struct update_part *a, const struct update_part *b);
/* A new leaf at a dotted path; its operator is not parsed yet. */
int update_add_leaf(struct update_parser *p, const struct update_op *op, const char *path,
                    struct bv arg, struct update_leaf **ret) MUST_CHECK;
/*
 * The tree of p's leaves. When two of them conflict: *ret_later and *ret_prefix are the leaf that
 * came later in the document and the one whose path is the shorter; *ret is NULL then.
 */
int update_build_tree(struct update_parser *p, struct update_node **ret,
                      const struct update_leaf **ret_later,
                      const struct update_leaf **ret_prefix) MUST_CHECK;

/* --- applying (update_apply.c) ---------------------------------------------------------------- */

enum outcome_kind {
    OUTCOME_NONE,   /* nothing happens */
    OUTCOME_SET,    /* the field becomes v */
    OUTCOME_UNSET,  /* the field goes; an array element becomes null */
    OUTCOME_APPEND, /* the elements of v are added to the end of the old array */
};

struct outcome {
    enum outcome_kind kind;
    struct bv v;
};

/* One part of the path at which the walk stands: a field, or (name NULL) an array element. */
struct update_step {
    const char *name;
    uint32_t len;
    uint32_t index;
};

struct update_apply {
    struct op *op;
    struct eval *ev;
    struct arena *a; /* ev->scratch */
    const struct update *u;
    struct bv doc;       /* the old document */
    int32_t position;    /* of the positional operator; -1: none */
    bool inserting;      /* an upsert's document */
    struct bv *renamed;  /* by update_rename.at: the value to move, or BV_NONE */
    struct bw w;         /* the new document */
    struct bw candidate; /* {id: element}, for array filters */
    struct bw_mark candidate_start;
    bool candidate_begun;
    struct update_step path[LIMIT_DEPTH_MESSAGE + 1]; /* where the walk stands */
    uint32_t depth;
};

/* Applies the operators to x->doc (a document): the new one, and its diff. */
int update_apply_tree(struct update_apply *x, struct bv *ret,
                      struct diff_node **ret_diff) MUST_CHECK;
/* Looks up what each $rename moves, before anything changes; fills x->renamed. */
int update_find_renamed(struct update_apply *x) MUST_CHECK;
/* Tests {id: v} against the filter. */
int update_test_element(struct update_apply *x, const char *id, const struct match *m, struct bv v,
                        bool *ret) MUST_CHECK;

/* --- the walk (update_walk.c) ----------------------------------------------------------------- */

void update_step_into(struct update_apply *x, const char *name, uint32_t len);
void update_step_at(struct update_apply *x, uint32_t index);
void update_step_back(struct update_apply *x);
/* For error texts: the path at which the walk stands, its last part, and "_id: 1". */
const char *update_path_text(const struct update_apply *x);
const char *update_field_text(const struct update_apply *x);
const char *update_id_text(const struct update_apply *x);

/* True when something at or below n would make a field where there is none. */
bool update_creates(const struct update_apply *x, const struct update_node *n);
const struct update_leaf *update_first_leaf(const struct update_node *n);
bool update_has_child(const struct update_node *n, enum update_part_kind kind);
/* The child with the name of that field; NULL when there is none. */
struct update_node **update_find_child(const struct update_node *n, const struct belem *e);
/* Both nodes' children in one node; leaves cannot be merged (40). The walk stands at their place.
 */
int update_merge(struct update_apply *x, const struct update_node *a, const struct update_node *b,
                 struct update_node **ret) MUST_CHECK;
/* The node with the positional $ among its children replaced by the index that the query found. */
int update_resolve_positional(struct update_apply *x, const struct update_node *n,
                              const struct update_node **ret) MUST_CHECK;

/* --- operators (update_field.c, _rename.c, _number.c, _push.c, _array.c) --------------------- */

#define UPDATE_OP(name, parser, function, creates)                                                 \
    int parser(struct update_parser *p, struct update_leaf *l) MUST_CHECK;                         \
    int function(struct update_apply *x, const struct update_leaf *l, struct bv old,               \
                 struct outcome *ret) MUST_CHECK;
#include "query/update_ops.def"
#undef UPDATE_OP

static inline int outcome_set(struct outcome *ret, struct bv v)
{
    *ret = (struct outcome){OUTCOME_SET, v};
    return 0;
}

/* The field goes, if it is there. */
static inline int outcome_unset(struct outcome *ret, struct bv old)
{
    *ret = (struct outcome){bv_is_missing(old) ? OUTCOME_NONE : OUTCOME_UNSET, BV_NONE};
    return 0;
}

static inline int outcome_none(struct outcome *ret)
{
    *ret = (struct outcome){OUTCOME_NONE, BV_NONE};
    return 0;
}

/* A set of values under comparison equality (update_values.c). */
struct value_set;
/* Room for n values. */
int value_set_new(struct op *op, struct arena *a, size_t n, struct value_set **ret) MUST_CHECK;
/* False when an equal value is there already. */
bool value_set_add(struct value_set *s, struct bv v);
bool value_set_has(const struct value_set *s, struct bv v);

/* The elements of up to three arrays, as a vector to rearrange (update_values.c). */
struct values {
    struct bv *v;
    size_t n;
};
int values_collect(struct op *op, struct arena *a, const struct bv *arrays, size_t narrays,
                   struct values *ret) MUST_CHECK;
/* The vector written as an array. */
int values_write(struct op *op, struct arena *a, const struct values *v, struct bv *ret) MUST_CHECK;

#endif
