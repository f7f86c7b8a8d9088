/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The executor's own state, shared by executor.c (threads) and conn_table.c (connections). */
#ifndef RUNNEL_SERVER_EXECUTOR_INTERNAL_H
#define RUNNEL_SERVER_EXECUTOR_INTERNAL_H

#include "base/mutex.h"
#include "server/executor.h"

enum { LISTENERS_MAX = 8 };

/* epoll data: slot | generation << 32 for a connection, else one of these. */
#define EVENT_QUEUE    UINT64_MAX
#define EVENT_LISTENER (UINT64_MAX - LISTENERS_MAX)

struct queue {
    struct conn *head, **tail;
};

struct task {
    struct task *next;
    void (*fn)(void *arg);
    void *arg;
};

struct executor {
    struct server *server;
    int epoll_fd, event_fd;
    int listeners[LISTENERS_MAX];
    int nlisteners;
    bool started;
    _Atomic bool stopping; /* no new messages */
    _Atomic bool quitting; /* threads return */
    int64_t stop_deadline_us;

    struct mutex mx; /* queues and slots */
    struct queue ready;
    struct queue quick; /* requests of CMD_QUICK commands */
    _Atomic int queued; /* in both */
    struct conn *free_conns;
    struct conn **conns; /* LIMIT_CONNECTIONS slots, filled from the front */
    _Atomic uint32_t nslots;
    pthread_cond_t all_closed;

    _Atomic int idle;          /* workers in epoll_wait */
    _Atomic bool signalled;    /* a worker has been told of the queue and has not looked yet */
    _Atomic uint64_t progress; /* requests ended */
    _Atomic int workers;
    _Atomic int stuck; /* threads that say of themselves that they wait: op_note_stuck() */
    int base_workers;
    _Atomic bool watching; /* the timer thread looks at the pool */
    _Atomic bool reserve_active;

    struct mutex schema_mx;
    pthread_cond_t schema_cv;
    struct queue schema;
    struct task *tasks, **tasks_tail;

    struct mutex timer_mx;
    pthread_cond_t timer_cv;
    struct timer_heap timers;
    struct mutex reserve_mx;
    pthread_cond_t reserve_cv;

    struct mutex threads_mx;
    pthread_cond_t threads_cv;
    int threads; /* running */
    void (*tick)(struct server *s);
};

/* An epoll event of a listening socket or a connection. True: *ret is a connection that the caller
 * owns now. */
bool conn_table_event(struct executor *ex, uint64_t key, uint32_t events, struct conn **ret);
/* Refuses new connections; closes the idle ones and interrupts what the others wait for. */
void conn_table_refuse(struct executor *ex);
void conn_table_stop_idle(struct executor *ex);
/* Once a second: closes clients that have stopped within a message, and lets a hang-up interrupt
 * requests that run for long. */
void conn_table_watch(struct executor *ex);
/* No thread is left. */
void conn_table_fini(struct executor *ex);

#endif
