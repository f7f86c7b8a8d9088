/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Boolean and conditional operators. Operands are evaluated only as far as they decide. */
#include "query/expr_op.h"

int eval_and(const struct expr *e, struct eval *ev, struct bv *ret)
{
    *ret = bv_true;
    for (uint32_t i = 0; i < e->nargs; i++) {
        struct bv v;

        TRY_RETURN(expr_eval(e->args[i], ev, &v));
        if (!bv_truthy(v)) {
            *ret = bv_false;
            break;
        }
    }
    return 0;
}

int eval_or(const struct expr *e, struct eval *ev, struct bv *ret)
{
    *ret = bv_false;
    for (uint32_t i = 0; i < e->nargs; i++) {
        struct bv v;

        TRY_RETURN(expr_eval(e->args[i], ev, &v));
        if (bv_truthy(v)) {
            *ret = bv_true;
            break;
        }
    }
    return 0;
}

int eval_not(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv v;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    *ret = bv_new_bool(!bv_truthy(v));
    return 0;
}

/* [if, then, else] or {if, then, else}. */
int parse_cond(struct expr_parser *p, struct bv spec, struct expr *e)
{
    static const char *const names[] = {"if", "then", "else"};
    struct biter it = biter(spec);
    struct belem el;

    e->nargs = 3;
    e->args = ARENA_ARRAY(p->a, struct expr *, 3);
    if (spec.type != BV_DOC) {
        uint32_t n = spec.type == BV_ARRAY ? bv_count(spec) : 1;

        if (n != 3)
            return op_fail(p->op, 16020,
                           "Expression $cond takes exactly 3 arguments. %u were passed in.", n);
        for (int i = 0; biter_next(&it, &el); i++)
            TRY_RETURN(expr_parse_operand(p, el.v, &e->args[i]));
        return 0;
    }
    while (biter_next(&it, &el)) {
        int i = 0;

        while (i < 3 && strcmp(el.key, names[i]) != 0)
            i++;
        if (i == 3)
            return op_fail(p->op, 17083, "Unrecognized parameter to $cond: %s", el.key);
        TRY_RETURN(expr_parse_operand(p, el.v, &e->args[i]));
    }
    for (int i = 0; i < 3; i++) {
        if (e->args[i] == NULL)
            return op_fail(p->op, 17080 + i, "Missing '%s' parameter to $cond", names[i]);
    }
    return 0;
}

int eval_cond(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv v;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    return expr_eval(e->args[bv_truthy(v) ? 1 : 2], ev, ret);
}

int eval_if_null(const struct expr *e, struct eval *ev, struct bv *ret)
{
    for (uint32_t i = 0; i < e->nargs; i++) {
        TRY_RETURN(expr_eval(e->args[i], ev, ret));
        if (!bv_is_nullish(*ret))
            break;
    }
    return 0;
}

static int parse_branch(struct expr_parser *p, struct bv branch, struct expr **ret_case,
                        struct expr **ret_then)
{
    struct biter it = biter(branch);
    struct belem el;

    if (branch.type != BV_DOC)
        return op_fail(p->op, 40062, "$switch expected each branch to be an object, found: %s",
                       bv_type_name(branch.type));
    *ret_case = NULL;
    *ret_then = NULL;
    while (biter_next(&it, &el)) {
        if (strcmp(el.key, "case") == 0)
            TRY_RETURN(expr_parse_operand(p, el.v, ret_case));
        else if (strcmp(el.key, "then") == 0)
            TRY_RETURN(expr_parse_operand(p, el.v, ret_then));
        else
            return op_fail(p->op, 40063, "$switch found an unknown argument to a branch: %s",
                           el.key);
    }
    if (*ret_case == NULL)
        return op_fail(p->op, 40064, "$switch requires each branch have a 'case' expression");
    if (*ret_then == NULL)
        return op_fail(p->op, 40065, "$switch requires each branch have a 'then' expression.");
    return 0;
}

/* args: case, then, case, then, ..., default or NULL */
int parse_switch(struct expr_parser *p, struct bv spec, struct expr *e)
{
    struct bv branches = bv_get(spec, "branches");
    struct biter it = biter(spec);
    struct belem el;
    uint32_t n;

    if (spec.type != BV_DOC)
        return op_fail(p->op, 40060, "$switch requires an object as an argument, found: %s",
                       bv_type_name(spec.type));
    if (!bv_is_missing(branches) && branches.type != BV_ARRAY)
        return op_fail(p->op, 40061, "$switch expected an array for 'branches', found: %s",
                       bv_type_name(branches.type));
    n = bv_count(branches);
    e->nargs = 2 * n + 1;
    e->args = arena_try(p->a, sizeof(struct expr *) * e->nargs);
    if (e->args == NULL)
        return op_fail(p->op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory parsing an expression");
    e->args[2 * n] = NULL;
    while (biter_next(&it, &el)) {
        if (strcmp(el.key, "default") == 0)
            TRY_RETURN(expr_parse_operand(p, el.v, &e->args[2 * n]));
        else if (strcmp(el.key, "branches") != 0)
            return op_fail(p->op, 40067, "$switch found an unknown argument: %s", el.key);
    }
    it = biter(branches);
    for (uint32_t i = 0; biter_next(&it, &el); i += 2)
        TRY_RETURN(parse_branch(p, el.v, &e->args[i], &e->args[i + 1]));
    if (n == 0)
        return op_fail(p->op, 40068, "$switch requires at least one branch.");
    return 0;
}

int eval_switch(const struct expr *e, struct eval *ev, struct bv *ret)
{
    for (uint32_t i = 0; i + 1 < e->nargs; i += 2) {
        struct bv v;

        TRY_RETURN(expr_eval(e->args[i], ev, &v));
        if (bv_truthy(v))
            return expr_eval(e->args[i + 1], ev, ret);
    }
    if (e->args[e->nargs - 1] == NULL)
        return op_fail(ev->op, 40066,
                       "$switch could not find a matching branch for an input, and no default was "
                       "specified.");
    return expr_eval(e->args[e->nargs - 1], ev, ret);
}
