/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"

struct seen {
    int lines;
    enum log_level level;
    char first[200], last[200];
};

static void note(void *arg, enum log_level level, const char *line)
{
    struct seen *s = arg;

    strncpy(s->lines++ == 0 ? s->first : s->last, line, sizeof s->first - 1);
    s->level = level;
}

static void test_level(void **state)
{
    (void)state;
    assert_int_equal(log_get_level(), LOG_INFO);
    log_set_level(LOG_DEBUG);
    assert_int_equal(log_get_level(), LOG_DEBUG);
    log_set_level(LOG_WARNING);
    log_event(LOG_INFO, "test", "not written", {"n", LOG_NUM(1)}, );
    log_set_level(LOG_INFO);
    assert_int_equal(log_recent(note, &(struct seen){0}), 0);
}

static void test_recent_is_a_ring(void **state)
{
    struct seen s = {0};

    (void)state;
    for (int i = 0; i < LOG_RECENT + 5; i++)
        log_event(LOG_WARNING, "test", "a \"line\"", {"n", LOG_NUM(i)}, );
    assert_int_equal(log_recent(note, &s), LOG_RECENT + 5);
    assert_int_equal(s.lines, LOG_RECENT);
    assert_int_equal(s.level, LOG_WARNING);
    assert_non_null(strstr(s.first, "\"n\":5}"));
    assert_non_null(strstr(s.last, "\"c\":\"test\",\"msg\":\"a \\\"line\\\"\",\"n\":1028}"));
    assert_string_equal(s.last + strlen(s.last) - 1, "}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_level),
        cmocka_unit_test(test_recent_is_a_ring),
    };

    return cmocka_run_group_tests_name("base/log", tests, NULL, NULL);
}
