/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Streams over an oplog that is an array in memory; pytests/ runs them over the real one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "oplog/reader.h"
#include "oplog/stream.h"
#include "tests/unit/json.h"

/* --- the oplog -------------------------------------------------------------------------------- */

#define ROWS_MAX 64
#define T(i)     (1700000000ULL << 32 | (i))

static struct oplog_row rows[ROWS_MAX];
static size_t nrows;
static uint64_t horizon, oldest;
static bool complete;
static uint64_t waited_after, wait_passed;

struct oplog_reader {
    const struct scope *s;
    size_t at;
};

uint64_t oplog_allocated(struct oplog *o)
{
    (void)o;
    return horizon;
}

uint64_t oplog_oldest(struct oplog *o)
{
    (void)o;
    return oldest;
}

bool oplog_complete(struct oplog *o)
{
    (void)o;
    return complete;
}

int oplog_wait_entry(struct oplog *o, struct op *op, const struct scope *s, uint64_t after)
{
    (void)o;
    (void)op;
    (void)s;
    waited_after = after;
    return INT_PARK;
}

uint64_t oplog_wait_passed(const struct op *op)
{
    (void)op;
    return wait_passed;
}

int oplog_reader_open(struct oplog *o, struct op *op, uint64_t from, const struct scope *s,
                      bool backward, struct oplog_reader **ret)
{
    struct oplog_reader *r;

    (void)o;
    assert_false(backward);
    if (from == 0) /* as the real one has it */
        from = oldest;
    if (from < oldest)
        return op_fail(op, ERR_CAPPED_POSITION_LOST, "lost");
    r = calloc(1, sizeof(*r));
    r->s = s;
    while (r->at < nrows && rows[r->at].optime < from)
        r->at++;
    *ret = r;
    return 0;
}

int oplog_reader_next(struct oplog_reader *r, struct oplog_row *ret, bool *ret_found)
{
    *ret_found = false;
    for (; r->at < nrows && rows[r->at].optime <= horizon; r->at++) {
        if (!scope_matches(r->s, &rows[r->at]))
            continue;
        *ret = rows[r->at++];
        *ret_found = true;
        return 0;
    }
    return 0;
}

uint64_t oplog_reader_position(const struct oplog_reader *r)
{
    (void)r;
    return horizon;
}

uint64_t oplog_reader_horizon(const struct oplog_reader *r)
{
    (void)r;
    return horizon;
}

void oplog_reader_close(struct oplog_reader *r)
{
    free(r);
}

int oplog_get(struct oplog *o, struct op *op, uint64_t optime, struct arena *a, struct bv *ret)
{
    (void)o;
    (void)op;
    (void)a;
    *ret = BV_NONE;
    for (size_t i = 0; i < nrows; i++) {
        if (rows[i].optime == optime && optime >= oldest)
            *ret = rows[i].entry;
    }
    return 0;
}

bool image_expired(struct oplog *o, int64_t wall_ms)
{
    (void)o;
    (void)wall_ms;
    return false;
}

int image_get(struct oplog *o, struct op *op, uint64_t optime, int64_t index, struct arena *a,
              struct bv *ret)
{
    (void)o;
    (void)op;
    (void)optime;
    (void)index;
    (void)a;
    *ret = BV_NONE;
    return 0;
}

/* --- entries and expectations ------------------------------------------------------------------
 */

static struct op op;
static struct stream *stream;
static struct arena scratch;

static int setup(void **state)
{
    (void)state;
    op_init(&op);
    arena_init(&scratch);
    nrows = 0;
    oldest = T(1);
    horizon = T(0);
    complete = false;
    wait_passed = 0;
    stream = NULL;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stream_free(stream);
    arena_fini(&scratch);
    op_fini(&op);
    return 0;
}

#define UUID "{'$binary': {'base64': 'AAECAwQFBgcICQoLDA0ODw==', 'subType': '04'}}"

/* Appends an entry at the next optime: the text goes behind {ts, v, wall}. */
static uint64_t append(const char *fields)
{
    uint64_t t = T(nrows + 1);
    char *text = arena_printf(
        &op.arena,
        "{'ts': {'$timestamp': {'t': 1700000000, 'i': %zu}}, 'wall': {'$date': {'$numberLong': "
        "'1700000000000'}}, %s}",
        nrows + 1, fields);

    assert_true(nrows < ROWS_MAX);
    assert_true(oplog_parse(json(&op.arena, text), &rows[nrows++]));
    horizon = t;
    return t;
}

