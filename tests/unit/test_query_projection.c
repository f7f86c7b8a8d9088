/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "query/projection.h"
#include "tests/unit/json_values.h"

static struct op op;

static int parse(const char *spec, enum projection_use use, const char *filter,
                 struct projection **ret)
{
    struct match *m = NULL;

    if (filter != NULL)
        assert_int_equal(match_parse(&op, &op.arena, json_doc(&op.arena, filter), NULL, &m), 0);
    return projection_parse(&op, &op.arena, json_value(&op.arena, spec), use, NULL, m, ret);
}

static int apply(const struct projection *p, const char *doc, struct bv *ret)
{
    struct eval ev;

    eval_init(&ev, &op, &op.arena);
    return projection_apply(p, &ev, json_doc(&op.arena, doc), ret);
}

struct row {
    const char *spec, *doc, *want, *filter;
};

static void check(enum projection_use use, const struct row *rows, size_t n)
{
    op_init(&op);
    for (size_t i = 0; i < n; i++) {
        struct projection *p = NULL;
        struct bv got, want = json_doc(&op.arena, rows[i].want);

        if (parse(rows[i].spec, use, rows[i].filter, &p) != 0)
            fail_msg("%s: %d %s", rows[i].spec, op.err->code, op.err->text);
        if (apply(p, rows[i].doc, &got) != 0)
            fail_msg("%s on %s: %d %s", rows[i].spec, rows[i].doc, op.err->code, op.err->text);
        if (!bv_identical(got, want))
            fail_msg("%s on %s: %s", rows[i].spec, rows[i].doc, json_text(&op.arena, got));
    }
    op_fini(&op);
}

#define CHECK(use, rows) check(use, rows, sizeof(rows) / sizeof((rows)[0]))

static void test_inclusion(void **state)
{
    static const struct row rows[] = {
        {"{}", "{\"_id\": 1, \"a\": 2}", "{\"_id\": 1, \"a\": 2}", NULL},
        {"{\"a\": 1}", "{\"_id\": 1, \"b\": 3, \"a\": 2}", "{\"_id\": 1, \"a\": 2}", NULL},
        {"{\"c\": 1, \"a\": true}", "{\"_id\": 1, \"a\": 2, \"b\": 3, \"c\": 4}",
         "{\"_id\": 1, \"a\": 2, \"c\": 4}", NULL},
        {"{\"a\": 1, \"_id\": 0}", "{\"_id\": 1, \"a\": 2}", "{\"a\": 2}", NULL},
        {"{\"_id\": 1}", "{\"_id\": 1, \"a\": 2}", "{\"_id\": 1}", NULL},
        {"{\"a.b\": 1}", "{\"_id\": 1, \"a\": {\"b\": 1, \"c\": 2}}",
         "{\"_id\": 1, \"a\": {\"b\": 1}}", NULL},
        {"{\"a\": {\"b\": 1}}", "{\"_id\": 1, \"a\": {\"b\": 1, \"c\": 2}}",
         "{\"_id\": 1, \"a\": {\"b\": 1}}", NULL},
        {"{\"a\": {\"b.c\": 1}}", "{\"a\": {\"b\": {\"c\": 1, \"d\": 2}}}",
         "{\"a\": {\"b\": {\"c\": 1}}}", NULL},
        {"{\"a.b\": 1}", "{\"a\": [{\"b\": 1, \"c\": 2}, 5, {\"c\": 3}, [{\"b\": 4}, 6]]}",
         "{\"a\": [{\"b\": 1}, {}, [{\"b\": 4}]]}", NULL},
        {"{\"a.b\": 1}", "{\"a\": 5}", "{}", NULL},
        {"{\"a.0\": 1}", "{\"a\": [1, 2]}", "{\"a\": []}", NULL},
        {"{\"x\": \"$a\", \"b\": 1}", "{\"_id\": 1, \"a\": 2, \"b\": 3}",
         "{\"_id\": 1, \"b\": 3, \"x\": 2}", NULL},
        {"{\"x\": \"lit\", \"_id\": 0}", "{\"_id\": 1}", "{\"x\": \"lit\"}", NULL},
        {"{\"a\": {\"%add\": [\"$a\", 1]}, \"b\": 1}", "{\"_id\": 1, \"a\": 2, \"b\": 3}",
         "{\"_id\": 1, \"b\": 3, \"a\": 3}", NULL},
        {"{\"a.x\": \"$b\"}", "{\"a\": {\"y\": 1}, \"b\": 3}", "{\"a\": {\"x\": 3}}", NULL},
        {"{\"a.x\": \"$b\", \"a.y\": 1}", "{\"a\": [{\"y\": 1}, 2], \"b\": 3}",
         "{\"a\": [{\"y\": 1, \"x\": 3}]}", NULL},
        {"{\"x\": \"$gone\"}", "{\"_id\": 1}", "{\"_id\": 1}", NULL},
    };

    (void)state;
    CHECK(PROJECT_FIND, rows);
}

