/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "query/match.h"
#include "query/regex.h"
#include "tests/unit/json_values.h"

static struct op op;

static int parse(const char *filter, struct match **ret)
{
    return match_parse(&op, &op.arena, json_doc(&op.arena, filter), NULL, ret);
}

static int run(const struct match *m, struct bv doc, bool *ret, int32_t *position)
{
    struct eval ev;

    memset(&ev, 0, sizeof(ev));
    ev.op = &op;
    ev.scratch = &op.arena;
    return match_test(m, &ev, doc, ret, position);
}

static bool matches(const char *filter, const char *doc)
{
    struct match *m = NULL;
    bool hit = false;

    if (parse(filter, &m) != 0)
        fail_msg("%s: %d %s", filter, op.err->code, op.err->text);
    if (run(m, json_doc(&op.arena, doc), &hit, NULL) != 0)
        fail_msg("%s on %s: %d %s", filter, doc, op.err->code, op.err->text);
    return hit;
}

struct row {
    const char *filter, *doc;
    bool want;
};

static void check(const struct row *rows, size_t n)
{
    op_init(&op);
    for (size_t i = 0; i < n; i++) {
        if (matches(rows[i].filter, rows[i].doc) != rows[i].want)
            fail_msg("%s on %s: want %d", rows[i].filter, rows[i].doc, rows[i].want);
    }
    op_fini(&op);
}

#define CHECK(rows) check(rows, sizeof(rows) / sizeof((rows)[0]))

static void test_equality(void **state)
{
    static const struct row rows[] = {
        {"{}", "{}", true},
        {"{\"a\": 1}", "{\"a\": 1}", true},
        {"{\"a\": 1}", "{\"a\": 1.0}", true},
        {"{\"a\": 1}", "{\"a\": {\"$numberLong\": \"1\"}}", true},
        {"{\"a\": 1}", "{\"a\": {\"$numberDecimal\": \"1.00\"}}", true},
        {"{\"a\": 1}", "{\"a\": \"1\"}", false},
        {"{\"a\": 1}", "{\"a\": true}", false},
        {"{\"a\": 1}", "{}", false},
        {"{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"a\": 1}", true},
        {"{\"a\": 1, \"b\": 2}", "{\"b\": 3, \"a\": 1}", false},
        {"{\"a\": {\"x\": 1, \"y\": 2}}", "{\"a\": {\"x\": 1, \"y\": 2}}", true},
        {"{\"a\": {\"x\": 1, \"y\": 2}}", "{\"a\": {\"y\": 2, \"x\": 1}}", false},
        {"{\"a\": {\"x\": 1}}", "{\"a\": {\"x\": 1, \"y\": 2}}", false},
        {"{\"a\": {}}", "{\"a\": {}}", true},
        {"{\"a\": {}}", "{\"a\": {\"x\": 1}}", false},
        {"{\"a\": []}", "{\"a\": []}", true},
        {"{\"a\": []}", "{\"a\": [[]]}", true},
        {"{\"a\": []}", "{\"a\": [1]}", false},
        {"{\"a\": 2}", "{\"a\": [1, 2]}", true},
        {"{\"a\": [1, 2]}", "{\"a\": [1, 2]}", true},
        {"{\"a\": [1, 2]}", "{\"a\": [2, 1]}", false},
        {"{\"a\": [1, 2]}", "{\"a\": [[1, 2], 3]}", true},
        {"{\"a\": 2}", "{\"a\": [[2]]}", false},
        {"{\"a\": {\"%eq\": {\"x\": 1}}}", "{\"a\": {\"x\": 1}}", true},
        {"{\"a\": {\"%ne\": 1}}", "{\"a\": 2}", true},
        {"{\"a\": {\"%ne\": 1}}", "{}", true},
        {"{\"a\": {\"%ne\": 1}}", "{\"a\": [1, 2]}", false},
        {"{\"a\": {\"%ne\": null}}", "{}", false},
        {"{\"a\": {\"%ne\": null}}", "{\"a\": 1}", true},
        {"{\"a\": {\"%ne\": null}}", "{\"a\": [null, 1]}", false},
        {"{\"\": 1}", "{\"\": 1}", true},
        {"{\"a\": {\"%ref\": \"c\", \"%id\": 1}}", "{\"a\": {\"%ref\": \"c\", \"%id\": 1}}", true},
        {"{\"a.%id\": 1}", "{\"a\": {\"%ref\": \"c\", \"%id\": 1}}", true},
        {"{\"a\": {\"%comment\": \"x\"}}", "{}", true},
        {"{\"%comment\": 5, \"a\": 1}", "{\"a\": 1}", true},
    };

    (void)state;
    CHECK(rows);
}