static uint64_t insert(const char *ns, int id)
{
    return append(arena_printf(
        &op.arena, "'op': 'i', 'ns': '%s', 'ui': " UUID ", 'o': {'_id': %d}, 'o2': {'_id': %d}", ns,
        id, id));
}

static uint64_t drop(const char *db, const char *coll)
{
    return append(arena_printf(
        &op.arena, "'op': 'c', 'ns': '%s.$cmd', 'ui': " UUID ", 'o': {'drop': '%s'}", db, coll));
}

static struct stream_options collection(void)
{
    return (struct stream_options){.scope = {.kind = SCOPE_COLLECTION, .db = "d", .ns = "d.c"},
                                   .token_version = 2};
}

static void open_at(struct stream_options o, uint64_t t)
{
    stream_free(stream);
    o.start = STREAM_FROM_TIME;
    o.start_time = t;
    stream = stream_new(NULL, &o);
}

static void open_behind(struct stream_options o, struct bv token)
{
    struct resume_token *t = ARENA_NEW(&op.arena, struct resume_token);

    stream_free(stream);
    o.start = STREAM_FROM_TOKEN;
    o.resume_doc = bv_dup(&op.arena, token);
    assert_int_equal(token_decode(&op, o.resume_doc, t), 0);
    o.resume = t;
    stream = stream_new(NULL, &o);
}

/* The next event, delivered; *ret_more as from the stream. A batch of its own each time. */
static struct bv next(bool *ret_more)
{
    struct bv e;
    int rc = stream_next(stream, &op, &scratch, &e, ret_more);

    if (rc != 0)
        fail_msg("%d: %s", rc, op.err->text);
    e = bv_dup(&op.arena, e);
    stream_save(stream);
    arena_reset(&scratch);
    if (!bv_is_missing(e))
        assert_true(stream_delivered(stream, bv_get(e, "_id")));
    return e;
}

/* Takes the next event and returns its token. */
static struct bv expect(const char *type, int id)
{
    bool more;
    struct bv e = next(&more);
    int64_t got = -1;

    assert_true(more);
    if (!bv_str_is(bv_get(e, "operationType"), type))
        fail_msg("want %s %d, got %s", type, id, bv_show(&op.arena, e, 300));
    (void)bv_to_i64(bv_path(e, "documentKey._id"), &got);
    assert_int_equal(got, id);
    assert_true(bv_identical(bv_get(e, "_id"), stream_token(stream, &op.arena)));
    return bv_get(e, "_id");
}

static void expect_nothing(void)
{
    bool more;

    assert_true(bv_is_missing(next(&more)));
    assert_true(more);
}

static void expect_end(void)
{
    bool more;

    assert_true(bv_is_missing(next(&more)));
    assert_false(more);
}

static void expect_error(int code)
{
    struct bv e;
    bool more;

    assert_int_equal(stream_next(stream, &op, &scratch, &e, &more), code);
    assert_int_equal(op.err->code, code);
    assert_int_equal((op.err->labels & LABEL_NON_RESUMABLE_CHANGE_STREAM) != 0,
                     code == ERR_CHANGE_STREAM_FATAL || code == ERR_CHANGE_STREAM_HISTORY_LOST);
}

static void expect_mark(uint64_t t)
{
    assert_true(
        bv_identical(stream_token(stream, &op.arena), token_high_water_mark(&op.arena, t, 2)));
}

/* --- tests -------------------------------------------------------------------------------------
 */

static void starts_behind_now(void **state)
{
    struct stream_options o = collection();

    (void)state;
    insert("d.c", 1);
    stream = stream_new(NULL, &o);
    expect_mark(T(2));
    expect_nothing();
    expect_mark(T(2));
    insert("d.c", 2);
    expect("insert", 2);
    expect_nothing();
}

