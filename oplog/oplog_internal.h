/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The parts of struct oplog and how they call each other. Only oplog/ includes this header.
 *
 * A commit (append.c) takes optimes and a slot (horizon.c), writes, commits and gives the slot back
 * with copies of its entries. When `visible` has moved, oplog_moved() wakes who waits for it. The
 * flusher (flusher.c) syncs, raises `durable` and wakes who waits for that; it also keeps the
 * durable ceiling of optimes ahead of the clock. A commit that is refused an optime because the
 * last sync is too long ago waits in oplog_wait_room(), with nothing held. oplog_pump() brings
 * finished entries, in optime order, into the segments and the ring; it is called by whoever needs
 * them there, and by committers when many are pending. The keeper (retention.c) stores segments,
 * removes what the limits exceed and writes the periodic noop.
 *
 * Lock order, outermost first; a thread takes a lock only below those that it holds:
 *     keeper.work_mx      one retention step at a time; held across storage transactions
 *     void_mx             the first write of a run without an oplog; held across a transaction
 *     hub locks           one at a time; held while waiters are woken and while a parker checks
 *     pump_mx             one pump at a time
 *     horizon.mx, segments.mx, ring.mx, waitlists, flusher.mx, keeper.mx, limits_mx, room_mx,
 *     age clocks          leaves; horizon.mx may be held around flusher.mx only
 */
#ifndef RUNNEL_OPLOG_OPLOG_INTERNAL_H
#define RUNNEL_OPLOG_OPLOG_INTERNAL_H

#include "base/age_clock.h"
#include "oplog/horizon.h"
#include "oplog/hub.h"
#include "oplog/oplog.h"
#include "oplog/ring.h"
#include "oplog/segments.h"
#include "oplog/waitlist.h"
#include "storage/table.h"
#include "storage/txn.h"

#define TABLE_OPLOG    "oplog"      /* TABLE_OPTIMES: optime -> entry */
#define TABLE_SEGMENTS "segments"   /* TABLE_OPTIMES: see segments.h */
#define TABLE_IMAGES   "images"     /* TABLE_BYTES: see images.c */
#define TABLE_SESSIONS "sessions"   /* TABLE_HOT: see retry.h */
#define TABLE_META     "oplog-meta" /* TABLE_BYTES: see meta.c */

enum {
    FLUSH_INTERVAL_MS = 100, /* longest time that a commit stays unsynced */
    CEILING_AHEAD_S = 2,     /* how far the durable ceiling lies ahead of the clock */
    PUMP_BYTES = 256 * 1024, /* pending entries that make a committer pump */
    HUB_BYTES_DEFAULT = 16 * 1024 * 1024,
    NOOP_INTERVAL_MS = 10000,
    ROOM_LOOK_MS = 10, /* how often a thread that waits for an optime looks for an interrupt */
};

struct flusher {
    pthread_t thread;
    struct mutex mx;
    pthread_cond_t cv;
    pthread_cond_t done; /* after each sync, for flusher_wait() */
    _Atomic bool asked;  /* somebody waits for a sync */
    _Atomic bool dozing; /* nothing is unsynced: the next commit must ring */
    bool stop;           /* under mx */
    bool running;
};

struct keeper {
    pthread_t thread;
    struct mutex mx;
    pthread_cond_t cv;
    bool asked, stop; /* under mx */
    bool running;
    struct mutex work_mx;
};

struct limits {
    int64_t size_bytes;
    double seconds;
    int64_t max_entries;
};

struct oplog {
    struct engine *engine;
    bool hidden, memory;
    int64_t term;
    int64_t noop_interval_ms;

    struct horizon horizon;
    _Atomic uint64_t durable; /* on disk; in memory `visible` stands for it */
    struct waitlist visible_waiters, durable_waiters, flush_waiters, ceiling_waiters;
    struct mutex room_mx; /* with `room`: threads in oplog_wait_room(); a leaf */
    pthread_cond_t room;

