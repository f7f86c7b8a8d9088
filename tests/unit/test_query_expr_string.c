/* SPDX-License-Identifier: GPL-3.0-or-later */
/* String operators and regular expressions as expressions. */
#include "expr_cases.h"

static void test_build(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$concat\": [\"a\", \"$b\", \"c\"]}", "{\"b\": \"x\"}", "\"axc\"", 0},
        {"{\"$concat\": []}", NULL, "\"\"", 0},
        {"{\"$concat\": [\"a\", null]}", NULL, "null", 0},
        {"{\"$concat\": [\"a\", 1]}", NULL, NULL, 16702},
        {"{\"$toLower\": \"ABCÉ\"}", NULL, "\"abcÉ\"", 0},
        {"{\"$toUpper\": \"abc1\"}", NULL, "\"ABC1\"", 0},
        {"{\"$toUpper\": \"$n\"}", NULL, "\"\"", 0},
        {"{\"$toLower\": [1.5]}", NULL, "\"1.5\"", 0},
        {"{\"$toLower\": {\"$literal\": {}}}", NULL, NULL, 16007},
        {"{\"$strcasecmp\": [\"ABC\", \"abd\"]}", NULL, "-1", 0},
        {"{\"$strcasecmp\": [\"ABC\", \"abc\"]}", NULL, "0", 0},
        {"{\"$strcasecmp\": [\"b\", \"A\"]}", NULL, "1", 0},
        {"{\"$strLenBytes\": \"hé\"}", NULL, "3", 0},
        {"{\"$strLenCP\": \"hé\"}", NULL, "2", 0},
        {"{\"$strLenCP\": [null]}", NULL, NULL, 34471},
        {"{\"$strLenBytes\": 1}", NULL, NULL, 34473},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_parts(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$substr\": [\"hello\", 1, 3]}", NULL, "\"ell\"", 0},
        {"{\"$substr\": [\"hello\", 1, -1]}", NULL, "\"ello\"", 0},
        {"{\"$substr\": [12345, 1, 2]}", NULL, "\"23\"", 0},
        {"{\"$substrBytes\": [\"hello\", 9, 1]}", NULL, "\"\"", 0},
        {"{\"$substrBytes\": [\"hé\", 2, 1]}", NULL, NULL, 28656},
        {"{\"$substrBytes\": [\"hé\", 0, 2]}", NULL, NULL, 28657},
        {"{\"$substrBytes\": [\"hello\", -1, 2]}", NULL, NULL, 50752},
        {"{\"$substrBytes\": [\"hello\", \"x\", 2]}", NULL, NULL, 16034},
        {"{\"$substrBytes\": [\"hello\", 1, \"x\"]}", NULL, NULL, 16035},
        {"{\"$substrCP\": [\"héllo\", 1, 2]}", NULL, "\"él\"", 0},
        {"{\"$substrCP\": [\"abc\", 1, 99]}", NULL, "\"bc\"", 0},
        {"{\"$substrCP\": [\"abc\", -1, 1]}", NULL, NULL, 34455},
        {"{\"$substrCP\": [\"abc\", 0, -1]}", NULL, NULL, 34454},
        {"{\"$substrCP\": [\"abc\", 0.5, 1]}", NULL, NULL, 34451},
        {"{\"$split\": [\"a,b,,c\", \",\"]}", NULL, "[\"a\", \"b\", \"\", \"c\"]", 0},
        {"{\"$split\": [\"abc\", \"x\"]}", NULL, "[\"abc\"]", 0},
        {"{\"$split\": [\"$n\", \",\"]}", NULL, "null", 0},
        {"{\"$split\": [\"a\", \"\"]}", NULL, NULL, 40087},
        {"{\"$split\": [1, \",\"]}", NULL, NULL, 40085},
        {"{\"$split\": [\"a\", 1]}", NULL, NULL, 40086},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_search(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$indexOfBytes\": [\"cafétin\", \"t\"]}", NULL, "5", 0},
        {"{\"$indexOfCP\": [\"cafétin\", \"t\"]}", NULL, "4", 0},
        {"{\"$indexOfCP\": [\"abcabc\", \"b\", 2]}", NULL, "4", 0},
        {"{\"$indexOfCP\": [\"abcabc\", \"c\", 0, 2]}", NULL, "-1", 0},
        {"{\"$indexOfCP\": [\"abc\", \"\", 1]}", NULL, "1", 0},
        {"{\"$indexOfCP\": [\"abc\", \"\", 9]}", NULL, "-1", 0},
        {"{\"$indexOfBytes\": [\"$n\", \"x\"]}", NULL, "null", 0},
        {"{\"$indexOfBytes\": [1, \"x\"]}", NULL, NULL, 40091},
        {"{\"$indexOfBytes\": [\"x\", 1]}", NULL, NULL, 40092},
        {"{\"$indexOfCP\": [\"x\", \"y\", \"z\"]}", NULL, NULL, 40096},
        {"{\"$indexOfCP\": [\"x\", \"y\", -1]}", NULL, NULL, 40097},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_trim_and_replace(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$trim\": {\"input\": \" \\t a b\\n \"}}", NULL, "\"a b\"", 0},
        {"{\"$ltrim\": {\"input\": \"xxaxx\", \"chars\": \"x\"}}", NULL, "\"axx\"", 0},
        {"{\"$rtrim\": {\"input\": \"xxaxx\", \"chars\": \"x\"}}", NULL, "\"xxa\"", 0},
        {"{\"$trim\": {\"input\": \"ééaé\", \"chars\": \"é\"}}", NULL, "\"a\"", 0},
        {"{\"$trim\": {\"input\": \"   \"}}", NULL, "\"\"", 0},
        {"{\"$trim\": {\"input\": null}}", NULL, "null", 0},
        {"{\"$trim\": {\"input\": \"a\", \"chars\": null}}", NULL, "null", 0},
        {"{\"$trim\": {\"input\": 1}}", NULL, NULL, 50699},
        {"{\"$trim\": {\"input\": \"a\", \"chars\": 1}}", NULL, NULL, 50700},
        {"{\"$trim\": {\"chars\": \"a\"}}", NULL, NULL, 50695},
        {"{\"$trim\": {\"input\": \"a\", \"x\": 1}}", NULL, NULL, 50694},
        {"{\"$trim\": \"a\"}", NULL, NULL, 50696},
        {"{\"$replaceOne\": {\"input\": \"aXbX\", \"find\": \"X\", \"replacement\": \"--\"}}", NULL,
         "\"a--bX\"", 0},
        {"{\"$replaceAll\": {\"input\": \"aXbX\", \"find\": \"X\", \"replacement\": \"--\"}}", NULL,
         "\"a--b--\"", 0},
        {"{\"$replaceAll\": {\"input\": \"aé\", \"find\": \"\", \"replacement\": \".\"}}", NULL,
         "\".a.é.\"", 0},
        {"{\"$replaceOne\": {\"input\": \"ab\", \"find\": \"\", \"replacement\": \".\"}}", NULL,
         "\".ab\"", 0},
        {"{\"$replaceAll\": {\"input\": \"ab\", \"find\": \"x\", \"replacement\": \"y\"}}", NULL,
         "\"ab\"", 0},
        {"{\"$replaceAll\": {\"input\": null, \"find\": \"x\", \"replacement\": \"y\"}}", NULL,
         "null", 0},
        {"{\"$replaceAll\": {\"input\": 1, \"find\": \"x\", \"replacement\": \"y\"}}", NULL, NULL,
         51746},
        {"{\"$replaceAll\": {\"input\": \"a\", \"find\": 1, \"replacement\": \"y\"}}", NULL, NULL,
         51745},
        {"{\"$replaceAll\": {\"input\": \"a\", \"find\": \"a\", \"replacement\": 1}}", NULL, NULL,
         51744},
        {"{\"$replaceAll\": {\"input\": \"a\", \"find\": \"a\"}}", NULL, NULL, 51747},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

