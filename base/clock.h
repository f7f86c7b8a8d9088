/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The only source of time, so that tests can set it. Any thread. */
#ifndef RUNNEL_BASE_CLOCK_H
#define RUNNEL_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_mono_us(void); /* never goes back; for deadlines */
int64_t clock_wall_ms(void); /* since 1970; may jump, also back */
int64_t clock_boot_ms(void); /* never jumps, and counts the time that the machine slept */

/* Tests: shifts the wall clock by delta_ms from now on (adds up). */
void clock_test_shift_wall(int64_t delta_ms);

#endif
