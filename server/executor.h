/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Threads that run requests (decision D4, trap T14).
 *
 * Workers share one epoll instance, which tells of edges: a connection is registered once, and a
 * request costs no call for it. Whichever worker gets a readable connection frames one message,
 * runs it to its end and writes the reply (serve.c). A request that
 * must wait is parked and costs no thread; whoever wakes it puts its connection on the run queue,
 * from which any worker continues it. While all workers are busy and none finishes, the pool grows
 * to a limit, and one reserved worker takes the connections in turn: it answers commands marked
 * CMD_QUICK itself and queues the others, so that a stuck server still looks alive.
 *
 * The schema thread runs requests that make schema calls, one at a time, and internal tasks. The
 * timer thread wakes requests whose time has come, ticks once a second, and watches the pool.
 *
 * Lock order: a connection's mx, or a wait list's mutex, or timer_mx; then the executor's mx,
 * which is a leaf.
 */
#ifndef RUNNEL_SERVER_EXECUTOR_H
#define RUNNEL_SERVER_EXECUTOR_H

#include "server/command.h"
#include "server/conn.h"

struct executor;

/* One thread's share of the executor. */
struct worker {
    struct executor *ex;
    uint8_t *scratch; /* CONN_SCRATCH_BYTES for messages; NULL on the schema thread */
    bool reserved, schema;
};

struct executor *executor_new(struct server *s);
/* Starts the threads; `tick` is called about once a second on the schema thread. */
void executor_start(struct executor *ex, void (*tick)(struct server *s));
/* Takes over a listening socket, which must be non-blocking. */
void executor_listen(struct executor *ex, int fd);
/*
 * Stops orderly: no new connections and no new messages; idle connections are closed, waiting
 * requests are interrupted (11600), finished replies still wait for their horizon and are sent.
 * Returns when every request has ended and all threads are gone.
 */
void executor_stop(struct executor *ex);
void executor_free(struct executor *ex); /* NULL: nothing */

/* Runs fn(arg) on the schema thread, in turn. Any thread. */
void executor_schema_task(struct executor *ex, void (*fn)(void *arg), void *arg);

/* Makes a request fail with `code` at its next check, and wakes it. The caller keeps it from
 * ending meanwhile (by the lock under which it is registered). Any thread. */
void request_interrupt(struct request *rq, int code);
void request_wake(struct request *rq, enum wake_reason reason);
/* struct op's stuck: the pool may grow by one meanwhile. */
void request_stuck(struct op *op, bool is);
/* struct waiter's wake. */
void request_waiter_wake(struct waiter *w);

/* For each connection: fn under its mx. rq may be NULL. */
void executor_each_conn(struct executor *ex,
                        void (*fn)(void *arg, struct conn *c, struct request *rq), void *arg);

struct executor_stats {
    int workers, idle, stuck, queued;
};
void executor_stats(struct executor *ex, struct executor_stats *ret);

/* --- for serve.c ------------------------------------------------------------------------------ */

/* Puts a connection on the run queue: its request is to be continued, or, without one, its input
 * to be looked at. */
void executor_queue(struct executor *ex, struct conn *c);
void executor_queue_schema(struct executor *ex, struct conn *c);
enum armed {
    ARMED,        /* epoll owns it */
    ARM_AGAIN,    /* something has come meanwhile: look again, then arm */
    ARM_STOPPING, /* the executor stops: close it */
};
/* Gives a connection without a request, all whose input has been read, to epoll until there is
 * more. */
enum armed executor_arm(struct executor *ex, struct conn *c);
/* Gives a connection to epoll until its client takes more of the output. */
void executor_arm_for_output(struct executor *ex, struct conn *c);
/* From now on a hang-up, also one that has been, interrupts the request of c, which the caller owns
 * and parks; in an exhaust series, so does anything that the client says. */
void executor_watch(struct executor *ex, struct conn *c);
/* The owner closes the connection. Its request, if any, has been freed. */
void executor_close(struct executor *ex, struct conn *c);
void executor_timer_set(struct executor *ex, struct request *rq, int64_t when_us);
void executor_timer_cancel(struct executor *ex, struct request *rq);
void executor_progress(struct executor *ex); /* a request has ended */
/* True: others wait, or may wait and no worker is free to see it. */
bool executor_is_wanted(struct executor *ex);

#endif
