/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The set of values of a dotted path over many documents; arrays count by their elements. */
#ifndef RUNNEL_QUERY_DISTINCT_H
#define RUNNEL_QUERY_DISTINCT_H

#include "base/op.h"

struct distinct;

/* Lives in the op's arena, as do the values it keeps. Overflow when the path has too many parts. */
int distinct_new(struct op *op, const char *path, struct distinct **ret) MUST_CHECK;
/* 17217 when the values together pass the size of a document. */
int distinct_add(struct distinct *d, struct op *op, struct bv doc) MUST_CHECK;
/* The values in the order they were first met. */
const struct bv *distinct_values(const struct distinct *d, size_t *ret_n);

#endif
