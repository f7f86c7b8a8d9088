/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Multikey expansion: which keys a document has in an index. */
#include "tests/unit/storage_util.h"

#include "base/limits.h"
#include "storage/catalog_write.h"
#include "storage/record.h"
#include "tests/unit/json.h"

static struct engine *e;
static struct catalog *c;
static struct op op;

static int set_up(void **state)
{
    struct error err;

    (void)state;
    e = open_engine(NULL);
    op_init(&op);
    OK(catalog_open(e, &err, &c));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    op_fini(&op);
    catalog_close(c);
    close_engine(e);
    return 0;
}

/* {key: <key>, <more>} -> the index of an unpublished collection */
static struct index *make_index(struct coll **ret_k, const char *key, const char *more)
{
    char text[512];
    uint8_t uuid[16] = {1};
    struct coll *k = coll_new(c, "d.c", uuid, bv_empty_doc);

    snprintf(text, sizeof(text), "{'v': 2, 'key': %s, 'name': 'x' %s}", key, more);
    *ret_k = k;
    return coll_edit_add_index(k, json(&op.arena, text));
}

/* The keys as text, or "code: text". */
static const char *keys_of(const char *key, const char *more, const char *doc, bool *ret_multikey)
{
    char *out = arena_zalloc(&op.arena, 2048);
    struct coll *k;
    struct index *ix = make_index(&k, key, more);
    struct key_set set;
    int rc = index_keys(&op, ix, json(&op.arena, doc), &set);

    if (rc != 0) {
        snprintf(out, 2048, "%d: %s", rc, op.err->text);
    } else {
        for (size_t i = 0; i < set.n; i++) {
            struct bv v = index_key_value(&op, ix, set.keys[i], set.type_bits[i]);

            strcat(strcat(out, i == 0 ? "" : " "), bv_show(&op.arena, v, 300));
            assert_int_equal(set.keys[i].p[set.keys[i].len - 1], 4);
            if (i > 0) /* sorted and unique */
                assert_true(memcmp(set.keys[i - 1].p, set.keys[i].p,
                                   set.keys[i - 1].len < set.keys[i].len ? set.keys[i - 1].len
                                                                         : set.keys[i].len) < 0);
        }
        *ret_multikey = set.multikey;
    }
    coll_unref(k);
    return out;
}

struct expand_case {
    const char *key, *more, *doc, *expected;
    bool multikey;
};

