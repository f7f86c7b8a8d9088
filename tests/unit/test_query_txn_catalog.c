/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Transactions and the catalog: locks, collections that change meanwhile, collections made inside.
 */
#include "tests/unit/txn_util.h"

#include "base/limits.h"
#include "query/txn_internal.h"

static struct world w;
static struct op op; /* outside transactions */
static struct op in; /* inside one */

static int set_up(void **state)
{
    (void)state;
    world_open(&w, true, false);
    request_init(&op, &w);
    request_init(&in, &w);
    OK(insert(&op, "d.c", "{'_id': 1, 'x': 1}"));
    OK(insert(&op, "d.c", "{'_id': 2, 'x': 1}"));
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

/* --- locks ----------------------------------------------------------------------------------- */

static void ddl_waits_for_who_has_touched_the_collection(void **state)
{
    struct ddl_drop_result r;
    struct parked p;

    (void)state;
    parked_init(&p);
    p.op.database = &w.db;
    p.op.on_schema_thread = true;
    txn_enter(begin(&w, 1), &in);
    FOUND(&in, "d.c", "1:1 2:1");
    assert_int_equal(ddl_drop(&p.op, "d.c", &r), INT_PARK);
    OK(set(&in, "d.c", 1, 2)); /* has the lock already: a waiting drop does not keep it out */
    assert_int_equal(parked_wakes(&p), 0);
    commit(&in);
    assert_true(parked_wakes(&p) > 0);
    parked_unpark(&p);
    OK(ddl_drop(&p.op, "d.c", &r));
    assert_true(r.existed);
    parked_fini(&p);
}

static void a_lock_is_waited_for_shortly(void **state)
{
    struct nslock lock = {0};
    struct parked p;

    (void)state;
    parked_init(&p);
    p.op.database = &w.db;
    OK(nslock_acquire(w.db.locks, &op, "d.c", NSLOCK_EXCLUSIVE, &lock));
    txn_enter(begin(&w, 1), &p.op);
    assert_int_equal(set(&p.op, "d.c", 1, 2), INT_PARK);
    assert_true(p.op.park_deadline_us > clock_mono_us() - 5000);
    parked_unpark(&p);
    while (clock_mono_us() < p.op.park_deadline_us)
        ;
    assert_int_equal(set(&p.op, "d.c", 1, 2), 24);
    assert_string_equal(p.op.err->text, "Unable to acquire IX lock on 'd.c' within 5ms.");
    assert_null(p.op.unpark);
    nslock_release(w.db.locks, &lock);
    OK(set(&p.op, "d.c", 1, 2));
    commit(&p.op);
    parked_fini(&p);
}

static void what_changed_in_the_catalog_is_refused(void **state)
{
    struct ddl_index_result ir;
    struct ddl_drop_result dr;

    (void)state;
    OK(insert(&op, "d.gone", "{'_id': 1}"));
    OK(insert(&op, "d.away", "{'_id': 1}"));
    OK(insert(&op, "d.again", "{'_id': 1}"));
    OK(insert(&op, "d.indexed", "{'_id': 1}"));
    OK(insert(&op, "d.same", "{'_id': 1}"));
    txn_enter(begin(&w, 1), &in);
    OK(insert(&op, "d.new", "{'_id': 1}"));
    OK(ddl_drop(&op, "d.gone", &dr));
    OK(ddl_rename(&op, "d.away", "d.here", false));
    OK(ddl_drop(&op, "d.again", &dr));
    OK(insert(&op, "d.again", "{'_id': 1}"));
    OK(ddl_create_indexes(&op, "d.indexed",
                          json(&op.arena, "{'0': {'key': {'a': 1}, 'name': 'a'}}"), false, &ir));
    FOUND(&in, "d.new", "error 246");
    assert_non_null(strstr(in.err->text, "due to pending collection catalog changes"));
    FOUND(&in, "d.gone", "error 246");
    FOUND(&in, "d.away", "error 246");
    FOUND(&in, "d.here", "error 246");
    FOUND(&in, "d.again", "error 246");
    FOUND(&in, "d.indexed", "error 246");
    assert_int_equal(set(&in, "d.gone", 1, 1), 246);
    FOUND(&in, "d.same", "1");
    FOUND(&in, "d.never", "");
    abort_in(&in);
    txn_enter(begin(&w, 1), &in);
    FOUND(&in, "d.new", "1");
    FOUND(&in, "d.gone", "");
    FOUND(&in, "d.here", "1");
    abort_in(&in);
}

/* --- collections made inside ----------------------------------------------------------------- */

static void a_created_collection_appears_with_the_commit(void **state)
{
    struct ddl_index_result r;
    struct coll *k;

    (void)state;
    txn_enter(begin(&w, 1), &in);
    OK(ddl_create(&in, "d.made", bv_empty_doc));
    assert_int_equal(ddl_create(&in, "d.made", bv_empty_doc), 48);
    OK(ddl_create_indexes(&in, "d.made",
                          json(&in.arena, "{'0': {'key': {'x': 1}, 'name': 'x', 'unique': true}}"),
                          false, &r));
    assert_int_equal(r.before, 1);
    assert_int_equal(r.after, 2);
    assert_false(r.created_collection);
    OK(insert(&in, "d.made", "{'_id': 1, 'x': 5}"));
    assert_int_equal(insert(&in, "d.made", "{'_id': 2, 'x': 5}"), 11000);
    OK(insert(&in, "d.other", "{'_id': 1}"));
    FOUND(&in, "d.made", "1:5");
    FOUND(&op, "d.made", "");
    assert_null(catalog_get(w.db.catalog, "d.made"));
    commit(&in);
    FOUND(&op, "d.made", "1:5");
    FOUND(&op, "d.other", "1");
    assert_int_equal(count_of(&w, "d.made"), 1);
    k = catalog_get(w.db.catalog, "d.made");
    assert_int_equal(k->nindexes, 2);
    coll_unref(k);
    assert_int_equal(insert(&op, "d.made", "{'_id': 2, 'x': 5}"), 11000);
}

static void an_abort_unmakes_collections(void **state)
{
    (void)state;
    txn_enter(begin(&w, 1), &in);
    OK(insert(&in, "e.made", "{'_id': 1}"));
    OK(update(&in, "e.up", "{'_id': 7}", "{'$set': {'x': 1}}", false, true));
    FOUND(&in, "e.up", "7:1");
    abort_in(&in);
    assert_false(catalog_db_exists(w.db.catalog, "e"));
    OK(insert(&op, "e.made", "{'_id': 2}"));
    FOUND(&op, "e.made", "2");
}

static void a_look_at_what_is_missing_keeps_nobody_from_making_it(void **state)
{
    struct parked p;

    (void)state;
    txn_enter(begin(&w, 1), &in);
    FOUND(&in, "d.made", "");
    OK(set(&in, "d.made", 1, 1));
    OK(insert(&op, "d.made", "{'_id': 1}"));
    FOUND(&in, "d.made", "error 246");
    assert_int_equal(insert(&in, "d.made", "{'_id': 2}"), 246);
    abort_in(&in);
    /* Who makes it has it alone. */
    parked_init(&p);
    p.op.database = &w.db;
    p.op.on_schema_thread = true;
    txn_enter(begin(&w, 1), &in);
    txn_enter(begin(&w, 2), &p.op);
    OK(insert(&in, "d.other", "{'_id': 1}"));
    assert_int_equal(insert(&p.op, "d.other", "{'_id': 2}"), INT_PARK);
    commit(&in);
    assert_true(parked_wait(&p));
    assert_int_equal(insert(&p.op, "d.other", "{'_id': 2}"), 246);
    abort_in(&p.op);
    FOUND(&op, "d.other", "1");
    parked_fini(&p);
}

static void indexes_only_on_new_empty_collections(void **state)
{
    struct bv specs = json(&in.arena, "{'0': {'key': {'x': 1}, 'name': 'x'}}");
    struct ddl_index_result r;

    (void)state;
    txn_enter(begin(&w, 1), &in);
    assert_int_equal(ddl_create_indexes(&in, "d.c", specs, false, &r), 263);
    assert_string_equal(in.err->text, "Cannot create new indexes on existing collection d.c in a "
                                      "multi-document transaction.");
    OK(ddl_create_indexes(&in, "d.c", json(&in.arena, "{'0': {'key': {'_id': 1}, 'name': '_id_'}}"),
                          false, &r));
    OK(set(&op, "d.c", 2, 3)); /* having looked, it keeps no writer out */
    OK(insert(&in, "d.made", "{'_id': 1}"));
    assert_int_equal(ddl_create_indexes(&in, "d.made", specs, false, &r), 263);
    OK(ddl_create_indexes(&in, "d.empty", specs, false, &r));
    assert_true(r.created_collection);
    abort_in(&in);
}

static void too_many_namespaces_are_refused(void **state)
{
    struct txn_coll *c;

    (void)state;
    txn_enter(begin(&w, 1), &in);
    for (int i = 0; i < LIMIT_TXN_NAMESPACES; i++) {
        OK(txn_touch(&in, arena_printf(&in.arena, "d.n%d", i), NSLOCK_EXCLUSIVE, &c));
        arena_reset(&in.arena);
    }
    OK(txn_touch(&in, "d.n0", NSLOCK_EXCLUSIVE, &c));
    assert_int_equal(txn_touch(&in, "d.more", NSLOCK_EXCLUSIVE, &c), 257);
    abort_in(&in);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ddl_waits_for_who_has_touched_the_collection),
        TEST(a_lock_is_waited_for_shortly),
        TEST(what_changed_in_the_catalog_is_refused),
        TEST(a_created_collection_appears_with_the_commit),
        TEST(an_abort_unmakes_collections),
        TEST(a_look_at_what_is_missing_keeps_nobody_from_making_it),
        TEST(indexes_only_on_new_empty_collections),
        TEST(too_many_namespaces_are_refused),
    };

    return cmocka_run_group_tests_name("query txn catalog", tests, NULL, NULL);
}
