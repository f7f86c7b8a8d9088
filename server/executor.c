/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Queues, waking, and the threads: workers, the reserved one, schema, timer. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/executor_internal.h"
#include "server/serve.h"
#include "server/server.h"

enum {
    WORKERS_MAX = 64,
    QUEUE_TURNS = 16, /* queued connections before a look at epoll */
    WATCH_MS = 10,    /* how often a busy pool is looked at */
    EXTRA_WORKER_IDLE_MS = 10000,
    TICK_MS = 1000,
    STOP_GRACE_MS = 3000, /* for clients that are slow to take their last reply */
};

/* --- queues ----------------------------------------------------------------------------------- */

static void queue_init(struct queue *q)
{
    q->head = NULL;
    q->tail = &q->head;
}

static void queue_push(struct queue *q, struct conn *c)
{
    c->queue_next = NULL;
    *q->tail = c;
    q->tail = &c->queue_next;
}

static struct conn *queue_pop(struct queue *q)
{
    struct conn *c = q->head;

    if (c != NULL && (q->head = c->queue_next) == NULL)
        q->tail = &q->head;
    return c;
}

/* Tells a waiting worker of the queue, unless one has been told already or none waits: a worker
 * looks at the queue once more after it has counted itself idle. */
static void signal_queue(struct executor *ex)
{
    uint64_t one = 1;

    if (atomic_load(&ex->queued) > 0 && atomic_load(&ex->idle) > 0 &&
        !atomic_exchange(&ex->signalled, true)) {
        ssize_t n = write(ex->event_fd, &one, sizeof(one));

        (void)n; /* a full counter is signalled enough */
    }
}

void executor_queue(struct executor *ex, struct conn *c)
{
    struct request *rq = c->rq;
    bool quick = rq != NULL && rq->cmd != NULL && (rq->cmd->flags & CMD_QUICK) != 0;

    mutex_lock(&ex->mx);
    queue_push(quick ? &ex->quick : &ex->ready, c);
    atomic_fetch_add(&ex->queued, 1);
    mutex_unlock(&ex->mx);
    signal_queue(ex);
}

static bool has_queue(struct executor *ex)
{
    return atomic_load_explicit(&ex->queued, memory_order_relaxed) > 0;
}

bool executor_is_wanted(struct executor *ex)
{
    return has_queue(ex) || atomic_load_explicit(&ex->idle, memory_order_relaxed) == 0;
}

static struct conn *take_queued(struct executor *ex, bool quick_only)
{
    struct conn *c;

    if (atomic_load(&ex->queued) == 0)
        return NULL;
    mutex_lock(&ex->mx);
    c = queue_pop(&ex->quick);
    if (c == NULL && !quick_only)
        c = queue_pop(&ex->ready);
    if (c != NULL)
        atomic_fetch_sub(&ex->queued, 1);
    mutex_unlock(&ex->mx);
    if (c != NULL)
        signal_queue(ex);
    return c;
}

void executor_queue_schema(struct executor *ex, struct conn *c)
{
    mutex_lock(&ex->schema_mx);
    queue_push(&ex->schema, c);
    pthread_cond_signal(&ex->schema_cv);
    mutex_unlock(&ex->schema_mx);
}

void executor_schema_task(struct executor *ex, void (*fn)(void *arg), void *arg)
{
    struct task *t = mem_must(sizeof(*t));

    *t = (struct task){NULL, fn, arg};
    mutex_lock(&ex->schema_mx);
    *ex->tasks_tail = t;
    ex->tasks_tail = &t->next;
    pthread_cond_signal(&ex->schema_cv);
    mutex_unlock(&ex->schema_mx);
}

/* --- waking ----------------------------------------------------------------------------------- */

void request_wake(struct request *rq, enum wake_reason reason)
{
    struct executor *ex = rq->server->executor;
    struct conn *c = rq->conn;

    if (!parking_wake(&rq->parking, reason))
        return;
    if (rq->to_schema && rq->phase == REQUEST_RUN)
        executor_queue_schema(ex, c);
    else
        executor_queue(ex, c);
}

void request_waiter_wake(struct waiter *w)
{
    request_wake(rq_of((char *)w - offsetof(struct op, waiter)), WAKE_READY);
}

void request_stuck(struct op *op, bool is)
{
    atomic_fetch_add(&rq_of(op)->server->executor->stuck, is ? 1 : -1);
}

