/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion" /* the library's header */
#include <bson/bson.h>
#pragma GCC diagnostic pop
#include <cmocka.h>

#include "base/bw.h"
#include "oplog/resume_token.h"

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

/* --- JSON in the shape of the public vectors ------------------------------------------------- */

static int unhex(char c)
{
    return c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
}

static void uuid_of(const char *s, size_t n, uint8_t ret[16])
{
    size_t at = 0;

    for (size_t i = 0; i + 1 < n && at < 16; i += 2) {
        if (s[i] == '-')
            i++;
        ret[at++] = (uint8_t)(unhex(s[i]) << 4 | unhex(s[i + 1]));
    }
    assert_int_equal(at, 16);
}

/* Copies, with {"uuid!": "<hex>"} (what "$uuid" was made before parsing) turned into a UUID. */
static void copy_fields(struct bw *w, struct bv doc)
{
    struct biter it = biter(doc);
    struct belem e;

    while (biter_next(&it, &e)) {
        struct bv id = bv_get(e.v, "uuid!");
        uint8_t uuid[16];
        uint32_t n;

        if (!bv_is_missing(id)) {
            const char *s = bv_str(id, &n);

            uuid_of(s, n, uuid);
            bw_uuid(w, e.key, uuid);
        } else if (e.v.type == BV_DOC || e.v.type == BV_ARRAY) {
            if (e.v.type == BV_DOC)
                bw_doc_begin(w, e.key);
            else
                bw_arr_begin(w, e.key);
            copy_fields(w, e.v);
            bw_end(w);
        } else {
            bw_elem(w, &e);
        }
    }
}

static struct bv from_json(char *json)
{
    bson_error_t err;
    bson_t *b;
    struct bw w;

    for (char *p = json; (p = strstr(p, "\"$uuid\"")) != NULL;)
        memcpy(p, "\"uuid!\"", 7);
    b = bson_new_from_json((const uint8_t *)json, -1, &err);
    if (b == NULL)
        fail_msg("%s", err.message);
    bw_init(&w, &op.arena);
    copy_fields(&w, bv_doc(bson_get_data(b)));
    bson_destroy(b);
    return bw_done(&w);
}

static int32_t int_at(struct bv doc, const char *path)
{
    int64_t x = -1;

    if (!bv_to_i64(bv_path(doc, path), &x))
        assert_int_equal(bv_path(doc, path).type, BV_NULL);
    return (int32_t)x;
}

static struct resume_token token_of(struct bv in)
{
    struct resume_token t = {0};
    int64_t s, i;
    uint32_t n;

    assert_true(bv_to_i64(bv_path(in, "clusterTime.t"), &s));
    assert_true(bv_to_i64(bv_path(in, "clusterTime.i"), &i));
    t.cluster_time = (uint64_t)s << 32 | (uint64_t)i;
    t.version = int_at(in, "version");
    t.type = int_at(in, "tokenType");
    t.txn_op_index = int_at(in, "txnOpIndex");
    t.from_invalidate = bv_bool(bv_get(in, "fromInvalidate"));
    t.has_uuid = bv_get(in, "uuid").type == BV_STRING;
    if (t.has_uuid) {
        const char *text = bv_str(bv_get(in, "uuid"), &n);

        uuid_of(text, n, t.uuid);
    }
    t.event_id = bv_get(in, "eventIdentifier");
    if (t.event_id.type != BV_DOC)
        t.event_id = BV_NONE;
    t.fragment = int_at(in, "fragmentNum");
    return t;
}

static struct bv token_doc(const char *data, const uint8_t *bits, size_t nbits)
{
    struct bw w;

    bw_init(&w, &op.arena);
    bw_str(&w, "_data", data);
    if (bits != NULL)
        bw_bin(&w, "_typeBits", 0, bits, nbits);
    return bw_done(&w);
}

/* Both ways: the components give these bytes, and the bytes these components and types. */
static void check_vector(const struct resume_token *t, const char *data, const uint8_t *bits,
                         size_t nbits)
{
    struct bv want = token_doc(data, bits, nbits), got = token_encode(&op.arena, t);
    struct resume_token back;

    if (!bv_identical(want, got))
        fail_msg("want %s\n got %s", bv_show(&op.arena, want, 900), bv_show(&op.arena, got, 900));
    assert_int_equal(token_decode(&op, want, &back), 0);
    assert_int_equal(token_cmp(t, &back), 0);
    assert_int_equal(t->version, back.version);
    assert_true(bv_identical(t->event_id, back.event_id));
    /* lower case, and without type bits: the same position */
    char *lower = arena_strdup(&op.arena, data);

    for (char *p = lower; *p != '\0'; p++)
        *p = *p >= 'A' ? (char)(*p | 32) : *p;
    assert_int_equal(token_decode(&op, token_doc(lower, NULL, 0), &back), 0);
    assert_int_equal(token_cmp(t, &back), 0);
}

