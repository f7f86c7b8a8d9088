/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Running pipelines over documents written as JSON. */
#ifndef RUNNEL_TESTS_UNIT_STAGE_CASES_H
#define RUNNEL_TESTS_UNIT_STAGE_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "json_values.h"
#include "query/pipeline.h"

/* These tests open no oplog. Weak: where the real one is linked, that is used. */
uint64_t __attribute__((weak)) oplog_visible(struct oplog *o)
{
    (void)o;
    return 1;
}

struct stage_case {
    const char *pipeline; /* JSON array; a percent sign in a name stands for a dollar */
    const char *docs;     /* JSON array */
    const char *expected; /* JSON array of rows; NULL: an error */
    int code;
};

/* Rows out of an array, each copied to scratch first, as a scan may give them. */
struct array_source {
    struct stage s;
    struct biter it;
};

static int array_source_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct belem e;

    *ret_more = biter_next(&((struct array_source *)s)->it, &e);
    *ret = *ret_more ? bv_dup(&x->scratch, e.v) : BV_NONE;
    return 0;
}

static const struct stage_ops array_source_ops = {.name = "array", .next = array_source_next};

struct stage_run {
    const char *pipeline;
    struct bv docs;
    struct database *db; /* for spilling; may be NULL */
    bool allow_disk_use, change_stream, for_update;
    bool save_often; /* as if a batch ended after every row */
};

/* Pulls all rows into an array in op's arena. Returns the code. */
static inline int run_pipeline(struct op *op, const struct stage_run *run, struct bv *ret)
{
    struct array_source source = {.s = {.ops = &array_source_ops}, .it = biter(run->docs)};
    struct pipeline_ctx ctx = {.db = "test",
                               .coll = "c",
                               .allow_disk_use = run->allow_disk_use,
                               .change_stream = run->change_stream,
                               .for_update = run->for_update};
    struct pipeline p;
    struct stage *last;
    struct exec x;
    struct bw w;
    int rc;

    TRY_RETURN(pipeline_parse(op, &op->arena, json_value(&op->arena, run->pipeline), &ctx, &p));
    op->database = run->db;
    exec_init(&x, op);
    last = pipeline_link(&p, &source.s);
    bw_init_array(&w, &op->arena);
    for (;;) {
        struct bv row;
        bool more;

        TRY(stage_next(last, &x, &row, &more));
        if (bv_is_missing(row))
            break;
        bw_bv(&w, NULL, row);
        arena_reset(&x.scratch);
        if (run->save_often)
            stage_save(last, &x);
    }
    *ret = bw_done(&w);
fail:
    stage_close(last);
    exec_fini(&x);
    return rc;
}

static inline void run_stage_cases(const struct stage_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct stage_case *c = &cases[i];
        struct bv got = BV_NONE, want;
        struct op op;
        int rc;

        op_init(&op);
        rc = run_pipeline(
            &op,
            &(struct stage_run){.pipeline = c->pipeline, .docs = json_value(&op.arena, c->docs)},
            &got);
        if (c->expected == NULL) {
            if (rc != c->code)
                fail_msg("%s: expected error %d, got %d (%s)", c->pipeline, c->code, rc,
                         op.err->text);
        } else {
            if (rc != 0)
                fail_msg("%s: error %d: %s", c->pipeline, rc, op.err->text);
            want = json_value(&op.arena, c->expected);
            if (!bv_identical(got, want))
                fail_msg("%s: expected %s, got %s", c->pipeline, c->expected,
                         bv_show(&op.arena, got, 1000));
        }
        op_fini(&op);
    }
}

#define RUN_STAGE_CASES(table) run_stage_cases((table), sizeof(table) / sizeof((table)[0]))

#endif
