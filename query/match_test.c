/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Testing documents against a filter tree.
 *
 * A leaf's path yields values: through documents by name; at an array, each element in turn, then
 * (at the end of the path) the array itself. In the middle of a path only elements that are
 * documents are entered, and a numeric part also picks the element with that index, which is then
 * taken as it is. A field that is not there yields one missing value; an array without a fitting
 * element yields none. The leaf holds when one of the values passes its test; negated leaves
 * ($ne, $nin, $exists: false) hold when none does.
 *
 * Recursion is bounded by the depth of the filter and of the document.
 */
#include <math.h>
#include <stdlib.h>

#include "base/decimal.h"
#include "query/match_internal.h"

struct tester {
    struct eval *ev;
    int rc;          /* first error; the test stops */
    int32_t element; /* index found by the $elemMatch tested last */
};

static bool test_value(struct tester *t, const struct match *m, struct bv v);
static bool test_doc(struct tester *t, const struct match *m, struct bv doc, int32_t *position);

/* --- one value ------------------------------------------------------------------------------- */

static bool is_nan(struct bv v)
{
    if (v.type == BV_DOUBLE)
        return isnan(bv_f64(v));
    return v.type == BV_DECIMAL && decimal_is_nan(decimal_load(v.p));
}

static bool compare(enum match_kind test, struct bv v, struct bv operand)
{
    bool or_equal = test == MATCH_EQ || test == MATCH_LTE || test == MATCH_GTE;
    int c;

    if (bv_type_class(v.type) != bv_type_class(operand.type)) {
        if (operand.type == BV_NULL) /* since 8.0 undefined is not null */
            return or_equal && v.type == BV_MISSING;
        if (operand.type == BV_MAXKEY)
            return test == MATCH_LT || test == MATCH_LTE;
        if (operand.type == BV_MINKEY)
            return test == MATCH_GT || test == MATCH_GTE;
        return false;
    }
    /* NaN is ordered against nothing and equal to itself. */
    if (is_nan(v) || is_nan(operand))
        return or_equal && is_nan(v) && is_nan(operand);
    c = bv_cmp(v, operand);
    switch (test) {
    case MATCH_LT:
        return c < 0;
    case MATCH_LTE:
        return c <= 0;
    case MATCH_GT:
        return c > 0;
    case MATCH_GTE:
        return c >= 0;
    default:
        return c == 0;
    }
}

static bool test_regex(struct tester *t, const struct match_regex *re, struct bv v)
{
    bool found = false;
    const char *s;
    uint32_t n;

    if (v.type == BV_REGEX) {
        const char *pattern = (const char *)v.p;

        return strcmp(pattern, re->pattern) == 0 &&
               strcmp(pattern + strlen(pattern) + 1, re->flags) == 0;
    }
    if (v.type != BV_STRING && v.type != BV_SYMBOL)
        return false;
    s = bv_str(v, &n);
    if (t->rc == 0)
        t->rc = regex_find(re->code, t->ev->op, s, n, 0, &found, NULL);
    return t->rc == 0 && found;
}

static int cmp_values(const void *a, const void *b)
{
    return bv_cmp(*(const struct bv *)a, *(const struct bv *)b);
}

static bool test_in(struct tester *t, const struct match_in *in, struct bv v)
{
    if (v.type == BV_MISSING)
        return in->has_null;
    if (in->nvalues > 0 &&
        bsearch(&v, in->values, in->nvalues, sizeof(in->values[0]), cmp_values) != NULL)
        return true;
    for (size_t i = 0; i < in->nregexes; i++) {
        if (test_regex(t, &in->regexes[i], v))
            return true;
    }
    return false;
}

static bool test_mod(const struct match *m, struct bv v)
{
    int64_t n;

    if (!bv_to_i64(v, &n))
        return false;
    if (m->u.mod.divisor == -1) /* INT64_MIN % -1 overflows */
        return m->u.mod.remainder == 0;
    return n % m->u.mod.divisor == m->u.mod.remainder;
}

static bool bit_of_bytes(const uint8_t *bytes, uint32_t n, uint32_t at)
{
    return at / 8 < n && (bytes[at / 8] >> (at % 8) & 1) != 0;
}

