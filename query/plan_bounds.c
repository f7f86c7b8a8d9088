/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the conditions of a filter say of their paths, as intervals in BSON order.
 *
 * Index keys hold null for a missing field, undefined for an empty array, and the elements of
 * other arrays one by one: a condition that may hold for these must include them.
 */
#include <math.h>
#include <stdlib.h>

#include "query/plan.h"

#define IN_POINTS_MAX 100000 /* a longer $in bounds nothing: memory */

/* --- lists of intervals ------------------------------------------------------------------------
 */

static int cmp_interval(const void *x, const void *y)
{
    const struct interval *a = x, *b = y;
    int c = bv_cmp(a->lo, b->lo);

    return c != 0 ? c : (int)a->lo_open - (int)b->lo_open;
}

/* Sorts and merges intervals that overlap. */
static void normalise(struct intervals *x)
{
    size_t n = 0;

    if (x->n < 2)
        return;
    qsort(x->v, x->n, sizeof(x->v[0]), cmp_interval);
    for (size_t i = 1; i < x->n; i++) {
        struct interval *last = &x->v[n];
        const struct interval *next = &x->v[i];
        int c = bv_cmp(next->lo, last->hi);

        if (c > 0 || (c == 0 && (next->lo_open || last->hi_open))) {
            x->v[++n] = *next;
            continue;
        }
        c = bv_cmp(next->hi, last->hi);
        if (c > 0 || (c == 0 && last->hi_open)) {
            last->hi = next->hi;
            last->hi_open = next->hi_open;
        }
    }
    x->n = n + 1;
}

static bool is_empty(const struct interval *v)
{
    int c = bv_cmp(v->lo, v->hi);

    return c > 0 || (c == 0 && (v->lo_open || v->hi_open));
}

struct intervals intervals_intersect(struct arena *a, struct intervals x, struct intervals y)
{
    struct intervals out = {ARENA_TRY_ARRAY(a, struct interval, x.n + y.n + 1), 0};
    size_t i = 0, j = 0;

    if (out.v == NULL) /* no memory: wider bounds do, too */
        return x;
    while (i < x.n && j < y.n) {
        const struct interval *p = &x.v[i], *q = &y.v[j];
        struct interval both;
        int c = bv_cmp(p->lo, q->lo);

        both.lo = c >= 0 ? p->lo : q->lo;
        both.lo_open = c > 0 ? p->lo_open : c < 0 ? q->lo_open : p->lo_open || q->lo_open;
        c = bv_cmp(p->hi, q->hi);
        both.hi = c <= 0 ? p->hi : q->hi;
        both.hi_open = c < 0 ? p->hi_open : c > 0 ? q->hi_open : p->hi_open || q->hi_open;
        if (!is_empty(&both))
            out.v[out.n++] = both;
        if (c < 0 || (c == 0 && p->hi_open))
            i++;
        else
            j++;
    }
    return out;
}

bool intervals_are_points(struct intervals x)
{
    for (size_t i = 0; i < x.n; i++) {
        if (bv_cmp(x.v[i].lo, x.v[i].hi) != 0)
            return false;
    }
    return true;
}

struct intervals intervals_all(struct arena *a)
{
    struct interval *v = ARENA_NEW(a, struct interval);

    *v = (struct interval){bv_minkey, bv_maxkey, false, false};
    return (struct intervals){v, 1};
}

/* --- values ------------------------------------------------------------------------------------
 */

/* The least value of a type and what lies just above all of them; false: no simple bounds. */
static bool type_range(uint8_t type, struct interval *ret)
{
    static const double inf[2] = {-HUGE_VAL, HUGE_VAL};
    static const int64_t date[2] = {INT64_MIN, INT64_MAX};
    static const uint64_t ts[2] = {0, UINT64_MAX};
    static const uint8_t empty_string[5] = {1, 0, 0, 0, 0};
    static const uint8_t empty_binary[5] = {0};
    static const uint8_t oid[2][12] = {
        {0}, {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}};

#define OF(src, size, t) ((struct bv){(const uint8_t *)(src), (size), (t)})
    switch (type) {
    case BV_DOUBLE:
    case BV_INT32:
    case BV_INT64:
    case BV_DECIMAL: /* NaN lies below -infinity and is in no range */
        *ret = (struct interval){OF(&inf[0], 8, BV_DOUBLE), OF(&inf[1], 8, BV_DOUBLE), 0, 0};
        return true;
    case BV_STRING:
    case BV_SYMBOL:
        *ret = (struct interval){OF(empty_string, 5, BV_STRING), bv_empty_doc, 0, true};
        return true;
    case BV_DOC:
        *ret = (struct interval){bv_empty_doc, bv_empty_array, 0, true};
        return true;
    case BV_BINARY:
        *ret = (struct interval){OF(empty_binary, 5, BV_BINARY), OF(oid[0], 12, BV_OID), 0, true};
        return true;
    case BV_OID:
        *ret = (struct interval){OF(oid[0], 12, BV_OID), OF(oid[1], 12, BV_OID), 0, 0};
        return true;
    case BV_BOOL:
        *ret = (struct interval){bv_false, bv_true, 0, 0};
        return true;
    case BV_DATE:
        *ret = (struct interval){OF(&date[0], 8, BV_DATE), OF(&date[1], 8, BV_DATE), 0, 0};
        return true;
    case BV_TIMESTAMP:
        *ret = (struct interval){OF(&ts[0], 8, BV_TIMESTAMP), OF(&ts[1], 8, BV_TIMESTAMP), 0, 0};
        return true;
    default:
        return false;
    }
#undef OF
}

