/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pipelines: which stages may stand where, and what each does to rows. */
#include "stage_cases.h"

#include <strings.h>

#define NUM_LONG(n) "{\"$numberLong\": \"" n "\"}"

static void test_parsing(void **state)
{
    static const struct stage_case cases[] = {
        {"[]", "[{\"a\": 1}]", "[{\"a\": 1}]", 0},
        {"[1]", "[]", NULL, ERR_TYPE_MISMATCH},
        {"{}", "[]", NULL, ERR_TYPE_MISMATCH},
        {"[{}]", "[]", NULL, 40323},
        {"[{\"$limit\": 1, \"$skip\": 1}]", "[]", NULL, 40323},
        {"[{\"$nope\": 1}]", "[]", NULL, 40324},
        {"[{\"$lookup\": {}}]", "[]", NULL, ERR_NOT_IMPLEMENTED},
        {"[{\"$limit\": 1}, {\"$changeStream\": {}}]", "[]", NULL, 40602},
        {"[{\"$limit\": 0}]", "[]", NULL, 15958},
        {"[{\"$limit\": -1}]", "[]", NULL, 5107201},
        {"[{\"$limit\": \"x\"}]", "[]", NULL, 5107201},
        {"[{\"$limit\": 1.5}]", "[]", NULL, 5107201},
        {"[{\"$skip\": -1}]", "[]", NULL, 5107200},
        {"[{\"$match\": 1}]", "[]", NULL, 15959},
        {"[{\"$project\": 1}]", "[]", NULL, 15969},
        {"[{\"$addFields\": 1}]", "[]", NULL, 40272},
        {"[{\"$count\": 1}]", "[]", NULL, 40156},
        {"[{\"$count\": \"\"}]", "[]", NULL, 40157},
        {"[{\"$count\": \"$a\"}]", "[]", NULL, 40158},
        {"[{\"$count\": \"a.b\"}]", "[]", NULL, 40160},
        {"[{\"$replaceRoot\": 1}]", "[]", NULL, 40229},
        {"[{\"$replaceRoot\": {}}]", "[]", NULL, ERR_IDL_MISSING_FIELD},
        {"[{\"$replaceRoot\": {\"newRoot\": 1, \"x\": 1}}]", "[]", NULL, ERR_IDL_UNKNOWN_FIELD},
        {"[{\"$unwind\": 1}]", "[]", NULL, 15981},
        {"[{\"$unwind\": \"a\"}]", "[]", NULL, 28818},
        {"[{\"$unwind\": {}}]", "[]", NULL, 28812},
        {"[{\"$unwind\": {\"path\": \"$a\", \"x\": 1}}]", "[]", NULL, 28811},
        {"[{\"$unwind\": {\"path\": \"$a\", \"includeArrayIndex\": \"$i\"}}]", "[]", NULL, 28822},
        {"[{\"$sort\": 1}]", "[]", NULL, 15973},
        {"[{\"$sort\": {}}]", "[]", NULL, 15976},
        {"[{\"$sort\": {\"a\": 2}}]", "[]", NULL, 15975},
        {"[{\"$sort\": {\"a\": \"x\"}}]", "[]", NULL, 15974},
        {"[{\"$group\": 1}]", "[]", NULL, 15947},
        {"[{\"$group\": {}}]", "[]", NULL, 15955},
        {"[{\"$group\": {\"_id\": 1, \"a\": 1}}]", "[]", NULL, 40234},
        {"[{\"$group\": {\"_id\": 1, \"a.b\": {\"$sum\": 1}}}]", "[]", NULL, 40235},
        {"[{\"$group\": {\"_id\": 1, \"$a\": {\"$sum\": 1}}}]", "[]", NULL, 40236},
        {"[{\"$group\": {\"_id\": 1, \"a\": {\"$sum\": [1]}}}]", "[]", NULL, 40237},
        {"[{\"$group\": {\"_id\": 1, \"a\": {\"$sum\": 1, \"$avg\": 1}}}]", "[]", NULL, 40238},
        {"[{\"$group\": {\"_id\": 1, \"a\": {\"$nope\": 1}}}]", "[]", NULL, 15952},
        {"[{\"$sortByCount\": \"a\"}]", "[]", NULL, 40148},
        {"[{\"$sortByCount\": 1}]", "[]", NULL, 40149},
        {"[{\"$sortByCount\": {}}]", "[]", NULL, 40147},
    };

    (void)state;
    RUN_STAGE_CASES(cases);
}

