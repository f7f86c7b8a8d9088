/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The ceiling of fan-out: bare sockets, one sender, one thread that receives for all.
 *
 * As fast as it goes; or `rate` messages a second to each, every one counted from when it was due,
 * as events are: what is late here is late for want of a processor, whatever the server does.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/bare.h"
#include "tests/bench/bench.h"

enum { MESSAGE_MAX = 1 << 20, FANOUT_MAX = 4096 };

struct receivers {
    int fds[FANOUT_MAX];
    int n;
    size_t message_bytes; /* each begins with the time it was due at, in ns; 0: a stream of bytes */
    struct hist latency;
};

/* What is there of one socket; false: nothing more will come. */
static bool receive(struct receivers *r, int fd, uint8_t *buf)
{
    ssize_t n = r->message_bytes == 0 ? recv(fd, buf, MESSAGE_MAX, MSG_DONTWAIT)
                                      : recv(fd, buf, r->message_bytes, MSG_WAITALL);
    int64_t due_ns;

    if (r->message_bytes > 0 && n == (ssize_t)r->message_bytes) {
        memcpy(&due_ns, buf, sizeof(due_ns));
        hist_add(&r->latency, now_ns() - due_ns);
    }
    return n != 0;
}

static void *receive_all(void *arg)
{
    struct receivers *r = arg;
    int ep = epoll_create1(EPOLL_CLOEXEC), open_ones = r->n;
    uint8_t *buf = malloc(MESSAGE_MAX);

    if (ep < 0 || buf == NULL)
        die("memory");
    for (int i = 0; i < r->n; i++) {
        struct epoll_event ev = {.events = EPOLLIN, .data.fd = r->fds[i]};

        epoll_ctl(ep, EPOLL_CTL_ADD, r->fds[i], &ev);
    }
    while (open_ones > 0) {
        struct epoll_event ev[256];
        int k = epoll_wait(ep, ev, 256, 10000);

        for (int i = 0; i < k; i++) {
            if (!receive(r, ev[i].data.fd, buf)) {
                close(ev[i].data.fd);
                open_ones--;
            }
        }
    }
    free(buf);
    close(ep);
    return NULL;
}

void run_bare_fanout(void)
{
    static struct receivers r;
    static uint8_t message[MESSAGE_MAX];
    static int out[FANOUT_MAX];
    size_t bytes = (size_t)arg_int("bytes", 40000);
    double rate = arg_num("rate", 0);
    int64_t begin, end, rounds = 0;
    pthread_t t;

    r.n = (int)arg_int("conns", 100);
    if (r.n < 1 || r.n > FANOUT_MAX || bytes < sizeof(int64_t) || bytes > sizeof(message))
        die("conns or bytes");
    r.message_bytes = rate > 0 ? bytes : 0;
    for (int i = 0; i < r.n; i++) {
        int fds[2];

        loopback_pair(fds);
        out[i] = fds[0];
        r.fds[i] = fds[1];
    }
    if (pthread_create(&t, NULL, receive_all, &r) != 0)
        die("thread");
    begin = now_ns();
    end = begin + (int64_t)(arg_num("seconds", 1) * NS);
    for (; now_ns() < end; rounds++) {
        int64_t due_ns = await_due(begin, (uint64_t)rounds, rate);

        memcpy(message, &due_ns, sizeof(due_ns));
        for (int i = 0; i < r.n; i++)
            send_all(out[i], message, bytes);
    }
    end = now_ns();
    for (int i = 0; i < r.n; i++)
        close(out[i]);
    pthread_join(t, NULL);
    report_num("bytes_per_second",
               (double)rounds * r.n * (double)bytes * NS / (double)(end - begin));
    if (rate > 0)
        report_latency("delivery_", &r.latency);
}
