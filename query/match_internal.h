/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The filter tree; shared by query/match*.c only. */
#ifndef RUNNEL_QUERY_MATCH_INTERNAL_H
#define RUNNEL_QUERY_MATCH_INTERNAL_H

#include "query/doc_path.h"
#include "query/match.h"
#include "query/regex.h"

enum bits_test { BITS_ALL_SET, BITS_ALL_CLEAR, BITS_ANY_SET, BITS_ANY_CLEAR };

struct match_regex {
    const char *pattern, *flags;
    struct regex *code;
};

struct match_in {
    struct bv *values; /* sorted, unique; no regular expressions */
    size_t nvalues;
    struct match_regex *regexes;
    size_t nregexes;
    bool has_null;
};

struct match {
    enum match_kind kind;
    /* What a value is tested for: kind, but EQ for NE and IN for NIN. */
    enum match_kind test;
    bool negate;               /* NE, NIN: true when no value at the path passes the test */
    const char *op;            /* operator name for explain; NULL for logic */
    const char *path;          /* leaf; "" for logic and inside a value $elemMatch */
    const struct doc_path *dp; /* of path */
    struct bv value;           /* the operand */
    const struct match **children;
    size_t nchildren;
    union {
        struct match_in in;
        struct match_regex regex;
        uint64_t types; /* see match_type_bit() */
        int64_t size;
        struct {
            int64_t divisor, remainder;
        } mod;
        struct {
            enum bits_test test;
            uint32_t n;
            const uint32_t *at; /* bit positions */
        } bits;
        struct {
            struct expr *e;
            const char **paths; /* first parts of the field paths it reads */
            size_t npaths;
        } expr;
    } u;
};

/* A growing list of children, in the parser's arena. */
struct match_list {
    const struct match **v;
    size_t n, cap;
};

struct match_parser {
    struct op *op;
    struct arena *a;
    const struct match_options *o;
    size_t start_bytes; /* the arena's size at the beginning: regular expressions are bounded */
};

/* Where an operator stands. */
struct match_at {
    const char *path;
    const struct doc_path *dp;
    struct bv siblings; /* the operator document it is part of */
    unsigned depth;
    bool in_elem_match;
};

/* *ret stays NULL for operators that test nothing ($comment, $options). */
typedef int (*match_parse_fn)(struct match_parser *p, const struct match_at *at,
                              const struct belem *e, enum match_kind kind, struct match **ret);

struct match *match_node(struct match_parser *p, enum match_kind kind, const struct match_at *at,
                         const struct belem *e);
int match_list_add(struct match_parser *p, struct match_list *l, const struct match *m) MUST_CHECK;
/* AND of the list: itself for one child, ALWAYS_TRUE for none. */
struct match *match_list_and(struct match_parser *p, struct match_list *l);
/* A whole filter document. */
int match_parse_filter(struct match_parser *p, struct bv filter, unsigned depth, bool in_elem_match,
                       struct match **ret) MUST_CHECK;
/* An operator document {$gt: 1, $lt: 5} at a path: adds a child per operator. */
int match_parse_operators(struct match_parser *p, const struct match_at *at, struct bv doc,
                          struct match_list *l) MUST_CHECK;
/* True for {$op: ...}: an object whose first name begins with $ and that is no DBRef. */
bool match_is_operators(struct bv v);
bool match_is_top_operator(const char *name);
int match_bad_value(struct match_parser *p, const char *text);
/* An element as MongoDB shows it in error texts: $size: "x" */
const char *match_show_elem(struct match_parser *p, const struct belem *e);
int match_check_depth(struct match_parser *p, unsigned depth, struct bv at) MUST_CHECK;

/* A leaf's test when the first part of its path has led to v (BV_NONE: nowhere). */
int match_test_below(const struct match *m, struct eval *ev, struct bv v, bool *ret) MUST_CHECK;

/* The bit of a BSON type in a $type set. */
static inline uint64_t match_type_bit(uint8_t type)
{
    return 1ULL << (type == BV_MINKEY ? 62 : type == BV_MAXKEY ? 61 : type & 31);
}

/* Parsers named in match_ops.def. */
#define FIELD_OP(name, fn, kind)                                                                   \
    int match_##fn(struct match_parser *p, const struct match_at *at, const struct belem *e,       \
                   enum match_kind k, struct match **ret) MUST_CHECK;
#define UNBUILT_FIELD_OP(name)
#define TOP_OP FIELD_OP
#define UNBUILT_TOP_OP(name)
#include "query/match_ops.def"
#undef FIELD_OP
#undef UNBUILT_FIELD_OP
#undef TOP_OP
#undef UNBUILT_TOP_OP

#endif
