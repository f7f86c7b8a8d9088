/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/json_values.h"

static struct arena a;

static int set_up(void **state)
{
    (void)state;
    arena_init(&a);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&a);
    return 0;
}

static struct bv value(const char *text)
{
    return json_value(&a, text);
}

/* Groups of equal values, in BSON order. */
static const char *const order[][6] = {
    {"{\"$minKey\": 1}"},
    {"{\"$undefined\": true}"},
    {"null"},
    {"{\"$numberDouble\": \"NaN\"}", "{\"$numberDecimal\": \"NaN\"}"},
    {"{\"$numberDouble\": \"-Infinity\"}", "{\"$numberDecimal\": \"-Infinity\"}"},
    {"{\"$numberDecimal\": \"-1E+400\"}"},
    {"{\"$numberDouble\": \"-9223372036854777856\"}"},
    {"{\"$numberLong\": \"-9223372036854775808\"}", "{\"$numberDouble\": \"-9223372036854775808\"}",
     "{\"$numberDecimal\": \"-9223372036854775808\"}"},
    {"{\"$numberDecimal\": \"-9223372036854775807.5\"}"},
    {"{\"$numberLong\": \"-9223372036854775807\"}"},
    {"-1"},
    {"-0.5"},
    {"0", "{\"$numberDouble\": \"-0.0\"}", "{\"$numberDecimal\": \"-0E+3\"}",
     "{\"$numberLong\": "
     "\"0\"}"},
    {"{\"$numberDouble\": \"4.9406564584124654e-324\"}"},
    {"{\"$numberDecimal\": \"0.1\"}"},
    {"{\"$numberDecimal\": \"0.1000000000000000055511151231257826\"}"},
    /* a double counts as the decimal of 34 digits nearest to it, as in key strings */
    {"{\"$numberDouble\": \"0.1\"}",
     "{\"$numberDecimal\": \"0.1000000000000000055511151231257827\"}"},
    {"{\"$numberDecimal\": \"0.1000000000000000055511151231257828\"}"},
    {"0.5", "{\"$numberDecimal\": \"0.50\"}"},
    {"1", "1.0", "{\"$numberLong\": \"1\"}", "{\"$numberDecimal\": \"1.000\"}"},
    {"{\"$numberDouble\": \"9007199254740992\"}", "{\"$numberLong\": \"9007199254740992\"}"},
    {"{\"$numberLong\": \"9007199254740993\"}", "{\"$numberDecimal\": \"9007199254740993\"}"},
    {"{\"$numberDecimal\": \"9007199254740993.5\"}"},
    {"{\"$numberLong\": \"9007199254740994\"}", "{\"$numberDouble\": \"9007199254740994\"}"},
    {"{\"$numberLong\": \"9223372036854775807\"}", "{\"$numberDecimal\": \"9223372036854775807\"}"},
    {"{\"$numberDouble\": \"9223372036854775808\"}",
     "{\"$numberDecimal\": \"9223372036854775808\"}"},
    {"{\"$numberDouble\": \"1e300\"}"},
    {"{\"$numberDecimal\": \"1E+400\"}"},
    {"{\"$numberDouble\": \"Infinity\"}", "{\"$numberDecimal\": \"Infinity\"}"},
    {"\"\""},
    {"\"a\"", "{\"$symbol\": \"a\"}"},
    {"\"a\\u0000b\""},
    {"\"ab\"", "{\"$symbol\": \"ab\"}"},
    {"\"b\""},
    {"\"\\u00e9\""},
    {"{}"},
    {"{\"a\": 1}", "{\"a\": 1.0}"},
    {"{\"a\": 1, \"b\": 1}"},
    {"{\"a\": 2}"},
    {"{\"b\": 1}"},
    {"{\"a\": \"x\"}"}, /* the type of the first field counts before its name */
    {"[]"},
    {"[1]", "[{\"$numberLong\": \"1\"}]"},
    {"[1, 2]"},
    {"[2]"},
    {"[\"a\"]"},
    {"{\"$binary\": {\"base64\": \"/w==\", \"subType\": \"00\"}}"},
    {"{\"$binary\": {\"base64\": \"AQI=\", \"subType\": \"00\"}}"},
    {"{\"$binary\": {\"base64\": \"AQM=\", \"subType\": \"00\"}}"},
    {"{\"$binary\": {\"base64\": \"AQI=\", \"subType\": \"05\"}}"},
    {"{\"$oid\": \"000000000000000000000001\"}"},
    {"{\"$oid\": \"ff0000000000000000000000\"}"},
    {"false"},
    {"true"},
    {"{\"$date\": {\"$numberLong\": \"-1\"}}"},
    {"{\"$date\": {\"$numberLong\": \"1\"}}"},
    {"{\"$timestamp\": {\"t\": 1, \"i\": 4294967295}}"},
    {"{\"$timestamp\": {\"t\": 4294967295, \"i\": 1}}"},
    {"{\"$regularExpression\": {\"pattern\": \"a\", \"options\": \"\"}}"},
    {"{\"$regularExpression\": {\"pattern\": \"a\", \"options\": \"i\"}}"},
    {"{\"$regularExpression\": {\"pattern\": \"b\", \"options\": \"\"}}"},
    {"{\"$dbPointer\": {\"$ref\": \"c\", \"$id\": {\"$oid\": \"000000000000000000000001\"}}}"},
    {"{\"$code\": \"x\"}"},
    {"{\"$code\": \"x\", \"$scope\": {}}"},
    {"{\"$maxKey\": 1}"},
};
#define GROUPS (sizeof(order) / sizeof(order[0]))

