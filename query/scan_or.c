/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A scan for an $or whose branches have an index each: the branches' scans one after the other.
 *
 * Every part tests the whole filter. A row is given by the part of the first branch that holds for
 * it, and passed over by the others; that needs no memory of what was given. (A document that is
 * changed while the query runs may be given twice or not at all, as in any scan.)
 */
#include "query/scan_internal.h"

struct or_scan {
    struct stage base;
    struct stage **parts;
    const struct match *either; /* the $or; its children belong to the parts */
    size_t n, at;
};

/* Whether the branch of the part in hand is the first that holds for the row. */
static int is_first(const struct or_scan *s, struct exec *x, struct bv row, bool *ret)
{
    *ret = true;
    for (size_t i = 0; i <= s->at && *ret; i++) {
        bool hit;

        TRY_RETURN(match_test(match_child(s->either, i), &x->ev, row, &hit, NULL));
        *ret = hit == (i == s->at);
    }
    return 0;
}

static int or_next(struct stage *base, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct or_scan *s = (struct or_scan *)base;

    while (s->at < s->n) {
        bool first;

        TRY_RETURN(stage_next(s->parts[s->at], x, ret, ret_more));
        if (bv_is_missing(*ret)) {
            stage_save(s->parts[s->at], x);
            s->at++;
            continue;
        }
        TRY_RETURN(is_first(s, x, *ret, &first));
        if (first)
            return 0;
        arena_reset(&x->scratch);
    }
    *ret = BV_NONE;
    *ret_more = false;
    return 0;
}

static void or_save(struct stage *base, struct exec *x)
{
    struct or_scan *s = (struct or_scan *)base;

    if (s->at < s->n)
        stage_save(s->parts[s->at], x);
}

static void or_close(struct stage *base)
{
    struct or_scan *s = (struct or_scan *)base;

    for (size_t i = 0; i < s->n; i++)
        stage_close(s->parts[i]);
}

static void or_explain(struct stage *base, struct bw *w)
{
    struct or_scan *s = (struct or_scan *)base;

    bw_arr_begin(w, "inputStages");
    for (size_t i = 0; i < s->n; i++) {
        bw_doc_begin(w, NULL);
        bw_str(w, "stage", s->parts[i]->ops->name);
        s->parts[i]->ops->explain(s->parts[i], w);
        bw_end(w);
    }
    bw_end(w);
}

static const struct stage_ops or_ops = {
    .name = "OR", .next = or_next, .save = or_save, .close = or_close, .explain = or_explain};

struct stage *scan_or_new(struct arena *a, const struct scan_spec *spec, const struct plan *plan)
{
    struct or_scan *s = ARENA_NEW(a, struct or_scan);

    s->base.ops = &or_ops;
    s->either = plan->either;
    s->n = match_nchildren(plan->either);
    s->parts = ARENA_ARRAY(a, struct stage *, s->n);
    for (size_t i = 0; i < s->n; i++)
        s->parts[i] = scan_of_plan(a, spec, &plan->branches[i]);
    return &s->base;
}

struct stage *scan_or_part(struct stage *scan)
{
    struct or_scan *s = (struct or_scan *)scan;

    if (scan->ops != &or_ops)
        return NULL;
    return s->parts[s->at < s->n ? s->at : s->n - 1];
}
