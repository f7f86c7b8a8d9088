/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Opening, appending, reading: the ordinary way, on disk and in memory. */
#include "oplog_util.h"

#include "base/fault.h"

#define BOTH_NOOPS "initiating set new primary"

static void a_new_oplog_begins_with_its_noops(void **state)
{
    struct oplog_row row;
    struct oplog_stats st;
    struct bv entry;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    for (int memory = 0; memory < 2; memory++) {
        db_open(&d, memory, &roomy);
        assert_string_equal(read_ids(&d, &op, &whole_oplog, 0, false), BOTH_NOOPS);
        assert_true(oplog_complete(d.oplog));
        assert_true(oplog_term(d.oplog) == 1);
        assert_true(oplog_durable(d.oplog) == oplog_visible(d.oplog));
        assert_true(oplog_allocated(d.oplog) == oplog_visible(d.oplog));
        assert_int_equal((uint32_t)oplog_oldest(d.oplog), 1);
        OK(oplog_get(d.oplog, &op, oplog_oldest(d.oplog), &op.arena, &entry));
        assert_true(oplog_parse(entry, &row));
        assert_true(row.optime == oplog_oldest(d.oplog));
        assert_int_equal(row.op, 'n');
        assert_string_equal(row.ns, "");
        assert_true(row.term == 1);
        oplog_stats(d.oplog, &st);
        assert_true(st.entries == 2 && st.segments == 1);
        assert_true(st.first == oplog_oldest(d.oplog) && st.last == oplog_visible(d.oplog));
        db_remove(&d);
    }
    op_fini(&op);
}

static void entries_are_read_back_in_order(void **state)
{
    const struct scope coll = {SCOPE_COLLECTION, "db", "db.a", false, false, false};
    const struct scope database = {SCOPE_DATABASE, "db", NULL, false, false, false};
    const struct scope cluster = {SCOPE_CLUSTER, NULL, NULL, false, false, false};
    uint64_t start, second;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    for (int memory = 0; memory < 2; memory++) {
        op.wrote_optime = op.ack_visible = 0;
        db_open(&d, memory, &roomy);
        start = oplog_allocated(d.oplog) + 1;
        put(&d, &op, "db.a", 1);
        second = put(&d, &op, "db.b", 2);
        put(&d, &op, "other.a", 3);
        put(&d, &op, "db.a", 4);
        put(&d, &op, "admin.a", 5);
        assert_true(op.wrote_optime == oplog_allocated(d.oplog));
        assert_true(op.ack_visible == op.wrote_optime);
        await_durable(&d, op.wrote_optime);
        for (int reopened = 0; reopened < (memory ? 1 : 2); reopened++) {
            assert_string_equal(read_ids(&d, &op, &coll, start, false), "1 4");
            assert_string_equal(read_ids(&d, &op, &database, start, false), "1 2 4");
            assert_string_equal(read_ids(&d, &op, &cluster, start, false), "1 2 3 4");
            assert_string_equal(read_ids(&d, &op, &cluster, second, false), "2 3 4");
            assert_string_equal(read_ids(&d, &op, &cluster, second + 1, false), "3 4");
            assert_string_equal(read_ids(&d, &op, &whole_oplog, 0, false),
                                reopened ? BOTH_NOOPS " 1 2 3 4 5 new primary"
                                         : BOTH_NOOPS " 1 2 3 4 5");
            assert_string_equal(read_ids(&d, &op, &whole_oplog, op.wrote_optime, true),
                                "5 4 3 2 1 new primary initiating set");
            assert_string_equal(read_ids(&d, &op, &whole_oplog, second, true),
                                "2 1 new primary initiating set");
            if (!memory && !reopened) {
                db_close(&d);
                db_reopen(&d, &roomy);
                assert_true(oplog_term(d.oplog) == 2);
                assert_true(oplog_complete(d.oplog));
            }
        }
        db_remove(&d);
    }
    op_fini(&op);
}

