/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Opening and closing, horizons.
 *
 * Start-up: read the newest key and the ceiling, go on above both with the
 * next term, make term and new ceiling durable, count the entries behind the last stored segment,
 * write "initiating set" (nothing was ever written) and "new primary".
 *
 * A run without an oplog takes optimes and has horizons, but writes no rows. Its first write leaves
 * a mark; the next run with an oplog finds it, removes what there is and counts all of it as
 * removed, so that every older position is lost.
 */
#include "oplog/oplog.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "oplog/append.h"
#include "oplog/oplog_internal.h"
#include "storage/table_write.h"

/* --- horizons ------------------------------------------------------------------------------ */

uint64_t oplog_visible(struct oplog *o)
{
    return atomic_load(&o->horizon.visible);
}

uint64_t oplog_durable(struct oplog *o)
{
    return atomic_load(o->memory ? &o->horizon.visible : &o->durable);
}

uint64_t oplog_allocated(struct oplog *o)
{
    return atomic_load(&o->horizon.allocated);
}

uint64_t oplog_oldest(struct oplog *o)
{
    return atomic_load(&o->oldest);
}

bool oplog_complete(struct oplog *o)
{
    return atomic_load(&o->pruned) == 0;
}

int64_t oplog_term(struct oplog *o)
{
    return o->term;
}

bool oplog_hidden(struct oplog *o)
{
    return o->hidden;
}

void oplog_pump(struct oplog *o)
{
    struct ring_chain chain;
    bool sealed = false;
    uint64_t upto;

    mutex_lock(&o->pump_mx);
    upto = horizon_take_pending(&o->horizon, &chain);
    for (struct ring_entry *e = chain.first; e != NULL; e = e->next) {
        if (atomic_load_explicit(&o->oldest, memory_order_relaxed) == 0)
            atomic_store(&o->oldest, e->row.optime);
        sealed |= segments_add(&o->segments, &e->row);
        if (hub_wants(&o->hub, &e->row))
            hub_expect(&o->hub, e->row.optime);
    }
    ring_push(&o->ring, &chain, upto);
    mutex_unlock(&o->pump_mx);
    if (sealed)
        keeper_ask(o);
}

void oplog_moved(struct oplog *o)
{
    uint64_t visible = oplog_visible(o);

    waitlist_wake(&o->visible_waiters, visible);
    hub_wake_tailers(&o->hub, visible);
    if (atomic_load(&o->durable_wanted) > atomic_load(&o->durable))
        flusher_ask(o);
    if (horizon_pending_bytes(&o->horizon) > PUMP_BYTES)
        oplog_pump(o);
}

void oplog_advance_clock(struct oplog *o, uint64_t ts)
{
    if (horizon_advance(&o->horizon, ts)) {
        oplog_moved(o);
        flusher_note(o);
    }
}

/* --- noops --------------------------------------------------------------------------------- */

int oplog_noop(struct oplog *o, struct op *op, struct bv o_doc, uint64_t *ret_optime)
{
    struct oplog_op noop = {.op = 'n', .ns = "", .o = o_doc, .stmt_id = -1};
    struct stx *t;
    int rc;

    do {
        TRY_RETURN(stx_begin(o->engine, op, &t));
        rc = oplog_commit(o, op, t, &noop, 1, NULL, NULL, ret_optime);
    } while (rc == ERR_WRITE_CONFLICT);
    return rc;
}

int oplog_try_noop(struct oplog *o, struct op *op, struct bv o_doc, uint64_t *ret_optime)
{
    struct oplog_op noop = {.op = 'n', .ns = "", .o = o_doc, .stmt_id = -1};
    struct stx *t;
    int rc;

    *ret_optime = 0;
    TRY_RETURN(stx_begin(o->engine, op, &t));
    rc = oplog_commit_held(o, op, t, &noop, 1, NULL, NULL, ret_optime);
    if (rc != INT_NO_OPTIME)
        return rc;
    stx_rollback(t);
    return 0;
}

