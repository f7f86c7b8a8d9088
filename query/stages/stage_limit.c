/* SPDX-License-Identifier: GPL-3.0-or-later */
/* $limit and $skip. */
#include "query/stage.h"

struct counted {
    struct stage s;
    int64_t n;    /* as asked for */
    int64_t left; /* rows still to give, or still to drop */
};

static int limit_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct counted *c = (struct counted *)s;

    if (c->left == 0) {
        *ret = BV_NONE;
        *ret_more = false;
        return 0;
    }
    TRY_RETURN(stage_next(s->source, x, ret, ret_more));
    if (!bv_is_missing(*ret))
        c->left--;
    return 0;
}

static int skip_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct counted *c = (struct counted *)s;

    for (;;) {
        TRY_RETURN(stage_next(s->source, x, ret, ret_more));
        if (bv_is_missing(*ret) || c->left == 0)
            return 0;
        c->left--;
        arena_reset(&x->scratch);
        if ((c->left & 255) == 255)
            TRY_RETURN(op_check(x->op));
    }
}

static void limit_explain(struct stage *s, struct bw *w)
{
    bw_i64(w, "limitAmount", ((struct counted *)s)->n);
}

static void skip_explain(struct stage *s, struct bw *w)
{
    bw_i64(w, "skipAmount", ((struct counted *)s)->n);
}

static const struct stage_ops limit_ops = {
    .name = "$limit", .next = limit_next, .explain = limit_explain, .plan = "LIMIT"};
static const struct stage_ops skip_ops = {
    .name = "$skip", .next = skip_next, .explain = skip_explain, .plan = "SKIP"};

static struct stage *counted_new(struct arena *a, const struct stage_ops *ops, int64_t n)
{
    struct counted *c = stage_new(a, sizeof(*c), ops, BV_NONE);

    c->n = n;
    c->left = n;
    return &c->s;
}

struct stage *limit_new(struct arena *a, int64_t n)
{
    return counted_new(a, &limit_ops, n);
}

struct stage *skip_new(struct arena *a, int64_t n)
{
    return counted_new(a, &skip_ops, n);
}

int64_t limit_of(const struct stage *s)
{
    return s->ops == &limit_ops ? ((const struct counted *)s)->n : -1;
}

int64_t skip_of(const struct stage *s)
{
    return s->ops == &skip_ops ? ((const struct counted *)s)->n : -1;
}

int stage_limit_parse(struct stage_parser *p, struct stage **ret)
{
    int64_t n;

    TRY_RETURN(stage_int(p, 5107201, 15958, 1, &n));
    *ret = limit_new(p->a, n);
    (*ret)->spec = p->doc;
    return 0;
}

int stage_skip_parse(struct stage_parser *p, struct stage **ret)
{
    int64_t n;

    TRY_RETURN(stage_int(p, 5107200, 5107200, 0, &n));
    *ret = skip_new(p->a, n);
    (*ret)->spec = p->doc;
    return 0;
}
