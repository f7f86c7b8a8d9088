/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The executor's connections: slots, accepting, arming, and who owns one when an event comes.
 *
 * A slot's struct is made once and recycled; its generation, which is part of the key that epoll
 * hands back, tells an event of the connection that is there from one of a predecessor.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/executor_internal.h"
#include "server/server.h"

enum { ACCEPT_TURNS = 64, LONG_REQUEST_US = 1000000 };

/* What epoll tells of. While output is unsent, nothing else is looked at: not even that the client
 * will say nothing more, which would come again and again. */
#define INPUT_EVENTS  ((uint32_t)EPOLLIN | EPOLLRDHUP | EPOLLET)
#define OUTPUT_EVENTS ((uint32_t)EPOLLOUT | EPOLLET)

static uint64_t conn_key(const struct conn *c)
{
    return c->slot | (uint64_t)c->gen << 32;
}

/* Registers again: epoll looks anew, and tells of what is there already. */
static void register_for(struct executor *ex, struct conn *c, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.u64 = conn_key(c)};
    int rc = epoll_ctl(ex->epoll_fd, EPOLL_CTL_MOD, c->transport.fd, &ev);

    ASSERT(rc == 0); /* the socket is open */
    c->output_only = events == OUTPUT_EVENTS;
}

enum armed executor_arm(struct executor *ex, struct conn *c)
{
    enum armed armed = ARMED;

    mutex_lock(&c->mx);
    if (c->edges != 0)
        armed = ARM_AGAIN;
    else if (atomic_load(&ex->stopping))
        armed = ARM_STOPPING;
    c->edges &= CONN_HANG_UP;
    c->dry = c->watched = false;
    if (armed == ARMED) {
        conn_note_progress(c);
        c->state = CONN_ARMED;
        if (c->output_only)
            register_for(ex, c, INPUT_EVENTS);
    }
    atomic_store_explicit(&c->look, c->amid_since_us != 0, memory_order_relaxed);
    mutex_unlock(&c->mx);
    return armed;
}

void executor_arm_for_output(struct executor *ex, struct conn *c)
{
    mutex_lock(&c->mx);
    conn_note_progress(c);
    c->watched = false;
    c->state = CONN_ARMED;
    register_for(ex, c, OUTPUT_EVENTS);
    atomic_store_explicit(&c->look, c->amid_since_us != 0, memory_order_relaxed);
    mutex_unlock(&c->mx);
}