static int noop_msg(struct oplog *o, struct op *op, const char *msg)
{
    uint64_t optime;
    struct bw w;

    bw_init(&w, &op->arena);
    bw_str(&w, "msg", msg);
    return oplog_noop(o, op, bw_done(&w), &optime);
}

/* --- opening ------------------------------------------------------------------------------- */

static int create_tables(struct engine *e, struct error *err)
{
    static const struct {
        const char *ident;
        enum table_kind kind;
    } tables[] = {
        {TABLE_META, TABLE_BYTES},   {TABLE_OPLOG, TABLE_OPTIMES}, {TABLE_SEGMENTS, TABLE_OPTIMES},
        {TABLE_IMAGES, TABLE_BYTES}, {TABLE_SESSIONS, TABLE_HOT},
    };

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        TRY_RETURN(engine_table_create(e, tables[i].ident, tables[i].kind, true, err));
    return 0;
}

static int edge_keys(struct stx *t, uint64_t *ret_oldest, uint64_t *ret_newest)
{
    struct tcursor *c;
    bool found;
    int rc;

    TRY_RETURN(tcursor_open(t, TABLE_OPLOG, TABLE_OPTIMES, &c));
    TRY(tcursor_first(c, &found));
    *ret_oldest = found ? tcursor_num(c) : 0;
    TRY(tcursor_last(c, &found));
    *ret_newest = found ? tcursor_num(c) : 0;
fail:
    tcursor_close(c);
    return rc;
}

/* Removes every entry, image and segment. */
static int wipe(struct stx *t, uint64_t oldest, uint64_t last)
{
    struct tcursor *c;
    bool found;
    int rc;

    TRY_RETURN(images_truncate(t, 0, last));
    if (oldest != 0) {
        TRY_RETURN(tcursor_open(t, TABLE_OPLOG, TABLE_OPTIMES, &c));
        rc = tcursor_truncate_num(c, oldest, last);
        tcursor_close(c);
        TRY_RETURN(rc);
    }
    TRY_RETURN(tcursor_open(t, TABLE_SEGMENTS, TABLE_OPTIMES, &c));
    TRY(tcursor_first(c, &found));
    if (found)
        TRY(tcursor_truncate_num(c, tcursor_num(c), last));
fail:
    tcursor_close(c);
    return rc;
}

/* What start-up finds. */
struct found {
    uint64_t oldest, newest, ceiling, term, pruned, voided, image_seconds, image_set_at;
};

static int read_state(struct stx *t, struct found *f)
{
    TRY_RETURN(edge_keys(t, &f->oldest, &f->newest));
    TRY_RETURN(meta_get(t, META_CEILING, &f->ceiling));
    TRY_RETURN(meta_get(t, META_TERM, &f->term));
    TRY_RETURN(meta_get(t, META_PRUNED, &f->pruned));
    TRY_RETURN(meta_get(t, META_IMAGE_SECONDS, &f->image_seconds));
    TRY_RETURN(meta_get(t, META_IMAGE_SET_AT, &f->image_set_at));
    return meta_get(t, META_VOID, &f->voided);
}

/* Takes the state over and writes what must be on disk before the first optime is handed out. */
static int claim_state(struct oplog *o, struct stx *t, struct found *f)
{
    uint64_t last = f->newest > f->ceiling ? f->newest : f->ceiling;

    if (f->voided != 0 && !o->hidden) {
        TRY_RETURN(wipe(t, f->oldest, last));
        TRY_RETURN(meta_remove(t, META_VOID));
        f->pruned = last;
        f->oldest = 0;
        TRY_RETURN(meta_put(t, META_PRUNED, f->pruned));
        log_event(LOG_WARNING, "oplog",
                  "a run without an oplog wrote: the older entries are void", );
    }
    TRY_RETURN(meta_put(t, META_TERM, f->term + 1));
    TRY_RETURN(meta_put(t, META_CEILING, ceiling_for(o, last)));
    o->term = (int64_t)f->term + 1;
    horizon_init(&o->horizon, last, ceiling_for(o, last));
    atomic_init(&o->durable, last);
    atomic_init(&o->pruned, f->pruned);
    atomic_init(&o->oldest, f->oldest);
    o->truncated = f->pruned;
    atomic_init(&o->voided, f->voided != 0);
    atomic_init(&o->image_seconds, (int64_t)f->image_seconds);
    atomic_init(&o->image_set_at, f->image_set_at);
    return 0;
}

