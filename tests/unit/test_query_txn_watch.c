/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Who learns of a commit: the ring, the hub and the segments know the namespaces inside it. */
#include "tests/unit/txn_util.h"

#include "oplog/segments.h"

static struct world w;
static struct op op, in;

static const struct scope coll_a = {.kind = SCOPE_COLLECTION, .db = "d", .ns = "d.a"};
static const struct scope coll_b = {.kind = SCOPE_COLLECTION, .db = "d", .ns = "d.b"};
static const struct scope db_e = {.kind = SCOPE_DATABASE, .db = "e"};
static const struct scope cluster = {.kind = SCOPE_CLUSTER};

static int set_up(void **state)
{
    (void)state;
    world_open(&w, true, false);
    request_init(&op, &w);
    request_init(&in, &w);
    OK(insert(&op, "d.a", "{'_id': 0}"));
    OK(insert(&op, "d.b", "{'_id': 0}"));
    OK(insert(&op, "e.c", "{'_id': 0}"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    op_fini(&op);
    op_fini(&in);
    world_remove(&w);
    return 0;
}

/* One transaction that inserts n documents into each of two collections. */
static uint64_t commit_into(const char *first, const char *second, int n)
{
    static int id;
    uint64_t at;

    txn_enter(begin(&w, 7), &in);
    for (int i = 0; i < n; i++) {
        OK(insert(&in, first, arena_printf(&in.arena, "{'_id': %d}", ++id)));
        OK(insert(&in, second, arena_printf(&in.arena, "{'_id': %d}", ++id)));
    }
    OK(txn_commit(in.txn, &in, &at));
    await_durable(&w.store, at);
    return at;
}

static void parks(struct parked *p, const struct scope *s)
{
    parked_init(p);
    p->op.database = &w.db;
    assert_int_equal(oplog_wait_entry(w.db.oplog, &p->op, s, oplog_visible(w.db.oplog)), INT_PARK);
}

static void a_commit_wakes_who_watches_a_namespace_inside(void **state)
{
    const struct scope *const scopes[] = {&coll_a, &coll_b, &db_e, &cluster};
    static const bool woken[] = {true, false, true, true};
    struct parked p[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        parks(&p[i], scopes[i]);
    commit_into("e.c", "d.a", 1);
    for (int i = 0; i < 4; i++) {
        if (woken[i])
            assert_true(parked_wait(&p[i]));
        else
            assert_int_equal(parked_wakes(&p[i]), 0);
        parked_fini(&p[i]);
    }
}

static void an_abort_wakes_nobody(void **state)
{
    struct parked p;

    (void)state;
    parks(&p, &coll_a);
    txn_enter(begin(&w, 7), &in);
    OK(insert(&in, "d.a", "{'_id': 1}"));
    assert_int_equal(parked_wakes(&p), 0);
    txn_abort(in.txn);
    in.txn = NULL;
    assert_int_equal(parked_wakes(&p), 0);
    parked_fini(&p);
}

static void the_last_of_a_chain_wakes_all_whom_it_may_concern(void **state)
{
    struct parked p;

    (void)state;
    txn_set_entry_ops(w.db.txns, 3);
    parks(&p, &coll_a);
    commit_into("d.a", "e.c", 1); /* two operations: one entry */
    assert_true(parked_wait(&p));
    parked_fini(&p);
    parks(&p, &coll_a);
    commit_into("d.a", "e.c", 4);
    assert_true(parked_wait(&p));
    parked_fini(&p);
}

/* How many entries a scope is shown. */
static size_t seen_by(const struct scope *s)
{
    struct oplog_reader *r;
    struct oplog_row row;
    size_t n = 0;
    bool more;

    OK(oplog_reader_open(w.db.oplog, &op, 0, s, false, &r));
    for (;;) {
        OK(oplog_reader_next(r, &row, &more));
        if (!more)
            break;
        n++;
    }
    oplog_reader_close(r);
    return n;
}

static void segments_know_the_namespaces_inside(void **state)
{
    const struct segment_bounds each = {.count = 1};
    struct segments s;
    struct oplog_row rows[3];
    uint64_t from, to, at, before = oplog_visible(w.db.oplog);
    size_t n;

    (void)state;
    at = commit_into("e.c", "d.a", 1);
    txn_set_entry_ops(w.db.txns, 1);
    commit_into("e.c", "d.a", 1);
    n = entries_above(&w, &op, before, rows, 3);
    assert_int_equal(n, 3);
    segments_init(&s);
    segments_set_bounds(&s, &each);
    for (size_t i = 0; i < n; i++)
        (void)segments_add(&s, &rows[i]);
    assert_true(segments_next(&s, &coll_a, 0, &from, &to));
    assert_int_equal(from, at);
    assert_true(segments_next(&s, &db_e, 0, &from, &to));
    assert_int_equal(from, at);
    /* Of a chain nothing can be told from one of its entries. */
    assert_true(segments_next(&s, &coll_b, 0, &from, &to));
    assert_true(from > at);
    segments_fini(&s);
    assert_int_equal(seen_by(&coll_a), 3);
    assert_int_equal(seen_by(&coll_b), 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_commit_wakes_who_watches_a_namespace_inside),
        TEST(an_abort_wakes_nobody),
        TEST(the_last_of_a_chain_wakes_all_whom_it_may_concern),
        TEST(segments_know_the_namespaces_inside),
    };

    return cmocka_run_group_tests_name("query txn watch", tests, NULL, NULL);
}
