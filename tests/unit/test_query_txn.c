/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Transactions: isolation, conflicts, outsiders that wait, pinned snapshots, bounds. */
#include "tests/unit/txn_util.h"

#include "base/limits.h"

static struct world w;
static struct op op;  /* outside transactions */
static struct op in;  /* inside one */
static struct op in2; /* inside another */

static int set_up_as(bool hidden)
{
    world_open(&w, true, hidden);
    request_init(&op, &w);
    request_init(&in, &w);
    request_init(&in2, &w);
    OK(insert(&op, "d.c", "{'_id': 1, 'x': 1}"));
    OK(insert(&op, "d.c", "{'_id': 2, 'x': 1}"));
    op.wrote_optime = 0;
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_as(false);
}

static int set_up_hidden(void **state)
{
    (void)state;
    return set_up_as(true);
}

static int tear_down(void **state)
{
    (void)state;
    /* A test that failed has left its transactions open: they must not hide what it said. */
    if (in.txn != NULL)
        abort_in(&in);
    if (in2.txn != NULL)
        abort_in(&in2);
    op_fini(&op);
    op_fini(&in);
    op_fini(&in2);
    world_remove(&w);
    return 0;
}

/* --- isolation ------------------------------------------------------------------------------- */

static void sees_its_snapshot_and_its_own_writes(void **state)
{
    (void)state;
    txn_enter(begin(&w, 1), &in);
    OK(set(&op, "d.c", 1, 7));
    FOUND(&in, "d.c", "1:1 2:1");
    OK(insert(&in, "d.c", "{'_id': 3, 'x': 3}"));
    OK(set(&in, "d.c", 2, 2));
    OK(set(&in, "d.c", 2, 5));
    FOUND(&in, "d.c", "1:1 2:5 3:3");
    FOUND(&op, "d.c", "1:7 2:1");
    assert_int_equal(count_of(&w, "d.c"), 2);
    assert_int_equal(txn_nops(in.txn), 3);
    commit(&in);
    FOUND(&op, "d.c", "1:7 2:5 3:3");
    assert_int_equal(count_of(&w, "d.c"), 3);
}

static void a_parked_request_is_not_inside(void **state)
{
    struct txn *t = begin(&w, 1);

    (void)state;
    txn_enter(t, &in);
    OK(set(&in, "d.c", 1, 2));
    txn_leave(&in);
    FOUND(&in, "d.c", "1:1 2:1");
    txn_enter(t, &in2);
    FOUND(&in2, "d.c", "1:2 2:1");
    commit(&in2);
    FOUND(&op, "d.c", "1:2 2:1");
}

static void write_skew_is_allowed(void **state)
{
    (void)state;
    txn_enter(begin(&w, 1), &in);
    txn_enter(begin(&w, 2), &in2);
    FOUND(&in, "d.c", "1:1 2:1");
    FOUND(&in2, "d.c", "1:1 2:1");
    OK(set(&in, "d.c", 1, 0));
    OK(set(&in2, "d.c", 2, 0));
    commit(&in);
    commit(&in2);
    FOUND(&op, "d.c", "1:0 2:0");
}

static void an_abort_leaves_nothing(void **state)
{
    uint64_t before = oplog_allocated(w.db.oplog);

    (void)state;
    txn_enter(begin(&w, 1), &in);
    OK(insert(&in, "d.c", "{'_id': 3, 'x': 3}"));
    OK(update(&in, "d.c", "{}", "{'$inc': {'x': 1}}", true, false));
    OK(drop_docs(&in, "d.c", "{'_id': 1}", false));
    FOUND(&in, "d.c", "2:2 3:4");
    abort_in(&in);
    FOUND(&op, "d.c", "1:1 2:1");
    assert_int_equal(count_of(&w, "d.c"), 2);
    assert_int_equal(oplog_allocated(w.db.oplog), before);
}

static void one_that_only_reads_commits_without_an_entry(void **state)
{
    uint64_t before = oplog_allocated(w.db.oplog), at = 1;

    (void)state;
    txn_enter(begin(&w, 1), &in);
    FOUND(&in, "d.c", "1:1 2:1");
    assert_int_equal(in.read_optime, txn_read_optime(in.txn));
    OK(set(&in, "d.c", 9, 1)); /* matches nothing */
    assert_false(txn_has_ops(in.txn));
    OK(txn_commit(in.txn, &in, &at));
    assert_int_equal(at, 0);
    assert_int_equal(in.wrote_optime, 0);
    assert_int_equal(oplog_allocated(w.db.oplog), before);
}