static void start_time_is_inclusive(void **state)
{
    (void)state;
    insert("d.c", 1);
    insert("d.c", 2);
    open_at(collection(), T(2));
    expect_mark(T(2));
    expect("insert", 2);
    expect_nothing();
    open_at(collection(), T(9));
    expect_nothing();
    expect_mark(T(9)); /* in the future: the token stays */
}

static void token_moves_over_what_is_not_shown(void **state)
{
    struct bv token;

    (void)state;
    open_at(collection(), T(1));
    insert("d.c", 1);
    token = expect("insert", 1);
    insert("d.x", 2);
    insert("e.c", 3);
    assert_true(bv_identical(token, stream_token(stream, &op.arena)));
    expect_nothing();
    expect_mark(T(3));
    assert_int_equal(stream_wait(stream, &op), INT_PARK);
    assert_int_equal(waited_after, T(3));
}

static void a_wait_moves_the_position(void **state)
{
    (void)state;
    open_at(collection(), T(1));
    insert("d.x", 1);
    expect_nothing();
    assert_int_equal(stream_wait(stream, &op), INT_PARK);
    insert("d.x", 2);
    insert("d.x", 3);
    wait_passed = T(3);
    oldest = T(4); /* entries passed while waiting need not be there any more */
    expect_nothing();
    expect_mark(T(3));
    /* only the call behind a wait takes it */
    wait_passed = T(7);
    expect_nothing();
    expect_mark(T(3));
}

static void resumes_behind_a_token(void **state)
{
    struct bv one, two;

    (void)state;
    insert("d.c", 1);
    insert("d.c", 2);
    insert("d.c", 3);
    open_at(collection(), T(1));
    one = expect("insert", 1);
    two = expect("insert", 2);
    open_behind(collection(), one);
    assert_true(bv_identical(one, stream_token(stream, &op.arena)));
    expect("insert", 2);
    open_behind(collection(), two);
    expect("insert", 3);
    expect_nothing();
    /* events at the time of a high-water mark are behind it */
    open_behind(collection(), token_high_water_mark(&op.arena, T(3), 2));
    expect("insert", 3);
}

static void resumes_with_a_version_1_token(void **state)
{
    struct stream_options v1 = collection();
    struct bv one;

    (void)state;
    insert("d.c", 1);
    insert("d.c", 2);
    v1.token_version = 1;
    open_at(v1, T(1));
    one = expect("insert", 1);
    open_behind(collection(), one);
    assert_true(bv_identical(one, stream_token(stream, &op.arena)));
    expect("insert", 2);
    insert("d.x", 3);
    expect_nothing();
    expect_mark(T(3));
}

static void another_collections_token_is_not_found(void **state)
{
    struct stream_options database = collection();
    struct bv foreign;

    (void)state;
    database.scope = (struct scope){.kind = SCOPE_DATABASE, .db = "d"};
    insert("d.x", 1);
    open_at(database, T(1));
    foreign = expect("insert", 1);
    open_behind(collection(), foreign);
    expect_error(ERR_CHANGE_STREAM_FATAL);
    assert_non_null(strstr(op.err->text, "the resume token was not found. { _data: \"82"));
    insert("d.c", 2);
    open_behind(collection(), foreign);
    expect_error(ERR_CHANGE_STREAM_FATAL);
}

static void lost_history(void **state)
{
    (void)state;
    for (int i = 1; i <= 5; i++)
        insert("d.c", i);
    oldest = T(4);
    open_at(collection(), T(3));
    expect_error(ERR_CHANGE_STREAM_HISTORY_LOST);
    open_at(collection(), 0);
    expect_error(ERR_CHANGE_STREAM_HISTORY_LOST);
    open_at(collection(), T(4));
    expect("insert", 4);
    oldest = T(6);
    expect_error(ERR_CAPPED_POSITION_LOST);
    /* nothing was ever removed: a start before the first entry is legal */
    oldest = T(2);
    complete = true;
    open_at(collection(), T(0));
    expect("insert", 2);
}

