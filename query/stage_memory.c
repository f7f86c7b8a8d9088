/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How much blocking stages may hold: each of them, and all of them together. A stage tells what it
 * holds in steps, so that the sum is not touched for every row.
 */
#include "base/limits.h"
#include "query/stage.h"

#define STEP ((size_t)64 * 1024)

static _Atomic size_t limit_each = LIMIT_SORT_BYTES, limit_all = LIMIT_BLOCKING_BYTES;
static _Atomic size_t held_by_all;

size_t stage_memory_limit(void)
{
    return limit_each;
}

void stage_memory_limit_set(size_t bytes)
{
    limit_each = bytes == 0 ? LIMIT_SORT_BYTES : bytes;
}

void stage_memory_total_set(size_t bytes)
{
    limit_all = bytes == 0 ? LIMIT_BLOCKING_BYTES : bytes;
}

size_t stage_memory_total(void)
{
    return held_by_all;
}

static void tell(struct stage_memory *m, size_t bytes)
{
    held_by_all += bytes - m->told; /* wraps where it shrinks, and wraps back */
    m->told = bytes;
}

bool stage_memory_full(struct stage_memory *m, size_t bytes)
{
    if (bytes > m->told + STEP || bytes + STEP < m->told)
        tell(m, bytes);
    if (bytes > limit_each)
        return true;
    /* Small ones are left alone: spilling them would give little. */
    return held_by_all > limit_all && bytes > 16 * STEP;
}

void stage_memory_release(struct stage_memory *m)
{
    tell(m, 0);
}
