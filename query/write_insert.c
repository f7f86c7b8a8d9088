/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inserting documents: groups of statements, each one transaction. */
#include "query/write_internal.h"

/* One group being built. */
struct group {
    struct writer *w;
    struct oplog_op *ops;
    struct retry_stmt *stmts;
    size_t n;      /* documents written in the transaction */
    size_t nstmts; /* runs of statements */
    int64_t bytes;
    size_t examined; /* statements looked at, also those done before */
    int64_t retried; /* statements that an earlier attempt had done */
};

/* Adds statement number id, whose entry is ops[g->n - 1], to the runs. */
static void add_stmt(struct group *g, int32_t id)
{
    struct retry_stmt *last = g->nstmts > 0 ? &g->stmts[g->nstmts - 1] : NULL;

    if (last != NULL && last->stmt_id + last->count == id &&
        last->optime + (uint64_t)last->count == g->n - 1) {
        last->count++;
        return;
    }
    g->stmts[g->nstmts++] =
        (struct retry_stmt){.stmt_id = id, .count = 1, .kind = 'i', .optime = g->n - 1};
}

static int add_doc(struct group *g, struct stx *t, struct bv given, int32_t stmt_id)
{
    struct writer *w = g->w;
    struct bv doc;
    int64_t rid;

    TRY_RETURN(document_prepare(w->op, &w->op->arena, given, writer_now_ts(w), &doc));
    TRY_RETURN(record_insert(t, w->coll, doc, &rid));
    writer_entry(w, &g->ops[g->n], 'i', doc, writer_key_doc(&w->op->arena, doc), BV_NONE, stmt_id);
    g->n++;
    g->bytes += doc.len;
    if (w->retry != NULL)
        add_stmt(g, stmt_id);
    return 0;
}

/*
 * Fills and commits one group from docs[0..n). *ret_failed is the error of the statement behind
 * the group, if that is what ended it; its text stays in the op.
 */
static int insert_group(struct group *g, struct exec *x, const struct bv *docs, size_t n,
                        const int32_t *stmt_ids, int *ret_failed)
{
    struct writer *w = g->w;
    struct error failed = {.code = 0};
    struct stx *t;
    int rc = 0;

    g->n = g->nstmts = g->examined = 0;
    g->bytes = g->retried = 0;
    TRY_RETURN(exec_stx(x, &t));
    while (g->examined < n && g->n < WRITE_GROUP_DOCS && g->bytes < WRITE_GROUP_BYTES) {
        int32_t id = stmt_ids == NULL ? 0 : stmt_ids[g->examined];

        if (w->retry != NULL && retry_state_find(w->retry, id) != NULL) {
            g->retried++;
        } else if ((rc = add_doc(g, t, docs[g->examined], id)) != 0) {
            break;
        }
        g->examined++;
    }
    if (rc == ERR_WRITE_CONFLICT || (rc != 0 && g->n == 0)) {
        exec_end(x);
        if (rc == ERR_WRITE_CONFLICT)
            return rc;
        *ret_failed = rc;
        return 0;
    }
    if (rc != 0)
        failed = *w->op->err;
    if (g->n == 0)
        exec_end(x);
    else
        rc = writer_commit(w, x, g->ops, g->n, g->stmts, g->nstmts);
    if (g->n > 0 && rc != 0) {
        if (rc == ERR_WRITE_CONFLICT || rc < 0 || failed.code == 0)
            return rc;
        TRY_RETURN(op_check(w->op));
        /* The failure came in the midst of a record: it took the group with it. */
        g->n = g->examined = 0;
        g->retried = 0;
    }
    if (failed.code != 0)
        *w->op->err = failed;
    *ret_failed = failed.code;
    return 0;
}

static int reserve(struct group *g, size_t n)
{
    struct writer *w = g->w;
    size_t room = n < WRITE_GROUP_DOCS ? n : WRITE_GROUP_DOCS;

    if (room > w->group_room) {
        w->group_ops = ARENA_TRY_ARRAY(&w->op->arena, struct oplog_op, room);
        w->group_stmts = ARENA_TRY_ARRAY(&w->op->arena, struct retry_stmt, room);
        if (w->group_ops == NULL || w->group_stmts == NULL) {
            w->group_room = 0;
            return op_no_memory(w->op);
        }
        w->group_room = room;
    }
    g->ops = w->group_ops;
    g->stmts = w->group_stmts;
    return 0;
}

int write_insert(struct writer *w, const struct bv *docs, size_t from, size_t n,
                 const int32_t *stmt_ids, size_t *ret_done, int64_t *ret_inserted)
{
    struct group g = {.w = w};
    struct exec x;
    size_t done = 0;
    unsigned attempt = 0;
    int failed = 0, rc = 0;

    *ret_done = 0;
    *ret_inserted = 0;
    TRY_RETURN(reserve(&g, n - from));
    exec_init(&x, w->op);
    while (done < n - from && failed == 0) {
        const int32_t *ids = stmt_ids == NULL ? NULL : stmt_ids + from + done;

        rc = op_check(w->op);
        if (rc == 0)
            rc = insert_group(&g, &x, docs + from + done, n - from - done, ids, &failed);
        if (rc == ERR_WRITE_CONFLICT) {
            rc = writer_backoff(w, attempt++);
            if (rc == 0)
                continue;
        }
        if (rc != 0)
            break;
        attempt = 0;
        if (g.n > 0)
            writer_count(w, (int64_t)g.n, g.bytes);
        done += g.examined;
        *ret_inserted += (int64_t)g.n + g.retried;
    }
    exec_end(&x);
    exec_fini(&x);
    *ret_done = done;
    return txn_write_error(w->op, rc != 0 ? rc : failed);
}
