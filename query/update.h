/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Updates: operator documents, replacements and pipelines, applied to raw documents; each gives
 * the new document and what the oplog entry must say.
 */
#ifndef RUNNEL_QUERY_UPDATE_H
#define RUNNEL_QUERY_UPDATE_H

#include "query/document.h"
#include "query/match.h"

struct update;

enum update_form { UPDATE_OPERATORS, UPDATE_REPLACEMENT, UPDATE_PIPELINE };

struct update_spec {
    struct bv u;                  /* document or array */
    struct bv array_filters;      /* array or BV_NONE */
    struct bv constants;          /* `c` (values, of pipelines), or BV_NONE */
    const struct expr_vars *vars; /* let; may be NULL */
    bool upsert, multi;
    bool keep_empty_ts; /* Timestamp(0,0) in a replacement is stored as it is */
};

/* The bytes of spec->u, filters and constants are borrowed for the life of the update. */
int update_parse(struct op *op, struct arena *a, const struct update_spec *spec,
                 struct update **ret) MUST_CHECK;
enum update_form update_form(const struct update *u);

struct update_result {
    bool changed;        /* false: no oplog entry, nModified 0 */
    struct bv doc;       /* the new document (equal to the old one when !changed) */
    struct bv entry_o;   /* the oplog's `o`: {$v:2, diff:{...}} or the replacement; if changed */
    bool is_replacement; /* entry_o is a whole document */
};

/*
 * Applies to an existing document. `position` is what match_test() gave for the positional
 * operator (-1: none). The _id is kept: changing it is error 66. The result lives in ev->scratch.
 * Size and depth limits of the new document are checked (17419, 15). $currentDate takes its
 * values from ev->now_ms and ev->cluster_time; the latter also replaces Timestamp(0,0) at the top
 * level of a replacement.
 */
int update_apply(const struct update *u, struct eval *ev, struct bv old_doc, int32_t position,
                 struct update_result *ret) MUST_CHECK;

/*
 * The document an upsert inserts: equality fields of the filter, then the update with
 * $setOnInsert; _id generated when absent and placed first.
 */
int update_upsert_doc(const struct update *u, struct eval *ev, const struct match *filter,
                      struct bv *ret) MUST_CHECK;

#endif
