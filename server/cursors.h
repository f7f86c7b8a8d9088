/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The registry of open cursors: ids, ownership, timeouts, killing; and filling batches.
 *
 * A cursor is pinned by the request that uses it (one at a time: 143 otherwise), also while that
 * request is parked. Killing a pinned cursor interrupts its request (237), and a request that is
 * killed takes its cursor along. Idle cursors time out
 * after cursorTimeoutMillis (10 min) unless noCursorTimeout; those of a session end with it.
 */
#ifndef RUNNEL_SERVER_CURSORS_H
#define RUNNEL_SERVER_CURSORS_H

#include "query/cursor.h"
#include "server/command.h"
#include "server/sessions.h"

struct cursors;
struct cursor_entry; /* registered cursor */

enum { CURSOR_TIMEOUT_MS = 600 * 1000 };

struct cursors *cursors_new(int64_t max); /* open at once */
void cursors_free(struct cursors *cs);

struct batch_opts {
    int64_t batch_size; /* -1: not given */
    bool first;         /* first batch: default 101, 0 means an empty one */
    bool single;        /* close after this batch */
    bool no_timeout;
    const char *field; /* "firstBatch" or "nextBatch" */
    int64_t limit;     /* of all batches together: the cursor closes when it is reached; 0: none */
};

/*
 * Runs the cursor and appends `cursor: {<field>: [...], postBatchResumeToken?, id, ns}` to
 * rq->reply (field order of the aggregate or find reply: firstBatch/nextBatch, token, id, ns).
 * Takes over `c`: it is registered when more can come, else freed. For a new cursor.
 */
int cursor_first_batch(struct request *rq, struct qcursor *c,
                       const struct batch_opts *o) MUST_CHECK;
/* The same of a find that has read its only row, or none (BV_NONE): nothing is left. rc: what the
 * reading returned, which is then returned with what cursor_first_batch() adds to errors. */
int cursor_one_batch(struct request *rq, const char *ns, int rc, struct bv row) MUST_CHECK;

/* getMore: pins, fills, parks for awaitData, and unpins or closes with the end of the request. */
int cursor_get_more(struct request *rq, int64_t id, const char *ns, const struct batch_opts *o,
                    int64_t max_time_ms /* -1: none */) MUST_CHECK;

/* The end of the request that has it pinned: the cursor may be used by others. */
void cursor_unpin(struct request *rq);

/* killCursors: true when the id was an open cursor of this namespace (NULL: any), now dead. */
bool cursors_kill(struct cursors *cs, struct request *rq, int64_t id, const char *ns);
/* Kills the cursors of these sessions; sorts the keys. */
void cursors_kill_sessions(struct cursors *cs, struct lsid_key *keys, size_t n);
/* Kills the cursors of all sessions; those that have none stay. */
void cursors_kill_all_sessions(struct cursors *cs);
/* Kills those of one transaction. */
void cursors_kill_txn(struct cursors *cs, const struct lsid_key *lsid, int64_t txn_number);
/* Kills all; what pinning requests are told is `code`. */
void cursors_kill_all(struct cursors *cs, int code);
/* Closes idle cursors that were not used for timeout_ms; called by the timer. */
void cursors_sweep(struct cursors *cs, int64_t timeout_ms);

struct cursor_stats {
    int64_t open, pinned, no_timeout, timed_out;
    int64_t change_streams, parked; /* parked: of the change streams */
};
void cursors_stats(struct cursors *cs, struct cursor_stats *ret);

/* An open cursor as others see it, in their own memory. */
struct cursor_row {
    int64_t id;
    const struct request *user; /* has it pinned, to be compared only; NULL: idle */
    const char *ns;
    int64_t created_ms, last_use_us;
    int64_t rows, batches; /* as of its last batch */
    bool has_lsid, no_timeout, tailable, await_data, change_stream;
    struct lsid_key lsid;
    struct stream_watch watch; /* change_stream only */
};
/* All open cursors by ascending `user` (the idle ones first), in the arena. */
int cursors_list(struct cursors *cs, struct op *op, struct cursor_row **ret,
                 size_t *ret_n) MUST_CHECK;

#endif
