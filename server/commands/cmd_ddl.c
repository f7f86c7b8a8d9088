/* SPDX-License-Identifier: GPL-3.0-or-later */
/* create, drop, dropDatabase, renameCollection, collMod, createIndexes, dropIndexes. */
#include "query/ddl.h"
#include "query/source.h"
#include "query/txn.h"
#include "server/commands/cmd_common.h"

/* Collections that only the server writes. */
static int refuse_server_owned(struct op *op, const char *ns)
{
    if (source_is_virtual(ns))
        return op_fail(op, ERR_UNAUTHORIZED, "not authorized on %.*s to change '%s'",
                       (int)strcspn(ns, "."), ns, ns);
    return 0;
}

static int ddl_ns(struct request *rq, const char **ret_ns)
{
    const char *coll;

    TRY_RETURN(request_ns(rq, ret_ns, &coll));
    return refuse_server_owned(&rq->op, *ret_ns);
}

/* --- changeStreamPreAndPostImages ------------------------------------------------------------ */

struct images_args {
    bool enabled;
};

static const struct field images_fields[] = {
    {"enabled", F_STRICT_BOOL, offsetof(struct images_args, enabled), FIELD_REQUIRED},
    {NULL, 0, 0, 0}};

static int parse_images(struct request *rq, const char *what, const char *ns, struct bv v,
                        bool *ret_enabled)
{
    struct op *op = &rq->op;
    struct images_args a = {.enabled = false};
    size_t db_len = strcspn(ns, ".");

    TRY_RETURN(fields_parse(op, what, images_fields, v, 0, &a));
    if ((db_len == 5 && strncmp(ns, "admin", 5) == 0) ||
        (db_len == 5 && strncmp(ns, "local", 5) == 0) ||
        (db_len == 6 && strncmp(ns, "config", 6) == 0))
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "Change stream pre- and post-images cannot be enabled on the internal "
                       "database %.*s",
                       (int)db_len, ns);
    *ret_enabled = a.enabled;
    return 0;
}

/* --- create ---------------------------------------------------------------------------------- */

struct create_args {
    bool capped;
    struct bv size, max, collation, images, id_index;
};

static const struct field create_fields[] = {
    {"capped", F_BOOL, offsetof(struct create_args, capped), 0},
    {"size", F_NUMBER, offsetof(struct create_args, size), 0},
    {"max", F_NUMBER, offsetof(struct create_args, max), 0},
    {"autoIndexId", F_IGNORE, 0, 0},
    {"idIndex", F_DOC, offsetof(struct create_args, id_index), 0},
    {"collation", F_DOC, offsetof(struct create_args, collation), 0},
    {"changeStreamPreAndPostImages", F_DOC, offsetof(struct create_args, images), 0},
    {"flags", F_IGNORE, 0, 0},
    {"temp", F_ANY, 0, FIELD_UNBUILT},
    {"validator", F_ANY, 0, FIELD_UNBUILT},
    {"validationLevel", F_ANY, 0, FIELD_UNBUILT},
    {"validationAction", F_ANY, 0, FIELD_UNBUILT},
    {"viewOn", F_ANY, 0, FIELD_UNBUILT},
    {"pipeline", F_ANY, 0, FIELD_UNBUILT},
    {"timeseries", F_ANY, 0, FIELD_UNBUILT},
    {"clusteredIndex", F_ANY, 0, FIELD_UNBUILT},
    {"expireAfterSeconds", F_ANY, 0, FIELD_UNBUILT},
    {"storageEngine", F_ANY, 0, FIELD_UNBUILT},
    {"indexOptionDefaults", F_ANY, 0, FIELD_UNBUILT},
    {"encryptedFields", F_ANY, 0, FIELD_UNBUILT},
    {"recordPreImages", F_ANY, 0, FIELD_UNBUILT},
    {NULL, 0, 0, 0}};

static int create_options(struct request *rq, const char *ns, const struct create_args *a,
                          struct bv *ret)
{
    struct op *op = &rq->op;
    bool images = false;
    struct bw w;

    if (a->capped)
        return op_fail(op, ERR_NOT_IMPLEMENTED, "capped collections are not supported yet");
    if (!bv_is_missing(a->size) || !bv_is_missing(a->max))
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "the 'capped' field needs to be true when either the 'size' or 'max' fields "
                       "are present");
    TRY_RETURN(check_collation(op, a->collation));
    if (!bv_is_missing(a->images))
        TRY_RETURN(parse_images(rq, "create.changeStreamPreAndPostImages", ns, a->images, &images));
    bw_init(&w, &op->arena);
    if (images) {
        bw_doc_begin(&w, "changeStreamPreAndPostImages");
        bw_bool(&w, "enabled", true);
        bw_end(&w);
    }
    *ret = bw_done(&w);
    return 0;
}

