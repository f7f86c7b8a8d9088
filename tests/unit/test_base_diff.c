/* SPDX-License-Identifier: GPL-3.0-or-later */
/* base/diff: the worked examples of the reference, malformed diffs, and a random round trip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/diff.h"
#include "base/limits.h"
#include "tests/unit/json.h"

static struct op op;

static int setup(void **state)
{
    (void)state;
    op_init(&op);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    op_fini(&op);
    return 0;
}

static void assert_doc(struct bv got, const char *want)
{
    struct bv w = json(&op.arena, want);

    if (!bv_identical(got, w))
        fail_msg("got %s\nwant %s", bv_show(&op.arena, got, 4000), bv_show(&op.arena, w, 4000));
}

static struct bv describe(struct bv diff, bool disambiguate)
{
    struct bw w;

    bw_init(&w, &op.arena);
    assert_int_equal(diff_describe(&op, diff, disambiguate, &w), 0);
    return bw_done(&w);
}

static void check_apply(const char *pre, const char *diff, const char *post)
{
    struct bv got;

    assert_int_equal(diff_apply(&op, &op.arena, json(&op.arena, pre), json(&op.arena, diff), &got),
                     0);
    assert_doc(got, post);
}

static void test_apply(void **state)
{
    (void)state;
    check_apply(
        "{'_id':1,'a':1,'b':[1,2,3],'c':{'x':1,'y':2}}",
        "{'u':{'a':5},'i':{'z':0},'sb':{'a':true,'u1':9},'sc':{'d':{'y':false},'u':{'x':7}}}",
        "{'_id':1,'a':5,'b':[1,9,3],'c':{'x':7},'z':0}");
    check_apply("{'arr':[1,2,3,4,5]}", "{'sarr':{'a':true,'l':2}}", "{'arr':[1,2]}");
    /* Truncation comes first, then the indexes. */
    check_apply("{'arr':[1,2,3,4]}", "{'sarr':{'a':true,'l':1,'u2':7}}", "{'arr':[1,null,7]}");
    check_apply("{'arr':[1]}", "{'sarr':{'a':true,'u1':2,'u4':5}}", "{'arr':[1,2,null,null,5]}");
    check_apply("{'arr':[]}", "{'sarr':{'a':true,'l':3}}", "{'arr':[]}");
    /* An inserted field that exists moves to the end. */
    check_apply("{'a':1,'b':2,'c':3}", "{'i':{'a':9,'d':4}}", "{'b':2,'c':3,'a':9,'d':4}");
    /* A field to be overwritten that is not there is appended; one to be deleted is ignored. */
    check_apply("{'a':1}", "{'d':{'q':false},'u':{'n':2}}", "{'a':1,'n':2}");
    /* A nested diff of a field that is not there is ignored. */
    check_apply("{'a':1,'b':2}", "{'sx':{'i':{'q':1}}}", "{'a':1,'b':2}");
    check_apply("{'a':{},'s':{'u':{}}}", "{'sa':{'i':{'b':{'c':1}}},'ss':{'su':{'i':{'d':1}}}}",
                "{'a':{'b':{'c':1}},'s':{'u':{'d':1}}}");
    check_apply("{'a':[[{'b':1}]]}",
                "{'sa':{'a':true,'s0':{'a':true,'s0':{'u':{'b':2}},'u1':{'c':3}}}}",
                "{'a':[[{'b':2},{'c':3}]]}");
    check_apply("{'':1,'d.o.t':2}", "{'d':{'':false},'u':{'d.o.t':{'x':1}}}", "{'d.o.t':{'x':1}}");
    check_apply("{'_id':1}", "{}", "{'_id':1}");
}

