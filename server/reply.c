/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The end of every reply: what it says after the payload, and what it waits for before it goes. */
#include "base/clock.h"
#include "server/concerns.h"
#include "server/dispatch.h"
#include "server/failpoints.h"
#include "server/server.h"
#include "server/transactions.h"

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

/* The times at the end of every reply differ in two numbers only: the rest is written once. */
static struct times {
    struct bv doc;
    size_t cluster_at, operation_at; /* where in doc */
} times;
static pthread_once_t times_once = PTHREAD_ONCE_INIT;

enum { TIMES_BYTES_MAX = 160 };

static void make_times(void)
{
    static const uint8_t no_hash[20];
    struct bw w;

    bw_init(&w, NULL);
    bw_doc_begin(&w, "$clusterTime");
    bw_ts(&w, "clusterTime", 0);
    bw_doc_begin(&w, "signature");
    bw_bin(&w, "hash", 0, no_hash, sizeof(no_hash));
    bw_i64(&w, "keyId", 0);
    bw_end(&w);
    bw_end(&w);
    bw_ts(&w, "operationTime", 0);
    times.doc = bw_done(&w);
    ASSERT(!w.failed && times.doc.len <= TIMES_BYTES_MAX);
    times.cluster_at = (size_t)(bv_path(times.doc, "$clusterTime.clusterTime").p - times.doc.p);
    times.operation_at = (size_t)(bv_path(times.doc, "operationTime").p - times.doc.p);
}

static void add_times(struct request *rq)
{
    uint64_t done = operation_time(rq), cluster = server_cluster_time(rq->server);
    uint8_t doc[TIMES_BYTES_MAX];

    pthread_once(&times_once, make_times);
    if (cluster < done)
        cluster = done;
    memcpy(doc, times.doc.p, times.doc.len);
    memcpy(doc + times.cluster_at, &cluster, sizeof(cluster));
    memcpy(doc + times.operation_at, &done, sizeof(done));
    bw_fields(rq->reply, bv_doc(doc));
}

int reply_set_waits(struct request *rq)
{
    if (rq->op.database == NULL || rq->cmd == NULL)
        return 0;
    if (rq->env->has_autocommit && !txn_rules_ends(rq->cmd))
        return 0; /* the commit waits for what the transaction read and wrote */
    if ((rq->cmd->flags & CMD_WRITE) == 0)
        return read_concern_finish(rq);
    write_concern_finish(rq);
    return 0;
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

/* A stream that runs, or an aggregate that failed before it was one. */
static bool is_stream(const struct request *rq)
{
    struct belem e;

    if (rq->change_stream || rq->cmd == NULL || strcmp(rq->cmd->name, "aggregate") != 0)
        return rq->change_stream;
    return !bv_is_missing(bv_first(bv_path(rq->op.cmd, "pipeline.0"), &e)) &&
           strcmp(e.key, "$changeStream") == 0;
}

/* A client repeats a retryable write, or the end of a transaction, and may expect it done once. */
static bool is_retryable(const struct request *rq)
{
    if (rq->env->txn_number < 0 || rq->cmd == NULL)
        return false;
    return rq->env->has_autocommit ? txn_rules_ends(rq->cmd)
                                   : (rq->cmd->flags & CMD_RETRYABLE) != 0;
}

/* The labels that a failure with `code`, or a write concern error of it, has. */
static uint32_t labels(const struct request *rq, int code, bool write_concern_error)
{
    uint32_t set = 0;

    if (!write_concern_error && txn_rules_transient(rq, code)) {
        set |= LABEL_TRANSIENT_TRANSACTION;
    } else if (is_retryable(rq) && error_is_retriable(code)) {
        set |= LABEL_RETRYABLE_WRITE;
        if (rq->op.wrote_optime == 0)
            set |= LABEL_NO_WRITES_PERFORMED;
    }
    if (code == ERR_CHANGE_STREAM_FATAL || code == ERR_CHANGE_STREAM_HISTORY_LOST)
        set |= LABEL_NON_RESUMABLE_CHANGE_STREAM;
    else if (is_stream(rq) && stream_may_resume(code))
        set |= LABEL_RESUMABLE_CHANGE_STREAM;
    return set;
}

static void add_labels(struct request *rq, uint32_t set)
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
    struct bw *w = rq->reply;
    struct bv instead = failpoint_error_labels(rq);

    if (!bv_is_missing(instead)) {
        if (!bv_empty(instead))
            bw_bv(w, "errorLabels", instead);
        return;
    }
    if (set == 0)
        return;
    bw_arr_begin(w, "errorLabels");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if ((set & names[i].bit) != 0)
            bw_str(w, NULL, names[i].name);
    }
    bw_end(w);
}