void request_interrupt(struct request *rq, int code)
{
    atomic_store(&rq->op.interrupt, code);
    request_wake(rq, WAKE_INTERRUPT);
}

/* --- threads ---------------------------------------------------------------------------------- */

struct thread_arg {
    struct executor *ex;
    void (*body)(struct executor *ex, struct worker *w);
    struct worker worker;
};

static void *thread_main(void *p)
{
    struct thread_arg *t = p;
    struct executor *ex = t->ex;

    t->body(ex, &t->worker);
    request_thread_end();
    free(t->worker.scratch);
    free(t);
    mutex_lock(&ex->threads_mx);
    ex->threads--;
    pthread_cond_broadcast(&ex->threads_cv);
    mutex_unlock(&ex->threads_mx);
    return NULL;
}

static void spawn(struct executor *ex, void (*body)(struct executor *ex, struct worker *w),
                  struct worker w)
{
    struct thread_arg *t = mem_must(sizeof(*t));
    pthread_attr_t attr;
    pthread_t id;

    w.ex = ex;
    *t = (struct thread_arg){ex, body, w};
    if (!w.schema)
        t->worker.scratch = mem_must(CONN_SCRATCH_BYTES);
    mutex_lock(&ex->threads_mx);
    ex->threads++;
    mutex_unlock(&ex->threads_mx);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&id, &attr, thread_main, t) != 0) {
        log_event(LOG_FATAL, "executor", "cannot start a thread", );
        abort();
    }
    pthread_attr_destroy(&attr);
}

static void handle_event(struct executor *ex, struct worker *w, const struct epoll_event *ev)
{
    struct conn *c;

    if (ev->data.u64 == EVENT_QUEUE)
        atomic_store(&ex->signalled, false);
    else if (conn_table_event(ex, ev->data.u64, ev->events, &c))
        serve_conn(w, c);
}

static void start_watching(struct executor *ex)
{
    if (atomic_load(&ex->watching) || atomic_exchange(&ex->watching, true))
        return;
    mutex_lock(&ex->timer_mx);
    pthread_cond_signal(&ex->timer_cv);
    mutex_unlock(&ex->timer_mx);
}

/* Waits for one event. Between counting itself idle and waiting, a worker looks at the queue once
 * more: whoever queues without seeing an idle worker does not signal. */
static int wait_event(struct executor *ex, bool poll_only, struct epoll_event *ev)
{
    bool extra = atomic_load(&ex->workers) > ex->base_workers;
    int n, timeout = poll_only ? 0 : extra ? EXTRA_WORKER_IDLE_MS : -1;

    atomic_fetch_add(&ex->idle, 1);
    if (has_queue(ex) || atomic_load(&ex->quitting))
        timeout = 0;
    n = epoll_wait(ex->epoll_fd, ev, 1, timeout);
    if (atomic_fetch_sub(&ex->idle, 1) == 1)
        start_watching(ex);
    return n;
}

/* An extra worker may go when as many as in a pool of normal size wait with it. */
static bool may_leave(struct executor *ex)
{
    int n = atomic_load(&ex->workers);

    if (has_queue(ex) || atomic_load(&ex->idle) < ex->base_workers)
        return false;
    while (n > ex->base_workers) {
        if (atomic_compare_exchange_weak(&ex->workers, &n, n - 1))
            return true;
    }
    return false;
}

static void worker_body(struct executor *ex, struct worker *w)
{
    int turns = 0;

    while (!atomic_load(&ex->quitting)) {
        struct conn *c = turns < QUEUE_TURNS ? take_queued(ex, false) : NULL;
        struct epoll_event ev;
        int n;

        if (c != NULL) {
            turns++;
            serve_queued(w, c);
            continue;
        }
        n = wait_event(ex, turns == QUEUE_TURNS, &ev);
        turns = 0;
        if (n > 0)
            handle_event(ex, w, &ev);
        else if (n == 0 && may_leave(ex))
            return;
    }
}

static void start_worker(struct executor *ex)
{
    atomic_fetch_add(&ex->workers, 1);
    spawn(ex, worker_body, (struct worker){0});
}

