/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pre-images: table "images", key = optime and position in applyOps, both 8 bytes big endian (so a
 * range of optimes is a range of keys), value = 16 bytes UUID of the collection, 8 bytes wall time
 * of the entry (ms, little endian), the document.
 */
#include "oplog/image_key.h"
#include "oplog/oplog_internal.h"
#include "oplog/reader.h"
#include "storage/table_write.h"

int image_put(struct tcursor *c, struct op *op, uint64_t optime, int64_t index, const uint8_t *uuid,
              struct bv doc, int64_t wall_ms)
{
    uint8_t key[IMAGE_KEY_BYTES];
    uint8_t *value = arena_try(&op->arena, IMAGE_HEAD_BYTES + doc.len);

    if (value == NULL)
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory for a pre-image");
    memset(value, 0, 16);
    if (uuid != NULL)
        memcpy(value, uuid, 16);
    memcpy(value + 16, &wall_ms, 8);
    memcpy(value + IMAGE_HEAD_BYTES, doc.p, doc.len);
    return tcursor_insert(c, image_key(key, optime, (uint64_t)index),
                          (struct bytes){value, IMAGE_HEAD_BYTES + doc.len});
}

int images_truncate(struct stx *t, uint64_t from, uint64_t to)
{
    uint8_t low[IMAGE_KEY_BYTES], high[IMAGE_KEY_BYTES];
    struct tcursor *c;
    bool found;
    int rc;

    TRY_RETURN(tcursor_open(t, TABLE_IMAGES, TABLE_BYTES, &c));
    TRY(tcursor_seek(c, image_key(low, from, 0), SEEK_GE, &found));
    if (found && image_optime(tcursor_key(c)) <= to)
        TRY(tcursor_truncate(c, image_key(low, from, 0), image_key(high, to, UINT64_MAX)));
fail:
    tcursor_close(c);
    return rc;
}

/* The stored document; false for a damaged row. */
static bool image_of(struct bytes value, struct bv *ret)
{
    if (value.len < IMAGE_HEAD_BYTES + 5)
        return false;
    *ret = bv_doc(value.p + IMAGE_HEAD_BYTES);
    return ret->len == value.len - IMAGE_HEAD_BYTES;
}

int64_t images_now_ms(struct oplog *o)
{
    int64_t seconds = atomic_load_explicit(&o->image_seconds, memory_order_relaxed);

    return age_clock_ms(&o->image_ages, seconds < INT64_MAX / 1000 ? seconds * 1000 : INT64_MAX);
}

bool image_expired_at(struct oplog *o, int64_t wall_ms, int64_t now_ms)
{
    int64_t seconds = atomic_load_explicit(&o->image_seconds, memory_order_relaxed);

    return seconds > 0 && (now_ms - wall_ms) / 1000 >= seconds;
}

bool image_expired(struct oplog *o, int64_t wall_ms)
{
    return atomic_load_explicit(&o->image_seconds, memory_order_relaxed) > 0 &&
           image_expired_at(o, wall_ms, images_now_ms(o));
}

int image_get(struct oplog *o, struct op *op, uint64_t optime, int64_t index, struct arena *a,
              struct bv *ret)
{
    uint8_t key[IMAGE_KEY_BYTES];
    struct bv doc = BV_NONE;
    struct tcursor *c = NULL;
    struct stx *t;
    bool found;
    int rc;

    TRY_RETURN(stx_begin(o->engine, op, &t));
    TRY(tcursor_open(t, TABLE_IMAGES, TABLE_BYTES, &c));
    TRY(tcursor_seek(c, image_key(key, optime, (uint64_t)index), SEEK_EXACT, &found));
    *ret = BV_NONE;
    if (found && !image_expired(o, image_wall_ms(tcursor_value(c))) &&
        image_of(tcursor_value(c), &doc))
        TRY(op_dup(op, a, doc, ret));
fail:
    tcursor_close(c);
    stx_rollback(t);
    return rc;
}

/* A row as a document of config.system.preimages. */
static struct bv view_of(struct arena *a, struct bytes key, struct bytes value, struct bv image)
{
    struct bw w;

    bw_init(&w, a);
    bw_doc_begin(&w, "_id");
    bw_uuid(&w, "nsUUID", value.p);
    bw_ts(&w, "ts", image_optime(key));
    bw_i64(&w, "applyOpsIndex", image_index(key));
    bw_end(&w);
    bw_date(&w, "operationTime", image_wall_ms(value));
    bw_bv(&w, "preImage", image);
    return bw_done(&w);
}

int image_each(struct oplog *o, struct op *op, uint64_t optime, int64_t index,
               int (*fn)(void *arg, struct bv doc), void *arg)
{
    uint64_t visible = oplog_visible(o);
    uint8_t key[IMAGE_KEY_BYTES];
    struct tcursor *c = NULL;
    struct arena a;
    struct stx *t;
    bool found;
    int rc;

    arena_init(&a);
    TRY_RETURN(stx_begin(o->engine, op, &t));
    TRY(tcursor_open(t, TABLE_IMAGES, TABLE_BYTES, &c));
    TRY(tcursor_seek(c, image_key(key, optime, (uint64_t)index), SEEK_GE, &found));
    while (found && image_optime(tcursor_key(c)) <= visible) {
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
