/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/bench/message.h"

#include <stdlib.h>

#include "tests/bench/bench.h"

enum { OP_MSG = 2013, ID_NUMBER_AT = 4, OID_BYTES = 12 };

static const uint8_t no_oid[OID_BYTES];

static void put_i32(uint8_t *p, size_t x)
{
    int32_t n = (int32_t)x;

    memcpy(p, &n, 4);
}

/* Body and, when `name` is not NULL, a sequence of n documents that follow each other at docs. */
static struct message make(struct bv body, const char *name, struct bv doc, uint32_t n)
{
    size_t name_len = name == NULL ? 0 : strlen(name) + 1;
    size_t sequence = name == NULL ? 0 : 1 + 4 + name_len + n * (size_t)doc.len;
    struct message m = {.len = MESSAGE_HEAD_BYTES + body.len + sequence};
    uint8_t *at;

    m.bytes = calloc(1, m.len);
    if (m.bytes == NULL)
        die("memory");
    put_i32(m.bytes, m.len);
    put_i32(m.bytes + 12, OP_MSG);
    at = m.bytes + MESSAGE_HEAD_BYTES;
    memcpy(at, body.p, body.len);
    at += body.len;
    if (name != NULL) {
        *at++ = 1;
        put_i32(at, sequence - 1);
        memcpy(at + 4, name, name_len);
        at += 4 + name_len;
        for (uint32_t i = 0; i < n; i++, at += doc.len)
            memcpy(at, doc.p, doc.len);
    }
    return m;
}

/* The offset in the message of a value inside its body. */
static size_t offset_in_body(struct bv body, const char *path)
{
    return MESSAGE_HEAD_BYTES + (size_t)(bv_path(body, path).p - body.p);
}

static void begin(struct bw *w, struct arena *a, const char *command, const char *coll)
{
    arena_init(a);
    bw_init(w, a);
    bw_str(w, command, coll);
}

static struct bv end(struct bw *w, const char *db)
{
    bw_str(w, "$db", db);
    return bw_done(w);
}

static struct bv document(struct arena *a, size_t doc_bytes)
{
    /* length 4, _id 1 + 4 + 12, v 1 + 2 + 8, pad 1 + 4 + 4 + n + 1, end 1 */
    size_t pad = doc_bytes - 4 - 17 - 11 - 10 - 1;
    char text[DOC_BYTES];
    struct bw w;

    memset(text, 'x', sizeof(text));
    bw_init(&w, a);
    bw_oid(&w, "_id", no_oid);
    bw_i64(&w, "v", 0);
    bw_strn(&w, "pad", text, pad);
    return bw_done(&w);
}

struct message message_insert(const char *coll, uint32_t docs, size_t doc_bytes, const char *w)
{
    struct arena a;
    struct bw body;
    struct bv b, doc;
    struct message m;

    begin(&body, &a, "insert", coll);
    bw_bool(&body, "ordered", true);
    if (w != NULL) {
        bw_doc_begin(&body, "writeConcern");
        bw_i32(&body, "w", atoi(w));
        bw_end(&body);
    }
    b = end(&body, BENCH_DB);
    doc = document(&a, doc_bytes);
    m = make(b, "documents", doc, docs);
    m.doc_bytes = doc.len;
    m.id_at = m.len - docs * doc.len + (size_t)(bv_get(doc, "_id").p - doc.p);
    m.v_at = m.len - docs * doc.len + (size_t)(bv_get(doc, "v").p - doc.p);
    arena_fini(&a);
    return m;
}

struct message message_find(const char *coll)
{
    struct arena a;
    struct bw w;
    struct bv b;
    struct message m;

    begin(&w, &a, "find", coll);
    bw_doc_begin(&w, "filter");
    bw_oid(&w, "_id", no_oid);
    bw_end(&w);
    bw_i32(&w, "limit", 1);
    bw_bool(&w, "singleBatch", true);
    b = end(&w, BENCH_DB);
    m = make(b, NULL, BV_NONE, 0);
    m.id_at = offset_in_body(b, "filter._id");
    arena_fini(&a);
    return m;
}

struct message message_find_all(const char *coll)
{
    struct arena a;
    struct bw w;
    struct message m;

