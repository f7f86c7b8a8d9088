/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sizes and counts of collections, as collStats, dbStats and $collStats show them.
 *
 * local.oplog.rs counts as a capped collection. Counts are those kept in memory; sizes on disk are
 * those of WiredTiger's files (0 with --memory).
 */
#ifndef RUNNEL_SERVER_STATS_H
#define RUNNEL_SERVER_STATS_H

#include "base/bw.h"
#include "query/database.h"

/* Everything but `name` of an index, and the totals, are bytes. */
struct coll_stats {
    int64_t count, data_bytes, storage_bytes, index_bytes;
    bool capped;
    int64_t max_docs, max_bytes; /* capped only; max_docs 0: no such limit */
    uint32_t nindexes;
    const char **index_names; /* with the two below: by position, in the op's arena */
    const char **index_idents;
    int64_t *index_sizes;
    const char *ident;
};

/* False when there is no such collection. */
bool stats_collect(struct op *op, const char *ns, struct coll_stats *ret);

/* The one row that {$collStats: spec} gives for ns, in the op's arena. Fails on a bad spec, and
 * with NamespaceNotFound where storageStats or count need a collection. */
int stats_coll_doc(struct op *op, const char *ns, struct bv spec, struct bv *ret) MUST_CHECK;

/* "db.coll" of every collection of a database, the oplog included; sorted; in the op's arena. */
int stats_namespaces(struct op *op, const char *db, const char ***ret, size_t *ret_n) MUST_CHECK;

/* The fields from size to scaleFactor; st NULL: of a collection that is not there. */
void stats_write_storage(struct bw *w, const struct coll_stats *st, int64_t scale);
/* As int where it fits, else as long: MongoDB's way with sizes and counts. */
void stats_int(struct bw *w, const char *key, int64_t x);

#endif
