/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * explain: how a command would be run. The wrapped command is parsed and planned as usual and not
 * run, except to count its rows for executionStats; nothing is ever written.
 */
#include "base/clock.h"
#include "server/commands/cmd_query.h"
#include "server/server.h"

enum verbosity { QUERY_PLANNER, EXECUTION_STATS, ALL_PLANS };

struct explain_args {
    const char *verbosity;
};

static const struct field explain_fields[] = {
    {"verbosity", F_STR, offsetof(struct explain_args, verbosity), 0}, {NULL, 0, 0, 0}};

static int parse_verbosity(struct op *op, const char *s, enum verbosity *ret)
{
    static const char *const names[] = {"queryPlanner", "executionStats", "allPlansExecution"};

    for (int i = 0; i < 3; i++) {
        if (s == NULL || strcmp(s, names[i]) == 0) {
            *ret = s == NULL ? ALL_PLANS : (enum verbosity)i;
            return 0;
        }
    }
    return op_fail(op, ERR_BAD_VALUE,
                   "Enumeration value '%s' for field 'explain.verbosity' is not a valid value.", s);
}

/* The wrapped command's namespace. */
static int inner_ns(struct request *rq, const struct belem *first, const char **ret)
{
    struct op *op = &rq->op;

    if (first->v.type != BV_STRING)
        return op_fail(op, ERR_INVALID_NAMESPACE, "collection name has invalid type %s",
                       bv_type_name(first->v.type));
    TRY_RETURN(check_db_name(op, op->db));
    TRY_RETURN(check_coll_name(op, op->db, bv_str(first->v, NULL)));
    *ret = arena_printf(&op->arena, "%s.%s", op->db, bv_str(first->v, NULL));
    return 0;
}

static int open_find(struct request *rq, struct bv cmd, const char *ns, struct qcursor **ret)
{
    struct find_command args;

    TRY_RETURN(find_command_parse(&rq->op, cmd, ns, &args));
    return find_open(&rq->op, &args.spec, ret);
}

static int open_aggregate(struct request *rq, struct bv cmd, const char *ns, struct qcursor **ret)
{
    struct aggregate_command args;

    (void)ns;
    TRY_RETURN(aggregate_command_parse(rq, cmd, true, &args));
    return aggregate_open(&rq->op, &args.spec, ret);
}

/* count, distinct, findAndModify: the query alone decides the plan. */
static int open_query(struct request *rq, struct bv cmd, const char *ns, struct qcursor **ret)
{
    struct find_spec spec = {.ns = ns, .allow_disk_use = true};
    struct bv query = bv_get(cmd, "query"), sort = bv_get(cmd, "sort");

    if (query.type == BV_DOC)
        spec.filter = query;
    if (sort.type == BV_DOC)
        spec.sort = sort;
    TRY_RETURN(check_hint(&rq->op, bv_get(cmd, "hint"), &spec.hint));
    return find_open(&rq->op, &spec, ret);
}

/* update, delete: of their only statement. */
static int open_statement(struct request *rq, struct bv cmd, const char *ns, struct qcursor **ret)
{
    struct find_spec spec = {.ns = ns, .allow_disk_use = true};
    struct bv list = bv_get(cmd, "updates"), stmt;

    if (bv_is_missing(list))
        list = bv_get(cmd, "deletes");
    stmt = bv_first(list, NULL);
    if (bv_count(list) != 1 || stmt.type != BV_DOC || bv_get(stmt, "q").type != BV_DOC)
        return op_fail(&rq->op, ERR_INVALID_LENGTH,
                       "explained write batches must be of size 1, with a query 'q'");
    spec.filter = bv_get(stmt, "q");
    TRY_RETURN(check_hint(&rq->op, bv_get(stmt, "hint"), &spec.hint));
    return find_open(&rq->op, &spec, ret);
}

