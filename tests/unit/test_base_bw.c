/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The BSON writer: bytes, array indexes, nesting to its bound, marks, failing for good. */
#include "base/bw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void test_bytes(void **state)
{
    static const uint8_t want[] = {0x17, 0, 0, 0, 0x10, 'n', 0,    1,   0, 0, 0, 0x04,
                                   'l',  0, 8, 0, 0,    0,   0x0A, '0', 0, 0, 0};
    struct bw w;
    struct bv doc;

    (void)state;
    bw_init(&w, NULL);
    bw_i32(&w, "n", 1);
    bw_arr_begin(&w, "l");
    bw_null(&w, NULL);
    bw_end(&w);
    doc = bw_done(&w);
    assert_int_equal(doc.type, BV_DOC);
    assert_int_equal(doc.len, sizeof(want));
    assert_memory_equal(doc.p, want, sizeof(want));
    bw_fini(&w);
}

static void test_array_indexes(void **state)
{
    struct bw w;
    struct biter it;
    struct belem e;
    int32_t i = 0;

    (void)state;
    bw_init_array(&w, NULL);
    for (int32_t x = 0; x < 12345; x++)
        bw_i32(&w, NULL, x);
    for (it = biter(bw_done(&w)); biter_next(&it, &e); i++) {
        char key[16];

        snprintf(key, sizeof(key), "%d", i);
        assert_string_equal(e.key, key);
        assert_int_equal(bv_i32(e.v), i);
    }
    assert_int_equal(i, 12345);
    bw_fini(&w);
}

/* Arrays within arrays to the bound: the indexes of outer levels are kept. */
static void check_depth(struct arena *a, int depth, bool fits)
{
    struct bw w;
    struct bv v;
    struct error err;

    bw_init(&w, a);
    for (int i = 1; i < depth; i++) {
        bw_arr_begin(&w, "a");
        bw_i32(&w, NULL, i);
    }
    for (int i = 1; i < depth; i++) {
        bw_i32(&w, NULL, -1);
        bw_end(&w);
    }
    v = bw_done(&w);
    assert_int_equal(v.type, fits ? BV_DOC : BV_MISSING);
    if (fits) {
        assert_int_equal(bv_check(v.p, v.len, BW_DEPTH, &err), 0);
        v = bv_get(v, "a");
        for (int i = 1; i < depth; i++) {
            assert_int_equal(bv_i32(bv_get(v, "0")), i);
            assert_int_equal(bv_i32(bv_get(v, i == depth - 1 ? "1" : "2")), -1);
            v = bv_get(v, "1");
        }
    }
    bw_fini(&w);
}

static void test_depth(void **state)
{
    static const int depths[] = {2, BW_DEPTH_NEAR - 1, BW_DEPTH_NEAR, BW_DEPTH_NEAR + 1, BW_DEPTH};
    struct arena a;

    (void)state;
    arena_init(&a);
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        check_depth(NULL, depths[i], true);
        check_depth(&a, depths[i], true);
    }
    check_depth(NULL, BW_DEPTH + 1, false);
    check_depth(&a, BW_DEPTH + 1, false);
    arena_fini(&a);
}

static void test_rewind(void **state)
{
    struct bw w;
    struct bw_mark mark;
    struct bv doc;

    (void)state;
    bw_init(&w, NULL);
    bw_arr_begin(&w, "a");
    bw_i32(&w, NULL, 7);
    mark = bw_mark(&w);
    bw_i32(&w, NULL, 8);
    bw_doc_begin(&w, NULL);
    bw_i32(&w, "x", 9);
    bw_rewind(&w, mark);
    bw_i32(&w, NULL, 10);
    bw_end(&w);
    doc = bw_done(&w);
    assert_int_equal(bv_count(bv_get(doc, "a")), 2);
    assert_int_equal(bv_i32(bv_path(doc, "a.1")), 10);
    bw_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_array_indexes),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_rewind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
