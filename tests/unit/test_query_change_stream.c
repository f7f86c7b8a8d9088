/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The $changeStream stage: its options and their errors, what is pushed down, and the cursor over a
 * real oplog in memory. */
#include "tests/unit/oplog_util.h"

#include "base/limits.h"
#include "query/change_stream_internal.h"
#include "storage/catalog_write.h"
#include "storage/record_write.h"
#include "tests/unit/json.h"

static struct op op;
static struct arena arena;
static struct db store;
static struct database database;
static struct exec x;
static struct qcursor *cursor;

static void open_database(bool hidden)
{
    struct oplog_options o = roomy;
    struct error err;

    o.hidden = hidden;
    db_open(&store, true, &o);
    OK(catalog_open(store.engine, &err, &database.catalog));
    database.engine = store.engine;
    database.oplog = store.oplog;
}

static void close_database(void)
{
    catalog_close(database.catalog);
    db_remove(&store);
}

static int setup(void **state)
{
    (void)state;
    op_init(&op);
    arena_init(&arena);
    op.database = &database;
    open_database(false);
    exec_init(&x, &op);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (cursor != NULL)
        cursor->ops->save(cursor, &x);
    qcursor_free(cursor);
    cursor = NULL;
    exec_fini(&x);
    close_database();
    arena_fini(&arena);
    op_fini(&op);
    return 0;
}

static int parse_on(const char *db, const char *coll, const char *level, const char *options,
                    struct stream_options *ret)
{
    char *text = arena_printf(&op.arena, "[{'$changeStream': %s}]", options);
    struct bv pipeline = json(&op.arena, text);
    struct change_stream_args args = {.db = db, .coll = coll, .read_level = level};

    pipeline.type = BV_ARRAY;
    args.pipeline = pipeline;
    return change_stream_parse(&op, &args, false, &arena, ret);
}

static void expect_on(const char *db, const char *coll, const char *options, int code)
{
    struct stream_options o;
    int rc = parse_on(db, coll, NULL, options, &o);

    if (rc != code)
        fail_msg("%s: %d (%s), not %d", options, rc, rc == 0 ? "" : op.err->text, code);
}

static void expect(const char *options, int code)
{
    expect_on("d", "c", options, code);
}

#define UUID       "5A1004000102030405060708090A0B0C0D0E0F"
#define IDENTIFIER "463C6F7065726174696F6E54797065003C64726F700000"
#define MARK       "{'_data': '826A8C8E64000000012B0429296E1404'}"
#define EVENT      "{'_data': '826A8C8E64000000012B042C0100296E" UUID IDENTIFIER "04'}"
#define INVALIDATE "{'_data': '826A8C8E64000000012B042C0100296F" UUID IDENTIFIER "04'}"
#define NO_UUID    "{'_data': '826A8C8E64000000012B042C0100296E14" IDENTIFIER "04'}"
#define FRAGMENT   "{'_data': '826A8C8E64000000012B042C0100296E" UUID IDENTIFIER "2B0204'}"
#define TIME       "{'$timestamp': {'t': 1700000000, 'i': 3}}"

static void wrong_options_have_their_codes(void **state)
{
    (void)state;
    expect("1", 6188500);
    expect("[]", 6188500);
    expect("{'x': 1}", 40415);
    expect("{'showExpandedEvents': true, 'showExpandedEvents': true}", 40413);
    expect("{'fullDocument': 1}", 14);
    expect("{'resumeAfter': 'x'}", 14);
    expect("{'startAtOperationTime': 1}", 14);
    expect("{'fullDocument': 'x'}", 2);
    assert_string_equal(op.err->text,
                        "Enumeration value 'x' for field '$changeStream.fullDocument' "
                        "is not a valid value.");
    expect("{'fullDocument': 'off'}", 2);
    expect("{'fullDocumentBeforeChange': 'updateLookup'}", 2);
    expect("{'resumeAfter': {}}", 40647);
    expect("{'startAfter': {'_data': 1}}", 40647);
    expect("{'resumeAfter': {'_data': '82', '_typeBits': 1}}", 40648);
    expect("{'resumeAfter': " MARK ", 'startAfter': " MARK "}", 50865);
    expect("{'resumeAfter': {'_data': 'zz'}}", 9);
    expect("{'resumeAfter': {'_data': '826A8C8E640000000104'}}", 50796);
    expect("{'resumeAfter': " MARK ", 'startAtOperationTime': " TIME "}", 40674);
    expect("{'resumeAfter': " INVALIDATE "}", 260);
    expect("{'startAfter': " INVALIDATE "}", 0);
    expect("{'resumeAfter': " NO_UUID "}", 260);
    expect_on("d", NULL, "{'resumeAfter': " NO_UUID "}", 0);
    expect("{'resumeAfter': " FRAGMENT "}", 280);
    assert_true((op.err->labels & LABEL_NON_RESUMABLE_CHANGE_STREAM) != 0);
}

