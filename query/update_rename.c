/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * $rename: two leaves, one that takes the field away and one that puts its old value elsewhere.
 * Neither end may lie inside an array.
 */
#include "query/update_internal.h"

/* --- parsing ---------------------------------------------------------------------------------- */

static int update_rename_source(struct update_apply *x, const struct update_leaf *l, struct bv old,
                                struct outcome *ret)
{
    const struct update_rename *r = l->parsed;

    return bv_is_missing(x->renamed[r->at]) ? outcome_none(ret) : outcome_unset(ret, old);
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

/* --- applying --------------------------------------------------------------------------------- */

static const char *part_text(struct update_apply *x, const struct update_part *p)
{
    return arena_strndup(x->a, p->name, p->len);
}

static int rename_through_array(struct update_apply *x, const char *which, const char *path,
                                const struct update_part *array)
{
    return op_fail(x->op, ERR_BAD_VALUE,
                   "The %s field cannot be an array element, '%s' in doc with %s has an array "
                   "field called '%s'",
                   which, path, update_id_text(x), part_text(x, array));
}

/*
 * Follows the parts of a leaf's path through the old document, indexes also through arrays.
 * *ret_array is the innermost array passed through on the way (not the value itself), or NULL.
 */
static struct bv follow(struct bv doc, const struct update_leaf *l,
                        const struct update_part **ret_array)
{
    struct bv v = doc;

    *ret_array = NULL;
    for (uint32_t i = 0; i < l->nparts; i++) {
        if (v.type == BV_ARRAY)
            *ret_array = &l->parts[i - 1];
        if (v.type == BV_ARRAY && l->parts[i].index < 0)
            return BV_NONE;
        v = bv_getn(v, l->parts[i].name, l->parts[i].len);
    }
    return v;
}

/* What each $rename moves is looked up in the old document before anything changes. */
int update_find_renamed(struct update_apply *x)
{
    x->renamed = arena_try(x->a, (x->u->nrenames + 1) * sizeof(x->renamed[0]));
    if (x->renamed == NULL)
        return op_fail(x->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for an update's paths");
    for (size_t i = 0; i < x->u->nrenames; i++) {
        const struct update_rename *r = x->u->renames[i];
        const struct update_part *array;
        struct bv v;

        TRY_RETURN(op_work(x->op, 2 * (size_t)x->doc.len));
        v = follow(x->doc, r->source, &array);
        x->renamed[i] = v;
        if (bv_is_missing(v))
            continue;
        if (array != NULL)
            return rename_through_array(x, "source", r->source->path, array);
        follow(x->doc, r->target, &array);
        if (array != NULL)
            return rename_through_array(x, "destination", r->target->path, array);
    }
    return 0;
}
