/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * bulkWrite: inserts, updates and deletes of many collections in one command.
 *
 * The locks of all its collections are taken before the first operation. Where an operation needs
 * a collection that does not exist, the command goes to the schema thread, makes it there, and
 * goes on on a worker; how far it came, and what it has found so far, is kept in op->resume.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "query/collection_uuid.h"
#include "server/commands/bulk_request.h"
#include "server/commands/cmd_write.h"
#include "server/cursors.h"
#include "server/dispatch.h"
#include "server/failpoints.h"
#include "server/server.h"
#include "server/top.h"
#include "server/transactions.h"

#define RESULT_NS "admin.$cmd.bulkWrite"

/* What survives a move to another thread. On the heap. */
struct progress {
    size_t at;    /* operations dealt with */
    bool stopped; /* nothing behind `at` is done */
    int32_t errors, inserted, matched, modified, upserted, deleted;
    struct bw items; /* array: {ok, idx, n, ...} of operations */
    size_t nitems;
    struct bw retried; /* array of statement ids */
    size_t nretried;
};

struct bulk {
    struct request *rq;
    struct bulk_request req;
    struct progress *p;
    struct writer *writers; /* of the targets; op NULL: not open */
    struct retry_state retry;
    bool retryable;
    int32_t *stmt_ids;
};

/* --- results ---------------------------------------------------------------------------------- */

static void progress_free(void *arg)
{
    struct progress *p = arg;

    bw_fini(&p->items);
    bw_fini(&p->retried);
    free(p);
}

static struct progress *progress_of(struct op *op)
{
    struct progress *p = op->resume;

    if (p != NULL)
        return p;
    p = mem_must_zero(1, sizeof(*p));
    bw_init_array(&p->items, NULL);
    bw_init_array(&p->retried, NULL);
    op->resume = p;
    op->resume_free = progress_free;
    return p;
}

static void add_retried(struct bulk *b, size_t at)
{
    bw_i32(&b->p->retried, NULL, b->stmt_ids[at]);
    b->p->nretried++;
}

/* An operation that succeeded; modified -1: no update. */
static void add_success(struct bulk *b, size_t at, int64_t n, int64_t modified, struct bv upserted)
{
    struct bw *w = &b->p->items;

    if (b->req.errors_only)
        return;
    bw_doc_begin(w, NULL);
    bw_f64(w, "ok", 1.0);
    bw_i32(w, "idx", (int32_t)at);
    bw_i32(w, "n", (int32_t)n);
    if (modified >= 0)
        bw_i32(w, "nModified", (int32_t)modified);
    bw_bv(w, "upserted", upserted);
    bw_end(w);
    b->p->nitems++;
}

/* The operation at p->at failed with the error of the op: that is its result. */
static void add_failure(struct bulk *b)
{
    struct progress *p = b->p;
    const struct error *err = b->rq->op.err;
    struct bw *w = &p->items;

    bw_doc_begin(w, NULL);
    bw_f64(w, "ok", 0.0);
    bw_i32(w, "idx", (int32_t)p->at);
    bw_i32(w, "code", err->code);
    bw_str(w, "errmsg", err->text);
    if (err->info != NULL)
        bw_fields(w, bv_doc(err->info));
    bw_i32(w, "n", 0);
    if (b->req.ops[p->at].kind == BULK_UPDATE)
        bw_i32(w, "nModified", 0);
    bw_end(w);
    p->nitems++;
    p->errors++;
    p->stopped |= b->req.ordered || b->rq->txn != NULL;
    p->at++;
    b->rq->op.err->info = NULL;
}

/* The next operation has given rc: 0 when the command goes on, with it or behind it. */
static int outcome(struct bulk *b, int rc)
{
    if (rc == 0 || write_error_ends_command(b->rq, rc))
        return rc;
    add_failure(b);
    transaction_fail(b->rq);
    return 0;
}

static void count(struct bulk *b, _Atomic int64_t *counter, enum top_kind kind, size_t n,
                  const char *ns, int64_t start_us)
{
    atomic_fetch_add_explicit(counter, (int64_t)n, memory_order_relaxed);
    top_record(b->rq->server->top, ns, kind, clock_mono_us() - start_us);
}

/* --- collections ------------------------------------------------------------------------------ */

/* Statements of a transaction may not leave it for the schema thread one by one: all of it runs
 * there when a collection is missing. */
static bool moves_to_create(const struct bulk *b)
{
    return b->rq->txn == NULL;
}

/* Takes the locks of all collections. A namespace that users may not write fails its operations, or
 * all of the command (13). */
static int open_writers(struct bulk *b)
{
    struct bulk_request *r = &b->req;
    struct op *op = &b->rq->op;

    b->writers = arena_try_zero(&op->arena, r->ntargets + 1, sizeof(*b->writers));
    if (b->writers == NULL)
        return op_no_memory(op);
    for (size_t i = 0; i < r->ntargets; i++) {
        const struct bulk_target *t = &r->targets[i];
        int rc = t->used ? check_user_ns(op, t->ns) : 0;

        if (write_error_ends_command(b->rq, rc))
            return rc;
        if (t->used && rc == 0)
            TRY_RETURN(writer_open(&b->writers[i], op, t->ns, t->may_grow && !moves_to_create(b),
                                   b->retryable ? &b->retry : NULL));
    }
    return 0;
}

