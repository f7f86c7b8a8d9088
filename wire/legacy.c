/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "wire/legacy.h"

#include "base/limits.h"

static const char cmd_suffix[] = ".$cmd";

int wire_query_parse(const uint8_t *msg, size_t len, struct error *err, struct wire_query *ret)
{
    const uint8_t *p = msg + WIRE_HEADER_BYTES + 4, *end = msg + len, *nul;
    size_t ns_len, suffix = sizeof(cmd_suffix) - 1;
    int32_t doc_len;
    struct bv inner;

    if (len < WIRE_HEADER_BYTES + 5 || (nul = memchr(p, 0, (size_t)(end - p))) == NULL ||
        end - nul < 9 + 5)
        return error_set(err, ERR_PROTOCOL, "OP_QUERY is truncated");
    ret->ns = (const char *)p;
    ns_len = (size_t)(nul - p);
    ret->db_len =
        ns_len > suffix && memcmp(nul - suffix, cmd_suffix, suffix) == 0 ? ns_len - suffix : 0;
    memcpy(&ret->to_return, nul + 5, 4);
    p = nul + 9;
    memcpy(&doc_len, p, 4);
    if (doc_len < 5 || doc_len > end - p)
        return error_set(err, ERR_PROTOCOL, "OP_QUERY with an invalid document length");
    TRY_RETURN(bv_check(p, (size_t)doc_len, LIMIT_DEPTH_MESSAGE, err));
    ret->body = bv_doc(p);
    ret->read_preference = BV_NONE;
    inner = bv_get(ret->body, "$query");
    if (bv_is_missing(inner))
        inner = bv_get(ret->body, "query");
    if (inner.type == BV_DOC) {
        ret->read_preference = bv_get(ret->body, "$readPreference");
        ret->body = inner;
    }
    return 0;
}

void wire_reply_head(uint8_t out[static WIRE_REPLY_HEAD_BYTES], size_t doc_len, int32_t request_id,
                     int32_t response_to, int32_t flags)
{
    int32_t head[9] = {(int32_t)(WIRE_REPLY_HEAD_BYTES + doc_len),
                       request_id,
                       response_to,
                       WIRE_OP_REPLY,
                       flags,
                       0,
                       0,
                       0,
                       1};

    memcpy(out, head, WIRE_REPLY_HEAD_BYTES);
}
