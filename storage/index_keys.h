/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside storage/: expanding keys into an arena of the caller's choice, and E11000. */
#ifndef RUNNEL_STORAGE_INDEX_KEYS_H
#define RUNNEL_STORAGE_INDEX_KEYS_H

#include "storage/record.h"

/* index_keys() with the set in `a`; only the error goes to op. */
int index_keys_in(struct op *op, struct arena *a, const struct index *ix, struct bv doc,
                  struct key_set *ret) MUST_CHECK;

/* Sets ERR_DUPLICATE_KEY with MongoDB's text and the info {keyPattern, keyValue}. */
int index_duplicate(struct op *op, const struct coll *k, const struct index *ix, struct bytes key,
                    struct bytes type_bits);

/*
 * Remembers, durably with what the caller is going to commit, that the index holds several keys of
 * one document. Commits a transaction of its own, so that a caller that rolls back leaves a mark
 * too many, never one too few.
 */
int index_set_multikey(struct engine *e, struct op *op, const struct index *ix) MUST_CHECK;

#define RID_BYTES 8
void rid_encode(int64_t rid, uint8_t ret[static RID_BYTES]);
int64_t rid_decode(const uint8_t bytes[static RID_BYTES]);

#endif
