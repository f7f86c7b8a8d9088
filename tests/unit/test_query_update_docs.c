/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * query/update: the documents that come of it: upserts, document_prepare; hostile updates; and
 * random updates whose diffs must lead from the old document to the new one byte for byte.
 */
#include "base/clock.h"
#include "base/diff.h"
#include "base/limits.h"
#include "tests/unit/update_util.h"

/* --- upserts ---------------------------------------------------------------------------------- */

static int upsert(const char *query, const char *update, struct bv *ret)
{
    struct update_spec spec = {.u = doc_of(update), .upsert = true};
    struct update *u = NULL;

    if (update[0] == '[')
        spec.u.type = BV_ARRAY;
    TRY_RETURN(update_parse(&op, &op.arena, &spec, &u));
    return update_upsert_doc(u, &ev, filter_of(query), ret);
}

static void test_upsert(void **state)
{
    static const struct {
        const char *query, *update, *want;
    } cases[] = {
        {"{'_id':5}", "{'$set':{'v':1}}", "{'_id':5,'v':1}"},
        {"{'_id':1,'v':{'$gt':3}}", "{'$set':{'f':true}}", "{'_id':1,'f':true}"},
        {"{'_id':1,'$or':[{'n':'a'},{'n':'b'}]}", "{'$set':{'g':1}}", "{'_id':1,'g':1}"},
        {"{'_id':1,'$or':[{'n':'a'}]}", "{'$set':{'g':1}}", "{'_id':1,'n':'a','g':1}"},
        {"{'_id':1,'$and':[{'p':1},{'q':{'$eq':2}}]}", "{'$set':{'h':1}}",
         "{'_id':1,'p':1,'q':2,'h':1}"},
        {"{'a.b':1,'_id':1,'a.c':{'$eq':2}}", "{'$set':{'a.d':3}}",
         "{'_id':1,'a':{'b':1,'c':2,'d':3}}"},
        {"{'_id':1,'a':{'$all':[7]}}", "{'$setOnInsert':{'b':1},'$inc':{'a':1}}",
         "{'_id':1,'a':8,'b':1}"},
        {"{'_id':1,'a':[1]}", "{'$push':{'a':2}}", "{'_id':1,'a':[1,2]}"},
        {"{'_id':1,'a':2}", "{'b':3}", "{'_id':1,'b':3}"},
        {"{'a':2}", "{'b':3,'_id':9}", "{'_id':9,'b':3}"},
        {"{'_id':1,'a':2}", "[{'$set':{'b':{'$add':['$a',1]}}}]", "{'_id':1,'a':2,'b':3}"},
        {"{'_id':1,'n':{'$ne':1},'r':{'$regex':'x'},'i':{'$in':[1,2]},'e':{'$exists':true}}",
         "{'$set':{'a':1}}", "{'_id':1,'a':1}"},
        {"{'_id':1}", "{'$unset':{'x':1},'$pull':{'y':1},'$set':{'_id':1}}", "{'_id':1}"},
        {"{'_id.x':1,'a':1}", "{'$set':{'b':1}}", "{'_id':{'x':1},'a':1,'b':1}"},
        {"{'b':1}", "{'$set':{'_id':3,'a':1}}", "{'_id':3,'b':1,'a':1}"},
    };
    struct bv got;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (upsert(cases[i].query, cases[i].update, &got) != 0)
            fail_msg("%s: %s", cases[i].query, op.err->text);
        if (!bv_identical(got, doc_of(cases[i].want)))
            fail_msg("%s: got %s", cases[i].query, show(got));
    }
}

static void test_upsert_generated_id(void **state)
{
    struct bv a, b;
    struct belem first;

    (void)state;
    assert_int_equal(upsert("{'v':{'$gt':3}}", "{'$set':{'f':true}}", &a), 0);
    assert_int_equal(bv_first(a, &first).type, BV_OID);
    assert_string_equal(first.key, "_id");
    assert_int_equal(bv_count(a), 2);
    assert_int_equal(upsert("{}", "{}", &b), 0);
    assert_int_equal(bv_count(b), 1);
    assert_false(bv_identical(bv_get(a, "_id"), bv_get(b, "_id")));
}

