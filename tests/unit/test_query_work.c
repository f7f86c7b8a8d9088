/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Long work on one document looks whether it shall end: the request here has been interrupted from
 * the start, and whatever goes through op_work() must say so. What is small does not look.
 */
#include "update_util.h"

#include "base/clock.h"
#include "query/distinct.h"
#include "query/expr.h"
#include "query/projection.h"
#include "query/regex.h"
#include "query/sort_key.h"

static int interrupted(void **state)
{
    setup(state);
    op.interrupt = ERR_INTERRUPTED;
    return 0;
}

/* {a: [0, 0, ...]} with about 12 bytes for each element. */
static struct bv wide_array(int n)
{
    struct bw w;

    bw_init(&w, &op.arena);
    bw_arr_begin(&w, "a");
    for (int i = 0; i < n; i++)
        bw_i32(&w, NULL, 0);
    bw_end(&w);
    return bw_done(&w);
}

/* {f0: value, f1: value, ...}; text: as strings "to0", "to1" */
static struct bv wide_doc(int n, const char *text)
{
    struct bw w;

    bw_init(&w, &op.arena);
    for (int i = 0; i < n; i++) {
        const char *key = arena_printf(&op.arena, "f%d", i);

        if (text == NULL)
            bw_i32(&w, key, i);
        else
            bw_str(&w, key, arena_printf(&op.arena, "%s%d", text, i));
    }
    return bw_done(&w);
}

static struct bv repeated(char c, size_t n)
{
    char *s = arena_alloc(&op.arena, n + 1);
    struct bw w;

    memset(s, c, n);
    s[n] = '\0';
    bw_init(&w, &op.arena);
    bw_str(&w, "s", s);
    return bw_done(&w);
}

static int match_rc(struct match *m, struct bv doc)
{
    bool hit;

    return match_test(m, &ev, doc, &hit, NULL);
}

static int eval_rc(const char *text, struct bv doc)
{
    struct expr *e = NULL;
    struct bv v;

    assert_int_equal(expr_parse(&op, &op.arena, bv_get(doc_of(text), "e"), NULL, &e), 0);
    eval_set_row(&ev, doc);
    return expr_eval(e, &ev, &v);
}

static void test_filters(void **state)
{
    struct bw w;
    struct match *m = NULL;

    (void)state;
    assert_int_equal(match_rc(filter_of("{'a': 1}"), wide_array(10)), 0);
    assert_int_equal(match_rc(filter_of("{'a': 1}"), wide_array(30000)), ERR_INTERRUPTED);
    /* many small leaves */
    bw_init(&w, &op.arena);
    bw_arr_begin(&w, "$or");
    for (int i = 0; i < 3000; i++) {
        bw_doc_begin(&w, NULL);
        bw_i32(&w, "f9", -1);
        bw_end(&w);
    }
    bw_end(&w);
    assert_int_equal(match_parse(&op, &op.arena, bw_done(&w), NULL, &m), 0);
    assert_int_equal(match_rc(m, wide_doc(20, NULL)), ERR_INTERRUPTED);
}

/* An array [{0: [{0: ...}]}] has 1.6 times as many ways for "a.0.0.0..." with each level. */
static void test_paths_that_fork(void **state)
{
    struct distinct *d = NULL;
    char path[256] = "{'a";
    struct bv inner = doc_of("{'0': 1}");

    (void)state;
    for (int i = 0; i < 60; i++) {
        struct bw w;

        bw_init(&w, &op.arena);
        bw_arr_begin(&w, i == 59 ? "a" : "0");
        bw_bv(&w, NULL, inner);
        bw_end(&w);
        inner = bw_done(&w);
        strcat(path, ".0");
    }
    assert_int_equal(distinct_new(&op, path + 2, &d), 0);
    assert_int_equal(distinct_add(d, &op, inner), ERR_INTERRUPTED);
    strcat(path, "': 2}");
    assert_int_equal(match_rc(filter_of(path), inner), ERR_INTERRUPTED);
}

