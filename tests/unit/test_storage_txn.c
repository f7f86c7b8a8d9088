/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Transactions and cursors: isolation, conflicts, seeks in all modes, writes, what a kill keeps. */
#include "tests/unit/storage_util.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "storage/engine_internal.h"

static char *dir;
static struct engine *e;
static struct op op;

static int set_up(void **state)
{
    struct error err;

    (void)state;
    dir = temp_dir();
    e = open_engine(dir);
    op_init(&op);
    OK(engine_table_create(e, "n", TABLE_RECORDS, true, &err));
    OK(engine_table_create(e, "o", TABLE_OPTIMES, true, &err));
    OK(engine_table_create(e, "b", TABLE_BYTES, true, &err));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    op_fini(&op);
    close_engine(e);
    remove_dir(dir);
    return 0;
}

static struct tcursor *begin(enum table_kind kind, struct stx **ret)
{
    static const char *const idents[] = {
        [TABLE_RECORDS] = "n", [TABLE_OPTIMES] = "o", [TABLE_BYTES] = "b"};
    struct tcursor *c;

    OK(stx_begin(e, &op, ret));
    OK(tcursor_open(*ret, idents[kind], kind, &c));
    return c;
}

static void commit(struct stx *t, struct tcursor *c)
{
    tcursor_close(c);
    OK(stx_commit(t));
}

static void put_one(uint64_t key, const char *value)
{
    struct stx *t;
    struct tcursor *c = begin(TABLE_RECORDS, &t);

    OK(tcursor_put_num(c, key, str_bytes(value)));
    commit(t, c);
}

/* NULL: not there. */
static void check_one(struct tcursor *c, uint64_t key, const char *value)
{
    bool found;

    OK(tcursor_seek_num(c, key, SEEK_EXACT, &found));
    assert_int_equal(found, value != NULL);
    if (found)
        assert_bytes(tcursor_value(c), value);
}

static void snapshot_is_taken_by_begin(void **state)
{
    struct stx *t;
    struct tcursor *c;

    (void)state;
    put_one(1, "old");
    OK(stx_begin(e, &op, &t)); /* no read yet */
    put_one(1, "new");
    put_one(2, "more");
    OK(tcursor_open(t, "n", TABLE_RECORDS, &c));
    check_one(c, 1, "old");
    check_one(c, 2, NULL);
    OK(stx_refresh(t));
    check_one(c, 1, "new");
    check_one(c, 2, "more");
    commit(t, c);
}

static void refresh_loses_the_position(void **state)
{
    struct stx *t;
    struct tcursor *c;
    bool found;

    (void)state;
    put_one(1, "a");
    put_one(2, "b");
    c = begin(TABLE_RECORDS, &t);
    OK(tcursor_first(c, &found));
    assert_true(found);
    OK(stx_refresh(t));
    OK(tcursor_next(c, &found));
    assert_false(found);
    commit(t, c);
}

/* Exact searches one after the other, in and against the order, over gaps, with a write between. */
static void neighbours_are_found_one_by_one(void **state)
{
    static const uint64_t tried[] = {1, 2, 3, 5, 6, 8, 9, 8, 7, 6, 5, 4, 3, 2, 3, 3, 9, 2};
    struct stx *t;
    struct tcursor *c;
    bool found;

    (void)state;
    for (uint64_t key = 1; key < 10; key++) {
        if (key != 4 && key != 7)
            put_one(key, key % 2 == 0 ? "even" : "odd");
    }
    c = begin(TABLE_RECORDS, &t);
    for (size_t i = 0; i < sizeof(tried) / sizeof(tried[0]); i++) {
        uint64_t key = tried[i];
        bool gap = key == 4 || key == 7;

        check_one(c, key, gap ? NULL : key % 2 == 0 ? "even" : "odd");
        if (!gap)
            assert_int_equal(tcursor_num(c), key);
    }
    check_one(c, 8, "even");
    OK(tcursor_remove_num(c, 9, NULL));
    check_one(c, 9, NULL);
    check_one(c, 8, "even");
    OK(tcursor_next(c, &found));
    assert_false(found);
    commit(t, c);
}

