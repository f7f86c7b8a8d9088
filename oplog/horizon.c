/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Why nothing is missed: a row is committed before its slot is done, and a reader loads `visible`
 * before its snapshot opens, so its snapshot holds every row up to there. A rolled back slot is
 * done too; it merely has no row. Optimes are taken after the data writes succeeded, so of two
 * transactions that conflict the later one has the greater optime.
 */
#include "oplog/horizon.h"

#include "base/clock.h"

void horizon_init(struct horizon *h, uint64_t last, uint64_t ceiling)
{
    memset(h, 0, sizeof(*h));
    mutex_init(&h->mx);
    cond_init(&h->room);
    cond_init(&h->idle);
    h->last = last;
    atomic_init(&h->ceiling, ceiling);
    atomic_init(&h->visible, last);
    atomic_init(&h->allocated, last);
}

void horizon_fini(struct horizon *h)
{
    ASSERT(h->head == h->tail);
    ring_chain_drop(&h->pending);
    pthread_cond_destroy(&h->room);
    pthread_cond_destroy(&h->idle);
    mutex_fini(&h->mx);
}

/* The first of the next n optimes: not below the clock's second nor at_least, above the floor,
 * increments above 0, all n within one second. */
static uint64_t next_locked(const struct horizon *h, uint64_t at_least, uint64_t n)
{
    uint64_t now = (uint64_t)(clock_wall_ms() / 1000) << 32 | 1;
    uint64_t next = h->last + 1;

    if (next < now)
        next = now;
    if (next < at_least)
        next = at_least;
    if (next <= h->floor)
        next = h->floor + 1;
    if ((uint32_t)next == 0)
        next++;
    if ((uint32_t)next > UINT32_MAX - n)
        next = ((next >> 32) + 1) << 32 | 1;
    return next;
}

static void wait_room_locked(struct horizon *h)
{
    h->waiting++;
    (void)mutex_wait(&h->mx, &h->room, -1);
    h->waiting--;
}

static void want_ceiling_locked(struct horizon *h, uint64_t optime)
{
    if (optime > atomic_load(&h->wants))
        atomic_store(&h->wants, optime);
    if (h->ask_ceiling != NULL)
        h->ask_ceiling(h->ask_arg);
}

/* 0: above the ceiling. */
static uint64_t take_locked(struct horizon *h, uint64_t at_least, uint64_t n, uint64_t *ret_slot)
{
    struct horizon_slot *s;
    uint64_t first;

    mutex_assert_held(&h->mx);
    while (h->holds > 0 || h->head - h->tail == HORIZON_SLOTS)
        wait_room_locked(h);
    first = next_locked(h, at_least, n);
    if (first + n - 1 > atomic_load(&h->ceiling)) {
        want_ceiling_locked(h, first + n - 1);
        return 0;
    }
    h->last = first + n - 1;
    atomic_store_explicit(&h->allocated, h->last, memory_order_release);
    s = &h->slots[h->head % HORIZON_SLOTS];
    s->last = h->last;
    s->entries = (struct ring_chain){0};
    s->done = false;
    *ret_slot = h->head++;
    return first;
}

static bool end_locked(struct horizon *h, uint64_t slot, const struct ring_chain *entries)
{
    struct horizon_slot *s = &h->slots[slot % HORIZON_SLOTS];
    uint64_t visible = 0;

    mutex_assert_held(&h->mx);
    ASSERT(slot - h->tail < HORIZON_SLOTS && !s->done);
    if (entries != NULL)
        s->entries = *entries;
    s->done = true;
    if (slot != h->tail)
        return false;
    do {
        s = &h->slots[h->tail % HORIZON_SLOTS];
        ring_chain_join(&h->pending, &s->entries);
        visible = s->last;
        h->tail++;
    } while (h->tail != h->head && h->slots[h->tail % HORIZON_SLOTS].done);
    atomic_store_explicit(&h->pending_bytes, h->pending.bytes, memory_order_relaxed);
    atomic_store(&h->visible, visible);
    if (h->waiting > 0)
        pthread_cond_broadcast(&h->room);
    if (h->holds > 0 && h->tail == h->head)
        pthread_cond_broadcast(&h->idle);
    return true;
}

uint64_t horizon_begin(struct horizon *h, uint64_t n, uint64_t *ret_slot)
{
    uint64_t first;

    ASSERT(n > 0);
    mutex_lock(&h->mx);
    first = take_locked(h, 0, n, ret_slot);
    mutex_unlock(&h->mx);
    return first;
}

bool horizon_end(struct horizon *h, uint64_t slot, const struct ring_chain *entries)
{
    bool moved;

    mutex_lock(&h->mx);
    moved = end_locked(h, slot, entries);
    mutex_unlock(&h->mx);
    return moved;
}

/* Takes ts, or leaves it as the floor. True: `visible` has moved. */
static bool advance_locked(struct horizon *h, uint64_t ts)
{
    uint64_t slot;

    mutex_assert_held(&h->mx);
    if (h->last >= ts)
        return false;
    if (ts <= h->floor && h->floor > atomic_load(&h->ceiling))
        return false;
    if (ts < h->floor)
        ts = h->floor;
    h->floor = ts - 1;
    if (take_locked(h, ts, 1, &slot) != 0)
        return end_locked(h, slot, NULL);
    h->floor = ts;
    return false;
}

bool horizon_advance(struct horizon *h, uint64_t ts)
{
    bool moved;

    if (atomic_load(&h->allocated) >= ts)
        return false;
    mutex_lock(&h->mx);
    moved = advance_locked(h, ts);
    mutex_unlock(&h->mx);
    return moved;
}

uint64_t horizon_take_pending(struct horizon *h, struct ring_chain *ret)
{
    uint64_t upto;

    mutex_lock(&h->mx);
    *ret = h->pending;
    h->pending = (struct ring_chain){0};
    atomic_store_explicit(&h->pending_bytes, 0, memory_order_relaxed);
    upto = atomic_load(&h->visible);
    mutex_unlock(&h->mx);
    return upto;
}

size_t horizon_pending_bytes(const struct horizon *h)
{
    return atomic_load_explicit(&h->pending_bytes, memory_order_relaxed);
}

uint64_t horizon_hold(struct horizon *h)
{
    uint64_t last;

    mutex_lock(&h->mx);
    h->holds++;
    while (h->head != h->tail)
        (void)mutex_wait(&h->mx, &h->idle, -1);
    last = h->last;
    mutex_unlock(&h->mx);
    return last;
}

void horizon_let_go(struct horizon *h)
{
    mutex_lock(&h->mx);
    if (--h->holds == 0 && h->waiting > 0)
        pthread_cond_broadcast(&h->room);
    mutex_unlock(&h->mx);
}

bool horizon_raise_ceiling(struct horizon *h, uint64_t ceiling)
{
    bool moved;

    mutex_lock(&h->mx);
    if (ceiling > atomic_load(&h->ceiling))
        atomic_store(&h->ceiling, ceiling);
    if (atomic_load(&h->wants) <= ceiling)
        atomic_store(&h->wants, 0);
    moved = advance_locked(h, h->floor);
    mutex_unlock(&h->mx);
    return moved;
}
