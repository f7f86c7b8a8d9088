/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Registered cursors, shared by cursors.c (the registry) and cursor_batch.c (batches). */
#ifndef RUNNEL_SERVER_CURSORS_INTERNAL_H
#define RUNNEL_SERVER_CURSORS_INTERNAL_H

#include "server/cursors.h"

struct cursor_entry {
    struct cursor_entry *next;
    struct cursor_entry *newer, **idle_link; /* among the idle ones; NULL: not among them */
    struct qcursor *c;
    int64_t id; /* 0: not registered */
    struct lsid_key lsid;
    bool has_lsid;
    int64_t txn_number;         /* of the transaction it belongs to; -1: none */
    enum read_level read_level; /* of the command that opened it */
    uint64_t at_cluster_time;   /* it reads from this snapshot; 0: from the newest data */
    struct api_params api;      /* of that command, for getMore to repeat */
    bool no_timeout;
    bool killed;            /* goes when it is unpinned */
    struct request *pinned; /* uses it; else NULL */
    int64_t created_ms, last_use_us;
    int64_t seen_rows, seen_batches; /* as of its last unpinning, for others to look at */
    int64_t budget_us;               /* left of the opening command's maxTimeMS; 0: no limit */
    int64_t limit, delivered;        /* rows */
    uint8_t *stash;                  /* a row that did not fit into the last batch */
};

/* Gives the entry an id and registers a copy of it, to which all that it holds then belongs; on
 * failure it is still the caller's. */
int cursor_entry_insert(struct cursors *cs, struct op *op, struct cursor_entry *e) MUST_CHECK;
/* Frees what an entry that is not registered holds: its cursor. */
void cursor_entry_clear(struct cursor_entry *e);
/* rq->cursor: the cursor `id`, for this request alone. 43, 13, 143 or one of 50736 to 50741. */
int cursor_pin(struct request *rq, int64_t id, const char *ns) MUST_CHECK;
/* The cursor that rq has pinned is at its end, or broken: it goes. */
void cursor_doom(struct request *rq);

#endif
