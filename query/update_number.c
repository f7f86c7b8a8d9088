/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Operators on numbers and on order: $inc $mul $min $max $bit. */
#include "query/update_internal.h"

/* --- $inc $mul -------------------------------------------------------------------------------- */

static int parse_number(struct update_parser *p, struct update_leaf *l, const char *verb)
{
    if (bv_is_number(l->arg))
        return 0;
    return op_fail(p->op, ERR_TYPE_MISMATCH, "Cannot %s with non-numeric argument: {%s: %s}", verb,
                   l->path, bv_show(p->a, l->arg, 200));
}

int update_parse_inc(struct update_parser *p, struct update_leaf *l)
{
    return parse_number(p, l, "increment");
}

int update_parse_mul(struct update_parser *p, struct update_leaf *l)
{
    return parse_number(p, l, "multiply");
}

static int check_number(struct update_apply *x, const struct update_leaf *l, struct bv old)
{
    if (bv_is_number(old))
        return 0;
    return op_fail(x->op, ERR_TYPE_MISMATCH,
                   "Cannot apply %s to a value of non-numeric type. {%s} has the field '%s' of "
                   "non-numeric type %s",
                   l->op->name, update_id_text(x), update_field_text(x), bv_type_name(old.type));
}

static int overflow(struct update_apply *x, const struct update_leaf *l, struct bv old)
{
    const char *type = old.type == BV_INT32 ? "NumberInt" : "NumberLong";

    return op_fail(x->op, ERR_BAD_VALUE,
                   "Failed to apply %s operations to current value ((%s)%s) for document {%s}",
                   l->op->name, type, bv_show(x->a, old, 100), update_id_text(x));
}

int update_inc(struct update_apply *x, const struct update_leaf *l, struct bv old,
               struct outcome *ret)
{
    bool over = false;
    struct bv sum;

    if (bv_is_missing(old))
        return outcome_set(ret, l->arg);
    TRY_RETURN(check_number(x, l, old));
    sum = number_add(x->a, old, l->arg, &over);
    return over ? overflow(x, l, old) : outcome_set(ret, sum);
}

/* A field that is not there becomes a zero of the argument's type. */
int update_mul(struct update_apply *x, const struct update_leaf *l, struct bv old,
               struct outcome *ret)
{
    bool over = false;
    struct bv product;

    if (bv_is_missing(old))
        old = bv_new_i32(x->a, 0);
    TRY_RETURN(check_number(x, l, old));
    product = number_mul(x->a, old, l->arg, &over);
    return over ? overflow(x, l, old) : outcome_set(ret, product);
}

/* --- $min $max -------------------------------------------------------------------------------- */

int update_min(struct update_apply *x, const struct update_leaf *l, struct bv old,
               struct outcome *ret)
{
    (void)x;
    if (bv_is_missing(old) || bv_cmp(l->arg, old) < 0)
        return outcome_set(ret, l->arg);
    return outcome_none(ret);
}

int update_max(struct update_apply *x, const struct update_leaf *l, struct bv old,
               struct outcome *ret)
{
    (void)x;
    if (bv_is_missing(old) || bv_cmp(l->arg, old) > 0)
        return outcome_set(ret, l->arg);
    return outcome_none(ret);
}

/* --- $bit ------------------------------------------------------------------------------------- */

static bool is_integer(struct bv v)
{
    return v.type == BV_INT32 || v.type == BV_INT64;
}

static bool is_bit_operation(const char *name)
{
    return strcmp(name, "and") == 0 || strcmp(name, "or") == 0 || strcmp(name, "xor") == 0;
}

int update_parse_bit(struct update_parser *p, struct update_leaf *l)
{
    struct biter it = biter(l->arg);
    struct belem e;

    if (l->arg.type != BV_DOC)
        return op_fail(p->op, ERR_BAD_VALUE,
                       "The $bit modifier is not compatible with a %s. You must pass in an "
                       "embedded document: {$bit: {field: {and/or/xor: #}}",
                       bv_type_name(l->arg.type));
    if (bv_empty(l->arg))
        return op_fail(p->op, ERR_BAD_VALUE,
                       "You must pass in at least one bitwise operation. The format is: "
                       "{$bit: {field: {and/or/xor: #}}");
    while (biter_next(&it, &e)) {
        if (!is_bit_operation(e.key))
            return op_fail(p->op, ERR_BAD_VALUE,
                           "The $bit modifier only supports 'and', 'or', and 'xor', not '%s' which "
                           "is an unknown operator: {%s: %s}",
                           e.key, e.key, bv_show(p->a, e.v, 200));
        if (!is_integer(e.v))
            return op_fail(p->op, ERR_BAD_VALUE,
                           "The $bit modifier field must be an Integer(32/64 bit); a '%s' is not "
                           "supported here: {%s: %s}",
                           bv_type_name(e.v.type), e.key, bv_show(p->a, e.v, 200));
    }
    return 0;
}

static int64_t integer(struct bv v)
{
    return v.type == BV_INT32 ? bv_i32(v) : bv_i64(v);
}

int update_bit(struct update_apply *x, const struct update_leaf *l, struct bv old,
               struct outcome *ret)
{
    struct biter it = biter(l->arg);
    struct belem e;
    bool wide = old.type == BV_INT64;
    int64_t n = 0;

    if (!bv_is_missing(old) && !is_integer(old))
        return op_fail(x->op, ERR_BAD_VALUE,
                       "Cannot apply $bit to a value of non-integral type.%s has the field %s of "
                       "non-integer type %s",
                       update_id_text(x), update_field_text(x), bv_type_name(old.type));
    if (!bv_is_missing(old))
        n = integer(old);
    while (biter_next(&it, &e)) {
        wide |= e.v.type == BV_INT64;
        if (e.key[0] == 'a')
            n &= integer(e.v);
        else if (e.key[0] == 'o')
            n |= integer(e.v);
        else
            n ^= integer(e.v);
    }
    return outcome_set(ret, wide ? bv_new_i64(x->a, n) : bv_new_i32(x->a, (int32_t)n));
}
