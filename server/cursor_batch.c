/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Filling batches: the first one of a new cursor, and getMore with its wait.
 *
 * Within a batch rows stream from the cursor into the reply; between batches the cursor holds
 * neither snapshot nor storage session. A getMore that waits rests its cursor, parks, and is run
 * again from its start; the cursor stays pinned meanwhile and has delivered nothing.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/mem.h"
#include "server/cursors_internal.h"
#include "server/failpoints.h"
#include "server/server.h"
#include "server/snapshots.h"
#include "server/stable_api.h"
#include "server/transactions.h"

enum { AWAIT_DEFAULT_MS = 1000 };
enum { REPLY_END_BYTES = 1024 }; /* id, ns' name, ok, the times, and a write concern error */

struct batch {
    struct cursor_entry *e;
    const struct batch_opts *o;
    struct bw *w;
    int64_t n;
    uint64_t bytes;
    bool ended; /* nothing will ever come again */
};

static bool batch_full(const struct batch *b)
{
    int64_t most = b->o->batch_size;

    if (b->e->limit > 0 && b->e->delivered >= b->e->limit)
        return true;
    if (b->o->first)
        return b->n >= (most < 0 ? LIMIT_FIRST_BATCH : most);
    return most > 0 && b->n >= most;
}

/* Puts a row into the batch, or keeps it for the next one when it does not fit. */
static int put_row(struct batch *b, struct op *op, struct bv row, bool *ret_fits)
{
    struct qcursor *c = b->e->c;

    *ret_fits = b->n == 0 || b->bytes + row.len <= LIMIT_BATCH_BYTES;
    if (!*ret_fits) {
        b->e->stash = mem_try(row.len);
        if (b->e->stash == NULL)
            return op_no_memory(op);
        memcpy(b->e->stash, row.p, row.len);
        return 0;
    }
    bw_bv(b->w, NULL, row);
    if (b->w->failed)
        return op_no_memory(op);
    b->n++;
    b->bytes += row.len;
    b->e->delivered++;
    return c->ops->delivered == NULL ? 0 : c->ops->delivered(c, op, row);
}

static int fill(struct batch *b, struct exec *x)
{
    struct qcursor *c = b->e->c;
    bool fits;

    if (b->e->stash != NULL) {
        TRY_RETURN(put_row(b, x->op, bv_doc(b->e->stash), &fits)); /* a first row always fits */
        free(b->e->stash);
        b->e->stash = NULL;
    }
    while (!batch_full(b) && !b->ended) {
        struct bv row;
        bool more;

        TRY_RETURN(c->ops->next(c, x, &row, &more));
        if (bv_is_missing(row)) {
            b->ended = !more;
            return 0;
        }
        if (row.len > LIMIT_INTERNAL_BYTES)
            return op_fail(x->op, ERR_BSON_TOO_LARGE,
                           "BSONObj size: %u (0x%X) is invalid. Size must be between 0 and %d",
                           row.len, row.len, LIMIT_INTERNAL_BYTES);
        TRY_RETURN(put_row(b, x->op, row, &fits));
        if (!fits)
            return 0;
        arena_reset(&x->scratch);
        if (c->invalidated)
            b->ended = true;
    }
    if (b->e->limit > 0 && b->e->delivered >= b->e->limit)
        b->ended = true;
    return 0;
}

/* Between batches a cursor holds nothing. */
static void rest(struct qcursor *c, struct exec *x)
{
    c->ops->save(c, x);
    exec_end(x);
}

static void begin_reply(struct request *rq, const struct batch_opts *o)
{
    bw_doc_begin(rq->reply, "cursor");
    bw_arr_begin(rq->reply, o->field);
}

/* Closes the batch, and makes room for what every reply ends with: whatever fails, fails while
 * there is no cursor that the client does not know of. */
static int end_batch(struct request *rq, struct cursor_entry *e)
{
    struct bw *w = rq->reply;
    struct qcursor *c = e->c;

    bw_end(w);
    if (c->ops->resume_token != NULL)
        bw_bv(w, "postBatchResumeToken", c->ops->resume_token(c, &rq->op.arena));
    if (c->invalidated)
        bw_bool(w, "invalidated", true);
    if (e->at_cluster_time != 0)
        bw_ts(w, "atClusterTime", e->at_cluster_time);
    return bw_room(w, strlen(c->ns) + REPLY_END_BYTES) ? 0 : op_no_memory(&rq->op);
}

