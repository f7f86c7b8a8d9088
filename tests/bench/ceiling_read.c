/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ceilings of reading: WiredTiger's rows in order, and bytes over loopback sockets. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/bare.h"
#include "tests/bench/bench.h"
#include "tests/bench/message.h"

enum { OUT_BYTES = 256 * 1024, ENTRY_BYTES = DOC_BYTES + 133, FANOUT_MAX = 4096 };

/* Bytes on their way to a socket. */
struct out {
    int fd;
    size_t len;
    uint8_t buf[OUT_BYTES];
};

static void out_put(struct out *o, const void *bytes, size_t n)
{
    if (o->len + n > sizeof(o->buf)) {
        send_all(o->fd, o->buf, o->len);
        o->len = 0;
    }
    memcpy(o->buf + o->len, bytes, n);
    o->len += n;
}

static void out_flush(struct out *o)
{
    send_all(o->fd, o->buf, o->len);
    o->len = 0;
}

static struct out *out_new(void)
{
    struct out *o = calloc(1, sizeof(*o));
    int fds[2];

    if (o == NULL)
        die("memory");
    loopback_pair(fds);
    o->fd = fds[0];
    loopback_sink(fds[1]);
    return o;
}

/* Through the keys of _id, as a range of them must be read. */
static uint64_t scan_once(struct bare_session *s, struct out *o)
{
    uint64_t n = 0;

    bare_begin(s);
    s->ids->reset(s->ids);
    while (s->ids->next(s->ids) == 0) {
        WT_ITEM item;
        int64_t rid;

        s->ids->get_value(s->ids, &item);
        memcpy(&rid, item.data, sizeof(rid));
        s->records->set_key(s->records, rid);
        if (s->records->search(s->records) != 0)
            die("search");
        s->records->get_value(s->records, &item);
        out_put(o, item.data, item.size);
        n++;
    }
    out_flush(o);
    bare_commit(s);
    return n;
}

void run_bare_scan(void)
{
    uint64_t docs = (uint64_t)arg_int("docs", 100000), n = 0;
    struct out *o = out_new();
    struct bare_session s;
    struct bare b;
    int64_t begin, end;

    bare_open(&b);
    bare_fill(&b, docs, DOC_BYTES, ENTRY_BYTES);
    bare_session_open(&b, &s);
    (void)scan_once(&s, o);
    begin = now_ns();
    end = begin + (int64_t)(arg_num("seconds", 1) * NS);
    while (now_ns() < end)
        n += scan_once(&s, o);
    report_num("docs_per_second", (double)n * NS / (double)(now_ns() - begin));
    bare_close(&b);
    free(o);
}

/* The oplog's rows are read; as many bytes go out as the events have. */
static void drain_once(struct bare_session *s, struct out *o, size_t event_bytes)
{
    uint8_t event[4096] = {0};

    bare_begin(s);
    s->log->reset(s->log);
    while (s->log->next(s->log) == 0) {
        WT_ITEM item;

        s->log->get_value(s->log, &item);
        memcpy(event, item.data, item.size < event_bytes ? item.size : event_bytes);
        out_put(o, event, event_bytes);
    }
    out_flush(o);
    bare_commit(s);
}

void run_bare_drain(void)
{
    uint64_t rows = (uint64_t)arg_int("rows", 100000), n = 0;
    size_t event_bytes = (size_t)arg_int("event_bytes", 400);
    struct out *o = out_new();
    struct bare_session s;
    struct bare b;
    int64_t begin, end;

    if (event_bytes > 4096)
        die("event_bytes");
    bare_open(&b);
    bare_fill(&b, rows, SMALL_DOC_BYTES, (size_t)arg_int("row_bytes", 250));
    bare_session_open(&b, &s);
    begin = now_ns();
    end = begin + (int64_t)(arg_num("seconds", 1) * NS);
    for (; now_ns() < end; n += rows)
        drain_once(&s, o, event_bytes);
    report_num("events_per_second", (double)n * NS / (double)(now_ns() - begin));
    bare_close(&b);
    free(o);
}

/* --- bare sockets: one sender, many receivers ----------------------------------------------------
 */

struct receivers {
    int fds[FANOUT_MAX];
    int n;
};

static void *receive_all(void *arg)
{
    struct receivers *r = arg;
    int ep = epoll_create1(EPOLL_CLOEXEC), open_ones = r->n;
    char *buf = malloc(OUT_BYTES);

    for (int i = 0; i < r->n; i++) {
        struct epoll_event ev = {.events = EPOLLIN, .data.fd = r->fds[i]};

        epoll_ctl(ep, EPOLL_CTL_ADD, r->fds[i], &ev);
    }
    while (open_ones > 0) {
        struct epoll_event ev[256];
        int k = epoll_wait(ep, ev, 256, 10000);

        for (int i = 0; i < k; i++) {
            if (recv(ev[i].data.fd, buf, OUT_BYTES, MSG_DONTWAIT) == 0) {
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
    static uint8_t message[1 << 20];
    static int out[FANOUT_MAX];
    size_t bytes = (size_t)arg_int("bytes", 40000);
    int64_t begin, end, sent = 0;
    pthread_t t;

    r.n = (int)arg_int("conns", 100);
    if (r.n < 1 || r.n > FANOUT_MAX || bytes > sizeof(message))
        die("conns or bytes");
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
    while (now_ns() < end) {
        for (int i = 0; i < r.n; i++, sent++)
            send_all(out[i], message, bytes);
    }
    for (int i = 0; i < r.n; i++)
        close(out[i]);
    pthread_join(t, NULL);
    report_num("bytes_per_second", (double)sent * (double)bytes * NS / (double)(now_ns() - begin));
}
