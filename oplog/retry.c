/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Retry records: of each session the statements of its newest retryable write only. Rows are read
 * with the checks that rows of a table that users' data went into deserve: a damaged record counts
 * as missing.
 */
#include "oplog/retry.h"

#include "base/fault.h"
#include "base/limits.h"
#include "oplog/oplog_internal.h"
#include "storage/table_write.h"

enum { KEY_BYTES = 48, ID_BYTES = 16, UID_BYTES = 32, CHUNK_KEY_BYTES = KEY_BYTES + 4 };

/* 16 bytes of id, 32 of uid. False: not such a document. */
static bool key_of(struct bv lsid, uint8_t key[static KEY_BYTES])
{
    struct bv id = bv_get(lsid, "id"), uid = bv_get(lsid, "uid");
    uint32_t id_len, uid_len;
    const uint8_t *id_p, *uid_p;

    if (id.type != BV_BINARY || uid.type != BV_BINARY)
        return false;
    id_p = bv_bin(id, &id_len, NULL);
    uid_p = bv_bin(uid, &uid_len, NULL);
    if (id_len != ID_BYTES || uid_len != UID_BYTES)
        return false;
    memcpy(key, id_p, ID_BYTES);
    memcpy(key + ID_BYTES, uid_p, UID_BYTES);
    return true;
}

/* --- rows ---------------------------------------------------------------------------------- */

/* The key of a chunk row. */
static void chunk_key(const uint8_t lsid[static KEY_BYTES], uint32_t chunk,
                      uint8_t key[static CHUNK_KEY_BYTES])
{
    memcpy(key, lsid, KEY_BYTES);
    for (int i = 0; i < 4; i++)
        key[KEY_BYTES + i] = (uint8_t)(chunk >> (24 - 8 * i));
}

static void write_stmts(struct bw *w, const struct retry_stmt *stmts, size_t n)
{
    bw_arr_begin(w, "stmts");
    for (size_t i = 0; i < n; i++) {
        const char kind[2] = {stmts[i].kind, '\0'};

        bw_doc_begin(w, NULL);
        bw_i32(w, "s", stmts[i].stmt_id);
        if (stmts[i].count > 1)
            bw_i32(w, "n", stmts[i].count);
        bw_str(w, "k", kind);
        bw_ts(w, "ts", stmts[i].optime);
        bw_bv(w, "r", stmts[i].result);
        bw_end(w);
    }
    bw_end(w);
}

static void write_head(struct bw *w, const struct retry_record *r)
{
    size_t chunked = (size_t)r->chunks * RETRY_CHUNK;

    bw_i64(w, "txnNum", r->txn_number);
    bw_ts(w, "optime", r->optime);
    bw_i64(w, "term", r->term);
    bw_date(w, "date", r->date_ms);
    if (r->committed)
        bw_bool(w, "committed", true);
    if (r->chunks > 0)
        bw_i32(w, "chunks", (int32_t)r->chunks);
    write_stmts(w, r->stmts + chunked, r->n - chunked);
}

static void write_chunk(struct bw *w, const struct retry_record *r)
{
    bw_i64(w, "txnNum", r->txn_number);
    write_stmts(w, r->stmts + (size_t)r->chunks * RETRY_CHUNK, RETRY_CHUNK);
}

static bool decode_stmt(struct bv doc, struct retry_stmt *ret)
{
    struct bv s = bv_get(doc, "s"), k = bv_get(doc, "k"), ts = bv_get(doc, "ts");
    struct bv n = bv_get(doc, "n");

    if (s.type != BV_INT32 || k.type != BV_STRING || ts.type != BV_TIMESTAMP)
        return false;
    *ret = (struct retry_stmt){.stmt_id = bv_i32(s),
                               .count = n.type == BV_INT32 ? bv_i32(n) : 1,
                               .kind = bv_str(k, NULL)[0],
                               .optime = bv_ts(ts),
                               .result = bv_get(doc, "r")};
    return true;
}

/* The head of a record: all but the statements. */
static bool decode_head(struct bytes value, struct bv *ret_doc, struct retry_record *ret)
{
    struct bv doc, txn, optime, term, date, chunks;

    if (value.len < 5 || (doc = bv_doc(value.p)).len != value.len)
        return false;
    txn = bv_get(doc, "txnNum");
    optime = bv_get(doc, "optime");
    term = bv_get(doc, "term");
    date = bv_get(doc, "date");
    chunks = bv_get(doc, "chunks");
    if (txn.type != BV_INT64 || optime.type != BV_TIMESTAMP || date.type != BV_DATE)
        return false;
    *ret = (struct retry_record){.found = true,
                                 .txn_number = bv_i64(txn),
                                 .optime = bv_ts(optime),
                                 .term = term.type == BV_INT64 ? bv_i64(term) : 0,
                                 .date_ms = bv_i64(date),
                                 .chunks = chunks.type == BV_INT32 ? (uint32_t)bv_i32(chunks) : 0,
                                 .committed = bv_truthy(bv_get(doc, "committed"))};
    *ret_doc = doc;
    return ret->chunks <= LIMIT_RETRY_STMTS / RETRY_CHUNK;
}

