/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/source_rows.h"

#include "base/fields.h"
#include "query/source.h"
#include "server/ops.h"
#include "server/server.h"
#include "server/sessions.h"
#include "server/stats.h"

struct rows {
    struct request *rq;
    struct bv spec;
    struct bv *docs;
    size_t n, cap; /* cap: for rows that are added one by one */
};

static int no_rows(struct rows *r)
{
    r->docs = NULL;
    r->n = 0;
    return 0;
}

static int geo_near(struct rows *r)
{
    return op_fail(&r->rq->op, ERR_NOT_IMPLEMENTED,
                   "The pipeline stage $geoNear is not supported yet");
}

/* {$documents: [...]}: an expression that gives an array of objects. */
static int documents(struct rows *r)
{
    struct op *op = &r->rq->op;
    struct expr_vars vars = {.n = 0};
    struct eval ev;
    struct expr *e;
    struct bv list;
    struct biter it;
    struct belem elem;

    eval_init(&ev, op, &op->arena);
    TRY_RETURN(expr_parse(op, &op->arena, r->spec, &vars, &e));
    TRY_RETURN(expr_eval(e, &ev, &list));
    if (list.type != BV_ARRAY)
        return op_fail(op, 5858203, "an array is expected for $documents");
    r->docs = ARENA_TRY_ARRAY(&op->arena, struct bv, bv_count(list) + 1);
    if (r->docs == NULL)
        return op_no_memory(op);
    it = biter(list);
    while (biter_next(&it, &elem)) {
        if (elem.v.type != BV_DOC)
            return op_fail(op, 40228, "$documents expects an array of objects, found %s",
                           bv_type_name(elem.v.type));
        r->docs[r->n++] = elem.v;
    }
    return 0;
}

static const char *namespace_of(struct op *op)
{
    return arena_printf(&op->arena, "%s.%s", op->db, bv_str(bv_first(op->cmd, NULL), NULL));
}

static int coll_stats(struct rows *r)
{
    struct op *op = &r->rq->op;

    r->docs = ARENA_ARRAY(&op->arena, struct bv, 1);
    TRY_RETURN(stats_coll_doc(op, namespace_of(op), r->spec, &r->docs[0]));
    r->n = 1;
    return 0;
}

static const struct field current_op_fields[] = {
    {"allUsers", F_IGNORE, 0, 0},
    {"idleConnections", F_BOOL, offsetof(struct ops_filter, idle_connections), 0},
    {"idleCursors", F_BOOL, offsetof(struct ops_filter, idle_cursors), 0},
    {"idleSessions", F_BOOL, offsetof(struct ops_filter, idle_sessions), 0},
    {"localOps", F_IGNORE, 0, 0},
    {"truncateOps", F_BOOL, offsetof(struct ops_filter, truncate), 0},
    {"backtrace", F_IGNORE, 0, 0},
    {"targetAllNodes", F_IGNORE, 0, 0},
    {NULL, 0, 0, 0},
};

static int current_op(struct rows *r)
{
    struct op *op = &r->rq->op;
    struct ops_filter spec = {.idle_sessions = true};
    struct biter it;
    struct belem e;
    struct bw w;
    struct bv list;

    if (r->spec.type != BV_DOC)
        return op_fail(op, ERR_FAILED_TO_PARSE,
                       "$currentOp options must be specified in an object");
    TRY_RETURN(fields_parse(op, "$currentOp", current_op_fields, r->spec, 0, &spec));
    bw_init_array(&w, &op->arena);
    TRY_RETURN(ops_write(r->rq, &spec, &w));
    list = bw_done(&w);
    r->docs = ARENA_TRY_ARRAY(&op->arena, struct bv, bv_count(list) + 1);
    if (r->docs == NULL)
        return op_no_memory(op);
    it = biter(list);
    while (biter_next(&it, &e))
        r->docs[r->n++] = e.v;
    return 0;
}