static void test_null(void **state)
{
    static const struct row rows[] = {
        {"{\"a\": null}", "{\"a\": null}", true},
        {"{\"a\": null}", "{}", true},
        {"{\"a\": null}", "{\"a\": {\"$undefined\": true}}", false},
        {"{\"a\": {\"$gte\": null}}", "{\"a\": {\"$undefined\": true}}", false},
        {"{\"a\": {\"$ne\": null}}", "{\"a\": {\"$undefined\": true}}", true},
        {"{\"a\": {\"$in\": [null]}}", "{\"a\": {\"$undefined\": true}}", false},
        {"{\"a\": null}", "{\"a\": 0}", false},
        {"{\"a\": null}", "{\"a\": []}", false},
        {"{\"a\": null}", "{\"a\": [null]}", true},
        {"{\"a.b\": null}", "{\"a\": 4}", true},
        {"{\"a.b\": null}", "{\"a\": {}}", true},
        {"{\"a.b\": null}", "{}", true},
        {"{\"a.b\": null}", "{\"a\": []}", false},
        {"{\"a.b\": null}", "{\"a\": [1, 2]}", false},
        {"{\"a.b\": null}", "{\"a\": [{\"b\": 1}, {}]}", true},
        {"{\"a.b\": null}", "{\"a\": [{\"b\": 1}]}", false},
        {"{\"a\": {\"%gte\": null}}", "{}", true},
        {"{\"a\": {\"%gt\": null}}", "{\"a\": null}", false},
        {"{\"a\": {\"%in\": [null]}}", "{}", true},
        {"{\"a\": {\"%in\": [null, 2]}}", "{\"a\": 3}", false},
        {"{\"a\": {\"%nin\": [null]}}", "{}", false},
        {"{\"a\": {\"%exists\": true}}", "{\"a\": null}", true},
        {"{\"a\": {\"%exists\": true}}", "{}", false},
        {"{\"a\": {\"%exists\": false}}", "{}", true},
        {"{\"a\": {\"%exists\": false}}", "{\"a\": null}", false},
        {"{\"a\": {\"%exists\": true}}", "{\"a\": []}", true},
        {"{\"a.b\": {\"%exists\": false}}", "{\"a\": [1]}", true},
        {"{\"a.b\": {\"%exists\": true}}", "{\"a\": [1, {\"b\": 1}]}", true},
        {"{\"a.b\": {\"%exists\": false}}", "{\"a\": [{\"b\": 1}, {}]}", false},
    };

    (void)state;
    CHECK(rows);
}

static void test_order(void **state)
{
    static const struct row rows[] = {
        {"{\"a\": {\"%gt\": 5}}", "{\"a\": 6}", true},
        {"{\"a\": {\"%gt\": 5}}", "{\"a\": 5}", false},
        {"{\"a\": {\"%gte\": 5}}", "{\"a\": 5.0}", true},
        {"{\"a\": {\"%lt\": 5}}", "{\"a\": \"a\"}", false},
        {"{\"a\": {\"%gt\": 5}}", "{\"a\": \"a\"}", false},
        {"{\"a\": {\"%gt\": \"a\"}}", "{\"a\": \"b\"}", true},
        {"{\"a\": {\"%gt\": 5, \"%lt\": 3}}", "{\"a\": [2, 6]}", true},
        {"{\"a\": {\"%gt\": {\"$numberLong\": \"9007199254740992\"}}}",
         "{\"a\": {\"$numberLong\": \"9007199254740993\"}}", true},
        {"{\"a\": {\"%gt\": 9007199254740992.0}}",
         "{\"a\": {\"$numberLong\": \"9007199254740993\"}}", true},
        {"{\"a\": {\"%eq\": {\"$numberDecimal\": \"9007199254740993\"}}}",
         "{\"a\": 9007199254740992.0}", false},
        {"{\"a\": {\"%lt\": {\"x\": 2}}}", "{\"a\": {\"x\": 1}}", true},
        {"{\"a\": {\"%lt\": {\"x\": 2}}}", "{\"a\": 1}", false},
        {"{\"a\": {\"%gt\": [1]}}", "{\"a\": [2]}", true},
        {"{\"a\": {\"%gt\": [1]}}", "{\"a\": 2}", false},
        {"{\"a\": {\"%gt\": {\"$minKey\": 1}}}", "{\"a\": \"x\"}", true},
        {"{\"a\": {\"%gt\": {\"$minKey\": 1}}}", "{\"a\": {\"$minKey\": 1}}", false},
        {"{\"a\": {\"%gte\": {\"$minKey\": 1}}}", "{\"a\": {\"$minKey\": 1}}", true},
        {"{\"a\": {\"%lt\": {\"$maxKey\": 1}}}", "{\"a\": [1]}", true},
        {"{\"a\": {\"%lt\": {\"$maxKey\": 1}}}", "{}", true},
        {"{\"a\": {\"%gt\": {\"$maxKey\": 1}}}", "{\"a\": 1}", false},
        {"{\"a\": {\"$maxKey\": 1}}", "{\"a\": {\"$maxKey\": 1}}", true},
        {"{\"a\": {\"$maxKey\": 1}}", "{\"a\": 1}", false},
        {"{\"a\": {\"$numberDouble\": \"NaN\"}}", "{\"a\": {\"$numberDouble\": \"NaN\"}}", true},
        {"{\"a\": {\"$numberDouble\": \"NaN\"}}", "{\"a\": {\"$numberDecimal\": \"NaN\"}}", true},
        {"{\"a\": {\"%lte\": {\"$numberDouble\": \"NaN\"}}}",
         "{\"a\": {\"$numberDouble\": \"NaN\"}}", true},
        {"{\"a\": {\"%lt\": {\"$numberDouble\": \"NaN\"}}}", "{\"a\": 1}", false},
        {"{\"a\": {\"%lt\": 5}}", "{\"a\": {\"$numberDouble\": \"NaN\"}}", false},
        {"{\"a\": {\"%lte\": 5}}", "{\"a\": {\"$numberDouble\": \"NaN\"}}", false},
        {"{\"a\": {\"%in\": [{\"$numberDouble\": \"NaN\"}, 7]}}",
         "{\"a\": {\"$numberDouble\": \"NaN\"}}", true},
        {"{\"a\": {\"%lt\": {\"$date\": \"2020-01-01T00:00:00Z\"}}}",
         "{\"a\": {\"$date\": \"2019-01-01T00:00:00Z\"}}", true},
        {"{\"ts\": {\"%gt\": {\"$timestamp\": {\"t\": 5, \"i\": 4294967295}}}}",
         "{\"ts\": {\"$timestamp\": {\"t\": 6, \"i\": 1}}}", true},
        {"{\"ts\": {\"%gt\": {\"$timestamp\": {\"t\": 5, \"i\": 2}}}}",
         "{\"ts\": {\"$timestamp\": {\"t\": 5, \"i\": 2}}}", false},
        {"{\"ts\": {\"%gt\": {\"$timestamp\": {\"t\": 2147483647, \"i\": 0}}}}",
         "{\"ts\": {\"$timestamp\": {\"t\": 2147483648, \"i\": 0}}}", true},
    };

    (void)state;
    CHECK(rows);
}