/* Adds the statements of one row, which have room; their results are copied. *ret_ok false: the row
 * is damaged. */
static int decode_stmts(struct op *op, struct arena *a, struct bv stmts, struct retry_record *r,
                        bool *ret_ok)
{
    struct biter it = biter(stmts);
    struct belem e;

    while (biter_next(&it, &e)) {
        struct retry_stmt *s = &r->stmts[r->n++];

        *ret_ok = decode_stmt(e.v, s);
        if (!*ret_ok)
            return 0;
        TRY_RETURN(op_dup(op, a, s->result, &s->result));
    }
    *ret_ok = true;
    return 0;
}

/* --- one record ---------------------------------------------------------------------------- */

/* One chunk row behind those read so far; false: it is missing or damaged. */
static int load_chunk(struct op *op, struct tcursor *c, const uint8_t lsid[static KEY_BYTES],
                      uint32_t chunk, struct arena *a, struct retry_record *r, bool *ret_ok)
{
    uint8_t key[CHUNK_KEY_BYTES];
    struct bytes value;
    struct bv doc, txn, stmts;
    bool found;

    *ret_ok = false;
    chunk_key(lsid, chunk, key);
    TRY_RETURN(tcursor_seek(c, (struct bytes){key, sizeof(key)}, SEEK_EXACT, &found));
    if (!found)
        return 0;
    value = tcursor_value(c);
    if (value.len < 5 || (doc = bv_doc(value.p)).len != value.len)
        return 0;
    txn = bv_get(doc, "txnNum");
    stmts = bv_get(doc, "stmts");
    if (txn.type != BV_INT64 || bv_i64(txn) != r->txn_number || bv_count(stmts) != RETRY_CHUNK)
        return 0;
    return decode_stmts(op, a, stmts, r, ret_ok);
}

/* Everything, from the head that the cursor stands on. r->found false: damaged. */
static int load_all(struct op *op, struct tcursor *c, const uint8_t lsid[static KEY_BYTES],
                    struct arena *a, struct retry_record *r)
{
    struct bv doc, tail;
    bool ok = true;

    if (!decode_head(tcursor_value(c), &doc, r)) {
        r->found = false;
        return 0;
    }
    TRY_RETURN(op_dup(op, a, bv_get(doc, "stmts"), &tail));
    r->stmts =
        arena_try(a, ((size_t)r->chunks * RETRY_CHUNK + bv_count(tail) + 1) * sizeof(*r->stmts));
    if (r->stmts == NULL)
        return op_no_memory(op);
    for (uint32_t i = 0; ok && i < r->chunks; i++)
        TRY_RETURN(load_chunk(op, c, lsid, i, a, r, &ok));
    if (ok)
        TRY_RETURN(decode_stmts(op, a, tail, r, &ok));
    r->found = ok;
    return 0;
}

int retry_load(struct engine *e, struct op *op, struct bv lsid, struct arena *a,
               struct retry_record *ret)
{
    struct retry_record r = {.found = false};
    uint8_t key[KEY_BYTES];
    struct tcursor *c = NULL;
    struct stx *t;
    bool found;
    int rc;

    if (!key_of(lsid, key))
        return op_fail(op, ERR_BAD_VALUE, "not a session id");
    TRY_RETURN(stx_begin(e, op, &t));
    TRY(tcursor_open(t, TABLE_SESSIONS, TABLE_BYTES, &c));
    TRY(tcursor_seek(c, (struct bytes){key, sizeof(key)}, SEEK_EXACT, &found));
    if (found)
        TRY(load_all(op, c, key, a, &r));
    *ret = r;
fail:
    tcursor_close(c);
    stx_rollback(t);
    return rc;
}

static int put_row(struct tcursor *c, struct op *op, struct bytes key, struct bw *w)
{
    struct bv doc = bw_done(w);

    if (bv_is_missing(doc))
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory for a retry record");
    return tcursor_put(c, key, (struct bytes){doc.p, doc.len});
}

