/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A stream of bytes as a connection reads it: framed, then each message parsed by its opcode.
 * However the bytes come in, the frames are the same ones, and a body that was accepted is sound.
 */
#include <stdlib.h>

#include "base/limits.h"
#include "tests/fuzz/notation.h"
#include "wire/legacy.h"
#include "wire/message.h"

static void parse_msg(const uint8_t *msg, size_t len)
{
    struct wire_msg parsed;
    struct error err = {0};
    struct arena a;
    int rc;

    arena_init(&a);
    rc = wire_msg_parse(msg, len, &a, &err, &parsed);
    if (rc == 0)
        check_sound(parsed.body);
    else
        ASSERT(rc == INT_CLOSE || (rc == err.code && err.text[0] != '\0'));
    arena_fini(&a);
}

static void parse_query(const uint8_t *msg, size_t len)
{
    struct wire_query q;
    struct error err = {0};
    int rc = wire_query_parse(msg, len, &err, &q);

    if (rc == 0) {
        check_sound(q.body);
        ASSERT(q.db_len <= strlen(q.ns));
    } else {
        ASSERT(rc == err.code);
    }
}

/* Fewer bytes of the same message ask for more, or already tell what is wrong. */
static void check_prefixes(const uint8_t *bytes, size_t len, enum wire_frame whole)
{
    for (size_t n = 0; n < len && n < 64; n++) {
        struct wire_header h;
        enum wire_frame f = wire_frame(bytes, n, &h);

        ASSERT(f == WIRE_FRAME_MORE || (n >= 4 && f == whole));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wire_header h;
    enum wire_frame f;
    struct bv body;

    while ((f = wire_frame(data, size, &h)) == WIRE_FRAME_DONE) {
        size_t len = (size_t)h.length;
        uint8_t *msg = malloc(len); /* of its own, so that a step past its end is seen */

        if (msg == NULL)
            abort();
        memcpy(msg, data, len);
        check_prefixes(data, len - 1, f);
        (void)wire_peek_command(msg, len);
        (void)wire_peek_body(msg, len, len, &body);
        if (h.op_code == WIRE_OP_MSG)
            parse_msg(msg, len);
        else if (h.op_code == WIRE_OP_QUERY)
            parse_query(msg, len);
        free(msg);
        data += len;
        size -= len;
    }
    check_prefixes(data, size, f);
    return 0;
}
