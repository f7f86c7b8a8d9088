/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/stats.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/fields.h"
#include "server/server.h"
#include "server/top.h"

#define OPLOG_NS "local.oplog.rs"

static void collect_oplog(struct op *op, struct coll_stats *st)
{
    struct oplog *o = op->database->oplog;
    struct oplog_stats os;
    double seconds;

    oplog_stats(o, &os);
    oplog_get_limits(o, &st->max_bytes, &seconds, &st->max_docs);
    st->count = os.entries;
    st->data_bytes = os.bytes;
    st->storage_bytes = engine_table_bytes(op->database->engine, "oplog");
    st->ident = "oplog";
    st->capped = true;
}

static void collect_indexes(struct op *op, struct coll *k, struct coll_stats *st)
{
    uint32_t n = k->nindexes;

    st->nindexes = n;
    st->index_names = arena_alloc(&op->arena, n * sizeof *st->index_names);
    st->index_idents = arena_alloc(&op->arena, n * sizeof *st->index_idents);
    st->index_sizes = arena_alloc(&op->arena, n * sizeof *st->index_sizes);
    for (uint32_t i = 0; i < n; i++) {
        const struct index *ix = &k->indexes[i];

        st->index_names[i] = arena_strdup(&op->arena, ix->name);
        st->index_idents[i] = arena_strdup(&op->arena, ix->ident);
        st->index_sizes[i] = engine_table_bytes(op->database->engine, ix->ident);
        st->index_bytes += st->index_sizes[i];
    }
}

bool stats_collect(struct op *op, const char *ns, struct coll_stats *ret)
{
    struct coll *k;

    *ret = (struct coll_stats){0};
    if (strcmp(ns, OPLOG_NS) == 0 && !oplog_hidden(op->database->oplog)) {
        collect_oplog(op, ret);
        return true;
    }
    k = catalog_get(op->database->catalog, ns);
    if (k == NULL)
        return false;
    ret->count = atomic_load(&k->counters->count);
    ret->data_bytes = atomic_load(&k->counters->bytes);
    ret->storage_bytes = engine_table_bytes(op->database->engine, k->ident);
    ret->ident = arena_strdup(&op->arena, k->ident);
    collect_indexes(op, k, ret);
    coll_unref(k);
    return true;
}

int stats_namespaces(struct op *op, const char *db, const char ***ret, size_t *ret_n)
{
    size_t n;
    struct coll **colls = catalog_list(op->database->catalog, &op->arena, db, &n);
    const char **names = arena_try(&op->arena, (n + 1) * sizeof *names);
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        if (names != NULL)
            names[used++] = arena_strdup(&op->arena, colls[i]->ns);
        coll_unref(colls[i]);
    }
    if (names == NULL)
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "too many collections to list");
    if (strcmp(db, "local") == 0 && !oplog_hidden(op->database->oplog)) {
        size_t at = used++;

        for (; at > 0 && strcmp(names[at - 1], OPLOG_NS) > 0; at--)
            names[at] = names[at - 1];
        names[at] = OPLOG_NS;
    }
    *ret = names;
    *ret_n = used;
    return 0;
}

/* --- writing ------------------------------------------------------------------------------- */

void stats_int(struct bw *w, const char *key, int64_t x)
{
    if (x >= INT32_MIN && x <= INT32_MAX)
        bw_i32(w, key, (int32_t)x);
    else
        bw_i64(w, key, x);
}

static void write_table(struct bw *w, const char *key, const char *ident)
{
    char uri[IDENT_MAX + 32];

    snprintf(uri, sizeof uri, "statistics:table:%s", ident);
    bw_doc_begin(w, key);
    bw_str(w, "type", "file");
    bw_str(w, "uri", uri);
    bw_end(w);
}

static void write_missing(struct bw *w, int64_t scale)
{
    bw_i32(w, "size", 0);
    bw_i32(w, "count", 0);
    bw_i32(w, "numOrphanDocs", 0);
    bw_i32(w, "storageSize", 0);
    bw_i32(w, "totalSize", 0);
    bw_i32(w, "nindexes", 0);
    bw_i32(w, "totalIndexSize", 0);
    bw_bv(w, "indexDetails", bv_empty_doc);
    bw_bv(w, "indexSizes", bv_empty_doc);
    stats_int(w, "scaleFactor", scale);
}

void stats_write_storage(struct bw *w, const struct coll_stats *st, int64_t scale)
{
    if (st == NULL) {
        write_missing(w, scale);
        return;
    }
    stats_int(w, "size", st->data_bytes / scale);
    stats_int(w, "count", st->count);
    if (st->count > 0)
        stats_int(w, "avgObjSize", st->data_bytes / st->count);
    bw_i32(w, "numOrphanDocs", 0);
    stats_int(w, "storageSize", st->storage_bytes / scale);
    bw_i32(w, "freeStorageSize", 0);
    bw_bool(w, "capped", st->capped);
    if (st->capped) {
        stats_int(w, "max", st->max_docs);
        stats_int(w, "maxSize", st->max_bytes / scale);
    }
    write_table(w, "wiredTiger", st->ident);
    bw_i32(w, "nindexes", (int32_t)st->nindexes);
    bw_doc_begin(w, "indexDetails");
    for (uint32_t i = 0; i < st->nindexes; i++)
        write_table(w, st->index_names[i], st->index_idents[i]);
    bw_end(w);
    bw_bv(w, "indexBuilds", bv_empty_array);
    stats_int(w, "totalIndexSize", st->index_bytes / scale);
    stats_int(w, "totalSize", (st->storage_bytes + st->index_bytes) / scale);
    bw_doc_begin(w, "indexSizes");
    for (uint32_t i = 0; i < st->nindexes; i++)
        stats_int(w, st->index_names[i], st->index_sizes[i] / scale);
    bw_end(w);
    stats_int(w, "scaleFactor", scale);
}

