/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Retry records: what each statement of a session's newest retryable write gave, written in the
 * same transaction as the write, so that a repeated statement is answered and not done again.
 *
 * Table "sessions", the head row: key = lsid bytes (16 of id, 32 of uid), value BSON:
 *     {txnNum: long, optime: ts, term: long, date: date, committed?: true, chunks?: int,
 *      stmts: [{s: stmtId, n?: count, k: kind, ts, r?: result}]}
 * A long batch commits statement by statement, so its statements move out of the head as they fill
 * chunks, and a commit writes only a short row. Chunk rows: key = lsid bytes, chunk number (32
 * bits, big endian), value BSON:
 *     {txnNum: long, stmts: [as above]}
 * The result of an upsert is {_id}, of a findAndModify
 *     {n: long, updatedExisting: bool, value?: document as replied, upserted?: {_id}, post?: true}
 * with `post` when the value is the document as it became.
 * `committed`: the number was that of a multi-document transaction, which has no statements here.
 */
#ifndef RUNNEL_OPLOG_RETRY_H
#define RUNNEL_OPLOG_RETRY_H

#include "oplog/oplog.h"
#include "storage/txn.h"

enum { RETRY_CHUNK = 32 }; /* statements of one chunk row */

struct retry_stmt {
    int32_t stmt_id;
    int32_t count; /* a run: statements stmt_id.. with optimes optime.., consecutive; >= 1 */
    char kind;     /* 'i' 'u' 's' (upsert) 'd' 'f' (findAndModify) */
    uint64_t optime;
    struct bv result; /* upsert: {_id}; findAndModify: below; else BV_NONE */
};

struct retry_record {
    bool found;
    int64_t txn_number;
    uint64_t optime;
    int64_t term; /* of that optime */
    int64_t date_ms;
    bool committed;           /* a transaction, not retryable writes */
    struct retry_stmt *stmts; /* in the arena */
    size_t n;
    uint32_t chunks; /* the first chunks * RETRY_CHUNK statements are in chunk rows */
    uint32_t stale;  /* chunk rows of an older number; the next store removes them */
};

int retry_load(struct engine *e, struct op *op, struct bv lsid, struct arena *a,
               struct retry_record *ret) MUST_CHECK;
/* Inside the write's transaction, after its optime is known (oplog_commit's `extra`). Moves full
 * chunks of r->stmts out of the head: r->chunks and r->stale are as they are after the commit. */
int retry_store(struct stx *t, struct bv lsid, struct retry_record *r) MUST_CHECK;
/* Removes records not used since before_ms. */
int retry_purge(struct engine *e, struct op *op, int64_t before_ms) MUST_CHECK;
/*
 * Calls fn with each record behind that of session `after` (BV_NONE: from the first), in the order
 * of their keys; the document is fn's only while it runs. What fn returns, unless 0, ends the walk
 * and is returned.
 */
enum retry_view {
    RETRY_TRANSACTIONS, /* config.transactions: all records */
    RETRY_IMAGES,       /* config.image_collection: findAndModify that gave an image */
};
int retry_each(struct engine *e, struct op *op, enum retry_view view, struct bv after,
               int (*fn)(void *arg, struct bv doc), void *arg) MUST_CHECK;

#endif
