/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Scans of a collection: the first stage of every query.
 *
 * A scan reads from the storage transaction of the batch. At the end of a batch it gives up its
 * storage cursors and keeps the record id, or the index key and record id, that it looked at last;
 * the next batch goes on behind that place, in a new snapshot. So it holds nothing while its
 * cursor idles, and documents inserted or deleted meanwhile do no harm. If the collection (or the
 * index) is gone by then, the query ends with QueryPlanKilled.
 *
 * A document with several keys in the scanned ranges of an index is given at the first of them, in
 * the order of the scan. The scan remembers so many ids of those it gave; past that bound it is
 * told from the document's own keys, which costs their number for each entry.
 */
#include <stdlib.h>

#include "base/fault.h"
#include "base/mem.h"
#include "query/rid_set.h"
#include "query/scan_internal.h"

#define CHECK_ROWS 256 /* rows between two looks at interrupts and the deadline */

enum place {
    PLACE_START, /* nothing read of the collection, or of the range in hand */
    PLACE_ON,    /* the storage cursor stands on the last row looked at */
    PLACE_SAVED, /* no storage cursor: rid and key tell the last row looked at */
    PLACE_LOST,  /* a read failed, or memory was out: there is nothing to go on from */
    PLACE_END,
};

struct scan {
    struct stage base;
    struct coll *k; /* a reference; NULL: no such collection */
    const struct match *filter;
    struct plan plan;
    bool show_record_id;
    bool checked; /* in this batch: the collection is still there */
    enum place place;
    int64_t rid; /* of the last row looked at */
    unsigned rows;
    size_t range; /* IXSCAN: index of the range in hand */
    uint8_t *key; /* IXSCAN, PLACE_SAVED; on the heap */
    size_t key_len, key_cap;
    struct tcursor *records;
    struct icursor *index;
    struct arena keys; /* IXSCAN: of the document in hand */
    struct rid_set given;
};

/* --- is it still there -------------------------------------------------------------------------
 */

static int check_catalog(struct scan *s, struct op *op)
{
    struct coll *now;
    int rc = 0;

    /* In a transaction the locks keep the collection as it is; a pin has looked at it already. */
    if (s->checked || op->txn != NULL || coll_is_current(s->k)) {
        s->checked = true;
        return 0;
    }
    now = catalog_get_uuid(s->k->catalog, s->k->uuid);
    if (now == NULL)
        rc = op_fail(op, ERR_QUERY_PLAN_KILLED, "collection dropped: %s", s->k->ns);
    else if (strcmp(now->ns, s->k->ns) != 0)
        rc = op_fail(op, ERR_QUERY_PLAN_KILLED, "collection renamed from '%s' to '%s'", s->k->ns,
                     now->ns);
    else if (s->plan.kind == PLAN_IXSCAN) {
        struct index *ix = coll_index_by_name(now, s->plan.ix->name);

        if (ix == NULL || strcmp(ix->ident, s->plan.ix->ident) != 0)
            rc = op_fail(op, ERR_QUERY_PLAN_KILLED, "index '%s' dropped", s->plan.ix->name);
    }
    coll_unref(now);
    s->checked = rc == 0;
    return rc;
}

/* --- rows of the collection --------------------------------------------------------------------
 */

static int open_records(struct scan *s, struct exec *x)
{
    struct stx *t;

    if (s->records != NULL)
        return 0;
    TRY_RETURN(exec_stx(x, &t));
    return tcursor_open(t, s->k->ident, TABLE_RECORDS, &s->records);
}

/* Moves to the next record. */
static int step_records(struct scan *s, bool *ret_found)
{
    bool backward = s->plan.backward;

    switch (s->place) {
    case PLACE_START:
        return backward ? tcursor_last(s->records, ret_found)
                        : tcursor_first(s->records, ret_found);
    case PLACE_ON:
        return backward ? tcursor_prev(s->records, ret_found) : tcursor_next(s->records, ret_found);
    default:
        return tcursor_seek_num(s->records, (uint64_t)s->rid, backward ? SEEK_LT : SEEK_GT,
                                ret_found);
    }
}

static int next_record(struct scan *s, struct exec *x, struct bv *ret)
{
    bool found;

    TRY_RETURN(open_records(s, x));
    TRY_RETURN(step_records(s, &found));
    if (!found) {
        s->place = PLACE_END;
        *ret = BV_NONE;
        return 0;
    }
    s->place = PLACE_ON;
    s->rid = (int64_t)tcursor_num(s->records);
    *ret = bv_doc(tcursor_value(s->records).p);
    return 0;
}

/* --- rows of an index --------------------------------------------------------------------------
 */

static const struct key_range *range_in_hand(const struct scan *s)
{
    size_t i = s->plan.backward ? s->plan.nranges - 1 - s->range : s->range;

    return &s->plan.ranges[i];
}