static void namespaces_that_have_no_streams(void **state)
{
    (void)state;
    expect_on("local", "c", "{}", 73);
    expect_on("admin", NULL, "{}", 73);
    assert_string_equal(op.err->text,
                        "$changeStream may not be opened on the internal admin database");
    expect_on("config", "c", "{}", 73);
    expect_on("config", "c", "{'allowToRunOnConfigDB': true}", 0);
    expect("{}", 0);
    expect_on("d", "system.users", "{}", 73);
    assert_string_equal(
        op.err->text, "$changeStream may not be opened on the internal d.system.users collection");
    expect_on("d", "systemusers", "{}", 0);
    expect_on("d", "system_users", "{}", 0);
    expect_on("admin", NULL, "{'allChangesForCluster': true}", 0);
    expect_on("admin", "c", "{'allChangesForCluster': true}", 72);
    expect_on("d", NULL, "{'allChangesForCluster': 1}", 72);
    assert_non_null(strstr(op.err->text, "found d.$cmd.aggregate"));
}

static void earlier_reasons_win(void **state)
{
    (void)state;
    /* options before namespaces before tokens */
    expect_on("local", NULL, "{'x': 1}", 40415);
    expect_on("local", NULL, "{'resumeAfter': {}}", 40647);
    expect_on("local", NULL, "{'resumeAfter': {'_data': 'zz'}}", 73);
    expect("{'resumeAfter': " INVALIDATE ", 'startAtOperationTime': " TIME "}", 40674);
    close_database();
    open_database(true);
    expect_on("local", NULL, "{}", 40573);
    expect("{'x': 1}", 40415);
}

static void read_concern_is_majority(void **state)
{
    struct stream_options o;

    (void)state;
    assert_int_equal(parse_on("d", "c", "local", "{}", &o), 72);
    assert_int_equal(parse_on("d", "c", "majority", "{}", &o), 0);
}

static void options_reach_the_stream(void **state)
{
    struct stream_options o, o2;

    (void)state;
    assert_int_equal(parse_on("d", "c", NULL, "{}", &o), 0);
    assert_int_equal(o.scope.kind, SCOPE_COLLECTION);
    assert_string_equal(o.scope.ns, "d.c");
    assert_int_equal(o.start, STREAM_FROM_NOW);
    assert_int_equal(o.event.full, FULL_DEFAULT);
    assert_int_equal(o.event.before, BEFORE_OFF);
    assert_int_equal(o.token_version, 2);
    assert_int_equal(parse_on("d", "c", NULL,
                              "{'resumeAfter': null, 'startAfter': null, 'startAtOperationTime': "
                              "null, 'fullDocument': null}",
                              &o),
                     0);
    assert_int_equal(o.start, STREAM_FROM_NOW);
    assert_int_equal(
        parse_on("d", NULL, NULL,
                 "{'fullDocument': 'required', 'fullDocumentBeforeChange': "
                 "'whenAvailable', 'showExpandedEvents': 1, 'startAtOperationTime': " TIME "}",
                 &o),
        0);
    assert_int_equal(o.scope.kind, SCOPE_DATABASE);
    assert_string_equal(o.scope.db, "d");
    assert_true(o.scope.expanded && o.event.expanded);
    assert_false(o.scope.migration);
    assert_int_equal(parse_on("d", "c", NULL, "{'showMigrationEvents': true}", &o2), 0);
    assert_true(o2.scope.migration);
    assert_int_equal(o.event.full, FULL_REQUIRED);
    assert_int_equal(o.event.before, BEFORE_WHEN_AVAILABLE);
    assert_int_equal(o.start, STREAM_FROM_TIME);
    assert_int_equal(o.start_time, 1700000000ULL << 32 | 3);
    assert_int_equal(parse_on("admin", NULL, NULL,
                              "{'allChangesForCluster': true, 'resumeAfter': " EVENT "}", &o),
                     0);
    assert_int_equal(o.scope.kind, SCOPE_CLUSTER);
    assert_int_equal(o.start, STREAM_FROM_TOKEN);
    assert_int_equal(o.resume->type, TOKEN_EVENT);
    assert_true(bv_identical(o.resume_doc, json(&arena, EVENT)));
}

