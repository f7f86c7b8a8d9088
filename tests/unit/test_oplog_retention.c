/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Retention by each limit, pruning to the entry, and what readers notice of either. */
#include "oplog_util.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "oplog/oplog_internal.h"

static struct oplog_stats stats(struct db *d)
{
    struct oplog_stats st;

    oplog_stats(d->oplog, &st);
    return st;
}

/* Waits for the keeper: entries at most n. */
static int64_t entries_of(struct db *d)
{
    return stats(d).entries;
}

static int64_t bytes_of(struct db *d)
{
    return stats(d).bytes;
}

static void await_at_most(struct db *d, int64_t (*figure)(struct db *d), int64_t n)
{
    int64_t give_up_us = clock_mono_us() + 10 * 1000000;

    while (figure(d) > n && clock_mono_us() < give_up_us)
        usleep(2000);
    assert_in_range(figure(d), 1, n);
}

static void fill(struct db *d, struct op *op, int64_t from, int64_t n, size_t pad)
{
    for (int64_t i = from; i < from + n; i++) {
        put_padded(d, op, "db.a", i, pad);
        arena_reset(&op->arena);
    }
    await_durable(d, op->wrote_optime);
}

/* Rows in the table, whatever is believed of them. */
static int64_t rows_in_table(struct db *d, struct op *op, const char *ident, enum table_kind kind)
{
    struct tcursor *c;
    struct stx *t;
    int64_t n = 0;
    bool found;

    OK(stx_begin(d->engine, op, &t));
    OK(tcursor_open(t, ident, kind, &c));
    OK(tcursor_first(c, &found));
    while (found) {
        n++;
        OK(tcursor_next(c, &found));
    }
    tcursor_close(c);
    stx_rollback(t);
    return n;
}

/* --- the keeper ---------------------------------------------------------------------------- */

static void the_entry_limit_holds(void **state)
{
    struct oplog_options o = roomy;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    o.max_entries = 200;
    for (int memory = 0; memory < 2; memory++) {
        op.wrote_optime = 0;
        db_open(&d, memory, &o);
        fill(&d, &op, 0, 1000, 0);
        await_at_most(&d, entries_of, 220); /* and one segment */
        assert_true(stats(&d).entries >= 180);
        assert_true(stats(&d).last == op.wrote_optime);
        assert_false(oplog_complete(d.oplog));
        assert_true(rows_in_table(&d, &op, TABLE_OPLOG, TABLE_OPTIMES) == stats(&d).entries);
        db_remove(&d);
    }
    op_fini(&op);
}

static void the_byte_limit_holds(void **state)
{
    struct oplog_options o = roomy;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    o.size_bytes = 100 * 1000;
    db_open(&d, false, &o);
    fill(&d, &op, 0, 1000, 1000);
    await_at_most(&d, bytes_of, 112 * 1000); /* and one segment */
    assert_true(stats(&d).bytes >= 88 * 1000);
    db_remove(&d);
    op_fini(&op);
}

static void the_time_limit_holds(void **state)
{
    struct oplog_options o = roomy;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    o.retention_seconds = 0.5;
    db_open(&d, false, &o);
    fill(&d, &op, 0, 50, 0);
    assert_true(stats(&d).entries >= 50);
    usleep(100 * 1000); /* a tenth of the limit: the open segment ends */
    fill(&d, &op, 50, 1, 0);
    await_at_most(&d, entries_of, 1); /* the newest stays, however old */
    usleep(100 * 1000);
    assert_true(stats(&d).entries == 1);
    assert_true(oplog_oldest(d.oplog) == op.wrote_optime);
    db_remove(&d);
    op_fini(&op);
}

static void limits_change_at_run_time(void **state)
{
    const int64_t entries = 50, bytes = 1 << 20;
    const double seconds = 3600.5;
    int64_t got_bytes, got_entries;
    double got_seconds;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    oplog_set_limits(d.oplog, &bytes, &seconds, NULL);
    oplog_get_limits(d.oplog, &got_bytes, &got_seconds, &got_entries);
    assert_true(got_bytes == bytes && got_seconds == seconds && got_entries == 0);
    oplog_set_limits(d.oplog, NULL, NULL, &entries);
    oplog_get_limits(d.oplog, &got_bytes, &got_seconds, &got_entries);
    assert_true(got_bytes == bytes && got_seconds == seconds && got_entries == entries);
    fill(&d, &op, 0, 500, 0);
    await_at_most(&d, entries_of, 56);
    db_remove(&d);
    op_fini(&op);
}

