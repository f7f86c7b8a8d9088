/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Changing the catalog. Only query/ddl*.c and start-up include this header. All calls: schema
 * thread, under the exclusive namespace locks.
 */
#ifndef RUNNEL_STORAGE_CATALOG_WRITE_H
#define RUNNEL_STORAGE_CATALOG_WRITE_H

#include "storage/catalog.h"

/* A new, unpublished collection with its _id index; fresh idents; no tables made yet. `options`
 * is copied. id_index_spec {v:2, key:{_id:1}, name:"_id_"}. */
struct coll *coll_new(struct catalog *c, const char *ns, const uint8_t uuid[16], struct bv options);
/* A copy of k to be changed before it is published; counters are shared. */
struct coll *coll_copy(struct coll *k);
void coll_edit_rename(struct coll *k, const char *ns);
void coll_edit_options(struct coll *k, struct bv options);
/* Adds an index from a complete spec; a fresh ident. */
struct index *coll_edit_add_index(struct coll *k, struct bv spec);
void coll_edit_drop_index(struct coll *k, const char *name);
void coll_edit_index_spec(struct coll *k, const char *name, struct bv spec);

/* Rows, inside the DDL's transaction. One DDL transaction at a time writes rows: all of them write
 * the row "meta". */
int catalog_put_row(struct stx *t, struct coll *k) MUST_CHECK;
int catalog_remove_row(struct stx *t, struct coll *k) MUST_CHECK;
/* For a collection made in a long transaction, whose row must conflict with no other: the row
 * "meta" first, in a transaction of its own that is committed before, then the row alone. */
int catalog_put_meta(struct stx *t, struct catalog *c) MUST_CHECK;
int catalog_put_new_row(struct stx *t, struct coll *k) MUST_CHECK;

/* After the commit, at `optime`: old (or NULL) is replaced by now (or NULL). Takes over the
 * caller's reference to `now` as the published one. Idents that `old` used and `now` does not die
 * when the last reference to `old`, and to every version before it, is gone. The tables of a
 * version that was never published are the caller's to give to catalog_add_dead(). */
void catalog_publish(struct catalog *c, struct coll *old, struct coll *now, uint64_t optime);

/* For the reaper: the idents whose last user is gone; call repeatedly until it returns false. A
 * dead ident handed out here is the caller's to drop (or to give back with catalog_add_dead). The
 * transaction that removed the ident's row must be durable before the table is dropped: a crash in
 * between would leave a row that names a missing table. */
bool catalog_take_dead(struct catalog *c, char ret_ident[static IDENT_MAX]);
void catalog_add_dead(struct catalog *c, const char *ident);

#endif
