/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The parking state machine: its moves, and that no wake-up is lost between threads. */
#include "server/parking.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_wake_before_park_is_kept(void **state)
{
    struct parking p;
    enum wake_reason why;

    (void)state;
    parking_init(&p);
    assert_false(parking_wake(&p, WAKE_READY));
    assert_int_equal(parking_state(&p), PARK_WAKE_PENDING);
    assert_false(parking_park(&p, &why));
    assert_int_equal(why, WAKE_READY);
    assert_int_equal(parking_state(&p), PARK_RUNNING);
    assert_true(parking_park(&p, &why));
    assert_int_equal(parking_state(&p), PARK_PARKED);
}

static void test_one_wake_up_queues(void **state)
{
    struct parking p;
    enum wake_reason why;

    (void)state;
    parking_init(&p);
    assert_true(parking_park(&p, &why));
    assert_true(parking_wake(&p, WAKE_TIMEOUT));
    assert_false(parking_wake(&p, WAKE_READY));
    assert_false(parking_wake(&p, WAKE_INTERRUPT));
    assert_int_equal(parking_state(&p), PARK_READY);
    assert_int_equal(parking_resume(&p), WAKE_INTERRUPT);
    assert_int_equal(parking_state(&p), PARK_RUNNING);
}

static void test_strongest_reason_wins(void **state)
{
    struct parking p;
    enum wake_reason why;

    (void)state;
    parking_init(&p);
    parking_wake(&p, WAKE_HANGUP);
    parking_wake(&p, WAKE_READY);
    assert_false(parking_park(&p, &why));
    assert_int_equal(why, WAKE_HANGUP);
}

/*
 * One thread consumes a counter that others raise, parking when there is nothing. Each raise wakes
 * it; the "run queue" is a flag that a waker which got true sets. Were a wake-up ever lost, the
 * consumer would hang with the counter ahead of it.
 */
enum { WAKERS = 4, ROUNDS = 20000 };

static struct parking shared;
static _Atomic int produced;
static _Atomic int queued;

static void *waker(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        atomic_fetch_add(&produced, 1);
        if (parking_wake(&shared, WAKE_READY)) {
            int was = atomic_fetch_add(&queued, 1);

            if (was != 0)
                return "queued twice";
        }
        if (i % 64 == 0)
            sched_yield();
    }
    return NULL;
}

static void *consumer(void *arg)
{
    int seen = 0;

    (void)arg;
    while (seen < WAKERS * ROUNDS) {
        enum wake_reason why;

        if (atomic_load(&produced) > seen) {
            seen = atomic_load(&produced);
            continue;
        }
        if (!parking_park(&shared, &why))
            continue;
        while (atomic_load(&queued) == 0)
            sched_yield();
        atomic_fetch_sub(&queued, 1);
        if (parking_resume(&shared) != WAKE_READY)
            return "resumed without a reason";
    }
    return NULL;
}

static void test_no_wake_up_is_lost(void **state)
{
    pthread_t threads[WAKERS + 1];
    void *failure;

    (void)state;
    parking_init(&shared);
    pthread_create(&threads[WAKERS], NULL, consumer, NULL);
    for (int i = 0; i < WAKERS; i++)
        pthread_create(&threads[i], NULL, waker, NULL);
    for (int i = 0; i <= WAKERS; i++) {
        pthread_join(threads[i], &failure);
        assert_null(failure);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wake_before_park_is_kept),
        cmocka_unit_test(test_one_wake_up_queues),
        cmocka_unit_test(test_strongest_reason_wins),
        cmocka_unit_test(test_no_wake_up_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
