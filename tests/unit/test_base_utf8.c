/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/op.h"
#include "base/utf8.h"

static void test_clean(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"plain \x7f", "plain \x7f"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"a\xc3", "a?"},
        {"a\xc3z", "a?z"},
        {"\xe2\x82", "??"},
        {"\xf0\x9f\x98", "???"},
        {"\x80\xbf", "??"},
        {"\xc0\x80\xc1\xbf", "????"},                    /* overlong */
        {"\xe0\x9f\xbf\xf0\x8f\xbf\xbf", "???????"},     /* overlong */
        {"\xed\xa0\x80\xed\x9f\xbf", "???\xed\x9f\xbf"}, /* a surrogate; what stands before them */
        {"\xf4\x90\x80\x80\xf4\x8f\xbf\xbf", "????\xf4\x8f\xbf\xbf"}, /* past the last; the last */
        {"\xf5\xff", "??"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char s[32];

        snprintf(s, sizeof s, "%s", cases[i][0]);
        utf8_clean(s);
        assert_string_equal(s, cases[i][1]);
    }
}

/* An argument that is no UTF-8, a cut within a character by a precision, and one by the text's end.
 */
static void test_errors_are_utf8(void **state)
{
    char wide[ERROR_TEXT_MAX + 2] = "";
    struct error err;
    struct op op;

    (void)state;
    error_set(&err, 2, "no '%s' and '%.2s'", "\xff", "a\xc3\xa9");
    assert_string_equal(err.text, "no '?' and 'a?'");
    for (size_t i = 0; i + 2 < sizeof wide; i += 2)
        memcpy(wide + i, "\xc3\xa9", 3);
    error_set(&err, 2, "%s", wide);
    assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
    assert_string_equal(err.text + ERROR_TEXT_MAX - 4, "\xc3\xa9?");
    error_prefix(&err, "on: ");
    assert_memory_equal(err.text, "on: \xc3\xa9", 6);
    assert_string_equal(err.text + ERROR_TEXT_MAX - 4, "\xc3\xa9?");
    op_init(&op);
    assert_int_equal(op_fail(&op, 2, "\xf8%d", 1), 2);
    assert_string_equal(op.err->text, "?1");
    op_fini(&op);
}

static void test_shown_values_are_utf8(void **state)
{
    static const uint8_t doc[] = "\x0f\0\0\0\x02\xc3\0\x03\0\0\0\xff"
                                 "b\0";
    struct arena a;

    (void)state;
    arena_init(&a);
    assert_string_equal(bv_show(&a, bv_doc(doc), 100), "{ ?: \"?b\" }");
    arena_fini(&a);
}

static void keep(void *arg, enum log_level level, const char *line)
{
    (void)level;
    snprintf(arg, 200, "%s", line);
}

static void test_log_lines_are_utf8(void **state)
{
    char line[200];

    (void)state;
    log_event(LOG_WARNING, "test", "text", {"v", LOG_STR("\xff\xc3\xa9\xe2")}, );
    log_recent(keep, line);
    assert_non_null(strstr(line, "\"v\":\"?\xc3\xa9?\"}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_errors_are_utf8),
        cmocka_unit_test(test_shown_values_are_utf8),
        cmocka_unit_test(test_log_lines_are_utf8),
    };

    return cmocka_run_group_tests_name("base/utf8", tests, NULL, NULL);
}