static void close_writers(struct bulk *b)
{
    for (size_t i = 0; b->writers != NULL && i < b->req.ntargets; i++)
        writer_close(&b->writers[i]);
}

/* The writer of the next operation, whose namespace is checked. `creates`: it makes a missing
 * collection; then INT_TO_SCHEMA may come back. */
static int target(struct bulk *b, bool creates, struct writer **ret)
{
    const struct bulk_ns *ns = &b->req.ns[b->req.ops[b->p->at].ns];
    struct writer *w = &b->writers[ns->target];

    TRY_RETURN(check_user_ns(&b->rq->op, ns->ns));
    TRY_RETURN(collection_uuid_check(&b->rq->op, ns->ns, w->coll, ns->uuid));
    if (creates && w->coll == NULL) {
        if (!b->rq->op.on_schema_thread) {
            b->rq->goes_on = true;
            return INT_TO_SCHEMA;
        }
        TRY_RETURN(writer_create(w));
    }
    w->keep_empty_ts = b->req.keep_empty_ts;
    *ret = w;
    return 0;
}

/* On the schema thread: makes the collection that the next operation needs. */
static int create_target(struct bulk *b)
{
    const struct bulk_ns *ns = &b->req.ns[b->req.ops[b->p->at].ns];
    struct writer w;
    int rc = writer_open(&w, &b->rq->op, ns->ns, true, NULL);

    if (rc == 0 && w.coll == NULL)
        rc = writer_create(&w);
    writer_close(&w);
    TRY_RETURN(outcome(b, rc));
    return write_run_on_worker(b->rq);
}

/* --- operations ------------------------------------------------------------------------------- */

/* Inserts into one collection that stand one behind the other: as many groups as the insert command
 * would make of them. */
static int do_inserts(struct bulk *b)
{
    struct progress *p = b->p;
    const struct bulk_op *ops = b->req.ops;
    size_t from = p->at, to = from + 1, done = 0;
    int64_t inserted = 0, start_us = clock_mono_us();
    bool *again = NULL; /* by operation: had been done before */
    struct writer *w;
    int rc;

    TRY_RETURN(target(b, true, &w));
    while (to < b->req.nops && ops[to].kind == BULK_INSERT && ops[to].ns == ops[from].ns)
        to++;
    if (b->retryable && b->retry.record.n > 0) {
        again = ARENA_TRY_ARRAY(&b->rq->op.arena, bool, to - from);
        if (again == NULL)
            return op_no_memory(&b->rq->op);
        for (size_t i = from; i < to; i++)
            again[i - from] = retry_state_find(&b->retry, b->stmt_ids[i]) != NULL;
    }
    rc = write_insert(w, b->req.documents, from, to, b->stmt_ids, &done, &inserted);
    for (size_t i = from; i < from + done; i++) {
        add_success(b, i, 1, -1, BV_NONE);
        if (again != NULL && again[i - from])
            add_retried(b, i);
    }
    p->at += done;
    p->inserted += (int32_t)inserted;
    count(b, &b->rq->server->counters.op_insert, TOP_INSERT, done + (rc > 0), w->ns, start_us);
    return rc;
}

static int update_stmt(struct bulk *b, struct update_stmt *s)
{
    struct op *op = &b->rq->op;

    TRY_RETURN(bulk_update_stmt(op, &b->req, b->p->at, s));
    if (s->multi && b->retryable)
        return op_fail(op, ERR_INVALID_OPTIONS, "Cannot use retryable writes with multi=true");
    s->stmt_id = b->stmt_ids[b->p->at];
    return 0;
}

static int do_update(struct bulk *b)
{
    struct progress *p = b->p;
    struct update_outcome out;
    struct update_stmt s;
    struct writer *w;
    int64_t start_us = clock_mono_us();
    int rc;

    TRY_RETURN(update_stmt(b, &s));
    TRY_RETURN(target(b, false, &w));
    if (s.upsert && w->coll == NULL &&
        !(b->retryable && retry_state_find(&b->retry, s.stmt_id) != NULL)) {
        TRY_RETURN(write_update_check(w, &s)); /* a faulty statement makes no collection */
        TRY_RETURN(target(b, true, &w));
    }
    rc = write_update(w, &s, b->req.let.ev, &out);
    count(b, &b->rq->server->counters.op_update, TOP_UPDATE, 1, w->ns, start_us);
    if (rc != 0)
        return rc;
    if (bv_is_missing(out.upserted))
        p->matched += (int32_t)out.matched;
    else
        p->upserted++;
    p->modified += (int32_t)out.modified;
    add_success(b, p->at, out.matched, out.modified, out.upserted);
    if (out.retried)
        add_retried(b, p->at);
    p->at++;
    return 0;
}

