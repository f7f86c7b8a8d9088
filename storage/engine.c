/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Opening and closing the WiredTiger connection, syncs, checkpoints, numbers.
 *
 * Configuration, with its reasons: the log is on and transactions do not sync it themselves, since
 * WiredTiger does not group commits (engine_sync_log() serves all who wait at once); log files are
 * small, since reopening scans the last one whole; a checkpoint each minute or 256 MB of log
 * bounds recovery to a few seconds. Dirty pages are evicted only from 60 % of the cache on, and
 * writers made to help when three quarters of it are dirty, for the sake of open snapshots
 * (docs/decisions/0005-open-snapshots.md).
 * In memory (docs/decisions/0001-memory-mode.md) there is neither log nor checkpoint.
 */
#include "storage/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "storage/engine_internal.h"
#include "storage/wt_startup.h"

#define MB (UINT64_C(1) << 20)

#if defined(__SANITIZE_ADDRESS__)
#define LEAK_CHECKED 1
#elif defined(__has_feature)
#define LEAK_CHECKED __has_feature(address_sanitizer)
#else
#define LEAK_CHECKED 0
#endif

/* --- WiredTiger's messages ----------------------------------------------------------------- */

static int on_error(WT_EVENT_HANDLER *handler, WT_SESSION *session, int error, const char *message)
{
    struct engine *e = (struct engine *)handler;

    (void)session;
    mutex_lock(&e->error_mx);
    snprintf(e->last_error, sizeof(e->last_error), "%s", message);
    mutex_unlock(&e->error_mx);
    log_event(error == WT_PANIC ? LOG_FATAL : LOG_ERROR, "wiredtiger", message,
              {"error", LOG_NUM(error)}, );
    if (error == WT_PANIC) {
        log_event(LOG_FATAL, "storage",
                  "the storage engine cannot go on; the process ends. What was acknowledged as "
                  "durable is in the log and comes back with the next start", );
        _Exit(EXIT_FAILURE);
    }
    return 0;
}

static int on_message(WT_EVENT_HANDLER *handler, WT_SESSION *session, const char *message)
{
    (void)handler;
    (void)session;
    log_event(LOG_DEBUG, "wiredtiger", message, );
    return 0;
}

/* --- opening and closing ------------------------------------------------------------------- */

/* A number that a file of the kernel holds; 0: no file, or no number ("max"). */
static uint64_t read_number(const char *path)
{
    unsigned long long n = 0;
    FILE *f = fopen(path, "re");

    if (f == NULL)
        return 0;
    if (fscanf(f, "%llu", &n) != 1)
        n = 0;
    fclose(f);
    return n;
}

/* What the machine has, or less where a container is given less. */
static uint64_t memory_bytes(void)
{
    static const char *const limits[] = {"/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        uint64_t limit = read_number(limits[i]);

        if (limit > 0 && limit < bytes)
            bytes = limit;
    }
    return bytes;
}

/* Half of the memory beyond 1 GB, but 256 MB at least. */
static uint64_t default_cache_bytes(void)
{
    uint64_t ram = memory_bytes();
    uint64_t half = ram > 1024 * MB ? (ram - 1024 * MB) / 2 : 0;

    return half > 256 * MB ? half : 256 * MB;
}

static void make_config(const struct engine_options *o, uint64_t cache, char *buf, size_t size)
{
    int n = snprintf(buf, size,
                     "create,cache_size=%" PRIu64 ",session_max=%d,"
                     "eviction=(threads_min=1,threads_max=4),statistics=(fast),",
                     cache, SESSION_MAX);

    if (o->path == NULL)
        snprintf(buf + n, size - (size_t)n, "in_memory=true");
    else
        snprintf(buf + n, size - (size_t)n,
                 "log=(enabled=true,archive=true,file_max=%s,prealloc=false),"
                 "transaction_sync=(enabled=false),checkpoint=(wait=60,log_size=256MB),"
                 "eviction_dirty_target=60,eviction_dirty_trigger=75",
                 o->small_log ? "2MB" : "16MB");
}

static int open_failed(struct engine *e, int rc, const char *path, struct error *err)
{
    if (rc == WT_PANIC) /* the handler was not asked: say it here */
        return error_set(err, ERR_INTERNAL, "cannot open the storage engine in %s: panic", path);
    (void)wt_error(err, rc, "cannot open the storage engine");
    if (e->last_error[0] != '\0')
        return error_set(err, err->code, "cannot open the storage engine in %s: %s (%s)", path,
                         wiredtiger_strerror(rc), e->last_error);
    return err->code;
}

