/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Random expressions over random documents: each gives a well-formed value or an error with a code
 * and a text, and the same both times it is evaluated. Run with sanitizers it also shows that no
 * operator reads or overflows where it should not. RUNNEL_RANDOM_SEED and RUNNEL_RANDOM_ROUNDS
 * choose other runs.
 */
#include <stdlib.h>

#include "base/decimal.h"
#include "expr_cases.h"

static const char *const names[] = {
#define EXPR_ARGS(name, min, max, fn)                     name,
#define EXPR_NAMED(name, not_object, unknown, fields, fn) name,
#define EXPR_CUSTOM(name, parser, fn)                     name,
#define EXPR_UNBUILT(name)                                name,
#include "query/expr_ops.def"
#undef EXPR_ARGS
#undef EXPR_NAMED
#undef EXPR_CUSTOM
#undef EXPR_UNBUILT
};

#define NNAMES (sizeof(names) / sizeof(names[0]))

static uint64_t seed;

static uint32_t rnd(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32) % n;
}

static int64_t random_i64(void)
{
    static const int64_t edges[] = {0,         1,         -1,         INT32_MAX, INT32_MIN,
                                    INT64_MAX, INT64_MIN, 4294967296, 2,         100};

    return rnd(3) == 0 ? edges[rnd(10)] : (int64_t)rnd(2000) - 1000;
}

static void random_string(struct bw *w, const char *key)
{
    static const char *const some[] = {
        "",           "$a",           "$b.c",  "$$ROOT", "$$this", "abc", "h\xc3\xa9", "\xff\x80",
        "2024-01-02", "UTC",          "day",   "%Y-%m",  "int",    "a",   "(x)*",      "1",
        "$$x",        "Europe/Paris", "$$NOW", "week",   "i",      "date"};

    bw_str(w, key, some[rnd(sizeof(some) / sizeof(some[0]))]);
}

static void random_scalar(struct bw *w, const char *key)
{
    static const double doubles[] = {
        0, 1.5, -2.5, 1e300, -1e300, 1e18, __builtin_nan(""), __builtin_inf()};
    struct decimal d;
    uint8_t oid[12];

    switch (rnd(12)) {
    case 0:
        bw_i32(w, key, (int32_t)random_i64());
        break;
    case 1:
        bw_i64(w, key, random_i64());
        break;
    case 2:
        bw_f64(w, key, doubles[rnd(8)]);
        break;
    case 3:
        bw_date(w, key, rnd(2) ? random_i64() : (int64_t)rnd(UINT32_MAX) * 1000);
        break;
    case 4:
        bw_bool(w, key, rnd(2));
        break;
    case 5:
        bw_null(w, key);
        break;
    case 6:
        d = decimal_from_f64(doubles[rnd(8)]);
        bw_bv(w, key, (struct bv){(const uint8_t *)&d, 16, BV_DECIMAL});
        break;
    case 7:
        bw_ts(w, key, (uint64_t)random_i64());
        break;
    case 8:
        memset(oid, (int)rnd(256), sizeof(oid));
        bw_oid(w, key, oid);
        break;
    case 9:
        bw_bin(w, key, 0, "xyz", rnd(4));
        break;
    default:
        random_string(w, key);
    }
}

static void random_value(struct bw *w, const char *key, unsigned depth)
{
    static const char *const keys[] = {"a", "b", "c", "k", "v"};
    uint32_t n = rnd(4), kind = depth == 0 ? 2 : rnd(4);

    if (kind == 0) {
        bw_doc_begin(w, key);
        for (uint32_t i = 0; i < n; i++)
            random_value(w, keys[rnd(5)], depth - 1);
        bw_end(w);
    } else if (kind == 1) {
        bw_arr_begin(w, key);
        for (uint32_t i = 0; i < n; i++)
            random_value(w, NULL, depth - 1);
        bw_end(w);
    } else {
        random_scalar(w, key);
    }
}

static void random_expr(struct bw *w, const char *key, unsigned depth);

/* An object of named arguments, as many operators take it. */
static void random_named(struct bw *w, const char *key, unsigned depth)
{
    static const char *const fields[] = {"input",
                                         "in",
                                         "cond",
                                         "as",
                                         "initialValue",
                                         "vars",
                                         "field",
                                         "value",
                                         "date",
                                         "timezone",
                                         "format",
                                         "dateString",
                                         "unit",
                                         "amount",
                                         "startDate",
                                         "endDate",
                                         "binSize",
                                         "regex",
                                         "options",
                                         "find",
                                         "replacement",
                                         "chars",
                                         "to",
                                         "onError",
                                         "onNull",
                                         "sortBy",
                                         "n",
                                         "inputs",
                                         "useLongestLength",
                                         "year",
                                         "month",
                                         "day",
                                         "branches",
                                         "default",
                                         "if",
                                         "then",
                                         "else",
                                         "iso8601",
                                         "limit",
                                         "startOfWeek"};
    uint32_t n = 1 + rnd(4);

    bw_doc_begin(w, key);
    for (uint32_t i = 0; i < n; i++)
        random_expr(w, fields[rnd(sizeof(fields) / sizeof(fields[0]))], depth - 1);
    bw_end(w);
}

