/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Load on a server from one thread, over connections with one request outstanding each.
 *
 * Closed loop (rate 0): a connection sends its next request when it has its reply. Open loop:
 * requests are due at a fixed rate whether or not the server keeps up, the next free connection
 * takes the oldest one that is due, and latencies count from when a request was due, not from when
 * it could be sent.
 *
 * Watchers are connections beside the load, with requests of their own; their replies go to
 * `watched`. The load ends when its time is over, every reply is there, and `drained` (if given)
 * says that the watchers have all they should have; that may take ten seconds at most.
 */
#ifndef RUNNEL_TESTS_BENCH_LOAD_H
#define RUNNEL_TESTS_BENCH_LOAD_H

#include "tests/bench/bench.h"
#include "tests/bench/client.h"

enum { LOAD_CLIENTS_MAX = 16384 };

struct load {
    struct client *clients;
    int n;
    struct client *watchers; /* opened, their first requests sent by the workload */
    int nwatchers;
    double rate;    /* requests per second; 0: a closed loop */
    double seconds; /* 0: until `next` returns NULL */
    void *arg;
    /* The next request of a connection; NULL: no more (closed loop: of this connection). */
    const struct message *(*next)(struct load *l, struct client *c);
    /* A reply that is reply_good(). NULL: nothing more to do with it. */
    void (*took)(struct load *l, struct client *c, struct bv reply);
    void (*watched)(struct load *l, struct client *c, struct bv reply); /* sends the next request */
    bool (*drained)(struct load *l);

    int64_t begin_ns, end_ns; /* of the sending; then until the last reply */
    uint64_t done, errors;
    struct hist latency;
    /* load.c's */
    struct client **idle;
    int nidle, epoll_fd, timer_fd;
    uint64_t nsent;
};

/* Opens n connections; at most LOAD_CLIENTS_MAX. */
struct client *load_clients(const struct target *t, int n);
/* Runs the load. The seconds that it took. More errors than one in a thousand end the process. */
double load_run(struct load *l);
void load_free(struct load *l);

/* Sends one request over each of n connections, awaits the replies, hands each to fn (or NULL). */
void load_all(struct client *clients, int n, const struct message *(*make)(void *arg, int i),
              void (*fn)(void *arg, int i, struct bv reply), void *arg);

/* Reports what every load has: done, ops_per_second, latencies, errors. */
void load_report(const struct load *l, double took);

#endif
