/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The life of a message: framed, run by dispatch(), perhaps parked and run again, its finished
 * reply perhaps parked for the horizon it promised, sent. A connection serves one request at a
 * time. While output is unsent no further message is looked at, which bounds what a slow reader
 * can make the server hold.
 */
#include "server/serve.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/concerns.h"
#include "server/cursors.h"
#include "server/dispatch.h"
#include "server/server.h"
#include "wire/legacy.h"

enum { TURN_MESSAGES = 32 }; /* of one connection before others get their turn */

/* A client that writes without asking for a reply may hang up at once, and wants it done all the
 * same; so whether a write happens does not depend on when its client went. */
static bool goes_on_alone(const struct command *cmd)
{
    return cmd != NULL && (cmd->flags & CMD_WRITE) != 0;
}

static void attach(struct conn *c, struct request *rq, const struct command *cmd)
{
    mutex_lock(&c->mx);
    c->rq = rq;
    c->shown = rq->raw;
    c->shown_len = rq->raw_len;
    c->rq_since_us = rq->op.start_us;
    c->sheltered = goes_on_alone(cmd);
    atomic_store_explicit(&c->look, true, memory_order_relaxed);
    mutex_unlock(&c->mx);
}

/* The request is over: nobody can find it by its connection any more. */
static void detach(struct conn *c)
{
    struct request *rq = c->rq;

    mutex_lock(&c->mx);
    c->rq = NULL;
    c->shown = NULL;
    c->streaming = false;
    mutex_unlock(&c->mx);
    request_end(rq);
    request_free(rq);
}

static void close_conn(struct worker *w, struct conn *c)
{
    if (c->rq != NULL)
        detach(c);
    executor_close(w->ex, c);
}

/* Waits for input, or closes the connection when the server stops. False: there is more already. */
static bool arm(struct worker *w, struct conn *c)
{
    switch (executor_arm(w->ex, c)) {
    case ARM_AGAIN:
        return false;
    case ARM_STOPPING:
        close_conn(w, c);
        break;
    case ARMED:
        break;
    }
    return true;
}

static int32_t next_request_id(void)
{
    static _Atomic uint32_t counter;

    return (int32_t)(atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed) & INT32_MAX);
}

static enum conn_output send_checksummed(struct conn *c, const uint8_t *head, struct bv doc)
{
    size_t n = WIRE_MSG_HEAD_BYTES + doc.len;
    uint8_t *msg = mem_try(n + 4);
    struct iovec iov = {msg, n + 4};
    enum conn_output out;
    uint32_t sum;

    if (msg == NULL)
        return OUTPUT_BROKEN;
    memcpy(msg, head, WIRE_MSG_HEAD_BYTES);
    memcpy(msg + WIRE_MSG_HEAD_BYTES, doc.p, doc.len);
    sum = crc32c(msg, n);
    memcpy(msg + n, &sum, 4);
    out = conn_send(c, &iov, 1);
    free(msg);
    return out;
}

static enum conn_output send_reply(struct conn *c, struct request *rq)
{
    uint8_t head[WIRE_REPLY_HEAD_BYTES];
    int32_t id = next_request_id(), to = rq->request_id;
    size_t head_len = WIRE_MSG_HEAD_BYTES;
    uint32_t flags = 0;

    rq->request_id = id;
    rq->replies++;
    if (rq->legacy) {
        head_len = WIRE_REPLY_HEAD_BYTES;
        wire_reply_head(head, rq->out.len, id, to,
                        rq->legacy_failure ? REPLY_QUERY_FAILURE : REPLY_AWAIT_CAPABLE);
    } else {
        if (rq->exhaust_reply)
            flags |= MSG_MORE_TO_COME;
        if (rq->checksum && !c->transport.secure)
            flags |= MSG_CHECKSUM;
        wire_msg_head(head, rq->out.len, id, to, flags);
        if ((flags & MSG_CHECKSUM) != 0)
            return send_checksummed(c, head, rq->out);
    }
    struct iovec iov[2] = {{head, head_len}, {(void *)(uintptr_t)rq->out.p, rq->out.len}};

    return conn_send(c, iov, 2);
}