static void test_paths(void **state)
{
    static const struct row rows[] = {
        {"{\"a.b\": 1}", "{\"a\": {\"b\": 1}}", true},
        {"{\"a.b\": 1}", "{\"a.b\": 1}", false},
        {"{\"a.b\": 1}", "{\"a\": [{\"b\": 2}, {\"b\": 1}]}", true},
        {"{\"a.b\": 1}", "{\"a\": [[{\"b\": 1}]]}", false},
        {"{\"a.b\": 1}", "{\"a\": [{\"b\": [1, 2]}]}", true},
        {"{\"a.b.c\": 1}", "{\"a\": [{\"b\": [{\"c\": 1}]}]}", true},
        {"{\"a.0\": 1}", "{\"a\": [1, 2]}", true},
        {"{\"a.1\": 1}", "{\"a\": [1, 2]}", false},
        {"{\"a.01\": 2}", "{\"a\": [1, 2]}", false},
        {"{\"a.0\": 1}", "{\"a\": {\"0\": 1}}", true},
        {"{\"a.0\": 1}", "{\"a\": [{\"0\": 1}]}", true},
        {"{\"a.0\": {\"b\": 1}}", "{\"a\": [{\"b\": 1}]}", true},
        {"{\"a.0.b\": 1}", "{\"a\": [{\"b\": 1}, {\"b\": 2}]}", true},
        {"{\"a.0.b\": 2}", "{\"a\": [{\"b\": 1}, {\"b\": 2}]}", false},
        {"{\"a.0.b\": 1}", "{\"a\": [[{\"b\": 1}]]}", true},
        {"{\"a.0.1\": 6}", "{\"a\": [[5, 6]]}", true},
        {"{\"a.1\": 2}", "{\"a\": [5, [2, 4]]}", false},
        {"{\"a.1\": [2, 4]}", "{\"a\": [5, [2, 4]]}", true},
        {"{\"a.1\": {\"%size\": 2}}", "{\"a\": [5, [2, 4]]}", true},
        {"{\"a.0\": {\"%exists\": true}}", "{\"a\": []}", false},
        {"{\"a..b\": 1}", "{\"a\": {\"\": {\"b\": 1}}}", true},
    };

    (void)state;
    CHECK(rows);
}

