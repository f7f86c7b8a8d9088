/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * hello and its old spellings, and ping: what drivers find a server and watch it by.
 *
 * With topologyVersion and maxAwaitTimeMS hello waits for a change of topology; with
 * exhaustAllowed the replies then go on by themselves. Drivers rely on the wait: an awaitable
 * hello that came back at once would be asked again at once.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "server/command.h"
#include "server/conn.h"
#include "server/server.h"

#define NO_AWAIT INT64_MIN /* maxAwaitTimeMS is absent */

struct hello_args {
    bool hello_ok;
    struct bv client, topology_version, internal_client;
    int64_t max_await_ms;
};

static const struct field fields[] = {
    {"helloOk", F_BOOL, offsetof(struct hello_args, hello_ok), FIELD_NULL_OK},
    {"client", F_ANY, offsetof(struct hello_args, client), 0},
    {"topologyVersion", F_DOC, offsetof(struct hello_args, topology_version), 0},
    {"maxAwaitTimeMS", F_INT, offsetof(struct hello_args, max_await_ms), 0},
    {"internalClient", F_DOC, offsetof(struct hello_args, internal_client), 0},
    {NULL, 0, 0, 0},
};

/* --- what the client says about itself -------------------------------------------------------- */

static int need_string(struct op *op, struct bv doc, const char *where, const char *name)
{
    struct bv v = bv_get(doc, name);

    if (bv_is_missing(v))
        return op_fail(op, ERR_CLIENT_METADATA_MISSING,
                       "Missing required field '%s.%s' in the client metadata document", where,
                       name);
    if (v.type != BV_STRING)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "The '%s.%s' field must be a string in the client metadata document", where,
                       name);
    return 0;
}

static int need_doc(struct op *op, struct bv client, const char *name, struct bv *ret)
{
    *ret = bv_get(client, name);
    if (bv_is_missing(*ret))
        return op_fail(op, ERR_CLIENT_METADATA_MISSING,
                       "Missing required sub-document '%s' in the client metadata document", name);
    if (ret->type != BV_DOC)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "The '%s' field is required to be a BSON document in the client metadata "
                       "document",
                       name);
    return 0;
}

static int check_application(struct op *op, struct bv client, struct bv *ret_name)
{
    struct bv app = bv_get(client, "application");
    uint32_t n;

    *ret_name = BV_NONE;
    if (bv_is_missing(app))
        return 0;
    if (app.type != BV_DOC)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "The 'application' field is required to be a BSON document in the client "
                       "metadata document");
    *ret_name = bv_get(app, "name");
    if (bv_is_missing(*ret_name))
        return 0;
    if (ret_name->type != BV_STRING)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "The 'application.name' field must be a string in the client metadata "
                       "document");
    bv_str(*ret_name, &n);
    if (n > LIMIT_APP_NAME)
        return op_fail(op, ERR_CLIENT_METADATA_APP_NAME,
                       "The 'application.name' field must be less than or equal to %d bytes in the "
                       "client metadata document",
                       LIMIT_APP_NAME);
    return 0;
}

/* Checked and kept with the connection: once. */
static int take_client(struct request *rq, struct bv client)
{
    struct op *op = &rq->op;
    struct conn *c = rq->conn;
    struct bv app, driver, os;

    if (bv_is_missing(client) || op->runs > 1 || rq->replies > 0)
        return 0;
    if (client.type != BV_DOC)
        return op_fail(op, ERR_TYPE_MISMATCH, "The client metadata document must be a document");
    if (c->client != NULL)
        return op_fail(op, ERR_CLIENT_METADATA_MUTATED,
                       "The client metadata document may only be sent in the first hello");
    if (client.len > LIMIT_CLIENT_METADATA)
        return op_fail(op, ERR_CLIENT_METADATA_TOO_LARGE,
                       "The client metadata document must be less then or equal to %d bytes",
                       LIMIT_CLIENT_METADATA);
    TRY_RETURN(check_application(op, client, &app));
    TRY_RETURN(need_doc(op, client, "driver", &driver));
    TRY_RETURN(need_string(op, driver, "driver", "name"));
    TRY_RETURN(need_string(op, driver, "driver", "version"));
    TRY_RETURN(need_doc(op, client, "os", &os));
    TRY_RETURN(need_string(op, os, "os", "type"));
    conn_set_client(c, client, app.type == BV_STRING ? bv_str(app, NULL) : NULL);
    return 0;
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* 0: reply now. INT_PARK. */
static int await_change(struct request *rq, const struct hello_args *a)
{
    struct op *op = &rq->op;
    struct topology *t = &rq->server->topology;
    struct bv id = bv_get(a->topology_version, "processId");
    struct bv counter = bv_get(a->topology_version, "counter");
    bool timed = a->max_await_ms != NO_AWAIT, versioned = a->topology_version.type == BV_DOC;
    int64_t seen, now_us;

    if (rq->exhaust && !timed)
        return op_fail(op, 51756, "Hello with exhaust must specify 'maxAwaitTimeMS'");
    if (timed != versioned)
        return op_fail(op, 31368,
                       versioned ? "A request with a 'topologyVersion' must include "
                                   "'maxAwaitTimeMS'"
                                 : "A request with 'maxAwaitTimeMS' must include a "
                                   "'topologyVersion'");
    if (!versioned)
        return 0;
    if (id.type != BV_OID || counter.type != BV_INT64)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "BSON field 'topologyVersion' must be {processId: objectId, counter: long}");
    if (bv_i64(counter) < 0)
        return op_fail(op, 31372, "topologyVersion must have a non-negative counter");
    if (a->max_await_ms < 0 || a->max_await_ms > LIMIT_AWAIT_MS)
        return op_fail(op, 31373, "maxAwaitTimeMS must be a non-negative integer");
    if (memcmp(id.p, t->process_id, 12) != 0)
        return 0;
    seen = rq->replies > 0 ? rq->topology_seen : bv_i64(counter);
    if (seen > topology_counter(t))
        return op_fail(op, 31382,
                       "Received a topology version with counter: %lld which is greater than the "
                       "server topology version counter: %lld",
                       (long long)seen, (long long)topology_counter(t));
    TRY_RETURN(op_check(op));
    now_us = clock_mono_us();
    if (op->park_deadline_us == 0)
        op->park_deadline_us = now_us + a->max_await_ms * 1000;
    if (now_us >= op->park_deadline_us)
        return 0;
    return topology_wait(t, op, seen);
}

