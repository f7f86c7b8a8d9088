/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The fields that any command may carry, with MongoDB's errors. */
#include "base/clock.h"
#include "base/limits.h"
#include "server/concerns.h"
#include "server/dispatch.h"
#include "server/failpoints.h"
#include "server/server.h"
#include "server/stable_api.h"
#include "server/transactions.h"

#define YEAR_SECONDS (365 * 86400)

static int wrong_type(struct op *op, const char *field, struct bv v, const char *expected)
{
    return op_fail(op, ERR_TYPE_MISMATCH,
                   "BSON field '%s' is the wrong type '%s', expected type '%s'", field,
                   bv_type_name(v.type), expected);
}

int envelope_db(struct request *rq)
{
    struct op *op = &rq->op;
    struct bv v;
    const char *s;
    uint32_t n;

    if (rq->legacy)
        return check_db_name(op, op->db);
    v = bv_get(op->cmd, "$db");
    if (bv_is_missing(v))
        return op_fail(op, 40571, "OP_MSG requests require a $db argument");
    if (v.type != BV_STRING)
        return wrong_type(op, "$db", v, "string");
    s = bv_str(v, &n);
    if (memchr(s, 0, n) != NULL)
        return op_fail(op, ERR_INVALID_NAMESPACE,
                       "namespaces cannot have embedded null characters");
    op->db = s;
    return check_db_name(op, s);
}

/* --- single fields ---------------------------------------------------------------------------- */

static int parse_max_time(struct request *rq, struct bv v)
{
    struct op *op = &rq->op;

    if (!bv_is_number(v))
        return op_fail(op, ERR_BAD_VALUE, "maxTimeMS must be a number");
    if (!bv_to_i64_exact(v, &rq->env->max_time_ms))
        return op_fail(op, ERR_BAD_VALUE, "maxTimeMS has non-integral value");
    if (rq->env->max_time_ms < 0 || rq->env->max_time_ms > LIMIT_AWAIT_MS)
        return op_fail(op, ERR_BAD_VALUE, "%lld value for maxTimeMS is out of range [0, %d]",
                       (long long)rq->env->max_time_ms, LIMIT_AWAIT_MS);
    return 0;
}

static int parse_read_preference(struct request *rq, struct bv v)
{
    static const char *const modes[] = {"primary", "primaryPreferred", "secondary",
                                        "secondaryPreferred", "nearest"};
    struct bv mode;

    if (v.type != BV_DOC)
        return wrong_type(&rq->op, "$readPreference", v, "object");
    mode = bv_get(v, "mode");
    if (mode.type != BV_STRING)
        return wrong_type(&rq->op, "$readPreference.mode", mode, "string");
    for (int i = 0; i < 5; i++) {
        if (bv_str_is(mode, modes[i]))
            return 0;
    }
    return op_fail(&rq->op, ERR_FAILED_TO_PARSE, "Could not parse $readPreference mode '%.100s'.",
                   bv_str(mode, NULL));
}

/* Gossip: what clients have seen elsewhere moves our clock, unless it is absurd. */
static int parse_cluster_time(struct request *rq, struct bv v)
{
    struct server *s = rq->server;
    struct bv ts = bv_get(v, "clusterTime");
    uint64_t seen = atomic_load_explicit(&s->gossip_time, memory_order_relaxed);

    if (v.type != BV_DOC)
        return wrong_type(&rq->op, "$clusterTime", v, "object");
    if (ts.type != BV_TIMESTAMP)
        return wrong_type(&rq->op, "$clusterTime.clusterTime", ts, "timestamp");
    if ((int64_t)(bv_ts(ts) >> 32) > clock_wall_ms() / 1000 + YEAR_SECONDS)
        return 0;
    if (bv_ts(ts) <= seen)
        return 0;
    while (bv_ts(ts) > seen && !atomic_compare_exchange_weak(&s->gossip_time, &seen, bv_ts(ts)))
        ;
    if (rq->op.database != NULL && bv_ts(ts) > oplog_allocated(rq->op.database->oplog))
        oplog_advance_clock(rq->op.database->oplog, bv_ts(ts));
    return 0;
}

static int parse_txn_number(struct request *rq, struct bv v)
{
    if (v.type != BV_INT64)
        return wrong_type(&rq->op, "txnNumber", v, "long");
    rq->env->txn_number = bv_i64(v);
    if (rq->env->txn_number < 0)
        return op_fail(&rq->op, ERR_INVALID_OPTIONS, "Transaction number cannot be negative");
    return 0;
}

static int parse_autocommit(struct op *op, struct bv v)
{
    if (v.type != BV_BOOL)
        return wrong_type(op, "autocommit", v, "bool");
    if (bv_bool(v))
        return op_fail(op, ERR_INVALID_OPTIONS, "Specifying autocommit=true is not allowed.");
    return 0;
}

