/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A storage transaction that outlives a request: a multi-document transaction, or a pinned snapshot
 * for readConcern snapshot outside of one.
 *
 * It owns a storage transaction with the snapshot of its beginning, the locks of every namespace it
 * has touched (held to its end, so that no DDL changes the catalog under it), the operations that
 * its oplog entry will hold, and the collections it has made, which nobody else sees before its
 * commit. One request at a time works in it, between txn_enter() and txn_leave(); a parked request
 * is not inside. While op->txn is set, everything in query/ reads from its snapshot and writes into
 * it; nothing there ends it. A statement that fails leaves it as it is, perhaps with half of the
 * statement done: the caller must abort it then.
 *
 * In a transaction nothing waits for long: a lock is waited for as long as the parameter
 * maxTransactionLockRequestTimeoutMillis says (24), a write conflict is an error at once (112), and
 * a namespace that has changed in the catalog since the snapshot is refused (246).
 *
 * A request outside transactions whose write meets a transaction's waits until one has ended
 * (decision D13): txn_wait_ended().
 */
#ifndef RUNNEL_QUERY_TXN_H
#define RUNNEL_QUERY_TXN_H

#include "query/database.h"
#include "storage/txn.h"

struct txn;
struct txn_table;

/* The open ones of a database. */
struct txn_table *txn_table_new(void);
void txn_table_free(struct txn_table *t); /* NULL: nothing. None is open. */

struct txn_table_stats {
    int64_t open, pinned;    /* transactions; snapshots of txn_begin_snapshot() */
    int64_t writing;         /* transactions that have written */
    int64_t waited;          /* waits of outsiders for the end of a transaction, ever */
    int64_t write_conflicts; /* conflicts that writes met, ever */
};
void txn_table_stats(struct txn_table *t, struct txn_table_stats *ret);

/* Parameters; any thread. */
int64_t txn_lock_wait_ms(struct txn_table *t);
void txn_set_lock_wait_ms(struct txn_table *t, int64_t ms); /* < 0: without end */
int64_t txn_entry_ops(struct txn_table *t);
void txn_set_entry_ops(struct txn_table *t, int64_t n); /* most operations in one oplog entry */

/*
 * Opens the storage transaction; its snapshot is taken here, behind txn_read_optime(). lsid
 * ({id, uid}) is copied. The op is not inside yet. 402 when too many are open.
 */
int txn_begin(struct op *op, struct bv lsid, int64_t txn_number, struct txn **ret) MUST_CHECK;
/* A snapshot of exactly what is committed at or below *ret_at; for reads only. It holds no locks:
 * collections that have changed since are refused, not kept from changing. */
int txn_begin_snapshot(struct op *op, struct txn **ret, uint64_t *ret_at) MUST_CHECK;

/* Sets op->txn. The caller makes sure that nobody else is inside. */
void txn_enter(struct txn *t, struct op *op);
/* Clears op->txn. No storage cursor of it is open any more. Nothing when op->txn is NULL. */
void txn_leave(struct op *op);

/*
 * Commits, by the op that is inside, which is outside afterwards; t is freed, whatever is returned.
 * Operations become one applyOps entry, or a chain under one slot of the horizon; with them go the
 * images and the session's row (state "committed"). Created collections are published, counts
 * moved, locks released, waiters woken. *ret_optime: of the (last) entry, 0 without operations;
 * op->wrote_optime and op->ack_visible are raised to it. An error: nothing has happened. INT_PARK:
 * no optime is to be had yet; the transaction is as it was, and the op inside.
 */
int txn_commit(struct txn *t, struct op *op, uint64_t *ret_optime) MUST_CHECK;
/* Undoes everything and frees t. Any thread, when nobody is inside. NULL: nothing. */
void txn_abort(struct txn *t);

uint64_t txn_read_optime(const struct txn *t);
bool txn_read_only(const struct txn *t); /* of txn_begin_snapshot() */
bool txn_has_ops(const struct txn *t);
size_t txn_nops(const struct txn *t);
size_t txn_bytes(const struct txn *t); /* of buffered operations and images */

/* --- for query/ and the commands that look collections up ------------------------------------ */

/*
 * The collection as this request sees it, in a transaction or not: a reference, or NULL. In a
 * transaction the namespace is locked first (INT_PARK, 24); 246 when it has changed since the
 * snapshot. A command on several looks all of them up before its first change.
 */
int txn_lookup(struct op *op, const char *ns, struct coll **ret) MUST_CHECK;
/* How many transactions have ended: what txn_wait_ended() goes by. */
uint64_t txn_ended(struct database *db);
bool txn_any_writing(struct database *db);
/*
 * For a write outside transactions that met a conflict: waits until more than `seen` transactions
 * have ended, or a while, longer with each attempt. INT_PARK while the request has changed nothing
 * (op->wrote_optime is 0); else the thread sleeps. 0: try again. An interrupt.
 */
int txn_wait_ended(struct op *op, uint64_t seen, unsigned attempt) MUST_CHECK;
/* Counts a conflict. */
void txn_note_conflict(struct database *db);

#endif
