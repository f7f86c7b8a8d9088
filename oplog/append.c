/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Committing a change with its entries.
 *
 * All that takes time (encoding, copying for the ring) comes before the optimes are taken; between
 * horizon_begin() and horizon_end() there are only the inserts and the commit, and every way out
 * leads through horizon_end(). Rows written there are keyed by the optime or belong to the session
 * alone, so they cannot conflict.
 */
#include "oplog/append.h"

#include "base/clock.h"
#include "base/fault.h"
#include "oplog/oplog_internal.h"
#include "storage/table_write.h"

/* One commit. */
struct append {
    struct oplog *o;
    struct op *op;
    struct stx *t;
    const struct oplog_op *ops;
    size_t n;
    int64_t wall_ms;
    struct ring_chain entries; /* copies, in order; ours until horizon_end() */
    uint32_t *ts_offsets;
    struct ns_hashes *hashes; /* of each op */
    int (*extra)(void *arg, struct stx *t, uint64_t first);
    void *arg;
};

static int encode_all(struct append *a)
{
    struct ring_entry *e;
    struct bv doc;

    a->ts_offsets = ARENA_TRY_ARRAY(&a->op->arena, uint32_t, a->n);
    a->hashes = ARENA_TRY_ARRAY(&a->op->arena, struct ns_hashes, a->n);
    if (a->ts_offsets == NULL || a->hashes == NULL)
        return op_no_memory(a->op);
    for (size_t i = 0; i < a->n; i++) {
        TRY_RETURN(
            oplog_encode(a->op, &a->ops[i], a->o->term, a->wall_ms, &doc, &a->ts_offsets[i]));
        e = ring_entry_new(doc);
        if (e == NULL)
            return op_fail(a->op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory for an oplog entry");
        a->hashes[i] = e->row.hashes;
        ring_chain_add(&a->entries, e);
    }
    return 0;
}

static bool same_session(const struct oplog_op *a, const struct oplog_op *b)
{
    return !bv_is_missing(a->lsid) && bv_identical(a->lsid, b->lsid);
}

static void patch_all(struct append *a, uint64_t first)
{
    struct ring_entry *e = a->entries.first;

    for (size_t i = 0; i < a->n; i++, e = e->next) {
        bool chained = i > 0 && same_session(&a->ops[i - 1], &a->ops[i]);
        uint64_t prev = chained ? first + i - 1 : 0;

        oplog_patch(e->bytes, e->len, a->ts_offsets[i], first + i, prev, a->o->term);
        e->row.optime = first + i;
        if (chained)
            e->row.prev_optime = prev;
    }
}

static int insert_rows(struct append *a)
{
    struct tcursor *c;
    int rc = 0;

    TRY_RETURN(tcursor_open(a->t, TABLE_OPLOG, TABLE_OPTIMES, &c));
    for (struct ring_entry *e = a->entries.first; e != NULL && rc == 0; e = e->next) {
        FAULT(OPLOG_ROW);
        rc = tcursor_insert_num(c, e->row.optime, (struct bytes){e->bytes, e->len});
    }
    tcursor_close(c);
    return rc;
}

static int insert_images(struct append *a, uint64_t first)
{
    struct tcursor *c = NULL;
    int rc = 0;

    for (size_t i = 0; i < a->n && rc == 0; i++) {
        const struct oplog_op *src = &a->ops[i];

        if (bv_is_missing(src->pre_image) && src->nimages == 0)
            continue;
        if (c == NULL)
            TRY(tcursor_open(a->t, TABLE_IMAGES, TABLE_BYTES, &c));
        if (!bv_is_missing(src->pre_image))
            TRY(image_put(c, a->op, first + i, 0, src->uuid, src->pre_image, a->wall_ms));
        for (size_t j = 0; j < src->nimages && rc == 0; j++)
            rc = image_put(c, a->op, first + i, src->images[j].index, src->images[j].uuid,
                           src->images[j].doc, a->wall_ms);
    }
fail:
    tcursor_close(c);
    return rc;
}

static int fault_error(struct append *a, int rc)
{
    return rc == 0 ? 0 : op_fail(a->op, rc, "fault point in a commit");
}

/* Everything between taking the optimes and the commit. */
static int write_rows(struct append *a, uint64_t first)
{
    TRY_RETURN(fault_error(a, FAULT_ERROR(OPTIME_TAKEN)));
    if (!a->o->hidden) {
        patch_all(a, first);
        TRY_RETURN(insert_rows(a));
        TRY_RETURN(insert_images(a, first));
    }
    if (a->extra != NULL)
        TRY_RETURN(a->extra(a->arg, a->t, first));
    return fault_error(a, FAULT_ERROR(COMMIT_BEFORE));
}

int oplog_commit_counted(struct oplog *o, struct stx *t)
{
    int rc;

    atomic_fetch_add(&o->began, 1);
    rc = stx_commit(t);
    atomic_fetch_add(&o->ended, 1);
    flusher_note(o);
    return rc;
}

static int commit_plain(struct append *a)
{
    int rc = a->extra == NULL ? 0 : a->extra(a->arg, a->t, 0);

    if (rc == 0)
        return oplog_commit_counted(a->o, a->t);
    stx_rollback(a->t);
    return rc;
}

/* The entries concern somebody who waits for the durable horizon (trap T4). Looked up by what the
 * caller gave, since the copies belong to the ring by now. */
static void ask_for_watchers(struct append *a, uint64_t last)
{
    struct oplog *o = a->o;

    if (o->hidden || atomic_load(&o->hub.streams) == 0)
        return;
    for (size_t i = 0; i < a->n; i++) {
        const struct oplog_op *src = &a->ops[i];
        struct oplog_row row = {.op = src->op, .ns = src->ns, .o = src->o, .hashes = a->hashes[i]};

        if (i > 0 && row.hashes.ns != 0 && row.hashes.ns == a->hashes[i - 1].ns)
            continue;
        row.prev_optime = i > 0 && same_session(&a->ops[i - 1], src) ? last : src->prev_optime;
        if (hub_wants(&o->hub, &row)) {
            flusher_want(o, last);
            return;
        }
    }
}

static void raise(uint64_t *x, uint64_t to)
{
    if (*x < to)
        *x = to;
}

static int commit_with_optimes(struct append *a, uint64_t *ret_first)
{
    uint64_t slot, first = horizon_begin(&a->o->horizon, a->n, &slot);
    uint64_t last = first + a->n - 1;
    bool moved;
    int rc;

    if (first == 0) {
        ring_chain_drop(&a->entries);
        return INT_NO_OPTIME;
    }
    rc = write_rows(a, first);
    if (rc == 0) {
        rc = oplog_commit_counted(a->o, a->t);
        FAULT(COMMIT_AFTER);
    } else {
        stx_rollback(a->t);
    }
    moved = horizon_end(&a->o->horizon, slot, rc == 0 ? &a->entries : NULL);
    if (moved)
        oplog_moved(a->o);
    if (rc != 0) {
        ring_chain_drop(&a->entries);
        return rc;
    }
    ask_for_watchers(a, last);
    atomic_fetch_add_explicit(&a->o->commits, 1, memory_order_relaxed);
    raise(&a->op->wrote_optime, last);
    raise(&a->op->ack_visible, last);
    *ret_first = first;
    return 0;
}

int oplog_commit_held(struct oplog *o, struct op *op, struct stx *t, const struct oplog_op *ops,
                      size_t n, int (*extra)(void *arg, struct stx *t, uint64_t first), void *arg,
                      uint64_t *ret_first)
{
    struct append a = {.o = o, .op = op, .t = t, .ops = ops, .n = n, .extra = extra, .arg = arg};
    int rc;

    if (n == 0) {
        *ret_first = 0;
        return commit_plain(&a);
    }
    a.wall_ms = clock_wall_ms();
    if (o->hidden)
        TRY(oplog_mark_void(o, op));
    else
        TRY(encode_all(&a));
    return commit_with_optimes(&a, ret_first);
fail:
    ring_chain_drop(&a.entries);
    stx_rollback(t);
    return rc;
}

int oplog_commit(struct oplog *o, struct op *op, struct stx *t, const struct oplog_op *ops,
                 size_t n, int (*extra)(void *arg, struct stx *t, uint64_t first), void *arg,
                 uint64_t *ret_first)
{
    bool internal = op->waiter.wake == NULL;
    int rc;

    while ((rc = oplog_commit_held(o, op, t, ops, n, extra, arg, ret_first)) == INT_NO_OPTIME) {
        if (!internal)
            stx_rollback(t);
        rc = oplog_wait_room(o, op);
        if (!internal)
            return rc == 0 ? ERR_WRITE_CONFLICT : rc;
        if (rc != 0) {
            stx_rollback(t);
            return rc;
        }
    }
    return rc;
}