static void own_writes_are_read_and_rolled_back(void **state)
{
    struct stx *t;
    struct tcursor *c = begin(TABLE_RECORDS, &t);

    (void)state;
    assert_false(stx_has_written(t));
    OK(tcursor_insert_num(c, 7, str_bytes("mine")));
    assert_true(stx_has_written(t));
    check_one(c, 7, "mine");
    tcursor_close(c);
    stx_rollback(t);
    c = begin(TABLE_RECORDS, &t);
    check_one(c, 7, NULL);
    commit(t, c);
    stx_rollback(NULL);
}

/* First updater wins; the loser cannot commit what it wrote before or after. */
static void conflict_loses_the_transaction(void **state)
{
    struct stx *t1, *t2;
    struct tcursor *c1, *c2;

    (void)state;
    put_one(1, "x");
    c1 = begin(TABLE_RECORDS, &t1);
    c2 = begin(TABLE_RECORDS, &t2);
    OK(tcursor_put_num(c1, 1, str_bytes("first")));
    OK(tcursor_put_num(c2, 5, str_bytes("earlier")));
    assert_int_equal(tcursor_put_num(c2, 1, str_bytes("second")), ERR_WRITE_CONFLICT);
    assert_int_equal(op.err->code, ERR_WRITE_CONFLICT);
    assert_int_equal(tcursor_put_num(c2, 6, str_bytes("later")), ERR_WRITE_CONFLICT);
    commit(t1, c1);
    tcursor_close(c2);
    assert_int_equal(stx_commit(t2), ERR_WRITE_CONFLICT);
    c1 = begin(TABLE_RECORDS, &t1);
    check_one(c1, 1, "first");
    check_one(c1, 5, NULL);
    check_one(c1, 6, NULL);
    commit(t1, c1);
}

static void conflict_without_earlier_write(void **state)
{
    struct stx *t1, *t2;
    struct tcursor *c1, *c2;

    (void)state;
    c1 = begin(TABLE_RECORDS, &t1);
    c2 = begin(TABLE_RECORDS, &t2);
    OK(tcursor_insert_num(c1, 1, str_bytes("first")));
    assert_int_equal(tcursor_insert_num(c2, 1, str_bytes("second")), ERR_WRITE_CONFLICT);
    tcursor_close(c2);
    assert_int_equal(stx_commit(t2), ERR_WRITE_CONFLICT);
    commit(t1, c1);
    c1 = begin(TABLE_RECORDS, &t1);
    check_one(c1, 1, "first");
    commit(t1, c1);
}

/* Also with a writer that committed after our snapshot. */
static void conflict_with_the_committed(void **state)
{
    struct stx *t;
    struct tcursor *c;

    (void)state;
    put_one(1, "x");
    c = begin(TABLE_RECORDS, &t);
    put_one(1, "y");
    assert_int_equal(tcursor_remove_num(c, 1, NULL), ERR_WRITE_CONFLICT);
    tcursor_close(c);
    stx_rollback(t);
}

static void duplicate_leaves_it_usable(void **state)
{
    struct stx *t;
    struct tcursor *c;
    bool found;

    (void)state;
    put_one(1, "x");
    c = begin(TABLE_RECORDS, &t);
    assert_int_equal(tcursor_insert_num(c, 1, str_bytes("y")), ERR_DUPLICATE_KEY);
    OK(tcursor_insert_num(c, 2, str_bytes("z")));
    OK(tcursor_remove_num(c, 3, &found));
    assert_false(found);
    OK(tcursor_remove_num(c, 1, &found));
    assert_true(found);
    OK(tcursor_insert_num(c, 1, str_bytes("again")));
    commit(t, c);
    c = begin(TABLE_RECORDS, &t);
    check_one(c, 1, "again");
    check_one(c, 2, "z");
    commit(t, c);
}