static void end_reply(struct request *rq, const char *ns, int64_t id)
{
    struct bw *w = rq->reply;

    bw_i64(w, "id", id);
    bw_str(w, "ns", ns);
    bw_end(w);
}

static bool is_interruption(int code)
{
    return code == ERR_MAX_TIME_MS_EXPIRED || code == ERR_CURSOR_KILLED ||
           code == ERR_INTERRUPTED || code == ERR_INTERRUPTED_AT_SHUTDOWN ||
           code == ERR_CLIENT_DISCONNECT;
}

static void prefix_error(struct request *rq, int rc)
{
    const char *prefix = "PlanExecutor error during aggregation :: caused by :: ";

    if (rc <= 0 || is_interruption(rc))
        return;
    if (strcmp(rq->cmd->name, "getMore") == 0)
        prefix = "Executor error during getMore :: caused by :: ";
    else if (strcmp(rq->cmd->name, "find") == 0)
        prefix = "Executor error during find command :: caused by :: ";
    error_prefix(rq->op.err, prefix);
}

static void entry_init(struct cursor_entry *e, struct request *rq, struct qcursor *c,
                       const struct batch_opts *o)
{
    memset(e, 0, sizeof(*e));
    e->c = c;
    e->has_lsid = !bv_is_missing(rq->env->lsid);
    if (e->has_lsid)
        e->lsid = lsid_key(rq->env->lsid);
    e->txn_number = rq->env->has_autocommit ? rq->env->txn_number : -1;
    e->read_level = rq->env->read_level;
    e->at_cluster_time = rq->env->has_autocommit ? 0 : rq->env->at_cluster_time;
    e->api = rq->env->api;
    e->no_timeout = o->no_timeout;
    e->limit = o->limit;
    e->created_ms = clock_wall_ms();
}

/* What is left of maxTimeMS bounds the later batches of a cursor that does not wait. */
static void set_budget(struct cursor_entry *e, struct op *op)
{
    int64_t now = clock_mono_us();

    if (op->deadline_us == 0 || e->c->await_data)
        return;
    e->budget_us = op->deadline_us > now ? op->deadline_us - now : 1;
}

int cursor_first_batch(struct request *rq, struct qcursor *c, const struct batch_opts *o)
{
    struct cursor_entry e; /* registered, and so on the heap, only if rows are left */
    struct batch b = {.e = &e, .o = o, .w = rq->reply};
    struct exec x;
    const char *ns;
    int rc;

    entry_init(&e, rq, c, o);
    rq->change_stream = c->change_stream;
    begin_reply(rq, o);
    exec_init(&x, &rq->op);
    rc = fill(&b, &x);
    rest(c, &x);
    exec_fini(&x);
    if (rc != 0) {
        prefix_error(rq, rc);
        goto out;
    }
    rc = end_batch(rq, &e);
    if (rc != 0)
        goto out;
    if (b.ended || o->single) {
        end_reply(rq, c->ns, 0);
        goto out;
    }
    set_budget(&e, &rq->op);
    ns = arena_strdup(&rq->op.arena, c->ns); /* once registered, anybody may kill the cursor */
    rc = cursor_entry_insert(rq->server->cursors, &rq->op, &e);
    if (rc != 0)
        goto out;
    if (rq->txn != NULL)
        transaction_owns_cursor(rq);
    rq->opened_cursor = e.id;
    FAULT(CURSOR_REGISTERED);
    end_reply(rq, ns, e.id);
    return 0;
out:
    cursor_entry_clear(&e);
    return rc;
}

int cursor_one_batch(struct request *rq, const char *ns, int rc, struct bv row)
{
    static const struct batch_opts o = {.field = "firstBatch"};

    if (rc != 0) {
        prefix_error(rq, rc);
        return rc;
    }
    begin_reply(rq, &o);
    if (!bv_is_missing(row))
        bw_bv(rq->reply, NULL, row);
    bw_end(rq->reply);
    end_reply(rq, ns, 0);
    return rq->reply->failed ? op_no_memory(&rq->op) : 0;
}

/* Fills until there is a row, the end, or nothing more to wait for. INT_PARK: the waiter is
 * registered and the cursor rests. */
