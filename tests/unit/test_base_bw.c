/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/json_values.h"

static struct arena a;

static int set_up(void **state)
{
    (void)state;
    arena_init(&a);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&a);
    return 0;
}

static void assert_good(struct bv v)
{
    struct error err;

    if (bv_check(v.p, v.len, 256, &err) != 0)
        fail_msg("%s", err.text);
}

static void write_all(struct bw *w)
{
    static const uint8_t oid[12] = {1, 2, 3}, uuid[16] = {9};

    bw_i32(w, "i", -5);
    bw_i64(w, "l", INT64_MIN);
    bw_f64(w, "d", 1.5);
    bw_bool(w, "b", true);
    bw_null(w, "n");
    bw_str(w, "s", "xyz");
    bw_strn(w, "z", "a\0b", 3);
    bw_strn(w, "e", NULL, 0);
    bw_date(w, "t", -1);
    bw_ts(w, "ts", (5ULL << 32) | 6);
    bw_oid(w, "o", oid);
    bw_bin(w, "bin", 5, "abc", 3);
    bw_bin(w, "nobin", 0, NULL, 0);
    bw_uuid(w, "u", uuid);
    bw_arr_begin(w, "a");
    bw_i32(w, NULL, 7);
    bw_doc_begin(w, NULL);
    bw_bv(w, "gone", BV_NONE);
    bw_bv(w, "null", bv_null);
    bw_end(w);
    for (int i = 0; i < 10; i++)
        bw_bool(w, NULL, false);
    bw_end(w);
}

/* The same bytes in an arena and on the heap, as libbson would write them. */
static void test_types(void **state)
{
    struct bw w, heap;
    struct bv doc;
    bson_t *b = bson_new(), child, sub;
    bson_oid_t oid = {{1, 2, 3}};
    static const uint8_t uuid[16] = {9};

    (void)state;
    bw_init(&w, &a);
    write_all(&w);
    doc = bw_done(&w);
    assert_good(doc);
    bw_init(&heap, NULL);
    write_all(&heap);
    assert_true(bv_identical(doc, bw_done(&heap)));
    bw_fini(&heap);

    BSON_APPEND_INT32(b, "i", -5);
    BSON_APPEND_INT64(b, "l", INT64_MIN);
    BSON_APPEND_DOUBLE(b, "d", 1.5);
    BSON_APPEND_BOOL(b, "b", true);
    BSON_APPEND_NULL(b, "n");
    BSON_APPEND_UTF8(b, "s", "xyz");
    bson_append_utf8(b, "z", 1, "a\0b", 3);
    BSON_APPEND_UTF8(b, "e", "");
    BSON_APPEND_DATE_TIME(b, "t", -1);
    BSON_APPEND_TIMESTAMP(b, "ts", 5, 6);
    BSON_APPEND_OID(b, "o", &oid);
    BSON_APPEND_BINARY(b, "bin", BSON_SUBTYPE_MD5, (const uint8_t *)"abc", 3);
    BSON_APPEND_BINARY(b, "nobin", BSON_SUBTYPE_BINARY, uuid, 0);
    BSON_APPEND_BINARY(b, "u", BSON_SUBTYPE_UUID, uuid, 16);
    BSON_APPEND_ARRAY_BEGIN(b, "a", &child);
    BSON_APPEND_INT32(&child, "0", 7);
    BSON_APPEND_DOCUMENT_BEGIN(&child, "1", &sub);
    BSON_APPEND_NULL(&sub, "null");
    bson_append_document_end(&child, &sub);
    for (int i = 2; i < 12; i++) {
        char key[12];

        snprintf(key, sizeof(key), "%d", i);
        bson_append_bool(&child, key, -1, false);
    }
    bson_append_array_end(b, &child);
    assert_int_equal(doc.len, b->len);
    assert_memory_equal(doc.p, bson_get_data(b), doc.len);
    bson_destroy(b);
}

static void test_copying(void **state)
{
    struct bv src = json_doc(&a, "{\"a\": 1, \"b\": [2, {\"c\": 3}]}");
    struct bw w;
    struct bv out;

    (void)state;
    bw_init(&w, &a);
    bw_fields(&w, src);
    bw_arr_begin(&w, "arr");
    bw_fields(&w, src); /* names give way to indexes */
    bw_bvn(&w, "ignored", 3, bv_get(src, "a"));
    bw_end(&w);
    bw_doc_beginn(&w, "docXX", 3);
    bw_bvn(&w, "keyXX", 3, bv_true);
    bw_end(&w);
    bw_fields(&w, bv_null);
    out = bw_done(&w);
    assert_good(out);
    assert_true(bv_identical(
        out, json_doc(&a, "{\"a\": 1, \"b\": [2, {\"c\": 3}], \"arr\": [1, [2, {\"c\": 3}], 1], "
                          "\"doc\": {\"key\": true}}")));
    bw_init_array(&w, &a);
    bw_i32(&w, NULL, 1);
    out = bw_done(&w);
    assert_int_equal(out.type, BV_ARRAY);
    assert_true(bv_identical(out, json_value(&a, "[1]")));
}

static void test_rewind(void **state)
{
    struct bw w;
    struct bw_mark mark;

    (void)state;
    bw_init(&w, &a);
    bw_arr_begin(&w, "a");
    bw_i32(&w, NULL, 1);
    mark = bw_mark(&w);
    bw_i32(&w, NULL, 2);
    bw_doc_begin(&w, NULL);
    bw_i32(&w, "x", 1);
    bw_rewind(&w, mark);
    bw_i32(&w, NULL, 3);
    bw_end(&w);
    assert_true(bv_identical(bw_done(&w), json_doc(&a, "{\"a\": [1, 3]}")));
}

static void test_depth(void **state)
{
    struct bw w;

    (void)state;
    bw_init(&w, &a);
    for (int i = 1; i < BW_DEPTH; i++)
        bw_doc_begin(&w, "a");
    for (int i = 1; i < BW_DEPTH; i++)
        bw_end(&w);
    assert_good(bw_done(&w));

    bw_init(&w, &a);
    for (int i = 0; i < 2 * BW_DEPTH; i++)
        bw_doc_begin(&w, "a");
    for (int i = 0; i < 2 * BW_DEPTH; i++)
        bw_end(&w);
    assert_true(w.failed);
    bw_rewind(&w, bw_mark(&w));
    bw_i32(&w, "a", 1);
    assert_true(bv_is_missing(bw_done(&w)));
}

/* Up to the limit, and one byte more. */
static void test_size(void **state)
{
    const size_t overhead = 4 + 1 + 2 + 5 + 1; /* length, type, "a", binary head, end */
    uint8_t *big = calloc(1, LIMIT_BW_BYTES);

    (void)state;
    assert_non_null(big);
    for (int over = 0; over < 2; over++) {
        struct bw w;
        struct bv doc;

        bw_init(&w, NULL);
        bw_bin(&w, "a", 0, big, LIMIT_BW_BYTES - overhead + (size_t)over);
        doc = bw_done(&w);
        assert_int_equal(w.failed, over);
        assert_int_equal(doc.len, over ? 0 : LIMIT_BW_BYTES);
        if (!over)
            assert_good(doc);
        bw_fini(&w);
    }
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        T(test_types), T(test_copying), T(test_rewind), T(test_depth), T(test_size),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