static bool test_bits(const struct match *m, struct bv v)
{
    enum bits_test test = m->u.bits.test;
    bool want = test == BITS_ALL_SET || test == BITS_ANY_SET;
    bool any = test == BITS_ANY_SET || test == BITS_ANY_CLEAR;
    const uint8_t *bytes = NULL;
    uint32_t n = 0;
    int64_t x = 0;

    if (v.type == BV_BINARY)
        bytes = bv_bin(v, &n, NULL);
    else if (!bv_to_i64_exact(v, &x))
        return false;
    for (uint32_t i = 0; i < m->u.bits.n; i++) {
        uint32_t at = m->u.bits.at[i];
        bool set = bytes != NULL ? bit_of_bytes(bytes, n, at)
                   : at < 64     ? ((uint64_t)x >> at & 1) != 0
                                 : x < 0; /* numbers extend by their sign */

        if ((set == want) == any)
            return any;
    }
    return !any;
}

static bool test_elem_match(struct tester *t, const struct match *m, struct bv array)
{
    struct biter it = biter(array);
    struct belem e;
    int32_t i = 0;

    if (array.type != BV_ARRAY)
        return false;
    for (; t->rc == 0 && biter_next(&it, &e); i++) {
        bool hit;

        if (m->test == MATCH_ELEM_VALUE)
            hit = test_value(t, m->children[0], e.v);
        else
            hit = bv_is_container(e.v) && test_doc(t, m->children[0], e.v, NULL);
        if (hit) {
            t->element = i;
            return true;
        }
    }
    return false;
}

/* The leaf's test on one value, negation left out. */
static bool test_leaf(struct tester *t, const struct match *m, struct bv v)
{
    switch (m->test) {
    case MATCH_EXISTS:
        return !bv_is_missing(v);
    case MATCH_IN:
        return test_in(t, &m->u.in, v);
    case MATCH_REGEX:
        return test_regex(t, &m->u.regex, v);
    case MATCH_TYPE:
        return !bv_is_missing(v) && (m->u.types & match_type_bit(v.type)) != 0;
    case MATCH_SIZE:
        return v.type == BV_ARRAY && (int64_t)bv_count(v) == m->u.size;
    case MATCH_MOD:
        return test_mod(m, v);
    case MATCH_BITS:
        return test_bits(m, v);
    case MATCH_ELEM_VALUE:
    case MATCH_ELEM_OBJECT:
        return test_elem_match(t, m, v);
    default:
        return compare(m->test, v, m->value);
    }
}

/* Inside a value $elemMatch: the value itself, no path and no arrays entered. */
static bool test_value(struct tester *t, const struct match *m, struct bv v)
{
    switch (m->kind) {
    case MATCH_AND:
    case MATCH_ALL:
        for (size_t i = 0; i < m->nchildren; i++) {
            if (!test_value(t, m->children[i], v))
                return false;
        }
        return true;
    case MATCH_NOT:
        return !test_value(t, m->children[0], v);
    case MATCH_ALWAYS_TRUE:
        return true;
    case MATCH_ALWAYS_FALSE:
        return false;
    default:
        return test_leaf(t, m, v) != m->negate;
    }
}

/* --- the values at a path --------------------------------------------------------------------- */

struct walk {
    struct tester *t;
    const struct match *m;
    bool enter_last; /* an array at the end of the path is entered */
    int32_t position;
};

/* Accounts for going through a document or an array of the path. True: stop, the request ends. */
static bool spent(struct tester *t, struct bv v)
{
    if (t->rc == 0)
        t->rc = op_work(t->ev->op, v.len);
    return t->rc != 0;
}

/* offset: index in the outermost array entered, -1: none. True: stop, the leaf holds. */
static bool visit(struct walk *w, struct bv v, int32_t offset)
{
    if (w->t->rc != 0)
        return true;
    w->t->element = -1;
    if (!test_leaf(w->t, w->m, v))
        return false;
    w->position = offset >= 0 ? offset : w->t->element;
    return true;
}

static bool walk_array(struct walk *w, uint32_t part, struct bv array, int32_t offset);

static bool walk_doc(struct walk *w, uint32_t part, struct bv doc, int32_t offset)
{
    const struct doc_path *dp = w->m->dp;
    struct bv v = doc;

    if (spent(w->t, doc))
        return true;
    for (; part < dp->n; part++) {
        if (v.type == BV_ARRAY && v.p != doc.p)
            return walk_array(w, part, v, offset);
        v = bv_getn(v, dp->parts[part].name, dp->parts[part].len);
        if (bv_is_missing(v))
            break;
    }
    if (v.type == BV_ARRAY && w->enter_last)
        return walk_array(w, part, v, offset);
    return visit(w, v, offset);
}