/* Where a stage may not stand is told only after all of them were parsed. */
static void test_allow_lists(void **state)
{
    struct stage_run stream = {.docs = bv_empty_array, .change_stream = true};
    struct stage_run update = {.docs = bv_empty_array, .for_update = true};
    struct bv got;
    struct op op;

    (void)state;
    op_init(&op);
    stream.pipeline =
        "[{\"$match\": {}}, {\"$project\": {\"x\": 0}}, {\"$addFields\": {\"y\": 1}}, "
        "{\"$set\": {\"y\": 1}}, {\"$unset\": \"y\"}, {\"$redact\": \"$$KEEP\"}, "
        "{\"$replaceWith\": \"$$ROOT\"}, {\"$replaceRoot\": {\"newRoot\": "
        "\"$$ROOT\"}}]";
    assert_int_equal(run_pipeline(&op, &stream, &got), 0);
    stream.pipeline = "[{\"$group\": {\"_id\": 1}}]";
    assert_int_equal(run_pipeline(&op, &stream, &got), ERR_ILLEGAL_OPERATION);
    assert_string_equal(op.err->text, "$group is not permitted in a $changeStream pipeline");
    stream.pipeline = "[{\"$group\": {\"_id\": 1}}, {\"$nope\": 1}]";
    assert_int_equal(run_pipeline(&op, &stream, &got), 40324);

    update.pipeline = "[{\"$set\": {\"a\": 1}}, {\"$unset\": \"a\"}, {\"$project\": {\"a\": 1}}]";
    assert_int_equal(run_pipeline(&op, &update, &got), 0);
    update.pipeline = "[{\"$match\": {}}]";
    assert_int_equal(run_pipeline(&op, &update, &got), ERR_INVALID_OPTIONS);
    op_fini(&op);
}

/* Sources are made by the caller when first; anywhere else they are refused. */
static void test_sources_elsewhere(void **state)
{
    static const char *const names[] = {"$changeStream",      "$collStats",    "$currentOp",
                                        "$documents",         "$geoNear",      "$indexStats",
                                        "$listLocalSessions", "$listSessions", "$planCacheStats"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct stage_run run = {.docs = bv_empty_array};
        struct bv got;
        struct op op;

        op_init(&op);
        run.pipeline = arena_printf(&op.arena, "[{\"$limit\": 1}, {\"%s\": {}}]", names[i]);
        assert_int_equal(run_pipeline(&op, &run, &got), 40602);
        op_fini(&op);
    }
}

static void test_row_by_row(void **state)
{
    static const struct stage_case cases[] = {
        {"[{\"$match\": {\"a\": {\"%gt\": 1}}}]", "[{\"a\": 1}, {\"a\": 2}, {\"a\": 3}]",
         "[{\"a\": 2}, {\"a\": 3}]", 0},
        {"[{\"$skip\": 1}, {\"$limit\": 2}]", "[{\"a\": 1}, {\"a\": 2}, {\"a\": 3}, {\"a\": 4}]",
         "[{\"a\": 2}, {\"a\": 3}]", 0},
        {"[{\"$project\": {\"b\": {\"$add\": [\"$a\", 1]}}}]", "[{\"_id\": 9, \"a\": 1}]",
         "[{\"_id\": 9, \"b\": 2}]", 0},
        {"[{\"$set\": {\"b\": \"$a\"}}, {\"$unset\": \"a\"}]", "[{\"a\": 1}]", "[{\"b\": 1}]", 0},
        {"[{\"$addFields\": {\"b.c\": 1}}]", "[{\"a\": 1}]", "[{\"a\": 1, \"b\": {\"c\": 1}}]", 0},
        {"[{\"$replaceRoot\": {\"newRoot\": \"$o\"}}]", "[{\"o\": {\"x\": 1}}]", "[{\"x\": 1}]", 0},
        {"[{\"$replaceWith\": {\"x\": \"$a\"}}]", "[{\"a\": 1}]", "[{\"x\": 1}]", 0},
        {"[{\"$replaceWith\": \"$a\"}]", "[{\"a\": 1}]", NULL, 40228},
        {"[{\"$replaceWith\": \"$a\"}]", "[{}]", NULL, 40228},
        {"[{\"$count\": \"n\"}]", "[{}, {}, {}]", "[{\"n\": 3}]", 0},
        {"[{\"$count\": \"n\"}]", "[]", "[]", 0},
    };

    (void)state;
    RUN_STAGE_CASES(cases);
}

