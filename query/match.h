/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Filters: a parsed match document and its test against raw documents.
 *
 * Parsed once per cursor into the cursor's arena, immutable after, usable by one thread at a time
 * (regular expressions keep match state).
 */
#ifndef RUNNEL_QUERY_MATCH_H
#define RUNNEL_QUERY_MATCH_H

#include "query/expr.h"

struct match;

struct match_options {
    const struct expr_vars *vars; /* let variables for $expr; may be NULL */
    bool allow_text_where;        /* never set: $text and $where are refused with their codes */
};

/* {} matches everything. Errors are set in op with MongoDB's codes. */
int match_parse(struct op *op, struct arena *a, struct bv filter, const struct match_options *o,
                struct match **ret) MUST_CHECK;
/* *ret_position: for positional updates, the index in the array that matched (-1: none); may be
 * NULL. */
int match_test(const struct match *m, struct eval *ev, struct bv doc, bool *ret,
               int32_t *ret_position) MUST_CHECK;
bool match_is_empty(const struct match *m);

/*
 * Testing a document of which not all is at hand. MATCH_NO and MATCH_YES are what match_test() on
 * the whole document is certain to give. MATCH_MAYBE: that cannot be told, but the test will not
 * fail. MATCH_RISK: it cannot be told and the test may fail, so nothing may be concluded from what
 * stands behind it.
 */
enum match_answer { MATCH_NO, MATCH_YES, MATCH_MAYBE, MATCH_RISK };
struct match_fields {
    /* The value of a top-level field, BV_NONE when the document has none of that name. False: it is
     * not at hand. The view must live until the test is over. */
    bool (*get)(void *arg, const char *name, struct bv *ret);
    /* False for fields that are never at hand, whatever the document. */
    bool (*ever)(const char *name);
    void *arg;
};
/* Sets no error. */
enum match_answer match_foresee(const struct match *m, struct eval *ev,
                                const struct match_fields *f);
/* What match_foresee() can at all come to with such fields: whether MATCH_NO is among it, and
 * whether MATCH_RISK is. */
void match_outlook(const struct match *m, const struct match_fields *f, bool *ret_no,
                   bool *ret_risk);

/* For the planner and for push-down: a read-only view of the tree. */
enum match_kind {
    MATCH_AND,
    MATCH_OR,
    MATCH_NOR,
    MATCH_NOT,
    MATCH_ALWAYS_TRUE,
    MATCH_ALWAYS_FALSE,
    MATCH_EQ,
    MATCH_LT,
    MATCH_LTE,
    MATCH_GT,
    MATCH_GTE,
    MATCH_NE,
    MATCH_IN,
    MATCH_NIN,
    MATCH_EXISTS,
    MATCH_TYPE,
    MATCH_REGEX,
    MATCH_SIZE,
    MATCH_MOD,
    MATCH_ALL,
    MATCH_ELEM_VALUE,
    MATCH_ELEM_OBJECT,
    MATCH_BITS,
    MATCH_EXPR,
    MATCH_OTHER,
};
enum match_kind match_kind(const struct match *m);
const char *match_path(const struct match *m); /* leaf: dotted path; "" for logic */
struct bv match_value(const struct match *m);  /* comparison operand, $in array, ... */
size_t match_nchildren(const struct match *m);
const struct match *match_child(const struct match *m, size_t i);
/* MATCH_IN, MATCH_NIN: the values without regular expressions, sorted, unique; *ret_regexes tells
 * whether there are any of these. */
size_t match_in_values(const struct match *m, const struct bv **ret, bool *ret_regexes);
/* MATCH_REGEX: pattern and flags, NUL-terminated. */
void match_regex(const struct match *m, const char **ret_pattern, const char **ret_flags);
/* The first part of every dotted path the filter reads: calls fn per path; fn(arg, "") when it
 * may read anything ($expr with $$ROOT, $where). */
void match_paths(const struct match *m, void (*fn)(void *arg, const char *path), void *arg);
/* Renders the filter as a document for explain. */
struct bv match_show(const struct match *m, struct arena *a);

#endif
