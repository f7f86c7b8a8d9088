/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "oplog/unwind.h"

#include "oplog/reader.h"

/* One applyOps array; parts are in the order of their entries. */
struct unwind_part {
    struct unwind_part *next;
    uint64_t optime;
    struct bv ops;
};

enum { VECTORED_INSERT = 1 }; /* multiOpType of a group that is no transaction */

bool unwind_wanted(const struct oplog_row *row)
{
    int64_t one;

    if (row->op != 'c')
        return false;
    return bv_get(row->o, "applyOps").type == BV_ARRAY ||
           (bv_to_i64(bv_get(row->o, "commitTransaction"), &one) && one == 1);
}

static void prepend(struct unwind *u, uint64_t optime, struct bv ops)
{
    struct unwind_part *p = ARENA_NEW(&u->arena, struct unwind_part);

    p->next = u->part;
    p->optime = optime;
    p->ops = ops;
    u->part = p;
}

static int history_lost(struct op *op)
{
    int rc = op_fail(op, ERR_CHANGE_STREAM_HISTORY_LOST,
                     "Oplog no longer has history necessary for $changeStream to observe "
                     "operations from a committed transaction.");

    op->err->labels |= LABEL_NON_RESUMABLE_CHANGE_STREAM;
    return rc;
}

static int load_chain(struct unwind *u, struct oplog *o, struct op *op, uint64_t prev)
{
    uint64_t last = u->head.optime;

    while (prev != 0) {
        struct oplog_row row;
        struct bv entry = BV_NONE, ops;

        TRY_RETURN(op_check(op));
        if (prev < last)
            TRY_RETURN(oplog_get(o, op, prev, &u->arena, &entry));
        if (bv_is_missing(entry) || !oplog_parse(entry, &row))
            return history_lost(op);
        ops = bv_get(row.o, "applyOps");
        if (ops.type != BV_ARRAY)
            return history_lost(op);
        prepend(u, prev, ops);
        last = prev;
        prev = row.prev_optime;
    }
    return 0;
}

static void begin_part(struct unwind *u)
{
    u->at = 0;
    if (u->part != NULL)
        u->it = biter(u->part->ops);
}

int unwind_open(struct unwind *u, struct oplog *o, struct op *op, const struct oplog_row *row)
{
    struct bv ops = bv_get(row->o, "applyOps");
    int64_t multi = 0;

    memset(u, 0, sizeof(*u));
    arena_init(&u->arena);
    u->head = *row;
    (void)bv_to_i64(bv_get(row->entry, "multiOpType"), &multi);
    u->in_txn = !bv_is_missing(row->lsid) && multi != VECTORED_INSERT;
    if (ops.type == BV_ARRAY)
        prepend(u, row->optime, ops);
    if (u->in_txn)
        TRY_RETURN(load_chain(u, o, op, row->prev_optime));
    begin_part(u);
    return 0;
}

/* Makes the operation look like an entry of its own. */
static bool change_of(struct unwind *u, struct bv inner, struct change *ret)
{
    struct bv op = bv_get(inner, "op"), ns = bv_get(inner, "ns"), o = bv_get(inner, "o");
    struct bv ui = bv_get(inner, "ui"), o2 = bv_get(inner, "o2");
    struct oplog_row *row = &ret->row;

    if (op.type != BV_STRING || ns.type != BV_STRING || o.type != BV_DOC)
        return false;
    *row = u->head;
    row->op = bv_str(op, NULL)[0];
    row->ns = bv_str(ns, &row->ns_len);
    row->o = o;
    row->ui = ui.type == BV_BINARY ? ui : BV_NONE;
    row->o2 = o2.type == BV_DOC ? o2 : BV_NONE;
    row->prev_optime = 0;
    ret->in_txn = u->in_txn;
    return true;
}

bool unwind_next(struct unwind *u, struct change *ret)
{
    struct belem e;

    while (u->part != NULL) {
        if (!biter_next(&u->it, &e)) {
            u->part = u->part->next;
            begin_part(u);
            continue;
        }
        *ret = (struct change){
            .txn_op_index = u->index++, .image_optime = u->part->optime, .image_index = u->at++};
        if (change_of(u, e.v, ret))
            return true;
    }
    return false;
}

void unwind_close(struct unwind *u)
{
    u->part = NULL;
    arena_fini(&u->arena);
}