static int sign(int x)
{
    return (x > 0) - (x < 0);
}

static void test_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < GROUPS; i++) {
        for (size_t j = 0; j < GROUPS; j++) {
            for (size_t x = 0; x < 6 && order[i][x] != NULL; x++) {
                for (size_t y = 0; y < 6 && order[j][y] != NULL; y++) {
                    int want = i < j ? -1 : i > j;

                    if (sign(bv_cmp(value(order[i][x]), value(order[j][y]))) != want)
                        fail_msg("%s against %s: want %d", order[i][x], order[j][y], want);
                }
            }
        }
        arena_reset(&a);
    }
    assert_int_equal(bv_cmp(BV_NONE, bv_undefined), 0);
    assert_true(bv_cmp(BV_NONE, bv_null) < 0);
}

static void test_hash(void **state)
{
    size_t differ = 0;

    (void)state;
    for (size_t i = 0; i < GROUPS; i++) {
        uint64_t h = bv_hash(value(order[i][0]));

        for (size_t x = 1; x < 6 && order[i][x] != NULL; x++) {
            if (bv_hash(value(order[i][x])) != h)
                fail_msg("%s and %s: equal values, other hashes", order[i][0], order[i][x]);
        }
        differ += i > 0 && bv_hash(value(order[i - 1][0])) != h;
    }
    assert_true(differ > GROUPS - 14); /* numbers beyond double's precision may share one */
    assert_true(bv_hash(BV_NONE) == bv_hash(bv_undefined));
    assert_true(bv_hash(value("{\"a\": 1}")) != bv_hash(value("{\"b\": 1}")));
}

