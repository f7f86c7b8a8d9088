/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/decimal.h"
#include "tests/unit/json_values.h"

static struct decimal dec(const char *s)
{
    struct decimal d;

    if (!decimal_from_str(s, strlen(s), &d))
        fail_msg("%s is not taken", s);
    return d;
}

static void assert_text(struct decimal d, const char *want)
{
    char buf[48];

    assert_int_equal(decimal_to_str(d, buf), strlen(want));
    assert_string_equal(buf, want);
}

/* Bytes and text agree with libbson, an implementation of its own of the same specification. */
static void test_text(void **state)
{
    static const char *const texts[] = {"0",
                                        "-0",
                                        "0E+3",
                                        "0E-10",
                                        "-0.000",
                                        "1",
                                        "-1",
                                        "1.0",
                                        "1.000",
                                        "12345678901234567",
                                        "1E+3",
                                        "1.2E+3",
                                        "123456E-5",
                                        "0.00001",
                                        "0.000001",
                                        "0.0000001",
                                        "0.00000012",
                                        "1E-7",
                                        "1.5E-7",
                                        "9.999999999999999999999999999999999E+6144",
                                        "1E-6176",
                                        "-1E-6176",
                                        "1E+6111",
                                        "1.000000000000000000000000000000000E+6144",
                                        "9999999999999999999999999999999999",
                                        "-9999999999999999999999999999999999",
                                        "1234567890123456789012345678901234E-34",
                                        "1234567890123456789012345678901234E-33",
                                        "0.1234567890123456789012345678901234",
                                        "0.001234567890123456789012345678901234",
                                        "NaN",
                                        "Infinity",
                                        "-Infinity",
                                        "5E-324",
                                        "100",
                                        "100E+1",
                                        "12E+0",
                                        "0.10",
                                        "10.00"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct decimal ours = dec(texts[i]);
        bson_decimal128_t theirs;
        char text[BSON_DECIMAL128_STRING];

        assert_true(bson_decimal128_from_string(texts[i], &theirs));
        if (ours.hi != theirs.high || ours.lo != theirs.low)
            fail_msg("%s: other bytes than libbson's", texts[i]);
        bson_decimal128_to_string(&theirs, text);
        assert_text(ours, text);
    }
}

static void test_from_str(void **state)
{
    static const char *const bad[] = {"",     ".",  "+",       "-",    "e5",  "1e",
                                      "1e+",  "x",  "1x",      "1 ",   " 1",  "1.2.3",
                                      "0x10", "in", "infinit", "nanx", "--1", "1e5e5"};
    static const char *const good[] = {"1",        "+1",   "-1",   ".5",       "5.",
                                       "1e5",      "1E+5", "1e-5", "inf",      "-INF",
                                       "Infinity", "nan",  "NaN",  "+infinity"};
    char longest[600];
    struct decimal d;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (decimal_from_str(bad[i], strlen(bad[i]), &d))
            fail_msg("'%s' is taken", bad[i]);
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        (void)dec(good[i]);
    memset(longest, '1', sizeof(longest));
    assert_false(decimal_from_str(longest, sizeof(longest), &d));
    assert_false(decimal_from_str("1\0", 2, &d));
}

static void test_conversions(void **state)
{
    int64_t n;
    bool exact;

    (void)state;
    assert_text(decimal_from_i64(INT64_MIN), "-9223372036854775808");
    assert_text(decimal_from_i64(INT64_MAX), "9223372036854775807");
    assert_text(decimal_from_f64(10), "10.0000000000000");
    assert_text(decimal_from_f64(0.1), "0.100000000000000");
    assert_text(decimal_from_f64(0), "0");
    assert_text(decimal_from_f64(-1.0 / 0.0), "-Infinity");
    assert_text(decimal_from_f64_exact(0.1), "0.1000000000000000055511151231257827");
    assert_text(decimal_from_f64_exact(0.5), "0.5");
    assert_true(decimal_to_f64(decimal_from_f64_exact(0.1)) == 0.1);
    assert_true(decimal_to_f64(decimal_from_f64_exact(4.9406564584124654e-324)) ==
                4.9406564584124654e-324);
    assert_true(decimal_to_f64(dec("1E+400")) > 1e308);

    assert_true(decimal_to_i64(dec("-9223372036854775808"), &n, &exact) && exact);
    assert_true(n == INT64_MIN);
    assert_true(decimal_to_i64(dec("-1.9"), &n, &exact) && !exact);
    assert_int_equal(n, -1);
    assert_true(decimal_to_i64(dec("9223372036854775807.9"), &n, &exact) && !exact);
    assert_true(n == INT64_MAX);
    assert_false(decimal_to_i64(dec("9223372036854775808"), &n, &exact));
    assert_false(decimal_to_i64(dec("NaN"), &n, &exact));
    assert_false(decimal_to_i64(dec("-Infinity"), &n, &exact));
}

static void test_arithmetic(void **state)
{
    static const struct {
        int places, mode;
        const char *in, *want;
    } rounds[] = {
        {0, 0, "2.5", "2"},
        {0, 0, "3.5", "4"},
        {0, 1, "-2.9", "-2"},
        {0, 2, "-2.1", "-3"},
        {0, 3, "2.1", "3"},
        {1, 0, "2.25", "2.2"},
        {-2, 0, "1250", "1.2E+3"},
        {5, 0, "1.5", "1.50000"},
        {0, 0, "NaN", "NaN"},
        {0, 0, "-Infinity", "-Infinity"},
        {20, 0, "12345678901234567890123", "12345678901234567890123"},
    };

    (void)state;
    assert_text(decimal_add(dec("0.1"), dec("0.2")), "0.3");
    assert_text(decimal_sub(dec("1"), dec("0.9")), "0.1");
    assert_text(decimal_mul(dec("1.20"), dec("3")), "3.60");
    assert_text(decimal_div(dec("1"), dec("3")), "0.3333333333333333333333333333333333");
    assert_text(decimal_div(dec("1"), dec("0")), "Infinity");
    assert_text(decimal_mod(dec("-5"), dec("3")), "-2");
    assert_text(decimal_mod(dec("5.5"), dec("2")), "1.5");
    assert_text(decimal_mod(dec("5"), dec("0")), "NaN");
    assert_text(decimal_abs(dec("-5")), "5");
    assert_text(decimal_fn(DEC_SQRT, dec("4")), "2");
    assert_text(decimal_pow(dec("2"), dec("10")), "1024");
    for (size_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++)
        assert_text(decimal_round(dec(rounds[i].in), rounds[i].places, rounds[i].mode),
                    rounds[i].want);
}

static void test_compare(void **state)
{
    static const char *const order[] = {"NaN",      "-Infinity", "-1E+6144", "-1",
                                        "-1E-6176", "0",         "1E-6176",  "0.1",
                                        "1",        "1.0000001", "1E+6144",  "Infinity"};
    const size_t n = sizeof(order) / sizeof(order[0]);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++)
            assert_int_equal(decimal_cmp(dec(order[i]), dec(order[j])), (i > j) - (i < j));
    }
    assert_int_equal(decimal_cmp(dec("1.0"), dec("1.000")), 0);
    assert_int_equal(decimal_cmp(dec("-0"), dec("0E+5")), 0);
    assert_true(decimal_is_zero(dec("-0.00")));
    assert_true(decimal_is_negative(dec("-0")));
    assert_true(decimal_is_inf(dec("-inf")));
    assert_false(decimal_is_inf(dec("NaN")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),        cmocka_unit_test(test_from_str),
        cmocka_unit_test(test_conversions), cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_compare),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
