/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Retry records: written with the write, read back, shown, purged. */
#include "oplog_util.h"

#include "base/limits.h"
#include "oplog/oplog_internal.h"
#include "oplog/retry.h"

static struct bv lsid_of(struct op *op, uint8_t n)
{
    uint8_t id[16] = {n}, uid[32] = {0xe3, n};
    struct bw w;

    bw_init(&w, &op->arena);
    bw_uuid(&w, "id", id);
    bw_bin(&w, "uid", 0, uid, sizeof(uid));
    return bw_done(&w);
}

struct extra {
    struct bv lsid;
    struct retry_record record;
};

static int store(void *arg, struct stx *t, uint64_t first)
{
    struct extra *x = arg;

    x->record.optime = first;
    for (size_t i = 0; i < x->record.n; i++)
        x->record.stmts[i].optime = first + i;
    return retry_store(t, x->lsid, &x->record);
}

static uint64_t put_with_record(struct db *d, struct op *op, struct bv lsid, int64_t txn_number,
                                struct retry_stmt *stmts, size_t n, int64_t date_ms)
{
    struct oplog_op e = {.op = 'i', .ns = "db.a", .uuid = test_uuid, .stmt_id = 0};
    struct extra x = {.lsid = lsid};
    struct stx *t;
    uint64_t first;

    x.record = (struct retry_record){.found = true,
                                     .txn_number = txn_number,
                                     .term = 1,
                                     .date_ms = date_ms,
                                     .stmts = stmts,
                                     .n = n};
    e.o = small_doc(op, 1, 0);
    e.lsid = lsid;
    e.txn_number = txn_number;
    OK(stx_begin(d->engine, op, &t));
    OK(oplog_commit(d->oplog, op, t, &e, 1, store, &x, &first));
    return first;
}

static void records_come_back_as_written(void **state)
{
    struct retry_stmt stmts[3] = {{.stmt_id = 0, .count = 5, .kind = 'i'},
                                  {.stmt_id = 5, .count = 1, .kind = 's'},
                                  {.stmt_id = 7, .count = 1, .kind = 'f'}};
    struct retry_record r;
    uint64_t optime = 0;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    stmts[1].result = small_doc(&op, 42, 0);
    db_open(&d, false, &roomy);
    OK(retry_load(d.engine, &op, lsid_of(&op, 1), &op.arena, &r));
    assert_false(r.found);
    put_with_record(&d, &op, lsid_of(&op, 2), 1, stmts, 1, 0);
    for (int reopened = 0; reopened < 2; reopened++) {
        if (reopened == 0)
            optime = put_with_record(&d, &op, lsid_of(&op, 1), 9, stmts, 3, 1234);
        OK(retry_load(d.engine, &op, lsid_of(&op, 1), &op.arena, &r));
        assert_true(r.found && r.txn_number == 9 && r.optime == optime && r.date_ms == 1234);
        assert_true(r.term == 1);
        assert_int_equal(r.n, 3);
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(r.stmts[i].stmt_id, stmts[i].stmt_id);
            assert_int_equal(r.stmts[i].count, stmts[i].count);
            assert_int_equal(r.stmts[i].kind, stmts[i].kind);
            assert_true(r.stmts[i].optime == optime + i);
            assert_true(bv_identical(r.stmts[i].result, stmts[i].result));
        }
        OK(retry_load(d.engine, &op, lsid_of(&op, 2), &op.arena, &r));
        assert_true(r.found && r.n == 1 && r.txn_number == 1);
        db_close(&d);
        db_reopen(&d, &roomy);
    }
    db_remove(&d);
    op_fini(&op);
}

static void a_new_number_replaces_the_old_one(void **state)
{
    struct retry_stmt s = {.stmt_id = 3, .count = 1, .kind = 'u'};
    struct retry_record r;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, true, &roomy);
    put_with_record(&d, &op, lsid_of(&op, 1), 1, &s, 1, 0);
    s.stmt_id = 4;
    put_with_record(&d, &op, lsid_of(&op, 1), 2, &s, 1, 0);
    OK(retry_load(d.engine, &op, lsid_of(&op, 1), &op.arena, &r));
    assert_true(r.txn_number == 2 && r.n == 1 && r.stmts[0].stmt_id == 4);
    db_remove(&d);
    op_fini(&op);
}

struct shown {
    struct op *op;
    int n;
    struct bv last;
};

static int show(void *arg, struct bv doc)
{
    struct shown *s = arg;

    s->n++;
    s->last = bv_dup(&s->op->arena, doc);
    return 0;
}

/* Rows of the sessions table, heads and chunks. */
static int count_rows(struct db *d, struct op *op)
{
    struct tcursor *c;
    struct stx *t;
    bool found;
    int n = 0;

    OK(stx_begin(d->engine, op, &t));
    OK(tcursor_open(t, TABLE_SESSIONS, TABLE_BYTES, &c));
    OK(tcursor_first(c, &found));
    while (found) {
        n++;
        OK(tcursor_next(c, &found));
    }
    tcursor_close(c);
    stx_rollback(t);
    return n;
}

