/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/dispatch.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "server/conn.h"
#include "server/failpoints.h"
#include "server/server.h"
#include "server/snapshots.h"
#include "server/top.h"
#include "server/transactions.h"
#include "wire/legacy.h"

/* The refusal of an OP_QUERY that is no command has a shape of its own. */
static int refuse_query(struct request *rq, int code, const char *text)
{
    struct bw *w = rq->reply;

    bw_init(w, &rq->op.arena);
    bw_str(w, "$err", text);
    bw_i32(w, "code", code);
    bw_f64(w, "ok", 0.0);
    rq->legacy_failure = true;
    rq->out = bw_done(w);
    return 0;
}

static int parse_legacy(struct request *rq, bool *ret_done)
{
    struct op *op = &rq->op;
    struct wire_query q;
    int rc = wire_query_parse(rq->raw, rq->raw_len, op->err, &q);

    rq->legacy = true;
    if (rc == ERR_PROTOCOL)
        return INT_CLOSE;
    if (rc != 0)
        return rc;
    if (q.db_len == 0) {
        *ret_done = true;
        return refuse_query(rq, 5739101,
                            "OP_QUERY is no longer supported. The client driver may require an "
                            "upgrade. For more details see "
                            "https://dochub.mongodb.org/core/legacy-opcode-removal");
    }
    if (q.to_return != 1 && q.to_return != -1) {
        *ret_done = true;
        return refuse_query(rq, 16979, "Bad numberToReturn for $cmd query");
    }
    op->db = arena_strndup(&op->arena, q.ns, q.db_len);
    op->cmd = q.body;
    return 0;
}

/* Sets op->cmd (and, for OP_QUERY, op->db). *ret_done: rq->out is the reply already. */
static int parse_message(struct request *rq, bool *ret_done)
{
    struct op *op = &rq->op;
    struct wire_header h;
    struct wire_msg m = {0, BV_NONE};
    int rc;

    *ret_done = false;
    memcpy(&h, rq->raw, sizeof(h));
    if (rq->replies == 0)
        rq->request_id = h.request_id;
    switch (h.op_code) {
    case WIRE_OP_QUERY:
        return parse_legacy(rq, ret_done);
    case WIRE_OP_MSG:
        rc = wire_msg_parse(rq->raw, rq->raw_len, &op->arena, op->err, &m);
        rq->more_to_come_in = (m.flags & MSG_MORE_TO_COME) != 0;
        rq->exhaust = (m.flags & MSG_EXHAUST_ALLOWED) != 0;
        rq->checksum = (m.flags & MSG_CHECKSUM) != 0;
        op->cmd = m.body;
        return rc;
    default:
        op_fail(op, ERR_PROTOCOL, "unsupported wire operation %d", h.op_code);
        return INT_CLOSE;
    }
}

static int find_command(struct request *rq)
{
    struct op *op = &rq->op;
    struct belem e = {.key = ""};
    const struct command *cmd;

    if (bv_is_missing(bv_first(op->cmd, &e)))
        e.key = "";
    cmd = command_find(e.key);
    if (rq->legacy && (cmd == NULL || (cmd->flags & CMD_OP_QUERY) == 0))
        return op_fail(op, ERR_UNSUPPORTED_OP_QUERY,
                       "Unsupported OP_QUERY command: %.200s. The client driver may require an "
                       "upgrade. For more details see "
                       "https://dochub.mongodb.org/core/legacy-opcode-removal",
                       e.key);
    if (cmd == NULL ||
        ((cmd->flags & CMD_TEST) != 0 && !rq->server->settings.enable_test_commands)) {
        atomic_fetch_add_explicit(&rq->server->counters.unknown_commands, 1, memory_order_relaxed);
        return op_fail(op, ERR_COMMAND_NOT_FOUND, "no such command: '%.200s'", e.key);
    }
    rq->cmd = cmd;
    if ((cmd->flags & CMD_ADMIN) != 0 && strcmp(op->db, "admin") != 0)
        return op_fail(op, ERR_UNAUTHORIZED, "%s may only be run against the admin database.",
                       cmd->name);
    return 0;
}

/* As MongoDB counts: each document or statement of a write command (bulkWrite counts its own),
 * each other command once. */
static void count_command(struct request *rq)
{
    struct server_counters *n = &rq->server->counters;
    const char *name = rq->cmd->name, *list = NULL;
    _Atomic int64_t *counter = &n->op_command;
    int64_t by = 1;

    if (strcmp(name, "insert") == 0) {
        counter = &n->op_insert;
        list = "documents";
    } else if (strcmp(name, "update") == 0) {
        counter = &n->op_update;
        list = "updates";
    } else if (strcmp(name, "delete") == 0) {
        counter = &n->op_delete;
        list = "deletes";
    } else if (strcmp(name, "bulkWrite") == 0) {
        by = 0;
    } else if (strcmp(name, "find") == 0) {
        counter = &n->op_query;
    } else if (strcmp(name, "getMore") == 0) {
        counter = &n->op_getmore;
    }
    if (list != NULL)
        by = bv_count(bv_get(rq->op.cmd, list));
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
    atomic_fetch_add_explicit(&n->requests, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&n->commands[command_index(rq->cmd)].total, 1, memory_order_relaxed);
}