/* Writes full chunks, then the head with what is left. */
static int put_rows(struct tcursor *c, struct op *op, const uint8_t key[static KEY_BYTES],
                    struct retry_record *r)
{
    uint8_t at[CHUNK_KEY_BYTES];
    struct bw w;
    int rc = 0;

    while (rc == 0 && r->n - (size_t)r->chunks * RETRY_CHUNK > RETRY_CHUNK) {
        chunk_key(key, r->chunks, at);
        bw_init(&w, NULL);
        write_chunk(&w, r);
        rc = put_row(c, op, (struct bytes){at, sizeof(at)}, &w);
        bw_fini(&w);
        r->chunks++;
    }
    for (uint32_t i = r->chunks; rc == 0 && i < r->stale; i++) {
        chunk_key(key, i, at);
        rc = tcursor_remove(c, (struct bytes){at, sizeof(at)}, NULL);
    }
    r->stale = 0;
    if (rc != 0)
        return rc;
    bw_init(&w, NULL);
    write_head(&w, r);
    rc = put_row(c, op, (struct bytes){key, KEY_BYTES}, &w);
    bw_fini(&w);
    return rc;
}

int retry_store(struct stx *t, struct bv lsid, struct retry_record *r)
{
    struct op *op = stx_op(t);
    uint8_t key[KEY_BYTES];
    struct tcursor *c;
    int rc;

    if (!key_of(lsid, key))
        return op_fail(op, ERR_BAD_VALUE, "not a session id");
    if (r->n > LIMIT_RETRY_STMTS)
        return op_fail(op, ERR_BAD_VALUE, "too many statements under one txnNumber");
    rc = FAULT_ERROR(RETRY_RECORD);
    if (rc != 0)
        return op_fail(op, rc, "fault point at a retry record");
    TRY_RETURN(tcursor_open(t, TABLE_SESSIONS, TABLE_BYTES, &c));
    rc = put_rows(c, op, key, r);
    tcursor_close(c);
    return rc;
}

/* --- all of them --------------------------------------------------------------------------- */

enum { PURGE_CHUNK = 256 };

/* Keys of up to PURGE_CHUNK records older than before_ms, behind `after` (len 0: from the start).
 */
static int find_old(struct engine *e, struct op *op, int64_t before_ms, struct bytes *after,
                    uint8_t (*keys)[KEY_BYTES], size_t *ret_n, bool *ret_end)
{
    struct retry_record r;
    struct tcursor *c = NULL;
    struct stx *t;
    struct bv doc;
    bool found;
    int rc;

    *ret_n = 0;
    TRY_RETURN(stx_begin(e, op, &t));
    TRY(tcursor_open(t, TABLE_SESSIONS, TABLE_BYTES, &c));
    TRY(after->len == 0 ? tcursor_first(c, &found) : tcursor_seek(c, *after, SEEK_GT, &found));
    while (found && *ret_n < PURGE_CHUNK) {
        struct bytes key = tcursor_key(c);

        if (key.len == KEY_BYTES &&
            (!decode_head(tcursor_value(c), &doc, &r) || r.date_ms < before_ms))
            memcpy(keys[(*ret_n)++], key.p, KEY_BYTES);
        TRY(tcursor_next(c, &found));
    }
    *ret_end = !found;
fail:
    tcursor_close(c);
    stx_rollback(t);
    return rc;
}

/* Removes the chunk rows behind the head of one record, from where the cursor stands. */
static int remove_chunks(struct tcursor *c, struct bytes key)
{
    uint8_t at[CHUNK_KEY_BYTES];
    bool found;

    for (;;) {
        struct bytes next;

        TRY_RETURN(tcursor_seek(c, key, SEEK_GT, &found));
        if (!found)
            return 0;
        next = tcursor_key(c);
        if (next.len != sizeof(at) || memcmp(next.p, key.p, KEY_BYTES) != 0)
            return 0;
        memcpy(at, next.p, sizeof(at));
        TRY_RETURN(tcursor_remove(c, (struct bytes){at, sizeof(at)}, NULL));
    }
}

/* Removes one record if it is still old. A session that writes it just now keeps it. */
static int purge_one(struct engine *e, struct op *op, int64_t before_ms, struct bytes key)
{
    struct retry_record r;
    struct tcursor *c = NULL;
    struct stx *t;
    struct bv doc;
    bool found;
    int rc;

    TRY_RETURN(stx_begin(e, op, &t));
    TRY(tcursor_open(t, TABLE_SESSIONS, TABLE_BYTES, &c));
    TRY(tcursor_seek(c, key, SEEK_EXACT, &found));
    if (found && (!decode_head(tcursor_value(c), &doc, &r) || r.date_ms < before_ms)) {
        TRY(tcursor_remove(c, key, NULL));
        TRY(remove_chunks(c, key));
        FAULT(SESSION_REAP);
    }
    tcursor_close(c);
    rc = stx_commit(t);
    return rc == ERR_WRITE_CONFLICT ? 0 : rc;
fail:
    tcursor_close(c);
    stx_rollback(t);
    return rc == ERR_WRITE_CONFLICT ? 0 : rc;
}