/* By which drivers tell whether they know already of the change that made this error. Errors of a
 * shutdown have it only while one goes on: else they are news whenever they come. */
static void add_topology_version(struct request *rq, int code)
{
    bool stopping = error_is_shutdown(code) && atomic_load(&rq->server->stopping) != 0;

    if (error_is_not_primary(code) || stopping)
        topology_write(&rq->server->topology, rq->reply);
}

static void add_write_concern_error(struct request *rq)
{
    struct bv instead = failpoint_write_concern_error(rq);
    int64_t code;

    if (!bv_is_missing(instead))
        rq->write_concern_error = instead;
    if (bv_is_missing(rq->write_concern_error))
        return;
    bw_bv(rq->reply, "writeConcernError", rq->write_concern_error);
    if (!bv_to_i64(bv_get(rq->write_concern_error, "code"), &code))
        return;
    add_labels(rq, labels(rq, (int)code, true));
    add_topology_version(rq, (int)code);
}

void reply_add_write_concern_error(struct request *rq)
{
    struct biter it = biter(rq->out);
    struct belem e;

    bw_init(rq->reply, &rq->op.arena);
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "ok") == 0)
            add_write_concern_error(rq);
        bw_elem(rq->reply, &e);
    }
    rq->out = bw_done(rq->reply);
}

void reply_finish(struct request *rq)
{
    struct bw *w = rq->reply;

    add_write_concern_error(rq);
    bw_f64(w, "ok", 1.0);
    add_times(rq);
    rq->out = bw_done(w);
}

int reply_lost(struct request *rq)
{
    op_no_memory(&rq->op);
    return rq->op.wrote_optime != 0 ? INT_CLOSE : ERR_EXCEEDED_MEMORY_LIMIT;
}

static void count_failure(struct request *rq)
{
    struct server_counters *n = &rq->server->counters;

    atomic_fetch_add_explicit(&n->asserts_user, 1, memory_order_relaxed);
    if (rq->cmd != NULL)
        atomic_fetch_add_explicit(&n->commands[command_index(rq->cmd)].failed, 1,
                                  memory_order_relaxed);
}

void reply_error(struct request *rq)
{
    struct op *op = &rq->op;
    struct error *err = op->err;
    struct bw *w = rq->reply;
    char buf[32];

    bw_init(w, &op->arena);
    bw_f64(w, "ok", 0.0);
    bw_str(w, "errmsg", err->text);
    bw_i32(w, "code", err->code);
    bw_str(w, "codeName", error_name(err->code, buf));
    add_labels(rq, labels(rq, err->code, false) | err->labels);
    if (err->info != NULL)
        bw_fields(w, bv_doc(err->info));
    /* What a failed command did write is acknowledged like any other write. */
    if (op->wrote_optime != 0 && (rq->cmd->flags & CMD_WRITE) != 0)
        write_concern_finish(rq);
    else if (op->wrote_optime != 0)
        op->ack_durable = op->wrote_optime;
    op->ack_flush = 0;
    add_topology_version(rq, err->code);
    add_times(rq);
    rq->out = bw_done(w);
    rq->exhaust_reply = false;
    if (error_is_shutdown(err->code) && atomic_load(&rq->server->stopping))
        rq->close_after = true;
    count_failure(rq);
}
