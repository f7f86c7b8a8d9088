/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Logical sessions: made on first sight, forgotten 30 minutes after their last use, ended and
 * killed by command. In memory only; what a session's retryable writes need after a restart is in
 * oplog/retry.h.
 */
#ifndef RUNNEL_SERVER_SESSIONS_H
#define RUNNEL_SERVER_SESSIONS_H

#include "server/command.h"

struct sessions;
struct lsession;
struct session_txn;

enum { LSID_KEY_BYTES = 48, SESSION_TIMEOUT_MINUTES = 30 };

/* A session's identity: 16 bytes of id, 32 of uid. */
struct lsid_key {
    uint8_t bytes[LSID_KEY_BYTES];
};

struct sessions *sessions_new(int64_t max); /* remembered at once */
void sessions_free(struct sessions *s);
/* Finds or makes the session of rq->env->lsid and pins it: rq->session. 261 when there are too
 * many. */
int session_checkout(struct request *rq) MUST_CHECK;
/* Unpins it, ending its write if one is on. Nothing without a session. */
void session_checkin(struct request *rq);
/* One request with a txnNumber at a time per session: 0, or INT_PARK until the running one has
 * ended. Held until session_write_end() or the end of the request, also while it is parked. */
int session_write_begin(struct request *rq) MUST_CHECK;
void session_write_end(struct request *rq);
/* Where the session of a request that holds session_write_begin() keeps its transaction
 * (transactions.h); NULL in there until it has begun one. */
struct session_txn **session_txn(struct request *rq);
/* Completes {id} to {id, uid} (uid = SHA-256 of "" without authentication); checks types. */
int session_lsid(struct request *rq, struct bv given, struct bv *ret) MUST_CHECK;
/* The key of a completed lsid. */
struct lsid_key lsid_key(struct bv lsid);

/* Marks a session as used now, making it if need be. */
int session_refresh(struct sessions *s, struct op *op, struct bv lsid) MUST_CHECK;
/* Forgets a session once no request uses it and it has no open transaction. Its cursors and its
 * transaction are the caller's matter. */
void sessions_end(struct sessions *s, struct bv lsid);
/* Interrupts all requests of a session (BV_NONE: of every one) but `except`. */
void sessions_interrupt(struct sessions *s, struct bv lsid, struct request *except);
/* Forgets sessions that have timed out, were it `ahead_us` later: calls fn with the key of each.
 * One with an open transaction is told to fn too, and forgotten the next time. */
void sessions_sweep(struct sessions *s, int64_t ahead_us,
                    void (*fn)(void *arg, const struct lsid_key *key), void *arg);
int64_t sessions_count(struct sessions *s);
/* Calls fn for each session, under a lock: fn must not come back here. */
void sessions_each(struct sessions *s,
                   void (*fn)(void *arg, const struct lsid_key *key, int64_t last_use_ms),
                   void *arg);

#endif
