/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Table "oplog-meta": key = a name, value = {v: long}. */
#include "oplog/oplog_internal.h"
#include "storage/table_write.h"

static struct bytes key_of(const char *name)
{
    return (struct bytes){(const uint8_t *)name, strlen(name)};
}

int meta_get(struct stx *t, const char *name, uint64_t *ret)
{
    struct tcursor *c;
    bool found;
    int rc;

    TRY_RETURN(tcursor_open(t, TABLE_META, TABLE_BYTES, &c));
    rc = tcursor_seek(c, key_of(name), SEEK_EXACT, &found);
    if (rc == 0) {
        struct bytes value = found ? tcursor_value(c) : (struct bytes){NULL, 0};
        struct bv v = value.len < 5 ? BV_NONE : bv_get(bv_doc(value.p), "v");

        *ret = v.type == BV_INT64 ? (uint64_t)bv_i64(v) : 0;
    }
    tcursor_close(c);
    return rc;
}

int meta_put(struct stx *t, const char *name, uint64_t value)
{
    struct tcursor *c;
    struct bw w;
    struct bv doc;
    int rc;

    TRY_RETURN(tcursor_open(t, TABLE_META, TABLE_BYTES, &c));
    bw_init(&w, &stx_op(t)->arena);
    bw_i64(&w, "v", (int64_t)value);
    doc = bw_done(&w);
    rc = tcursor_put(c, key_of(name), (struct bytes){doc.p, doc.len});
    tcursor_close(c);
    return rc;
}

int meta_remove(struct stx *t, const char *name)
{
    struct tcursor *c;
    int rc;

    TRY_RETURN(tcursor_open(t, TABLE_META, TABLE_BYTES, &c));
    rc = tcursor_remove(c, key_of(name), NULL);
    tcursor_close(c);
    return rc;
}
