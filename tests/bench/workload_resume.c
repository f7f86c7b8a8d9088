/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Streams that begin in the past: draining a backlog, and matching entries far behind a token. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/load.h"
#include "tests/bench/watch.h"

enum { BATCH = 1000, TRIES = 5, MATCHING = 100, STEPS_MAX = 16 };

/* n documents in batches; the ids go on. */
static void fill(struct client *c, const char *coll, uint64_t n)
{
    static uint64_t id;

    if (id == 0)
        id = (uint64_t)now_ns();
    while (n > 0) {
        uint32_t k = n < BATCH ? (uint32_t)n : BATCH;
        struct message m = message_insert(coll, k, SMALL_DOC_BYTES, NULL);

        for (uint32_t i = 0; i < k; i++)
            message_set_id(&m, i, id++);
        (void)client_call(c, &m);
        message_free(&m);
        n -= k;
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof(*x), by_value);
    return x[n / 2];
}

/* --- drain ---------------------------------------------------------------------------------------
 */

struct reading {
    uint64_t want, got;
    int64_t first_ns;
};

static bool count(void *arg, struct bv event)
{
    struct reading *r = arg;

    (void)event;
    if (r->got == 0)
        r->first_ns = now_ns();
    return ++r->got < r->want;
}

/* The backlog alone, and reading it alone, once, from the beginning of the oplog. */
void run_backlog(void)
{
    struct target t = target_parse(arg_str("uri", NULL));
    struct client c;

    client_open(&c, &t);
    fill(&c, "backlog", (uint64_t)arg_int("events", 100000));
    client_close(&c);
}

void run_replay(void)
{
    struct target t = target_parse(arg_str("uri", NULL));
    struct reading r = {.want = (uint64_t)arg_int("events", 100000)};
    uint64_t oldest = UINT64_C(1) << 32 | 1;
    struct client c;

    client_open(&c, &t);
    watch_from(&c, "backlog", (struct bv){(const uint8_t *)&oldest, 8, BV_TIMESTAMP}, count, &r);
    client_close(&c);
    report_num("done", (double)r.got);
}

void run_drain(void)
{
    struct target t = target_parse(arg_str("uri", NULL));
    uint64_t n = (uint64_t)arg_int("events", 100000);
    double rate[TRIES];
    struct client c;
    struct bv token;

    client_open(&c, &t);
    fill(&c, "backlog", 1);
    token = watch_token(&c, "backlog");
    fill(&c, "backlog", n);
    for (int i = 0; i < TRIES; i++) {
        struct reading r = {.want = n};
        int64_t begin = now_ns();

        watch_from(&c, "backlog", token, count, &r);
        rate[i] = (double)n * NS / (double)(now_ns() - begin);
    }
    report_num("events_per_second", median(rate, TRIES));
}

/* --- far resume ----------------------------------------------------------------------------------
 */

/* Milliseconds until the first event of `coll` after the token, or, with `all`, until the last. */
static double time_events(struct client *c, const char *coll, struct bv token, bool all)
{
    double ms[TRIES];

    for (int i = 0; i < TRIES; i++) {
        struct reading r = {.want = MATCHING};
        int64_t begin = now_ns();

        watch_from(c, coll, token, count, &r);
        ms[i] = (double)((all ? now_ns() : r.first_ns) - begin) / 1e6;
    }
    return median(ms, TRIES);
}

/* Adds foreign entries, with those of "spread" strewn in between. */
static void add_foreign(struct client *c, uint64_t n, uint64_t every)
{
    static uint64_t since;

    while (n > 0) {
        uint64_t k = n < BATCH ? n : BATCH;

        fill(c, "foreign", k);
        n -= k;
        since += k;
        if (since >= every) {
            fill(c, "spread", 1);
            since -= every;
        }
    }
}

static const char *matching(int step, char buf[static 32])
{
    snprintf(buf, 32, "matching%d", step);
    return buf;
}

void run_resume(void)
{
    struct target t = target_parse(arg_str("uri", NULL));
    uint64_t total = (uint64_t)arg_int("entries", 500000), done = 0;
    int steps = (int)arg_int("steps", 5);
    double seconds_most = arg_num("seconds", 120), first_ms = 0;
    int64_t begin = now_ns();
    struct client c;
    struct bv tokens[STEPS_MAX], spread;
    char coll[32];

    if (steps < 1 || steps > STEPS_MAX)
        die("steps");
    client_open(&c, &t);
    fill(&c, "foreign", 1);
    spread = watch_token(&c, "spread");
    for (int i = 0; i < steps; i++)
        tokens[i] = watch_token(&c, matching(i, coll));
    for (int i = steps - 1; i >= 0; i--) {
        add_foreign(&c, (total >> i) - done, total / MATCHING);
        done = total >> i;
        fill(&c, matching(i, coll), MATCHING);
        first_ms = time_events(&c, coll, tokens[i], false);
        report_pair("series", (double)done, first_ms);
        if (now_ns() - begin > (int64_t)(seconds_most * NS))
            break;
    }
    report_num("entries", (double)done);
    report_num("first_event_ms", first_ms);
    if (done == total)
        report_num("spread_ms", time_events(&c, "spread", spread, true));
    report_num("load_seconds", (double)(now_ns() - begin) / NS);
    client_close(&c);
}
