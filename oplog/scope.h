/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a stream watches, and the one test of an oplog entry against it. The hub (who is woken),
 * the segments (what is skipped) and the streams (what is shown) share it, so they cannot differ.
 */
#ifndef RUNNEL_OPLOG_SCOPE_H
#define RUNNEL_OPLOG_SCOPE_H

#include "oplog/entry.h"

enum scope_kind { SCOPE_COLLECTION, SCOPE_DATABASE, SCOPE_CLUSTER, SCOPE_OPLOG };

struct scope {
    enum scope_kind kind;
    const char *db; /* COLLECTION, DATABASE */
    const char *ns; /* COLLECTION: "db.coll" */
    bool expanded;  /* showExpandedEvents: also create, index builds, collMod, views */
    bool system;    /* showSystemEvents */
    bool migration; /* showMigrationEvents: also entries marked fromMigrate */
};

/*
 * True when the entry may give the stream an event (change-streams reference B.6): namespaces in
 * applyOps, rename targets and DDL names included. SCOPE_OPLOG matches every entry.
 */
bool scope_matches(const struct scope *s, const struct oplog_row *row);

/* The hash of names, in the hub and the segments; never 0. On disk in segment rows: it must never
 * change. */
uint64_t name_hash(const char *name);
/* Those of "db.coll" and "db" in one go. */
struct ns_hashes ns_hash(const char *ns);

struct scope_name {
    const char *p; /* len bytes, without an end */
    size_t len;
    uint64_t hash;
};

/*
 * The names under which an entry concerns collections and databases: calls fn once per name
 * ("db.coll" for a collection, "db" for its database); fn(arg, NULL) when it cannot be told and
 * concerns everything. scope_matches(s,row) implies that one of s's names is among them. The same
 * name may come more than once; an entry that concerns nothing (a noop) gives none.
 */
void scope_names(const struct oplog_row *row, void (*fn)(void *arg, const struct scope_name *name),
                 void *arg);
/* Computes row->hashes, for an entry that will be asked for its names again and again. */
void scope_hash_row(struct oplog_row *row);

#endif
