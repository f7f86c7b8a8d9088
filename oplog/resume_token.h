/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Resume tokens in MongoDB's format: {_data: "<upper-case hex of a key string>", _typeBits?}.
 * Components, all ascending: clusterTime, version, tokenType, txnOpIndex, fromInvalidate, uuid or
 * null, eventIdentifier?, fragmentNum?, end byte. Versions 1 and 2 are read, both are written.
 */
#ifndef RUNNEL_OPLOG_RESUME_TOKEN_H
#define RUNNEL_OPLOG_RESUME_TOKEN_H

#include "base/op.h"

enum token_type { TOKEN_HIGH_WATER_MARK = 0, TOKEN_EVENT = 128 };

struct resume_token {
    uint64_t cluster_time;
    int32_t version; /* 1 or 2 (0 accepted when read) */
    int32_t type;    /* enum token_type */
    int32_t txn_op_index;
    bool from_invalidate;
    bool has_uuid;
    uint8_t uuid[16];
    struct bv event_id; /* BV_NONE: none */
    int32_t fragment;   /* -1: none */
};

/* The token document, in the arena; BV_NONE when memory is out. A wrong combination of components
 * is our own mistake. */
struct bv token_encode(struct arena *a, const struct resume_token *t);
/* A token that lies before every event at ts and after every event before it. */
struct bv token_high_water_mark(struct arena *a, uint64_t ts, int32_t version);
/* Errors of reference A.2 rows 6-7 and A.3, set in op. Views in ret live in op->arena. */
int token_decode(struct op *op, struct bv doc, struct resume_token *ret) MUST_CHECK;
/* Order of positions: all components but the version (absent ones first); <0, 0, >0. Numbers in
 * the event identifier compare across types, so a token that lost its _typeBits is the same. */
int token_cmp(const struct resume_token *a, const struct resume_token *b);

#endif
