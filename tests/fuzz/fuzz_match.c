/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A filter and documents: {filter} {doc}... Parsing twice gives the same filter, testing twice the
 * same answer, and $nor of the filter the opposite.
 */
#include "query/match.h"
#include "tests/fuzz/notation.h"

static struct bv negated(struct arena *a, struct bv filter)
{
    struct bw w;

    bw_init(&w, a);
    bw_arr_begin(&w, "$nor");
    bw_bv(&w, NULL, filter);
    bw_end(&w);
    return bw_done(&w);
}

struct filters {
    struct match *plain, *again, *nor;
};

static void check_doc(struct input *in, const struct filters *f, struct bv doc)
{
    bool yes = false, same = false, no = false;
    int32_t position, position_again;
    struct arena scratch;
    struct eval ev;
    int rc;

    arena_init(&scratch);
    eval_init(&ev, &in->op, &scratch);
    ev.now_ms = 1700000000000;
    eval_set_row(&ev, doc);
    rc = match_test(f->plain, &ev, doc, &yes, &position);
    if (rc != 0) {
        check_failure(&in->op, rc);
    } else {
        ASSERT(match_test(f->again, &ev, doc, &same, &position_again) == 0);
        ASSERT(yes == same && (!yes || position == position_again));
        if (f->nor != NULL) {
            ASSERT(match_test(f->nor, &ev, doc, &no, NULL) == 0);
            ASSERT(yes != no);
        }
    }
    arena_fini(&scratch);
}

static void count_path(void *arg, const char *path)
{
    *(size_t *)arg += strlen(path) + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct match_options o = {.vars = NULL};
    struct filters f = {0};
    struct input in;
    size_t paths = 0;
    struct bv filter, v;
    int rc;

    input_open(&in, data, size);
    filter = input_doc(&in);
    rc = match_parse(&in.op, &in.op.arena, filter, &o, &f.plain);
    if (rc != 0) {
        check_failure(&in.op, rc);
    } else {
        ASSERT(match_parse(&in.op, &in.op.arena, filter, &o, &f.again) == 0);
        /* One level more may be one too many. */
        if (match_parse(&in.op, &in.op.arena, negated(&in.op.arena, filter), &o, &f.nor) != 0)
            f.nor = NULL;
        match_paths(f.plain, count_path, &paths);
        ASSERT(bv_identical(match_show(f.plain, &in.op.arena), match_show(f.again, &in.op.arena)));
        while (!bv_is_missing(v = input_next(&in))) {
            if (v.type == BV_DOC)
                check_doc(&in, &f, v);
        }
    }
    input_close(&in);
    return 0;
}
