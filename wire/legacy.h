/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * OP_QUERY and OP_REPLY, which are left for the handshake only. Pure functions; any thread.
 *
 *     OP_QUERY: header | int32 flags | "db.$cmd" NUL | int32 skip | int32 numberToReturn | query |
 *               [fields]
 *     OP_REPLY: header | int32 flags | int64 cursor id | int32 from | int32 count | document
 */
#ifndef RUNNEL_WIRE_LEGACY_H
#define RUNNEL_WIRE_LEGACY_H

#include "wire/message.h"

enum { WIRE_REPLY_HEAD_BYTES = 36 };

enum reply_flag { REPLY_QUERY_FAILURE = 1 << 1, REPLY_AWAIT_CAPABLE = 1 << 3 };

struct wire_query {
    const char *ns; /* as sent; NUL-terminated, inside the message */
    size_t db_len;  /* bytes of ns before ".$cmd"; 0: ns is no command namespace */
    int32_t to_return;
    struct bv body;            /* the command: the query, or what its $query field holds */
    struct bv read_preference; /* $readPreference beside $query; else BV_NONE */
};

/* 0, or the code to be answered. ERR_PROTOCOL: too malformed to be answered, close. */
int wire_query_parse(const uint8_t *msg, size_t len, struct error *err,
                     struct wire_query *ret) MUST_CHECK;

void wire_reply_head(uint8_t out[static WIRE_REPLY_HEAD_BYTES], size_t doc_len, int32_t request_id,
                     int32_t response_to, int32_t flags);

#endif