static void test_upsert_errors(void **state)
{
    static const struct {
        const char *query, *update;
        int code;
        const char *text;
    } cases[] = {
        {"{'a':1,'$and':[{'a':2}]}", "{'$set':{'b':1}}", 54,
         "cannot infer query fields to set, path 'a' is matched twice"},
        {"{'a':1,'a.b':2}", "{'$set':{'c':1}}", 54,
         "cannot infer query fields to set, both paths 'a.b' and 'a' are matched"},
        {"{'a':{'$all':[1,2]}}", "{'$set':{'c':1}}", 54, NULL},
        {"{'_id':1}", "{'$set':{'_id':2}}", 66, NULL},
        {"{'_id':1}", "{'_id':2}", 66, NULL},
        {"{'_id':1}", "[{'$set':{'_id':2}}]", 66, NULL},
        {"{'a':1}", "{'$set':{'_id':[1]}}", 53, "The '_id' value cannot be of type array"},
        {"{'a':1}", "{'$set':{'a.b':1}}", 28, "Cannot create field 'b' in element {a: 1}"},
        {"{'a':1}", "{'$set':{'b.$':1}}", 2, NULL},
    };
    struct bv got;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (upsert(cases[i].query, cases[i].update, &got) != cases[i].code)
            fail_msg("%s: %d %s", cases[i].query, op.err->code, op.err->text);
        if (cases[i].text != NULL)
            assert_string_equal(op.err->text, cases[i].text);
    }
}

/* --- document_prepare ------------------------------------------------------------------------- */

static void test_prepare(void **state)
{
    static const struct {
        const char *doc, *want;
    } cases[] = {
        {"{'_id':1,'v':{'_id':['a','b']}}", "{'_id':1,'v':{'_id':['a','b']}}"},
        {"{'_id':null}", "{'_id':null}"},
        {"{'a':1,'_id':2,'b':3}", "{'_id':2,'a':1,'b':3}"},
        {"{'_id':1,'a.b':1,'p':{'$q':2,'10.0.0.0':3},'$t':1}",
         "{'_id':1,'a.b':1,'p':{'$q':2,'10.0.0.0':3},'$t':1}"},
        {"{'_id':{'$timestamp':{'t':0,'i':0}},'t':{'$timestamp':{'t':0,'i':0}},"
         "'n':{'t':{'$timestamp':{'t':0,'i':0}}}}",
         "{'_id':{'$timestamp':{'t':0,'i':0}},'t':{'$timestamp':{'t':3,'i':4}},"
         "'n':{'t':{'$timestamp':{'t':0,'i':0}}}}"},
    };
    struct bv got, doc;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(
            document_prepare(&op, &op.arena, doc_of(cases[i].doc), 3ULL << 32 | 4, &got), 0);
        if (!bv_identical(got, doc_of(cases[i].want)))
            fail_msg("%s: got %s", cases[i].doc, show(got));
    }
    /* What is right already is not copied. */
    doc = doc_of("{'_id':1,'t':{'$timestamp':{'t':0,'i':0}}}");
    assert_int_equal(document_prepare(&op, &op.arena, doc, 0, &got), 0);
    assert_ptr_equal(got.p, doc.p);
    assert_int_equal(document_prepare(&op, &op.arena, doc_of("{'a':1}"), 0, &got), 0);
    assert_int_equal(bv_first(got, NULL).type, BV_OID);
}

static struct bv nested(int levels)
{
    struct bw w;

    bw_init(&w, &op.arena);
    bw_i32(&w, "_id", 1);
    for (int i = 1; i < levels; i++)
        bw_doc_begin(&w, "");
    for (int i = 1; i < levels; i++)
        bw_end(&w);
    return bw_done(&w);
}