/* --- the reply -------------------------------------------------------------------------------- */

static void write_optime(struct bw *w, const char *name, uint64_t ts, int64_t term)
{
    bw_doc_begin(w, name);
    bw_ts(w, "ts", ts);
    bw_i64(w, "t", term);
    bw_end(w);
}

static void write_last_write(struct request *rq, int64_t term)
{
    struct bw *w = rq->reply;
    struct database *db = rq->op.database;
    uint64_t visible = 1, durable = 1;

    if (db != NULL) {
        durable = oplog_durable(db->oplog);
        visible = oplog_visible(db->oplog);
    }
    bw_doc_begin(w, "lastWrite");
    write_optime(w, "opTime", visible, term);
    bw_date(w, "lastWriteDate", (int64_t)(visible >> 32) * 1000);
    write_optime(w, "majorityOpTime", durable, term);
    bw_date(w, "majorityWriteDate", (int64_t)(durable >> 32) * 1000);
    bw_end(w);
}

/* Drivers compare election ids, so they grow with the term: 7fffffff, term as 8 bytes. */
static void write_election_id(struct bw *w, int64_t term)
{
    uint8_t id[12] = {0x7f, 0xff, 0xff, 0xff};

    for (int i = 0; i < 8; i++)
        id[4 + i] = (uint8_t)((uint64_t)term >> (56 - 8 * i));
    bw_oid(w, "electionId", id);
}

static void write_reply(struct request *rq, bool hello_ok, const char *primary_field)
{
    struct bw *w = rq->reply;
    struct server *s = rq->server;
    const char *me = conn_me(rq->conn);
    int64_t term = rq->op.database == NULL ? 1 : oplog_term(rq->op.database->oplog);

    if (hello_ok)
        bw_bool(w, "helloOk", true);
    rq->topology_seen = topology_write(&s->topology, w);
    bw_arr_begin(w, "hosts");
    bw_str(w, NULL, me);
    bw_end(w);
    bw_str(w, "setName", s->settings.repl_set);
    bw_i32(w, "setVersion", 1);
    bw_bool(w, primary_field, true);
    bw_bool(w, "secondary", false);
    bw_str(w, "primary", me);
    bw_str(w, "me", me);
    write_election_id(w, term);
    write_last_write(rq, term);
    bw_i32(w, "maxBsonObjectSize", LIMIT_DOC_BYTES);
    bw_i32(w, "maxMessageSizeBytes", LIMIT_MESSAGE_BYTES);
    bw_i32(w, "maxWriteBatchSize", LIMIT_WRITE_BATCH);
    bw_date(w, "localTime", clock_wall_ms());
    bw_i32(w, "logicalSessionTimeoutMinutes", 30);
    bw_i32(w, "connectionId", (int32_t)rq->conn->id);
    bw_i32(w, "minWireVersion", 0);
    bw_i32(w, "maxWireVersion", MAX_WIRE_VERSION);
    bw_bool(w, "readOnly", false);
}

static int run(struct request *rq, const char *primary_field)
{
    struct op *op = &rq->op;
    struct hello_args a = {.max_await_ms = NO_AWAIT};
    int rc;

    TRY_RETURN(
        fields_parse(op, rq->cmd->name, fields, op->cmd, FIELDS_COMMAND | FIELDS_LENIENT, &a));
    if (atomic_load(&rq->server->stopping))
        return op_fail(op, ERR_SHUTDOWN_IN_PROGRESS, "The server is shutting down");
    TRY_RETURN(take_client(rq, a.client));
    rc = await_change(rq, &a);
    if (rc != 0)
        return rc;
    write_reply(rq, a.hello_ok, primary_field);
    rq->exhaust_reply = rq->exhaust && !rq->legacy;
    return 0;
}

int cmd_hello(struct request *rq)
{
    return run(rq, "isWritablePrimary");
}

int cmd_isMaster(struct request *rq)
{
    return run(rq, "ismaster");
}

int cmd_ping(struct request *rq)
{
    (void)rq;
    return 0;
}
