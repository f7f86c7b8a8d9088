/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Oplog entries: one BSON document per change, in MongoDB's shape and field order:
 *     lsid? txnNumber? op ns ui? o o2? needsRetryImage? stmtId? ts t v wall prevOpTime?
 * multiOpType? Stored in table "oplog" under key optime (seconds << 32 | increment), value = the
 * document.
 */
#ifndef RUNNEL_OPLOG_ENTRY_H
#define RUNNEL_OPLOG_ENTRY_H

#include "base/bw.h"
#include "base/op.h"

/* The image of an operation inside applyOps. */
struct oplog_image {
    int64_t index;       /* its position */
    const uint8_t *uuid; /* 16 bytes */
    struct bv doc;
};

/* One entry to be written. Views are borrowed until oplog_commit() returns. */
struct oplog_op {
    char op;                          /* 'i' 'u' 'd' 'c' 'n' */
    const char *ns;                   /* "db.coll", "db.$cmd", "admin.$cmd", "" */
    const uint8_t *uuid;              /* 16 bytes, or NULL */
    struct bv o, o2;                  /* o2 may be BV_NONE */
    struct bv pre_image;              /* stored in the same transaction; BV_NONE: none */
    const struct oplog_image *images; /* of an applyOps entry */
    size_t nimages;
    struct bv lsid;          /* retryable write: {id, uid}; BV_NONE: none */
    int64_t txn_number;      /* with lsid */
    int32_t stmt_id;         /* with lsid; -1: none */
    const char *retry_image; /* "preImage", "postImage" or NULL */
    /* With lsid: the session's entry before this one, for prevOpTime; 0: none. In one call of
     * oplog_commit() it is filled in for every op but the first of the same lsid. */
    uint64_t prev_optime;
    int64_t prev_term;
};

struct ring_entry;

/* A namespace and its database as others look them up: see scope.h. */
struct ns_hashes {
    uint64_t ns, db; /* ns 0: it names no collection. db 0: not computed */
    uint32_t ns_len, db_len;
};

/* A parsed view of an entry; pointers into its bytes. */
struct oplog_row {
    uint64_t optime;
    struct bv entry;
    char op;
    const char *ns; /* NUL-terminated */
    uint32_t ns_len;
    struct bv ui, o, o2, lsid; /* BV_NONE where absent */
    int64_t txn_number;
    int64_t wall_ms;
    int64_t term;
    uint64_t prev_optime; /* of prevOpTime; 0: absent or null */
    bool from_migrate;
    struct ns_hashes hashes; /* of inserts, updates and deletes in the ring */
    struct ring_entry *ring; /* the entry in memory that this is a view of; NULL: none */
};

/* Encodes with ts 0; *ret_ts_offset is where the 8 bytes of ts lie in the document. */
int oplog_encode(struct op *op, const struct oplog_op *src, int64_t term, int64_t wall_ms,
                 struct bv *ret, uint32_t *ret_ts_offset) MUST_CHECK;
/* Puts the timestamps into an encoded entry; prev_optime 0: prevOpTime stays as encoded, else the
 * entry must have one. */
void oplog_patch(uint8_t *entry, uint32_t len, uint32_t ts_offset, uint64_t optime,
                 uint64_t prev_optime, int64_t term);
/* False for bytes that are no entry (damage). */
bool oplog_parse(struct bv entry, struct oplog_row *ret);

#endif
