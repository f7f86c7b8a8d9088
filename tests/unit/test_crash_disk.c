/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The disk of the crash harness forgets what was not synced, and nothing else. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/crash/disk_internal.h"

#define OK(call) assert_int_equal((call), 0)

static char dir[] = "/tmp/runnel-disk-XXXXXX";

static struct disk *plug_in(void)
{
    const struct disk_options o = {.fail_errno = EIO};

    return disk_new(dir, &o);
}

/* The power goes and comes back. */
static struct disk *cut(struct disk *d)
{
    disk_free(d);
    return plug_in();
}

static void empty(struct disk *d)
{
    while (d->names != NULL)
        OK(disk_remove(d, d->names->text));
    OK(disk_sync_names(d));
    disk_free(d);
}

static struct disk_file *made(struct disk *d, const char *name, const char *text)
{
    struct disk_file *f;

    OK(disk_open(d, name, true, true, &f));
    OK(disk_write(d, f, 0, text, strlen(text)));
    return f;
}

static void expect(struct disk *d, const char *name, const char *text)
{
    struct disk_file *f;
    char got[64] = "";

    OK(disk_open(d, name, false, false, &f));
    assert_int_equal(disk_size(d, f), strlen(text));
    OK(disk_read(d, f, 0, got, strlen(text)));
    assert_string_equal(got, text);
    disk_close(d, f);
}

static void unsynced_bytes_go(void **state)
{
    struct disk *d = plug_in();
    struct disk_file *f = made(d, "a", "one");

    (void)state;
    OK(disk_sync(d, f));
    OK(disk_sync_names(d));
    OK(disk_write(d, f, 3, " two", 4));
    expect(d, "a", "one two");
    disk_close(d, f);
    d = cut(d);
    expect(d, "a", "one");
    OK(disk_open(d, "a", false, false, &f));
    OK(disk_write(d, f, 3, " two", 4));
    OK(disk_sync(d, f));
    disk_close(d, f);
    d = cut(d);
    expect(d, "a", "one two");
    empty(d);
}

static void names_need_the_directory(void **state)
{
    struct disk *d = plug_in();
    struct disk_file *f = made(d, "a", "one"), *g;

    (void)state;
    OK(disk_sync(d, f)); /* its bytes, not its name */
    disk_close(d, f);
    d = cut(d);
    assert_false(disk_exists(d, "a"));
    f = made(d, "a", "one");
    g = made(d, "b", "two");
    OK(disk_sync(d, f));
    OK(disk_sync(d, g));
    OK(disk_sync_names(d));
    OK(disk_rename(d, "b", "a"));
    disk_close(d, f);
    disk_close(d, g);
    expect(d, "a", "two");
    assert_false(disk_exists(d, "b"));
    d = cut(d);
    expect(d, "a", "one");
    expect(d, "b", "two");
    OK(disk_rename(d, "b", "a"));
    OK(disk_sync_names(d));
    d = cut(d);
    expect(d, "a", "two");
    OK(disk_remove(d, "a"));
    assert_int_equal(disk_open(d, "a", false, false, &f), ENOENT);
    d = cut(d);
    expect(d, "a", "two");
    empty(d);
}

static void truncation_needs_a_sync(void **state)
{
    struct disk *d = plug_in();
    struct disk_file *f = made(d, "a", "0123456789");
    char got[10];

    (void)state;
    OK(disk_sync(d, f));
    OK(disk_sync_names(d));
    OK(disk_truncate(d, f, 4));
    OK(disk_truncate(d, f, 10)); /* what was cut off does not come back */
    OK(disk_read(d, f, 0, got, 10));
    assert_memory_equal(got, "0123\0\0\0\0\0\0", 10);
    assert_int_equal(disk_read(d, f, 5, got, 6), EIO);
    disk_close(d, f);
    d = cut(d);
    expect(d, "a", "0123456789");
    OK(disk_open(d, "a", false, false, &f));
    OK(disk_truncate(d, f, 4));
    OK(disk_sync(d, f));
    disk_close(d, f);
    d = cut(d);
    expect(d, "a", "0123");
    empty(d);
}

static void some_leaks_and_some_does_not(void **state)
{
    struct disk *d = plug_in();
    struct disk_file *f;
    uint8_t bytes[64 * PAGE] = {0};
    int kept = 0;

    (void)state;
    OK(disk_open(d, "a", true, true, &f));
    OK(disk_write(d, f, 0, bytes, sizeof(bytes)));
    OK(disk_sync(d, f));
    OK(disk_sync_names(d));
    d->o.leak = 500;
    memset(bytes, 1, sizeof(bytes));
    OK(disk_write(d, f, 0, bytes, sizeof(bytes)));
    disk_close(d, f);
    d = cut(d);
    OK(disk_open(d, "a", false, false, &f));
    OK(disk_read(d, f, 0, bytes, sizeof(bytes)));
    for (size_t i = 0; i < sizeof(bytes); i += SECTOR)
        kept += bytes[i];
    assert_in_range(kept, 1, sizeof(bytes) / SECTOR - 1);
    disk_close(d, f);
    empty(d);
}

static void the_nth_call_fails(void **state)
{
    struct disk *d = plug_in();
    struct disk_file *f = made(d, "a", "one");

    (void)state;
    d->o.fail_op = DISK_WRITE;
    d->o.fail_at = 3;
    OK(disk_write(d, f, 0, "two", 3));
    assert_int_equal(disk_write(d, f, 0, "3", 1), EIO);
    expect(d, "a", "two");
    OK(disk_write(d, f, 0, "4", 1));
    disk_close(d, f);
    empty(d);
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state)
{
    (void)state;
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsynced_bytes_go),       cmocka_unit_test(names_need_the_directory),
        cmocka_unit_test(truncation_needs_a_sync), cmocka_unit_test(some_leaks_and_some_does_not),
        cmocka_unit_test(the_nth_call_fails),
    };

    return cmocka_run_group_tests_name("crash_disk", tests, make_dir, remove_dir);
}
