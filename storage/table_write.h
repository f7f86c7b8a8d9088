/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Writing tables. Only query/write*.c, query/ddl*.c, storage/ and oplog/ include this header, so
 * that no change is made without its oplog entry; tests/lint checks it.
 */
#ifndef RUNNEL_STORAGE_TABLE_WRITE_H
#define RUNNEL_STORAGE_TABLE_WRITE_H

#include "storage/table.h"

/* insert: ERR_DUPLICATE_KEY when the key is there. put: insert or replace. */
int tcursor_insert_num(struct tcursor *c, uint64_t key, struct bytes value) MUST_CHECK;
int tcursor_insert(struct tcursor *c, struct bytes key, struct bytes value) MUST_CHECK;
int tcursor_put_num(struct tcursor *c, uint64_t key, struct bytes value) MUST_CHECK;
int tcursor_put(struct tcursor *c, struct bytes key, struct bytes value) MUST_CHECK;
/* *ret_found (may be NULL) false: there was no such key. */
int tcursor_remove_num(struct tcursor *c, uint64_t key, bool *ret_found) MUST_CHECK;
int tcursor_remove(struct tcursor *c, struct bytes key, bool *ret_found) MUST_CHECK;
/* Removes keys from..to, both included, in the cursor's transaction. */
int tcursor_truncate_num(struct tcursor *c, uint64_t from, uint64_t to) MUST_CHECK;
int tcursor_truncate(struct tcursor *c, struct bytes from, struct bytes to) MUST_CHECK;

#endif
