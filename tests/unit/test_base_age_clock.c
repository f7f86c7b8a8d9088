/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/age_clock.h"
#include "base/clock.h"

enum { HOUR_MS = 3600 * 1000, SLACK_MS = 150 };

static struct age_clock c;

static int begin(void **state)
{
    (void)state;
    age_clock_init(&c);
    return 0;
}

static int end(void **state)
{
    (void)state;
    age_clock_fini(&c);
    return 0;
}

/* How far the age clock stands behind the wall clock. */
static int64_t lag(int64_t keep_ms)
{
    int64_t ms = age_clock_ms(&c, keep_ms);

    return clock_wall_ms() - ms;
}

static void assert_about(int64_t got, int64_t want)
{
    /* Below, too: each of the two clocks is cut to milliseconds. */
    assert_in_range(got + HOUR_MS, want + HOUR_MS - SLACK_MS, want + HOUR_MS + SLACK_MS);
}

static void test_it_is_the_wall_clock(void **state)
{
    (void)state;
    assert_about(lag(HOUR_MS), 0);
    assert_about(lag(0), 0);
}

static void test_a_jump_forward_is_left_out(void **state)
{
    (void)state;
    clock_test_shift_wall(HOUR_MS);
    assert_about(lag(HOUR_MS), HOUR_MS);
    assert_about(lag(HOUR_MS), HOUR_MS);
    clock_test_shift_wall(HOUR_MS);
    assert_about(lag(HOUR_MS), 2 * HOUR_MS);
    clock_test_shift_wall(-2 * HOUR_MS);
    assert_about(lag(HOUR_MS), 0);
}

static void test_until_nothing_from_before_is_left(void **state)
{
    (void)state;
    clock_test_shift_wall(HOUR_MS);
    assert_about(lag(HOUR_MS), HOUR_MS);
    usleep(30 * 1000);
    assert_about(lag(20), 0);
    clock_test_shift_wall(HOUR_MS); /* this one counts, that one no more */
    assert_about(lag(HOUR_MS), HOUR_MS);
    clock_test_shift_wall(-2 * HOUR_MS);
}

static void test_a_jump_back_is_taken_as_it_is(void **state)
{
    (void)state;
    clock_test_shift_wall(-HOUR_MS);
    assert_about(lag(HOUR_MS), 0);
    clock_test_shift_wall(HOUR_MS); /* set right again: what was made meanwhile is not too old */
    assert_about(lag(HOUR_MS), HOUR_MS);
}

static void test_a_small_step_is_followed(void **state)
{
    (void)state;
    clock_test_shift_wall(50);
    assert_about(lag(HOUR_MS), 0);
    clock_test_shift_wall(-50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_is_the_wall_clock, begin, end),
        cmocka_unit_test_setup_teardown(test_a_jump_forward_is_left_out, begin, end),
        cmocka_unit_test_setup_teardown(test_until_nothing_from_before_is_left, begin, end),
        cmocka_unit_test_setup_teardown(test_a_jump_back_is_taken_as_it_is, begin, end),
        cmocka_unit_test_setup_teardown(test_a_small_step_is_followed, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
