/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "oplog/event.h"
#include "oplog/reader.h"
#include "tests/unit/json.h"

#define UUID   "{'$binary': {'base64': 'AAECAwQFBgcICQoLDA0ODw==', 'subType': '04'}}"
#define UUID2  "{'$binary': {'base64': 'EBESExQVFhcYGRobHB0eHw==', 'subType': '04'}}"
#define TS     "{'$timestamp': {'t': 1700000000, 'i': 3}}"
#define WALL   "{'$date': {'$numberLong': '1700000000123'}}"
#define OPTIME (1700000000ULL << 32 | 3)
#define ENTRY(op, ns, o, more)                                                                     \
    "{'op': '" op "', 'ns': '" ns "', 'ui': " UUID ", 'o': " o ", " more "'ts': " TS               \
    ", 't': {'$numberLong': '1'}, 'v': {'$numberLong': '2'}, 'wall': " WALL "}"
#define HEAD(type)     "'_id': {'_data': 'T'}, 'operationType': '" type "', 'clusterTime': " TS ", "
#define PLAIN(type)    HEAD(type) "'wallTime': " WALL ", "
#define EXPANDED(type) HEAD(type) "'collectionUUID': " UUID ", 'wallTime': " WALL ", "
#define NS             "'ns': {'db': 'd', 'coll': 'c'}"

static struct op op;
static struct bv stored_image; /* what the fake image table holds for (OPTIME, 0) */

/* The image table. */
int image_get(struct oplog *o, struct op *p, uint64_t optime, int64_t index, struct arena *a,
              struct bv *ret)
{
    (void)o;
    (void)p;
    (void)a;
    *ret = optime == OPTIME && index == 0 ? stored_image : BV_NONE;
    return 0;
}

static int setup(void **state)
{
    (void)state;
    op_init(&op);
    stored_image = BV_NONE;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    op_fini(&op);
    return 0;
}

static struct change change_of(const char *entry)
{
    struct change c = {.image_optime = OPTIME};

    assert_true(oplog_parse(json(&op.arena, entry), &c.row));
    return c;
}

static struct event open_event(struct change *c)
{
    struct event e;
    bool found;

    assert_int_equal(event_open(&op, &op.arena, c, &e, &found), 0);
    assert_true(found);
    return e;
}

static int build(const char *entry, const struct event_options *opts, struct bv *ret)
{
    struct change c = change_of(entry);
    struct event e = open_event(&c);

    return event_build(&op, &op.arena, NULL, &e, opts, json(&op.arena, "{'_data': 'T'}"), ret);
}

static void expect(const char *entry, const struct event_options *opts, const char *want)
{
    struct bv got, w = json(&op.arena, want);

    assert_int_equal(build(entry, opts, &got), 0);
    if (!bv_identical(got, w))
        fail_msg("\nwant %s\n got %s", bv_show(&op.arena, w, 2000), bv_show(&op.arena, got, 2000));
}

static const struct event_options plain, expanded = {.expanded = true};

static void crud_events(void **state)
{
    (void)state;
    expect(ENTRY("i", "d.c", "{'_id': 1, 'x': 2}", "'o2': {'_id': 1}, "), &plain,
           "{" PLAIN("insert") "'fullDocument': {'_id': 1, 'x': 2}, " NS
                               ", 'documentKey': {'_id': 1}}");
    /* entries of others may lack o2 */
    expect(ENTRY("i", "d.c", "{'_id': 1, 'x': 2}", ""), &expanded,
           "{" EXPANDED("insert") "'fullDocument': {'_id': 1, 'x': 2}, " NS
                                  ", 'documentKey': {'_id': 1}}");
    expect(ENTRY("u", "d.c", "{'_id': 1, 'x': 3}", "'o2': {'_id': 1}, "), &plain,
           "{" PLAIN("replace") "'fullDocument': {'_id': 1, 'x': 3}, " NS
                                ", 'documentKey': {'_id': 1}}");
    expect(ENTRY("u", "d.c", "{'$v': 2, 'diff': {'u': {'x': 3}, 'd': {'y': false}}}",
                 "'o2': {'_id': 1}, "),
           &plain,
           "{" PLAIN("update") NS ", 'documentKey': {'_id': 1}, 'updateDescription': "
                                  "{'updatedFields': {'x': 3}, 'removedFields': ['y'], "
                                  "'truncatedArrays': []}}");
    expect(ENTRY("u", "d.c", "{'$v': 2, 'diff': {'u': {'x': 3}}}", "'o2': {'_id': 1}, "), &expanded,
           "{" EXPANDED("update") NS
           ", 'documentKey': {'_id': 1}, 'updateDescription': {'updatedFields': {'x': 3}, "
           "'removedFields': [], 'truncatedArrays': [], 'disambiguatedPaths': {}}}");
    expect(ENTRY("d", "d.c", "{'_id': 1}", ""), &plain,
           "{" PLAIN("delete") NS ", 'documentKey': {'_id': 1}}");
    /* a collection's name may have dots */
    expect(ENTRY("d", "d.c.e", "{'_id': 1}", ""), &plain,
           "{" PLAIN("delete") "'ns': {'db': 'd', 'coll': 'c.e'}, 'documentKey': {'_id': 1}}");
}

