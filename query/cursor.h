/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Query cursors: the one pull interface behind find, aggregate, listCollections, change streams
 * and tailable cursors.
 *
 * A cursor owns an arena that holds its parsed query and its remembered position. Between batches
 * it holds no storage transaction, no session and no lock: qcursor_save() drops them and keeps a
 * key to reposition on. The server's cursor registry makes sure one thread uses it at a time.
 */
#ifndef RUNNEL_QUERY_CURSOR_H
#define RUNNEL_QUERY_CURSOR_H

#include "query/database.h"
#include "query/expr.h"

struct qcursor;

/* What one run of rows needs; made by the server per batch. */
struct exec {
    struct op *op;
    struct database *db;
    struct stx *stx;      /* of exec_stx(), when it was needed; exec_end() ends it */
    struct arena scratch; /* rows in flight; see the rule below */
    struct eval ev;       /* ev.scratch == &scratch */
};
/*
 * Rule for scratch: whoever drops a row resets it (a stage that rejects the row, a blocking stage
 * that has absorbed it, the top after it copied it into the reply). What a stage needs for longer
 * than one row it copies to memory of its own.
 */
void exec_init(struct exec *x, struct op *op);
void exec_fini(struct exec *x);
/* The transaction of one read: that of op->txn, or a new one. op->read_optime is loaded before. */
int read_begin(struct op *op, struct stx **ret) MUST_CHECK;
/* Ends it without committing; that of op->txn goes on. No storage cursor is open. NULL: nothing. */
void read_end(struct op *op, struct stx *t);

/* The transaction of this batch, begun on first use, as read_begin() has it. */
int exec_stx(struct exec *x, struct stx **ret) MUST_CHECK;
/* Ends it, as read_end(). */
void exec_end(struct exec *x);

/* What others may know of a stream while its owner runs it. */
struct stream_watch {
    struct scope scope;  /* strings of the cursor */
    uint64_t token_time; /* the time of its resume token */
    bool waiting;        /* it has seen all there is, and waits for more */
};

struct qcursor_ops {
    /* The next row; BV_NONE with *ret_more false: the end; BV_NONE with *ret_more true: nothing
     * now, but there may be later (tailable, stream). */
    int (*next)(struct qcursor *c, struct exec *x, struct bv *ret, bool *ret_more);
    /* The batch ends: drop storage cursors, remember the position. The caller calls exec_end()
     * after this. */
    void (*save)(struct qcursor *c, struct exec *x);
    /* Tailable and stream: park until there may be more. 0: read again; INT_PARK. NULL: no. */
    int (*wait)(struct qcursor *c, struct exec *x);
    /* Streams: the postBatchResumeToken now, into the arena given; NULL: none. */
    struct bv (*resume_token)(struct qcursor *c, struct arena *a);
    /* Called when a row is really put into the reply (streams move their token). NULL: no. An
     * error: it must not be, and the cursor is to be closed. */
    int (*delivered)(struct qcursor *c, struct op *op, struct bv row);
    void (*close)(struct qcursor *c); /* frees what the arena does not hold */
    /* Streams, from any thread while the cursor lives: what it watches and how far it is. NULL: no
     * stream. */
    void (*watch)(struct qcursor *c, struct stream_watch *ret);
    /* explain: appends to w what this cursor does; NULL: nothing to tell */
    void (*explain)(struct qcursor *c, struct bw *w, int verbosity);
};

struct qcursor {
    const struct qcursor_ops *ops;
    struct arena arena;
    const char *ns; /* as the reply's cursor.ns */
    bool tailable, await_data, change_stream;
    bool invalidated;      /* stream: this batch is the last one */
    int64_t position_rows; /* rows delivered so far, for limit bookkeeping of the maker */
};

/* Allocates size bytes (>= sizeof(struct qcursor)) zeroed, in the arena that it then holds. That
 * begins with room for `small` bytes more and doubles from there; 0: as arenas usually do. */
void *qcursor_new(size_t size, size_t small, const struct qcursor_ops *ops);
void qcursor_free(struct qcursor *c); /* NULL: nothing */

/* Calls fn with every row up to the end, or to what is there now; stops at its first error. The
 * cursor stays the caller's. */
int qcursor_each(struct op *op, struct qcursor *c, int (*fn)(void *arg, struct bv row),
                 void *arg) MUST_CHECK;

/* A cursor over documents that are already there (listCollections, listIndexes, $currentOp...):
 * the documents are copied. */
int qcursor_from_array(struct op *op, const char *ns, const struct bv *docs, size_t n,
                       struct qcursor **ret) MUST_CHECK;

#endif