static void test_exclusion(void **state)
{
    static const struct row rows[] = {
        {"{\"a\": 0}", "{\"_id\": 1, \"a\": 2, \"b\": 3}", "{\"_id\": 1, \"b\": 3}", NULL},
        {"{\"_id\": 0}", "{\"_id\": 1, \"a\": 2}", "{\"a\": 2}", NULL},
        {"{\"a\": false, \"_id\": true}", "{\"_id\": 1, \"a\": 2}", "{\"_id\": 1}", NULL},
        {"{\"a.b\": 0}", "{\"a\": [{\"b\": 1, \"c\": 2}, 5, [{\"b\": 1}]], \"d\": 1}",
         "{\"a\": [{\"c\": 2}, 5, [{}]], \"d\": 1}", NULL},
        {"{\"a.b\": 0}", "{\"a\": 5}", "{\"a\": 5}", NULL},
    };

    (void)state;
    CHECK(PROJECT_FIND, rows);
}

static void test_find_only(void **state)
{
    static const struct row rows[] = {
        {"{\"a\": {\"%slice\": 2}}", "{\"_id\": 1, \"a\": [1, 2, 3], \"b\": 4}",
         "{\"_id\": 1, \"a\": [1, 2], \"b\": 4}", NULL},
        {"{\"a\": {\"%slice\": -2}}", "{\"a\": [1, 2, 3]}", "{\"a\": [2, 3]}", NULL},
        {"{\"a\": {\"%slice\": -5}}", "{\"a\": [1, 2, 3]}", "{\"a\": [1, 2, 3]}", NULL},
        {"{\"a\": {\"%slice\": 0}}", "{\"a\": [1, 2, 3]}", "{\"a\": []}", NULL},
        {"{\"a\": {\"%slice\": [1, 1]}}", "{\"a\": [1, 2, 3]}", "{\"a\": [2]}", NULL},
        {"{\"a\": {\"%slice\": [-2, 1]}}", "{\"a\": [1, 2, 3]}", "{\"a\": [2]}", NULL},
        {"{\"a\": {\"%slice\": [7, 1]}}", "{\"a\": [1, 2, 3]}", "{\"a\": []}", NULL},
        {"{\"a\": {\"%slice\": 1}}", "{\"a\": 5}", "{\"a\": 5}", NULL},
        {"{\"a.b\": {\"%slice\": 1}, \"c\": 1}",
         "{\"_id\": 1, \"a\": [{\"b\": [1, 2], \"x\": 1}, {\"b\": [3, 4]}], \"c\": 2, \"d\": 3}",
         "{\"_id\": 1, \"a\": [{\"b\": [1]}, {\"b\": [3]}], \"c\": 2}", NULL},
        {"{\"a\": {\"%slice\": 1}, \"b\": 0}", "{\"a\": [1, 2], \"b\": 1, \"c\": 2}",
         "{\"a\": [1], \"c\": 2}", NULL},
        {"{\"a\": {\"%elemMatch\": {\"x\": 2}}}",
         "{\"_id\": 1, \"a\": [{\"x\": 1}, {\"x\": 2, \"y\": 3}], \"b\": 1}",
         "{\"_id\": 1, \"a\": [{\"x\": 2, \"y\": 3}]}", NULL},
        {"{\"a\": {\"%elemMatch\": {\"%gt\": 5}}, \"b\": 1}", "{\"a\": [1, 6, 7], \"b\": 1}",
         "{\"b\": 1, \"a\": [6]}", NULL},
        {"{\"a\": {\"%elemMatch\": {\"x\": 9}}}", "{\"_id\": 1, \"a\": [{\"x\": 1}]}",
         "{\"_id\": 1}", NULL},
        {"{\"a\": {\"%elemMatch\": {\"x\": 9}}}", "{\"_id\": 1, \"a\": 5}", "{\"_id\": 1}", NULL},
        {"{\"a.%\": 1}", "{\"_id\": 1, \"a\": [4, 5, 6], \"b\": 1}", "{\"_id\": 1, \"a\": [5]}",
         "{\"a\": {\"%gt\": 4}}"},
        {"{\"a.b.%\": 1}", "{\"a\": [{\"b\": 1, \"c\": 1}, {\"b\": 2, \"c\": 2}]}",
         "{\"a\": [{\"b\": 2}]}", "{\"a.b\": 2}"},
        {"{\"a.b.%\": 1}", "{\"a\": {\"b\": [1, 2, 3]}}", "{\"a\": {\"b\": [3]}}", "{\"a.b\": 3}"},
        {"{\"a.%\": 1}", "{\"a\": 5}", "{\"a\": 5}", "{\"a\": 5}"},
    };

    (void)state;
    CHECK(PROJECT_FIND, rows);
}

