/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Changing a record with its index keys.
 *
 * All keys are expanded before anything is written, so that a document that cannot be indexed
 * leaves the transaction as it was. Then the new keys of unique indexes go first: WiredTiger has no
 * savepoints, and a duplicate met there needs nothing undone but those keys. An update touches only
 * what differs: keys that both versions have stay, or get new type bits.
 */
#include "storage/record_write.h"

#include "storage/engine_internal.h"
#include "storage/index_keys.h"
#include "storage/table_write.h"

/* What happens to one index. The sets share the bytes of the expanded ones. */
struct index_change {
    const struct index *ix;
    struct key_set add, drop;
    struct key_set retype; /* stays, but the type bits differ */
};

struct change {
    struct stx *t;
    struct coll *k;
    struct arena *arena; /* the session's scratch */
    int64_t rid;
    struct index_change *indexes; /* as many as the collection has */
};

/* --- what differs -------------------------------------------------------------------------- */

static int bytes_cmp(struct bytes a, struct bytes b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int cmp = n == 0 ? 0 : memcmp(a.p, b.p, n);

    return cmp != 0 ? cmp : (a.len > b.len) - (a.len < b.len);
}

static struct key_set room_for(struct arena *a, size_t n)
{
    return (struct key_set){.keys = ARENA_ARRAY(a, struct bytes, n),
                            .type_bits = ARENA_ARRAY(a, struct bytes, n)};
}

static void move_key(struct key_set *to, const struct key_set *from, size_t i)
{
    to->keys[to->n] = from->keys[i];
    to->type_bits[to->n++] = from->type_bits[i];
}

/* Both sets are sorted. */
static void compare_sets(struct arena *a, const struct key_set *old, const struct key_set *now,
                         struct index_change *ret)
{
    size_t i = 0, j = 0;

    ret->drop = room_for(a, old->n);
    ret->add = room_for(a, now->n);
    ret->retype = room_for(a, now->n);
    while (i < old->n || j < now->n) {
        int cmp = i == old->n ? 1 : j == now->n ? -1 : bytes_cmp(old->keys[i], now->keys[j]);

        if (cmp < 0) {
            move_key(&ret->drop, old, i++);
        } else if (cmp > 0) {
            move_key(&ret->add, now, j++);
        } else {
            if (bytes_cmp(old->type_bits[i], now->type_bits[j]) != 0)
                move_key(&ret->retype, now, j);
            i++;
            j++;
        }
    }
}

/* old or now may be BV_NONE. */
static int prepare(struct stx *t, struct coll *k, int64_t rid, struct bv old, struct bv now,
                   struct change *ret)
{
    struct arena *a = stx_scratch(t);
    struct change c = {.t = t, .k = k, .arena = a, .rid = rid};

    c.indexes = ARENA_ARRAY(a, struct index_change, k->nindexes);
    for (uint32_t i = 0; i < k->nindexes; i++) {
        const struct index *ix = &k->indexes[i];
        struct key_set old_set = {0}, now_set = {0};

        c.indexes[i].ix = ix;
        if (!bv_is_missing(old))
            TRY_RETURN(index_keys_in(stx_op(t), a, ix, old, &old_set));
        if (!bv_is_missing(now))
            TRY_RETURN(index_keys_in(stx_op(t), a, ix, now, &now_set));
        if (now_set.multikey && !index_is_multikey(ix))
            TRY_RETURN(index_set_multikey(stx_engine(t), stx_op(t), ix));
        if (old_set.n == 0)
            c.indexes[i].add = now_set;
        else if (now_set.n == 0)
            c.indexes[i].drop = old_set;
        else
            compare_sets(a, &old_set, &now_set, &c.indexes[i]);
    }
    *ret = c;
    return 0;
}

/* --- rows of index tables ------------------------------------------------------------------ */

static struct bytes joined(struct change *c, struct bytes a, struct bytes b)
{
    uint8_t *p = arena_alloc(c->arena, a.len + b.len);

    if (a.len > 0)
        memcpy(p, a.p, a.len);
    if (b.len > 0)
        memcpy(p + a.len, b.p, b.len);
    return (struct bytes){p, a.len + b.len};
}

static struct bytes entry_key(struct change *c, const struct index *ix, struct bytes key)
{
    uint8_t rid[RID_BYTES];

    if (ix->unique)
        return key;
    rid_encode(c->rid, rid);
    return joined(c, key, (struct bytes){rid, sizeof(rid)});
}

static struct bytes entry_value(struct change *c, const struct index *ix, struct bytes type_bits)
{
    uint8_t rid[RID_BYTES];

    if (!ix->unique)
        return type_bits;
    rid_encode(c->rid, rid);
    return joined(c, (struct bytes){rid, sizeof(rid)}, type_bits);
}

/* *ret_done: how many keys were inserted, also on failure. */
static int insert_keys(struct change *c, const struct index_change *ch, size_t *ret_done)
{
    const struct key_set *set = &ch->add;
    struct tcursor *cursor;
    int rc = 0;

    *ret_done = 0;
    if (set->n == 0)
        return 0;
    TRY_RETURN(tcursor_open(c->t, ch->ix->ident, TABLE_BYTES, &cursor));
    for (; rc == 0 && *ret_done < set->n; *ret_done += rc == 0) {
        size_t i = *ret_done;

        rc = tcursor_insert(cursor, entry_key(c, ch->ix, set->keys[i]),
                            entry_value(c, ch->ix, set->type_bits[i]));
    }
    tcursor_close(cursor);
    return rc;
}

