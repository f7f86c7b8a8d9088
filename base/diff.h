/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Document diffs in MongoDB's $v:2 oplog format (change-streams reference B.4): computing one from
 * two documents, applying one, and telling it as an updateDescription.
 */
#ifndef RUNNEL_BASE_DIFF_H
#define RUNNEL_BASE_DIFF_H

#include "base/bw.h"
#include "base/op.h"

/*
 * The minimal recursive diff that pipeline updates log; BV_NONE in *ret when a replacement entry
 * would not be larger (the size rule, with the root's padding of 15). An empty document when the
 * two are identical.
 */
int diff_compute(struct op *op, struct arena *a, struct bv pre, struct bv post,
                 struct bv *ret) MUST_CHECK;
/* Applies a diff (the value of `diff`) to a document. ERR_BAD_VALUE for a malformed diff. */
int diff_apply(struct op *op, struct arena *a, struct bv pre, struct bv diff,
               struct bv *ret) MUST_CHECK;
/* Appends updatedFields, removedFields, truncatedArrays (and disambiguatedPaths if wanted) to w:
 * the fields of an updateDescription document that the caller has begun. */
int diff_describe(struct op *op, struct bv diff, bool disambiguate, struct bw *w) MUST_CHECK;

#endif