static bool walk_array(struct walk *w, uint32_t part, struct bv array, int32_t offset)
{
    const struct doc_path *dp = w->m->dp;
    bool last = part == dp->n;
    struct biter it = biter(array);
    struct belem e;

    if (spent(w->t, array))
        return true;
    for (int32_t i = 0; biter_next(&it, &e); i++) {
        int32_t here = offset >= 0 ? offset : i;

        if (last) {
            if (visit(w, e.v, here))
                return true;
            continue;
        }
        if (e.v.type == BV_DOC && walk_doc(w, part, e.v, here))
            return true;
        if (dp->parts[part].index != i)
            continue;
        if (part + 1 == dp->n) {
            if (visit(w, e.v, here))
                return true;
        } else if (e.v.type == BV_DOC) {
            if (walk_doc(w, part + 1, e.v, offset))
                return true;
        } else if (e.v.type == BV_ARRAY) {
            if (walk_array(w, part + 1, e.v, offset))
                return true;
        }
    }
    return last && visit(w, array, offset);
}

static struct walk walk_new(struct tester *t, const struct match *m)
{
    bool whole =
        m->test == MATCH_SIZE || m->test == MATCH_ELEM_VALUE || m->test == MATCH_ELEM_OBJECT;

    return (struct walk){t, m, !whole, -1};
}

static bool test_path(struct tester *t, const struct match *m, struct bv doc, int32_t *position)
{
    struct walk w = walk_new(t, m);
    bool hit = walk_doc(&w, 0, doc, -1);

    if (t->rc != 0)
        return false;
    if (hit && !m->negate && position != NULL && w.position >= 0)
        *position = w.position;
    return hit != m->negate;
}

int match_test_below(const struct match *m, struct eval *ev, struct bv v, bool *ret)
{
    struct tester t = {ev, 0, -1};
    struct walk w = walk_new(&t, m);
    bool last = m->dp->n == 1, hit;

    if (v.type == BV_ARRAY && (!last || w.enter_last))
        hit = walk_array(&w, 1, v, -1);
    else if (v.type == BV_DOC && !last)
        hit = walk_doc(&w, 1, v, -1);
    else
        hit = visit(&w, last ? v : BV_NONE, -1);
    *ret = hit != m->negate;
    return t.rc;
}

/* --- documents -------------------------------------------------------------------------------- */

static bool test_expr(struct tester *t, const struct match *m, struct bv doc)
{
    struct bv root = t->ev->root, current = t->ev->current, v = BV_NONE;

    if (t->rc != 0)
        return false;
    t->ev->root = t->ev->current = doc;
    t->rc = expr_eval(m->u.expr.e, t->ev, &v);
    t->ev->root = root;
    t->ev->current = current;
    return t->rc == 0 && bv_truthy(v);
}

static bool test_all(struct tester *t, const struct match *m, struct bv doc, int32_t *position)
{
    for (size_t i = 0; i < m->nchildren; i++) {
        if (!test_doc(t, m->children[i], doc, position)) {
            if (position != NULL)
                *position = -1;
            return false;
        }
    }
    return true;
}

/* A disjunction tells no position, as in MongoDB. */
static bool test_any(struct tester *t, const struct match *m, struct bv doc)
{
    for (size_t i = 0; i < m->nchildren; i++) {
        if (test_doc(t, m->children[i], doc, NULL))
            return true;
    }
    return false;
}

static bool test_doc(struct tester *t, const struct match *m, struct bv doc, int32_t *position)
{
    switch (m->kind) {
    case MATCH_ALWAYS_TRUE:
        return true;
    case MATCH_ALWAYS_FALSE:
        return false;
    case MATCH_AND:
    case MATCH_ALL:
        return test_all(t, m, doc, position);
    case MATCH_OR:
        return test_any(t, m, doc);
    case MATCH_NOR:
        return !test_any(t, m, doc);
    case MATCH_NOT:
        return !test_doc(t, m->children[0], doc, NULL);
    case MATCH_EXPR:
        return test_expr(t, m, doc);
    default:
        return test_path(t, m, doc, position);
    }
}

int match_test(const struct match *m, struct eval *ev, struct bv doc, bool *ret,
               int32_t *ret_position)
{
    struct tester t = {ev, 0, -1};
    int32_t position = -1;
    bool hit = test_doc(&t, m, doc, &position);

    if (t.rc != 0)
        return t.rc;
    *ret = hit;
    if (ret_position != NULL)
        *ret_position = hit ? position : -1;
    return 0;
}
