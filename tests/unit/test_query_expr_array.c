/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Array, set and object operators, and accumulators as expressions. */
#include "expr_cases.h"

#define NUM_LONG(n) "{\"$numberLong\": \"" n "\"}"
#define NUM_DEC(n)  "{\"$numberDecimal\": \"" n "\"}"

static void test_elements(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$arrayElemAt\": [\"$a\", 0]}", "{\"a\": [5, 6]}", "5", 0},
        {"{\"$arrayElemAt\": [\"$a\", -1]}", "{\"a\": [5, 6]}", "6", 0},
        {"{\"$arrayElemAt\": [\"$a\", 2]}", "{\"a\": [5, 6]}", "missing", 0},
        {"{\"$arrayElemAt\": [\"$a\", -3]}", "{\"a\": [5, 6]}", "missing", 0},
        {"{\"$arrayElemAt\": [\"$n\", 0]}", NULL, "null", 0},
        {"{\"$arrayElemAt\": [1, 0]}", NULL, NULL, 28689},
        {"{\"$arrayElemAt\": [[1], \"x\"]}", NULL, NULL, 28690},
        {"{\"$arrayElemAt\": [[1], 1.5]}", NULL, NULL, 28691},
        {"{\"$first\": \"$a\"}", "{\"a\": [5, 6]}", "5", 0},
        {"{\"$last\": \"$a\"}", "{\"a\": [5, 6]}", "6", 0},
        {"{\"$last\": \"$a\"}", "{\"a\": []}", "missing", 0},
        {"{\"$first\": 1}", NULL, NULL, 28689},
        {"{\"$size\": \"$a\"}", "{\"a\": [5, 6]}", "2", 0},
        {"{\"$size\": \"$a\"}", NULL, NULL, 17124},
        {"{\"$slice\": [\"$a\", 2]}", "{\"a\": [1, 2, 3]}", "[1, 2]", 0},
        {"{\"$slice\": [\"$a\", -2]}", "{\"a\": [1, 2, 3]}", "[2, 3]", 0},
        {"{\"$slice\": [\"$a\", 1, 5]}", "{\"a\": [1, 2, 3]}", "[2, 3]", 0},
        {"{\"$slice\": [\"$a\", -2, 1]}", "{\"a\": [1, 2, 3]}", "[2]", 0},
        {"{\"$slice\": [\"$a\", -9, 1]}", "{\"a\": [1, 2, 3]}", "[1]", 0},
        {"{\"$slice\": [\"$a\", 1, 0]}", "{\"a\": [1]}", NULL, 28729},
        {"{\"$slice\": [1, 1]}", NULL, NULL, 28724},
        {"{\"$in\": [2, \"$a\"]}", "{\"a\": [1, 2.0]}", "true", 0},
        {"{\"$in\": [3, \"$a\"]}", "{\"a\": [1, 2]}", "false", 0},
        {"{\"$in\": [3, \"$n\"]}", NULL, NULL, 40081},
        {"{\"$indexOfArray\": [\"$a\", 2]}", "{\"a\": [1, 2, 2]}", "1", 0},
        {"{\"$indexOfArray\": [\"$a\", 2, 2]}", "{\"a\": [1, 2, 2]}", "2", 0},
        {"{\"$indexOfArray\": [\"$a\", 2, 0, 1]}", "{\"a\": [1, 2, 2]}", "-1", 0},
        {"{\"$indexOfArray\": [\"$n\", 2]}", NULL, "null", 0},
        {"{\"$indexOfArray\": [\"$a\", 2, -1]}", "{\"a\": []}", NULL, 40097},
        {"{\"$indexOfArray\": [1, 2]}", NULL, NULL, 40090},
        {"{\"$concatArrays\": [[1], \"$a\"]}", "{\"a\": [2, 3]}", "[1, 2, 3]", 0},
        {"{\"$concatArrays\": [[1], null]}", NULL, "null", 0},
        {"{\"$concatArrays\": [[1], 2]}", NULL, NULL, 28664},
        {"{\"$range\": [0, 6, 2]}", NULL, "[0, 2, 4]", 0},
        {"{\"$range\": [3, 0, -1]}", NULL, "[3, 2, 1]", 0},
        {"{\"$range\": [0, 3, 0]}", NULL, NULL, 34449},
        {"{\"$range\": [\"x\", 3]}", NULL, NULL, 34443},
        {"{\"$range\": [0, 2147483647]}", NULL, NULL, ERR_BSON_TOO_LARGE},
        {"{\"$reverseArray\": \"$a\"}", "{\"a\": [1, 2, 3]}", "[3, 2, 1]", 0},
        {"{\"$reverseArray\": 1}", NULL, NULL, 34435},
        {"{\"$zip\": {\"inputs\": [[1, 2], [\"a\", \"b\", \"c\"]]}}", NULL,
         "[[1, \"a\"], [2, \"b\"]]", 0},
        {"{\"$zip\": {\"inputs\": [[1], [2, 3]], \"useLongestLength\": true}}", NULL,
         "[[1, 2], [null, 3]]", 0},
        {"{\"$zip\": {\"inputs\": [[1], [2, 3]], \"useLongestLength\": true, \"defaults\": [7, "
         "8]}}",
         NULL, "[[1, 2], [7, 3]]", 0},
        {"{\"$zip\": {\"inputs\": []}}", NULL, NULL, 34465},
        {"{\"$zip\": {\"inputs\": [1]}}", NULL, NULL, 34468},
        {"{\"$zip\": {\"inputs\": [[1]], \"defaults\": [1]}}", NULL, NULL, 34466},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_with_variables(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$map\": {\"input\": \"$a\", \"as\": \"x\", \"in\": {\"$add\": [\"$$x\", 1]}}}",
         "{\"a\": [1, 2]}", "[2, 3]", 0},
        {"{\"$map\": {\"input\": \"$a\", \"in\": \"$$this.b\"}}", "{\"a\": [{\"b\": 1}, {}]}",
         "[1, null]", 0},
        {"{\"$map\": {\"input\": \"$a\", \"as\": \"x\", \"in\": {\"$map\": {\"input\": \"$$x\", "
         "\"as\": \"y\", \"in\": [\"$$x\", \"$$y\"]}}}}",
         "{\"a\": [[1], [2]]}", "[[[[1], 1]], [[[2], 2]]]", 0},
        {"{\"$map\": {\"input\": null, \"in\": 1}}", NULL, "null", 0},
        {"{\"$map\": {\"input\": 1, \"in\": 1}}", NULL, NULL, 16883},
        {"{\"$map\": {\"in\": 1}}", NULL, NULL, 16880},
        {"{\"$map\": {\"input\": [], \"in\": 1, \"z\": 1}}", NULL, NULL, 16879},
        {"{\"$map\": {\"input\": [], \"as\": \"X\", \"in\": 1}}", NULL, NULL, ERR_FAILED_TO_PARSE},
        {"{\"$filter\": {\"input\": \"$a\", \"cond\": {\"$gt\": [\"$$this\", 1]}}}",
         "{\"a\": [1, 2, 3]}", "[2, 3]", 0},
        {"{\"$filter\": {\"input\": \"$a\", \"as\": \"n\", \"cond\": \"$$n\", \"limit\": 1}}",
         "{\"a\": [0, 2, 3]}", "[2]", 0},
        {"{\"$filter\": {\"input\": 1, \"cond\": 1}}", NULL, NULL, 28651},
        {"{\"$filter\": {\"input\": []}}", NULL, NULL, 28650},
        {"{\"$filter\": {\"input\": [1], \"cond\": 1, \"limit\": 0}}", NULL, NULL, 327392},
        {"{\"$reduce\": {\"input\": \"$a\", \"initialValue\": 0, \"in\": {\"$add\": [\"$$value\", "
         "\"$$this\"]}}}",
         "{\"a\": [1, 2, 3]}", "6", 0},
        {"{\"$reduce\": {\"input\": 1, \"initialValue\": 0, \"in\": 1}}", NULL, NULL, 40080},
        {"{\"$reduce\": {\"input\": [], \"in\": 1}}", NULL, NULL, 40078},
        {"{\"$sortArray\": {\"input\": \"$a\", \"sortBy\": 1}}", "{\"a\": [3, \"x\", 1]}",
         "[1, 3, \"x\"]", 0},
        {"{\"$sortArray\": {\"input\": \"$a\", \"sortBy\": -1}}", "{\"a\": [3, 1, 2]}", "[3, 2, 1]",
         0},
        {"{\"$sortArray\": {\"input\": \"$a\", \"sortBy\": {\"k\": 1, \"m\": -1}}}",
         "{\"a\": [{\"k\": 2}, {\"k\": 1, \"m\": 1}, {\"k\": 1, \"m\": 2}]}",
         "[{\"k\": 1, \"m\": 2}, {\"k\": 1, \"m\": 1}, {\"k\": 2}]", 0},
        {"{\"$sortArray\": {\"input\": 1, \"sortBy\": 1}}", NULL, NULL, 2942504},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_sets(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$setUnion\": [[3, 1], [1.0, 2]]}", NULL, "[1, 2, 3]", 0},
        {"{\"$setUnion\": [[1], null]}", NULL, "null", 0},
        {"{\"$setUnion\": [[1], 2]}", NULL, NULL, 17043},
        {"{\"$setIntersection\": [[3, 1, 1], [1, 3, 4], [3, 1]]}", NULL, "[1, 3]", 0},
        {"{\"$setIntersection\": [[1], 2]}", NULL, NULL, 17047},
        {"{\"$setDifference\": [[3, 1, 3, 2], [2]]}", NULL, "[3, 1]", 0},
        {"{\"$setDifference\": [1, [2]]}", NULL, NULL, 17048},
        {"{\"$setDifference\": [[1], 2]}", NULL, NULL, 17049},
        {"{\"$setEquals\": [[1, 2, 1], [2, 1]]}", NULL, "true", 0},
        {"{\"$setEquals\": [[1, 2], [1]]}", NULL, "false", 0},
        {"{\"$setEquals\": [[1, 2], null]}", NULL, NULL, 17044},
        {"{\"$setIsSubset\": [[1, 1], [2, 1]]}", NULL, "true", 0},
        {"{\"$setIsSubset\": [[1, 3], [2, 1]]}", NULL, "false", 0},
        {"{\"$setIsSubset\": [1, []]}", NULL, NULL, 17046},
        {"{\"$allElementsTrue\": [[1, true]]}", NULL, "true", 0},
        {"{\"$allElementsTrue\": [[1, 0]]}", NULL, "false", 0},
        {"{\"$allElementsTrue\": [1]}", NULL, NULL, 17040},
        {"{\"$anyElementTrue\": [[null, 1]]}", NULL, "true", 0},
        {"{\"$anyElementTrue\": [[]]}", NULL, "false", 0},
        {"{\"$anyElementTrue\": [1]}", NULL, NULL, 17041},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_objects(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$getField\": \"a.b\"}", "{\"a.b\": 1}", "1", 0},
        {"{\"$getField\": {\"field\": \"x\", \"input\": \"$o\"}}", "{\"o\": {\"x\": 7}}", "7", 0},
        {"{\"$getField\": {\"field\": {\"$literal\": \"$x\"}, \"input\": \"$o\"}}",
         "{\"o\": {\"%x\": 7}}", "7", 0},
        {"{\"$getField\": {\"field\": \"x\", \"input\": \"$o\"}}", "{\"o\": null}", "null", 0},
        {"{\"$getField\": {\"field\": \"x\", \"input\": \"$o\"}}", NULL, "missing", 0},
        {"{\"$getField\": {\"field\": 1, \"input\": \"$o\"}}", NULL, NULL, 3041704},
        {"{\"$getField\": {\"input\": \"$o\"}}", NULL, NULL, 3041702},
        {"{\"$setField\": {\"field\": \"a\", \"input\": \"$$ROOT\", \"value\": 2}}",
         "{\"a\": 1, \"b\": 1}", "{\"a\": 2, \"b\": 1}", 0},
        {"{\"$setField\": {\"field\": \"x.y\", \"input\": \"$$ROOT\", \"value\": 2}}", "{\"a\": 1}",
         "{\"a\": 1, \"x.y\": 2}", 0},
        {"{\"$setField\": {\"field\": \"a\", \"input\": \"$$ROOT\", \"value\": \"$$REMOVE\"}}",
         "{\"a\": 1, \"b\": 1}", "{\"b\": 1}", 0},
        {"{\"$setField\": {\"field\": \"a\", \"input\": null, \"value\": 1}}", NULL, "null", 0},
        {"{\"$setField\": {\"field\": \"a\", \"input\": 1, \"value\": 1}}", NULL, NULL, 4161105},
        {"{\"$unsetField\": {\"field\": \"a\", \"input\": \"$$ROOT\"}}", "{\"a\": 1, \"b\": 1}",
         "{\"b\": 1}", 0},
        {"{\"$objectToArray\": \"$$ROOT\"}", "{\"a\": 1, \"b\": [2]}",
         "[{\"k\": \"a\", \"v\": 1}, {\"k\": \"b\", \"v\": [2]}]", 0},
        {"{\"$objectToArray\": 1}", NULL, NULL, 40390},
        {"{\"$arrayToObject\": \"$a\"}", "{\"a\": [[\"x\", 1], [\"y\", 2], [\"x\", 3]]}",
         "{\"x\": 3, \"y\": 2}", 0},
        {"{\"$arrayToObject\": \"$a\"}", "{\"a\": [{\"k\": \"x\", \"v\": 1}]}", "{\"x\": 1}", 0},
        {"{\"$arrayToObject\": \"$a\"}", "{\"a\": []}", "{}", 0},
        {"{\"$arrayToObject\": 1}", NULL, NULL, 40386},
        {"{\"$arrayToObject\": \"$a\"}", "{\"a\": [1]}", NULL, 40398},
        {"{\"$arrayToObject\": \"$a\"}", "{\"a\": [[\"x\", 1], {}]}", NULL, 40396},
        {"{\"$arrayToObject\": \"$a\"}", "{\"a\": [[\"x\"]]}", NULL, 40397},
        {"{\"$arrayToObject\": \"$a\"}", "{\"a\": [[1, 1]]}", NULL, 40395},
        {"{\"$mergeObjects\": [{\"a\": 1, \"b\": 1}, null, {\"b\": 2, \"c\": 3}]}", NULL,
         "{\"a\": 1, \"b\": 2, \"c\": 3}", 0},
        {"{\"$mergeObjects\": \"$a\"}", "{\"a\": [{\"x\": 1}, {\"y\": 2}]}", "{\"x\": 1, \"y\": 2}",
         0},
        {"{\"$mergeObjects\": [1]}", NULL, NULL, 40400},
        {"{\"$bsonSize\": \"$o\"}", "{\"o\": {\"a\": 1}}", "12", 0},
        {"{\"$bsonSize\": 1}", NULL, NULL, 31393},
        {"{\"$binarySize\": \"abc\"}", NULL, "3", 0},
        {"{\"$binarySize\": 1}", NULL, NULL, 51276},
        {"{\"$tsSecond\": {\"$timestamp\": {\"t\": 5, \"i\": 7}}}", NULL, NUM_LONG("5"), 0},
        {"{\"$tsIncrement\": {\"$timestamp\": {\"t\": 5, \"i\": 7}}}", NULL, NUM_LONG("7"), 0},
        {"{\"$tsSecond\": 1}", NULL, NULL, 5687301},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_accumulators(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$sum\": \"$a\"}", "{\"a\": [1, 2, \"x\", 3.5]}", "6.5", 0},
        {"{\"$sum\": [\"$a\", 1]}", "{\"a\": [1, 2]}", "1", 0},
        {"{\"$sum\": [2147483647, 1]}", NULL, NUM_LONG("2147483648"), 0},
        {"{\"$sum\": [" NUM_LONG("9223372036854775807") ", 1]}", NULL, "9223372036854775808.0", 0},
        {"{\"$sum\": [" NUM_LONG("9223372036854775807") ", 1, -1]}", NULL,
         NUM_LONG("9223372036854775807"), 0},
        {"{\"$sum\": [0.1, 0.2, 0.3]}", NULL, "0.6", 0},
        {"{\"$sum\": [1, " NUM_DEC("0.1") "]}", NULL, NUM_DEC("1.1"), 0},
        {"{\"$sum\": \"$n\"}", NULL, "0", 0},
        {"{\"$avg\": [1, 2]}", NULL, "1.5", 0},
        {"{\"$avg\": \"$a\"}", "{\"a\": [1, 3, null]}", "2.0", 0},
        {"{\"$avg\": \"$n\"}", NULL, "null", 0},
        {"{\"$min\": [3, null, 1, \"x\"]}", NULL, "1", 0},
        {"{\"$max\": \"$a\"}", "{\"a\": [3, 1]}", "3", 0},
        {"{\"$max\": \"$n\"}", NULL, "null", 0},
        {"{\"$stdDevPop\": [1, 3]}", NULL, "1.0", 0},
        {"{\"$stdDevSamp\": [1, 2, 3]}", NULL, "1.0", 0},
        {"{\"$stdDevSamp\": [1]}", NULL, "null", 0},
        {"{\"$firstN\": {\"input\": \"$a\", \"n\": 2}}", "{\"a\": [3, 1, 2]}", "[3, 1]", 0},
        {"{\"$lastN\": {\"input\": \"$a\", \"n\": 2}}", "{\"a\": [3, 1, 2]}", "[1, 2]", 0},
        {"{\"$minN\": {\"input\": \"$a\", \"n\": 2}}", "{\"a\": [3, null, 1, 2]}", "[1, 2]", 0},
        {"{\"$maxN\": {\"input\": \"$a\", \"n\": 2}}", "{\"a\": [3, 1, 2]}", "[3, 2]", 0},
        {"{\"$firstN\": {\"input\": \"$a\", \"n\": 0}}", "{\"a\": []}", NULL, 5787908},
        {"{\"$firstN\": {\"input\": 1, \"n\": 1}}", NULL, NULL, 5788200},
        {"{\"$firstN\": {\"input\": 1}}", NULL, NULL, 5787906},
        /* ag-07 */
        {"{\"$sum\": [\"$b\", {\"$arrayElemAt\": [\"$v.u\", -1]}]}",
         "{\"b\": 100, \"v\": [{\"u\": 5}, {\"u\": 15}]}", "115", 0},
        {"{\"$sum\": {\"$map\": {\"input\": \"$v\", \"as\": \"i\", \"in\": {\"$cond\": [{\"$gt\": "
         "[\"$$i.u\", 9]}, \"$$i.u\", 0]}}}}",
         "{\"b\": 100, \"v\": [{\"u\": 5}, {\"u\": 15}]}", "15", 0},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements),     cmocka_unit_test(test_with_variables),
        cmocka_unit_test(test_sets),         cmocka_unit_test(test_objects),
        cmocka_unit_test(test_accumulators),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
