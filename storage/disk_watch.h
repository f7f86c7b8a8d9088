/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Keeping the disk from filling up. WiredTiger ends the process when one of its background writes
 * finds no space, so writes of clients are refused while there is still enough of it for what the
 * engine holds in memory. One watch for each engine on disk, with a thread of its own.
 */
#ifndef RUNNEL_STORAGE_DISK_WATCH_H
#define RUNNEL_STORAGE_DISK_WATCH_H

#include "storage/engine.h"

struct disk_watch;

/* ERR_OUT_OF_DISK_SPACE when there is not even enough to open the engine. */
int disk_watch_check_open(int dir_fd, const char *path, struct error *err) MUST_CHECK;
/* `dir_fd` is borrowed. reserve_bytes 0: 64 MB, or a quarter of a smaller file system. */
struct disk_watch *disk_watch_start(struct engine *e, int dir_fd, uint64_t reserve_bytes);
void disk_watch_stop(struct disk_watch *w); /* NULL: nothing */

/* Looks again; cheap (one system call). Any thread. */
void disk_watch_look(struct disk_watch *w);
/*
 * Before a write of a client: 0 or ERR_OUT_OF_DISK_SPACE. What makes the data grow is refused
 * first; deletions go on until the reserve itself is half used. NULL (in memory): always 0.
 */
int disk_watch_check(struct disk_watch *w, struct error *err, bool grows) MUST_CHECK;

#endif
