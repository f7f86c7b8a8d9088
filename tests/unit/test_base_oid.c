/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "base/oid.h"

static uint32_t counter_of(const uint8_t oid[12])
{
    return (uint32_t)oid[9] << 16 | (uint32_t)oid[10] << 8 | oid[11];
}

static void test_parts(void **state)
{
    int64_t before = clock_wall_ms() / 1000, after;
    uint8_t a[12], b[12];
    uint32_t seconds;

    (void)state;
    oid_new(a);
    oid_new(b);
    after = clock_wall_ms() / 1000;
    seconds = (uint32_t)a[0] << 24 | (uint32_t)a[1] << 16 | (uint32_t)a[2] << 8 | a[3];
    assert_true(seconds >= before && seconds <= after);
    assert_memory_equal(a + 4, b + 4, 5);
    assert_int_equal(counter_of(b), (counter_of(a) + 1) & 0xffffff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