static void a_drop_invalidates_its_collection(void **state)
{
    struct bv dropped, invalidated;

    (void)state;
    insert("d.c", 1);
    drop("d", "x");
    drop("d", "c");
    insert("d.c", 2);
    open_at(collection(), T(1));
    expect("insert", 1);
    dropped = expect("drop", -1);
    invalidated = expect("invalidate", -1);
    expect_end();
    assert_true(bv_identical(invalidated, stream_token(stream, &op.arena)));
    expect_end();
    /* behind the drop comes the invalidate, once more */
    open_behind(collection(), dropped);
    assert_true(bv_identical(expect("invalidate", -1), invalidated));
    expect_end();
    /* behind the invalidate a new life; the next drop ends that, too */
    drop("d", "c");
    open_behind(collection(), invalidated);
    expect("insert", 2);
    expect("drop", -1);
    expect("invalidate", -1);
    expect_end();
}

static void what_invalidates_which_scope(void **state)
{
    struct stream_options database = collection(), cluster = collection(), coll = collection();

    (void)state;
    database.scope = (struct scope){.kind = SCOPE_DATABASE, .db = "d"};
    cluster.scope = (struct scope){.kind = SCOPE_CLUSTER};
    drop("d", "c");
    append("'op': 'c', 'ns': 'd.$cmd', 'ui': " UUID
           ", 'o': {'renameCollection': 'd.a', 'to': 'd.b', 'stayTemp': false}");
    append("'op': 'c', 'ns': 'd.$cmd', 'o': {'dropDatabase': 1}");
    open_at(database, T(1));
    expect("drop", -1);
    expect("rename", -1);
    expect("dropDatabase", -1);
    expect("invalidate", -1);
    expect_end();
    open_at(cluster, T(1));
    expect("drop", -1);
    expect("rename", -1);
    expect("dropDatabase", -1);
    expect_nothing();
    for (int target = 0; target < 2; target++) {
        coll.scope.ns = target ? "d.b" : "d.a";
        open_at(coll, T(1));
        expect("rename", -1);
        expect("invalidate", -1);
        expect_end();
    }
}

static void migrated_entries_are_shown_on_demand(void **state)
{
    struct stream_options o = collection();

    (void)state;
    append("'op': 'i', 'ns': 'd.c', 'ui': " UUID
           ", 'o': {'_id': 1}, 'o2': {'_id': 1}, 'fromMigrate': true");
    append("'op': 'c', 'ns': 'd.$cmd', 'ui': " UUID ", 'o': {'drop': 'c'}, 'fromMigrate': true");
    insert("d.c", 2);
    open_at(o, T(1));
    expect("insert", 2);
    expect_nothing();
    o.scope.migration = true;
    open_at(o, T(1));
    expect("insert", 1);
    expect("drop", -1);
    expect("invalidate", -1);
    expect_end();
}

static bool accept_none(void *arg, struct op *o, const struct event *e)
{
    (void)o;
    (void)e;
    ++*(int *)arg;
    return false;
}

static void a_filter_hides_events_but_not_the_end(void **state)
{
    struct stream_options o = collection();
    int asked = 0;
    struct bv one;

    (void)state;
    insert("d.c", 1);
    insert("d.c", 2);
    open_at(o, T(1));
    one = expect("insert", 1);
    o.accept = accept_none;
    o.accept_arg = &asked;
    /* the resume point need not pass the filter */
    open_behind(o, one);
    expect_nothing();
    expect_mark(T(2));
    assert_int_equal(asked, 1);
    drop("d", "c");
    expect("invalidate", -1);
    expect_end();
}

#define INNER(ns, id)                                                                              \
    "{'op': 'i', 'ns': '" ns "', 'ui': " UUID ", 'o': {'_id': " id "}, 'o2': {'_id': " id "}}"
#define SESSION "'lsid': {'id': 1}, 'txnNumber': {'$numberLong': '4'}, "
#define PREV(i) "'prevOpTime': {'ts': {'$timestamp': {'t': 1700000000, 'i': " i "}}}"
#define FIRST   "'prevOpTime': {'ts': {'$timestamp': {'t': 0, 'i': 0}}}"

