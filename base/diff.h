/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Document diffs in MongoDB's $v:2 oplog format (change-streams reference B.4): building one,
 * computing one from two documents, applying one, and telling it as an updateDescription.
 *
 * A document diff: {d: {field: false}, u: {field: value}, i: {field: value}, s<field>: diff}.
 * An array diff: {a: true, l: <int32 new length>, u<index>: value, s<index>: diff}.
 *
 * Where a document holds one field name twice, a diff speaks of the first of them.
 */
#ifndef RUNNEL_BASE_DIFF_H
#define RUNNEL_BASE_DIFF_H

#include "base/bw.h"
#include "base/op.h"

/*
 * The minimal recursive diff that pipeline updates log; BV_NONE in *ret when a replacement entry
 * would not be larger (the size rule, with the root's padding of 15), or when no diff can say it
 * (repeated field names). An empty document when the two are identical.
 */
int diff_compute(struct op *op, struct arena *a, struct bv pre, struct bv post,
                 struct bv *ret) MUST_CHECK;
/* Applies a diff (the value of `diff`) to a document. ERR_BAD_VALUE for a malformed diff, and for
 * binary deltas (`b`), which this server never writes. */
int diff_apply(struct op *op, struct arena *a, struct bv pre, struct bv diff,
               struct bv *ret) MUST_CHECK;
/* Appends updatedFields, removedFields, truncatedArrays (and disambiguatedPaths if wanted) to w:
 * the fields of an updateDescription document that the caller has begun. */
int diff_describe(struct op *op, struct bv diff, bool disambiguate, struct bw *w) MUST_CHECK;

/* --- building ------------------------------------------------------------------------------- */

/*
 * A diff under construction: a tree with a node per changed document or array, in an arena that
 * outlives it. Names and values are borrowed until diff_write(). Entries come out by rank, and in
 * the order in which they were added; those of arrays must be added by ascending index.
 */
struct diff_node;

struct diff_node *diff_node_new(struct arena *a, bool array);
/* Of documents. The rank of what is added from here on (0 at first), and the end of all ranks:
 * after diff_arrange() nothing is added. */
void diff_rank(struct diff_node *n, uint32_t rank);
void diff_arrange(struct diff_node *n);
void diff_delete(struct diff_node *n, const char *name, uint32_t name_len);
void diff_update(struct diff_node *n, const char *name, uint32_t name_len, struct bv v);
void diff_insert(struct diff_node *n, const char *name, uint32_t name_len, struct bv v);
void diff_sub(struct diff_node *n, const char *name, uint32_t name_len, struct diff_node *sub);
/* Of arrays. */
void diff_resize(struct diff_node *n, uint32_t new_len);
void diff_update_at(struct diff_node *n, uint32_t index, struct bv v);
void diff_sub_at(struct diff_node *n, uint32_t index, struct diff_node *sub);

bool diff_node_empty(const struct diff_node *n);
/* The BSON size of what diff_write() would write as a value. */
uint64_t diff_node_bytes(const struct diff_node *n);
/* Writes the diff as the field `key` of the document open in w. */
void diff_write(const struct diff_node *n, struct bw *w, const char *key);

#endif