/* The collection that the command named, if it named one, was used; or it is gone. */
static void note_use(struct request *rq, int rc)
{
    struct op *op = &rq->op;
    enum top_kind kind;
    struct belem e;
    struct bv coll;
    const char *name, *ns;
    uint32_t n;

    if (rq->cmd == NULL || (rq->cmd->flags & CMD_ADMIN) != 0)
        return;
    kind = top_kind_of(rq->cmd->name);
    coll = kind == TOP_GETMORE ? bv_get(op->cmd, "collection") : bv_first(op->cmd, &e);
    if (coll.type != BV_STRING)
        return;
    name = bv_str(coll, &n);
    if (strlen(op->db) + 1 + n > LIMIT_NS)
        return;
    ns = ns_join(&op->arena, op->db, name);
    if (rc == 0 && strcmp(rq->cmd->name, "drop") == 0)
        top_forget(rq->server->top, ns);
    else
        top_record(rq->server->top, ns, kind, clock_mono_us() - op->start_us);
}

static int help(struct request *rq)
{
    bw_str(rq->reply, "help",
           arena_printf(&rq->op.arena, "help for: %s %s", rq->cmd->name, rq->cmd->help));
    return 0;
}

static int run_in_session(struct request *rq)
{
    int rc = transaction_enter(rq);

    if (rc == 0 && rq->env->read_level == READ_SNAPSHOT && !rq->env->has_autocommit)
        rc = snapshot_enter(rq);
    if (rc == 0)
        rc = rq->cmd->run(rq);
    snapshot_leave(rq);
    return transaction_leave(rq, rc);
}

static int run_command(struct request *rq, bool on_schema_thread)
{
    struct op *op = &rq->op;

    TRY_RETURN(envelope_db(rq));
    TRY_RETURN(find_command(rq));
    if (op->runs == 1 && rq->replies == 0 && !on_schema_thread)
        count_command(rq);
    TRY_RETURN(envelope_parse(rq));
    if (failpoints_armed() || rq->failpoint != NULL)
        TRY_RETURN(failpoint_command(rq));
    if (rq->env->help)
        return help(rq);
    if ((rq->cmd->flags & CMD_QUICK) == 0)
        TRY_RETURN(op_check(op));
    op->on_schema_thread = on_schema_thread;
    if ((rq->cmd->flags & CMD_SCHEMA) != 0 && !on_schema_thread)
        return INT_TO_SCHEMA;
    return run_in_session(rq);
}

/* A command that could not make its reply says so instead of half an answer; 0: it could. */
static int reply_failed(struct request *rq)
{
    if (!rq->reply->failed)
        return 0;
    if (rq->reply->no_memory)
        return reply_lost(rq);
    return op_fail(&rq->op, ERR_BSON_TOO_LARGE, "the reply of %s is too large",
                   rq->cmd == NULL ? "the command" : rq->cmd->name);
}

static void log_close(struct request *rq)
{
    log_event(LOG_INFO, "network", "connection closed", {"reason", LOG_STR(rq->op.err->text)},
              {"code", LOG_NUM(rq->op.err->code)},
              {"conn", LOG_NUM(rq->conn == NULL ? 0 : rq->conn->id)}, );
}

int dispatch(struct request *rq, bool on_schema_thread)
{
    bool done;
    int rc;

    request_begin(rq);
    rc = parse_message(rq, &done);
    if (done)
        return 0;
    if (rc == 0) {
        rc = run_command(rq, on_schema_thread);
        if (rq->lose_reply)
            rc = INT_CLOSE;
    } else if (rc == INT_CLOSE) {
        log_close(rq);
        return rc;
    }
    if (rc >= 0)
        note_use(rq, rc);
    switch (rc) {
    case INT_PARK:
        if (rq->park_start_us == 0)
            rq->park_start_us = clock_mono_us();
        return rc;
    case INT_TO_SCHEMA:
    case INT_CLOSE:
    case INT_NOREPLY:
        return rc;
    case 0:
        rc = reply_failed(rq);
        if (rc == 0 && reply_set_waits(rq) == 0) {
            reply_finish(rq);
            rc = reply_failed(rq);
            if (rc == 0)
                return 0;
        }
        if (rc != INT_CLOSE)
            break;
        log_close(rq);
        return rc;
    default:
        ASSERT(rc > 0);
        if (rq->op.err->code != rc)
            op_fail(&rq->op, rc, "operation failed with error %d", rc);
        break;
    }
    reply_error(rq);
    return 0;
}
