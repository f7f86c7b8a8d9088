/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A histogram of latencies with a bounded relative error, as HdrHistogram's: each power of two is
 * cut into HIST_PER_OCTAVE slots, so a percentile is off by less than 1/64. One thread.
 */
#ifndef RUNNEL_TESTS_BENCH_HIST_H
#define RUNNEL_TESTS_BENCH_HIST_H

#include <stdint.h>

enum {
    HIST_PER_OCTAVE = 64, /* a power of two */
    HIST_OCTAVES = 36,    /* up to 2^41 ns: 36 minutes; what is longer counts as that */
    HIST_SLOTS = HIST_PER_OCTAVE * HIST_OCTAVES,
};

struct hist {
    uint64_t count;
    int64_t max_ns;
    uint32_t slots[HIST_SLOTS];
};

/* Times below zero (a clock that two cores see differently) count as zero. */
void hist_add(struct hist *h, int64_t ns);
void hist_merge(struct hist *to, const struct hist *from);
/* The time that a share p (0 to 1) of all does not exceed; 0 when there is none. */
int64_t hist_percentile(const struct hist *h, double p);

#endif
