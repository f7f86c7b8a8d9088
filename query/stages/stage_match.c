/* SPDX-License-Identifier: GPL-3.0-or-later */
/* $match: rows that a filter accepts. */
#include "query/stage.h"

static int match_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    for (uint32_t i = 0;; i++) {
        bool ok;

        TRY_RETURN(stage_next(s->source, x, ret, ret_more));
        if (bv_is_missing(*ret))
            return 0;
        eval_set_row(&x->ev, *ret);
        TRY_RETURN(match_test(s->match, &x->ev, *ret, &ok, NULL));
        if (ok)
            return 0;
        arena_reset(&x->scratch);
        if ((i & 255) == 255)
            TRY_RETURN(op_check(x->op));
    }
}

static const struct stage_ops match_ops = {.name = "$match", .next = match_next};

int stage_match_parse(struct stage_parser *p, struct stage **ret)
{
    struct match_options o = {.vars = p->ctx->vars};
    struct match *m;
    struct stage *s;

    if (p->spec.type != BV_DOC)
        return op_fail(p->op, 15959, "the match filter must be an expression in an object");
    TRY_RETURN(match_parse(p->op, p->a, p->spec, &o, &m));
    s = STAGE_NEW(p, struct stage, &match_ops);
    s->match = m;
    *ret = s;
    return 0;
}
