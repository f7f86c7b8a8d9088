/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Settings: values and their bounds, the config file, the order of precedence. */
#include "server/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int set(struct settings *s, const char *name, const char *value)
{
    struct error err = {0};
    int rc = settings_set(s, name, value, &err);

    assert_int_equal(rc, err.code);
    return rc;
}

static void test_defaults(void **state)
{
    struct settings s;

    (void)state;
    settings_default(&s);
    assert_int_equal(s.port, 27017);
    assert_string_equal(s.bind, "127.0.0.1");
    assert_string_equal(s.repl_set, "rs0");
    assert_int_equal(s.oplog_size_mb, 1024);
    assert_false(s.memory);
    settings_fini(&s);
}

static void test_values(void **state)
{
    struct settings s;

    (void)state;
    settings_default(&s);
    assert_int_equal(set(&s, "port", "0"), 0);
    assert_int_equal(s.port, 0);
    assert_int_equal(set(&s, "oplog-retention-seconds", "0.25"), 0);
    assert_true(s.oplog_retention_seconds == 0.25);
    assert_int_equal(set(&s, "memory", "true"), 0);
    assert_true(s.memory);
    assert_int_equal(set(&s, "memory", "false"), 0);
    assert_false(s.memory);
    assert_int_equal(set(&s, "dbpath", "/x y"), 0);
    assert_string_equal(s.dbpath, "/x y");
    settings_fini(&s);
}

static void test_bad_values(void **state)
{
    static const char *const bad[][2] = {
        {"port", "65536"},
        {"port", "-1"},
        {"port", "1x"},
        {"port", ""},
        {"memory", "yes"},
        {"oplog-retention-seconds", "nan"},
        {"oplog-size-mb", "0"},
        {"dbpath", ""},
        {"oplog-retention-seconds", "-1"},
        {"oplog-max-entries", "99999999999999999999"},
    };
    struct settings s;

    (void)state;
    settings_default(&s);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(set(&s, bad[i][0], bad[i][1]), ERR_BAD_VALUE);
    assert_int_equal(set(&s, "no-such", "1"), ERR_INVALID_OPTIONS);
    assert_int_equal(s.port, 27017);
    settings_fini(&s);
}

static int load(struct settings *s, const char *text, struct error *err)
{
    char path[] = "/tmp/runnel-settings-XXXXXX";
    int fd = mkstemp(path), rc;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    rc = settings_load(s, path, err);
    unlink(path);
    return rc;
}

static void test_config_file(void **state)
{
    struct settings s;
    struct error err = {0};

    (void)state;
    settings_default(&s);
    assert_int_equal(
        load(&s, "# a comment\nport: 1234\nmemory: true\nrepl-set: \"my set\"\n", &err), 0);
    assert_int_equal(s.port, 1234);
    assert_true(s.memory);
    assert_string_equal(s.repl_set, "my set");
    assert_int_equal(load(&s, "", &err), 0);
    settings_fini(&s);
}

static void test_bad_config_files(void **state)
{
    struct settings s;
    struct error err = {0};

    (void)state;
    settings_default(&s);
    assert_int_equal(load(&s, "ports: 1\n", &err), ERR_INVALID_OPTIONS);
    assert_non_null(strstr(err.text, "unknown setting 'ports'"));
    assert_int_equal(load(&s, "config: /x\n", &err), ERR_INVALID_OPTIONS);
    assert_int_equal(load(&s, "- port\n", &err), ERR_BAD_VALUE);
    assert_int_equal(load(&s, "port: [1]\n", &err), ERR_BAD_VALUE);
    assert_int_equal(load(&s, "port: {\n", &err), ERR_FAILED_TO_PARSE);
    assert_int_equal(settings_load(&s, "/no/such/file", &err), ERR_BAD_VALUE);
    settings_fini(&s);
}

static void test_command_line_goes_first(void **state)
{
    char path[] = "/tmp/runnel-settings-XXXXXX";
    int fd = mkstemp(path);
    struct settings s;
    struct error err = {0};

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(dprintf(fd, "port: 1\noplog-max-entries: 5\nmemory: true\n") > 0, 1);
    close(fd);

    char *argv[] = {"runneld", "--port=2", "--config", path, NULL};

    assert_int_equal(settings_parse(&s, 4, argv, &err), 0);
    unlink(path);
    assert_int_equal(s.port, 2);
    assert_int_equal(s.oplog_max_entries, 5);
    assert_true(s.memory);
    settings_fini(&s);
}

static void test_rules(void **state)
{
    struct settings s;
    struct error err = {0};

    (void)state;
    settings_default(&s);
    assert_int_equal(settings_check(&s, &err), ERR_INVALID_OPTIONS);
    s.memory = true;
    assert_int_equal(settings_check(&s, &err), 0);
    s.dbpath = "x";
    assert_int_equal(settings_check(&s, &err), ERR_INVALID_OPTIONS);
    s.memory = false;
    assert_int_equal(settings_check(&s, &err), 0);
    s.advertise = "nowhere";
    assert_int_equal(settings_check(&s, &err), ERR_BAD_VALUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_config_file),
        cmocka_unit_test(test_bad_config_files),
        cmocka_unit_test(test_command_line_goes_first),
        cmocka_unit_test(test_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
