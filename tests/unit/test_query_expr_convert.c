/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Type conversions. */
#include "expr_cases.h"

static void test_to_numbers(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$toInt\": \"42\"}", NULL, "42", 0},
        {"{\"$toInt\": \"-2147483648\"}", NULL, "-2147483648", 0},
        {"{\"$toInt\": \"2147483648\"}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toInt\": 1.9}", NULL, "1", 0},
        {"{\"$toInt\": -1.9}", NULL, "-1", 0},
        {"{\"$toInt\": 3000000000.0}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toInt\": true}", NULL, "1", 0},
        {"{\"$toInt\": \"1.5\"}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toInt\": \" 1\"}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toInt\": \"\"}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toInt\": \"0x1\"}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toInt\": [null]}", NULL, "null", 0},
        {"{\"$toInt\": \"$n\"}", NULL, "null", 0},
        {"{\"$toInt\": {\"$oid\": \"0123456789abcdef01234567\"}}", NULL, NULL,
         ERR_CONVERSION_FAILURE},
        {"{\"$toInt\": {\"$date\": {\"$numberLong\": \"5\"}}}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toLong\": \"9223372036854775807\"}", NULL,
         "{\"$numberLong\": \"9223372036854775807\"}", 0},
        {"{\"$toLong\": \"-9223372036854775808\"}", NULL,
         "{\"$numberLong\": \"-9223372036854775808\"}", 0},
        {"{\"$toLong\": \"9223372036854775808\"}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toLong\": {\"$date\": {\"$numberLong\": \"5\"}}}", NULL, "{\"$numberLong\": \"5\"}",
         0},
        {"{\"$toLong\": {\"$numberDecimal\": \"12.9\"}}", NULL, "{\"$numberLong\": \"12\"}", 0},
        {"{\"$toLong\": {\"$numberDouble\": \"NaN\"}}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toDouble\": \"1.5\"}", NULL, "1.5", 0},
        {"{\"$toDouble\": \"abc\"}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toDouble\": \"1e400\"}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toDouble\": 7}", NULL, "7.0", 0},
        {"{\"$toDouble\": false}", NULL, "0.0", 0},
        {"{\"$toDouble\": {\"$date\": {\"$numberLong\": \"5\"}}}", NULL, "5.0", 0},
        {"{\"$toDecimal\": \"1.50\"}", NULL, "{\"$numberDecimal\": \"1.50\"}", 0},
        {"{\"$toDecimal\": 3}", NULL, "{\"$numberDecimal\": \"3\"}", 0},
        {"{\"$toDecimal\": 0.1}", NULL, "{\"$numberDecimal\": \"0.100000000000000\"}", 0},
        {"{\"$toDecimal\": \"x\"}", NULL, NULL, ERR_CONVERSION_FAILURE},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_to_others(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$toBool\": 0}", NULL, "false", 0},
        {"{\"$toBool\": \"false\"}", NULL, "true", 0},
        {"{\"$toBool\": \"\"}", NULL, "true", 0},
        {"{\"$toBool\": {\"$oid\": \"0123456789abcdef01234567\"}}", NULL, "true", 0},
        {"{\"$toBool\": [null]}", NULL, "null", 0},
        {"{\"$toString\": 2.5}", NULL, "\"2.5\"", 0},
        {"{\"$toString\": 5.0}", NULL, "\"5\"", 0},
        {"{\"$toString\": true}", NULL, "\"true\"", 0},
        {"{\"$toString\": {\"$numberLong\": \"7\"}}", NULL, "\"7\"", 0},
        {"{\"$toString\": {\"$oid\": \"0123456789abcdef01234567\"}}", NULL,
         "\"0123456789abcdef01234567\"", 0},
        {"{\"$toString\": {\"$date\": {\"$numberLong\": \"1000\"}}}", NULL,
         "\"1970-01-01T00:00:01.000Z\"", 0},
        {"{\"$toString\": {\"$numberDecimal\": \"1.10\"}}", NULL, "\"1.10\"", 0},
        {"{\"$toString\": {\"$literal\": {}}}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toObjectId\": \"0123456789abcdef01234567\"}", NULL,
         "{\"$oid\": \"0123456789abcdef01234567\"}", 0},
        {"{\"$toObjectId\": \"123\"}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toObjectId\": \"zz23456789abcdef01234567\"}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toObjectId\": 1}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toDate\": {\"$numberLong\": \"1500\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1500\"}}", 0},
        {"{\"$toDate\": 1500.9}", NULL, "{\"$date\": {\"$numberLong\": \"1500\"}}", 0},
        {"{\"$toDate\": 5}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$toDate\": \"2018-03-20\"}", NULL, "{\"$date\": {\"$numberLong\": \"1521504000000\"}}",
         0},
        {"{\"$toDate\": \"2018-03-20T12:34:56.789Z\"}", NULL,
         "{\"$date\": {\"$numberLong\": \"1521549296789\"}}", 0},
        {"{\"$toDate\": {\"$oid\": \"5a1b2c3d0000000000000000\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1511730237000\"}}", 0},
        {"{\"$toDate\": {\"$timestamp\": {\"t\": 5, \"i\": 1}}}", NULL,
         "{\"$date\": {\"$numberLong\": \"5000\"}}", 0},
        {"{\"$toDate\": \"nope\"}", NULL, NULL, ERR_CONVERSION_FAILURE},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_convert(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$convert\": {\"input\": \"1\", \"to\": \"int\"}}", NULL, "1", 0},
        {"{\"$convert\": {\"input\": \"1\", \"to\": 16}}", NULL, "1", 0},
        {"{\"$convert\": {\"input\": \"1\", \"to\": 18}}", NULL, "{\"$numberLong\": \"1\"}", 0},
        {"{\"$convert\": {\"input\": \"x\", \"to\": \"int\", \"onError\": \"bad\"}}", NULL,
         "\"bad\"", 0},
        {"{\"$convert\": {\"input\": null, \"to\": \"int\", \"onNull\": 0}}", NULL, "0", 0},
        {"{\"$convert\": {\"input\": null, \"to\": \"int\"}}", NULL, "null", 0},
        {"{\"$convert\": {\"input\": 1, \"to\": null}}", NULL, "null", 0},
        {"{\"$convert\": {\"input\": 1, \"to\": \"nope\"}}", NULL, NULL, ERR_BAD_VALUE},
        {"{\"$convert\": {\"input\": 1, \"to\": 77}}", NULL, NULL, ERR_FAILED_TO_PARSE},
        {"{\"$convert\": {\"input\": 1}}", NULL, NULL, ERR_FAILED_TO_PARSE},
        {"{\"$convert\": {\"input\": 1, \"to\": \"int\", \"x\": 1}}", NULL, NULL,
         ERR_FAILED_TO_PARSE},
        {"{\"$convert\": {\"input\": \"2018-01-01\", \"to\": \"date\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1514764800000\"}}", 0},
        {"{\"$convert\": {\"input\": 1, \"to\": \"regex\"}}", NULL, NULL, ERR_CONVERSION_FAILURE},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_to_numbers),
        cmocka_unit_test(test_to_others),
        cmocka_unit_test(test_convert),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
