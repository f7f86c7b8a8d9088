/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The skeleton: the server with its dispatcher replaced by the least that each request can be. What
 * a message asks is told by the first letter of its command; nothing is parsed. The same executor
 * and connections, the same WiredTiger rows, the same optime slots and group commit:
 *
 *     insert   per SKELETON_DOC bytes of the message: record, key of _id, oplog entry
 *     update   key of _id and record read; record and oplog entry written
 *     delete   key of _id and record read and removed; oplog entry written
 *     find     an answer of the size of the real one, out of memory
 *
 * Which document is updated or deleted is not read from the message: the updated ones are spread
 * over all, the deleted ones are taken in turn.
 *
 * Linked with server/main.c and the library; this dispatch() takes the place of the library's, so
 * server/dispatch.c can have nothing else that the library needs.
 */
#include <stdlib.h>
#include <unistd.h>

#include "oplog/oplog_internal.h"
#include "server/dispatch.h"
#include "server/server.h"
#include "storage/table_write.h"
#include "wire/message.h"

enum {
    SKELETON_DOC = 200,
    INSERT_ENTRY = SKELETON_DOC + 133, /* sizes of the real entries */
    UPDATE_ENTRY = 176,
    DELETE_ENTRY = 140,
    FIND_REPLY = 403,
    KEY_BYTES = 14,
    COMMAND_AT = WIRE_MSG_HEAD_BYTES + 4 + 1, /* the first field's name */
    DOCS_MAX = 100000,
};

static pthread_once_t tables_once = PTHREAD_ONCE_INIT;
static struct engine *engine;
static _Atomic uint64_t next_rid = 1, next_update, next_delete = 1;
static uint8_t find_reply[FIND_REPLY];

static void make_tables(void)
{
    struct error err;
    int32_t size = FIND_REPLY;

    if (engine_table_create(engine, "skeleton-coll", TABLE_RECORDS, true, &err) != 0 ||
        engine_table_create(engine, "skeleton-idx", TABLE_BYTES, true, &err) != 0 ||
        engine_table_create(engine, "skeleton-log", TABLE_OPTIMES, true, &err) != 0)
        abort();
    /* {x: <binary>, ok: 1}: the client looks at ok only. */
    memcpy(find_reply, &size, 4);
    memcpy(find_reply + 4, "\x01ok\0\0\0\0\0\0\0\xf0\x3f\x05x", 15);
    size = FIND_REPLY - 1 - 4 - 12 - 3 - 5;
    memcpy(find_reply + 4 + 12 + 3, &size, 4);
}

/* --- rows ------------------------------------------------------------------------------------- */

static void make_key(uint64_t rid, uint8_t key[static KEY_BYTES])
{
    memset(key, 0, KEY_BYTES);
    key[0] = 0x64;
    for (int i = 0; i < 8; i++)
        key[5 + i] = (uint8_t)(rid >> (56 - 8 * i));
}

static int insert_doc(struct tcursor *coll, struct tcursor *idx, const uint8_t *doc)
{
    uint8_t key[KEY_BYTES], value[8];
    uint64_t rid = atomic_fetch_add(&next_rid, 1);

    make_key(rid, key);
    memcpy(value, key + 5, 8);
    TRY_RETURN(tcursor_insert(idx, (struct bytes){key, sizeof(key)}, (struct bytes){value, 8}));
    return tcursor_insert_num(coll, rid, (struct bytes){doc, SKELETON_DOC});
}

/* By the key of _id to the record, as every write by _id must. */
static int read_doc(struct tcursor *coll, struct tcursor *idx, const uint8_t *key, uint64_t rid,
                    uint8_t doc[static SKELETON_DOC], bool *ret_found)
{
    TRY_RETURN(tcursor_seek(idx, (struct bytes){key, KEY_BYTES}, SEEK_EXACT, ret_found));
    if (*ret_found)
        TRY_RETURN(tcursor_seek_num(coll, rid, SEEK_EXACT, ret_found));
    if (*ret_found)
        memcpy(doc, tcursor_value(coll).p, SKELETON_DOC);
    return 0;
}

static int update_doc(struct tcursor *coll, struct tcursor *idx)
{
    uint64_t n = atomic_fetch_add(&next_update, 1);
    uint64_t first = atomic_load(&next_delete), docs = atomic_load(&next_rid) - first;
    uint64_t rid = first + (n * 0x9E3779B97F4A7C15u >> 20) % (docs == 0 ? 1 : docs);
    uint8_t key[KEY_BYTES], doc[SKELETON_DOC];
    bool found;

    make_key(rid, key);
    TRY_RETURN(read_doc(coll, idx, key, rid, doc, &found));
    if (!found)
        return 0;
    doc[20]++;
    return tcursor_put_num(coll, rid, (struct bytes){doc, sizeof(doc)});
}

