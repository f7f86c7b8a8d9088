/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Framing, OP_MSG and OP_QUERY against well-formed, malformed and truncated bytes. */
#include "wire/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/bw.h"
#include "base/crc32c.h"
#include "base/limits.h"
#include "wire/legacy.h"

/* --- making messages -------------------------------------------------------------------------- */

struct buf {
    uint8_t b[4096];
    size_t n;
};

static void put(struct buf *m, const void *p, size_t n)
{
    assert_true(m->n + n <= sizeof(m->b));
    memcpy(m->b + m->n, p, n);
    m->n += n;
}

static void put_i32(struct buf *m, int32_t x)
{
    put(m, &x, 4);
}

static void put_byte(struct buf *m, uint8_t x)
{
    put(m, &x, 1);
}

static void begin(struct buf *m, int32_t op_code)
{
    m->n = 0;
    put_i32(m, 0);
    put_i32(m, 7);
    put_i32(m, 0);
    put_i32(m, op_code);
}

static void begin_msg(struct buf *m, uint32_t flags)
{
    begin(m, WIRE_OP_MSG);
    put(m, &flags, 4);
}

static void finish(struct buf *m)
{
    int32_t n = (int32_t)m->n;

    memcpy(m->b, &n, 4);
}

static void put_doc(struct buf *m, const char *key, int32_t x)
{
    struct bw w;
    struct bv doc;

    bw_init(&w, NULL);
    bw_i32(&w, key, x);
    doc = bw_done(&w);
    put(m, doc.p, doc.len);
    bw_fini(&w);
}

static void put_body(struct buf *m)
{
    put_byte(m, 0);
    put_doc(m, "insert", 1);
}

static void put_sequence(struct buf *m, const char *name, int32_t ndocs)
{
    size_t at;
    int32_t size;

    put_byte(m, 1);
    at = m->n;
    put_i32(m, 0);
    put(m, name, strlen(name) + 1);
    for (int32_t i = 0; i < ndocs; i++)
        put_doc(m, "x", i);
    size = (int32_t)(m->n - at);
    memcpy(m->b + at, &size, 4);
}

/* --- parsing from memory that ends where the message ends, so that sanitizers see overruns ------
 */

static int parse(const struct buf *m, struct arena *a, struct error *err, struct wire_msg *ret)
{
    uint8_t *exact = malloc(m->n == 0 ? 1 : m->n);
    struct wire_msg got = {0, BV_NONE};
    int rc;

    assert_non_null(exact);
    memcpy(exact, m->b, m->n);
    rc = wire_msg_parse(exact, m->n, a, err, &got);
    if (rc == 0)
        got.body = bv_dup(a, got.body);
    *ret = got;
    free(exact);
    return rc;
}

static int parse_code(const struct buf *m)
{
    struct arena a;
    struct error err = {0};
    struct wire_msg msg;
    int rc;

    arena_init(&a);
    rc = parse(m, &a, &err, &msg);
    arena_fini(&a);
    if (rc > 0)
        assert_int_equal(rc, err.code);
    return rc == INT_CLOSE ? -err.code : rc;
}

static void test_crc32c_vector(void **state)
{
    (void)state;
    assert_int_equal(crc32c("123456789", 9), 0xE3069283);
    assert_int_equal(crc32c("", 0), 0);
}

static void test_frame(void **state)
{
    struct wire_header h = {0};
    struct buf m;

    (void)state;
    begin_msg(&m, 0);
    put_body(&m);
    finish(&m);
    for (size_t n = 0; n < m.n; n++)
        assert_int_equal(wire_frame(m.b, n, &h), WIRE_FRAME_MORE);
    assert_int_equal(wire_frame(m.b, m.n, &h), WIRE_FRAME_DONE);
    assert_int_equal(h.length, (int32_t)m.n);
    assert_int_equal(h.request_id, 7);
    assert_int_equal(h.op_code, WIRE_OP_MSG);
    assert_int_equal(wire_frame(m.b, m.n + 5, &h), WIRE_FRAME_DONE);
}