static int step_index(struct scan *s, bool *ret_found)
{
    bool backward = s->plan.backward;
    const struct key_range *r;

    switch (s->place) {
    case PLACE_START:
        r = range_in_hand(s);
        if (backward)
            return icursor_seek(s->index, r->to, true, r->to_after, ret_found);
        return icursor_seek(s->index, r->from, false, r->from_after, ret_found);
    case PLACE_ON:
        return icursor_next(s->index, backward, ret_found);
    default:
        return icursor_seek_beyond(s->index, (struct bytes){s->key, s->key_len}, s->rid, backward,
                                   ret_found);
    }
}

/* The next entry inside the ranges. */
static int next_entry(struct scan *s)
{
    while (s->range < s->plan.nranges) {
        bool found;

        TRY_RETURN(step_index(s, &found));
        if (found && key_range_cmp(range_in_hand(s), icursor_key(s->index)) == 0) {
            s->place = PLACE_ON;
            s->rid = icursor_rid(s->index);
            return 0;
        }
        s->range++;
        s->place = PLACE_START;
    }
    s->place = PLACE_END;
    return 0;
}

static bool in_ranges(const struct plan *p, struct bytes key)
{
    size_t lo = 0, hi = p->nranges;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        int c = key_range_cmp(&p->ranges[mid], key);

        if (c == 0)
            return true;
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return false;
}

static bool same_key(struct bytes with_end, struct bytes key)
{
    return with_end.len == key.len + 1 && memcmp(with_end.p, key.p, key.len) == 0;
}

/* Whether the entry in hand is the first of the document's own keys in the ranges. */
static int is_first_of_keys(struct scan *s, struct op *op, struct bv doc, bool *ret)
{
    struct arena outer = op->arena;
    struct bytes here = icursor_key(s->index);
    struct key_set set;
    int rc;

    /* The keys go to an arena that lives for one document. */
    op->arena = s->keys;
    rc = index_keys(op, s->plan.ix, doc, &set);
    s->keys = op->arena;
    op->arena = outer;
    *ret = true;
    for (size_t i = 0; rc == 0 && i < set.n; i++) {
        struct bytes key = set.keys[s->plan.backward ? set.n - 1 - i : i];

        if (same_key(key, here))
            break;
        key.len--;
        if (in_ranges(&s->plan, key)) {
            *ret = false;
            break;
        }
    }
    arena_reset(&s->keys);
    return rc;
}

/* Whether the entry in hand is the first of the document's that the scan meets. */
static int is_first_key(struct scan *s, struct op *op, struct bv doc, bool *ret)
{
    *ret = false;
    if (rid_set_has(&s->given, s->rid))
        return 0;
    *ret = rid_set_add(&s->given, s->rid);
    return *ret ? 0 : is_first_of_keys(s, op, doc, ret);
}

static int next_indexed(struct scan *s, struct exec *x, struct bv *ret)
{
    struct stx *t;

    if (s->index == NULL) {
        TRY_RETURN(exec_stx(x, &t));
        TRY_RETURN(icursor_open(t, s->k, s->plan.ix, &s->index));
        /* Arrays may have come since the plan was made, or since the batch before. What was given
         * until then is not known: such a document may come again, as any that moves ahead may. */
        s->plan.multikey |= index_is_multikey(s->plan.ix);
    }
    TRY_RETURN(open_records(s, x));
    for (;;) {
        bool found;

        TRY_RETURN(next_entry(s));
        *ret = BV_NONE;
        if (s->place == PLACE_END)
            return 0;
        TRY_RETURN(tcursor_seek_num(s->records, (uint64_t)s->rid, SEEK_EXACT, &found));
        if (found) {
            *ret = bv_doc(tcursor_value(s->records).p);
            return 0;
        }
    }
}

/* --- one row by _id ------------------------------------------------------------------------------
 */

static int next_by_id(struct scan *s, struct exec *x, struct bv *ret)
{
    struct stx *t;

    TRY_RETURN(exec_stx(x, &t));
    s->place = PLACE_END;
    return record_find_id(t, s->k, s->plan.id, &x->scratch, &s->rid, ret);
}

/* --- the stage -----------------------------------------------------------------------------------
 */

static int next_row(struct scan *s, struct exec *x, struct bv *ret)
{
    *ret = BV_NONE;
    if (s->place == PLACE_END)
        return 0;
    if (s->place == PLACE_LOST)
        return op_fail(x->op, ERR_QUERY_PLAN_KILLED,
                       "the scan has failed before, or had no memory to keep its place");
    switch (s->plan.kind) {
    case PLAN_COLLSCAN:
        return next_record(s, x, ret);
    case PLAN_IXSCAN:
        return next_indexed(s, x, ret);
    case PLAN_ID:
        return next_by_id(s, x, ret);
    case PLAN_NOTHING:
    case PLAN_OR: /* a stage of its own */
        break;
    }
    s->place = PLACE_END;
    return 0;
}

