/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Projections of find and findAndModify (with $slice, $elemMatch and the positional $), and of
 * $project, $addFields, $set, $unset. Parsed into an arena, applied row by row.
 */
#ifndef RUNNEL_QUERY_PROJECTION_H
#define RUNNEL_QUERY_PROJECTION_H

#include "query/match.h"

struct projection;

enum projection_use {
    PROJECT_FIND,       /* find's rules: positional, $slice, $elemMatch, $meta allowed */
    PROJECT_STAGE,      /* $project */
    PROJECT_ADD_FIELDS, /* $addFields, $set */
    PROJECT_UNSET,      /* $unset: a string or an array of strings */
};

/* `filter` (may be NULL) serves the positional projection. */
int projection_parse(struct op *op, struct arena *a, struct bv spec, enum projection_use use,
                     struct expr_vars *vars, const struct match *filter,
                     struct projection **ret) MUST_CHECK;
/* The result lives in ev->scratch (or is doc itself). */
int projection_apply(const struct projection *p, struct eval *ev, struct bv doc,
                     struct bv *ret) MUST_CHECK;
/* For push-down: the top-level fields that the projection changes, computes or removes; fn(arg, "")
 * for an inclusion, which may remove any. All others pass unchanged. */
void projection_modified_paths(const struct projection *p, void (*fn)(void *arg, const char *path),
                               void *arg);

#endif