static void test_operators(void **state)
{
    static const struct row rows[] = {
        {"{\"a\": {\"%in\": [1, \"x\"]}}", "{\"a\": \"x\"}", true},
        {"{\"a\": {\"%in\": [1, \"x\"]}}", "{\"a\": [7, 1]}", true},
        {"{\"a\": {\"%in\": []}}", "{\"a\": 1}", false},
        {"{\"a\": {\"%in\": [[1, 2]]}}", "{\"a\": [1, 2]}", true},
        {"{\"a\": {\"%in\": [{\"$regularExpression\": {\"pattern\": \"^X\", \"options\": "
         "\"i\"}}]}}",
         "{\"a\": \"xy\"}", true},
        {"{\"a\": {\"%nin\": [{\"$regularExpression\": {\"pattern\": \"^X\", \"options\": "
         "\"i\"}}, 3]}}",
         "{\"a\": \"xy\"}", false},
        {"{\"a\": {\"%nin\": [1, 2]}}", "{\"a\": 3}", true},
        {"{\"a\": {\"%nin\": [1, 2]}}", "{\"a\": [3, 2]}", false},
        {"{\"a\": {\"%type\": \"int\"}}", "{\"a\": 1}", true},
        {"{\"a\": {\"%type\": \"number\"}}", "{\"a\": 1.5}", true},
        {"{\"a\": {\"%type\": 2}}", "{\"a\": [1, \"x\"]}", true},
        {"{\"a\": {\"%type\": \"array\"}}", "{\"a\": []}", true},
        {"{\"a\": {\"%type\": [\"string\", 16]}}", "{\"a\": 1}", true},
        {"{\"a\": {\"%type\": [\"string\", 16]}}", "{\"a\": 1.5}", false},
        {"{\"a\": {\"%type\": -1}}", "{\"a\": {\"$minKey\": 1}}", true},
        {"{\"a\": {\"%type\": \"null\"}}", "{}", false},
        {"{\"a\": {\"%size\": 2}}", "{\"a\": [1, [2]]}", true},
        {"{\"a\": {\"%size\": 0}}", "{\"a\": []}", true},
        {"{\"a\": {\"%size\": 1}}", "{\"a\": 1}", false},
        {"{\"a\": {\"%size\": 1}}", "{\"a\": [[1, 2]]}", true},
        {"{\"a\": {\"%mod\": [4, 0]}}", "{\"a\": 8}", true},
        {"{\"a\": {\"%mod\": [4, 1]}}", "{\"a\": 5.9}", true},
        {"{\"a\": {\"%mod\": [4.9, 1.2]}}", "{\"a\": 5}", true},
        {"{\"a\": {\"%mod\": [4, -1]}}", "{\"a\": -5}", true},
        {"{\"a\": {\"%mod\": [-1, 0]}}", "{\"a\": {\"$numberLong\": \"-9223372036854775808\"}}",
         true},
        {"{\"a\": {\"%mod\": [4, 0]}}", "{\"a\": \"8\"}", false},
        {"{\"a\": {\"%mod\": [4, 0]}}", "{\"a\": {\"$numberDouble\": \"Infinity\"}}", false},
        {"{\"a\": {\"%all\": [1, 2]}}", "{\"a\": [2, 1, 3]}", true},
        {"{\"a\": {\"%all\": [1, 2]}}", "{\"a\": [1]}", false},
        {"{\"a\": {\"%all\": [1]}}", "{\"a\": 1}", true},
        {"{\"a\": {\"%all\": []}}", "{\"a\": []}", false},
        {"{\"a\": {\"%all\": [[1, 2]]}}", "{\"a\": [1, 2]}", true},
        {"{\"a\": {\"%all\": [{\"%elemMatch\": {\"x\": 1}}, {\"%elemMatch\": {\"x\": 2}}]}}",
         "{\"a\": [{\"x\": 2}, {\"x\": 1}]}", true},
        {"{\"a\": {\"%all\": [{\"%elemMatch\": {\"x\": 1}}, {\"%elemMatch\": {\"x\": 3}}]}}",
         "{\"a\": [{\"x\": 2}, {\"x\": 1}]}", false},
        {"{\"a\": {\"%elemMatch\": {\"%gt\": 1, \"%lt\": 3}}}", "{\"a\": [0, 2]}", true},
        {"{\"a\": {\"%elemMatch\": {\"%gt\": 1, \"%lt\": 3}}}", "{\"a\": [0, 5]}", false},
        {"{\"a\": {\"%elemMatch\": {\"%gt\": 1}}}", "{\"a\": 2}", false},
        {"{\"a\": {\"%elemMatch\": {\"x\": 1, \"y\": 2}}}", "{\"a\": [{\"x\": 1}, {\"y\": 2}]}",
         false},
        {"{\"a\": {\"%elemMatch\": {\"x\": 1, \"y\": 2}}}", "{\"a\": [3, {\"x\": 1, \"y\": 2}]}",
         true},
        {"{\"a\": {\"%elemMatch\": {\"%or\": [{\"x\": 1}, {\"x\": 2}]}}}", "{\"a\": [{\"x\": 2}]}",
         true},
        {"{\"a\": {\"%elemMatch\": {\"0\": 5}}}", "{\"a\": [[5]]}", true},
        {"{\"a\": {\"%elemMatch\": {\"%elemMatch\": {\"%eq\": 5}}}}", "{\"a\": [[5]]}", true},
        {"{\"a\": {\"%elemMatch\": {\"%nin\": [1, 2]}}}", "{\"a\": [1, 3]}", true},
        {"{\"a\": {\"%elemMatch\": {\"%not\": {\"%gt\": 1}}}}", "{\"a\": [2, 0]}", true},
        {"{\"a\": {\"%not\": {\"%gt\": 1}}}", "{}", true},
        {"{\"a\": {\"%not\": {\"%gt\": 1}}}", "{\"a\": [0, 2]}", false},
        {"{\"a\": {\"%not\": {\"%gt\": 1, \"%lt\": 5}}}", "{\"a\": 7}", true},
        {"{\"a\": {\"%not\": {\"$regularExpression\": {\"pattern\": \"x\", \"options\": \"\"}}}}",
         "{\"a\": \"axb\"}", false},
        {"{\"%or\": [{\"a\": 1}, {\"b\": 2}]}", "{\"b\": 2}", true},
        {"{\"%nor\": [{\"a\": 1}, {\"b\": 2}]}", "{\"b\": 2}", false},
        {"{\"%nor\": [{\"a\": 1}, {\"b\": 2}]}", "{}", true},
        {"{\"%and\": [{\"a\": 1}, {\"%or\": [{\"b\": 1}, {\"b\": 2}]}]}", "{\"a\": 1, \"b\": 2}",
         true},
        {"{\"%alwaysFalse\": 1}", "{}", false},
        {"{\"%alwaysTrue\": 1}", "{}", true},
        {"{\"a\": {\"%bitsAllSet\": 5}}", "{\"a\": 7}", true},
        {"{\"a\": {\"%bitsAllSet\": [0, 3]}}", "{\"a\": 7}", false},
        {"{\"a\": {\"%bitsAnySet\": [0, 3]}}", "{\"a\": 7}", true},
        {"{\"a\": {\"%bitsAllClear\": [3, 4]}}", "{\"a\": 7}", true},
        {"{\"a\": {\"%bitsAnyClear\": 7}}", "{\"a\": 7}", false},
        {"{\"a\": {\"%bitsAllSet\": [63, 200]}}", "{\"a\": -1}", true},
        {"{\"a\": {\"%bitsAllSet\": 1}}", "{\"a\": 1.5}", false},
        {"{\"a\": {\"%bitsAllSet\": {\"$binary\": {\"base64\": \"AQE=\", \"subType\": \"00\"}}}}",
         "{\"a\": 257}", true},
        {"{\"a\": {\"%bitsAnySet\": [9]}}",
         "{\"a\": {\"$binary\": {\"base64\": \"AAI=\", \"subType\": \"00\"}}}", true},
        {"{\"a\": {\"%bitsAllSet\": []}}", "{\"a\": 0}", true},
        {"{\"a\": {\"%bitsAnySet\": []}}", "{\"a\": 0}", false},
    };

    (void)state;
    CHECK(rows);
}

