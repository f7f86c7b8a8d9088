/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Waiting: acknowledgements, flush tickets, streams. Who is woken, when, and who is not. */
#include "oplog_util.h"

#include <sched.h>

#include "base/fault.h"
#include "oplog/oplog_internal.h"

static const struct scope coll_a = {SCOPE_COLLECTION, "db", "db.a", false, false, false};
static const struct scope coll_b = {SCOPE_COLLECTION, "db", "db.b", false, false, false};
static const struct scope db_db = {SCOPE_DATABASE, "db", NULL, false, false, false};
static const struct scope db_other = {SCOPE_DATABASE, "other", NULL, false, false, false};
static const struct scope cluster = {SCOPE_CLUSTER, NULL, NULL, false, false, false};

/* From here on the log is not synced. The clock goes back, so that there are optimes for an hour.
 */
static void hang_at(const char *spec)
{
    struct error err;

    clock_test_shift_wall(-3600 * 1000);
    OK(fault_set(spec, &err));
}

static void go_on(void)
{
    fault_clear_all();
    clock_test_shift_wall(3600 * 1000);
}

/* --- a commit that a test holds between taking its optime and committing ------------------- */

struct held {
    struct db *d;
    pthread_t thread;
    struct mutex mx;
    pthread_cond_t cv;
    bool inside, go;
    uint64_t optime;
};

static int hold(void *arg, struct stx *t, uint64_t first)
{
    struct held *h = arg;

    (void)t;
    mutex_lock(&h->mx);
    h->optime = first;
    h->inside = true;
    pthread_cond_broadcast(&h->cv);
    while (!h->go)
        (void)mutex_wait(&h->mx, &h->cv, -1);
    mutex_unlock(&h->mx);
    return 0;
}

static void *commit_held(void *arg)
{
    struct held *h = arg;
    struct oplog_op e = {.op = 'i', .ns = "db.a", .uuid = test_uuid, .stmt_id = -1};
    struct stx *t;
    uint64_t first;
    struct op op;

    op_init(&op);
    e.o = small_doc(&op, 77, 0);
    OK(stx_begin(h->d->engine, &op, &t));
    OK(oplog_commit(h->d->oplog, &op, t, &e, 1, hold, h, &first));
    op_fini(&op);
    return NULL;
}

static void held_start(struct held *h, struct db *d)
{
    memset(h, 0, sizeof(*h));
    h->d = d;
    mutex_init(&h->mx);
    cond_init(&h->cv);
    assert_int_equal(pthread_create(&h->thread, NULL, commit_held, h), 0);
    mutex_lock(&h->mx);
    while (!h->inside)
        (void)mutex_wait(&h->mx, &h->cv, -1);
    mutex_unlock(&h->mx);
}

static void held_release(struct held *h)
{
    mutex_lock(&h->mx);
    h->go = true;
    pthread_cond_broadcast(&h->cv);
    mutex_unlock(&h->mx);
    pthread_join(h->thread, NULL);
    mutex_fini(&h->mx);
    pthread_cond_destroy(&h->cv);
}

/* --- acknowledgements ---------------------------------------------------------------------- */

static void a_reply_waits_for_the_visible_horizon(void **state)
{
    struct parked p, q;
    struct held h;
    uint64_t mine;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    for (int memory = 0; memory < 2; memory++) {
        db_open(&d, memory, &roomy);
        held_start(&h, &d);
        mine = put(&d, &op, "db.a", 1);
        assert_true(mine > h.optime);
        assert_true(oplog_visible(d.oplog) < h.optime);
        parked_init(&p);
        parked_init(&q);
        p.op.ack_visible = mine;
        q.op.ack_visible = h.optime - 1;
        assert_int_equal(oplog_wait_ack(d.oplog, &q.op), 0);
        assert_int_equal(oplog_wait_ack(d.oplog, &p.op), INT_PARK);
        assert_int_equal(parked_wakes(&p), 0);
        held_release(&h);
        assert_true(parked_wait(&p));
        assert_int_equal(oplog_wait_ack(d.oplog, &p.op), 0);
        assert_true(oplog_visible(d.oplog) >= mine);
        parked_fini(&p);
        parked_fini(&q);
        db_remove(&d);
    }
    op_fini(&op);
}