static int stage_code(const char *stages)
{
    struct pipeline_ctx ctx = {.db = "d", .coll = "c", .change_stream = true};
    struct bv list = json(&op.arena, stages);
    struct pipeline p;

    list.type = BV_ARRAY;
    return pipeline_parse(&op, &arena, list, &ctx, &p);
}

static void only_some_stages_may_follow(void **state)
{
    static const char *const refused[] = {
        "$group",  "$sort",        "$skip",  "$limit",      "$sample",    "$unwind",
        "$lookup", "$bucket",      "$facet", "$bucketAuto", "$count",     "$out",
        "$merge",  "$graphLookup", "$fill",  "$densify",    "$unionWith", "$setWindowFields"};

    (void)state;
    assert_int_equal(stage_code("[{'$match': {}}, {'$project': {'a': 1}}, {'$set': {'a': 1}}, "
                                "{'$addFields': {'a': 1}}, {'$unset': 'a'}, {'$replaceRoot': "
                                "{'newRoot': '$x'}}, {'$replaceWith': '$x'}]"),
                     0);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const char *arg = strcmp(refused[i], "$unwind") == 0  ? "'$a'"
                          : strcmp(refused[i], "$count") == 0 ? "'a'"
                          : strcmp(refused[i], "$sort") == 0  ? "{'a': 1}"
                          : strcmp(refused[i], "$group") == 0 ? "{'_id': 1}"
                                                              : "1";
        int rc = stage_code(arena_printf(&op.arena, "[{'%s': %s}]", refused[i], arg));

        if (rc != ERR_ILLEGAL_OPERATION)
            fail_msg("%s: %d", refused[i], rc);
    }
    /* an error in a later stage wins */
    assert_int_equal(stage_code("[{'$limit': 1}, {'$nonsense': 1}]"), 40324);
    assert_int_equal(stage_code("[{'$match': {}}, {'$changeStream': {}}]"), 40602);
    /* its place is the end, where it is taken off before */
    assert_int_equal(stage_code("[{'$changeStreamSplitLargeEvent': {}}]"), 7182802);
}

/* What explain shows of the stages, as text. */
static const char *pushed(const char *stages)
{
    struct pipeline_ctx ctx = {.db = "d", .coll = "c", .change_stream = true};
    struct bv list = json(&op.arena, stages);
    struct pushed_filter f;
    struct pipeline p;
    struct bw w;

    list.type = BV_ARRAY;
    assert_int_equal(pipeline_parse(&op, &arena, list, &ctx, &p), 0);
    pushed_filter_init(&f, &arena, &p);
    bw_init(&w, &op.arena);
    pushed_filter_explain(&f, &op.arena, &w);
    return bv_show(&op.arena, bw_done(&w), 1000);
}

static void expect_pushed(const char *stages, const char *parts)
{
    const char *want =
        parts[0] == '\0'
            ? "{}"
            : bv_show(&op.arena,
                      json(&op.arena, arena_printf(&op.arena, "{'pushedDown': [%s]}", parts)),
                      1000);
    const char *got = pushed(stages);

    if (strcmp(want, got) != 0)
        fail_msg("%s\nwant %s\n got %s", stages, want, got);
}

