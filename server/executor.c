/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/executor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "server/serve.h"
#include "server/server.h"

enum {
    WORKERS_MAX = 64,
    LISTENERS_MAX = 8,
    QUEUE_TURNS = 16, /* queued connections before a look at epoll */
    WATCH_MS = 10,    /* how often a busy pool is looked at */
    EXTRA_WORKER_IDLE_MS = 10000,
    TICK_MS = 1000,
    STOP_GRACE_MS = 3000, /* for clients that are slow to take their last reply */
};

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

bool executor_has_queue(struct executor *ex)
{
    return atomic_load_explicit(&ex->queued, memory_order_relaxed) > 0;
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
    struct task *t = malloc(sizeof(*t));

    if (t == NULL)
        abort();
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

void request_interrupt(struct request *rq, int code)
{
    atomic_store(&rq->op.interrupt, code);
    request_wake(rq, WAKE_INTERRUPT);
}

/* --- connections ------------------------------------------------------------------------------ */

static uint64_t conn_key(const struct conn *c)
{
    return c->slot | (uint64_t)c->gen << 32;
}

bool executor_arm(struct executor *ex, struct conn *c, uint32_t events, bool idle)
{
    struct epoll_event ev = {.events = events | EPOLLRDHUP | EPOLLONESHOT};
    bool ok;
    int rc;

    mutex_lock(&c->mx);
    ev.data.u64 = conn_key(c);
    ok = !idle || (events & EPOLLIN) == 0 || !atomic_load(&ex->stopping);
    if (ok) {
        if (idle)
            c->state = CONN_ARMED;
        rc = epoll_ctl(ex->epoll_fd, EPOLL_CTL_MOD, c->transport.fd, &ev);
        ASSERT(rc == 0); /* the socket is open */
    }
    mutex_unlock(&c->mx);
    return ok;
}

void executor_close(struct executor *ex, struct conn *c)
{
    mutex_lock(&c->mx);
    ASSERT(c->rq == NULL);
    c->state = CONN_FREE;
    c->gen++;
    c->hung_up = c->streaming = false;
    mutex_unlock(&c->mx);
    epoll_ctl(ex->epoll_fd, EPOLL_CTL_DEL, c->transport.fd, NULL);
    transport_close(&c->transport);
    conn_clear(c);
    mutex_lock(&ex->mx);
    c->queue_next = ex->free_conns;
    ex->free_conns = c;
    if (atomic_fetch_sub(&ex->server->counters.connections, 1) == 1)
        pthread_cond_broadcast(&ex->all_closed);
    mutex_unlock(&ex->mx);
}

/* A slot for a new connection; NULL when all are taken. */
static struct conn *conn_take(struct executor *ex)
{
    struct conn *c;
    uint32_t slot;

    mutex_lock(&ex->mx);
    c = ex->free_conns;
    slot = atomic_load(&ex->nslots);
    if (c != NULL) {
        ex->free_conns = c->queue_next;
    } else if (slot < LIMIT_CONNECTIONS) {
        c = calloc(1, sizeof(*c));
        if (c == NULL)
            abort();
        mutex_init(&c->mx);
        c->slot = slot;
        c->server = ex->server;
        ex->conns[slot] = c;
        atomic_store(&ex->nslots, slot + 1);
    }
    if (c != NULL)
        atomic_fetch_add(&ex->server->counters.connections, 1);
    mutex_unlock(&ex->mx);
    return c;
}

static char *describe_peer(const struct sockaddr_storage *ss)
{
    char ip[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN + 16] = "anonymous unix socket";

    if (ss->ss_family == AF_INET) {
        const struct sockaddr_in *in4 = (const void *)ss;

        inet_ntop(AF_INET, &in4->sin_addr, ip, sizeof(ip));
        snprintf(text, sizeof(text), "%s:%u", ip, ntohs(in4->sin_port));
    } else if (ss->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)ss;

        inet_ntop(AF_INET6, &in6->sin6_addr, ip, sizeof(ip));
        snprintf(text, sizeof(text), "[%s]:%u", ip, ntohs(in6->sin6_port));
    }
    return strdup(text);
}

static void admit(struct executor *ex, int fd, const struct sockaddr_storage *peer)
{
    struct server *s = ex->server;
    struct conn *c = atomic_load(&ex->stopping) ? NULL : conn_take(ex);
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT};
    int one = 1;

    if (c == NULL) {
        close(fd);
        return;
    }
    c->local = peer->ss_family == AF_UNIX;
    if (!c->local) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    }
    transport_init_plain(&c->transport, fd);
    c->remote = describe_peer(peer);
    c->id = atomic_fetch_add(&s->counters.connections_created, 1) + 1;
    mutex_lock(&c->mx);
    c->state = CONN_ARMED;
    ev.data.u64 = conn_key(c);
    if (epoll_ctl(ex->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0) {
        c->state = CONN_BUSY;
        mutex_unlock(&c->mx);
        executor_close(ex, c);
        return;
    }
    mutex_unlock(&c->mx);
}

static void accept_some(struct executor *ex, int i)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLONESHOT,
                             .data.u64 = EVENT_LISTENER + (uint64_t)i};

    for (int n = 0; n < 64; n++) {
        struct sockaddr_storage ss = {.ss_family = AF_UNIX};
        socklen_t len = sizeof(ss);
        int fd =
            accept4(ex->listeners[i], (struct sockaddr *)&ss, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE) {
                log_event(LOG_WARNING, "network", "out of file descriptors", );
                usleep(10000); /* the backlog keeps the client; without a pause we would spin */
            }
            break;
        }
        admit(ex, fd, &ss);
    }
    if (!atomic_load(&ex->stopping))
        epoll_ctl(ex->epoll_fd, EPOLL_CTL_MOD, ex->listeners[i], &ev);
}

