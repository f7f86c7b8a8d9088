/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Operators that set and remove fields: $set $setOnInsert $unset $currentDate. */
#include "query/update_internal.h"

int update_parse_any(struct update_parser *p, struct update_leaf *l)
{
    (void)p;
    (void)l;
    return 0;
}

int update_set(struct update_apply *x, const struct update_leaf *l, struct bv old,
               struct outcome *ret)
{
    (void)x;
    (void)old;
    return outcome_set(ret, l->arg);
}

int update_set_on_insert(struct update_apply *x, const struct update_leaf *l, struct bv old,
                         struct outcome *ret)
{
    (void)old;
    return x->inserting ? outcome_set(ret, l->arg) : outcome_none(ret);
}

int update_unset(struct update_apply *x, const struct update_leaf *l, struct bv old,
                 struct outcome *ret)
{
    (void)x;
    (void)l;
    return outcome_unset(ret, old);
}

/* --- $currentDate ----------------------------------------------------------------------------- */

static const bool as_date = false, as_timestamp = true;

int update_parse_current_date(struct update_parser *p, struct update_leaf *l)
{
    struct biter it = biter(l->arg);
    struct belem e;

    l->parsed = &as_date;
    if (l->arg.type == BV_BOOL)
        return 0;
    if (l->arg.type != BV_DOC)
        return op_fail(p->op, ERR_BAD_VALUE,
                       "%s is not valid type for $currentDate. Please use a boolean ('true') or a "
                       "$type expression ({$type: 'timestamp/date'}).",
                       bv_type_name(l->arg.type));
    l->parsed = NULL;
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "$type") != 0)
            return op_fail(p->op, ERR_BAD_VALUE, "Unrecognized $currentDate option: %s", e.key);
        l->parsed = bv_str_is(e.v, "date")        ? &as_date
                    : bv_str_is(e.v, "timestamp") ? &as_timestamp
                                                  : NULL;
    }
    if (l->parsed == NULL)
        return op_fail(p->op, ERR_BAD_VALUE,
                       "The '$type' string field is required to be 'date' or 'timestamp': "
                       "{$currentDate: {field : {$type: 'date'}}}");
    return 0;
}

int update_current_date(struct update_apply *x, const struct update_leaf *l, struct bv old,
                        struct outcome *ret)
{
    uint64_t ts = x->ev->cluster_time;

    (void)old;
    if (l->parsed == &as_date)
        return outcome_set(ret, bv_new_date(x->a, x->ev->now_ms));
    if (ts == 0) /* nothing has been written yet */
        ts = (uint64_t)(x->ev->now_ms / 1000) << 32 | 1;
    return outcome_set(ret, bv_new_ts(x->a, ts));
}