static void test_frame_bounds(void **state)
{
    static const int32_t bad[] = {INT32_MIN, -1, 0, 15, LIMIT_MESSAGE_BYTES + 1, INT32_MAX};
    struct wire_header h = {0};
    uint8_t b[16] = {0};
    int32_t most = LIMIT_MESSAGE_BYTES;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        memcpy(b, &bad[i], 4);
        assert_int_equal(wire_frame(b, 4, &h), WIRE_FRAME_BAD);
    }
    memcpy(b, &most, 4);
    assert_int_equal(wire_frame(b, 16, &h), WIRE_FRAME_MORE);
    assert_int_equal(h.length, LIMIT_MESSAGE_BYTES);
    assert_int_equal(wire_frame((const uint8_t *)"GET / HTTP/1.1\r\n", 16, &h), WIRE_FRAME_HTTP);
    assert_int_equal(wire_frame((const uint8_t *)"POST", 4, &h), WIRE_FRAME_HTTP);
}

static void test_body_alone_is_not_copied(void **state)
{
    struct arena a;
    struct error err = {0};
    struct wire_msg msg;
    struct buf m;

    (void)state;
    begin_msg(&m, MSG_EXHAUST_ALLOWED);
    put_body(&m);
    finish(&m);
    arena_init(&a);
    assert_int_equal(wire_msg_parse(m.b, m.n, &a, &err, &msg), 0);
    assert_ptr_equal(msg.body.p, m.b + 21);
    assert_int_equal(msg.flags, MSG_EXHAUST_ALLOWED);
    arena_fini(&a);
}

/* Sequences come out as arrays with the right keys and documents, whatever the order. */
static void check_merged(int32_t ndocs, bool body_first)
{
    static struct buf m;
    struct arena a;
    struct error err = {0};
    struct wire_msg msg;
    struct bv list;
    struct biter it;
    struct belem e;
    int32_t i = 0;

    begin_msg(&m, 0);
    if (body_first)
        put_body(&m);
    put_sequence(&m, "documents", ndocs);
    put_sequence(&m, "empty", 0);
    if (!body_first)
        put_body(&m);
    finish(&m);
    arena_init(&a);
    assert_int_equal(parse(&m, &a, &err, &msg), 0);
    assert_int_equal(bv_check(msg.body.p, msg.body.len, LIMIT_DEPTH_MESSAGE, &err), 0);
    assert_int_equal(bv_count(msg.body), 3);
    assert_int_equal(bv_i32(bv_get(msg.body, "insert")), 1);
    assert_int_equal(bv_get(msg.body, "empty").type, BV_ARRAY);
    list = bv_get(msg.body, "documents");
    assert_int_equal(list.type, BV_ARRAY);
    for (it = biter(list); biter_next(&it, &e); i++) {
        char key[16];

        snprintf(key, sizeof(key), "%d", i);
        assert_string_equal(e.key, key);
        assert_int_equal(e.v.type, BV_DOC);
        assert_int_equal(bv_i32(bv_get(e.v, "x")), i);
    }
    assert_int_equal(i, ndocs);
    arena_fini(&a);
}

static void test_sequences_are_merged(void **state)
{
    static const int32_t counts[] = {0, 1, 9, 10, 11, 99, 100, 101, 250};

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        check_merged(counts[i], true);
        check_merged(counts[i], false);
    }
}

static void test_flags(void **state)
{
    struct buf m;

    (void)state;
    for (unsigned bit = 2; bit < 32; bit++) {
        begin_msg(&m, bit == 16 ? 0 : 1u << bit);
        put_body(&m);
        finish(&m);
        assert_int_equal(parse_code(&m), bit < 16 ? -ERR_ILLEGAL_OP_MSG_FLAG : 0);
    }
}

