/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/timers.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"

void timer_heap_init(struct timer_heap *h)
{
    *h = (struct timer_heap){NULL, 0, 0};
}

void timer_heap_fini(struct timer_heap *h)
{
    free(h->at);
    timer_heap_init(h);
}

static void place(struct timer_heap *h, size_t i, struct timer *t)
{
    h->at[i] = t;
    t->slot = i + 1;
}

/* Moves t, for which position i is free, to where it belongs. */
static void sift(struct timer_heap *h, size_t i, struct timer *t)
{
    while (i > 0 && h->at[(i - 1) / 2]->when_us > t->when_us) {
        place(h, i, h->at[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= h->n)
            break;
        if (child + 1 < h->n && h->at[child + 1]->when_us < h->at[child]->when_us)
            child++;
        if (h->at[child]->when_us >= t->when_us)
            break;
        place(h, i, h->at[child]);
        i = child;
    }
    place(h, i, t);
}

bool timer_set(struct timer_heap *h, struct timer *t, int64_t when_us)
{
    timer_cancel(h, t);
    if (h->n == h->cap) {
        h->cap = h->cap == 0 ? 64 : h->cap * 2;
        h->at = mem_must_resize(h->at, h->cap * sizeof(struct timer *));
    }
    t->when_us = when_us;
    h->n++;
    sift(h, h->n - 1, t);
    return h->at[0] == t;
}

void timer_cancel(struct timer_heap *h, struct timer *t)
{
    size_t i = t->slot - 1;
    struct timer *last;

    if (t->slot == 0)
        return;
    ASSERT(h->at[i] == t);
    t->slot = 0;
    last = h->at[--h->n];
    if (last != t)
        sift(h, i, last);
}

struct timer *timer_first(struct timer_heap *h)
{
    return h->n == 0 ? NULL : h->at[0];
}
