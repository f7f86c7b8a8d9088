/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"

static void test_blocks_do_not_overlap(void **state)
{
    struct arena a;
    uint8_t *blocks[200];

    (void)state;
    arena_init(&a);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 200; i++) {
            size_t n = i % 50 == 49 ? 100000 : 1 + i * 7;

            blocks[i] = arena_alloc(&a, n);
            assert_int_equal((uintptr_t)blocks[i] % 8, 0);
            memset(blocks[i], (int)i, n);
        }
        for (size_t i = 0; i < 200; i++) {
            size_t n = i % 50 == 49 ? 100000 : 1 + i * 7;

            for (size_t j = 0; j < n; j++)
                assert_int_equal(blocks[i][j], (uint8_t)i);
        }
        arena_reset(&a);
        assert_true(a.bytes < 8192);
    }
    arena_fini(&a);
    assert_int_equal(a.bytes, 0);
}

static void test_small(void **state)
{
    struct arena a;
    size_t chunks = 0, bytes = 0;

    (void)state;
    arena_init_small(&a, 100);
    assert_true(a.bytes < 150);
    for (int i = 0; i < 200; i++) {
        memset(arena_alloc(&a, 40), i, 40);
        chunks += a.bytes != bytes;
        bytes = a.bytes;
    }
    assert_true(a.bytes < 2 * 200 * (40 + 8) + 200); /* it doubles; sanitizers keep blocks apart */
    assert_true(chunks < 9);
    arena_fini(&a);
    assert_int_equal(a.bytes, 0);
}

static void test_regrow(void **state)
{
    struct arena a;
    uint8_t *p, *q, *other;

    (void)state;
    arena_init(&a);
    p = arena_regrow(&a, NULL, 0, 10);
    memcpy(p, "0123456789", 10);
    q = arena_regrow(&a, p, 10, 100);
    assert_ptr_equal(p, q); /* the newest block grows where it is */
    other = arena_alloc(&a, 1);
    *other = 'x';
    q = arena_regrow(&a, p, 100, 200);
    assert_ptr_not_equal(p, q);
    assert_memory_equal(q, "0123456789", 10);
    q = arena_regrow(&a, q, 200, 1000000);
    assert_memory_equal(q, "0123456789", 10);
    memset(q, 'y', 1000000);
    assert_int_equal(*other, 'x');
    arena_fini(&a);
}

/* Blocks with a chunk of their own, the newest one and older ones. */
static void test_regrow_large(void **state)
{
    struct arena a;
    uint8_t *first, *second, *small;

    (void)state;
    arena_init(&a);
    first = arena_regrow(&a, NULL, 0, 300000);
    memset(first, 1, 300000);
    small = arena_alloc(&a, 100);
    memset(small, 2, 100);
    second = arena_regrow(&a, NULL, 0, 400000);
    memset(second, 3, 400000);
    for (size_t n = 600000; n < 20000000; n *= 2) {
        first = arena_regrow(&a, first, n / 2, n);
        memset(first + n / 2, 1, n / 2);
        second = arena_regrow(&a, second, n == 600000 ? 400000 : n / 2, n);
        memset(second + n / 2, 3, n / 2);
        small = arena_alloc(&a, 100);
        memset(small, 2, 100);
        for (size_t i = 0; i < n; i += 997)
            assert_true(first[i] == 1 && second[i] == 3);
        assert_true(a.bytes < 3 * n + 600000);
    }
    arena_fini(&a);
    assert_int_equal(a.bytes, 0);
}

static void test_strings(void **state)
{
    struct arena a;
    char big[10000];
    uint8_t *z;

    (void)state;
    arena_init(&a);
    memset(big, 'b', sizeof(big));
    assert_string_equal(arena_strdup(&a, "abc"), "abc");
    assert_string_equal(arena_strndup(&a, "abcdef", 3), "abc");
    assert_string_equal(arena_printf(&a, "%s-%d", "x", 5), "x-5");
    assert_int_equal(strlen(arena_printf(&a, "%.*s", (int)sizeof(big), big)), sizeof(big));
    z = arena_zalloc(&a, 5000);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(z[i], 0);
    assert_non_null(arena_dup(&a, NULL, 0));
    arena_fini(&a);
}

/* Under AddressSanitizer malloc refuses as it does elsewhere. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void test_impossible_sizes(void **state)
{
    struct arena a;

    (void)state;
    arena_init(&a);
    for (size_t i = 0; i < 40; i++)
        assert_null(arena_try(&a, SIZE_MAX - i));
    assert_null(arena_try(&a, SIZE_MAX / 2));
    assert_non_null(arena_try(&a, 0));
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_do_not_overlap),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_regrow),
        cmocka_unit_test(test_regrow_large),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_impossible_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