/* --- conflicts ------------------------------------------------------------------------------- */

static void a_conflict_is_an_error_at_once(void **state)
{
    (void)state;
    txn_enter(begin(&w, 1), &in);
    txn_enter(begin(&w, 2), &in2);
    OK(set(&in, "d.c", 1, 2));
    assert_int_equal(set(&in2, "d.c", 1, 3), 112);
    assert_int_equal(in2.err->code, 112);
    abort_in(&in2);
    commit(&in);
    FOUND(&op, "d.c", "1:2 2:1");
}

static void a_document_changed_since_the_snapshot_conflicts(void **state)
{
    (void)state;
    txn_enter(begin(&w, 1), &in);
    FOUND(&in, "d.c", "1:1 2:1");
    OK(set(&op, "d.c", 1, 2));
    assert_int_equal(update(&in, "d.c", "{}", "{'$inc': {'x': 1}}", true, false), 112);
    abort_in(&in);
    txn_enter(begin(&w, 1), &in);
    OK(drop_docs(&op, "d.c", "{'_id': 1}", false));
    assert_int_equal(drop_docs(&in, "d.c", "{'_id': 1}", false), 112);
    abort_in(&in);
    txn_enter(begin(&w, 1), &in);
    OK(insert(&op, "d.c", "{'_id': 1}"));
    assert_int_equal(insert(&in, "d.c", "{'_id': 1}"), 112);
    abort_in(&in);
    FOUND(&op, "d.c", "2:1 1");
}

static void a_duplicate_key_does_not_lose_the_transaction(void **state)
{
    (void)state;
    txn_enter(begin(&w, 1), &in);
    OK(set(&in, "d.c", 2, 9));
    assert_int_equal(insert(&in, "d.c", "{'_id': 1}"), 11000);
    assert_int_equal(update(&in, "d.c", "{'y': 1}", "{'$set': {'_id': 1}}", false, true), 11000);
    FOUND(&in, "d.c", "1:1 2:9");
    commit(&in);
    FOUND(&op, "d.c", "1:1 2:9");
}

/* --- outsiders ------------------------------------------------------------------------------- */

static void an_outsider_parks_until_the_end(void **state)
{
    struct parked p;

    (void)state;
    parked_init(&p);
    p.op.database = &w.db;
    p.op.runs = 1;
    txn_enter(begin(&w, 1), &in);
    OK(set(&in, "d.c", 1, 2));
    assert_int_equal(set(&p.op, "d.c", 1, 3), INT_PARK);
    assert_true(p.op.park_deadline_us > 0);
    assert_int_equal(parked_wakes(&p), 0);
    commit(&in);
    assert_int_equal(parked_wakes(&p), 1);
    parked_unpark(&p);
    assert_int_equal(p.op.park_deadline_us, 0);
    OK(set(&p.op, "d.c", 1, 3));
    FOUND(&op, "d.c", "1:3 2:1");
    parked_fini(&p);
}

static void an_outsider_waits_longer_each_time(void **state)
{
    int64_t last = 0;
    struct parked p;

    (void)state;
    parked_init(&p);
    p.op.database = &w.db;
    p.op.runs = 1;
    txn_enter(begin(&w, 1), &in);
    OK(set(&in, "d.c", 1, 2));
    for (int i = 0; i < 9; i++) {
        int64_t before = clock_mono_us(), pause;

        assert_int_equal(drop_docs(&p.op, "d.c", "{'_id': 1}", false), INT_PARK);
        pause = p.op.park_deadline_us - before;
        assert_true(pause >= last || pause >= 50000);
        last = i < 5 ? (1 << i) * 1000 : 0;
        assert_true(pause >= last);
        parked_unpark(&p);
    }
    abort_in(&in);
    OK(drop_docs(&p.op, "d.c", "{'_id': 1}", false));
    FOUND(&op, "d.c", "2:1");
    parked_fini(&p);
}

struct outsider {
    pthread_t thread;
    struct op op;
    int rc;
};

static void *update_all(void *arg)
{
    struct outsider *o = arg;

    /* As a request that has changed something already: it must not run again. */
    o->op.wrote_optime = 1;
    o->rc = update(&o->op, "d.c", "{}", "{'$inc': {'x': 10}}", true, false);
    return NULL;
}

