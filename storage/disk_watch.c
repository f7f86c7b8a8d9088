/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What must stay free is the reserve and as much again as the cache holds in modified pages, since
 * a checkpoint writes those before it frees anything. When free space comes near to that, the
 * watch takes a checkpoint, after which WiredTiger removes log files that are not needed any more;
 * only if that does not help are writes refused. Both ends are looked at ten times a second and
 * with every sync of the log.
 */
#include "storage/disk_watch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "storage/engine_internal.h"

#define MB                  (UINT64_C(1) << 20)
#define RESERVE_BYTES       (64 * MB)
#define OPEN_BYTES          (4 * MB)
#define INTERVAL_US         100000
#define CHECKPOINT_EVERY_US 500000

enum space { SPACE_ENOUGH, SPACE_NO_GROWTH, SPACE_NONE };

struct disk_watch {
    struct engine *engine;
    int dir_fd;
    uint64_t reserve_bytes, cache_bytes;
    _Atomic uint64_t free_bytes;
    _Atomic uint64_t dirty_bytes;      /* modified pages in the cache, and */
    _Atomic uint64_t dirty_free_bytes; /* what was free when they were counted */
    _Atomic int space;                 /* enum space */

    struct mutex mx; /* guards `stop` */
    pthread_cond_t cv;
    bool stop;
    pthread_t thread;
};

static bool get_space(int fd, uint64_t *ret_free, uint64_t *ret_total)
{
    struct statvfs s;

    if (fstatvfs(fd, &s) != 0)
        return false;
    *ret_free = (uint64_t)s.f_bavail * s.f_frsize;
    *ret_total = (uint64_t)s.f_blocks * s.f_frsize;
    return true;
}

int disk_watch_check_open(int dir_fd, const char *path, struct error *err)
{
    uint64_t available, total;

    if (!get_space(dir_fd, &available, &total) || available >= OPEN_BYTES)
        return 0;
    return error_set(err, ERR_OUT_OF_DISK_SPACE,
                     "the file system of %s has %" PRIu64 " KB free; %" PRIu64
                     " KB are needed to start",
                     path, available / 1024, OPEN_BYTES / 1024);
}

/* What the log took since the pages were counted has modified about as many bytes of pages. */
static uint64_t needed(const struct disk_watch *w)
{
    uint64_t then = atomic_load(&w->dirty_free_bytes), now = atomic_load(&w->free_bytes);

    return w->reserve_bytes + atomic_load(&w->dirty_bytes) + (then > now ? then - now : 0);
}

void disk_watch_look(struct disk_watch *w)
{
    uint64_t available, total;
    int space = SPACE_ENOUGH;

    if (w == NULL || !get_space(w->dir_fd, &available, &total))
        return;
    atomic_store(&w->free_bytes, available);
    if (available < w->reserve_bytes / 2)
        space = SPACE_NONE;
    else if (available < needed(w))
        space = SPACE_NO_GROWTH;
    if (atomic_exchange(&w->space, space) == SPACE_ENOUGH && space != SPACE_ENOUGH)
        log_event(LOG_WARNING, "storage", "the disk is nearly full: writes are refused",
                  {"freeBytes", LOG_NUM(available)}, {"neededBytes", LOG_NUM(needed(w))}, );
}

int disk_watch_check(struct disk_watch *w, struct error *err, bool grows)
{
    int space = w == NULL ? SPACE_ENOUGH : atomic_load_explicit(&w->space, memory_order_relaxed);

    if (space == SPACE_ENOUGH || (space == SPACE_NO_GROWTH && !grows))
        return 0;
    return error_set(err, ERR_OUT_OF_DISK_SPACE,
                     "available disk space of %" PRIu64 " bytes is less than the %" PRIu64
                     " bytes that are needed to keep what was written",
                     atomic_load(&w->free_bytes), needed(w));
}

/* The numbers of the cache cost more than a system call: only when they may matter. */
static void look_closely(struct disk_watch *w)
{
    struct engine_stats s;

    disk_watch_look(w);
    if (atomic_load(&w->free_bytes) > w->cache_bytes + 2 * w->reserve_bytes) {
        atomic_store(&w->dirty_free_bytes, 0);
        atomic_store(&w->dirty_bytes, 0);
        return;
    }
    engine_stats(w->engine, &s);
    atomic_store(&w->dirty_free_bytes, atomic_load(&w->free_bytes));
    atomic_store(&w->dirty_bytes, (uint64_t)s.cache_dirty);
    disk_watch_look(w);
}

static bool is_tight(struct disk_watch *w)
{
    return atomic_load(&w->free_bytes) < 2 * needed(w);
}

static void *run(void *arg)
{
    struct disk_watch *w = arg;
    int64_t next_checkpoint_us = 0;
    struct error err;

    mutex_lock(&w->mx);
    while (!w->stop) {
        mutex_unlock(&w->mx);
        engine_drop_pending(w->engine);
        look_closely(w);
        if (is_tight(w) && clock_mono_us() >= next_checkpoint_us) {
            if (engine_checkpoint(w->engine, &err) != 0)
                log_event(LOG_WARNING, "storage", "no checkpoint", {"why", LOG_STR(err.text)}, );
            next_checkpoint_us = clock_mono_us() + CHECKPOINT_EVERY_US;
            look_closely(w);
        }
        mutex_lock(&w->mx);
        if (!w->stop)
            mutex_wait(&w->mx, &w->cv, clock_mono_us() + INTERVAL_US);
    }
    mutex_unlock(&w->mx);
    return NULL;
}

struct disk_watch *disk_watch_start(struct engine *e, int dir_fd, uint64_t reserve_bytes)
{
    struct disk_watch *w = mem_must_zero(1, sizeof(*w));
    uint64_t available = 0, total = 0;
    struct engine_stats s;

    engine_stats(e, &s);
    w->cache_bytes = (uint64_t)s.cache_max;
    w->engine = e;
    w->dir_fd = dir_fd;
    w->reserve_bytes = reserve_bytes;
    if (reserve_bytes == 0 && get_space(dir_fd, &available, &total))
        w->reserve_bytes = total / 4 < RESERVE_BYTES ? total / 4 : RESERVE_BYTES;
    mutex_init(&w->mx);
    cond_init(&w->cv);
    disk_watch_look(w);
    ASSERT(pthread_create(&w->thread, NULL, run, w) == 0);
    return w;
}

void disk_watch_stop(struct disk_watch *w)
{
    if (w == NULL)
        return;
    mutex_lock(&w->mx);
    w->stop = true;
    pthread_cond_signal(&w->cv);
    mutex_unlock(&w->mx);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->cv);
    mutex_fini(&w->mx);
    free(w);
}
