/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Retention, and the keeper thread.
 *
 * The keeper stores sealed segments, removes whole segments from the oldest end while a limit is
 * exceeded, and writes the periodic noop. Segments are small against the limits, so it removes a
 * tenth too much at most; one that was made under wider limits it cuts to the entry. {pruneOplog}
 * always removes to the entry: whole segments while all their entries must go, then entry by entry
 * in the next one. The newest entry always stays.
 *
 * A removal publishes the new oldest entry first (readers look at that after they have read), then
 * truncates oplog and images, removes the segments' rows and records how far it went, in one
 * transaction; then the segments in memory go. A crash leaves all of it done or nothing.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "oplog/oplog_internal.h"
#include "storage/table_write.h"

enum {
    SEGMENT_BYTES_MAX = 4 * 1024 * 1024,
    SEGMENT_ENTRIES_MAX = 8192,
    SEGMENT_SHARE = 10,    /* a segment is at most 1/10 of each limit */
    KEEPER_LOOK_MS = 1000, /* longest pause between looks at ages */
    KEEPER_BUSY_MS = 20,   /* shortest */
};

/* What a removal takes away. */
struct cut {
    uint64_t upto;              /* 0: nothing */
    uint64_t next;              /* oldest entry that stays */
    int64_t removed;            /* entries in all */
    int64_t part_n, part_bytes; /* of the segment that is cut in two */
};

/* --- limits -------------------------------------------------------------------------------- */

static struct limits get_limits(struct oplog *o)
{
    struct limits l;

    mutex_lock(&o->limits_mx);
    l = o->limits;
    mutex_unlock(&o->limits_mx);
    return l;
}

static int64_t share(int64_t limit, int64_t most)
{
    int64_t part = limit / SEGMENT_SHARE;

    return limit <= 0 || part > most ? most : part < 1 ? 1 : part;
}

static int64_t age_ms(const struct limits *l)
{
    return share((int64_t)(l->seconds * 1000) + 1, INT64_MAX);
}

static struct segment_bounds bounds_for(const struct limits *l)
{
    return (struct segment_bounds){
        .count = share(l->max_entries, SEGMENT_ENTRIES_MAX),
        .bytes = share(l->size_bytes, SEGMENT_BYTES_MAX),
        .age_ms = l->seconds > 0 ? age_ms(l) : 0,
    };
}

void retention_bounds(struct oplog *o)
{
    const struct limits l = get_limits(o);
    const struct segment_bounds b = bounds_for(&l);

    segments_set_bounds(&o->segments, &b);
}

void oplog_set_limits(struct oplog *o, const int64_t *size_bytes, const double *seconds,
                      const int64_t *max_entries)
{
    mutex_lock(&o->limits_mx);
    if (size_bytes != NULL)
        o->limits.size_bytes = *size_bytes;
    if (seconds != NULL)
        o->limits.seconds = *seconds;
    if (max_entries != NULL)
        o->limits.max_entries = *max_entries;
    mutex_unlock(&o->limits_mx);
    retention_bounds(o);
    keeper_ask(o);
}

void oplog_get_limits(struct oplog *o, int64_t *size_bytes, double *seconds, int64_t *max_entries)
{
    struct limits l = get_limits(o);

    *size_bytes = l.size_bytes;
    *seconds = l.seconds;
    *max_entries = l.max_entries;
}

int64_t oplog_retention_now_ms(struct oplog *o)
{
    return age_clock_ms(&o->entry_ages, (int64_t)(get_limits(o).seconds * 1000));
}

/* --- what must go -------------------------------------------------------------------------- */

/* The state of a walk over the oldest entries. */
struct walk {
    struct limits l;
    int64_t oldest_ms; /* entries with an earlier wall time are too old */
    int64_t count, bytes;
    uint64_t last;  /* entries above it stay */
    size_t segment; /* the one that the walk has come to */
    bool exact;     /* which is to be cut to the entry */
};

static void walk_begin(struct oplog *o, struct walk *w, int64_t now_ms, uint64_t most)
{
    uint64_t newest;
    int64_t n;

    oplog_pump(o);
    newest = segments_newest(&o->segments);
    w->segment = 0;
    w->l = get_limits(o);
    w->oldest_ms = w->l.seconds > 0 ? now_ms - (int64_t)(w->l.seconds * 1000) : INT64_MIN;
    w->last = newest == 0 ? 0 : newest - 1;
    if (w->last > most)
        w->last = most;
    segments_totals(&o->segments, &w->count, &w->bytes, &n);
}

/* True when the limits ask for the removal of the oldest of what is left. */
static bool exceeded(const struct walk *w, int64_t wall_ms)
{
    return (w->l.size_bytes > 0 && w->bytes > w->l.size_bytes) ||
           (w->l.max_entries > 0 && w->count > w->l.max_entries) || wall_ms < w->oldest_ms;
}

/* True when the limits ask for the removal of every entry of g. */
static bool exceeded_by_all(const struct walk *w, const struct segment *g)
{
    return (w->l.size_bytes > 0 && w->bytes - g->bytes >= w->l.size_bytes) ||
           (w->l.max_entries > 0 && w->count - g->count >= w->l.max_entries) ||
           g->wall_ms < w->oldest_ms;
}

