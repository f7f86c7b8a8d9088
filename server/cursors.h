/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The registry of open cursors: ids, ownership, timeouts, killing; and filling batches.
 *
 * A cursor is pinned by the request that uses it (one at a time: 143 otherwise), also while that
 * request is parked. Killing a pinned cursor interrupts its request (237). Idle cursors time out
 * after cursorTimeoutMillis (10 min) unless noCursorTimeout; those of a session end with it.
 */
#ifndef RUNNEL_SERVER_CURSORS_H
#define RUNNEL_SERVER_CURSORS_H

#include "query/cursor.h"
#include "server/command.h"

struct cursors;
struct cursor_entry; /* registered cursor */

struct cursors *cursors_new(void);
void cursors_free(struct cursors *cs);

struct batch_opts {
    int64_t batch_size; /* -1: not given */
    bool first;         /* first batch: default 101, 0 means an empty one */
    bool single;        /* close after this batch */
    bool no_timeout;
    const char *field; /* "firstBatch" or "nextBatch" */
};

/*
 * Runs the cursor and appends `cursor: {<field>: [...], postBatchResumeToken?, id, ns}` to
 * rq->reply (field order of the aggregate or find reply: firstBatch/nextBatch, token, id, ns).
 * Takes over `c`: it is registered when more can come, else freed. For a new cursor.
 */
int cursor_first_batch(struct request *rq, struct qcursor *c,
                       const struct batch_opts *o) MUST_CHECK;

/* getMore: pins, fills, parks for awaitData, re-registers or closes. */
int cursor_get_more(struct request *rq, int64_t id, const char *ns, const struct batch_opts *o,
                    int64_t max_time_ms /* -1: none */) MUST_CHECK;

/* The end of the request that has it pinned: the cursor may be used by others. */
void cursor_unpin(struct request *rq);

/* killCursors: true when the id was an open cursor of this namespace (now dead). */
bool cursors_kill(struct cursors *cs, struct request *rq, int64_t id, const char *ns);
void cursors_kill_session(struct cursors *cs, struct bv lsid);
void cursors_kill_all(struct cursors *cs, int code);
/* Marks cursors over a dropped or renamed collection: next getMore gives 175. */
void cursors_sweep(struct cursors *cs, int64_t timeout_ms); /* timer */

struct cursor_stats {
    int64_t open, pinned, no_timeout, timed_out, change_streams, parked;
};
void cursors_stats(struct cursors *cs, struct cursor_stats *ret);

#endif