/* What is waited for may come between the look at it and the parking: nobody would wake then. */
static void what_has_been_reached_does_not_park(void **state)
{
    static const uint64_t reached_at[] = {7, 8};
    _Atomic uint64_t reached;
    struct waitlist l;
    struct parked p;

    (void)state;
    waitlist_init(&l);
    for (size_t i = 0; i < sizeof(reached_at) / sizeof(reached_at[0]); i++) {
        parked_init(&p);
        atomic_init(&reached, reached_at[i]);
        waitlist_wake(&l, reached_at[i]);
        assert_int_equal(waitlist_park(&l, &p.op, 7, &reached), 0);
        assert_null(p.op.unpark);
        assert_int_equal(waitlist_park(&l, &p.op, 9, &reached), INT_PARK);
        assert_int_equal(parked_wakes(&p), 0);
        waitlist_wake(&l, 9);
        assert_int_equal(parked_wakes(&p), 1);
        parked_fini(&p);
    }
    waitlist_fini(&l);
}

/* Thousands wait while a sync is held up: they are all woken, by very few syncs. */
static void one_sync_serves_all_who_wait(void **state)
{
    enum { N = 2000 };
    struct parked *p = calloc(N, sizeof(*p));
    struct oplog_stats before, after;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    hang_at("flushBefore:wait");
    put(&d, &op, "db.a", 0);
    oplog_stats(d.oplog, &before);
    for (int i = 0; i < N; i++) {
        parked_init(&p[i]);
        p[i].op.ack_visible = p[i].op.ack_durable = put(&d, &op, "db.a", i);
        assert_int_equal(oplog_wait_ack(d.oplog, &p[i].op), INT_PARK);
        arena_reset(&op.arena);
    }
    assert_int_equal(parked_wakes(&p[0]), 0);
    assert_true(oplog_durable(d.oplog) < p[0].op.ack_durable);
    go_on();
    for (int i = 0; i < N; i++) {
        assert_true(parked_wait(&p[i]));
        assert_int_equal(oplog_wait_ack(d.oplog, &p[i].op), 0);
        parked_fini(&p[i]);
    }
    oplog_stats(d.oplog, &after);
    assert_in_range(after.flushes - before.flushes, 1, 4);
    fault_clear_all();
    db_remove(&d);
    free(p);
    op_fini(&op);
}

/* Nothing is acknowledged while its sync is done but not yet published, and all of it after. */
static void a_waiter_that_comes_during_the_publication_is_woken(void **state)
{
    struct parked p;
    uint64_t optime;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    hang_at("flushAfter:wait");
    optime = put(&d, &op, "db.a", 1);
    while (fault_hits("flushAfter") == 0) /* the interval's own sync */
        usleep(1000);
    parked_init(&p);
    p.op.ack_durable = optime;
    assert_int_equal(oplog_wait_ack(d.oplog, &p.op), INT_PARK);
    go_on();
    assert_true(parked_wait(&p));
    assert_int_equal(oplog_wait_ack(d.oplog, &p.op), 0);
    parked_fini(&p);
    fault_clear_all();
    db_remove(&d);
    op_fini(&op);
}

/* Who waits for an entry that is not even visible yet has the flusher asked when it becomes so. */
static void a_wait_ahead_of_the_visible_horizon_asks_later(void **state)
{
    struct parked p;
    struct held h;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    hang_at("flushBefore:wait");
    put(&d, &op, "db.a", 1);
    while (fault_hits("flushBefore") == 0) /* from here on the flusher hears nothing */
        usleep(1000);
    held_start(&h, &d);
    parked_init(&p);
    p.op.ack_durable = put(&d, &op, "db.a", 2);
    assert_int_equal(oplog_wait_ack(d.oplog, &p.op), INT_PARK);
    atomic_store(&d.oplog->flusher.asked, false);
    held_release(&h);
    assert_true(atomic_load(&d.oplog->flusher.asked));
    go_on();
    assert_true(parked_wait(&p));
    parked_fini(&p);
    fault_clear_all();
    db_remove(&d);
    op_fini(&op);
}

