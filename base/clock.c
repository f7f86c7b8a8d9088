/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/clock.h"

#include <stdatomic.h>
#include <time.h>

static _Atomic int64_t wall_shift_ms;

int64_t clock_mono_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_boot_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t clock_wall_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000 +
           atomic_load_explicit(&wall_shift_ms, memory_order_relaxed);
}

void clock_test_shift_wall(int64_t delta_ms)
{
    atomic_fetch_add(&wall_shift_ms, delta_ms);
}
