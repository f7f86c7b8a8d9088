/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/limits.h"
#include "query/rid_set.h"

static void test_it_takes_so_many(void **state)
{
    struct rid_set s = {0};

    (void)state;
    assert_false(rid_set_has(&s, 1));
    for (int64_t i = 1; i <= LIMIT_SCAN_SEEN; i++)
        assert_true(rid_set_add(&s, i << 20));
    assert_true(rid_set_add(&s, 1 << 20)); /* is there */
    assert_int_equal(s.n, LIMIT_SCAN_SEEN);
    assert_false(rid_set_add(&s, 5));
    assert_false(rid_set_has(&s, 5));
    for (int64_t i = 1; i <= LIMIT_SCAN_SEEN; i++)
        assert_true(rid_set_has(&s, i << 20));
    assert_true(s.size <= 4 * (size_t)LIMIT_SCAN_SEEN);
    rid_set_free(&s);
    assert_false(rid_set_has(&s, 1 << 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_it_takes_so_many)};

    return cmocka_run_group_tests_name("query/rid_set", tests, NULL, NULL);
}