/* Sorted by name. */
static const struct {
    const char *name;
    int (*open)(struct request *rq, struct bv cmd, const char *ns, struct qcursor **ret);
} explainable[] = {
    {"aggregate", open_aggregate}, {"count", open_query},      {"delete", open_statement},
    {"distinct", open_query},      {"find", open_find},        {"findAndModify", open_query},
    {"findandmodify", open_query}, {"update", open_statement},
};

static int open_inner(struct request *rq, struct bv cmd, struct qcursor **ret, bool *ret_stages)
{
    struct op *op = &rq->op;
    struct belem first;
    const char *ns = NULL;

    if (bv_is_missing(bv_first(cmd, &first)))
        return op_fail(op, ERR_COMMAND_NOT_FOUND, "Explain failed due to unknown command: ''");
    for (size_t i = 0; i < sizeof(explainable) / sizeof(explainable[0]); i++) {
        if (strcmp(explainable[i].name, first.key) != 0)
            continue;
        *ret_stages = explainable[i].open == open_aggregate;
        if (!*ret_stages)
            TRY_RETURN(inner_ns(rq, &first, &ns));
        return explainable[i].open(rq, cmd, ns, ret);
    }
    if (command_find(first.key) != NULL)
        return op_fail(op, ERR_ILLEGAL_OPERATION, "Cannot explain cmd: %s", first.key);
    return op_fail(op, ERR_COMMAND_NOT_FOUND, "Explain failed due to unknown command: '%s'",
                   first.key);
}

static int count_row(void *arg, struct bv row)
{
    (void)row;
    ++*(int64_t *)arg;
    return 0;
}

/* Runs the query to its end to count the rows. */
static int append_stats(struct request *rq, struct qcursor *c)
{
    int64_t start_us = clock_mono_us(), n = 0;

    TRY_RETURN(qcursor_each(&rq->op, c, count_row, &n));
    bw_doc_begin(rq->reply, "executionStats");
    bw_bool(rq->reply, "executionSuccess", true);
    bw_i32(rq->reply, "nReturned", (int32_t)n);
    bw_i32(rq->reply, "executionTimeMillis", (int32_t)((clock_mono_us() - start_us) / 1000));
    bw_end(rq->reply);
    return 0;
}

static void append_server(struct request *rq)
{
    struct bw *w = rq->reply;
    const char *host = rq->server->host, *colon = strrchr(host, ':');

    bw_doc_begin(w, "serverInfo");
    bw_strn(w, "host", host, colon == NULL ? strlen(host) : (size_t)(colon - host));
    bw_i32(w, "port", rq->server->port);
    bw_str(w, "version", MONGO_VERSION);
    bw_str(w, "gitVersion", "runnel " RUNNEL_VERSION);
    bw_end(w);
    bw_doc_begin(w, "serverParameters");
    bw_end(w);
}

int cmd_explain(struct request *rq)
{
    struct explain_args args = {.verbosity = NULL};
    struct op *op = &rq->op;
    struct bv inner = bv_first(op->cmd, NULL);
    enum verbosity verbosity = QUERY_PLANNER;
    struct qcursor *c = NULL;
    bool stages = false;
    int rc;

    TRY_RETURN(fields_parse(op, "explain", explain_fields, op->cmd, FIELDS_COMMAND, &args));
    TRY_RETURN(parse_verbosity(op, args.verbosity, &verbosity));
    if (inner.type != BV_DOC)
        return op_fail(
            op, ERR_TYPE_MISMATCH,
            "BSON field 'explain.explain' is the wrong type '%s', expected type 'object'",
            bv_type_name(inner.type));
    TRY_RETURN(open_inner(rq, inner, &c, &stages));
    bw_str(rq->reply, "explainVersion", "1");
    if (!stages)
        bw_doc_begin(rq->reply, "queryPlanner");
    if (c->ops->explain != NULL)
        c->ops->explain(c, rq->reply, (int)verbosity);
    if (!stages)
        bw_end(rq->reply);
    if (verbosity != QUERY_PLANNER && !c->change_stream)
        TRY(append_stats(rq, c));
    bw_bv(rq->reply, "command", inner);
    append_server(rq);
    rc = 0;
fail:
    qcursor_free(c);
    return rc;
}
