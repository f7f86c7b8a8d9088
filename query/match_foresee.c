/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Foreseeing a filter's result on a document of which not all is at hand.
 *
 * The order of evaluation is match_test()'s, so that a definite answer is one that it comes to
 * without meeting anything that could fail: a risk ends the evaluation, a mere "maybe" does not.
 */
#include "base/bw.h"
#include "query/match_internal.h"

struct foresight {
    struct eval *ev;
    const struct match_fields *f;
};

/* --- leaves ----------------------------------------------------------------------------------- */

/* Whether testing some value may fail. Of kinds unknown here it may. */
static bool can_fail(const struct match *m)
{
    switch (m->kind) {
    case MATCH_EQ:
    case MATCH_NE:
    case MATCH_LT:
    case MATCH_LTE:
    case MATCH_GT:
    case MATCH_GTE:
    case MATCH_EXISTS:
    case MATCH_TYPE:
    case MATCH_SIZE:
    case MATCH_MOD:
    case MATCH_BITS:
    case MATCH_ALWAYS_TRUE:
    case MATCH_ALWAYS_FALSE:
        return false;
    case MATCH_IN:
    case MATCH_NIN:
        return m->u.in.nregexes > 0;
    case MATCH_AND:
    case MATCH_OR:
    case MATCH_NOR:
    case MATCH_NOT:
    case MATCH_ALL:
    case MATCH_ELEM_VALUE:
    case MATCH_ELEM_OBJECT:
        for (size_t i = 0; i < m->nchildren; i++) {
            if (can_fail(m->children[i]))
                return true;
        }
        return false;
    default:
        return true;
    }
}

static enum match_answer of_bool(bool hit)
{
    return hit ? MATCH_YES : MATCH_NO;
}

/* An error will be met again by whoever tests the whole document. */
static enum match_answer failed(struct foresight *x)
{
    x->ev->op->err->code = 0;
    return MATCH_RISK;
}

static enum match_answer foresee_leaf(struct foresight *x, const struct match *m)
{
    struct bv v;
    bool hit = false;

    if (m->dp == NULL)
        return MATCH_RISK;
    if (!x->f->get(x->f->arg, m->dp->parts[0].name, &v))
        return can_fail(m) ? MATCH_RISK : MATCH_MAYBE;
    if (match_test_below(m, x->ev, v, &hit) != 0)
        return failed(x);
    return of_bool(hit);
}

/* The fields that the expression reads, as a document. False: one of them is not at hand. */
static bool fields_of_expr(struct foresight *x, const struct match *m, struct bv *ret)
{
    struct bw w;
    struct bv v;

    if (expr_volatile(m->u.expr.e))
        return false;
    bw_init(&w, x->ev->scratch);
    for (size_t i = 0; i < m->u.expr.npaths; i++) {
        const char *name = m->u.expr.paths[i];

        if (name[0] == '\0' || !x->f->get(x->f->arg, name, &v))
            return false;
        bw_bv(&w, name, v);
    }
    *ret = bw_done(&w);
    return !bv_is_missing(*ret);
}

static enum match_answer foresee_expr(struct foresight *x, const struct match *m)
{
    struct bv doc;
    bool hit;

    if (!fields_of_expr(x, m, &doc))
        return MATCH_RISK;
    return match_test(m, x->ev, doc, &hit, NULL) != 0 ? failed(x) : of_bool(hit);
}

/* --- logic ------------------------------------------------------------------------------------ */

static enum match_answer negate(enum match_answer a)
{
    return a == MATCH_NO ? MATCH_YES : a == MATCH_YES ? MATCH_NO : a;
}

static enum match_answer foresee(struct foresight *x, const struct match *m);

/* `ends`: the answer of a child that decides: NO of a conjunction, YES of a disjunction. */
static enum match_answer foresee_list(struct foresight *x, const struct match *m,
                                      enum match_answer ends)
{
    enum match_answer all = negate(ends);