struct vector {
    const char *input, *data;
    const char *bits;
    size_t nbits;
};

#define HEAD(v, type) "\"version\": " v ", \"tokenType\": " type ", \"txnOpIndex\": 0, "
#define NO_FRAGMENT   "\"fragmentNum\": null}"

static const struct vector vectors[] = {
    {"{\"clusterTime\": {\"t\": 1630438675, \"i\": 1}, " HEAD(
         "1", "128") "\"fromInvalidate\": false, \"uuid\": \"a5093abb38fe4b9ea67f01bb1a96d812\", "
                     "\"eventIdentifier\": {\"_id\": \"___x\"}, " NO_FRAGMENT,
     "82612E8513000000012B022C0100296E5A1004A5093ABB38FE4B9EA67F01BB1A96D812463C5F6964003C5F5F5F780"
     "00004",
     NULL, 0},
    {"{\"clusterTime\": {\"t\": 1666193824, \"i\": 1}, " HEAD(
         "2",
         "128") "\"fromInvalidate\": false, \"uuid\": \"ab1154acacd849a48c61756d70d3b21f\", "
                "\"eventIdentifier\": {\"operationType\": \"insert\", \"documentKey\": {\"_id\": "
                "{\"$oid\": \"635019a078be67426d7cf4d2\"}}}, " NO_FRAGMENT,
     "82635019A0000000012B042C0100296E5A1004AB1154ACACD849A48C61756D70D3B21F463C6F7065726174696F6E5"
     "4797065003C696E736572740046646F63756D656E744B65790046645F69640064635019A078BE67426D7CF4D20000"
     "04",
     NULL, 0},
    {"{\"clusterTime\": {\"t\": 1787596388, \"i\": 1}, " HEAD(
         "2",
         "0") "\"fromInvalidate\": false, \"uuid\": null, \"eventIdentifier\": null, " NO_FRAGMENT,
     "826A8C8E64000000012B0429296E1404", NULL, 0},
    {"{\"clusterTime\": {\"t\": 1720891097, \"i\": 1}, " HEAD(
         "2", "128") "\"fromInvalidate\": true, \"uuid\": \"fc22c3af7e40428cbd5d09ff3547fff2\", "
                     "\"eventIdentifier\": {\"operationType\": \"drop\"}, " NO_FRAGMENT,
     "826692B6D9000000012B042C0100296F5A1004FC22C3AF7E40428CBD5D09FF3547FFF2463C6F7065726174696F6E5"
     "4797065003C64726F70000004",
     NULL, 0},
    {"{\"clusterTime\": {\"t\": 1789536888, \"i\": 2}, " HEAD(
         "2", "128") "\"fromInvalidate\": false, \"uuid\": null, \"eventIdentifier\": "
                     "{\"operationType\": "
                     "\"dropDatabase\"}, " NO_FRAGMENT,
     "826AAA2A78000000022B042C0100296E14463C6F7065726174696F6E54797065003C64726F7044617461626173650"
     "00004",
     NULL, 0},
    {"{\"clusterTime\": {\"t\": 1752829981, \"i\": 2}, " HEAD(
         "2", "128") "\"fromInvalidate\": false, \"uuid\": \"35e288933c8245c6b0e9de829c0e5056\", "
                     "\"eventIdentifier\": {\"operationType\": \"dropIndexes\", "
                     "\"operationDescription\": "
                     "{\"indexes\": [{\"v\": {\"$numberInt\": \"2\"}, \"key\": {\"a\": "
                     "{\"$numberDouble\": "
                     "\"1.0\"}}, \"name\": \"a_1\"}]}}, " NO_FRAGMENT,
     "82687A101D000000022B042C0100296E5A100435E288933C8245C6B0E9DE829C0E5056463C6F7065726174696F6E5"
     "4797065003C64726F70496E646578657300466F7065726174696F6E4465736372697074696F6E004650696E646578"
     "65730050461E76002B04466B657900461E61002B02003C6E616D65003C615F31000000000004",
     "\x82\x00\x02", 3},
    {"{\"clusterTime\": {\"t\": 1582534135, \"i\": 1}, " HEAD(
         "1", "128") "\"fromInvalidate\": false, \"uuid\": \"ee9b60d8845f42ff989d09018a730d60\", "
                     "\"eventIdentifier\": null, " NO_FRAGMENT,
     "825E538DF7000000012B022C0100296E5A1004EE9B60D8845F42FF989D09018A730D6004", NULL, 0},
    {"{\"clusterTime\": {\"t\": 1582535589, \"i\": 4}, " HEAD(
         "1", "128") "\"fromInvalidate\": false, \"uuid\": null, \"eventIdentifier\": "
                     "null, " NO_FRAGMENT,
     "825E5393A5000000042B022C0100296E04", NULL, 0},
    {"{\"clusterTime\": {\"t\": 1700000000, \"i\": 5}, " HEAD(
         "2",
         "128") "\"fromInvalidate\": false, \"uuid\": \"000102030405060708090a0b0c0d0e0f\", "
                "\"eventIdentifier\": {\"operationType\": \"update\", \"documentKey\": {\"_id\": "
                "{\"$numberInt\": \"7\"}}}, \"fragmentNum\": 1}",
     "826553F100000000052B042C0100296E5A1004000102030405060708090A0B0C0D0E0F463C6F7065726174696F6E5"
     "4797065003C7570646174650046646F63756D656E744B657900461E5F6964002B0E00002B0204",
     NULL, 0},
};