static void what_can_be_told_of_entries_is_pushed_down(void **state)
{
    (void)state;
    expect_pushed("[{'$match': {'operationType': 'insert', '_id.x': 1, 'fullDocument.x': 2}}]",
                  "{'operationType': {'$eq': 'insert'}}, {'fullDocument.x': {'$eq': 2}}");
    expect_pushed("[{'$match': {}}]", "");
    expect_pushed("[{'$match': {'_id': 1}}]", "");
    /* all of an $or must be able to fail */
    expect_pushed("[{'$match': {'$or': [{'to': 1}, {'_id': 1}]}}]", "");
    expect_pushed("[{'$match': {'$nor': [{'to': 1}, {'_id': 1}]}}]",
                  "{'$nor': [{'to': {'$eq': 1}}, {'_id': {'$eq': 1}}]}");
    /* stages that follow each other are one filter */
    expect_pushed("[{'$match': {'ns.coll': 'c'}}, {'$match': {'$expr': {'$eq': ['$to', 1]}}}]",
                  "{'ns.coll': {'$eq': 'c'}}, {'$expr': {'$eq': ['$to', 1]}}");
    expect_pushed("[{'$set': {'x': 1}}, {'$match': {'ns.coll': 'c'}}]", "");
    /* behind what may fail nothing is tested */
    expect_pushed("[{'$match': {'$expr': '$$ROOT.x', 'ns.db': 'd'}}]",
                  "{'$expr': '$$ROOT.x'}, {'ns.db': {'$eq': 'd'}}");
    expect_pushed(
        "[{'$match': {'ns.db': 'd'}}, {'$match': {'$expr': '$$ROOT'}}, {'$match': {'to': 1}}]",
        "{'ns.db': {'$eq': 'd'}}");
    expect_pushed("[{'$match': {'$expr': {'$lt': [{'$rand': {}}, 2]}}}, {'$match': {'to': 1}}]",
                  "");
}

/* --- the cursor --------------------------------------------------------------------------------
 */

static int open_stream(const char *pipeline)
{
    struct change_stream_args args = {.db = "d", .coll = "c"};

    args.pipeline = json(&op.arena, pipeline);
    args.pipeline.type = BV_ARRAY;
    qcursor_free(cursor);
    cursor = NULL;
    return change_stream_open(&op, &args, &cursor);
}

/* A batch of at most one event, delivered. */
static int next_event(struct bv *ret)
{
    bool more;
    int rc = cursor->ops->next(cursor, &x, ret, &more);

    if (rc == 0) {
        *ret = bv_dup(&op.arena, *ret);
        if (!bv_is_missing(*ret))
            rc = cursor->ops->delivered(cursor, &op, *ret);
    }
    cursor->ops->save(cursor, &x);
    stx_rollback(x.stx);
    x.stx = NULL;
    arena_reset(&x.scratch);
    return rc;
}

static struct bv expect_event(const char *type)
{
    struct bv e;

    OK(next_event(&e));
    if (!bv_str_is(bv_get(e, "operationType"), type))
        fail_msg("want %s, got %s", type, bv_show(&op.arena, e, 300));
    return e;
}

static void expect_none(void)
{
    struct bv e;

    OK(next_event(&e));
    assert_true(bv_is_missing(e));
    assert_false(cursor->invalidated);
}

static void expect_failure(int code)
{
    struct bv e;

    assert_int_equal(next_event(&e), code);
    assert_int_equal(op.err->code, code);
}

static void write_entry(char kind, const char *ns, struct bv o, struct bv o2, struct bv image)
{
    struct oplog_op e = {.op = kind,
                         .ns = ns,
                         .uuid = test_uuid,
                         .o = o,
                         .o2 = o2,
                         .pre_image = image,
                         .stmt_id = -1};
    uint64_t first;
    struct stx *t;

    OK(stx_begin(store.engine, &op, &t));
    OK(oplog_commit(store.oplog, &op, t, &e, 1, NULL, NULL, &first));
}

static void write_json(char kind, const char *ns, const char *o, const char *o2, const char *image)
{
    write_entry(kind, ns, json(&op.arena, o), o2 == NULL ? BV_NONE : json(&op.arena, o2),
                image == NULL ? BV_NONE : json(&op.arena, image));
}

static void events_come_through_the_stages(void **state)
{
    struct bv e, token;

    (void)state;
    OK(open_stream("[{'$changeStream': {}}, {'$match': {'fullDocument.x': 2}}, {'$set': {'y': "
                   "'$fullDocument.x'}}]"));
    assert_string_equal(cursor->ns, "d.c");
    token = cursor->ops->resume_token(cursor, &op.arena);
    expect_none();
    write_json('i', "d.c", "{'_id': 1, 'x': 1}", "{'_id': 1}", NULL);
    write_json('i', "d.c", "{'_id': 2, 'x': 2}", "{'_id': 2}", NULL);
    e = expect_event("insert");
    assert_int_equal(bv_i32(bv_get(e, "y")), 2);
    assert_false(bv_identical(token, cursor->ops->resume_token(cursor, &op.arena)));
    assert_true(bv_identical(bv_get(e, "_id"), cursor->ops->resume_token(cursor, &op.arena)));
    expect_none();
}

