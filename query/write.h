/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The one write path: every change of user data goes through here, with its oplog entry in the
 * same storage transaction (invariant 1).
 *
 * A command opens a struct writer on its namespace, runs its statements, and closes it. Between
 * open and close the writer holds the database and the collection locks shared, so that no DDL
 * changes the catalog under it (trap T2). Statements that meet a write conflict are retried here
 * and nowhere else.
 *
 * In a transaction (op->txn) the same calls write into it and commit nothing; a conflict is the
 * statement's error at once.
 *
 * A missing collection: a writer that may have to create it runs on the schema thread and holds
 * the collection lock exclusively instead, so that it can create it in the middle of its work.
 */
#ifndef RUNNEL_QUERY_WRITE_H
#define RUNNEL_QUERY_WRITE_H

#include "oplog/append.h"
#include "oplog/retry.h"
#include "query/cursor.h"
#include "query/update.h"

/* The retry record of the session as this command sees and extends it. */
struct retry_state {
    struct bv lsid; /* {id, uid} */
    int64_t txn_number;
    struct retry_record record;
    size_t cap;     /* of record.stmts */
    bool unordered; /* the statements are not in the order of their numbers */
    /* Called before each commit of the write's statements; an error refuses it. NULL: nothing. */
    int (*before_commit)(struct op *op);
};

/* Loads the record. 225 when the session has already used a higher number, 217 when this one was a
 * transaction's. */
int retry_state_open(struct op *op, struct bv lsid, int64_t txn_number,
                     struct retry_state *ret) MUST_CHECK;
/* What this statement gave the first time, or NULL when it has not been done. */
const struct retry_stmt *retry_state_find(const struct retry_state *r, int32_t stmt_id);

struct writer {
    struct op *op;
    const char *ns;
    struct coll *coll;         /* NULL: there is no such collection (yet) */
    struct retry_state *retry; /* NULL: not a retryable write */
    bool logged;               /* false for the database "local" */
    bool keep_empty_ts;        /* set behind writer_open(): Timestamp(0,0) is stored as it is */
    struct nslock db_lock, coll_lock; /* not in a transaction, which has locks of its own */
    uint64_t txns_ended;              /* before the try in hand: see txn_wait_ended() */
    /* Room that write_insert() uses again from one call to the next; in the op's arena. */
    struct oplog_op *group_ops;
    struct retry_stmt *group_stmts;
    size_t group_room;
};

/*
 * `may_create`: a missing collection may have to be made. Returns INT_PARK (a lock is taken; the
 * waiter is registered), INT_TO_SCHEMA, or an error. 13 for local.oplog.rs and the other
 * namespaces that the server alone writes.
 */
int writer_open(struct writer *w, struct op *op, const char *ns, bool may_create,
                struct retry_state *retry) MUST_CHECK;
void writer_close(struct writer *w);
/* Makes the missing collection; only for a writer opened with may_create. */
int writer_create(struct writer *w) MUST_CHECK;

/*
 * Inserts docs[from..n) as one or more transactions. On return *ret_done statements have been
 * dealt with and *ret_inserted counts those that were stored or had been before (retries). An
 * error is that of statement from + *ret_done, which is not counted; the caller goes on behind it
 * for an unordered batch.
 */
int write_insert(struct writer *w, const struct bv *docs, size_t from, size_t n,
                 const int32_t *stmt_ids, size_t *ret_done, int64_t *ret_inserted) MUST_CHECK;

struct update_stmt {
    struct bv q, u, array_filters, hint, constants;
    struct bv sort; /* which of the matches is updated; not with multi */
    bool multi, upsert;
    int32_t stmt_id;
    const struct expr_vars *vars; /* let; may be NULL */
};

struct update_outcome {
    int64_t matched, modified;
    struct bv upserted; /* {_id: x} in the op's arena, or BV_NONE */
    bool retried;
};
/* Whether the statement can be parsed; nothing is read or written. */
int write_update_check(struct writer *w, const struct update_stmt *s) MUST_CHECK;
int write_update(struct writer *w, const struct update_stmt *s, struct eval *let,
                 struct update_outcome *ret) MUST_CHECK;

struct delete_stmt {
    struct bv q, hint;
    bool multi;
    int32_t stmt_id;
    const struct expr_vars *vars;
};
int write_delete(struct writer *w, const struct delete_stmt *s, struct eval *let,
                 int64_t *ret_removed, bool *ret_retried) MUST_CHECK;

struct modify_stmt {           /* findAndModify */
    struct update_stmt update; /* q, sort, hint, stmt_id also for remove */
    bool remove, want_new;
    struct bv fields;
};
struct modify_outcome {
    struct bv value; /* document in the op's arena, or BV_NONE */
    int64_t n;
    bool updated_existing, retried;
    struct bv upserted; /* {_id: x}, or BV_NONE */
};
int write_modify(struct writer *w, const struct modify_stmt *s, struct eval *let,
                 struct modify_outcome *ret) MUST_CHECK;

#endif
