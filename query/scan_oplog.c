/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A scan of local.oplog.rs. Its natural order is the order of ts, so bounds on ts become the
 * places to begin and to end, and sorting by ts either way costs nothing.
 *
 * A scan reads up to the visible horizon at the time its batch began, with a reader that lives for
 * the batch. A tailable scan that has reached the horizon tells "nothing now"; the next call looks
 * again. A scan whose place was pruned away between batches ends with CappedPositionLost; one that
 * only begins there starts at the oldest entry.
 */
#include <inttypes.h>

#include "oplog/reader.h"
#include "query/pipeline.h"
#include "query/plan.h"

#define CHECK_ROWS 256

struct oplog_scan {
    struct stage base;
    const struct match *filter;
    struct oplog_reader *reader;
    uint64_t lo, hi;   /* entries outside are of no interest; both included */
    uint64_t position; /* forward: passed up to here; backward: down to here */
    bool started;      /* position is that of an entry or a horizon, not of a bound */
    bool backward, tailable, show_record_id, ended;
    unsigned rows;
};

static const struct scope everything = {.kind = SCOPE_OPLOG};

static int lost(struct oplog_scan *s, struct op *op)
{
    return op_fail(op, ERR_CAPPED_POSITION_LOST,
                   "CollectionScan died due to position in capped collection being deleted. Last "
                   "seen record id: RecordId(%" PRIu64 ")",
                   s->position);
}

static int open_reader(struct oplog_scan *s, struct exec *x)
{
    struct oplog *o = x->db->oplog;
    uint64_t from;
    int rc;

    if (s->backward) {
        from = s->started ? s->position - 1 : s->hi;
        rc = oplog_reader_open(o, x->op, from, &everything, true, &s->reader);
        return rc == ERR_CAPPED_POSITION_LOST ? lost(s, x->op) : rc;
    }
    from = s->started ? s->position + 1 : s->lo;
    if (!s->started && from < oplog_oldest(o))
        from = 0;
    rc = oplog_reader_open(o, x->op, from, &everything, false, &s->reader);
    if (rc == ERR_CAPPED_POSITION_LOST && !s->started)
        rc = oplog_reader_open(o, x->op, 0, &everything, false, &s->reader);
    return rc == ERR_CAPPED_POSITION_LOST ? lost(s, x->op) : rc;
}

static void close_reader(struct oplog_scan *s)
{
    oplog_reader_close(s->reader);
    s->reader = NULL;
}

/* The end of what can be read now. */
static void at_end(struct oplog_scan *s)
{
    uint64_t position;

    if (!s->tailable) {
        s->ended = true;
    } else {
        position = oplog_reader_position(s->reader);
        if (position > s->position) {
            s->position = position;
            s->started = true;
        }
    }
    close_reader(s); /* the next one sees a later horizon */
}

static int next_row(struct oplog_scan *s, struct exec *x, struct bv *ret)
{
    struct oplog_row row;
    bool found;
    int rc;

    *ret = BV_NONE;
    if (s->reader == NULL)
        TRY_RETURN(open_reader(s, x));
    rc = oplog_reader_next(s->reader, &row, &found);
    if (rc == ERR_CAPPED_POSITION_LOST)
        return lost(s, x->op);
    TRY_RETURN(rc);
    if (!found) {
        at_end(s);
        return 0;
    }
    if (s->backward ? row.optime < s->lo : row.optime > s->hi) {
        s->ended = true;
        return 0;
    }
    s->position = row.optime;
    s->started = true;
    *ret = row.entry;
    return 0;
}

static int with_record_id(struct oplog_scan *s, struct exec *x, struct bv doc, struct bv *ret)
{
    struct bw w;

    bw_init(&w, &x->scratch);
    bw_fields(&w, doc);
    bw_i64(&w, "$recordId", (int64_t)s->position);
    *ret = bw_done(&w);
    return bv_is_missing(*ret) ? op_fail(x->op, ERR_BSON_TOO_LARGE, "document is too large") : 0;
}

static int oplog_scan_next(struct stage *base, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct oplog_scan *s = (struct oplog_scan *)base;

    while (!s->ended) {
        bool hit = true;
        struct bv doc;

        if (++s->rows % CHECK_ROWS == 0)
            TRY_RETURN(op_check(x->op));
        TRY_RETURN(next_row(s, x, &doc));
        if (bv_is_missing(doc)) {
            *ret = BV_NONE;
            *ret_more = !s->ended;
            return 0;
        }
        if (s->filter != NULL && !match_is_empty(s->filter))
            TRY_RETURN(match_test(s->filter, &x->ev, doc, &hit, NULL));
        if (hit) {
            *ret = doc;
            *ret_more = true;
            return s->show_record_id ? with_record_id(s, x, doc, ret) : 0;
        }
        arena_reset(&x->scratch);
    }
    *ret = BV_NONE;
    *ret_more = false;
    return 0;
}