static void raw_update_description(void **state)
{
    struct event_options opts = {.raw_update = true};

    (void)state;
    expect(ENTRY("u", "d.c", "{'$v': 2, 'diff': {'u': {'x': 3}}}", "'o2': {'_id': 1}, "), &opts,
           "{" PLAIN("update") NS ", 'documentKey': {'_id': 1}, 'rawUpdateDescription': {'$v': 2, "
                                  "'diff': {'u': {'x': 3}}}}");
}

static void ddl_events(void **state)
{
    const char *rename = ENTRY("c", "d.$cmd",
                               "{'renameCollection': 'd.c', 'to': 'e.f', 'stayTemp': false, "
                               "'dropTarget': " UUID2 "}",
                               "");

    (void)state;
    expect(ENTRY("c", "d.$cmd", "{'drop': 'c'}", "'o2': {'numRecords': 1}, "), &plain,
           "{" PLAIN("drop") NS "}");
    expect(ENTRY("c", "d.$cmd", "{'drop': 'c'}", ""), &expanded, "{" EXPANDED("drop") NS "}");
    expect(rename, &plain, "{'to': {'db': 'e', 'coll': 'f'}, " PLAIN("rename") NS "}");
    expect(rename, &expanded,
           "{'to': {'db': 'e', 'coll': 'f'}, " EXPANDED("rename") NS
           ", 'operationDescription': {'to': {'db': 'e', 'coll': 'f'}, 'dropTarget': " UUID2 "}}");
    expect("{'op': 'c', 'ns': 'd.$cmd', 'o': {'dropDatabase': 1}, 'ts': " TS ", 'wall': " WALL "}",
           &expanded, "{" PLAIN("dropDatabase") "'ns': {'db': 'd'}}");
}

static void expanded_events(void **state)
{
    (void)state;
    expect(ENTRY("c", "d.$cmd", "{'create': 'c', 'idIndex': {'v': 2}}", ""), &expanded,
           "{" EXPANDED("create") NS ", 'operationDescription': {'idIndex': {'v': 2}}}");
    expect(ENTRY("c", "d.$cmd", "{'collMod': 'c', 'index': {'name': 'a_1', 'hidden': true}}",
                 "'o2': {'collectionOptions_old': {'uuid': 1}, 'indexOptions_old': {'hidden': "
                 "false}}, "),
           &expanded,
           "{" EXPANDED("modify") NS
           ", 'operationDescription': {'index': {'name': 'a_1', 'hidden': true}}, "
           "'stateBeforeChange': {'collectionOptions': {'uuid': 1}, 'indexOptions': {'hidden': "
           "false}}}");
    expect(
        ENTRY("c", "d.$cmd", "{'createIndexes': 'c', 'v': 2, 'key': {'a': 1}, 'name': 'a_1'}", ""),
        &expanded,
        "{" EXPANDED("createIndexes") NS ", 'operationDescription': {'indexes': [{'v': 2, "
                                         "'key': {'a': 1}, 'name': 'a_1'}]}}");
    expect(ENTRY("c", "d.$cmd", "{'commitIndexBuild': 'c', 'indexes': [{'v': 2}, {'v': 3}]}", ""),
           &expanded,
           "{" EXPANDED("createIndexes") NS
           ", 'operationDescription': {'indexes': [{'v': 2}, {'v': 3}]}}");
    expect(ENTRY("c", "d.$cmd", "{'dropIndexes': 'c', 'index': 'a_1'}",
                 "'o2': {'v': 2, 'name': 'a_1'}, "),
           &expanded,
           "{" EXPANDED("dropIndexes") NS ", 'operationDescription': {'indexes': [{'v': 2, "
                                          "'name': 'a_1'}]}}");
}

