/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/bench/load.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { EVENTS = 256, SILENCE_MS = 20000, DRAIN_SECONDS = 10, OUTSTANDING = 512 };

struct client *load_clients(const struct target *t, int n)
{
    struct client *c;

    if (n < 1 || n > LOAD_CLIENTS_MAX || (c = calloc((size_t)n, sizeof(*c))) == NULL)
        die("number of connections");
    for (int i = 0; i < n; i++)
        client_open(&c[i], t);
    return c;
}

static void watch_fd(struct load *l, int fd, void *p)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = p};

    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0)
        die("epoll");
}

static void start(struct load *l)
{
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    l->idle = calloc((size_t)l->n, sizeof(*l->idle));
    if (l->epoll_fd < 0 || l->timer_fd < 0 || l->idle == NULL)
        die("epoll");
    watch_fd(l, l->timer_fd, NULL);
    for (int i = 0; i < l->n; i++)
        watch_fd(l, l->clients[i].fd, &l->clients[i]);
    for (int i = 0; i < l->nwatchers; i++) {
        l->watchers[i].watcher = true;
        watch_fd(l, l->watchers[i].fd, &l->watchers[i]);
    }
    for (int i = l->n; i-- > 0;)
        l->idle[l->nidle++] = &l->clients[i];
    l->begin_ns = now_ns();
    l->end_ns = l->seconds > 0 ? l->begin_ns + (int64_t)(l->seconds * NS) : INT64_MAX;
}

/* When the next request is due; in a closed loop that is always now. */
static int64_t next_due(const struct load *l, int64_t now)
{
    return l->rate == 0 ? now : l->begin_ns + (int64_t)((double)l->nsent * NS / l->rate);
}

static void set_timer(struct load *l, int64_t when_ns)
{
    struct itimerspec it = {.it_value = {when_ns / NS, when_ns % NS}};

    timerfd_settime(l->timer_fd, TFD_TIMER_ABSTIME, &it, NULL);
}

/* Sends all that is due over the connections that are free. */
static void send_due(struct load *l)
{
    int64_t now = now_ns(), due;

    while (l->nidle > 0 && (due = next_due(l, now)) <= now && due < l->end_ns) {
        struct client *c = l->idle[l->nidle - 1];
        const struct message *m = l->next(l, c);

        if (m == NULL) {
            l->end_ns = now;
            return;
        }
        l->nidle--;
        l->nsent++;
        c->due_ns = due;
        client_send(c, m);
    }
    if (l->nidle > 0 && l->rate > 0 && (due = next_due(l, now)) < l->end_ns)
        set_timer(l, due);
}

static void replied(struct load *l, struct client *c, struct bv reply)
{
    if (c->watcher) {
        l->watched(l, c, reply);
        return;
    }
    hist_add(&l->latency, now_ns() - c->due_ns);
    l->done++;
    if (!reply_good(reply))
        l->errors++;
    else if (l->took != NULL)
        l->took(l, c, reply);
    l->idle[l->nidle++] = c;
    if (l->rate == 0)
        send_due(l);
}

static bool over(const struct load *l, int64_t now)
{
    return now >= l->end_ns && l->nidle == l->n;
}

static void clear_timer(struct load *l)
{
    uint64_t ticks;
    ssize_t n = read(l->timer_fd, &ticks, sizeof(ticks));

    (void)n;
}

/* One round of events. */
static void turn(struct load *l, int timeout_ms)
{
    struct epoll_event ev[EVENTS];
    int k = epoll_wait(l->epoll_fd, ev, EVENTS, timeout_ms);

    if (k == 0 && timeout_ms == SILENCE_MS)
        die("no reply for a long time");
    for (int i = 0; i < k; i++) {
        struct client *c = ev[i].data.ptr;
        struct bv reply;

        if (c == NULL)
            clear_timer(l);
        else if (client_receive(c, &reply))
            replied(l, c, reply);
    }
}

double load_run(struct load *l)
{
    int64_t sent_all;

    start(l);
    send_due(l);
    while (!over(l, now_ns())) {
        int64_t left_ms = (l->end_ns - now_ns()) / 1000000 + 1;

        turn(l, l->nidle < l->n || left_ms > SILENCE_MS ? SILENCE_MS : (int)left_ms);
        if (l->rate > 0)
            send_due(l);
    }
    sent_all = now_ns();
    while (l->drained != NULL && !l->drained(l)) {
        if (now_ns() - sent_all > DRAIN_SECONDS * NS)
            die("the watchers did not get all events");
        turn(l, 1000);
    }
    l->end_ns = now_ns();
    if (l->errors * 1000 > l->done)
        die("too many errors");
    return (double)(sent_all - l->begin_ns) / NS;
}

void load_free(struct load *l)
{
    for (int i = 0; i < l->n; i++)
        client_close(&l->clients[i]);
    free(l->clients);
    free(l->idle);
    close(l->epoll_fd);
    close(l->timer_fd);
}

void load_all(struct client *clients, int n, const struct message *(*make)(void *arg, int i),
              void (*fn)(void *arg, int i, struct bv reply), void *arg)
{
    for (int from = 0; from < n; from += OUTSTANDING) {
        int to = from + OUTSTANDING < n ? from + OUTSTANDING : n;

        for (int i = from; i < to; i++)
            client_send(&clients[i], make(arg, i));
        for (int i = from; fn != NULL && i < to; i++) {
            struct pollfd p = {.fd = clients[i].fd, .events = POLLIN};
            struct bv reply;

            while (!client_receive(&clients[i], &reply)) {
                if (poll(&p, 1, SILENCE_MS) <= 0)
                    die("no reply for a long time");
            }
            if (!reply_good(reply))
                die("a request that all connections send");
            fn(arg, i, reply);
        }
    }
}

void load_report(const struct load *l, double took)
{
    report_num("done", (double)l->done);
    report_num("errors", (double)l->errors);
    report_num("ops_per_second", (double)l->done / took);
    report_latency("", &l->latency);
}
