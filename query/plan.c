/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "query/plan.h"

#include "query/pipeline.h"
#include "storage/key_string.h"

/* Weights of the cost rule; a field deeper in the key only counts when all before it are points. */
enum {
    SCORE_POINT = 100,
    SCORE_POINTS = 60, /* several single values */
    SCORE_RANGE = 30,  /* bounded at both ends */
    SCORE_HALF = 20,   /* bounded at one end */
    SCORE_SORT = 15,
    SCORE_UNIQUE = 10000,
};

struct chooser {
    struct op *op;
    struct arena *a;
    const struct scan_spec *spec;
    struct conjuncts conjuncts;
};

static bool natural(struct bv v, int64_t *ret_direction)
{
    struct belem e;

    return v.type == BV_DOC && !bv_is_missing(bv_first(v, &e)) && strcmp(e.key, "$natural") == 0 &&
           bv_to_i64(e.v, ret_direction);
}

/* --- bounds of an index's fields -----------------------------------------------------------------
 */

static bool same_root(const char *a, const char *b)
{
    size_t n = strcspn(a, "."), m = strcspn(b, ".");

    return n == m && memcmp(a, b, n) == 0;
}

/* 0: no bound at all */
static int score(struct intervals x)
{
    if (x.n == 1 && x.v[0].lo.type == BV_MINKEY && x.v[0].hi.type == BV_MAXKEY)
        return 0;
    if (intervals_are_points(x))
        return x.n <= 1 ? SCORE_POINT : SCORE_POINTS;
    return SCORE_HALF;
}

/* The intervals of one field: all conditions on its path together, or with several keys a document
 * the best one of them. */
static struct intervals field_bounds(struct chooser *c, const char *path, bool multikey,
                                     int *ret_score)
{
    struct intervals best = intervals_all(c->a);
    size_t used = 0;

    *ret_score = 0;
    for (size_t i = 0; i < c->conjuncts.n; i++) {
        const struct conjunct *q = &c->conjuncts.v[i];

        if (strcmp(q->path, path) != 0)
            continue;
        if (!multikey) {
            best = used == 0 ? q->in : intervals_intersect(c->a, best, q->in);
        } else if (score(q->in) > *ret_score) {
            best = q->in;
            *ret_score = score(q->in);
        }
        used++;
    }
    if (!multikey && used > 0) {
        *ret_score = score(best);
        if (used > 1 && *ret_score == SCORE_HALF)
            *ret_score = SCORE_RANGE;
    }
    return best;
}

/* True when the filter leaves out every document that is not in the sparse index. */
static bool sparse_fits(const struct chooser *c, const struct index *ix)
{
    for (uint32_t f = 0; f < ix->nfields; f++) {
        for (size_t i = 0; i < c->conjuncts.n; i++) {
            if (strcmp(c->conjuncts.v[i].path, ix->fields[f].path) == 0 &&
                !c->conjuncts.v[i].missing_ok)
                return true;
        }
    }
    return false;
}

/* Fields that share an array with a bound one before them are left open: their conditions may
 * hold for another element. */
static bool shares_array(const struct plan *p, uint32_t f)
{
    for (uint32_t g = 0; g < f; g++) {
        if (same_root(p->ix->fields[g].path, p->ix->fields[f].path))
            return true;
    }
    return false;
}

static int bound_fields(struct chooser *c, struct plan *p)
{
    int total = 0;
    uint32_t points = 0;
    bool open = true;

    p->fields = ARENA_ARRAY(c->a, struct intervals, p->ix->nfields);
    for (uint32_t f = 0; f < p->ix->nfields; f++) {
        int s = 0;

        p->fields[f] = intervals_all(c->a);
        if (!open || (p->multikey && shares_array(p, f))) {
            open = false;
            continue;
        }
        p->fields[f] = field_bounds(c, p->ix->fields[f].path, p->multikey, &s);
        total += s;
        points += s == SCORE_POINT;
        open = s == SCORE_POINT || s == SCORE_POINTS;
    }
    if (points == p->ix->nfields && (p->ix->unique || p->ix->is_id))
        total += SCORE_UNIQUE;
    return total;
}

/* --- order -------------------------------------------------------------------------------------
 */

static bool is_single(struct intervals x)
{
    return x.n == 1 && intervals_are_points(x);
}

/* Whether reading the index gives the wanted order, and in which direction. Fields bound to one
 * value may be left out of either list. */
