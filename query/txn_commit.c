/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a transaction has done, as its oplog entries will tell it: collecting the operations,
 * packing them into applyOps entries, committing.
 *
 * One entry holds up to LIMIT_DOC_BYTES of operations (a single one may be larger) and as many as
 * the parameter maxNumberOfTransactionOperationsInSingleOplogEntry says. More make a chain, in the
 * order of execution, each entry with the optime of the one before in prevOpTime:
 *     o: {applyOps: [...], partialTxn: true}     all but the last
 *     o: {applyOps: [...], count: long}          the last of a chain; count of the whole
 *     o: {applyOps: [...]}                       the only one
 */
#include <stdlib.h>

#include "base/fault.h"
#include "base/limits.h"
#include "base/mem.h"
#include "oplog/append.h"
#include "oplog/retry.h"
#include "query/ddl_internal.h"
#include "query/txn_internal.h"
#include "storage/record_write.h"

/* --- collecting ------------------------------------------------------------------------------ */

/* {op, ns, ui, o, o2}, in the arena; BV_NONE when memory is out. */
static struct bv encode_op(struct arena *a, const struct oplog_op *src)
{
    const char kind[2] = {src->op, '\0'};
    struct bw w;

    bw_init(&w, a);
    bw_str(&w, "op", kind);
    bw_str(&w, "ns", src->ns);
    if (src->uuid != NULL)
        bw_uuid(&w, "ui", src->uuid);
    bw_bv(&w, "o", src->o);
    bw_bv(&w, "o2", src->o2);
    return bw_done(&w);
}

/* A copy in memory of the transaction; BV_NONE when memory is out. */
static struct bv keep(struct txn *t, struct bv doc)
{
    uint8_t *p = arena_try(&t->arena, doc.len);

    if (p == NULL)
        return BV_NONE;
    memcpy(p, doc.p, doc.len);
    t->bytes += doc.len;
    return (struct bv){p, doc.len, doc.type};
}

static struct txn_op *new_op(struct txn *t)
{
    if (t->nops == t->cap) {
        size_t cap = t->cap == 0 ? 16 : t->cap * 2;
        struct txn_op *grown = mem_try_resize(t->ops, cap * sizeof(*grown));

        if (grown == NULL)
            return NULL;
        t->ops = grown;
        t->cap = cap;
    }
    return &t->ops[t->nops];
}

static int add_op(struct txn *t, struct op *op, struct arena *a, const struct oplog_op *src)
{
    struct bv doc = encode_op(a, src);
    struct txn_op *to = new_op(t);

    if (t->bytes + doc.len + src->pre_image.len > LIMIT_TXN_BYTES)
        return op_fail(op, ERR_TRANSACTION_TOO_LARGE,
                       "Total size of all transaction operations must be less than %d",
                       LIMIT_TXN_BYTES);
    if (to != NULL && !bv_is_missing(doc)) {
        *to = (struct txn_op){.doc = keep(t, doc), .pre_image = BV_NONE};
        if (!bv_is_missing(src->pre_image)) {
            to->pre_image = keep(t, src->pre_image);
            to->uuid = arena_dup(&t->arena, src->uuid, 16);
        }
    }
    if (to == NULL || bv_is_missing(to->doc) ||
        bv_is_missing(to->pre_image) != bv_is_missing(src->pre_image))
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT,
                       "out of memory for the operations of a transaction");
    if (t->nops++ == 0)
        atomic_fetch_add(&t->db->txns->writing, 1);
    return 0;
}

int txn_add_ops(struct txn *t, struct op *op, const struct oplog_op *ops, size_t n)
{
    struct arena a;
    int rc = 0;

    arena_init(&a);
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = add_op(t, op, &a, &ops[i]);
        arena_reset(&a);
    }
    arena_fini(&a);
    return rc;
}

void txn_count(struct txn *t, const char *ns, int64_t docs, int64_t bytes)
{
    struct txn_coll *c = t->colls;

    while (c != NULL && strcmp(c->ns, ns) != 0)
        c = c->next;
    ASSERT(c != NULL);
    c->docs += docs;
    c->bytes += bytes;
}

/* --- packing --------------------------------------------------------------------------------- */

struct commit {
    struct txn *t;
    struct op *op;
    struct oplog_op *entries;
    size_t n;
};

/* Bytes of an array element with this position and value. */
static size_t element_bytes(size_t position, uint32_t value)
{
    size_t digits = 1;

    while (position >= 10) {
        position /= 10;
        digits++;
    }
    return 1 + digits + 1 + value;
}

/* How many of the operations from `from` on go into one entry. */
static size_t part_size(const struct txn *t, size_t from, int64_t most)
{
    size_t n = 0, bytes = 4; /* the array's length */

    while (from + n < t->nops && (int64_t)n < most) {
        uint32_t len = t->ops[from + n].doc.len;

        if (n > 0 && bytes + len > LIMIT_DOC_BYTES)
            break;
        bytes += element_bytes(n, len);
        n++;
    }
    return n;
}

/* The `o` of the entry that holds n operations. */
static struct bv part_doc(struct commit *c, size_t from, size_t n)
{
    const struct txn *t = c->t;
    struct bw w;

