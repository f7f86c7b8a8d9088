/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Loads of single statements and of batches, and the range scan. */
#include <stdlib.h>
#include <time.h>

#include "tests/bench/load.h"

enum { LOAD_BATCH = 1000 };

static const char *coll(void)
{
    return arg_str("coll", "c");
}

struct crud {
    struct message m;
    uint64_t next_id;
    uint64_t docs;  /* ids go round below it; 0: they grow */
    uint64_t count; /* requests; 0: as many as the time allows */
    bool scattered;
};

/* Ids that no other run has used. */
static uint64_t fresh_ids(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return ((uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000) << 20;
}

/* Spreads consecutive numbers over 0 .. docs - 1. */
static uint64_t scatter(uint64_t n, uint64_t docs)
{
    return (n * 0x9E3779B97F4A7C15u >> 20) % docs;
}

static const struct message *next(struct load *l, struct client *c)
{
    struct crud *x = l->arg;
    uint64_t n = x->next_id++;

    (void)c;
    if ((x->docs > 0 && !x->scattered && n >= x->docs) || (x->count > 0 && l->nsent == x->count))
        return NULL;
    message_set_id(&x->m, 0, x->scattered ? scatter(n, x->docs) : n);
    if (x->m.v_at != 0)
        message_set_v(&x->m, 0, (int64_t)n + 1);
    return &x->m;
}

static void run_crud(struct crud *x)
{
    struct target t = target_parse(arg_str("uri", NULL));
    struct load l = {
        .n = (int)arg_int("conns", 1), .seconds = arg_num("seconds", 1), .arg = x, .next = next};
    int64_t cpu = server_cpu_ns();
    double took;

    x->count = (uint64_t)arg_int("count", 0);
    l.clients = load_clients(&t, l.n);
    took = load_run(&l);
    cpu = server_cpu_ns() - cpu;
    load_report(&l, took);
    report_num("server_cpu_us_per_op", l.done == 0 ? 0 : (double)cpu / 1000 / (double)l.done);
    load_free(&l);
}

void run_insert(void)
{
    const char *w = arg_str("w", "");
    struct crud x = {.next_id = fresh_ids()};

    x.m = message_insert(coll(), 1, DOC_BYTES, *w == '\0' ? NULL : w);
    run_crud(&x);
}

void run_find(void)
{
    struct crud x = {.docs = (uint64_t)arg_int("docs", 100000), .scattered = true};

    x.m = message_find(coll());
    run_crud(&x);
}

void run_update(void)
{
    struct crud x = {.docs = (uint64_t)arg_int("docs", 100000), .scattered = true};

    x.next_id = fresh_ids(); /* values that change something */
    x.m = message_update(coll());
    run_crud(&x);
}

void run_delete(void)
{
    struct crud x = {.docs = (uint64_t)arg_int("docs", 100000)};

    x.next_id = (uint64_t)arg_int("from", 0);
    x.m = message_delete(coll());
    run_crud(&x);
}

/* --- batches -------------------------------------------------------------------------------------
 */

static void set_batch(struct message *m, uint64_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        message_set_id(m, i, first + i);
}

void run_load(void)
{
    struct target t = target_parse(arg_str("uri", NULL));
    uint64_t docs = (uint64_t)arg_int("docs", 100000), from = (uint64_t)arg_int("from", 0);
    struct client c;
    int64_t begin = now_ns();

    client_open(&c, &t);
    while (docs > 0) {
        uint32_t n = docs < LOAD_BATCH ? (uint32_t)docs : LOAD_BATCH;
        struct message m = message_insert(coll(), n, DOC_BYTES, NULL);

        set_batch(&m, from, n);
        (void)client_call(&c, &m);
        message_free(&m);
        from += n;
        docs -= n;
    }
    client_close(&c);
    report_num("seconds", (double)(now_ns() - begin) / NS);
}

void run_batch(void)
{
    struct target t = target_parse(arg_str("uri", NULL));
    uint32_t n = (uint32_t)arg_int("batch", 1000);
    int64_t begin = now_ns(), end = begin + (int64_t)(arg_num("seconds", 1) * NS);
    struct message m = message_insert(coll(), n, DOC_BYTES, NULL);
    uint64_t first = fresh_ids(), id = first, count = (uint64_t)arg_int("count", 0);
    struct client c;

    client_open(&c, &t);
    for (; count > 0 ? id < first + count : now_ns() < end; id += n) {
        set_batch(&m, id, n);
        (void)client_call(&c, &m);
    }
    client_close(&c);
    report_num("done", (double)(id - first));
    report_num("docs_per_second", (double)(id - first) * NS / (double)(now_ns() - begin));
}

/* --- the scan ------------------------------------------------------------------------------------
 */

/* Reads the range once; the number of documents, if they are to be counted. */
static uint64_t scan_once(struct client *c, bool count)
{
    struct message m = message_find_all(coll());
    struct bv batch;
    int64_t id = reply_cursor(client_call(c, &m), &batch);
    uint64_t n = bv_count(batch);

    message_free(&m);
    m = message_get_more(BENCH_DB, coll(), id, 0);
    while (id != 0) {
        id = reply_cursor(client_call(c, &m), &batch);
        n += count ? bv_count(batch) : 0;
    }
    message_free(&m);
    return n;
}

void run_scan(void)
{
    struct target t = target_parse(arg_str("uri", NULL));
    uint64_t want = (uint64_t)arg_int("docs", 100000), n = 0;
    int64_t begin, end, once = arg_int("once", 0);
    struct client c;

    client_open(&c, &t);
    if (scan_once(&c, true) != want)
        die("the scan did not give all documents");
    begin = now_ns();
    end = begin + (int64_t)(arg_num("seconds", 1) * NS);
    for (; once == 0 && now_ns() < end; n += want)
        (void)scan_once(&c, false);
    client_close(&c);
    report_num("docs_per_second", (double)n * NS / (double)(now_ns() - begin));
}