/* ag-09 and more */
static void test_unwind(void **state)
{
    static const char docs[] = "[{\"_id\": 1, \"a\": 5}, {\"_id\": 2, \"a\": []}, {\"_id\": 3, "
                               "\"a\": null}, {\"_id\": 4}, {\"_id\": 5, \"a\": [1, 2]}]";
    static const struct stage_case cases[] = {
        {"[{\"$unwind\": \"$a\"}]", docs,
         "[{\"_id\": 1, \"a\": 5}, {\"_id\": 5, \"a\": 1}, {\"_id\": 5, \"a\": 2}]", 0},
        {"[{\"$unwind\": {\"path\": \"$a\", \"preserveNullAndEmptyArrays\": true, "
         "\"includeArrayIndex\": \"i\"}}]",
         docs,
         "[{\"_id\": 1, \"a\": 5, \"i\": null}, {\"_id\": 2, \"i\": null}, {\"_id\": 3, \"a\": "
         "null, \"i\": null}, {\"_id\": 4, \"i\": null}, {\"_id\": 5, \"a\": 1, \"i\": " NUM_LONG(
             "0") "}, {\"_id\": 5, \"a\": 2, \"i\": " NUM_LONG("1") "}]",
         0},
        {"[{\"$unwind\": \"$a.b\"}]",
         "[{\"a\": {\"b\": [1, 2], \"c\": 3}, \"d\": 4}, {\"a\": [{\"b\": [1]}]}]",
         "[{\"a\": {\"b\": 1, \"c\": 3}, \"d\": 4}, {\"a\": {\"b\": 2, \"c\": 3}, \"d\": 4}]", 0},
        {"[{\"$unwind\": \"$a\"}, {\"$unwind\": \"$a\"}]", "[{\"a\": [[1, 2], [3]]}]",
         "[{\"a\": 1}, {\"a\": 2}, {\"a\": 3}]", 0},
        {"[{\"$unwind\": \"$a\"}, {\"$match\": {\"a\": 2}}]", "[{\"a\": [1, 2]}, {\"a\": [2, 3]}]",
         "[{\"a\": 2}, {\"a\": 2}]", 0},
        {"[{\"$unwind\": {\"path\": \"$a\", \"includeArrayIndex\": \"x.i\"}}]",
         "[{\"a\": [7], \"x\": {\"y\": 1}}]",
         "[{\"a\": 7, \"x\": {\"y\": 1, \"i\": " NUM_LONG("0") "}}]", 0},
    };

    (void)state;
    RUN_STAGE_CASES(cases);
}

static void test_redact(void **state)
{
    static const struct stage_case cases[] = {
        {"[{\"$redact\": {\"$cond\": [{\"$eq\": [\"$level\", 5]}, \"$$PRUNE\", \"$$DESCEND\"]}}]",
         "[{\"level\": 1, \"a\": {\"level\": 5, \"x\": 1}, \"b\": [{\"level\": 5}, {\"level\": 3}, "
         "7]}, {\"level\": 5}]",
         "[{\"level\": 1, \"b\": [{\"level\": 3}, 7]}]", 0},
        {"[{\"$redact\": {\"$cond\": [{\"$eq\": [\"$k\", 1]}, \"$$KEEP\", \"$$PRUNE\"]}}]",
         "[{\"k\": 1, \"a\": {\"k\": 2}}, {\"k\": 2}]", "[{\"k\": 1, \"a\": {\"k\": 2}}]", 0},
        {"[{\"$redact\": {\"$cond\": [\"$$ROOT.all\", \"$$DESCEND\", \"$$PRUNE\"]}}]",
         "[{\"all\": true, \"a\": {\"b\": 1}}]", "[{\"all\": true, \"a\": {\"b\": 1}}]", 0},
        {"[{\"$redact\": 1}]", "[{}]", NULL, 17053},
        {"[{\"$replaceWith\": {\"x\": \"$$PRUNE\"}}]", "[{}]", NULL, 17276},
    };

    (void)state;
    RUN_STAGE_CASES(cases);
}

