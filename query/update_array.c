/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Operators on arrays as sets and queues: $addToSet $pull $pullAll $pop. */
#include "query/update_internal.h"

/* --- $addToSet -------------------------------------------------------------------------------- */

/* l->parsed: the elements to add (an array), each once. */
int update_parse_add_to_set(struct update_parser *p, struct update_leaf *l)
{
    struct bv each = l->arg.type == BV_DOC ? bv_get(l->arg, "$each") : BV_NONE;
    struct bv *items = arena_alloc(p->a, sizeof(*items));
    struct values one = {&l->arg, 1};

    l->parsed = items;
    if (bv_is_missing(each))
        return values_write(p->op, p->a, &one, items);
    if (each.type != BV_ARRAY)
        return op_fail(p->op, ERR_TYPE_MISMATCH,
                       "The argument to $each in $addToSet must be an array but it was of type %s",
                       bv_type_name(each.type));
    if (bv_count(l->arg) > 1)
        return op_fail(p->op, ERR_BAD_VALUE, "Found unexpected fields after $each in $addToSet: %s",
                       bv_show(p->a, l->arg, 200));
    *items = each;
    return 0;
}

int update_add_to_set(struct update_apply *x, const struct update_leaf *l, struct bv old,
                      struct outcome *ret)
{
    struct bv arrays[2] = {old, *(const struct bv *)l->parsed};
    size_t nold = bv_count(old);
    struct value_set *set = NULL;
    struct values v;
    size_t n;

    if (!bv_is_missing(old) && old.type != BV_ARRAY)
        return op_fail(x->op, ERR_BAD_VALUE,
                       "Cannot apply $addToSet to non-array field. Field named '%s' has non-array "
                       "type %s",
                       update_field_text(x), bv_type_name(old.type));
    TRY_RETURN(values_collect(x->op, x->a, arrays, 2, &v));
    TRY_RETURN(value_set_new(x->op, x->a, v.n, &set));
    for (size_t i = 0; i < nold; i++)
        (void)value_set_add(set, v.v[i]);
    n = nold;
    for (size_t i = nold; i < v.n; i++) {
        if (value_set_add(set, v.v[i]))
            v.v[n++] = v.v[i];
    }
    if (n == nold && !bv_is_missing(old))
        return outcome_none(ret);
    v.n = n;
    ret->kind = OUTCOME_SET;
    return values_write(x->op, x->a, &v, &ret->v);
}

/* --- $pull $pullAll --------------------------------------------------------------------------- */

/* How $pull tells an element that goes. */
struct pull {
    const struct match *match; /* NULL: by equality */
    bool wrapped;              /* match is of {v: element}; else of elements that are documents */
};

#define WRAPPED_NAME "v"

static bool is_value_operator(struct bv v)
{
    static const char *const logic[] = {"$and",   "$or",      "$nor",  "$expr",
                                        "$where", "$comment", "$text", "$jsonSchema"};
    struct belem e;

    if (bv_is_missing(bv_first(v, &e)) || e.key[0] != '$')
        return false;
    for (size_t i = 0; i < sizeof(logic) / sizeof(logic[0]); i++) {
        if (strcmp(e.key, logic[i]) == 0)
            return false;
    }
    return true;
}

