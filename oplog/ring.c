/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "oplog/ring.h"

#include <stdlib.h>

enum { RING_SLOTS_MIN = 1024 };

/* --- entries and chains -------------------------------------------------------------------- */

struct ring_entry *ring_entry_new(struct bv entry)
{
    struct ring_entry *e = malloc(sizeof(*e) + entry.len);
    bool ok;

    if (e == NULL)
        return NULL;
    e->next = NULL;
    atomic_init(&e->refs, 1);
    e->len = entry.len;
    memcpy(e->bytes, entry.p, entry.len);
    ok = oplog_parse((struct bv){e->bytes, entry.len, BV_DOC}, &e->row);
    ASSERT(ok);
    return e;
}

void ring_entry_drop(struct ring_entry *e)
{
    if (e != NULL && atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) == 1)
        free(e);
}

size_t ring_entry_bytes(const struct ring_entry *e)
{
    return sizeof(*e) + e->len;
}

void ring_chain_add(struct ring_chain *c, struct ring_entry *e)
{
    if (c->last == NULL)
        c->first = e;
    else
        c->last->next = e;
    c->last = e;
    c->bytes += ring_entry_bytes(e);
}

void ring_chain_join(struct ring_chain *to, struct ring_chain *from)
{
    if (from->first == NULL)
        return;
    if (to->last == NULL)
        to->first = from->first;
    else
        to->last->next = from->first;
    to->last = from->last;
    to->bytes += from->bytes;
    *from = (struct ring_chain){0};
}

void ring_chain_drop(struct ring_chain *c)
{
    struct ring_entry *e = c->first;

    while (e != NULL) {
        struct ring_entry *next = e->next;

        ring_entry_drop(e);
        e = next;
    }
    *c = (struct ring_chain){0};
}

/* --- the ring ------------------------------------------------------------------------------ */

void ring_init(struct ring *r, size_t max_bytes, uint64_t floor)
{
    memset(r, 0, sizeof(*r));
    mutex_init(&r->mx);
    r->cap = RING_SLOTS_MIN;
    r->slots = calloc(r->cap, sizeof(*r->slots));
    if (r->slots == NULL)
        abort();
    r->max_bytes = max_bytes;
    r->floor = r->upto = floor;
}

void ring_fini(struct ring *r)
{
    for (uint64_t i = r->tail; i < r->head; i++)
        ring_entry_drop(r->slots[i & (r->cap - 1)]);
    free(r->slots);
    mutex_fini(&r->mx);
}

static struct ring_entry *at(const struct ring *r, uint64_t i)
{
    return r->slots[i & (r->cap - 1)];
}

/* Room for one more; only ring_push() changes `slots`, so it may allocate without the mutex. */
static void make_room(struct ring *r)
{
    struct ring_entry **slots, **old = r->slots;

    if (r->head - r->tail < r->cap)
        return;
    slots = calloc(r->cap * 2, sizeof(*slots));
    if (slots == NULL)
        abort();
    for (uint64_t i = r->tail; i < r->head; i++)
        slots[i & (r->cap * 2 - 1)] = at(r, i);
    mutex_lock(&r->mx);
    r->slots = slots;
    r->cap *= 2;
    mutex_unlock(&r->mx);
    free(old);
}

/* Moves the oldest entries that are too much into `out`. */
static void evict_locked(struct ring *r, struct ring_chain *out)
{
    mutex_assert_held(&r->mx);
    while (r->bytes > r->max_bytes && r->tail < r->head) {
        struct ring_entry *e = at(r, r->tail++);

        r->bytes -= ring_entry_bytes(e);
        r->floor = e->row.optime;
        e->next = NULL;
        ring_chain_add(out, e);
    }
}

void ring_push(struct ring *r, struct ring_chain *c, uint64_t upto)
{
    struct ring_chain out = {0};
    struct ring_entry *e = c->first;

    while (e != NULL) {
        struct ring_entry *next = e->next;

        make_room(r);
        mutex_lock(&r->mx);
        ASSERT(e->row.optime > r->upto);
        e->next = NULL;
        r->slots[r->head++ & (r->cap - 1)] = e;
        r->bytes += ring_entry_bytes(e);
        r->upto = e->row.optime;
        evict_locked(r, &out);
        mutex_unlock(&r->mx);
        e = next;
    }
    *c = (struct ring_chain){0};
    mutex_lock(&r->mx);
    if (upto > r->upto)
        r->upto = upto;
    mutex_unlock(&r->mx);
    ring_chain_drop(&out);
}

/* Index of the first entry above `after`. */
static uint64_t find_locked(const struct ring *r, uint64_t after)
{
    uint64_t lo = r->tail, hi = r->head;

    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (at(r, mid)->row.optime <= after)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool ring_fetch(struct ring *r, uint64_t after, uint64_t horizon, struct ring_entry **ret, size_t n,
                size_t *ret_n)
{
    size_t got = 0;
    bool inside;

    mutex_lock(&r->mx);
    inside = after >= r->floor;
    for (uint64_t i = inside ? find_locked(r, after) : r->head; i < r->head && got < n; i++) {
        struct ring_entry *e = at(r, i);

        if (e->row.optime > horizon)
            break;
        atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
        ret[got++] = e;
    }
    mutex_unlock(&r->mx);
    *ret_n = got;
    return inside;
}

uint64_t ring_upto(struct ring *r)
{
    uint64_t x;

    mutex_lock(&r->mx);
    x = r->upto;
    mutex_unlock(&r->mx);
    return x;
}

uint64_t ring_floor(struct ring *r)
{
    uint64_t x;

    mutex_lock(&r->mx);
    x = r->floor;
    mutex_unlock(&r->mx);
    return x;
}

void ring_size(struct ring *r, int64_t *ret_entries, int64_t *ret_bytes)
{
    mutex_lock(&r->mx);
    *ret_entries = (int64_t)(r->head - r->tail);
    *ret_bytes = (int64_t)r->bytes;
    mutex_unlock(&r->mx);
}
