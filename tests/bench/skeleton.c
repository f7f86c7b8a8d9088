/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The skeleton: the server with its dispatcher replaced by the least that a durable insert can be.
 * Every message counts as the insert of one document of SKELETON_DOC bytes at its end. Nothing is
 * parsed: the same executor and connections, the same three WiredTiger rows (record, _id key,
 * oplog entry), the same optime slot and group commit, a reply of the same size.
 *
 * Linked with server/main.c and the library; this dispatch() takes the place of the library's.
 */
#include <stdlib.h>

#include "oplog/oplog_internal.h"
#include "server/dispatch.h"
#include "server/server.h"
#include "storage/table_write.h"
#include "wire/message.h"

enum { SKELETON_DOC = 200, ENTRY_HEAD = 190, KEY_BYTES = 14 };

static pthread_once_t tables_once = PTHREAD_ONCE_INIT;
static struct engine *engine;
static _Atomic uint64_t next_rid = 1;

static void make_tables(void)
{
    struct error err;

    if (engine_table_create(engine, "skeleton-coll", TABLE_RECORDS, true, &err) != 0 ||
        engine_table_create(engine, "skeleton-idx", TABLE_BYTES, true, &err) != 0 ||
        engine_table_create(engine, "skeleton-log", TABLE_OPTIMES, true, &err) != 0)
        abort();
}

static int put_num(struct stx *t, const char *ident, enum table_kind kind, uint64_t key,
                   struct bytes value)
{
    struct tcursor *c;
    int rc;

    TRY_RETURN(tcursor_open(t, ident, kind, &c));
    rc = tcursor_insert_num(c, key, value);
    tcursor_close(c);
    return rc;
}

static int put_key(struct stx *t, uint64_t rid)
{
    uint8_t key[KEY_BYTES] = {0x64}, value[8];
    struct tcursor *c;
    int rc;

    for (int i = 0; i < 8; i++)
        value[i] = key[5 + i] = (uint8_t)(rid >> (56 - 8 * i));
    TRY_RETURN(tcursor_open(t, "skeleton-idx", TABLE_BYTES, &c));
    rc = tcursor_insert(c, (struct bytes){key, sizeof(key)}, (struct bytes){value, 8});
    tcursor_close(c);
    return rc;
}

static int insert(struct request *rq)
{
    struct op *op = &rq->op;
    struct oplog *o = op->database->oplog;
    const uint8_t *doc = rq->raw + rq->raw_len - SKELETON_DOC;
    uint8_t entry[ENTRY_HEAD + SKELETON_DOC] = {0};
    uint64_t rid = atomic_fetch_add(&next_rid, 1), slot, optime;
    struct stx *t;

    TRY_RETURN(stx_begin(op->database->engine, op, &t));
    TRY_RETURN(put_num(t, "skeleton-coll", TABLE_RECORDS, rid, (struct bytes){doc, SKELETON_DOC}));
    TRY_RETURN(put_key(t, rid));
    memcpy(entry + ENTRY_HEAD, doc, SKELETON_DOC);
    optime = horizon_begin(&o->horizon, 1, &slot);
    TRY_RETURN(
        put_num(t, "skeleton-log", TABLE_OPTIMES, optime, (struct bytes){entry, sizeof(entry)}));
    TRY_RETURN(oplog_commit_counted(o, t));
    if (horizon_end(&o->horizon, slot, NULL))
        oplog_moved(o);
    op->ack_durable = optime;
    return 0;
}

int dispatch(struct request *rq, bool on_schema_thread)
{
    static const uint8_t zeros[20];

    (void)on_schema_thread;
    if (rq->raw_len < WIRE_MSG_HEAD_BYTES + SKELETON_DOC || rq->op.database == NULL)
        return INT_CLOSE;
    memcpy(&rq->request_id, rq->raw + 4, 4);
    engine = rq->op.database->engine;
    pthread_once(&tables_once, make_tables);
    if (insert(rq) != 0)
        return INT_CLOSE;
    bw_init(&rq->reply, &rq->op.arena);
    bw_i32(&rq->reply, "n", 1);
    bw_f64(&rq->reply, "ok", 1);
    bw_doc_begin(&rq->reply, "$clusterTime");
    bw_ts(&rq->reply, "clusterTime", rq->op.ack_durable);
    bw_doc_begin(&rq->reply, "signature");
    bw_bin(&rq->reply, "hash", 0, zeros, sizeof(zeros));
    bw_i64(&rq->reply, "keyId", 0);
    bw_end(&rq->reply);
    bw_end(&rq->reply);
    bw_ts(&rq->reply, "operationTime", rq->op.ack_durable);
    rq->out = bw_done(&rq->reply);
    return 0;
}
