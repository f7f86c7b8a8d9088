/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Dates: parts, text, arithmetic, time zones. */
#include "expr_cases.h"

static void test_parts(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$year\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}", NULL, "2024", 0},
        {"{\"$month\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}", NULL, "1", 0},
        {"{\"$dayOfMonth\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}", NULL, "2", 0},
        {"{\"$hour\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}", NULL, "3", 0},
        {"{\"$minute\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}", NULL, "4", 0},
        {"{\"$second\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}", NULL, "5", 0},
        {"{\"$millisecond\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}", NULL, "678", 0},
        {"{\"$dayOfYear\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}", NULL, "2", 0},
        {"{\"$dayOfWeek\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}", NULL, "3", 0},
        {"{\"$week\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}", NULL, "0", 0},
        {"{\"$isoWeek\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}", NULL, "1", 0},
        {"{\"$isoDayOfWeek\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}", NULL, "2", 0},
        {"{\"$isoWeekYear\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}", NULL,
         "{\"$numberLong\": \"2024\"}", 0},
        {"{\"$isoWeekYear\": {\"$date\": {\"$numberLong\": \"1483228800000\"}}}", NULL,
         "{\"$numberLong\": \"2016\"}", 0},
        {"{\"$isoWeek\": {\"$date\": {\"$numberLong\": \"1483228800000\"}}}", NULL, "52", 0},
        {"{\"$isoDayOfWeek\": {\"$date\": {\"$numberLong\": \"1483228800000\"}}}", NULL, "7", 0},
        {"{\"$week\": {\"$date\": {\"$numberLong\": \"1483228800000\"}}}", NULL, "1", 0},
        {"{\"$year\": {\"$date\": {\"$numberLong\": \"-1\"}}}", NULL, "1969", 0},
        {"{\"$millisecond\": {\"$date\": {\"$numberLong\": \"-1\"}}}", NULL, "999", 0},
        {"{\"$hour\": {\"$date\": {\"$numberLong\": \"-1\"}}}", NULL, "23", 0},
        {"{\"$month\": {\"$date\": {\"$numberLong\": \"951782400000\"}}}", NULL, "2", 0},
        {"{\"$dayOfMonth\": {\"$date\": {\"$numberLong\": \"951782400000\"}}}", NULL, "29", 0},
        {"{\"$year\": [{\"$date\": {\"$numberLong\": \"1704164645678\"}}]}", NULL, "2024", 0},
        {"{\"$year\": null}", NULL, "null", 0},
        {"{\"$year\": \"$n\"}", NULL, "null", 0},
        {"{\"$year\": \"x\"}", NULL, NULL, 16006},
        {"{\"$year\": {\"$oid\": \"5a1b2c3d0000000000000000\"}}", NULL, "2017", 0},
        {"{\"$year\": {\"$timestamp\": {\"t\": 5, \"i\": 1}}}", NULL, "1970", 0},
        {"{\"$year\": {\"date\": \"$d\", \"timezone\": \"+05:00\"}}",
         "{\"d\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}", "2024", 0},
        {"{\"$hour\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"timezone\": "
         "\"+05:30\"}}",
         NULL, "8", 0},
        {"{\"$minute\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, "
         "\"timezone\": \"+0530\"}}",
         NULL, "34", 0},
        {"{\"$dayOfMonth\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, "
         "\"timezone\": \"-04\"}}",
         NULL, "1", 0},
        {"{\"$hour\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"timezone\": "
         "\"UTC\"}}",
         NULL, "3", 0},
        {"{\"$hour\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"timezone\": "
         "\"Europe/Paris\"}}",
         NULL, "4", 0},
        {"{\"$hour\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"timezone\": "
         "\"America/New_York\"}}",
         NULL, "22", 0},
        {"{\"$hour\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"timezone\": "
         "null}}",
         NULL, "null", 0},
        {"{\"$hour\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"timezone\": "
         "\"Nope/Nowhere\"}}",
         NULL, NULL, 40485},
        {"{\"$hour\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"timezone\": "
         "\"../etc/passwd\"}}",
         NULL, NULL, 40485},
        {"{\"$hour\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"timezone\": "
         "1}}",
         NULL, NULL, 40517},
        {"{\"$hour\": {\"timezone\": \"UTC\"}}", NULL, NULL, 40539},
        {"{\"$hour\": {\"date\": 1, \"x\": 1}}", NULL, NULL, 40535},
        {"{\"$hour\": [1, 2]}", NULL, NULL, 40536},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_zone_rules(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$hour\": {\"date\": {\"$date\": {\"$numberLong\": \"2540246400000\"}}, \"timezone\": "
         "\"Europe/Paris\"}}",
         NULL, "2", 0},
        {"{\"$hour\": {\"date\": {\"$date\": {\"$numberLong\": \"2524608000000\"}}, \"timezone\": "
         "\"Europe/Paris\"}}",
         NULL, "1", 0},
        {"{\"$hour\": {\"date\": {\"$date\": {\"$numberLong\": \"2524608000000\"}}, \"timezone\": "
         "\"Australia/Sydney\"}}",
         NULL, "11", 0},
        {"{\"$hour\": {\"date\": {\"$date\": {\"$numberLong\": \"2540246400000\"}}, \"timezone\": "
         "\"Australia/Sydney\"}}",
         NULL, "10", 0},
        {"{\"$hour\": {\"date\": {\"$date\": {\"$numberLong\": \"2540246400000\"}}, \"timezone\": "
         "\"Asia/Tokyo\"}}",
         NULL, "9", 0},
        {"{\"$dateToString\": {\"date\": {\"$date\": {\"$numberLong\": \"-3000000000000\"}}, "
         "\"timezone\": \"Europe/Paris\", \"format\": \"%H:%M:%S\"}}",
         NULL, "\"18:49:21\"", 0},
        {"{\"$dateFromParts\": {\"year\": 2024, \"month\": 10, \"day\": 27, \"hour\": 2, "
         "\"minute\": 30, \"timezone\": \"Europe/Paris\"}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1729989000000\"}}", 0},
        {"{\"$dateFromParts\": {\"year\": 2024, \"month\": 3, \"day\": 31, \"hour\": 2, "
         "\"minute\": 30, \"timezone\": \"Europe/Paris\"}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1711848600000\"}}", 0},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_to_and_from_parts(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$dateToParts\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}}", NULL,
         "{\"year\": 2024, \"month\": 1, \"day\": 2, \"hour\": 3, \"minute\": 4, \"second\": 5, "
         "\"millisecond\": 678}",
         0},
        {"{\"$dateToParts\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, "
         "\"timezone\": \"+02\", \"iso8601\": true}}",
         NULL,
         "{\"isoWeekYear\": 2024, \"isoWeek\": 1, \"isoDayOfWeek\": 2, \"hour\": 5, \"minute\": 4, "
         "\"second\": 5, \"millisecond\": 678}",
         0},
        {"{\"$dateToParts\": {\"date\": null}}", NULL, "null", 0},
        {"{\"$dateToParts\": {}}", NULL, NULL, 40522},
        {"{\"$dateToParts\": {\"date\": 1}}", NULL, NULL, 16006},
        {"{\"$dateFromParts\": {\"year\": 2024, \"month\": 1, \"day\": 2, \"hour\": 3, \"minute\": "
         "4, \"second\": 5, \"millisecond\": 678}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1704164645678\"}}", 0},
        {"{\"$dateFromParts\": {\"year\": 2024}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704067200000\"}}", 0},
        {"{\"$dateFromParts\": {\"year\": 2023, \"month\": 14, \"day\": 0}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1706659200000\"}}", 0},
        {"{\"$dateFromParts\": {\"isoWeekYear\": 2024, \"isoWeek\": 1, \"isoDayOfWeek\": 2}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704153600000\"}}", 0},
        {"{\"$dateFromParts\": {\"year\": 2024, \"hour\": 5, \"timezone\": \"Europe/Paris\"}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1704081600000\"}}", 0},
        {"{\"$dateFromParts\": {\"year\": null}}", NULL, "null", 0},
        {"{\"$dateFromParts\": {\"year\": 0}}", NULL, NULL, 40523},
        {"{\"$dateFromParts\": {\"year\": 10000}}", NULL, NULL, 40523},
        {"{\"$dateFromParts\": {\"year\": 2024, \"day\": 40000}}", NULL, NULL, 31034},
        {"{\"$dateFromParts\": {\"year\": \"x\"}}", NULL, NULL, 40515},
        {"{\"$dateFromParts\": {\"month\": 1}}", NULL, NULL, 40516},
        {"{\"$dateFromParts\": {\"year\": 1, \"isoWeek\": 1}}", NULL, NULL, 40489},
        {"{\"$dateFromParts\": {\"year\": 1, \"x\": 1}}", NULL, NULL, 40518},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_to_string(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$dateToString\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}}}", NULL,
         "\"2024-01-02T03:04:05.678Z\"", 0},
        {"{\"$dateToString\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, "
         "\"timezone\": \"+01:30\"}}",
         NULL, "\"2024-01-02T04:34:05.678\"", 0},
        {"{\"$dateToString\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, "
         "\"format\": \"%Y/%m/%d %H:%M:%S.%L %j %w %u %U %V %G %%\"}}",
         NULL, "\"2024/01/02 03:04:05.678 002 3 2 00 01 2024 %\"", 0},
        {"{\"$dateToString\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, "
         "\"format\": \"%z %Z\", \"timezone\": \"-04:30\"}}",
         NULL, "\"-0430 -270\"", 0},
        {"{\"$dateToString\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, "
         "\"format\": \"%b %B\"}}",
         NULL, "\"Jan January\"", 0},
        {"{\"$dateToString\": {\"date\": null, \"onNull\": \"none\"}}", NULL, "\"none\"", 0},
        {"{\"$dateToString\": {\"date\": null}}", NULL, "null", 0},
        {"{\"$dateToString\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, "
         "\"format\": \"%q\"}}",
         NULL, NULL, 18536},
        {"{\"$dateToString\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, "
         "\"format\": \"%\"}}",
         NULL, NULL, 18535},
        {"{\"$dateToString\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, "
         "\"format\": 1}}",
         NULL, NULL, 18533},
        {"{\"$dateToString\": {\"format\": \"%Y\"}}", NULL, NULL, 18628},
        {"{\"$dateToString\": {\"date\": {\"$date\": {\"$numberLong\": \"400000000000000\"}}}}",
         NULL, NULL, 18537},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_from_string(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$dateFromString\": {\"dateString\": \"2024-01-02T03:04:05.678Z\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704164645678\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"2024-01-02T03:04:05.678\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704164645678\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"2024-01-02 03:04:05\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704164645000\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"2024-01-02\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704153600000\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"20240102\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704153600000\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"2024-01-02T03:04Z\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704164640000\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"2024-01-02T05:04:05.678+02:00\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704164645678\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"2024-01-02T05:04:05.678 +0200\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704164645678\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"2024-01-02T04:04:05.678 Europe/Paris\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704164645678\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"01/02/2024\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704153600000\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"2 Jan 2024\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704153600000\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"January 2, 2024\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704153600000\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"Tue, 02 Jan 2024 03:04:05 GMT\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704164645000\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"20240102T030405Z\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704164645000\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"2024-01-02 3:04:05 pm\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704207845000\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"2024-01-02T05:04:05.678\", \"timezone\": "
         "\"+02:00\"}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1704164645678\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"2024-01-02T03:04:05Z\", \"timezone\": "
         "\"+02:00\"}}",
         NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$dateFromString\": {\"dateString\": \"\"}}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$dateFromString\": {\"dateString\": \"2024\"}}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$dateFromString\": {\"dateString\": \"2024-13-01\"}}", NULL, NULL,
         ERR_CONVERSION_FAILURE},
        {"{\"$dateFromString\": {\"dateString\": \"2024-02-30\"}}", NULL, NULL,
         ERR_CONVERSION_FAILURE},
        {"{\"$dateFromString\": {\"dateString\": \"nonsense\"}}", NULL, NULL,
         ERR_CONVERSION_FAILURE},
        {"{\"$dateFromString\": {\"dateString\": \"2024-01-02T25:00\"}}", NULL, NULL,
         ERR_CONVERSION_FAILURE},
        {"{\"$dateFromString\": {\"dateString\": \"2024-01-02T10:00 Nope\"}}", NULL, NULL,
         ERR_CONVERSION_FAILURE},
        {"{\"$dateFromString\": {\"dateString\": \"10:00\"}}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$dateFromString\": {\"dateString\": \"02.01.2024 03h\", \"format\": \"%d.%m.%Y "
         "%Hh\"}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1704164400000\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"2024-001\", \"format\": \"%Y-%j\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704067200000\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"2024-1-2\", \"format\": \"%G-%V-%u\"}}", NULL,
         "{\"$date\": {\"$numberLong\": \"1704153600000\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"2024-01-02 +0130\", \"format\": \"%Y-%m-%d "
         "%z\"}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1704148200000\"}}", 0},
        {"{\"$dateFromString\": {\"dateString\": \"2024-01-02x\", \"format\": \"%Y-%m-%d\"}}", NULL,
         NULL, ERR_CONVERSION_FAILURE},
        {"{\"$dateFromString\": {\"dateString\": \"2024\", \"format\": \"%Y\"}}", NULL, NULL,
         ERR_CONVERSION_FAILURE},
        {"{\"$dateFromString\": {\"dateString\": \"bad\", \"onError\": \"oops\"}}", NULL,
         "\"oops\"", 0},
        {"{\"$dateFromString\": {\"dateString\": 1, \"onError\": \"oops\"}}", NULL, "\"oops\"", 0},
        {"{\"$dateFromString\": {\"dateString\": null, \"onNull\": \"none\"}}", NULL, "\"none\"",
         0},
        {"{\"$dateFromString\": {\"dateString\": null}}", NULL, "null", 0},
        {"{\"$dateFromString\": {\"dateString\": 1}}", NULL, NULL, ERR_CONVERSION_FAILURE},
        {"{\"$dateFromString\": {}}", NULL, NULL, 40542},
        {"{\"$dateFromString\": {\"dateString\": \"x\", \"q\": 1}}", NULL, NULL, 40541},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_arithmetic(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$dateAdd\": {\"startDate\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, "
         "\"unit\": \"hour\", \"amount\": 5}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1704182645678\"}}", 0},
        {"{\"$dateAdd\": {\"startDate\": {\"$date\": {\"$numberLong\": \"1706659200000\"}}, "
         "\"unit\": \"month\", \"amount\": 1}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1709164800000\"}}", 0},
        {"{\"$dateAdd\": {\"startDate\": {\"$date\": {\"$numberLong\": \"1709164800000\"}}, "
         "\"unit\": \"year\", \"amount\": 1}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1740700800000\"}}", 0},
        {"{\"$dateAdd\": {\"startDate\": {\"$date\": {\"$numberLong\": \"0\"}}, \"unit\": "
         "\"quarter\", \"amount\": -1}}",
         NULL, "{\"$date\": {\"$numberLong\": \"-7948800000\"}}", 0},
        {"{\"$dateSubtract\": {\"startDate\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, "
         "\"unit\": \"day\", \"amount\": 2}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1703991845678\"}}", 0},
        {"{\"$dateAdd\": {\"startDate\": {\"$date\": {\"$numberLong\": \"1711794600000\"}}, "
         "\"unit\": \"day\", \"amount\": 1, \"timezone\": \"Europe/Paris\"}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1711877400000\"}}", 0},
        {"{\"$dateAdd\": {\"startDate\": null, \"unit\": \"day\", \"amount\": 1}}", NULL, "null",
         0},
        {"{\"$dateAdd\": {\"startDate\": {\"$date\": {\"$numberLong\": \"0\"}}, \"unit\": \"eon\", "
         "\"amount\": 1}}",
         NULL, NULL, ERR_FAILED_TO_PARSE},
        {"{\"$dateAdd\": {\"startDate\": {\"$date\": {\"$numberLong\": \"0\"}}, \"unit\": \"day\", "
         "\"amount\": 1.5}}",
         NULL, NULL, 5166405},
        {"{\"$dateAdd\": {\"startDate\": 1, \"unit\": \"day\", \"amount\": 1}}", NULL, NULL,
         5166403},
        {"{\"$dateAdd\": {\"startDate\": {\"$date\": {\"$numberLong\": \"0\"}}, \"unit\": "
         "\"day\"}}",
         NULL, NULL, 5166402},
        {"{\"$dateAdd\": {\"startDate\": {\"$date\": {\"$numberLong\": \"0\"}}, \"unit\": 1, "
         "\"amount\": 1}}",
         NULL, NULL, 5439013},
        {"{\"$dateDiff\": {\"startDate\": {\"$date\": {\"$numberLong\": \"1703980800000\"}}, "
         "\"endDate\": {\"$date\": {\"$numberLong\": \"1704067200000\"}}, \"unit\": \"year\"}}",
         NULL, "{\"$numberLong\": \"1\"}", 0},
        {"{\"$dateDiff\": {\"startDate\": {\"$date\": {\"$numberLong\": \"0\"}}, \"endDate\": "
         "{\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"unit\": \"month\"}}",
         NULL, "{\"$numberLong\": \"648\"}", 0},
        {"{\"$dateDiff\": {\"startDate\": {\"$date\": {\"$numberLong\": \"0\"}}, \"endDate\": "
         "{\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"unit\": \"quarter\"}}",
         NULL, "{\"$numberLong\": \"216\"}", 0},
        {"{\"$dateDiff\": {\"startDate\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, "
         "\"endDate\": {\"$date\": {\"$numberLong\": \"0\"}}, \"unit\": \"day\"}}",
         NULL, "{\"$numberLong\": \"-19724\"}", 0},
        {"{\"$dateDiff\": {\"startDate\": {\"$date\": {\"$numberLong\": \"3599999\"}}, "
         "\"endDate\": {\"$date\": {\"$numberLong\": \"3600000\"}}, \"unit\": \"hour\"}}",
         NULL, "{\"$numberLong\": \"1\"}", 0},
        {"{\"$dateDiff\": {\"startDate\": {\"$date\": {\"$numberLong\": \"1704499200000\"}}, "
         "\"endDate\": {\"$date\": {\"$numberLong\": \"1704585600000\"}}, \"unit\": \"week\"}}",
         NULL, "{\"$numberLong\": \"1\"}", 0},
        {"{\"$dateDiff\": {\"startDate\": {\"$date\": {\"$numberLong\": \"1704499200000\"}}, "
         "\"endDate\": {\"$date\": {\"$numberLong\": \"1704585600000\"}}, \"unit\": \"week\", "
         "\"startOfWeek\": \"Monday\"}}",
         NULL, "{\"$numberLong\": \"0\"}", 0},
        {"{\"$dateDiff\": {\"startDate\": {\"$date\": {\"$numberLong\": \"0\"}}, \"endDate\": "
         "{\"$date\": {\"$numberLong\": \"5\"}}, \"unit\": \"millisecond\"}}",
         NULL, "{\"$numberLong\": \"5\"}", 0},
        {"{\"$dateDiff\": {\"startDate\": {\"$date\": {\"$numberLong\": \"0\"}}, \"endDate\": 1, "
         "\"unit\": \"day\"}}",
         NULL, NULL, 5166307},
        {"{\"$dateTrunc\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"unit\": "
         "\"hour\"}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1704164400000\"}}", 0},
        {"{\"$dateTrunc\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"unit\": "
         "\"month\"}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1704067200000\"}}", 0},
        {"{\"$dateTrunc\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"unit\": "
         "\"day\", \"timezone\": \"America/New_York\"}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1704085200000\"}}", 0},
        {"{\"$dateTrunc\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"unit\": "
         "\"minute\", \"binSize\": 15}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1704164400000\"}}", 0},
        {"{\"$dateTrunc\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"unit\": "
         "\"week\"}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1703980800000\"}}", 0},
        {"{\"$dateTrunc\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"unit\": "
         "\"week\", \"startOfWeek\": \"mon\"}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1704067200000\"}}", 0},
        {"{\"$dateTrunc\": {\"date\": {\"$date\": {\"$numberLong\": \"-1\"}}, \"unit\": "
         "\"quarter\"}}",
         NULL, "{\"$date\": {\"$numberLong\": \"-7948800000\"}}", 0},
        {"{\"$dateTrunc\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"unit\": "
         "\"year\", \"binSize\": 5}}",
         NULL, "{\"$date\": {\"$numberLong\": \"1577836800000\"}}", 0},
        {"{\"$dateTrunc\": {\"date\": {\"$date\": {\"$numberLong\": \"1704164645678\"}}, \"unit\": "
         "\"day\", \"binSize\": 0}}",
         NULL, NULL, 5439018},
        {"{\"$dateTrunc\": {\"date\": 1, \"unit\": \"day\"}}", NULL, NULL, 5439012},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_zone_rules),
        cmocka_unit_test(test_to_and_from_parts),
        cmocka_unit_test(test_to_string),
        cmocka_unit_test(test_from_string),
        cmocka_unit_test(test_arithmetic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
