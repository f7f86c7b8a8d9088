/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Segments: counted, skipped, stored, rebuilt. */
#include "oplog_util.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "oplog/oplog_internal.h"

static struct oplog_row insert_row(const char *ns, uint64_t optime)
{
    return (struct oplog_row){.optime = optime,
                              .op = 'i',
                              .ns = ns,
                              .ns_len = (uint32_t)strlen(ns),
                              .entry = {NULL, 100, BV_DOC}};
}

static void a_segment_is_sealed_at_its_bounds(void **state)
{
    const struct segment_bounds by_count = {.count = 3}, by_bytes = {.bytes = 250};
    struct segments s;
    int64_t count, bytes, n;
    bool sealed[7];

    (void)state;
    for (int k = 0; k < 2; k++) {
        segments_init(&s);
        segments_set_bounds(&s, k == 0 ? &by_count : &by_bytes);
        for (unsigned i = 0; i < 7; i++) {
            struct oplog_row row = insert_row("db.a", 10 + i);

            sealed[i] = segments_add(&s, &row);
        }
        assert_true(!sealed[0] && !sealed[1] && !sealed[2] && sealed[3] && !sealed[4] &&
                    !sealed[5] && sealed[6]);
        segments_totals(&s, &count, &bytes, &n);
        assert_true(count == 7 && bytes == 700 && n == 3);
        assert_true(segments_oldest(&s) == 10 && segments_newest(&s) == 16);
        segments_fini(&s);
    }
}

static void a_segment_is_sealed_by_age(void **state)
{
    const struct segment_bounds bounds = {.age_ms = 1000};
    struct oplog_row row = insert_row("db.a", 10);
    struct segments s;

    (void)state;
    segments_init(&s);
    segments_set_bounds(&s, &bounds);
    (void)segments_add(&s, &row);
    assert_false(segments_seal_old(&s, clock_wall_ms() + 500));
    assert_true(segments_seal_old(&s, clock_wall_ms() + 1001));
    assert_false(segments_seal_old(&s, clock_wall_ms() + 9000)); /* nothing is open */
    segments_fini(&s);
}

static void segments_without_the_name_are_skipped(void **state)
{
    const struct segment_bounds bounds = {.count = 2};
    const struct scope a = {SCOPE_COLLECTION, "db", "db.a", false, false, false};
    const struct scope c = {SCOPE_COLLECTION, "db", "db.c", false, false, false};
    const struct scope db = {SCOPE_DATABASE, "db", NULL, false, false, false};
    const struct scope none = {SCOPE_DATABASE, "none", NULL, false, false, false};
    const struct scope cluster = {SCOPE_CLUSTER, NULL, NULL, false, false, false};
    /* two entries to a segment: [10 11] [12 13] [14 15] [16 */
    static const char *const ns[7] = {"db.a", "db.b", "x.a", "x.b", "", "", "db.c"};
    struct segments s;
    uint64_t from, to;

    (void)state;
    segments_init(&s);
    segments_set_bounds(&s, &bounds);
    for (unsigned i = 0; i < 7; i++) {
        struct oplog_row row = insert_row(ns[i], 10 + i);

        row.op = *ns[i] == '\0' ? 'n' : 'i';
        (void)segments_add(&s, &row);
    }
    assert_true(segments_next(&s, &a, 1, &from, &to) && from == 10 && to == 11);
    assert_true(segments_next(&s, &a, 11, &from, &to) && from == 11 && to == 11);
    assert_false(segments_next(&s, &a, 12, &from, &to));
    assert_true(segments_next(&s, &c, 1, &from, &to) && from == 16 && to == UINT64_MAX);
    assert_true(segments_next(&s, &c, 90, &from, &to) && from == 90 && to == UINT64_MAX);
    assert_true(segments_next(&s, &db, 12, &from, &to) && from == 16);
    assert_false(segments_next(&s, &none, 1, &from, &to));
    assert_true(segments_next(&s, &cluster, 12, &from, &to) && from == 12 && to == 13);
    assert_true(segments_next(&s, &cluster, 14, &from, &to) && from == 16); /* noops: skipped */
    assert_true(segments_next(&s, &whole_oplog, 14, &from, &to) && from == 14 && to == 15);
    segments_fini(&s);
}

static void too_many_names_concern_everything(void **state)
{
    const struct segment_bounds bounds = {.count = 1000};
    const struct scope none = {SCOPE_DATABASE, "none", NULL, false, false, false};
    char ns[32];
    struct segments s;
    uint64_t from, to;

    (void)state;
    segments_init(&s);
    segments_set_bounds(&s, &bounds);
    for (unsigned i = 0; i < SEGMENT_NAMES_MAX; i++) { /* "db" is a name too */
        struct oplog_row row;

        assert_false(segments_next(&s, &none, 1, &from, &to));
        snprintf(ns, sizeof(ns), "db.c%u", i);
        row = insert_row(ns, 10 + i);
        (void)segments_add(&s, &row);
    }
    assert_true(segments_next(&s, &none, 1, &from, &to));
    segments_fini(&s);
}

