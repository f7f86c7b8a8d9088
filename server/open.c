/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/open.h"

#include <stdlib.h>
#include <string.h>

#include "base/age_clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/op.h"
#include "oplog/retry.h"
#include "query/ddl.h"
#include "query/txn.h"
#include "server/cursors.h"
#include "server/executor.h"
#include "server/rw_defaults.h"
#include "server/sessions.h"
#include "server/snapshots.h"
#include "server/transactions.h"
#include "storage/catalog_write.h"

enum { CURSOR_SWEEP_TICKS = 4, SESSION_SWEEP_TICKS = 60, REAP_MAX = 256 };

#define MB (1024 * 1024)

/* A table that nobody uses any more, to be dropped when the removal of its catalog row is sure to
 * survive a crash: a row must never name a table that is gone. */
struct dead_table {
    char ident[IDENT_MAX];
    uint64_t removed_by; /* optime */
};

struct opened {
    struct database db; /* what the rest of the program sees */
    struct dead_table dead[REAP_MAX];
    size_t ndead;
    unsigned ticks;
    struct age_clock retry_ages;
};

static struct opened *opened_of(struct server *s)
{
    return (struct opened *)(void *)atomic_load(&s->database);
}

static void close_parts(struct opened *o)
{
    struct error err = {0};

    if (o->db.oplog != NULL)
        oplog_close(o->db.oplog);
    if (o->db.catalog != NULL)
        catalog_close(o->db.catalog);
    if (o->db.engine != NULL && engine_close(o->db.engine, &err) != 0)
        log_event(LOG_ERROR, "storage", "closing failed", {"reason", LOG_STR(err.text)}, );
    txn_table_free(o->db.txns);
    nslock_table_free(o->db.locks);
    age_clock_fini(&o->retry_ages);
    free(o);
}

static int load_defaults(struct server *s, struct opened *o, struct error *err)
{
    struct op op;
    int rc;

    op_init(&op);
    op.database = &o->db;
    rc = rw_defaults_load(s->rw_defaults, &op);
    *err = *op.err;
    err->info = NULL;
    op_fini(&op);
    return rc;
}

/* What a cross-database rename has left that did not come to its end. */
static int drop_temporary(struct opened *o, struct error *err)
{
    struct op op;
    int rc;

    op_init(&op);
    op.database = &o->db;
    op.on_schema_thread = true; /* nobody else is there yet */
    rc = ddl_drop_temporary(&op);
    *err = *op.err;
    err->info = NULL;
    op_fini(&op);
    return rc;
}

/* In memory the oplog shares the cache with the data: were it let fill it, no write would pass. */
static int64_t oplog_bytes(const struct settings *set, const struct engine *e)
{
    int64_t bytes = set->oplog_size_mb * MB, most = (int64_t)(engine_cache_bytes(e) / 2);

    if (!set->memory || bytes <= most)
        return bytes;
    log_event(LOG_INFO, "oplog", "limited to half of the cache", {"bytes", LOG_NUM(most)}, );
    return most;
}

int database_open(struct server *s, struct error *err)
{
    const struct settings *set = &s->settings;
    struct engine_options engine_options = {.path = set->memory ? NULL : set->dbpath,
                                            .cache_bytes = (uint64_t)set->cache_mb * MB};
    struct oplog_options oplog_options = {.retention_seconds = set->oplog_retention_seconds,
                                          .max_entries = set->oplog_max_entries,
                                          .hidden = set->no_oplog};
    struct opened *o = mem_must_zero(1, sizeof(*o));
    int rc;

    age_clock_init(&o->retry_ages);
    o->db.host = s->host;
    o->db.repl_config = repl_config_doc;
    o->db.locks = nslock_table_new();
    o->db.txns = txn_table_new();
    TRY(engine_open(&engine_options, err, &o->db.engine));
    oplog_options.size_bytes = oplog_bytes(set, o->db.engine);
    TRY(catalog_open(o->db.engine, err, &o->db.catalog));
    TRY(oplog_open(o->db.engine, &oplog_options, err, &o->db.oplog));
    TRY(drop_temporary(o, err));
    TRY(load_defaults(s, o, err));
    FAULT(START_OPENED);
    atomic_store(&s->database, &o->db);
    return 0;
fail:
    close_parts(o);
    return rc;
}

