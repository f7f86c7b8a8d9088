/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The core of expressions: paths, variables, literals, arithmetic, comparison, logic. */
#include "expr_cases.h"

#include <strings.h>

#include "base/limits.h"

#define NUM_LONG(n) "{\"$numberLong\": \"" n "\"}"
#define NUM_DEC(n)  "{\"$numberDecimal\": \"" n "\"}"
#define DATE(ms)    "{\"$date\": {\"$numberLong\": \"" ms "\"}}"

static void test_paths(void **state)
{
    static const struct expr_case cases[] = {
        {"\"$a\"", "{\"a\": 1}", "1", 0},
        {"\"$a.b\"", "{\"a\": {\"b\": \"x\"}}", "\"x\"", 0},
        {"\"$a.b\"", "{\"a\": 1}", "missing", 0},
        {"\"$a.b\"", "{\"a\": [{\"b\": 1}, {\"c\": 2}, 3, {\"b\": [4]}]}", "[1, [4]]", 0},
        {"\"$a.b\"", "{\"a\": [[{\"b\": 1}]]}", "[]", 0},
        {"\"$a.b.c\"", "{\"a\": [{\"b\": [{\"c\": 1}, {\"c\": 2}]}, {\"b\": {\"c\": 3}}]}",
         "[[1, 2], 3]", 0},
        {"\"$a.0\"", "{\"a\": [7]}", "[]", 0},
        {"\"$$ROOT\"", "{\"a\": 1}", "{\"a\": 1}", 0},
        {"\"$$ROOT.a\"", "{\"a\": 1}", "1", 0},
        {"\"$$CURRENT.a\"", "{\"a\": 1}", "1", 0},
        {"\"$$REMOVE\"", NULL, "missing", 0},
        {"{\"%type\": \"$$NOW\"}", NULL, "\"date\"", 0},
        {"{\"x\": \"$a\", \"y\": \"$b\"}", "{\"a\": 1}", "{\"x\": 1}", 0},
        {"[\"$a\", \"$b\"]", "{\"a\": 1}", "[1, null]", 0},
        {"{}", NULL, "{}", 0},
        {"{\"$literal\": \"$a\"}", NULL, "\"$a\"", 0},
        {"{\"$const\": \"$a\"}", NULL, "\"$a\"", 0},
        {"{\"$literal\": {\"$bad\": 1}}", NULL, "{\"$bad\": 1}", 0},
        {"\"$\"", NULL, NULL, 16872},
        {"\"$a.\"", NULL, NULL, 40353},
        {"\"$.a\"", NULL, NULL, 15998},
        {"\"$a..b\"", NULL, NULL, 15998},
        {"\"$a.$b\"", NULL, NULL, 16410},
        {"\"$a\\u0000b\"", NULL, NULL, 16411},
        {"\"$$nope\"", NULL, NULL, 17276},
        {"\"$$\"", NULL, NULL, ERR_FAILED_TO_PARSE},
        {"{\"$nope\": 1}", NULL, NULL, ERR_INVALID_PIPELINE_OPERATOR},
        {"{\"$add\": 1, \"b\": 2}", NULL, NULL, 15983},
        {"{\"a\": 1, \"$b\": 2}", NULL, NULL, 16410},
        {"{\"a.b\": 1}", NULL, NULL, 16412},
        {"{\"$abs\": [1, 2]}", NULL, NULL, 16020},
        {"{\"$round\": [1, 2, 3]}", NULL, NULL, 28667},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_let(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$let\": {\"vars\": {\"x\": \"$a\", \"y\": 2}, \"in\": {\"$add\": [\"$$x\", "
         "\"$$y\"]}}}",
         "{\"a\": 1}", "3", 0},
        {"{\"$let\": {\"vars\": {\"x\": {\"b\": 5}}, \"in\": \"$$x.b\"}}", NULL, "5", 0},
        {"{\"$let\": {\"vars\": {\"x\": 1}, \"in\": {\"$let\": {\"vars\": {\"x\": \"$a\", \"y\": "
         "\"$$x\"}, \"in\": [\"$$x\", \"$$y\"]}}}}",
         "{\"a\": 9}", "[9, 1]", 0},
        {"{\"$let\": {\"vars\": {\"CURRENT\": \"$a\"}, \"in\": [\"$b\", \"$$ROOT.b\"]}}",
         "{\"a\": {\"b\": 1}, \"b\": 2}", "[1, 2]", 0},
        {"{\"$let\": {\"vars\": {\"X\": 1}, \"in\": 1}}", NULL, NULL, ERR_FAILED_TO_PARSE},
        {"{\"$let\": {\"vars\": {\"x\": 1}, \"in\": 1, \"z\": 1}}", NULL, NULL, 16875},
        {"{\"$let\": {\"in\": 1}}", NULL, NULL, 16876},
        {"{\"$let\": {\"vars\": {}}}", NULL, NULL, 16877},
        {"[{\"$let\": {\"vars\": {\"x\": 1}, \"in\": 1}}, \"$$x\"]", NULL, NULL, 17276},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_arithmetic(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$add\": []}", NULL, "0", 0},
        {"{\"$add\": [1, 2]}", NULL, "3", 0},
        {"{\"$add\": [1, " NUM_LONG("2") "]}", NULL, NUM_LONG("3"), 0},
        {"{\"$add\": [2147483647, 1]}", NULL, NUM_LONG("2147483648"), 0},
        {"{\"$add\": [" NUM_LONG("9223372036854775807") ", 1]}", NULL, "9223372036854775808.0", 0},
        {"{\"$add\": [1, 1.5]}", NULL, "2.5", 0},
        {"{\"$add\": [1, " NUM_DEC("1.5") "]}", NULL, NUM_DEC("2.5"), 0},
        {"{\"$add\": [1, null]}", NULL, "null", 0},
        {"{\"$add\": [1, \"$nope\"]}", NULL, "null", 0},
        {"{\"$add\": [" DATE("1000") ", 5]}", NULL, DATE("1005"), 0},
        {"{\"$add\": [" DATE("1000") ", " DATE("1") "]}", NULL, NULL, 16612},
        {"{\"$add\": [1, \"x\"]}", NULL, NULL, ERR_TYPE_MISMATCH},
        {"{\"$subtract\": [5, 3.5]}", NULL, "1.5", 0},
        {"{\"$subtract\": [" DATE("1000") ", " DATE("400") "]}", NULL, NUM_LONG("600"), 0},
        {"{\"$subtract\": [" DATE("1000") ", 400]}", NULL, DATE("600"), 0},
        {"{\"$subtract\": [1, " DATE("400") "]}", NULL, NULL, ERR_TYPE_MISMATCH},
        {"{\"$subtract\": [-2147483648, 1]}", NULL, NUM_LONG("-2147483649"), 0},
        {"{\"$multiply\": [3, 4]}", NULL, "12", 0},
        {"{\"$multiply\": [65536, 65536]}", NULL, NUM_LONG("4294967296"), 0},
        {"{\"$multiply\": [\"a\"]}", NULL, NULL, ERR_TYPE_MISMATCH},
        {"{\"$divide\": [7, 2]}", NULL, "3.5", 0},
        {"{\"$divide\": [6, 2]}", NULL, "3.0", 0},
        {"{\"$divide\": [1, 0]}", NULL, NULL, ERR_BAD_VALUE},
        {"{\"$divide\": [" NUM_DEC("1") ", 4]}", NULL, NUM_DEC("0.25"), 0},
        {"{\"$mod\": [7, 3]}", NULL, "1", 0},
        {"{\"$mod\": [-7, 3]}", NULL, "-1", 0},
        {"{\"$mod\": [" NUM_LONG("-9223372036854775808") ", -1]}", NULL, NUM_LONG("0"), 0},
        {"{\"$mod\": [7.5, 2]}", NULL, "1.5", 0},
        {"{\"$mod\": [7, 0]}", NULL, NULL, 16610},
        {"{\"$mod\": [7, \"x\"]}", NULL, NULL, 16611},
        {"{\"$abs\": -5}", NULL, "5", 0},
        {"{\"$abs\": -2147483648}", NULL, NUM_LONG("2147483648"), 0},
        {"{\"$abs\": " NUM_LONG("-9223372036854775808") "}", NULL, NULL, 28680},
        {"{\"$abs\": \"x\"}", NULL, NULL, 28765},
        {"{\"$abs\": null}", NULL, "null", 0},
        {"{\"$ceil\": 1.2}", NULL, "2.0", 0},
        {"{\"$floor\": -1.2}", NULL, "-2.0", 0},
        {"{\"$floor\": 3}", NULL, "3", 0},
        {"{\"$ceil\": " NUM_DEC("1.2") "}", NULL, NUM_DEC("2"), 0},
        {"{\"$sqrt\": 9}", NULL, "3.0", 0},
        {"{\"$sqrt\": -1}", NULL, NULL, 28714},
        {"{\"$exp\": 0}", NULL, "1.0", 0},
        {"{\"$ln\": 1}", NULL, "0.0", 0},
        {"{\"$ln\": 0}", NULL, NULL, 28766},
        {"{\"$log10\": 100}", NULL, "2.0", 0},
        {"{\"$log10\": -1}", NULL, NULL, 28761},
        {"{\"$log\": [8, 2]}", NULL, "3.0", 0},
        {"{\"$log\": [8, 1]}", NULL, NULL, 28759},
        {"{\"$pow\": [2, 10]}", NULL, "1024", 0},
        {"{\"$pow\": [2, 40]}", NULL, NUM_LONG("1099511627776"), 0},
        {"{\"$pow\": [2, -1]}", NULL, "0.5", 0},
        {"{\"$pow\": [0, -1]}", NULL, NULL, 28764},
        {"{\"$round\": 2.5}", NULL, "2.0", 0},
        {"{\"$round\": 3.5}", NULL, "4.0", 0},
        {"{\"$round\": [1.25, 1]}", NULL, "1.2", 0},
        {"{\"$round\": [1234.5, -2]}", NULL, "1200.0", 0},
        {"{\"$round\": [1250, -2]}", NULL, "1200", 0},
        {"{\"$round\": [-1350, -2]}", NULL, "-1400", 0},
        {"{\"$round\": [1, 1.5]}", NULL, NULL, 51082},
        {"{\"$round\": [1, 101]}", NULL, NULL, 51083},
        {"{\"$trunc\": -1.9}", NULL, "-1.0", 0},
        {"{\"$trunc\": [1.29, 1]}", NULL, "1.2", 0},
        {"{\"$trunc\": [199, -2]}", NULL, "100", 0},
        {"{\"$trunc\": \"x\"}", NULL, NULL, 51081},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_trigonometry_and_bits(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$sin\": 0}", NULL, "0.0", 0},
        {"{\"$cos\": 0}", NULL, "1.0", 0},
        {"{\"$tan\": 0}", NULL, "0.0", 0},
        {"{\"$asin\": 1}", NULL, "1.5707963267948966", 0},
        {"{\"$acos\": 1}", NULL, "0.0", 0},
        {"{\"$atan\": 0}", NULL, "0.0", 0},
        {"{\"$atan2\": [0, -1]}", NULL, "3.141592653589793", 0},
        {"{\"$sinh\": 0}", NULL, "0.0", 0},
        {"{\"$cosh\": 0}", NULL, "1.0", 0},
        {"{\"$tanh\": 0}", NULL, "0.0", 0},
        {"{\"$asinh\": 0}", NULL, "0.0", 0},
        {"{\"$acosh\": 1}", NULL, "0.0", 0},
        {"{\"$atanh\": 0}", NULL, "0.0", 0},
        {"{\"$radiansToDegrees\": 3.141592653589793}", NULL, "180.0", 0},
        {"{\"$degreesToRadians\": 180}", NULL, "3.141592653589793", 0},
        {"{\"$sin\": {\"$numberDecimal\": \"0\"}}", NULL, NUM_DEC("0"), 0},
        {"{\"$sin\": \"x\"}", NULL, NULL, 28765},
        {"{\"$sin\": {\"$numberDouble\": \"Infinity\"}}", NULL, NULL, 50989},
        {"{\"$acos\": 2}", NULL, NULL, 50989},
        {"{\"$cos\": null}", NULL, "null", 0},
        {"{\"$bitAnd\": [6, 3]}", NULL, "2", 0},
        {"{\"$bitAnd\": []}", NULL, "-1", 0},
        {"{\"$bitOr\": [6, " NUM_LONG("1") "]}", NULL, NUM_LONG("7"), 0},
        {"{\"$bitXor\": [6, 3]}", NULL, "5", 0},
        {"{\"$bitNot\": 0}", NULL, "-1", 0},
        {"{\"$bitOr\": [1, null]}", NULL, "null", 0},
        {"{\"$bitOr\": [1.5]}", NULL, NULL, ERR_TYPE_MISMATCH},
        {"{\"$bitNot\": \"x\"}", NULL, NULL, ERR_TYPE_MISMATCH},
        {"{\"$percentile\": {}}", NULL, NULL, ERR_NOT_IMPLEMENTED},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_compare_and_logic(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$cmp\": [1, 2]}", NULL, "-1", 0},
        {"{\"$cmp\": [\"a\", 2]}", NULL, "1", 0},
        {"{\"$eq\": [1, 1.0]}", NULL, "true", 0},
        {"{\"$eq\": [\"$nope\", null]}", NULL, "false", 0},
        {"{\"$lt\": [\"$nope\", null]}", NULL, "true", 0},
        {"{\"$ne\": [1, 2]}", NULL, "true", 0},
        {"{\"$gt\": [[1], {}]}", NULL, "true", 0},
        {"{\"$gte\": [2, 2]}", NULL, "true", 0},
        {"{\"$lte\": [3, 2]}", NULL, "false", 0},
        {"{\"$and\": []}", NULL, "true", 0},
        {"{\"$and\": [1, \"x\", 0]}", NULL, "false", 0},
        {"{\"$and\": [0, {\"$divide\": [1, \"$z\"]}]}", "{\"z\": 0}", "false", 0},
        {"{\"$or\": []}", NULL, "false", 0},
        {"{\"$or\": [null, 0, {}]}", NULL, "true", 0},
        {"{\"$not\": [\"$nope\"]}", NULL, "true", 0},
        {"{\"$not\": [[]]}", NULL, "false", 0},
        {"{\"$cond\": [true, 1, {\"$divide\": [1, 0]}]}", NULL, "1", 0},
        {"{\"$cond\": {\"if\": \"$a\", \"then\": 1, \"else\": 2}}", "{\"a\": 0}", "2", 0},
        {"{\"$cond\": {\"if\": 1, \"then\": 1}}", NULL, NULL, 17082},
        {"{\"$cond\": {\"if\": 1, \"then\": 1, \"else\": 1, \"x\": 1}}", NULL, NULL, 17083},
        {"{\"$cond\": [1, 2]}", NULL, NULL, 16020},
        {"{\"$ifNull\": [\"$nope\", null, 3]}", NULL, "3", 0},
        {"{\"$ifNull\": [null, \"$nope\"]}", NULL, "missing", 0},
        {"{\"$ifNull\": [1]}", NULL, NULL, 1257300},
        {"{\"$switch\": {\"branches\": [{\"case\": {\"$eq\": [\"$a\", 1]}, \"then\": \"one\"}, "
         "{\"case\": true, \"then\": \"two\"}]}}",
         "{\"a\": 1}", "\"one\"", 0},
        {"{\"$switch\": {\"branches\": [{\"case\": false, \"then\": 1}], \"default\": 5}}", NULL,
         "5", 0},
        {"{\"$switch\": {\"branches\": [{\"case\": false, \"then\": 1}]}}", NULL, NULL, 40066},
        {"{\"$switch\": {\"branches\": []}}", NULL, NULL, 40068},
        {"{\"$switch\": {\"branches\": [{\"case\": 1}]}}", NULL, NULL, 40065},
        {"{\"%type\": \"$nope\"}", NULL, "\"missing\"", 0},
        {"{\"%type\": [1]}", NULL, "\"int\"", 0},
        {"{\"$isNumber\": 1.5}", NULL, "true", 0},
        {"{\"$isArray\": [[1]]}", NULL, "true", 0},
        {"{\"$isArray\": 1}", NULL, "false", 0},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

/* bi-06: an expression nested too deep is an error, one at the limit is not. */
static void test_depth(void **state)
{
    for (int extra = 0; extra < 2; extra++) {
        struct expr_vars vars = {0};
        struct expr *e;
        struct op op;
        struct bw w;

        (void)state;
        op_init(&op);
        bw_init(&w, &op.arena);
        for (int i = 1; i < LIMIT_EXPR_DEPTH + extra; i++)
            bw_doc_begin(&w, "$abs");
        bw_str(&w, "$abs", "$a");
        for (int i = 1; i < LIMIT_EXPR_DEPTH + extra; i++)
            bw_end(&w);
        /* LIMIT_EXPR_DEPTH - 1 operators and the path are the deepest that is accepted */
        assert_int_equal(expr_parse(&op, &op.arena, bv_get(bw_done(&w), "$abs"), &vars, &e),
                         extra ? ERR_OVERFLOW : 0);
        op_fini(&op);
    }
}

static void test_views_of_a_tree(void **state)
{
    struct expr_vars vars = {0};
    struct expr *e;
    struct bv v;
    struct op op;

    (void)state;
    op_init(&op);
    assert_int_equal(
        expr_parse(&op, &op.arena, json_value(&op.arena, "{\"$add\": [1, 2]}"), &vars, &e), 0);
    assert_true(expr_constant(e, &v));
    assert_int_equal(bv_i32(v), 3);
    assert_null(expr_field_path(e));
    assert_int_equal(expr_parse(&op, &op.arena, json_value(&op.arena, "\"$a.b\""), &vars, &e), 0);
    assert_false(expr_constant(e, &v));
    assert_string_equal(expr_field_path(e), "a.b");
    assert_int_equal(
        expr_parse(&op, &op.arena, json_value(&op.arena, "{\"$rand\": {}}"), &vars, &e), 0);
    assert_false(expr_constant(e, &v));
    op_fini(&op);
}

static void test_command_let(void **state)
{
    struct expr_vars vars = {0};
    struct eval ev;
    struct expr *e;
    struct bv v;
    struct op op;

    (void)state;
    op_init(&op);
    eval_init(&ev, &op, &op.arena);
    assert_int_equal(expr_parse_let(&op, &op.arena,
                                    json_value(&op.arena, "{\"x\": {\"$add\": [1, 1]}, \"y\": 3}"),
                                    &ev, &vars),
                     0);
    assert_int_equal(expr_parse(&op, &op.arena,
                                json_value(&op.arena, "{\"$multiply\": [\"$$x\", \"$$y\"]}"), &vars,
                                &e),
                     0);
    assert_true(expr_constant(e, &v));
    assert_int_equal(bv_i32(v), 6);
    assert_int_equal(
        expr_parse_let(&op, &op.arena, json_value(&op.arena, "{\"z\": \"$a\"}"), &ev, &vars),
        4890500);
    op_fini(&op);
}

static void test_rows_are_sorted(void **state)
{
    static const char *const names[] = {
#define EXPR_ARGS(name, min, max, fn)                     name,
#define EXPR_NAMED(name, not_object, unknown, fields, fn) name,
#define EXPR_CUSTOM(name, parser, fn)                     name,
#define EXPR_UNBUILT(name)                                name,
#include "query/expr_ops.def"
    };

    (void)state;
    for (size_t i = 1; i < sizeof(names) / sizeof(names[0]); i++)
        assert_true(strcasecmp(names[i - 1], names[i]) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_let),
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_trigonometry_and_bits),
        cmocka_unit_test(test_compare_and_logic),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_views_of_a_tree),
        cmocka_unit_test(test_command_let),
        cmocka_unit_test(test_rows_are_sorted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
