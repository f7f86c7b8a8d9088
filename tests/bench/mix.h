/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The mix, the same for the server (workload_mix.c) and for WiredTiger alone (ceiling_mix.c). */
#ifndef RUNNEL_TESTS_BENCH_MIX_H
#define RUNNEL_TESTS_BENCH_MIX_H

#include <stdint.h>

#define MIX_CHECKPOINT_SECONDS 3.0

enum mix_op { MIX_INSERT, MIX_FIND, MIX_UPDATE };

/* What the n-th request is. */
enum mix_op mix_op(uint64_t n);

/* The document, of 0 to docs - 1, that the n-th request finds or updates. */
static inline uint64_t mix_target(uint64_t n, uint64_t docs)
{
    return (n * 0xD1B54A32D192ED03u >> 20) % docs;
}

#endif