static struct bv sized(uint32_t bytes)
{
    uint32_t n = bytes - (5 + 9 + 1 + 2 + 5);
    uint8_t *fill = calloc(1, n);
    struct bw w;

    bw_init(&w, &op.arena);
    bw_i32(&w, "_id", 1);
    bw_bin(&w, "b", 0, fill, n);
    free(fill);
    return bw_done(&w);
}

static void test_prepare_errors(void **state)
{
    static const struct {
        const char *doc;
        int code;
    } cases[] = {
        {"{'_id':['a']}", 53},
        {"{'_id':{'$regularExpression':{'pattern':'x','options':''}}}", 53},
        {"{'_id':{'$undefined':true}}", 53},
        {"{'_id':{'$a':1}}", 52},
        {"{'_id':{'b':[{'$a':1}]}}", 52},
    };
    struct bv got, doc;
    struct bw w;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (document_prepare(&op, &op.arena, doc_of(cases[i].doc), 0, &got) != cases[i].code)
            fail_msg("%s: %s", cases[i].doc, op.err->text);
    }
    bw_init(&w, &op.arena);
    bw_i32(&w, "_id", 1);
    bw_i32(&w, "_id", 2);
    assert_int_equal(document_prepare(&op, &op.arena, bw_done(&w), 0, &got), 2);

    assert_int_equal(document_prepare(&op, &op.arena, nested(LIMIT_DEPTH_STORED), 0, &got), 0);
    assert_int_equal(document_prepare(&op, &op.arena, nested(LIMIT_DEPTH_STORED + 1), 0, &got),
                     ERR_OVERFLOW);

    doc = sized(LIMIT_DOC_BYTES);
    assert_int_equal(doc.len, LIMIT_DOC_BYTES);
    assert_int_equal(document_prepare(&op, &op.arena, doc, 0, &got), 0);
    assert_int_equal(document_prepare(&op, &op.arena, sized(LIMIT_DOC_BYTES + 1), 0, &got),
                     ERR_BSON_TOO_LARGE);
}

/* --- hostile ---------------------------------------------------------------------------------- */

static struct bv set_deep(int parts)
{
    char *path = arena_alloc(&op.arena, (size_t)parts * 2);
    struct bw w;

    for (int i = 0; i < parts; i++)
        memcpy(path + 2 * i, "a.", 2);
    path[2 * parts - 1] = '\0';
    bw_init(&w, &op.arena);
    bw_doc_begin(&w, "$set");
    bw_i32(&w, path, 1);
    bw_end(&w);
    return bw_done(&w);
}

static void test_depth(void **state)
{
    struct update_result r;
    struct bw w;

    (void)state;
    assert_int_equal(apply_bv(set_deep(LIMIT_DEPTH_STORED), doc_of("{}"), &r), 0);
    assert_int_equal(apply_bv(set_deep(LIMIT_DEPTH_STORED + 1), doc_of("{}"), &r), ERR_OVERFLOW);
    assert_int_equal(apply_bv(set_deep(LIMIT_DEPTH_MESSAGE), doc_of("{}"), &r), ERR_OVERFLOW);
    assert_int_equal(apply_bv(set_deep(100000), doc_of("{}"), &r), ERR_OVERFLOW);
    /* A value that fits at the top but not where it is put. */
    for (int parts = 1; parts <= 2; parts++) {
        bw_init(&w, &op.arena);
        bw_doc_begin(&w, "$set");
        bw_bv(&w, parts == 1 ? "x" : "x.y", nested(LIMIT_DEPTH_STORED - 1));
        bw_end(&w);
        assert_int_equal(apply_bv(bw_done(&w), doc_of("{}"), &r), parts == 1 ? 0 : ERR_OVERFLOW);
    }
    /* A $rename to a deeper place. */
    bw_init(&w, &op.arena);
    bw_bv(&w, "x", nested(LIMIT_DEPTH_STORED - 1));
    assert_int_equal(apply_bv(doc_of("{'$rename':{'x':'y.z'}}"), bw_done(&w), &r), ERR_OVERFLOW);
}