static bool gives_order(const struct plan *p, struct bv sort, bool *ret_backward)
{
    struct biter it = biter(sort);
    struct belem e;
    uint32_t f = 0;
    bool backward = false, decided = false;

    if (p->multikey)
        return false;
    while (biter_next(&it, &e)) {
        int64_t direction;
        bool reversed;

        if (!bv_to_i64_exact(e.v, &direction) || (direction != 1 && direction != -1))
            return false;
        while (f < p->ix->nfields && strcmp(p->ix->fields[f].path, e.key) != 0 &&
               is_single(p->fields[f]))
            f++;
        if (f == p->ix->nfields || strcmp(p->ix->fields[f].path, e.key) != 0)
            return false;
        reversed = (direction < 0) != p->ix->fields[f].descending;
        if (!is_single(p->fields[f])) {
            if (decided && reversed != backward)
                return false;
            decided = true;
            backward = reversed;
        }
        f++;
    }
    *ret_backward = backward;
    return true;
}

/* --- candidates ----------------------------------------------------------------------------------
 */

static int consider(struct chooser *c, struct index *ix, struct plan *ret)
{
    struct bv sort = c->spec->sort;
    int64_t direction;
    int total;

    memset(ret, 0, sizeof(*ret));
    ret->kind = PLAN_IXSCAN;
    ret->ix = ix;
    ret->multikey = index_is_multikey(ix);
    total = bound_fields(c, ret);
    if (!bv_empty(sort) && !natural(sort, &direction) && gives_order(ret, sort, &ret->backward)) {
        ret->sorted = true;
        total += SCORE_SORT;
    }
    return total;
}

static void choose_index(struct chooser *c, struct plan *ret)
{
    struct coll *k = c->spec->k;
    int best = 0;

    for (uint32_t i = 0; i < k->nindexes; i++) {
        struct index *ix = &k->indexes[i];
        struct plan p;
        int total;

        if (ix->hidden || (ix->sparse && !sparse_fits(c, ix)))
            continue;
        total = consider(c, ix, &p);
        if (total > best) {
            best = total;
            *ret = p;
        }
    }
}

static int hinted_index(struct chooser *c, struct index **ret)
{
    struct bv hint = c->spec->hint;
    struct index *ix = NULL;

    if (hint.type == BV_STRING)
        ix = coll_index_by_name(c->spec->k, bv_str(hint, NULL));
    else if (hint.type == BV_DOC)
        ix = coll_index_by_key(c->spec->k, hint);
    if (ix == NULL || ix->hidden)
        return op_fail(c->op, ERR_BAD_VALUE,
                       "error processing query: ns=%s planner returned error :: caused by :: hint "
                       "provided does not correspond to an existing index",
                       c->spec->k->ns);
    *ret = ix;
    return 0;
}

/* --- min and max ---------------------------------------------------------------------------------
 */

static int limit_key(struct chooser *c, const struct index *ix, struct bv limit, struct bytes *ret)
{
    struct ks_builder k;
    struct biter it = biter(limit);
    struct belem e;
    uint32_t f = 0;

    ks_init(&k, c->a);
    for (; biter_next(&it, &e); f++) {
        if (f == ix->nfields || strcmp(e.key, ix->fields[f].path) != 0)
            break;
        ks_append(&k, e.v, ix->fields[f].descending);
    }
    if (k.failed)
        return op_no_memory(c->op);
    if (f != ix->nfields || f != bv_count(limit))
        return op_fail(c->op, 51174,
                       "The index chosen is not compatible with min/max: they must name the "
                       "fields of its key in order");
    *ret = (struct bytes){k.buf, k.len};
    return 0;
}

/* [min, max) in the order of the index; its ranges replace those of the filter. */
static int use_limits(struct chooser *c, struct plan *p)
{
    struct key_range *r = ARENA_NEW(c->a, struct key_range);

    r->to_after = true;
    if (!bv_empty(c->spec->min))
        TRY_RETURN(limit_key(c, p->ix, c->spec->min, &r->from));
    if (!bv_empty(c->spec->max)) {
        TRY_RETURN(limit_key(c, p->ix, c->spec->max, &r->to));
        r->to_after = false;
    }
    p->ranges = r;
    p->nranges = 1;
    for (uint32_t f = 0; f < p->ix->nfields; f++)
        p->fields[f] = intervals_all(c->a);
    return 0;
}

/* --- the choice ----------------------------------------------------------------------------------
 */

static int choose_hinted(struct chooser *c, bool limits, struct plan *ret)
{
    struct index *ix = NULL;

    TRY_RETURN(hinted_index(c, &ix));
    consider(c, ix, ret);
    if (limits)
        return use_limits(c, ret);
    plan_ranges(c->a, ret);
    return 0;
}

