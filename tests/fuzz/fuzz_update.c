/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An update and documents: {update} or [pipeline], [array filters], {filter}, {doc}... Each gives a
 * sound document or an error; no change means the same bytes; and what the oplog says leads from
 * the old document to the new one, byte for byte.
 */
#include "base/diff.h"
#include "query/update.h"
#include "tests/fuzz/notation.h"

struct target {
    struct update *u;
    struct match *filter; /* NULL: it did not parse */
};

static void check_entry(struct op *op, struct bv old, const struct update_result *r)
{
    struct bv diff = bv_get(r->entry_o, "diff"), again = BV_NONE;
    struct bw w;

    if (r->is_replacement) {
        ASSERT(bv_identical(r->entry_o, r->doc));
        return;
    }
    ASSERT(diff_apply(op, &op->arena, old, diff, &again) == 0);
    ASSERT(bv_identical(again, r->doc));
    bw_init(&w, &op->arena);
    ASSERT(diff_describe(op, diff, true, &w) == 0);
    check_sound(bw_done(&w));
}

static void check_doc(struct input *in, const struct target *t, struct bv doc)
{
    struct update_result r = {0}, same = {0};
    int32_t position = -1;
    struct arena scratch;
    struct eval ev;
    bool matched = false;
    int rc;

    arena_init(&scratch);
    eval_init(&ev, &in->op, &scratch);
    ev.now_ms = 1700000000000;
    eval_set_row(&ev, doc);
    if (t->filter != NULL &&
        (match_test(t->filter, &ev, doc, &matched, &position) != 0 || !matched))
        position = -1;
    rc = update_apply(t->u, &ev, doc, position, &r);
    if (rc != 0) {
        check_failure(&in->op, rc);
    } else {
        check_sound(r.doc);
        ASSERT(r.changed == !bv_identical(r.doc, doc));
        if (r.changed)
            check_entry(&in->op, doc, &r);
        ASSERT(update_apply(t->u, &ev, doc, position, &same) == 0);
        ASSERT(same.changed == r.changed);
    }
    arena_fini(&scratch);
}

static void check_upsert(struct input *in, const struct target *t)
{
    struct bv doc = BV_NONE;
    struct arena scratch;
    struct eval ev;
    int rc;

    arena_init(&scratch);
    eval_init(&ev, &in->op, &scratch);
    eval_set_row(&ev, bv_empty_doc);
    rc = update_upsert_doc(t->u, &ev, t->filter, &doc);
    if (rc != 0) {
        check_failure(&in->op, rc);
    } else {
        check_sound(doc);
        ASSERT(!bv_is_missing(bv_get(doc, "_id")));
    }
    arena_fini(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct match_options o = {.vars = NULL};
    struct update_spec spec = {.upsert = true};
    struct target t = {0};
    struct input in;
    struct bv v;
    int rc;

    input_open(&in, data, size);
    spec.u = input_next(&in);
    if (!bv_is_container(spec.u))
        spec.u = bv_empty_doc;
    spec.array_filters = input_next(&in);
    if (spec.array_filters.type != BV_ARRAY || bv_empty(spec.array_filters))
        spec.array_filters = BV_NONE;
    if (match_parse(&in.op, &in.op.arena, input_doc(&in), &o, &t.filter) != 0)
        t.filter = NULL;
    rc = update_parse(&in.op, &in.op.arena, &spec, &t.u);
    if (rc != 0) {
        check_failure(&in.op, rc);
    } else {
        while (!bv_is_missing(v = input_next(&in))) {
            if (v.type == BV_DOC)
                check_doc(&in, &t, v);
        }
        if (t.filter != NULL)
            check_upsert(&in, &t);
    }
    input_close(&in);
    return 0;
}
