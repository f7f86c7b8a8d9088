/* SPDX-License-Identifier: GPL-3.0-or-later */
/* find, count, distinct. */
#include "query/collection_uuid.h"
#include "query/distinct.h"
#include "query/find.h"
#include "query/source.h"
#include "server/commands/cmd_query.h"
#include "server/cursors.h"

/* --- find ------------------------------------------------------------------------------------ */

static const struct field find_fields[] = {
    {"filter", F_DOC, offsetof(struct find_command, spec.filter), FIELD_NULL_OK},
    {"projection", F_DOC, offsetof(struct find_command, spec.projection), FIELD_NULL_OK},
    {"sort", F_DOC, offsetof(struct find_command, spec.sort), FIELD_NULL_OK},
    {"hint", F_STR_DOC, offsetof(struct find_command, spec.hint), FIELD_NULL_OK},
    {"min", F_DOC, offsetof(struct find_command, spec.min), 0},
    {"max", F_DOC, offsetof(struct find_command, spec.max), 0},
    {"skip", F_INT, offsetof(struct find_command, spec.skip), FIELD_NON_NEGATIVE},
    {"limit", F_INT, offsetof(struct find_command, spec.limit), FIELD_NON_NEGATIVE},
    {"batchSize", F_INT, offsetof(struct find_command, batch_size), FIELD_NON_NEGATIVE},
    {"singleBatch", F_BOOL, offsetof(struct find_command, single_batch), 0},
    {"showRecordId", F_BOOL, offsetof(struct find_command, spec.show_record_id), 0},
    {"tailable", F_BOOL, offsetof(struct find_command, spec.tailable), 0},
    {"awaitData", F_BOOL, offsetof(struct find_command, spec.await_data), 0},
    {"noCursorTimeout", F_BOOL, offsetof(struct find_command, no_timeout), 0},
    {"allowDiskUse", F_BOOL, offsetof(struct find_command, spec.allow_disk_use), 0},
    {"collation", F_DOC, offsetof(struct find_command, collation), 0},
    {"let", F_DOC, offsetof(struct find_command, let), FIELD_NULL_OK},
    {"returnKey", F_BOOL, offsetof(struct find_command, return_key), 0},
    {"oplogReplay", F_IGNORE, 0, 0},
    {"allowSpeculativeMajorityRead", F_IGNORE, 0, 0},
    {"term", F_IGNORE, 0, 0},
    {"collectionUUID", F_BIN, offsetof(struct find_command, spec.uuid), FIELD_NULL_OK},
    {NULL, 0, 0, 0}};

int find_command_parse(struct op *op, struct bv cmd, const char *ns, struct find_command *ret)
{
    struct let_vars let;

    memset(ret, 0, sizeof(*ret));
    ret->batch_size = -1;
    ret->spec.allow_disk_use = true;
    TRY_RETURN(fields_parse(op, "find", find_fields, cmd, FIELDS_COMMAND, ret));
    TRY_RETURN(check_collation(op, ret->collation));
    TRY_RETURN(check_hint(op, ret->spec.hint, &ret->spec.hint));
    TRY_RETURN(collection_uuid_parse(op, ret->spec.uuid));
    if (ret->return_key)
        return op_fail(op, ERR_NOT_IMPLEMENTED, "'find.returnKey' is not supported yet");
    TRY_RETURN(command_let(op, ret->let, &let));
    ret->spec.vars = let.vars;
    ret->spec.let = let.ev;
    ret->spec.ns = ns;
    return 0;
}

/* Whether the cursor is exhausted by one row: a batch of one row leaves it open, even at its end.
 */
static bool one_row_ends(const struct request *rq, const struct find_command *args)
{
    return (args->batch_size < 0 || args->batch_size > 1) && rq->env->at_cluster_time == 0;
}

int cmd_find(struct request *rq)
{
    struct find_command args;
    struct qcursor *c;
    const char *ns, *coll;
    struct batch_opts o;

    TRY_RETURN(request_ns(rq, &ns, &coll));
    TRY_RETURN(find_command_parse(&rq->op, rq->op.cmd, ns, &args));
    if (one_row_ends(rq, &args)) {
        struct bv doc;
        bool read;
        int rc = find_by_id(&rq->op, &args.spec, &read, &doc);

        if (read)
            return cursor_one_batch(rq, ns, rc, doc);
        TRY_RETURN(rc);
    }
    TRY_RETURN(find_open(&rq->op, &args.spec, &c));
    o = (struct batch_opts){.batch_size = args.batch_size,
                            .first = true,
                            .single = args.single_batch,
                            .no_timeout = args.no_timeout,
                            .limit = args.spec.limit,
                            .field = "firstBatch"};
    return cursor_first_batch(rq, c, &o);
}

/* --- running a find to its end --------------------------------------------------------------- */

/* Calls fn with every row of a cursor, which is freed. */
static int each_row(struct request *rq, struct qcursor *c, int (*fn)(void *arg, struct bv doc),
                    void *arg)
{
    int rc = qcursor_each(&rq->op, c, fn, arg);

    qcursor_free(c);
    return rc;
}

/* --- count ----------------------------------------------------------------------------------- */

struct count_args {
    struct bv query, hint, collation, uuid;
    int64_t limit, skip;
};