/* Works only while the pool is stuck: see the timer thread. */
static void reserve_body(struct executor *ex, struct worker *w)
{
    for (;;) {
        struct conn *c;
        struct epoll_event ev;

        mutex_lock(&ex->reserve_mx);
        while (!atomic_load(&ex->reserve_active) && !atomic_load(&ex->quitting))
            mutex_wait(&ex->reserve_mx, &ex->reserve_cv, -1);
        mutex_unlock(&ex->reserve_mx);
        if (atomic_load(&ex->quitting))
            return;
        c = take_queued(ex, true);
        if (c != NULL) {
            serve_queued(w, c);
        } else if (epoll_wait(ex->epoll_fd, &ev, 1, WATCH_MS) > 0) {
            handle_event(ex, w, &ev);
            signal_queue(ex);
        }
    }
}

static void schema_body(struct executor *ex, struct worker *w)
{
    for (;;) {
        struct conn *c;
        struct task *t;

        mutex_lock(&ex->schema_mx);
        while ((c = queue_pop(&ex->schema)) == NULL && ex->tasks == NULL &&
               !atomic_load(&ex->quitting))
            mutex_wait(&ex->schema_mx, &ex->schema_cv, -1);
        t = ex->tasks;
        if (c == NULL && t != NULL && (ex->tasks = t->next) == NULL)
            ex->tasks_tail = &ex->tasks;
        mutex_unlock(&ex->schema_mx);
        if (c != NULL) {
            serve_queued(w, c);
        } else if (t != NULL) {
            t->fn(t->arg);
            free(t);
        } else {
            return;
        }
    }
}

/* --- the timer thread ------------------------------------------------------------------------- */

void executor_timer_set(struct executor *ex, struct request *rq, int64_t when_us)
{
    mutex_lock(&ex->timer_mx);
    if (timer_set(&ex->timers, &rq->timer, when_us))
        pthread_cond_signal(&ex->timer_cv);
    mutex_unlock(&ex->timer_mx);
}

void executor_timer_cancel(struct executor *ex, struct request *rq)
{
    if (rq->timer.when_us == 0)
        return;
    mutex_lock(&ex->timer_mx);
    timer_cancel(&ex->timers, &rq->timer);
    rq->timer.when_us = 0;
    mutex_unlock(&ex->timer_mx);
}

void executor_progress(struct executor *ex)
{
    atomic_fetch_add_explicit(&ex->progress, 1, memory_order_relaxed);
}

/* Wakes what is due; the time of the next one, or `latest`. */
static int64_t fire_timers_locked(struct executor *ex, int64_t now, int64_t latest)
{
    struct timer *t;

    mutex_assert_held(&ex->timer_mx);
    while ((t = timer_first(&ex->timers)) != NULL && t->when_us <= now) {
        timer_cancel(&ex->timers, t);
        request_wake((struct request *)(void *)((char *)t - offsetof(struct request, timer)),
                     WAKE_TIMEOUT);
    }
    return t != NULL && t->when_us < latest ? t->when_us : latest;
}

/* Looks at a pool without an idle worker. Nothing finished since the last look: it is stuck, so it
 * grows, and the reserved worker comes in until a worker is idle again. */
static void watch_pool(struct executor *ex, uint64_t *last)
{
    uint64_t progress = atomic_load(&ex->progress);
    bool stuck = atomic_load(&ex->idle) == 0 && progress == *last;

    *last = progress;
    if (stuck && atomic_load(&ex->workers) < WORKERS_MAX + atomic_load(&ex->stuck))
        start_worker(ex);
    if (stuck != atomic_load(&ex->reserve_active)) {
        mutex_lock(&ex->reserve_mx);
        atomic_store(&ex->reserve_active, stuck);
        pthread_cond_signal(&ex->reserve_cv);
        mutex_unlock(&ex->reserve_mx);
    }
    if (atomic_load(&ex->idle) > 0)
        atomic_store(&ex->watching, false);
}

static void tick_task(void *arg)
{
    struct executor *ex = arg;

    ex->tick(ex->server);
}

static void timer_body(struct executor *ex, struct worker *w)
{
    int64_t next_tick = clock_mono_us() + TICK_MS * 1000;
    uint64_t progress = 0;

    (void)w;
    mutex_lock(&ex->timer_mx);
    while (!atomic_load(&ex->quitting)) {
        int64_t now = clock_mono_us(), until;
        bool watching = atomic_load(&ex->watching);

        until = fire_timers_locked(ex, now, next_tick);
        if (watching && now + WATCH_MS * 1000 < until)
            until = now + WATCH_MS * 1000;
        mutex_wait(&ex->timer_mx, &ex->timer_cv, until);
        mutex_unlock(&ex->timer_mx);
        now = clock_mono_us();
        if (watching)
            watch_pool(ex, &progress);
        if (now >= next_tick) {
            next_tick = now + TICK_MS * 1000;
            conn_table_watch(ex);
            if (!atomic_load(&ex->stopping))
                executor_schema_task(ex, tick_task, ex);
        }
        mutex_lock(&ex->timer_mx);
    }
    mutex_unlock(&ex->timer_mx);
}

