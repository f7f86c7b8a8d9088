/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/limits.h"
#include "server/conn.h"
#include "server/cursors.h"
#include "server/executor.h"
#include "server/server.h"
#include "server/top.h"
#include "server/transactions.h"

struct listing {
    struct request *self;
    struct bw *w;
    bool idle, truncate;
    int64_t now_ms;
    uint64_t durable;
    const struct cursor_row *cursors; /* by user */
    size_t ncursors;
    const struct transaction_row *txns;
    size_t ntxns;
};

static void write_lsid(struct bw *w, const struct lsid_key *k)
{
    bw_doc_begin(w, "lsid");
    bw_uuid(w, "id", k->bytes);
    bw_bin(w, "uid", 0, k->bytes + 16, LSID_KEY_BYTES - 16);
    bw_end(w);
}

/* As MongoDB writes wall clock times here: "2026-01-31T23:59:59.999+00:00". */
static void write_time(struct bw *w, const char *key, int64_t ms)
{
    time_t secs = (time_t)(ms / 1000);
    char buf[48];
    struct tm tm;
    size_t n;

    gmtime_r(&secs, &tm);
    n = strftime(buf, sizeof(buf), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf + n, sizeof(buf) - n, ".%03d+00:00", (int)(ms % 1000));
    bw_str(w, key, buf);
}

/* --- transactions ---------------------------------------------------------------------------- */

static const struct transaction_row *txn_of(const struct listing *l, const struct request *rq)
{
    for (size_t i = 0; i < l->ntxns; i++) {
        if (l->txns[i].user == rq)
            return &l->txns[i];
    }
    return NULL;
}

static void write_txn(struct bw *w, const struct transaction_row *r)
{
    static const char *const levels[] = {
        [READ_LOCAL] = "local", [READ_MAJORITY] = "majority", [READ_SNAPSHOT] = "snapshot"};

    write_lsid(w, &r->lsid);
    bw_doc_begin(w, "transaction");
    bw_doc_begin(w, "parameters");
    bw_i64(w, "txnNumber", r->txn_number);
    bw_bool(w, "autocommit", false);
    if (r->read_level_given) {
        bw_doc_begin(w, "readConcern");
        bw_str(w, "level", levels[r->read_level]);
        bw_end(w);
    }
    bw_end(w);
    bw_ts(w, "readTimestamp", r->read_optime);
    write_time(w, "startWallClockTime", r->start_ms);
    bw_i64(w, "timeOpenMicros", r->open_us);
    bw_i64(w, "timeActiveMicros", r->active_us);
    bw_i64(w, "timeInactiveMicros", r->open_us - r->active_us);
    write_time(w, "expiryTime", r->expiry_ms);
    bw_end(w);
}

static void write_idle_session(const struct listing *l, const struct transaction_row *r)
{
    struct bw *w = l->w;

    bw_doc_begin(w, NULL);
    bw_str(w, "type", "idleSession");
    bw_str(w, "host", l->self->server->host);
    bw_str(w, "desc", "inactive transaction");
    bw_bool(w, "active", false);
    write_txn(w, r);
    bw_bool(w, "waitingForLock", false);
    bw_end(w);
}

/* --- cursors -------------------------------------------------------------------------------- */

static int compare_user(const void *key, const void *row)
{
    uintptr_t x = (uintptr_t)key, y = (uintptr_t)((const struct cursor_row *)row)->user;

    return x < y ? -1 : x > y;
}

/* The cursor that a request has pinned; NULL: none. */
static const struct cursor_row *cursor_of(const struct listing *l, const struct request *rq)
{
    return bsearch(rq, l->cursors, l->ncursors, sizeof(*l->cursors), compare_user);
}

/* Whole seconds, as optimes have them. A stream that waits has seen all there is for it. */
static int64_t lag_seconds(const struct listing *l, const struct cursor_row *r)
{
    int64_t lag = (int64_t)(l->durable >> 32) - (int64_t)(r->watch.token_time >> 32);

    return (r->user != NULL && r->watch.waiting) || lag < 0 ? 0 : lag;
}