static void test_add_fields(void **state)
{
    static const struct row rows[] = {
        {"{\"b\": 5, \"c\": \"$a\"}", "{\"_id\": 1, \"b\": 2, \"a\": 3}",
         "{\"_id\": 1, \"b\": 5, \"a\": 3, \"c\": 3}", NULL},
        {"{\"a.x\": 1}", "{\"a\": [{\"y\": 2}, 5, []]}",
         "{\"a\": [{\"y\": 2, \"x\": 1}, {\"x\": 1}, []]}", NULL},
        {"{\"a.x.y\": 1}", "{\"a\": 5}", "{\"a\": {\"x\": {\"y\": 1}}}", NULL},
        {"{\"a\": {\"x\": 1}}", "{\"a\": {\"z\": 2}}", "{\"a\": {\"z\": 2, \"x\": 1}}", NULL},
        {"{\"a\": {}}", "{\"a\": 5}", "{\"a\": {}}", NULL},
        {"{\"a\": \"$$REMOVE\"}", "{\"a\": 5, \"b\": 1}", "{\"b\": 1}", NULL},
        {"{\"_id\": \"$a\"}", "{\"_id\": 1, \"a\": 2}", "{\"_id\": 2, \"a\": 2}", NULL},
        {"{\"a\": [1, \"$b\"]}", "{\"b\": 2}", "{\"b\": 2, \"a\": [1, 2]}", NULL},
    };
    static const struct row project[] = {
        {"{\"_id\": \"$a\", \"b\": 1}", "{\"_id\": 1, \"a\": 2, \"b\": 3}",
         "{\"_id\": 2, \"b\": 3}", NULL},
        {"{\"a\": 0}", "{\"_id\": 1, \"a\": 2}", "{\"_id\": 1}", NULL},
    };
    static const struct row unset[] = {
        {"\"a\"", "{\"a\": 1, \"b\": 2}", "{\"b\": 2}", NULL},
        {"[\"a.b\", \"c\"]", "{\"a\": {\"b\": 1, \"d\": 2}, \"c\": 3}", "{\"a\": {\"d\": 2}}",
         NULL},
        {"\"_id\"", "{\"_id\": 1, \"b\": 2}", "{\"b\": 2}", NULL},
    };

    (void)state;
    CHECK(PROJECT_ADD_FIELDS, rows);
    CHECK(PROJECT_STAGE, project);
    CHECK(PROJECT_UNSET, unset);
}