    begin(&w, &a, "find", coll);
    bw_doc_begin(&w, "filter");
    bw_doc_begin(&w, "_id");
    bw_oid(&w, "$gte", no_oid);
    bw_end(&w);
    bw_end(&w);
    m = make(end(&w, BENCH_DB), NULL, BV_NONE, 0);
    arena_fini(&a);
    return m;
}

/* update or delete: one statement, as drivers send it. */
static struct message statement(const char *command, const char *coll, const char *list,
                                struct bv st, struct arena *a)
{
    struct bw w;
    struct message m;

    bw_init(&w, a);
    bw_str(&w, command, coll);
    bw_bool(&w, "ordered", true);
    m = make(end(&w, BENCH_DB), list, st, 1);
    m.id_at = m.len - st.len + (size_t)(bv_path(st, "q._id").p - st.p);
    return m;
}

struct message message_update(const char *coll)
{
    struct arena a;
    struct bw w;
    struct bv st;
    struct message m;

    arena_init(&a);
    bw_init(&w, &a);
    bw_doc_begin(&w, "q");
    bw_oid(&w, "_id", no_oid);
    bw_end(&w);
    bw_doc_begin(&w, "u");
    bw_doc_begin(&w, "$set");
    bw_i64(&w, "v", 0);
    bw_end(&w);
    bw_end(&w);
    st = bw_done(&w);
    m = statement("update", coll, "updates", st, &a);
    m.v_at = m.len - st.len + (size_t)(bv_path(st, "u.$set.v").p - st.p);
    arena_fini(&a);
    return m;
}

struct message message_delete(const char *coll)
{
    struct arena a;
    struct bw w;
    struct message m;

    arena_init(&a);
    bw_init(&w, &a);
    bw_doc_begin(&w, "q");
    bw_oid(&w, "_id", no_oid);
    bw_end(&w);
    bw_i32(&w, "limit", 1);
    m = statement("delete", coll, "deletes", bw_done(&w), &a);
    arena_fini(&a);
    return m;
}

struct message message_watch(const char *db, const char *coll, struct bv from)
{
    struct arena a;
    struct bw w;
    struct message m;

    begin(&w, &a, "aggregate", coll);
    bw_arr_begin(&w, "pipeline");
    bw_doc_begin(&w, NULL);
    bw_doc_begin(&w, "$changeStream");
    bw_bv(&w, from.type == BV_TIMESTAMP ? "startAtOperationTime" : "resumeAfter", from);
    bw_end(&w);
    bw_end(&w);
    bw_end(&w);
    bw_doc_begin(&w, "cursor");
    bw_end(&w);
    m = make(end(&w, db), NULL, BV_NONE, 0);
    arena_fini(&a);
    return m;
}

struct message message_get_more(const char *db, const char *coll, int64_t cursor,
                                int64_t max_time_ms)
{
    struct arena a;
    struct bw w;
    struct message m;

    arena_init(&a);
    bw_init(&w, &a);
    bw_i64(&w, "getMore", cursor);
    bw_str(&w, "collection", coll);
    if (max_time_ms > 0)
        bw_i64(&w, "maxTimeMS", max_time_ms);
    m = make(end(&w, db), NULL, BV_NONE, 0);
    arena_fini(&a);
    return m;
}

struct message message_kill_cursor(const char *db, const char *coll, int64_t cursor)
{
    struct arena a;
    struct bw w;
    struct message m;

    begin(&w, &a, "killCursors", coll);
    bw_arr_begin(&w, "cursors");
    bw_i64(&w, NULL, cursor);
    bw_end(&w);
    m = make(end(&w, db), NULL, BV_NONE, 0);
    arena_fini(&a);
    return m;
}

struct message message_admin(const char *name)
{
    struct arena a;
    struct bw w;
    struct message m;

    arena_init(&a);
    bw_init(&w, &a);
    bw_i32(&w, name, 1);
    m = make(end(&w, "admin"), NULL, BV_NONE, 0);
    arena_fini(&a);
    return m;
}

void message_free(struct message *m)
{
    free(m->bytes);
    m->bytes = NULL;
}

void message_set_id(struct message *m, uint32_t i, uint64_t id)
{
    uint64_t big = __builtin_bswap64(id);

    memcpy(m->bytes + m->id_at + i * m->doc_bytes + ID_NUMBER_AT, &big, 8);
}

void message_set_v(struct message *m, uint32_t i, int64_t v)
{
    memcpy(m->bytes + m->v_at + i * m->doc_bytes, &v, 8);
}