/* --- $collStats ---------------------------------------------------------------------------- */

struct coll_stats_spec {
    struct bv latency, storage, count, exec;
};

static const struct field spec_fields[] = {
    {"latencyStats", F_DOC, offsetof(struct coll_stats_spec, latency), 0},
    {"storageStats", F_DOC, offsetof(struct coll_stats_spec, storage), 0},
    {"count", F_DOC, offsetof(struct coll_stats_spec, count), 0},
    {"queryExecStats", F_DOC, offsetof(struct coll_stats_spec, exec), FIELD_UNBUILT},
    {NULL, 0, 0, 0},
};

struct storage_spec {
    int64_t scale;
};

static const struct field storage_fields[] = {
    {"scale", F_INT, offsetof(struct storage_spec, scale), FIELD_POSITIVE},
    {"verbose", F_IGNORE, 0, 0},
    {"waitForLock", F_IGNORE, 0, 0},
    {"numericOnly", F_IGNORE, 0, 0},
    {NULL, 0, 0, 0},
};

struct latency_spec {
    bool histograms;
};

static const struct field latency_fields[] = {
    {"histograms", F_BOOL, offsetof(struct latency_spec, histograms), 0},
    {NULL, 0, 0, 0},
};

static int no_collection(struct op *op, const char *ns, const char *what)
{
    return op_fail(op, ERR_NAMESPACE_NOT_FOUND,
                   "Unable to retrieve %s in $collStats stage :: caused by :: Collection [%s] "
                   "not found.",
                   what, ns);
}

static void write_latency_class(struct bw *w, const char *key, const struct top_entry *t,
                                enum top_kind from, enum top_kind to)
{
    struct top_count sum = {0};

    for (int i = (int)from; i <= (int)to; i++) {
        sum.us += t->kinds[i].us;
        sum.count += t->kinds[i].count;
    }
    bw_doc_begin(w, key);
    bw_i64(w, "latency", sum.us);
    bw_i64(w, "ops", sum.count);
    bw_end(w);
}

static void write_latency(struct bw *w, struct op *op, const char *ns)
{
    struct server *server = op->server;
    struct top_entry t;

    top_get(server->top, ns, &t);
    bw_doc_begin(w, "latencyStats");
    write_latency_class(w, "reads", &t, TOP_QUERIES, TOP_GETMORE);
    write_latency_class(w, "writes", &t, TOP_INSERT, TOP_REMOVE);
    write_latency_class(w, "commands", &t, TOP_COMMANDS, TOP_COMMANDS);
    bw_doc_begin(w, "transactions");
    bw_i64(w, "latency", 0);
    bw_i64(w, "ops", 0);
    bw_end(w);
    bw_end(w);
}

int stats_coll_doc(struct op *op, const char *ns, struct bv spec, struct bv *ret)
{
    struct coll_stats_spec s = {0};
    struct storage_spec storage = {.scale = 1};
    struct latency_spec latency = {0};
    struct coll_stats st;
    bool there;
    struct bw w;

    if (spec.type != BV_DOC)
        return op_fail(op, 5447000,
                       "$collStats must take a nested object but found: $collStats: %s",
                       bv_show(&op->arena, spec, 100));
    TRY_RETURN(fields_parse(op, "$collStats", spec_fields, spec, 0, &s));
    if (!bv_is_missing(s.storage))
        TRY_RETURN(
            fields_parse(op, "$collStats.storageStats", storage_fields, s.storage, 0, &storage));
    if (!bv_is_missing(s.latency))
        TRY_RETURN(
            fields_parse(op, "$collStats.latencyStats", latency_fields, s.latency, 0, &latency));
    if (latency.histograms)
        return op_fail(op, ERR_NOT_IMPLEMENTED, "latency histograms are not kept");
    there = stats_collect(op, ns, &st);
    if (!there && !bv_is_missing(s.storage))
        return no_collection(op, ns, "storageStats");
    if (!there && !bv_is_missing(s.count))
        return no_collection(op, ns, "count");

    bw_init(&w, &op->arena);
    bw_str(&w, "ns", ns);
    bw_str(&w, "host", op->database->host);
    bw_date(&w, "localTime", clock_wall_ms());
    if (!bv_is_missing(s.latency))
        write_latency(&w, op, ns);
    if (!bv_is_missing(s.storage)) {
        bw_doc_begin(&w, "storageStats");
        stats_write_storage(&w, &st, storage.scale);
        bw_end(&w);
    }
    if (!bv_is_missing(s.count))
        stats_int(&w, "count", st.count);
    *ret = bw_done(&w);
    return 0;
}
