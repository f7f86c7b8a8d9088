/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From intervals of index fields to ranges of index keys, and both as text for explain.
 *
 * Leading fields that are bound to points become prefixes, every combination one; the first field
 * with a wider interval ends a range. Later fields bound nothing.
 */
#include <stdlib.h>

#include "query/plan.h"
#include "storage/key_string.h"

#define RANGES_MAX 20000 /* more combinations: the fields that multiply further bound nothing */

static int cmp_bytes(struct bytes a, struct bytes b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n == 0 ? 0 : memcmp(a.p, b.p, n);

    return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

/* How a whole key stands to a bound: 0 when the key begins with it. */
static int cmp_prefix(struct bytes key, struct bytes bound)
{
    if (key.len > bound.len)
        key.len = bound.len;
    return cmp_bytes(key, bound);
}

int key_range_cmp(const struct key_range *r, struct bytes key)
{
    int c;

    if (r->from.len > 0) {
        c = cmp_prefix(key, r->from);
        if (c < 0 || (c == 0 && r->from_after))
            return -1;
    }
    if (r->to.len > 0) {
        c = cmp_prefix(key, r->to);
        if (c > 0 || (c == 0 && !r->to_after))
            return 1;
    }
    return 0;
}

/* False: memory is out. */
static bool append(struct arena *a, struct bytes prefix, struct bv v, bool descending,
                   struct bytes *ret)
{
    struct ks_builder k;
    uint8_t *p;

    ks_init(&k, a);
    ks_append(&k, v, descending);
    p = k.failed ? NULL : arena_try(a, prefix.len + k.len);
    if (p == NULL)
        return false;
    if (prefix.len > 0)
        memcpy(p, prefix.p, prefix.len);
    memcpy(p + prefix.len, k.buf, k.len);
    *ret = (struct bytes){p, prefix.len + k.len};
    return true;
}

/* The range of one interval of a field behind a prefix of points. False: memory is out. */
static bool narrow(struct arena *a, struct bytes prefix, const struct interval *v, bool descending,
                   struct key_range *ret)
{
    bool low_end = v->lo.type == BV_MINKEY && !v->lo_open;
    bool high_end = v->hi.type == BV_MAXKEY && !v->hi_open;
    struct bytes lo = prefix, hi = prefix;

    if ((!low_end && !append(a, prefix, v->lo, descending, &lo)) ||
        (!high_end && !append(a, prefix, v->hi, descending, &hi)))
        return false;
    /* Open at the low end: ascending the range begins behind its keys, descending it ends before.
     */
    if (descending)
        *ret = (struct key_range){hi, lo, v->hi_open, !v->lo_open};
    else
        *ret = (struct key_range){lo, hi, v->lo_open, !v->hi_open};
    return true;
}

static size_t in_key_order(const struct intervals *x, size_t i, bool descending)
{
    return descending ? x->n - 1 - i : i;
}

void plan_ranges(struct arena *a, struct plan *p)
{
    struct key_range *ranges = ARENA_NEW(a, struct key_range); /* everything */
    size_t n = 1;

    ranges->to_after = true;
    for (uint32_t f = 0; f < p->ix->nfields; f++) {
        const struct intervals *x = &p->fields[f];
        bool descending = p->ix->fields[f].descending;
        struct key_range *next;
        size_t m = 0;

        if (x->n == 1 && x->v[0].lo.type == BV_MINKEY && x->v[0].hi.type == BV_MAXKEY)
            break;
        if (x->n * n > RANGES_MAX)
            break;
        next = ARENA_TRY_ARRAY(a, struct key_range, x->n * n + 1);
        for (size_t i = 0; next != NULL && i < n * x->n; i++, m++) {
            if (!narrow(a, ranges[i / x->n].from, &x->v[in_key_order(x, i % x->n, descending)],
                        descending, &next[m]))
                next = NULL;
        }
        if (next == NULL) /* no memory: wider ranges do, too */
            break;
        ranges = next;
        n = m;
        if (!intervals_are_points(*x))
            break;
    }
    p->ranges = ranges;
    p->nranges = n;
}

/* --- explain -------------------------------------------------------------------------------------
 */

static char *interval_text(struct arena *a, const struct interval *v, bool reversed)
{
    const char *lo = v->lo.type == BV_MINKEY ? "MinKey" : bv_show(a, v->lo, 200);
    const char *hi = v->hi.type == BV_MAXKEY ? "MaxKey" : bv_show(a, v->hi, 200);

    if (reversed)
        return arena_printf(a, "%c%s, %s%c", v->hi_open ? '(' : '[', hi, lo,
                            v->lo_open ? ')' : ']');
    return arena_printf(a, "%c%s, %s%c", v->lo_open ? '(' : '[', lo, hi, v->hi_open ? ')' : ']');
}

static void explain_index(const struct plan *p, struct arena *a, struct bw *w)
{
    const struct index *ix = p->ix;

    bw_doc_begin(w, "inputStage");
    bw_str(w, "stage", "IXSCAN");
    bw_bv(w, "keyPattern", ix->key);
    bw_str(w, "indexName", ix->name);
    bw_bool(w, "isMultiKey", p->multikey);
    bw_bool(w, "isUnique", ix->unique || ix->is_id);
    bw_bool(w, "isSparse", ix->sparse);
    bw_bool(w, "isPartial", false);
    bw_i32(w, "indexVersion", 2);
    bw_str(w, "direction", p->backward ? "backward" : "forward");
    bw_doc_begin(w, "indexBounds");
    for (uint32_t f = 0; f < ix->nfields; f++) {
        const struct intervals *x = &p->fields[f];
        bool reversed = ix->fields[f].descending != p->backward;

        bw_arr_begin(w, ix->fields[f].path);
        for (size_t i = 0; i < x->n; i++)
            bw_str(w, NULL, interval_text(a, &x->v[in_key_order(x, i, reversed)], reversed));
        bw_end(w);
    }
    bw_end(w);
    bw_end(w);
}

void plan_explain(const struct plan *p, const struct match *filter, struct arena *a, struct bw *w)
{
    if (filter != NULL && !match_is_empty(filter))
        bw_bv(w, "filter", match_show(filter, a));
    switch (p->kind) {
    case PLAN_COLLSCAN:
        bw_str(w, "direction", p->backward ? "backward" : "forward");
        break;
    case PLAN_IXSCAN:
        explain_index(p, a, w);
        break;
    default:
        break;
    }
}