static const struct expand_case cases[] = {
    /* plain values */
    {"{'a': 1}", "", "{'a': 5}", "{ a: 5 }", false},
    {"{'a': 1}", "", "{'a': 5.5}", "{ a: 5.5 }", false},
    {"{'a': 1}", "", "{'b': 1}", "{ a: null }", false},
    {"{'a': 1}", "", "{'a': null}", "{ a: null }", false},
    {"{'a': 1}", "", "{'a': {'b': 1}}", "{ a: { b: 1 } }", false},
    {"{'a.b': 1}", "", "{'a': {'b': 1}}", "{ a.b: 1 }", false},
    {"{'a.b': 1}", "", "{'a': {'c': 1}}", "{ a.b: null }", false},
    {"{'a.b': 1}", "", "{'a': 1}", "{ a.b: null }", false},
    {"{'a.b': 1}", "", "{'a.b': 1}", "{ a.b: null }", false},
    {"{'a': 1, 'b': -1}", "", "{'b': 'x', 'a': 1}", "{ a: 1, b: \"x\" }", false},
    {"{'a': -1}", "", "{'a': [1, 2, 3]}", "{ a: 3 } { a: 2 } { a: 1 }", true},
    /* arrays */
    {"{'a': 1}", "", "{'a': [3, 1, 2, 1]}", "{ a: 1 } { a: 2 } { a: 3 }", true},
    {"{'a': 1}", "", "{'a': []}", "{ a: undefined }", true},
    {"{'a': 1}", "", "{'a': [[1, 2], 3]}", "{ a: 3 } { a: [ 1, 2 ] }", true},
    {"{'a': 1}", "", "{'a': [[]]}", "{ a: [] }", true},
    {"{'a': 1}", "", "{'a': [null]}", "{ a: null }", true},
    {"{'a': 1, 'b': 1}", "", "{'a': [1, 2], 'b': 9}", "{ a: 1, b: 9 } { a: 2, b: 9 }", true},
    {"{'a.b': 1}", "", "{'a': [{'b': 2}, {'b': 1}, {'c': 1}, 7]}",
     "{ a.b: null } { a.b: 1 } { a.b: 2 }", true},
    {"{'a.b': 1}", "", "{'a': []}", "{ a.b: null }", true},
    {"{'a.b': 1}", "", "{'a': {'b': []}}", "{ a.b: undefined }", true},
    {"{'a.b': 1}", "", "{'a': [{'b': [1, 2]}, {'b': [3, []]}]}",
     "{ a.b: 1 } { a.b: 2 } { a.b: 3 } { a.b: [] }", true},
    {"{'a.b': 1}", "", "{'a': [[{'b': 1}]]}", "{ a.b: null }", true},
    {"{'a.b': 1, 'a.c': 1}", "", "{'a': [{'b': 1, 'c': 2}, {'b': 3}]}",
     "{ a.b: 1, a.c: 2 } { a.b: 3, a.c: null }", true},
    {"{'a': 1, 'a.b': 1}", "", "{'a': [{'b': 1}, 5]}",
     "{ a: 5, a.b: null } { a: { b: 1 }, a.b: 1 }", true},
    {"{'a.b': 1, 'a.c': 1}", "", "{'a': [{'b': [1, 2], 'c': 3}]}",
     "{ a.b: 1, a.c: 3 } { a.b: 2, a.c: 3 }", true},
    /* parallel arrays */
    {"{'a': 1, 'b': 1}", "", "{'a': [1], 'b': [2]}", "171: cannot index parallel arrays [b] [a]",
     false},
    {"{'x.a': 1, 'y.b': 1}", "", "{'x': {'a': []}, 'y': {'b': []}}",
     "171: cannot index parallel arrays [b] [a]", false},
    {"{'a.b': 1, 'a.c': 1}", "", "{'a': [{'b': [1], 'c': [2]}]}",
     "171: cannot index parallel arrays [c] [b]", false},
    /* positions */
    {"{'a.0': 1}", "", "{'a': [7, 8]}", "{ a.0: 7 }", true},
    {"{'a.1.b': 1}", "", "{'a': [{'b': 1}, {'b': 2}]}", "{ a.1.b: 2 }", true},
    {"{'a.5': 1}", "", "{'a': [7, 8]}", "{ a.5: null }", true},
    {"{'a.0': 1}", "", "{'a': [[1, 2]]}", "{ a.0: [ 1, 2 ] }", true},
    {"{'a.0.b': 1}", "", "{'a': [[{'b': 1}, {'b': 2}]]}", "{ a.0.b: 1 } { a.0.b: 2 }", true},
    {"{'a.0': 1}", "", "{'a': {'0': 3}}", "{ a.0: 3 }", false},
    {"{'a.3': 1}", "", "{'a': [{'3': 5}, {'3': 6}]}", "{ a.3: 5 } { a.3: 6 }", true},
    {"{'a.0': 1}", "", "{'a': [{'0': 5}]}",
     "16746: Ambiguous field name found in array (do not use numeric field names in embedded "
     "elements in an array), field: '0' for array: 0",
     false},
    /* sparse: no key only when all fields are missing */
    {"{'a': 1}", ", 'sparse': true", "{'b': 1}", "", false},
    {"{'a': 1}", ", 'sparse': true", "{'a': null}", "{ a: null }", false},
    {"{'a': 1, 'b': 1}", ", 'sparse': true", "{'b': 1}", "{ a: null, b: 1 }", false},
    {"{'a': 1, 'b': 1}", ", 'sparse': true", "{'c': 1}", "", false},
    {"{'a.b': 1}", ", 'sparse': true", "{'a': [1, {'b': 2}]}", "{ a.b: 2 }", true},
    {"{'a.b': 1}", ", 'sparse': true", "{'a': []}", "", true},
    {"{'a': 1}", ", 'sparse': true", "{'a': []}", "{ a: undefined }", true},
};