int retry_purge(struct engine *e, struct op *op, int64_t before_ms)
{
    uint8_t keys[PURGE_CHUNK][KEY_BYTES], last[KEY_BYTES];
    struct bytes after = {last, 0};
    bool end = false;
    size_t n;

    while (!end) {
        TRY_RETURN(find_old(e, op, before_ms, &after, keys, &n, &end));
        for (size_t i = 0; i < n; i++)
            TRY_RETURN(purge_one(e, op, before_ms, (struct bytes){keys[i], KEY_BYTES}));
        if (n > 0) {
            memcpy(last, keys[n - 1], KEY_BYTES);
            after.len = KEY_BYTES;
        }
        TRY_RETURN(op_check(op));
    }
    return 0;
}

static void write_lsid(struct bw *w, struct bytes key)
{
    bw_doc_begin(w, "_id");
    bw_uuid(w, "id", key.p);
    bw_bin(w, "uid", 0, key.p + ID_BYTES, UID_BYTES);
    bw_end(w);
}

static struct bv transaction_view(struct arena *a, struct bytes key, const struct retry_record *r)
{
    struct bw w;

    bw_init(&w, a);
    write_lsid(&w, key);
    bw_i64(&w, "txnNum", r->txn_number);
    bw_doc_begin(&w, "lastWriteOpTime");
    bw_ts(&w, "ts", r->optime);
    bw_i64(&w, "t", r->term);
    bw_end(&w);
    bw_date(&w, "lastWriteDate", r->date_ms);
    if (r->committed)
        bw_str(&w, "state", "committed");
    return bw_done(&w);
}

/* A findAndModify is alone under its number. BV_NONE: the record has no image. */
static struct bv image_view(struct arena *a, struct bytes key, const struct retry_record *r,
                            struct bv head)
{
    struct bv first = bv_first(bv_get(head, "stmts"), NULL), image;
    struct retry_stmt s;
    struct bw w;

    if (first.type != BV_DOC || !decode_stmt(first, &s) || s.kind != 'f')
        return BV_NONE;
    image = bv_get(s.result, "value");
    if (image.type != BV_DOC || !bv_is_missing(bv_get(s.result, "upserted")))
        return BV_NONE;
    bw_init(&w, a);
    write_lsid(&w, key);
    bw_i64(&w, "txnNum", r->txn_number);
    bw_ts(&w, "ts", s.optime);
    bw_str(&w, "imageKind", bv_truthy(bv_get(s.result, "post")) ? "postImage" : "preImage");
    bw_bv(&w, "image", image);
    bw_bool(&w, "invalidated", false);
    return bw_done(&w);
}

int retry_each(struct engine *e, struct op *op, enum retry_view view, struct bv after,
               int (*fn)(void *arg, struct bv doc), void *arg)
{
    uint8_t start[KEY_BYTES];
    struct retry_record r;
    struct tcursor *c = NULL;
    struct arena a;
    struct stx *t;
    struct bv doc;
    bool found;
    int rc;

    if (!bv_is_missing(after) && !key_of(after, start))
        return op_fail(op, ERR_BAD_VALUE, "not a session id");
    arena_init(&a);
    TRY_RETURN(stx_begin(e, op, &t));
    TRY(tcursor_open(t, TABLE_SESSIONS, TABLE_BYTES, &c));
    TRY(bv_is_missing(after) ? tcursor_first(c, &found)
                             : tcursor_seek(c, (struct bytes){start, KEY_BYTES}, SEEK_GT, &found));
    while (found) {
        struct bytes key = tcursor_key(c);

        if (key.len == KEY_BYTES && decode_head(tcursor_value(c), &doc, &r)) {
            struct bv row =
                view == RETRY_IMAGES ? image_view(&a, key, &r, doc) : transaction_view(&a, key, &r);

            if (!bv_is_missing(row))
                TRY(fn(arg, row));
        }
        arena_reset(&a);
        TRY(op_check(op));
        TRY(tcursor_next(c, &found));
    }
fail:
    tcursor_close(c);
    stx_rollback(t);
    arena_fini(&a);
    return rc;
}
