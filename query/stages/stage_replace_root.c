/* SPDX-License-Identifier: GPL-3.0-or-later */
/* $replaceRoot and $replaceWith: the row becomes the document an expression gives. */
#include "query/stage.h"

struct replace {
    struct stage s;
    struct expr *new_root;
};

static int replace_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    const struct replace *r = (struct replace *)s;
    struct bv row, v;

    TRY_RETURN(stage_next(s->source, x, &row, ret_more));
    *ret = row;
    if (bv_is_missing(row))
        return 0;
    eval_set_row(&x->ev, row);
    TRY_RETURN(expr_eval(r->new_root, &x->ev, &v));
    if (v.type != BV_DOC)
        return op_fail(x->op, 40228,
                       "'%s' must evaluate to an object, but resulting value was: %s. Type of "
                       "resulting value: '%s'. Input document: %s",
                       strcmp(s->ops->name, "$replaceRoot") == 0 ? "newRoot"
                                                                 : "replacement document",
                       bv_is_missing(v) ? "MISSING" : bv_show(&x->scratch, v, 128),
                       bv_type_name(v.type), bv_show(&x->scratch, row, 256));
    *ret = v;
    return 0;
}

static const struct stage_ops root_ops = {.name = "$replaceRoot", .next = replace_next};
static const struct stage_ops with_ops = {.name = "$replaceWith", .next = replace_next};

static int parse(struct stage_parser *p, const struct stage_ops *ops, struct bv expr,
                 struct stage **ret)
{
    struct replace *r = STAGE_NEW(p, struct replace, ops);

    TRY_RETURN(expr_parse(p->op, p->a, expr, p->ctx->vars, &r->new_root));
    *ret = &r->s;
    return 0;
}

int stage_replace_root_parse(struct stage_parser *p, struct stage **ret)
{
    struct biter it = biter(p->spec);
    struct bv new_root = BV_NONE;
    struct belem e;

    if (p->spec.type != BV_DOC)
        return op_fail(p->op, 40229,
                       "expected an object as specification for $replaceRoot stage, got %s",
                       bv_type_name(p->spec.type));
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "newRoot") != 0)
            return op_fail(p->op, ERR_IDL_UNKNOWN_FIELD,
                           "BSON field '$replaceRoot.%s' is an unknown field.", e.key);
        new_root = e.v;
    }
    if (bv_is_missing(new_root))
        return op_fail(p->op, ERR_IDL_MISSING_FIELD,
                       "BSON field '$replaceRoot.newRoot' is missing but a required field");
    return parse(p, &root_ops, new_root, ret);
}

int stage_replace_with_parse(struct stage_parser *p, struct stage **ret)
{
    return parse(p, &with_ops, p->spec, ret);
}
