/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 *     {bulkWrite: 1, ops: [op...], nsInfo: [{ns: "db.coll"}...], ordered?, errorsOnly?, let?, ...}
 *
 * An op is {insert: i, document}, {update: i, filter, updateMods, ...} or {delete: i, filter, ...};
 * i is a place in nsInfo.
 */
#include "server/commands/bulk_request.h"

#include <stdlib.h>

#include "base/limits.h"
#include "query/collection_uuid.h"
#include "server/commands/cmd_write.h"

/* --- the command's own fields ----------------------------------------------------------------- */

struct args {
    struct bv ops, ns_info, cursor, let;
    bool ordered, errors_only, bypass, keep_empty_ts;
};

static const struct field command_fields[] = {
    {"ops", F_ARRAY, offsetof(struct args, ops), FIELD_REQUIRED},
    {"nsInfo", F_ARRAY, offsetof(struct args, ns_info), FIELD_REQUIRED},
    {"cursor", F_DOC, offsetof(struct args, cursor), FIELD_NULL_OK},
    {"let", F_DOC, offsetof(struct args, let), FIELD_NULL_OK},
    {"ordered", F_STRICT_BOOL, offsetof(struct args, ordered), FIELD_NULL_OK},
    {"errorsOnly", F_STRICT_BOOL, offsetof(struct args, errors_only), FIELD_NULL_OK},
    {"bypassDocumentValidation", F_BOOL, offsetof(struct args, bypass), FIELD_NULL_OK},
    {"bypassEmptyTsReplacement", F_BOOL, offsetof(struct args, keep_empty_ts), FIELD_NULL_OK},
    {NULL, 0, 0, 0}};

struct cursor_args {
    int64_t batch_size;
};

static const struct field cursor_fields[] = {
    {"batchSize", F_INT, offsetof(struct cursor_args, batch_size), FIELD_NON_NEGATIVE},
    {NULL, 0, 0, 0}};

/* The elements of an array of documents. */
static int documents(struct op *op, const char *what, struct bv array, struct bv **ret,
                     size_t *ret_n)
{
    struct biter it = biter(array);
    struct belem e;
    size_t n = 0;

    *ret = ARENA_TRY_ARRAY(&op->arena, struct bv, bv_count(array));
    if (*ret == NULL)
        return op_no_memory(op);
    while (biter_next(&it, &e)) {
        if (e.v.type != BV_DOC)
            return op_fail(op, ERR_TYPE_MISMATCH,
                           "BSON field '%s.%s' is the wrong type '%s', expected type 'object'",
                           what, e.key, bv_type_name(e.v.type));
        (*ret)[n++] = e.v;
    }
    *ret_n = n;
    return 0;
}

/* --- nsInfo ----------------------------------------------------------------------------------- */

struct ns_args {
    const char *ns;
    struct bv uuid;
};

static const struct field ns_fields[] = {
    {"ns", F_STR, offsetof(struct ns_args, ns), FIELD_REQUIRED},
    {"collectionUUID", F_BIN, offsetof(struct ns_args, uuid), FIELD_NULL_OK},
    {"encryptionInformation", F_DOC, 0, FIELD_UNBUILT},
    {"isTimeseriesNamespace", F_IGNORE, 0, 0},
    {"shardVersion", F_IGNORE, 0, 0},
    {"databaseVersion", F_IGNORE, 0, 0},
    {NULL, 0, 0, 0}};

static int check_ns(struct op *op, const char *ns)
{
    const char *dot = strchr(ns, '.');
    const char *coll = dot == NULL ? "" : dot + 1;
    const char *db = arena_strndup(&op->arena, ns, dot == NULL ? strlen(ns) : (size_t)(dot - ns));

    if (check_db_name(op, db) == 0 && check_coll_name(op, db, coll) == 0)
        return 0;
    return op_fail(op, ERR_INVALID_NAMESPACE, "Invalid namespace specified for bulkWrite: '%.300s'",
                   *coll == '\0' ? db : ns);
}

static int compare_targets(const void *a, const void *b)
{
    return strcmp(((const struct bulk_target *)a)->ns, ((const struct bulk_target *)b)->ns);
}

/* The collections that nsInfo names, each once. */
static int find_targets(struct op *op, struct bulk_request *b)
{
    size_t n = 0;

    b->targets = arena_try_zero(&op->arena, b->nns + 1, sizeof(*b->targets));
    if (b->targets == NULL)
        return op_no_memory(op);
    for (size_t i = 0; i < b->nns; i++)
        b->targets[i].ns = b->ns[i].ns;
    qsort(b->targets, b->nns, sizeof(*b->targets), compare_targets);
    for (size_t i = 0; i < b->nns; i++) {
        if (n == 0 || strcmp(b->targets[n - 1].ns, b->targets[i].ns) != 0)
            b->targets[n++] = b->targets[i];
    }
    b->ntargets = n;
    for (size_t i = 0; i < b->nns; i++) {
        struct bulk_target key = {.ns = b->ns[i].ns};
        struct bulk_target *found =
            bsearch(&key, b->targets, n, sizeof(*b->targets), compare_targets);

        b->ns[i].target = (uint32_t)(found - b->targets);
    }
    return 0;
}