static void test_size(void **state)
{
    struct update_result r;
    struct bv old = sized(LIMIT_DOC_BYTES - 7);

    (void)state;
    assert_int_equal(apply_bv(doc_of("{'$set':{'x':1}}"), old, &r), 0);
    assert_int_equal(r.doc.len, LIMIT_DOC_BYTES);
    assert_int_equal(apply_bv(doc_of("{'$set':{'xx':1}}"), old, &r), 17419);
    assert_string_equal(op.err->text, "Resulting document after update is larger than 16777216");
    /* Nulls up to the limit of padding are fine, and their bytes count. */
    assert_int_equal(apply_bv(doc_of("{'$set':{'a.1500000':1}}"), doc_of("{'a':[]}"), &r), 0);
    assert_int_equal(bv_count(bv_get(r.doc, "a")), 1500001);
}

static void test_many_paths(void **state)
{
    struct update_result r;
    struct bw w;
    struct bv u_doc;
    char path[40];

    (void)state;
    bw_init(&w, &op.arena);
    bw_doc_begin(&w, "$set");
    for (int i = 0; i < 50000; i++) {
        snprintf(path, sizeof(path), "a.b.f%d.x", i * 7919 % 50000);
        bw_i32(&w, path, i);
    }
    bw_end(&w);
    u_doc = bw_done(&w);
    assert_int_equal(apply_bv(u_doc, doc_of("{}"), &r), 0);
    assert_int_equal(bv_count(bv_path(r.doc, "a.b")), 50000);
    /* Again on the result: nothing changes. */
    assert_int_equal(apply_bv(u_doc, r.doc, &r), 0);
    assert_false(r.changed);
    /* The same path twice among many. */
    bw_init(&w, &op.arena);
    bw_bv(&w, "$set", bv_get(u_doc, "$set"));
    bw_doc_begin(&w, "$inc");
    bw_i32(&w, "a.b.f9", 1);
    bw_end(&w);
    assert_int_equal(apply_bv(bw_done(&w), doc_of("{}"), &r), 40);
    assert_string_equal(op.err->text, "Updating the path 'a.b.f9' would create a conflict at "
                                      "'a.b.f9'");
}

static void test_large_sets(void **state)
{
    struct update_result r;
    struct bw w;
    struct bv old, all;

    (void)state;
    bw_init(&w, &op.arena);
    bw_arr_begin(&w, "s");
    for (int i = 0; i < 100000; i++)
        bw_i32(&w, NULL, i);
    bw_end(&w);
    old = bw_done(&w);
    bw_init(&w, &op.arena);
    bw_doc_begin(&w, "$addToSet");
    bw_doc_begin(&w, "s");
    bw_arr_begin(&w, "$each");
    for (int i = 0; i < 100001; i++)
        bw_f64(&w, NULL, i);
    bw_end(&w);
    bw_end(&w);
    bw_end(&w);
    assert_int_equal(apply_bv(bw_done(&w), old, &r), 0);
    assert_int_equal(bv_count(bv_get(r.doc, "s")), 100001);
    all = bv_get(old, "s");
    bw_init(&w, &op.arena);
    bw_doc_begin(&w, "$pullAll");
    bw_bv(&w, "s", all);
    bw_end(&w);
    assert_int_equal(apply_bv(bw_done(&w), r.doc, &r), 0);
    assert_int_equal(bv_count(bv_get(r.doc, "s")), 1);
}

/* --- random updates --------------------------------------------------------------------------- */

static uint64_t seed = 0x9E3779B97F4A7C15u;

static uint32_t rnd(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 20) % n);
}

