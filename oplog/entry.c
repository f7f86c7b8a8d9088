/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Encoding and parsing of oplog entries. The field order is MongoDB's (5.0 and later); nothing
 * here knows of tables or horizons.
 *
 * An entry is encoded before its optime is known, with ts 0, so that the time between taking the
 * optime and committing is short. The two timestamps that are known only then (ts, and the ts in
 * prevOpTime) are patched in place by oplog_patch().
 */
#include "oplog/entry.h"

/* From the ts in prevOpTime to the end of the document: ts 8, type and name of t 3, t 8, and the
 * terminators of prevOpTime and of the entry. prevOpTime is the last field. */
enum { PREV_TS_FROM_END = 8 + 3 + 8 + 1 + 1 };

enum { OPLOG_VERSION = 2 };

static void put_session(struct bw *w, const struct oplog_op *src)
{
    if (bv_is_missing(src->lsid))
        return;
    bw_bv(w, "lsid", src->lsid);
    bw_i64(w, "txnNumber", src->txn_number);
}

static void put_prev(struct bw *w, const struct oplog_op *src)
{
    if (bv_is_missing(src->lsid))
        return;
    bw_doc_begin(w, "prevOpTime");
    bw_ts(w, "ts", src->prev_optime);
    bw_i64(w, "t", src->prev_optime == 0 ? -1 : src->prev_term);
    bw_end(w);
}

int oplog_encode(struct op *op, const struct oplog_op *src, int64_t term, int64_t wall_ms,
                 struct bv *ret, uint32_t *ret_ts_offset)
{
    const char kind[2] = {src->op, '\0'};
    uint32_t ts_offset;
    struct bw w;
    struct bv doc;

    bw_init(&w, &op->arena);
    put_session(&w, src);
    bw_str(&w, "op", kind);
    bw_str(&w, "ns", src->ns);
    if (src->uuid != NULL)
        bw_uuid(&w, "ui", src->uuid);
    bw_bv(&w, "o", src->o);
    bw_bv(&w, "o2", src->o2);
    if (src->retry_image != NULL)
        bw_str(&w, "needsRetryImage", src->retry_image);
    if (!bv_is_missing(src->lsid) && src->stmt_id >= 0)
        bw_i32(&w, "stmtId", src->stmt_id);
    bw_ts(&w, "ts", 0);
    ts_offset = bw_size(&w) - 8;
    bw_i64(&w, "t", term);
    bw_i64(&w, "v", OPLOG_VERSION);
    bw_date(&w, "wall", wall_ms);
    put_prev(&w, src);
    doc = bw_done(&w);
    if (bv_is_missing(doc))
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory for an oplog entry");
    *ret = doc;
    *ret_ts_offset = ts_offset;
    return 0;
}

void oplog_patch(uint8_t *entry, uint32_t len, uint32_t ts_offset, uint64_t optime,
                 uint64_t prev_optime, int64_t term)
{
    ASSERT(ts_offset + 8 <= len);
    memcpy(entry + ts_offset, &optime, 8);
    if (prev_optime != 0) {
        uint8_t *prev = entry + len - PREV_TS_FROM_END;

        ASSERT(prev > entry + ts_offset && memcmp(prev - 4, "\x11ts", 4) == 0);
        memcpy(prev, &prev_optime, 8);
        memcpy(prev + 8 + 3, &term, 8);
    }
}

enum seen { SEEN_OP = 1, SEEN_NS = 2, SEEN_O = 4, SEEN_TS = 8, SEEN_ALL = 15 };

static bool is(const struct belem *e, const char *name, uint8_t type)
{
    return e->v.type == type && strcmp(e->key, name) == 0;
}

/* Takes one field over into the row; unknown ones are left where they are. */
static unsigned take(struct oplog_row *r, const struct belem *e)
{
    uint32_t n;

    if (is(e, "ts", BV_TIMESTAMP)) {
        r->optime = bv_ts(e->v);
        return SEEN_TS;
    }
    if (is(e, "op", BV_STRING)) {
        const char *s = bv_str(e->v, &n);

        r->op = s[0];
        return n == 1 ? SEEN_OP : 0;
    }
    if (is(e, "ns", BV_STRING)) {
        r->ns = bv_str(e->v, &r->ns_len);
        return SEEN_NS;
    }
    if (is(e, "o", BV_DOC)) {
        r->o = e->v;
        return SEEN_O;
    }
    if (is(e, "ui", BV_BINARY))
        r->ui = e->v;
    else if (is(e, "o2", BV_DOC))
        r->o2 = e->v;
    else if (is(e, "wall", BV_DATE))
        r->wall_ms = bv_i64(e->v);
    else if (is(e, "t", BV_INT64))
        r->term = bv_i64(e->v);
    else if (is(e, "lsid", BV_DOC))
        r->lsid = e->v;
    else if (is(e, "txnNumber", BV_INT64))
        r->txn_number = bv_i64(e->v);
    else if (is(e, "fromMigrate", BV_BOOL))
        r->from_migrate = bv_bool(e->v);
    else if (is(e, "prevOpTime", BV_DOC)) {
        struct bv ts = bv_get(e->v, "ts");

        r->prev_optime = ts.type == BV_TIMESTAMP ? bv_ts(ts) : 0;
    }
    return 0;
}

bool oplog_parse(struct bv entry, struct oplog_row *ret)
{
    struct oplog_row r = {
        .entry = entry, .ui = BV_NONE, .o = BV_NONE, .o2 = BV_NONE, .lsid = BV_NONE};
    struct biter it;
    struct belem e;
    unsigned seen = 0;

    if (entry.type != BV_DOC || entry.len < 5 || bv_doc(entry.p).len != entry.len)
        return false;
    it = biter(entry);
    while (biter_next(&it, &e))
        seen |= take(&r, &e);
    if (seen != SEEN_ALL)
        return false;
    *ret = r;
    return true;
}