int cmd_create(struct request *rq)
{
    struct create_args args;
    struct op *op = &rq->op;
    struct coll *k;
    struct bv options;
    const char *ns;

    memset(&args, 0, sizeof(args));
    TRY_RETURN(ddl_ns(rq, &ns));
    TRY_RETURN(fields_parse(op, "create", create_fields, op->cmd, FIELDS_COMMAND, &args));
    TRY_RETURN(create_options(rq, ns, &args, &options));
    TRY_RETURN(check_user_ns(op, ns));
    TRY_RETURN(txn_lookup(op, ns, &k));
    if (k != NULL) {
        bool same = bv_cmp_docs(k->options, options) == 0;

        coll_unref(k);
        if (op->txn != NULL)
            return op_fail(op, ERR_NAMESPACE_EXISTS, "Collection %s already exists.", ns);
        if (same)
            return 0;
        return op_fail(op, ERR_NAMESPACE_EXISTS,
                       "namespace %s already exists, but with different options", ns);
    }
    return ddl_create(op, ns, options);
}

/* --- drop, dropDatabase, renameCollection ---------------------------------------------------- */

static const struct field no_fields[] = {{"collectionUUID", F_BIN, 0, FIELD_UNBUILT},
                                         {NULL, 0, 0, 0}};

int cmd_drop(struct request *rq)
{
    struct ddl_drop_result r;
    const char *ns;

    TRY_RETURN(ddl_ns(rq, &ns));
    TRY_RETURN(fields_parse(&rq->op, "drop", no_fields, rq->op.cmd, FIELDS_COMMAND, NULL));
    TRY_RETURN(ddl_drop(&rq->op, ns, &r));
    if (!r.existed)
        return 0;
    bw_i32(rq->reply, "nIndexesWas", (int32_t)r.nindexes);
    bw_str(rq->reply, "ns", ns);
    return 0;
}

int cmd_dropDatabase(struct request *rq)
{
    struct op *op = &rq->op;
    int64_t one;
    bool existed;

    TRY_RETURN(fields_parse(op, "dropDatabase", no_fields, op->cmd, FIELDS_COMMAND, NULL));
    if (!bv_to_i64(bv_first(op->cmd, NULL), &one) || one != 1)
        return op_fail(op, 5255100, "Have to pass 1 as 'dropDatabase' parameter");
    if (strcmp(op->db, "local") == 0 || strcmp(op->db, "config") == 0 ||
        strcmp(op->db, "admin") == 0)
        return op_fail(op, ERR_ILLEGAL_OPERATION,
                       "Cannot drop '%s' database while replication is active", op->db);
    TRY_RETURN(ddl_drop_database(op, op->db, &existed));
    if (existed)
        bw_str(rq->reply, "dropped", op->db);
    return 0;
}

struct rename_args {
    const char *to;
    struct bv drop_target;
    bool stay_temp;
};

static const struct field rename_fields[] = {
    {"to", F_STR, offsetof(struct rename_args, to), FIELD_REQUIRED},
    {"dropTarget", F_ANY, offsetof(struct rename_args, drop_target), 0},
    {"stayTemp", F_BOOL, offsetof(struct rename_args, stay_temp), 0},
    {"collectionUUID", F_BIN, 0, FIELD_UNBUILT},
    {NULL, 0, 0, 0}};

/* A whole namespace given as a string. */
static int check_full_ns(struct op *op, const char *ns)
{
    const char *dot = strchr(ns, '.');
    const char *db;

    if (dot == NULL || dot == ns || dot[1] == '\0')
        return op_fail(op, ERR_INVALID_NAMESPACE, "Invalid namespace specified '%s'", ns);
    db = arena_strndup(&op->arena, ns, (size_t)(dot - ns));
    TRY_RETURN(check_db_name(op, db));
    TRY_RETURN(check_coll_name(op, db, dot + 1));
    if (strcmp(ns, "local.oplog.rs") == 0)
        return op_fail(op, ERR_ILLEGAL_OPERATION,
                       "can't rename live oplog or rename onto it while replicating");
    if (strncmp(dot + 1, "system.", 7) == 0)
        return op_fail(op, ERR_ILLEGAL_OPERATION, "renaming system collections is not allowed");
    return refuse_server_owned(op, ns);
}

int cmd_renameCollection(struct request *rq)
{
    struct rename_args args = {.to = NULL};
    struct op *op = &rq->op;
    struct bv from = bv_first(op->cmd, NULL);
    const char *ns;

    TRY_RETURN(fields_parse(op, "renameCollection", rename_fields, op->cmd, FIELDS_COMMAND, &args));
    if (from.type != BV_STRING)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "BSON field 'renameCollection.renameCollection' is the wrong type '%s', "
                       "expected type 'string'",
                       bv_type_name(from.type));
    if (!bv_is_missing(args.drop_target) && args.drop_target.type != BV_BOOL &&
        !bv_is_number(args.drop_target) && args.drop_target.type != BV_BINARY)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "BSON field 'renameCollection.dropTarget' is the wrong type '%s', expected "
                       "types '[bool, long, int, decimal, double, binData]'",
                       bv_type_name(args.drop_target.type));
    ns = arena_strdup(&op->arena, bv_str(from, NULL));
    TRY_RETURN(check_full_ns(op, ns));
    TRY_RETURN(check_full_ns(op, args.to));
    return ddl_rename(op, ns, args.to, bv_truthy(args.drop_target));
}

