/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A heap of timers by time: plain data, guarded by its owner's lock. Timers are embedded in what
 * they wake. All operations are O(log n); the heap's array grows by doubling.
 */
#ifndef RUNNEL_SERVER_TIMERS_H
#define RUNNEL_SERVER_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer {
    int64_t when_us;
    size_t slot; /* index in the heap + 1; 0: not set */
};

struct timer_heap {
    struct timer **at;
    size_t n, cap;
};

void timer_heap_init(struct timer_heap *h);
void timer_heap_fini(struct timer_heap *h);
/* Sets or moves a timer. True: it is now the earliest. */
bool timer_set(struct timer_heap *h, struct timer *t, int64_t when_us);
void timer_cancel(struct timer_heap *h, struct timer *t); /* nothing for one that is not set */
struct timer *timer_first(struct timer_heap *h);          /* NULL: none */

#endif
