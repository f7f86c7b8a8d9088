/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Requests, made once and patched for each send, so that the client costs little. Their memory
 * lives as long as the process, unless message_free() is called.
 *
 * Documents are DOC_BYTES long: {_id: ObjectId, v: int64, pad: string}. An id is four zero bytes
 * and a number, big endian; the load's documents have the numbers from 0.
 */
#ifndef RUNNEL_TESTS_BENCH_MESSAGE_H
#define RUNNEL_TESTS_BENCH_MESSAGE_H

#include "base/bw.h"

#define BENCH_DB "bench"

enum { DOC_BYTES = 200, SMALL_DOC_BYTES = 60, MESSAGE_HEAD_BYTES = 21 };

struct message {
    uint8_t *bytes;
    size_t len;
    size_t id_at; /* inserts: of the first document; find, update, delete: of the filter; else 0 */
    size_t v_at;  /* inserts: v of the first document; updates: the new value */
    size_t doc_bytes; /* inserts: from one document to the next */
};

/* w NULL: the default. */
struct message message_insert(const char *coll, uint32_t docs, size_t doc_bytes, const char *w);
struct message message_find(const char *coll);     /* by _id, one batch */
struct message message_find_all(const char *coll); /* a range of _id that has them all */
struct message message_update(const char *coll);   /* $set of v */
struct message message_delete(const char *coll);
/* A stream: from a token, from a timestamp, or (BV_NONE) from now. */
struct message message_watch(const char *db, const char *coll, struct bv from);
struct message message_get_more(const char *db, const char *coll, int64_t cursor,
                                int64_t max_time_ms);
struct message message_kill_cursor(const char *db, const char *coll, int64_t cursor);
/* {name: 1} on admin */
struct message message_admin(const char *name);
void message_free(struct message *m);

/* Numbers of the i-th document of an insert, or of the statement (i = 0). */
void message_set_id(struct message *m, uint32_t i, uint64_t id);
void message_set_v(struct message *m, uint32_t i, int64_t v);

#endif
