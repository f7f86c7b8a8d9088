/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What requests wait for: that a reply may go, that a stream has something to read, and, while the
 * disk is stuck, that there are optimes again.
 */
#include "base/clock.h"
#include "base/fault.h"
#include "oplog/append.h"
#include "oplog/oplog_internal.h"

/* --- replies ------------------------------------------------------------------------------- */

int oplog_wait_ack(struct oplog *o, struct op *op)
{
    uint64_t durable = op->ack_durable;
    uint64_t visible = o->memory && durable > op->ack_visible ? durable : op->ack_visible;

    if (oplog_visible(o) < visible && (o->memory || durable < visible))
        TRY_RETURN(waitlist_park(&o->visible_waiters, op, visible, &o->horizon.visible));
    if (o->memory)
        return 0;
    if (atomic_load(&o->durable) < durable) {
        int rc = waitlist_park(&o->durable_waiters, op, durable, &o->durable);

        flusher_want(o, durable);
        TRY_RETURN(rc);
    }
    if (atomic_load(&o->flush_done) < op->ack_flush) {
        int rc = waitlist_park(&o->flush_waiters, op, op->ack_flush, &o->flush_done);

        flusher_ask(o);
        return rc;
    }
    return 0;
}

uint64_t oplog_flush_ticket(struct oplog *o)
{
    uint64_t began = atomic_load(&o->began);

    if (o->memory || atomic_load(&o->covered) >= began)
        return 0;
    return atomic_load(&o->flush_started) + 1;
}

/* --- streams ------------------------------------------------------------------------------- */

/* What a parker looks at, under the hub's lock. */
struct wait_check {
    struct oplog *o;
    const struct scope *scope;
    uint64_t after;
};

enum { CHECK_CHUNK = 64, CHECK_MAX = 4 * CHECK_CHUNK };

static uint64_t horizon_of(const struct wait_check *c)
{
    return c->scope->kind == SCOPE_OPLOG ? oplog_visible(c->o) : oplog_durable(c->o);
}

/*
 * Looks at the entries in (after, visible]. A match at or below the horizon, or so many entries
 * that they are better read than looked at here: read again. A match above it: somebody waits for
 * the flusher now. Where nothing below the horizon is left to read the request parks in any case,
 * since reading again would find nothing; whoever raises the horizon looks at what was not looked
 * at here, unless it was raised before that was said.
 */
static enum hub_check check_entries(void *arg)
{
    struct wait_check *c = arg;
    struct oplog *o = c->o;
    uint64_t visible = oplog_visible(o);
    uint64_t horizon = horizon_of(c);
    struct ring_entry *e[CHECK_CHUNK];
    uint64_t at = c->after;
    bool again = false, want = false, inside;
    size_t seen = 0, n;

    if (c->after >= visible)
        return HUB_NOTHING;
    if (ring_upto(&o->ring) < visible)
        oplog_pump(o);
    do {
        inside = ring_fetch(&o->ring, at, visible, e, CHECK_CHUNK, &n);
        for (size_t i = 0; i < n; i++) {
            at = e[i]->row.optime;
            if (scope_matches(c->scope, &e[i]->row)) {
                again = again || at <= horizon;
                want = want || at > horizon;
            }
            ring_entry_drop(e[i]);
        }
        seen += n;
    } while (n > 0 && !again && !want && seen < CHECK_MAX);
    if (!inside || (n > 0 && !again && !want)) { /* not all of them were looked at */
        again = at < horizon;
        want = true;
    }
    if (want && !again) {
        FAULT(PARK_LOOKED);
        hub_expect(&o->hub, visible);
        flusher_want(o, visible);
        again = horizon_of(c) > horizon;
    }
    return again ? HUB_READ_AGAIN : HUB_NOTHING;
}

int oplog_wait_entry(struct oplog *o, struct op *op, const struct scope *s, uint64_t after)
{
    struct wait_check c = {o, s, after};

    return hub_park(&o->hub, op, s, after, check_entries, &c);
}

uint64_t oplog_wait_passed(const struct op *op)
{
    return hub_passed(op);
}

/* --- optimes ------------------------------------------------------------------------------- */

static int check_wait(struct op *op)
{
    TRY_RETURN(op_check(op));
    if (op->room_until_us != 0 && clock_mono_us() >= op->room_until_us)
        return op_fail(op, ERR_WRITE_CONCERN_TIMEOUT, "waiting for replication timed out");
    return 0;
}

/* The time and the hang-up that end this wait end no other one of the same request. */
static void unpark_room(struct op *op)
{
    waitlist_unpark(op);
    op->park_deadline_us = 0;
    op->ends_with_client = false;
}

static int park_for_room(struct oplog *o, struct op *op, uint64_t want)
{
    if (op->room_until_us == 0 && op->wtimeout_us != 0)
        op->room_until_us = clock_mono_us() + op->wtimeout_us;
    TRY_RETURN(check_wait(op));
    op->park_deadline_us = op->room_until_us;
    op->ends_with_client = true;
    if (waitlist_park(&o->ceiling_waiters, op, want, &o->horizon.ceiling) == INT_PARK) {
        op->unpark = unpark_room;
        return INT_PARK;
    }
    op->park_deadline_us = 0;
    op->ends_with_client = false;
    return 0;
}

/* A thread that must not give up what its request has done so far. */
static int sleep_for_room(struct oplog *o, struct op *op, uint64_t want)
{
    struct horizon *h = &o->horizon;
    int rc = 0;

    op_note_stuck(op, true);
    while (rc == 0 && atomic_load(&h->ceiling) < want) {
        mutex_lock(&o->room_mx);
        if (atomic_load(&h->ceiling) < want)
            (void)mutex_wait(&o->room_mx, &o->room, clock_mono_us() + ROOM_LOOK_MS * 1000);
        mutex_unlock(&o->room_mx);
        rc = check_wait(op);
    }
    op_note_stuck(op, false);
    return rc;
}

int oplog_wait_room(struct oplog *o, struct op *op)
{
    uint64_t want = atomic_load(&o->horizon.wants);

    if (op->wrote_optime != 0 || op->waiter.wake == NULL)
        return sleep_for_room(o, op, want);
    return park_for_room(o, op, want);
}
