/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Aggregation pipelines: stages in a chain, each pulling rows from the one before it.
 *
 * query/stages.def has a row per stage, query/stages/stage_*.c a file per family.
 */
#ifndef RUNNEL_QUERY_PIPELINE_H
#define RUNNEL_QUERY_PIPELINE_H

#include "query/cursor.h"
#include "query/match.h"

struct stage;

struct stage_ops {
    const char *name;
    /* as qcursor_ops.next; pulls from s->source with stage_next() */
    int (*next)(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more);
    void (*save)(struct stage *s, struct exec *x);  /* NULL: nothing to drop */
    void (*close)(struct stage *s);                 /* NULL: nothing to free */
    void (*explain)(struct stage *s, struct bw *w); /* find's explain: fields of this plan stage */
    const char *plan;                               /* its name there; NULL: name */
};

struct stage {
    const struct stage_ops *ops;
    struct stage *source;      /* NULL: the first one (a scan) */
    struct bv spec;            /* as given, {$name: ...}; BV_NONE: not out of a pipeline */
    const struct match *match; /* of a $match, for push-down and index choice; else NULL */
};

/* Where and how a pipeline may run; filled by the caller. */
struct pipeline_ctx {
    const char *db;         /* database of the command */
    const char *coll;       /* NULL: {aggregate: 1} */
    struct expr_vars *vars; /* let; may be NULL */
    bool change_stream;     /* behind $changeStream: only the allow-list, code 20 */
    bool for_update;        /* pipeline update: only $set $unset $project $replace... */
    bool allow_disk_use;
};

struct pipeline {
    struct stage **stages; /* in order, not yet linked to a source */
    size_t n;
};

/* Parses all stages (not $changeStream itself, nor other source stages: those are handled by the
 * caller when first, and refused with 40602 elsewhere). Errors: 40324 unknown stage, 40323 more
 * than one field, ... */
int pipeline_parse(struct op *op, struct arena *a, struct bv stages, struct pipeline_ctx *ctx,
                   struct pipeline *ret) MUST_CHECK;
/* Chains the stages behind `source`; returns the last one (source itself for none). */
struct stage *pipeline_link(struct pipeline *p, struct stage *source);
int stage_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more) MUST_CHECK;
void stage_save(struct stage *s, struct exec *x); /* this one and all before it */
void stage_close(struct stage *s);                /* likewise */

/* One-row use of row-by-row stages ($set, $project, ... ), for pipeline updates. */
int pipeline_apply_row(struct pipeline *p, struct exec *x, struct bv doc,
                       struct bv *ret) MUST_CHECK;

/*
 * A scan of a collection under a filter, with the index the planner chose, an order the scan can
 * give, and nothing else. k may be NULL (missing collection: no rows).
 */
struct scan_spec {
    struct coll *k;             /* borrowed for the call; the scan takes its own reference */
    const struct match *filter; /* may be NULL */
    struct bv sort;             /* wanted order or BV_NONE; *ret_sorted tells whether given */
    struct bv hint;             /* string, document, or BV_NONE */
    struct bv min, max;         /* index bounds or BV_NONE */
    bool show_record_id;
    bool tailable;
};
int scan_new(struct op *op, struct arena *a, const struct scan_spec *spec, struct stage **ret,
             bool *ret_sorted) MUST_CHECK;
/* The record id of the row that the scan gave last (for updates and deletes). */
int64_t scan_rid(struct stage *scan);
/* A scan of local.oplog.rs: seeks by bounds on ts found in the filter, both directions. */
int scan_oplog_new(struct op *op, struct arena *a, const struct scan_spec *spec, struct stage **ret,
                   bool *ret_sorted) MUST_CHECK;
/* The optime up to which a forward scan of the oplog has read: where a tailing cursor waits. */
uint64_t scan_oplog_position(struct stage *scan);

/* Blocking sort (spills); limit 0: none. sort {} is no sort. Fails on bad specs. */
int sort_new(struct op *op, struct arena *a, struct bv sort, int64_t limit, bool allow_disk_use,
             struct stage **ret) MUST_CHECK;
struct stage *skip_new(struct arena *a, int64_t n);
struct stage *limit_new(struct arena *a, int64_t n);

#endif
