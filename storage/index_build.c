/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Scans of whole collections that write: filling a new index, counting again.
 *
 * A build runs under the collection's exclusive lock (trap T12), in transactions of some hundred
 * records each: one transaction for all would pin every page it dirties in the cache. A build that
 * is cut short leaves a table that no catalog row names; start-up sweeps it.
 */
#include "base/fault.h"
#include "storage/engine_internal.h"
#include "storage/index_keys.h"
#include "storage/record_write.h"
#include "storage/table_write.h"

#define BATCH_RECORDS 500
#define BATCH_BYTES   (8u << 20)
/* Nobody else writes here: a conflict is WiredTiger making room in its cache. */
#define BATCH_TRIES 20

struct build {
    struct engine *engine;
    struct op *op;
    struct coll *k;
    struct index *ix;
    struct arena arena; /* of one record */
    uint64_t from;      /* next record id to look at */
    bool done;
};

static int insert_entry(struct build *b, struct tcursor *out, int64_t rid, struct bytes key,
                        struct bytes type_bits)
{
    size_t len = (b->ix->unique ? type_bits.len : key.len) + RID_BYTES;
    uint8_t *p = arena_try(&b->arena, len);
    int rc;

    if (p == NULL)
        return op_fail(b->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for a key of index %s",
                       b->ix->name);
    if (!b->ix->unique) {
        memcpy(p, key.p, key.len);
        rid_encode(rid, p + key.len);
        return tcursor_insert(out, (struct bytes){p, len}, type_bits);
    }
    rid_encode(rid, p);
    if (type_bits.len > 0)
        memcpy(p + RID_BYTES, type_bits.p, type_bits.len);
    rc = tcursor_insert(out, key, (struct bytes){p, len});
    return rc == ERR_DUPLICATE_KEY ? index_duplicate(b->op, b->k, b->ix, key, type_bits) : rc;
}

static int index_record(struct build *b, struct tcursor *out, int64_t rid, struct bv doc)
{
    struct key_set set;

    arena_reset(&b->arena);
    TRY_RETURN(index_keys_in(b->op, &b->arena, b->ix, doc, &set));
    if (set.multikey && !index_is_multikey(b->ix))
        TRY_RETURN(index_set_multikey(b->engine, b->op, b->ix));
    for (size_t i = 0; i < set.n; i++)
        TRY_RETURN(insert_entry(b, out, rid, set.keys[i], set.type_bits[i]));
    return 0;
}

/* b->from and b->done move only when the batch is committed. */
static int build_batch(struct build *b)
{
    struct tcursor *records = NULL, *out = NULL;
    uint64_t next = b->from;
    size_t bytes = 0;
    struct stx *t;
    bool found;
    int rc;

    TRY_RETURN(stx_begin(b->engine, b->op, &t));
    TRY(tcursor_open(t, b->k->ident, TABLE_RECORDS, &records));
    TRY(tcursor_open(t, b->ix->ident, TABLE_BYTES, &out));
    TRY(tcursor_seek_num(records, b->from, SEEK_GE, &found));
    for (int n = 0; found && n < BATCH_RECORDS && bytes < BATCH_BYTES; n++) {
        struct bytes value = tcursor_value(records);

        TRY(index_record(b, out, (int64_t)tcursor_num(records), bv_doc(value.p)));
        bytes += value.len;
        next = tcursor_num(records) + 1;
        TRY(tcursor_next(records, &found));
    }
    tcursor_close(records);
    tcursor_close(out);
    FAULT(INDEX_BUILD_SCAN);
    TRY_RETURN(stx_commit(t));
    b->from = next;
    b->done = !found;
    return 0;
fail:
    tcursor_close(records);
    tcursor_close(out);
    stx_rollback(t);
    return rc;
}

int index_build(struct engine *e, struct op *op, struct coll *k, struct index *ix)
{
    struct build b = {.engine = e, .op = op, .k = k, .ix = ix};
    int tries = 0, rc = 0;

    arena_init(&b.arena);
    while (rc == 0 && !b.done) {
        rc = op_check(op);
        if (rc == 0)
            rc = disk_watch_check(e->disk, op->err, true);
        if (rc == 0)
            rc = build_batch(&b);
        if (rc == 0)
            tries = 0;
        else if (rc == ERR_WRITE_CONFLICT && ++tries < BATCH_TRIES)
            rc = 0;
    }
    arena_fini(&b.arena);
    return rc;
}

int coll_recount(struct engine *e, struct op *op, struct coll *k)
{
    int64_t count = 0, bytes = 0;
    uint64_t last = 0;
    struct tcursor *c = NULL;
    struct stx *t;
    bool found;
    int rc;

    TRY_RETURN(stx_begin(e, op, &t));
    TRY(tcursor_open(t, k->ident, TABLE_RECORDS, &c));
    TRY(tcursor_first(c, &found));
    while (found) {
        count++;
        bytes += (int64_t)tcursor_value(c).len;
        last = tcursor_num(c);
        if (count % 1000 == 0)
            TRY(op_check(op));
        TRY(tcursor_next(c, &found));
    }
    atomic_store(&k->counters->count, count);
    atomic_store(&k->counters->bytes, bytes);
    if (atomic_load(&k->counters->next_rid) <= (int64_t)last)
        atomic_store(&k->counters->next_rid, (int64_t)last + 1);
fail:
    tcursor_close(c);
    stx_rollback(t);
    return rc;
}