static void known_tokens_both_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        const struct vector *v = &vectors[i];
        struct resume_token t = token_of(from_json(arena_strdup(&op.arena, v->input)));

        check_vector(&t, v->data, (const uint8_t *)v->bits, v->nbits);
    }
    assert_true(bv_identical(token_doc(vectors[2].data, NULL, 0),
                             token_high_water_mark(&op.arena, 1787596388ULL << 32 | 1, 2)));
}

static char *read_whole(FILE *f)
{
    char *buf = arena_zalloc(&op.arena, 1 << 20);
    size_t n = fread(buf, 1, (1 << 20) - 1, f);

    buf[n] = '\0';
    fclose(f);
    return buf;
}

static size_t from_base64(struct bv v, uint8_t ret[static 64])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t acc = 0, have = 0, n;
    const char *s = bv_str(v, &n);
    size_t out = 0;

    for (uint32_t i = 0; i < n && s[i] != '='; i++) {
        acc = acc << 6 | (uint32_t)(strchr(digits, s[i]) - digits);
        have += 6;
        if (have >= 8) {
            have -= 8;
            ret[out++] = (uint8_t)(acc >> have);
        }
    }
    return out;
}

/* All published vectors; the file lies beside the repository, not in it. */
static void published_tokens_both_ways(void **state)
{
    const char *shared = getenv("RUNNEL_SHARED");
    char *path = arena_printf(&op.arena, "%s/reference/resume-token-vectors.json",
                              shared != NULL ? shared : "../shared");
    FILE *f = fopen(path, "r");
    struct biter it;
    struct belem e;
    size_t n = 0;

    (void)state;
    if (f == NULL) {
        print_message("no file of vectors (set RUNNEL_SHARED): skipped\n");
        skip();
    }
    it = biter(from_json(read_whole(f)));
    while (biter_next(&it, &e)) {
        struct resume_token t = token_of(bv_get(e.v, "input"));
        struct bv base64 = bv_get(e.v, "_typeBits_base64");
        uint8_t bits[64];
        size_t nbits = base64.type == BV_STRING ? from_base64(base64, bits) : 0;

        check_vector(&t, bv_str(bv_get(e.v, "_data"), NULL), nbits == 0 ? NULL : bits, nbits);
        n++;
    }
    assert_int_equal(n, 33);
}

static void expect_code(const char *data, int code)
{
    struct resume_token t;
    int rc = token_decode(&op, token_doc(data, NULL, 0), &t);

    if (rc != code)
        fail_msg("%s: code %d, not %d", data, rc, code);
    assert_int_equal(op.err->code, code);
    assert_true(op.err->text[0] != '\0');
}

#define TIME  "826A8C8E6400000001"
#define UUID  "5A1004000102030405060708090A0B0C0D0E0F"
#define EVENT "463C6F7065726174696F6E54797065003C64726F700000"