static int try_put(struct db *d, struct op *op, uint64_t *ret_first)
{
    struct oplog_op e = {.op = 'i', .ns = "db.a", .uuid = test_uuid, .stmt_id = -1};
    struct stx *t;

    e.o = small_doc(op, 1, 0);
    OK(stx_begin(d->engine, op, &t));
    return oplog_commit(d->oplog, op, t, &e, 1, NULL, NULL, ret_first);
}

/* The clock has passed the durable ceiling, and the disk is stuck. */
static void who_is_refused_an_optime_waits_for_the_sync(void **state)
{
    struct parked p;
    struct db d;
    uint64_t first, before;

    (void)state;
    db_open(&d, false, &roomy);
    hang_at("flushBefore:wait");
    clock_test_shift_wall(2 * 3600 * 1000);
    before = oplog_allocated(d.oplog);
    parked_init(&p);
    p.op.wtimeout_us = 60 * 1000000;
    assert_int_equal(try_put(&d, &p.op, &first), INT_PARK);
    assert_true(p.op.ends_with_client && p.op.park_deadline_us != 0);
    parked_unpark(&p);
    assert_true(!p.op.ends_with_client && p.op.park_deadline_us == 0);
    p.op.room_until_us = 1; /* over */
    assert_int_equal(try_put(&d, &p.op, &first), ERR_WRITE_CONCERN_TIMEOUT);
    p.op.wtimeout_us = p.op.room_until_us = 0;
    atomic_store(&p.op.interrupt, ERR_INTERRUPTED);
    assert_int_equal(try_put(&d, &p.op, &first), ERR_INTERRUPTED);
    p.op.wrote_optime = 1; /* it would sleep */
    assert_int_equal(try_put(&d, &p.op, &first), ERR_INTERRUPTED);
    p.op.wrote_optime = 0;
    atomic_store(&p.op.interrupt, 0);
    assert_int_equal(try_put(&d, &p.op, &first), INT_PARK);
    assert_true(oplog_allocated(d.oplog) == before);
    fault_clear_all();
    assert_true(parked_wait(&p));
    while (try_put(&d, &p.op, &first) == INT_PARK) /* the sync that hung knew an older ceiling */
        assert_true(parked_wait(&p));
    assert_true(first > before);
    parked_fini(&p);
    clock_test_shift_wall(-3600 * 1000);
    db_remove(&d);
}

static void a_ticket_covers_what_was_committed_before(void **state)
{
    struct parked p;
    struct stx *t;
    uint64_t ticket, first;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    await_durable(&d, oplog_visible(d.oplog));
    while (oplog_flush_ticket(d.oplog) != 0) /* until the start's own commits are covered */
        usleep(1000);
    OK(stx_begin(d.engine, &op, &t));
    OK(oplog_commit(d.oplog, &op, t, NULL, 0, NULL, NULL, &first)); /* a change without entries */
    ticket = oplog_flush_ticket(d.oplog);
    if (ticket != 0) { /* unless the interval's sync came in between */
        parked_init(&p);
        p.op.ack_flush = ticket;
        while (oplog_wait_ack(d.oplog, &p.op) == INT_PARK)
            assert_true(parked_wait(&p));
        assert_true(atomic_load(&d.oplog->flush_done) >= ticket);
        parked_fini(&p);
    }
    while (oplog_flush_ticket(d.oplog) != 0)
        usleep(1000);
    db_remove(&d);
    db_open(&d, true, &roomy);
    put(&d, &op, "db.a", 1);
    assert_true(oplog_flush_ticket(d.oplog) == 0);
    db_remove(&d);
    op_fini(&op);
}

static void unsynced_commits_become_durable_without_being_asked(void **state)
{
    int64_t give_up_us = clock_mono_us() + 10 * 1000000;
    uint64_t optime;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    optime = put(&d, &op, "db.a", 1);
    while (oplog_durable(d.oplog) < optime && clock_mono_us() < give_up_us)
        usleep(1000);
    assert_true(oplog_durable(d.oplog) >= optime);
    db_remove(&d);
    op_fini(&op);
}

/* --- streams ------------------------------------------------------------------------------- */

