/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "oplog/ring.h"

#include <stdlib.h>

#include "base/fault.h"
#include "base/mem.h"
#include "oplog/scope.h"

enum { RING_SLOTS_MIN = 1024, AHEAD = 4 /* entries */ };

static _Atomic size_t built_bytes; /* of all that is kept beside entries */

/* --- entries and chains -------------------------------------------------------------------- */

struct ring_entry *ring_entry_new(struct bv entry)
{
    struct ring_entry *e = mem_try(sizeof(*e) + entry.len);
    bool ok;

    if (e == NULL)
        return NULL;
    e->next = NULL;
    atomic_init(&e->built, NULL);
    atomic_init(&e->refs, 1);
    e->len = entry.len;
    memcpy(e->bytes, entry.p, entry.len);
    ok = oplog_parse((struct bv){e->bytes, entry.len, BV_DOC}, &e->row);
    ASSERT(ok);
    scope_hash_row(&e->row);
    e->row.ring = e;
    return e;
}

static size_t built_size(uint32_t len)
{
    return sizeof(struct ring_built) + len;
}

static void built_free(struct ring_built *b)
{
    atomic_fetch_sub_explicit(&built_bytes, built_size(b->len), memory_order_relaxed);
    free(b);
}

void ring_entry_drop(struct ring_entry *e)
{
    struct ring_built *b, *next;

    if (e == NULL || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (b = atomic_load_explicit(&e->built, memory_order_relaxed); b != NULL; b = next) {
        next = b->next;
        built_free(b);
    }
    free(e);
}

struct bv ring_entry_built(const struct ring_entry *e, uint64_t shape)
{
    struct ring_built *b = atomic_load_explicit(&e->built, memory_order_acquire);

    while (b != NULL && b->shape != shape)
        b = b->next;
    return b == NULL ? BV_NONE : (struct bv){b->bytes, b->len, BV_DOC};
}

/* True when another shape may be hung in front of `head`. */
static bool may_keep(const struct ring_built *head, uint64_t shape)
{
    unsigned n = 0;

    for (; head != NULL; head = head->next) {
        if (head->shape == shape || ++n == RING_SHAPES_MAX)
            return false;
    }
    return true;
}

void ring_entry_keep(struct ring_entry *e, uint64_t shape, struct bv doc)
{
    struct ring_built *b, *head = atomic_load_explicit(&e->built, memory_order_acquire);
    size_t size = built_size(doc.len);

    if (!may_keep(head, shape))
        return;
    if (atomic_fetch_add_explicit(&built_bytes, size, memory_order_relaxed) + size >
            RING_BUILT_BYTES_MAX ||
        (b = mem_try(size)) == NULL) {
        atomic_fetch_sub_explicit(&built_bytes, size, memory_order_relaxed);
        return;
    }
    b->shape = shape;
    b->len = doc.len;
    memcpy(b->bytes, doc.p, doc.len);
    while (may_keep(head, shape)) {
        b->next = head;
        if (atomic_compare_exchange_weak_explicit(&e->built, &head, b, memory_order_release,
                                                  memory_order_acquire))
            return;
    }
    built_free(b); /* another thread was first */
}

size_t ring_entry_bytes(const struct ring_entry *e)
{
    return sizeof(*e) + e->len;
}

/* An operation inside applyOps is made to look like a row, but `o` is another document then. */
static struct ring_entry *whole_entry(const struct oplog_row *row)
{
    return row->ring != NULL && row->ring->row.o.p == row->o.p ? row->ring : NULL;
}

struct bv ring_row_built(const struct oplog_row *row, uint64_t shape)
{
    struct ring_entry *e = whole_entry(row);

    return e == NULL ? BV_NONE : ring_entry_built(e, shape);
}

void ring_row_keep(const struct oplog_row *row, uint64_t shape, struct bv doc)
{
    struct ring_entry *e = whole_entry(row);

    if (e != NULL)
        ring_entry_keep(e, shape, doc);
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
    r->slots = mem_must_zero(r->cap, sizeof(*r->slots));
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

/* Entries lie anywhere in memory and are long out of the processor's caches when they leave the
 * ring or are announced: the one that comes a few steps later is fetched meanwhile. */
static void prefetch(const struct ring *r, uint64_t i)
{
    if (i < r->head) {
        const struct ring_entry *e = at(r, i);

        __builtin_prefetch(&e->refs, 1);
        __builtin_prefetch(&e->row.optime);
    }
}

/* Room for one more; only ring_push() changes `slots`, so it may allocate without the mutex. */
static void make_room(struct ring *r)
{
    struct ring_entry **slots, **old = r->slots;

    if (r->head - r->tail < r->cap)
        return;
    slots = mem_must_zero(r->cap * 2, sizeof(*slots));
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

        prefetch(r, r->tail + AHEAD);
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

        prefetch(r, i + AHEAD);
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
