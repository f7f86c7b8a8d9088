/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/stable_api.h"

#include "server/server.h"

#define HELP                                                                                       \
    "Information on supported commands and migrations in API Version %s can be found at "          \
    "https://dochub.mongodb.org/core/manual-versioned-api"

/* --- what version 1 leaves out of its commands -------------------------------------------------
 */

/* Stages that show the server's own state, and those of Atlas. Sorted. */
static const char *const outside_stages[] = {
    "$changeStreamSplitLargeEvent",
    "$currentOp",
    "$indexStats",
    "$listCatalog",
    "$listLocalSessions",
    "$listSearchIndexes",
    "$listSessions",
    "$planCacheStats",
    "$search",
    "$searchMeta",
    "$vectorSearch",
};

/* Fields of $changeStream. */
static const char *const outside_stream_fields[] = {
    "showExpandedEvents",
    "showMigrationEvents",
    "showSystemEvents",
    "showRawUpdateDescription",
    "allowToRunOnConfigDB",
    "allowToRunOnSystemNS",
    "matchCollectionUUIDForUpdateLookup",
};

static const struct {
    const char *command, *field;
} outside_fields[] = {
    {"aggregate", "exchange"},
    {"aggregate", "explain"},
    {"create", "autoIndexId"},
    {"create", "capped"},
    {"create", "indexOptionDefaults"},
    {"create", "max"},
    {"create", "size"},
    {"create", "storageEngine"},
    {"find", "awaitData"},
    {"find", "max"},
    {"find", "min"},
    {"find", "noCursorTimeout"},
    {"find", "oplogReplay"},
    {"find", "returnKey"},
    {"find", "showRecordId"},
    {"find", "tailable"},
};

static bool is_outside(const char *stage)
{
    for (size_t i = 0; i < sizeof(outside_stages) / sizeof(outside_stages[0]); i++) {
        if (strcmp(stage, outside_stages[i]) == 0)
            return true;
    }
    return false;
}

static int check_stream(struct request *rq, struct bv spec)
{
    for (size_t i = 0; i < sizeof(outside_stream_fields) / sizeof(outside_stream_fields[0]); i++) {
        if (!bv_is_missing(bv_get(spec, outside_stream_fields[i])))
            return op_fail(&rq->op, ERR_API_STRICT,
                           "BSON field '$changeStream.%s' is not allowed with apiStrict:true.",
                           outside_stream_fields[i]);
    }
    return 0;
}

/* Of $collStats only the count is in. */
static bool tells_more_than_count(struct bv spec)
{
    struct biter it = biter(spec);
    struct belem e;

    while (spec.type == BV_DOC && biter_next(&it, &e)) {
        if (strcmp(e.key, "count") != 0)
            return true;
    }
    return false;
}

static int check_stages(struct request *rq)
{
    struct biter it = biter(bv_get(rq->op.cmd, "pipeline"));
    struct belem e, stage;

    while (biter_next(&it, &e)) {
        if (e.v.type != BV_DOC || bv_is_missing(bv_first(e.v, &stage)))
            continue;
        if (is_outside(stage.key))
            return op_fail(&rq->op, ERR_API_STRICT,
                           "stage %s is not allowed with 'apiStrict: true' in API Version %s",
                           stage.key, rq->env->api.version);
        if (strcmp(stage.key, "$changeStream") == 0)
            TRY_RETURN(check_stream(rq, stage.v));
        if (strcmp(stage.key, "$collStats") == 0 && tells_more_than_count(stage.v))
            return op_fail(&rq->op, ERR_API_STRICT,
                           "only the 'count' option to $collStats is supported in API Version 1");
    }
    return 0;
}

static int check_fields(struct request *rq)
{
    for (size_t i = 0; i < sizeof(outside_fields) / sizeof(outside_fields[0]); i++) {
        if (strcmp(rq->cmd->name, outside_fields[i].command) == 0 &&
            !bv_is_missing(bv_get(rq->op.cmd, outside_fields[i].field)))
            return op_fail(&rq->op, ERR_API_STRICT,
                           "BSON field '%s.%s' is not allowed with apiStrict:true.", rq->cmd->name,
                           outside_fields[i].field);
    }
    return 0;
}

/* --- a request -------------------------------------------------------------------------------- */

static int check_strict(struct request *rq)
{
    const char *version = rq->env->api.version;
    unsigned in = version[0] == '1' ? CMD_API_V1 : CMD_API_V2;

    if ((rq->cmd->flags & in) == 0)
        return op_fail(
            &rq->op, ERR_API_STRICT,
            "Provided apiStrict:true, but the command %s is not in API Version %s. " HELP,
            rq->cmd->name, version, version);
    TRY_RETURN(check_fields(rq));
    return rq->cmd->run == cmd_aggregate ? check_stages(rq) : 0;
}

/* Commands that a version keeps, but not for long, are there for tests only. */
static int check_deprecation(struct request *rq)
{
    const char *version = rq->env->api.version;
    int (*run)(struct request *) = rq->cmd->run;

    if (version[0] == '1' ? run != cmd_testDeprecation : run != cmd_testDeprecationInVersion2)
        return 0;
    return op_fail(&rq->op, ERR_API_DEPRECATION,
                   "Provided apiDeprecationErrors:true, but the command %s is deprecated in API "
                   "Version %s. " HELP,
                   rq->cmd->name, version, version);
}

static int check_version(struct request *rq)
{
    if (strcmp(rq->env->api.version, "1") == 0) {
        rq->env->api.version = "1";
        return 0;
    }
    if (strcmp(rq->env->api.version, "2") == 0 && atomic_load(&rq->server->accept_api_2)) {
        rq->env->api.version = "2";
        return 0;
    }
    return op_fail(&rq->op, ERR_API_VERSION, "API version must be \"1\"%s",
                   atomic_load(&rq->server->accept_api_2) ? " or \"2\"" : "");
}

int stable_api_check(struct request *rq, bool flags_given)
{
    if (rq->env->api.version == NULL && flags_given)
        return op_fail(&rq->op, ERR_INVALID_OPTIONS,
                       "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion");
    if (rq->env->api.version == NULL) {
        if (rq->conn == NULL || !atomic_load(&rq->server->require_api))
            return 0;
        return op_fail(&rq->op, 498870,
                       "The apiVersion parameter is required, please configure your MongoClient's "
                       "API version");
    }
    TRY_RETURN(check_version(rq));
    if (rq->env->api.strict)
        TRY_RETURN(check_strict(rq));
    return rq->env->api.deprecation_errors ? check_deprecation(rq) : 0;
}

bool stable_api_same(const struct api_params *a, const struct api_params *b)
{
    if ((a->version == NULL) != (b->version == NULL))
        return false;
    return (a->version == NULL || strcmp(a->version, b->version) == 0) && a->strict == b->strict &&
           a->deprecation_errors == b->deprecation_errors;
}

const char *stable_api_show(struct arena *a, const struct api_params *p)
{
    if (p->version == NULL)
        return "{}";
    return arena_printf(a, "{ apiVersion: \"%s\", apiStrict: %s, apiDeprecationErrors: %s }",
                        p->version, p->strict ? "true" : "false",
                        p->deprecation_errors ? "true" : "false");
}
