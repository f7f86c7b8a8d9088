/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The benchmark's histogram: its percentiles are within 1/64 of the true ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/bench/hist.h"

static struct hist h;

static int setup(void **state)
{
    (void)state;
    memset(&h, 0, sizeof(h));
    return 0;
}

static void assert_near(int64_t got, int64_t want)
{
    assert_true(got >= want && got - want <= want / 64 + 1);
}

static void test_empty(void **state)
{
    (void)state;
    assert_int_equal(hist_percentile(&h, 0.5), 0);
}

static void test_uniform(void **state)
{
    (void)state;
    for (int64_t i = 1; i <= 100000; i++)
        hist_add(&h, i * 10);
    assert_near(hist_percentile(&h, 0.5), 500000);
    assert_near(hist_percentile(&h, 0.99), 990000);
    assert_near(hist_percentile(&h, 0.999), 999000);
    assert_int_equal(hist_percentile(&h, 1), 1000000);
}

static void test_every_size(void **state)
{
    (void)state;
    for (int64_t v = 1; v < (1LL << 40); v = v * 3 + 1) {
        memset(&h, 0, sizeof(h));
        hist_add(&h, v);
        hist_add(&h, v);
        hist_add(&h, INT64_MAX); /* so that the maximum does not hide the slot's end */
        assert_near(hist_percentile(&h, 0.5), v);
    }
}

static void test_bounds(void **state)
{
    (void)state;
    hist_add(&h, -5);
    assert_int_equal(hist_percentile(&h, 0.5), 0);
    hist_add(&h, INT64_MAX);
    assert_int_equal(hist_percentile(&h, 1), INT64_MAX);
}

static void test_merge(void **state)
{
    static struct hist other;

    (void)state;
    hist_add(&h, 10);
    hist_add(&other, 30);
    hist_add(&other, 20);
    hist_merge(&h, &other);
    assert_int_equal(h.count, 3);
    assert_int_equal(hist_percentile(&h, 0.4), 20);
    assert_int_equal(hist_percentile(&h, 1), 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_empty, setup),      cmocka_unit_test_setup(test_uniform, setup),
        cmocka_unit_test_setup(test_every_size, setup), cmocka_unit_test_setup(test_bounds, setup),
        cmocka_unit_test_setup(test_merge, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
