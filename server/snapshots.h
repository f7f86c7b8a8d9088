/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pinned snapshots: what readConcern snapshot outside transactions reads from.
 *
 * The first such read of a client takes a snapshot at a time T, which its reply tells
 * (atClusterTime); later reads and getMores name T and read from the same snapshot. It stays
 * pinned until it is minSnapshotHistoryWindowInSeconds old, or LIMIT_SNAPSHOTS newer reads needed
 * its place (the one that was used least recently goes), or the cache needs room. What is read at a
 * time that is pinned no more gets 239. One request at a time reads from a snapshot; others park.
 *
 * Any thread.
 */
#ifndef RUNNEL_SERVER_SNAPSHOTS_H
#define RUNNEL_SERVER_SNAPSHOTS_H

#include "server/command.h"
#include "storage/engine.h"

struct snapshots;

enum { SNAPSHOT_WINDOW_DEFAULT_S = 300 };

struct snapshots *snapshots_new(void);
void snapshots_free(struct snapshots *s); /* none is used; NULL: nothing */

/*
 * Puts the request into the snapshot of rq->env->at_cluster_time; 0: into a new one, whose time
 * becomes rq->env->at_cluster_time. INT_PARK: another request reads from it. 239 for a time that is
 * not pinned. Nothing for a request that is inside already.
 */
int snapshot_enter(struct request *rq) MUST_CHECK;
/* Takes it out again; nothing for one that is not inside. */
void snapshot_leave(struct request *rq);

/* Gives up those that are older than the window, and the oldest one while the cache of the engine
 * (NULL: none) is under pressure. From time to time, on one thread. */
void snapshots_sweep(struct snapshots *s, struct engine *e);
/* Gives up the oldest one, or all; one in use goes when its reader leaves. False: there was none.
 */
bool snapshots_drop_oldest(struct snapshots *s);
void snapshots_drop_all(struct snapshots *s);

int64_t snapshots_window_s(struct snapshots *s);
void snapshots_set_window_s(struct snapshots *s, int64_t seconds); /* >= 0 */

struct snapshots_stats {
    int64_t pinned, in_use;
    int64_t too_old; /* reads refused with 239, ever */
    uint64_t oldest; /* its time; 0: none */
};
void snapshots_stats(struct snapshots *s, struct snapshots_stats *ret);

#endif