static void test_conversions(void **state)
{
    static const struct {
        const char *text;
        bool ok, exact;
        int64_t want;
    } rows[] = {
        {"5", true, true, 5},
        {"5.0", true, true, 5},
        {"5.9", true, false, 5},
        {"-5.9", true, false, -5},
        {"{\"$numberDecimal\": \"5.9\"}", true, false, 5},
        {"{\"$numberDecimal\": \"5E+2\"}", true, true, 500},
        {"{\"$numberLong\": \"-9223372036854775808\"}", true, true, INT64_MIN},
        {"{\"$numberDouble\": \"-9223372036854775808\"}", true, true, INT64_MIN},
        {"{\"$numberDouble\": \"9223372036854775808\"}", false, false, 0},
        {"{\"$numberDecimal\": \"9223372036854775808\"}", false, false, 0},
        {"{\"$numberDouble\": \"NaN\"}", false, false, 0},
        {"{\"$numberDecimal\": \"NaN\"}", false, false, 0},
        {"{\"$numberDecimal\": \"Infinity\"}", false, false, 0},
        {"\"5\"", false, false, 0},
        {"true", false, false, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t n = 0;

        if (bv_to_i64(value(rows[i].text), &n) != rows[i].ok || (rows[i].ok && n != rows[i].want))
            fail_msg("%s as long: %lld", rows[i].text, (long long)n);
        assert_int_equal(bv_to_i64_exact(value(rows[i].text), &n), rows[i].exact);
    }
    assert_true(bv_truthy(value("{\"$numberDouble\": \"NaN\"}")));
    assert_false(bv_truthy(value("{\"$numberDecimal\": \"0E+3\"}")));
    assert_false(bv_truthy(value("{\"$numberDouble\": \"-0.0\"}")));
    assert_true(bv_truthy(value("\"\"")));
    assert_true(bv_truthy(value("[]")));
    assert_false(bv_truthy(BV_NONE));
}

static void test_access(void **state)
{
    struct bv doc = value("{\"a\": {\"b\": [5, {\"c\": 6}]}, \"x.y\": 7, \"a\": 8}");
    struct belem e;
    uint32_t n;

    (void)state;
    assert_int_equal(bv_i32(bv_path(doc, "a.b.1.c")), 6);
    assert_true(bv_is_missing(bv_path(doc, "a.b.c")));
    assert_true(bv_is_missing(bv_path(doc, "a.b.0.c")));
    assert_true(bv_is_missing(bv_path(doc, "x.y")));
    assert_int_equal(bv_i32(bv_get(doc, "x.y")), 7);
    assert_int_equal(bv_count(doc), 3);
    assert_int_equal(bv_first(doc, &e).type, BV_DOC);
    assert_string_equal(e.key, "a");
    assert_true(belem_bytes(&e, &n) == doc.p + 4);
    assert_true(bv_is_missing(bv_get(bv_null, "a")));
    assert_true(bv_empty(value("{}")));
    assert_true(bv_identical(value("1"), value("1")));
    assert_false(bv_identical(value("1"), value("1.0")));
}

static void test_show(void **state)
{
    static const char *const rows[][2] = {
        {"{\"a\": 1, \"b\": [1.5, \"x\", null], \"c\": {}}",
         "{ a: 1, b: [ 1.5, \"x\", null ], c: {} }"},
        {"2.0", "2.0"},
        {"1e15", "1000000000000000.0"},
        {"{\"$numberDouble\": \"Infinity\"}", "inf.0"},
        {"{\"$numberDouble\": \"-Infinity\"}", "-inf.0"},
        {"{\"$numberDouble\": \"NaN\"}", "nan.0"},
        {"{\"$numberLong\": \"5\"}", "5"},
        {"{\"$numberDecimal\": \"1.50\"}", "1.50"},
        {"{\"$timestamp\": {\"t\": 5, \"i\": 6}}", "Timestamp(5, 6)"},
        {"{\"$oid\": \"0123456789abcdef01234567\"}", "ObjectId('0123456789abcdef01234567')"},
        {"{\"$regularExpression\": {\"pattern\": \"a\", \"options\": \"i\"}}", "/a/i"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_string_equal(bv_show(&a, value(rows[i][0]), 200), rows[i][1]);
    assert_string_equal(bv_show(&a, value("\"abcdefgh\""), 5), "\"abcd...");
}

/* --- bv_check ------------------------------------------------------------------------------------
 */

/* Checks a copy that ends where its memory ends, so that a sanitizer sees any step beyond. */
static int check(const uint8_t *bytes, size_t len, unsigned depth)
{
    uint8_t *copy = malloc(len == 0 ? 1 : len);
    struct error err;
    int rc;

    assert_non_null(copy);
    memcpy(copy, bytes, len);
    rc = bv_check(copy, len, depth, &err);
    if (rc == 0) {
        /* what was found good can be walked */
        (void)bv_hash(bv_doc(copy));
        (void)bv_show(&a, bv_doc(copy), 1000);
    }
    free(copy);
    return rc;
}

/* One field of every type. */
static struct bv all_types(void)
{
    struct bw w;

    bw_init(&w, &a);
    for (size_t i = 0; i < GROUPS; i++) {
        for (size_t x = 0; x < 6 && order[i][x] != NULL; x++)
            bw_bv(&w, "f", value(order[i][x]));
    }
    bw_bv(&w, "s", value("{\"$code\": \"x\", \"$scope\": {\"a\": {\"b\": 1}}}"));
    return bw_done(&w);
}

static void test_check_truncated(void **state)
{
    struct bv doc = all_types();
    uint8_t *bytes = arena_dup(&a, doc.p, doc.len);

    (void)state;
    assert_int_equal(check(doc.p, doc.len, 200), 0);
    for (uint32_t n = 0; n < doc.len; n++) {
        /* cut short, with the old length and with the new one */
        assert_int_equal(check(doc.p, n, 200), ERR_INVALID_BSON);
        if (n < 5)
            continue;
        memcpy(bytes, &n, 4);
        bytes[n - 1] = 0;
        (void)check(bytes, n, 200);
        memcpy(bytes, doc.p, doc.len);
    }
}

static void test_check_flipped(void **state)
{
    static const uint8_t interesting[] = {0, 1, 2, 3, 4, 5, 0x0F, 0x10, 0x7F, 0x80, 0xFE, 0xFF};
    struct bv doc = all_types();
    uint8_t *bytes = arena_dup(&a, doc.p, doc.len);

    (void)state;
    for (uint32_t i = 0; i < doc.len; i++) {
        for (size_t k = 0; k < sizeof(interesting); k++) {
            bytes[i] = interesting[k];
            (void)check(bytes, doc.len, 200);
        }
        bytes[i] = doc.p[i];
        arena_reset(&a);
        doc = all_types();
        bytes = arena_dup(&a, doc.p, doc.len);
    }
}

static void test_check_rows(void **state)
{
#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})
    static const uint8_t good[] = {5, 0, 0, 0, 0};
    struct {
        const char *what;
        const uint8_t *bytes;
        size_t len;
    } rows[] = {
        {"nothing", BYTES(0)},
        {"no terminator", BYTES(5, 0, 0, 0, 1)},
        {"length below five", BYTES(4, 0, 0, 0, 0)},
        {"negative length", BYTES(0xFF, 0xFF, 0xFF, 0xFF, 0)},
        {"bytes behind the end", BYTES(5, 0, 0, 0, 0, 0)},
        {"terminator inside", BYTES(6, 0, 0, 0, 0, 0)},
        {"name without end", BYTES(8, 0, 0, 0, 0x0A, 'a', 'b', 0)},
        {"unknown type", BYTES(8, 0, 0, 0, 0x14, 'a', 0, 0)},
        {"boolean 2", BYTES(9, 0, 0, 0, 0x08, 'a', 0, 2, 0)},
        {"string of length 0", BYTES(12, 0, 0, 0, 0x02, 'a', 0, 0, 0, 0, 0, 0)},
        {"string without NUL", BYTES(14, 0, 0, 0, 0x02, 'a', 0, 2, 0, 0, 0, 'x', 'y', 0)},
        {"string over the end", BYTES(13, 0, 0, 0, 0x02, 'a', 0, 2, 0, 0, 0, 0, 0)},
        {"negative binary", BYTES(13, 0, 0, 0, 0x05, 'a', 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0)},
        {"document that takes its parent's terminator",
         BYTES(12, 0, 0, 0, 0x03, 'a', 0, 5, 0, 0, 0, 0)},
        {"document with a hole", BYTES(14, 0, 0, 0, 0x03, 'a', 0, 6, 0, 0, 0, 0, 0, 0)},
        {"regex without flags", BYTES(10, 0, 0, 0, 0x0B, 'a', 0, 'x', 0, 1)},
        {"code with a short scope",
         BYTES(24, 0, 0, 0, 0x0F, 'a', 0, 16, 0, 0, 0, 2, 0, 0, 0, 'x', 0, 6, 0, 0, 0, 0, 0, 0)},
    };

    (void)state;
    assert_int_equal(check(good, 5, 1), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (check(rows[i].bytes, rows[i].len, 200) != ERR_INVALID_BSON)
            fail_msg("%s is taken", rows[i].what);
    }
}

/* {a: {a: ... {} }} of this many documents, written from the inside out. */
static uint8_t *nest(uint32_t depth, size_t *ret_len)
{
    size_t len = 5 + 8 * ((size_t)depth - 1);
    uint8_t *bytes = calloc(1, len);

    assert_non_null(bytes);
    for (uint32_t i = 0; i < depth; i++) {
        uint32_t n = 5 + 8 * (depth - 1 - i);
        uint8_t *p = bytes + 7 * (size_t)i;

        memcpy(p, &n, 4);
        if (i + 1 < depth)
            memcpy(p + 4,
                   "\x03"
                   "a",
                   3);
    }
    *ret_len = len;
    return bytes;
}

static void test_check_depth(void **state)
{
    static const uint32_t depths[] = {1, 100, 180, 181, 200, 201, 255, 256, 257, 1000, 100000};

    (void)state;
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        size_t len;
        uint8_t *bytes = nest(depths[i], &len);

        assert_int_equal(check(bytes, len, 180), depths[i] <= 180 ? 0 : ERR_OVERFLOW);
        assert_int_equal(check(bytes, len, 200), depths[i] <= 200 ? 0 : ERR_OVERFLOW);
        assert_int_equal(check(bytes, len, 1u << 30), depths[i] <= 256 ? 0 : ERR_OVERFLOW);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        T(test_order),         T(test_hash),       T(test_conversions),
        T(test_access),        T(test_show),       T(test_check_truncated),
        T(test_check_flipped), T(test_check_rows), T(test_check_depth),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
