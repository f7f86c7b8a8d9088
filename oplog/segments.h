/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Segments: runs of the oplog with what they hold, so that retention removes whole ranges and a
 * stream that resumes far back reads only what can concern it.
 *
 * Every entry is counted once, in optime order, when it has become visible; so a sealed segment's
 * set of names is complete. The open segment is the newest; it lives in memory alone and is
 * rebuilt from the table at start. A sealed one has a row in table "segments": key = its first
 * optime, value = {last: ts, count: long, bytes: long, wall: date, any: bool, names: binData}.
 * Names are kept as 64-bit hashes: two names with one hash make a segment be read in vain, no more.
 */
#ifndef RUNNEL_OPLOG_SEGMENTS_H
#define RUNNEL_OPLOG_SEGMENTS_H

#include "base/mutex.h"
#include "oplog/scope.h"
#include "storage/txn.h"

/* More names than this: the segment concerns everything. */
#define SEGMENT_NAMES_MAX 256u

struct segment {
    uint64_t first, last;
    int64_t count, bytes;
    int64_t wall_ms; /* greatest wall time of its entries */
    bool any;        /* concerns everything */
    bool stored;     /* its row is in the table */
    uint32_t nnames;
    uint64_t *names; /* in the open segment an open-addressed table, else a plain array */
};

/* Bounds of one segment; 0: off. */
struct segment_bounds {
    int64_t count, bytes, age_ms;
};

struct segments {
    struct mutex mx;
    struct segment **sealed; /* by optime */
    size_t n, cap;
    struct segment open; /* count 0: there is none */
    int64_t opened_ms;   /* wall time of its opening */
    uint64_t *name_table;
    struct segment_bounds bounds;
    int64_t count, bytes; /* of all segments */
};

void segments_init(struct segments *s);
void segments_fini(struct segments *s);
void segments_set_bounds(struct segments *s, const struct segment_bounds *b);

/* Counts an entry that is newer than all before. True: a segment was sealed. */
bool segments_add(struct segments *s, const struct oplog_row *row);
/* Seals the open segment when it is older than the bound. True: sealed. */
bool segments_seal_old(struct segments *s, int64_t now_ms);

/* The first range of optimes at or above `from` that may hold entries for the scope. False: none.
 * *ret_to is UINT64_MAX for the newest one. */
bool segments_next(struct segments *s, const struct scope *scope, uint64_t from, uint64_t *ret_from,
                   uint64_t *ret_to);

void segments_totals(struct segments *s, int64_t *ret_count, int64_t *ret_bytes, int64_t *ret_n);
uint64_t segments_newest(struct segments *s); /* newest entry counted; 0: none */
uint64_t segments_oldest(struct segments *s); /* oldest entry counted; 0: none */
/* A copy of the i-th oldest segment without its names, sealed ones first, then the open one. */
bool segments_get(struct segments *s, size_t i, struct segment *ret);
/* Forgets everything at or below `cut`; of the segment that holds it, `count` and `bytes` go and
 * its first entry is `next` then. */
void segments_cut(struct segments *s, uint64_t cut, uint64_t next, int64_t count, int64_t bytes);

void segment_free(struct segment *g); /* one on the heap, with a plain array of names */
/* Appends a sealed segment, before the first segments_add(); takes it over. */
void segments_append(struct segments *s, struct segment *g);

/* --- the table (segments_store.c) ----------------------------------------------------------- */

/* Writes the rows of sealed segments that have none. One caller at a time. */
int segments_store(struct segments *s, struct engine *e, struct op *op) MUST_CHECK;
/* In a transaction that truncates the oplog: removes the rows at or below cut and, when a stored
 * segment is cut in two, writes the row of its rest (first entry `next`). */
int segments_cut_rows(struct segments *s, struct stx *t, uint64_t cut, uint64_t next, int64_t count,
                      int64_t bytes) MUST_CHECK;
/* Loads the rows, then counts the entries of table "oplog" behind them. */
int segments_load(struct segments *s, struct engine *e, struct op *op) MUST_CHECK;

#endif
