/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Retry records. One row per session, holding the statements of its newest retryable write only, so
 * a row is written whole each time. Rows are read with the checks that rows of a table that users'
 * data went into deserve: a damaged one counts as missing.
 */
#include "oplog/retry.h"

#include "base/limits.h"
#include "oplog/oplog_internal.h"
#include "storage/table_write.h"

enum { KEY_BYTES = 48, ID_BYTES = 16, UID_BYTES = 32 };

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

static struct bv encode(struct arena *a, const struct retry_record *r)
{
    struct bw w;

    bw_init(&w, a);
    bw_i64(&w, "txnNum", r->txn_number);
    bw_ts(&w, "optime", r->optime);
    bw_i64(&w, "term", r->term);
    bw_date(&w, "date", r->date_ms);
    bw_arr_begin(&w, "stmts");
    for (size_t i = 0; i < r->n; i++) {
        const char kind[2] = {r->stmts[i].kind, '\0'};

        bw_doc_begin(&w, NULL);
        bw_i32(&w, "s", r->stmts[i].stmt_id);
        if (r->stmts[i].count > 1)
            bw_i32(&w, "n", r->stmts[i].count);
        bw_str(&w, "k", kind);
        bw_ts(&w, "ts", r->stmts[i].optime);
        bw_bv(&w, "r", r->stmts[i].result);
        bw_end(&w);
    }
    bw_end(&w);
    return bw_done(&w);
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
    struct bv doc, txn, optime, term, date;

    if (value.len < 5 || (doc = bv_doc(value.p)).len != value.len)
        return false;
    txn = bv_get(doc, "txnNum");
    optime = bv_get(doc, "optime");
    term = bv_get(doc, "term");
    date = bv_get(doc, "date");
    if (txn.type != BV_INT64 || optime.type != BV_TIMESTAMP || date.type != BV_DATE)
        return false;
    *ret = (struct retry_record){.found = true,
                                 .txn_number = bv_i64(txn),
                                 .optime = bv_ts(optime),
                                 .term = term.type == BV_INT64 ? bv_i64(term) : 0,
                                 .date_ms = bv_i64(date)};
    *ret_doc = doc;
    return true;
}

/* Everything; the statements' results point into `doc`, which the caller keeps. */
static bool decode(struct arena *a, struct bytes value, struct retry_record *ret)
{
    struct retry_record r;
    struct biter it;
    struct belem e;
    struct bv doc, stmts;

    if (!decode_head(value, &doc, &r))
        return false;
    stmts = bv_get(bv_dup(a, doc), "stmts");
    r.stmts = arena_try(a, (bv_count(stmts) + 1) * sizeof(*r.stmts));
    if (r.stmts == NULL)
        return false;
    it = biter(stmts);
    while (biter_next(&it, &e)) {
        if (!decode_stmt(e.v, &r.stmts[r.n++]))
            return false;
    }
    *ret = r;
    return true;
}

/* --- one record ---------------------------------------------------------------------------- */

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
    if (found && !decode(a, tcursor_value(c), &r))
        r.found = false;
    *ret = r;
fail:
    tcursor_close(c);
    stx_rollback(t);
    return rc;
}

int retry_store(struct stx *t, struct bv lsid, const struct retry_record *r)
{
    struct op *op = stx_op(t);
    uint8_t key[KEY_BYTES];
    struct tcursor *c;
    struct bv doc;
    int rc;

    if (!key_of(lsid, key))
        return op_fail(op, ERR_BAD_VALUE, "not a session id");
    if (r->n > LIMIT_RETRY_STMTS)
        return op_fail(op, ERR_BAD_VALUE, "too many statements under one txnNumber");
    doc = encode(&op->arena, r);
    if (bv_is_missing(doc))
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory for a retry record");
    TRY_RETURN(tcursor_open(t, TABLE_SESSIONS, TABLE_BYTES, &c));
    rc = tcursor_put(c, (struct bytes){key, sizeof(key)}, (struct bytes){doc.p, doc.len});
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
    if (found && (!decode_head(tcursor_value(c), &doc, &r) || r.date_ms < before_ms))
        TRY(tcursor_remove(c, key, NULL));
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

static struct bv view_of(struct arena *a, struct bytes key, const struct retry_record *r)
{
    struct bw w;

    bw_init(&w, a);
    bw_doc_begin(&w, "_id");
    bw_uuid(&w, "id", key.p);
    bw_bin(&w, "uid", 0, key.p + ID_BYTES, UID_BYTES);
    bw_end(&w);
    bw_i64(&w, "txnNum", r->txn_number);
    bw_doc_begin(&w, "lastWriteOpTime");
    bw_ts(&w, "ts", r->optime);
    bw_i64(&w, "t", r->term);
    bw_end(&w);
    bw_date(&w, "lastWriteDate", r->date_ms);
    return bw_done(&w);
}

int retry_each(struct engine *e, struct op *op, int (*fn)(void *arg, struct bv doc), void *arg)
{
    struct retry_record r;
    struct tcursor *c = NULL;
    struct arena a;
    struct stx *t;
    struct bv doc;
    bool found;
    int rc;

    arena_init(&a);
    TRY_RETURN(stx_begin(e, op, &t));
    TRY(tcursor_open(t, TABLE_SESSIONS, TABLE_BYTES, &c));
    TRY(tcursor_first(c, &found));
    while (found) {
        if (tcursor_key(c).len == KEY_BYTES && decode_head(tcursor_value(c), &doc, &r))
            TRY(fn(arg, view_of(&a, tcursor_key(c), &r)));
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
