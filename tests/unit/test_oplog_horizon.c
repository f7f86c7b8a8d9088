/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Many writers, random rollbacks, readers that follow: nothing missed, nothing twice, in order. */
#include "oplog_util.h"

#include "base/fault.h"
#include "oplog/oplog_internal.h"

enum { WRITERS = 8, RUN_MS = 800, SEQ_MAX = 200000 };

/* --- the bare horizon ---------------------------------------------------------------------- */

static void visible_waits_for_the_oldest_slot(void **state)
{
    struct horizon *h = calloc(1, sizeof(*h));
    uint64_t a, b, c, slot_a, slot_b, slot_c;

    (void)state;
    horizon_init(h, 5, UINT64_MAX);
    a = horizon_begin(h, 1, &slot_a);
    b = horizon_begin(h, 3, &slot_b);
    c = horizon_begin(h, 1, &slot_c);
    assert_true(b == a + 1 || b > a + 1);
    assert_true(c >= b + 3);
    assert_false(horizon_end(h, slot_b, NULL));
    assert_true(atomic_load(&h->visible) == 5);
    assert_true(horizon_end(h, slot_a, NULL));
    assert_true(atomic_load(&h->visible) == b + 2);
    assert_true(horizon_end(h, slot_c, NULL));
    assert_true(atomic_load(&h->visible) == c);
    assert_true(atomic_load(&h->allocated) == c);
    horizon_fini(h);
    free(h);
}

/* A batch or a chain of entries: nothing of it before its commit, then all of it. */
static void all_of_a_slot_becomes_visible_at_once(void **state)
{
    struct horizon *h = calloc(1, sizeof(*h));
    uint64_t first, other, slot, slot_other;

    (void)state;
    horizon_init(h, 5, UINT64_MAX);
    first = horizon_begin(h, 3, &slot);
    assert_true(atomic_load(&h->visible) == 5);
    other = horizon_begin(h, 2, &slot_other);
    assert_true(atomic_load(&h->visible) == 5);
    assert_true(horizon_end(h, slot, NULL));
    assert_true(atomic_load(&h->visible) == first + 2);
    assert_true(horizon_end(h, slot_other, NULL));
    assert_true(atomic_load(&h->visible) == other + 1);
    horizon_fini(h);
    free(h);
}

static void increments_stay_within_their_second(void **state)
{
    struct horizon *h = calloc(1, sizeof(*h));
    uint64_t far = (uint64_t)(clock_wall_ms() / 1000 + 1000) << 32, first, slot;

    (void)state;
    horizon_init(h, far, UINT64_MAX); /* a ceiling of an earlier run: increment 0 */
    assert_true(horizon_begin(h, 1, &slot) == far + 1);
    (void)horizon_end(h, slot, NULL);
    assert_true(horizon_advance(h, far | 0xFFFFFFF0u));
    first = horizon_begin(h, 100, &slot);
    assert_true(first == far + (1ULL << 32) + 1);
    (void)horizon_end(h, slot, NULL);
    horizon_fini(h);
    free(h);
}

static void nothing_is_handed_out_above_the_ceiling(void **state)
{
    struct horizon *h = calloc(1, sizeof(*h));
    uint64_t second = (uint64_t)(clock_wall_ms() / 1000 + 1000) << 32, slot, wants;

    (void)state;
    horizon_init(h, second, second + 2);
    assert_true(horizon_begin(h, 2, &slot) == second + 1);
    assert_true(horizon_end(h, slot, NULL));
    assert_true(horizon_begin(h, 1, &slot) == 0);
    wants = atomic_load(&h->wants);
    assert_true(wants == second + 3);
    assert_true(horizon_begin(h, 5, &slot) == 0);
    assert_false(horizon_raise_ceiling(h, second + 3));
    assert_true(atomic_load(&h->wants) == second + 7); /* not yet */
    assert_true(horizon_begin(h, 1, &slot) == second + 3);
    assert_true(horizon_end(h, slot, NULL));
    assert_false(horizon_raise_ceiling(h, second + 100));
    assert_true(atomic_load(&h->wants) == 0);
    horizon_fini(h);
    free(h);
}

