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
 * Index cursor: keys in order with the record id each leads to.
 * Table layout: unique index: key = key string (with end byte), value = record id (8 bytes big
 * endian) + type bits; a unique index holds a non-unique form too where a null/sparse rule needs
 * none: there is exactly one form per index. Other index: key = key string + record id (8 bytes
 * big endian), value = type bits.
 */
struct icursor;
int icursor_open(struct stx *t, struct coll *k, struct index *ix, struct icursor **ret) MUST_CHECK;
void icursor_close(struct icursor *c);
/* Bounds are key-string prefixes (made with ks_append per field, no end byte): positions on the
 * first entry whose key string is >= bound (backward: the last one <= bound, prefix matches
 * counting as equal when `after` is set). Empty bound: the very first or last. */
int icursor_seek(struct icursor *c, struct bytes bound, bool backward, bool after,
                 bool *ret_found) MUST_CHECK;
int icursor_next(struct icursor *c, bool backward, bool *ret_found) MUST_CHECK;
struct bytes icursor_key(const struct icursor *c); /* the key string only, no end byte, no rid */
int64_t icursor_rid(const struct icursor *c);

/* All keys of a document in an index (multikey expansion), for writers and validate. */
struct key_set {
    struct bytes *keys; /* key strings without record id, sorted, unique; in the arena */
    struct bytes *type_bits;
    size_t n;
    bool multikey;
};
int index_keys(struct op *op, const struct index *ix, struct bv doc,
               struct key_set *ret) MUST_CHECK;
/* {a: 1, b: "x"}: the first key of the set as a document, for E11000 texts and keyValue. */
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