static void a_waiting_stream_is_woken_by_its_own_events(void **state)
{
    struct parked p;
    struct op writer;

    (void)state;
    OK(open_stream("[{'$changeStream': {}}]"));
    expect_none();
    parked_init(&p);
    op_init(&writer);
    x.op = &p.op;
    assert_int_equal(cursor->ops->wait(cursor, &x), INT_PARK);
    put(&store, &writer, "d.x", 1);
    assert_int_equal(parked_wakes(&p), 0);
    put(&store, &writer, "d.c", 2);
    assert_true(parked_wait(&p));
    expect_event("insert");
    x.op = &op;
    parked_fini(&p);
    op_fini(&writer);
}

static void a_changed_id_is_fatal(void **state)
{
    static const char *const bad[] = {"{'$project': {'_id': 0}}", "{'$set': {'_id': 1}}",
                                      "{'$replaceRoot': {'newRoot': '$fullDocument'}}",
                                      "{'$unset': '_id'}", "{'$project': {'_id': 'x'}}"};
    static const char *const good[] = {
        "{'$project': {'fullDocument': 0}}", "{'$unset': 'fullDocument'}",
        "{'$set': {'operationType': 'insert'}}", "{'$project': {'operationType': 1}}"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        OK(open_stream(arena_printf(&op.arena, "[{'$changeStream': {}}, %s]", bad[i])));
        write_json('i', "d.c", "{'_id': 1}", "{'_id': 1}", NULL);
        expect_failure(ERR_CHANGE_STREAM_FATAL);
        assert_true((op.err->labels & LABEL_NON_RESUMABLE_CHANGE_STREAM) != 0);
        assert_non_null(strstr(op.err->text, "Expected: { _id: { _data: \"82"));
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        OK(open_stream(arena_printf(&op.arena, "[{'$changeStream': {}}, %s]", good[i])));
        write_json('i', "d.c", "{'_id': 1}", "{'_id': 1}", NULL);
        expect_event("insert");
    }
}

#define DIFF "{'$v': 2, 'diff': {'u': {'x': 2}}}"

static void images_come_from_the_write(void **state)
{
    struct bv e;

    (void)state;
    OK(open_stream("[{'$changeStream': {'fullDocument': 'required', 'fullDocumentBeforeChange': "
                   "'required'}}]"));
    write_json('u', "d.c", DIFF, "{'_id': 1}", "{'_id': 1, 'x': 1}");
    write_json('d', "d.c", "{'_id': 1}", NULL, NULL);
    e = expect_event("update");
    assert_true(bv_identical(bv_get(e, "fullDocument"), json(&op.arena, "{'_id': 1, 'x': 2}")));
    assert_true(
        bv_identical(bv_get(e, "fullDocumentBeforeChange"), json(&op.arena, "{'_id': 1, 'x': 1}")));
    expect_failure(ERR_NO_MATCHING_DOCUMENT);
}

static void what_a_filter_drops_needs_no_image(void **state)
{
    (void)state;
    OK(open_stream("[{'$changeStream': {'fullDocumentBeforeChange': 'required'}}, {'$match': "
                   "{'operationType': 'insert'}}]"));
    write_json('d', "d.c", "{'_id': 1}", NULL, NULL);
    write_json('i', "d.c", "{'_id': 2}", "{'_id': 2}", NULL);
    expect_event("insert");
}

static void make_coll(const char *ns, const uint8_t uuid[16], const char *doc)
{
    struct coll *k = coll_new(database.catalog, ns, uuid, bv_empty_doc);
    struct stx *t;
    int64_t rid;

    OK(engine_table_create(store.engine, k->ident, TABLE_RECORDS, true, op.err));
    OK(engine_table_create(store.engine, k->indexes[0].ident, TABLE_BYTES, true, op.err));
    OK(stx_begin(store.engine, &op, &t));
    OK(catalog_put_row(t, k));
    OK(record_insert(t, k, json(&op.arena, doc), &rid));
    OK(stx_commit(t));
    catalog_publish(database.catalog, NULL, k, 0);
}