    struct mutex pump_mx;
    struct ring ring;
    struct segments segments;
    struct hub hub;

    /* What the flusher goes by. `began` counts commits before they are made, `ended` after;
     * `covered` is a value of `began` up to which all are durable. */
    _Atomic uint64_t began, ended, covered;
    _Atomic uint64_t flush_started, flush_done; /* syncs, numbered from 1 */
    _Atomic uint64_t durable_wanted;            /* newest optime that somebody wants durable */
    struct flusher flusher;

    struct mutex limits_mx;
    struct limits limits;
    struct age_clock entry_ages, image_ages;
    _Atomic uint64_t pruned; /* newest optime ever removed, published before the removal; 0: none */
    _Atomic uint64_t oldest; /* oldest live entry; 0: none */
    uint64_t truncated;      /* under work_mx: the table holds nothing at or below */
    struct keeper keeper;

    _Atomic int64_t image_seconds; /* how long images live; 0: as long as their entries */
    _Atomic uint64_t image_set_at;
    uint64_t images_gone; /* under work_mx: there are no images at or below */

    struct mutex void_mx;
    _Atomic bool voided; /* this run without an oplog has said so on disk */

    _Atomic int64_t commits, flushes;
};

/* flusher.c */
void flusher_start(struct oplog *o);
void flusher_stop(struct oplog *o);
void flusher_ask(struct oplog *o);                   /* sync now; never blocks */
void flusher_note(struct oplog *o);                  /* something is unsynced */
void flusher_want(struct oplog *o, uint64_t optime); /* somebody wants it durable */
void flusher_wait(struct oplog *o, uint64_t optime); /* blocks until it is durable */
uint64_t ceiling_for(const struct oplog *o, uint64_t last);

/* append.c: commits, counted so that the flusher knows what a sync covers. The transaction is over.
 */
int oplog_commit_counted(struct oplog *o, struct stx *t) MUST_CHECK;

/* oplog.c */
void oplog_moved(struct oplog *o); /* after `visible` has moved */
void oplog_pump(struct oplog *o);  /* afterwards ring and segments reach up to `visible` */
struct stx;
int oplog_mark_void(struct oplog *o, struct op *op) MUST_CHECK; /* before the first hidden write */

/* retention.c */
void keeper_start(struct oplog *o);
void keeper_stop(struct oplog *o);
void keeper_ask(struct oplog *o);
void retention_bounds(struct oplog *o); /* segment bounds from the limits */

/* meta.c: numbers by name. Start-up and one writer per name. */
#define META_TERM          "term"
#define META_CEILING       "ceiling"       /* no optime above it was ever handed out */
#define META_PRUNED        "pruned"        /* newest optime ever removed */
#define META_IMAGE_SECONDS "image-seconds" /* how long images live; 0: as their entries */
#define META_IMAGE_SET_AT  "image-set-at"  /* when that was set: an optime */
#define META_VOID          "void" /* a run without an oplog wrote: all older entries are void */
int meta_get(struct stx *t, const char *name, uint64_t *ret) MUST_CHECK; /* 0: not there */
int meta_put(struct stx *t, const char *name, uint64_t value) MUST_CHECK;
int meta_remove(struct stx *t, const char *name) MUST_CHECK;

/* images.c */
int64_t images_now_ms(struct oplog *o); /* the time to judge their age by */
bool image_expired_at(struct oplog *o, int64_t wall_ms, int64_t now_ms);
int image_put(struct tcursor *c, struct op *op, uint64_t optime, int64_t index, const uint8_t *uuid,
              struct bv doc, int64_t wall_ms) MUST_CHECK;
/* image_expiry.c: removes what has expired by now. */
int images_expire(struct oplog *o, struct op *op, int64_t now_ms) MUST_CHECK;
int images_truncate(struct stx *t, uint64_t from, uint64_t to) MUST_CHECK;

#endif