static void random_value(struct bw *w, const char *key, int depth)
{
    static const char *const names[] = {"a", "b", "c", "0", "1"};
    uint32_t n = rnd(4);

    switch (rnd(depth > 0 ? 8 : 4)) {
    case 0:
    case 1:
        bw_i32(w, key, (int32_t)rnd(4));
        break;
    case 2:
        bw_f64(w, key, rnd(4));
        break;
    case 3:
        bw_str(w, key, rnd(2) == 0 ? "x" : "yy");
        break;
    case 4:
    case 5:
        bw_arr_begin(w, key);
        for (uint32_t i = 0; i < n; i++)
            random_value(w, NULL, depth - 1);
        bw_end(w);
        break;
    default:
        bw_doc_begin(w, key);
        for (uint32_t i = rnd(2); i < n + 1; i++)
            random_value(w, names[i], depth - 1);
        bw_end(w);
        break;
    }
}

static const char *random_path(void)
{
    static const char *const parts[] = {"a", "b", "c", "d", "0", "1", "2", "3", "10", "$[]", "$"};
    uint32_t n = 1 + rnd(3);
    const char *path = parts[rnd(4)];

    for (uint32_t i = 1; i < n; i++)
        path = arena_printf(&op.arena, "%s.%s", path, parts[rnd(11)]);
    return path;
}

static void random_argument(struct bw *w, const char *o, const char *path)
{
    if (strcmp(o, "$inc") == 0 || strcmp(o, "$mul") == 0) {
        bw_i32(w, path, (int32_t)rnd(3));
    } else if (strcmp(o, "$pop") == 0) {
        bw_i32(w, path, rnd(2) == 0 ? 1 : -1);
    } else if (strcmp(o, "$rename") == 0) {
        bw_str(w, path, random_path());
    } else if (strcmp(o, "$pullAll") == 0) {
        bw_arr_begin(w, path);
        random_value(w, NULL, 0);
        random_value(w, NULL, 0);
        bw_end(w);
    } else if (strcmp(o, "$push") == 0 && rnd(2) == 0) {
        bw_doc_begin(w, path);
        bw_arr_begin(w, "$each");
        for (uint32_t i = rnd(3); i > 0; i--)
            random_value(w, NULL, 1);
        bw_end(w);
        if (rnd(3) == 0)
            bw_i32(w, "$slice", (int32_t)rnd(5) - 2);
        if (rnd(3) == 0)
            bw_i32(w, "$position", (int32_t)rnd(5) - 2);
        if (rnd(3) == 0)
            bw_i32(w, "$sort", 1);
        bw_end(w);
    } else {
        random_value(w, path, 2);
    }
}

static struct bv random_update(void)
{
    static const char *const names[] = {"$set",    "$unset",   "$inc",  "$min",
                                        "$rename", "$set",     "$push", "$addToSet",
                                        "$pull",   "$pullAll", "$pop",  "$mul"};
    struct bw w;
    uint32_t n = 1 + rnd(3);

    bw_init(&w, &op.arena);
    for (uint32_t i = 0; i < n; i++) {
        const char *o = names[rnd(12)];
        const char *path = random_path();

        bw_doc_begin(&w, o);
        random_argument(&w, o, path);
        bw_end(&w);
    }
    return bw_done(&w);
}