static const struct field count_fields[] = {
    {"query", F_DOC, offsetof(struct count_args, query), FIELD_NULL_OK},
    {"limit", F_INT, offsetof(struct count_args, limit), 0},
    {"skip", F_INT, offsetof(struct count_args, skip), FIELD_NON_NEGATIVE},
    {"hint", F_STR_DOC, offsetof(struct count_args, hint), FIELD_NULL_OK},
    {"collation", F_DOC, offsetof(struct count_args, collation), 0},
    {"fields", F_IGNORE, 0, 0},
    {"collectionUUID", F_BIN, offsetof(struct count_args, uuid), FIELD_NULL_OK},
    {NULL, 0, 0, 0}};

static int count_row(void *arg, struct bv doc)
{
    (void)doc;
    ++*(int64_t *)arg;
    return 0;
}

static int64_t clip(int64_t n, const struct count_args *a)
{
    n = n > a->skip ? n - a->skip : 0;
    return a->limit > 0 && n > a->limit ? a->limit : n;
}

/* Without a filter the number is known. */
static int count_known(struct request *rq, const char *ns, const struct count_args *a, int64_t *ret,
                       bool *ret_known)
{
    struct oplog_stats stats;
    struct coll *k;
    int rc;

    *ret_known = false;
    if (!bv_empty(a->query))
        return 0;
    if (bv_is_missing(a->uuid) && strcmp(ns, "local.oplog.rs") == 0 &&
        !oplog_hidden(rq->op.database->oplog)) {
        oplog_stats(rq->op.database->oplog, &stats);
        *ret = stats.entries;
        *ret_known = true;
        return 0;
    }
    if (source_is_virtual(ns))
        return 0;
    k = catalog_get(rq->op.database->catalog, ns);
    rc = collection_uuid_check(&rq->op, ns, k, a->uuid);
    *ret = k == NULL ? 0 : atomic_load(&k->counters->count);
    *ret_known = true;
    coll_unref(k);
    return rc;
}

int cmd_count(struct request *rq)
{
    struct count_args args = {.limit = 0};
    struct find_spec spec = {.allow_disk_use = true};
    struct qcursor *c;
    const char *ns, *coll;
    int64_t n = 0;
    bool known;

    TRY_RETURN(request_ns(rq, &ns, &coll));
    TRY_RETURN(fields_parse(&rq->op, "count", count_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    TRY_RETURN(check_collation(&rq->op, args.collation));
    TRY_RETURN(check_hint(&rq->op, args.hint, &args.hint));
    TRY_RETURN(collection_uuid_parse(&rq->op, args.uuid));
    if (args.limit < 0)
        args.limit = args.limit == INT64_MIN ? INT64_MAX : -args.limit;
    TRY_RETURN(count_known(rq, ns, &args, &n, &known));
    if (!known) {
        spec.ns = ns;
        spec.uuid = args.uuid;
        spec.filter = args.query;
        spec.hint = args.hint;
        spec.limit =
            args.limit > 0 && args.limit < INT64_MAX - args.skip ? args.limit + args.skip : 0;
        TRY_RETURN(find_open(&rq->op, &spec, &c));
        TRY_RETURN(each_row(rq, c, count_row, &n));
    }
    n = clip(n, &args);
    if (n <= INT32_MAX)
        bw_i32(rq->reply, "n", (int32_t)n);
    else
        bw_i64(rq->reply, "n", n);
    return 0;
}

/* --- distinct -------------------------------------------------------------------------------- */

struct distinct_args {
    const char *key;
    struct bv query, hint, collation, uuid;
};

static const struct field distinct_fields[] = {
    {"key", F_STR, offsetof(struct distinct_args, key), FIELD_REQUIRED},
    {"query", F_DOC, offsetof(struct distinct_args, query), FIELD_NULL_OK},
    {"hint", F_STR_DOC, offsetof(struct distinct_args, hint), FIELD_NULL_OK},
    {"collation", F_DOC, offsetof(struct distinct_args, collation), 0},
    {"collectionUUID", F_BIN, offsetof(struct distinct_args, uuid), FIELD_NULL_OK},
    {NULL, 0, 0, 0}};

struct distinct_job {
    struct distinct *set;
    struct op *op;
};

static int distinct_row(void *arg, struct bv doc)
{
    struct distinct_job *j = arg;

    return distinct_add(j->set, j->op, doc);
}

int cmd_distinct(struct request *rq)
{
    struct distinct_args args = {.key = NULL};
    struct find_spec spec = {.allow_disk_use = true};
    struct distinct_job job = {.op = &rq->op};
    const struct bv *values;
    struct qcursor *c;
    const char *ns, *coll;
    size_t n;

    TRY_RETURN(request_ns(rq, &ns, &coll));
    TRY_RETURN(
        fields_parse(&rq->op, "distinct", distinct_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    TRY_RETURN(check_collation(&rq->op, args.collation));
    TRY_RETURN(check_hint(&rq->op, args.hint, &spec.hint));
    TRY_RETURN(collection_uuid_parse(&rq->op, args.uuid));
    spec.ns = ns;
    spec.uuid = args.uuid;
    spec.filter = args.query;
    TRY_RETURN(distinct_new(&rq->op, args.key, &job.set));
    TRY_RETURN(find_open(&rq->op, &spec, &c));
    TRY_RETURN(each_row(rq, c, distinct_row, &job));
    values = distinct_values(job.set, &n);
    bw_arr_begin(rq->reply, "values");
    for (size_t i = 0; i < n; i++)
        bw_bv(rq->reply, NULL, values[i]);
    bw_end(rq->reply);
    if (rq->env->read_level == READ_SNAPSHOT && !rq->env->has_autocommit)
        bw_ts(rq->reply, "atClusterTime", rq->env->at_cluster_time);
    return 0;
}
