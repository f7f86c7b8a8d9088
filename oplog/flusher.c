/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The flusher: one thread that makes what is visible durable, for all who wait at once.
 *
 * It syncs when asked, and FLUSH_INTERVAL_MS after the first commit that nobody asked for; with
 * nothing unsynced it sleeps without a timer. Each sync has a number; a ticket is the number of
 * the next sync to begin. A sync that fails may have lost what it should have written, and a second
 * one may succeed without it: so a failure ends the process.
 *
 * The durable ceiling of optimes is renewed here, in a sync that is made anyway where possible.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "oplog/oplog_internal.h"

/* Entries fetched from the ring at a time. */
enum { ANNOUNCE_CHUNK = 64 };

/* --- asking -------------------------------------------------------------------------------- */

static void ring_bell(struct flusher *f)
{
    mutex_lock(&f->mx);
    pthread_cond_signal(&f->cv);
    mutex_unlock(&f->mx);
}

void flusher_ask(struct oplog *o)
{
    if (!atomic_exchange(&o->flusher.asked, true))
        ring_bell(&o->flusher);
}

void flusher_note(struct oplog *o)
{
    if (atomic_load(&o->flusher.dozing) && atomic_exchange(&o->flusher.dozing, false))
        ring_bell(&o->flusher);
}

void flusher_want(struct oplog *o, uint64_t optime)
{
    uint64_t seen = atomic_load(&o->durable_wanted);

    while (seen < optime && !atomic_compare_exchange_weak(&o->durable_wanted, &seen, optime))
        ;
    if (oplog_visible(o) > atomic_load(&o->hub.announced))
        flusher_ask(o);
}

void flusher_wait(struct oplog *o, uint64_t optime)
{
    struct flusher *f = &o->flusher;

    mutex_lock(&f->mx);
    while (atomic_load(&o->durable) < optime) {
        atomic_store(&f->asked, true);
        pthread_cond_signal(&f->cv);
        (void)mutex_wait(&f->mx, &f->done, -1);
    }
    mutex_unlock(&f->mx);
}

static bool unsynced(const struct oplog *o)
{
    return atomic_load(&o->began) != atomic_load(&o->covered) ||
           atomic_load(&o->horizon.visible) > atomic_load(&o->hub.announced) ||
           atomic_load(&o->horizon.wants) != 0;
}

/* --- the ceiling --------------------------------------------------------------------------- */

uint64_t ceiling_for(const struct oplog *o, uint64_t last)
{
    uint64_t now_s = (uint64_t)(clock_wall_ms() / 1000);
    uint64_t second = last >> 32 > now_s ? last >> 32 : now_s;

    return o->memory ? UINT64_MAX : (second + CEILING_AHEAD_S) << 32;
}

/* A ceiling to write with the next sync; 0: the present one will do for another second. */
static uint64_t ceiling_due(struct oplog *o)
{
    uint64_t wants = atomic_load(&o->horizon.wants);
    uint64_t last = atomic_load(&o->horizon.allocated);
    uint64_t next = ceiling_for(o, wants > last ? wants : last);
    uint64_t now;

    now = atomic_load(&o->horizon.ceiling);
    return wants != 0 || next >= now + (1ULL << 32) ? next : 0;
}

static int write_ceiling(struct oplog *o, struct op *op, uint64_t ceiling)
{
    struct stx *t;
    int rc;

    TRY_RETURN(stx_begin(o->engine, op, &t));
    TRY(meta_put(t, META_CEILING, ceiling));
    return stx_commit(t);
fail:
    stx_rollback(t);
    return rc;
}

/* --- announcing ---------------------------------------------------------------------------- */

/* Wakes the streams that the entries in (announced, v] concern. Mostly there are none, and nobody
 * looks at entries that have left the processor's caches by now. */
static void announce(struct oplog *o, uint64_t v)
{
    struct ring_entry *e[ANNOUNCE_CHUNK];
    uint64_t at = atomic_load(&o->hub.announced);
    size_t n = 0;

    oplog_pump(o);
    while (at < v && atomic_load(&o->hub.expected) > at && atomic_load(&o->hub.streams) > 0) {
        if (!ring_fetch(&o->ring, at, v, e, ANNOUNCE_CHUNK, &n)) {
            at = ring_floor(&o->ring);
            hub_wake_all(&o->hub, at < v ? at : v);
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            hub_wake(&o->hub, &e[i]->row);
            at = e[i]->row.optime;
            ring_entry_drop(e[i]);
        }
        if (n == 0)
            break;
    }
    atomic_store(&o->hub.announced, v);
}

/* --- syncing ------------------------------------------------------------------------------- */

