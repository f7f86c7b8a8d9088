/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/age_clock.h"

#include "base/clock.h"

/* Smaller differences are the clock being slewed, or a thread that paused between its two reads. */
enum { JUMP_MS = 200 };

void age_clock_init(struct age_clock *c)
{
    mutex_init(&c->mx);
    c->offset_ms = clock_wall_ms() - clock_boot_ms();
    c->lag_ms = c->jumped_ms = 0;
}

void age_clock_fini(struct age_clock *c)
{
    mutex_fini(&c->mx);
}

static bool is_over(const struct age_clock *c, int64_t boot_ms, int64_t keep_ms)
{
    return boot_ms - c->jumped_ms > keep_ms;
}

static void note_jump(struct age_clock *c, int64_t by_ms, int64_t boot_ms)
{
    mutex_assert_held(&c->mx);
    if (by_ms > JUMP_MS) {
        c->lag_ms += by_ms;
        c->jumped_ms = boot_ms;
    } else if (by_ms < -JUMP_MS) {
        c->lag_ms = c->lag_ms + by_ms > 0 ? c->lag_ms + by_ms : 0;
    }
    c->offset_ms += by_ms;
}

int64_t age_clock_ms(struct age_clock *c, int64_t keep_ms)
{
    int64_t boot_ms, wall_ms, ms;

    mutex_lock(&c->mx);
    boot_ms = clock_boot_ms();
    wall_ms = clock_wall_ms();
    if (is_over(c, boot_ms, keep_ms))
        c->lag_ms = 0;
    note_jump(c, wall_ms - boot_ms - c->offset_ms, boot_ms);
    ms = wall_ms - c->lag_ms;
    mutex_unlock(&c->mx);
    return ms;
}