static void check_seek(struct tcursor *c, uint64_t key, enum seek_mode mode, uint64_t want)
{
    bool found;

    OK(tcursor_seek_num(c, key, mode, &found));
    assert_int_equal(found, want != 0);
    if (found)
        assert_int_equal(tcursor_num(c), want);
}

static void seeks(enum table_kind kind)
{
    struct stx *t;
    struct tcursor *c = begin(kind, &t);
    bool found;

    check_seek(c, 5, SEEK_GE, 0);
    check_seek(c, 5, SEEK_LT, 0);
    OK(tcursor_first(c, &found));
    assert_false(found);
    OK(tcursor_last(c, &found));
    assert_false(found);
    for (uint64_t k = 10; k <= 50; k += 10)
        OK(tcursor_insert_num(c, k, str_bytes("v")));
    commit(t, c);
    c = begin(kind, &t);
    check_seek(c, 30, SEEK_EXACT, 30);
    check_seek(c, 31, SEEK_EXACT, 0);
    check_seek(c, 30, SEEK_GE, 30);
    check_seek(c, 30, SEEK_GT, 40);
    check_seek(c, 30, SEEK_LE, 30);
    check_seek(c, 30, SEEK_LT, 20);
    check_seek(c, 35, SEEK_GE, 40);
    check_seek(c, 35, SEEK_GT, 40);
    check_seek(c, 35, SEEK_LE, 30);
    check_seek(c, 35, SEEK_LT, 30);
    check_seek(c, 1, SEEK_GE, 10);
    check_seek(c, 1, SEEK_LE, 0);
    check_seek(c, 10, SEEK_LT, 0);
    check_seek(c, 50, SEEK_GT, 0);
    check_seek(c, 99, SEEK_GE, 0);
    check_seek(c, 99, SEEK_LE, 50);

    check_seek(c, 50, SEEK_EXACT, 50);
    OK(tcursor_next(c, &found));
    assert_false(found);
    OK(tcursor_next(c, &found)); /* does not start again */
    assert_false(found);
    OK(tcursor_last(c, &found));
    assert_int_equal(tcursor_num(c), 50);
    OK(tcursor_prev(c, &found));
    assert_int_equal(tcursor_num(c), 40);
    OK(tcursor_first(c, &found));
    assert_int_equal(tcursor_num(c), 10);
    OK(tcursor_prev(c, &found));
    assert_false(found);
    commit(t, c);
}

static void seeks_of_records(void **state)
{
    (void)state;
    seeks(TABLE_RECORDS);
}

static void seeks_of_optimes(void **state)
{
    struct stx *t;
    struct tcursor *c;

    (void)state;
    seeks(TABLE_OPTIMES);
    c = begin(TABLE_OPTIMES, &t); /* order is unsigned */
    OK(tcursor_insert_num(c, UINT64_MAX, str_bytes("v")));
    check_seek(c, 51, SEEK_GE, UINT64_MAX);
    commit(t, c);
}

static void seeks_of_bytes(void **state)
{
    struct stx *t;
    struct tcursor *c = begin(TABLE_BYTES, &t);
    bool found;

    (void)state;
    OK(tcursor_insert(c, str_bytes("a"), str_bytes("1")));
    OK(tcursor_insert(c, str_bytes("ab"), str_bytes("2")));
    OK(tcursor_insert(c, str_bytes("b"), str_bytes("")));
    assert_int_equal(tcursor_insert(c, str_bytes("b"), str_bytes("")), ERR_DUPLICATE_KEY);
    OK(tcursor_seek(c, str_bytes("a"), SEEK_GT, &found));
    assert_bytes(tcursor_key(c), "ab");
    assert_bytes(tcursor_value(c), "2");
    OK(tcursor_seek(c, str_bytes("az"), SEEK_LE, &found));
    assert_bytes(tcursor_key(c), "ab");
    OK(tcursor_seek(c, str_bytes("az"), SEEK_GE, &found));
    assert_bytes(tcursor_key(c), "b");
    assert_bytes(tcursor_value(c), "");
    OK(tcursor_put(c, str_bytes("ab"), str_bytes("22")));
    OK(tcursor_remove(c, str_bytes("a"), NULL));
    OK(tcursor_first(c, &found));
    assert_bytes(tcursor_value(c), "22");
    commit(t, c);
}

