/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Acting on the process: shutdown, fsync, the log, and the requests that are running. */
#include <stdio.h>

#include "base/clock.h"
#include "base/fields.h"
#include "base/log.h"
#include "server/command.h"
#include "server/conn.h"
#include "server/executor.h"
#include "server/ops.h"
#include "server/server.h"

static const struct field no_fields[] = {{NULL, 0, 0, 0}};

static int parse_nothing(struct request *rq, const char *what)
{
    char none;

    return fields_parse(&rq->op, what, no_fields, rq->op.cmd, FIELDS_COMMAND, &none);
}

/* --- shutdown ------------------------------------------------------------------------------- */

struct shutdown_args {
    bool force;
    int64_t timeout_secs;
};

static const struct field shutdown_fields[] = {
    {"force", F_BOOL, offsetof(struct shutdown_args, force), 0},
    {"timeoutSecs", F_INT, offsetof(struct shutdown_args, timeout_secs), FIELD_NON_NEGATIVE},
    {NULL, 0, 0, 0},
};

static bool from_this_machine(const struct conn *c)
{
    return c == NULL || c->local || strncmp(c->remote, "127.", 4) == 0 ||
           strncmp(c->remote, "[::1]", 5) == 0;
}

/* As MongoDB does, the connection ends without a reply. */
int cmd_shutdown(struct request *rq)
{
    struct shutdown_args args = {0};

    TRY_RETURN(
        fields_parse(&rq->op, "shutdown", shutdown_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    if (!from_this_machine(rq->conn))
        return op_fail(&rq->op, ERR_UNAUTHORIZED,
                       "shutdown must run from localhost when running db without auth");
    server_stop(rq->server);
    return INT_CLOSE;
}

/* --- fsync ---------------------------------------------------------------------------------- */

struct fsync_args {
    bool lock;
};

static const struct field fsync_fields[] = {
    {"lock", F_BOOL, offsetof(struct fsync_args, lock), 0},
    {"async", F_IGNORE, 0, 0},
    {"fsyncLockAcquisitionTimeoutMillis", F_IGNORE, 0, 0},
    {NULL, 0, 0, 0},
};

int cmd_fsync(struct request *rq)
{
    struct fsync_args args = {0};
    struct op *op = &rq->op;

    TRY_RETURN(fields_parse(op, "fsync", fsync_fields, op->cmd, FIELDS_COMMAND, &args));
    if (args.lock)
        return op_fail(op, ERR_NOT_IMPLEMENTED, "fsync cannot hold a lock");
    TRY_RETURN(engine_checkpoint(op->database->engine, op->err));
    bw_i32(rq->reply, "numFiles", 1);
    return 0;
}

int cmd_fsyncUnlock(struct request *rq)
{
    return op_fail(&rq->op, ERR_ILLEGAL_OPERATION, "fsyncUnlock called when not locked");
}

/* --- the log -------------------------------------------------------------------------------- */

/* The log is on stderr; whoever keeps it in files rotates them. */
int cmd_logRotate(struct request *rq)
{
    (void)rq;
    return 0;
}

struct log_filter {
    struct bw *w;
    bool warnings_only;
};

/* Our lines begin {"t":"<time>"; MongoDB's begin {"t":{"$date":"<time>"}, and tools rely on it. */
static void write_line(void *arg, enum log_level level, const char *line)
{
    static const char prefix[] = "{\"t\":";
    struct log_filter *f = arg;
    const char *time = line + sizeof prefix - 1;
    const char *rest = strchr(time, ',');
    char text[8192];

    if ((f->warnings_only && level > LOG_WARNING) || rest == NULL ||
        strncmp(line, prefix, sizeof prefix - 1) != 0)
        return;
    snprintf(text, sizeof text, "{\"t\":{\"$date\":%.*s}%s", (int)(rest - time), time, rest);
    bw_str(f->w, NULL, text);
}

int cmd_getLog(struct request *rq)
{
    struct log_filter filter = {.w = rq->reply};
    struct belem first;
    int64_t lines;

    TRY_RETURN(parse_nothing(rq, "getLog"));
    bv_first(rq->op.cmd, &first);
    if (first.v.type != BV_STRING)
        return op_fail(&rq->op, ERR_TYPE_MISMATCH,
                       "Argument to getLog must be of type String; found %s of type %s",
                       bv_show(&rq->op.arena, first.v, 100), bv_type_name(first.v.type));
    if (bv_str_is(first.v, "*")) {
        bw_arr_begin(rq->reply, "names");
        bw_str(rq->reply, NULL, "global");
        bw_str(rq->reply, NULL, "startupWarnings");
        bw_end(rq->reply);
        return 0;
    }
    filter.warnings_only = bv_str_is(first.v, "startupWarnings");
    if (!filter.warnings_only && !bv_str_is(first.v, "global"))
        return op_fail(&rq->op, ERR_OPERATION_FAILED, "No log named '%s'", bv_str(first.v, NULL));
    bw_arr_begin(rq->reply, "log");
    lines = log_recent(write_line, &filter);
    bw_end(rq->reply);
    bw_i32(rq->reply, "totalLinesWritten", (int32_t)lines);
    return 0;
}

/* --- running requests ------------------------------------------------------------------------ */

struct current_op_args {
    struct ops_filter filter;
    bool own;
};

static const struct field current_op_fields[] = {
    {"$all", F_BOOL, offsetof(struct current_op_args, filter.idle_connections), 0},
    {"idleCursors", F_BOOL, offsetof(struct current_op_args, filter.idle_cursors), 0},
    {"idleSessions", F_BOOL, offsetof(struct current_op_args, filter.idle_sessions), 0},
    {"$ownOps", F_BOOL, offsetof(struct current_op_args, own), 0},
    {NULL, 0, 0, 0},
};

int cmd_currentOp(struct request *rq)
{
    struct current_op_args args = {.filter = {.idle_sessions = true, .truncate = true}};

    TRY_RETURN(
        fields_parse(&rq->op, "currentOp", current_op_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    bw_arr_begin(rq->reply, "inprog");
    TRY_RETURN(ops_write(rq, &args.filter, rq->reply));
    bw_end(rq->reply);
    return 0;
}

struct kill_op_args {
    int64_t op;
};

static const struct field kill_op_fields[] = {
    {"op", F_INT, offsetof(struct kill_op_args, op), FIELD_REQUIRED},
    {NULL, 0, 0, 0},
};

int cmd_killOp(struct request *rq)
{
    struct kill_op_args args = {0};

    TRY_RETURN(fields_parse(&rq->op, "killOp", kill_op_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    ops_kill(rq, args.op);
    bw_str(rq->reply, "info", "attempting to kill op");
    return 0;
}