static void expansion(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct expand_case *x = &cases[i];
        bool multikey = false;
        const char *got = keys_of(x->key, x->more, x->doc, &multikey);

        if (strcmp(got, x->expected) != 0 || multikey != x->multikey)
            fail_msg("%s on %s: got '%s' (multikey %d), expected '%s'", x->key, x->doc, got,
                     multikey, x->expected);
    }
}

/* Of equal keys the first one's type counts. */
static void equal_numbers_are_one_key(void **state)
{
    bool multikey;

    (void)state;
    assert_string_equal(
        keys_of("{'a': 1}", "", "{'a': [2, {'$numberDouble': '2.0'}, 1]}", &multikey),
        "{ a: 1 } { a: 2 }");
}

static void key_too_long(void **state)
{
    struct coll *k;
    struct index *ix = make_index(&k, "{'a': 1}", "");
    struct key_set set;
    struct bw w;
    char *big = malloc(LIMIT_INDEX_KEY_BYTES);

    (void)state;
    memset(big, 'x', LIMIT_INDEX_KEY_BYTES);
    bw_init(&w, &op.arena);
    bw_strn(&w, "a", big, LIMIT_INDEX_KEY_BYTES - 3);
    OK(index_keys(&op, ix, bw_done(&w), &set));
    assert_int_equal(set.keys[0].len, LIMIT_INDEX_KEY_BYTES);
    bw_init(&w, &op.arena);
    bw_strn(&w, "a", big, LIMIT_INDEX_KEY_BYTES - 2);
    assert_int_equal(index_keys(&op, ix, bw_done(&w), &set), 17280);
    free(big);
    coll_unref(k);
}

static struct bv array_of(int n)
{
    struct bw w;

    bw_init(&w, &op.arena);
    bw_arr_begin(&w, "a");
    for (int i = 0; i < n; i++)
        bw_i32(&w, NULL, i);
    bw_end(&w);
    return bw_done(&w);
}

static void too_many_keys(void **state)
{
    struct coll *k;
    struct index *ix = make_index(&k, "{'a': 1}", "");
    struct key_set set;

    (void)state;
    OK(index_keys(&op, ix, array_of(LIMIT_INDEX_KEYS_DOC), &set));
    assert_int_equal(set.n, LIMIT_INDEX_KEYS_DOC);
    assert_int_equal(index_keys(&op, ix, array_of(LIMIT_INDEX_KEYS_DOC + 1), &set),
                     ERR_BSON_TOO_LARGE);
    coll_unref(k);
}

/* {a: [{a: [{a: ... 1}]}]} as deep as a document may be, on "a.a.a...": one step a level. */
static void deep(void **state)
{
    enum { LEVELS = LIMIT_DEPTH_STORED / 2 - 1 };
    char path[2 * LEVELS + 2] = "a", key[2 * LEVELS + 32];
    struct coll *k;
    struct index *ix;
    struct key_set set;
    struct bw w;
    struct bv doc;

    (void)state;
    bw_init(&w, &op.arena);
    for (int i = 1; i < LEVELS; i++) {
        strcat(path, ".a");
        bw_arr_begin(&w, "a");
        bw_doc_begin(&w, NULL);
    }
    bw_i32(&w, "a", 1);
    for (int i = 1; i < LEVELS; i++) {
        bw_end(&w);
        bw_end(&w);
    }
    doc = bw_done(&w);
    snprintf(key, sizeof(key), "{'%s': 1}", path);
    ix = make_index(&k, key, "");
    OK(index_keys(&op, ix, doc, &set));
    assert_int_equal(set.n, 1);
    assert_int_equal(
        bv_i32(bv_first(index_key_value(&op, ix, set.keys[0], set.type_bits[0]), NULL)), 1);
    coll_unref(k);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(expansion), TEST(equal_numbers_are_one_key), TEST(key_too_long), TEST(too_many_keys),
        TEST(deep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
