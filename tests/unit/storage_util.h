/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the tests of storage/ share: temporary directories, opening engines, short names. */
#ifndef RUNNEL_TESTS_UNIT_STORAGE_UTIL_H
#define RUNNEL_TESTS_UNIT_STORAGE_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <ftw.h>

#include "storage/table_write.h"

#define UNUSED __attribute__((unused))

/* Fails the test with the error's text. */
#define OK(call)                                                                                   \
    do {                                                                                           \
        int ok_rc_ = (call);                                                                       \
        if (ok_rc_ != 0)                                                                           \
            fail_msg("%s: code %d", #call, ok_rc_);                                                \
    } while (0)

UNUSED static char *temp_dir(void)
{
    const char *base = getenv("TMPDIR");
    char path[512];

    snprintf(path, sizeof(path), "%s/runnel-test-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(path));
    return strdup(path);
}

UNUSED static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

UNUSED static void remove_dir(char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(path);
}

/* path NULL: in memory */
UNUSED static struct engine *open_engine(const char *path)
{
    struct engine_options o = {
        .path = path,
        /* in memory nothing can be evicted to a disk: room for all that a test writes */
        .cache_bytes = path == NULL ? 512 << 20 : 64 << 20,
        .small_log = true};
    struct engine *e;
    struct error err;
    int rc = engine_open(&o, &err, &e);

    if (rc != 0)
        fail_msg("engine_open: %s", err.text);
    return e;
}

UNUSED static void close_engine(struct engine *e)
{
    struct error err;
    int rc = engine_close(e, &err);

    if (rc != 0)
        fail_msg("engine_close: %s", err.text);
}

UNUSED static struct bytes str_bytes(const char *s)
{
    return (struct bytes){(const uint8_t *)s, strlen(s)};
}

UNUSED static void assert_bytes(struct bytes b, const char *s)
{
    assert_int_equal(b.len, strlen(s));
    assert_memory_equal(b.p, s, b.len);
}

#endif