static void walk_over(struct walk *w, struct cut *c, uint64_t last, int64_t n, int64_t bytes)
{
    w->count -= n;
    w->bytes -= bytes;
    c->upto = last;
    c->removed += n;
}

/* Larger than the limits now want segments to be: it was made under other limits. */
static bool coarse(const struct segment_bounds *b, const struct segment *g)
{
    return g->count > b->count || (g->bytes > b->bytes && g->count > 1);
}

/* Whole segments: those of which every entry must go; unless `exact`, the one that the limit falls
 * into as well, when it is a small one. */
static void walk_segments(struct oplog *o, struct walk *w, bool exact, struct cut *c)
{
    const struct segment_bounds b = bounds_for(&w->l);
    struct segment g;

    while (segments_get(&o->segments, w->segment, &g) && g.last <= w->last &&
           (exact || coarse(&b, &g) ? exceeded_by_all(w, &g) : exceeded(w, g.wall_ms))) {
        walk_over(w, c, g.last, g.count, g.bytes);
        w->segment++;
    }
    c->next = segments_get(&o->segments, w->segment, &g) ? g.first : 0;
    w->exact = c->next != 0 && (exact || coarse(&b, &g));
}

/* The walk has come to `optime`: behind the end of its segment the count of a part begins anew. */
static void walk_into(struct oplog *o, struct walk *w, struct cut *c, uint64_t optime)
{
    struct segment g;

    while (segments_get(&o->segments, w->segment, &g) && g.last < optime) {
        w->segment++;
        c->part_n = c->part_bytes = 0;
    }
}

/* Entry by entry, behind the whole segments. */
static int walk_entries(struct oplog *o, struct op *op, struct walk *w, struct cut *c)
{
    struct tcursor *cursor = NULL;
    struct oplog_row row;
    struct stx *t;
    bool found;
    int rc;

    if (!w->exact)
        return 0;
    TRY_RETURN(stx_begin(o->engine, op, &t));
    TRY(tcursor_open(t, TABLE_OPLOG, TABLE_OPTIMES, &cursor));
    TRY(tcursor_seek_num(cursor, c->next, SEEK_GE, &found));
    while (found) {
        struct bytes v = tcursor_value(cursor);

        c->next = tcursor_num(cursor);
        walk_into(o, w, c, c->next);
        if (!oplog_parse((struct bv){v.p, (uint32_t)v.len, BV_DOC}, &row) || row.optime > w->last ||
            !exceeded(w, row.wall_ms))
            break;
        walk_over(w, c, row.optime, 1, row.entry.len);
        c->part_n++;
        c->part_bytes += row.entry.len;
        TRY(tcursor_next(cursor, &found));
    }
fail:
    tcursor_close(cursor);
    stx_rollback(t);
    return rc;
}

/* --- removing ------------------------------------------------------------------------------ */

static int truncate_tables(struct oplog *o, struct op *op, const struct cut *c)
{
    struct tcursor *cursor = NULL;
    struct stx *t;
    bool found;
    int rc;

    TRY_RETURN(stx_begin(o->engine, op, &t));
    TRY(tcursor_open(t, TABLE_OPLOG, TABLE_OPTIMES, &cursor));
    TRY(tcursor_seek_num(cursor, o->truncated, SEEK_GT, &found));
    if (found && tcursor_num(cursor) <= c->upto)
        TRY(tcursor_truncate_num(cursor, tcursor_num(cursor), c->upto));
    TRY(images_truncate(t, 0, c->upto));
    TRY(segments_cut_rows(&o->segments, t, c->upto, c->next, c->part_n, c->part_bytes));
    TRY(meta_put(t, META_PRUNED, c->upto));
    FAULT(TRUNCATE_COMMIT);
    tcursor_close(cursor);
    return oplog_commit_counted(o, t);
fail:
    tcursor_close(cursor);
    stx_rollback(t);
    return rc;
}

/* Under work_mx. What goes is durable: else a crash could leave later entries without it. */
static int apply_cut(struct oplog *o, struct op *op, const struct cut *c)
{
    mutex_assert_held(&o->keeper.work_mx);
    if (c->upto == 0)
        return 0;
    atomic_store(&o->pruned, c->upto);
    atomic_store(&o->oldest, c->next);
    FAULT(TRUNCATE_BEFORE);
    TRY_RETURN(truncate_tables(o, op, c));
    FAULT(TRUNCATE_AFTER);
    o->truncated = c->upto;
    segments_cut(&o->segments, c->upto, c->next, c->part_n, c->part_bytes);
    return 0;
}

static int find_cut(struct oplog *o, struct op *op, int64_t now_ms, bool exact, uint64_t most,
                    struct cut *ret)
{
    struct walk w;

    *ret = (struct cut){0};
    walk_begin(o, &w, now_ms, most);
    walk_segments(o, &w, exact, ret);
    return walk_entries(o, op, &w, ret);
}

