/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * $redact: an expression decides for the row, and for each document inside what it lets through,
 * whether it stays whole ($$KEEP), goes ($$PRUNE), or is entered ($$DESCEND).
 */
#include "query/expr_op.h"
#include "query/stage.h"

struct redact {
    struct stage s;
    struct expr *expr;
};

static const char *const verdicts[] = {"DESCEND", "KEEP", "PRUNE"};
enum verdict { DESCEND, KEEP, PRUNE };

static int judge(const struct redact *r, struct exec *x, struct bv doc, enum verdict *ret)
{
    struct bv v;

    x->ev.current = doc;
    TRY_RETURN(expr_eval(r->expr, &x->ev, &v));
    for (int i = DESCEND; i <= PRUNE; i++) {
        if (bv_str_is(v, verdicts[i])) {
            *ret = (enum verdict)i;
            return 0;
        }
    }
    return op_fail(x->op, 17053,
                   "$redact's expression should not return anything aside from the variables "
                   "$$KEEP, $$DESCEND, and $$PRUNE, but returned %s",
                   bv_is_missing(v) ? "nothing" : bv_show(&x->scratch, v, 128));
}

static int redact_fields(const struct redact *r, struct exec *x, struct bv doc, struct bw *w);

/* Appends what is left of a value. Recursion is as deep as stored documents are. */
static int redact_value(const struct redact *r, struct exec *x, const char *key, size_t key_len,
                        struct bv v, struct bw *w)
{
    enum verdict verdict = KEEP;

    if (v.type == BV_ARRAY) {
        bw_arr_beginn(w, key, key_len);
        TRY_RETURN(redact_fields(r, x, v, w));
        bw_end(w);
        return 0;
    }
    if (v.type == BV_DOC)
        TRY_RETURN(judge(r, x, v, &verdict));
    if (verdict == KEEP)
        bw_bvn(w, key, key_len, v);
    if (verdict != DESCEND)
        return 0;
    bw_doc_beginn(w, key, key_len);
    TRY_RETURN(redact_fields(r, x, v, w));
    bw_end(w);
    return 0;
}

static int redact_fields(const struct redact *r, struct exec *x, struct bv doc, struct bw *w)
{
    struct biter it = biter(doc);
    struct belem e;

    while (biter_next(&it, &e))
        TRY_RETURN(redact_value(r, x, e.key, e.key_len, e.v, w));
    return 0;
}

static int redact_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    const struct redact *r = (struct redact *)s;

    for (;;) {
        enum verdict verdict;
        struct bv row;
        struct bw w;

        TRY_RETURN(stage_next(s->source, x, &row, ret_more));
        *ret = row;
        if (bv_is_missing(row))
            return 0;
        TRY_RETURN(op_check(x->op));
        eval_set_row(&x->ev, row);
        TRY_RETURN(judge(r, x, row, &verdict));
        if (verdict == KEEP)
            return 0;
        if (verdict == DESCEND) {
            bw_init(&w, &x->scratch);
            TRY_RETURN(redact_fields(r, x, row, &w));
            return expr_done(&x->ev, &w, ret);
        }
        arena_reset(&x->scratch);
    }
}

static const struct stage_ops redact_ops = {.name = "$redact", .next = redact_next};

/* The three verdicts are variables of this stage alone. */
static int declare_verdicts(struct stage_parser *p, struct expr_vars *vars)
{
    for (int i = DESCEND; i <= PRUNE; i++) {
        if (vars->n == EXPR_VARS_MAX)
            return op_fail(p->op, ERR_FAILED_TO_PARSE, "more than %d variables in scope",
                           EXPR_VARS_MAX);
        vars->names[vars->n] = verdicts[i];
        vars->slots[vars->n] = vars->n;
        vars->values[vars->n] = bv_new_str(p->a, verdicts[i], strlen(verdicts[i]));
        vars->n++;
    }
    return 0;
}

int stage_redact_parse(struct stage_parser *p, struct stage **ret)
{
    struct redact *r = STAGE_NEW(p, struct redact, &redact_ops);
    struct expr_vars *vars = ARENA_NEW(p->a, struct expr_vars);

    if (p->ctx->vars != NULL)
        *vars = *p->ctx->vars;
    TRY_RETURN(declare_verdicts(p, vars));
    TRY_RETURN(expr_parse(p->op, p->a, p->spec, vars, &r->expr));
    *ret = &r->s;
    return 0;
}
