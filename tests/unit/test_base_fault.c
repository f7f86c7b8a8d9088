/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>

#include "base/fault.h"

static struct error err;

static void set(const char *spec)
{
    assert_int_equal(fault_set(spec, &err), 0);
}

static void test_fail_is_once_error_is_from_then_on(void **state)
{
    (void)state;
    set("storageWrite:fail=7:2");
    assert_int_equal(FAULT_ERROR(STORAGE_WRITE), 0);
    assert_int_equal(FAULT_ERROR(STORAGE_WRITE), 7);
    assert_int_equal(FAULT_ERROR(STORAGE_WRITE), 0);
    set("storageWrite:error=8:2");
    assert_int_equal(FAULT_ERROR(STORAGE_WRITE), 0);
    assert_int_equal(FAULT_ERROR(STORAGE_WRITE), 8);
    assert_int_equal(FAULT_ERROR(STORAGE_WRITE), 8);
    assert_int_equal(fault_hits("storageWrite"), 3);
    fault_clear_all();
    assert_int_equal(FAULT_ERROR(STORAGE_WRITE), 0);
}

static void *waiter(void *arg)
{
    (void)arg;
    FAULT(STORAGE_WRITE);
    return NULL;
}

/* Whoever asks again how many wait does not lose those who came before. */
static void test_asking_again_keeps_the_count_of_a_wait(void **state)
{
    enum { N = 4 };
    pthread_t threads[N];

    (void)state;
    set("storageWrite:wait");
    for (int i = 0; i < N; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, waiter, NULL), 0);
        while (fault_hits("storageWrite") < i + 1)
            sched_yield();
        set("storageWrite:wait");
        assert_int_equal(fault_hits("storageWrite"), i + 1);
    }
    fault_clear_all();
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    set("storageWrite:wait");
    assert_int_equal(fault_hits("storageWrite"), 0);
    fault_clear_all();
}

static void test_what_is_no_fault(void **state)
{
    static const char *const bad[] = {"",
                                      "nope:kill",
                                      "storageWrite",
                                      "storageWrite:explode",
                                      "storageWrite:error=0",
                                      "storageWrite:wait:0"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(fault_set(bad[i], &err), ERR_BAD_VALUE);
    assert_int_equal(fault_hits("nope"), -1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fail_is_once_error_is_from_then_on),
        cmocka_unit_test(test_asking_again_keeps_the_count_of_a_wait),
        cmocka_unit_test(test_what_is_no_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