static void test_apply_malformed(void **state)
{
    static const char *const diffs[] = {
        "{'b':{'x':{'o':1}}}",
        "{'q':{}}",
        "{'u':1}",
        "{'sa':1}",
        "{'sa':{'u':{'x':1}}}",
        "{'sarr':{'u':{'x':1}}}",
        "{'sarr':{'a':false,'u0':1}}",
        "{'sarr':{'a':true,'u1':1,'u0':1}}",
        "{'sarr':{'a':true,'u0':1,'u0':1}}",
        "{'sarr':{'a':true,'x0':1}}",
        "{'sarr':{'a':true,'u':1}}",
        "{'sarr':{'a':true,'u-1':1}}",
        "{'sarr':{'a':true,'l':-1}}",
        "{'sarr':{'a':true,'l':1.5}}",
        "{'sarr':{'a':true,'u0':1,'l':1}}",
        "{'sarr':{'a':true,'s9':{'u':{'x':1}}}}",
        "{'sarr':{'a':true,'s0':{'u':{'x':1}}}}",
        "{'sarr':{'a':true,'u2147483647':1}}",
        "{'sarr':{'a':true,'u99999999999':1}}",
    };
    struct bv pre = json(&op.arena, "{'a':1,'arr':[1,2]}"), got;

    (void)state;
    for (size_t i = 0; i < sizeof(diffs) / sizeof(*diffs); i++) {
        if (diff_apply(&op, &op.arena, pre, json(&op.arena, diffs[i]), &got) != ERR_BAD_VALUE)
            fail_msg("accepted %s", diffs[i]);
        assert_non_null(strstr(op.err->text, "malformed update diff"));
    }
}

static void test_apply_deep(void **state)
{
    struct bw w;
    struct bv got;

    (void)state;
    bw_init(&w, &op.arena);
    for (int i = 0; i < 250; i++)
        bw_doc_begin(&w, "sx");
    for (int i = 0; i < 250; i++)
        bw_end(&w);
    /* The document is not that deep, so the first missing level ends it. */
    assert_int_equal(
        diff_apply(&op, &op.arena, json(&op.arena, "{'x':{'x':1}}"), bw_done(&w), &got),
        ERR_BAD_VALUE);
}

static const char *const long_text =
    "0123456789012345678901234567890123456789012345678901234567890123456789";

/* `want` NULL: a replacement is logged. "#" in the texts stands for a long string. */
static void check_compute(const char *pre_text, const char *post_text, const char *want)
{
    struct bv docs[3], diff, back;
    const char *texts[3] = {pre_text, post_text, want};

    for (int i = 0; i < 3 && texts[i] != NULL; i++) {
        char buf[2000];
        size_t n = 0;

        for (const char *p = texts[i]; *p != '\0'; p++)
            n += (size_t)snprintf(buf + n, sizeof(buf) - n, *p == '#' ? "%s" : "%.1s",
                                  *p == '#' ? long_text : p);
        docs[i] = json(&op.arena, buf);
    }
    assert_int_equal(diff_compute(&op, &op.arena, docs[0], docs[1], &diff), 0);
    if (want == NULL) {
        if (!bv_is_missing(diff))
            fail_msg("%s: got %s", pre_text, bv_show(&op.arena, diff, 2000));
        return;
    }
    if (!bv_identical(diff, docs[2]))
        fail_msg("got %s\nwant %s", bv_show(&op.arena, diff, 2000),
                 bv_show(&op.arena, docs[2], 2000));
    assert_int_equal(diff_apply(&op, &op.arena, docs[0], diff, &back), 0);
    assert_true(bv_identical(back, docs[1]));
}

