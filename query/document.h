/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What holds for every stored document: its _id, its order, its size and its depth. */
#ifndef RUNNEL_QUERY_DOCUMENT_H
#define RUNNEL_QUERY_DOCUMENT_H

#include "base/op.h"

/*
 * Checks of a document to be stored: _id of a legal type (53) and without $-prefixed names in it
 * (52), only one _id (2), depth (15), size (10334). Adds a generated _id in front when there is
 * none and moves an existing one to the front; replaces Timestamp(0,0) at the top level, but not
 * in _id, by `now_ts` when now_ts != 0. *ret is doc itself when nothing had to change.
 */
int document_prepare(struct op *op, struct arena *a, struct bv doc, uint64_t now_ts,
                     struct bv *ret) MUST_CHECK;

/* The document with this _id in front instead of its own (BV_NONE: none is written), and zero
 * timestamps replaced as above. */
int document_with_id(struct op *op, struct arena *a, struct bv doc, struct bv id, uint64_t now_ts,
                     struct bv *ret) MUST_CHECK;

/* True when it nests deeper than LIMIT_DEPTH_STORED. */
bool document_too_deep(struct bv doc);

#endif
