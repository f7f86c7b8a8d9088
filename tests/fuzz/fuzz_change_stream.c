/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The $changeStream stage: [pipeline] db coll level. Whatever it says, it is opened or refused with
 * a code and a text; what it resumes from is a position that can be told as a token again.
 */
#include "oplog/oplog_internal.h"
#include "query/change_stream_internal.h"
#include "tests/fuzz/notation.h"

static const char *name_of(struct bv v)
{
    return v.type == BV_STRING ? bv_str(v, NULL) : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct oplog none; /* only asked whether it is hidden */
    struct database database = {.oplog = &none};
    struct change_stream_args args = {0};
    struct stream_options out;
    struct arena a;
    struct input in;
    struct bv pipeline;
    int rc;

    input_open(&in, data, size);
    in.op.database = &database;
    pipeline = input_next(&in);
    args.pipeline = pipeline.type == BV_ARRAY ? pipeline : bv_empty_array;
    args.db = name_of(input_next(&in));
    if (args.db == NULL)
        args.db = "test";
    args.coll = name_of(input_next(&in));
    args.read_level = name_of(input_next(&in));
    arena_init(&a);
    rc = change_stream_parse(&in.op, &args, (size & 1) != 0, &a, &out);
    if (rc != 0) {
        check_failure(&in.op, rc);
    } else if (out.start == STREAM_FROM_TOKEN) {
        check_sound(token_encode(&a, out.resume));
    }
    arena_fini(&a);
    input_close(&in);
    return 0;
}