    bw_init(&w, &c->op->arena);
    bw_arr_begin(&w, "applyOps");
    for (size_t i = 0; i < n; i++)
        bw_bv(&w, NULL, t->ops[from + i].doc);
    bw_end(&w);
    if (from + n < t->nops)
        bw_bool(&w, "partialTxn", true);
    else if (from > 0)
        bw_i64(&w, "count", (int64_t)t->nops);
    return bw_done(&w);
}

static int part_images(struct commit *c, size_t from, size_t n, struct oplog_op *entry)
{
    struct oplog_image *images = ARENA_TRY_ARRAY(&c->op->arena, struct oplog_image, n);
    size_t nimages = 0;

    if (images == NULL)
        return op_no_memory(c->op);
    for (size_t i = 0; i < n; i++) {
        const struct txn_op *o = &c->t->ops[from + i];

        if (!bv_is_missing(o->pre_image))
            images[nimages++] = (struct oplog_image){(int64_t)i, o->uuid, o->pre_image};
    }
    entry->images = images;
    entry->nimages = nimages;
    return 0;
}

static size_t count_parts(const struct txn *t, int64_t most)
{
    size_t n = 0;

    for (size_t from = 0; from < t->nops; from += part_size(t, from, most))
        n++;
    return n;
}

static int pack(struct commit *c)
{
    struct txn *t = c->t;
    int64_t most = atomic_load(&t->db->txns->entry_ops);

    c->entries = ARENA_TRY_ARRAY(&c->op->arena, struct oplog_op, count_parts(t, most));
    if (c->entries == NULL)
        return op_no_memory(c->op);
    for (size_t from = 0; from < t->nops;) {
        size_t n = part_size(t, from, most);
        struct oplog_op *e = &c->entries[c->n++];

        *e = (struct oplog_op){.op = 'c',
                               .ns = "admin.$cmd",
                               .o = part_doc(c, from, n),
                               .o2 = BV_NONE,
                               .pre_image = BV_NONE,
                               .lsid = t->lsid,
                               .txn_number = t->number,
                               .stmt_id = -1};
        if (bv_is_missing(e->o))
            return op_fail(c->op, ERR_EXCEEDED_MEMORY_LIMIT,
                           "out of memory for the oplog entry of a transaction");
        TRY_RETURN(part_images(c, from, n, e));
        from += n;
    }
    return 0;
}

/* --- committing ------------------------------------------------------------------------------ */

/* The session's row, with the optime of the last entry. */
static int store_state(void *arg, struct stx *stx, uint64_t first)
{
    struct commit *c = arg;
    uint64_t last = first + c->n - 1;
    struct retry_record r = {.found = true,
                             .txn_number = c->t->number,
                             .optime = last,
                             .term = oplog_term(c->t->db->oplog),
                             .date_ms = (int64_t)(last >> 32) * 1000,
                             .committed = true};

    return retry_store(stx, c->t->lsid, &r);
}

/* Everything that may conflict or fail comes before the optimes are taken. May be done again. */
static int prepare(struct commit *c)
{
    for (struct txn_coll *k = c->t->colls; k != NULL; k = k->next) {
        if (k->created)
            TRY_RETURN(ddl_put_created(c->op, c->t->stx, k->k));
    }
    TRY_RETURN(pack(c));
    FAULT(TXN_COMMIT_BEFORE);
    return 0;
}

/* The transaction is in the data; now what memory knows. */
static void publish(struct txn *t, uint64_t optime)
{
    for (struct txn_coll *c = t->colls; c != NULL; c = c->next) {
        if (c->created)
            ddl_publish_created(t->db, c->k, optime);
        if (c->k != NULL)
            coll_count_add(c->k, c->docs, c->bytes);
    }
}

/* INT_PARK leaves the transaction as it is. */
static int commit_or_wait(struct commit *c, uint64_t *ret_first)
{
    struct txn *t = c->t;
    int rc;

    do {
        rc = oplog_commit_held(t->db->oplog, c->op, t->stx, c->entries, c->n, store_state, c,
                               ret_first);
        if (rc != INT_NO_OPTIME)
            return rc;
        rc = oplog_wait_room(t->db->oplog, c->op);
    } while (rc == 0);
    if (rc != INT_PARK)
        stx_rollback(t->stx);
    return rc;
}

int txn_commit(struct txn *t, struct op *op, uint64_t *ret_optime)
{
    struct commit c = {.t = t, .op = op};
    uint64_t first = 0;
    int rc;

    ASSERT(op->txn == t);
    *ret_optime = 0;
    if (t->nops == 0) {
        txn_leave(op);
        txn_abort(t);
        return 0;
    }
    rc = prepare(&c);
    if (rc != 0) {
        txn_leave(op);
        txn_abort(t);
        return rc;
    }
    rc = commit_or_wait(&c, &first);
    if (rc == INT_PARK)
        return rc;
    rc = txn_write_error(op, rc);
    op->txn = NULL;
    t->stx = NULL;
    if (rc != 0) {
        txn_abort(t);
        return rc;
    }
    FAULT(TXN_COMMIT_AFTER);
    *ret_optime = first + c.n - 1;
    publish(t, *ret_optime);
    txn_release(t);
    return 0;
}
