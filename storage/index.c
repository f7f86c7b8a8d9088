/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Index cursors. Table layout: storage/record.h. */
#include <stdlib.h>

#include "base/mem.h"
#include "storage/engine_internal.h"
#include "storage/index_keys.h"

#define END_BYTE 0x04
/* Above every byte that can follow a whole field: type bytes lie in 10..245 (also inverted). */
#define BEYOND_BYTE 0xff

struct icursor {
    struct stx *t;
    struct tcursor *c;
    bool unique;
    uint8_t *buf; /* for keys to seek to */
    size_t cap;
};

int icursor_open(struct stx *t, struct coll *k, struct index *ix, struct icursor **ret)
{
    struct icursor *c = mem_must_zero(1, sizeof(*c));
    int rc;

    (void)k;
    rc = tcursor_open(t, ix->ident, TABLE_BYTES, &c->c);
    if (rc != 0) {
        free(c);
        return rc;
    }
    c->t = t;
    c->unique = ix->unique;
    *ret = c;
    return 0;
}

void icursor_close(struct icursor *c)
{
    if (c == NULL)
        return;
    tcursor_close(c->c);
    free(c->buf);
    free(c);
}

/* Makes key + tail in the cursor's buffer. */
static int compose(struct icursor *c, struct bytes key, const uint8_t *tail, size_t tail_len,
                   struct bytes *ret)
{
    size_t len = key.len + tail_len;

    if (len > c->cap) {
        uint8_t *grown = mem_try_resize(c->buf, len);

        if (grown == NULL)
            return op_fail(stx_op(c->t), ERR_EXCEEDED_MEMORY_LIMIT,
                           "no memory for an index key of %zu bytes", len);
        c->buf = grown;
        c->cap = len;
    }
    if (key.len > 0)
        memcpy(c->buf, key.p, key.len);
    memcpy(c->buf + key.len, tail, tail_len);
    *ret = (struct bytes){c->buf, len};
    return 0;
}

int icursor_seek(struct icursor *c, struct bytes bound, bool backward, bool after, bool *ret_found)
{
    enum seek_mode mode = backward ? SEEK_LT : SEEK_GE;
    const uint8_t beyond = BEYOND_BYTE;
    struct bytes key;

    if (bound.len == 0)
        return backward ? tcursor_last(c->c, ret_found) : tcursor_first(c->c, ret_found);
    if (!after)
        return tcursor_seek(c->c, bound, mode, ret_found);
    TRY_RETURN(compose(c, bound, &beyond, 1, &key));
    return tcursor_seek(c->c, key, mode, ret_found);
}

int icursor_seek_beyond(struct icursor *c, struct bytes key, int64_t rid, bool backward,
                        bool *ret_found)
{
    uint8_t tail[1 + RID_BYTES] = {END_BYTE};
    struct bytes entry;

    rid_encode(rid, tail + 1);
    TRY_RETURN(compose(c, key, tail, c->unique ? 1 : sizeof(tail), &entry));
    return tcursor_seek(c->c, entry, backward ? SEEK_LT : SEEK_GT, ret_found);
}

int icursor_next(struct icursor *c, bool backward, bool *ret_found)
{
    return backward ? tcursor_prev(c->c, ret_found) : tcursor_next(c->c, ret_found);
}

struct bytes icursor_key(const struct icursor *c)
{
    struct bytes key = tcursor_key(c->c);
    size_t tail = c->unique ? 1 : 1 + RID_BYTES;

    ASSERT(key.len >= tail);
    key.len -= tail;
    return key;
}

struct bytes icursor_type_bits(const struct icursor *c)
{
    struct bytes value = tcursor_value(c->c);

    if (c->unique) {
        ASSERT(value.len >= RID_BYTES);
        value.p += RID_BYTES;
        value.len -= RID_BYTES;
    }
    return value;
}

int64_t icursor_rid(const struct icursor *c)
{
    struct bytes from = c->unique ? tcursor_value(c->c) : tcursor_key(c->c);

    ASSERT(from.len >= RID_BYTES);
    return rid_decode(c->unique ? from.p : from.p + from.len - RID_BYTES);
}
