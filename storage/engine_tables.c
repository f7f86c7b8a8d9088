/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Schema calls on tables, and WiredTiger's statistics. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "storage/engine_internal.h"
#include "storage/wt_version.h"

/*
 * Values up to 64 MB stay on leaf pages: a document is never cut into overflow blocks. Keys of
 * indexes share prefixes. Page sizes are those that MongoDB found for the same two uses.
 *
 * A snapshot that stays open keeps every version of a row that is written again and again, and the
 * page of such a row cannot be made smaller by splitting it: past memory_page_max every writer
 * would try to evict it, in vain. So a table of hot rows has large pages. (WiredTiger lowers it to
 * a tenth of the cache.)
 */
static const char *const kind_config[] = {
    [TABLE_RECORDS] = "key_format=q,value_format=u,leaf_page_max=32KB,leaf_value_max=64MB,"
                      "memory_page_max=10MB,split_pct=90",
    [TABLE_OPTIMES] = "key_format=Q,value_format=u,leaf_page_max=32KB,leaf_value_max=64MB,"
                      "memory_page_max=10MB,split_pct=90",
    [TABLE_BYTES] = "key_format=u,value_format=u,leaf_page_max=16KB,internal_page_max=16KB,"
                    "leaf_value_max=64MB,memory_page_max=5MB,prefix_compression=true",
    [TABLE_HOT] = "key_format=u,value_format=u,leaf_page_max=16KB,leaf_value_max=64MB,"
                  "memory_page_max=256MB",
};

int engine_table_create(struct engine *e, const char *ident, enum table_kind kind, bool logged,
                        struct error *err)
{
    char uri[TABLE_URI_MAX], config[512];
    struct session *s;
    int rc;

    table_uri(ident, uri);
    snprintf(config, sizeof(config), "%s%s", kind_config[kind],
             e->in_memory || logged ? "" : ",log=(enabled=false)");
    rc = FAULT_ERROR(TABLE_CREATE);
    if (rc != 0)
        return error_set(err, rc, "cannot create a table: fault point");
    TRY_RETURN(session_lease(e, err, &s));
    rc = s->wt->create(s->wt, uri, config);
    session_return(e, s);
    return rc == 0 ? 0 : wt_error(err, rc, "cannot create a table");
}

static int drop(struct engine *e, const char *ident, const char *config, struct error *err)
{
    char uri[TABLE_URI_MAX];
    struct session *s;
    int rc;

    table_uri(ident, uri);
    rc = FAULT_ERROR(TABLE_DROP);
    if (rc != 0)
        return error_set(err, rc, "cannot drop a table: fault point");
    session_pool_forget(&e->pool, ident);
    TRY_RETURN(session_lease(e, err, &s));
    rc = s->wt->drop(s->wt, uri, config);
    session_return(e, s);
    if (rc == 0 || rc == ENOENT)
        return 0;
    return wt_error(err, rc, "cannot drop a table");
}

/* A drop must not wait for a running checkpoint, which may take seconds: EBUSY instead. It does
 * wait for the schema lock, which others hold for a moment only. */
int engine_table_drop(struct engine *e, const char *ident, struct error *err)
{
    return drop(e, ident, "checkpoint_wait=false", err);
}

int engine_table_drop_at_start(struct engine *e, const char *ident, struct error *err)
{
    return drop(e, ident, NULL, err);
}

static void add_pending(struct engine *e, struct pending_drop *d)
{
    mutex_lock(&e->pending_mx);
    d->next = e->pending;
    e->pending = d;
    mutex_unlock(&e->pending_mx);
}

void engine_drop_pending(struct engine *e)
{
    struct pending_drop *list;

    mutex_lock(&e->pending_mx);
    list = e->pending;
    e->pending = NULL;
    mutex_unlock(&e->pending_mx);
    while (list != NULL) {
        struct pending_drop *d = list;
        struct error err;

        list = d->next;
        if (engine_table_drop(e, d->ident, &err) == ERR_OBJECT_IS_BUSY)
            add_pending(e, d);
        else
            free(d);
    }
}

void engine_table_drop_soon(struct engine *e, const char *ident)
{
    struct pending_drop *d = mem_must_zero(1, sizeof(*d));

    snprintf(d->ident, sizeof(d->ident), "%s", ident);
    add_pending(e, d);
    engine_drop_pending(e);
}

int engine_tables(struct engine *e, void (*fn)(void *arg, const char *ident), void *arg,
                  struct error *err)
{
    WT_CURSOR *cursor = NULL;
    struct session *s;
    const char *key;
    int rc;

    TRY_RETURN(session_lease(e, err, &s));
    rc = s->wt->open_cursor(s->wt, "metadata:", NULL, NULL, &cursor);
    while (rc == 0 && (rc = cursor->next(cursor)) == 0) {
        rc = cursor->get_key(cursor, &key);
        if (rc == 0 && strncmp(key, "table:", 6) == 0)
            fn(arg, key + 6);
    }
    if (cursor != NULL)
        (void)cursor->close(cursor);
    session_return(e, s);
    return rc == 0 || rc == WT_NOTFOUND ? 0 : wt_error(err, rc, "cannot list the tables");
}

/* --- files that are left ------------------------------------------------------------------- */