/* Statements of a long batch, committed one by one, and what a shorter one leaves of them. */
static void long_records_are_kept_in_chunks(void **state)
{
    enum { N = 3 * RETRY_CHUNK + 5 };
    struct retry_stmt stmts[N];
    struct retry_record r;
    struct shown shown = {0};
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    shown.op = &op;
    db_open(&d, false, &roomy);
    for (int i = 0; i < N; i++)
        stmts[i] = (struct retry_stmt){
            .stmt_id = i, .count = 1, .kind = 's', .result = small_doc(&op, i, 0)};
    for (int n = 1; n <= N; n++)
        put_with_record(&d, &op, lsid_of(&op, 1), 1, stmts, (size_t)n, 1000);
    put_with_record(&d, &op, lsid_of(&op, 2), 1, stmts, N, 2000);
    db_close(&d);
    db_reopen(&d, &roomy);
    for (uint8_t session = 1; session <= 2; session++) {
        OK(retry_load(d.engine, &op, lsid_of(&op, session), &op.arena, &r));
        assert_true(r.found && r.n == N && r.chunks == 3);
        for (int i = 0; i < N; i++) {
            assert_int_equal(r.stmts[i].stmt_id, i);
            assert_true(bv_identical(r.stmts[i].result, small_doc(&op, i, 0)));
        }
    }
    /* Old chunk rows are not mistaken for those of a newer number, and go with their session. */
    put_with_record(&d, &op, lsid_of(&op, 1), 2, stmts, 2, 1000);
    OK(retry_load(d.engine, &op, lsid_of(&op, 1), &op.arena, &r));
    assert_true(r.n == 2 && r.chunks == 0);
    OK(retry_each(d.engine, &op, RETRY_TRANSACTIONS, BV_NONE, show, &shown));
    assert_int_equal(shown.n, 2);
    assert_int_equal(count_rows(&d, &op), 2 + 3 + 3);
    OK(retry_purge(d.engine, &op, 1500));
    assert_int_equal(count_rows(&d, &op), 1 + 3);
    OK(retry_purge(d.engine, &op, 5000));
    assert_int_equal(count_rows(&d, &op), 0);
    db_remove(&d);
    op_fini(&op);
}

static void a_new_number_removes_stale_chunks(void **state)
{
    enum { N = 2 * RETRY_CHUNK + 1 };
    struct retry_stmt stmts[N];
    struct retry_record r;
    struct extra x;
    struct op op;
    struct db d;
    struct stx *t;

    (void)state;
    op_init(&op);
    db_open(&d, true, &roomy);
    for (int i = 0; i < N; i++)
        stmts[i] = (struct retry_stmt){.stmt_id = i, .count = 1, .kind = 'u'};
    x.lsid = lsid_of(&op, 1);
    put_with_record(&d, &op, x.lsid, 1, stmts, N, 0);
    OK(retry_load(d.engine, &op, x.lsid, &op.arena, &r));
    x.record = (struct retry_record){
        .found = true, .txn_number = 2, .stmts = stmts, .n = 1, .stale = r.chunks};
    OK(stx_begin(d.engine, &op, &t));
    OK(retry_store(t, x.lsid, &x.record));
    OK(stx_commit(t));
    assert_int_equal(count_rows(&d, &op), 1);
    assert_int_equal(x.record.stale, 0);
    db_remove(&d);
    op_fini(&op);
}

static void session_ids_are_checked(void **state)
{
    struct retry_record r;
    struct op op;
    struct db d;
    struct bw w;

    (void)state;
    op_init(&op);
    db_open(&d, true, &roomy);
    assert_int_equal(retry_load(d.engine, &op, bv_empty_doc, &op.arena, &r), ERR_BAD_VALUE);
    bw_init(&w, &op.arena);
    bw_uuid(&w, "id", test_uuid);
    bw_bin(&w, "uid", 0, test_uuid, 16);
    assert_int_equal(retry_load(d.engine, &op, bw_done(&w), &op.arena, &r), ERR_BAD_VALUE);
    db_remove(&d);
    op_fini(&op);
}