static void test_group(void **state)
{
    static const struct stage_case cases[] = {
        {"[{\"$group\": {\"_id\": \"$k\", \"n\": {\"$sum\": 1}, \"all\": {\"$push\": \"$v\"}}}]",
         "[{\"k\": \"a\", \"v\": 1}, {\"k\": \"b\"}, {\"k\": \"a\", \"v\": null}]",
         "[{\"_id\": \"a\", \"n\": 2, \"all\": [1, null]}, {\"_id\": \"b\", \"n\": 1, \"all\": "
         "[]}]",
         0},
        {"[{\"$group\": {\"_id\": \"$k\", \"n\": {\"$count\": {}}}}]",
         "[{\"k\": 1}, {\"k\": 1.0}, {\"k\": null}, {}]",
         "[{\"_id\": 1, \"n\": 2}, {\"_id\": null, \"n\": 2}]", 0},
        /* ag-06: an _id that is a document of expressions */
        {"[{\"$group\": {\"_id\": {\"f\": \"$_id\"}}}, {\"$project\": {\"_id\": 0, \"g\": "
         "\"$_id.f\"}}]",
         "[{\"_id\": 1}]", "[{\"g\": 1}]", 0},
        /* ag-01 */
        {"[{\"$group\": {\"_id\": null, \"lo\": {\"$min\": \"$s\"}, \"hi\": {\"$max\": \"$s\"}, "
         "\"avg\": {\"$avg\": \"$s\"}}}]",
         "[{\"s\": 100}, {\"s\": 65}, {\"s\": null}, {}]",
         "[{\"_id\": null, \"lo\": 65, \"hi\": 100, \"avg\": 82.5}]", 0},
        {"[{\"$group\": {\"_id\": null, \"lo\": {\"$min\": \"$s\"}, \"avg\": {\"$avg\": \"$s\"}}}]",
         "[{\"s\": null}]", "[{\"_id\": null, \"lo\": null, \"avg\": null}]", 0},
        /* ag-03: $push keeps the order of a sort before it */
        {"[{\"$sort\": {\"_id\": -1}}, {\"$group\": {\"_id\": \"$c\", \"ids\": {\"$push\": "
         "\"$_id\"}}}, {\"$sort\": {\"_id\": 1}}]",
         "[{\"_id\": 1, \"c\": 1}, {\"_id\": 2, \"c\": 2}, {\"_id\": 3, \"c\": 1}, {\"_id\": 4, "
         "\"c\": 2}]",
         "[{\"_id\": 1, \"ids\": [3, 1]}, {\"_id\": 2, \"ids\": [4, 2]}]", 0},
        {"[{\"$group\": {\"_id\": null, \"f\": {\"$first\": \"$v\"}, \"l\": {\"$last\": \"$v\"}}}]",
         "[{\"v\": 1}, {\"v\": 2}, {}]", "[{\"_id\": null, \"f\": 1, \"l\": null}]", 0},
        {"[{\"$group\": {\"_id\": null, \"s\": {\"$addToSet\": \"$v\"}}}]",
         "[{\"v\": 1}, {\"v\": 2}, {\"v\": 1.0}, {}, {\"v\": null}]",
         "[{\"_id\": null, \"s\": [1, 2, null]}]", 0},
        {"[{\"$group\": {\"_id\": null, \"m\": {\"$mergeObjects\": \"$o\"}}}]",
         "[{\"o\": {\"a\": 1}}, {}, {\"o\": {\"a\": 2, \"b\": 3}}]",
         "[{\"_id\": null, \"m\": {\"a\": 2, \"b\": 3}}]", 0},
        {"[{\"$group\": {\"_id\": null, \"m\": {\"$mergeObjects\": \"$o\"}}}]", "[{\"o\": 1}]",
         NULL, 40400},
        {"[{\"$group\": {\"_id\": null, \"p\": {\"$stdDevPop\": \"$v\"}, \"s\": {\"$stdDevSamp\": "
         "\"$v\"}}}]",
         "[{\"v\": 1}, {\"v\": \"x\"}, {\"v\": 3}]",
         "[{\"_id\": null, \"p\": 1.0, \"s\": 1.4142135623730951}]", 0},
        {"[{\"$group\": {\"_id\": null, \"a\": {\"$firstN\": {\"input\": \"$v\", \"n\": 2}}, "
         "\"b\": {\"$lastN\": {\"input\": \"$v\", \"n\": 2}}, \"c\": {\"$minN\": {\"input\": "
         "\"$v\", \"n\": 2}}, \"d\": {\"$maxN\": {\"input\": \"$v\", \"n\": 2}}}}]",
         "[{\"v\": 3}, {\"v\": 1}, {}, {\"v\": 2}]",
         "[{\"_id\": null, \"a\": [3, 1], \"b\": [null, 2], \"c\": [1, 2], \"d\": [3, 2]}]", 0},
        {"[{\"$group\": {\"_id\": null, \"a\": {\"$top\": {\"sortBy\": {\"v\": 1}, \"output\": "
         "\"$w\"}}, \"b\": {\"$bottom\": {\"sortBy\": {\"v\": 1}, \"output\": \"$w\"}}, \"c\": "
         "{\"$topN\": {\"n\": 2, \"sortBy\": {\"v\": -1}, \"output\": \"$w\"}}, \"d\": "
         "{\"$bottomN\": {\"n\": 2, \"sortBy\": {\"v\": 1}, \"output\": \"$w\"}}}}]",
         "[{\"v\": 2, \"w\": \"a\"}, {\"v\": 1, \"w\": \"b\"}, {\"v\": 3, \"w\": \"c\"}, {\"v\": "
         "3, \"w\": \"d\"}]",
         "[{\"_id\": null, \"a\": \"b\", \"b\": \"d\", \"c\": [\"c\", \"d\"], \"d\": [\"c\", "
         "\"d\"]}]",
         0},
        {"[{\"$group\": {\"_id\": null, \"a\": {\"$topN\": {\"n\": 0, \"sortBy\": {\"v\": 1}, "
         "\"output\": 1}}}}]",
         "[]", NULL, 5787908},
        {"[{\"$group\": {\"_id\": 1, \"n\": {\"$sum\": \"$a\"}}}]", "[]", "[]", 0},
        {"[{\"$group\": {\"_id\": {\"$divide\": [1, \"$a\"]}}}]", "[{\"a\": 0}]", NULL,
         ERR_BAD_VALUE},
        {"[{\"$sortByCount\": \"$k\"}]", "[{\"k\": 1}, {\"k\": 2}, {\"k\": 2}]",
         "[{\"_id\": 2, \"count\": 2}, {\"_id\": 1, \"count\": 1}]", 0},
    };

    (void)state;
    RUN_STAGE_CASES(cases);
}

