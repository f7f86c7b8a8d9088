/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Cursors over one table inside a storage transaction. Reading is open to all; the writing calls
 * are declared in storage/table_write.h, which only the write path and oplog/ may include.
 *
 * Key forms follow enum table_kind: num keys for TABLE_RECORDS and TABLE_OPTIMES (int64 ids are
 * positive, so both order as unsigned), byte keys for TABLE_BYTES. Key and value bytes of a
 * positioned cursor stay valid until it moves, closes or its transaction ends.
 */
#ifndef RUNNEL_STORAGE_TABLE_H
#define RUNNEL_STORAGE_TABLE_H

#include "storage/txn.h"

struct tcursor;

struct bytes {
    const uint8_t *p;
    size_t len;
};

enum seek_mode {
    SEEK_EXACT,
    SEEK_GE, /* first key >= the given one */
    SEEK_GT,
    SEEK_LE, /* last key <= the given one */
    SEEK_LT,
};

/* Whether the table exists shows with the first use. */
int tcursor_open(struct stx *t, const char *ident, enum table_kind kind,
                 struct tcursor **ret) MUST_CHECK;
void tcursor_close(struct tcursor *c); /* NULL: nothing */

/* *ret_found false: no such key, or the end; the cursor is then unpositioned. */
int tcursor_seek_num(struct tcursor *c, uint64_t key, enum seek_mode mode,
                     bool *ret_found) MUST_CHECK;
int tcursor_seek(struct tcursor *c, struct bytes key, enum seek_mode mode,
                 bool *ret_found) MUST_CHECK;
int tcursor_first(struct tcursor *c, bool *ret_found) MUST_CHECK;
int tcursor_last(struct tcursor *c, bool *ret_found) MUST_CHECK;
int tcursor_next(struct tcursor *c, bool *ret_found) MUST_CHECK;
int tcursor_prev(struct tcursor *c, bool *ret_found) MUST_CHECK;

uint64_t tcursor_num(const struct tcursor *c);
struct bytes tcursor_key(const struct tcursor *c);
struct bytes tcursor_value(const struct tcursor *c);

#endif