static int remove_keys(struct change *c, const struct index *ix, const struct key_set *set,
                       size_t n)
{
    struct tcursor *cursor;
    int rc = 0;

    if (n == 0)
        return 0;
    TRY_RETURN(tcursor_open(c->t, ix->ident, TABLE_BYTES, &cursor));
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = tcursor_remove(cursor, entry_key(c, ix, set->keys[i]), NULL);
    tcursor_close(cursor);
    return rc;
}

static int retype_keys(struct change *c, const struct index_change *ch)
{
    const struct key_set *set = &ch->retype;
    struct tcursor *cursor;
    int rc = 0;

    if (set->n == 0)
        return 0;
    TRY_RETURN(tcursor_open(c->t, ch->ix->ident, TABLE_BYTES, &cursor));
    for (size_t i = 0; rc == 0 && i < set->n; i++)
        rc = tcursor_put(cursor, entry_key(c, ch->ix, set->keys[i]),
                         entry_value(c, ch->ix, set->type_bits[i]));
    tcursor_close(cursor);
    return rc;
}

/* --- applying ------------------------------------------------------------------------------ */

/* Takes back the unique keys of all indexes before `at`, and the first `done` of that one. */
static int undo_unique(struct change *c, uint32_t at, size_t done)
{
    TRY_RETURN(remove_keys(c, c->indexes[at].ix, &c->indexes[at].add, done));
    while (at-- > 0) {
        if (c->indexes[at].ix->unique)
            TRY_RETURN(
                remove_keys(c, c->indexes[at].ix, &c->indexes[at].add, c->indexes[at].add.n));
    }
    return 0;
}

static int insert_unique(struct change *c)
{
    for (uint32_t i = 0; i < c->k->nindexes; i++) {
        const struct index_change *ch = &c->indexes[i];
        size_t done;
        int rc;

        if (!ch->ix->unique)
            continue;
        rc = insert_keys(c, ch, &done);
        if (rc == ERR_DUPLICATE_KEY) {
            TRY_RETURN(undo_unique(c, i, done));
            return index_duplicate(stx_op(c->t), c->k, ch->ix, ch->add.keys[done],
                                   ch->add.type_bits[done]);
        }
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int apply_rest(struct change *c)
{
    for (uint32_t i = 0; i < c->k->nindexes; i++) {
        const struct index_change *ch = &c->indexes[i];
        size_t done;

        if (!ch->ix->unique)
            TRY_RETURN(insert_keys(c, ch, &done));
        TRY_RETURN(remove_keys(c, ch->ix, &ch->drop, ch->drop.n));
        TRY_RETURN(retype_keys(c, ch));
    }
    return 0;
}

static int write_record(struct change *c, struct bv doc)
{
    struct tcursor *cursor;
    int rc;

    TRY_RETURN(tcursor_open(c->t, c->k->ident, TABLE_RECORDS, &cursor));
    rc = tcursor_put_num(cursor, (uint64_t)c->rid, (struct bytes){doc.p, doc.len});
    tcursor_close(cursor);
    return rc;
}

/* Refuses a write while there is space to keep what was written. */
static int check_disk(struct stx *t, bool grows)
{
    return disk_watch_check(stx_engine(t)->disk, stx_op(t)->err, grows);
}

int record_insert(struct stx *t, struct coll *k, struct bv doc, int64_t *ret_rid)
{
    int64_t rid = atomic_fetch_add(&k->counters->next_rid, 1);
    struct change c;

    TRY_RETURN(check_disk(t, true));
    TRY_RETURN(prepare(t, k, rid, BV_NONE, doc, &c));
    TRY_RETURN(insert_unique(&c));
    TRY_RETURN(write_record(&c, doc));
    TRY_RETURN(apply_rest(&c));
    *ret_rid = rid;
    return 0;
}

int record_update(struct stx *t, struct coll *k, int64_t rid, struct bv old_doc, struct bv new_doc)
{
    struct change c;

    TRY_RETURN(check_disk(t, new_doc.len > old_doc.len));
    TRY_RETURN(prepare(t, k, rid, old_doc, new_doc, &c));
    TRY_RETURN(insert_unique(&c));
    TRY_RETURN(write_record(&c, new_doc));
    return apply_rest(&c);
}

int record_delete(struct stx *t, struct coll *k, int64_t rid, struct bv old_doc)
{
    struct tcursor *cursor;
    struct change c;
    bool found;
    int rc;

    TRY_RETURN(check_disk(t, false));
    TRY_RETURN(prepare(t, k, rid, old_doc, BV_NONE, &c));
    TRY_RETURN(tcursor_open(t, k->ident, TABLE_RECORDS, &cursor));
    rc = tcursor_remove_num(cursor, (uint64_t)rid, &found);
    tcursor_close(cursor);
    TRY_RETURN(rc);
    if (!found)
        return op_fail(stx_op(t), ERR_INTERNAL, "%s has no record %lld to delete", k->ns,
                       (long long)rid);
    return apply_rest(&c);
}

void coll_count_add(struct coll *k, int64_t docs, int64_t bytes)
{
    atomic_fetch_add_explicit(&k->counters->count, docs, memory_order_relaxed);
    atomic_fetch_add_explicit(&k->counters->bytes, bytes, memory_order_relaxed);
}
