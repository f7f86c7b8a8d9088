/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The WiredTiger connection: opening, closing, the session pool, log syncs, checkpoints, tables.
 *
 * One engine per process. Any thread may call anything here except open and close. Sessions come
 * from a small pool and are leased by storage transactions (storage/txn.h) only.
 *
 * On disk a directory holds WiredTiger's files and RUNNEL (format file, engine_open checks it):
 *     runnel-format 1\n
 * A directory with other files and no RUNNEL file, or with a higher number, is refused untouched.
 * RUNNEL.lock is held with flock for the life of the process.
 */
#ifndef RUNNEL_STORAGE_ENGINE_H
#define RUNNEL_STORAGE_ENGINE_H

#include "base/op.h"

struct engine;

struct engine_options {
    const char *path;            /* directory, made when missing; NULL: in memory */
    uint64_t cache_bytes;        /* 0: choose from the machine's memory */
    bool small_log;              /* 2 MB log files: quick reopening for tests */
    uint64_t disk_reserve_bytes; /* writes get 14031 when less is free; 0: default */
};

int engine_open(const struct engine_options *o, struct error *err, struct engine **ret) MUST_CHECK;
/* All transactions must have ended. Takes a checkpoint. */
int engine_close(struct engine *e, struct error *err) MUST_CHECK;

bool engine_in_memory(const struct engine *e);
uint64_t engine_cache_bytes(const struct engine *e); /* its size */
/* True when the previous process did not close cleanly (false for a new directory). */
bool engine_was_unclean(const struct engine *e);

/* Makes every transaction committed before this call durable. Nothing to do in memory. */
int engine_sync_log(struct engine *e, struct error *err) MUST_CHECK;
int engine_checkpoint(struct engine *e, struct error *err) MUST_CHECK;

/* Tables. An ident is a table's stable name ("coll-17", "index-18", "oplog"); never reused. */
enum table_kind {
    TABLE_RECORDS, /* int64 key, bytes value: collections */
    TABLE_OPTIMES, /* uint64 key, bytes value: oplog, segments */
    TABLE_BYTES,   /* bytes key, bytes value: indexes, catalog, images */
    TABLE_HOT,     /* TABLE_BYTES made for rows that change all the time: sessions */
};
#define IDENT_MAX 40

/* Schema calls: not transactional, may take long; only on the schema thread or at start-up.
 * create is a no-op for a table that is there. logged=false: temporary tables. */
int engine_table_create(struct engine *e, const char *ident, enum table_kind kind, bool logged,
                        struct error *err) MUST_CHECK;
/* 0 also when it is not there; ERR_OBJECT_IS_BUSY: open cursors, or a checkpoint that runs or (with
 * newer versions of WiredTiger) has still to come: try again later. */
int engine_table_drop(struct engine *e, const char *ident, struct error *err) MUST_CHECK;
/* For temporary tables, from any thread: when it is busy now, the engine tries again later. */
void engine_table_drop_soon(struct engine *e, const char *ident);
/* Calls fn for every table in the directory, at start-up. */
int engine_tables(struct engine *e, void (*fn)(void *arg, const char *ident), void *arg,
                  struct error *err) MUST_CHECK;
/* Bytes on disk of a table; 0 when unknown. */
int64_t engine_table_bytes(struct engine *e, const char *ident);

/* Numbers for serverStatus. */
struct engine_stats {
    int64_t cache_bytes, cache_max, cache_dirty, log_bytes_written, checkpoints, sessions_open,
        sessions_max, wt_sessions, wt_cursors; /* the last two: open in WiredTiger, its own too */
};
void engine_stats(struct engine *e, struct engine_stats *ret);
/* How much of the cache is used, and how much holds what is not on disk yet: shares of its size; 0
 * when unknown. Takes some microseconds; any thread. */
void engine_cache_fill(struct engine *e, double *ret_used, double *ret_dirty);

#endif