/* One row an index. How often each was used is not counted yet: accesses are since the start. */
static int index_stats(struct rows *r)
{
    struct op *op = &r->rq->op;
    struct coll *k = catalog_get(op->database->catalog, namespace_of(op));

    if (k == NULL)
        return no_rows(r);
    r->docs = ARENA_ARRAY(&op->arena, struct bv, k->nindexes);
    for (uint32_t i = 0; i < k->nindexes; i++) {
        struct bw w;

        bw_init(&w, &op->arena);
        bw_str(&w, "name", k->indexes[i].name);
        bw_bv(&w, "key", k->indexes[i].key);
        bw_str(&w, "host", r->rq->server->host);
        bw_doc_begin(&w, "accesses");
        bw_i64(&w, "ops", 0);
        bw_date(&w, "since", r->rq->server->start_wall_ms);
        bw_end(&w);
        bw_bv(&w, "spec", k->indexes[i].spec);
        r->docs[r->n++] = bw_done(&w);
    }
    coll_unref(k);
    return 0;
}

static void add_session(void *arg, const struct lsid_key *key, int64_t last_use_ms)
{
    struct rows *r = arg;
    struct arena *a = &r->rq->op.arena;
    struct bw w;

    if (r->n == r->cap)
        return;
    bw_init(&w, a);
    bw_doc_begin(&w, "_id");
    bw_uuid(&w, "id", key->bytes);
    bw_bin(&w, "uid", 0, key->bytes + 16, LSID_KEY_BYTES - 16);
    bw_end(&w);
    bw_date(&w, "lastUse", last_use_ms);
    r->docs[r->n++] = bw_done(&w);
}

static int local_sessions(struct rows *r)
{
    struct sessions *s = r->rq->server->sessions;

    r->cap = (size_t)sessions_count(s);
    r->docs = arena_try(&r->rq->op.arena, (r->cap + 1) * sizeof(r->docs[0]));
    if (r->docs == NULL)
        return op_fail(&r->rq->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory to list the sessions");
    sessions_each(s, add_session, r);
    return 0;
}

enum { ON_COLLECTION = 1, ON_DATABASE = 2, ON_ADMIN = 4 };

/* Sorted by name. */
static const struct {
    const char *name;
    unsigned where;
    int (*rows)(struct rows *r);
} stages[] = {
    {"$collStats", ON_COLLECTION, coll_stats},
    {"$currentOp", ON_ADMIN, current_op},
    {"$documents", ON_DATABASE, documents},
    {"$geoNear", ON_COLLECTION, geo_near},
    {"$indexStats", ON_COLLECTION, index_stats},
    {"$listLocalSessions", ON_DATABASE, local_sessions},
    {"$listSessions", ON_COLLECTION, no_rows},
    {"$planCacheStats", ON_COLLECTION, no_rows},
};

static int check_place(struct op *op, const char *stage, unsigned where, bool collection)
{
    if (collection && (where & ON_COLLECTION) == 0)
        return op_fail(op, ERR_INVALID_NAMESPACE,
                       "%s must be run against a database with {aggregate: 1}", stage);
    if (!collection && where == ON_COLLECTION)
        return op_fail(op, ERR_INVALID_NAMESPACE,
                       "{aggregate: 1} is not valid for '%s'; a collection is required.", stage);
    if ((where & ON_ADMIN) != 0 && strcmp(op->db, "admin") != 0)
        return op_fail(op, ERR_INVALID_NAMESPACE,
                       "%s must be run against the 'admin' database with {aggregate: 1}", stage);
    return 0;
}

int source_rows_for(struct op *op, void *arg, const char *stage, struct bv spec, struct bv **ret,
                    size_t *ret_n)
{
    struct rows r = {.rq = arg, .spec = spec};

    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        if (strcmp(stages[i].name, stage) != 0)
            continue;
        TRY_RETURN(
            check_place(op, stage, stages[i].where, bv_first(op->cmd, NULL).type == BV_STRING));
        TRY_RETURN(stages[i].rows(&r));
        *ret = r.docs;
        *ret_n = r.n;
        return 0;
    }
    return INT_NOT_MINE;
}