static void test_compute(void **state)
{
    (void)state;
    /* The drivers' "Test array truncation". */
    check_compute("{'_id':1,'a':1,'array':['foo',{'a':'bar'},1,2,3]}",
                  "{'_id':1,'a':1,'array':['foo',{'a':'bar'}]}", "{'sarray':{'a':true,'l':2}}");
    check_compute("{'_id':1,'a':1}", "{'_id':1,'a':1}", "{}");
    check_compute("{'_id':1,'a':1}", "{'_id':1,'a':2}", NULL);
    check_compute("{'_id':1,'arr':['#','#','#','#','#']}", "{'_id':1,'arr':['#','#']}",
                  "{'sarr':{'a':true,'l':2}}");
    check_compute("{'k':'#','a':1,'b':2,'c':3}", "{'k':'#','a':1.0,'c':3,'n':4}",
                  "{'d':{'b':false},'u':{'a':1.0},'i':{'n':4}}");
    /* A field that moved to the end is inserted and not deleted. */
    check_compute("{'a':1,'k':'#','b':2}", "{'k':'#','b':2,'a':1}", "{'i':{'a':1}}");
    check_compute("{'a':1,'z':0,'k':'#','b':2}", "{'k':'#','b':2,'a':1}",
                  "{'d':{'z':false},'i':{'a':1}}");
    /* Nested: recursion while it is smaller, else the value. */
    check_compute("{'o':{'k':'#','x':1},'p':{'x':1}}", "{'o':{'k':'#','x':2},'p':{'x':2}}",
                  "{'u':{'p':{'x':2}},'so':{'u':{'x':2}}}");
    check_compute("{'k':'#','o':{'x':1}}", "{'k':'#','o':[1]}", "{'u':{'o':[1]}}");
    check_compute("{'k':'#','o':{'x':1}}", "{'k':'#','o':{}}", "{'u':{'o':{}}}");
    check_compute("{'o':[1,{'k':'#','x':1},'#']}", "{'o':[1,{'k':'#','x':2},'#',9]}",
                  "{'so':{'a':true,'s1':{'u':{'x':2}},'u3':9}}");
    check_compute("{'o':['#',1,2,3]}", "{'o':['#',7]}", "{'so':{'a':true,'l':2,'u1':7}}");
    check_compute("{}", "{'a':'#'}", NULL);
}

/* The size rule to the byte: a diff of 5+8+(2+2+4)=21 and the padding of 15 against post sizes. */
static void test_compute_size_rule(void **state)
{
    (void)state;
    /* post: 5 + (1+3+4) ab + (1+2+5+n) k = 21 + n, n = 15 is equal and 16 is larger by one */
    check_compute("{'ab':1,'k':'123456789012345'}", "{'ab':2,'k':'123456789012345'}", NULL);
    check_compute("{'ab':1,'k':'1234567890123456'}", "{'ab':2,'k':'1234567890123456'}",
                  "{'u':{'ab':2}}");
    /* nested: sub diff 5+8+(2+2+4)=21 against a value of 21 and 22 bytes */
    check_compute("{'K':'#','o':{'ab':1,'k':''}}", "{'K':'#','o':{'ab':2,'k':''}}",
                  "{'u':{'o':{'ab':2,'k':''}}}");
    check_compute("{'K':'#','o':{'ab':1,'k':'1'}}", "{'K':'#','o':{'ab':2,'k':'1'}}",
                  "{'so':{'u':{'ab':2}}}");
}

static void test_node_bytes(void **state)
{
    struct diff_node *root = diff_node_new(&op.arena, false);
    struct diff_node *arr = diff_node_new(&op.arena, true);
    struct diff_node *doc = diff_node_new(&op.arena, false);
    struct bw w;
    struct bv d;

    (void)state;
    assert_true(diff_node_empty(root));
    assert_true(diff_node_empty(arr));
    diff_delete(doc, "x", 1);
    diff_insert(doc, "yy", 2, bv_null);
    diff_resize(arr, 3);
    diff_sub_at(arr, 0, doc);
    diff_update_at(arr, 12345, bv_true);
    diff_update(root, "u", 1, bv_empty_array);
    diff_sub(root, "arr", 3, arr);
    assert_false(diff_node_empty(root));
    bw_init(&w, &op.arena);
    diff_write(root, &w, "diff");
    d = bw_done(&w);
    assert_int_equal(bv_get(d, "diff").len, diff_node_bytes(root));
    assert_doc(d, "{'diff':{'u':{'u':[]},'sarr':{'a':true,'l':3,"
                  "'s0':{'d':{'x':false},'i':{'yy':null}},'u12345':true}}}");
}

