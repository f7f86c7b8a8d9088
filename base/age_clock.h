/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The time to judge the age of stored things by, which carry the wall time of their making.
 *
 * When the wall clock jumps forward, all that was made before looks too old by the jump. So for as
 * long as such things may live, the time given is the wall clock less what it has jumped; after
 * that nothing from before is left, and it is the wall clock again. Nothing is ever judged older
 * than it is, and after a jump back nothing lives longer than it should by more than the jump. What
 * happens while no process runs cannot be told from time that has passed.
 */
#ifndef RUNNEL_BASE_AGE_CLOCK_H
#define RUNNEL_BASE_AGE_CLOCK_H

#include "base/mutex.h"

struct age_clock {
    struct mutex mx;
    int64_t offset_ms; /* of the wall clock to the time since boot, when last looked at */
    int64_t lag_ms;    /* what it has jumped forward */
    int64_t jumped_ms; /* time since boot of the last such jump */
};

/* Takes the wall clock as it is. */
void age_clock_init(struct age_clock *c);
void age_clock_fini(struct age_clock *c);

/* Now, in ms since 1970, for things that live for keep_ms. Any thread; a leaf lock. A jump counts
 * from the first call behind it, so call it at least as often as things expire. */
int64_t age_clock_ms(struct age_clock *c, int64_t keep_ms);

#endif
