/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Operators that set, move and remove fields: $set $setOnInsert $unset $rename $currentDate. */
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

static int unset(struct bv old, struct outcome *ret)
{
    *ret = (struct outcome){bv_is_missing(old) ? OUTCOME_NONE : OUTCOME_UNSET, BV_NONE};
    return 0;
}

int update_unset(struct update_apply *x, const struct update_leaf *l, struct bv old,
                 struct outcome *ret)
{
    (void)x;
    (void)l;
    return unset(old, ret);
}

/* --- $rename ---------------------------------------------------------------------------------- */

static int update_rename_source(struct update_apply *x, const struct update_leaf *l, struct bv old,
                                struct outcome *ret)
{
    const struct update_rename *r = l->parsed;

    return bv_is_missing(x->renamed[r->at]) ? outcome_none(ret) : unset(old, ret);
}

int update_rename_target(struct update_apply *x, const struct update_leaf *l, struct bv old,
                         struct outcome *ret)
{
    const struct update_rename *r = l->parsed;

    (void)old;
    if (bv_is_missing(x->renamed[r->at]))
        return outcome_none(ret);
    return outcome_set(ret, x->renamed[r->at]);
}

static bool is_dynamic(const struct update_leaf *l)
{
    for (uint32_t i = 0; i < l->nparts; i++) {
        if (l->parts[i].kind != PART_NAME)
            return true;
    }
    return false;
}

static bool same_path(const struct update_leaf *a, const struct update_leaf *b)
{
    uint32_t n = a->nparts < b->nparts ? a->nparts : b->nparts;

    for (uint32_t i = 0; i < n; i++) {
        if (update_cmp_parts(&a->parts[i], &b->parts[i]) != 0)
            return false;
    }
    return true;
}

static int add_rename(struct update_parser *p, const struct update_rename *r)
{
    struct update *u = p->u;
    size_t n = u->nrenames;

    /* Grown at powers of two. */
    if ((n & (n - 1)) == 0) {
        void *grown = arena_regrow(p->a, u->renames, n * sizeof(u->renames[0]),
                                   (n == 0 ? 1 : 2 * n) * sizeof(u->renames[0]));

        if (grown == NULL)
            return op_fail(p->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for an update's paths");
        u->renames = grown;
    }
    u->renames[u->nrenames++] = r;
    return 0;
}

/* l is the field to move away; a second leaf is made for where it goes. */
int update_parse_rename(struct update_parser *p, struct update_leaf *l)
{
    static const struct update_op source = {"$rename", NULL, update_rename_source, CREATES_NOTHING};
    struct update_rename *r = ARENA_NEW(p->a, struct update_rename);
    struct update_leaf *target = NULL;
    const char *to, *shown = bv_show(p->a, l->arg, 200);
    uint32_t len;

    if (l->arg.type != BV_STRING)
        return op_fail(p->op, ERR_BAD_VALUE, "The 'to' field for $rename must be a string: %s: %s",
                       l->path, shown);
    to = bv_str(l->arg, &len);
    if (strlen(to) != len)
        return op_fail(p->op, ERR_BAD_VALUE,
                       "The 'to' field for $rename cannot contain an embedded null byte");
    if (is_dynamic(l))
        return op_fail(p->op, ERR_BAD_VALUE, "The source field for $rename may not be dynamic: %s",
                       l->path);
    TRY_RETURN(update_add_leaf(p, l->op, to, BV_NONE, &target));
    if (is_dynamic(target))
        return op_fail(p->op, ERR_BAD_VALUE,
                       "The destination field for $rename may not be dynamic: %s", to);
    if (strcmp(to, l->path) == 0)
        return op_fail(p->op, ERR_BAD_VALUE,
                       "The source and target field for $rename must differ: %s: %s", l->path,
                       shown);
    if (same_path(l, target))
        return op_fail(p->op, ERR_BAD_VALUE,
                       "The source and target field for $rename must not be on the same path: "
                       "%s: %s",
                       l->path, shown);
    l->op = &source;
    r->source = l;
    r->target = target;
    r->at = p->u->nrenames;
    l->parsed = target->parsed = r;
    return add_rename(p, r);
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
