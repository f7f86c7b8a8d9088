/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The timer heap against a plain sorted model. */
#include "server/timers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { N = 500 };

static void test_fires_in_order(void **state)
{
    static struct timer timers[N];
    struct timer_heap h;
    int64_t last = -1;
    size_t fired = 0;

    (void)state;
    srand(1);
    timer_heap_init(&h);
    for (int i = 0; i < N; i++)
        timer_set(&h, &timers[i], rand() % 1000);
    for (struct timer *t; (t = timer_first(&h)) != NULL; fired++) {
        assert_true(t->when_us >= last);
        last = t->when_us;
        timer_cancel(&h, t);
        assert_int_equal(t->slot, 0);
    }
    assert_int_equal(fired, N);
    timer_heap_fini(&h);
}

static void test_says_when_the_earliest_changes(void **state)
{
    struct timer a = {0}, b = {0};
    struct timer_heap h;

    (void)state;
    timer_heap_init(&h);
    assert_true(timer_set(&h, &a, 100));
    assert_false(timer_set(&h, &b, 200));
    assert_true(timer_set(&h, &b, 50));
    assert_ptr_equal(timer_first(&h), &b);
    assert_false(timer_set(&h, &b, 300));
    assert_ptr_equal(timer_first(&h), &a);
    timer_cancel(&h, &a);
    timer_cancel(&h, &a);
    assert_ptr_equal(timer_first(&h), &b);
    timer_heap_fini(&h);
}

/* Sets, moves and cancels at random; the first must always be the least of the model. */
static void test_random_against_model(void **state)
{
    static struct timer timers[N];
    static int64_t when[N]; /* -1: not set */
    struct timer_heap h;

    (void)state;
    srand(2);
    timer_heap_init(&h);
    for (int i = 0; i < N; i++) {
        timers[i].slot = 0;
        when[i] = -1;
    }
    for (int round = 0; round < 20000; round++) {
        int i = rand() % N;
        int64_t least = INT64_MAX;
        struct timer *first;

        if (rand() % 3 == 0) {
            timer_cancel(&h, &timers[i]);
            when[i] = -1;
        } else {
            when[i] = rand() % 100000;
            timer_set(&h, &timers[i], when[i]);
        }
        if (round % 50 != 0)
            continue;
        for (int j = 0; j < N; j++) {
            if (when[j] >= 0 && when[j] < least)
                least = when[j];
        }
        first = timer_first(&h);
        assert_int_equal(first == NULL ? INT64_MAX : first->when_us, least);
    }
    timer_heap_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fires_in_order),
        cmocka_unit_test(test_says_when_the_earliest_changes),
        cmocka_unit_test(test_random_against_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
