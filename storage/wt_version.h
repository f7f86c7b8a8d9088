/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What differs between Debian's WiredTiger 3.2.1 and current upstream ones (make WT_PREFIX=...).
 * All else is written so that both take it: isolation=snapshot by name, log=(archive=...), no
 * timestamps, no session->rename().
 */
#ifndef RUNNEL_STORAGE_WT_VERSION_H
#define RUNNEL_STORAGE_WT_VERSION_H

#include <wiredtiger.h>

#define WT_IS_321                                                                                  \
    (WIREDTIGER_VERSION_MAJOR == 3 && WIREDTIGER_VERSION_MINOR == 2 &&                             \
     WIREDTIGER_VERSION_PATCH == 1)

/* The number of checkpoints taken. */
#ifdef WT_STAT_CONN_TXN_CHECKPOINT
#define STAT_CHECKPOINTS WT_STAT_CONN_TXN_CHECKPOINT
#else
#define STAT_CHECKPOINTS WT_STAT_CONN_CHECKPOINTS_TOTAL_SUCCEED
#endif

#endif
