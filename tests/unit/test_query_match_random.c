/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Random filters and documents: nonsense ends in an error or in a filter that can be used, and
 * what can be used obeys the laws of logic. The seed is fixed; RUNNEL_SEED and RUNNEL_ROUNDS
 * change it for longer runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/bw.h"
#include "query/match.h"
#include "query/projection.h"

static struct op op;
static uint64_t seed = 1;

static uint32_t pick(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 20) % n;
}

#define ONE_OF(list) (list)[pick(sizeof(list) / sizeof((list)[0]))]

static const char *const names[] = {"a", "b", "a.b", "a.0", "a.0.b", "", "a.", "b.1", "c"};
static const char *const operators[] = {
    "$eq",           "$ne",      "$lt",         "$lte",    "$gt",        "$gte",
    "$in",           "$nin",     "$not",        "$exists", "$type",      "$size",
    "$mod",          "$regex",   "$options",    "$all",    "$elemMatch", "$bitsAllSet",
    "$bitsAnyClear", "$comment", "$near",       "$and",    "$or",        "$nor",
    "$expr",         "$where",   "$alwaysTrue", "$bogus",  "$slice",     "$meta",
    "$add",          "$ref",     "$id"};

static void write_value(struct bw *w, const char *key, int depth, bool filter);

static void write_fields(struct bw *w, int depth, bool filter)
{
    uint32_t n = pick(4);

    for (uint32_t i = 0; i < n; i++)
        write_value(w, filter && pick(2) == 0 ? ONE_OF(operators) : ONE_OF(names), depth, filter);
}

static void write_value(struct bw *w, const char *key, int depth, bool filter)
{
    static const double doubles[] = {0, -0.0, 1, 2.5, 1e300, -1.0 / 0.0, 0.0 / 0.0};
    static const char *const strings[] = {"", "a", "ab", "int", "^a", "(", "[a-z]+", "$a", "i"};
    static const uint8_t regex[] = {'a', 0, 'i', 0}, decimal[16] = {1, [15] = 0x30};

    switch (pick(depth > 0 ? 16 : 12)) {
    case 0:
        bw_i32(w, key, (int32_t)pick(5) - 1);
        break;
    case 1:
        bw_i64(w, key, (int64_t)pick(5) << 60);
        break;
    case 2:
        bw_f64(w, key, ONE_OF(doubles));
        break;
    case 3:
    case 4:
        bw_str(w, key, ONE_OF(strings));
        break;
    case 5:
        bw_null(w, key);
        break;
    case 6:
        bw_bool(w, key, pick(2));
        break;
    case 7:
        bw_bv(w, key, (struct bv){regex, 4, BV_REGEX});
        break;
    case 8:
        bw_bv(w, key, (struct bv){decimal, 16, BV_DECIMAL});
        break;
    case 9:
        bw_bv(w, key, pick(2) ? bv_minkey : bv_maxkey);
        break;
    case 10:
        bw_ts(w, key, pick(3));
        break;
    case 11:
        bw_bin(w, key, 0, "\x05\x01", pick(3));
        break;
    case 12:
    case 13:
        bw_arr_begin(w, key);
        for (uint32_t n = pick(4); n > 0; n--)
            write_value(w, NULL, depth - 1, filter);
        bw_end(w);
        break;
    default:
        bw_doc_begin(w, key);
        write_fields(w, depth - 1, filter);
        bw_end(w);
        break;
    }
}

static struct bv random_doc(bool filter)
{
    struct bw w;

    bw_init(&w, &op.arena);
    write_fields(&w, 5, filter);
    return bw_done(&w);
}

/* {op: [filter]} */
static struct bv wrap(const char *name, struct bv filter)
{
    struct bw w;

    bw_init(&w, &op.arena);
    bw_arr_begin(&w, name);
    bw_bv(&w, NULL, filter);
    bw_bv(&w, NULL, filter);
    bw_end(&w);
    return bw_done(&w);
}

static void ignore(void *arg, const char *path)
{
    ++*(size_t *)arg;
    assert_non_null(path);
}

/* 0: no match, 1: match, 2: an error */
static int outcome(struct bv filter, struct bv doc)
{
    struct match *m = NULL;
    struct eval ev;
    bool hit;

    eval_init(&ev, &op, &op.arena);
    if (match_parse(&op, &op.arena, filter, NULL, &m) != 0)
        return 2;
    if (match_test(m, &ev, doc, &hit, NULL) != 0)
        return 2;
    return hit;
}

static void check_filter(struct bv filter, struct bv doc)
{
    int plain = outcome(filter, doc);
    struct match *m = NULL;
    size_t n = 0;

    if (plain == 2)
        return;
    assert_int_equal(outcome(wrap("$and", filter), doc), plain);
    assert_int_equal(outcome(wrap("$or", filter), doc), plain);
    assert_int_equal(outcome(wrap("$nor", filter), doc), !plain);
    assert_int_equal(outcome(wrap("$nor", wrap("$nor", filter)), doc), plain);
    assert_int_equal(match_parse(&op, &op.arena, filter, NULL, &m), 0);
    match_paths(m, ignore, &n);
    assert_int_equal(match_show(m, &op.arena).type, BV_DOC);
}

/* A projected document is sound. */
static void check_projection(struct bv spec, struct bv doc)
{
    struct projection *p = NULL;
    struct eval ev;
    struct bv once;
    struct error err;

    eval_init(&ev, &op, &op.arena);
    if (projection_parse(&op, &op.arena, spec, (enum projection_use)pick(3), NULL, NULL, &p) != 0)
        return;
    if (projection_apply(p, &ev, doc, &once) == 0)
        assert_int_equal(bv_check(once.p, once.len, 256, &err), 0);
}

static void test_random(void **state)
{
    const char *text = getenv("RUNNEL_SEED"), *rounds = getenv("RUNNEL_ROUNDS");
    long n = rounds == NULL ? 20000 : atol(rounds);
    int usable = 0;

    (void)state;
    seed = text == NULL ? 88172645463325252u : strtoull(text, NULL, 10);
    op_init(&op);
    for (long i = 0; i < n; i++) {
        struct bv filter = random_doc(true), doc = random_doc(false);

        check_filter(filter, doc);
        usable += outcome(filter, doc) != 2;
        check_projection(random_doc(true), doc);
        arena_reset(&op.arena);
    }
    assert_true(usable > n / 20);
    op_fini(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
