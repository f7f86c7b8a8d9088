/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A pipeline over documents: [stages] {doc}... Run twice, the second time as if a batch ended after
 * every row; both give the same rows or the same error.
 */
#include <stdlib.h>

#include "query/pipeline.h"
#include "tests/fuzz/notation.h"

enum { ROWS_MAX = 2000 };

struct rows {
    struct stage s;
    struct biter it;
};

static int rows_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct belem e;

    while ((*ret_more = biter_next(&((struct rows *)s)->it, &e)) && e.v.type != BV_DOC) {
    }
    *ret = *ret_more ? bv_dup(&x->scratch, e.v) : BV_NONE;
    return 0;
}

static const struct stage_ops rows_ops = {.name = "rows", .next = rows_next};

static int pull(struct stage *last, struct exec *x, bool save_often, struct bw *out)
{
    for (size_t n = 0; n < ROWS_MAX; n++) {
        struct bv row;
        bool more;

        TRY_RETURN(stage_next(last, x, &row, &more));
        if (bv_is_missing(row))
            return 0;
        check_sound(row);
        bw_bv(out, NULL, row);
        arena_reset(&x->scratch);
        if (save_often)
            stage_save(last, x);
    }
    return 0;
}

static int run(struct input *in, struct bv stages, bool save_often, struct bv *ret)
{
    struct rows source = {.s = {.ops = &rows_ops}, .it = in->values};
    struct pipeline_ctx ctx = {.db = "test", .coll = "c"};
    struct pipeline p = {0};
    struct stage *last;
    struct exec x;
    struct bw w;
    int rc;

    TRY_RETURN(pipeline_parse(&in->op, &in->op.arena, stages, &ctx, &p));
    exec_init(&x, &in->op);
    x.ev.now_ms = 1700000000000;
    last = pipeline_link(&p, &source.s);
    bw_init_array(&w, &in->op.arena);
    rc = pull(last, &x, save_often, &w);
    *ret = bw_done(&w);
    stage_close(last);
    exec_fini(&x);
    return rc;
}

/* Where the stages may also stand; both only add rules. */
static void parse_elsewhere(struct input *in, struct bv stages)
{
    struct pipeline_ctx ctx[] = {{.db = "test", .coll = "c", .change_stream = true},
                                 {.db = "test", .coll = "c", .for_update = true}};

    for (size_t i = 0; i < sizeof(ctx) / sizeof(ctx[0]); i++) {
        struct pipeline p;
        int rc = pipeline_parse(&in->op, &in->op.arena, stages, &ctx[i], &p);

        ASSERT(rc == 0 || in->op.err->code == rc);
    }
}

static bool depends_on_chance(const uint8_t *data, size_t size)
{
    return memmem(data, size, "$rand", 5) != NULL || memmem(data, size, "$sampleRate", 11) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bv stages, first = BV_NONE, second = BV_NONE;
    struct input in;
    int rc;

    input_open(&in, data, size);
    stages = input_next(&in);
    if (stages.type != BV_ARRAY)
        stages = bv_empty_array;
    rc = run(&in, stages, false, &first);
    if (rc != 0)
        check_failure(&in.op, rc);
    if (!depends_on_chance(data, size)) {
        ASSERT(run(&in, stages, true, &second) == rc);
        ASSERT(rc != 0 || bv_identical(first, second));
    }
    parse_elsewhere(&in, stages);
    input_close(&in);
    return 0;
}
