/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How long pre-images live: as long as their entries or, once that is set, no longer than a number
 * of seconds after the change. Reads go by the setting at once (images.c); the keeper removes what
 * has expired from the oldest end, a step at a time, each in a transaction of its own.
 *
 * Images of one entry have one wall time, so a cut is always behind an entry. When the wall clock
 * has gone back, an image that looks young keeps those behind it until it has expired itself.
 */
#include "base/fault.h"
#include "oplog/image_key.h"
#include "oplog/oplog_internal.h"
#include "oplog/reader.h"

enum { STEP_IMAGES = 4096, STEPS_MAX = 64 /* in one turn of the keeper */ };

int oplog_set_image_expiry(struct oplog *o, struct op *op, int64_t seconds)
{
    uint64_t now = oplog_allocated(o);
    struct stx *t = NULL;
    int rc;

    mutex_lock(&o->keeper.work_mx);
    TRY(stx_begin(o->engine, op, &t));
    TRY(meta_put(t, META_IMAGE_SECONDS, (uint64_t)seconds));
    TRY(meta_put(t, META_IMAGE_SET_AT, now));
    rc = oplog_commit_counted(o, t);
    t = NULL;
    TRY(rc);
    atomic_store(&o->image_seconds, seconds);
    atomic_store(&o->image_set_at, now);
    op->ack_flush = oplog_flush_ticket(o);
fail:
    stx_rollback(t);
    mutex_unlock(&o->keeper.work_mx);
    keeper_ask(o);
    return rc;
}

int64_t oplog_get_image_expiry(struct oplog *o, uint64_t *ret_set_at)
{
    *ret_set_at = atomic_load(&o->image_set_at);
    return atomic_load(&o->image_seconds);
}

/* The newest optime of those whose images have expired, of at most one step. */
static int find_expired(struct oplog *o, struct op *op, int64_t now_ms, uint64_t *ret_upto)
{
    uint64_t visible = oplog_visible(o);
    uint8_t key[IMAGE_KEY_BYTES];
    struct tcursor *c = NULL;
    struct stx *t;
    bool found;
    int rc;

    *ret_upto = 0;
    TRY_RETURN(stx_begin(o->engine, op, &t));
    TRY(tcursor_open(t, TABLE_IMAGES, TABLE_BYTES, &c));
    TRY(tcursor_seek(c, image_key(key, o->images_gone + 1, 0), SEEK_GE, &found));
    for (int n = 0; found && n < STEP_IMAGES; n++) {
        uint64_t optime = image_optime(tcursor_key(c));

        if (optime > visible || !image_expired_at(o, image_wall_ms(tcursor_value(c)), now_ms))
            break;
        *ret_upto = optime;
        TRY(tcursor_next(c, &found));
    }
fail:
    tcursor_close(c);
    stx_rollback(t);
    return rc;
}

static int remove_images(struct oplog *o, struct op *op, uint64_t upto)
{
    struct stx *t;
    int rc;

    FAULT(IMAGES_EXPIRE);
    TRY_RETURN(stx_begin(o->engine, op, &t));
    rc = images_truncate(t, o->images_gone + 1, upto);
    if (rc != 0) {
        stx_rollback(t);
        return rc;
    }
    TRY_RETURN(oplog_commit_counted(o, t));
    FAULT(IMAGES_EXPIRED);
    o->images_gone = upto;
    return 0;
}

int images_expire(struct oplog *o, struct op *op, int64_t now_ms)
{
    int rc = 0;

    if (atomic_load(&o->image_seconds) == 0)
        return 0;
    mutex_lock(&o->keeper.work_mx);
    if (o->images_gone < o->truncated)
        o->images_gone = o->truncated;
    for (int i = 0; i < STEPS_MAX; i++) {
        uint64_t upto;

        TRY(find_expired(o, op, now_ms, &upto));
        if (upto == 0)
            break;
        TRY(remove_images(o, op, upto));
        arena_reset(&op->arena);
    }
fail:
    mutex_unlock(&o->keeper.work_mx);
    return rc;
}