static void test_errors(void **state)
{
    static const struct {
        const char *spec;
        enum projection_use use;
        int code;
        const char *text;
    } rows[] = {
        {"{\"a\": 1, \"b\": 0}", PROJECT_FIND, 31254,
         "Cannot do exclusion on field b in inclusion projection"},
        {"{\"a\": 0, \"b\": 1}", PROJECT_FIND, 31253,
         "Cannot do inclusion on field b in exclusion projection"},
        {"{\"a\": 0, \"b\": 1}", PROJECT_STAGE, 31253,
         "Invalid $project :: caused by :: Cannot do inclusion on field b in exclusion "
         "projection"},
        {"{\"a\": 1, \"a.b\": 1}", PROJECT_FIND, 31249,
         "Path collision at a.b remaining portion b"},
        {"{\"a.b\": 1, \"a\": 1}", PROJECT_FIND, 31250, "Path collision at a"},
        {"{\"a\": 1, \"a\": 1}", PROJECT_FIND, 31250, "Path collision at a"},
        {"{\"a.b.c\": 1, \"a\": {\"b\": 1}}", PROJECT_FIND, 31250, "Path collision at a.b"},
        {"[\"a\", \"a.b\"]", PROJECT_UNSET, 31249, "Path collision at a.b remaining portion b"},
        {"{\"a\": 0, \"b\": \"$x\"}", PROJECT_FIND, 31252, NULL},
        {"{\"a\": {}}", PROJECT_FIND, 51270, NULL},
        {"{}", PROJECT_STAGE, 51272, NULL},
        {"{\"%a\": 1}", PROJECT_FIND, 16410, NULL},
        {"{\"a..b\": 1}", PROJECT_FIND, 15998, "FieldPath field names may not be empty strings."},
        {"{\"a.\": 1}", PROJECT_FIND, 40353, "FieldPath must not end with a '.'."},
        {"{\"\": 1}", PROJECT_FIND, 40352, NULL},
        {"{\"a.%.b\": 1}", PROJECT_FIND, 31394, NULL},
        {"{\"a.%\": 1}", PROJECT_FIND, 51050, NULL},
        {"{\"a.%\": 1}", PROJECT_STAGE, 16410, NULL},
        {"{\"a\": {\"%elemMatch\": 1}}", PROJECT_FIND, 31274, NULL},
        {"{\"a.b\": {\"%elemMatch\": {}}}", PROJECT_FIND, 31275, NULL},
        {"{\"a\": {\"%meta\": \"textScore\"}}", PROJECT_FIND, 238, NULL},
        {"{\"a\": {\"%slice\": [1, 0]}}", PROJECT_FIND, 28724, NULL},
        {"{\"a\": {\"%slice\": \"x\"}}", PROJECT_FIND, 28667, NULL},
        {"{\"a\": {\"b.c\": 1}}", PROJECT_ADD_FIELDS, 16412, NULL},
        {"5", PROJECT_UNSET, 31002, NULL},
        {"[]", PROJECT_UNSET, 31119, NULL},
        {"[1]", PROJECT_UNSET, 31120, NULL},
    };

    (void)state;
    op_init(&op);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct projection *p = NULL;
        int rc = parse(rows[i].spec, rows[i].use, NULL, &p);

        if (rc != rows[i].code || (rows[i].text != NULL && strcmp(op.err->text, rows[i].text) != 0))
            fail_msg("%s: %d %s", rows[i].spec, rc, op.err->text);
    }
    op_fini(&op);
}

