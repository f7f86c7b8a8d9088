/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Query cursors: making them, the context of a batch, and the cursor over ready documents. */
#include "query/cursor.h"

#include <stdlib.h>

#include "query/txn_internal.h"

void exec_init(struct exec *x, struct op *op)
{
    x->op = op;
    x->db = op->database;
    x->stx = NULL;
    arena_init(&x->scratch);
    eval_init(&x->ev, op, &x->scratch);
    if (x->db != NULL && x->db->oplog != NULL)
        x->ev.cluster_time = oplog_visible(x->db->oplog);
}

void exec_fini(struct exec *x)
{
    exec_end(x);
    arena_fini(&x->scratch);
}

int read_begin(struct op *op, struct stx **ret)
{
    struct database *db = op->database;

    if (op->txn != NULL) {
        op->read_optime = txn_read_optime(op->txn);
        *ret = txn_stx(op->txn);
        return 0;
    }
    /* Before the snapshot: what is visible at this optime must be in it. */
    op->read_optime = oplog_visible(db->oplog);
    return stx_begin(db->engine, op, ret);
}

void read_end(struct op *op, struct stx *t)
{
    if (op->txn == NULL)
        stx_rollback(t);
}

void exec_end(struct exec *x)
{
    read_end(x->op, x->stx);
    x->stx = NULL;
}

int exec_stx(struct exec *x, struct stx **ret)
{
    if (x->stx == NULL)
        TRY_RETURN(read_begin(x->op, &x->stx));
    *ret = x->stx;
    return 0;
}

void *qcursor_new(size_t size, size_t small, const struct qcursor_ops *ops)
{
    struct arena a;
    struct qcursor *c;

    ASSERT(size >= sizeof(*c));
    if (small > 0)
        arena_init_small(&a, size + small);
    else
        arena_init(&a);
    c = arena_zalloc(&a, size);
    c->ops = ops;
    c->arena = a;
    return c;
}

void qcursor_free(struct qcursor *c)
{
    struct arena a;

    if (c == NULL)
        return;
    if (c->ops->close != NULL)
        c->ops->close(c);
    a = c->arena; /* which c lies in */
    arena_fini(&a);
}

/* --- documents that are already there ----------------------------------------------------------
 */

struct array_cursor {
    struct qcursor base;
    struct bv *docs;
    size_t n, at;
};

static int array_next(struct qcursor *c, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct array_cursor *ac = (struct array_cursor *)c;

    (void)x;
    *ret_more = ac->at < ac->n;
    *ret = *ret_more ? ac->docs[ac->at++] : BV_NONE;
    return 0;
}

static void array_save(struct qcursor *c, struct exec *x)
{
    (void)c;
    (void)x;
}

static const struct qcursor_ops array_ops = {.next = array_next, .save = array_save};

int qcursor_each(struct op *op, struct qcursor *c, int (*fn)(void *arg, struct bv row), void *arg)
{
    struct exec x;
    bool more = true;
    int rc = 0;

    exec_init(&x, op);
    while (rc == 0 && more) {
        struct bv row;

        rc = c->ops->next(c, &x, &row, &more);
        if (rc != 0 || bv_is_missing(row))
            break;
        rc = fn(arg, row);
        arena_reset(&x.scratch);
    }
    c->ops->save(c, &x);
    exec_fini(&x);
    return rc;
}

int qcursor_from_array(struct op *op, const char *ns, const struct bv *docs, size_t n,
                       struct qcursor **ret)
{
    struct array_cursor *ac = qcursor_new(sizeof(*ac), 0, &array_ops);
    int rc;

    ac->base.ns = arena_strdup(&ac->base.arena, ns);
    ac->docs = ARENA_TRY_ARRAY(&ac->base.arena, struct bv, n);
    if (ac->docs == NULL)
        TRY(op_no_memory(op));
    ac->n = n;
    for (size_t i = 0; i < n; i++)
        TRY(op_dup(op, &ac->base.arena, docs[i], &ac->docs[i]));
    *ret = &ac->base;
    return 0;
fail:
    qcursor_free(&ac->base);
    return rc;
}
