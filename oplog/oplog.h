/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The oplog of this process: opening, horizons, waiting, tickets. One per process.
 *
 * Horizons (optimes): everything at or below `visible` is committed and nothing below it is still
 * open; everything at or below `durable` also survives a crash. visible >= durable; both only
 * grow. A reader loads the horizon first and opens its snapshot second, and reads no further.
 *
 * A flusher thread syncs the log when somebody waits for durability, and at least every 100 ms
 * when something is unsynced; what was visible before a sync began is durable after it. In memory
 * durable = visible.
 */
#ifndef RUNNEL_OPLOG_OPLOG_H
#define RUNNEL_OPLOG_OPLOG_H

#include "oplog/scope.h"
#include "storage/engine.h"

struct oplog;
struct stx;

struct oplog_options {
    int64_t size_bytes;       /* retention by bytes; > 0 */
    double retention_seconds; /* 0: off */
    int64_t max_entries;      /* 0: off */
    bool hidden;              /* --no-oplog: nothing is logged, no streams */
    int64_t hub_bytes;        /* size of the in-memory ring; 0: default 16 MB */
    int64_t noop_interval_ms; /* periodic noop; 0: default 10 s */
};

/* Opens the tables, finds the newest entry, makes the new term and ceiling durable, rebuilds the
 * open segment, writes "initiating set" (new directory) and "new primary", starts the flusher. */
int oplog_open(struct engine *e, const struct oplog_options *o, struct error *err,
               struct oplog **ret) MUST_CHECK;
/* All transactions have ended and nobody waits. Makes everything durable. */
void oplog_close(struct oplog *o);

uint64_t oplog_visible(struct oplog *o);
uint64_t oplog_durable(struct oplog *o);
uint64_t oplog_allocated(struct oplog *o); /* newest optime handed out */
uint64_t oplog_oldest(struct oplog *o);    /* oldest live entry; 0: none */
/* True while no entry was ever removed (a start point before the first entry is then legal). */
bool oplog_complete(struct oplog *o);
int64_t oplog_term(struct oplog *o);
bool oplog_hidden(struct oplog *o);

/* Begins a storage transaction whose snapshot holds everything committed at or below *ret_at and
 * nothing above it. Commits wait meanwhile, for microseconds. Any thread. */
int oplog_begin_snapshot(struct oplog *o, struct op *op, struct stx **ret,
                         uint64_t *ret_at) MUST_CHECK;

/* The ack_* waits of a finished reply. 0: reached. INT_PARK: op->waiter is registered. */
int oplog_wait_ack(struct oplog *o, struct op *op) MUST_CHECK;
/* A ticket for "synced after now": read it after the snapshot was opened (trap T4). 0: all that
 * the snapshot can hold is durable already. */
uint64_t oplog_flush_ticket(struct oplog *o);

/*
 * Waits for an entry that the scope matches, newer than `after` (the position up to which the
 * caller has read). 0: there is one, or the caller is behind the ring: read again. INT_PARK: the
 * waiter is registered. Checked and registered under one lock: no wake-up is lost. SCOPE_OPLOG
 * goes by the visible horizon, the others by the durable one.
 */
int oplog_wait_entry(struct oplog *o, struct op *op, const struct scope *s,
                     uint64_t after) MUST_CHECK;
/*
 * For a request that runs again after oplog_wait_entry() parked it: nothing that its scope matches
 * lies above the `after` it gave and at or below the result, so that may become its position
 * without reading. 0: nothing is known.
 */
uint64_t oplog_wait_passed(const struct op *op);

/* Retention. Any thread. */
void oplog_set_limits(struct oplog *o, const int64_t *size_bytes, const double *seconds,
                      const int64_t *max_entries); /* NULL: leave as it is */
void oplog_get_limits(struct oplog *o, int64_t *size_bytes, double *seconds, int64_t *max_entries);
/* The time by which entries are too old: the wall clock, but for its jumps (base/age_clock.h). */
int64_t oplog_retention_now_ms(struct oplog *o);
/* {pruneOplog}: applies the limits now and exactly, taking now_ms as the time. Blocking; schema
 * thread. The newest entry stays. */
int oplog_prune(struct oplog *o, struct op *op, int64_t now_ms, int64_t *ret_removed) MUST_CHECK;

/*
 * Pre-images may be used until `seconds` after their change, and are removed in the background
 * after that; 0 (the default): as long as their entries. Kept over restarts; on disk when
 * op->ack_flush is reached. Commits. Any thread.
 */
int oplog_set_image_expiry(struct oplog *o, struct op *op, int64_t seconds) MUST_CHECK;
/* *ret_set_at: the optime at which it was set; 0: never. */
int64_t oplog_get_image_expiry(struct oplog *o, uint64_t *ret_set_at);

struct oplog_stats {
    uint64_t first, last;
    int64_t entries, bytes;
    int64_t flushes, commits;
    int64_t waiting_streams; /* parked in oplog_wait_entry */
    int64_t ring_entries, ring_bytes, segments;
};
void oplog_stats(struct oplog *o, struct oplog_stats *ret);

/* A noop entry {msg: ...}; used by appendOplogNote and afterClusterTime. Commits. */
int oplog_noop(struct oplog *o, struct op *op, struct bv o_doc, uint64_t *ret_optime) MUST_CHECK;
/* The same, without waiting for the disk: *ret_optime is 0 when there is no optime to be had. */
int oplog_try_noop(struct oplog *o, struct op *op, struct bv o_doc,
                   uint64_t *ret_optime) MUST_CHECK;
/* Moves the clock so that later optimes are above ts ($clusterTime gossip); bounded by caller.
 * Never waits: a ts above the durable ceiling becomes visible with the sync that raises it. */
void oplog_advance_clock(struct oplog *o, uint64_t ts);

#endif