static int fill_waiting(struct request *rq, struct batch *b, struct exec *x)
{
    struct op *op = &rq->op;
    struct qcursor *c = b->e->c;

    for (;;) {
        int rc = fill(b, x);

        if (rc == INT_PARK && b->n > 0) {
            op->unpark(op);
            rc = 0;
        } else if (rc == INT_PARK) {
            rest(c, x);
        }
        if (rc != 0 || b->n > 0 || b->ended || !c->await_data || c->ops->wait == NULL ||
            clock_mono_us() >= op->park_deadline_us)
            return rc;
        rest(c, x);
        TRY_RETURN(op_check(op));
        TRY_RETURN(c->ops->wait(c, x));
    }
}

/* What an armed fail point does to a cursor that was just pinned; a failure ends the cursor. */
static int fail_point(struct request *rq)
{
    int64_t budget_us = rq->cursor->budget_us;
    int rc = failpoint_get_more(rq);

    if (rc == 0 && budget_us > 0) {
        rq->op.deadline_us = failpoint_deadline(rq->op.start_us, budget_us);
        rc = op_check(&rq->op);
    }
    if (rc != 0)
        cursor_doom(rq);
    return rc;
}

static int check_api(struct request *rq)
{
    const struct api_params *api = &rq->cursor->api;

    if (stable_api_same(&rq->env->api, api))
        return 0;
    return op_fail(&rq->op, ERR_API_MISMATCH,
                   "API parameter mismatch: getMore used params %s, the cursor-creating command "
                   "used %s",
                   stable_api_show(&rq->op.arena, &rq->env->api),
                   stable_api_show(&rq->op.arena, api));
}

static int begin_get_more(struct request *rq, int64_t id, const char *ns, int64_t max_time_ms)
{
    struct op *op = &rq->op;
    struct cursor_entry *e;

    if (rq->cursor == NULL) {
        TRY_RETURN(cursor_pin(rq, id, ns));
        TRY_RETURN(check_api(rq));
        rq->change_stream = rq->cursor->c->change_stream;
        if (failpoints_armed())
            TRY_RETURN(fail_point(rq));
    }
    e = rq->cursor;
    rq->change_stream = e->c->change_stream;
    rq->env->read_level = e->read_level;
    rq->env->at_cluster_time = e->at_cluster_time;
    if (e->at_cluster_time != 0) {
        int rc = snapshot_enter(rq);

        if (rc > 0)
            cursor_doom(rq);
        TRY_RETURN(rc);
    }
    if (!e->c->await_data && max_time_ms >= 0)
        return op_fail(op, ERR_BAD_VALUE,
                       "cannot set maxTimeMS on getMore command for a non-awaitData cursor");
    if (e->budget_us > 0 && op->deadline_us == 0)
        op->deadline_us = op->start_us + e->budget_us;
    if (op->park_deadline_us == 0)
        op->park_deadline_us =
            op->start_us + (max_time_ms >= 0 ? max_time_ms : AWAIT_DEFAULT_MS) * 1000;
    return 0;
}

/* True for errors that say nothing about the cursor: it may be used again. */
static bool cursor_survives(struct cursor_entry *e, int rc)
{
    return rc == INT_PARK || (rc == ERR_MAX_TIME_MS_EXPIRED && e->c->await_data);
}

int cursor_get_more(struct request *rq, int64_t id, const char *ns, const struct batch_opts *o,
                    int64_t max_time_ms)
{
    struct op *op = &rq->op;
    struct batch b = {.o = o, .w = rq->reply};
    struct cursor_entry *e;
    struct exec x;
    int rc;

    TRY_RETURN(begin_get_more(rq, id, ns, max_time_ms));
    e = b.e = rq->cursor;
    begin_reply(rq, o);
    exec_init(&x, op);
    rc = fill_waiting(rq, &b, &x);
    if (rc != INT_PARK)
        rest(e->c, &x);
    exec_fini(&x);
    if (rc != 0) {
        prefix_error(rq, rc);
        if (!cursor_survives(e, rc))
            cursor_doom(rq);
        return rc;
    }
    rc = end_batch(rq, e);
    if (rc != 0) {
        cursor_doom(rq);
        return rc;
    }
    if (b.ended) {
        end_reply(rq, e->c->ns, 0);
        cursor_doom(rq);
        return 0;
    }
    end_reply(rq, e->c->ns, e->id);
    if (e->budget_us > 0)
        set_budget(e, op);
    rq->exhaust_reply = rq->exhaust;
    return 0;
}
