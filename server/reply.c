/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The end of every reply: what it says after the payload, and what it waits for before it goes. */
#include "base/clock.h"
#include "server/dispatch.h"
#include "server/server.h"

uint64_t server_cluster_time(struct server *s)
{
    struct database *db = atomic_load(&s->database);
    uint64_t seen = atomic_load_explicit(&s->gossip_time, memory_order_relaxed), own;

    if (db == NULL)
        own = ((uint64_t)clock_wall_ms() / 1000) << 32 | 1;
    else
        own = oplog_allocated(db->oplog);
    return own > seen ? own : seen;
}

/* Never less than what this request wrote or read. */
static uint64_t operation_time(struct request *rq)
{
    struct op *op = &rq->op;

    if (op->wrote_optime != 0)
        return op->wrote_optime;
    if (op->read_optime != 0 && !rq->change_stream)
        return op->read_optime;
    return op->database == NULL ? server_cluster_time(rq->server)
                                : oplog_visible(op->database->oplog);
}

static void add_times(struct request *rq)
{
    static const uint8_t no_hash[20];
    struct bw *w = &rq->reply;
    uint64_t done = operation_time(rq), cluster = server_cluster_time(rq->server);

    bw_doc_begin(w, "$clusterTime");
    bw_ts(w, "clusterTime", cluster > done ? cluster : done);
    bw_doc_begin(w, "signature");
    bw_bin(w, "hash", 0, no_hash, sizeof(no_hash));
    bw_i64(w, "keyId", 0);
    bw_end(w);
    bw_end(w);
    bw_ts(w, "operationTime", done);
}

static void set_write_concern_error(struct request *rq, int code, const char *text)
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
    bw_doc_begin(&w, "writeConcern");
    if (rq->wc.tag != NULL)
        bw_str(&w, "w", rq->wc.tag);
    else
        bw_i32(&w, "w", (int32_t)rq->wc.w);
    bw_i64(&w, "wtimeout", rq->wc.wtimeout_ms);
    bw_str(&w, "provenance", "clientSupplied");
    bw_end(&w);
    bw_end(&w);
    rq->write_concern_error = bw_done(&w);
}

void reply_set_waits(struct request *rq)
{
    struct op *op = &rq->op;
    struct oplog *o;

    if (op->database == NULL || rq->cmd == NULL)
        return;
    o = op->database->oplog;
    if ((rq->cmd->flags & CMD_WRITE) != 0) {
        const struct write_concern *wc = &rq->wc;
        bool durable = !wc->given || wc->w < 0 || wc->w > 1 || wc->tag != NULL || wc->j;

        if (wc->given && wc->w == 0 && !wc->j)
            op->ack_visible = 0;
        else if (durable)
            op->ack_durable = op->wrote_optime != 0 ? op->wrote_optime : oplog_allocated(o);
        if (wc->tag != NULL)
            set_write_concern_error(rq, ERR_UNKNOWN_REPL_WRITE_CONCERN,
                                    arena_printf(&op->arena,
                                                 "No write concern mode named '%s' found in "
                                                 "replica set configuration",
                                                 wc->tag));
        else if (wc->w > 1)
            set_write_concern_error(rq, ERR_UNSATISFIABLE_WRITE_CONCERN,
                                    "Not enough data-bearing nodes");
    } else if (rq->read_level == READ_MAJORITY || rq->read_level == READ_LINEARIZABLE) {
        /* What was read may be newer than the last sync. Streams read only what is durable. */
        if (!rq->change_stream)
            op->ack_flush = oplog_flush_ticket(o);
    }
}

void reply_finish(struct request *rq)
{
    struct bw *w = &rq->reply;

    bw_bv(w, "writeConcernError", rq->write_concern_error);
    bw_f64(w, "ok", 1.0);
    add_times(rq);
    rq->out = bw_done(w);
}

static bool stream_may_resume(int code)
{
    switch (code) {
    case 63: /* older names of the stale-version family */
    case ERR_STALE_EPOCH:
    case ERR_STALE_CONFIG:
    case ERR_RETRY_CHANGE_STREAM:
    case ERR_READ_PREFERENCE:
        return true;
    default:
        return error_is_retriable(code);
    }
}

static uint32_t labels(struct request *rq)
{
    struct error *err = &rq->op.err;
    uint32_t set = err->labels;

    if (rq->txn_number >= 0 && !rq->has_autocommit && error_is_retriable(err->code)) {
        set |= LABEL_RETRYABLE_WRITE;
        if (rq->op.wrote_optime == 0)
            set |= LABEL_NO_WRITES_PERFORMED;
    }
    if (err->code == ERR_CHANGE_STREAM_FATAL || err->code == ERR_CHANGE_STREAM_HISTORY_LOST)
        set |= LABEL_NON_RESUMABLE_CHANGE_STREAM;
    else if (rq->change_stream && stream_may_resume(err->code))
        set |= LABEL_RESUMABLE_CHANGE_STREAM;
    return set;
}

static void add_labels(struct bw *w, uint32_t set)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {{LABEL_TRANSIENT_TRANSACTION, "TransientTransactionError"},
                 {LABEL_RETRYABLE_WRITE, "RetryableWriteError"},
                 {LABEL_NO_WRITES_PERFORMED, "NoWritesPerformed"},
                 {LABEL_RESUMABLE_CHANGE_STREAM, "ResumableChangeStreamError"},
                 {LABEL_NON_RESUMABLE_CHANGE_STREAM, "NonResumableChangeStreamError"},
                 {LABEL_SYSTEM_OVERLOADED, "SystemOverloadedError"},
                 {LABEL_RETRYABLE, "RetryableError"}};

    if (set == 0)
        return;
    bw_arr_begin(w, "errorLabels");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if ((set & names[i].bit) != 0)
            bw_str(w, NULL, names[i].name);
    }
    bw_end(w);
}

void reply_error(struct request *rq)
{
    struct op *op = &rq->op;
    struct error *err = &op->err;
    struct bw *w = &rq->reply;
    char buf[32];

    bw_init(w, &op->arena);
    bw_f64(w, "ok", 0.0);
    bw_str(w, "errmsg", err->text);
    bw_i32(w, "code", err->code);
    bw_str(w, "codeName", error_name(err->code, buf));
    add_labels(w, labels(rq));
    if (err->info != NULL)
        bw_fields(w, bv_doc(err->info));
    /* What a failed command did write is acknowledged like any other write. */
    if (op->wrote_optime != 0)
        op->ack_durable = op->wrote_optime;
    op->ack_flush = 0;
    add_times(rq);
    rq->out = bw_done(w);
    rq->exhaust_reply = false;
    if (err->code == ERR_SHUTDOWN_IN_PROGRESS || err->code == ERR_INTERRUPTED_AT_SHUTDOWN)
        rq->close_after = true;
    atomic_fetch_add_explicit(&rq->server->counters.asserts_user, 1, memory_order_relaxed);
}