static int parse_ns_info(struct op *op, struct bv array, struct bulk_request *b)
{
    struct bv *docs;

    TRY_RETURN(documents(op, "bulkWrite.nsInfo", array, &docs, &b->nns));
    if (b->nns > LIMIT_WRITE_BATCH)
        return op_fail(op, ERR_INVALID_LENGTH, "nsInfo must have at most %d entries. Got %zu.",
                       LIMIT_WRITE_BATCH, b->nns);
    b->ns = ARENA_TRY_ARRAY(&op->arena, struct bulk_ns, b->nns);
    if (b->ns == NULL)
        return op_no_memory(op);
    for (size_t i = 0; i < b->nns; i++) {
        struct ns_args a = {.ns = NULL};

        TRY_RETURN(fields_parse(op, "bulkWrite.nsInfo", ns_fields, docs[i], 0, &a));
        TRY_RETURN(collection_uuid_parse(op, a.uuid));
        b->ns[i] = (struct bulk_ns){.ns = a.ns, .uuid = a.uuid};
    }
    return 0;
}

/* --- ops -------------------------------------------------------------------------------------- */

struct op_args {
    int64_t ns;
    struct bv document, collation;
    struct update_stmt update; /* q and hint also of a delete */
};

#define OP_FIELD(name, kind, member, flags)                                                        \
    {                                                                                              \
        name, kind, offsetof(struct op_args, member), flags                                        \
    }

static const struct field insert_fields[] = {OP_FIELD("insert", F_INT, ns, FIELD_REQUIRED),
                                             OP_FIELD("document", F_DOC, document, FIELD_REQUIRED),
                                             {NULL, 0, 0, 0}};

static const struct field update_fields[] = {
    OP_FIELD("update", F_INT, ns, FIELD_REQUIRED),
    OP_FIELD("filter", F_DOC, update.q, FIELD_REQUIRED),
    OP_FIELD("updateMods", F_DOC_ARRAY, update.u, FIELD_REQUIRED),
    OP_FIELD("multi", F_STRICT_BOOL, update.multi, 0),
    OP_FIELD("upsert", F_STRICT_BOOL, update.upsert, 0),
    OP_FIELD("arrayFilters", F_ARRAY, update.array_filters, 0),
    OP_FIELD("hint", F_STR_DOC, update.hint, 0),
    OP_FIELD("sort", F_DOC, update.sort, 0),
    OP_FIELD("constants", F_DOC, update.constants, 0),
    OP_FIELD("collation", F_DOC, collation, 0),
    {"upsertSupplied", F_IGNORE, 0, 0},
    {"sampleId", F_IGNORE, 0, 0},
    {"allowShardKeyUpdatesWithoutFullShardKeyInQuery", F_IGNORE, 0, 0},
    {NULL, 0, 0, 0}};

static const struct field delete_fields[] = {OP_FIELD("delete", F_INT, ns, FIELD_REQUIRED),
                                             OP_FIELD("filter", F_DOC, update.q, FIELD_REQUIRED),
                                             OP_FIELD("multi", F_STRICT_BOOL, update.multi, 0),
                                             OP_FIELD("hint", F_STR_DOC, update.hint, 0),
                                             OP_FIELD("collation", F_DOC, collation, 0),
                                             {"sampleId", F_IGNORE, 0, 0},
                                             {NULL, 0, 0, 0}};

static const struct {
    const char *name;
    const struct field *fields;
} kinds[] = {[BULK_INSERT] = {"insert", insert_fields},
             [BULK_UPDATE] = {"update", update_fields},
             [BULK_DELETE] = {"delete", delete_fields}};

/* The first field tells what an operation is. */
static int kind_of(struct op *op, struct bv doc, enum bulk_kind *ret)
{
    struct belem e = {.key = ""};

    if (bv_is_missing(bv_first(doc, &e)))
        e.key = "";
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(e.key, kinds[i].name) == 0) {
            *ret = (enum bulk_kind)i;
            return 0;
        }
    }
    return op_fail(op, ERR_IDL_UNKNOWN_FIELD, "BSON field 'bulkWrite.%.200s' is an unknown field.",
                   e.key);
}