static void wait_for_a_waiter(void)
{
    struct txn_table_stats s;

    do {
        usleep(1000);
        txn_table_stats(w.db.txns, &s);
    } while (s.waited == 0);
    assert_true(s.write_conflicts > 0);
}

static void one_that_has_changed_something_sleeps_until_the_end(void **state)
{
    struct outsider o = {.rc = -1};

    (void)state;
    request_init(&o.op, &w);
    o.op.waiter.wake = parked_wake;
    txn_enter(begin(&w, 1), &in);
    OK(set(&in, "d.c", 1, 2));
    pthread_create(&o.thread, NULL, update_all, &o);
    wait_for_a_waiter();
    commit(&in);
    pthread_join(o.thread, NULL);
    OK(o.rc);
    FOUND(&op, "d.c", "1:12 2:11");
    op_fini(&o.op);
}

static void a_sleeper_minds_its_deadline(void **state)
{
    struct outsider o = {.rc = -1};

    (void)state;
    request_init(&o.op, &w);
    o.op.deadline_us = clock_mono_us() + 100000;
    txn_enter(begin(&w, 1), &in);
    OK(set(&in, "d.c", 1, 2));
    update_all(&o);
    assert_int_equal(o.rc, 50);
    abort_in(&in);
    op_fini(&o.op);
}

/* --- pinned snapshots ------------------------------------------------------------------------ */

static void a_pin_reads_at_its_time(void **state)
{
    struct ddl_drop_result r;
    struct txn *t;
    uint64_t at;

    (void)state;
    OK(insert(&op, "d.gone", "{'_id': 1}"));
    OK(txn_begin_snapshot(&op, &t, &at));
    assert_int_equal(at, oplog_allocated(w.db.oplog));
    assert_true(txn_read_only(t));
    OK(set(&op, "d.c", 1, 9));
    txn_enter(t, &in);
    FOUND(&in, "d.c", "1:1 2:1");
    assert_int_equal(in.read_optime, at);
    FOUND(&in, "d.gone", "1");
    OK(ddl_drop(&op, "d.gone", &r)); /* a pin holds no locks */
    FOUND(&in, "d.gone", "error 246");
    assert_int_not_equal(set(&in, "d.c", 1, 2), 0);
    txn_leave(&in);
    txn_abort(t);
}

static void *write_on(void *arg)
{
    struct op mine;
    _Atomic bool *stop = arg;

    request_init(&mine, &w);
    while (!atomic_load(stop)) {
        OK(update(&mine, "d.c", "{}", "{'$inc': {'x': 1}}", true, false));
        arena_reset(&mine.arena);
    }
    op_fini(&mine);
    return NULL;
}

