/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libmongoc as a client: connecting, writing, reading, watching. The server's address comes in the
 * environment variable RUNNEL_URI; pytests/clients/test_mongoc.py starts both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion" /* libbson's inline functions */
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <mongoc/mongoc.h>
#pragma GCC diagnostic pop

struct fixture {
    mongoc_client_t *client;
    mongoc_collection_t *coll;
};

#define assert_ok(call, err)                                                                       \
    do {                                                                                           \
        if (!(call))                                                                               \
            fail_msg("%s: %s", #call, (err).message);                                              \
    } while (0)

static int setup(void **state)
{
    const char *uri = getenv("RUNNEL_URI");
    struct fixture *f = calloc(1, sizeof *f);

    if (uri == NULL || f == NULL)
        return -1;
    f->client = mongoc_client_new(uri);
    if (f->client == NULL)
        return -1;
    mongoc_client_set_error_api(f->client, 2);
    f->coll = mongoc_client_get_collection(f->client, "mongoc_basic", "c");
    mongoc_collection_drop(f->coll, NULL);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    mongoc_collection_destroy(f->coll);
    mongoc_client_destroy(f->client);
    free(f);
    return 0;
}

static void insert(struct fixture *f, int id)
{
    bson_t *doc = BCON_NEW("_id", BCON_INT32(id), "s", BCON_UTF8("text"));
    bson_error_t err;

    assert_ok(mongoc_collection_insert_one(f->coll, doc, NULL, NULL, &err), err);
    bson_destroy(doc);
}

static void test_hello(void **state)
{
    struct fixture *f = *state;
    bson_t *cmd = BCON_NEW("hello", BCON_INT32(1)), reply;
    bson_error_t err;
    bson_iter_t it;

    assert_ok(mongoc_client_command_simple(f->client, "admin", cmd, NULL, &reply, &err), err);
    assert_true(bson_iter_init_find(&it, &reply, "isWritablePrimary") && bson_iter_bool(&it));
    assert_true(bson_iter_init_find(&it, &reply, "setName"));
    assert_string_equal(bson_iter_utf8(&it, NULL), "rs0");
    bson_destroy(&reply);
    bson_destroy(cmd);
}

static void test_write_and_read(void **state)
{
    struct fixture *f = *state;
    bson_t *filter = BCON_NEW("_id", "{", "$gte", BCON_INT32(3), "}");
    bson_t *opts = BCON_NEW("sort", "{", "_id", BCON_INT32(-1), "}", "batchSize", BCON_INT32(2));
    mongoc_cursor_t *cursor;
    const bson_t *doc;
    bson_error_t err;
    bson_iter_t it;
    int expected = 9;

    for (int i = 0; i < 10; i++)
        insert(f, i);
    cursor = mongoc_collection_find_with_opts(f->coll, filter, opts, NULL);
    while (mongoc_cursor_next(cursor, &doc)) {
        assert_true(bson_iter_init_find(&it, doc, "_id"));
        assert_int_equal(bson_iter_int32(&it), expected--);
    }
    assert_false(mongoc_cursor_error(cursor, &err));
    assert_int_equal(expected, 2);
    mongoc_cursor_destroy(cursor);
    bson_destroy(opts);
    bson_destroy(filter);
}

static void test_duplicate_key(void **state)
{
    struct fixture *f = *state;
    bson_t *doc = BCON_NEW("_id", BCON_INT32(1));
    bson_error_t err;

    insert(f, 1);
    assert_false(mongoc_collection_insert_one(f->coll, doc, NULL, NULL, &err));
    assert_int_equal(err.code, 11000);
    bson_destroy(doc);
}

static void test_unknown_command(void **state)
{
    struct fixture *f = *state;
    bson_t *cmd = BCON_NEW("frobnicate", BCON_INT32(1));
    bson_error_t err;

    assert_false(mongoc_client_command_simple(f->client, "admin", cmd, NULL, NULL, &err));
    assert_int_equal(err.code, 59);
    bson_destroy(cmd);
}

static const bson_t *next_event(mongoc_change_stream_t *stream)
{
    const bson_t *event, *failed;
    bson_error_t err;

    for (int i = 0; i < 100; i++) { /* each waits maxAwaitTimeMS */
        if (mongoc_change_stream_next(stream, &event))
            return event;
        if (mongoc_change_stream_error_document(stream, &err, &failed))
            fail_msg("change stream: %s", err.message);
    }
    fail_msg("no event");
    return NULL;
}

static void assert_insert_of(const bson_t *event, int id)
{
    bson_iter_t it, sub;

    assert_true(bson_iter_init_find(&it, event, "operationType"));
    assert_string_equal(bson_iter_utf8(&it, NULL), "insert");
    assert_true(bson_iter_init(&it, event));
    assert_true(bson_iter_find_descendant(&it, "documentKey._id", &sub));
    assert_int_equal(bson_iter_int32(&sub), id);
}

static void test_watch_and_resume(void **state)
{
    struct fixture *f = *state;
    bson_t *none = bson_new(), *opts = BCON_NEW("maxAwaitTimeMS", BCON_INT32(200)), again;
    mongoc_change_stream_t *stream = mongoc_collection_watch(f->coll, none, opts);
    const bson_t *event;

    assert_false(mongoc_change_stream_next(stream, &event)); /* opens it */
    insert(f, 1);
    insert(f, 2);
    assert_insert_of(next_event(stream), 1);
    bson_copy_to(opts, &again);
    BSON_APPEND_DOCUMENT(&again, "resumeAfter", mongoc_change_stream_get_resume_token(stream));
    assert_insert_of(next_event(stream), 2);
    mongoc_change_stream_destroy(stream);

    stream = mongoc_collection_watch(f->coll, none, &again);
    assert_insert_of(next_event(stream), 2);
    mongoc_change_stream_destroy(stream);
    bson_destroy(&again);
    bson_destroy(opts);
    bson_destroy(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hello, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write_and_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_duplicate_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_command, setup, teardown),
        cmocka_unit_test_setup_teardown(test_watch_and_resume, setup, teardown),
    };
    int failed;

    mongoc_init();
    failed = cmocka_run_group_tests_name("libmongoc", tests, NULL, NULL);
    mongoc_cleanup();
    return failed;
}