static void __attribute__((noreturn)) die(const char *what, const struct error *err)
{
    log_event(LOG_FATAL, "oplog", what, {"error", LOG_STR(err->text)}, );
    abort();
}

/* The commits that a sync beginning now will cover, as a value of `began`; else `covered`. */
static uint64_t coverable(const struct oplog *o)
{
    uint64_t ended = atomic_load(&o->ended), began = atomic_load(&o->began);

    return ended == began ? began : atomic_load(&o->covered);
}

/* The sync itself. All sessions may be leased for a moment: that is no failure. */
static int sync_when_possible(struct oplog *o, struct op *op)
{
    int rc = FAULT_ERROR(FLUSH_BEFORE);

    if (rc != 0)
        return error_set(op->err, rc, "fault point");
    while ((rc = engine_sync_log(o->engine, op->err)) == ERR_TEMPORARILY_UNAVAILABLE)
        usleep(1000);
    return rc;
}

static void raise_ceiling(struct oplog *o, uint64_t ceiling)
{
    bool moved = horizon_raise_ceiling(&o->horizon, ceiling);

    mutex_lock(&o->room_mx);
    pthread_cond_broadcast(&o->room);
    mutex_unlock(&o->room_mx);
    waitlist_wake(&o->ceiling_waiters, ceiling);
    if (moved)
        oplog_moved(o);
}

static void sync_log(struct oplog *o, struct op *op)
{
    uint64_t ceiling = ceiling_due(o);

    if (ceiling != 0 && write_ceiling(o, op, ceiling) != 0) {
        /* Those who need it wait on; the next sync tries again. */
        log_event(LOG_ERROR, "oplog", "cannot write the ceiling of optimes",
                  {"error", LOG_STR(op->err->text)}, );
        ceiling = 0;
    }
    if (ceiling != 0)
        FAULT(CEILING_WRITTEN);
    if (sync_when_possible(o, op) != 0)
        die("cannot sync the log", op->err);
    FAULT(FLUSH_AFTER);
    if (ceiling != 0)
        raise_ceiling(o, ceiling);
    atomic_fetch_add_explicit(&o->flushes, 1, memory_order_relaxed);
}

static void flush(struct oplog *o, struct op *op)
{
    uint64_t covers = coverable(o);
    uint64_t v = oplog_visible(o);
    uint64_t number = atomic_fetch_add(&o->flush_started, 1) + 1;

    if (!o->memory)
        sync_log(o, op);
    atomic_store(&o->covered, covers);
    atomic_store(&o->durable, v);
    atomic_store(&o->flush_done, number);
    waitlist_wake(&o->durable_waiters, v);
    waitlist_wake(&o->flush_waiters, number);
    mutex_lock(&o->flusher.mx);
    pthread_cond_broadcast(&o->flusher.done);
    mutex_unlock(&o->flusher.mx);
    announce(o, v);
    arena_reset(&op->arena);
}

/* --- the thread ---------------------------------------------------------------------------- */

/* Until there is something to do. False: stop. */
static bool await_work(struct oplog *o)
{
    struct flusher *f = &o->flusher;
    int64_t deadline_us = clock_mono_us() + FLUSH_INTERVAL_MS * 1000;
    bool go_on;

    mutex_lock(&f->mx);
    while (!f->stop && !atomic_load(&f->asked)) {
        if (unsynced(o)) {
            if (mutex_wait(&f->mx, &f->cv, deadline_us) == ETIMEDOUT)
                break;
            continue;
        }
        atomic_store(&f->dozing, true);
        if (!unsynced(o) && !atomic_load(&f->asked))
            (void)mutex_wait(&f->mx, &f->cv, -1);
        atomic_store(&f->dozing, false);
        deadline_us = clock_mono_us() + FLUSH_INTERVAL_MS * 1000;
    }
    atomic_store(&f->asked, false);
    go_on = !f->stop;
    mutex_unlock(&f->mx);
    return go_on;
}

static void *run(void *arg)
{
    struct oplog *o = arg;
    struct op op;

    op_init(&op);
    while (await_work(o))
        flush(o, &op);
    flush(o, &op);
    op_fini(&op);
    return NULL;
}

void flusher_start(struct oplog *o)
{
    struct flusher *f = &o->flusher;
    int rc = pthread_create(&f->thread, NULL, run, o);

    ASSERT(rc == 0);
    f->running = true;
}

void flusher_stop(struct oplog *o)
{
    struct flusher *f = &o->flusher;

    if (!f->running)
        return;
    mutex_lock(&f->mx);
    f->stop = true;
    pthread_cond_signal(&f->cv);
    mutex_unlock(&f->mx);
    pthread_join(f->thread, NULL);
    f->running = false;
}
