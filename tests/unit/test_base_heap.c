/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The allocator's figures, and that it gives back what is free. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/mem.h"

enum { PIECES = 1000, PIECE_BYTES = 64 * 1024 };
#define ALL_BYTES ((int64_t)PIECES * PIECE_BYTES)

static void fill(char **pieces)
{
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = mem_must(PIECE_BYTES);
        memset(pieces[i], i, PIECE_BYTES);
    }
}

static void what_is_used_is_counted(void **state)
{
    char *pieces[PIECES];
    struct heap_stats before, full, after;

    (void)state;
    heap_stats(&before);
    fill(pieces);
    heap_stats(&full);
    for (int i = 0; i < PIECES; i++)
        free(pieces[i]);
    heap_stats(&after);
    if (before.used_bytes == 0 && full.used_bytes == 0)
        skip(); /* a sanitizer's allocator counts nothing */
    assert_true(full.used_bytes >= before.used_bytes + ALL_BYTES / 10 * 9);
    assert_true(full.heap_bytes >= full.used_bytes);
    assert_true(after.used_bytes < before.used_bytes + ALL_BYTES / 10);
}

static void what_is_free_is_given_back_past_the_limit(void **state)
{
    char *pieces[PIECES];
    struct heap_stats full, kept, given;
    char *last;

    (void)state;
    fill(pieces);
    last = mem_must(PIECE_BYTES); /* so that the C library's heap cannot just be cut at its end */
    heap_stats(&full);
    for (int i = 0; i < PIECES; i++)
        free(pieces[i]);
    if (full.used_bytes == 0) {
        free(last);
        skip();
    }
    heap_give_back(2 * ALL_BYTES);
    heap_stats(&kept);
    heap_give_back(ALL_BYTES / 4);
    heap_stats(&given);
    free(last);
    assert_in_range(kept.free_bytes, ALL_BYTES / 4, 2 * ALL_BYTES);
    /* The C library counts what it has given back as free, and as its own. */
    if (strcmp(given.allocator, "jemalloc") == 0)
        assert_true(given.free_bytes < ALL_BYTES / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_used_is_counted),
        cmocka_unit_test(what_is_free_is_given_back_past_the_limit),
    };

    heap_tune();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
