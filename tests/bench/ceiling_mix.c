/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The mix on WiredTiger alone: threads that take their requests from one schedule, one thread that
 * syncs for all who wait (as the server's does), checkpoints, and removal of old log rows.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/bare.h"
#include "tests/bench/bench.h"
#include "tests/bench/message.h"
#include "tests/bench/mix.h"

enum {
    ENTRY_BYTES = DOC_BYTES + 133,
    UPDATE_ENTRY_BYTES = 176,
    LOG_ROWS_KEPT = 20000,
    THREADS_MAX = 64
};

static struct {
    struct bare bare;
    double rate;
    int64_t begin_ns, end_ns;
    uint64_t docs;
    _Atomic uint64_t next, optime;
    atomic_bool stopped;

    pthread_mutex_t mx;
    pthread_cond_t work, done;
    uint64_t started, finished; /* syncs */
    bool asked;
} run = {.mx = PTHREAD_MUTEX_INITIALIZER,
         .work = PTHREAD_COND_INITIALIZER,
         .done = PTHREAD_COND_INITIALIZER};

/* After the commit: until a sync that began later is over. */
static void await_sync(void)
{
    uint64_t ticket;

    pthread_mutex_lock(&run.mx);
    ticket = run.started + 1;
    run.asked = true;
    pthread_cond_signal(&run.work);
    while (run.finished < ticket)
        pthread_cond_wait(&run.done, &run.mx);
    pthread_mutex_unlock(&run.mx);
}

static void *flusher(void *arg)
{
    struct bare_session s;

    (void)arg;
    bare_session_open(&run.bare, &s);
    pthread_mutex_lock(&run.mx);
    while (!atomic_load(&run.stopped)) {
        uint64_t number;

        if (!run.asked) {
            pthread_cond_wait(&run.work, &run.mx);
            continue;
        }
        run.asked = false;
        number = ++run.started;
        pthread_mutex_unlock(&run.mx);
        bare_sync(&s);
        pthread_mutex_lock(&run.mx);
        run.finished = number;
        pthread_cond_broadcast(&run.done);
    }
    pthread_mutex_unlock(&run.mx);
    return NULL;
}

static void *checkpoints(void *arg)
{
    struct bare_session s;

    (void)arg;
    bare_session_open(&run.bare, &s);
    while (usleep((useconds_t)(MIX_CHECKPOINT_SECONDS * 1e6)), !atomic_load(&run.stopped)) {
        if (s.wt->checkpoint(s.wt, NULL) != 0)
            die("checkpoint");
    }
    return NULL;
}

/* Keeps the newest rows of the log. */
static void *removal(void *arg)
{
    struct bare_session s, to;

    (void)arg;
    bare_session_open(&run.bare, &s);
    to = s;
    if (s.wt->open_cursor(s.wt, "table:log", NULL, NULL, &to.log) != 0)
        die("cursor");
    while (sleep(1), !atomic_load(&run.stopped)) {
        uint64_t newest = atomic_load(&run.optime);

        if (newest <= LOG_ROWS_KEPT)
            continue;
        to.log->set_key(to.log, newest - LOG_ROWS_KEPT);
        if (s.wt->truncate(s.wt, NULL, NULL, to.log, NULL) != 0)
            die("truncate");
    }
    return NULL;
}

static void one(struct bare_session *s, uint64_t n)
{
    enum mix_op op = mix_op(n);
    uint64_t target = mix_target(n, run.docs) + 1, optime;
    WT_ITEM item;

    bare_begin(s);
    if (op == MIX_FIND) {
        bare_find(s, target, &item);
    } else {
        optime = atomic_fetch_add(&run.optime, 1);
        if (op == MIX_INSERT)
            bare_insert(s, optime, DOC_BYTES, ENTRY_BYTES);
        else
            bare_update(s, target, optime, DOC_BYTES, UPDATE_ENTRY_BYTES);
    }
    bare_commit(s);
    if (op != MIX_FIND)
        await_sync();
}

static void *requests(void *arg)
{
    struct hist *h = arg;
    struct bare_session s;

    prctl(PR_SET_TIMERSLACK, 1);
    bare_session_open(&run.bare, &s);
    for (;;) {
        uint64_t n = atomic_fetch_add(&run.next, 1);
        int64_t due = run.begin_ns + (int64_t)((double)n * NS / run.rate);
        struct timespec ts = {due / NS, due % NS};

        if (due >= run.end_ns)
            return NULL;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
        one(&s, n);
        hist_add(h, now_ns() - due);
    }
}

void run_bare_mix(void)
{
    static struct hist h[THREADS_MAX], sum;
    pthread_t threads[THREADS_MAX], flush, side[2];
    int n = (int)arg_int("threads", 32);

    if (n < 1 || n > THREADS_MAX)
        die("threads");
    run.rate = arg_num("rate", 4000);
    run.docs = (uint64_t)arg_int("docs", 100000);
    bare_open(&run.bare);
    bare_fill(&run.bare, run.docs, DOC_BYTES, ENTRY_BYTES);
    atomic_store(&run.optime, run.docs + 1);
    run.begin_ns = now_ns();
    run.end_ns = run.begin_ns + (int64_t)(arg_num("seconds", 10) * NS);
    pthread_create(&flush, NULL, flusher, NULL);
    pthread_create(&side[0], NULL, checkpoints, NULL);
    pthread_create(&side[1], NULL, removal, NULL);
    for (int i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, requests, &h[i]);
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        hist_merge(&sum, &h[i]);
    }
    atomic_store(&run.stopped, true);
    pthread_mutex_lock(&run.mx);
    pthread_cond_signal(&run.work);
    pthread_mutex_unlock(&run.mx);
    pthread_join(flush, NULL);
    pthread_join(side[0], NULL);
    pthread_join(side[1], NULL);
    bare_close(&run.bare);
    report_num("done", (double)sum.count);
    report_latency("", &sum);
}