static uint64_t count(struct tcursor *c, uint64_t *ret_first)
{
    uint64_t n = 0;
    bool found;

    OK(tcursor_first(c, &found));
    *ret_first = found ? tcursor_num(c) : 0;
    for (; found; n++)
        OK(tcursor_next(c, &found));
    return n;
}

static void truncates(void **state)
{
    struct stx *t;
    struct tcursor *c = begin(TABLE_OPTIMES, &t);
    uint64_t first;

    (void)state;
    for (uint64_t k = 1; k <= 100; k++)
        OK(tcursor_insert_num(c, k * 10, str_bytes("v")));
    commit(t, c);
    c = begin(TABLE_OPTIMES, &t);
    OK(tcursor_truncate_num(c, 1, 305));   /* neither end is there */
    OK(tcursor_truncate_num(c, 311, 319)); /* nothing between */
    OK(tcursor_truncate_num(c, 5, 1));
    OK(tcursor_truncate_num(c, 1500, 2000)); /* beyond the end */
    OK(tcursor_truncate_num(c, 990, 1000));  /* both are */
    assert_int_equal(count(c, &first), 68);
    assert_int_equal(first, 310);
    commit(t, c);
    c = begin(TABLE_OPTIMES, &t);
    assert_int_equal(count(c, &first), 68);
    tcursor_close(c);
    stx_rollback(t);
    c = begin(TABLE_BYTES, &t);
    OK(tcursor_truncate(c, str_bytes("a"), str_bytes("z"))); /* an empty table */
    OK(tcursor_put(c, str_bytes("m"), str_bytes("v")));
    OK(tcursor_truncate(c, str_bytes("a"), str_bytes("z")));
    bool found;
    OK(tcursor_first(c, &found));
    assert_false(found);
    commit(t, c);
}

static void fault_point(void **state)
{
    struct stx *t;
    struct tcursor *c = begin(TABLE_RECORDS, &t);
    struct error err;

    (void)state;
    OK(fault_set("storageWrite:error=14031:2", &err));
    OK(tcursor_put_num(c, 1, str_bytes("v")));
    assert_int_equal(tcursor_put_num(c, 2, str_bytes("v")), ERR_OUT_OF_DISK_SPACE);
    OK(fault_set("storageWrite:error=112", &err));
    assert_int_equal(tcursor_put_num(c, 2, str_bytes("v")), ERR_WRITE_CONFLICT);
    fault_clear_all();
    tcursor_close(c);
    assert_int_equal(stx_commit(t), ERR_WRITE_CONFLICT);
}

static void pool_has_a_limit(void **state)
{
    struct stx *t[501];
    int n = 0;

    (void)state;
    while (n < 501 && stx_begin(e, &op, &t[n]) == 0)
        n++;
    assert_int_equal(n, 500);
    assert_int_equal(op.err->code, ERR_TEMPORARILY_UNAVAILABLE);
    while (n > 0)
        stx_rollback(t[--n]);
    OK(stx_begin(e, &op, &t[0]));
    stx_rollback(t[0]);
}

/* Commits `synced` rows, syncs, commits one more and dies. */
static void write_and_die(const char *path, uint64_t synced)
{
    struct error err;
    struct stx *t;
    struct tcursor *c;
    static char big[17 << 20];

    e = open_engine(path);
    for (uint64_t k = 1; k <= synced + 1; k++) {
        c = begin(TABLE_RECORDS, &t);
        /* row 3 is larger than a whole log file */
        OK(tcursor_insert_num(
            c, k, k == 3 ? (struct bytes){(uint8_t *)big, sizeof(big)} : str_bytes("v")));
        commit(t, c);
        if (k == synced)
            OK(engine_sync_log(e, &err));
    }
    kill(getpid(), SIGKILL);
}