static void write_watch(const struct listing *l, const struct cursor_row *r)
{
    static const char *const scopes[] = {[SCOPE_COLLECTION] = "collection",
                                         [SCOPE_DATABASE] = "database",
                                         [SCOPE_CLUSTER] = "cluster",
                                         [SCOPE_OPLOG] = "oplog"};
    const struct scope *s = &r->watch.scope;
    struct bw *w = l->w;

    bw_doc_begin(w, "changeStream");
    bw_str(w, "scope", scopes[s->kind]);
    if (s->kind == SCOPE_COLLECTION || s->kind == SCOPE_DATABASE)
        bw_str(w, "ns", s->kind == SCOPE_COLLECTION ? s->ns : s->db);
    bw_bool(w, "waiting", r->user != NULL && r->watch.waiting);
    bw_ts(w, "lastTokenTime", r->watch.token_time);
    bw_i64(w, "lagSeconds", lag_seconds(l, r));
    bw_end(w);
}

static void write_cursor(const struct listing *l, const struct cursor_row *r)
{
    int64_t idle_ms = (clock_mono_us() - r->last_use_us) / 1000;
    struct bw *w = l->w;

    bw_str(w, "ns", r->ns);
    bw_doc_begin(w, "cursor");
    bw_i64(w, "cursorId", r->id);
    bw_date(w, "createdDate", r->created_ms);
    bw_date(w, "lastAccessDate", clock_wall_ms() - idle_ms);
    bw_i64(w, "nDocsReturned", r->rows);
    bw_i64(w, "nBatchesReturned", r->batches);
    bw_bool(w, "noCursorTimeout", r->no_timeout);
    bw_bool(w, "tailable", r->tailable);
    bw_bool(w, "awaitData", r->await_data);
    bw_end(w);
    if (r->change_stream)
        write_watch(l, r);
}

static void write_idle_cursor(const struct listing *l, const struct cursor_row *r)
{
    struct bw *w = l->w;

    bw_doc_begin(w, NULL);
    bw_str(w, "type", "idleCursor");
    bw_str(w, "host", l->self->server->host);
    if (r->has_lsid)
        write_lsid(w, &r->lsid);
    write_cursor(l, r);
    bw_end(w);
}

/* --- connections ---------------------------------------------------------------------------- */

enum { TRUNCATE_BYTES = 1000 };

static const char *ns_of(struct arena *a, struct bv body)
{
    const char *db = bv_str(bv_get(body, "$db"), NULL);
    struct bv first = bv_first(body, NULL);

    return arena_printf(a, "%s.%s", db, first.type == BV_STRING ? bv_str(first, NULL) : "$cmd");
}

static void write_truncated(struct bw *w, const char *text, struct bv comment)
{
    bw_doc_begin(w, "command");
    bw_str(w, "$truncated", text);
    bw_bv(w, "comment", comment);
    bw_end(w);
}

/* Under the connection's mutex, which keeps the message where it is. NULL: none to be seen. */
static const struct command *command_of(const struct conn *c)
{
    const char *name = c->shown == NULL ? NULL : wire_peek_command(c->shown, c->shown_len);

    return name == NULL ? NULL : command_find(name);
}

/* What MongoDB calls the operation, from its first step on. */
static const char *name_of(const struct command *cmd, const struct cursor_row *r)
{
    static const char *const names[TOP_KINDS] = {
        [TOP_QUERIES] = "query", [TOP_GETMORE] = "getmore", [TOP_INSERT] = "insert",
        [TOP_UPDATE] = "update", [TOP_REMOVE] = "remove",   [TOP_COMMANDS] = "command",
    };

    if (r != NULL)
        return names[TOP_GETMORE];
    return names[cmd == NULL ? TOP_COMMANDS : top_kind_of(cmd->name)];
}