static void bad_tokens_have_their_codes(void **state)
{
    struct resume_token t;
    struct bw w;

    (void)state;
    assert_int_equal(token_decode(&op, bv_empty_doc, &t), 40647);
    bw_init(&w, &op.arena);
    bw_i32(&w, "_data", 1);
    assert_int_equal(token_decode(&op, bw_done(&w), &t), 40647);
    bw_init(&w, &op.arena);
    bw_str(&w, "_data", TIME "2B0429296E1404");
    bw_str(&w, "_typeBits", "x");
    assert_int_equal(token_decode(&op, bw_done(&w), &t), 40648);
    bw_init(&w, &op.arena);
    bw_str(&w, "_data", TIME "2B0429296E1404");
    bw_bin(&w, "_typeBits", 4, "x", 1);
    assert_int_equal(token_decode(&op, bw_done(&w), &t), 40648);

    expect_code("8", 9);
    expect_code("zz", 9);
    expect_code("826A8C8E64", 50811);
    expect_code("", 40649);
    expect_code("04", 40649);
    expect_code("2B0204", 40650);
    expect_code(TIME "04", 50796);
    expect_code(TIME "3C780004", 50854);
    expect_code(TIME "2B0604", 50795);
    expect_code(TIME "27FD04", 50795);
    expect_code(TIME "2B0404", 51055);
    expect_code(TIME "2B046E04", 51056);
    expect_code(TIME "2B042B0204", 51057);
    expect_code(TIME "2B042904", 50793);
    expect_code(TIME "2B04296E04", 50855);
    expect_code(TIME "2B042927FD04", 50794);
    expect_code(TIME "2B04292904", 50872);
    expect_code(TIME "2B0429292904", 50870);
    expect_code(TIME "2B0429296E04", 6189500);
    expect_code(TIME "2B0429296E14" EVENT "04", 6189504);
    expect_code(TIME "2B042C0100296E1404", 6189501);
    expect_code(TIME "2B042C0100296E" UUID "2B0204", 6189503);
    expect_code(TIME "2B042C0100296E" UUID EVENT "27FD04", 7182501);
    expect_code(TIME "2B042C0100296E" UUID EVENT "3C780004", 7182501);
    expect_code(TIME "2B042C0100296E" UUID EVENT "292904", 40646);
    expect_code(TIME "2B022C0100296E" UUID EVENT "2904", 40646);
    expect_code(TIME "2B042C0100296E" UUID EVENT "0404", 40646);
    expect_code(TIME "2B042C0100296E" UUID EVENT, 50811);
    expect_code(TIME "2B0429296E14", 50811);
}

static struct resume_token decode(const char *data)
{
    struct resume_token t = {0};

    assert_int_equal(token_decode(&op, token_doc(data, NULL, 0), &t), 0);
    return t;
}

static void order_is_the_order_of_positions(void **state)
{
    /* ascending */
    static const char *const tokens[] = {
        "826A8C8E64000000002B042C0100296E" UUID EVENT "04",
        TIME "2B0429296E1404",
        TIME "2B042C0100296E14" EVENT "04",
        TIME "2B042C0100296E" UUID EVENT "04",
        TIME "2B042C0100296E" UUID EVENT "2904",
        TIME "2B042C0100296E" UUID EVENT "2B0204",
        TIME "2B042C0100296F" UUID EVENT "04",
        TIME "2B042C01002B026E" UUID EVENT "04",
        "826A8C8E64000000022B0429296E1404",
    };
    size_t n = sizeof(tokens) / sizeof(tokens[0]);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            struct resume_token a = decode(tokens[i]), b = decode(tokens[j]);
            int c = token_cmp(&a, &b), text = strcmp(tokens[i], tokens[j]);

            assert_int_equal((c > 0) - (c < 0), (i > j) - (i < j));
            /* clients may sort tokens as text */
            assert_int_equal((text > 0) - (text < 0), (i > j) - (i < j));
        }
    }
    /* the version does not count */
    struct resume_token v1 = decode(TIME "2B0229296E04"), v2 = decode(TIME "2B0429296E1404");

    assert_int_equal(token_cmp(&v1, &v2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(known_tokens_both_ways, setup, teardown),
        cmocka_unit_test_setup_teardown(published_tokens_both_ways, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_tokens_have_their_codes, setup, teardown),
        cmocka_unit_test_setup_teardown(order_is_the_order_of_positions, setup, teardown),
    };

    return cmocka_run_group_tests_name("resume_token", tests, NULL, NULL);
}