static void only_matching_entries_wake(void **state)
{
    static const struct {
        const char *ns;
        bool woken[5]; /* a, b, db, other, cluster */
    } rows[] = {
        {"db.a", {true, false, true, false, true}},
        {"db.b", {false, true, true, false, true}},
        {"other.a", {false, false, false, true, true}},
        {"third.a", {false, false, false, false, true}},
        {"admin.a", {false, false, false, false, false}},
        {"db.system.x", {false, false, false, false, false}},
    };
    const struct scope *scopes[5] = {&coll_a, &coll_b, &db_db, &db_other, &cluster};
    struct parked p[5];
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    for (int memory = 0; memory < 2; memory++) {
        db_open(&d, memory, &roomy);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            uint64_t after = oplog_visible(d.oplog), wrote;

            await_durable(&d, after);
            for (int k = 0; k < 5; k++) {
                parked_init(&p[k]);
                assert_int_equal(oplog_wait_entry(d.oplog, &p[k].op, scopes[k], after), INT_PARK);
            }
            wrote = put(&d, &op, rows[i].ns, 1);
            await_durable(&d, wrote);
            while (atomic_load(&d.oplog->hub.announced) < wrote)
                usleep(500);
            for (int k = 0; k < 5; k++) {
                assert_int_equal(parked_wakes(&p[k]), rows[i].woken[k]);
                parked_unpark(&p[k]);
                /* who was not woken may go on from here; who was must read */
                assert_true(oplog_wait_passed(&p[k].op) == (rows[i].woken[k] ? after : wrote));
                parked_fini(&p[k]);
            }
        }
        db_remove(&d);
    }
    op_fini(&op);
}

static void a_stream_is_woken_at_the_durable_horizon_and_asks_for_it(void **state)
{
    struct parked stream, tailer;
    uint64_t after, optime;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    after = oplog_visible(d.oplog);
    hang_at("flushBefore:wait");
    parked_init(&stream);
    parked_init(&tailer);
    assert_int_equal(oplog_wait_entry(d.oplog, &stream.op, &coll_a, after), INT_PARK);
    assert_int_equal(oplog_wait_entry(d.oplog, &tailer.op, &whole_oplog, after), INT_PARK);
    put(&d, &op, "db.b", 1);
    assert_true(atomic_load(&d.oplog->durable_wanted) <= after);
    optime = put(&d, &op, "db.a", 2);
    assert_true(atomic_load(&d.oplog->durable_wanted) >= optime);
    assert_true(parked_wait(&tailer));
    assert_int_equal(parked_wakes(&stream), 0);
    go_on();
    assert_true(parked_wait(&stream));
    assert_true(oplog_durable(d.oplog) >= optime);
    assert_string_equal(read_ids(&d, &op, &coll_a, after + 1, false), "2");
    parked_fini(&stream);
    parked_fini(&tailer);
    fault_clear_all();
    db_remove(&d);
    op_fini(&op);
}

/* Parking with an unread match, durable or not: the first means read again, the second that the
 * flusher is asked. */
static void entries_from_before_the_park_count(void **state)
{
    struct parked p;
    uint64_t after, optime;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    parked_init(&p);
    after = oplog_visible(d.oplog);
    optime = put(&d, &op, "db.a", 1);
    await_durable(&d, optime);
    assert_int_equal(oplog_wait_entry(d.oplog, &p.op, &coll_a, after), 0);
    assert_null(p.op.unpark);
    assert_int_equal(oplog_wait_entry(d.oplog, &p.op, &coll_b, after), INT_PARK);
    parked_unpark(&p);
    assert_int_equal(oplog_wait_entry(d.oplog, &p.op, &coll_a, optime), INT_PARK);
    parked_unpark(&p);

    hang_at("flushBefore:wait");
    after = oplog_visible(d.oplog);
    optime = put(&d, &op, "db.a", 2);
    assert_true(atomic_load(&d.oplog->durable_wanted) < optime);
    oplog_pump(d.oplog); /* while nobody waits for it */
    assert_int_equal(oplog_wait_entry(d.oplog, &p.op, &coll_a, after), INT_PARK);
    assert_true(atomic_load(&d.oplog->durable_wanted) >= optime);
    go_on();
    assert_true(parked_wait(&p));
    parked_fini(&p);
    fault_clear_all();
    db_remove(&d);
    op_fini(&op);
}

