/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Segments on disk. A row is written after all entries of its segment have committed, so
 * WiredTiger's log holds it behind them: a row that survives a crash describes entries that
 * survived too.
 */
#include <stdlib.h>

#include "base/fault.h"
#include "base/mem.h"
#include "oplog/oplog_internal.h"
#include "storage/table_write.h"

/* --- rows ---------------------------------------------------------------------------------- */

static struct bv encode(struct arena *a, const struct segment *g)
{
    struct bw w;

    bw_init(&w, a);
    bw_ts(&w, "last", g->last);
    bw_i64(&w, "count", g->count);
    bw_i64(&w, "bytes", g->bytes);
    bw_date(&w, "wall", g->wall_ms);
    bw_bool(&w, "any", g->any);
    bw_bin(&w, "names", 0, g->names, g->nnames * sizeof(uint64_t));
    return bw_done(&w);
}

/* A heap segment; NULL for a row that is not one. */
static struct segment *decode(uint64_t first, struct bytes value)
{
    struct bv doc, last, count, bytes, wall, any, names;
    struct segment *g;
    uint32_t len;

    if (value.len < 5 || (doc = bv_doc(value.p)).len != value.len)
        return NULL;
    last = bv_get(doc, "last");
    count = bv_get(doc, "count");
    bytes = bv_get(doc, "bytes");
    wall = bv_get(doc, "wall");
    any = bv_get(doc, "any");
    names = bv_get(doc, "names");
    if (last.type != BV_TIMESTAMP || count.type != BV_INT64 || bytes.type != BV_INT64 ||
        wall.type != BV_DATE || any.type != BV_BOOL || names.type != BV_BINARY)
        return NULL;
    g = mem_must_zero(1, sizeof(*g));
    g->first = first;
    g->last = bv_ts(last);
    g->count = bv_i64(count);
    g->bytes = bv_i64(bytes);
    g->wall_ms = bv_i64(wall);
    g->any = bv_bool(any);
    g->stored = true;
    (void)bv_bin(names, &len, NULL);
    g->nnames = len / (uint32_t)sizeof(uint64_t);
    if (g->nnames > 0) {
        g->names = mem_must(len);
        memcpy(g->names, bv_bin(names, &len, NULL), g->nnames * sizeof(uint64_t));
    }
    return g;
}

static int put_row(struct tcursor *c, struct arena *a, const struct segment *g)
{
    struct bv doc = encode(a, g);

    return tcursor_put_num(c, g->first, (struct bytes){doc.p, doc.len});
}

/* --- storing ------------------------------------------------------------------------------- */

/* The oldest sealed segment without a row, names and all copied into the arena. */
static bool first_unstored(struct segments *s, struct arena *a, struct segment *ret)
{
    bool found = false;

    mutex_lock(&s->mx);
    for (size_t i = s->n; i > 0 && !s->sealed[i - 1]->stored; i--) {
        *ret = *s->sealed[i - 1];
        found = true;
    }
    if (found)
        ret->names = arena_dup(a, ret->names, ret->nnames * sizeof(uint64_t));
    mutex_unlock(&s->mx);
    return found;
}

static void mark_stored(struct segments *s, uint64_t first)
{
    mutex_lock(&s->mx);
    for (size_t i = s->n; i > 0; i--) {
        if (s->sealed[i - 1]->first == first)
            s->sealed[i - 1]->stored = true;
    }
    mutex_unlock(&s->mx);
}

static int store_one(struct engine *e, struct op *op, const struct segment *g)
{
    struct tcursor *c = NULL;
    struct stx *t;
    int rc;

    TRY_RETURN(stx_begin(e, op, &t));
    TRY(tcursor_open(t, TABLE_SEGMENTS, TABLE_OPTIMES, &c));
    TRY(put_row(c, &op->arena, g));
    tcursor_close(c);
    return stx_commit(t);
fail:
    tcursor_close(c);
    stx_rollback(t);
    return rc;
}