/* Every entry up to the pin's time has put one more into x, and none behind it. */
static void a_pin_is_exact_under_load(void **state)
{
    _Atomic bool stop = false;
    pthread_t threads[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, write_on, &stop);
    for (int i = 0; i < 200; i++) {
        struct oplog_row *rows;
        struct txn *t;
        uint64_t at;
        size_t n, upto = 0;
        char *text;

        OK(txn_begin_snapshot(&op, &t, &at));
        while (oplog_visible(w.db.oplog) < at)
            ;
        if (i % 20 == 19) {
            txn_enter(t, &in);
            n = entries_above(&w, &op, 0, NULL, 0);
            rows = ARENA_ARRAY(&op.arena, struct oplog_row, n);
            n = entries_above(&w, &op, 0, rows, n) < n ? 0 : n;
            for (size_t j = 0; j < n; j++)
                upto += rows[j].optime <= at && rows[j].op == 'u';
            text = arena_printf(&in.arena, "1:%zu 2:%zu", upto / 2 + 1, upto / 2 + 1);
            FOUND(&in, "d.c", text);
            txn_leave(&in);
            arena_reset(&op.arena);
        }
        txn_abort(t);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* --- bounds ---------------------------------------------------------------------------------- */

static void too_many_are_refused(void **state)
{
    struct txn *t[LIMIT_TRANSACTIONS], *more;
    uint64_t at;

    (void)state;
    for (int i = 0; i < LIMIT_TRANSACTIONS; i++)
        t[i] = begin(&w, 1);
    assert_int_equal(txn_begin(&op, lsid_of(&op.arena, 1), 1, &more), 402);
    assert_int_equal(txn_begin_snapshot(&op, &more, &at), 402);
    OK(set(&op, "d.c", 1, 2)); /* others work on */
    for (int i = 0; i < LIMIT_TRANSACTIONS; i++)
        txn_abort(t[i]);
    txn_abort(begin(&w, 1));
}

/* Inserts documents of a megabyte until it fails. */
static int fill_cache(struct op *o)
{
    int rc = 0;

    for (int i = 100; rc == 0; i++) {
        struct writer wr;
        struct bw b;
        struct bv doc;
        int64_t inserted;
        size_t done;

        bw_init(&b, &o->arena);
        bw_i32(&b, "_id", i);
        bw_bin(&b, "p", 0, arena_try(&o->arena, 1 << 20), 1 << 20);
        doc = bw_done(&b);
        OK(writer_open(&wr, o, "d.c", true, NULL));
        rc = write_insert(&wr, &doc, 0, 1, NULL, &done, &inserted);
        writer_close(&wr);
        arena_reset(&o->arena);
    }
    return rc;
}

static int set_up_small(void **state)
{
    struct engine_options eo = {.cache_bytes = 16 << 20};
    struct error err;

    (void)state;
    memset(&w, 0, sizeof(w));
    OK(engine_open(&eo, &err, &w.db.engine));
    OK(oplog_open(w.db.engine, &roomy, &err, &w.db.oplog));
    OK(catalog_open(w.db.engine, &err, &w.db.catalog));
    w.store.engine = w.db.engine;
    w.store.oplog = w.db.oplog;
    w.db.locks = nslock_table_new();
    w.db.txns = txn_table_new();
    request_init(&op, &w);
    request_init(&in, &w);
    request_init(&in2, &w);
    return 0;
}

static void one_that_fills_the_cache_is_too_large(void **state)
{
    double used, dirty;

    (void)state;
    OK(insert(&op, "d.c", "{'_id': 1}"));
    txn_enter(begin(&w, 2), &in2);
    OK(insert(&in2, "d.c", "{'_id': 2}"));
    txn_enter(begin(&w, 1), &in);
    assert_int_equal(engine_cache_bytes(w.db.engine), 16 << 20);
    engine_cache_fill(w.db.engine, &used, &dirty);
    assert_true(used > 0 && used < 0.5);
    assert_int_equal(fill_cache(&in), 388);
    engine_cache_fill(w.db.engine, &used, &dirty);
    /* How full it is when the engine gives up depends on what eviction was just copying; but never
     * less than what makes a transaction too large. WiredTiger counts the two apart, so that dirty
     * bytes may seem to be more than all. */
    assert_true(used > 0.5 && dirty > 0.5);
    /* It is not this one that is too large: it may be tried again. */
    assert_int_equal(fill_cache(&in2), 112);
    abort_in(&in);
    abort_in(&in2);
    FOUND(&op, "d.c", "1");
}

static void works_without_an_oplog(void **state)
{
    (void)state;
    txn_enter(begin(&w, 1), &in);
    OK(insert(&in, "d.c", "{'_id': 3}"));
    OK(set(&in, "d.c", 1, 5));
    commit(&in);
    assert_true(in.wrote_optime > 0);
    FOUND(&op, "d.c", "1:5 2:1 3");
    txn_enter(begin(&w, 1), &in);
    OK(drop_docs(&in, "d.c", "{}", true));
    abort_in(&in);
    FOUND(&op, "d.c", "1:5 2:1 3");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sees_its_snapshot_and_its_own_writes),
        TEST(a_parked_request_is_not_inside),
        TEST(write_skew_is_allowed),
        TEST(an_abort_leaves_nothing),
        TEST(one_that_only_reads_commits_without_an_entry),
        TEST(a_conflict_is_an_error_at_once),
        TEST(a_document_changed_since_the_snapshot_conflicts),
        TEST(a_duplicate_key_does_not_lose_the_transaction),
        TEST(an_outsider_parks_until_the_end),
        TEST(an_outsider_waits_longer_each_time),
        TEST(one_that_has_changed_something_sleeps_until_the_end),
        TEST(a_sleeper_minds_its_deadline),
        TEST(a_pin_reads_at_its_time),
        TEST(a_pin_is_exact_under_load),
        TEST(too_many_are_refused),
        cmocka_unit_test_setup_teardown(one_that_fills_the_cache_is_too_large, set_up_small,
                                        tear_down),
        cmocka_unit_test_setup_teardown(works_without_an_oplog, set_up_hidden, tear_down),
    };

    return cmocka_run_group_tests_name("query txn", tests, NULL, NULL);
}