static void transactions_are_taken_apart(void **state)
{
    struct bv tokens[3], e;
    struct resume_token t;
    bool more;

    (void)state;
    append(SESSION
           "'op': 'c', 'ns': 'admin.$cmd', 'o': {'applyOps': [" INNER("d.c", "1") ", " INNER(
               "d.x", "2") ", " INNER("d.c", "3") ", " INNER("d.c", "4") "]}, " FIRST);
    insert("d.c", 5);
    open_at(collection(), T(1));
    /* each in a batch of its own: the place within the transaction is kept */
    e = next(&more);
    assert_int_equal(bv_i64(bv_get(e, "txnNumber")), 4);
    assert_true(bv_identical(bv_get(e, "lsid"), json(&op.arena, "{'id': 1}")));
    assert_int_equal(bv_ts(bv_get(e, "clusterTime")), T(1));
    tokens[0] = bv_get(e, "_id");
    tokens[1] = expect("insert", 3);
    tokens[2] = expect("insert", 4);
    for (int i = 0; i < 3; i++) {
        static const int index[] = {0, 2, 3};

        assert_int_equal(token_decode(&op, tokens[i], &t), 0);
        assert_int_equal(t.txn_op_index, index[i]);
    }
    e = next(&more);
    assert_true(bv_is_missing(bv_get(e, "lsid")));
    open_behind(collection(), tokens[0]);
    expect("insert", 3);
    open_behind(collection(), tokens[2]);
    expect("insert", 5);
    expect_nothing();
}

static void a_chain_is_shown_with_its_last_entry(void **state)
{
    struct bv e;
    bool more;
    struct resume_token t;

    (void)state;
    append(SESSION "'op': 'c', 'ns': 'admin.$cmd', 'o': {'applyOps': [" INNER(
        "d.c", "1") "], 'partialTxn': true}, " FIRST);
    insert("d.c", 9);
    append(SESSION "'op': 'c', 'ns': 'admin.$cmd', 'o': {'applyOps': [" INNER(
        "d.x", "2") ", " INNER("d.c", "3") "], 'count': 3}, " PREV("1"));
    open_at(collection(), T(1));
    expect("insert", 9);
    expect("insert", 1);
    e = next(&more);
    assert_int_equal(bv_ts(bv_get(e, "clusterTime")), T(3));
    assert_int_equal(token_decode(&op, bv_get(e, "_id"), &t), 0);
    assert_int_equal(t.txn_op_index, 2);
    expect_nothing();
    oldest = T(2);
    open_at(collection(), T(3));
    expect_error(ERR_CHANGE_STREAM_HISTORY_LOST);
}

static void batched_writes_are_no_transaction(void **state)
{
    struct bv e;
    bool more;

    (void)state;
    append("'op': 'c', 'ns': 'admin.$cmd', 'o': {'applyOps': [" INNER("d.c", "1") "]}");
    append(SESSION "'op': 'c', 'ns': 'admin.$cmd', 'multiOpType': 1, 'o': {'applyOps': [" INNER(
        "d.c", "2") "]}, " PREV("77"));
    open_at(collection(), T(1));
    for (int i = 1; i <= 2; i++) {
        e = next(&more);
        assert_int_equal(bv_i32(bv_path(e, "documentKey._id")), i);
        assert_true(bv_is_missing(bv_get(e, "txnNumber")));
        assert_true(bv_is_missing(bv_get(e, "lsid")));
    }
    expect_nothing();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(starts_behind_now, setup, teardown),
        cmocka_unit_test_setup_teardown(start_time_is_inclusive, setup, teardown),
        cmocka_unit_test_setup_teardown(token_moves_over_what_is_not_shown, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wait_moves_the_position, setup, teardown),
        cmocka_unit_test_setup_teardown(resumes_behind_a_token, setup, teardown),
        cmocka_unit_test_setup_teardown(resumes_with_a_version_1_token, setup, teardown),
        cmocka_unit_test_setup_teardown(another_collections_token_is_not_found, setup, teardown),
        cmocka_unit_test_setup_teardown(lost_history, setup, teardown),
        cmocka_unit_test_setup_teardown(a_drop_invalidates_its_collection, setup, teardown),
        cmocka_unit_test_setup_teardown(what_invalidates_which_scope, setup, teardown),
        cmocka_unit_test_setup_teardown(migrated_entries_are_shown_on_demand, setup, teardown),
        cmocka_unit_test_setup_teardown(a_filter_hides_events_but_not_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(transactions_are_taken_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(a_chain_is_shown_with_its_last_entry, setup, teardown),
        cmocka_unit_test_setup_teardown(batched_writes_are_no_transaction, setup, teardown),
    };

    return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