static void test_regex(void **state)
{
    static const struct row rows[] = {
        {"{\"a\": {\"%regex\": \"^ab\"}}", "{\"a\": \"abc\"}", true},
        {"{\"a\": {\"%regex\": \"^AB\", \"%options\": \"i\"}}", "{\"a\": \"abc\"}", true},
        {"{\"a\": {\"%options\": \"i\", \"%regex\": \"^AB\"}}", "{\"a\": \"abc\"}", true},
        {"{\"a\": {\"%regex\": \"a.b\"}}", "{\"a\": \"a\\nb\"}", false},
        {"{\"a\": {\"%regex\": \"a.b\", \"%options\": \"s\"}}", "{\"a\": \"a\\nb\"}", true},
        {"{\"a\": {\"%regex\": \"^b\", \"%options\": \"m\"}}", "{\"a\": \"a\\nb\"}", true},
        {"{\"a\": {\"%regex\": \"a b\", \"%options\": \"x\"}}", "{\"a\": \"ab\"}", true},
        {"{\"a\": {\"%regex\": \"^.$\", \"%options\": \"u\"}}", "{\"a\": \"\\u00e9\"}", true},
        {"{\"a\": {\"%regex\": \"b\"}}", "{\"a\": [\"a\", \"b\"]}", true},
        {"{\"a\": {\"%regex\": \"1\"}}", "{\"a\": 1}", false},
        {"{\"a\": {\"$regularExpression\": {\"pattern\": \"B\", \"options\": \"i\"}}}",
         "{\"a\": \"abc\"}", true},
        {"{\"a\": {\"$regularExpression\": {\"pattern\": \"B\", \"options\": \"i\"}}}",
         "{\"a\": {\"$regularExpression\": {\"pattern\": \"B\", \"options\": \"i\"}}}", true},
        {"{\"a\": {\"%eq\": {\"$regularExpression\": {\"pattern\": \"B\", \"options\": \"\"}}}}",
         "{\"a\": \"B\"}", false},
        {"{\"a\": {\"%regex\": \"b\", \"%not\": {\"%regex\": \"c\"}}}", "{\"a\": \"ab\"}", true},
        {"{\"a\": {\"%all\": [{\"$regularExpression\": {\"pattern\": \"x\", \"options\": "
         "\"\"}}]}}",
         "{\"a\": [\"xy\"]}", true},
    };

    (void)state;
    CHECK(rows);
}

