/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The aggregate command as a cursor: a source (a collection, the oplog, rows made by a source
 * stage such as $collStats, a change stream) and the stages behind it.
 */
#ifndef RUNNEL_QUERY_AGGREGATE_H
#define RUNNEL_QUERY_AGGREGATE_H

#include "query/cursor.h"

struct aggregate_spec {
    const char *db;
    const char *coll;   /* NULL: {aggregate: 1} */
    struct bv pipeline; /* array */
    struct bv hint;     /* or BV_NONE */
    struct bv uuid;     /* collectionUUID, or BV_NONE */
    bool allow_disk_use;
    const char *read_level; /* as given, or NULL; change streams allow "majority" only */
    bool v1_tokens;         /* of change streams: in the form of older servers */
    bool as_written;        /* of change streams: filters are not pushed down */
    struct expr_vars *vars; /* let; may be NULL */
    const struct eval *let;
    /* Source stages that the server answers ($currentOp, $collStats, ...): called when the first
     * stage is not one of query/'s own; returns 0 and the rows, or INT_NOT_MINE. */
    int (*rows)(struct op *op, void *arg, const char *stage, struct bv spec, struct bv **ret,
                size_t *ret_n);
    void *arg;
};

/* What `rows` answers for a stage that it does not know either. */
enum { INT_NOT_MINE = -100 };

int aggregate_open(struct op *op, const struct aggregate_spec *s, struct qcursor **ret) MUST_CHECK;

#endif