/* `exact`: to the entry; *ret_removed is how many. When some of it is not durable yet, a sync is
 * awaited, without the lock, and then no more than what is durable goes. */
static int apply_limits(struct oplog *o, struct op *op, int64_t now_ms, bool exact,
                        int64_t *ret_removed)
{
    struct cut c;
    int rc;

    mutex_lock(&o->keeper.work_mx);
    TRY(find_cut(o, op, now_ms, exact, UINT64_MAX, &c));
    if (c.upto > oplog_durable(o)) {
        mutex_unlock(&o->keeper.work_mx);
        flusher_wait(o, c.upto);
        mutex_lock(&o->keeper.work_mx);
        TRY(find_cut(o, op, now_ms, exact, oplog_durable(o), &c));
    }
    TRY(apply_cut(o, op, &c));
    *ret_removed = c.removed;
fail:
    mutex_unlock(&o->keeper.work_mx);
    return rc;
}

int oplog_prune(struct oplog *o, struct op *op, int64_t now_ms, int64_t *ret_removed)
{
    return apply_limits(o, op, now_ms, true, ret_removed);
}

/* --- the keeper ---------------------------------------------------------------------------- */

/* When the keeper looks at the clock again though nobody asks. */
static int64_t pause_ms(struct oplog *o, int64_t until_noop_ms)
{
    struct limits l = get_limits(o);
    int64_t ms = until_noop_ms;

    if (l.seconds > 0)
        ms = age_ms(&l) < ms ? age_ms(&l) : ms;
    if ((l.seconds > 0 || atomic_load(&o->image_seconds) > 0) && ms > KEEPER_LOOK_MS)
        ms = KEEPER_LOOK_MS;
    return ms < KEEPER_BUSY_MS ? KEEPER_BUSY_MS : ms;
}

static bool await_turn(struct oplog *o, int64_t ms)
{
    struct keeper *k = &o->keeper;
    int64_t deadline_us = clock_mono_us() + ms * 1000;
    bool go_on;

    mutex_lock(&k->mx);
    while (!k->stop && !k->asked && clock_mono_us() < deadline_us)
        (void)mutex_wait(&k->mx, &k->cv, deadline_us);
    k->asked = false;
    go_on = !k->stop;
    mutex_unlock(&k->mx);
    return go_on;
}

/* Writes a noop when nothing has been written since the last look. */
static int periodic_noop(struct oplog *o, struct op *op, uint64_t *last)
{
    uint64_t now = segments_newest(&o->segments);
    struct bw w;
    int rc = 0;

    if (now == *last) {
        bw_init(&w, &op->arena);
        bw_str(&w, "msg", "periodic noop");
        rc = oplog_try_noop(o, op, bw_done(&w), &now);
    }
    if (now != 0)
        *last = now;
    return rc;
}

static int store_segments(struct oplog *o, struct op *op)
{
    int rc;

    oplog_pump(o);
    mutex_lock(&o->keeper.work_mx);
    (void)segments_seal_old(&o->segments, clock_wall_ms());
    rc = segments_store(&o->segments, o->engine, op);
    mutex_unlock(&o->keeper.work_mx);
    return rc;
}

static void keep(struct oplog *o, struct op *op)
{
    int64_t removed;

    if (store_segments(o, op) != 0 ||
        apply_limits(o, op, oplog_retention_now_ms(o), false, &removed) != 0 ||
        images_expire(o, op, images_now_ms(o)) != 0)
        log_event(LOG_ERROR, "oplog", "retention failed, and will be tried again",
                  {"error", LOG_STR(op->err->text)}, );
    arena_reset(&op->arena);
}

static void *run(void *arg)
{
    struct oplog *o = arg;
    int64_t noop_us = clock_mono_us() + o->noop_interval_ms * 1000;
    uint64_t last = segments_newest(&o->segments);
    struct op op;

    op_init(&op);
    while (await_turn(o, pause_ms(o, (noop_us - clock_mono_us()) / 1000))) {
        keep(o, &op);
        if (clock_mono_us() < noop_us)
            continue;
        if (periodic_noop(o, &op, &last) != 0)
            log_event(LOG_ERROR, "oplog", "periodic noop failed",
                      {"error", LOG_STR(op.err->text)}, );
        noop_us = clock_mono_us() + o->noop_interval_ms * 1000;
    }
    op_fini(&op);
    return NULL;
}

void keeper_ask(struct oplog *o)
{
    struct keeper *k = &o->keeper;

    mutex_lock(&k->mx);
    k->asked = true;
    pthread_cond_signal(&k->cv);
    mutex_unlock(&k->mx);
}

void keeper_start(struct oplog *o)
{
    int rc;

    if (o->hidden)
        return;
    rc = pthread_create(&o->keeper.thread, NULL, run, o);
    ASSERT(rc == 0);
    o->keeper.running = true;
}

void keeper_stop(struct oplog *o)
{
    struct keeper *k = &o->keeper;

    if (!k->running)
        return;
    mutex_lock(&k->mx);
    k->stop = true;
    pthread_cond_signal(&k->cv);
    mutex_unlock(&k->mx);
    pthread_join(k->thread, NULL);
    k->running = false;
}
