/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A load of single inserts over N connections, each with one request outstanding, from one thread.
 *
 *     bench_insert PORT CONNECTIONS SECONDS [W]     (W: 1, or majority when left out)
 *
 * Prints one JSON line: {"connections":N,"ops_per_second":X,"p50_us":A,"p99_us":B,"errors":E}.
 * Documents are 200 bytes with an ObjectId; requests are made once and only the id changes, so the
 * client costs little. Loopback only; the run is bounded by SECONDS (60 at most).
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

#include "base/bw.h"
#include "base/clock.h"

enum { DOC_BYTES = 200, CONNS_MAX = 4096, BUCKETS = 40000 };

struct client {
    int fd;
    int64_t sent_us;
    size_t got;
    uint8_t reply[1024];
};

static struct client clients[CONNS_MAX];
static uint32_t latency[BUCKETS]; /* by 10 us, the last one: more */
static uint8_t *request;
static size_t request_len, id_at;
static uint64_t sent, done, errors;

static void __attribute__((noreturn)) die(const char *what)
{
    perror(what);
    exit(1);
}

/* The document comes last in the message, as drivers send it (a sequence section). */
static void make_request(const char *w)
{
    static const uint8_t oid[12] = {0};
    char pad[DOC_BYTES];
    struct arena a;
    struct bw body, doc;
    struct bv b, d;
    int32_t size;

    arena_init(&a);
    bw_init(&body, &a);
    bw_str(&body, "insert", "c");
    bw_bool(&body, "ordered", true);
    if (w != NULL) {
        bw_doc_begin(&body, "writeConcern");
        bw_i32(&body, "w", atoi(w));
        bw_end(&body);
    }
    bw_str(&body, "$db", "bench");
    b = bw_done(&body);
    memset(pad, 'x', sizeof(pad));
    bw_init(&doc, &a);
    bw_oid(&doc, "_id", oid);
    bw_strn(&doc, "pad", pad, DOC_BYTES - 4 - 17 - 5 - 5 - 1);
    d = bw_done(&doc);
    if (d.len != DOC_BYTES)
        die("document size");
    request_len = 16 + 4 + 1 + b.len + 1 + 4 + 10 + d.len;
    request = calloc(1, request_len);
    size = (int32_t)request_len;
    memcpy(request, &size, 4);
    size = 2013;
    memcpy(request + 12, &size, 4);
    memcpy(request + 21, b.p, b.len);
    request[21 + b.len] = 1;
    size = (int32_t)(4 + 10 + d.len);
    memcpy(request + 22 + b.len, &size, 4);
    memcpy(request + 26 + b.len, "documents", 10);
    memcpy(request + 36 + b.len, d.p, d.len);
    id_at = 36 + b.len + 4 + 1 + 4;
}

static void send_one(struct client *c)
{
    uint64_t n = ++sent;

    for (int i = 0; i < 8; i++)
        request[id_at + 4 + (size_t)i] = (uint8_t)(n >> (56 - 8 * i));
    c->got = 0;
    c->sent_us = clock_mono_us();
    if (send(c->fd, request, request_len, MSG_NOSIGNAL) != (ssize_t)request_len)
        die("send");
}

/* True when the reply is whole. */
static bool receive(struct client *c)
{
    int32_t want = 0;
    ssize_t n = recv(c->fd, c->reply + c->got, sizeof(c->reply) - c->got, MSG_DONTWAIT);

    if (n <= 0) {
        if (n < 0 && errno == EAGAIN)
            return false;
        die("recv");
    }
    c->got += (size_t)n;
    if (c->got >= 4)
        memcpy(&want, c->reply, 4);
    return want > 0 && c->got >= (size_t)want;
}

static void account(struct client *c)
{
    int64_t us = clock_mono_us() - c->sent_us;
    struct bv n = bv_get(bv_doc(c->reply + 21), "n");

    latency[us / 10 < BUCKETS ? us / 10 : BUCKETS - 1]++;
    done++;
    if (n.type != BV_INT32 || bv_i32(n) != 1)
        errors++;
}

static int64_t percentile(double p)
{
    uint64_t seen = 0, want = (uint64_t)((double)done * p);

    for (int i = 0; i < BUCKETS; i++) {
        seen += latency[i];
        if (seen > want)
            return (int64_t)i * 10;
    }
    return (int64_t)BUCKETS * 10;
}

static void connect_all(int ep, int port, int n)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1;

    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < n; i++) {
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &clients[i]};

        clients[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (clients[i].fd < 0 || connect(clients[i].fd, (struct sockaddr *)&sin, sizeof(sin)) != 0)
            die("connect");
        setsockopt(clients[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (epoll_ctl(ep, EPOLL_CTL_ADD, clients[i].fd, &ev) != 0)
            die("epoll");
    }
}

static double run(int ep, int n, double seconds)
{
    int64_t begin_us = clock_mono_us(), end_us = begin_us + (int64_t)(seconds * 1e6);
    int waiting = n;

    for (int i = 0; i < n; i++)
        send_one(&clients[i]);
    while (waiting > 0) {
        struct epoll_event ev[256];
        int k = epoll_wait(ep, ev, 256, 10000);

        if (k <= 0)
            die("no reply in ten seconds");
        for (int i = 0; i < k; i++) {
            struct client *c = ev[i].data.ptr;

            if (!receive(c))
                continue;
            account(c);
            if (clock_mono_us() < end_us)
                send_one(c);
            else
                waiting--;
        }
    }
    return (double)(clock_mono_us() - begin_us) / 1e6;
}

int main(int argc, char **argv)
{
    int ep = epoll_create1(EPOLL_CLOEXEC), n;
    double seconds, took;

    if (argc < 4 || (n = atoi(argv[2])) < 1 || n > CONNS_MAX || (seconds = atof(argv[3])) <= 0 ||
        seconds > 60) {
        fprintf(stderr, "usage: bench_insert PORT CONNECTIONS SECONDS [W]\n");
        return 2;
    }
    make_request(argc > 4 ? argv[4] : NULL);
    connect_all(ep, atoi(argv[1]), n);
    sent = (uint64_t)clock_wall_ms() << 20; /* ids of this run */
    took = run(ep, n, seconds);
    printf("{\"connections\":%d,\"ops_per_second\":%.0f,\"p50_us\":%lld,\"p99_us\":%lld,"
           "\"errors\":%llu}\n",
           n, (double)done / took, (long long)percentile(0.5), (long long)percentile(0.99),
           (unsigned long long)errors);
    return errors > 0;
}