static void test_position(void **state)
{
    static const struct {
        const char *filter, *doc;
        int32_t want;
    } rows[] = {
        {"{\"a\": 5}", "{\"a\": [4, 5, 6]}", 1},
        {"{\"a\": 5}", "{\"a\": 5}", -1},
        {"{\"a\": {\"%gt\": 5}}", "{\"a\": [4, 5, 6]}", 2},
        {"{\"a.b\": 2}", "{\"a\": [{\"b\": 1}, {\"b\": 2}]}", 1},
        {"{\"a.b\": 2}", "{\"a\": [{\"b\": [1]}, {\"b\": [7, 8, 2]}]}", 1},
        {"{\"a.b\": 2}", "{\"a\": {\"b\": [1, 1, 2]}}", 2},
        {"{\"a\": {\"%elemMatch\": {\"x\": 1}}}", "{\"a\": [{\"x\": 0}, {\"x\": 1}]}", 1},
        {"{\"a\": {\"%elemMatch\": {\"%gte\": 7}}}", "{\"a\": [1, 7]}", 1},
        {"{\"a.b\": {\"%elemMatch\": {\"%gte\": 7}}}", "{\"a\": [{}, {\"b\": [1, 2, 7]}]}", 1},
        {"{\"a\": [4, 5]}", "{\"a\": [4, 5]}", -1},
        {"{\"a\": 5, \"c\": 1}", "{\"a\": [4, 5], \"c\": 1}", 1},
        {"{\"a\": 5, \"c\": 1}", "{\"a\": [4, 5], \"c\": [1]}", 0},
        {"{\"%or\": [{\"a\": 5}]}", "{\"a\": [4, 5]}", -1},
        {"{\"%and\": [{\"a\": 5}]}", "{\"a\": [4, 5]}", 1},
        {"{\"a\": {\"%ne\": 5}}", "{\"a\": [4]}", -1},
        {"{\"a\": {\"%in\": [9, 6]}}", "{\"a\": [4, 5, 6]}", 2},
        {"{\"a.1\": 5}", "{\"a\": [4, 5, 6]}", 1},
        {"{\"a\": 5}", "{\"a\": [4]}", -1},
    };

    (void)state;
    op_init(&op);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct match *m = NULL;
        bool hit;
        int32_t position = 99;

        assert_int_equal(parse(rows[i].filter, &m), 0);
        assert_int_equal(run(m, json_doc(&op.arena, rows[i].doc), &hit, &position), 0);
        if (position != rows[i].want)
            fail_msg("%s on %s: position %d", rows[i].filter, rows[i].doc, position);
    }
    op_fini(&op);
}

static void test_errors(void **state)
{
    static const struct {
        const char *filter;
        int code;
        const char *text;
    } rows[] = {
        {"{\"a\": {\"%foo\": 1}}", 2, "unknown operator: $foo"},
        {"{\"a\": {\"%gt\": 1, \"b\": 2}}", 2, "unknown operator: b"},
        {"{\"%foo\": 1}", 2,
         "unknown top level operator: $foo. If you have a field name that starts with a '$' "
         "symbol, consider using $getField or $setField."},
        {"{\"%not\": {\"a\": 1}}", 2,
         "unknown top level operator: $not. If you have a field name that starts with a '$' "
         "symbol, consider using $getField or $setField."},
        {"{\"a\": {\"%in\": 1}}", 2, "$in needs an array"},
        {"{\"a\": {\"%nin\": {}}}", 2, "$nin needs an array"},
        {"{\"a\": {\"%in\": [{\"%gt\": 1}]}}", 2, "cannot nest $ under $in"},
        {"{\"a\": {\"%all\": 1}}", 2, "$all needs an array"},
        {"{\"a\": {\"%all\": [{\"%gt\": 1}]}}", 2, "no $ expressions in $all"},
        {"{\"a\": {\"%all\": [{\"%elemMatch\": {}}, 1]}}", 2,
         "$all/$elemMatch has to be consistent"},
        {"{\"a\": {\"%elemMatch\": 1}}", 2, "$elemMatch needs an Object"},
        {"{\"a\": {\"%not\": 1}}", 2, "$not needs a regex or a document"},
        {"{\"a\": {\"%not\": {}}}", 2, "$not cannot be empty"},
        {"{\"a\": {\"%size\": \"x\"}}", 2,
         "Failed to parse $size. Expected a number in: $size: \"x\""},
        {"{\"a\": {\"%size\": 1.5}}", 2, "Failed to parse $size. Expected an integer: $size: 1.5"},
        {"{\"a\": {\"%size\": -1}}", 2,
         "Failed to parse $size. Expected a non-negative number in: $size: -1"},
        {"{\"a\": {\"%mod\": 1}}", 2, "malformed mod, needs to be an array"},
        {"{\"a\": {\"%mod\": [1]}}", 2, "malformed mod, not enough elements"},
        {"{\"a\": {\"%mod\": [1, 2, 3]}}", 2, "malformed mod, too many elements"},
        {"{\"a\": {\"%mod\": [\"1\", 2]}}", 2, "malformed mod, divisor not a number"},
        {"{\"a\": {\"%mod\": [0.5, 2]}}", 2, "divisor cannot be 0"},
        {"{\"a\": {\"%type\": \"foo\"}}", 2, "Unknown type name alias: foo"},
        {"{\"a\": {\"%type\": \"unknown\"}}", 2, "Unknown type name alias: unknown"},
        {"{\"a\": {\"%type\": 42}}", 2, "Invalid numerical type code: 42"},
        {"{\"a\": {\"%type\": {}}}", 14, "type must be represented as a number or a string"},
        {"{\"a\": {\"%type\": []}}", 9, "a must match at least one type"},
        {"{\"a\": {\"%regex\": \"(\"}}", 51091,
         "Regular expression is invalid: missing closing parenthesis"},
        {"{\"a\": {\"%regex\": 1}}", 2, "$regex has to be a string"},
        {"{\"a\": {\"%regex\": \"x\", \"%options\": \"q\"}}", 51108,
         "invalid flag in regex options: q"},
        {"{\"a\": {\"%options\": \"i\"}}", 2, "$options needs a $regex"},
        {"{\"a\": {\"%gt\": {\"$regularExpression\": {\"pattern\": \"x\", \"options\": \"\"}}}}", 2,
         "Can't have RegEx as arg to predicate over field 'a'."},
        {"{\"a\": {\"%ne\": {\"$regularExpression\": {\"pattern\": \"x\", \"options\": \"\"}}}}", 2,
         "Can't have regex as arg to $ne."},
        {"{\"%and\": 1}", 2, "$and must be an array"},
        {"{\"%or\": []}", 2, "$and/$or/$nor must be a nonempty array"},
        {"{\"%nor\": [1]}", 2, "$or/$and/$nor entries need to be full objects"},
        {"{\"a\": {\"%elemMatch\": {\"%expr\": true}}}", 2,
         "$expr can only be applied to the top-level document"},
        {"{\"a\": {\"%bitsAllSet\": -1}}", 9, "Expected a non-negative number in: $bitsAllSet: -1"},
        {"{\"a\": {\"%bitsAllSet\": \"x\"}}", 2,
         "a takes an Array, a number, or a BinData but received: $bitsAllSet: \"x\""},
        {"{\"%jsonSchema\": {}}", 238, "$jsonSchema is not supported"},
        {"{\"%where\": \"1\"}", 238, "$where is not supported"},
        {"{\"a\": {\"%near\": [0, 0]}}", 238, "$near is not supported"},
    };

    (void)state;
    op_init(&op);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct match *m = NULL;
        int rc = parse(rows[i].filter, &m);

        if (rc != rows[i].code || strcmp(op.err->text, rows[i].text) != 0)
            fail_msg("%s: %d %s", rows[i].filter, rc, op.err->text);
    }
    op_fini(&op);
}