static int start_state(struct oplog *o, struct op *op, struct found *f)
{
    struct stx *t;
    int rc;

    TRY_RETURN(stx_begin(o->engine, op, &t));
    TRY(read_state(t, f));
    TRY(claim_state(o, t, f));
    TRY_RETURN(stx_commit(t));
    FAULT(START_CLAIMED);
    return engine_sync_log(o->engine, op->err);
fail:
    stx_rollback(t);
    return rc;
}

static int first_entries(struct oplog *o, struct op *op, const struct found *f)
{
    if (o->hidden)
        return 0;
    if (f->newest == 0 && f->pruned == 0)
        TRY_RETURN(noop_msg(o, op, "initiating set"));
    TRY_RETURN(noop_msg(o, op, "new primary"));
    flusher_wait(o, oplog_visible(o));
    return 0;
}

static void ask_flusher(void *arg)
{
    flusher_ask(arg);
}

static void init_parts(struct oplog *o)
{
    waitlist_init(&o->visible_waiters);
    waitlist_init(&o->durable_waiters);
    waitlist_init(&o->flush_waiters);
    waitlist_init(&o->ceiling_waiters);
    mutex_init(&o->pump_mx);
    mutex_init(&o->flusher.mx);
    cond_init(&o->flusher.cv);
    cond_init(&o->flusher.done);
    mutex_init(&o->limits_mx);
    mutex_init(&o->keeper.mx);
    mutex_init(&o->keeper.work_mx);
    cond_init(&o->keeper.cv);
    mutex_init(&o->void_mx);
    mutex_init(&o->room_mx);
    cond_init(&o->room);
    age_clock_init(&o->entry_ages);
    age_clock_init(&o->image_ages);
    segments_init(&o->segments);
}

static void free_parts(struct oplog *o)
{
    segments_fini(&o->segments);
    waitlist_fini(&o->visible_waiters);
    waitlist_fini(&o->durable_waiters);
    waitlist_fini(&o->flush_waiters);
    waitlist_fini(&o->ceiling_waiters);
    mutex_fini(&o->pump_mx);
    mutex_fini(&o->flusher.mx);
    pthread_cond_destroy(&o->flusher.cv);
    pthread_cond_destroy(&o->flusher.done);
    mutex_fini(&o->limits_mx);
    mutex_fini(&o->keeper.mx);
    mutex_fini(&o->keeper.work_mx);
    pthread_cond_destroy(&o->keeper.cv);
    mutex_fini(&o->void_mx);
    mutex_fini(&o->room_mx);
    pthread_cond_destroy(&o->room);
    age_clock_fini(&o->entry_ages);
    age_clock_fini(&o->image_ages);
    free(o);
}

static struct oplog *new_oplog(struct engine *e, const struct oplog_options *opt)
{
    struct oplog *o = mem_must_zero(1, sizeof(*o));

    o->engine = e;
    o->memory = engine_in_memory(e);
    o->hidden = opt->hidden;
    o->noop_interval_ms = opt->noop_interval_ms > 0 ? opt->noop_interval_ms : NOOP_INTERVAL_MS;
    o->limits.size_bytes = opt->size_bytes;
    o->limits.seconds = opt->retention_seconds;
    o->limits.max_entries = opt->max_entries;
    init_parts(o);
    retention_bounds(o);
    return o;
}