static void a_time_above_the_ceiling_is_reached_with_it(void **state)
{
    struct horizon *h = calloc(1, sizeof(*h));
    uint64_t second = (uint64_t)(clock_wall_ms() / 1000 + 1000) << 32, slot;

    (void)state;
    horizon_init(h, second, second + 10);
    assert_false(horizon_advance(h, second + 50));
    assert_false(horizon_advance(h, second + 40));
    assert_true(atomic_load(&h->visible) == second);
    assert_true(horizon_begin(h, 1, &slot) == 0); /* it would be above 50 */
    assert_false(horizon_raise_ceiling(h, second + 49));
    assert_true(horizon_raise_ceiling(h, second + 100));
    assert_true(atomic_load(&h->visible) == second + 50);
    assert_true(horizon_begin(h, 1, &slot) == second + 51);
    assert_true(horizon_end(h, slot, NULL));
    horizon_fini(h);
    free(h);
}

/* --- writers and followers ----------------------------------------------------------------- */

struct writer {
    struct db *d;
    int id;
    int64_t wrote; /* committed entries: _id id * SEQ_MAX + 0 .. */
    int64_t most;  /* of these */
    _Atomic bool *stop;
};

static int fail_sometimes(void *arg, struct stx *t, uint64_t first)
{
    unsigned *seed = arg;

    (void)first;
    return rand_r(seed) % 10 == 0 ? op_fail(stx_op(t), ERR_BAD_VALUE, "rolled back") : 0;
}

static void *write_much(void *arg)
{
    struct writer *w = arg;
    unsigned seed = (unsigned)w->id;
    struct op op;

    op_init(&op);
    while (!atomic_load(w->stop) && w->wrote < w->most) {
        struct oplog_op e = {.op = 'i', .ns = "db.a", .uuid = test_uuid, .stmt_id = -1};
        struct stx *t;
        uint64_t first;

        e.o = small_doc(&op, (int64_t)w->id * SEQ_MAX + w->wrote, (size_t)rand_r(&seed) % 200);
        OK(stx_begin(w->d->engine, &op, &t));
        if (oplog_commit(w->d->oplog, &op, t, &e, 1, fail_sometimes, &seed, &first) == 0)
            w->wrote++;
        arena_reset(&op.arena);
    }
    op_fini(&op);
    return NULL;
}

struct follower {
    struct db *d;
    struct scope scope;
    uint64_t position;
    int64_t next[WRITERS]; /* sequence expected of each writer */
    int64_t seen;
    _Atomic bool *stop;
    _Atomic uint64_t *until; /* read on until here after stop */
};

static void follow_once(struct follower *f, struct op *op)
{
    struct oplog_reader *r;
    struct oplog_row row;
    bool found = true;

    OK(oplog_reader_open(f->d->oplog, op, f->position + 1, &f->scope, false, &r));
    for (;;) {
        int64_t id;

        OK(oplog_reader_next(r, &row, &found));
        if (!found)
            break;
        assert_true(row.optime > f->position);
        f->position = row.optime;
        id = bv_i64(bv_get(row.o, "_id"));
        assert_true(id % SEQ_MAX == f->next[id / SEQ_MAX]);
        f->next[id / SEQ_MAX]++;
        f->seen++;
    }
    assert_true(oplog_reader_position(r) >= f->position);
    f->position = oplog_reader_position(r);
    oplog_reader_close(r);
}

static void *follow(void *arg)
{
    struct follower *f = arg;
    struct parked p;

    parked_init(&p);
    for (;;) {
        bool last = atomic_load(f->stop) && f->position >= atomic_load(f->until);

        if (last)
            break;
        follow_once(f, &p.op);
        p.op.park_deadline_us = 0;
        if (!atomic_load(f->stop) &&
            oplog_wait_entry(f->d->oplog, &p.op, &f->scope, f->position) == INT_PARK)
            (void)parked_wait_ms(&p, 50); /* nobody writes after the last entry */
        arena_reset(&p.op.arena);
    }
    parked_fini(&p);
    return NULL;
}