static void add_point(struct intervals *x, struct bv v)
{
    x->v[x->n++] = (struct interval){v, v, false, false};
}

/* Up to two points: an array may lie at its first element or, within an array, as itself; null
 * stands for missing fields too, which lie at undefined below an empty array. */
static void add_equal(struct intervals *x, struct bv v)
{
    if (v.type == BV_ARRAY) {
        struct bv first = bv_first(v, NULL);

        add_point(x, v);
        add_point(x, bv_is_missing(first) ? bv_undefined : first);
        if (first.type == BV_NULL)
            add_point(x, bv_undefined);
        return;
    }
    add_point(x, v);
    if (v.type == BV_NULL)
        add_point(x, bv_undefined);
}

/* False: no memory, and so no bounds. */
static bool equal(struct arena *a, const struct bv *values, size_t n, struct intervals *ret)
{
    struct intervals x = {ARENA_TRY_ARRAY(a, struct interval, 3 * n + 1), 0};

    if (x.v == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        add_equal(&x, values[i]);
    normalise(&x);
    *ret = x;
    return true;
}

static bool is_nan(struct bv v)
{
    return bv_is_number(v) && isnan(bv_to_f64(v));
}

/* False: the comparison bounds nothing. */
static bool compare(struct arena *a, enum match_kind kind, struct bv v, struct intervals *ret)
{
    struct interval *x = ARENA_NEW(a, struct interval);
    bool or_equal = kind == MATCH_LTE || kind == MATCH_GTE;

    if (v.type == BV_NULL || is_nan(v)) {
        *ret = (struct intervals){x, 0};
        if (or_equal)
            return equal(a, &v, 1, ret);
        return true;
    }
    if (!type_range(v.type, x))
        return false;
    if (kind == MATCH_GT || kind == MATCH_GTE) {
        x->lo = v;
        x->lo_open = !or_equal;
    } else {
        x->hi = v;
        x->hi_open = !or_equal;
    }
    *ret = (struct intervals){x, is_empty(x) ? 0 : 1};
    return true;
}

/* --- regular expressions ------------------------------------------------------------------------
 */

/* The literal text that every match of an anchored pattern begins with; its length, 0: none. */
static size_t regex_prefix(const char *pattern, const char *flags, const char **ret)
{
    const char *s = pattern + 1;
    size_t n;

    if (pattern[0] != '^' || flags[strspn(flags, "su")] != '\0' || strchr(pattern, '|') != NULL)
        return 0;
    n = strcspn(s, "\\^$.[]|()?*+{}");
    /* A quantifier may allow zero of the character before it. */
    if (n > 0 && s[n] != '\0' && strchr("?*{", s[n]) != NULL) {
        n--;
        while (n > 0 && ((uint8_t)s[n] & 0xC0) == 0x80)
            n--;
    }
    *ret = s;
    return n;
}

/* The expression as a value: stored in a document it matches itself. */
static struct bv regex_value(struct arena *a, const char *pattern, const char *flags)
{
    size_t np = strlen(pattern) + 1, nf = strlen(flags) + 1;
    uint8_t *both = arena_alloc(a, np + nf);

    memcpy(both, pattern, np);
    memcpy(both + np, flags, nf);
    return (struct bv){both, (uint32_t)(np + nf), BV_REGEX};
}

static bool regex(struct arena *a, const struct match *m, struct intervals *ret)
{
    const char *pattern, *flags, *prefix;
    struct interval *x = ARENA_ARRAY(a, struct interval, 2);
    size_t n;
    char *above;

    match_regex(m, &pattern, &flags);
    n = regex_prefix(pattern, flags, &prefix);
    if (n == 0)
        return false;
    above = arena_strndup(a, prefix, n);
    above[n - 1]++; /* UTF-8 has no byte 255 */
    x[0] = (struct interval){bv_new_str(a, prefix, n), bv_new_str(a, above, n), false, true};
    x[1].lo = x[1].hi = regex_value(a, pattern, flags);
    *ret = (struct intervals){x, 2};
    return true;
}

/* --- conditions ---------------------------------------------------------------------------------
 */

static bool has_null(const struct bv *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (values[i].type == BV_NULL)
            return true;
    }
    return false;
}