/* {%and: [{%and: [ ... ]}]}, {a: {%not: {%not: ...}}}, {a: {%elemMatch: {a: ...}}} */
static struct bv nested(const char *kind, int depth)
{
    struct bw w;
    bool logic = kind[0] == '$' && kind[1] == 'a';

    bw_init(&w, &op.arena);
    if (strcmp(kind, "$not") == 0)
        bw_doc_begin(&w, "a");
    for (int i = 0; i < depth; i++) {
        if (logic) {
            bw_arr_begin(&w, kind);
            bw_doc_begin(&w, NULL);
        } else {
            if (strcmp(kind, "$elemMatch") == 0)
                bw_doc_begin(&w, "a");
            bw_doc_begin(&w, kind);
        }
    }
    if (strcmp(kind, "$not") == 0)
        bw_i32(&w, "$gt", 1);
    while (w.depth > 1)
        bw_end(&w);
    return bw_done(&w);
}

static void test_depth(void **state)
{
    static const char *const kinds[] = {"$and", "$not", "$elemMatch"};

    (void)state;
    op_init(&op);
    for (size_t i = 0; i < 3; i++) {
        struct match *m = NULL;
        bool hit;

        assert_int_equal(match_parse(&op, &op.arena, nested(kinds[i], 100), NULL, &m), 0);
        assert_int_equal(run(m, json_doc(&op.arena, "{\"a\": 1}"), &hit, NULL), 0);
        assert_int_equal(match_show(m, &op.arena).type, BV_DOC);
        assert_int_equal(match_parse(&op, &op.arena, nested(kinds[i], 101), NULL, &m),
                         ERR_BAD_VALUE);
        assert_non_null(strstr(op.err->text, "exceeded maximum query tree depth of 100"));
    }
    op_fini(&op);
}

static void add_name(void *arg, const char *path)
{
    strcat(arg, path);
    strcat(arg, " ");
}

