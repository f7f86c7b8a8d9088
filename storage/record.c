/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading records by record id and by _id. */
#include "storage/record.h"

#include "storage/engine_internal.h"
#include "storage/index_keys.h"
#include "storage/key_string.h"

static int copy_doc(struct stx *t, struct bytes value, struct arena *a, struct bv *ret)
{
    uint8_t *copy = arena_try(a, value.len);

    if (copy == NULL)
        return op_fail(stx_op(t), ERR_EXCEEDED_MEMORY_LIMIT,
                       "no memory for a document of %zu bytes", value.len);
    memcpy(copy, value.p, value.len);
    *ret = bv_doc(copy);
    return 0;
}

int record_get(struct stx *t, struct coll *k, int64_t rid, struct arena *a, struct bv *ret)
{
    struct bv doc = BV_NONE;
    struct tcursor *c;
    bool found;
    int rc;

    TRY_RETURN(tcursor_open(t, k->ident, TABLE_RECORDS, &c));
    TRY(tcursor_seek_num(c, (uint64_t)rid, SEEK_EXACT, &found));
    if (found)
        TRY(copy_doc(t, tcursor_value(c), a, &doc));
    *ret = doc;
fail:
    tcursor_close(c);
    return rc;
}

int record_find_id(struct stx *t, struct coll *k, struct bv id, struct arena *a, int64_t *ret_rid,
                   struct bv *ret)
{
    struct tcursor *c = NULL;
    struct ks_builder key;
    int64_t rid = 0;
    bool found;
    int rc;

    ks_init(&key, stx_scratch(t));
    ks_append(&key, id, false);
    ks_append_end(&key);
    if (key.failed)
        return op_fail(stx_op(t), ERR_EXCEEDED_MEMORY_LIMIT, "no memory for an _id");
    TRY_RETURN(tcursor_open(t, k->indexes[0].ident, TABLE_BYTES, &c));
    TRY(tcursor_seek(c, (struct bytes){key.buf, key.len}, SEEK_EXACT, &found));
    if (found) {
        struct bytes value = tcursor_value(c);

        ASSERT(value.len >= RID_BYTES);
        rid = rid_decode(value.p);
    }
    tcursor_close(c);
    *ret_rid = rid;
    *ret = BV_NONE;
    return found ? record_get(t, k, rid, a, ret) : 0;
fail:
    tcursor_close(c);
    return rc;
}
