/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sort patterns: parsing {a: 1, "b.c": -1}, and the keys of a document under them.
 *
 * A key that leads through or to an array has several values; sorting takes the smallest combined
 * key in sort order (ascending: the least element, descending: the greatest). A missing field
 * sorts as null, an empty array before null.
 */
#ifndef RUNNEL_QUERY_SORT_KEY_H
#define RUNNEL_QUERY_SORT_KEY_H

#include "base/op.h"

#define SORT_KEYS_MAX 32

struct sort_part {
    const char **names; /* of the path */
    uint32_t *lens;
    uint32_t nnames;
    bool descending;
};

struct sort_spec {
    struct sort_part parts[SORT_KEYS_MAX];
    uint32_t n;
};

/* Errors: 15973, 15974, 15975 as MongoDB. An empty document gives n == 0. */
int sort_spec_parse(struct op *op, struct arena *a, struct bv doc,
                    struct sort_spec *ret) MUST_CHECK;
/* keys: spec->n views into doc or constants. BadValue when two keys run through different arrays.
 */
int sort_keys(const struct sort_spec *spec, struct op *op, struct bv doc,
              struct bv *ret_keys) MUST_CHECK;
int sort_keys_cmp(const struct sort_spec *spec, const struct bv *a, const struct bv *b);

#endif
