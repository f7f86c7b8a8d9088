/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a commit writes: the entry byte for byte, chains, images, the session's row; and what a
 * crash on the way leaves of it. */
#include "tests/unit/txn_util.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "base/limits.h"
#include "query/txn_internal.h"

static struct world w;
static struct op op, in;

static int set_up(void **state)
{
    (void)state;
    world_open(&w, true, false);
    request_init(&op, &w);
    request_init(&in, &w);
    OK(insert(&op, "d.c", "{'_id': 1, 'x': 1}"));
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

static uint64_t commit_at(struct op *o)
{
    uint64_t at;

    OK(txn_commit(o->txn, o, &at));
    assert_int_equal(o->wrote_optime, at);
    assert_int_equal(o->ack_visible, at);
    return at;
}

static struct bv uuid_of(struct op *o, const char *ns)
{
    struct coll *k = catalog_get(w.db.catalog, ns);
    struct bw doc;

    bw_init(&doc, &o->arena);
    bw_uuid(&doc, "ui", k->uuid);
    coll_unref(k);
    return bv_get(bw_done(&doc), "ui");
}

static void assert_same_bytes(struct bv a, struct bv b)
{
    if (a.len != b.len || memcmp(a.p, b.p, a.len) != 0)
        fail_msg("%s\nis not\n%s", bv_show(&op.arena, a, 4000), bv_show(&op.arena, b, 4000));
}

/* --- one entry ------------------------------------------------------------------------------- */

static void put_op(struct bw *b, const char *kind, const char *ns, struct bv o, struct bv o2)
{
    bw_doc_begin(b, NULL);
    bw_str(b, "op", kind);
    bw_str(b, "ns", ns);
    bw_bv(b, "ui", uuid_of(&op, ns));
    bw_bv(b, "o", o);
    bw_bv(b, "o2", o2);
    bw_end(b);
}

static void the_entry_byte_for_byte(void **state)
{
    uint64_t before = oplog_allocated(w.db.oplog), at;
    struct bv id = json(&op.arena, "{'_id': 1}"), entry;
    struct oplog_row row;
    struct bw b;

    (void)state;
    txn_enter(begin(&w, 7), &in);
    OK(insert(&in, "d.c", "{'_id': 2, 'x': 5}"));
    OK(set(&in, "d.c", 1, 8));
    OK(drop_docs(&in, "d.c", "{'_id': 2}", false));
    at = commit_at(&in);
    assert_int_equal(entries_above(&w, &op, before, &row, 1), 1);
    assert_int_equal(row.optime, at);

    bw_init(&b, &op.arena);
    bw_bv(&b, "lsid", lsid_of(&op.arena, 7));
    bw_i64(&b, "txnNumber", 1);
    bw_str(&b, "op", "c");
    bw_str(&b, "ns", "admin.$cmd");
    bw_doc_begin(&b, "o");
    bw_arr_begin(&b, "applyOps");
    put_op(&b, "i", "d.c", json(&op.arena, "{'_id': 2, 'x': 5}"), json(&op.arena, "{'_id': 2}"));
    put_op(&b, "u", "d.c", json(&op.arena, "{'$v': 2, 'diff': {'u': {'x': 8}}}"), id);
    put_op(&b, "d", "d.c", json(&op.arena, "{'_id': 2}"), BV_NONE);
    bw_end(&b);
    bw_end(&b);
    bw_ts(&b, "ts", at);
    bw_i64(&b, "t", oplog_term(w.db.oplog));
    bw_i64(&b, "v", 2);
    bw_date(&b, "wall", row.wall_ms);
    bw_doc_begin(&b, "prevOpTime");
    bw_ts(&b, "ts", 0);
    bw_i64(&b, "t", -1);
    bw_end(&b);
    OK(oplog_get(w.db.oplog, &op, at, &op.arena, &entry));
    assert_same_bytes(entry, bw_done(&b));
}

static void created_collections_stand_in_it(void **state)
{
    struct ddl_index_result r;
    struct oplog_row row;
    struct bv ops, first;
    uint64_t before;

    (void)state;
    before = oplog_allocated(w.db.oplog);
    txn_enter(begin(&w, 7), &in);
    OK(ddl_create_indexes(&in, "d.made", json(&in.arena, "{'0': {'key': {'x': 1}, 'name': 'x'}}"),
                          false, &r));
    OK(insert(&in, "d.made", "{'_id': 1}"));
    commit_at(&in);
    assert_int_equal(entries_above(&w, &op, before, &row, 1), 1);
    ops = bv_get(row.o, "applyOps");
    assert_int_equal(bv_count(ops), 3);
    first = bv_get(ops, "0");
    assert_string_equal(bv_str(bv_get(first, "ns"), NULL), "d.$cmd");
    assert_same_bytes(bv_get(first, "o"),
                      json(&op.arena, "{'create': 'made', 'idIndex': {'v': 2, 'key': {'_id': 1}, "
                                      "'name': '_id_'}}"));
    assert_true(bv_identical(bv_get(first, "ui"), uuid_of(&op, "d.made")));
    assert_same_bytes(bv_get(bv_get(ops, "1"), "o"),
                      json(&op.arena, "{'createIndexes': 'made', 'v': 2, 'key': {'x': 1}, "
                                      "'name': 'x'}"));
    assert_string_equal(bv_str(bv_get(bv_get(ops, "2"), "op"), NULL), "i");
}

static int keep_row(void *arg, struct bv doc)
{
    struct bv *ret = arg;

    *ret = bv_dup(&op.arena, doc);
    return 0;
}

static void the_row_of_the_session(void **state)
{
    struct bv row = BV_NONE, last;
    struct retry_state r;
    uint64_t at;

    (void)state;
    txn_enter(begin(&w, 7), &in);
    OK(set(&in, "d.c", 1, 2));
    at = commit_at(&in);
    OK(retry_each(w.db.engine, &op, RETRY_TRANSACTIONS, BV_NONE, keep_row, &row));
    assert_same_bytes(bv_get(row, "_id"), lsid_of(&op.arena, 7));
    assert_int_equal(bv_i64(bv_get(row, "txnNum")), 1);
    last = bv_get(row, "lastWriteOpTime");
    assert_int_equal(bv_ts(bv_get(last, "ts")), at);
    assert_int_equal(bv_i64(bv_get(last, "t")), oplog_term(w.db.oplog));
    assert_int_equal(bv_get(row, "lastWriteDate").type, BV_DATE);
    assert_string_equal(bv_str(bv_get(row, "state"), NULL), "committed");
    assert_int_equal(retry_state_open(&op, lsid_of(&op.arena, 7), 1, &r), 217);
    assert_int_equal(retry_state_open(&op, lsid_of(&op.arena, 7), 0, &r), 225);
    OK(retry_state_open(&op, lsid_of(&op.arena, 7), 2, &r));
    assert_false(r.record.committed);
}

/* --- chains ---------------------------------------------------------------------------------- */

/* An insert whose encoded operation, in applyOps, has exactly so many bytes. */
static void add_op_of(struct op *o, size_t bytes)
{
    static const uint8_t uuid[16] = {1};
    struct oplog_op e = {.op = 'i', .ns = "d.c", .uuid = uuid, .o2 = BV_NONE, .pre_image = BV_NONE};
    struct arena a;
    struct bw b;
    size_t head;

    arena_init(&a);
    bw_init(&b, &a);
    bw_str(&b, "op", "i");
    bw_str(&b, "ns", "d.c");
    bw_uuid(&b, "ui", uuid);
    bw_doc_begin(&b, "o");
    bw_bin(&b, "p", 0, NULL, 0);
    bw_end(&b);
    head = bw_done(&b).len;
    assert_true(bytes >= head);
    bw_init(&b, &a);
    bw_bin(&b, "p", 0, arena_try(&a, bytes), bytes - head);
    e.o = bw_done(&b);
    OK(txn_add_ops(o->txn, o, &e, 1));
    arena_fini(&a);
}

/* Commits operations of these sizes (0 ends them); how many stand in each entry, as text. */
static const char *packed(const size_t *sizes)
{
    uint64_t before = oplog_allocated(w.db.oplog), prev = 0, total = 0, at;
    struct oplog_row rows[8];
    char *text = arena_strdup(&op.arena, "");
    size_t n;

    txn_enter(begin(&w, 7), &in);
    for (size_t i = 0; sizes[i] != 0; i++)
        add_op_of(&in, sizes[i]);
    at = commit_at(&in);
    n = entries_above(&w, &op, before, rows, 8);
    for (size_t i = 0; i < n; i++) {
        uint32_t ops = bv_count(bv_get(rows[i].o, "applyOps"));
        struct bv count = bv_get(rows[i].o, "count");
        bool last = i == n - 1;

        total += ops;
        assert_int_equal(rows[i].prev_optime, prev);
        assert_int_equal(rows[i].optime, rows[0].optime + i);
        assert_int_equal(rows[i].wall_ms, rows[0].wall_ms);
        assert_int_equal(rows[i].txn_number, 1);
        assert_same_bytes(rows[i].lsid, lsid_of(&op.arena, 7));
        assert_true(bv_truthy(bv_get(rows[i].o, "partialTxn")) == !last);
        assert_true(count.type == (last && n > 1 ? BV_INT64 : 0));
        if (last && n > 1)
            assert_int_equal(bv_i64(count), total);
        prev = rows[i].optime;
        text = arena_printf(&op.arena, "%s%s%u", text, i == 0 ? "" : " ", ops);
    }
    assert_int_equal(rows[n - 1].optime, at);
    return text;
}

#define PACKED(text, ...) assert_string_equal(packed((const size_t[]){__VA_ARGS__, 0}), text)

static void an_entry_holds_16_mb_of_operations(void **state)
{
    /* The array's length and the first element's type and name. */
    const size_t full = LIMIT_DOC_BYTES - 4, first = 3;

    (void)state;
    PACKED("1", full);
    PACKED("2", full - first - 100, 100);
    PACKED("1 1", full - first - 100, 101);
    PACKED("1 1 1", full - 100, 1000, LIMIT_DOC_BYTES + 100);
    PACKED("2 1", 1000, 8 * 1024 * 1024, 9 * 1024 * 1024);
}

static void a_parameter_bounds_the_operations_of_an_entry(void **state)
{
    (void)state;
    txn_set_entry_ops(w.db.txns, 2);
    PACKED("2", 100, 100);
    PACKED("2 1", 100, 100, 100);
    PACKED("2 2 1", 100, 100, 100, 100, 100);
    txn_set_entry_ops(w.db.txns, 1);
    PACKED("1 1 1", 100, 100, 100);
}

static void the_bytes_of_a_transaction_are_bounded(void **state)
{
    struct oplog_op e = {.op = 'd', .ns = "d.c", .o2 = BV_NONE, .pre_image = BV_NONE};

    (void)state;
    txn_enter(begin(&w, 7), &in);
    for (size_t left = LIMIT_TXN_BYTES; left > 0; left -= 16 * 1024 * 1024)
        add_op_of(&in, 16 * 1024 * 1024);
    assert_int_equal(txn_bytes(in.txn), LIMIT_TXN_BYTES);
    e.o = json(&op.arena, "{'_id': 1}");
    assert_int_equal(txn_add_ops(in.txn, &in, &e, 1), 257);
    txn_abort(in.txn);
    in.txn = NULL;
}

/* --- images ---------------------------------------------------------------------------------- */

static void images_lie_at_the_place_of_their_operation(void **state)
{
    struct bv image;
    uint64_t at;

    (void)state;
    OK(ddl_create(&op, "d.i",
                  json(&op.arena, "{'changeStreamPreAndPostImages': {'enabled': true}}")));
    for (int i = 1; i <= 3; i++)
        OK(insert(&op, "d.i", arena_printf(&op.arena, "{'_id': %d, 'x': %d}", i, i)));
    txn_set_entry_ops(w.db.txns, 3);
    txn_enter(begin(&w, 7), &in);
    OK(insert(&in, "d.i", "{'_id': 4}"));
    OK(set(&in, "d.i", 1, 10));
    OK(set(&in, "d.c", 1, 10));
    OK(set(&in, "d.i", 1, 11));
    OK(drop_docs(&in, "d.i", "{'_id': 2}", false));
    at = commit_at(&in);
    for (int64_t i = 0; i < 6; i++) {
        static const int x[] = {0, 1, 0, 10, 2, 0};

        OK(image_get(w.db.oplog, &op, at - 1 + (uint64_t)i / 3, i % 3, &op.arena, &image));
        if (x[i] == 0)
            assert_true(bv_is_missing(image));
        else
            assert_int_equal(bv_i32(bv_get(image, "x")), x[i]);
    }
}

/* --- crashes --------------------------------------------------------------------------------- */

enum { CRASH_DOCS = 20 };

/* Commits transaction after transaction, each a chain over two collections, one of them new; the
 * first is on disk before the fault is armed. */
static void child(const char *path, const char *fault)
{
    struct world mine = {.store = {.path = strdup(path)}};
    struct error err;
    struct op o;

    world_reopen(&mine, false);
    txn_set_entry_ops(mine.db.txns, 7);
    request_init(&o, &mine);
    for (int i = 0; i < 3; i++) {
        uint64_t at;

        if (i == 1 && fault_set(fault, &err) != 0)
            _exit(4);
        txn_enter(begin(&mine, 7), &o);
        for (int j = 0; j < CRASH_DOCS; j++) {
            OK(insert(&o, arena_printf(&o.arena, "d.new%d", i),
                      arena_printf(&o.arena, "{'_id': %d}", j)));
            OK(insert(&o, "d.c", arena_printf(&o.arena, "{'_id': %d}", i * CRASH_DOCS + j)));
        }
        OK(txn_commit(o.txn, &o, &at));
        await_durable(&mine.store, at);
    }
    _exit(0);
}

/* How many transactions are there: each whole, in the data as in the oplog. */
static int64_t whole_transactions(void)
{
    int64_t n = count_of(&w, "d.c") / CRASH_DOCS, inner = 0, chains = 0;
    struct oplog_row rows[64];
    size_t nrows = entries_above(&w, &op, 0, rows, 64);

    assert_int_equal(count_of(&w, "d.c"), n * CRASH_DOCS);
    for (int i = 0; i < 3; i++)
        assert_int_equal(count_of(&w, arena_printf(&op.arena, "d.new%d", i)),
                         i < n ? CRASH_DOCS : -1);
    for (size_t i = 0; i < nrows; i++) {
        struct bv ops = bv_get(rows[i].o, "applyOps");

        inner += bv_is_missing(ops) ? 0 : bv_count(ops);
        chains += !bv_is_missing(bv_get(rows[i].o, "count"));
    }
    assert_int_equal(chains, n);
    /* the first one has created d.c as well */
    assert_int_equal(inner, n * (2 * CRASH_DOCS + 1) + (n > 0));
    return n;
}

static void crash_at(const char *fault, int64_t least, int64_t most)
{
    int status;
    pid_t pid;

    w.store.path = temp_dir();
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child(w.store.path, fault);
    assert_true(waitpid(pid, &status, 0) == pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    world_reopen(&w, false);
    request_init(&op, &w);
    assert_in_range(whole_transactions(), least, most);
    /* What was not committed is gone without a trace: its name is free. */
    OK(insert(&op, "d.new2", "{'_id': 1}"));
    OK(insert(&op, "d.new1", "{'_id': 100}"));
    op_fini(&op);
    world_remove(&w);
}

/* What was committed and not yet synced may be there or not, but whole. */
static void a_crash_leaves_all_of_a_chain_or_nothing(void **state)
{
    (void)state;
    crash_at("txnCommitBefore:kill", 1, 1);
    crash_at("optimeTaken:kill", 1, 1);
    crash_at("commitBefore:kill", 1, 1);
    crash_at("commitAfter:kill", 1, 2);
    crash_at("txnCommitAfter:kill", 1, 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_entry_byte_for_byte),
        TEST(created_collections_stand_in_it),
        TEST(the_row_of_the_session),
        TEST(an_entry_holds_16_mb_of_operations),
        TEST(a_parameter_bounds_the_operations_of_an_entry),
        TEST(the_bytes_of_a_transaction_are_bounded),
        TEST(images_lie_at_the_place_of_their_operation),
        cmocka_unit_test(a_crash_leaves_all_of_a_chain_or_nothing),
    };

    return cmocka_run_group_tests_name("query txn log", tests, NULL, NULL);
}