static int delete_doc(struct tcursor *coll, struct tcursor *idx)
{
    uint64_t rid = atomic_fetch_add(&next_delete, 1);
    uint8_t key[KEY_BYTES], doc[SKELETON_DOC];
    bool found;

    make_key(rid, key);
    TRY_RETURN(read_doc(coll, idx, key, rid, doc, &found));
    if (!found)
        return 0;
    TRY_RETURN(tcursor_remove_num(coll, rid, NULL));
    return tcursor_remove(idx, (struct bytes){key, sizeof(key)}, NULL);
}

/* The rows but the oplog's. */
static int change(struct request *rq, struct tcursor *coll, struct tcursor *idx, uint32_t n)
{
    switch (rq->raw[COMMAND_AT]) {
    case 'u':
        return update_doc(coll, idx);
    case 'd':
        return delete_doc(coll, idx);
    default:
        for (uint32_t i = n; i > 0; i--)
            TRY_RETURN(insert_doc(coll, idx, rq->raw + rq->raw_len - (size_t)i * SKELETON_DOC));
        return 0;
    }
}

static int log_entries(struct stx *t, size_t bytes, uint64_t first, uint32_t n)
{
    static const uint8_t entry[INSERT_ENTRY];
    struct tcursor *c;
    int rc = 0;

    TRY_RETURN(tcursor_open(t, "skeleton-log", TABLE_OPTIMES, &c));
    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = tcursor_insert_num(c, first + i, (struct bytes){entry, bytes});
    tcursor_close(c);
    return rc;
}

/* --- requests --------------------------------------------------------------------------------- */

static int write_rows(struct request *rq, struct stx *t, uint32_t n)
{
    struct tcursor *coll, *idx;
    int rc;

    TRY_RETURN(tcursor_open(t, "skeleton-coll", TABLE_RECORDS, &coll));
    TRY_RETURN(tcursor_open(t, "skeleton-idx", TABLE_BYTES, &idx));
    rc = change(rq, coll, idx, n);
    tcursor_close(idx);
    tcursor_close(coll);
    return rc;
}

static int write_request(struct request *rq, uint32_t n, size_t entry_bytes)
{
    struct op *op = &rq->op;
    struct oplog *o = op->database->oplog;
    uint64_t slot, first;
    struct stx *t;

    for (;;) {
        int rc;

        TRY_RETURN(stx_begin(op->database->engine, op, &t));
        rc = write_rows(rq, t, n);
        if (rc == 0)
            break;
        stx_rollback(t);
        if (rc != ERR_WRITE_CONFLICT)
            return rc;
    }
    while ((first = horizon_begin(&o->horizon, n, &slot)) == 0)
        usleep(1000); /* the ceiling is being raised */
    if (log_entries(t, entry_bytes, first, n) != 0 || oplog_commit_counted(o, t) != 0)
        abort();
    if (horizon_end(&o->horizon, slot, NULL))
        oplog_moved(o);
    op->ack_durable = first + n - 1;
    return 0;
}

static void write_reply(struct request *rq, uint32_t n)
{
    static const uint8_t zeros[20];

    request_begin(rq);
    bw_i32(rq->reply, "n", (int32_t)n);
    bw_f64(rq->reply, "ok", 1);
    bw_doc_begin(rq->reply, "$clusterTime");
    bw_ts(rq->reply, "clusterTime", rq->op.ack_durable);
    bw_doc_begin(rq->reply, "signature");
    bw_bin(rq->reply, "hash", 0, zeros, sizeof(zeros));
    bw_i64(rq->reply, "keyId", 0);
    bw_end(rq->reply);
    bw_end(rq->reply);
    bw_ts(rq->reply, "operationTime", rq->op.ack_durable);
    rq->out = bw_done(rq->reply);
}

/* The client says {w: 1} or nothing. */
static bool wants_no_sync(const struct request *rq, uint32_t n)
{
    return rq->raw[COMMAND_AT] == 'i' &&
           memmem(rq->raw, rq->raw_len - (size_t)n * SKELETON_DOC, "\x10w", 3) != NULL;
}

int dispatch(struct request *rq, bool on_schema_thread)
{
    uint32_t n = 1;
    size_t entry_bytes = INSERT_ENTRY;

    (void)on_schema_thread;
    if (rq->raw_len < COMMAND_AT + 8 || rq->op.database == NULL)
        return INT_CLOSE;
    memcpy(&rq->request_id, rq->raw + 4, 4);
    engine = rq->op.database->engine;
    pthread_once(&tables_once, make_tables);
    switch (rq->raw[COMMAND_AT]) {
    case 'f':
        rq->out = bv_doc(find_reply);
        return 0;
    case 'i':
        n = (uint32_t)(rq->raw_len / SKELETON_DOC);
        break;
    case 'u':
        entry_bytes = UPDATE_ENTRY;
        break;
    default:
        entry_bytes = DELETE_ENTRY;
        break;
    }
    if (n < 1 || n > DOCS_MAX || write_request(rq, n, entry_bytes) != 0)
        return INT_CLOSE;
    write_reply(rq, n);
    if (wants_no_sync(rq, n))
        rq->op.ack_durable = 0;
    return 0;
}
