/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One request while it is worked on: memory, error, deadline, interruption, and how to wait.
 *
 * A struct op is the first argument of nearly every function above base/. It belongs to the one
 * thread that runs the request; only `interrupt` and the waiter machinery are touched by others.
 *
 * Waiting. A request never blocks its thread. To wait, code registers `op->waiter` on the wait
 * list of what it waits for (a lock, the hub, a horizon; each list has its own mutex and offers
 * register and unregister), sets op->park_deadline_us, and returns INT_PARK through all levels.
 * The executor parks the request; whoever makes the condition true calls waiter->wake(waiter).
 * The request is then unregistered from its list (op->unpark) and RUN AGAIN FROM ITS START with
 * op->runs > 1, by any thread, with an empty arena. So code may return INT_PARK only while it has
 * changed nothing that running again would repeat (or has noted how far it came, in op->resume:
 * bulkWrite does). What must survive a park (the time the first
 * wait began, a position already reached) lives in op->park_deadline_us, op->resume, or in the
 * cursor. wake() may be called from any thread, also with the list's mutex held, also more than
 * once, also before the request has finished parking: none of these is lost.
 */
#ifndef RUNNEL_BASE_OP_H
#define RUNNEL_BASE_OP_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/bv.h"
#include "base/error.h"

enum { OP_WORK_STEP = 256 * 1024 }; /* see op_work() */

enum wake_reason {
    WAKE_NONE = 0,
    WAKE_READY = 1,    /* the condition came true */
    WAKE_TIMEOUT = 2,  /* park_deadline_us passed */
    WAKE_HANGUP = 3,   /* the client is gone */
    WAKE_INTERRUPT = 4 /* killOp, killCursors, shutdown: see op->interrupt */
};

/* A node on somebody's wait list; embedded in struct op. */
struct waiter {
    struct waiter *next, *prev;     /* for the list's use, under its mutex; NULL: on no list */
    void (*wake)(struct waiter *w); /* set by the executor; any thread */
    uint64_t wanted;                /* for the list's use: an optime or a ticket */
    void *list;                     /* for the list's use: which bucket holds it */
};

struct database;
struct txn;

struct op {
    struct arena arena;
    struct error *err;     /* its own; NULL only while it rests */
    _Atomic int interrupt; /* 0, or the error code to fail with; set by any thread */
    bool on_schema_thread; /* schema calls are allowed; else return INT_TO_SCHEMA first */
    bool ends_with_client; /* parked for something that its client's hang-up ends, write or not */
    int64_t start_us;      /* monotonic */
    int64_t deadline_us;   /* maxTimeMS, monotonic; 0: none */
    size_t work;           /* done since op_work() looked last */

    int64_t wtimeout_us; /* how long a write that could not begin may wait for the disk; 0: long */
    int64_t room_until_us;                 /* when that is over; set by the first such wait */
    void (*stuck)(struct op *op, bool is); /* see op_note_stuck(); NULL: nobody wants to know */

    const char *db; /* $db; in the arena */
    struct bv cmd;  /* the whole command, kind-1 sections merged in as arrays */

    unsigned runs;            /* 1 on the first run, more after a park */
    enum wake_reason woken;   /* why it runs again */
    int64_t park_deadline_us; /* wake with WAKE_TIMEOUT at this time; 0: none; survives a park */
    struct waiter waiter;
    void (*unpark)(struct op *op); /* takes the waiter off its list; set by who registered it */
    void *park_list;               /* for unpark's use */
    void *resume;                  /* heap state that survives a park; freed by resume_free */
    void (*resume_free)(void *resume);

    uint64_t wrote_optime; /* newest optime this request wrote, 0: none */
    uint64_t read_optime;  /* operationTime of a read: loaded before its snapshot opened */
    /* What the finished reply still waits for before it is sent (the executor parks for it and
     * does not run the request again): */
    uint64_t ack_visible; /* visible horizon >= this optime; 0: nothing */
    uint64_t ack_durable; /* durable horizon >= this optime; 0: nothing */
    uint64_t ack_flush;   /* flush ticket (oplog_flush_ticket); 0: nothing */
    uint64_t connection_id;
    struct database *database; /* query/database.h */
    struct txn *txn;           /* the transaction it works in, query/txn.h; NULL: none */
    void *server;              /* struct server, for server/ only */
    void *request;             /* struct request, for server/ only */
};

/* Sets the error of this request and returns code. */
int op_fail(struct op *op, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* The answer when memory is out for something whose size a client chose: sets and returns
 * ERR_EXCEEDED_MEMORY_LIMIT. */
int op_no_memory(struct op *op);
/* A copy of v in an arena. 0, or op_no_memory(); *ret is set only on success and may be v's place.
 */
int op_dup(struct op *op, struct arena *a, struct bv v, struct bv *ret) MUST_CHECK;

/* The interrupt check that long operations make every few hundred documents: 0, or the code of
 * an interrupt or a passed deadline (ERR_MAX_TIME_MS_EXPIRED), with its text set. */
int op_check(struct op *op) MUST_CHECK;

/* The thread begins or ends a wait on something that may take long. */
void op_note_stuck(struct op *op, bool is);

/* Accounts for work on data whose size a client chose: bytes gone through, or steps that take as
 * long. About every millisecond of it makes the check that op_check() makes. Whatever a row, an
 * operand or a path may cost goes through here, since a check every so many of them can be seconds
 * apart. */
static inline int MUST_CHECK op_work(struct op *op, size_t n)
{
    op->work += n;
    if (op->work < OP_WORK_STEP)
        return 0;
    op->work = 0;
    return op_check(op);
}

void op_init(struct op *op);
/* As op_fini() and op_init(), but what it has of small memory is used again. */
void op_renew(struct op *op);
/* Before a long wait: gives back what the next run does not need. Until op_wake() nothing may use
 * its arena or fail. */
void op_rest(struct op *op);
void op_wake(struct op *op); /* one that does not rest: nothing */
void op_fini(struct op *op);

#endif
