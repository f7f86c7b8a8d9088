/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Diffs: {pre} {post} {diff}. Applying what diff_compute() gives leads from pre to post byte for
 * byte; any document taken as a diff gives a sound document or an error, and a description of it
 * does too.
 */
#include "base/diff.h"
#include "tests/fuzz/notation.h"

static void check_computed(struct op *op, struct bv pre, struct bv post)
{
    struct bv diff = BV_NONE, back = BV_NONE;
    struct bw w;
    int rc = diff_compute(op, &op->arena, pre, post, &diff);

    if (rc != 0) {
        check_failure(op, rc);
        return;
    }
    if (bv_is_missing(diff))
        return;
    check_sound(diff);
    ASSERT(diff_apply(op, &op->arena, pre, diff, &back) == 0);
    ASSERT(bv_identical(back, post));
    bw_init(&w, &op->arena);
    ASSERT(diff_describe(op, diff, true, &w) == 0);
    check_sound(bw_done(&w));
}

static void check_given(struct op *op, struct bv pre, struct bv diff)
{
    struct bv out = BV_NONE;
    int rc = diff_apply(op, &op->arena, pre, diff, &out);
    struct bw w;

    if (rc == 0)
        check_sound(out);
    else
        check_failure(op, rc);
    bw_init(&w, &op->arena);
    rc = diff_describe(op, diff, false, &w);
    if (rc != 0)
        check_failure(op, rc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bv pre, post;
    struct input in;

    input_open(&in, data, size);
    pre = input_doc(&in);
    post = input_doc(&in);
    check_computed(&in.op, pre, post);
    check_computed(&in.op, post, pre);
    check_given(&in.op, pre, input_doc(&in));
    input_close(&in);
    return 0;
}