static void records_are_shown_as_config_transactions(void **state)
{
    struct retry_stmt s = {.stmt_id = 0, .count = 1, .kind = 'd'};
    struct shown shown = {0};
    uint64_t optime;
    struct bv ts;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    shown.op = &op;
    db_open(&d, true, &roomy);
    put_with_record(&d, &op, lsid_of(&op, 1), 1, &s, 1, 5);
    optime = put_with_record(&d, &op, lsid_of(&op, 2), 8, &s, 1, 6);
    OK(retry_each(d.engine, &op, RETRY_TRANSACTIONS, BV_NONE, show, &shown));
    assert_int_equal(shown.n, 2);
    assert_true(bv_identical(bv_get(shown.last, "_id"), lsid_of(&op, 2)));
    assert_true(bv_i64(bv_get(shown.last, "txnNum")) == 8);
    ts = bv_get(shown.last, "lastWriteOpTime");
    assert_true(bv_ts(bv_get(ts, "ts")) == optime && bv_i64(bv_get(ts, "t")) == 1);
    assert_int_equal(bv_get(shown.last, "lastWriteDate").type, BV_DATE);
    db_remove(&d);
    op_fini(&op);
}

static void a_walk_goes_on_behind_a_session(void **state)
{
    struct retry_stmt s = {.stmt_id = 0, .count = 1, .kind = 'd'};
    struct shown shown = {0};
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    shown.op = &op;
    db_open(&d, true, &roomy);
    for (uint8_t i = 1; i <= 3; i++)
        put_with_record(&d, &op, lsid_of(&op, i), 1, &s, 1, 5);
    OK(retry_each(d.engine, &op, RETRY_TRANSACTIONS, lsid_of(&op, 2), show, &shown));
    assert_int_equal(shown.n, 1);
    assert_true(bv_identical(bv_get(shown.last, "_id"), lsid_of(&op, 3)));
    OK(retry_each(d.engine, &op, RETRY_TRANSACTIONS, lsid_of(&op, 3), show, &shown));
    assert_int_equal(shown.n, 1);
    assert_int_equal(retry_each(d.engine, &op, RETRY_IMAGES, bv_empty_doc, show, &shown),
                     ERR_BAD_VALUE);
    db_remove(&d);
    op_fini(&op);
}

static void old_records_are_purged(void **state)
{
    enum { N = 600 };
    struct retry_stmt s = {.stmt_id = 0, .count = 1, .kind = 'd'};
    struct shown shown = {0};
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    shown.op = &op;
    db_open(&d, true, &roomy);
    for (int i = 0; i < N; i++) {
        struct bv lsid = lsid_of(&op, 0);

        memcpy((uint8_t *)bv_get(lsid, "id").p + 5, &i, sizeof(i));
        put_with_record(&d, &op, lsid, 1, &s, 1, i % 3 == 0 ? 1000 : 2000);
    }
    OK(retry_purge(d.engine, &op, 1500));
    OK(retry_each(d.engine, &op, RETRY_TRANSACTIONS, BV_NONE, show, &shown));
    assert_int_equal(shown.n, N - N / 3);
    OK(retry_purge(d.engine, &op, 5000));
    shown.n = 0;
    OK(retry_each(d.engine, &op, RETRY_TRANSACTIONS, BV_NONE, show, &shown));
    assert_int_equal(shown.n, 0);
    db_remove(&d);
    op_fini(&op);
}

/* As many as one command may have are kept; one more is refused, and the write with it. */
static void statements_of_one_number_are_bounded(void **state)
{
    struct retry_stmt *stmts = calloc(LIMIT_RETRY_STMTS + 1, sizeof(*stmts));
    struct retry_record r;
    struct extra x;
    struct stx *t;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, true, &roomy);
    for (int i = 0; i <= LIMIT_RETRY_STMTS; i++)
        stmts[i] = (struct retry_stmt){.stmt_id = i, .count = 1, .kind = 'i'};
    put_with_record(&d, &op, lsid_of(&op, 1), 1, stmts, LIMIT_RETRY_STMTS, 1000);
    x = (struct extra){.lsid = lsid_of(&op, 1),
                       .record = {.txn_number = 2, .stmts = stmts, .n = LIMIT_RETRY_STMTS + 1}};
    OK(stx_begin(d.engine, &op, &t));
    assert_int_equal(store(&x, t, 1), ERR_BAD_VALUE);
    stx_rollback(t);
    OK(retry_load(d.engine, &op, lsid_of(&op, 1), &op.arena, &r));
    assert_true(r.txn_number == 1 && r.n == LIMIT_RETRY_STMTS);
    db_remove(&d);
    op_fini(&op);
    free(stmts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_back_as_written),
        cmocka_unit_test(a_new_number_replaces_the_old_one),
        cmocka_unit_test(long_records_are_kept_in_chunks),
        cmocka_unit_test(a_new_number_removes_stale_chunks),
        cmocka_unit_test(session_ids_are_checked),
        cmocka_unit_test(records_are_shown_as_config_transactions),
        cmocka_unit_test(a_walk_goes_on_behind_a_session),
        cmocka_unit_test(old_records_are_purged),
        cmocka_unit_test(statements_of_one_number_are_bounded),
    };

    return cmocka_run_group_tests_name("oplog_retry", tests, NULL, NULL);
}