static void test_checksum(void **state)
{
    struct buf m;
    uint32_t sum;

    (void)state;
    begin_msg(&m, MSG_CHECKSUM);
    put_body(&m);
    m.n += 4;
    finish(&m);
    sum = crc32c(m.b, m.n - 4);
    memcpy(m.b + m.n - 4, &sum, 4);
    assert_int_equal(parse_code(&m), 0);
    for (size_t i = 4; i < m.n; i++) {
        m.b[i] ^= 0x40;
        assert_true(parse_code(&m) != 0);
        m.b[i] ^= 0x40;
    }
    m.b[m.n - 1] ^= 1;
    assert_int_equal(parse_code(&m), -ERR_CHECKSUM_MISMATCH);
    m.n = 20;
    finish(&m);
    assert_int_equal(parse_code(&m), -ERR_CHECKSUM_MISMATCH);
}

static void test_section_rules(void **state)
{
    struct buf m;

    (void)state;
    begin_msg(&m, 0);
    finish(&m);
    assert_int_equal(parse_code(&m), 40587);
    put_body(&m);
    put_body(&m);
    finish(&m);
    assert_int_equal(parse_code(&m), 40430);

    begin_msg(&m, 0);
    put_sequence(&m, "documents", 1);
    finish(&m);
    assert_int_equal(parse_code(&m), 40587);
    put_sequence(&m, "documents", 1);
    put_body(&m);
    finish(&m);
    assert_int_equal(parse_code(&m), 40431);

    begin_msg(&m, 0);
    put_body(&m);
    put_sequence(&m, "insert", 1);
    finish(&m);
    assert_int_equal(parse_code(&m), 40433);

    begin_msg(&m, 0);
    put_body(&m);
    put_sequence(&m, "a", 1);
    put_sequence(&m, "b", 1);
    finish(&m);
    assert_int_equal(parse_code(&m), 0);
    put_sequence(&m, "c", 1);
    finish(&m);
    assert_int_equal(parse_code(&m), -ERR_TOO_MANY_SEQUENCES);

    for (unsigned kind = 2; kind < 256; kind += 50) {
        begin_msg(&m, 0);
        put_byte(&m, (uint8_t)kind);
        finish(&m);
        assert_int_equal(parse_code(&m), 40432);
    }
}

/* Whatever is cut off or flipped, the parser answers and stays inside the message. */
static void test_every_truncation(void **state)
{
    struct buf whole, m;
    struct bv body;

    (void)state;
    begin_msg(&whole, 0);
    put_body(&whole);
    put_sequence(&whole, "documents", 3);
    finish(&whole);
    assert_int_equal(parse_code(&whole), 0);
    for (size_t n = WIRE_HEADER_BYTES; n < whole.n; n++) {
        m = whole;
        m.n = n;
        finish(&m);
        if (n == 21 + 17) /* exactly the body */
            assert_int_equal(parse_code(&m), 0);
        else
            assert_true(parse_code(&m) != 0);
        assert_true(n < 33 || wire_peek_command(m.b, m.n) != NULL);
        assert_true(wire_peek_body(m.b, m.n, 1000, &body) == (n >= 21 + 17));
        assert_false(wire_peek_body(m.b, m.n, 16, &body));
    }
}

static void test_every_byte_flipped(void **state)
{
    struct buf whole, m;
    struct bv body;

    (void)state;
    begin_msg(&whole, 0);
    put_sequence(&whole, "documents", 2);
    put_body(&whole);
    finish(&whole);
    for (size_t i = WIRE_HEADER_BYTES; i < whole.n; i++) {
        for (unsigned x = 0; x < 256; x++) {
            m = whole;
            m.b[i] = (uint8_t)x;
            (void)parse_code(&m);
            (void)wire_peek_command(m.b, m.n);
            (void)wire_peek_body(m.b, m.n, 1000, &body);
        }
    }
}

static void test_lengths_that_lie(void **state)
{
    static const int32_t lies[] = {INT32_MIN, -1, 0, 4, 5, 6, 1000, INT32_MAX};
    struct buf m;

    (void)state;
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        begin_msg(&m, 0);
        put_body(&m);
        memcpy(m.b + 21, &lies[i], 4);
        finish(&m);
        assert_int_equal(parse_code(&m), ERR_INVALID_BSON);

        begin_msg(&m, 0);
        put_byte(&m, 1);
        put_i32(&m, lies[i]);
        put(&m, "docs", 5);
        put_body(&m);
        finish(&m);
        assert_true(parse_code(&m) > 0);
    }
}