static void choose_freely(struct chooser *c, struct plan *ret)
{
    choose_index(c, ret);
    if (ret->kind != PLAN_IXSCAN)
        return;
    for (uint32_t f = 0; f < ret->ix->nfields; f++) {
        if (ret->fields[f].n == 0) {
            ret->kind = PLAN_NOTHING;
            ret->sorted = true;
            return;
        }
    }
    if (ret->ix->is_id && is_single(ret->fields[0])) {
        ret->kind = PLAN_ID;
        ret->id = ret->fields[0].v[0].lo;
        ret->sorted = true;
        return;
    }
    plan_ranges(c->a, ret);
}

/* --- $or -----------------------------------------------------------------------------------------
 */

#define BRANCHES_MAX 64 /* an $or of more is tested document by document */

/* A plan for each branch: what it says and what stands beside the $or hold together. */
static bool plan_branches(struct chooser *c, const struct match *either, struct plan *ret)
{
    size_t n = match_nchildren(either), outer = c->conjuncts.n;
    struct plan *branches;

    if (n > BRANCHES_MAX)
        return false;
    branches = ARENA_ARRAY(c->a, struct plan, n);
    for (size_t i = 0; i < n; i++) {
        branches[i].kind = PLAN_COLLSCAN;
        c->conjuncts.n = outer;
        conjuncts_collect(&c->conjuncts, match_child(either, i));
        choose_freely(c, &branches[i]);
        if (branches[i].kind == PLAN_COLLSCAN)
            return false;
    }
    *ret = (struct plan){.kind = PLAN_OR, .either = either, .branches = branches};
    return true;
}

static void choose_or(const struct chooser *c, struct plan *ret)
{
    const struct match *m = c->spec->filter;
    struct scan_spec unsorted = *c->spec;
    struct chooser inner = *c;

    if (m == NULL)
        return;
    unsorted.sort = BV_NONE; /* branches one after the other give no order */
    inner.spec = &unsorted;
    if (match_kind(m) == MATCH_OR)
        (void)plan_branches(&inner, m, ret);
    for (size_t i = 0; match_kind(m) == MATCH_AND && i < match_nchildren(m); i++) {
        inner.conjuncts.n = c->conjuncts.n;
        if (match_kind(match_child(m, i)) == MATCH_OR &&
            plan_branches(&inner, match_child(m, i), ret))
            break;
    }
}

bool plan_is_one_id(struct bv id)
{
    switch (id.type) {
    case BV_OID:
    case BV_STRING:
    case BV_INT32:
    case BV_INT64:
    case BV_BINARY:
    case BV_DATE:
        return true;
    default:
        return false;
    }
}

static bool is_one_id(const struct match *m, struct bv *ret)
{
    if (m == NULL || match_kind(m) != MATCH_EQ || strcmp(match_path(m), "_id") != 0)
        return false;
    *ret = match_value(m);
    return plan_is_one_id(*ret);
}

static bool has_hint(const struct scan_spec *spec)
{
    return spec->hint.type == BV_STRING || !bv_empty(spec->hint);
}

int plan_choose(struct op *op, struct arena *a, const struct scan_spec *spec, struct plan *ret)
{
    struct chooser c = {.op = op, .a = a, .spec = spec, .conjuncts = {.a = a}};
    bool limits = !bv_empty(spec->min) || !bv_empty(spec->max);
    int64_t direction = 1;

    memset(ret, 0, sizeof(*ret));
    ret->kind = PLAN_COLLSCAN;
    if (limits && !has_hint(spec))
        return op_fail(op, 51173,
                       "When using min()/max() a hint of which index to use must be provided");
    if (spec->k == NULL) {
        ret->kind = PLAN_NOTHING;
        ret->sorted = true;
        return 0;
    }
    if (natural(spec->hint, &direction) || natural(spec->sort, &direction)) {
        ret->backward = direction < 0;
        ret->sorted = natural(spec->sort, &direction);
        return 0;
    }
    if (!has_hint(spec) && is_one_id(spec->filter, &ret->id)) {
        ret->kind = PLAN_ID;
        ret->ix = &spec->k->indexes[0];
        ret->sorted = ret->exact = true;
        return 0;
    }
    conjuncts_collect(&c.conjuncts, spec->filter);
    if (has_hint(spec))
        return choose_hinted(&c, limits, ret);
    choose_freely(&c, ret);
    if (ret->kind == PLAN_COLLSCAN)
        choose_or(&c, ret);
    return 0;
}
