/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by the files of the write path; see query/write.h. */
#ifndef RUNNEL_QUERY_WRITE_INTERNAL_H
#define RUNNEL_QUERY_WRITE_INTERNAL_H

#include "query/pipeline.h"
#include "query/txn_internal.h"
#include "query/write.h"
#include "storage/record_write.h"

/* The documents and bytes that one transaction changes before the next is begun: large enough to
 * share the cost of a commit, small enough to keep its snapshot short. */
#define WRITE_GROUP_DOCS  1000
#define WRITE_GROUP_BYTES (4 * 1024 * 1024)

/*
 * Commits the exec's transaction with these entries (and, for a retryable write, the statements
 * they belong to: stmts[i] gets the optime of ops[stmts[i].optime]). The transaction is over; that
 * of op->txn goes on and keeps the entries for its own commit.
 */
int writer_commit(struct writer *w, struct exec *x, struct oplog_op *ops, size_t n,
                  struct retry_stmt *stmts, size_t nstmts) MUST_CHECK;

/* Moves the collection's counters: call behind writer_commit(). */
void writer_count(struct writer *w, int64_t docs, int64_t bytes);

/* After ERR_WRITE_CONFLICT: waits a little, longer with each attempt, or for the end of the
 * transaction that may be the other side. 0: try again; an interrupt; INT_PARK while the request
 * has changed nothing. In a transaction it is the conflict again. */
int writer_backoff(struct writer *w, unsigned attempt) MUST_CHECK;

/* The entry of a change to one document; `id` is its _id. */
void writer_entry(const struct writer *w, struct oplog_op *ret, char kind, struct bv o,
                  struct bv o2, struct bv pre_image, int32_t stmt_id);

/* {_id: x} of a document. */
struct bv writer_key_doc(struct arena *a, struct bv doc);
/* What Timestamp(0,0) becomes in a document that is stored now; 0: it stays. */
uint64_t writer_now_ts(const struct writer *w);

/* The record ids of all matching documents, in the order of the scan. *ret is malloc'ed. */
int writer_collect(struct writer *w, struct exec *x, struct arena *a, const struct match *filter,
                   struct bv hint, int64_t **ret, size_t *ret_n) MUST_CHECK;

/* The first matching document (in the order of `sort`, if any), copied into the exec's scratch;
 * *ret_rid 0: none. The transaction it was read in stays open for the change. */
int writer_find_one(struct writer *w, struct exec *x, struct arena *a, const struct match *filter,
                    struct bv sort, struct bv hint, int64_t *ret_rid, struct bv *ret) MUST_CHECK;

/* Makes the document of an upsert (in the op's arena) and inserts it in the exec's transaction,
 * making the collection first if need be; fills the entry for it. The caller commits. */
int writer_upsert(struct writer *w, struct exec *x, const struct update *u,
                  const struct match *filter, int32_t stmt_id, struct oplog_op *ret_entry,
                  struct bv *ret_doc) MUST_CHECK;

/* How often one statement has been tried. */
struct write_tries {
    unsigned conflicts, upserts;
};

/*
 * After a try of one statement that gave rc: ends its transaction and empties the scratch. True:
 * try again (a write conflict, after a pause; or an upsert that met a duplicate key which may be
 * another upsert of the same document, and which a second look would find: the filter pins every
 * field of the violated key by equality). False: *ret_rc is what the statement gives.
 */
bool writer_try_again(struct writer *w, struct exec *x, const struct match *filter, bool upsert,
                      struct write_tries *tries, int rc, int *ret_rc) MUST_CHECK;

#endif