static void test_positional_errors(void **state)
{
    struct projection *p = NULL;
    struct bv got;

    (void)state;
    op_init(&op);
    assert_int_equal(parse("{\"a.%\": 0}", PROJECT_FIND, "{\"a\": 1}", &p), 31395);
    assert_int_equal(parse("{\"a.%\": 1, \"b.%\": 1}", PROJECT_FIND, "{\"a\": 1}", &p), 31276);
    assert_int_equal(
        parse("{\"a.%\": 1, \"b\": {\"%elemMatch\": {\"x\": 1}}}", PROJECT_FIND, "{\"a\": 1}", &p),
        31256);
    /* the filter looks at another field: no element was matched */
    assert_int_equal(parse("{\"a.%\": 1}", PROJECT_FIND, "{\"b\": 1}", &p), 0);
    assert_int_equal(apply(p, "{\"a\": [1, 2], \"b\": 1}", &got), 51246);
    /* the matched position lies beyond this array */
    assert_int_equal(parse("{\"a.%\": 1}", PROJECT_FIND, "{\"b\": 3}", &p), 0);
    assert_int_equal(apply(p, "{\"a\": [1, 2], \"b\": [1, 2, 3]}", &got), 51247);
    op_fini(&op);
}

static void add_name(void *arg, const char *path)
{
    strcat(arg, path);
    strcat(arg, "|");
}

static void test_modified(void **state)
{
    static const struct {
        const char *spec;
        enum projection_use use;
        const char *want;
    } rows[] = {
        {"{\"a.b\": 0, \"c\": 0}", PROJECT_STAGE, "a|c|"},
        {"{\"a\": 1}", PROJECT_STAGE, "|"},
        {"{\"a.x\": 1, \"b\": 2}", PROJECT_ADD_FIELDS, "a|b|"},
        {"[\"a\", \"b.c\"]", PROJECT_UNSET, "a|b|"},
    };

    (void)state;
    op_init(&op);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct projection *p = NULL;
        char names[100] = "";

        assert_int_equal(parse(rows[i].spec, rows[i].use, NULL, &p), 0);
        projection_modified_paths(p, add_name, names);
        assert_string_equal(names, rows[i].want);
    }
    op_fini(&op);
}

/* Many fields, long paths and deep specs end in results or clean errors. */
static void test_hostile(void **state)
{
    struct projection *p = NULL;
    struct bw w;
    char path[1000];
    struct bv got;

    (void)state;
    op_init(&op);
    bw_init(&w, &op.arena);
    for (int i = 0; i < 20000; i++) {
        snprintf(path, sizeof(path), "f%d.g", i);
        bw_i32(&w, path, 1);
    }
    assert_int_equal(projection_parse(&op, &op.arena, bw_done(&w), PROJECT_FIND, NULL, NULL, &p),
                     0);
    assert_int_equal(apply(p, "{\"f19999\": {\"g\": 1, \"h\": 2}, \"x\": 1}", &got), 0);
    assert_string_equal(bv_show(&op.arena, got, 100), "{ f19999: { g: 1 } }");

    for (size_t i = 0; i < 500; i++)
        memcpy(path + 2 * i, "a.", 2);
    for (size_t n = 200; n <= 201; n++) {
        path[2 * n - 1] = '\0';
        bw_init(&w, &op.arena);
        bw_i32(&w, path, 1);
        assert_int_equal(
            projection_parse(&op, &op.arena, bw_done(&w), PROJECT_ADD_FIELDS, NULL, NULL, &p),
            n == 200 ? 0 : ERR_OVERFLOW);
        path[2 * n - 1] = '.';
        if (n == 200)
            assert_int_equal(apply(p, "{}", &got), 0);
    }

    bw_init(&w, &op.arena);
    for (int i = 0; i < 150; i++)
        bw_doc_begin(&w, "a");
    bw_i32(&w, "a", 1);
    while (w.depth > 1)
        bw_end(&w);
    assert_int_equal(projection_parse(&op, &op.arena, bw_done(&w), PROJECT_FIND, NULL, NULL, &p),
                     ERR_OVERFLOW);
    op_fini(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inclusion), cmocka_unit_test(test_exclusion),
        cmocka_unit_test(test_find_only), cmocka_unit_test(test_add_fields),
        cmocka_unit_test(test_errors),    cmocka_unit_test(test_positional_errors),
        cmocka_unit_test(test_modified),  cmocka_unit_test(test_hostile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
