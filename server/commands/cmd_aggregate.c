/* SPDX-License-Identifier: GPL-3.0-or-later */
/* aggregate. */
#include "query/collection_uuid.h"
#include "server/commands/cmd_query.h"
#include "server/concerns.h"
#include "server/cursors.h"
#include "server/failpoints.h"
#include "server/source_rows.h"

static const struct field aggregate_fields[] = {
    {"pipeline", F_ARRAY, offsetof(struct aggregate_command, pipeline), FIELD_REQUIRED},
    {"cursor", F_DOC, offsetof(struct aggregate_command, cursor), 0},
    {"explain", F_BOOL, offsetof(struct aggregate_command, explain), 0},
    {"allowDiskUse", F_BOOL, offsetof(struct aggregate_command, allow_disk_use), 0},
    {"bypassDocumentValidation", F_BOOL, offsetof(struct aggregate_command, bypass), 0},
    {"collation", F_DOC, offsetof(struct aggregate_command, collation), 0},
    {"hint", F_STR_DOC, offsetof(struct aggregate_command, hint), FIELD_NULL_OK},
    {"let", F_DOC, offsetof(struct aggregate_command, let), FIELD_NULL_OK},
    {"needsMerge", F_IGNORE, 0, 0},
    {"fromMongos", F_IGNORE, 0, 0},
    {"collectionUUID", F_BIN, offsetof(struct aggregate_command, spec.uuid), FIELD_NULL_OK},
    {"encryptionInformation", F_DOC, 0, FIELD_UNBUILT},
    {"$_generateV2ResumeTokens", F_BOOL, offsetof(struct aggregate_command, generate_v2_tokens), 0},
    {NULL, 0, 0, 0}};

struct cursor_args {
    int64_t batch_size;
};

static const struct field cursor_fields[] = {
    {"batchSize", F_INT, offsetof(struct cursor_args, batch_size), FIELD_NON_NEGATIVE},
    {NULL, 0, 0, 0}};

/* {aggregate: "coll"} or {aggregate: 1} */
static int target(struct request *rq, struct bv cmd, const char **ret_coll)
{
    struct op *op = &rq->op;
    struct bv v = bv_first(cmd, NULL);
    int64_t one;

    *ret_coll = NULL;
    if (bv_is_number(v)) {
        if (!bv_to_i64_exact(v, &one) || one != 1)
            return op_fail(op, ERR_FAILED_TO_PARSE,
                           "Invalid command format: the 'aggregate' field must specify a "
                           "collection name or 1");
        return check_db_name(op, op->db);
    }
    if (v.type != BV_STRING)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "BSON field 'aggregate.aggregate' is the wrong type '%s', expected types "
                       "'[string, int, long, double, decimal]'",
                       bv_type_name(v.type));
    *ret_coll = arena_strdup(&op->arena, bv_str(v, NULL));
    TRY_RETURN(check_db_name(op, op->db));
    return check_coll_name(op, op->db, *ret_coll);
}

int aggregate_command_parse(struct request *rq, struct bv cmd, bool explaining,
                            struct aggregate_command *ret)
{
    struct op *op = &rq->op;
    struct cursor_args cursor = {.batch_size = -1};
    struct let_vars let;

    memset(ret, 0, sizeof(*ret));
    ret->allow_disk_use = true;
    ret->generate_v2_tokens = true;
    TRY_RETURN(target(rq, cmd, &ret->spec.coll));
    TRY_RETURN(fields_parse(op, "aggregate", aggregate_fields, cmd, FIELDS_COMMAND, ret));
    if (bv_is_missing(ret->cursor) && !ret->explain && !explaining)
        return op_fail(op, ERR_FAILED_TO_PARSE,
                       "The 'cursor' option is required, except for aggregate with the explain "
                       "argument");
    TRY_RETURN(fields_parse(op, "cursor", cursor_fields,
                            bv_is_missing(ret->cursor) ? bv_empty_doc : ret->cursor, 0, &cursor));
    ret->batch_size = cursor.batch_size;
    TRY_RETURN(check_collation(op, ret->collation));
    TRY_RETURN(collection_uuid_parse(op, ret->spec.uuid));
    TRY_RETURN(command_let(op, ret->let, &let));
    ret->spec.db = op->db;
    ret->spec.pipeline = ret->pipeline;
    ret->spec.allow_disk_use = ret->allow_disk_use;
    ret->spec.read_level = rq->env->read_level_given ? read_level_name(rq->env->read_level) : NULL;
    ret->spec.v1_tokens = !ret->generate_v2_tokens;
    ret->spec.as_written = failpoints_armed() && failpoint_as_written(rq);
    ret->spec.vars = let.vars;
    ret->spec.let = let.ev;
    ret->spec.rows = source_rows_for;
    ret->spec.arg = rq;
    return check_hint(op, ret->hint, &ret->spec.hint);
}

int cmd_aggregate(struct request *rq)
{
    struct aggregate_command args;
    struct batch_opts o;
    struct qcursor *c;

    TRY_RETURN(aggregate_command_parse(rq, rq->op.cmd, false, &args));
    TRY_RETURN(aggregate_open(&rq->op, &args.spec, &c));
    if (args.explain) {
        c->ops->explain(c, rq->reply, 0);
        qcursor_free(c);
        return 0;
    }
    o = (struct batch_opts){.batch_size = args.batch_size, .first = true, .field = "firstBatch"};
    return cursor_first_batch(rq, c, &o);
}