/* Under the connection's mutex; cmd: command_of(c). */
static void write_command(const struct listing *l, const struct conn *c, const struct command *cmd,
                          bool with_ns)
{
    struct arena *a = &l->self->op.arena;
    struct bv body;

    if (cmd == NULL || (cmd->flags & CMD_SECRET) != 0)
        return;
    if (!wire_peek_body(c->shown, c->shown_len, LIMIT_SHOWN_BYTES, &body)) {
        write_truncated(l->w, cmd->name, BV_NONE);
        return;
    }
    if (with_ns && bv_get(body, "$db").type == BV_STRING)
        bw_str(l->w, "ns", ns_of(a, body));
    if (l->truncate && body.len > TRUNCATE_BYTES)
        write_truncated(l->w, bv_show(a, body, TRUNCATE_BYTES), bv_get(body, "comment"));
    else
        bw_bv(l->w, "command", body);
}

/* Under the connection's mutex: what is read here is written under it or before it is shared. */
static void write_op(void *arg, struct conn *c, struct request *rq)
{
    struct listing *l = arg;
    struct bw *w = l->w;
    char desc[32];

    if (rq == NULL && !l->idle)
        return;
    snprintf(desc, sizeof desc, "conn%lld", (long long)c->id);
    bw_doc_begin(w, NULL);
    bw_str(w, "type", "op");
    bw_str(w, "host", l->self->server->host);
    bw_str(w, "desc", desc);
    bw_i64(w, "connectionId", c->id);
    bw_str(w, "client", c->remote);
    bw_bool(w, "active", rq != NULL);
    write_time(w, "currentOpTime", l->now_ms);
    bw_bool(w, "threaded", true);
    if (rq != NULL) {
        const struct cursor_row *r = cursor_of(l, rq);
        const struct transaction_row *t = txn_of(l, rq);
        const struct command *cmd = command_of(c);
        int64_t us = clock_mono_us() - c->rq_since_us;

        bw_i64(w, "opid", c->id);
        bw_i64(w, "secs_running", us / 1000000);
        bw_i64(w, "microsecs_running", us);
        bw_str(w, "op", name_of(cmd, r));
        write_command(l, c, cmd, r == NULL);
        if (t != NULL)
            write_txn(w, t);
        if (r != NULL)
            write_cursor(l, r);
    }
    bw_end(w);
}

int ops_write(struct request *rq, const struct ops_filter *f, struct bw *w)
{
    struct listing l = {.self = rq,
                        .w = w,
                        .idle = f->idle_connections,
                        .truncate = f->truncate,
                        .now_ms = clock_wall_ms()};
    struct cursor_row *rows;
    struct transaction_row *txns;

    TRY_RETURN(cursors_list(rq->server->cursors, &rq->op, &rows, &l.ncursors));
    l.cursors = rows;
    l.durable = oplog_durable(rq->op.database->oplog);
    TRY_RETURN(transactions_list(rq->server->transactions, &rq->op, &txns, &l.ntxns));
    l.txns = txns;
    executor_each_conn(rq->server->executor, write_op, &l);
    for (size_t i = 0; f->idle_cursors && i < l.ncursors && rows[i].user == NULL; i++)
        write_idle_cursor(&l, &rows[i]);
    for (size_t i = 0; f->idle_sessions && i < l.ntxns; i++) {
        if (txns[i].user == NULL)
            write_idle_session(&l, &txns[i]);
    }
    return 0;
}

struct victim {
    int64_t opid;
};

static void kill_op(void *arg, struct conn *c, struct request *rq)
{
    struct victim *v = arg;

    if (rq != NULL && c->id == v->opid)
        request_interrupt(rq, ERR_INTERRUPTED);
}

void ops_kill(struct request *rq, int64_t opid)
{
    executor_each_conn(rq->server->executor, kill_op, &(struct victim){opid});
}