struct parker {
    struct db *d;
    struct parked p;
    uint64_t after;
    int result;
};

static void *park_thread(void *arg)
{
    struct parker *k = arg;

    k->result = oplog_wait_entry(k->d->oplog, &k->p.op, &coll_a, k->after);
    return NULL;
}

static void await(long (*count)(const void *arg), const void *arg, long least)
{
    int64_t deadline_us = clock_mono_us() + 10 * 1000000;

    while (count(arg) < least) {
        assert_true(clock_mono_us() < deadline_us);
        sched_yield();
    }
}

static long hits(const void *name)
{
    return fault_hits(name);
}

static long announced(const void *oplog)
{
    return (long)atomic_load(&((const struct oplog *)oplog)->hub.announced);
}

/* Between its look at the horizon and saying what it waits for: nobody would look at the entry. */
static void an_entry_announced_while_a_stream_parks_is_read(void **state)
{
    struct parker k;
    struct error err;
    uint64_t optime;
    pthread_t t;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    k = (struct parker){.d = &d, .after = oplog_visible(d.oplog)};
    parked_init(&k.p);
    OK(fault_set("flushBefore:wait", &err));
    OK(fault_set("parkLooked:wait", &err));
    optime = put(&d, &op, "db.a", 1);
    oplog_pump(d.oplog); /* while nobody is parked */
    await(hits, "flushBefore", 1);
    assert_int_equal(pthread_create(&t, NULL, park_thread, &k), 0);
    await(hits, "parkLooked", 1);
    OK(fault_set("flushBefore:off", &err));
    await(announced, d.oplog, (long)optime);
    OK(fault_set("parkLooked:off", &err));
    pthread_join(t, NULL);
    assert_int_equal(k.result, 0);
    parked_fini(&k.p);
    fault_clear_all();
    db_remove(&d);
    op_fini(&op);
}

static void a_stream_behind_the_ring_reads_again(void **state)
{
    struct oplog_options o = roomy;
    struct parked p;
    uint64_t after;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    o.hub_bytes = 8 * 1024;
    db_open(&d, false, &o);
    parked_init(&p);
    after = oplog_visible(d.oplog);
    for (int i = 0; i < 200; i++)
        put(&d, &op, "db.b", i);
    await_durable(&d, op.wrote_optime);
    assert_int_equal(oplog_wait_entry(d.oplog, &p.op, &coll_a, after), 0);
    assert_int_equal(oplog_wait_entry(d.oplog, &p.op, &coll_a, op.wrote_optime), INT_PARK);
    parked_fini(&p);
    db_remove(&d);
    op_fini(&op);
}

/* Entries that fell out of the ring before the flusher came to them wake everybody. */
static void a_burst_beyond_the_ring_wakes_streams(void **state)
{
    struct oplog_options o = roomy;
    struct parked p;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    o.hub_bytes = 8 * 1024;
    db_open(&d, false, &o);
    parked_init(&p);
    assert_int_equal(oplog_wait_entry(d.oplog, &p.op, &coll_a, oplog_visible(d.oplog)), INT_PARK);
    hang_at("flushBefore:wait");
    put(&d, &op, "db.a", 0);
    for (int i = 0; i < 200; i++)
        put(&d, &op, "db.b", i);
    go_on();
    assert_true(parked_wait(&p));
    parked_fini(&p);
    fault_clear_all();
    db_remove(&d);
    op_fini(&op);
}

static void all_watchers_of_a_hot_collection_are_woken(void **state)
{
    enum { N = 1000 };
    struct parked *p = calloc(N, sizeof(*p));
    struct oplog_stats st;
    uint64_t after;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    after = oplog_visible(d.oplog);
    for (int i = 0; i < N; i++) {
        parked_init(&p[i]);
        assert_int_equal(oplog_wait_entry(d.oplog, &p[i].op, i % 2 ? &coll_a : &cluster, after),
                         INT_PARK);
    }
    oplog_stats(d.oplog, &st);
    assert_int_equal(st.waiting_streams, N);
    put(&d, &op, "db.a", 1);
    for (int i = 0; i < N; i++) {
        assert_true(parked_wait(&p[i]));
        parked_fini(&p[i]);
    }
    oplog_stats(d.oplog, &st);
    assert_int_equal(st.waiting_streams, 0);
    db_remove(&d);
    free(p);
    op_fini(&op);
}

