/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The way round WiredTiger 3.2.1's clock calibration, which burns 0.6 s of CPU in the first open
 * of every process. Why and how: docs/decisions/0002-wiredtiger-start-up.md.
 */
#ifndef RUNNEL_STORAGE_WT_STARTUP_H
#define RUNNEL_STORAGE_WT_STARTUP_H

#include <stdbool.h>

/* True when the calibration is left out in this process. Calling it links the replacement in. */
bool wt_startup_is_short(void);

#endif