int segments_store(struct segments *s, struct engine *e, struct op *op)
{
    struct segment g;

    while (first_unstored(s, &op->arena, &g)) {
        FAULT(SEGMENT_SEAL);
        TRY_RETURN(store_one(e, op, &g));
        FAULT(SEGMENT_STORED);
        mark_stored(s, g.first);
    }
    return 0;
}

/* The stored segment that `cut` falls into, as it will be behind it. */
static bool rest_of(struct segments *s, struct arena *a, uint64_t cut, struct segment *ret)
{
    bool found = false;

    mutex_lock(&s->mx);
    for (size_t i = 0; i < s->n && s->sealed[i]->first <= cut; i++) {
        const struct segment *g = s->sealed[i];

        if (g->last > cut && g->stored) {
            *ret = *g;
            ret->names = arena_dup(a, g->names, g->nnames * sizeof(uint64_t));
            found = true;
        }
    }
    mutex_unlock(&s->mx);
    return found;
}

int segments_cut_rows(struct segments *s, struct stx *t, uint64_t cut, uint64_t next, int64_t count,
                      int64_t bytes)
{
    struct arena *a = &stx_op(t)->arena;
    struct tcursor *c = NULL;
    struct segment rest;
    bool found;
    int rc;

    TRY_RETURN(tcursor_open(t, TABLE_SEGMENTS, TABLE_OPTIMES, &c));
    TRY(tcursor_first(c, &found));
    if (found && tcursor_num(c) <= cut)
        TRY(tcursor_truncate_num(c, tcursor_num(c), cut));
    if (rest_of(s, a, cut, &rest)) {
        rest.first = next;
        rest.count -= count;
        rest.bytes -= bytes;
        TRY(put_row(c, a, &rest));
    }
    tcursor_close(c);
    return 0;
fail:
    tcursor_close(c);
    return rc;
}

/* --- loading ------------------------------------------------------------------------------- */

/* Rows in order, without overlap; what does not fit is left out and its entries counted anew. */
static int load_rows(struct segments *s, struct tcursor *c, uint64_t *ret_upto)
{
    uint64_t upto = 0;
    bool found;

    TRY_RETURN(tcursor_first(c, &found));
    while (found) {
        struct segment *g = decode(tcursor_num(c), tcursor_value(c));

        if (g == NULL || g->first <= upto || g->last < g->first) {
            if (g != NULL)
                segment_free(g);
            break;
        }
        segments_append(s, g);
        upto = g->last;
        TRY_RETURN(tcursor_next(c, &found));
    }
    *ret_upto = upto;
    return 0;
}

static int count_rest(struct segments *s, struct op *op, struct tcursor *c, uint64_t after)
{
    struct oplog_row row;
    bool found;

    TRY_RETURN(tcursor_seek_num(c, after, SEEK_GT, &found));
    while (found) {
        struct bytes value = tcursor_value(c);

        if (value.len < 5 || !oplog_parse((struct bv){value.p, (uint32_t)value.len, BV_DOC}, &row))
            return op_fail(op, ERR_INTERNAL, "the oplog is damaged at %llu",
                           (unsigned long long)tcursor_num(c));
        (void)segments_add(s, &row);
        TRY_RETURN(tcursor_next(c, &found));
    }
    return 0;
}

int segments_load(struct segments *s, struct engine *e, struct op *op)
{
    struct tcursor *rows = NULL, *oplog = NULL;
    uint64_t upto;
    struct stx *t;
    int rc;

    TRY_RETURN(stx_begin(e, op, &t));
    TRY(tcursor_open(t, TABLE_SEGMENTS, TABLE_OPTIMES, &rows));
    TRY(load_rows(s, rows, &upto));
    TRY(tcursor_open(t, TABLE_OPLOG, TABLE_OPTIMES, &oplog));
    TRY(count_rest(s, op, oplog, upto));
fail:
    tcursor_close(rows);
    tcursor_close(oplog);
    stx_rollback(t);
    return rc;
}