/* --- pruning to the entry ------------------------------------------------------------------ */

static void pruning_by_count_is_exact(void **state)
{
    static const int64_t keep[] = {700, 333, 300, 299, 100, 7, 1};
    struct oplog_options o = roomy;
    uint64_t optimes[1000];
    int64_t removed, left = 1002;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    o.max_entries = 1000; /* segments of 100 */
    for (int memory = 0; memory < 2; memory++) {
        left = 1002;
        db_open(&d, memory, &o);
        for (int i = 0; i < 998; i++)
            optimes[i] = put(&d, &op, "db.a", i);
        left = 1000;
        assert_true(stats(&d).entries == left);
        for (size_t k = 0; k < sizeof(keep) / sizeof(keep[0]); k++) {
            oplog_set_limits(d.oplog, NULL, NULL, &keep[k]);
            /* the keeper may have been first with whole segments: the sum counts */
            OK(oplog_prune(d.oplog, &op, clock_wall_ms(), &removed));
            assert_int_equal(stats(&d).entries, keep[k]);
            assert_true(removed <= left - keep[k]);
            assert_true(oplog_oldest(d.oplog) == optimes[998 - keep[k]]);
            assert_true(rows_in_table(&d, &op, TABLE_OPLOG, TABLE_OPTIMES) == keep[k]);
            left = keep[k];
        }
        OK(oplog_prune(d.oplog, &op, clock_wall_ms(), &removed));
        assert_true(removed == 0);
        db_close(&d);
        if (!memory) { /* what was counted is what is there */
            struct oplog_stats st;

            db_reopen(&d, &o);
            oplog_stats(d.oplog, &st);
            assert_true(st.entries == 2 && st.first == optimes[997]);
            assert_false(oplog_complete(d.oplog));
            db_close(&d);
            remove_dir(d.path);
        }
    }
    op_fini(&op);
}

static void pruning_by_bytes_is_exact(void **state)
{
    int64_t removed, one, limit;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    one = stats(&d).bytes;
    put_padded(&d, &op, "db.a", 0, 100);
    one = stats(&d).bytes - one;
    fill(&d, &op, 1, 99, 100);
    limit = 10 * one;
    oplog_set_limits(d.oplog, &limit, NULL, NULL);
    OK(oplog_prune(d.oplog, &op, clock_wall_ms(), &removed));
    assert_true(stats(&d).entries == 10 && stats(&d).bytes == 10 * one);
    limit = 10 * one - 1;
    oplog_set_limits(d.oplog, &limit, NULL, NULL);
    OK(oplog_prune(d.oplog, &op, clock_wall_ms(), &removed));
    assert_true(stats(&d).entries == 9);
    limit = 1;
    oplog_set_limits(d.oplog, &limit, NULL, NULL);
    OK(oplog_prune(d.oplog, &op, clock_wall_ms(), &removed));
    assert_true(stats(&d).entries == 1);
    assert_true(oplog_oldest(d.oplog) == op.wrote_optime);
    db_remove(&d);
    op_fini(&op);
}

static void pruning_by_time_is_exact(void **state)
{
    const double day = 86400;
    struct oplog_row row;
    struct bv entry;
    uint64_t optimes[20];
    int64_t removed;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    for (int i = 0; i < 20; i++) {
        optimes[i] = put(&d, &op, "db.a", i);
        usleep(2000);
    }
    oplog_set_limits(d.oplog, NULL, &day, NULL);
    OK(oplog_prune(d.oplog, &op, clock_wall_ms(), &removed));
    assert_true(removed == 0);
    OK(oplog_get(d.oplog, &op, optimes[7], &op.arena, &entry));
    assert_true(oplog_parse(entry, &row));
    OK(oplog_prune(d.oplog, &op, row.wall_ms + 86400 * 1000, &removed));
    assert_true(removed == 9); /* two noops and 0..6: entry 7 has just the age that may stay */
    assert_true(oplog_oldest(d.oplog) == optimes[7]);
    OK(oplog_prune(d.oplog, &op, row.wall_ms + 10 * 86400 * 1000, &removed));
    assert_true(removed == 12 && oplog_oldest(d.oplog) == optimes[19]);
    db_remove(&d);
    op_fini(&op);
}

