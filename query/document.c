/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "query/document.h"

#include "base/bw.h"
#include "base/limits.h"
#include "base/oid.h"

/* A level of nesting takes at least a type byte, the NUL of a name, a length and a terminator. */
#define LEVEL_BYTES 7

bool document_too_deep(struct bv doc)
{
    struct biter stack[LIMIT_DEPTH_STORED];
    unsigned depth = 0;
    struct belem e;

    stack[depth++] = biter(doc);
    while (depth > 0) {
        unsigned left = LIMIT_DEPTH_STORED - depth;

        if (!biter_next(&stack[depth - 1], &e)) {
            depth--;
            continue;
        }
        /* What is too short to nest too deeply is not looked into. */
        if (!bv_is_container(e.v) || e.v.len < LEVEL_BYTES * left)
            continue;
        if (left == 0)
            return true;
        stack[depth++] = biter(e.v);
    }
    return false;
}

static bool is_id(const struct belem *e)
{
    return e->key_len == 3 && memcmp(e->key, "_id", 3) == 0;
}

static bool is_zero_ts(struct bv v)
{
    return v.type == BV_TIMESTAMP && bv_ts(v) == 0;
}

static int check_id_names(struct op *op, struct bv v)
{
    struct biter it = biter(v);
    struct belem e;

    while (biter_next(&it, &e)) {
        if (v.type == BV_DOC && e.key[0] == '$' && strcmp(e.key, "$ref") != 0 &&
            strcmp(e.key, "$id") != 0 && strcmp(e.key, "$db") != 0)
            return op_fail(op, ERR_DOLLAR_PREFIXED_FIELD_NAME,
                           "_id fields may not contain '$'-prefixed fields: '%s' is not valid for "
                           "storage.",
                           e.key);
        TRY_RETURN(check_id_names(op, e.v));
    }
    return 0;
}

static int check_id(struct op *op, struct bv id)
{
    if (id.type == BV_ARRAY || id.type == BV_REGEX || id.type == BV_UNDEFINED)
        return op_fail(op, ERR_INVALID_ID_FIELD, "The '_id' value cannot be of type %s",
                       bv_type_name(id.type));
    return check_id_names(op, id);
}

int document_with_id(struct op *op, struct arena *a, struct bv doc, struct bv id, uint64_t now_ts,
                     struct bv *ret)
{
    struct biter it = biter(doc);
    struct belem e;
    struct bw w;

    bw_init(&w, a);
    bw_bv(&w, "_id", id);
    while (biter_next(&it, &e)) {
        if (is_id(&e))
            continue;
        if (now_ts != 0 && is_zero_ts(e.v))
            bw_ts(&w, e.key, now_ts);
        else
            bw_elem(&w, &e);
    }
    *ret = bw_done(&w);
    if (bv_is_missing(*ret))
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for a document");
    return 0;
}

int document_prepare(struct op *op, struct arena *a, struct bv doc, uint64_t now_ts, struct bv *ret)
{
    struct biter it = biter(doc);
    struct bv id = BV_NONE, out = doc;
    uint8_t oid[12];
    bool id_first = false, zero_ts = false;
    struct belem e;

    for (unsigned i = 0; biter_next(&it, &e); i++) {
        if (!is_id(&e)) {
            zero_ts |= now_ts != 0 && is_zero_ts(e.v);
            continue;
        }
        if (!bv_is_missing(id))
            return op_fail(op, ERR_BAD_VALUE, "can't have multiple _id fields in one document");
        id = e.v;
        id_first = i == 0;
    }
    if (document_too_deep(doc))
        return op_fail(op, ERR_OVERFLOW, "Document exceeds maximum nested object depth: %d",
                       LIMIT_DEPTH_STORED);
    TRY_RETURN(check_id(op, id));
    if (bv_is_missing(id)) {
        oid_new(oid);
        id = (struct bv){oid, sizeof(oid), BV_OID};
    }
    if (!id_first || zero_ts)
        TRY_RETURN(document_with_id(op, a, doc, id, now_ts, &out));
    if (out.len > LIMIT_DOC_BYTES)
        return op_fail(op, ERR_BSON_TOO_LARGE,
                       "object to insert too large. size in bytes: %u, max size: %d", out.len,
                       LIMIT_DOC_BYTES);
    *ret = out;
    return 0;
}