    for (size_t i = 0; i < m->nchildren; i++) {
        enum match_answer a = foresee(x, m->children[i]);

        if (a == ends || a == MATCH_RISK)
            return a;
        if (a == MATCH_MAYBE)
            all = a;
    }
    return all;
}

static enum match_answer foresee(struct foresight *x, const struct match *m)
{
    switch (m->kind) {
    case MATCH_ALWAYS_TRUE:
        return MATCH_YES;
    case MATCH_ALWAYS_FALSE:
        return MATCH_NO;
    case MATCH_AND:
    case MATCH_ALL:
        return foresee_list(x, m, MATCH_NO);
    case MATCH_OR:
        return foresee_list(x, m, MATCH_YES);
    case MATCH_NOR:
        return negate(foresee_list(x, m, MATCH_YES));
    case MATCH_NOT:
        return negate(foresee(x, m->children[0]));
    case MATCH_EXPR:
        return foresee_expr(x, m);
    default:
        return foresee_leaf(x, m);
    }
}

enum match_answer match_foresee(const struct match *m, struct eval *ev,
                                const struct match_fields *f)
{
    struct foresight x = {ev, f};

    return foresee(&x, m);
}

/* --- what can come of it ---------------------------------------------------------------------- */

/* The answers that foresee() can come to. */
struct outlook {
    bool no, yes, maybe, risk;
};

static struct outlook outlook(const struct match *m, const struct match_fields *f);

static struct outlook swapped(struct outlook o)
{
    return (struct outlook){o.yes, o.no, o.maybe, o.risk};
}

static struct outlook outlook_of_leaf(const struct match *m, const struct match_fields *f)
{
    bool known = m->dp != NULL && f->ever(m->dp->parts[0].name);
    bool risk = m->dp == NULL || can_fail(m);

    return (struct outlook){known, known, !risk, risk};
}

static struct outlook outlook_of_expr(const struct match *m, const struct match_fields *f)
{
    bool known = !expr_volatile(m->u.expr.e);

    for (size_t i = 0; i < m->u.expr.npaths && known; i++)
        known = m->u.expr.paths[i][0] != '\0' && f->ever(m->u.expr.paths[i]);
    return (struct outlook){known, known, false, true};
}

/* A conjunction; a disjunction is one with all negated. */
static struct outlook outlook_of_list(const struct match *m, const struct match_fields *f,
                                      bool negated)
{
    struct outlook all = {.yes = true};

    for (size_t i = 0; i < m->nchildren; i++) {
        struct outlook o = outlook(m->children[i], f);

        if (negated)
            o = swapped(o);
        all.no |= o.no;
        all.yes &= o.yes;
        all.maybe |= o.maybe;
        all.risk |= o.risk;
        if (!o.yes && !o.maybe) { /* nothing goes past it */
            all.maybe = false;
            break;
        }
    }
    return all;
}

static struct outlook outlook(const struct match *m, const struct match_fields *f)
{
    switch (m->kind) {
    case MATCH_ALWAYS_TRUE:
        return (struct outlook){.yes = true};
    case MATCH_ALWAYS_FALSE:
        return (struct outlook){.no = true};
    case MATCH_AND:
    case MATCH_ALL:
        return outlook_of_list(m, f, false);
    case MATCH_OR:
        return swapped(outlook_of_list(m, f, true));
    case MATCH_NOR:
        return outlook_of_list(m, f, true);
    case MATCH_NOT:
        return swapped(outlook(m->children[0], f));
    case MATCH_EXPR:
        return outlook_of_expr(m, f);
    default:
        return outlook_of_leaf(m, f);
    }
}

void match_outlook(const struct match *m, const struct match_fields *f, bool *ret_no,
                   bool *ret_risk)
{
    struct outlook o = outlook(m, f);

    *ret_no = o.no;
    *ret_risk = o.risk;
}