static void test_apply_row(void **state)
{
    struct pipeline_ctx ctx = {.for_update = true};
    struct pipeline p;
    struct exec x;
    struct bv got;
    struct op op;

    (void)state;
    op_init(&op);
    assert_int_equal(pipeline_parse(&op, &op.arena,
                                    json_value(&op.arena, "[{\"$set\": {\"b\": {\"$add\": [\"$a\", "
                                                          "1]}}}, {\"$unset\": \"a\"}]"),
                                    &ctx, &p),
                     0);
    exec_init(&x, &op);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipeline_apply_row(
                             &p, &x, json_value(&op.arena, i ? "{\"a\": 5}" : "{\"a\": 1}"), &got),
                         0);
        assert_int_equal(bv_i32(bv_get(got, "b")), i ? 6 : 2);
        assert_int_equal(bv_count(got), 1);
    }
    exec_fini(&x);
    op_fini(&op);
}

static void test_rows_are_sorted(void **state)
{
    static const char *const names[] = {
#define STAGE(name, parser, flags) name,
#define STAGE_OTHER(name, flags)   name,
#include "query/stages.def"
    };

    (void)state;
    for (size_t i = 1; i < sizeof(names) / sizeof(names[0]); i++)
        assert_true(strcasecmp(names[i - 1], names[i]) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parsing),
        cmocka_unit_test(test_allow_lists),
        cmocka_unit_test(test_sources_elsewhere),
        cmocka_unit_test(test_row_by_row),
        cmocka_unit_test(test_unwind),
        cmocka_unit_test(test_redact),
        cmocka_unit_test(test_group),
        cmocka_unit_test(test_apply_row),
        cmocka_unit_test(test_rows_are_sorted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
