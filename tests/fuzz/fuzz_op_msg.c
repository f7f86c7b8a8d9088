/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * OP_MSG from text, so that most inputs have well-formed sections:
 *
 *     flags section...    section: {body}, or 'name' [{document} ...], or a number: a stray byte
 *
 * The header is made to fit; where the flags ask for a checksum there is a right one. The parsed
 * body holds the fields of the body sent, and each sequence as an array.
 */
#include "base/crc32c.h"
#include "tests/fuzz/notation.h"
#include "wire/message.h"

struct message {
    uint8_t bytes[1 << 16];
    size_t len;
};

static void put(struct message *m, const void *p, size_t n)
{
    ASSERT(m->len + n <= sizeof(m->bytes));
    memcpy(m->bytes + m->len, p, n);
    m->len += n;
}

static void put_i32(struct message *m, uint32_t x)
{
    put(m, &x, 4);
}

static uint32_t docs_size(struct bv docs)
{
    struct biter it = biter(docs);
    struct belem e;
    uint32_t n = 0;

    while (biter_next(&it, &e))
        n += e.v.type == BV_DOC ? e.v.len : 0;
    return n;
}

static void put_sequence(struct message *m, struct bv name, struct bv docs)
{
    struct biter it = biter(docs);
    struct belem e;
    uint32_t n;
    const char *s = bv_str(name, &n);

    put(m, "\1", 1);
    put_i32(m, 4 + n + 1 + docs_size(docs));
    put(m, s, n + 1);
    while (biter_next(&it, &e)) {
        if (e.v.type == BV_DOC)
            put(m, e.v.p, e.v.len);
    }
}

static void put_section(struct message *m, struct input *in, struct bv v)
{
    uint8_t stray = 0;

    if (v.type == BV_DOC) {
        put(m, "\0", 1);
        put(m, v.p, v.len);
    } else if (v.type == BV_STRING) {
        put_sequence(m, v, input_next(in));
    } else {
        stray = v.type == BV_INT32 ? (uint8_t)bv_i32(v) : 0;
        put(m, &stray, 1);
    }
}

static void compose(struct message *m, struct input *in)
{
    struct bv flags = input_next(in), v;
    uint32_t bits = flags.type == BV_INT32 ? (uint32_t)bv_i32(flags) : 0;

    m->len = 0;
    put_i32(m, 0);
    put_i32(m, 1);
    put_i32(m, 0);
    put_i32(m, WIRE_OP_MSG);
    put_i32(m, bits);
    while (!bv_is_missing(v = input_next(in)))
        put_section(m, in, v);
    bits = (bits & MSG_CHECKSUM) != 0 ? 4 : 0;
    bits += (uint32_t)m->len;
    memcpy(m->bytes, &bits, 4);
    if (bits != m->len)
        put_i32(m, crc32c(m->bytes, m->len));
}

static void check_parsed(struct message *m)
{
    struct wire_msg first, second;
    struct error err = {0};
    struct arena a;
    struct bv body;
    int rc;

    arena_init(&a);
    rc = wire_msg_parse(m->bytes, m->len, &a, &err, &first);
    if (rc == 0) {
        check_sound(first.body);
        ASSERT(wire_msg_parse(m->bytes, m->len, &a, &err, &second) == 0);
        ASSERT(bv_identical(first.body, second.body));
    } else {
        ASSERT(rc == INT_CLOSE || (rc == err.code && err.text[0] != '\0'));
    }
    (void)wire_peek_command(m->bytes, m->len);
    (void)wire_peek_body(m->bytes, m->len, m->len, &body);
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct message m;
    struct input in;

    if (size > 4096) /* what it becomes must fit */
        return 0;
    input_open(&in, data, size);
    compose(&m, &in);
    check_parsed(&m);
    input_close(&in);
    return 0;
}