static void run_writers_and_followers(bool memory, int64_t hub_bytes)
{
    struct oplog_options o = roomy;
    struct writer w[WRITERS];
    struct follower f[3];
    pthread_t wt[WRITERS], ft[3];
    _Atomic bool stop_writing = false, stop = false;
    _Atomic uint64_t until = UINT64_MAX;
    int64_t wrote = 0;
    struct op op;
    struct db d;

    op_init(&op);
    o.hub_bytes = hub_bytes;
    db_open(&d, memory, &o);
    for (int i = 0; i < 3; i++) {
        static const struct scope scopes[3] = {
            {SCOPE_OPLOG, NULL, NULL, false, false, false},
            {SCOPE_COLLECTION, "db", "db.a", false, false, false},
            {SCOPE_CLUSTER, NULL, NULL, false, false, false}};

        f[i] = (struct follower){.d = &d, .scope = scopes[i], .stop = &stop, .until = &until};
        f[i].position = oplog_visible(d.oplog);
        assert_int_equal(pthread_create(&ft[i], NULL, follow, &f[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        w[i] = (struct writer){.d = &d, .id = i, .stop = &stop_writing};
        w[i].most = memory ? 5000 : SEQ_MAX / 2; /* in memory the cache is the limit */
        assert_int_equal(pthread_create(&wt[i], NULL, write_much, &w[i]), 0);
    }
    usleep(RUN_MS * 1000);
    atomic_store(&stop_writing, true);
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(wt[i], NULL);
        wrote += w[i].wrote;
    }
    put(&d, &op, "db.a", (int64_t)0 * SEQ_MAX + w[0].wrote); /* wakes whoever is parked */
    await_durable(&d, op.wrote_optime);
    atomic_store(&until, op.wrote_optime);
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++) {
        pthread_join(ft[i], NULL);
        assert_true(f[i].seen == wrote + 1);
        assert_true(f[i].next[0] == w[0].wrote + 1);
        for (int k = 1; k < WRITERS; k++)
            assert_true(f[i].next[k] == w[k].wrote);
    }
    assert_true(wrote > 1000);
    assert_true(oplog_visible(d.oplog) == oplog_allocated(d.oplog));
    db_remove(&d);
    op_fini(&op);
}

static void followers_miss_nothing(void **state)
{
    (void)state;
    run_writers_and_followers(false, 0);
}

/* A ring of a few entries: followers go through the table and the ring by turns. */
static void followers_miss_nothing_with_a_tiny_ring(void **state)
{
    (void)state;
    run_writers_and_followers(false, 32 * 1024);
}

static void followers_miss_nothing_in_memory(void **state)
{
    (void)state;
    run_writers_and_followers(true, 0);
}

/* --- ring and table ------------------------------------------------------------------------ */

/* Wherever a reader begins, it gets every entry behind once, from table, ring or both. */
static void ring_and_table_hand_over(void **state)
{
    struct oplog_options o = roomy;
    struct scope s = {SCOPE_DATABASE, "db", NULL, false, false, false};
    uint64_t optimes[3000];
    struct oplog_reader *r;
    struct oplog_row row;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    o.hub_bytes = 300 * 1024; /* about the newer third */
    db_open(&d, false, &o);
    for (int i = 0; i < 3000; i++) {
        optimes[i] = put_padded(&d, &op, i % 3 == 0 ? "other.a" : "db.a", i, 50);
        arena_reset(&op.arena);
    }
    await_durable(&d, op.wrote_optime);
    for (int from = 0; from < 3000; from += 37) {
        int expected = from;

        OK(oplog_reader_open(d.oplog, &op, optimes[from], &s, false, &r));
        for (;;) {
            bool found;

            while (expected < 3000 && expected % 3 == 0)
                expected++;
            OK(oplog_reader_next(r, &row, &found));
            if (!found)
                break;
            assert_true(row.optime == optimes[expected]);
            assert_true(bv_i64(bv_get(row.o, "_id")) == expected);
            expected++;
        }
        assert_int_equal(expected, 3000);
        oplog_reader_close(r);
    }
    db_remove(&d);
    op_fini(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(visible_waits_for_the_oldest_slot),
        cmocka_unit_test(all_of_a_slot_becomes_visible_at_once),
        cmocka_unit_test(increments_stay_within_their_second),
        cmocka_unit_test(nothing_is_handed_out_above_the_ceiling),
        cmocka_unit_test(a_time_above_the_ceiling_is_reached_with_it),
        cmocka_unit_test(followers_miss_nothing),
        cmocka_unit_test(followers_miss_nothing_with_a_tiny_ring),
        cmocka_unit_test(followers_miss_nothing_in_memory),
        cmocka_unit_test(ring_and_table_hand_over),
    };

    return cmocka_run_group_tests_name("oplog_horizon", tests, NULL, NULL);
}