/* What a leaf says of its path; false: nothing that bounds it. */
static bool leaf(struct arena *a, const struct match *m, struct conjunct *c)
{
    struct bv v = match_value(m);
    const struct bv *values;
    bool regexes;
    size_t n;

    switch (match_kind(m)) {
    case MATCH_EQ:
        c->missing_ok = v.type == BV_NULL;
        return equal(a, &v, 1, &c->in);
    case MATCH_LT:
    case MATCH_LTE:
    case MATCH_GT:
    case MATCH_GTE:
        c->missing_ok = v.type == BV_NULL;
        return compare(a, match_kind(m), v, &c->in);
    case MATCH_IN:
        n = match_in_values(m, &values, &regexes);
        if (regexes || n > IN_POINTS_MAX)
            return false;
        c->missing_ok = has_null(values, n);
        return equal(a, values, n, &c->in);
    case MATCH_REGEX:
        return regex(a, m, &c->in);
    default:
        return false;
    }
}

static const char *join(struct arena *a, const char *prefix, const char *path)
{
    if (prefix[0] == '\0')
        return path;
    return path[0] == '\0' ? prefix : arena_printf(a, "%s.%s", prefix, path);
}

/* How conditions below an $elemMatch stand to the index keys. */
enum inside { INSIDE_NOTHING, INSIDE_ELEM_OBJECT, INSIDE_ELEM_VALUE };

static void collect(struct conjuncts *c, const struct match *m, const char *prefix,
                    enum inside inside);

static void add(struct conjuncts *c, const struct conjunct *q)
{
    if (c->n == c->cap) {
        size_t cap = c->cap == 0 ? 4 : c->cap * 2;

        struct conjunct *grown =
            arena_regrow(c->a, c->v, c->cap * sizeof(*c->v), cap * sizeof(*c->v));

        if (grown == NULL) /* wider bounds do, too */
            return;
        c->v = grown;
        c->cap = cap;
    }
    c->v[c->n++] = *q;
}

static void collect_leaf(struct conjuncts *c, const struct match *m, const char *prefix,
                         enum inside inside)
{
    const char *path = match_path(m);
    struct conjunct q = {0};

    /* In an element that is an array itself a number is a name, which no index key shows. */
    if (inside == INSIDE_ELEM_OBJECT && path[0] >= '0' && path[0] <= '9')
        return;
    if (c->n < PLAN_CONJUNCTS_MAX && leaf(c->a, m, &q)) {
        q.path = join(c->a, prefix, path);
        add(c, &q);
    }
}

/* {a: {$elemMatch: {$gte: 1, $lt: 5}}}: the conditions hold for one element, so they intersect. */
static void collect_elem_value(struct conjuncts *c, const struct match *m, const char *prefix)
{
    size_t first = c->n;

    collect(c, match_child(m, 0), join(c->a, prefix, match_path(m)), INSIDE_ELEM_VALUE);
    while (c->n > first + 1) {
        const struct conjunct *last = &c->v[--c->n];

        c->v[first].in = intervals_intersect(c->a, c->v[first].in, last->in);
        c->v[first].missing_ok &= last->missing_ok;
    }
}

static void collect(struct conjuncts *c, const struct match *m, const char *prefix,
                    enum inside inside)
{
    switch (match_kind(m)) {
    case MATCH_AND:
    case MATCH_ALL:
        for (size_t i = 0; i < match_nchildren(m); i++)
            collect(c, match_child(m, i), prefix, inside);
        break;
    case MATCH_ALWAYS_FALSE:
        if (c->n < PLAN_CONJUNCTS_MAX)
            add(c, &(struct conjunct){.path = "_id"});
        break;
    case MATCH_ELEM_VALUE:
        /* Elements of an element that is an array have no keys of their own. */
        if (inside != INSIDE_ELEM_VALUE)
            collect_elem_value(c, m, prefix);
        break;
    case MATCH_ELEM_OBJECT:
        if (inside != INSIDE_ELEM_VALUE)
            collect(c, match_child(m, 0), join(c->a, prefix, match_path(m)), INSIDE_ELEM_OBJECT);
        break;
    default:
        collect_leaf(c, m, prefix, inside);
        break;
    }
}

void conjuncts_collect(struct conjuncts *c, const struct match *filter)
{
    if (filter != NULL)
        collect(c, filter, "", INSIDE_NOTHING);
}
