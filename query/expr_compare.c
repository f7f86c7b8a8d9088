/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Comparison operators: the whole BSON order, no type bracketing; missing is below null. */
#include "query/expr_op.h"

static int compare(const struct expr *e, struct eval *ev, int *ret)
{
    struct bv x, y;

    TRY_RETURN(expr_eval(e->args[0], ev, &x));
    TRY_RETURN(expr_eval(e->args[1], ev, &y));
    *ret = bv_cmp(x, y);
    if (*ret == 0 && x.type != y.type && (bv_is_missing(x) || bv_is_missing(y)))
        *ret = bv_is_missing(x) ? -1 : 1; /* missing is below undefined */
    return 0;
}

int eval_cmp(const struct expr *e, struct eval *ev, struct bv *ret)
{
    int c;

    TRY_RETURN(compare(e, ev, &c));
    *ret = bv_new_i32(ev->scratch, (c > 0) - (c < 0));
    return 0;
}

#define COMPARISON(name, test)                                                                     \
    int name(const struct expr *e, struct eval *ev, struct bv *ret)                                \
    {                                                                                              \
        int c;                                                                                     \
                                                                                                   \
        TRY_RETURN(compare(e, ev, &c));                                                            \
        *ret = bv_new_bool(c test 0);                                                              \
        return 0;                                                                                  \
    }

COMPARISON(eval_eq, ==)
COMPARISON(eval_ne, !=)
COMPARISON(eval_gt, >)
COMPARISON(eval_gte, >=)
COMPARISON(eval_lt, <)
COMPARISON(eval_lte, <=)