static void test_regex(void **state)
{
    static const struct expr_case cases[] = {
        {"{\"$regexMatch\": {\"input\": \"$s\", \"regex\": \"^H\", \"options\": \"i\"}}",
         "{\"s\": \"hello\"}", "true", 0},
        {"{\"$regexMatch\": {\"input\": \"$s\", \"regex\": \"x\"}}", "{\"s\": \"hello\"}", "false",
         0},
        {"{\"$regexMatch\": {\"input\": \"$n\", \"regex\": \"x\"}}", NULL, "false", 0},
        {"{\"$regexMatch\": {\"input\": \"abc\", \"regex\": {\"$regularExpression\": {\"pattern\": "
         "\"B\", \"options\": \"i\"}}}}",
         NULL, "true", 0},
        {"{\"$regexMatch\": {\"input\": \"abc\", \"regex\": \"$r\"}}", "{\"r\": \"b\"}", "true", 0},
        {"{\"$regexMatch\": {\"input\": 1, \"regex\": \"x\"}}", NULL, NULL, 51104},
        {"{\"$regexMatch\": {\"input\": \"a\", \"regex\": 1}}", NULL, NULL, 51105},
        {"{\"$regexMatch\": {\"input\": \"a\", \"regex\": \"x\", \"options\": 1}}", NULL, NULL,
         51106},
        {"{\"$regexMatch\": {\"input\": \"a\", \"regex\": {\"$regularExpression\": {\"pattern\": "
         "\"B\", \"options\": \"i\"}}, \"options\": \"i\"}}",
         NULL, NULL, 51107},
        {"{\"$regexMatch\": {\"input\": \"a\", \"regex\": \"(\"}}", NULL, NULL, 51091},
        {"{\"$regexMatch\": {\"input\": \"a\", \"regex\": \"a\", \"options\": \"q\"}}", NULL, NULL,
         51108},
        {"{\"$regexMatch\": {\"regex\": \"a\"}}", NULL, NULL, 31022},
        {"{\"$regexMatch\": {\"input\": \"a\"}}", NULL, NULL, 31023},
        {"{\"$regexMatch\": {\"input\": \"a\", \"regex\": \"a\", \"x\": 1}}", NULL, NULL, 31024},
        {"{\"$regexMatch\": 1}", NULL, NULL, 51103},
        {"{\"$regexFind\": {\"input\": \"café 42!\", \"regex\": \"(\\\\d)(x)?(\\\\d)\"}}", NULL,
         "{\"match\": \"42\", \"idx\": 5, \"captures\": [\"4\", null, \"2\"]}", 0},
        {"{\"$regexFind\": {\"input\": \"abc\", \"regex\": \"x\"}}", NULL, "null", 0},
        {"{\"$regexFindAll\": {\"input\": \"a1b22\", \"regex\": \"\\\\d+\"}}", NULL,
         "[{\"match\": \"1\", \"idx\": 1, \"captures\": []}, {\"match\": \"22\", \"idx\": 3, "
         "\"captures\": []}]",
         0},
        {"{\"$regexFindAll\": {\"input\": \"éb\", \"regex\": \"\"}}", NULL,
         "[{\"match\": \"\", \"idx\": 0, \"captures\": []}, {\"match\": \"\", \"idx\": 1, "
         "\"captures\": []}, {\"match\": \"\", \"idx\": 2, \"captures\": []}]",
         0},
        {"{\"$regexFindAll\": {\"input\": \"abc\", \"regex\": \"x\"}}", NULL, "[]", 0},
    };

    (void)state;
    RUN_EXPR_CASES(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build),  cmocka_unit_test(test_parts),
        cmocka_unit_test(test_search), cmocka_unit_test(test_trim_and_replace),
        cmocka_unit_test(test_regex),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