static int parse_op(struct op *op, struct bv doc, enum bulk_kind kind, struct op_args *ret)
{
    memset(ret, 0, sizeof(*ret));
    return fields_parse(op, "bulkWrite.ops", kinds[kind].fields, doc, 0, ret);
}

/* Checks one operation for itself. */
static int add_op(struct op *op, struct bulk_request *b, size_t at, struct bv doc)
{
    struct bulk_op *o = &b->ops[at];
    struct op_args a;

    o->doc = doc;
    TRY_RETURN(kind_of(op, doc, &o->kind));
    TRY_RETURN(parse_op(op, doc, o->kind, &a));
    if (a.ns < 0)
        return op_fail(op, ERR_BAD_VALUE, "BSON field '%s' value must be >= 0, actual value '%lld'",
                       kinds[o->kind].name, (long long)a.ns);
    TRY_RETURN(check_collation(op, a.collation));
    TRY_RETURN(check_hint(op, a.update.hint, &a.update.hint));
    o->ns = a.ns > UINT32_MAX ? UINT32_MAX : (uint32_t)a.ns;
    b->documents[at] = a.document;
    if (o->ns < b->nns) {
        struct bulk_target *t = &b->targets[b->ns[o->ns].target];

        t->used = true;
        t->may_grow |= o->kind == BULK_INSERT || a.update.upsert;
    }
    return 0;
}

static int parse_ops(struct op *op, struct bv array, struct bulk_request *b)
{
    struct bv *docs;

    TRY_RETURN(documents(op, "bulkWrite.ops", array, &docs, &b->nops));
    b->ops = ARENA_TRY_ARRAY(&op->arena, struct bulk_op, b->nops);
    b->documents = ARENA_TRY_ARRAY(&op->arena, struct bv, b->nops);
    if (b->ops == NULL || b->documents == NULL)
        return op_no_memory(op);
    for (size_t i = 0; i < b->nops; i++)
        TRY_RETURN(add_op(op, b, i, docs[i]));
    return 0;
}

static int check_places(struct op *op, const struct bulk_request *b)
{
    for (size_t i = 0; i < b->nops; i++) {
        if (b->ops[i].ns >= b->nns)
            return op_fail(op, ERR_BAD_VALUE, "BulkWrite ops entry %s has an invalid nsInfo index.",
                           bv_show(&op->arena, b->ops[i].doc, 300));
    }
    return 0;
}

int bulk_request_parse(struct op *op, struct bulk_request *ret)
{
    struct args a = {.ordered = true};
    struct cursor_args cursor = {.batch_size = -1};
    struct bulk_request b;

    memset(&b, 0, sizeof(b));
    TRY_RETURN(fields_parse(op, "bulkWrite", command_fields, op->cmd, FIELDS_COMMAND, &a));
    if (!bv_is_missing(a.cursor))
        TRY_RETURN(fields_parse(op, "bulkWrite.cursor", cursor_fields, a.cursor, 0, &cursor));
    b.ordered = a.ordered;
    b.errors_only = a.errors_only;
    b.keep_empty_ts = a.keep_empty_ts;
    b.batch_size = cursor.batch_size;
    TRY_RETURN(parse_ns_info(op, a.ns_info, &b));
    TRY_RETURN(find_targets(op, &b));
    TRY_RETURN(parse_ops(op, a.ops, &b));
    TRY_RETURN(write_check_batch_size(op, b.nops));
    for (size_t i = 0; i < b.nns; i++)
        TRY_RETURN(check_ns(op, b.ns[i].ns));
    TRY_RETURN(check_places(op, &b));
    TRY_RETURN(command_let(op, a.let, &b.let));
    *ret = b;
    return 0;
}

/* --- statements ------------------------------------------------------------------------------- */

int bulk_update_stmt(struct op *op, const struct bulk_request *b, size_t at,
                     struct update_stmt *ret)
{
    struct op_args a;

    TRY_RETURN(parse_op(op, b->ops[at].doc, BULK_UPDATE, &a));
    TRY_RETURN(check_hint(op, a.update.hint, &a.update.hint));
    if (a.update.multi && !bv_is_missing(a.update.sort))
        return op_fail(op, ERR_FAILED_TO_PARSE, "Cannot specify sort with multi=true");
    a.update.vars = b->let.vars;
    *ret = a.update;
    return 0;
}

int bulk_delete_stmt(struct op *op, const struct bulk_request *b, size_t at,
                     struct delete_stmt *ret)
{
    struct op_args a;

    TRY_RETURN(parse_op(op, b->ops[at].doc, BULK_DELETE, &a));
    TRY_RETURN(check_hint(op, a.update.hint, &a.update.hint));
    *ret = (struct delete_stmt){
        .q = a.update.q, .hint = a.update.hint, .multi = a.update.multi, .vars = b->let.vars};
    return 0;
}
