/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An expression over documents: expression {doc}... Evaluating twice gives the same sound value,
 * unless it depends on chance; a constant does not depend on the document.
 */
#include "query/expr.h"
#include "tests/fuzz/notation.h"

static void check_value(struct arena *a, struct bv v)
{
    struct bw w;

    bw_init(&w, a);
    bw_bv(&w, "v", v);
    check_sound(bw_done(&w));
}

static bool same_value(struct bv a, struct bv b)
{
    return bv_identical(a, b) || bv_cmp(a, b) == 0;
}

static void check_doc(struct input *in, const struct expr *e, struct bv doc, bool chance)
{
    struct bv first = BV_NONE, second = BV_NONE, constant;
    struct arena scratch;
    struct eval ev;
    int rc;

    arena_init(&scratch);
    eval_init(&ev, &in->op, &scratch);
    ev.now_ms = 1700000000000;
    eval_set_row(&ev, doc);
    rc = expr_eval(e, &ev, &first);
    if (rc != 0) {
        check_failure(&in->op, rc);
    } else {
        check_value(&scratch, first);
        if (!chance) {
            ASSERT(expr_eval(e, &ev, &second) == 0);
            ASSERT(same_value(first, second));
        }
        if (expr_constant(e, &constant))
            ASSERT(same_value(first, constant));
    }
    arena_fini(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool chance =
        memmem(data, size, "$rand", 5) != NULL || memmem(data, size, "$sampleRate", 11) != NULL;
    struct expr_vars vars = {0};
    struct expr *e = NULL;
    struct input in;
    struct bv v;
    int rc;

    input_open(&in, data, size);
    rc = expr_parse(&in.op, &in.op.arena, input_next(&in), &vars, &e);
    if (rc != 0) {
        check_failure(&in.op, rc);
    } else {
        (void)expr_reads_document(e);
        check_doc(&in, e, bv_empty_doc, chance);
        while (!bv_is_missing(v = input_next(&in))) {
            if (v.type == BV_DOC)
                check_doc(&in, e, v, chance);
        }
    }
    input_close(&in);
    return 0;
}