/* The client, or killOp, wants the reply without what it waits for. What a server that stops has
 * promised it keeps. */
static bool wait_is_over(struct request *rq, int *ret_why)
{
    struct op *op = &rq->op;

    *ret_why = ERR_OK;
    if ((op->ack_durable | op->ack_flush) == 0) {
        rq->ack_deadline_us = 0; /* what is left is to become visible, which is soon */
        return false;
    }
    if (atomic_load(&op->interrupt) == ERR_INTERRUPTED)
        *ret_why = ERR_INTERRUPTED;
    else if (op->deadline_us != 0 && rq->ack_deadline_us != 0 && clock_mono_us() >= op->deadline_us)
        *ret_why = ERR_MAX_TIME_MS_EXPIRED;
    else if (rq->ack_deadline_us != 0 && clock_mono_us() >= rq->ack_deadline_us)
        *ret_why = ERR_WRITE_CONCERN_TIMEOUT;
    return *ret_why != ERR_OK;
}

/* The finished reply waits for what it acknowledges. 0 or INT_PARK. */
static int wait_ack(struct request *rq)
{
    struct op *op = &rq->op;
    int rc, why;

    if (op->database == NULL || (op->ack_visible | op->ack_durable | op->ack_flush) == 0)
        return 0;
    rc = oplog_wait_ack(op->database->oplog, op);
    if (rc == 0 || !wait_is_over(rq, &why))
        return rc;
    op->unpark(op);
    concern_gives_up(rq, why);
    return oplog_wait_ack(op->database->oplog, op); /* still for what it wrote to be visible */
}

static int64_t earlier(int64_t a, int64_t b)
{
    if (a == 0 || b == 0)
        return a + b;
    return a < b ? a : b;
}

/* What others may see of the request's message. */
static void show_message(struct conn *c, const uint8_t *msg, size_t len)
{
    mutex_lock(&c->mx);
    c->shown = msg;
    c->shown_len = len;
    mutex_unlock(&c->mx);
}

/* Gives the request its message as memory of its own, since it will outlive this run. False: memory
 * is out. */
static bool keep_message(struct conn *c, struct request *rq)
{
    uint8_t *keep;

    if (rq->raw_owned)
        return true;
    show_message(c, NULL, 0);
    if (!conn_consume(c, rq->raw, rq->raw_len, &keep))
        return false;
    show_message(c, keep, rq->raw_len);
    rq->raw = keep;
    rq->raw_owned = true;
    atomic_fetch_add_explicit(&rq->server->counters.in_flight_bytes, (int64_t)rq->raw_len,
                              memory_order_relaxed);
    return true;
}

/* The request is over, and its message, which nobody sees any more, too. */
static void end_with_message(struct conn *c)
{
    const struct request *rq = c->rq;
    const uint8_t *msg = rq->raw_owned ? NULL : rq->raw;
    size_t len = rq->raw_len;

    detach(c);
    if (msg != NULL)
        (void)conn_consume(c, msg, len, NULL);
}

/* Whether a hang-up interrupts the request of c. */
static void set_sheltered(struct conn *c, bool sheltered)
{
    mutex_lock(&c->mx);
    c->sheltered = sheltered;
    mutex_unlock(&c->mx);
}

/* True: parked, out of our hands. False: it was woken before; run again with *ret_reason. */
static bool park(struct worker *w, struct conn *c, struct request *rq, enum wake_reason *ret_reason)
{
    struct op *op = &rq->op;

    if (rq->phase == REQUEST_RUN) {
        int64_t when = earlier(op->park_deadline_us, op->deadline_us);

        request_rest(rq);
        if (when != 0)
            executor_timer_set(w->ex, rq, when);
        /* From the request on: a client that allowed an exhaust series says nothing until its end.
         */
        if (rq->exhaust) {
            mutex_lock(&c->mx);
            c->streaming = true;
            mutex_unlock(&c->mx);
        }
        if (op->ends_with_client && !rq->more_to_come_in)
            set_sheltered(c, false);
        if (!c->sheltered)
            executor_watch(w->ex, c);
    } else if (rq->ack_deadline_us != 0) {
        executor_timer_set(w->ex, rq, rq->ack_deadline_us);
    }
    atomic_fetch_add_explicit(&rq->server->counters.parked, 1, memory_order_relaxed);
    if (parking_park(&rq->parking, ret_reason))
        return true;
    atomic_fetch_sub_explicit(&rq->server->counters.parked, 1, memory_order_relaxed);
    return false;
}

