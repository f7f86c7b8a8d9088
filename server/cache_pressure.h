/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * When the storage cache is in need: what an open transaction or an old snapshot keeps from being
 * cleaned would soon stop all writers. Read by who ends them (snapshots.c, transactions_end.c).
 */
#ifndef RUNNEL_SERVER_CACHE_PRESSURE_H
#define RUNNEL_SERVER_CACHE_PRESSURE_H

#include "storage/engine.h"

/* Shares of the cache: changes that are not in the tables' files, and everything. Snapshots go
 * before transactions do, since a read at their time can be begun again. */
#define CACHE_DIRTY_SNAPSHOTS    0.50
#define CACHE_DIRTY_TRANSACTIONS 0.55
#define CACHE_USED               0.80
#define CACHE_USED_DIRTY         0.25 /* a cache full of clean pages is as it should be */

/* Takes some microseconds; any thread. */
static inline bool cache_is_pressed(struct engine *e, double most_dirty)
{
    double used, dirty;

    engine_cache_fill(e, &used, &dirty);
    return dirty > most_dirty || (used > CACHE_USED && dirty > CACHE_USED_DIRTY);
}

#endif