static void synced_survives_a_kill(void **state)
{
    struct stx *t;
    struct tcursor *c;
    uint64_t first, n;
    int status;
    pid_t pid;
    bool found;

    (void)state;
    close_engine(e);
    pid = fork();
    if (pid == 0)
        write_and_die(dir, 100);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    e = open_engine(dir);
    assert_true(engine_was_unclean(e));
    c = begin(TABLE_RECORDS, &t);
    n = count(c, &first);
    assert_int_equal(first, 1);
    assert_in_range(n, 100, 101);
    OK(tcursor_seek_num(c, 3, SEEK_EXACT, &found));
    assert_int_equal(tcursor_value(c).len, 17 << 20);
    commit(t, c);
}

/* WiredTiger said that it cannot go on. */
static void panic_ends_the_process(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        struct error err;

        freopen("/dev/null", "w", stderr);
        (void)wt_error(&err, WT_PANIC, "write");
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_FAILURE);
}

/* A record may be half written: what is there must not stay, whoever commits. */
static void a_failed_call_forbids_the_commit(void **state)
{
    static const char *const faults[] = {"storageWrite:fail=1:2", "storageRead:fail=1:1"};

    (void)state;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct error err;
        struct stx *t;
        struct tcursor *c = begin(TABLE_RECORDS, &t);
        bool found;
        int rc;

        OK(tcursor_insert_num(c, 1, str_bytes("a")));
        tcursor_close(c);
        OK(tcursor_open(t, "b", TABLE_BYTES, &c));
        OK(fault_set(faults[i], &err));
        rc = tcursor_insert(c, str_bytes("k"), str_bytes("v"));
        if (rc == 0)
            rc = tcursor_seek(c, str_bytes("k"), SEEK_EXACT, &found);
        if (rc == 0)
            rc = tcursor_remove(c, str_bytes("k"), NULL);
        assert_int_equal(rc, ERR_INTERNAL);
        fault_clear_all();
        tcursor_close(c);
        assert_int_equal(stx_commit(t), ERR_INTERNAL);
        c = begin(TABLE_RECORDS, &t);
        check_one(c, 1, NULL);
        tcursor_close(c);
        stx_rollback(t);
    }
}

static void results_are_translated(void **state)
{
    struct error err;

    (void)state;
    assert_int_equal(wt_error(&err, WT_ROLLBACK, "w"), ERR_WRITE_CONFLICT);
    assert_int_equal(wt_error(&err, WT_DUPLICATE_KEY, "w"), ERR_DUPLICATE_KEY);
    assert_int_equal(wt_error(&err, WT_CACHE_FULL, "w"), ERR_TEMPORARILY_UNAVAILABLE);
    assert_int_equal(wt_error(&err, ENOSPC, "w"), ERR_OUT_OF_DISK_SPACE);
    assert_int_equal(wt_error(&err, EBUSY, "w"), ERR_OBJECT_IS_BUSY);
    assert_int_equal(wt_error(&err, EIO, "cannot write"), ERR_INTERNAL);
    assert_string_equal(err.text, "cannot write: Input/output error");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(snapshot_is_taken_by_begin),
        TEST(refresh_loses_the_position),
        TEST(neighbours_are_found_one_by_one),
        TEST(own_writes_are_read_and_rolled_back),
        TEST(conflict_loses_the_transaction),
        TEST(conflict_without_earlier_write),
        TEST(conflict_with_the_committed),
        TEST(duplicate_leaves_it_usable),
        TEST(seeks_of_records),
        TEST(seeks_of_optimes),
        TEST(seeks_of_bytes),
        TEST(truncates),
        TEST(fault_point),
        TEST(pool_has_a_limit),
        TEST(synced_survives_a_kill),
        TEST(panic_ends_the_process),
        TEST(a_failed_call_forbids_the_commit),
        TEST(results_are_translated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