static void images_go_with_their_entries(void **state)
{
    struct oplog_op e = {.op = 'd', .ns = "db.a", .uuid = test_uuid, .stmt_id = -1};
    const int64_t keep = 3;
    uint64_t optimes[20];
    int64_t removed;
    struct bv image;
    struct stx *t;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    e.o = small_doc(&op, 1, 0);
    e.pre_image = small_doc(&op, 1, 0);
    for (int i = 0; i < 20; i++) {
        OK(stx_begin(d.engine, &op, &t));
        OK(oplog_commit(d.oplog, &op, t, &e, 1, NULL, NULL, &optimes[i]));
    }
    oplog_set_limits(d.oplog, NULL, NULL, &keep);
    OK(oplog_prune(d.oplog, &op, clock_wall_ms(), &removed));
    assert_true(rows_in_table(&d, &op, TABLE_IMAGES, TABLE_BYTES) == 3);
    OK(image_get(d.oplog, &op, optimes[16], 0, &op.arena, &image));
    assert_true(bv_is_missing(image));
    OK(image_get(d.oplog, &op, optimes[17], 0, &op.arena, &image));
    assert_false(bv_is_missing(image));
    db_remove(&d);
    op_fini(&op);
}

/* --- readers ------------------------------------------------------------------------------- */

static void a_position_below_the_window_is_lost(void **state)
{
    const int64_t keep = 5;
    uint64_t optimes[20];
    int64_t removed;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    db_open(&d, false, &roomy);
    for (int i = 0; i < 20; i++)
        optimes[i] = put(&d, &op, "db.a", i);
    oplog_set_limits(d.oplog, NULL, NULL, &keep);
    OK(oplog_prune(d.oplog, &op, clock_wall_ms(), &removed));
    assert_string_equal(read_ids(&d, &op, &whole_oplog, optimes[13], false), "error 136");
    assert_string_equal(read_ids(&d, &op, &whole_oplog, optimes[14], false), "error 136");
    assert_string_equal(read_ids(&d, &op, &whole_oplog, optimes[14] + 1, false), "15 16 17 18 19");
    assert_string_equal(read_ids(&d, &op, &whole_oplog, optimes[15], false), "15 16 17 18 19");
    assert_string_equal(read_ids(&d, &op, &whole_oplog, 0, false), "15 16 17 18 19");
    assert_string_equal(read_ids(&d, &op, &whole_oplog, UINT64_MAX, true), "19 18 17 16 15");
    db_remove(&d);
    op_fini(&op);
}

/* A reader in the table whose next entries are removed gets an error, never a gap. */
static void a_reader_that_is_overtaken_gets_an_error(void **state)
{
    const int64_t keep = 100;
    struct oplog_options o = roomy;
    struct oplog_reader *r;
    struct oplog_row row;
    int64_t removed, last = -1;
    bool found;
    struct op op;
    struct db d;
    int rc;

    (void)state;
    op_init(&op);
    o.hub_bytes = 4096;
    o.max_entries = 20000; /* segments of 2000 */
    db_open(&d, false, &o);
    fill(&d, &op, 0, 19000, 0);
    OK(oplog_reader_open(d.oplog, &op, oplog_oldest(d.oplog), &whole_oplog, false, &r));
    for (int i = 0; i < 50; i++)
        OK(oplog_reader_next(r, &row, &found));
    last = bv_i64(bv_get(row.o, "_id"));
    oplog_set_limits(d.oplog, NULL, NULL, &keep);
    OK(oplog_prune(d.oplog, &op, clock_wall_ms(), &removed));
    while ((rc = oplog_reader_next(r, &row, &found)) == 0 && found) {
        assert_true(bv_i64(bv_get(row.o, "_id")) == last + 1);
        last++;
    }
    assert_int_equal(rc, ERR_CAPPED_POSITION_LOST);
    assert_in_range(last, 47, 18000);
    oplog_reader_close(r);
    db_remove(&d);
    op_fini(&op);
}