static int parse_start_transaction(struct op *op, struct bv v)
{
    if (v.type != BV_BOOL)
        return wrong_type(op, "startTransaction", v, "bool");
    if (!bv_bool(v))
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "Specifying startTransaction=false is not allowed.");
    return 0;
}

static int parse_stmt_ids(struct request *rq, const char *name, struct bv v)
{
    if (strcmp(name, "stmtIds") == 0) {
        if (v.type != BV_ARRAY)
            return wrong_type(&rq->op, "stmtIds", v, "array");
        rq->env->stmt_ids = v;
        return 0;
    }
    if (!bv_is_number(v) || !bv_to_i64(v, &rq->env->stmt_id))
        return wrong_type(&rq->op, "stmtId", v, "int");
    return 0;
}

static int parse_api(struct request *rq, const char *name, struct bv v, bool *flags)
{
    struct op *op = &rq->op;

    if (strcmp(name, "apiVersion") == 0) {
        if (v.type != BV_STRING)
            return wrong_type(op, "apiVersion", v, "string");
        rq->env->api.version = bv_str(v, NULL);
        return 0;
    }
    if (v.type != BV_BOOL)
        return wrong_type(op, name, v, "bool");
    *flags = true;
    if (strcmp(name, "apiStrict") == 0)
        rq->env->api.strict = bv_bool(v);
    else
        rq->env->api.deprecation_errors = bv_bool(v);
    return 0;
}

/* *api_flags: set when apiStrict or apiDeprecationErrors is given. */
static int parse_field(struct request *rq, const struct belem *e, bool *api_flags)
{
    struct op *op = &rq->op;
    const char *k = e->key;

    switch (k[0]) {
    case '$':
        if (strcmp(k, "$clusterTime") == 0)
            return parse_cluster_time(rq, e->v);
        if (strcmp(k, "$readPreference") == 0)
            return parse_read_preference(rq, e->v);
        return 0;
    case 'a':
        if (strcmp(k, "autocommit") == 0) {
            rq->env->has_autocommit = true;
            return parse_autocommit(op, e->v);
        }
        if (strncmp(k, "api", 3) == 0 && field_is_generic(k))
            return parse_api(rq, k, e->v, api_flags);
        return 0;
    case 'c':
        if (strcmp(k, "comment") == 0 && e->v.type != BV_NULL)
            rq->env->comment = e->v;
        return 0;
    case 'h':
        rq->env->help |= strcmp(k, "help") == 0 && bv_truthy(e->v);
        return 0;
    case 'l':
        return strcmp(k, "lsid") == 0 ? session_lsid(rq, e->v, &rq->env->lsid) : 0;
    case 'm':
        return strcmp(k, "maxTimeMS") == 0 ? parse_max_time(rq, e->v) : 0;
    case 'r':
        return strcmp(k, "readConcern") == 0 ? read_concern_parse(rq, e->v) : 0;
    case 's':
        if (strcmp(k, "startTransaction") == 0) {
            rq->env->start_transaction = true;
            return parse_start_transaction(op, e->v);
        }
        return strncmp(k, "stmtId", 6) == 0 ? parse_stmt_ids(rq, k, e->v) : 0;
    case 't':
        return strcmp(k, "txnNumber") == 0 ? parse_txn_number(rq, e->v) : 0;
    case 'w':
        if (strcmp(k, "writeConcern") != 0)
            return 0;
        rq->env->wc.named = true;
        return write_concern_parse(op, e->v, &rq->env->wc);
    default:
        return 0;
    }
}

/* --- the whole envelope ------------------------------------------------------------------------
 */

int envelope_parse(struct request *rq)
{
    struct op *op = &rq->op;
    bool api_flags = false;
    struct biter it = biter(op->cmd);
    struct belem e;

    biter_next(&it, &e); /* the command itself */
    while (biter_next(&it, &e))
        TRY_RETURN(parse_field(rq, &e, &api_flags));
    TRY_RETURN(stable_api_check(rq, api_flags));
    TRY_RETURN(txn_rules_check(rq));
    if (!rq->env->has_autocommit)
        TRY_RETURN(read_concern_check(rq));
    TRY_RETURN(write_concern_check(rq));
    if (rq->env->max_time_ms > 0 && op->deadline_us == 0 &&
        (rq->cmd->flags & CMD_OWN_MAX_TIME) == 0)
        op->deadline_us = failpoints_armed()
                              ? failpoint_deadline(op->start_us, rq->env->max_time_ms * 1000)
                              : op->start_us + rq->env->max_time_ms * 1000;
    op->wtimeout_us = (rq->cmd->flags & CMD_WRITE) != 0 ? rq->env->wc.wtimeout_ms * 1000 : 0;
    if (!bv_is_missing(rq->env->lsid) && rq->session == NULL)
        TRY_RETURN(session_checkout(rq));
    return read_concern_wait(rq);
}
