/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pre-images: table "images", key = optime and position in applyOps, both 8 bytes big endian (so a
 * range of optimes is a range of keys), value = 16 bytes UUID of the collection, 8 bytes wall time
 * of the entry (ms, little endian), the document.
 */
#include "oplog/oplog_internal.h"
#include "oplog/reader.h"
#include "storage/table_write.h"

enum { KEY_BYTES = 16, HEAD_BYTES = 24 };

static void put_be(uint8_t *p, uint64_t x)
{
    x = __builtin_bswap64(x);
    memcpy(p, &x, 8);
}

static uint64_t get_be(const uint8_t *p)
{
    uint64_t x;

    memcpy(&x, p, 8);
    return __builtin_bswap64(x);
}

static struct bytes key_of(uint8_t buf[static KEY_BYTES], uint64_t optime, uint64_t index)
{
    put_be(buf, optime);
    put_be(buf + 8, index);
    return (struct bytes){buf, KEY_BYTES};
}

int image_put(struct tcursor *c, struct op *op, uint64_t optime, int64_t index,
              const struct oplog_op *src, int64_t wall_ms)
{
    uint8_t key[KEY_BYTES];
    uint8_t *value = arena_try(&op->arena, HEAD_BYTES + src->pre_image.len);

    if (value == NULL)
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory for a pre-image");
    memset(value, 0, 16);
    if (src->uuid != NULL)
        memcpy(value, src->uuid, 16);
    memcpy(value + 16, &wall_ms, 8);
    memcpy(value + HEAD_BYTES, src->pre_image.p, src->pre_image.len);
    return tcursor_insert(c, key_of(key, optime, (uint64_t)index),
                          (struct bytes){value, HEAD_BYTES + src->pre_image.len});
}

int images_truncate(struct stx *t, uint64_t from, uint64_t to)
{
    uint8_t low[KEY_BYTES], high[KEY_BYTES];
    struct tcursor *c;
    bool found;
    int rc;

    TRY_RETURN(tcursor_open(t, TABLE_IMAGES, TABLE_BYTES, &c));
    TRY(tcursor_seek(c, key_of(low, from, 0), SEEK_GE, &found));
    if (found && get_be(tcursor_key(c).p) <= to)
        TRY(tcursor_truncate(c, key_of(low, from, 0), key_of(high, to, UINT64_MAX)));
fail:
    tcursor_close(c);
    return rc;
}

/* The stored document; false for a damaged row. */
static bool image_of(struct bytes value, struct bv *ret)
{
    if (value.len < HEAD_BYTES + 5)
        return false;
    *ret = bv_doc(value.p + HEAD_BYTES);
    return ret->len == value.len - HEAD_BYTES;
}

int image_get(struct oplog *o, struct op *op, uint64_t optime, int64_t index, struct arena *a,
              struct bv *ret)
{
    uint8_t key[KEY_BYTES];
    struct bv doc = BV_NONE;
    struct tcursor *c = NULL;
    struct stx *t;
    bool found;
    int rc;

    TRY_RETURN(stx_begin(o->engine, op, &t));
    TRY(tcursor_open(t, TABLE_IMAGES, TABLE_BYTES, &c));
    TRY(tcursor_seek(c, key_of(key, optime, (uint64_t)index), SEEK_EXACT, &found));
    if (found && image_of(tcursor_value(c), &doc))
        doc = bv_dup(a, doc);
    *ret = found ? doc : BV_NONE;
fail:
    tcursor_close(c);
    stx_rollback(t);
    return rc;
}

/* A row as a document of config.system.preimages. */
static struct bv view_of(struct arena *a, struct bytes key, struct bytes value, struct bv image)
{
    int64_t wall_ms;
    struct bw w;

    memcpy(&wall_ms, value.p + 16, 8);
    bw_init(&w, a);
    bw_doc_begin(&w, "_id");
    bw_uuid(&w, "nsUUID", value.p);
    bw_ts(&w, "ts", get_be(key.p));
    bw_i64(&w, "applyOpsIndex", (int64_t)get_be(key.p + 8));
    bw_end(&w);
    bw_date(&w, "operationTime", wall_ms);
    bw_bv(&w, "preImage", image);
    return bw_done(&w);
}

int image_each(struct oplog *o, struct op *op, int (*fn)(void *arg, struct bv doc), void *arg)
{
    uint64_t visible = oplog_visible(o);
    struct tcursor *c = NULL;
    struct arena a;
    struct stx *t;
    bool found;
    int rc;

    arena_init(&a);
    TRY_RETURN(stx_begin(o->engine, op, &t));
    TRY(tcursor_open(t, TABLE_IMAGES, TABLE_BYTES, &c));
    TRY(tcursor_first(c, &found));
    while (found && get_be(tcursor_key(c).p) <= visible) {
        struct bv image;

        if (image_of(tcursor_value(c), &image))
            TRY(fn(arg, view_of(&a, tcursor_key(c), tcursor_value(c), image)));
        arena_reset(&a);
        TRY(op_check(op));
        TRY(tcursor_next(c, &found));
    }
fail:
    tcursor_close(c);
    stx_rollback(t);
    arena_fini(&a);
    return rc;
}
