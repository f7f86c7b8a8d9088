/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reading entries in order.
 *
 * A forward reader knows its position: every entry at or below it was returned or does not match.
 * It reads from the ring while the position lies inside it, else from the table, segment by
 * segment; both deliver what comes behind the position, so changing over neither repeats nor loses
 * an entry. In the table it looks now and then whether the ring has come within reach.
 *
 * Retention publishes what it removes before it removes it. The reader looks at that after its
 * snapshot has opened: when nothing behind its position was published by then, the snapshot holds
 * all of it, whatever is removed later.
 */
#include "oplog/reader.h"

#include <stdlib.h>

#include "base/mem.h"
#include "oplog/oplog_internal.h"

enum {
    RING_CHUNK = 64,      /* entries fetched from the ring at a time */
    TABLE_CHECK = 256,    /* rows between looks at interrupts and at the ring */
    TABLE_REFRESH = 8192, /* rows read under one snapshot */
};

struct oplog_reader {
    struct oplog *o;
    struct op *op;
    struct scope scope;
    bool backward, done;
    bool floating;     /* begins at the oldest entry, whichever that is, and has read nothing yet */
    uint64_t position; /* forward: passed; backward: next one is below */
    uint64_t horizon;

    struct ring_entry *fetched[RING_CHUNK];
    size_t at, n;            /* fetched[at..n-1] are still to be returned */
    struct ring_entry *held; /* returned last */

    struct stx *t; /* NULL: not in the table */
    struct tcursor *c;
    bool positioned;   /* c stands on the newest row passed */
    uint64_t range_to; /* end of the segment range being read */
    unsigned rows;     /* read under this snapshot */
};

uint64_t oplog_reader_position(const struct oplog_reader *r)
{
    return r->position;
}

uint64_t oplog_reader_horizon(const struct oplog_reader *r)
{
    return r->horizon;
}

static int lost(struct oplog_reader *r)
{
    return op_fail(r->op, ERR_CAPPED_POSITION_LOST,
                   "CollectionScan died due to position in capped collection being deleted. Last "
                   "seen record id: RecordId(%lld)",
                   (long long)r->position);
}

int oplog_reader_open(struct oplog *o, struct op *op, uint64_t from, const struct scope *s,
                      bool backward, struct oplog_reader **ret)
{
    struct oplog_reader *r = mem_must_zero(1, sizeof(*r));
    uint64_t pruned = atomic_load(&o->pruned);

    r->o = o;
    r->op = op;
    r->scope = *s;
    r->backward = backward;
    r->horizon = s->kind == SCOPE_OPLOG ? oplog_visible(o) : oplog_durable(o);
    r->done = o->hidden;
    if (o->hidden) {
        r->position = r->horizon;
    } else if (backward) {
        r->position = from < r->horizon ? from + 1 : r->horizon + 1;
    } else {
        r->position = from == 0 ? pruned : from - 1;
        r->floating = from == 0;
        r->done = r->done || r->position >= r->horizon;
        if (from != 0 && from <= pruned) {
            int rc = lost(r);

            free(r);
            return rc;
        }
    }
    *ret = r;
    return 0;
}

static void leave_ring(struct oplog_reader *r)
{
    while (r->at < r->n)
        ring_entry_drop(r->fetched[r->at++]);
    ring_entry_drop(r->held);
    r->held = NULL;
}

static void leave_table(struct oplog_reader *r)
{
    tcursor_close(r->c);
    stx_rollback(r->t);
    r->c = NULL;
    r->t = NULL;
    r->positioned = false;
}

void oplog_reader_close(struct oplog_reader *r)
{
    if (r == NULL)
        return;
    leave_ring(r);
    leave_table(r);
    free(r);
}

/* --- the ring ------------------------------------------------------------------------------ */

/* Fetches what comes next. False: the position lies below the ring. */
static bool fetch(struct oplog_reader *r)
{
    if (ring_upto(&r->o->ring) < r->horizon)
        oplog_pump(r->o);
    r->at = r->n = 0;
    if (!ring_fetch(&r->o->ring, r->position, r->horizon, r->fetched, RING_CHUNK, &r->n))
        return false;
    if (r->n == 0) {
        r->position = r->horizon;
        r->done = true;
    }
    return true;
}

/* The next match among what was fetched. */
static bool next_fetched(struct oplog_reader *r, struct oplog_row *ret)
{
    while (r->at < r->n) {
        struct ring_entry *e = r->fetched[r->at++];

        r->position = e->row.optime;
        r->floating = false;
        if (scope_matches(&r->scope, &e->row)) {
            r->held = e;
            *ret = e->row;
            return true;
        }
        ring_entry_drop(e);
    }
    return false;
}

/* --- the table ----------------------------------------------------------------------------- */

static int enter_table(struct oplog_reader *r)
{
    TRY_RETURN(stx_begin(r->o->engine, r->op, &r->t));
    TRY_RETURN(tcursor_open(r->t, TABLE_OPLOG, TABLE_OPTIMES, &r->c));
    r->positioned = false;
    r->rows = 0;
    r->range_to = r->position;
    return 0;
}

/* After the snapshot has opened, or segments were looked up: has anything behind the position been
 * removed? */
static int check_pruned(struct oplog_reader *r)
{
    uint64_t pruned = atomic_load(&r->o->pruned);

    if (pruned <= r->position)
        return 0;
    if (!r->floating)
        return lost(r);
    r->position = pruned;
    return 0;
}