/* --- noops --------------------------------------------------------------------------------- */

static void await_newer(struct db *d, uint64_t optime)
{
    int64_t give_up_us = clock_mono_us() + 10 * 1000000;

    while (stats(d).last <= optime && clock_mono_us() < give_up_us)
        usleep(2000);
    assert_true(stats(d).last > optime);
}

static void noops_go_on_when_the_clock_jumps(void **state)
{
    static const int64_t jumps_ms[] = {3600 * 1000, -2 * 3600 * 1000, 3600 * 1000};
    struct oplog_options o = roomy;
    struct db d;

    (void)state;
    o.noop_interval_ms = 50;
    db_open(&d, true, &o);
    for (size_t i = 0; i < sizeof(jumps_ms) / sizeof(jumps_ms[0]); i++) {
        clock_test_shift_wall(jumps_ms[i]);
        await_newer(&d, stats(&d).last);
        await_newer(&d, stats(&d).last);
    }
    db_remove(&d);
}

/* --- crashes ------------------------------------------------------------------------------- */

static void prune_and_die(const char *path, const char *fault)
{
    const int64_t keep = 150;
    struct oplog_options o = roomy;
    struct db d = {.path = strdup(path)};
    struct error err;
    int64_t removed;
    struct op op;

    op_init(&op);
    o.max_entries = 1000;
    db_reopen(&d, &o);
    fill(&d, &op, 0, 900, 0);
    if (fault_set(fault, &err) != 0)
        _exit(3);
    oplog_set_limits(d.oplog, NULL, NULL, &keep);
    if (oplog_prune(d.oplog, &op, clock_wall_ms(), &removed) != 0 ||
        engine_sync_log(d.engine, &err) != 0)
        _exit(4);
    kill(getpid(), SIGKILL);
}

static void a_crash_leaves_all_or_nothing(void **state)
{
    static const char *const faults[] = {"truncateBefore:kill", "truncateAfter:kill",
                                         "truncateAfter:off"};

    (void)state;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        char *path = temp_dir();
        struct db d = {.path = path};
        struct oplog_stats st;
        pid_t pid = fork();
        char *ids;
        int64_t n = 1;
        int status;
        struct op op;

        assert_true(pid >= 0);
        if (pid == 0)
            prune_and_die(path, faults[i]);
        assert_true(waitpid(pid, &status, 0) == pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        op_init(&op);
        db_reopen(&d, &roomy);
        st = stats(&d);
        ids = read_ids(&d, &op, &(struct scope){SCOPE_DATABASE, "db", NULL, false, false, false}, 0,
                       false);
        for (char *p = ids; *p != '\0'; p++)
            n += *p == ' ';
        assert_string_equal(strrchr(ids, ' '), " 899");
        assert_true(rows_in_table(&d, &op, TABLE_OPLOG, TABLE_OPTIMES) == st.entries);
        if (i == 2)
            assert_true(n == 150 && st.entries == 151); /* and "new primary" */
        else
            assert_true(st.entries == n + (oplog_complete(d.oplog) ? 3 : 1));
        db_remove(&d);
        op_fini(&op);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_entry_limit_holds),
        cmocka_unit_test(the_byte_limit_holds),
        cmocka_unit_test(the_time_limit_holds),
        cmocka_unit_test(limits_change_at_run_time),
        cmocka_unit_test(noops_go_on_when_the_clock_jumps),
        cmocka_unit_test(pruning_by_count_is_exact),
        cmocka_unit_test(pruning_by_bytes_is_exact),
        cmocka_unit_test(pruning_by_time_is_exact),
        cmocka_unit_test(images_go_with_their_entries),
        cmocka_unit_test(a_position_below_the_window_is_lost),
        cmocka_unit_test(a_reader_that_is_overtaken_gets_an_error),
        cmocka_unit_test(a_crash_leaves_all_or_nothing),
    };

    return cmocka_run_group_tests_name("oplog_retention", tests, NULL, NULL);
}