/* A client that allowed an exhaust series has sent more before its end. */
static bool spoke_out_of_turn(struct conn *c, struct request *rq)
{
    return rq->exhaust && rq->phase == REQUEST_RUN && c->in != NULL;
}

/* Takes a woken request off all lists. The caller then owns it alone again. */
static void unpark(struct worker *w, struct request *rq)
{
    bool sheltered = goes_on_alone(rq->cmd);

    executor_timer_cancel(w->ex, rq);
    op_wake(&rq->op);
    if (rq->op.unpark != NULL)
        rq->op.unpark(&rq->op);
    if (sheltered && !rq->conn->sheltered)
        set_sheltered(rq->conn, true);
}

static bool gone(struct conn *c)
{
    bool is;

    mutex_lock(&c->mx);
    is = c->hung_up;
    mutex_unlock(&c->mx);
    return is;
}

static void to_schema(struct worker *w, struct conn *c, struct request *rq)
{
    ASSERT(!w->schema && rq->op.unpark == NULL);
    request_rest(rq);
    rq->to_schema = true;
    rq->handed_on = true;
    executor_queue_schema(w->ex, c);
}

/* A cursor whose first reply nobody gets would stay until it times out. */
static void forget_cursor(struct request *rq)
{
    if (rq->opened_cursor != 0)
        (void)cursors_kill(rq->server->cursors, rq, rq->opened_cursor, NULL);
}

/* The reply is out. True: the connection may go on with its next message. */
static bool after_reply(struct worker *w, struct conn *c, struct request *rq,
                        enum conn_output output, bool *ret_again)
{
    *ret_again = false;
    if (output == OUTPUT_BROKEN)
        forget_cursor(rq);
    if (output == OUTPUT_BROKEN || (rq->close_after && output == OUTPUT_SENT)) {
        close_conn(w, c);
        return false;
    }
    if (rq->exhaust_reply && !rq->close_after) {
        if (!keep_message(c, rq)) {
            close_conn(w, c);
            return false;
        }
        request_again(rq);
        if (output == OUTPUT_SENT) {
            *ret_again = true;
            return true;
        }
        executor_arm_for_output(w->ex, c); /* serve_conn() goes on with the request */
        return false;
    }
    c->close_when_sent = rq->close_after;
    end_with_message(c);
    executor_progress(w->ex);
    if (output == OUTPUT_SENT)
        return true;
    executor_arm_for_output(w->ex, c);
    return false;
}

/* Runs c->rq as far as it goes. True: it has ended and the caller still owns the connection. */
static bool advance(struct worker *w, struct conn *c)
{
    struct request *rq = c->rq;
    bool again;

    for (;;) {
        int rc = rq->phase == REQUEST_ACK ? 0 : dispatch(rq, w->schema);
        enum wake_reason reason;

        if (rc == 0) {
            rq->phase = REQUEST_ACK;
            rc = wait_ack(rq);
            if (rc == 0)
                FAULT(REPLY_BEFORE);
        }
        if (rq->phase == REQUEST_RUN && (rc == INT_TO_SCHEMA || rc == INT_PARK) &&
            !keep_message(c, rq)) {
            unpark(w, rq);
            rc = reply_lost(rq);
            if (rc > 0) {
                reply_error(rq);
                rc = 0;
            }
        }
        switch (rc) {
        case 0:
            if (rq->more_to_come_in) {
                forget_cursor(rq);
                goto ended;
            }
            /* Whoever gets the reply may use the cursor and the session at once. */
            if (!rq->exhaust_reply)
                request_end(rq);
            if (!after_reply(w, c, rq, send_reply(c, rq), &again))
                return false;
            if (!again)
                return true;
            break;
        case INT_NOREPLY:
        ended:
            end_with_message(c);
            executor_progress(w->ex);
            return true;
        case INT_TO_SCHEMA:
            to_schema(w, c, rq);
            return false;
        case INT_PARK:
            executor_progress(w->ex);
            if (spoke_out_of_turn(c, rq)) {
                unpark(w, rq);
                close_conn(w, c);
                return false;
            }
            /* A finished request has no more use for its message: what it lies in is used again. */
            if (rq->phase == REQUEST_ACK && !rq->raw_owned)
                show_message(c, NULL, 0);
            if (park(w, c, rq, &reason))
                return false;
            unpark(w, rq);
            if (gone(c)) {
                close_conn(w, c);
                return false;
            }
            if (rq->phase != REQUEST_RUN)
                break;
            request_rerun(rq, reason);
            if (w->schema && !rq->to_schema) {
                rq->handed_on = true;
                executor_queue(w->ex, c);
                return false;
            }
            break;
        default:
            close_conn(w, c);
            return false;
        }
    }
}