static void a_batch_has_consecutive_optimes_and_chained_entries(void **state)
{
    struct oplog_op e[3] = {0};
    struct oplog_row row;
    struct bv entry;
    struct stx *t;
    uint64_t first;
    struct op op;
    struct db d;
    struct bw w;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    for (int i = 0; i < 3; i++) {
        bw_init(&w, &op.arena);
        bw_uuid(&w, "id", test_uuid);
        e[i] = (struct oplog_op){.op = 'i', .ns = "db.a", .uuid = test_uuid, .stmt_id = i};
        e[i].o = small_doc(&op, i, 0);
        e[i].lsid = bw_done(&w);
        e[i].txn_number = 7;
    }
    OK(stx_begin(d.engine, &op, &t));
    OK(oplog_commit(d.oplog, &op, t, e, 3, NULL, NULL, &first));
    assert_true(op.wrote_optime == first + 2);
    for (unsigned i = 0; i < 3; i++) {
        OK(oplog_get(d.oplog, &op, first + i, &op.arena, &entry));
        assert_true(oplog_parse(entry, &row));
        assert_true(row.optime == first + i);
        assert_true(row.prev_optime == (i == 0 ? 0 : first + i - 1));
        assert_int_equal(bv_i32(bv_get(entry, "stmtId")), i);
    }
    db_remove(&d);
    op_fini(&op);
}

static int fail_extra(void *arg, struct stx *t, uint64_t first)
{
    (void)arg;
    (void)first;
    return op_fail(stx_op(t), ERR_BAD_VALUE, "no");
}

/* However a commit fails, its slot is given back and later entries become visible. */
static void a_failed_commit_leaves_no_hole(void **state)
{
    static const char *const faults[] = {"optimeTaken:error=8", "commitBefore:error=8",
                                         "storageWrite:error=112"};
    struct oplog_op e = {.op = 'i', .ns = "db.a", .uuid = test_uuid, .stmt_id = -1};
    uint64_t before, first;
    struct error err;
    struct stx *t;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, true, &roomy);
    e.o = small_doc(&op, 1, 0);
    for (size_t i = 0; i <= sizeof(faults) / sizeof(faults[0]); i++) {
        before = oplog_visible(d.oplog);
        OK(stx_begin(d.engine, &op, &t));
        if (i < sizeof(faults) / sizeof(faults[0]))
            OK(fault_set(faults[i], &err));
        assert_int_not_equal(oplog_commit(d.oplog, &op, t, &e, 1, fail_extra, NULL, &first), 0);
        fault_clear_all();
        assert_true(oplog_visible(d.oplog) > before);
        assert_true(oplog_visible(d.oplog) == oplog_allocated(d.oplog));
    }
    assert_true(op.wrote_optime == 0);
    put(&d, &op, "db.a", 5);
    assert_string_equal(read_ids(&d, &op, &whole_oplog, 0, false), BOTH_NOOPS " 5");
    db_remove(&d);
    op_fini(&op);
}

static void images_are_kept_with_their_entry(void **state)
{
    struct oplog_op e = {.op = 'u', .ns = "db.a", .uuid = test_uuid, .stmt_id = -1};
    struct bv image;
    struct stx *t;
    uint64_t first;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    e.o = e.o2 = small_doc(&op, 1, 0);
    e.pre_image = small_doc(&op, 1, 100);
    OK(stx_begin(d.engine, &op, &t));
    OK(oplog_commit(d.oplog, &op, t, &e, 1, NULL, NULL, &first));
    OK(image_get(d.oplog, &op, first, 0, &op.arena, &image));
    assert_true(bv_identical(image, e.pre_image));
    OK(image_get(d.oplog, &op, first, 1, &op.arena, &image));
    assert_true(bv_is_missing(image));
    OK(image_get(d.oplog, &op, first + 1, 0, &op.arena, &image));
    assert_true(bv_is_missing(image));
    db_remove(&d);
    op_fini(&op);
}

static int collect_doc(void *arg, struct bv doc)
{
    struct op *op = arg;

    op->resume = (void *)(uintptr_t)bv_dup(&op->arena, doc).p;
    return 0;
}

static void images_are_shown_in_mongodb_form(void **state)
{
    struct oplog_op e = {.op = 'd', .ns = "db.a", .uuid = test_uuid, .stmt_id = -1};
    struct bv doc, id;
    struct stx *t;
    uint64_t first;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, true, &roomy);
    e.o = small_doc(&op, 1, 0);
    e.pre_image = small_doc(&op, 1, 10);
    OK(stx_begin(d.engine, &op, &t));
    OK(oplog_commit(d.oplog, &op, t, &e, 1, NULL, NULL, &first));
    OK(image_each(d.oplog, &op, 0, 0, collect_doc, &op));
    assert_non_null(op.resume);
    doc = bv_doc(op.resume);
    op.resume = NULL;
    id = bv_get(doc, "_id");
    assert_memory_equal(bv_get(id, "nsUUID").p + 5, test_uuid, 16);
    assert_true(bv_ts(bv_get(id, "ts")) == first);
    assert_int_equal(bv_get(id, "applyOpsIndex").type, BV_INT64);
    assert_int_equal(bv_get(doc, "operationTime").type, BV_DATE);
    assert_true(bv_identical(bv_get(doc, "preImage"), e.pre_image));
    db_remove(&d);
    op_fini(&op);
}

