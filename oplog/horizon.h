/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Optimes, and the newest one with nothing unfinished below it.
 *
 * A transaction whose writes have all succeeded takes its optimes and a slot with horizon_begin(),
 * inserts its oplog rows, commits, and gives the slot back with horizon_end(), on success and on
 * rollback alike. `visible` moves over finished slots in the order they were taken. The entries of
 * finished slots are linked to `pending` in the same step, so whoever takes that chain has them in
 * the order of their optimes.
 *
 * Optimes are seconds << 32 | increment, never below the wall clock's second, always growing.
 * None beyond `ceiling` is handed out: the ceiling is on disk, and start-up goes on above it.
 * Nobody waits here for a higher one, since the disk may take its time: who is refused an optime
 * asks for it and waits elsewhere.
 */
#ifndef RUNNEL_OPLOG_HORIZON_H
#define RUNNEL_OPLOG_HORIZON_H

#include "base/mutex.h"
#include "oplog/ring.h"

/* Transactions between horizon_begin() and horizon_end(); more wait. */
#define HORIZON_SLOTS 4096u

struct horizon_slot {
    uint64_t last; /* newest optime of the slot */
    struct ring_chain entries;
    bool done;
};

struct horizon {
    struct mutex mx;     /* held for nanoseconds: never while allocating, copying or waking */
    pthread_cond_t room; /* a slot is free */
    pthread_cond_t idle; /* no slot is open */
    unsigned waiting;    /* threads waiting for `room` */
    unsigned holds;      /* horizon_hold() without horizon_let_go(): no new slots */
    uint64_t head, tail; /* slots taken and slots passed, ever */
    uint64_t last;       /* newest optime handed out */
    uint64_t floor;      /* the next optimes are above it; taken when the ceiling allows; 0: none */
    _Atomic uint64_t ceiling;
    struct ring_chain pending;
    _Atomic size_t pending_bytes; /* = pending.bytes, for readers without the mutex */
    _Atomic uint64_t visible;
    _Atomic uint64_t allocated;     /* = last, for readers without the mutex */
    _Atomic uint64_t wants;         /* an optime that waits for a ceiling at or above it; 0: none */
    void (*ask_ceiling)(void *arg); /* called when `wants` is set, with mx held */
    void *ask_arg;
    struct horizon_slot slots[HORIZON_SLOTS];
};

void horizon_init(struct horizon *h, uint64_t last, uint64_t ceiling);
void horizon_fini(struct horizon *h);

/* Takes n >= 1 consecutive optimes and a slot; returns the first. 0: they would lie above the
 * ceiling; `wants` tells what is asked for. May wait for a free slot, for as long as other commits
 * take. */
uint64_t horizon_begin(struct horizon *h, uint64_t n, uint64_t *ret_slot);
/* Gives a slot back; its entries (NULL: none, rolled back) pass to the horizon. Returns true when
 * `visible` has moved. */
bool horizon_end(struct horizon *h, uint64_t slot, const struct ring_chain *entries);
/* Makes later optimes greater than ts. Returns true when `visible` has moved; for a ts above the
 * ceiling it moves when the ceiling is raised. */
bool horizon_advance(struct horizon *h, uint64_t ts);
/* Takes the pending chain; returns the visible horizon that it reaches up to. */
uint64_t horizon_take_pending(struct horizon *h, struct ring_chain *ret);
size_t horizon_pending_bytes(const struct horizon *h);
/* Waits until no slot is open, and keeps it so until horizon_let_go(). Returns the newest optime:
 * all at or below it is committed, and nothing above it. Not for a thread that has a slot. */
uint64_t horizon_hold(struct horizon *h);
void horizon_let_go(struct horizon *h);
/* Returns true when `visible` has moved: see horizon_advance(). */
bool horizon_raise_ceiling(struct horizon *h, uint64_t ceiling);

#endif
