/* SPDX-License-Identifier: GPL-3.0-or-later */
/* $group, and $sortByCount, which is a $group and a $sort. */
#include "query/group.h"

struct group_stage {
    struct stage s;
    struct group_spec spec;
    bool allow_disk;
    struct groups *groups;
    bool filled;
};

static int fill(struct group_stage *gs, struct exec *x, bool *ret_more)
{
    if (gs->groups == NULL)
        gs->groups = groups_new(&gs->spec, gs->allow_disk);
    if (gs->groups == NULL)
        return op_no_memory(x->op);
    for (uint32_t i = 0;; i++) {
        struct bv row;

        TRY_RETURN(stage_next(gs->s.source, x, &row, ret_more));
        if (bv_is_missing(row))
            break;
        eval_set_row(&x->ev, row);
        TRY_RETURN(groups_add(gs->groups, x));
        arena_reset(&x->scratch);
        if ((i & 255) == 255)
            TRY_RETURN(op_check(x->op));
    }
    if (*ret_more)
        return 0;
    TRY_RETURN(groups_finish(gs->groups, x));
    gs->filled = true;
    return 0;
}

static int group_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct group_stage *gs = (struct group_stage *)s;

    *ret = BV_NONE;
    if (!gs->filled) {
        TRY_RETURN(fill(gs, x, ret_more));
        if (!gs->filled)
            return 0;
    }
    return groups_next(gs->groups, x, ret, ret_more);
}

static void group_save(struct stage *s, struct exec *x)
{
    struct group_stage *gs = (struct group_stage *)s;

    (void)x;
    if (gs->groups != NULL)
        groups_save(gs->groups);
}

static void group_close(struct stage *s)
{
    struct group_stage *gs = (struct group_stage *)s;

    groups_free(gs->groups);
    gs->groups = NULL;
}

static const struct stage_ops group_ops = {
    .name = "$group", .next = group_next, .save = group_save, .close = group_close};

static int parse_field(struct stage_parser *p, const struct belem *field, struct group_spec *spec)
{
    const struct acc_row *row;
    struct belem e;
    struct bv arg;

    if (memchr(field->key, '.', field->key_len) != NULL)
        return op_fail(p->op, 40235, "The field name '%s' cannot contain '.'", field->key);
    if (field->key[0] == '$')
        return op_fail(p->op, 40236, "The field name '%s' cannot be an operator name", field->key);
    if (field->v.type != BV_DOC || bv_empty(field->v))
        return op_fail(p->op, 40234, "The field '%s' must be an accumulator object", field->key);
    arg = bv_first(field->v, &e);
    if (bv_count(field->v) != 1)
        return op_fail(p->op, 40238, "The field '%s' must specify one accumulator", field->key);
    row = acc_find(e.key);
    if (row == NULL)
        return op_fail(p->op, 15952, "unknown group operator '%s'", e.key);
    spec->names[spec->n] = field->key;
    TRY_RETURN(acc_parse(p->op, p->a, row, arg, p->ctx->vars, &spec->accs[spec->n]));
    spec->n++;
    return 0;
}

static int group_parse(struct stage_parser *p, struct group_spec *spec)
{
    struct biter it = biter(p->spec);
    struct belem e;

    spec->names = ARENA_TRY_ARRAY(p->a, const char *, bv_count(p->spec));
    spec->accs = ARENA_TRY_ARRAY(p->a, struct accumulator, bv_count(p->spec));
    if (spec->names == NULL || spec->accs == NULL)
        return op_no_memory(p->op);
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "_id") != 0) {
            TRY_RETURN(parse_field(p, &e, spec));
            continue;
        }
        if (spec->id != NULL)
            return op_fail(p->op, 15948, "a group's _id may only be specified once");
        TRY_RETURN(expr_parse(p->op, p->a, e.v, p->ctx->vars, &spec->id));
    }
    if (spec->id == NULL)
        return op_fail(p->op, 15955, "a group specification must include an _id");
    return 0;
}

int stage_group_parse(struct stage_parser *p, struct stage **ret)
{
    struct group_stage *gs = STAGE_NEW(p, struct group_stage, &group_ops);

    if (p->spec.type != BV_DOC)
        return op_fail(p->op, 15947, "a group's fields must be specified in an object");
    gs->allow_disk = p->ctx->allow_disk_use;
    TRY_RETURN(group_parse(p, &gs->spec));
    *ret = &gs->s;
    return 0;
}

/* --- $sortByCount
 * -------------------------------------------------------------------------------------- */

/* A sort over a group; the chain is linked through the group. */
struct sort_by_count {
    struct stage s;
    struct stage *group, *sort;
};

static int sbc_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct sort_by_count *sbc = (struct sort_by_count *)s;

    sbc->group->source = s->source;
    sbc->sort->source = sbc->group;
    return stage_next(sbc->sort, x, ret, ret_more);
}

static void sbc_save(struct stage *s, struct exec *x)
{
    struct sort_by_count *sbc = (struct sort_by_count *)s;

    sbc->group->ops->save(sbc->group, x);
    sbc->sort->ops->save(sbc->sort, x);
}

static void sbc_close(struct stage *s)
{
    struct sort_by_count *sbc = (struct sort_by_count *)s;

    sbc->group->ops->close(sbc->group);
    sbc->sort->ops->close(sbc->sort);
}

static const struct stage_ops sbc_ops = {
    .name = "$sortByCount", .next = sbc_next, .save = sbc_save, .close = sbc_close};

/* MongoDB wants a path or an expression here, and no constant. */
static int check_sort_by_count(struct stage_parser *p)
{
    struct belem e;
    uint32_t n;

    if (p->spec.type == BV_DOC) {
        bv_first(p->spec, &e);
        if (bv_empty(p->spec) || e.key[0] != '$')
            return op_fail(p->op, 40147,
                           "the sortByCount field must be defined as a $-prefixed path "
                           "or an expression inside an object");
        return 0;
    }
    if (p->spec.type == BV_STRING) {
        const char *s = bv_str(p->spec, &n);

        if (n == 0 || s[0] != '$')
            return op_fail(p->op, 40148,
                           "the sortByCount field must be defined as a $-prefixed path "
                           "or an expression inside an object");
        return 0;
    }
    return op_fail(p->op, 40149,
                   "the sortByCount field must be specified as a string or as an object");
}

int stage_sort_by_count_parse(struct stage_parser *p, struct stage **ret)
{
    struct sort_by_count *sbc = STAGE_NEW(p, struct sort_by_count, &sbc_ops);
    struct stage_parser inner = *p;
    struct bw w;

    TRY_RETURN(check_sort_by_count(p));
    bw_init(&w, p->a);
    bw_bv(&w, "_id", p->spec);
    bw_doc_begin(&w, "count");
    bw_i32(&w, "$sum", 1);
    bw_end(&w);
    inner.spec = bw_done(&w);
    TRY_RETURN(stage_group_parse(&inner, &sbc->group));
    bw_init(&w, p->a);
    bw_i32(&w, "count", -1);
    TRY_RETURN(sort_new(p->op, p->a, bw_done(&w), 0, p->ctx->allow_disk_use, &sbc->sort));
    *ret = &sbc->s;
    return 0;
}