static void update_lookup_reads_the_present(void **state)
{
    static const uint8_t other_uuid[16] = {7};
    struct coll *old;

    (void)state;
    OK(open_stream("[{'$changeStream': {'fullDocument': 'updateLookup'}}]"));
    write_json('u', "d.c", DIFF, "{'_id': 1}", NULL);
    assert_int_equal(bv_get(expect_event("update"), "fullDocument").type, BV_NULL);
    assert_int_equal(op.ack_flush, 0);
    make_coll("d.c", test_uuid, "{'_id': 1, 'x': 9}");
    write_json('u', "d.c", DIFF, "{'_id': 1}", NULL);
    write_json('u', "d.c", DIFF, "{'_id': 2}", NULL);
    assert_true(bv_identical(bv_get(expect_event("update"), "fullDocument"),
                             json(&op.arena, "{'_id': 1, 'x': 9}")));
    assert_int_equal(bv_get(expect_event("update"), "fullDocument").type, BV_NULL);
    /* a collection made anew under the old name is another one */
    old = catalog_get(database.catalog, "d.c");
    catalog_publish(database.catalog, old, NULL, 0);
    coll_unref(old);
    make_coll("d.c", other_uuid, "{'_id': 1, 'x': 10}");
    write_json('u', "d.c", DIFF, "{'_id': 1}", NULL);
    assert_int_equal(bv_get(expect_event("update"), "fullDocument").type, BV_NULL);
}

static void an_invalidated_cursor_ends(void **state)
{
    struct bv e;

    (void)state;
    OK(open_stream("[{'$changeStream': {}}]"));
    write_json('c', "d.$cmd", "{'drop': 'c'}", NULL, NULL);
    expect_event("drop");
    e = expect_event("invalidate");
    assert_false(cursor->invalidated);
    assert_int_equal(cursor->ops->wait(cursor, &x), 0);
    assert_true(bv_identical(bv_get(e, "_id"), cursor->ops->resume_token(cursor, &op.arena)));
    OK(next_event(&e));
    assert_true(bv_is_missing(e));
    assert_true(cursor->invalidated);
}

/* {name: binary of n bytes, all alike, _id: 1} */
static struct bv large_doc(const char *name, size_t n, char byte)
{
    char *data = malloc(n);
    struct bw w;

    assert_non_null(data);
    memset(data, byte, n);
    bw_init(&w, &op.arena);
    bw_i32(&w, "_id", 1);
    bw_bin(&w, name, 0, data, n);
    free(data);
    return bw_done(&w);
}

/* An update whose event has three fields of 10 MB. */
static void write_large_update(void)
{
    struct bv before = large_doc("v", 10 << 20, 'a'), after = large_doc("v", 10 << 20, 'b');
    struct bw w;

    bw_init(&w, &op.arena);
    bw_i32(&w, "$v", 2);
    bw_doc_begin(&w, "diff");
    bw_doc_begin(&w, "u");
    bw_bv(&w, "v", bv_get(after, "v"));
    bw_end(&w);
    bw_end(&w);
    write_entry('u', "d.c", bw_done(&w), json(&op.arena, "{'_id': 1}"), before);
}

#define LARGE                                                                                      \
    "[{'$changeStream': {'fullDocument': 'required', 'fullDocumentBeforeChange': "                 \
    "'required'%s}}%s]"
#define SPLIT ", {'$changeStreamSplitLargeEvent': {}}"