/* --- no wake-up is lost -------------------------------------------------------------------- */

enum { PAIRS = 4, ROUNDS = 400 };

struct pair {
    struct db *d;
    char ns[16];
    _Atomic int read; /* rounds that the stream has seen */
};

/* Each round writes one entry and goes on when the stream has seen it, so a lost wake-up stops the
 * pair. */
static void *ping(void *arg)
{
    struct pair *p = arg;
    struct op op;

    op_init(&op);
    for (int i = 0; i < ROUNDS; i++) {
        put(p->d, &op, p->ns, i);
        arena_reset(&op.arena);
        while (atomic_load(&p->read) <= i)
            usleep(10);
    }
    op_fini(&op);
    return NULL;
}

static void *pong(void *arg)
{
    struct pair *p = arg;
    struct scope s = {SCOPE_COLLECTION, "db", p->ns, false, false, false};
    uint64_t position = 0;
    struct oplog_reader *r;
    struct oplog_row row;
    struct parked w;

    parked_init(&w);
    while (atomic_load(&p->read) < ROUNDS) {
        bool found = true;

        OK(oplog_reader_open(p->d->oplog, &w.op, position + 1, &s, false, &r));
        while (found) {
            OK(oplog_reader_next(r, &row, &found));
            if (found)
                atomic_fetch_add(&p->read, 1);
        }
        position = oplog_reader_position(r);
        oplog_reader_close(r);
        if (atomic_load(&p->read) < ROUNDS &&
            oplog_wait_entry(p->d->oplog, &w.op, &s, position) == INT_PARK)
            assert_true(parked_wait(&w));
        arena_reset(&w.op.arena);
    }
    parked_fini(&w);
    return NULL;
}

static void no_wake_up_is_lost(void **state)
{
    (void)state;
    for (int memory = 0; memory < 2; memory++) {
        struct pair p[PAIRS] = {0};
        pthread_t t[2 * PAIRS];
        struct db d;

        db_open(&d, memory, &roomy);
        for (int i = 0; i < PAIRS; i++) {
            p[i].d = &d;
            snprintf(p[i].ns, sizeof(p[i].ns), "db.c%d", i);
            assert_int_equal(pthread_create(&t[2 * i], NULL, pong, &p[i]), 0);
            assert_int_equal(pthread_create(&t[2 * i + 1], NULL, ping, &p[i]), 0);
        }
        for (int i = 0; i < 2 * PAIRS; i++)
            pthread_join(t[i], NULL);
        for (int i = 0; i < PAIRS; i++)
            assert_int_equal(atomic_load(&p[i].read), ROUNDS);
        db_remove(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_waits_for_the_visible_horizon),
        cmocka_unit_test(what_has_been_reached_does_not_park),
        cmocka_unit_test(one_sync_serves_all_who_wait),
        cmocka_unit_test(a_waiter_that_comes_during_the_publication_is_woken),
        cmocka_unit_test(a_wait_ahead_of_the_visible_horizon_asks_later),
        cmocka_unit_test(who_is_refused_an_optime_waits_for_the_sync),
        cmocka_unit_test(a_ticket_covers_what_was_committed_before),
        cmocka_unit_test(unsynced_commits_become_durable_without_being_asked),
        cmocka_unit_test(only_matching_entries_wake),
        cmocka_unit_test(a_stream_is_woken_at_the_durable_horizon_and_asks_for_it),
        cmocka_unit_test(entries_from_before_the_park_count),
        cmocka_unit_test(an_entry_announced_while_a_stream_parks_is_read),
        cmocka_unit_test(a_stream_behind_the_ring_reads_again),
        cmocka_unit_test(a_burst_beyond_the_ring_wakes_streams),
        cmocka_unit_test(all_watchers_of_a_hot_collection_are_woken),
        cmocka_unit_test(no_wake_up_is_lost),
    };

    return cmocka_run_group_tests_name("oplog_wait", tests, NULL, NULL);
}
