/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Where the rows of a namespace come from: a collection's scan, the oplog, or one of the views of
 * the server's own state that have no table of their own (config.transactions, ...). One row per
 * such namespace in source.c.
 */
#ifndef RUNNEL_QUERY_SOURCE_H
#define RUNNEL_QUERY_SOURCE_H

#include "query/pipeline.h"

struct source_spec {
    const char *ns;
    const struct match *filter; /* may be NULL */
    struct bv sort, hint, min, max;
    struct bv uuid; /* collectionUUID, or BV_NONE */
    bool show_record_id, tailable;
};

/* *ret_sorted: the rows come in the order of `sort`. A missing collection gives no rows.
 * *ret_oplog: the source is the oplog (waits go by SCOPE_OPLOG). Errors: 361 by the UUID. */
int source_new(struct op *op, struct arena *a, const struct source_spec *s, struct stage **ret,
               bool *ret_sorted, bool *ret_oplog) MUST_CHECK;

/* 361 when the collection of that name is not the one with this UUID (BV_NONE: any will do). */
int source_check_uuid(struct op *op, const char *ns, struct bv uuid) MUST_CHECK;

/* True for a namespace that exists only as a view of the server's state. */
bool source_is_virtual(const char *ns);
/* The i-th such namespace; NULL past the end. */
const char *source_virtual_at(size_t i);
/* False with --no-oplog for what then does not exist. */
bool source_exists(struct database *db, const char *ns);

/* Rows that are already there: documents copied to the arena, then tested by `filter`. */
int source_rows(struct op *op, struct arena *a, const struct bv *docs, size_t n,
                const struct match *filter, struct stage **ret) MUST_CHECK;

#endif