/* coll-N.wt, index-N.wt, tmp-N.wt: the tables that are dropped while the server runs. */
static bool is_table_file(const char *name)
{
    static const char *const kinds[] = {"coll-", "index-", "tmp-"};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t n = strlen(kinds[i]), digits;

        if (strncmp(name, kinds[i], n) != 0)
            continue;
        digits = strspn(name + n, "0123456789");
        return digits > 0 && strcmp(name + n + digits, ".wt") == 0;
    }
    return false;
}

static int sweep_file(struct engine *e, WT_CURSOR *metadata, const char *name)
{
    char key[NAME_MAX + 8];
    int rc;

    snprintf(key, sizeof(key), "file:%s", name);
    metadata->set_key(metadata, key);
    rc = metadata->search(metadata);
    if (rc != WT_NOTFOUND)
        return rc;
    log_event(LOG_INFO, "storage", "removing the file of a dropped table",
              {"file", LOG_STR(name)}, );
    return unlinkat(e->dir.fd, name, 0) == 0 ? 0 : errno;
}

int engine_sweep_files(struct engine *e, struct error *err)
{
    int fd = openat(e->dir.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    WT_CURSOR *metadata = NULL;
    struct dirent *entry;
    struct session *s;
    int rc;

    if (dir == NULL)
        return wt_error(err, errno, "cannot read the data directory");
    rc = session_lease(e, err, &s);
    if (rc != 0) {
        closedir(dir);
        return rc;
    }
    rc = s->wt->open_cursor(s->wt, "metadata:", NULL, NULL, &metadata);
    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        if (is_table_file(entry->d_name))
            rc = sweep_file(e, metadata, entry->d_name);
    }
    if (metadata != NULL)
        (void)metadata->close(metadata);
    session_return(e, s);
    closedir(dir);
    return rc == 0 ? 0 : wt_error(err, rc, "cannot remove the files of dropped tables");
}

/* --- statistics ---------------------------------------------------------------------------- */

static int64_t stat_of(WT_CURSOR *cursor, int key)
{
    const char *name, *text;
    int64_t value;

    cursor->set_key(cursor, key);
    if (cursor->search(cursor) != 0 || cursor->get_value(cursor, &name, &text, &value) != 0)
        return 0;
    return value;
}

int64_t engine_table_bytes(struct engine *e, const char *ident)
{
    char uri[TABLE_URI_MAX + 16];
    WT_CURSOR *cursor;
    struct session *s;
    struct error err;
    int64_t bytes = 0;

    if (session_lease(e, &err, &s) != 0)
        return 0;
    snprintf(uri, sizeof(uri), "statistics:table:%s", ident);
    if (s->wt->open_cursor(s->wt, uri, NULL,
                           e->in_memory ? "statistics=(fast)" : "statistics=(size)",
                           &cursor) == 0) {
        bytes = stat_of(cursor,
                        e->in_memory ? WT_STAT_DSRC_CACHE_BYTES_INUSE : WT_STAT_DSRC_BLOCK_SIZE);
        (void)cursor->close(cursor);
    }
    session_return(e, s);
    return bytes;
}

void engine_cache_fill(struct engine *e, double *ret_used, double *ret_dirty)
{
    WT_CURSOR *cursor;
    struct session *s;
    struct error err;
    int64_t max;

    *ret_used = *ret_dirty = 0;
    if (session_lease(e, &err, &s) != 0)
        return;
    if (s->wt->open_cursor(s->wt, "statistics:", NULL, NULL, &cursor) == 0) {
        max = stat_of(cursor, WT_STAT_CONN_CACHE_BYTES_MAX);
        if (max > 0) {
            *ret_used = (double)stat_of(cursor, WT_STAT_CONN_CACHE_BYTES_INUSE) / (double)max;
            *ret_dirty = (double)stat_of(cursor, WT_STAT_CONN_CACHE_BYTES_DIRTY) / (double)max;
        }
        (void)cursor->close(cursor);
    }
    session_return(e, s);
}

void engine_stats(struct engine *e, struct engine_stats *ret)
{
    WT_CURSOR *cursor;
    struct session *s;
    struct error err;

    memset(ret, 0, sizeof(*ret));
    mutex_lock(&e->pool.mx);
    ret->sessions_open = e->pool.open;
    mutex_unlock(&e->pool.mx);
    ret->sessions_max = SESSION_POOL_MAX;
    if (session_lease(e, &err, &s) != 0)
        return;
    if (s->wt->open_cursor(s->wt, "statistics:", NULL, NULL, &cursor) == 0) {
        ret->cache_bytes = stat_of(cursor, WT_STAT_CONN_CACHE_BYTES_INUSE);
        ret->cache_max = stat_of(cursor, WT_STAT_CONN_CACHE_BYTES_MAX);
        ret->cache_dirty = stat_of(cursor, WT_STAT_CONN_CACHE_BYTES_DIRTY);
        ret->log_bytes_written = stat_of(cursor, WT_STAT_CONN_LOG_BYTES_WRITTEN);
        ret->checkpoints = stat_of(cursor, STAT_CHECKPOINTS);
        ret->wt_sessions = stat_of(cursor, WT_STAT_CONN_SESSION_OPEN);
        ret->wt_cursors = stat_of(cursor, WT_STAT_CONN_CURSOR_OPEN_COUNT);
        (void)cursor->close(cursor);
    }
    session_return(e, s);
}