/* The ring, the hub and the flusher's numbers begin at what start-up has found. */
static void start_parts(struct oplog *o, const struct oplog_options *opt)
{
    uint64_t last = oplog_visible(o);
    int64_t bytes = opt->hub_bytes > 0 ? opt->hub_bytes : HUB_BYTES_DEFAULT;

    ring_init(&o->ring, (size_t)bytes, last);
    hub_init(&o->hub, last);
    o->horizon.ask_ceiling = ask_flusher;
    o->horizon.ask_arg = o;
}

static void stop_parts(struct oplog *o)
{
    keeper_stop(o);
    flusher_stop(o);
    hub_fini(&o->hub);
    ring_fini(&o->ring);
    horizon_fini(&o->horizon);
}

int oplog_open(struct engine *e, const struct oplog_options *opt, struct error *err,
               struct oplog **ret)
{
    struct oplog *o = new_oplog(e, opt);
    struct found found = {0};
    struct op op;
    bool started = false;
    int rc;

    op_init(&op);
    TRY(create_tables(e, op.err));
    TRY(start_state(o, &op, &found));
    start_parts(o, opt);
    flusher_start(o);
    started = true;
    if (!o->hidden)
        TRY(segments_load(&o->segments, e, &op));
    TRY(first_entries(o, &op, &found));
    oplog_pump(o);
    keeper_start(o);
    op_fini(&op);
    *ret = o;
    return 0;
fail:
    *err = *op.err;
    err->info = NULL;
    if (started)
        stop_parts(o);
    free_parts(o);
    op_fini(&op);
    return rc;
}

/* --- closing ------------------------------------------------------------------------------- */

/* The next run goes on exactly above what was handed out. */
static int write_last(struct oplog *o, struct op *op)
{
    struct stx *t;
    int rc;

    TRY_RETURN(stx_begin(o->engine, op, &t));
    TRY(meta_put(t, META_CEILING, oplog_allocated(o)));
    TRY_RETURN(stx_commit(t));
    FAULT(STOP_LAST);
    return engine_sync_log(o->engine, op->err);
fail:
    stx_rollback(t);
    return rc;
}

void oplog_close(struct oplog *o)
{
    struct op op;
    int rc;

    if (o == NULL)
        return;
    op_init(&op);
    keeper_stop(o);
    oplog_pump(o);
    rc = segments_store(&o->segments, o->engine, &op);
    flusher_stop(o);
    FAULT(STOP_SEGMENTS);
    if (rc == 0 && !o->memory)
        rc = write_last(o, &op);
    if (rc != 0)
        log_event(LOG_ERROR, "oplog", "not closed cleanly", {"error", LOG_STR(op.err->text)}, );
    stop_parts(o);
    free_parts(o);
    op_fini(&op);
}

int oplog_mark_void(struct oplog *o, struct op *op)
{
    struct stx *t;
    int rc = 0;

    if (o->memory || atomic_load(&o->voided))
        return 0;
    mutex_lock(&o->void_mx);
    if (atomic_load(&o->voided))
        goto fail;
    TRY(stx_begin(o->engine, op, &t));
    rc = meta_put(t, META_VOID, 1);
    if (rc != 0) {
        stx_rollback(t);
        goto fail;
    }
    TRY(stx_commit(t));
    atomic_store(&o->voided, true);
fail:
    mutex_unlock(&o->void_mx);
    return rc;
}

/* --- numbers ------------------------------------------------------------------------------- */

void oplog_stats(struct oplog *o, struct oplog_stats *ret)
{
    memset(ret, 0, sizeof(*ret));
    oplog_pump(o);
    ret->first = oplog_oldest(o);
    ret->last = segments_newest(&o->segments);
    segments_totals(&o->segments, &ret->entries, &ret->bytes, &ret->segments);
    ret->flushes = atomic_load_explicit(&o->flushes, memory_order_relaxed);
    ret->commits = atomic_load_explicit(&o->commits, memory_order_relaxed);
    ret->waiting_streams = atomic_load(&o->hub.streams);
    ring_size(&o->ring, &ret->ring_entries, &ret->ring_bytes);
}
