/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/concerns.h"
#include "server/dispatch.h"
#include "server/rw_defaults.h"
#include "server/server.h"

static const char *const levels[] = {[READ_LOCAL] = "local",
                                     [READ_AVAILABLE] = "available",
                                     [READ_MAJORITY] = "majority",
                                     [READ_LINEARIZABLE] = "linearizable",
                                     [READ_SNAPSHOT] = "snapshot"};

enum { NLEVELS = sizeof(levels) / sizeof(levels[0]) };

const char *read_level_name(enum read_level level)
{
    return levels[level];
}

/* --- parsing ---------------------------------------------------------------------------------- */

static int wrong_type(struct op *op, const char *field, struct bv v, const char *expected)
{
    return op_fail(op, ERR_TYPE_MISMATCH,
                   "BSON field '%s' is the wrong type '%s', expected type '%s'", field,
                   bv_type_name(v.type), expected);
}

int read_level_parse(struct op *op, struct bv v, enum read_level *ret)
{
    if (v.type != BV_STRING)
        return wrong_type(op, "readConcern.level", v, "string");
    for (int i = 0; i < NLEVELS; i++) {
        if (bv_str_is(v, levels[i])) {
            *ret = (enum read_level)i;
            return 0;
        }
    }
    return op_fail(op, ERR_BAD_VALUE,
                   "Enumeration value '%.100s' for field 'readConcern.level' is not a valid value.",
                   bv_str(v, NULL));
}

static int parse_time(struct op *op, const char *name, struct bv v, uint64_t *ret)
{
    if (v.type != BV_TIMESTAMP)
        return wrong_type(op, arena_printf(&op->arena, "readConcern.%s", name), v, "timestamp");
    if (bv_ts(v) == 0)
        return op_fail(op, ERR_INVALID_OPTIONS, "%s cannot be a null timestamp", name);
    *ret = bv_ts(v);
    return 0;
}

/* afterOpTime, as members of a set send it: {ts, t}. On one member it means the same as a time. */
static int parse_optime(struct request *rq, struct bv v)
{
    if (v.type != BV_DOC)
        return wrong_type(&rq->op, "readConcern.afterOpTime", v, "object");
    return parse_time(&rq->op, "afterOpTime", bv_get(v, "ts"), &rq->env->after_cluster_time);
}

static int check_times(struct request *rq)
{
    struct op *op = &rq->op;

    if (rq->env->after_cluster_time != 0 && rq->env->at_cluster_time != 0)
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "Specifying a timestamp for readConcern snapshot in a causally consistent "
                       "session is not allowed. See "
                       "https://www.mongodb.com/docs/manual/core/read-isolation-consistency-"
                       "recency/#causal-consistency");
    if (rq->env->at_cluster_time != 0 && rq->env->read_level != READ_SNAPSHOT)
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "atClusterTime field can be set only if level is equal to snapshot");
    if (rq->env->after_cluster_time != 0 &&
        (rq->env->read_level == READ_AVAILABLE || rq->env->read_level == READ_LINEARIZABLE))
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "afterClusterTime field can be set only if level is equal to majority, "
                       "local, or snapshot");
    return 0;
}

int read_concern_parse(struct request *rq, struct bv v)
{
    struct op *op = &rq->op;
    struct biter it = biter(v);
    struct belem e;

    if (v.type != BV_DOC)
        return wrong_type(op, "readConcern", v, "object");
    rq->env->read_concern_given = true;
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "level") == 0) {
            TRY_RETURN(read_level_parse(op, e.v, &rq->env->read_level));
            rq->env->read_level_given = true;
        } else if (strcmp(e.key, "afterClusterTime") == 0) {
            TRY_RETURN(parse_time(op, e.key, e.v, &rq->env->after_cluster_time));
        } else if (strcmp(e.key, "atClusterTime") == 0) {
            TRY_RETURN(parse_time(op, e.key, e.v, &rq->env->at_cluster_time));
        } else if (strcmp(e.key, "afterOpTime") == 0) {
            TRY_RETURN(parse_optime(rq, e.v));
        } else if (strcmp(e.key, "provenance") != 0) {
            return op_fail(op, ERR_IDL_UNKNOWN_FIELD,
                           "BSON field 'readConcern.%.200s' is an unknown field.", e.key);
        }
    }
    return check_times(rq);
}

/* --- what a command takes --------------------------------------------------------------------- */

/* Stages that show the server's own state as it is, at no other level than local. */
static bool is_local_stage(const char *name)
{
    static const char *const local[] = {"$collStats", "$currentOp", "$indexStats",
                                        "$listLocalSessions", "$planCacheStats"};

    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
        if (strcmp(name, local[i]) == 0)
            return true;
    }
    return false;
}

static const char *local_stage(struct request *rq)
{
    struct belem e;

    if (strcmp(rq->cmd->name, "aggregate") != 0 ||
        bv_is_missing(bv_first(bv_path(rq->op.cmd, "pipeline.0"), &e)) || !is_local_stage(e.key))
        return NULL;
    return e.key;
}