/* --- life ------------------------------------------------------------------------------------- */

struct executor *executor_new(struct server *s)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u64 = EVENT_QUEUE};
    struct executor *ex = mem_must_zero(1, sizeof(*ex));
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    ex->server = s;
    ex->base_workers = cpus < 2 ? 3 : cpus > 15 ? 16 : (int)cpus + 1;
    ex->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    ex->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ex->conns = mem_must_zero(LIMIT_CONNECTIONS, sizeof(struct conn *));
    if (ex->epoll_fd < 0 || ex->event_fd < 0)
        abort();
    mutex_init(&ex->mx);
    mutex_init(&ex->schema_mx);
    mutex_init(&ex->timer_mx);
    mutex_init(&ex->reserve_mx);
    mutex_init(&ex->threads_mx);
    cond_init(&ex->all_closed);
    cond_init(&ex->schema_cv);
    cond_init(&ex->timer_cv);
    cond_init(&ex->reserve_cv);
    cond_init(&ex->threads_cv);
    queue_init(&ex->ready);
    queue_init(&ex->quick);
    queue_init(&ex->schema);
    ex->tasks_tail = &ex->tasks;
    timer_heap_init(&ex->timers);
    if (epoll_ctl(ex->epoll_fd, EPOLL_CTL_ADD, ex->event_fd, &ev) != 0)
        abort();
    return ex;
}

void executor_start(struct executor *ex, void (*tick)(struct server *s))
{
    ex->tick = tick;
    ex->started = true;
    for (int i = 0; i < ex->base_workers; i++)
        start_worker(ex);
    spawn(ex, reserve_body, (struct worker){.reserved = true});
    spawn(ex, schema_body, (struct worker){.schema = true});
    spawn(ex, timer_body, (struct worker){.schema = true});
}

static void quit_threads(struct executor *ex)
{
    uint64_t one = 1;

    atomic_store(&ex->quitting, true);
    mutex_lock(&ex->threads_mx);
    while (ex->threads > 0) {
        ssize_t n = write(ex->event_fd, &one, sizeof(one));

        (void)n;
        pthread_cond_signal(&ex->schema_cv);
        pthread_cond_signal(&ex->timer_cv);
        pthread_cond_signal(&ex->reserve_cv);
        mutex_wait(&ex->threads_mx, &ex->threads_cv, clock_mono_us() + 5000);
    }
    mutex_unlock(&ex->threads_mx);
}

void executor_stop(struct executor *ex)
{
    ex->stop_deadline_us = clock_mono_us() + STOP_GRACE_MS * 1000;
    atomic_store(&ex->stopping, true);
    conn_table_refuse(ex);
    if (!ex->started)
        return;
    /* Again and again: a request may have been between two states, and a connection may have been
     * admitted while we looked. */
    mutex_lock(&ex->mx);
    while (atomic_load(&ex->server->counters.connections) > 0) {
        mutex_unlock(&ex->mx);
        conn_table_stop_idle(ex);
        mutex_lock(&ex->mx);
        if (atomic_load(&ex->server->counters.connections) > 0)
            mutex_wait(&ex->mx, &ex->all_closed, clock_mono_us() + 50000);
    }
    mutex_unlock(&ex->mx);
    quit_threads(ex);
}

void executor_free(struct executor *ex)
{
    if (ex == NULL)
        return;
    while (ex->tasks != NULL) {
        struct task *t = ex->tasks;

        ex->tasks = t->next;
        free(t);
    }
    conn_table_fini(ex);
    timer_heap_fini(&ex->timers);
    close(ex->epoll_fd);
    close(ex->event_fd);
    free(ex);
}

void executor_stats(struct executor *ex, struct executor_stats *ret)
{
    ret->workers = atomic_load(&ex->workers);
    ret->idle = atomic_load(&ex->idle);
    ret->stuck = atomic_load(&ex->stuck);
    ret->queued = atomic_load(&ex->queued);
}
