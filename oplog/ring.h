/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The newest entries, in memory, parsed: one contiguous run in optime order, bounded in bytes.
 *
 * The run holds every entry in (floor, upto]: a reader whose position is at or above floor misses
 * nothing. Entries are counted references, so what a reader has fetched outlives its eviction.
 *
 * What readers build from an entry (an event) may be kept beside it, once for each shape that they
 * want it in, so that a hundred watchers of one collection build it once. It goes with the entry.
 */
#ifndef RUNNEL_OPLOG_RING_H
#define RUNNEL_OPLOG_RING_H

#include "base/mutex.h"
#include "oplog/entry.h"

/* Bounds of what is kept beside entries: shapes of one entry, bytes in all. */
enum { RING_SHAPES_MAX = 4, RING_BUILT_BYTES_MAX = 16 * 1024 * 1024 };

struct ring_built {
    struct ring_built *next;
    uint64_t shape;
    uint32_t len;
    uint8_t bytes[]; /* a document */
};

struct ring_entry {
    struct ring_entry *next; /* in a chain */
    _Atomic(struct ring_built *) built;
    _Atomic uint32_t refs;
    uint32_t len;
    struct oplog_row row; /* points into bytes */
    uint8_t bytes[];
};

/* Entries on their way into the ring, in order. */
struct ring_chain {
    struct ring_entry *first, *last;
    size_t bytes;
};

/* A copy of an encoded entry with one reference; NULL: memory is out. */
struct ring_entry *ring_entry_new(struct bv entry);
void ring_entry_drop(struct ring_entry *e); /* NULL: nothing */
size_t ring_entry_bytes(const struct ring_entry *e);

/* What was kept under this shape; BV_NONE: nothing. Lives as long as the entry. */
struct bv ring_entry_built(const struct ring_entry *e, uint64_t shape);
/* Keeps a copy of the document, unless a bound is reached. Any thread that has a reference. */
void ring_entry_keep(struct ring_entry *e, uint64_t shape, struct bv doc);

/*
 * What was built from this row before in the same shape (a number that stands for all that the
 * result depends on besides the row): a view that lives as long as the row; BV_NONE: nothing. And
 * keeping it for others. Rows from the table, and operations inside applyOps, keep nothing.
 */
struct bv ring_row_built(const struct oplog_row *row, uint64_t shape);
void ring_row_keep(const struct oplog_row *row, uint64_t shape, struct bv doc);

void ring_chain_add(struct ring_chain *c, struct ring_entry *e);
void ring_chain_join(struct ring_chain *to, struct ring_chain *from); /* empties `from` */
void ring_chain_drop(struct ring_chain *c);                           /* and its entries */

struct ring {
    struct mutex mx;
    struct ring_entry **slots; /* slots[i & (cap - 1)] for i in tail..head-1 */
    uint64_t cap, head, tail;
    size_t bytes, max_bytes;
    uint64_t floor, upto;
};

void ring_init(struct ring *r, size_t max_bytes, uint64_t floor);
void ring_fini(struct ring *r);
/* Takes the chain over; afterwards the run reaches up to `upto`. One caller at a time. */
void ring_push(struct ring *r, struct ring_chain *c, uint64_t upto);
/* Up to n entries with after < optime <= horizon, each with a reference for the caller. False when
 * `after` lies below the run's floor. */
bool ring_fetch(struct ring *r, uint64_t after, uint64_t horizon, struct ring_entry **ret, size_t n,
                size_t *ret_n);
uint64_t ring_upto(struct ring *r);
uint64_t ring_floor(struct ring *r);
void ring_size(struct ring *r, int64_t *ret_entries, int64_t *ret_bytes);

#endif
