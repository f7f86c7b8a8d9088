/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sizes and soundness of what is stored: collStats, dbStats, dataSize, validate. */
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/fields.h"
#include "server/command.h"
#include "server/server.h"
#include "server/stats.h"
#include "storage/record.h"

/* --- collStats ----------------------------------------------------------------------------- */

struct coll_stats_args {
    int64_t scale;
};

static const struct field coll_stats_fields[] = {
    {"scale", F_INT, offsetof(struct coll_stats_args, scale), FIELD_POSITIVE | FIELD_NULL_OK},
    {"verbose", F_IGNORE, 0, 0},
    {NULL, 0, 0, 0},
};

int cmd_collStats(struct request *rq)
{
    struct coll_stats_args args = {.scale = 1};
    struct coll_stats st;
    const char *ns, *coll;
    bool there;

    TRY_RETURN(request_ns(rq, &ns, &coll));
    TRY_RETURN(
        fields_parse(&rq->op, "collStats", coll_stats_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    there = stats_collect(&rq->op, ns, &st);
    bw_str(rq->reply, "ns", ns);
    stats_write_storage(rq->reply, there ? &st : NULL, args.scale);
    return 0;
}

/* --- dbStats ------------------------------------------------------------------------------- */

struct db_stats_args {
    int64_t scale;
    bool free_storage;
};

static const struct field db_stats_fields[] = {
    {"scale", F_INT, offsetof(struct db_stats_args, scale), FIELD_POSITIVE | FIELD_NULL_OK},
    {"freeStorage", F_BOOL, offsetof(struct db_stats_args, free_storage), 0},
    {NULL, 0, 0, 0},
};

struct db_totals {
    int64_t collections, objects, data_bytes, storage_bytes, indexes, index_bytes;
};

static int add_up(struct op *op, struct db_totals *t)
{
    const char **names;
    size_t n;

    TRY_RETURN(stats_namespaces(op, op->db, &names, &n));
    for (size_t i = 0; i < n; i++) {
        struct coll_stats st;

        TRY_RETURN(op_check(op));
        if (!stats_collect(op, names[i], &st))
            continue; /* dropped meanwhile */
        t->collections++;
        t->objects += st.count;
        t->data_bytes += st.data_bytes;
        t->storage_bytes += st.storage_bytes;
        t->indexes += st.nindexes;
        t->index_bytes += st.index_bytes;
    }
    return 0;
}

static void write_disk(struct bw *w, const char *path, double scale)
{
    struct statvfs fs;

    if (path == NULL || statvfs(path, &fs) != 0)
        return;
    bw_f64(w, "fsUsedSize", (double)(fs.f_blocks - fs.f_bfree) * (double)fs.f_frsize / scale);
    bw_f64(w, "fsTotalSize", (double)fs.f_blocks * (double)fs.f_frsize / scale);
}

int cmd_dbStats(struct request *rq)
{
    struct db_stats_args args = {.scale = 1};
    struct db_totals t = {0};
    struct bw *w = rq->reply;
    double scale;

    TRY_RETURN(
        fields_parse(&rq->op, "dbStats", db_stats_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    TRY_RETURN(check_db_name(&rq->op, rq->op.db));
    TRY_RETURN(add_up(&rq->op, &t));
    scale = (double)args.scale;

    bw_str(w, "db", rq->op.db);
    bw_i64(w, "collections", t.collections);
    bw_i64(w, "views", 0);
    bw_i64(w, "objects", t.objects);
    bw_f64(w, "avgObjSize", t.objects > 0 ? (double)t.data_bytes / (double)t.objects : 0);
    bw_f64(w, "dataSize", (double)t.data_bytes / scale);
    bw_f64(w, "storageSize", (double)t.storage_bytes / scale);
    if (args.free_storage)
        bw_f64(w, "freeStorageSize", 0);
    bw_i64(w, "indexes", t.indexes);
    bw_f64(w, "indexSize", (double)t.index_bytes / scale);
    if (args.free_storage)
        bw_f64(w, "indexFreeStorageSize", 0);
    bw_f64(w, "totalSize", (double)(t.storage_bytes + t.index_bytes) / scale);
    if (args.free_storage)
        bw_f64(w, "totalFreeStorageSize", 0);
    bw_i64(w, "scaleFactor", args.scale);
    write_disk(w, rq->server->settings.dbpath, scale);
    return 0;
}

/* --- dataSize ------------------------------------------------------------------------------ */

struct data_size_args {
    struct bv key_pattern, min, max;
    int64_t max_size, max_objects;
    bool estimate;
};

static const struct field data_size_fields[] = {
    {"keyPattern", F_DOC, offsetof(struct data_size_args, key_pattern), FIELD_UNBUILT},
    {"min", F_DOC, offsetof(struct data_size_args, min), FIELD_UNBUILT},
    {"max", F_DOC, offsetof(struct data_size_args, max), FIELD_UNBUILT},
    {"maxSize", F_INT, offsetof(struct data_size_args, max_size), FIELD_UNBUILT},
    {"maxObjects", F_INT, offsetof(struct data_size_args, max_objects), FIELD_UNBUILT},
    {"estimate", F_BOOL, offsetof(struct data_size_args, estimate), 0},
    {NULL, 0, 0, 0},
};

/* The counts kept in memory are exact, so the estimate and the whole scan agree. */
int cmd_dataSize(struct request *rq)
{
    struct data_size_args args = {0};
    struct op *op = &rq->op;
    struct coll_stats st;
    struct belem first;
    const char *ns, *dot;
    int64_t begin = clock_mono_us();

    bv_first(op->cmd, &first);
    if (first.v.type != BV_STRING)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "BSON field 'dataSize.dataSize' is the wrong type '%s', expected type "
                       "'string'",
                       bv_type_name(first.v.type));
    TRY_RETURN(fields_parse(op, "dataSize", data_size_fields, op->cmd, FIELDS_COMMAND, &args));
    ns = bv_str(first.v, NULL);
    dot = strchr(ns, '.');
    if (dot == NULL || dot == ns || dot[1] == '\0')
        return op_fail(op, ERR_INVALID_NAMESPACE, "Invalid namespace specified '%s'", ns);
    if (!stats_collect(op, ns, &st))
        st = (struct coll_stats){0};
    else
        bw_bool(rq->reply, "estimate", args.estimate);
    bw_i64(rq->reply, "size", st.data_bytes);
    bw_i64(rq->reply, "numObjects", st.count);
    bw_i64(rq->reply, "millis", (clock_mono_us() - begin) / 1000);
    return 0;
}

/* --- validate ------------------------------------------------------------------------------ */

struct validate_args {
    bool full, background, repair, metadata;
};

static const struct field validate_fields[] = {
    {"full", F_BOOL, offsetof(struct validate_args, full), 0},
    {"scandata", F_IGNORE, 0, 0},
    {"enforceFastCount", F_IGNORE, 0, 0},
    {"checkBSONConformance", F_IGNORE, 0, 0},
    {"background", F_BOOL, offsetof(struct validate_args, background), 0},
    {"repair", F_BOOL, offsetof(struct validate_args, repair), 0},
    {"fixMultikey", F_IGNORE, 0, 0},
    {"metadata", F_BOOL, offsetof(struct validate_args, metadata), 0},
    {NULL, 0, 0, 0},
};

static void write_validation(struct bw *w, const struct coll *k, const struct validate_result *r)
{
    bw_str(w, "ns", k->ns);
    bw_uuid(w, "uuid", k->uuid);
    bw_i64(w, "nInvalidDocuments", r->invalid_docs);
    bw_i64(w, "nNonCompliantDocuments", 0);
    bw_i64(w, "nrecords", r->records);
    bw_i32(w, "nIndexes", (int32_t)k->nindexes);
    bw_doc_begin(w, "keysPerIndex");
    for (uint32_t i = 0; i < k->nindexes; i++)
        bw_i64(w, k->indexes[i].name, r->keys_per_index[i]);
    bw_end(w);
    bw_doc_begin(w, "indexDetails");
    for (uint32_t i = 0; i < k->nindexes; i++) {
        bw_doc_begin(w, k->indexes[i].name);
        bw_bool(w, "valid", r->nerrors == 0);
        bw_doc_begin(w, "spec");
        bw_fields(w, k->indexes[i].spec);
        bw_end(w);
        bw_end(w);
    }
    bw_end(w);
    bw_bool(w, "valid", r->nerrors == 0 && r->invalid_docs == 0);
    bw_bool(w, "repaired", false);
    bw_bv(w, "warnings", bv_empty_array);
    bw_arr_begin(w, "errors");
    for (size_t i = 0; i < r->nerrors; i++)
        bw_str(w, NULL, r->errors[i]);
    bw_end(w);
    bw_bv(w, "extraIndexEntries", bv_empty_array);
    bw_bv(w, "missingIndexEntries", bv_empty_array);
    bw_bv(w, "corruptRecords", bv_empty_array);
}

int cmd_validate(struct request *rq)
{
    struct validate_args args = {0};
    struct validate_result result;
    struct op *op = &rq->op;
    const char *ns, *coll;
    struct coll *k;
    int rc;

    TRY_RETURN(request_ns(rq, &ns, &coll));
    TRY_RETURN(fields_parse(op, "validate", validate_fields, op->cmd, FIELDS_COMMAND, &args));
    if (args.full && args.background)
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "Running the validate command with { background: true } and { full: true } "
                       "is not supported.");
    if (args.repair)
        return op_fail(op, ERR_NOT_IMPLEMENTED, "validate cannot repair");
    k = catalog_get(op->database->catalog, ns);
    if (k == NULL)
        return op_fail(op, ERR_NAMESPACE_NOT_FOUND, "Collection '%s' does not exist to validate.",
                       ns);
    rc = coll_validate(op->database->engine, op, k, &result);
    /* Later writes keep only the indexes of the version that replaced this one. */
    if (rc == 0 && result.nerrors > 0 && !coll_is_current(k))
        rc = op_fail(op, ERR_OBJECT_IS_BUSY,
                     "Collection '%s' was altered while it was validated: run validate again", ns);
    if (rc == 0)
        write_validation(rq->reply, k, &result);
    coll_unref(k);
    return rc;
}