/* An event of a connection: takes it over if it was armed; else its request is waiting and the
 * client has hung up, or spoken out of turn. True: the caller owns it now. */
static bool claim(struct executor *ex, uint64_t key, uint32_t events, struct conn **ret)
{
    struct conn *c = ex->conns[(uint32_t)key];
    bool mine = false;

    mutex_lock(&c->mx);
    if (c->gen == (uint32_t)(key >> 32)) {
        if (c->state == CONN_ARMED) {
            c->state = CONN_BUSY;
            mine = true;
        } else if (c->state == CONN_BUSY && c->rq != NULL &&
                   ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0 || c->streaming)) {
            c->hung_up = true;
            request_interrupt(c->rq, ERR_INTERRUPTED);
        }
    }
    mutex_unlock(&c->mx);
    *ret = c;
    return mine;
}

void executor_each_conn(struct executor *ex,
                        void (*fn)(void *arg, struct conn *c, struct request *rq), void *arg)
{
    uint32_t n = atomic_load(&ex->nslots);

    for (uint32_t i = 0; i < n; i++) {
        struct conn *c = ex->conns[i];

        mutex_lock(&c->mx);
        if (c->state != CONN_FREE)
            fn(arg, c, c->rq);
        mutex_unlock(&c->mx);
    }
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
    struct thread_arg *t = malloc(sizeof(*t));
    pthread_attr_t attr;
    pthread_t id;

    if (t == NULL)
        abort();
    w.ex = ex;
    *t = (struct thread_arg){ex, body, w};
    if (!w.schema && (t->worker.scratch = malloc(CONN_SCRATCH_BYTES)) == NULL)
        abort();
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
    else if (ev->data.u64 >= EVENT_LISTENER)
        accept_some(ex, (int)(ev->data.u64 - EVENT_LISTENER));
    else if (claim(ex, ev->data.u64, ev->events, &c))
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
    if (executor_has_queue(ex) || atomic_load(&ex->quitting))
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

    if (executor_has_queue(ex) || atomic_load(&ex->idle) < ex->base_workers)
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
    if (stuck && atomic_load(&ex->workers) < WORKERS_MAX)
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
            if (!atomic_load(&ex->stopping))
                executor_schema_task(ex, tick_task, ex);
        }
        mutex_lock(&ex->timer_mx);
    }
    mutex_unlock(&ex->timer_mx);
}

/* --- life ------------------------------------------------------------------------------------- */

static void add_to_epoll(struct executor *ex, int fd, uint32_t events, uint64_t key)
{
    struct epoll_event ev = {.events = events, .data.u64 = key};

    if (epoll_ctl(ex->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0)
        abort();
}

struct executor *executor_new(struct server *s)
{
    struct executor *ex = calloc(1, sizeof(*ex));
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    if (ex == NULL)
        abort();
    ex->server = s;
    ex->base_workers = cpus < 2 ? 4 : cpus > 14 ? 16 : (int)cpus + 2;
    ex->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    ex->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ex->conns = calloc(LIMIT_CONNECTIONS, sizeof(struct conn *));
    if (ex->epoll_fd < 0 || ex->event_fd < 0 || ex->conns == NULL)
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
    add_to_epoll(ex, ex->event_fd, EPOLLIN | EPOLLET, EVENT_QUEUE);
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

void executor_listen(struct executor *ex, int fd)
{
    int i = ex->nlisteners++;

    ASSERT(i < LISTENERS_MAX);
    ex->listeners[i] = fd;
    add_to_epoll(ex, fd, EPOLLIN | EPOLLONESHOT, EVENT_LISTENER + (uint64_t)i);
}

/* Closes what is idle and interrupts what waits. */
static void stop_conn(void *arg, struct conn *c, struct request *rq)
{
    struct executor *ex = arg;

    if (c->state == CONN_ARMED && c->out == NULL && rq == NULL) {
        c->state = CONN_BUSY;
        executor_queue(ex, c); /* a worker finds the server stopping and closes it */
    } else if (rq != NULL) {
        request_interrupt(rq, ERR_INTERRUPTED_AT_SHUTDOWN);
    }
    if (clock_mono_us() > ex->stop_deadline_us)
        shutdown(c->transport.fd, SHUT_RDWR); /* a client that does not read its reply */
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
    for (int i = 0; i < ex->nlisteners; i++) {
        epoll_ctl(ex->epoll_fd, EPOLL_CTL_DEL, ex->listeners[i], NULL);
        close(ex->listeners[i]);
    }
    ex->nlisteners = 0;
    if (!ex->started)
        return;
    /* Again and again: a request may have been between two states, and a connection may have been
     * admitted while we looked. */
    mutex_lock(&ex->mx);
    while (atomic_load(&ex->server->counters.connections) > 0) {
        mutex_unlock(&ex->mx);
        executor_each_conn(ex, stop_conn, ex);
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
    for (uint32_t i = 0; i < atomic_load(&ex->nslots); i++) {
        mutex_fini(&ex->conns[i]->mx);
        free(ex->conns[i]);
    }
    while (ex->tasks != NULL) {
        struct task *t = ex->tasks;

        ex->tasks = t->next;
        free(t);
    }
    free(ex->conns);
    timer_heap_fini(&ex->timers);
    close(ex->epoll_fd);
    close(ex->event_fd);
    free(ex);
}

void executor_stats(struct executor *ex, struct executor_stats *ret)
{
    ret->workers = atomic_load(&ex->workers);
    ret->idle = atomic_load(&ex->idle);
    ret->queued = atomic_load(&ex->queued);
}