void serve_queued(struct worker *w, struct conn *c)
{
    struct request *rq = c->rq;

    if (rq == NULL) {
        serve_conn(w, c);
        return;
    }
    if (rq->handed_on) {
        rq->handed_on = false;
        if (rq->to_schema)
            request_rerun(rq, WAKE_NONE);
    } else {
        enum wake_reason reason;

        atomic_fetch_sub_explicit(&rq->server->counters.parked, 1, memory_order_relaxed);
        unpark(w, rq);
        reason = parking_resume(&rq->parking);
        if (gone(c)) {
            close_conn(w, c);
            return;
        }
        if (rq->phase == REQUEST_RUN)
            request_rerun(rq, reason);
    }
    if (!advance(w, c))
        return;
    if (w->schema)
        executor_queue(w->ex, c); /* messages are read by workers only */
    else
        serve_conn(w, c);
}

/* True: all output is out, the caller goes on. */
static bool flush(struct worker *w, struct conn *c)
{
    switch (c->out == NULL ? OUTPUT_SENT : conn_flush(c)) {
    case OUTPUT_SENT:
        if (!c->close_when_sent)
            return true;
        close_conn(w, c);
        return false;
    case OUTPUT_PENDING:
        executor_arm_for_output(w->ex, c);
        return false;
    default:
        close_conn(w, c);
        return false;
    }
}

/* The reserved worker leaves everything but quick commands to the others. */
static bool hand_on(struct worker *w, struct conn *c, struct request *rq, const struct command *cmd)
{
    if (!w->reserved || (cmd != NULL && (cmd->flags & CMD_QUICK) != 0))
        return false;
    keep_message(c, rq);
    rq->handed_on = true;
    executor_queue(w->ex, c);
    return true;
}

void serve_conn(struct worker *w, struct conn *c)
{
    struct error err = {0};

    if (!flush(w, c))
        return;
    if (c->rq != NULL && !advance(w, c))
        return;
    for (int turn = 0; !c->dry || !arm(w, c); turn++) {
        const uint8_t *msg;
        size_t len;
        struct request *rq;
        const char *name;
        const struct command *cmd;

        if (atomic_load(&c->server->stopping)) {
            close_conn(w, c);
            return;
        }
        if (turn >= TURN_MESSAGES && executor_is_wanted(w->ex)) {
            executor_queue(w->ex, c);
            return;
        }
        switch (conn_next_message(c, w->scratch, &err, &msg, &len)) {
        case INPUT_NONE:
            if (c->transport.wants_write)
                executor_arm_for_output(w->ex, c);
            else if (!arm(w, c))
                continue;
            return;
        case INPUT_CLOSED:
            if (err.code != 0)
                log_event(LOG_INFO, "network", "connection closed", {"reason", LOG_STR(err.text)},
                          {"conn", LOG_NUM(c->id)}, );
            close_conn(w, c);
            return;
        case INPUT_MESSAGE:
            break;
        }
        rq = request_new(c->server, c);
        rq->raw = msg;
        rq->raw_len = len;
        name = wire_peek_command(msg, len);
        cmd = name == NULL ? NULL : command_find(name);
        attach(c, rq, cmd);
        if (hand_on(w, c, rq, cmd) || !advance(w, c))
            return;
    }
}