static void oplog_scan_save(struct stage *base, struct exec *x)
{
    (void)x;
    close_reader((struct oplog_scan *)base);
}

static void oplog_scan_close(struct stage *base)
{
    close_reader((struct oplog_scan *)base);
}

static void oplog_scan_explain(struct stage *base, struct bw *w)
{
    struct oplog_scan *s = (struct oplog_scan *)base;
    struct arena a;

    arena_init(&a);
    if (s->filter != NULL && !match_is_empty(s->filter))
        bw_bv(w, "filter", match_show(s->filter, &a));
    bw_str(w, "direction", s->backward ? "backward" : "forward");
    if (s->lo > 0)
        bw_ts(w, "minRecord", s->lo);
    if (s->hi < UINT64_MAX)
        bw_ts(w, "maxRecord", s->hi);
    arena_fini(&a);
}

static const struct stage_ops oplog_scan_ops = {.name = "COLLSCAN",
                                                .next = oplog_scan_next,
                                                .save = oplog_scan_save,
                                                .close = oplog_scan_close,
                                                .explain = oplog_scan_explain};

/* --- opening ------------------------------------------------------------------------------------
 */

/* What the filter says of ts. False: nothing can match. */
static bool bounds(struct oplog_scan *s, struct arena *a)
{
    struct conjuncts c = {.a = a};
    int ts_class = bv_type_class(BV_TIMESTAMP);

    s->hi = UINT64_MAX;
    conjuncts_collect(&c, s->filter);
    for (size_t i = 0; i < c.n; i++) {
        const struct intervals *x = &c.v[i].in;
        const struct interval *first, *last;

        if (strcmp(c.v[i].path, "ts") != 0)
            continue;
        if (x->n == 0)
            return false;
        first = &x->v[0];
        last = &x->v[x->n - 1];
        if (bv_type_class(first->lo.type) > ts_class || bv_type_class(last->hi.type) < ts_class)
            return false;
        if (first->lo.type == BV_TIMESTAMP) {
            uint64_t lo = bv_ts(first->lo);

            if (first->lo_open && lo++ == UINT64_MAX)
                return false;
            if (lo > s->lo)
                s->lo = lo;
        }
        if (last->hi.type == BV_TIMESTAMP) {
            uint64_t hi = bv_ts(last->hi);

            if (last->hi_open && hi-- == 0)
                return false;
            if (hi < s->hi)
                s->hi = hi;
        }
    }
    return s->lo <= s->hi;
}

/* {name: 1 or -1} and nothing else */
static bool order(struct bv spec, const char *name, bool *ret_backward)
{
    struct belem e;
    int64_t direction;

    if (spec.type != BV_DOC || bv_count(spec) != 1 || bv_is_missing(bv_first(spec, &e)) ||
        strcmp(e.key, name) != 0 || !bv_to_i64_exact(e.v, &direction) ||
        (direction != 1 && direction != -1))
        return false;
    *ret_backward = direction < 0;
    return true;
}

int scan_oplog_new(struct op *op, struct arena *a, const struct scan_spec *spec, struct stage **ret,
                   bool *ret_sorted)
{
    struct oplog_scan *s = ARENA_NEW(a, struct oplog_scan);
    bool hinted = spec->hint.type == BV_STRING || !bv_empty(spec->hint);

    if (!bv_empty(spec->min) || !bv_empty(spec->max))
        return op_fail(op, ERR_BAD_VALUE, "min and max need an index, and the oplog has none");
    if (hinted && !order(spec->hint, "$natural", &s->backward))
        return op_fail(op, ERR_BAD_VALUE,
                       "error processing query: ns=local.oplog.rs planner returned error :: caused "
                       "by :: hint provided does not correspond to an existing index");
    s->base.ops = &oplog_scan_ops;
    s->filter = spec->filter;
    s->show_record_id = spec->show_record_id;
    *ret_sorted = order(spec->sort, "$natural", &s->backward) ||
                  (!hinted && order(spec->sort, "ts", &s->backward));
    s->tailable = spec->tailable && !s->backward;
    s->ended = !bounds(s, a);
    if (s->lo > 0)
        s->position = s->lo - 1;
    *ret = &s->base;
    return 0;
}

uint64_t scan_oplog_position(struct stage *scan)
{
    return ((struct oplog_scan *)scan)->position;
}