static void large_events_are_split_on_demand(void **state)
{
    static const char *const fields[] = {"fullDocument", "fullDocumentBeforeChange",
                                         "updateDescription"};
    struct change_stream_stats stats;
    struct bv e[3], token;
    size_t seen = 0;

    (void)state;
    OK(open_stream(arena_printf(&op.arena, LARGE, "", "")));
    token = cursor->ops->resume_token(cursor, &op.arena);
    write_large_update();
    expect_failure(ERR_BSON_TOO_LARGE);
    assert_non_null(strstr(op.err->text, "Size must be between 0 and 16793600(16MB)"));
    change_stream_stats(&stats);
    assert_int_equal(stats.large_failed, 1);

    OK(open_stream(arena_printf(&op.arena, LARGE,
                                arena_printf(&op.arena, ", 'resumeAfter': {'_data': '%s'}",
                                             bv_str(bv_get(token, "_data"), NULL)),
                                SPLIT)));
    for (int i = 0; i < 3; i++) {
        struct bv split;

        OK(next_event(&e[i]));
        split = bv_get(e[i], "splitEvent");
        assert_int_equal(bv_i32(bv_get(split, "fragment")), i + 1);
        assert_int_equal(bv_i32(bv_get(split, "of")), 3);
        assert_true(e[i].len <= LIMIT_INTERNAL_BYTES);
        for (size_t f = 0; f < 3; f++)
            seen += !bv_is_missing(bv_get(e[i], fields[f]));
    }
    assert_int_equal(seen, 3);
    /* by size: the small fields come first */
    assert_true(bv_str_is(bv_get(e[0], "operationType"), "update"));
    expect_none();
    change_stream_stats(&stats);
    assert_int_equal(stats.large_split, 1);

    /* from the middle of the event */
    token = bv_get(e[0], "_id");
    OK(open_stream(arena_printf(&op.arena, LARGE,
                                arena_printf(&op.arena, ", 'startAfter': {'_data': '%s'}",
                                             bv_str(bv_get(token, "_data"), NULL)),
                                SPLIT)));
    for (int i = 1; i < 3; i++) {
        struct bv again;

        OK(next_event(&again));
        assert_true(bv_identical(again, e[i]));
    }
    expect_none();

    /* an event that is not split any more has no such place */
    OK(open_stream(arena_printf(&op.arena,
                                "[{'$changeStream': {'resumeAfter': {'_data': '%s'}}}" SPLIT "]",
                                bv_str(bv_get(token, "_data"), NULL))));
    expect_failure(ERR_CHANGE_STREAM_FATAL);
    assert_int_equal(
        open_stream(arena_printf(&op.arena, "[{'$changeStream': {'resumeAfter': {'_data': '%s'}}}]",
                                 bv_str(bv_get(token, "_data"), NULL))),
        ERR_CHANGE_STREAM_FATAL);
}

static void small_events_are_never_split(void **state)
{
    struct bv e;

    (void)state;
    OK(open_stream("[{'$changeStream': {}}" SPLIT "]"));
    write_json('i', "d.c", "{'_id': 1}", "{'_id': 1}", NULL);
    e = expect_event("insert");
    assert_true(bv_is_missing(bv_get(e, "splitEvent")));
    assert_int_equal(open_stream("[{'$changeStream': {}}, {'$changeStreamSplitLargeEvent': 1}]"),
                     7182800);
    assert_int_equal(open_stream("[{'$changeStream': {}}" SPLIT ", {'$match': {}}]"), 7182802);
    assert_int_equal(open_stream("[{'$changeStream': {}}" SPLIT SPLIT "]"), 7182802);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wrong_options_have_their_codes, setup, teardown),
        cmocka_unit_test_setup_teardown(namespaces_that_have_no_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(earlier_reasons_win, setup, teardown),
        cmocka_unit_test_setup_teardown(read_concern_is_majority, setup, teardown),
        cmocka_unit_test_setup_teardown(options_reach_the_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(only_some_stages_may_follow, setup, teardown),
        cmocka_unit_test_setup_teardown(what_can_be_told_of_entries_is_pushed_down, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(events_come_through_the_stages, setup, teardown),
        cmocka_unit_test_setup_teardown(a_waiting_stream_is_woken_by_its_own_events, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_changed_id_is_fatal, setup, teardown),
        cmocka_unit_test_setup_teardown(images_come_from_the_write, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_filter_drops_needs_no_image, setup, teardown),
        cmocka_unit_test_setup_teardown(update_lookup_reads_the_present, setup, teardown),
        cmocka_unit_test_setup_teardown(an_invalidated_cursor_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(large_events_are_split_on_demand, setup, teardown),
        cmocka_unit_test_setup_teardown(small_events_are_never_split, setup, teardown),
    };

    return cmocka_run_group_tests_name("change_stream", tests, NULL, NULL);
}