static void view_events(void **state)
{
    (void)state;
    expect(ENTRY("i", "d.system.views", "{'_id': 'd.c', 'viewOn': 'b', 'pipeline': []}", ""),
           &expanded,
           "{" PLAIN("create") NS ", 'operationDescription': {'viewOn': 'b', 'pipeline': []}}");
    expect(ENTRY("u", "d.system.views", "{'_id': 'd.c', 'viewOn': 'x', 'pipeline': []}",
                 "'o2': {'_id': 'd.c'}, "),
           &expanded,
           "{" PLAIN("modify") NS ", 'operationDescription': {'viewOn': 'x', 'pipeline': []}}");
    expect(ENTRY("d", "d.system.views", "{'_id': 'd.c'}", ""), &expanded, "{" PLAIN("drop") NS "}");
}

static void changes_in_transactions_carry_their_session(void **state)
{
    struct change c = change_of(ENTRY("d", "d.c", "{'_id': 1}", ""));
    struct event e;
    struct bv got, want;

    (void)state;
    c.in_txn = true;
    c.row.txn_number = 7;
    c.row.lsid = json(&op.arena, "{'id': 1}");
    e = open_event(&c);
    assert_int_equal(
        event_build(&op, &op.arena, NULL, &e, &plain, json(&op.arena, "{'_data': 'T'}"), &got), 0);
    want = json(&op.arena, "{'txnNumber': {'$numberLong': '7'}, 'lsid': {'id': 1}, " PLAIN("delete")
                               NS ", 'documentKey': {'_id': 1}}");
    assert_true(bv_identical(got, want));
}

#define UPDATE ENTRY("u", "d.c", "{'$v': 2, 'diff': {'u': {'x': 3}}}", "'o2': {'_id': 1}, ")
#define UPDATE_TAIL                                                                                \
    ", 'documentKey': {'_id': 1}, 'updateDescription': {'updatedFields': {'x': 3}, "               \
    "'removedFields': [], 'truncatedArrays': []}"

static void images_are_those_of_the_event(void **state)
{
    struct event_options opts = {.full = FULL_WHEN_AVAILABLE, .before = BEFORE_WHEN_AVAILABLE};

    (void)state;
    expect(UPDATE, &opts,
           "{" PLAIN("update") "'fullDocument': null, " NS UPDATE_TAIL
                               ", 'fullDocumentBeforeChange': null}");
    stored_image = json(&op.arena, "{'_id': 1, 'x': 2, 'y': 5}");
    for (int required = 0; required < 2; required++) {
        opts.full = required ? FULL_REQUIRED : FULL_WHEN_AVAILABLE;
        opts.before = required ? BEFORE_REQUIRED : BEFORE_WHEN_AVAILABLE;
        expect(UPDATE, &opts,
               "{" PLAIN("update") "'fullDocument': {'_id': 1, 'x': 3, 'y': 5}, " NS UPDATE_TAIL
                                   ", 'fullDocumentBeforeChange': {'_id': 1, 'x': 2, 'y': 5}}");
        expect(ENTRY("d", "d.c", "{'_id': 1}", ""), &opts,
               "{" PLAIN("delete") NS ", 'documentKey': {'_id': 1}, 'fullDocumentBeforeChange': "
                                      "{'_id': 1, 'x': 2, 'y': 5}}");
        expect(ENTRY("i", "d.c", "{'_id': 1}", ""), &opts,
               "{" PLAIN("insert") "'fullDocument': {'_id': 1}, " NS
                                   ", 'documentKey': {'_id': 1}}");
    }
}

static void missing_required_images_are_errors(void **state)
{
    struct event_options opts = {.before = BEFORE_REQUIRED};
    struct bv got;

    (void)state;
    assert_int_equal(build(ENTRY("d", "d.c", "{'_id': 1}", ""), &opts, &got), 47);
    assert_string_equal(
        op.err->text,
        "Change stream was configured to require a pre-image for all update, delete and replace "
        "events, but the pre-image was not found for event: { operationType: \"delete\", ns: { db: "
        "\"d\", coll: \"c\" }, clusterTime: Timestamp(1700000000, 3) }");
    opts = (struct event_options){.full = FULL_REQUIRED};
    assert_int_equal(build(UPDATE, &opts, &got), 47);
    assert_non_null(strstr(op.err->text, "require a post-image for all update events"));
    /* replacements carry theirs in the entry */
    assert_int_equal(build(ENTRY("u", "d.c", "{'_id': 1}", "'o2': {'_id': 1}, "), &opts, &got), 0);
}

