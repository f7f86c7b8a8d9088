/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Changing records together with their index keys. Only query/write*.c and query/ddl*.c include
 * this header. ERR_DUPLICATE_KEY: the error text ("E11000 duplicate key error collection: db.c
 * index: a_1 dup key: { a: 1 }") and info {keyPattern, keyValue} are set, and what the failed call
 * had written is taken back, so that the transaction goes on as if the call had not been made.
 */
#ifndef RUNNEL_STORAGE_RECORD_WRITE_H
#define RUNNEL_STORAGE_RECORD_WRITE_H

#include "storage/record.h"

int record_insert(struct stx *t, struct coll *k, struct bv doc, int64_t *ret_rid) MUST_CHECK;
int record_update(struct stx *t, struct coll *k, int64_t rid, struct bv old_doc,
                  struct bv new_doc) MUST_CHECK;
int record_delete(struct stx *t, struct coll *k, int64_t rid, struct bv old_doc) MUST_CHECK;
/* Count and size move only when the transaction commits: call after a successful commit. */
void coll_count_add(struct coll *k, int64_t docs, int64_t bytes);

/* Fills a new index from the records (exclusive lock held): writes in batches of its own
 * transactions. ERR_DUPLICATE_KEY with text for a unique index. */
int index_build(struct engine *e, struct op *op, struct coll *k, struct index *ix) MUST_CHECK;
/* Rescans count and bytes (after an unclean stop). */
int coll_recount(struct engine *e, struct op *op, struct coll *k) MUST_CHECK;

#endif