/* Whether there are bytes to read: an edge may be of some that have been read. */
static bool has_input(struct conn *c)
{
    char byte;

    return recv(c->transport.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Under mx, of a BUSY connection: whoever allowed an exhaust series must be silent until its end.
 */
static void interrupt_if_gone(struct conn *c)
{
    bool gone = (c->edges & CONN_HANG_UP) != 0;

    if (c->streaming && (c->edges & EPOLLIN) != 0)
        gone |= has_input(c);
    if (!gone || !c->watched || c->sheltered || c->rq == NULL)
        return;
    c->hung_up = true;
    request_interrupt(c->rq, ERR_CLIENT_DISCONNECT);
}

/* Under mx, of a BUSY connection. */
static void watch(struct executor *ex, struct conn *c)
{
    c->watched = true;
    atomic_store_explicit(&c->look, false, memory_order_relaxed); /* an event comes without that */
    if (c->output_only)
        register_for(ex, c, INPUT_EVENTS);
    interrupt_if_gone(c);
}

void executor_watch(struct executor *ex, struct conn *c)
{
    mutex_lock(&c->mx);
    watch(ex, c);
    mutex_unlock(&c->mx);
}

void executor_close(struct executor *ex, struct conn *c)
{
    mutex_lock(&c->mx);
    ASSERT(c->rq == NULL);
    c->state = CONN_FREE;
    c->gen++;
    c->hung_up = c->streaming = c->watched = false;
    c->output_only = false;
    c->edges = 0;
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
    } else if (slot < ex->server->settings.max_connections) {
        c = mem_must_zero(1, sizeof(*c));
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
    return mem_must_strdup(text);
}

/* A peer that is gone without a word is found out in about five minutes. */
static void keep_alive(int fd)
{
    static const int on = 1, idle_s = 300, interval_s = 1;

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
}

static void admit(struct executor *ex, int fd, const struct sockaddr_storage *peer)
{
    struct server *s = ex->server;
    struct conn *c = atomic_load(&ex->stopping) ? NULL : conn_take(ex);
    struct epoll_event ev = {.events = INPUT_EVENTS};
    int one = 1;

    if (c == NULL) {
        if (!atomic_load(&ex->stopping))
            atomic_fetch_add(&s->counters.refused, 1);
        close(fd);
        return;
    }
    c->local = peer->ss_family == AF_UNIX;
    if (!c->local) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        keep_alive(fd);
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

    for (int n = 0; n < ACCEPT_TURNS; n++) {
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

/* An event of a connection: takes it over if it was armed. True: the caller owns it now. */
static bool claim(struct executor *ex, uint64_t key, uint32_t events, struct conn **ret)
{
    struct conn *c = ex->conns[(uint32_t)key];
    bool mine = false;

    mutex_lock(&c->mx);
    if (c->gen == (uint32_t)(key >> 32)) {
        atomic_store_explicit(&c->look, true, memory_order_relaxed);
        mine = c->state == CONN_ARMED;
        /* A hang-up is kept in any case, so that the owner reads on to the end of the input. */
        c->edges |= events & (mine ? CONN_HANG_UP : CONN_HANG_UP | EPOLLIN);
        if (mine)
            c->state = CONN_BUSY;
        else
            interrupt_if_gone(c);
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

bool conn_table_event(struct executor *ex, uint64_t key, uint32_t events, struct conn **ret)
{
    if (key >= EVENT_LISTENER) {
        accept_some(ex, (int)(key - EVENT_LISTENER));
        return false;
    }
    return claim(ex, key, events, ret);
}

void executor_listen(struct executor *ex, int fd)
{
    int i = ex->nlisteners++;
    struct epoll_event ev = {.events = EPOLLIN | EPOLLONESHOT,
                             .data.u64 = EVENT_LISTENER + (uint64_t)i};

    ASSERT(i < LISTENERS_MAX);
    ex->listeners[i] = fd;
    if (epoll_ctl(ex->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0)
        abort();
}

/* Closes a client that has stopped within a message. And a hang-up interrupts what runs for long,
 * as it does what is parked; what is short is done, and its reply is lost or read. */
static void watch_conn(struct executor *ex, struct conn *c)
{
    if (c->state == CONN_ARMED && conn_stalled(c, clock_mono_us())) {
        c->amid_since_us = 0;
        atomic_fetch_add(&ex->server->counters.stalled, 1);
        shutdown(c->transport.fd, SHUT_RDWR); /* epoll tells a worker, who closes it */
        log_event(LOG_INFO, "network", "client stopped within a message: connection closed",
                  {"conn", LOG_NUM(c->id)}, );
    }
    if (c->state == CONN_BUSY && c->rq != NULL && !c->watched && !c->streaming && !c->sheltered &&
        clock_mono_us() - c->rq_since_us > LONG_REQUEST_US)
        watch(ex, c);
}

/* Of thousands of connections nearly all are idle or parked. */
void conn_table_watch(struct executor *ex)
{
    uint32_t n = atomic_load(&ex->nslots);

    for (uint32_t i = 0; i < n; i++) {
        struct conn *c = ex->conns[i];

        if (!atomic_load_explicit(&c->look, memory_order_relaxed))
            continue;
        mutex_lock(&c->mx);
        if (c->state != CONN_FREE)
            watch_conn(ex, c);
        mutex_unlock(&c->mx);
    }
}

/* The sockets themselves are closed when no worker can be accepting on them any more. */
void conn_table_refuse(struct executor *ex)
{
    for (int i = 0; i < ex->nlisteners; i++) {
        epoll_ctl(ex->epoll_fd, EPOLL_CTL_DEL, ex->listeners[i], NULL);
        shutdown(ex->listeners[i], SHUT_RDWR);
    }
}

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

void conn_table_stop_idle(struct executor *ex)
{
    executor_each_conn(ex, stop_conn, ex);
}

void conn_table_fini(struct executor *ex)
{
    for (int i = 0; i < ex->nlisteners; i++)
        close(ex->listeners[i]);
    for (uint32_t i = 0; i < atomic_load(&ex->nslots); i++) {
        mutex_fini(&ex->conns[i]->mx);
        free(ex->conns[i]);
    }
    free(ex->conns);
}