static int lookup_nothing(void *arg, struct op *o, struct arena *a, const struct event *e,
                          struct bv *ret)
{
    (void)o;
    (void)a;
    (void)e;
    ++*(int *)arg;
    *ret = BV_NONE;
    return 0;
}

static void update_lookup_is_for_updates_only(void **state)
{
    int calls = 0;
    struct event_options opts = {
        .full = FULL_UPDATE_LOOKUP, .lookup = lookup_nothing, .lookup_arg = &calls};

    (void)state;
    expect(UPDATE, &opts, "{" PLAIN("update") "'fullDocument': null, " NS UPDATE_TAIL "}");
    assert_int_equal(calls, 1);
    expect(ENTRY("d", "d.c", "{'_id': 1}", ""), &opts,
           "{" PLAIN("delete") NS ", 'documentKey': {'_id': 1}}");
    assert_int_equal(calls, 1);
}

static void unknown_changes(void **state)
{
    struct change c = change_of(ENTRY("u", "d.c", "{'$v': 1, '$set': {'a': 1}}", ""));
    struct event e;
    bool found;

    (void)state;
    assert_int_equal(event_open(&op, &op.arena, &c, &e, &found), 6741200);
    c = change_of(ENTRY("c", "d.$cmd", "{'startIndexBuild': 'c'}", ""));
    assert_int_equal(event_open(&op, &op.arena, &c, &e, &found), 0);
    assert_false(found);
    c = change_of(ENTRY("n", "", "{'msg': 'periodic noop'}", ""));
    assert_int_equal(event_open(&op, &op.arena, &c, &e, &found), 0);
    assert_false(found);
}

static void expect_identifier(const char *entry, int32_t version, const char *want)
{
    struct change c = change_of(entry);
    struct event e = open_event(&c);
    struct resume_token t;

    event_token(&e, &op.arena, version, false, &t);
    assert_int_equal(t.cluster_time, OPTIME);
    assert_int_equal(t.type, TOKEN_EVENT);
    assert_int_equal(t.version, version);
    if (want == NULL)
        assert_true(bv_is_missing(t.event_id));
    else
        assert_true(bv_identical(t.event_id, json(&op.arena, want)));
}

static void tokens_name_the_event(void **state)
{
    const char *insert = ENTRY("i", "d.c", "{'_id': 1, 'x': 2}", "'o2': {'_id': 1}, ");
    const char *drop = ENTRY("c", "d.$cmd", "{'drop': 'c'}", "");
    struct change c = change_of(insert);
    struct event e = open_event(&c);
    struct resume_token t;

    (void)state;
    expect_identifier(insert, 2, "{'operationType': 'insert', 'documentKey': {'_id': 1}}");
    expect_identifier(insert, 1, "{'_id': 1}");
    expect_identifier(drop, 2, "{'operationType': 'drop'}");
    expect_identifier(drop, 1, NULL);
    expect_identifier(
        ENTRY("c", "d.$cmd", "{'renameCollection': 'd.c', 'to': 'd.f', 'stayTemp': false}", ""), 2,
        "{'operationType': 'rename', 'operationDescription': {'to': {'db': 'd', "
        "'coll': 'f'}}}");
    expect_identifier(ENTRY("c", "d.$cmd", "{'create': 'c', 'idIndex': {'v': 2}}", ""), 1,
                      "{'operationType': 'create', 'operationDescription': {'idIndex': {'v': "
                      "2}}}");
    c.txn_op_index = 5;
    event_token(&e, &op.arena, 2, true, &t);
    assert_int_equal(t.txn_op_index, 5);
    assert_true(t.from_invalidate);
    assert_true(t.has_uuid);
    assert_int_equal(t.uuid[15], 15);
    c = change_of(ENTRY("d", "d.system.views", "{'_id': 'd.c'}", ""));
    e = open_event(&c);
    event_token(&e, &op.arena, 2, false, &t);
    assert_false(t.has_uuid);
}

