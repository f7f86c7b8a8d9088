/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the files of storage/ share: the engine's insides, the session pool, translation of
 * WiredTiger's results. Nothing outside storage/ includes this header.
 */
#ifndef RUNNEL_STORAGE_ENGINE_INTERNAL_H
#define RUNNEL_STORAGE_ENGINE_INTERNAL_H

#include <wiredtiger.h>

#include "base/mutex.h"
#include "storage/directory.h"
#include "storage/disk_watch.h"
#include "storage/table.h"

/* Each open session makes every snapshot dearer, and WiredTiger's array of them has a fixed size
 * (SESSION_MAX, some of which it uses itself). */
#define SESSION_MAX      512
#define SESSION_POOL_MAX 500
#define TABLE_URI_MAX    (IDENT_MAX + 8)

/* The life of one storage transaction; lives inside the session it leases. */
struct stx {
    struct engine *engine;
    struct op *op;
    struct session *session;
    struct tcursor *cursors; /* open ones */
    bool active;             /* WiredTiger has a running transaction */
    bool lost;               /* a write conflicted: only rollback is left */
    bool torn;               /* a call failed, perhaps in the midst of a record: no commit */
    bool written;
};

struct session {
    WT_SESSION *wt;
    struct session *next;         /* in the pool's idle list */
    struct tcursor *kept;         /* closed ones whose WiredTiger cursors are open, newest first */
    struct tcursor *free_cursors; /* closed ones, kept for their memory */
    struct arena scratch;         /* see stx_scratch() */
    struct stx txn;
};

/* Idle sessions are handed out last in, first out, so that a quiet server uses few. */
struct session_pool {
    struct mutex mx; /* guards all of the below */
    struct session *idle;
    int open, leased;
};

/* A temporary table that was busy when it should have gone. */
struct pending_drop {
    struct pending_drop *next;
    char ident[IDENT_MAX];
};

struct engine {
    WT_EVENT_HANDLER handler; /* first: WiredTiger hands it back to us */
    WT_CONNECTION *wt;
    struct directory dir;
    bool in_memory, unclean;
    uint64_t cache_bytes;
    struct disk_watch *disk; /* NULL: in memory */
    struct session_pool pool;
    struct mutex pending_mx; /* guards `pending` */
    struct pending_drop *pending;
    struct mutex error_mx; /* guards `last_error` */
    char last_error[256];  /* WiredTiger's newest message, for texts of failed opens */
};

void session_pool_init(struct session_pool *p);
/* All leased sessions must be back. */
void session_pool_fini(struct session_pool *p);
/* ERR_TEMPORARILY_UNAVAILABLE when the pool is at its limit. Any thread. */
int session_lease(struct engine *e, struct error *err, struct session **ret) MUST_CHECK;
void session_return(struct engine *e, struct session *s);
/* Closes what idle sessions keep open of a table. Any thread. */
void session_pool_forget(struct session_pool *p, const char *ident);

/* WiredTiger's result as an error of ours, with text ("what: why"). Ends the process on a panic.
 * `rc` is not 0. */
int wt_error(struct error *err, int rc, const char *what);

/* The same inside a transaction; remembers that a conflict loses it, and that after any other
 * failure but a duplicate key it must not commit. */
int stx_fail(struct stx *t, int rc, const char *what);
/* The same for a failure that a fault point asks for, by our code. */
int stx_fault(struct stx *t, int code, const char *what);

/* Memory for the inside of one call that changes or finds a record; emptied here. */
struct arena *stx_scratch(struct stx *t);

/* engine_table_drop() that waits for whatever WiredTiger does in the background. */
int engine_table_drop_at_start(struct engine *e, const char *ident, struct error *err) MUST_CHECK;

/* After an unclean end, at start-up: removes the files of tables that WiredTiger does not know any
 * more. It drops a table by its metadata first, and forgets the file when it dies behind that. */
int engine_sweep_files(struct engine *e, struct error *err) MUST_CHECK;

/* Tries the pending drops again. */
void engine_drop_pending(struct engine *e);

void table_uri(const char *ident, char ret[static TABLE_URI_MAX]);
void tcursor_free_all(struct tcursor *list);
/* Closes what the session keeps open of a table; nobody uses the session. */
void tcursor_forget(struct session *s, const char *ident);
/* Its transaction took a new snapshot. Returns the next of the transaction's open cursors. */
struct tcursor *tcursor_lost_position(struct tcursor *c);

#endif