static void test_repeated_names(void **state)
{
    struct bw w;
    struct bv pre, post, diff;

    (void)state;
    bw_init(&w, &op.arena);
    bw_i32(&w, "a", 1);
    bw_i32(&w, "a", 2);
    bw_str(&w, "k", long_text);
    pre = bw_done(&w);
    bw_init(&w, &op.arena);
    bw_i32(&w, "a", 1);
    bw_str(&w, "k", long_text);
    post = bw_done(&w);
    /* {d: {a: false}} would take the first one away. */
    assert_int_equal(diff_compute(&op, &op.arena, pre, post, &diff), 0);
    assert_true(bv_is_missing(diff));
}

static void test_describe(void **state)
{
    (void)state;
    assert_doc(describe(json(&op.arena, "{'u':{'a':5},'i':{'z':0},'sb':{'a':true,'u1':9},"
                                        "'sc':{'d':{'y':false},'u':{'x':7}}}"),
                        false),
               "{'updatedFields':{'a':5,'z':0,'b.1':9,'c.x':7},'removedFields':['c.y'],"
               "'truncatedArrays':[]}");
    assert_doc(describe(json(&op.arena, "{'sarr':{'a':true,'l':2}}"), false),
               "{'updatedFields':{},'removedFields':[],"
               "'truncatedArrays':[{'field':'arr','newSize':2}]}");
    /* Updates come before inserts, whatever the order of the sections. */
    assert_doc(describe(json(&op.arena, "{'d':{'q':false},'i':{'n':1},'u':{'m':2}}"), false),
               "{'updatedFields':{'m':2,'n':1},'removedFields':['q'],'truncatedArrays':[]}");
    assert_doc(describe(json(&op.arena, "{}"), true),
               "{'updatedFields':{},'removedFields':[],"
               "'truncatedArrays':[],'disambiguatedPaths':{}}");
    /* A name may be empty; a binary delta reads as an update. */
    assert_doc(describe(json(&op.arena, "{'b':{'x':{'o':1}},'s':{'i':{'':1}}}"), false),
               "{'updatedFields':{'x':{'o':1},'.':1},'removedFields':[],'truncatedArrays':[]}");
}

static void check_paths(const char *diff, const char *want)
{
    assert_doc(bv_get(describe(json(&op.arena, diff), true), "disambiguatedPaths"), want);
}

static void test_disambiguated_paths(void **state)
{
    (void)state;
    check_paths("{'u':{'a':1},'sb':{'a':true,'u0':1}}", "{}");
    check_paths("{'sa':{'u':{'1':2}}}", "{'a.1':['a','1']}");
    check_paths("{'sa':{'a':true,'s0':{'u':{'1':2}}}}", "{'a.0.1':['a',0,'1']}");
    check_paths("{'u':{'d.o.t':1}}", "{'d.o.t':['d.o.t']}");
    check_paths("{'u':{'0':1}}", "{}");
    check_paths("{'sa':{'u':{'01':2}}}", "{}");
    check_paths("{'sa':{'d':{'12':false}}}", "{'a.12':['a','12']}");
    check_paths("{'sa':{'sb.c':{'a':true,'l':1,'u0':5}}}",
                "{'a.b.c':['a','b.c'],'a.b.c.0':['a','b.c',0]}");
    check_paths("{'s0':{'s1':{'u':{'x':1}}}}", "{'0.1.x':['0','1','x']}");
}

static void test_describe_malformed(void **state)
{
    static const char *const diffs[] = {"{'sa':1}", "{'sa':{'a':true,'q':1}}",
                                        "{'sa':{'a':true,'l':'x'}}",
                                        "{'sa':{'a':true,'u99999999999':1}}"};
    struct bw w;

    (void)state;
    for (size_t i = 0; i < sizeof(diffs) / sizeof(*diffs); i++) {
        bw_init(&w, &op.arena);
        assert_int_equal(diff_describe(&op, json(&op.arena, diffs[i]), false, &w), ERR_BAD_VALUE);
    }
    bw_init(&w, &op.arena);
    for (int i = 0; i < 250; i++)
        bw_doc_begin(&w, "sx");
    for (int i = 0; i < 250; i++)
        bw_end(&w);
    struct bv deep = bw_done(&w);

    bw_init(&w, &op.arena);
    assert_int_equal(diff_describe(&op, deep, false, &w), ERR_BAD_VALUE);
}