void database_close(struct server *s)
{
    struct opened *o = opened_of(s);

    if (o == NULL)
        return;
    atomic_store(&s->database, NULL);
    close_parts(o);
}

/* --- from time to time ------------------------------------------------------------------------ */

static void reap(struct opened *o)
{
    struct oplog *oplog = o->db.oplog;
    struct error err = {0};
    size_t kept = 0;

    while (o->ndead < REAP_MAX && catalog_take_dead(o->db.catalog, o->dead[o->ndead].ident))
        o->dead[o->ndead++].removed_by = oplog_allocated(oplog);
    for (size_t i = 0; i < o->ndead; i++) {
        struct dead_table *d = &o->dead[i];
        int rc = oplog_durable(oplog) < d->removed_by
                     ? ERR_OBJECT_IS_BUSY
                     : engine_table_drop(o->db.engine, d->ident, &err);

        if (rc == 0)
            continue;
        if (rc != ERR_OBJECT_IS_BUSY)
            log_event(LOG_WARNING, "storage", "cannot drop a table yet",
                      {"ident", LOG_STR(d->ident)}, {"reason", LOG_STR(err.text)}, );
        o->dead[kept++] = *d;
    }
    o->ndead = kept;
}

struct expired {
    struct arena arena;
    struct lsid_key *keys;
    size_t n, cap;
};

static void note_expired(void *arg, const struct lsid_key *key)
{
    struct expired *x = arg;

    if (x->n == x->cap) {
        size_t cap = x->cap == 0 ? 64 : x->cap * 2;
        struct lsid_key *now = arena_try(&x->arena, cap * sizeof(*now));

        if (now == NULL)
            return; /* its cursors will time out by themselves */
        if (x->n > 0)
            memcpy(now, x->keys, x->n * sizeof(*now));
        x->keys = now;
        x->cap = cap;
    }
    x->keys[x->n++] = *key;
}

static void sweep_sessions(struct server *s, int64_t ahead_us)
{
    struct expired x = {.n = 0};

    arena_init(&x.arena);
    sessions_sweep(s->sessions, ahead_us, note_expired, &x);
    transactions_end_sessions(s, x.keys, x.n, ERR_INTERRUPTED);
    cursors_kill_sessions(s->cursors, x.keys, x.n);
    arena_fini(&x.arena);
}

/* Retry records are kept as long as a client may still come back for them. */
static void purge_retries(struct opened *o)
{
    struct op op;
    const int64_t keep_ms = SESSION_TIMEOUT_MINUTES * 60 * INT64_C(1000);
    int64_t before = age_clock_ms(&o->retry_ages, keep_ms) - keep_ms;

    op_init(&op);
    op.database = &o->db;
    if (retry_purge(o->db.engine, &op, before) != 0)
        log_event(LOG_WARNING, "oplog", "purge of retry records failed",
                  {"reason", LOG_STR(op.err->text)}, );
    op_fini(&op);
}

void database_reap_sessions(struct server *s, int64_t ahead_us)
{
    sweep_sessions(s, ahead_us);
    purge_retries(opened_of(s));
}

void database_tick(struct server *s)
{
    struct opened *o = opened_of(s);

    if (o == NULL)
        return;
    o->ticks++;
    reap(o);
    if (o->ticks % CURSOR_SWEEP_TICKS == 0)
        cursors_sweep(s->cursors, CURSOR_TIMEOUT_MS);
    if (o->ticks % SESSION_SWEEP_TICKS == 0)
        database_reap_sessions(s, 0);
}

void database_sweep(struct server *s)
{
    struct opened *o = opened_of(s);

    if (o == NULL)
        return;
    transactions_sweep(s);
    snapshots_sweep(s->snapshots, o->db.engine);
}
