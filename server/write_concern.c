/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/clock.h"
#include "base/limits.h"
#include "server/concerns.h"
#include "server/dispatch.h"
#include "server/rw_defaults.h"
#include "server/server.h"

/* --- parsing ---------------------------------------------------------------------------------- */

static int parse_w(struct op *op, struct bv v, struct write_concern *ret)
{
    ret->tag = NULL;
    ret->has_w = true;
    if (bv_is_number(v)) {
        if (!bv_to_i64(v, &ret->w) || ret->w < 0 || ret->w > LIMIT_MEMBERS)
            return op_fail(op, ERR_FAILED_TO_PARSE,
                           "w has to be a non-negative number and not greater than %d; found: %s",
                           LIMIT_MEMBERS, bv_show(&op->arena, v, 60));
        return 0;
    }
    if (v.type == BV_STRING) {
        ret->w = -1;
        if (!bv_str_is(v, "majority"))
            ret->tag = bv_str(v, NULL);
        return 0;
    }
    if (v.type == BV_DOC) {
        ret->w = -1;
        ret->tag = bv_show(&op->arena, v, 100);
        return 0;
    }
    return op_fail(op, ERR_FAILED_TO_PARSE, "w has to be a number, string, or object; found: %s",
                   bv_type_name(v.type));
}

static int parse_flag(struct op *op, const struct belem *e, bool *ret)
{
    if (!bv_is_number(e->v) && e->v.type != BV_BOOL)
        return op_fail(op, ERR_FAILED_TO_PARSE, "%s must be numeric or a boolean value", e->key);
    *ret = bv_truthy(e->v);
    return 0;
}

int write_concern_parse(struct op *op, struct bv v, struct write_concern *ret)
{
    struct biter it = biter(v);
    struct belem e;
    bool fsync = false;

    if (v.type != BV_DOC)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "BSON field 'writeConcern' is the wrong type '%s', expected type 'object'",
                       bv_type_name(v.type));
    if (bv_empty(v))
        return 0;
    ret->given = true;
    ret->provenance = "clientSupplied";
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "w") == 0) {
            TRY_RETURN(parse_w(op, e.v, ret));
        } else if (strcmp(e.key, "j") == 0) {
            TRY_RETURN(parse_flag(op, &e, &ret->j));
        } else if (strcmp(e.key, "fsync") == 0) {
            TRY_RETURN(parse_flag(op, &e, &fsync));
        } else if (strcmp(e.key, "wtimeout") == 0) {
            if (!bv_is_number(e.v) || !bv_to_i64(e.v, &ret->wtimeout_ms))
                return op_fail(op, ERR_FAILED_TO_PARSE, "wtimeout must be a number");
            /* As an int32 (M): larger ones are as good as none. */
            if (ret->wtimeout_ms < 0 || ret->wtimeout_ms > INT32_MAX)
                ret->wtimeout_ms = 0;
        } else if (strcmp(e.key, "provenance") != 0 && strcmp(e.key, "getLastError") != 0) {
            return op_fail(op, ERR_IDL_UNKNOWN_FIELD,
                           "BSON field 'WriteConcern.%.200s' is an unknown field.", e.key);
        }
    }
    if (fsync && ret->j)
        return op_fail(op, ERR_FAILED_TO_PARSE, "fsync and j options cannot be used together");
    ret->j |= fsync;
    return 0;
}

void write_concern_implicit(struct write_concern *ret)
{
    *ret = (struct write_concern){.w = -1, .provenance = "implicitDefault"};
}

int write_concern_check(struct request *rq)
{
    struct write_concern *wc = &rq->env->wc, other;

    if ((rq->cmd->flags & (CMD_WRITE | CMD_WRITE_CONCERN)) == 0 && wc->named)
        return op_fail(&rq->op, ERR_INVALID_OPTIONS, "Command does not support writeConcern");
    if ((rq->cmd->flags & CMD_WRITE) == 0 || wc->has_w ||
        !rw_defaults_write(rq->server->rw_defaults, &rq->op.arena, &other))
        return 0;
    if (!wc->given) {
        *wc = other;
        return 0;
    }
    wc->w = other.w;
    wc->tag = other.tag;
    return 0;
}