static void test_random(void **state)
{
    int64_t stop = clock_mono_us() + 1000000;
    unsigned changed = 0, failed = 0;

    (void)state;
    for (int i = 0; i < 60000 && clock_mono_us() < stop; i++) {
        struct update_spec spec = {.u = BV_NONE};
        struct update *u = NULL;
        struct update_result r;
        struct bv old, back;
        struct bw w;

        bw_init(&w, &op.arena);
        bw_i32(&w, "_id", 1);
        random_value(&w, "a", 3);
        random_value(&w, "b", 3);
        random_value(&w, "c", 2);
        old = bw_done(&w);
        spec.u = random_update();
        if (update_parse(&op, &op.arena, &spec, &u) != 0 ||
            update_apply(u, &ev, old, (int32_t)rnd(4) - 1, &r) != 0) {
            assert_int_not_equal(op.err->text[0], 0);
            failed++;
        } else if (r.changed) {
            changed++;
            assert_int_equal(diff_apply(&op, &op.arena, old, bv_get(r.entry_o, "diff"), &back), 0);
            if (!bv_identical(back, r.doc))
                fail_msg("%s\non %s\ngave %s\nby %s\nback %s", show(spec.u), show(old), show(r.doc),
                         show(r.entry_o), show(back));
            assert_false(bv_identical(old, r.doc));
            assert_int_equal(bv_check(r.doc.p, r.doc.len, LIMIT_DEPTH_STORED, op.err), 0);
        } else {
            assert_true(bv_identical(old, r.doc));
        }
        arena_reset(&op.arena);
    }
    assert_true(changed > 50 && failed > 50);
}

/* Operators, clauses and paths put together without sense: refused or done, never worse. */
static void random_nonsense(struct bw *w, bool array, int depth)
{
    static const char *const names[] = {
        "$set",   "$unset",    "$inc",  "$mul", "$min",        "$max", "$rename", "$setOnInsert",
        "$push",  "$addToSet", "$pull", "$pop", "$pullAll",    "$bit", "$each",   "$slice",
        "$sort",  "$position", "and",   "or",   "a",           "a.b",  "a.$",     "a.$[]",
        "a.$[x]", "b.0",       "",      "a.",   "$",           "$gt",  "$in",     "$elemMatch",
        "_id",    "$type",     "x",     "x.y",  "$currentDate"};

    for (uint32_t n = 1 + rnd(3); n > 0; n--) {
        const char *key = array ? NULL : names[rnd(sizeof(names) / sizeof(names[0]))];
        uint32_t what = rnd(4);

        if (depth == 0 || what == 0) {
            random_value(w, key, 1);
        } else if (what == 1) {
            bw_arr_begin(w, key);
            random_nonsense(w, true, depth - 1);
            bw_end(w);
        } else {
            bw_doc_begin(w, key);
            random_nonsense(w, false, depth - 1);
            bw_end(w);
        }
    }
}

static void test_nonsense(void **state)
{
    int64_t stop = clock_mono_us() + 700000;
    unsigned done = 0;

    (void)state;
    for (int i = 0; i < 60000 && clock_mono_us() < stop; i++) {
        struct update_spec spec = {.u = BV_NONE};
        struct update *u = NULL;
        struct update_result r;
        struct bv old;
        struct bw w;

        bw_init(&w, &op.arena);
        bw_i32(&w, "_id", 1);
        random_value(&w, "a", 3);
        old = bw_done(&w);
        bw_init(&w, &op.arena);
        random_nonsense(&w, false, 4);
        spec.u = bw_done(&w);
        if (rnd(3) == 0) {
            bw_init_array(&w, &op.arena);
            random_nonsense(&w, true, 3);
            spec.array_filters = bw_done(&w);
        }
        op.err->code = 0;
        if (update_parse(&op, &op.arena, &spec, &u) == 0 &&
            update_apply(u, &ev, old, (int32_t)rnd(3) - 1, &r) == 0) {
            assert_int_equal(bv_check(r.doc.p, r.doc.len, LIMIT_DEPTH_STORED, op.err), 0);
            assert_int_equal(bv_i32(bv_get(r.doc, "_id")), 1);
            done++;
        } else {
            assert_int_not_equal(op.err->code, 0);
        }
        arena_reset(&op.arena);
    }
    assert_true(done > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_upsert, setup, teardown),
        cmocka_unit_test_setup_teardown(test_upsert_generated_id, setup, teardown),
        cmocka_unit_test_setup_teardown(test_upsert_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_prepare, setup, teardown),
        cmocka_unit_test_setup_teardown(test_prepare_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_depth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_size, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_paths, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_sets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nonsense, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