/* As the server shows it in errors: with who chose it. */
static const char *show(struct request *rq)
{
    struct arena *a = &rq->op.arena;
    struct bw w;

    bw_init(&w, a);
    bw_fields(&w, bv_get(rq->op.cmd, "readConcern"));
    if (bv_is_missing(bv_get(bv_get(rq->op.cmd, "readConcern"), "provenance")))
        bw_str(&w, "provenance", "clientSupplied");
    return bv_show(a, bw_done(&w), 300);
}

static int refuse(struct request *rq, const char *why)
{
    return op_fail(&rq->op, ERR_INVALID_OPTIONS,
                   "Command %s does not support { readConcern: %s } :: caused by :: %s",
                   rq->cmd->name, show(rq), why);
}

int read_concern_check(struct request *rq)
{
    const char *stage = local_stage(rq);

    if (!rq->env->read_level_given) {
        if (stage == NULL && (rq->cmd->flags & CMD_READ_CONCERN) != 0)
            rw_defaults_read(rq->server->rw_defaults, &rq->env->read_level);
        return 0;
    }
    if (rq->env->read_level == READ_LOCAL)
        return 0;
    if ((rq->cmd->flags & CMD_READ_CONCERN) == 0)
        return refuse(rq, "read concern not supported");
    if (rq->env->read_level == READ_SNAPSHOT && (rq->cmd->flags & CMD_SNAPSHOT) == 0)
        return refuse(rq, "read concern snapshot not supported");
    if (stage != NULL)
        return op_fail(&rq->op, ERR_INVALID_OPTIONS,
                       "Aggregation stage %s cannot run with a readConcern other than 'local', or "
                       "in a multi-document transaction. Current readConcern: %s",
                       stage, levels[rq->env->read_level]);
    return 0;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static int beyond(struct request *rq, const char *what, uint64_t ts, uint64_t now)
{
    return op_fail(&rq->op, ERR_INVALID_OPTIONS,
                   "readConcern %s value must not be greater than the current clusterTime. "
                   "Requested clusterTime: Timestamp(%llu, %llu); current clusterTime: "
                   "Timestamp(%llu, %llu)",
                   what, (unsigned long long)(ts >> 32), (unsigned long long)(ts & UINT32_MAX),
                   (unsigned long long)(now >> 32), (unsigned long long)(now & UINT32_MAX));
}

/* A time that this server has not reached, but the cluster has, is reached by writing a noop. */
static int reach(struct request *rq, uint64_t ts)
{
    struct op *op = &rq->op;
    struct oplog *o = op->database->oplog;
    uint64_t optime;
    struct bw w;

    oplog_advance_clock(o, ts - 1);
    bw_init(&w, &op->arena);
    bw_i32(&w, "noop write for afterClusterTime read concern", 1);
    TRY_RETURN(oplog_noop(o, op, bw_done(&w), &optime));
    op->wrote_optime = op->ack_visible = 0;
    return 0;
}

int read_concern_wait(struct request *rq)
{
    struct op *op = &rq->op;
    uint64_t ts =
        rq->env->after_cluster_time != 0 ? rq->env->after_cluster_time : rq->env->at_cluster_time;
    uint64_t now;
    struct oplog *o;
    int rc;

    if (ts == 0 || op->database == NULL)
        return 0;
    o = op->database->oplog;
    if (oplog_visible(o) >= ts)
        return 0;
    now = server_cluster_time(rq->server);
    if (ts > now)
        return beyond(rq, rq->env->after_cluster_time != 0 ? "afterClusterTime" : "atClusterTime",
                      ts, now);
    if (rq->env->at_cluster_time != 0)
        return 0; /* whoever takes the snapshot reaches it */
    TRY_RETURN(op_check(op));
    if (ts > oplog_allocated(o))
        TRY_RETURN(reach(rq, ts));
    op->ack_visible = ts;
    rc = oplog_wait_ack(o, op);
    op->ack_visible = 0;
    return rc;
}

int read_concern_finish(struct request *rq)
{
    struct op *op = &rq->op;
    struct oplog *o = op->database->oplog;
    uint64_t optime;
    struct bw w;

    rq->ack_deadline_us = op->deadline_us;
    switch (rq->env->read_level) {
    case READ_LINEARIZABLE:
        /* Durable after whatever was read, and proof that this member was the primary. */
        bw_init(&w, &op->arena);
        bw_str(&w, "msg", "linearizable read");
        TRY_RETURN(oplog_try_noop(o, op, bw_done(&w), &optime));
        op->ack_durable = optime;
        if (optime == 0) /* the disk is stuck: its next sync tells as much */
            op->ack_flush = oplog_flush_ticket(o);
        return 0;
    case READ_SNAPSHOT:
        op->ack_durable = rq->env->at_cluster_time;
        return 0;
    case READ_MAJORITY:
        /* What was read may be newer than the last sync. Streams read only what is durable. */
        if (!rq->change_stream)
            op->ack_flush = oplog_flush_ticket(o);
        return 0;
    default:
        return 0;
    }
}
