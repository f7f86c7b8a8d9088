/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The find query as a cursor: source, sort, skip, limit, projection. */
#ifndef RUNNEL_QUERY_FIND_H
#define RUNNEL_QUERY_FIND_H

#include "query/cursor.h"

struct find_spec {
    const char *ns;
    struct bv filter, sort, projection, hint, min, max; /* BV_NONE or empty: none */
    struct bv uuid;                                     /* collectionUUID, or BV_NONE */
    int64_t skip, limit;                                /* 0: none */
    bool show_record_id, tailable, await_data, allow_disk_use;
    struct expr_vars *vars; /* let; may be NULL */
    const struct eval *let; /* their values; NULL with vars */
};

/* Views in the spec are copied. Errors: as match, projection, sort, hint; 2 for a tailable cursor
 * on what is not capped; 361 when ns is not the collection with this UUID. */
int find_open(struct op *op, const struct find_spec *spec, struct qcursor **ret) MUST_CHECK;

/* Of a find for one _id, and nothing else, the document, in the op's arena; BV_NONE: there is none.
 * *ret_read false: it is not such a find, or one that find_open() has to look at. */
int find_by_id(struct op *op, const struct find_spec *spec, bool *ret_read,
               struct bv *ret) MUST_CHECK;

#endif
