/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/fields.h"
#include "tests/unit/json_values.h"

struct args {
    struct bv filter, list, pipeline, any, name_bv, number, ts, hint, bin, date;
    const char *name;
    bool flag, strict;
    int64_t limit, batch, small;
};

static const struct field table[] = {
    {"filter", F_DOC, offsetof(struct args, filter), 0},
    {"list", F_ARRAY, offsetof(struct args, list), 0},
    {"pipeline", F_DOC_ARRAY, offsetof(struct args, pipeline), 0},
    {"any", F_ANY, offsetof(struct args, any), 0},
    {"name", F_STR, offsetof(struct args, name), 0},
    {"nameBv", F_STR_BV, offsetof(struct args, name_bv), FIELD_NULL_OK},
    {"flag", F_BOOL, offsetof(struct args, flag), 0},
    {"strict", F_STRICT_BOOL, offsetof(struct args, strict), 0},
    {"limit", F_INT, offsetof(struct args, limit), FIELD_NON_NEGATIVE},
    {"batch", F_INT, offsetof(struct args, batch), FIELD_POSITIVE},
    {"small", F_INT, offsetof(struct args, small), FIELD_INT32},
    {"number", F_NUMBER, offsetof(struct args, number), 0},
    {"ts", F_TS, offsetof(struct args, ts), 0},
    {"hint", F_STR_DOC, offsetof(struct args, hint), 0},
    {"bin", F_BIN, offsetof(struct args, bin), 0},
    {"date", F_DATE, offsetof(struct args, date), 0},
    {"dropped", F_IGNORE, 0, 0},
    {"later", F_ANY, offsetof(struct args, any), FIELD_UNBUILT},
    {NULL, 0, 0, 0}};

static struct op op;
static struct args args;

static int set_up(void **state)
{
    (void)state;
    op_init(&op);
    memset(&args, 0, sizeof(args));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    op_fini(&op);
    return 0;
}

static int parse(const char *doc, unsigned flags)
{
    return fields_parse(&op, "cmd", table, json_doc(&op.arena, doc), flags, &args);
}

static void test_values(void **state)
{
    (void)state;
    args.batch = 77;
    assert_int_equal(
        parse("{\"cmd\": \"c\", \"filter\": {\"a\": 1}, \"list\": [1], \"pipeline\": [], \"any\": "
              "null, \"name\": \"x\", \"nameBv\": null, \"flag\": 2.5, \"strict\": true, "
              "\"limit\": 5.0, \"small\": -3, \"number\": 1.5, \"ts\": {\"$timestamp\": {\"t\": 1, "
              "\"i\": 2}}, \"hint\": \"h\", \"bin\": {\"$binary\": {\"base64\": \"AA==\", "
              "\"subType\": \"00\"}}, \"date\": {\"$date\": {\"$numberLong\": \"5\"}}, "
              "\"dropped\": [], \"%db\": \"d\", \"lsid\": {}, \"comment\": 1}",
              FIELDS_COMMAND),
        0);
    assert_int_equal(bv_count(args.filter), 1);
    assert_int_equal(args.list.type, BV_ARRAY);
    assert_int_equal(args.pipeline.type, BV_ARRAY);
    assert_int_equal(args.any.type, BV_NULL);
    assert_string_equal(args.name, "x");
    assert_true(bv_is_missing(args.name_bv));
    assert_true(args.flag);
    assert_true(args.strict);
    assert_int_equal(args.limit, 5);
    assert_int_equal(args.batch, 77); /* absent: untouched */
    assert_int_equal(args.small, -3);
    assert_true(bv_ts(args.ts) == ((1ULL << 32) | 2));
    assert_true(bv_str_is(args.hint, "h"));
    assert_int_equal(bv_i64(args.date), 5);
}

static void test_errors(void **state)
{
    static const struct {
        const char *doc;
        unsigned flags;
        int code;
        const char *text;
    } rows[] = {
        {"{\"bogus\": 1}", 0, 40415, "BSON field 'cmd.bogus' is an unknown field."},
        {"{\"bogus\": 1}", FIELDS_LENIENT, 0, NULL},
        {"{\"lsid\": 1}", 0, 40415, "BSON field 'cmd.lsid' is an unknown field."},
        {"{\"cmd\": 1, \"cmd\": 2}", FIELDS_COMMAND, 40415,
         "BSON field 'cmd.cmd' is an unknown field."},
        {"{\"any\": 1, \"any\": 2}", 0, 40413, "BSON field 'cmd.any' is a duplicate field"},
        {"{\"filter\": \"x\"}", 0, 14,
         "BSON field 'cmd.filter' is the wrong type 'string', expected type 'object'"},
        {"{\"filter\": []}", 0, 14,
         "BSON field 'cmd.filter' is the wrong type 'array', expected type 'object'"},
        {"{\"filter\": null}", 0, 14,
         "BSON field 'cmd.filter' is the wrong type 'null', expected type 'object'"},
        {"{\"list\": {}}", 0, 14,
         "BSON field 'cmd.list' is the wrong type 'object', expected type 'array'"},
        {"{\"limit\": \"5\"}", 0, 14,
         "BSON field 'cmd.limit' is the wrong type 'string', expected types '[long, int, decimal, "
         "double]'"},
        {"{\"flag\": \"yes\"}", 0, 14,
         "BSON field 'cmd.flag' is the wrong type 'string', expected types '[bool, long, int, "
         "decimal, double]'"},
        {"{\"strict\": 1}", 0, 14,
         "BSON field 'cmd.strict' is the wrong type 'int', expected type 'bool'"},
        {"{\"name\": 1}", 0, 14,
         "BSON field 'cmd.name' is the wrong type 'int', expected type 'string'"},
        {"{\"name\": \"a\\u0000b\"}", 0, 2, "BSON field 'cmd.name' contains a NUL byte"},
        {"{\"limit\": -1}", 0, 51024, "BSON field 'limit' value must be >= 0, actual value '-1'"},
        {"{\"batch\": 0}", 0, 51024, "BSON field 'batch' value must be >= 1, actual value '0'"},
        {"{\"limit\": {\"$numberDouble\": \"NaN\"}}", 0, 2,
         "BSON field 'cmd.limit' is out of the range of a long"},
        {"{\"small\": 2147483648}", 0, 2, "2147483648 value for small is out of range"},
        {"{\"small\": -2147483649}", 0, 2, "-2147483649 value for small is out of range"},
        {"{\"later\": 1}", 0, 238, "'cmd.later' is not supported yet"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int rc = parse(rows[i].doc, rows[i].flags);

        if (rc != rows[i].code || (rc != 0 && strcmp(op.err->text, rows[i].text) != 0))
            fail_msg("%s: %d %s", rows[i].doc, rc, op.err->text);
    }
}

static void test_required(void **state)
{
    static const struct field required[] = {
        {"a", F_ANY, offsetof(struct args, any), FIELD_REQUIRED},
        {"b", F_STR, offsetof(struct args, name), FIELD_REQUIRED},
        {NULL, 0, 0, 0}};

    (void)state;
    assert_int_equal(fields_parse(&op, "x", required, json_doc(&op.arena, "{\"a\": 1}"), 0, &args),
                     40414);
    assert_string_equal(op.err->text, "BSON field 'x.b' is missing but a required field");
    assert_int_equal(
        fields_parse(&op, "x", required, json_doc(&op.arena, "{\"b\": \"\", \"a\": 1}"), 0, &args),
        0);
    assert_string_equal(args.name, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        T(test_values),
        T(test_errors),
        T(test_required),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
