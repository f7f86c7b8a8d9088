/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Writers on one side, watchers on the other: delivery latency, hot fan-out, parked watchers. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/load.h"
#include "tests/bench/watch.h"

#define COLL "hot"

enum { WRITERS = 16, BURST_DOCS = 100 };

struct fanout {
    struct message m;
    uint32_t docs_per_message;
    uint64_t first_id, written, most; /* most 0: as long as the load runs */
    uint64_t events, bytes, replies;
    int64_t last_ns;
    struct hist delivery;
};

/* Ids are wall-clock based, so that a workload can run twice on one server. */
static uint64_t first_id(void)
{
    return (uint64_t)now_ns();
}

static const struct message *next(struct load *l, struct client *c)
{
    struct fanout *x = l->arg;

    (void)c;
    if (x->most > 0 && x->written >= x->most)
        return NULL;
    for (uint32_t i = 0; i < x->docs_per_message; i++, x->written++) {
        message_set_id(&x->m, i, x->first_id + x->written);
        message_set_v(&x->m, i, (int64_t)x->written);
    }
    return &x->m;
}

/* One batch of events; each counts from when its insert was due. */
static void watched(struct load *l, struct client *c, struct bv reply)
{
    struct fanout *x = l->arg;
    struct biter it;
    struct belem e;
    struct bv batch;

    x->last_ns = now_ns();
    if (!reply_good(reply) || reply_cursor(reply, &batch) == 0)
        die("a stream ended");
    it = biter(batch);
    while (biter_next(&it, &e)) {
        int64_t v = event_v(e.v);

        if (v < 0)
            die("an event without its document");
        if (l->rate > 0)
            hist_add(&x->delivery, x->last_ns - l->begin_ns - (int64_t)((double)v * NS / l->rate));
        x->events++;
    }
    x->bytes += c->len;
    x->replies++;
    client_send(c, &c->more);
}

static bool drained(struct load *l)
{
    struct fanout *x = l->arg;

    return x->events >= x->written * (uint64_t)l->nwatchers;
}

/* Makes the collection, so that no workload measures that. */
static void make_collection(struct load *l, struct fanout *x)
{
    x->first_id = first_id();
    for (uint32_t i = 0; i < x->docs_per_message; i++)
        message_set_id(&x->m, i, x->first_id - 1 - i);
    (void)client_call(&l->clients[0], &x->m);
}

static void run_watched(struct load *l, struct fanout *x, int watchers)
{
    struct target t = target_parse(arg_str("uri", NULL));
    double took;

    l->arg = x;
    l->next = next;
    l->watched = watched;
    l->drained = drained;
    l->clients = load_clients(&t, l->n);
    l->watchers = load_clients(&t, watchers);
    l->nwatchers = watchers;
    x->m = message_insert(COLL, x->docs_per_message,
                          x->docs_per_message > 1 ? SMALL_DOC_BYTES : DOC_BYTES, NULL);
    make_collection(l, x);
    watch_open(l->watchers, watchers, COLL, false);
    for (int i = 0; i < watchers; i++)
        client_send(&l->watchers[i], &l->watchers[i].more);
    took = load_run(l);
    load_report(l, took);
    report_num("events", (double)x->events);
    report_num("events_per_second", (double)x->events * NS / (double)(x->last_ns - l->begin_ns));
    report_num("bytes_per_reply", (double)x->bytes / (double)x->replies);
    report_num("bytes_per_event", (double)x->bytes / (double)x->events);
    report_latency("delivery_", &x->delivery);
    load_free(l);
}

void run_delivery(void)
{
    struct fanout x = {.docs_per_message = 1};
    struct load l = {.n = WRITERS, .rate = arg_num("rate", 1000), .seconds = arg_num("seconds", 2)};

    run_watched(&l, &x, 1);
}

void run_fanout(void)
{
    struct fanout x = {.docs_per_message = 1};
    struct load l = {.n = WRITERS, .rate = arg_num("rate", 1000), .seconds = arg_num("seconds", 2)};

    if (l.rate == 0) {
        l.n = 1;
        l.seconds = 0;
        x.docs_per_message = (uint32_t)arg_int("burst", BURST_DOCS);
        x.most = (uint64_t)arg_int("docs", 20000);
    }
    run_watched(&l, &x, (int)arg_int("watchers", 100));
}

/* --- parked watchers -----------------------------------------------------------------------------
 */

static const struct message *get_more(void *arg, int i)
{
    return &((struct client *)arg)[i].more;
}

static const struct message *ping(void *arg, int i)
{
    (void)i;
    return arg;
}

static void pinged(void *arg, int i, struct bv reply)
{
    (void)arg;
    (void)i;
    (void)reply;
}

/* With idle=1 the connections have said something, and watch nothing: what of the cost is that of
 * so many sockets. */
void run_park(void)
{
    struct target t = target_parse(arg_str("uri", NULL));
    int n = (int)arg_int("watchers", 100);
    struct client *c = load_clients(&t, n);
    struct message hello = message_admin("ping");

    if (arg_int("idle", 0) != 0) {
        load_all(c, n, ping, pinged, &hello);
    } else {
        watch_open(c, n, "parked", true);
        load_all(c, n, get_more, NULL, c);
    }
    printf("parked\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
}
