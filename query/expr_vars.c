/* SPDX-License-Identifier: GPL-3.0-or-later */
/* $literal, $let, $rand and the type tests. */
#include <sys/random.h>

#include "query/expr_op.h"

int parse_literal(struct expr_parser *p, struct bv spec, struct expr *e)
{
    e->kind = EXPR_CONST;
    return op_dup(p->op, p->a, spec, &e->value);
}

int eval_literal(const struct expr *e, struct eval *ev, struct bv *ret)
{
    (void)ev;
    *ret = e->value;
    return 0;
}

/* args: the values of the variables, then `in`; data: their slots (CURRENT: BASE_CURRENT) */
int parse_let(struct expr_parser *p, struct bv spec, struct expr *e)
{
    struct bv vars = BV_NONE, in = BV_NONE;
    struct biter it = biter(spec);
    struct belem el;
    uint32_t n;
    int *slots, mark = expr_scope_begin(p);

    if (spec.type != BV_DOC)
        return op_fail(p->op, 16874, "$let only supports an object as its argument");
    while (biter_next(&it, &el)) {
        if (strcmp(el.key, "vars") == 0)
            vars = el.v;
        else if (strcmp(el.key, "in") == 0)
            in = el.v;
        else
            return op_fail(p->op, 16875, "Unrecognized parameter to $let: %s", el.key);
    }
    if (bv_is_missing(vars))
        return op_fail(p->op, 16876, "Missing 'vars' parameter to $let");
    if (bv_is_missing(in))
        return op_fail(p->op, 16877, "Missing 'in' parameter to $let");
    if (vars.type != BV_DOC)
        return op_fail(p->op, 10065, "invalid parameter: expected an object (vars)");
    n = bv_count(vars);
    if (n > EXPR_VARS_MAX)
        return op_fail(p->op, ERR_FAILED_TO_PARSE, "more than %d variables in scope",
                       EXPR_VARS_MAX);
    e->nargs = n + 1;
    e->args = ARENA_ARRAY(p->a, struct expr *, n + 1);
    e->data = slots = ARENA_ARRAY(p->a, int, n + 1);
    it = biter(vars);
    for (uint32_t i = 0; biter_next(&it, &el); i++) {
        TRY_RETURN(expr_check_var_name(p->op, el.key));
        TRY_RETURN(expr_parse_operand(p, el.v, &e->args[i]));
    }
    /* The values do not see each other's variables, so these are declared only now. */
    it = biter(vars);
    for (uint32_t i = 0; biter_next(&it, &el); i++) {
        slots[i] = BASE_CURRENT;
        if (strcmp(el.key, "CURRENT") != 0)
            TRY_RETURN(expr_scope_add(p, arena_strdup(p->a, el.key), &slots[i]));
    }
    TRY_RETURN(expr_parse_operand(p, in, &e->args[n]));
    expr_scope_end(p, mark);
    return 0;
}

int eval_let(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv current = ev->current, new_current = current;
    const int *slots = e->data;
    struct bv values[EXPR_VARS_MAX];
    uint32_t n = e->nargs - 1;
    int rc;

    for (uint32_t i = 0; i < n; i++)
        TRY_RETURN(expr_eval(e->args[i], ev, &values[i]));
    for (uint32_t i = 0; i < n; i++) {
        if (slots[i] == BASE_CURRENT)
            new_current = values[i];
        else
            ev->vars[slots[i]] = values[i];
    }
    ev->current = new_current;
    rc = expr_eval(e->args[n], ev, ret);
    ev->current = current;
    return rc;
}

int parse_rand(struct expr_parser *p, struct bv spec, struct expr *e)
{
    if (!bv_is_container(spec) || !bv_empty(spec))
        return op_fail(p->op, 3040501, "$rand not allowed to have arguments");
    e->is_volatile = true;
    return 0;
}

int eval_rand(const struct expr *e, struct eval *ev, struct bv *ret)
{
    uint64_t bits = 0;

    (void)e;
    if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
        return op_fail(ev->op, ERR_INTERNAL, "no random numbers to be had");
    *ret = bv_new_f64(ev->scratch, (double)(bits >> 11) * 0x1p-53);
    return 0;
}

int eval_type(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv v;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    return expr_string(ev, bv_type_name(v.type), strlen(bv_type_name(v.type)), ret);
}

int eval_is_number(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv v;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    *ret = bv_new_bool(bv_is_number(v));
    return 0;
}

int eval_is_array(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv v;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    *ret = bv_new_bool(v.type == BV_ARRAY);
    return 0;
}
