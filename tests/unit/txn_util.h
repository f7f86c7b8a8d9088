/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the tests of transactions share: a whole database, and requests that write and read it. */
#ifndef RUNNEL_TESTS_UNIT_TXN_UTIL_H
#define RUNNEL_TESTS_UNIT_TXN_UTIL_H

#include "tests/unit/oplog_util.h"

#include "query/ddl.h"
#include "query/find.h"
#include "query/txn.h"
#include "query/write.h"
#include "tests/unit/json.h"

struct world {
    struct db store;
    struct database db;
};

UNUSED static void world_reopen(struct world *w, bool hidden)
{
    struct oplog_options o = roomy;
    struct error err;

    o.hidden = hidden;
    db_reopen(&w->store, &o);
    memset(&w->db, 0, sizeof(w->db));
    OK(catalog_open(w->store.engine, &err, &w->db.catalog));
    w->db.engine = w->store.engine;
    w->db.oplog = w->store.oplog;
    w->db.locks = nslock_table_new();
    w->db.txns = txn_table_new();
}

UNUSED static void world_open(struct world *w, bool memory, bool hidden)
{
    w->store.path = memory ? NULL : temp_dir();
    world_reopen(w, hidden);
}

UNUSED static void world_close(struct world *w)
{
    txn_table_free(w->db.txns);
    nslock_table_free(w->db.locks);
    oplog_close(w->store.oplog);
    catalog_close(w->db.catalog);
    close_engine(w->store.engine);
}

UNUSED static void world_remove(struct world *w)
{
    world_close(w);
    if (w->store.path != NULL)
        remove_dir(w->store.path);
}

/* A request of this database, on the schema thread, so that it may create what is missing. */
UNUSED static void request_init(struct op *op, struct world *w)
{
    op_init(op);
    op->database = &w->db;
    op->on_schema_thread = true;
    op->runs = 1;
}

/* {id: UUID with that first byte, uid: 32 zero bytes} */
UNUSED static struct bv lsid_of(struct arena *a, uint8_t n)
{
    const uint8_t id[16] = {n}, uid[32] = {0};
    struct bw w;

    bw_init(&w, a);
    bw_uuid(&w, "id", id);
    bw_bin(&w, "uid", 0, uid, sizeof(uid));
    return bw_done(&w);
}

UNUSED static struct txn *begin(struct world *w, uint8_t session)
{
    struct txn *t;
    struct op op;

    request_init(&op, w);
    OK(txn_begin(&op, lsid_of(&op.arena, session), 1, &t));
    op_fini(&op);
    return t;
}

/* --- statements: by a request, in the transaction that it is inside of ----------------------- */

UNUSED static int insert(struct op *op, const char *ns, const char *doc)
{
    struct bv v = json(&op->arena, doc);
    struct writer w;
    int64_t inserted;
    size_t done;
    int rc;

    TRY_RETURN(writer_open(&w, op, ns, true, NULL));
    rc = w.coll == NULL ? writer_create(&w) : 0;
    if (rc == 0)
        rc = write_insert(&w, &v, 0, 1, NULL, &done, &inserted);
    writer_close(&w);
    return rc;
}

UNUSED static int update(struct op *op, const char *ns, const char *q, const char *u, bool multi,
                         bool upsert)
{
    struct update_stmt s = {.q = json(&op->arena, q),
                            .u = json(&op->arena, u),
                            .array_filters = BV_NONE,
                            .hint = BV_NONE,
                            .constants = BV_NONE,
                            .multi = multi,
                            .upsert = upsert};
    struct update_outcome out;
    struct writer w;
    int rc;

    TRY_RETURN(writer_open(&w, op, ns, upsert, NULL));
    rc = write_update(&w, &s, NULL, &out);
    writer_close(&w);
    return rc;
}

UNUSED static int set(struct op *op, const char *ns, int id, int x)
{
    return update(op, ns, arena_printf(&op->arena, "{'_id': %d}", id),
                  arena_printf(&op->arena, "{'$set': {'x': %d}}", x), false, false);
}

UNUSED static int drop_docs(struct op *op, const char *ns, const char *q, bool multi)
{
    struct delete_stmt s = {.q = json(&op->arena, q), .hint = BV_NONE, .multi = multi};
    struct writer w;
    int64_t removed;
    bool retried;
    int rc;

    TRY_RETURN(writer_open(&w, op, ns, false, NULL));
    rc = write_delete(&w, &s, NULL, &removed, &retried);
    writer_close(&w);
    return rc;
}

struct shown {
    struct op *op;
    char *text;
};

static int show_row(void *arg, struct bv row)
{
    struct shown *s = arg;
    struct bv x = bv_get(row, "x");

    s->text =
        arena_printf(&s->op->arena, "%s%s%s%s%s", s->text, *s->text == '\0' ? "" : " ",
                     bv_show(&s->op->arena, bv_get(row, "_id"), 40), bv_is_missing(x) ? "" : ":",
                     bv_is_missing(x) ? "" : bv_show(&s->op->arena, x, 40));
    return 0;
}

/* "_id:x _id:x", in natural order; "error n". */
UNUSED static const char *found(struct op *op, const char *ns)
{
    struct find_spec spec = {.ns = ns, .filter = BV_NONE};
    struct shown s = {op, arena_strdup(&op->arena, "")};
    struct qcursor *c;
    int rc = find_open(op, &spec, &c);

    if (rc == 0) {
        rc = qcursor_each(op, c, show_row, &s);
        qcursor_free(c);
    }
    return rc == 0 ? s.text : arena_printf(&op->arena, "error %d", rc);
}

#define FOUND(op, ns, text) assert_string_equal(found(op, ns), text)

UNUSED static int64_t count_of(struct world *w, const char *ns)
{
    struct coll *k = catalog_get(w->db.catalog, ns);
    int64_t n = k == NULL ? -1 : atomic_load(&k->counters->count);

    coll_unref(k);
    return n;
}

/* --- the oplog ------------------------------------------------------------------------------- */

/* Entries above `after`, in order, at most n; how many there are. */
UNUSED static size_t entries_above(struct world *w, struct op *op, uint64_t after,
                                   struct oplog_row *ret, size_t n)
{
    struct oplog_reader *r;
    struct oplog_row row;
    size_t got = 0;
    bool more;

    OK(oplog_reader_open(w->store.oplog, op, after + 1, &whole_oplog, false, &r));
    for (;;) {
        OK(oplog_reader_next(r, &row, &more));
        if (!more)
            break;
        if (got < n) {
            bool ok = oplog_parse(bv_dup(&op->arena, row.entry), &ret[got]);

            assert_true(ok);
        }
        got++;
    }
    oplog_reader_close(r);
    return got;
}

UNUSED static void commit(struct op *o)
{
    uint64_t at;

    OK(txn_commit(o->txn, o, &at));
    assert_null(o->txn);
}

UNUSED static void abort_in(struct op *o)
{
    struct txn *t = o->txn;

    txn_leave(o);
    txn_abort(t);
}

#endif
