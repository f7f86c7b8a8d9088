/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "query/collection_uuid.h"

#include "base/bw.h"

enum { UUID_SUBTYPE = 4 };

int collection_uuid_parse(struct op *op, struct bv uuid)
{
    uint8_t subtype;
    uint32_t n;

    if (bv_is_missing(uuid))
        return 0;
    (void)bv_bin(uuid, &n, &subtype);
    if (subtype != UUID_SUBTYPE)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "BSON field 'collectionUUID' is the wrong binData subtype %u, expected "
                       "type 'UUID'",
                       subtype);
    if (n != sizeof(((struct coll *)NULL)->uuid))
        return op_fail(op, ERR_INVALID_UUID, "collectionUUID must be a UUID of 16 bytes");
    return 0;
}

bool collection_uuid_is(const struct coll *k, struct bv uuid)
{
    const uint8_t *bytes;
    uint32_t n;

    if (bv_is_missing(uuid))
        return true;
    bytes = bv_bin(uuid, &n, NULL);
    return k != NULL && n == sizeof(k->uuid) && memcmp(k->uuid, bytes, n) == 0;
}

int collection_uuid_check(struct op *op, const char *ns, const struct coll *k, struct bv uuid)
{
    const char *dot = strchr(ns, '.');
    size_t db_len = (size_t)(dot - ns);
    const uint8_t *bytes;
    struct coll *actual;
    struct bv info;
    struct bw w;
    uint32_t n;

    if (collection_uuid_is(k, uuid))
        return 0;
    bytes = bv_bin(uuid, &n, NULL);
    ASSERT(n == sizeof(k->uuid));
    actual = catalog_get_uuid(op->database->catalog, bytes);
    bw_init(&w, &op->arena);
    bw_strn(&w, "db", ns, db_len);
    bw_uuid(&w, "collectionUUID", bytes);
    bw_str(&w, "expectedCollection", dot + 1);
    if (actual != NULL && strncmp(actual->ns, ns, db_len + 1) == 0)
        bw_str(&w, "actualCollection", actual->name);
    else
        bw_null(&w, "actualCollection");
    coll_unref(actual);
    info = bw_done(&w);
    op_fail(op, ERR_COLLECTION_UUID_MISMATCH, "Collection UUID does not match that specified");
    op->err->info = info.p;
    op->err->info_len = info.len;
    return ERR_COLLECTION_UUID_MISMATCH;
}