static void fields_at_hand_are_those_of_the_event(void **state)
{
    static const char *const entries[] = {
        ENTRY("i", "d.c", "{'_id': 1, 'x': 2}", "'o2': {'_id': 1}, "),
        UPDATE,
        ENTRY("u", "d.c", "{'_id': 1, 'x': 3}", "'o2': {'_id': 1}, "),
        ENTRY("d", "d.c", "{'_id': 1}", ""),
        ENTRY("c", "d.$cmd", "{'dropDatabase': 1}", ""),
        ENTRY("c", "d.$cmd", "{'collMod': 'c', 'index': {'name': 'a_1'}}",
              "'o2': {'collectionOptions_old': {'uuid': 1}}, "),
        ENTRY("i", "d.system.views", "{'_id': 'd.v', 'viewOn': 'c', 'pipeline': []}", ""),
        ENTRY("c", "d.$cmd", "{'renameCollection': 'd.c', 'to': 'e.f'}", "")};
    static const char *const names[] = {"to",
                                        "txnNumber",
                                        "lsid",
                                        "_id",
                                        "operationType",
                                        "clusterTime",
                                        "wallTime",
                                        "fullDocument",
                                        "collectionUUID",
                                        "ns",
                                        "documentKey",
                                        "operationDescription",
                                        "splitEvent",
                                        "",
                                        "updateDescription",
                                        "rawUpdateDescription",
                                        "stateBeforeChange",
                                        "fullDocumentBeforeChange"};
    size_t hidden = 0;

    (void)state;
    stored_image = json(&op.arena, "{'_id': 1, 'x': 1, 'y': 1}");
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]) * 32; i++) {
        struct event_options opts = {.expanded = i % 2 != 0,
                                     .raw_update = i / 2 % 2 != 0,
                                     .full = i / 4 % 2 ? FULL_WHEN_AVAILABLE : FULL_DEFAULT,
                                     .before = i / 8 % 2 ? BEFORE_REQUIRED : BEFORE_OFF};
        struct change c = change_of(entries[i / 32]);
        struct event_fields f = {.opts = &opts, .op = &op, .arena = &op.arena};
        struct event e;
        struct bv whole, v;

        c.in_txn = i / 16 % 2 != 0;
        c.row.lsid = json(&op.arena, "{'id': 1}");
        e = open_event(&c);
        f.e = &e;
        assert_int_equal(
            event_build(&op, &op.arena, NULL, &e, &opts, json(&op.arena, "{'_data': 'T'}"), &whole),
            0);
        for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
            for (int again = 0; again < 2; again++) {
                if (!event_field(&f, names[n], &v))
                    hidden++;
                else if (!bv_identical(v, bv_get(whole, names[n])))
                    fail_msg("%s of %s", names[n], bv_show(&op.arena, whole, 1000));
            }
        }
    }
    /* _id always; of updates the document, of three types the document before */
    assert_int_equal(hidden, 2 * (8 * 32 + 16 + 3 * 16));
    assert_false(event_field_ever("_id"));
    assert_true(event_field_ever("fullDocumentBeforeChange"));
    assert_true(event_field_ever("x"));
}

static void a_malformed_diff_is_not_at_hand(void **state)
{
    struct event_options opts = {.expanded = false};
    struct change c = change_of(
        ENTRY("u", "d.c", "{'$v': 2, 'diff': {'sa': {'a': true, 'x': 1}}}", "'o2': {'_id': 1}, "));
    struct event e = open_event(&c);
    struct event_fields f = {.e = &e, .opts = &opts, .op = &op, .arena = &op.arena};
    struct bv v;

    (void)state;
    assert_false(event_field(&f, "updateDescription", &v));
    assert_int_equal(op.err->code, 0);
}

static void invalidate_events_are_short(void **state)
{
    struct bv got =
        event_build_invalidate(&op.arena, OPTIME, 1700000000123, json(&op.arena, "{'_data': 'T'}"));

    (void)state;
    assert_true(bv_identical(got, json(&op.arena, "{'_id': {'_data': 'T'}, 'operationType': "
                                                  "'invalidate', 'clusterTime': " TS
                                                  ", 'wallTime': " WALL "}")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(crud_events, setup, teardown),
        cmocka_unit_test_setup_teardown(raw_update_description, setup, teardown),
        cmocka_unit_test_setup_teardown(ddl_events, setup, teardown),
        cmocka_unit_test_setup_teardown(expanded_events, setup, teardown),
        cmocka_unit_test_setup_teardown(view_events, setup, teardown),
        cmocka_unit_test_setup_teardown(changes_in_transactions_carry_their_session, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(images_are_those_of_the_event, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_required_images_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(update_lookup_is_for_updates_only, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown_changes, setup, teardown),
        cmocka_unit_test_setup_teardown(tokens_name_the_event, setup, teardown),
        cmocka_unit_test_setup_teardown(fields_at_hand_are_those_of_the_event, setup, teardown),
        cmocka_unit_test_setup_teardown(a_malformed_diff_is_not_at_hand, setup, teardown),
        cmocka_unit_test_setup_teardown(invalidate_events_are_short, setup, teardown),
    };

    return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}
