/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Resume tokens: {_data: '82...'} documents. One that is accepted can be written again, and what
 * was written is read as the same position; of two tokens each way of comparing agrees.
 */
#include "oplog/resume_token.h"
#include "tests/fuzz/notation.h"

static int sign(int x)
{
    return (x > 0) - (x < 0);
}

static void check_token(struct op *op, const struct resume_token *t)
{
    struct resume_token again = {0};
    struct resume_token v2 = *t;
    struct bv doc;

    /* Version 0 is read for old clients and never written. */
    if (v2.version == 0)
        v2.version = 1;
    doc = token_encode(&op->arena, &v2);
    check_sound(doc);
    ASSERT(token_decode(op, doc, &again) == 0);
    ASSERT(token_cmp(t, &again) == 0);
    ASSERT(bv_identical(token_encode(&op->arena, &again), doc));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct resume_token t, before;
    bool have_before = false;
    struct input in;
    struct bv v;

    input_open(&in, data, size);
    while (!bv_is_missing(v = input_next(&in))) {
        int rc;

        if (v.type != BV_DOC)
            continue;
        rc = token_decode(&in.op, v, &t);
        if (rc != 0) {
            check_failure(&in.op, rc);
            continue;
        }
        check_token(&in.op, &t);
        if (have_before)
            ASSERT(sign(token_cmp(&t, &before)) == -sign(token_cmp(&before, &t)));
        before = t;
        have_before = true;
    }
    input_close(&in);
    return 0;
}