static void test_view(void **state)
{
    char names[200] = "";
    struct match *m = NULL;

    (void)state;
    op_init(&op);
    assert_int_equal(parse("{\"a.b\": 1, \"c\": {\"%gt\": 2, \"%lt\": 5}, \"%or\": [{\"d\": 1}, "
                           "{\"e\": {\"%elemMatch\": {\"f\": 1}}}]}",
                           &m),
                     0);
    match_paths(m, add_name, names);
    assert_string_equal(names, "a c c d e ");
    assert_int_equal(match_kind(m), MATCH_AND);
    assert_int_equal(match_nchildren(m), 4);
    assert_int_equal(match_kind(match_child(m, 0)), MATCH_EQ);
    assert_string_equal(match_path(match_child(m, 0)), "a.b");
    assert_int_equal(bv_i32(match_value(match_child(m, 0))), 1);
    assert_int_equal(match_kind(match_child(m, 2)), MATCH_LT);
    assert_string_equal(bv_show(&op.arena, match_show(m, &op.arena), 500),
                        "{ $and: [ { a.b: { $eq: 1 } }, { c: { $gt: 2 } }, { c: { $lt: 5 } }, "
                        "{ $or: [ { d: { $eq: 1 } }, { e: { $elemMatch: { f: { $eq: 1 } } } } ] } "
                        "] }");
    assert_int_equal(parse("{\"a\": {\"%nin\": [1], \"%exists\": false}}", &m), 0);
    assert_string_equal(
        bv_show(&op.arena, match_show(m, &op.arena), 500),
        "{ $and: [ { a: { $not: { $in: [ 1 ] } } }, { a: { $not: { $exists: true } } } ] }");
    assert_int_equal(parse("{}", &m), 0);
    assert_true(match_is_empty(m));
    op_fini(&op);
}

static void test_expr(void **state)
{
    static const struct row rows[] = {
        {"{\"%expr\": {\"%gt\": [\"$a\", \"$b\"]}}", "{\"a\": 2, \"b\": 1}", true},
        {"{\"%expr\": {\"%gt\": [\"$a\", \"$b\"]}}", "{\"a\": 1, \"b\": 1}", false},
        {"{\"%and\": [{\"a\": 1}, {\"%expr\": {\"%eq\": [\"$$ROOT.b\", 2]}}]}",
         "{\"a\": 1, \"b\": 2}", true},
        {"{\"%expr\": \"$a\"}", "{\"a\": 0}", false},
    };
    char names[100] = "";
    struct match *m = NULL;

    (void)state;
    CHECK(rows);
    op_init(&op);
    assert_int_equal(parse("{\"%expr\": {\"%and\": [\"$a.b\", \"$a.c\", \"$d\"]}}", &m), 0);
    match_paths(m, add_name, names);
    assert_string_equal(names, "a d ");
    op_fini(&op);
}

static void test_hostile_paths(void **state)
{
    struct match *m = NULL;
    struct bw w;
    char path[600];

    (void)state;
    op_init(&op);
    memset(path, '.', sizeof(path));
    path[254] = '\0';
    bw_init(&w, &op.arena);
    bw_i32(&w, path, 1);
    assert_int_equal(match_parse(&op, &op.arena, bw_done(&w), NULL, &m), 0);
    path[254] = '.';
    path[255] = '\0';
    bw_init(&w, &op.arena);
    bw_i32(&w, path, 1);
    assert_int_equal(match_parse(&op, &op.arena, bw_done(&w), NULL, &m), ERR_BAD_VALUE);
    op_fini(&op);
}

static void test_regex_limits(void **state)
{
    struct regex *re = NULL;
    struct regex_hit hit;
    bool found;
    char *big;

    (void)state;
    op_init(&op);
    big = arena_alloc(&op.arena, 32765);
    memset(big, 'a', 32765);
    assert_int_equal(regex_compile(&op, &op.arena, big, 32764, "", 0, &re), 0);
    assert_int_equal(regex_compile(&op, &op.arena, big, 32765, "", 0, &re), ERR_BAD_VALUE);
    assert_int_equal(regex_compile(&op, &op.arena, "a\0b", 3, "", 0, &re), ERR_BAD_VALUE);
    memset(big, '(', 1000);
    assert_int_equal(regex_compile(&op, &op.arena, big, 1000, "", 0, &re), 51091);
    /* exponential backtracking ends in an error */
    memset(big, 'a', 100);
    assert_int_equal(regex_compile(&op, &op.arena, "^(a|aa)+$", 9, "", 0, &re), 0);
    big[60] = 'b';
    assert_int_equal(regex_find(re, &op, big, 61, 0, &found, NULL), 51156);
    /* groups, and bytes that are not UTF-8 */
    assert_int_equal(regex_compile(&op, &op.arena, "(x)|(b+)", 8, "", 0, &re), 0);
    assert_int_equal(regex_find(re, &op,
                                "\xff\xff"
                                "abb",
                                5, 0, &found, &hit),
                     0);
    assert_true(found);
    assert_int_equal(hit.start, 3);
    assert_int_equal(hit.end, 5);
    assert_int_equal(hit.ncaptures, 2);
    assert_true(hit.captures[1][0] == REGEX_UNSET);
    assert_int_equal(hit.captures[2][0], 3);
    op_fini(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equality),      cmocka_unit_test(test_null),
        cmocka_unit_test(test_order),         cmocka_unit_test(test_paths),
        cmocka_unit_test(test_operators),     cmocka_unit_test(test_regex),
        cmocka_unit_test(test_position),      cmocka_unit_test(test_errors),
        cmocka_unit_test(test_depth),         cmocka_unit_test(test_view),
        cmocka_unit_test(test_regex_limits),  cmocka_unit_test(test_expr),
        cmocka_unit_test(test_hostile_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
