/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sessions' transactions, shared by transactions.c (requests) and transactions_end.c (others). */
#ifndef RUNNEL_SERVER_TRANSACTIONS_INTERNAL_H
#define RUNNEL_SERVER_TRANSACTIONS_INTERNAL_H

#include "base/mutex.h"
#include "query/txn.h"
#include "server/transactions.h"

enum txn_state { TXN_NONE, TXN_RETRYABLE, TXN_IN_PROGRESS, TXN_COMMITTED, TXN_ABORTED };

struct session_txn {
    struct transactions *all;
    struct lsid_key lsid;
    struct session_txn *next, *prev; /* among the open ones */
    enum txn_state state;
    int64_t number;       /* newest txnNumber of the session; -1: none */
    struct txn *txn;      /* in progress; NULL while it begins */
    struct request *user; /* has the session for a transaction; NULL: nobody */
    int doom;             /* the transaction is to end with this code when `user` leaves; 0: no */
    bool has_cursors;
    struct api_params api; /* of its first command */
    enum read_level read_level;
    bool read_level_given;
    int64_t start_us, expiry_us, entered_us; /* monotonic */
    int64_t start_ms;
    uint64_t read_optime;
    int64_t active_us; /* before the request that works in it now */
};

struct transactions {
    struct mutex mx;
    struct session_txn *oldest, *newest; /* open */
    int64_t lifetime_s;
    int64_t pressed_us;             /* since when the cache is under pressure; 0: it is not */
    struct transaction_stats stats; /* open and active are counted when asked for */
};

/* What is left of a transaction that is no longer its session's. */
struct remains {
    struct txn *txn;
    struct lsid_key lsid;
    int64_t number;
    bool has_cursors;
    struct remains *next;
};

/* Ends the open transaction of a session that nobody works in, or that the caller does, in this
 * state. *ret: to be buried without the mutex. */
void txn_close_locked(struct session_txn *st, enum txn_state state, struct remains *ret);
/* Aborts the storage transaction and closes the cursors. Nothing for empty remains. */
void txn_bury(struct server *s, const struct remains *r);

#endif