/* --- random round trips --------------------------------------------------------------------- */

static uint64_t seed = 88172645463325252u;

static uint32_t rnd(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 20) % n);
}

static void random_fields(struct bw *w, bool array, int depth);

static void random_value(struct bw *w, const char *key, int depth)
{
    switch (rnd(depth > 0 ? 9 : 6)) {
    case 0:
        bw_i32(w, key, (int32_t)rnd(3));
        break;
    case 1:
        bw_i64(w, key, (int64_t)rnd(3));
        break;
    case 2:
        bw_null(w, key);
        break;
    case 3:
    case 4:
        bw_strn(w, key, long_text, rnd(60));
        break;
    case 5:
        bw_bool(w, key, rnd(2) == 0);
        break;
    case 6:
        bw_arr_begin(w, key);
        random_fields(w, true, depth - 1);
        bw_end(w);
        break;
    default:
        bw_doc_begin(w, key);
        random_fields(w, false, depth - 1);
        bw_end(w);
        break;
    }
}

static void random_fields(struct bw *w, bool array, int depth)
{
    static const char *const names[] = {"a", "b", "s", "u", "0", "d.e", "", "l", "1", "i"};
    uint32_t first = rnd(10), step = 1 + 2 * rnd(2), n = rnd(7);

    for (uint32_t i = 0; i < n; i++)
        random_value(w, array ? NULL : names[(first + i * step) % 10], depth);
}

/* Copies with small changes here and there. */
static void mutate(struct bw *w, struct bv v, int depth)
{
    struct biter it = biter(v);
    struct belem e;

    while (biter_next(&it, &e)) {
        const char *key = v.type == BV_DOC ? e.key : NULL;
        uint32_t what = rnd(12);

        if (what == 0)
            continue;
        if (what == 1) {
            random_value(w, key, 1);
        } else if (bv_is_container(e.v) && depth > 0 && what < 8) {
            if (e.v.type == BV_DOC)
                bw_doc_begin(w, key);
            else
                bw_arr_begin(w, key);
            mutate(w, e.v, depth - 1);
            bw_end(w);
        } else {
            bw_bv(w, key, e.v);
        }
    }
    if (rnd(6) == 0)
        random_value(w, v.type == BV_DOC ? "new" : NULL, 1);
}

static void test_round_trip(void **state)
{
    unsigned diffs = 0;

    (void)state;
    for (int i = 0; i < 30000; i++) {
        struct bw w;
        struct bv pre, post, diff, back;

        bw_init(&w, &op.arena);
        random_fields(&w, false, 4);
        pre = bw_done(&w);
        bw_init(&w, &op.arena);
        mutate(&w, pre, 4);
        post = bw_done(&w);
        assert_int_equal(diff_compute(&op, &op.arena, pre, post, &diff), 0);
        if (!bv_is_missing(diff)) {
            diffs++;
            assert_true(diff.len + 15 < post.len || bv_identical(pre, post));
            assert_int_equal(diff_apply(&op, &op.arena, pre, diff, &back), 0);
            if (!bv_identical(back, post))
                fail_msg("pre %s\npost %s\ndiff %s\nback %s", bv_show(&op.arena, pre, 3000),
                         bv_show(&op.arena, post, 3000), bv_show(&op.arena, diff, 3000),
                         bv_show(&op.arena, back, 3000));
            describe(diff, true);
        }
        arena_reset(&op.arena);
    }
    assert_true(diffs > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_apply, setup, teardown),
        cmocka_unit_test_setup_teardown(test_apply_malformed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_apply_deep, setup, teardown),
        cmocka_unit_test_setup_teardown(test_compute, setup, teardown),
        cmocka_unit_test_setup_teardown(test_compute_size_rule, setup, teardown),
        cmocka_unit_test_setup_teardown(test_node_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_repeated_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_describe, setup, teardown),
        cmocka_unit_test_setup_teardown(test_disambiguated_paths, setup, teardown),
        cmocka_unit_test_setup_teardown(test_describe_malformed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