/* The fields that an operator's row names, all of them. */
static void exact_named(struct bw *w, const char *key, const char *fields, unsigned depth)
{
    bw_doc_begin(w, key);
    while (*fields != '\0') {
        char name[32];
        size_t n = strcspn(fields, "= ");

        snprintf(name, sizeof(name), "%.*s", (int)n, fields);
        if (rnd(8) != 0)
            random_expr(w, name, depth - 1);
        fields += strcspn(fields, " ");
        fields += strspn(fields, " ");
    }
    bw_end(w);
}

static const char *fields_of(const char *name)
{
    static const struct {
        const char *name, *fields;
    } known[] = {
#define EXPR_ARGS(name, min, max, fn)
#define EXPR_NAMED(name, not_object, unknown, fields, fn) {name, fields},
#define EXPR_CUSTOM(name, parser, fn)
#define EXPR_UNBUILT(name)
#include "query/expr_ops.def"
#undef EXPR_ARGS
#undef EXPR_NAMED
#undef EXPR_CUSTOM
#undef EXPR_UNBUILT
        {"$map", "input as in"},
        {"$filter", "input as cond limit"},
        {"$reduce", "input initialValue in"},
        {"$sortArray", "input sortBy"},
        {"$zip", "inputs useLongestLength defaults"},
        {"$getField", "field input"},
        {"$setField", "field input value"},
        {"$unsetField", "field input"},
        {"$regexFind", "input regex options"},
        {"$regexFindAll", "input regex options"},
        {"$regexMatch", "input regex options"},
        {"$dateFromParts", "year month day hour minute timezone"},
        {"$hour", "date timezone"},
        {"$isoWeek", "date timezone"},
        {"$let", "vars in"},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].name, name) == 0)
            return known[i].fields;
    }
    return NULL;
}

static void random_expr(struct bw *w, const char *key, unsigned depth)
{
    const char *name = names[rnd(NNAMES)], *fields = fields_of(name);
    uint32_t n = rnd(4);

    if (depth == 0 || rnd(4) == 0) {
        random_value(w, key, depth < 2 ? depth : 2);
        return;
    }
    bw_doc_begin(w, key);
    if (fields != NULL && rnd(6) != 0) {
        exact_named(w, name, fields, depth);
    } else if (rnd(6) == 0) {
        random_named(w, name, depth);
    } else if (rnd(3) == 0) {
        random_expr(w, name, depth - 1);
    } else {
        bw_arr_begin(w, name);
        for (uint32_t i = 0; i < n; i++)
            random_expr(w, NULL, depth - 1);
        bw_end(w);
    }
    bw_end(w);
}

/* The value, wrapped in a document, passes the check of what comes from clients. */
static void check_value(struct op *op, struct bv v, struct bv spec)
{
    struct error err;
    struct bv doc;
    struct bw w;

    bw_init(&w, &op->arena);
    bw_bv(&w, "v", v);
    doc = bw_done(&w);
    if (bv_check(doc.p, doc.len, 250, &err) != 0)
        fail_msg("%s: malformed result: %s", bv_show(&op->arena, spec, 2000), err.text);
}

static bool contains(struct bv v, const char *name)
{
    struct biter it = biter(v);
    struct belem e;

    while (biter_next(&it, &e)) {
        if (strcmp(e.key, name) == 0 || contains(e.v, name))
            return true;
    }
    return false;
}

static int one_round(struct op *op)
{
    struct expr_vars vars = {0};
    struct bv spec, doc, got[2];
    struct eval ev;
    struct expr *e;
    struct bw w;
    int rc[2];

    bw_init(&w, &op->arena);
    random_expr(&w, "e", 4);
    spec = bv_get(bw_done(&w), "e");
    bw_init(&w, &op->arena);
    random_value(&w, "a", 3);
    random_value(&w, "b", 3);
    doc = bw_done(&w);
    rc[0] = expr_parse(op, &op->arena, spec, &vars, &e);
    for (int i = 0; i < 2 && (i == 0 || rc[0] == 0); i++) {
        if (rc[0] == 0) {
            eval_init(&ev, op, &op->arena);
            ev.now_ms = 1700000000000;
            eval_set_row(&ev, doc);
            rc[i] = expr_eval(e, &ev, &got[i]);
        }
        if (rc[i] != 0) {
            if (op->err->text[0] == '\0' || op->err->code != rc[i])
                fail_msg("%s: error %d without a text", bv_show(&op->arena, spec, 2000), rc[i]);
            return rc[i];
        }
        check_value(op, got[i], spec);
    }
    if (!bv_identical(got[0], got[1]) && !contains(spec, "$rand"))
        fail_msg("%s: two results", bv_show(&op->arena, spec, 2000));
    return 0;
}

static void test_random(void **state)
{
    const char *s = getenv("RUNNEL_RANDOM_SEED"), *r = getenv("RUNNEL_RANDOM_ROUNDS");
    long rounds = r != NULL ? atol(r) : 20000, good = 0;

    (void)state;
    seed = s != NULL ? strtoull(s, NULL, 0) : 0x9E3779B97F4A7C15u;
    for (long i = 0; i < rounds; i++) {
        struct op op;

        op_init(&op);
        good += one_round(&op) == 0;
        op_fini(&op);
    }
    /* Enough of them must get past their parser to be worth it. */
    assert_true(good > rounds / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
