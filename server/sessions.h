/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Logical sessions: vivified on first sight, 30-minute timeout, ended and killed by command. */
#ifndef RUNNEL_SERVER_SESSIONS_H
#define RUNNEL_SERVER_SESSIONS_H

#include "server/command.h"

struct sessions;
struct lsession;

struct sessions *sessions_new(void);
void sessions_free(struct sessions *s);
/* Finds or makes the session of rq->lsid and pins it: rq->session. 261 when there are too many. */
int session_checkout(struct request *rq) MUST_CHECK;
void session_checkin(struct request *rq);
/* One retryable write at a time per session: 0, or INT_PARK until the running one has ended. */
int session_write_begin(struct request *rq) MUST_CHECK;
void session_write_end(struct request *rq);
/* Completes {id} to {id, uid} (uid = SHA-256 of "" without authentication); checks types. */
int session_lsid(struct request *rq, struct bv given, struct bv *ret) MUST_CHECK;
void sessions_end(struct sessions *s, struct bv lsid);
void sessions_sweep(struct sessions *s);
int64_t sessions_count(struct sessions *s);

#endif
