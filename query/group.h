/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of groups behind $group and $sortByCount; spills when it grows too large. */
#ifndef RUNNEL_QUERY_GROUP_H
#define RUNNEL_QUERY_GROUP_H

#include "query/accumulator.h"
#include "query/stage.h"

struct group_spec {
    struct expr *id;
    struct accumulator *accs;
    const char **names; /* of the accumulated fields */
    uint32_t n;
};

struct groups;

struct groups *groups_new(const struct group_spec *spec, bool allow_disk);
void groups_free(struct groups *g); /* NULL: nothing */
/* Adds x->ev's row. */
int groups_add(struct groups *g, struct exec *x) MUST_CHECK;
/* No more rows come; the groups can be read. */
int groups_finish(struct groups *g, struct exec *x) MUST_CHECK;
/* The next group as a row in scratch; *ret_found false: there are no more. */
int groups_next(struct groups *g, struct exec *x, struct bv *ret, bool *ret_found) MUST_CHECK;
void groups_save(struct groups *g); /* between batches */

#endif