/* --- collMod --------------------------------------------------------------------------------- */

struct collmod_args {
    struct bv images, index;
};

static const struct field collmod_fields[] = {
    {"changeStreamPreAndPostImages", F_DOC, offsetof(struct collmod_args, images), 0},
    {"index", F_DOC, offsetof(struct collmod_args, index), 0},
    {"validator", F_ANY, 0, FIELD_UNBUILT},
    {"validationLevel", F_ANY, 0, FIELD_UNBUILT},
    {"validationAction", F_ANY, 0, FIELD_UNBUILT},
    {"viewOn", F_ANY, 0, FIELD_UNBUILT},
    {"pipeline", F_ANY, 0, FIELD_UNBUILT},
    {"timeseries", F_ANY, 0, FIELD_UNBUILT},
    {"expireAfterSeconds", F_ANY, 0, FIELD_UNBUILT},
    {"cappedSize", F_ANY, 0, FIELD_UNBUILT},
    {"cappedMax", F_ANY, 0, FIELD_UNBUILT},
    {"recordPreImages", F_ANY, 0, FIELD_UNBUILT},
    {"dryRun", F_ANY, 0, FIELD_UNBUILT},
    {NULL, 0, 0, 0}};

int cmd_collMod(struct request *rq)
{
    struct collmod_args args = {.images = BV_NONE, .index = BV_NONE};
    struct ddl_collmod m = {.has_images = false};
    const char *ns;

    TRY_RETURN(ddl_ns(rq, &ns));
    TRY_RETURN(fields_parse(&rq->op, "collMod", collmod_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    if (!bv_is_missing(args.images)) {
        TRY_RETURN(
            parse_images(rq, "collMod.changeStreamPreAndPostImages", ns, args.images, &m.images));
        m.has_images = true;
    }
    m.index = args.index;
    return ddl_collmod(&rq->op, ns, &m, rq->reply);
}

/* --- indexes --------------------------------------------------------------------------------- */

struct index_args {
    struct bv indexes;
    bool ignore_unknown;
};

static const struct field create_index_fields[] = {
    {"indexes", F_ARRAY, offsetof(struct index_args, indexes), FIELD_REQUIRED},
    {"ignoreUnknownIndexOptions", F_BOOL, offsetof(struct index_args, ignore_unknown), 0},
    {"commitQuorum", F_IGNORE, 0, 0},
    {"v", F_IGNORE, 0, 0},
    {"collectionUUID", F_BIN, 0, FIELD_UNBUILT},
    {NULL, 0, 0, 0}};

int cmd_createIndexes(struct request *rq)
{
    struct index_args args = {.ignore_unknown = false};
    struct ddl_index_result r;
    const char *ns;

    TRY_RETURN(ddl_ns(rq, &ns));
    TRY_RETURN(fields_parse(&rq->op, "createIndexes", create_index_fields, rq->op.cmd,
                            FIELDS_COMMAND, &args));
    TRY_RETURN(check_user_ns(&rq->op, ns));
    TRY_RETURN(ddl_create_indexes(&rq->op, ns, args.indexes, args.ignore_unknown, &r));
    bw_i32(rq->reply, "numIndexesBefore", (int32_t)r.before);
    bw_i32(rq->reply, "numIndexesAfter", (int32_t)r.after);
    bw_bool(rq->reply, "createdCollectionAutomatically", r.created_collection);
    if (r.before == r.after)
        bw_str(rq->reply, "note", "all indexes already exist");
    else
        bw_str(rq->reply, "commitQuorum", "votingMembers");
    return 0;
}

struct drop_index_args {
    struct bv index;
};

static const struct field drop_index_fields[] = {
    {"index", F_ANY, offsetof(struct drop_index_args, index), FIELD_REQUIRED},
    {"collectionUUID", F_BIN, 0, FIELD_UNBUILT},
    {NULL, 0, 0, 0}};

int cmd_dropIndexes(struct request *rq)
{
    struct drop_index_args args = {.index = BV_NONE};
    uint32_t before = 0;
    const char *ns;

    TRY_RETURN(ddl_ns(rq, &ns));
    TRY_RETURN(
        fields_parse(&rq->op, "dropIndexes", drop_index_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    if (args.index.type != BV_STRING && !bv_is_container(args.index))
        return op_fail(&rq->op, ERR_TYPE_MISMATCH,
                       "BSON field 'dropIndexes.index' is the wrong type '%s', expected types "
                       "'[string, object, array]'",
                       bv_type_name(args.index.type));
    TRY_RETURN(ddl_drop_indexes(&rq->op, ns, args.index, &before));
    bw_i32(rq->reply, "nIndexesWas", (int32_t)before);
    return 0;
}
