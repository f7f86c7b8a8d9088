/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Multi-document transactions as clients see them: which command may begin, go on with, commit or
 * abort one, and who ends those that nobody ends.
 *
 * A session has at most one transaction: none -> in progress -> committed or aborted. Its storage
 * side is a struct txn (query/txn.h). A request that names a transaction has the session to itself
 * (session_write_begin) from transaction_enter() to transaction_leave(), also while it is parked;
 * between requests nobody is inside, and whoever wants the transaction gone aborts it at once. A
 * transaction that a request works in is doomed instead: its request is interrupted, and aborts it
 * when it leaves.
 *
 * The rules that need no session stand in txn_rules.c. One mutex guards the states of all sessions'
 * transactions; it is never held while a struct txn begins or ends.
 */
#ifndef RUNNEL_SERVER_TRANSACTIONS_H
#define RUNNEL_SERVER_TRANSACTIONS_H

#include "server/sessions.h"

struct transactions;

enum { TXN_LIFETIME_DEFAULT_S = 60 };

struct transactions *transactions_new(void);
void transactions_free(struct transactions *t);

/* --- requests ----------------------------------------------------------------------------------
 */

/* Commit or abort the transaction of a request that is in one, else 125. The reply of a commit
 * waits for the write concern, also when the transaction had been committed before. */
int transaction_commit(struct request *rq) MUST_CHECK;
int transaction_abort(struct request *rq) MUST_CHECK;

/* The rules of the envelope's fields lsid, txnNumber, autocommit and startTransaction, of what may
 * stand beside them, and of what may run in a transaction. rq->cmd is set. */
int txn_rules_check(struct request *rq) MUST_CHECK;
/* Refuses stages that may not stand in a transaction; such a failure aborts it. */
int txn_rules_stages(struct request *rq) MUST_CHECK;
/* True for commitTransaction and abortTransaction. */
bool txn_rules_ends(const struct command *cmd);
/* True when a client may begin its whole transaction again after `code`. */
bool txn_rules_transient(const struct request *rq, int code);

/* Before the command of a request with a txnNumber runs: takes the session, begins the transaction
 * or checks that it goes on, and enters it. A retryable write only ends what it makes old.
 * INT_PARK: another request has the session. */
int transaction_enter(struct request *rq) MUST_CHECK;
/* After it has run with `rc`, which is returned, or the code of who ended the transaction
 * meanwhile: leaves it, and aborts it when the command failed. Nothing outside of a transaction. */
int transaction_leave(struct request *rq, int rc) MUST_CHECK;
/* The request is over without having left: as transaction_leave() of a failure. */
void transaction_drop(struct request *rq);
/* A statement has failed without failing its command: the transaction aborts when it is left. */
void transaction_fail(struct request *rq);
/* The cursor that rq has just opened belongs to its transaction. */
void transaction_owns_cursor(struct request *rq);

/* --- others ------------------------------------------------------------------------------------
 */

/* What a session remembers, when it is forgotten; NULL: nothing. */
void session_txn_free(struct session_txn *st);
/* It has a transaction in progress; NULL: no. */
bool session_txn_open(struct session_txn *st);

/* Ends the transactions of these sessions, those in use by interrupting their request with `code`;
 * sorts the keys. */
void transactions_end_sessions(struct server *s, struct lsid_key *keys, size_t n, int code);
/* All of them, but the one of `except` (NULL: no exception). */
void transactions_end_all(struct server *s, const struct request *except, int code);
/* Ends those that have lived too long, and the oldest while the cache is under pressure. From time
 * to time, on one thread. */
void transactions_sweep(struct server *s);

/* Seconds that transactions begun from now on may live; >= 1. */
int64_t transactions_lifetime_s(struct transactions *t);
void transactions_set_lifetime_s(struct transactions *t, int64_t seconds);

struct transaction_stats {
    int64_t started, committed, aborted, record_writes;
    int64_t open, active; /* now; active: a request works in it */
};
void transactions_stats(struct transactions *t, struct transaction_stats *ret);

/* An open transaction as others see it. */
struct transaction_row {
    struct lsid_key lsid;
    const struct request *user; /* to be compared only; NULL: idle */
    int64_t txn_number;
    enum read_level read_level;
    bool read_level_given;
    uint64_t read_optime;
    int64_t start_ms, expiry_ms; /* wall clock */
    int64_t open_us, active_us;  /* so far */
};
/* All open ones, in the arena. */
int transactions_list(struct transactions *t, struct op *op, struct transaction_row **ret,
                      size_t *ret_n) MUST_CHECK;

#endif