int update_parse_pull(struct update_parser *p, struct update_leaf *l)
{
    struct match_options o = {.vars = p->vars};
    struct pull *pull = ARENA_NEW(p->a, struct pull);
    struct match *m = NULL;
    struct bv filter = l->arg;
    struct bw w;

    l->parsed = pull;
    if (l->arg.type != BV_DOC && l->arg.type != BV_REGEX)
        return 0;
    pull->wrapped = l->arg.type == BV_REGEX || is_value_operator(l->arg);
    if (pull->wrapped) {
        bw_init(&w, p->a);
        bw_bv(&w, WRAPPED_NAME, l->arg);
        filter = bw_done(&w);
        if (bv_is_missing(filter))
            return op_fail(p->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for a $pull condition");
    }
    TRY_RETURN(match_parse(p->op, p->a, filter, &o, &m));
    pull->match = m;
    return 0;
}

static int pulls(struct update_apply *x, const struct update_leaf *l, struct bv v, bool *ret)
{
    const struct pull *pull = l->parsed;

    if (pull->match == NULL) {
        *ret = bv_cmp(v, l->arg) == 0;
        return 0;
    }
    if (pull->wrapped)
        return update_test_element(x, WRAPPED_NAME, pull->match, v, ret);
    *ret = false;
    return v.type == BV_DOC ? match_test(pull->match, x->ev, v, ret, NULL) : 0;
}

/* False when there is no array to take from. */
static int check_cullable(struct update_apply *x, struct bv old, bool *ret)
{
    *ret = old.type == BV_ARRAY;
    if (*ret || bv_is_missing(old))
        return 0;
    return op_fail(x->op, ERR_BAD_VALUE, "Cannot apply $pull to a non-array value");
}

/* The kept elements (the first `n` of v) become the field, if any went. */
static int keep(struct update_apply *x, struct values *v, size_t n, struct outcome *ret)
{
    if (n == v->n)
        return outcome_none(ret);
    v->n = n;
    ret->kind = OUTCOME_SET;
    return values_write(x->op, x->a, v, &ret->v);
}

int update_pull(struct update_apply *x, const struct update_leaf *l, struct bv old,
                struct outcome *ret)
{
    struct values v;
    size_t n = 0;
    bool there;

    TRY_RETURN(check_cullable(x, old, &there));
    if (!there)
        return outcome_none(ret);
    TRY_RETURN(values_collect(x->op, x->a, &old, 1, &v));
    for (size_t i = 0; i < v.n; i++) {
        bool goes;

        TRY_RETURN(pulls(x, l, v.v[i], &goes));
        if (!goes)
            v.v[n++] = v.v[i];
        if (i % 1024 == 1023)
            TRY_RETURN(op_check(x->op));
    }
    return keep(x, &v, n, ret);
}

/* l->parsed: the set of values to take out. */
int update_parse_pull_all(struct update_parser *p, struct update_leaf *l)
{
    struct value_set *set = NULL;
    struct biter it = biter(l->arg);
    struct belem e;

    if (l->arg.type != BV_ARRAY)
        return op_fail(p->op, ERR_BAD_VALUE,
                       "$pullAll requires an array argument but was given a %s",
                       bv_type_name(l->arg.type));
    TRY_RETURN(value_set_new(p->op, p->a, bv_count(l->arg), &set));
    while (biter_next(&it, &e))
        (void)value_set_add(set, e.v);
    l->parsed = set;
    return 0;
}

int update_pull_all(struct update_apply *x, const struct update_leaf *l, struct bv old,
                    struct outcome *ret)
{
    struct values v;
    size_t n = 0;
    bool there;

    TRY_RETURN(check_cullable(x, old, &there));
    if (!there)
        return outcome_none(ret);
    TRY_RETURN(values_collect(x->op, x->a, &old, 1, &v));
    for (size_t i = 0; i < v.n; i++) {
        if (!value_set_has(l->parsed, v.v[i]))
            v.v[n++] = v.v[i];
    }
    return keep(x, &v, n, ret);
}

/* --- $pop ------------------------------------------------------------------------------------- */

static const bool pop_first = false, pop_last = true;

int update_parse_pop(struct update_parser *p, struct update_leaf *l)
{
    int64_t n;

    if (!bv_is_number(l->arg))
        return op_fail(p->op, ERR_FAILED_TO_PARSE, "Expected a number in: %s: %s", l->path,
                       bv_show(p->a, l->arg, 200));
    if (!bv_to_i64_exact(l->arg, &n) || (n != 1 && n != -1))
        return op_fail(p->op, ERR_FAILED_TO_PARSE, "$pop expects 1 or -1, found: %s",
                       bv_show(p->a, l->arg, 200));
    l->parsed = n == 1 ? &pop_last : &pop_first;
    return 0;
}

int update_pop(struct update_apply *x, const struct update_leaf *l, struct bv old,
               struct outcome *ret)
{
    struct values v;

    if (!bv_is_missing(old) && old.type != BV_ARRAY)
        return op_fail(x->op, ERR_TYPE_MISMATCH,
                       "Path '%s' contains an element of non-array type '%s'", update_path_text(x),
                       bv_type_name(old.type));
    if (bv_empty(old))
        return outcome_none(ret);
    TRY_RETURN(values_collect(x->op, x->a, &old, 1, &v));
    v.n--;
    if (l->parsed == &pop_first)
        v.v++;
    ret->kind = OUTCOME_SET;
    return values_write(x->op, x->a, &v, &ret->v);
}