/* Every so many rows: interrupts, a fresh snapshot, the ring. */
static int look_up(struct oplog_reader *r, bool *ret_left)
{
    *ret_left = false;
    if (++r->rows % TABLE_CHECK != 0)
        return 0;
    TRY_RETURN(op_check(r->op));
    if (!r->backward && r->position >= ring_floor(&r->o->ring)) {
        leave_table(r);
        *ret_left = true;
        return 0;
    }
    if (r->rows % TABLE_REFRESH != 0)
        return 0;
    TRY_RETURN(stx_refresh(r->t));
    r->positioned = false;
    return r->backward ? 0 : check_pruned(r);
}

static int parse(struct oplog_reader *r, struct oplog_row *ret)
{
    struct bytes value = tcursor_value(r->c);

    if (value.len < 5 || !oplog_parse((struct bv){value.p, (uint32_t)value.len, BV_DOC}, ret))
        return op_fail(r->op, ERR_INTERNAL, "the oplog is damaged at %llu",
                       (unsigned long long)tcursor_num(r->c));
    return 0;
}

/* Puts the cursor on the next row, skipping segments that cannot match; false: the horizon. */
static int step(struct oplog_reader *r, bool *ret_found)
{
    uint64_t from, key;

    *ret_found = false;
    if (r->position >= r->range_to) {
        bool more = segments_next(&r->o->segments, &r->scope, r->position + 1, &from, &r->range_to);

        TRY_RETURN(check_pruned(r));
        if (!more || from > r->horizon)
            return 0;
        if (from > r->position + 1) {
            r->position = from - 1;
            r->positioned = false;
        }
    }
    if (r->positioned)
        TRY_RETURN(tcursor_next(r->c, ret_found));
    else
        TRY_RETURN(tcursor_seek_num(r->c, r->position, SEEK_GT, ret_found));
    if (!*ret_found)
        return 0;
    r->positioned = true;
    key = tcursor_num(r->c);
    *ret_found = key <= r->horizon;
    if (*ret_found) {
        r->position = key;
        r->floating = false;
    }
    return 0;
}

/* The next match; neither a row nor `done` when the ring has come within reach. */
static int next_in_table(struct oplog_reader *r, struct oplog_row *ret, bool *ret_found)
{
    bool found, left = false;

    *ret_found = false;
    while (!left) {
        TRY_RETURN(step(r, &found));
        if (!found) {
            r->position = r->horizon;
            r->done = true;
            leave_table(r);
            return 0;
        }
        TRY_RETURN(parse(r, ret));
        if (scope_matches(&r->scope, ret)) {
            *ret_found = true;
            return 0;
        }
        TRY_RETURN(look_up(r, &left));
    }
    return 0;
}

static int next_backward(struct oplog_reader *r, struct oplog_row *ret, bool *ret_found)
{
    bool left;

    if (r->t == NULL)
        TRY_RETURN(enter_table(r));
    do {
        TRY_RETURN(look_up(r, &left));
        if (r->positioned)
            TRY_RETURN(tcursor_prev(r->c, ret_found));
        else
            TRY_RETURN(tcursor_seek_num(r->c, r->position, SEEK_LT, ret_found));
        if (!*ret_found || tcursor_num(r->c) <= atomic_load(&r->o->pruned)) {
            *ret_found = false;
            r->done = true;
            return 0;
        }
        r->positioned = true;
        r->position = tcursor_num(r->c);
        TRY_RETURN(parse(r, ret));
    } while (!scope_matches(&r->scope, ret));
    return 0;
}

/* --- both ---------------------------------------------------------------------------------- */

static int next_forward(struct oplog_reader *r, struct oplog_row *ret, bool *ret_found)
{
    bool left;

    ring_entry_drop(r->held);
    r->held = NULL;
    if (r->t != NULL)
        TRY_RETURN(look_up(r, &left)); /* the row returned last is done with */
    while (!r->done && !*ret_found) {
        if (r->t != NULL) {
            TRY_RETURN(next_in_table(r, ret, ret_found));
        } else if (next_fetched(r, ret)) {
            *ret_found = true;
        } else if (!fetch(r)) {
            TRY_RETURN(enter_table(r));
            TRY_RETURN(check_pruned(r));
        }
    }
    return 0;
}

int oplog_reader_next(struct oplog_reader *r, struct oplog_row *ret, bool *ret_found)
{
    *ret_found = false;
    if (r->done)
        return 0;
    if (r->backward)
        return next_backward(r, ret, ret_found);
    return next_forward(r, ret, ret_found);
}

int oplog_get(struct oplog *o, struct op *op, uint64_t optime, struct arena *a, struct bv *ret)
{
    struct tcursor *c = NULL;
    struct stx *t;
    bool found;
    int rc;

    *ret = BV_NONE;
    if (o->hidden || optime <= atomic_load(&o->pruned) || optime > oplog_visible(o))
        return 0;
    TRY_RETURN(stx_begin(o->engine, op, &t));
    TRY(tcursor_open(t, TABLE_OPLOG, TABLE_OPTIMES, &c));
    TRY(tcursor_seek_num(c, optime, SEEK_EXACT, &found));
    if (found && tcursor_value(c).len >= 5)
        TRY(op_dup(op, a, bv_doc(tcursor_value(c).p), ret));
fail:
    tcursor_close(c);
    stx_rollback(t);
    return rc;
}