static int do_delete(struct bulk *b)
{
    struct progress *p = b->p;
    struct delete_stmt s;
    struct writer *w;
    int64_t removed, start_us = clock_mono_us();
    bool retried;
    int rc;

    TRY_RETURN(bulk_delete_stmt(&b->rq->op, &b->req, p->at, &s));
    if (s.multi && b->retryable)
        return op_fail(&b->rq->op, ERR_INVALID_OPTIONS,
                       "Cannot use retryable writes with multi=true");
    TRY_RETURN(target(b, false, &w));
    s.stmt_id = b->stmt_ids[p->at];
    rc = write_delete(w, &s, b->req.let.ev, &removed, &retried);
    count(b, &b->rq->server->counters.op_delete, TOP_REMOVE, 1, w->ns, start_us);
    if (rc != 0)
        return rc;
    p->deleted += (int32_t)removed;
    add_success(b, p->at, removed, -1, BV_NONE);
    if (retried)
        add_retried(b, p->at);
    p->at++;
    return 0;
}

static int run_ops(struct bulk *b)
{
    struct progress *p = b->p;

    while (p->at < b->req.nops && !p->stopped) {
        int rc;

        if (p->items.failed || p->retried.failed)
            return 0; /* write_reply() knows */
        if (bw_size(&p->items) >= LIMIT_BULK_RESULTS) {
            op_fail(&b->rq->op, ERR_EXCEEDED_MEMORY_LIMIT,
                    "BulkWrite response size exceeded limit (%d bytes)", LIMIT_BULK_RESULTS);
            add_failure(b);
            return 0;
        }
        switch (b->req.ops[p->at].kind) {
        case BULK_INSERT:
            rc = do_inserts(b);
            break;
        case BULK_UPDATE:
            rc = do_update(b);
            break;
        default:
            rc = do_delete(b);
            break;
        }
        TRY_RETURN(outcome(b, rc));
    }
    return 0;
}

/* --- the command ------------------------------------------------------------------------------ */

static int write_reply(struct bulk *b)
{
    struct progress *p = b->p;
    struct bw *w = b->rq->reply;
    struct batch_opts o = {.batch_size = b->req.batch_size >= 0 ? b->req.batch_size : INT64_MAX,
                           .first = true,
                           .field = "firstBatch"};
    struct bv *rows = ARENA_TRY_ARRAY(&b->rq->op.arena, struct bv, p->nitems);
    struct qcursor *c;
    int rc;
    struct biter it = biter(bw_done(&p->items));
    struct belem e;
    size_t n = 0;

    if (rows == NULL || p->items.failed || p->retried.failed)
        return reply_lost(b->rq);
    while (biter_next(&it, &e))
        rows[n++] = e.v;
    if (qcursor_from_array(&b->rq->op, RESULT_NS, rows, n, &c) != 0)
        return reply_lost(b->rq);
    rc = cursor_first_batch(b->rq, c, &o);
    if (rc != 0)
        return rc == ERR_EXCEEDED_MEMORY_LIMIT ? reply_lost(b->rq) : rc;
    bw_i32(w, "nErrors", p->errors);
    bw_i32(w, "nInserted", p->inserted);
    bw_i32(w, "nMatched", p->matched);
    bw_i32(w, "nModified", p->modified);
    bw_i32(w, "nUpserted", p->upserted);
    bw_i32(w, "nDeleted", p->deleted);
    if (p->nretried > 0)
        bw_bv(w, "retriedStmtIds", bw_done(&p->retried));
    write_count_retried(b->rq, p->nretried);
    return 0;
}

static int begin(struct bulk *b)
{
    struct request *rq = b->rq;
    struct op *op = &rq->op;

    b->p = progress_of(op);
    TRY_RETURN(bulk_request_parse(op, &b->req));
    TRY_RETURN(write_number_statements(rq, b->req.nops, &b->stmt_ids));
    b->retryable = rq->env->txn_number >= 0 && rq->txn == NULL;
    if (b->retryable) {
        TRY_RETURN(session_write_begin(rq));
        TRY_RETURN(retry_state_open(op, rq->env->lsid, rq->env->txn_number, &b->retry));
        b->retry.before_commit = failpoints_armed() ? failpoint_before_commit : NULL;
    }
    if (op->on_schema_thread && moves_to_create(b))
        return create_target(b);
    return open_writers(b);
}

/* The command cannot go on where it was, with what it has done behind it: that is told, and that
 * the rest is not done. */
static int fail_rest(struct bulk *b)
{
    if (b->req.nops == 0) /* it could not even be read again */
        return reply_lost(b->rq);
    while (b->p->at < b->req.nops && !b->p->stopped)
        add_failure(b);
    transaction_fail(b->rq);
    return 0;
}

int cmd_bulkWrite(struct request *rq)
{
    struct bulk b = {.rq = rq};
    int rc = begin(&b);

    if (rc == 0)
        rc = run_ops(&b);
    else if (b.p->at > 0 && !write_error_ends_command(rq, rc))
        rc = fail_rest(&b);
    close_writers(&b);
    /* The session is kept while the command is on its way to another thread. */
    if (b.retryable && rc >= 0)
        session_write_end(rq);
    return rc == 0 ? write_reply(&b) : rc;
}