static int accept(struct scan *s, struct exec *x, struct bv doc, bool *ret)
{
    *ret = true;
    if (!s->plan.exact && s->filter != NULL && !match_is_empty(s->filter))
        TRY_RETURN(match_test(s->filter, &x->ev, doc, ret, NULL));
    if (*ret && s->plan.kind == PLAN_IXSCAN && s->plan.multikey)
        TRY_RETURN(is_first_key(s, x->op, doc, ret));
    return 0;
}

static int with_record_id(struct scan *s, struct exec *x, struct bv doc, struct bv *ret)
{
    struct bw w;

    bw_init(&w, &x->scratch);
    bw_fields(&w, doc);
    bw_i64(&w, "$recordId", s->rid);
    *ret = bw_done(&w);
    return bv_is_missing(*ret) ? op_fail(x->op, ERR_BSON_TOO_LARGE, "document is too large") : 0;
}

static int scan_next(struct stage *base, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct scan *s = (struct scan *)base;
    struct stx *t;

    if (s->k != NULL && s->place != PLACE_END) {
        /* The snapshot first: what is written without a dropped index must not be in it. */
        TRY_RETURN(exec_stx(x, &t));
        FAULT(SCAN_SNAPSHOT);
        TRY_RETURN(check_catalog(s, x->op));
    }
    for (;;) {
        struct bv doc;
        bool hit;
        int rc;

        if (++s->rows % CHECK_ROWS == 0)
            TRY_RETURN(op_check(x->op));
        rc = next_row(s, x, &doc);
        if (rc == 0)
            rc = op_work(x->op, doc.len);
        if (rc != 0) {
            s->place = PLACE_LOST;
            return rc;
        }
        *ret = doc;
        *ret_more = !bv_is_missing(doc);
        if (bv_is_missing(doc))
            return 0;
        TRY_RETURN(accept(s, x, doc, &hit));
        if (hit)
            return s->show_record_id ? with_record_id(s, x, doc, ret) : 0;
        arena_reset(&x->scratch);
    }
}

/* False: memory is out. */
static bool keep_key(struct scan *s)
{
    struct bytes key = icursor_key(s->index);

    if (key.len > s->key_cap) {
        uint8_t *grown = mem_try_resize(s->key, key.len * 2);

        if (grown == NULL)
            return false;
        s->key = grown;
        s->key_cap = key.len * 2;
    }
    memcpy(s->key, key.p, key.len);
    s->key_len = key.len;
    return true;
}

static void scan_save(struct stage *base, struct exec *x)
{
    struct scan *s = (struct scan *)base;

    (void)x;
    if (s->place == PLACE_ON) {
        s->place = s->index == NULL || keep_key(s) ? PLACE_SAVED : PLACE_LOST;
    }
    icursor_close(s->index);
    tcursor_close(s->records);
    s->index = NULL;
    s->records = NULL;
    s->checked = false;
}

static void scan_close(struct stage *base)
{
    struct scan *s = (struct scan *)base;

    icursor_close(s->index);
    tcursor_close(s->records);
    arena_fini(&s->keys);
    rid_set_free(&s->given);
    free(s->key);
    coll_unref(s->k);
}

static void scan_explain(struct stage *base, struct bw *w)
{
    struct scan *s = (struct scan *)base;
    struct arena a;

    arena_init(&a);
    plan_explain(&s->plan, s->filter, &a, w);
    arena_fini(&a);
}

/* Stage names as explain shows them. */
#define SCAN_OPS(stage_name)                                                                       \
    {                                                                                              \
        .name = (stage_name), .next = scan_next, .save = scan_save, .close = scan_close,           \
        .explain = scan_explain                                                                    \
    }

static const struct stage_ops scan_ops[] = {
    [PLAN_NOTHING] = SCAN_OPS("EOF"),
    [PLAN_COLLSCAN] = SCAN_OPS("COLLSCAN"),
    [PLAN_ID] = SCAN_OPS("IDHACK"),
    [PLAN_IXSCAN] = SCAN_OPS("FETCH"),
};

struct stage *scan_of_plan(struct arena *a, const struct scan_spec *spec, const struct plan *plan)
{
    struct scan *s = ARENA_NEW(a, struct scan);

    s->plan = *plan;
    s->base.ops = &scan_ops[plan->kind];
    s->filter = spec->filter;
    s->show_record_id = spec->show_record_id;
    s->k = spec->k == NULL ? NULL : coll_ref(spec->k);
    arena_init(&s->keys);
    return &s->base;
}

int scan_new(struct op *op, struct arena *a, const struct scan_spec *spec, struct stage **ret,
             bool *ret_sorted)
{
    struct plan plan;

    TRY_RETURN(plan_choose(op, a, spec, &plan));
    *ret = plan.kind == PLAN_OR ? scan_or_new(a, spec, &plan) : scan_of_plan(a, spec, &plan);
    *ret_sorted = plan.sorted;
    return 0;
}

int64_t scan_rid(struct stage *scan)
{
    struct stage *part = scan_or_part(scan);

    return ((struct scan *)(part != NULL ? part : scan))->rid;
}