static void test_regular_expressions(void **state)
{
    (void)state;
    assert_int_equal(match_rc(filter_of("{'s': {'$regex': 'b'}}"), repeated('a', 100)), 0);
    assert_int_equal(match_rc(filter_of("{'s': {'$regex': '^(a|aa)+[bc]'}}"), repeated('a', 40)),
                     ERR_INTERRUPTED);
    assert_int_equal(
        eval_rc("{'e': {'$regexFindAll': {'input': '$s', 'regex': 'a'}}}", repeated('a', 1000)),
        ERR_INTERRUPTED);
}

static void test_expressions(void **state)
{
    (void)state;
    assert_int_equal(eval_rc("{'e': {'$size': '$a'}}", wide_array(100)), 0);
    assert_int_equal(eval_rc("{'e': {'$size': '$a'}}", wide_array(30000)), ERR_INTERRUPTED);
    assert_int_equal(eval_rc("{'e': {'$size': {'$range': [0, 40000]}}}", bv_empty_doc),
                     ERR_INTERRUPTED);
    assert_int_equal(
        eval_rc("{'e': {'$map': {'input': {'$range': [0, 900]}, 'in': {'$in': [1, '$a']}}}}",
                wide_array(200)),
        ERR_INTERRUPTED);
    assert_int_equal(
        eval_rc("{'e': {'$trim': {'input': '$s', 'chars': '$s'}}}", repeated('a', 100)), 0);
    assert_int_equal(
        eval_rc("{'e': {'$ltrim': {'input': '$s', 'chars': '$s'}}}", repeated('a', 2000)),
        ERR_INTERRUPTED);
    assert_int_equal(
        eval_rc("{'e': {'$rtrim': {'input': '$s', 'chars': '$s'}}}", repeated('a', 2000)),
        ERR_INTERRUPTED);
}

/* Each field of one is looked for in the other. */
static void test_merged_objects(void **state)
{
    static const char merge[] = "{'e': {'$mergeObjects': ['$$ROOT', '$$ROOT']}}";

    (void)state;
    assert_int_equal(eval_rc(merge, wide_doc(20, NULL)), 0);
    assert_int_equal(eval_rc(merge, wide_doc(300, NULL)), ERR_INTERRUPTED);
    assert_int_equal(eval_rc("{'e': {'$mergeObjects': [{'x': 1}, '$$ROOT']}}", wide_doc(300, NULL)),
                     0);
}

static int project_rc(struct bv spec, struct bv doc)
{
    struct projection *p = NULL;
    struct bv v;

    assert_int_equal(projection_parse(&op, &op.arena, spec, PROJECT_ADD_FIELDS, NULL, NULL, &p), 0);
    return projection_apply(p, &ev, doc, &v);
}

static void test_projections(void **state)
{
    (void)state;
    assert_int_equal(project_rc(doc_of("{'x': 1}"), wide_doc(100, NULL)), 0);
    assert_int_equal(project_rc(doc_of("{'x': 1}"), wide_doc(30000, NULL)), ERR_INTERRUPTED);
    /* each new field is looked for in the document */
    assert_int_equal(project_rc(wide_doc(1000, NULL), wide_array(40)), ERR_INTERRUPTED);
}

static void test_sort_keys(void **state)
{
    struct sort_spec spec;
    struct bv keys[SORT_KEYS_MAX];

    (void)state;
    assert_int_equal(sort_spec_parse(&op, &op.arena, doc_of("{'a': 1}"), &spec), 0);
    assert_int_equal(sort_keys(&spec, &op, wide_array(100), keys), 0);
    assert_int_equal(sort_keys(&spec, &op, wide_array(30000), keys), ERR_INTERRUPTED);
}

static void test_renames(void **state)
{
    struct update_result r;
    struct bw w;

    (void)state;
    bw_init(&w, &op.arena);
    bw_bv(&w, "$rename", wide_doc(300, "to"));
    assert_int_equal(apply_bv(bw_done(&w), wide_doc(1000, NULL), &r), ERR_INTERRUPTED);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, interrupted, teardown)
    const struct CMUnitTest tests[] = {
        T(test_filters),     T(test_paths_that_fork), T(test_regular_expressions),
        T(test_expressions), T(test_projections),     T(test_sort_keys),
        T(test_renames),     T(test_merged_objects),
    };

    return cmocka_run_group_tests_name("query/work", tests, NULL, NULL);
}