int engine_open(const struct engine_options *o, struct error *err, struct engine **ret)
{
    struct engine *e = mem_must_zero(1, sizeof(*e));
    int64_t started_us = clock_mono_us();
    char config[512];
    bool is_short;
    int rc;

    e->handler.handle_error = on_error;
    e->handler.handle_message = on_message;
    e->in_memory = o->path == NULL;
    mutex_init(&e->error_mx);
    mutex_init(&e->pending_mx);
    session_pool_init(&e->pool);
    e->dir.fd = e->dir.lock_fd = -1;
    if (o->path != NULL)
        TRY(directory_open(o->path, err, &e->dir));
    FAULT(START_MARKER);
    if (o->path != NULL)
        TRY(disk_watch_check_open(e->dir.fd, o->path, err));
    e->unclean = e->dir.unclean;
    e->cache_bytes = o->cache_bytes != 0 ? o->cache_bytes : default_cache_bytes();
    make_config(o, e->cache_bytes, config, sizeof(config));
    is_short = wt_startup_is_short();
    rc = wiredtiger_open(o->path, &e->handler, config, &e->wt);
    if (rc != 0) {
        rc = open_failed(e, rc, o->path == NULL ? "memory" : o->path, err);
        goto fail;
    }
    if (o->path != NULL)
        e->disk = disk_watch_start(e, e->dir.fd, o->disk_reserve_bytes);
    log_event(LOG_DEBUG, "storage", "opened", {"us", LOG_NUM(clock_mono_us() - started_us)},
              {"shortStart", LOG_NUM(is_short)}, {"unclean", LOG_NUM(e->unclean)}, );
    *ret = e;
    return 0;
fail:
    session_pool_fini(&e->pool);
    if (e->dir.fd >= 0) {
        struct error second;
        int dir_rc = directory_close(&e->dir, false, &second);

        ASSERT(dir_rc == 0);
    }
    free(e);
    return rc;
}

int engine_close(struct engine *e, struct error *err)
{
    /* With the process at its end, walking the cache to free it page by page is waste; a leak
     * checker wants it nevertheless. */
#if LEAK_CHECKED
    const char *config = NULL;
#else
    const char *config = "leak_memory=true";
#endif
    int rc;

    disk_watch_stop(e->disk);
    engine_drop_pending(e);
    while (e->pending != NULL) { /* swept by the next start */
        struct pending_drop *d = e->pending;

        e->pending = d->next;
        free(d);
    }
    rc = e->wt->close(e->wt, config);
    if (rc != 0)
        rc = wt_error(err, rc, "cannot close the storage engine");
    FAULT(STOP_CLOSED);
    session_pool_fini(&e->pool);
    if (e->dir.fd >= 0) {
        struct error second;
        int dir_rc = directory_close(&e->dir, rc == 0, &second);

        if (rc == 0 && dir_rc != 0)
            rc = error_set(err, dir_rc, "%s", second.text);
    }
    mutex_fini(&e->pending_mx);
    mutex_fini(&e->error_mx);
    free(e);
    return rc;
}

bool engine_in_memory(const struct engine *e)
{
    return e->in_memory;
}

uint64_t engine_cache_bytes(const struct engine *e)
{
    return e->cache_bytes;
}

bool engine_was_unclean(const struct engine *e)
{
    return e->unclean;
}

/* --- durability ---------------------------------------------------------------------------- */

int engine_sync_log(struct engine *e, struct error *err)
{
    struct session *s;
    int rc;

    if (e->in_memory)
        return 0;
    TRY_RETURN(session_lease(e, err, &s));
    rc = s->wt->log_flush(s->wt, "sync=on");
    session_return(e, s);
    disk_watch_look(e->disk);
    return rc == 0 ? 0 : wt_error(err, rc, "cannot sync the log");
}

int engine_checkpoint(struct engine *e, struct error *err)
{
    struct session *s;
    int rc;

    if (e->in_memory)
        return 0;
    FAULT(CHECKPOINT_BEFORE);
    TRY_RETURN(session_lease(e, err, &s));
    rc = s->wt->checkpoint(s->wt, NULL);
    session_return(e, s);
    FAULT(CHECKPOINT_AFTER);
    return rc == 0 ? 0 : wt_error(err, rc, "cannot take a checkpoint");
}