static void the_hash_never_changes(void **state)
{
    (void)state;
    assert_true(name_hash("") == UINT64_C(0xcbf29ce484222325));
    assert_true(name_hash("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(name_hash("foobar") == UINT64_C(0x85944171f73967e8));
}

/* --- on disk ------------------------------------------------------------------------------- */

static struct oplog_options small_segments(void)
{
    struct oplog_options o = roomy;

    o.max_entries = 1000; /* segments of 100 */
    return o;
}

/* Every third entry goes to db.rare in the first hundred, then none for long. */
static const char *ns_of(int i)
{
    return i < 100 && i % 3 == 0 ? "db.rare" : i == 777 ? "db.rare" : "db.often";
}

/* Writes 900 entries, then dies. */
static void write_and_die(const char *path, const char *fault)
{
    const struct oplog_options o = small_segments();
    struct db d = {.path = strdup(path)};
    struct error err;
    struct op op;

    op_init(&op);
    db_reopen(&d, &o);
    if (fault != NULL && fault_set(fault, &err) != 0)
        _exit(3);
    for (int i = 0; i < 900; i++) {
        put(&d, &op, ns_of(i), i);
        arena_reset(&op.arena);
    }
    await_durable(&d, op.wrote_optime);
    kill(getpid(), SIGKILL);
}

static void check_after_crash(const char *path)
{
    const struct scope rare = {SCOPE_COLLECTION, "db", "db.rare", false, false, false};
    const struct oplog_options o = small_segments();
    char *expected;
    struct oplog_stats st;
    struct op op;
    struct db d = {.path = strdup(path)};

    op_init(&op);
    db_reopen(&d, &o);
    oplog_stats(d.oplog, &st);
    assert_true(st.entries == 903); /* three noops */
    assert_in_range(st.segments, 9, 11);
    expected = arena_strdup(&op.arena, "");
    for (int i = 0; i < 900; i++) {
        if (strcmp(ns_of(i), "db.rare") == 0)
            expected = arena_printf(&op.arena, "%s%s%d", expected, i == 0 ? "" : " ", i);
    }
    assert_string_equal(read_ids(&d, &op, &rare, st.first, false), expected);
    db_close(&d);
    free(d.path);
    op_fini(&op);
}

static void segments_are_rebuilt_after_sigkill(void **state)
{
    static const char *const faults[] = {NULL, "segmentSeal:kill:1", "segmentSeal:kill:5"};

    (void)state;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        char *path = temp_dir();
        pid_t pid = fork();
        int status;

        assert_true(pid >= 0);
        if (pid == 0)
            write_and_die(path, faults[i]);
        assert_true(waitpid(pid, &status, 0) == pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        if (faults[i] == NULL)
            check_after_crash(path);
        else { /* killed at some point: what is there must be counted right */
            const struct oplog_options o = small_segments();
            struct oplog_stats st;
            struct op op;
            struct db d = {.path = path};
            char *ids;
            int64_t n = 0;

            op_init(&op);
            db_reopen(&d, &o);
            oplog_stats(d.oplog, &st);
            ids =
                read_ids(&d, &op, &(struct scope){SCOPE_DATABASE, "db", NULL, false, false, false},
                         st.first, false);
            for (char *p = ids; *p != '\0'; p++)
                n += *p == ' ';
            n += *ids != '\0';
            assert_true(st.entries == n + 3);
            db_close(&d);
            op_fini(&op);
        }
        remove_dir(path);
    }
}

/* A resume far back touches only the segments that hold the name: the others' rows are not read,
 * which shows when they are gone. */
static void a_reader_does_not_touch_other_segments(void **state)
{
    const struct scope rare = {SCOPE_COLLECTION, "db", "db.rare", false, false, false};
    struct oplog_options o = small_segments();
    uint64_t optimes[900], start;
    struct tcursor *c;
    struct stx *t;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    o.hub_bytes = 4096;
    db_open(&d, false, &o);
    start = oplog_allocated(d.oplog) + 1;
    for (int i = 0; i < 900; i++)
        optimes[i] = put(&d, &op, i == 5 || i == 850 ? "db.rare" : "db.often", i);
    await_durable(&d, op.wrote_optime);
    OK(stx_begin(d.engine, &op, &t));
    OK(tcursor_open(t, TABLE_OPLOG, TABLE_OPTIMES, &c));
    for (int i = 300; i < 600; i++) /* bytes that no reader would accept */
        OK(tcursor_put_num(c, optimes[i], str_bytes("damage")));
    tcursor_close(c);
    OK(stx_commit(t));
    assert_string_equal(read_ids(&d, &op, &rare, start, false), "5 850");
    assert_non_null(strstr(read_ids(&d, &op, &whole_oplog, start, false), "error 1"));
    db_remove(&d);
    op_fini(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_is_sealed_at_its_bounds),
        cmocka_unit_test(a_segment_is_sealed_by_age),
        cmocka_unit_test(segments_without_the_name_are_skipped),
        cmocka_unit_test(too_many_names_concern_everything),
        cmocka_unit_test(the_hash_never_changes),
        cmocka_unit_test(segments_are_rebuilt_after_sigkill),
        cmocka_unit_test(a_reader_does_not_touch_other_segments),
    };

    return cmocka_run_group_tests_name("oplog_segments", tests, NULL, NULL);
}
