/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/bw.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/op.h"

static struct error err;

static void refuse(const char *point, int nth)
{
    char spec[64];

    snprintf(spec, sizeof(spec), "%s:fail=1:%d", point, nth);
    assert_int_equal(fault_set(spec, &err), 0);
}

static void test_try_gives_null(void **state)
{
    uint8_t *p;

    (void)state;
    refuse("allocate", 1);
    assert_null(mem_try(10));
    p = mem_try_zero(10, 10);
    assert_non_null(p);
    assert_int_equal(p[99], 0);
    refuse("allocLarge", 1);
    assert_null(mem_try_resize(p, 200));
    p[99] = 7; /* the old block stays */
    p = mem_try_resize(p, 200);
    assert_int_equal(p[99], 7);
    free(p);
    fault_clear_all();
}

/* Ends by itself: what it wrote to stderr, and its exit code. */
static int run(void (*fn)(void), char *log, size_t size)
{
    int ends[2], status;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        refuse("allocate", 1);
        fn();
        _exit(0);
    }
    close(ends[1]);
    n = read(ends[0], log, size - 1);
    log[n < 0 ? 0 : n] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void must(void)
{
    free(mem_must(4711));
}

static void must_grow(void)
{
    free(mem_must_resize(NULL, 4711));
}

static void must_copy(void)
{
    char text[4711];

    memset(text, 'x', sizeof(text));
    text[4710] = '\0';
    free(mem_must_strdup(text));
}

static void small_arena(void)
{
    struct arena a;

    arena_init(&a);
    memset(arena_alloc(&a, 4711), 0, 4711);
}

static void small_writer(void)
{
    struct bw w;

    bw_init(&w, NULL);
}

static void test_must_ends_the_process(void **state)
{
    void (*const cases[])(void) = {must, must_grow, must_copy, small_arena, small_writer};
    char log[4096];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(run(cases[i], log, sizeof(log)), MEM_EXIT_CODE);
        assert_non_null(strstr(log, "\"s\":\"F\""));
        assert_non_null(strstr(log, "out of memory"));
        assert_non_null(strstr(log, i == 4 ? "\"bytes\":256" : "\"bytes\":4711"));
        assert_non_null(strstr(log, "\"at\":\"test_base_mem+0x"));
    }
}

/* One that had not to be so large is tried again. */
static void test_arena_takes_a_smaller_chunk(void **state)
{
    struct arena a;

    (void)state;
    arena_init(&a);
    for (int i = 0; i < 5; i++)
        memset(arena_alloc(&a, 3000), i, 3000);
    assert_true(a.bytes >= 16000);
    while (a.end - a.at >= 3000)
        memset(arena_alloc(&a, 3000), 0, 3000);
    refuse("allocate", 1);
    memset(arena_alloc(&a, 3000), 1, 3000);
    assert_true(a.end - a.at < 3000);
    fault_clear_all();
    arena_fini(&a);
}

static void test_arena_try(void **state)
{
    struct arena a;
    struct op op;
    struct bv v = {(const uint8_t *)"12345678", 8, BV_INT64}, copy = BV_NONE;

    (void)state;
    arena_init(&a);
    assert_null(ARENA_TRY_ARRAY(&a, uint64_t, SIZE_MAX / 4));
    refuse("allocate", 1);
    assert_null(ARENA_TRY_ARRAY(&a, uint64_t, 100000));
    refuse("allocLarge", 1);
    assert_null(ARENA_TRY_ARRAY(&a, uint64_t, 100000));
    assert_int_equal(ARENA_TRY_ARRAY(&a, uint64_t, 100000)[99999], 0);
    op_init(&op);
    refuse("allocate", 1);
    arena_fini(&a);
    assert_int_equal(op_dup(&op, &a, v, &copy), ERR_EXCEEDED_MEMORY_LIMIT);
    assert_true(bv_is_missing(copy));
    assert_string_equal(op.err->text, "out of memory");
    assert_int_equal(op_dup(&op, &a, v, &copy), 0);
    assert_true(copy.p != v.p && bv_identical(copy, v));
    fault_clear_all();
    op_fini(&op);
    arena_fini(&a);
}

/* A large writer says so, and can be asked for room before. */
static void test_writer(void **state)
{
    static char text[100000];
    struct arena a;
    struct bw w;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    arena_init(&a);
    bw_init(&w, &a);
    refuse("allocate", 1);
    bw_str(&w, "s", text);
    assert_true(w.failed && w.no_memory);
    assert_true(bv_is_missing(bw_done(&w)));
    bw_init(&w, &a);
    assert_true(bw_room(&w, 200000));
    refuse("allocate", 1);
    bw_str(&w, "s", text);
    assert_false(bv_is_missing(bw_done(&w)));
    assert_int_equal(fault_hits("allocate"), 0);
    fault_clear_all();
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_try_gives_null),
        cmocka_unit_test(test_must_ends_the_process),
        cmocka_unit_test(test_arena_takes_a_smaller_chunk),
        cmocka_unit_test(test_arena_try),
        cmocka_unit_test(test_writer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