static void optimes_grow_when_the_clock_goes_back(void **state)
{
    uint64_t a, b;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    a = put(&d, &op, "db.a", 1);
    clock_test_shift_wall(-3600 * 1000);
    b = put(&d, &op, "db.a", 2);
    assert_true(b == a + 1);
    db_close(&d);
    db_reopen(&d, &roomy);
    assert_true(oplog_visible(d.oplog) > b);
    assert_true(put(&d, &op, "db.a", 3) > b);
    clock_test_shift_wall(2 * 3600 * 1000); /* forward past the ceiling: it must be raised */
    a = put(&d, &op, "db.a", 4);
    assert_true(a >> 32 >= (b >> 32) + 3590);
    clock_test_shift_wall(-3600 * 1000);
    db_remove(&d);
    op_fini(&op);
}

static void the_clock_can_be_advanced(void **state)
{
    uint64_t ahead;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    ahead = oplog_allocated(d.oplog) + (100ULL << 32);
    oplog_advance_clock(d.oplog, ahead);
    for (int i = 0; i < 10000 && oplog_visible(d.oplog) < ahead; i++)
        usleep(1000); /* above the ceiling: when that is raised */
    assert_true(oplog_visible(d.oplog) >= ahead);
    assert_true(put(&d, &op, "db.a", 1) > ahead);
    oplog_advance_clock(d.oplog, 5);
    assert_true(oplog_visible(d.oplog) == oplog_allocated(d.oplog));
    db_remove(&d);
    op_fini(&op);
}

static void a_run_without_an_oplog_voids_the_window(void **state)
{
    struct oplog_options hidden = roomy;
    uint64_t old, wrote;
    struct op op;
    struct db d;

    (void)state;
    hidden.hidden = true;
    op_init(&op);
    db_open(&d, false, &roomy);
    old = put(&d, &op, "db.a", 1);
    db_close(&d);

    db_reopen(&d, &hidden); /* writes nothing: the window stays */
    assert_string_equal(read_ids(&d, &op, &whole_oplog, 0, false), "");
    db_close(&d);
    db_reopen(&d, &roomy);
    assert_true(oplog_complete(d.oplog));
    assert_string_equal(read_ids(&d, &op, &whole_oplog, 0, false), BOTH_NOOPS " 1 new primary");
    db_close(&d);

    db_reopen(&d, &hidden);
    wrote = put(&d, &op, "db.a", 2);
    assert_true(wrote > old && oplog_visible(d.oplog) == wrote);
    await_durable(&d, wrote);
    assert_true(oplog_hidden(d.oplog));
    db_close(&d);
    db_reopen(&d, &roomy);
    assert_false(oplog_complete(d.oplog));
    assert_true(oplog_oldest(d.oplog) > wrote);
    assert_string_equal(read_ids(&d, &op, &whole_oplog, 0, false), "new primary");
    assert_string_equal(read_ids(&d, &op, &whole_oplog, old, false), "error 136");
    assert_string_equal(read_ids(&d, &op, &whole_oplog, wrote, false), "error 136");
    db_remove(&d);
    op_fini(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_oplog_begins_with_its_noops),
        cmocka_unit_test(entries_are_read_back_in_order),
        cmocka_unit_test(a_batch_has_consecutive_optimes_and_chained_entries),
        cmocka_unit_test(a_failed_commit_leaves_no_hole),
        cmocka_unit_test(images_are_kept_with_their_entry),
        cmocka_unit_test(images_are_shown_in_mongodb_form),
        cmocka_unit_test(optimes_grow_when_the_clock_goes_back),
        cmocka_unit_test(the_clock_can_be_advanced),
        cmocka_unit_test(a_run_without_an_oplog_voids_the_window),
    };

    return cmocka_run_group_tests_name("oplog_log", tests, NULL, NULL);
}
