/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/bench/hist.h"

enum { LINEAR_BITS = 6 }; /* values below 2^6 have a slot each */

static uint32_t slot_of(uint64_t v)
{
    unsigned top;
    uint32_t slot;

    if (v < HIST_PER_OCTAVE)
        return (uint32_t)v;
    top = 63 - (unsigned)__builtin_clzll(v);
    slot = (top - LINEAR_BITS) * HIST_PER_OCTAVE + (uint32_t)(v >> (top - LINEAR_BITS));
    return slot < HIST_SLOTS ? slot : HIST_SLOTS - 1;
}

/* The greatest value that falls into the slot. */
static int64_t slot_end(uint32_t slot)
{
    unsigned shift;

    if (slot < HIST_PER_OCTAVE)
        return slot;
    shift = slot / HIST_PER_OCTAVE - 1;
    return (int64_t)((uint64_t)(HIST_PER_OCTAVE + slot % HIST_PER_OCTAVE + 1) << shift) - 1;
}

void hist_add(struct hist *h, int64_t ns)
{
    if (ns < 0)
        ns = 0;
    if (ns > h->max_ns)
        h->max_ns = ns;
    h->slots[slot_of((uint64_t)ns)]++;
    h->count++;
}

void hist_merge(struct hist *to, const struct hist *from)
{
    for (uint32_t i = 0; i < HIST_SLOTS; i++)
        to->slots[i] += from->slots[i];
    to->count += from->count;
    if (from->max_ns > to->max_ns)
        to->max_ns = from->max_ns;
}

int64_t hist_percentile(const struct hist *h, double p)
{
    uint64_t seen = 0, want = (uint64_t)((double)h->count * p);

    if (h->count == 0)
        return 0;
    if (want >= h->count)
        return h->max_ns;
    for (uint32_t i = 0; i < HIST_SLOTS; i++) {
        seen += h->slots[i];
        if (seen > want)
            return slot_end(i) < h->max_ns ? slot_end(i) : h->max_ns;
    }
    return h->max_ns;
}
