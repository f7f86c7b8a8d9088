/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A BSON writer: documents are composed front to back into one buffer.
 *
 *     struct bw w;
 *     bw_init(&w, arena);
 *     bw_i32(&w, "n", 1);
 *     bw_arr_begin(&w, "list");
 *     bw_str(&w, NULL, "x");        // in an array the key is NULL: the next index is written
 *     bw_end(&w);
 *     struct bv doc = bw_done(&w);
 *
 * Memory: an arena, or (arena NULL) the heap, to be released by bw_fini(). When memory is out or
 * LIMIT_BW_BYTES is passed the writer turns `failed` and swallows all further calls; bw_done() then
 * returns BV_NONE. Callers that write sizes a client chose check for it.
 */
#ifndef RUNNEL_BASE_BW_H
#define RUNNEL_BASE_BW_H

#include "base/bv.h"

#define BW_DEPTH       256
#define BW_DEPTH_NEAR  12 /* levels that need no memory of their own: most writers are small */
#define LIMIT_BW_BYTES 0x7000000u /* above the largest message */

struct bw {
    uint8_t *buf;
    uint32_t len, cap;
    struct arena *arena;
    uint32_t depth;
    bool failed;
    bool no_memory; /* why it failed, if it was that */
    struct bw_level {
        uint32_t start; /* offset of the open document's length */
        uint32_t index; /* next array index; UINT32_MAX: a document */
    } near[BW_DEPTH_NEAR];
    struct bw_level *far; /* levels from BW_DEPTH_NEAR on; NULL until one is needed */
};

void bw_init(struct bw *w, struct arena *arena);       /* opens the outermost document */
void bw_init_array(struct bw *w, struct arena *arena); /* the outermost value is an array */
void bw_fini(struct bw *w);
struct bv bw_done(struct bw *w);      /* closes the outermost; type BV_DOC or BV_ARRAY */
uint32_t bw_size(const struct bw *w); /* bytes so far, open terminators not counted */

/* Makes room for so many bytes, so that writing them cannot fail. */
bool bw_room(struct bw *w, size_t n) MUST_CHECK;

void bw_doc_begin(struct bw *w, const char *key);
void bw_arr_begin(struct bw *w, const char *key);
void bw_end(struct bw *w);

void bw_bv(struct bw *w, const char *key, struct bv v); /* writes nothing for a missing value */
void bw_bvn(struct bw *w, const char *key, size_t key_len, struct bv v);
void bw_elem(struct bw *w, const struct belem *e); /* copies name and value */
void bw_fields(struct bw *w, struct bv doc);       /* all elements of doc */

void bw_i32(struct bw *w, const char *key, int32_t x);
void bw_i64(struct bw *w, const char *key, int64_t x);
void bw_f64(struct bw *w, const char *key, double x);
void bw_bool(struct bw *w, const char *key, bool x);
void bw_null(struct bw *w, const char *key);
void bw_str(struct bw *w, const char *key, const char *s);
void bw_strn(struct bw *w, const char *key, const char *s, size_t n);
void bw_date(struct bw *w, const char *key, int64_t ms);
void bw_ts(struct bw *w, const char *key, uint64_t ts);
void bw_oid(struct bw *w, const char *key, const uint8_t oid[12]);
void bw_bin(struct bw *w, const char *key, uint8_t subtype, const void *data, size_t n);
void bw_uuid(struct bw *w, const char *key, const uint8_t uuid[16]);

/* For documents begun with a name that is not NUL-terminated. */
void bw_doc_beginn(struct bw *w, const char *key, size_t key_len);
void bw_arr_beginn(struct bw *w, const char *key, size_t key_len);

/* Forgets everything written after `mark` (a bw_mark() taken at the same depth). */
struct bw_mark {
    uint32_t len, depth, index;
};
struct bw_mark bw_mark(const struct bw *w);
void bw_rewind(struct bw *w, struct bw_mark mark);

#endif
