/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading records of a collection and its indexes, inside a storage transaction. */
#ifndef RUNNEL_STORAGE_RECORD_H
#define RUNNEL_STORAGE_RECORD_H

#include "storage/catalog.h"

/* The document with this record id, copied into the arena. BV_NONE: not there. */
int record_get(struct stx *t, struct coll *k, int64_t rid, struct arena *a,
               struct bv *ret) MUST_CHECK;
/* By _id through the index; *ret_rid 0 and BV_NONE: not there. Numbers match across types. */
int record_find_id(struct stx *t, struct coll *k, struct bv id, struct arena *a, int64_t *ret_rid,
                   struct bv *ret) MUST_CHECK;
/* Scans of a whole collection use tcursor_open(t, k->ident, TABLE_RECORDS, ...): key = record id,
 * value = document. */

/*
 * Index cursor: entries in key order with the record id each leads to.
 *
 * Table layout, one form for each kind of index (integers big-endian):
 *     unique (_id too): key   = key string, end byte 04
 *                       value = record id, 8 bytes | type bits
 *     other:            key   = key string, end byte 04 | record id, 8 bytes
 *                       value = type bits
 * So a second equal key of a unique index meets the first one in the table, and entries with equal
 * keys of another index lie in the order of their records.
 */
struct icursor;
int icursor_open(struct stx *t, struct coll *k, struct index *ix, struct icursor **ret) MUST_CHECK;
void icursor_close(struct icursor *c); /* NULL: nothing */
/*
 * A bound is a key-string prefix of whole fields (ks_append per field, no end byte). It stands
 * before all entries that begin with it, or with `after` behind all of them. Forward: the first
 * entry behind that place; backward: the last one before it. Empty bound: the very first or last.
 */
int icursor_seek(struct icursor *c, struct bytes bound, bool backward, bool after,
                 bool *ret_found) MUST_CHECK;
/* The next entry beyond the one with this key and record id, which may be gone: to go on with a
 * scan in a later transaction. */
int icursor_seek_beyond(struct icursor *c, struct bytes key, int64_t rid, bool backward,
                        bool *ret_found) MUST_CHECK;
int icursor_next(struct icursor *c, bool backward, bool *ret_found) MUST_CHECK;
/* Of the entry the cursor is on; valid until it moves. */
struct bytes icursor_key(const struct icursor *c); /* the key string only, no end byte, no rid */
struct bytes icursor_type_bits(const struct icursor *c);
int64_t icursor_rid(const struct icursor *c);

/*
 * All keys of a document in an index: one for each element of an array on an indexed path (at most
 * one array for each document), null for a missing field, undefined for an empty array, none at
 * all in a sparse index when every field is missing. Paths descend into documents within arrays,
 * and by number into elements.
 * Errors: 171 for two arrays ("cannot index parallel arrays [b] [a]"), 16746 for a number that is
 * both a position and a field, 17280 for a key that is too long, 10334 for too many keys.
 */
struct key_set {
    struct bytes *keys; /* key strings with end byte, without record id; sorted, unique */
    struct bytes *type_bits;
    size_t n;
    bool multikey; /* an array was expanded */
};
int index_keys(struct op *op, const struct index *ix, struct bv doc,
               struct key_set *ret) MUST_CHECK;
/* {a: 1, b: "x"}: a key (with or without end byte) as a document, for E11000 texts and keyValue;
 * BV_NONE for broken bytes. In the op's arena. */
struct bv index_key_value(struct op *op, const struct index *ix, struct bytes key,
                          struct bytes type_bits);

/* Reads every record and index entry and compares them; reports, changes nothing. */
struct validate_result {
    int64_t records, invalid_docs;
    int64_t *keys_per_index; /* by position, in the op's arena */
    const char **errors;
    size_t nerrors;
};
int coll_validate(struct engine *e, struct op *op, struct coll *k,
                  struct validate_result *ret) MUST_CHECK;

#endif