/* --- waits and errors ------------------------------------------------------------------------- */

bool write_concern_is_silent(const struct write_concern *wc)
{
    return wc->tag == NULL && wc->w == 0 && !wc->j;
}

void write_concern_write(const struct write_concern *wc, struct bw *w)
{
    if (wc->tag != NULL)
        bw_str(w, "w", wc->tag);
    else if (wc->w < 0)
        bw_str(w, "w", "majority");
    else
        bw_i32(w, "w", (int32_t)wc->w);
    if (wc->j)
        bw_bool(w, "j", true);
    bw_i32(w, "wtimeout", (int32_t)wc->wtimeout_ms);
}

static void set_error(struct request *rq, int code, const char *text)
{
    struct bw w;
    char buf[32];

    if (!bv_is_missing(rq->write_concern_error))
        return;
    bw_init(&w, &rq->op.arena);
    bw_i32(&w, "code", code);
    bw_str(&w, "codeName", error_name(code, buf));
    bw_str(&w, "errmsg", text);
    bw_doc_begin(&w, "errInfo");
    if (code == ERR_WRITE_CONCERN_TIMEOUT)
        bw_bool(&w, "wtimeout", true);
    bw_doc_begin(&w, "writeConcern");
    write_concern_write(&rq->env->wc, &w);
    bw_str(&w, "provenance", rq->env->wc.provenance);
    bw_end(&w);
    bw_end(&w);
    rq->write_concern_error = bw_done(&w);
}

static void set_unknown_mode(struct request *rq, const char *mode)
{
    struct error err;

    error_set(&err, ERR_UNKNOWN_REPL_WRITE_CONCERN,
              "No write concern mode named '%s' found in replica set configuration", mode);
    set_error(rq, err.code, err.text);
}

/* The earlier one of wtimeout and maxTimeMS. */
static int64_t give_up_at(const struct request *rq)
{
    int64_t at = rq->op.deadline_us, wtimeout;

    if (rq->env->wc.wtimeout_ms <= 0)
        return at;
    wtimeout = clock_mono_us() + rq->env->wc.wtimeout_ms * 1000;
    return at == 0 || wtimeout < at ? wtimeout : at;
}

void write_concern_finish(struct request *rq)
{
    struct op *op = &rq->op;
    const struct write_concern *wc = &rq->env->wc;

    if (write_concern_is_silent(wc)) {
        op->ack_visible = 0;
        return;
    }
    if (wc->w < 0 || wc->w > 1 || wc->j)
        op->ack_durable =
            op->wrote_optime != 0 ? op->wrote_optime : oplog_allocated(op->database->oplog);
    rq->ack_deadline_us = give_up_at(rq);
    if (wc->tag != NULL)
        set_unknown_mode(rq, wc->tag);
    else if (wc->w > 1)
        set_error(rq, ERR_UNSATISFIABLE_WRITE_CONCERN, "Not enough data-bearing nodes");
}

void concern_gives_up(struct request *rq, int code)
{
    struct op *op = &rq->op;
    const char *text = code == ERR_INTERRUPTED           ? "operation was interrupted"
                       : code == ERR_MAX_TIME_MS_EXPIRED ? "operation exceeded time limit"
                                                         : "waiting for replication timed out";

    rq->ack_deadline_us = 0;
    op->ack_durable = op->ack_flush = 0;
    if ((rq->cmd->flags & CMD_WRITE) == 0) {
        op_fail(op, code, "%s", text);
        reply_error(rq);
        op->ack_durable = 0;
        return;
    }
    if (!bv_is_missing(rq->write_concern_error))
        return; /* it has one already */
    set_error(rq, code, text);
    reply_add_write_concern_error(rq);
}
