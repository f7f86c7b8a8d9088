/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Which way a filter's documents are found: a scan of the collection, or of ranges of one index.
 *
 * Bounds only narrow the search: the filter is tested on every document, so a bound may be too
 * wide, never too narrow. Rules of choice, best first: the _id, a unique key, the longest run of
 * leading fields bound to single values, then a range, then an index that gives the wanted order,
 * an $or whose every branch has an index, else the collection.
 *
 * A document may have several keys in an index (arrays). Then two conditions on a path may hold
 * for different elements, so only one of them can bound it, fields that share an array cannot both
 * be bound, no order is given, and the scan drops repeated documents.
 */
#ifndef RUNNEL_QUERY_PLAN_H
#define RUNNEL_QUERY_PLAN_H

#include "base/bw.h"
#include "query/match.h"
#include "storage/record.h"

/* --- intervals of one field --------------------------------------------------------------------
 */

struct interval {
    struct bv lo, hi;
    bool lo_open, hi_open;
};

/* Sorted, disjoint. */
struct intervals {
    struct interval *v;
    size_t n;
};

/* What a condition of the filter says of one path. */
struct conjunct {
    const char *path;
    struct intervals in;
    bool missing_ok; /* holds for documents without the field: no use with a sparse index */
};

/* Further conditions bound nothing; they are tested all the same. */
#define PLAN_CONJUNCTS_MAX 256

/* Begins with all but the arena zero. */
struct conjuncts {
    struct arena *a;
    struct conjunct *v;
    size_t n, cap;
};

/* Adds all conditions of the filter that must hold together and say something of a path. */
void conjuncts_collect(struct conjuncts *c, const struct match *filter);
struct intervals intervals_intersect(struct arena *a, struct intervals x, struct intervals y);
bool intervals_are_points(struct intervals x);
struct intervals intervals_all(struct arena *a);

/* --- ranges of index keys ----------------------------------------------------------------------
 */

/* Bounds are key-string prefixes of whole fields, as icursor_seek() takes them. Empty: no bound. */
struct key_range {
    struct bytes from, to;
    bool from_after; /* begins behind the keys that start with `from` */
    bool to_after;   /* ends behind the keys that start with `to` */
};

enum plan_kind {
    PLAN_NOTHING, /* no document can match */
    PLAN_COLLSCAN,
    PLAN_ID, /* _id equal to plan.id */
    PLAN_IXSCAN,
    PLAN_OR, /* a plan for each branch of an $or, one after the other */
};

struct plan {
    enum plan_kind kind;
    bool backward;
    bool sorted;   /* the wanted order is given */
    bool exact;    /* gives only what the filter accepts: no need to test */
    bool multikey; /* a document may lie at several keys */
    struct index *ix;
    struct bv id;
    struct intervals *fields; /* per index field, for explain */
    struct key_range *ranges; /* in key order */
    size_t nranges;
    const struct match *either; /* PLAN_OR: the $or */
    struct plan *branches;      /* as many as it has children; none scans the collection */
};

/* An _id of a type whose values have one key each: for {_id: id} there is nothing to choose, and
 * what lies at the key matches. */
bool plan_is_one_id(struct bv id);

struct scan_spec;
/* ERR_BAD_VALUE for a hint that names no index; codes of min and max. */
int plan_choose(struct op *op, struct arena *a, const struct scan_spec *spec,
                struct plan *ret) MUST_CHECK;
/* Key ranges from the intervals of the leading fields. */
void plan_ranges(struct arena *a, struct plan *p);
/* <0: the key lies before the range, 0: inside, >0: behind. */
int key_range_cmp(const struct key_range *r, struct bytes key);
/* Appends the plan's fields to an explain document that has its "stage" already. */
void plan_explain(const struct plan *p, const struct match *filter, struct arena *a, struct bw *w);

#endif
