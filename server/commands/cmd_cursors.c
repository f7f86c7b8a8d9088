/* SPDX-License-Identifier: GPL-3.0-or-later */
/* getMore and killCursors. */
#include "server/cursors.h"
#include "server/server.h"

struct get_more_args {
    struct bv id;
    const char *collection;
    int64_t batch_size;
};

static const struct field get_more_fields[] = {
    {"getMore", F_ANY, offsetof(struct get_more_args, id), FIELD_REQUIRED},
    {"collection", F_STR, offsetof(struct get_more_args, collection), FIELD_REQUIRED},
    {"batchSize", F_INT, offsetof(struct get_more_args, batch_size), FIELD_NON_NEGATIVE},
    {"term", F_IGNORE, 0, 0},
    {"lastKnownCommittedOpTime", F_IGNORE, 0, 0},
    {"includeQueryStatsMetrics", F_IGNORE, 0, 0},
    {NULL, 0, 0, 0},
};

int cmd_getMore(struct request *rq)
{
    struct op *op = &rq->op;
    struct get_more_args a = {.batch_size = -1};
    struct batch_opts o = {.field = "nextBatch"};
    const char *ns;

    TRY_RETURN(fields_parse(op, "getMore", get_more_fields, op->cmd, FIELDS_COMMAND, &a));
    if (a.id.type != BV_INT64)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "BSON field 'getMore.getMore' is the wrong type '%s', expected type 'long'",
                       bv_type_name(a.id.type));
    if (*a.collection == '\0')
        return op_fail(op, ERR_INVALID_NAMESPACE, "Invalid namespace specified '%s.'", op->db);
    ns = ns_join(&op->arena, op->db, a.collection);
    o.batch_size = a.batch_size;
    return cursor_get_more(rq, bv_i64(a.id), ns, &o,
                           rq->env->max_time_ms > 0 ? rq->env->max_time_ms : -1);
}

struct kill_args {
    struct bv name, cursors;
};

static const struct field kill_fields[] = {
    {"killCursors", F_STR_BV, offsetof(struct kill_args, name), FIELD_REQUIRED},
    {"cursors", F_ARRAY, offsetof(struct kill_args, cursors), FIELD_REQUIRED},
    {NULL, 0, 0, 0},
};

int cmd_killCursors(struct request *rq)
{
    struct op *op = &rq->op;
    struct kill_args a = {BV_NONE, BV_NONE};
    struct biter it;
    struct belem e;
    struct bw found, missing;
    const char *ns;

    TRY_RETURN(fields_parse(op, "killCursors", kill_fields, op->cmd, FIELDS_COMMAND, &a));
    for (it = biter(a.cursors); biter_next(&it, &e);) {
        if (e.v.type != BV_INT64)
            return op_fail(op, ERR_TYPE_MISMATCH,
                           "BSON field 'killCursors.cursors.%s' is the wrong type '%s', expected "
                           "type 'long'",
                           e.key, bv_type_name(e.v.type));
    }
    ns = arena_printf(&op->arena, "%s.%s", op->db, bv_str(a.name, NULL));
    bw_init_array(&found, &op->arena);
    bw_init_array(&missing, &op->arena);
    for (it = biter(a.cursors); biter_next(&it, &e);) {
        bool was = cursors_kill(rq->server->cursors, rq, bv_i64(e.v), ns);

        bw_bv(was ? &found : &missing, NULL, e.v);
    }
    bw_bv(rq->reply, "cursorsKilled", bw_done(&found));
    bw_bv(rq->reply, "cursorsNotFound", bw_done(&missing));
    bw_bv(rq->reply, "cursorsAlive", bv_empty_array);
    bw_bv(rq->reply, "cursorsUnknown", bv_empty_array);
    return 0;
}