/* --- replies ---------------------------------------------------------------------------------- */

static void test_reply_head(void **state)
{
    struct wire_header h;
    struct buf m;

    (void)state;
    begin_msg(&m, 0);
    put_body(&m);
    wire_msg_head(m.b, m.n - 21, 11, 22, MSG_MORE_TO_COME);
    assert_int_equal(wire_frame(m.b, m.n, &h), WIRE_FRAME_DONE);
    assert_int_equal(h.length, (int32_t)m.n);
    assert_int_equal(h.request_id, 11);
    assert_int_equal(h.response_to, 22);
    assert_int_equal(parse_code(&m), 0);
    assert_int_equal(m.b[16], MSG_MORE_TO_COME);
}

/* --- OP_QUERY --------------------------------------------------------------------------------- */

static void put_query(struct buf *m, const char *ns, int32_t to_return)
{
    begin(m, WIRE_OP_QUERY);
    put_i32(m, 4);
    put(m, ns, strlen(ns) + 1);
    put_i32(m, 0);
    put_i32(m, to_return);
    put_doc(m, "ismaster", 1);
    finish(m);
}

static void test_query(void **state)
{
    struct error err = {0};
    struct wire_query q;
    struct buf m;

    (void)state;
    put_query(&m, "admin.$cmd", -1);
    assert_int_equal(wire_query_parse(m.b, m.n, &err, &q), 0);
    assert_int_equal(q.db_len, 5);
    assert_int_equal(q.to_return, -1);
    assert_int_equal(bv_i32(bv_get(q.body, "ismaster")), 1);
    assert_string_equal(wire_peek_command(m.b, m.n), "ismaster");
    put_query(&m, "test.things", 1);
    assert_int_equal(wire_query_parse(m.b, m.n, &err, &q), 0);
    assert_int_equal(q.db_len, 0);
    put_query(&m, ".$cmd", 1);
    assert_int_equal(wire_query_parse(m.b, m.n, &err, &q), 0);
    assert_int_equal(q.db_len, 0);
}

static void test_query_truncated(void **state)
{
    struct error err = {0};
    struct wire_query q;
    struct bv body;
    struct buf m;

    (void)state;
    put_query(&m, "admin.$cmd", 1);
    for (size_t n = WIRE_HEADER_BYTES; n < m.n; n++) {
        uint8_t *exact = malloc(n);

        memcpy(exact, m.b, n);
        assert_int_equal(wire_query_parse(exact, n, &err, &q), ERR_PROTOCOL);
        (void)wire_peek_command(exact, n);
        (void)wire_peek_body(exact, n, 1000, &body);
        free(exact);
    }
}

static void test_legacy_reply_head(void **state)
{
    uint8_t head[WIRE_REPLY_HEAD_BYTES];
    struct wire_header h;
    int32_t words[9];

    (void)state;
    wire_reply_head(head, 100, 5, 6, REPLY_AWAIT_CAPABLE);
    memcpy(&h, head, sizeof(h));
    memcpy(words, head, sizeof(words));
    assert_int_equal(h.length, 136);
    assert_int_equal(h.op_code, WIRE_OP_REPLY);
    assert_int_equal(words[4], 8);
    assert_int_equal(words[8], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c_vector),
        cmocka_unit_test(test_frame),
        cmocka_unit_test(test_frame_bounds),
        cmocka_unit_test(test_body_alone_is_not_copied),
        cmocka_unit_test(test_sequences_are_merged),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_checksum),
        cmocka_unit_test(test_section_rules),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_every_byte_flipped),
        cmocka_unit_test(test_lengths_that_lie),
        cmocka_unit_test(test_reply_head),
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_query_truncated),
        cmocka_unit_test(test_legacy_reply_head),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
