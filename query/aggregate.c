/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "query/aggregate.h"

#include "base/limits.h"
#include "query/change_stream.h"
#include "query/pipeline.h"
#include "query/source.h"

struct agg_cursor {
    struct qcursor base;
    struct bv stages; /* the whole pipeline, copied */
    struct stage *source, *last;
    struct match *filter; /* of a leading $match, tested by the source; NULL: none */
    struct bv *vars;      /* values of let variables, in the arena */
    int nvars;
};

static int agg_next(struct qcursor *c, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct agg_cursor *g = (struct agg_cursor *)c;

    if (g->nvars > 0)
        memcpy(x->ev.vars, g->vars, (size_t)g->nvars * sizeof(g->vars[0]));
    return stage_next(g->last, x, ret, ret_more);
}

static void agg_save(struct qcursor *c, struct exec *x)
{
    stage_save(((struct agg_cursor *)c)->last, x);
}

static void agg_close(struct qcursor *c)
{
    struct agg_cursor *g = (struct agg_cursor *)c;

    if (g->last != NULL)
        stage_close(g->last);
}

/* Stages from the source on; a recursion as deep as the pipeline, which is bounded. */
static void explain_stage(struct agg_cursor *g, struct stage *s, struct bw *w)
{
    if (s != g->source)
        explain_stage(g, s->source, w);
    bw_doc_begin(w, NULL);
    if (s == g->source) {
        bw_doc_begin(w, "$cursor");
        bw_doc_begin(w, "queryPlanner");
        bw_str(w, "namespace", g->base.ns);
        if (g->filter != NULL)
            bw_bv(w, "parsedQuery", match_show(g->filter, &g->base.arena));
        bw_doc_begin(w, "winningPlan");
        bw_str(w, "stage", s->ops->name);
        if (s->ops->explain != NULL)
            s->ops->explain(s, w);
        bw_end(w);
        bw_arr_begin(w, "rejectedPlans");
        bw_end(w);
        bw_end(w);
        bw_end(w);
    } else {
        struct belem e;

        if (!bv_is_missing(bv_first(s->spec, &e)))
            bw_elem(w, &e);
        else
            bw_bv(w, s->ops->name, bv_empty_doc);
    }
    bw_end(w);
}

static void agg_explain(struct qcursor *c, struct bw *w, int verbosity)
{
    struct agg_cursor *g = (struct agg_cursor *)c;

    (void)verbosity;
    bw_arr_begin(w, "stages");
    explain_stage(g, g->last, w);
    bw_end(w);
}

static const struct qcursor_ops agg_ops = {
    .next = agg_next, .save = agg_save, .close = agg_close, .explain = agg_explain};

/* --- opening --------------------------------------------------------------------------------- */

struct opening {
    struct op *op;
    const struct aggregate_spec *s;
    struct agg_cursor *g;
    struct pipeline_ctx ctx;
    struct pipeline pipeline;
    size_t skip; /* leading stages that the source has taken over */
};

static struct bv first_stage(struct bv stages, struct belem *ret)
{
    struct bv doc = bv_first(stages, NULL);

    ret->key = "";
    if (doc.type != BV_DOC || bv_is_missing(bv_first(doc, ret)))
        return BV_NONE;
    return doc;
}

static const char *cursor_ns(struct op *op, const struct aggregate_spec *s)
{
    return s->coll == NULL ? arena_printf(&op->arena, "%s.$cmd.aggregate", s->db)
                           : arena_printf(&op->arena, "%s.%s", s->db, s->coll);
}

/* The pipeline without its first stage. */
static struct bv tail(struct arena *a, struct bv stages)
{
    struct biter it = biter(stages);
    struct belem e;
    struct bw w;

    bw_init_array(&w, a);
    (void)biter_next(&it, &e);
    while (biter_next(&it, &e))
        bw_bv(&w, NULL, e.v);
    return bw_done(&w);
}

/* {$documents: [...]}, and what the server answers. */
static int rows_source(struct opening *o, const struct belem *first)
{
    struct arena *a = &o->g->base.arena;
    struct bv *docs = NULL;
    size_t n = 0;
    int rc;

    if (o->s->rows == NULL)
        return INT_NOT_MINE;
    rc = o->s->rows(o->op, o->s->arg, first->key, first->v, &docs, &n);
    if (rc != 0)
        return rc;
    TRY_RETURN(source_rows(o->op, a, docs, n, NULL, &o->g->source));
    return pipeline_parse(o->op, a, tail(a, o->g->stages), &o->ctx, &o->pipeline);
}

static int collection_source(struct opening *o)
{
    struct arena *a = &o->g->base.arena;
    struct source_spec src = {.ns = o->g->base.ns, .uuid = o->s->uuid};
    bool sorted, oplog;

    TRY_RETURN(op_dup(o->op, a, o->s->hint, &src.hint));
    TRY_RETURN(pipeline_parse(o->op, a, o->g->stages, &o->ctx, &o->pipeline));
    if (o->pipeline.n > 0 && o->pipeline.stages[0]->match != NULL) {
        src.filter = o->pipeline.stages[0]->match;
        o->g->filter = (struct match *)(uintptr_t)src.filter;
        o->skip = 1;
    }
    if (o->pipeline.n > o->skip && strcmp(o->pipeline.stages[o->skip]->ops->name, "$sort") == 0)
        src.sort = bv_get(o->pipeline.stages[o->skip]->spec, "$sort");
    TRY_RETURN(source_new(o->op, a, &src, &o->g->source, &sorted, &oplog));
    if (sorted && !bv_is_missing(src.sort))
        o->skip++;
    return 0;
}

static int build(struct opening *o)
{
    struct op *op = o->op;
    struct belem first;
    struct pipeline rest;
    int rc = INT_NOT_MINE;

    if (o->s->coll != NULL)
        TRY_RETURN(source_check_uuid(op, o->g->base.ns, o->s->uuid));
    if (!bv_is_missing(first_stage(o->g->stages, &first)))
        rc = rows_source(o, &first);
    if (rc == INT_NOT_MINE && o->s->coll == NULL) {
        /* A bad pipeline has its own error; a good one has no source of rows. */
        TRY_RETURN(pipeline_parse(op, &o->g->base.arena, o->g->stages, &o->ctx, &o->pipeline));
        return op_fail(op, ERR_INVALID_NAMESPACE,
                       "{aggregate: 1} is not valid for '%s'; a collection is required.",
                       bv_empty(o->g->stages) ? "an empty pipeline" : first.key);
    }
    if (rc == INT_NOT_MINE)
        rc = collection_source(o);
    if (rc != 0)
        return rc;
    rest = (struct pipeline){o->pipeline.stages + o->skip, o->pipeline.n - o->skip};
    o->g->last = pipeline_link(&rest, o->g->source);
    return 0;
}

static int check_stages(struct op *op, struct bv stages)
{
    struct biter it = biter(stages);
    struct belem e;
    size_t n = 0;

    while (biter_next(&it, &e)) {
        if (e.v.type != BV_DOC)
            return op_fail(op, ERR_TYPE_MISMATCH,
                           "Each element of the 'pipeline' array must be an object");
        if (++n > LIMIT_PIPELINE_STAGES)
            return op_fail(op, 7749501, "Pipeline length must be no longer than %d stages",
                           LIMIT_PIPELINE_STAGES);
    }
    return 0;
}

static int open_stream(struct op *op, const struct aggregate_spec *s, struct qcursor **ret)
{
    struct change_stream_args args = {.db = s->db,
                                      .coll = s->coll,
                                      .pipeline = s->pipeline,
                                      .vars = s->vars,
                                      .let = s->let,
                                      .read_level = s->read_level,
                                      .v1_tokens = s->v1_tokens,
                                      .as_written = s->as_written};

    return change_stream_open(op, &args, ret);
}

int aggregate_open(struct op *op, const struct aggregate_spec *s, struct qcursor **ret)
{
    struct opening o = {.op = op, .s = s};
    struct belem first;
    struct agg_cursor *g;
    int rc;

    TRY_RETURN(check_stages(op, s->pipeline));
    if (!bv_is_missing(first_stage(s->pipeline, &first)) &&
        strcmp(first.key, "$changeStream") == 0) {
        if (!bv_is_missing(s->uuid))
            return op_fail(op, 4928900, "collectionUUID is not supported for a change stream");
        return open_stream(op, s, ret);
    }
    if (s->coll == NULL && !bv_is_missing(s->uuid))
        return op_fail(op, 4928901,
                       "collectionUUID is not supported for a collectionless aggregation");
    g = qcursor_new(sizeof(*g), 0, &agg_ops);
    o.g = g;
    o.ctx = (struct pipeline_ctx){
        .db = s->db, .coll = s->coll, .vars = s->vars, .allow_disk_use = s->allow_disk_use};
    g->base.ns = arena_strdup(&g->base.arena, cursor_ns(op, s));
    TRY(op_dup(op, &g->base.arena, s->pipeline, &g->stages));
    if (s->vars != NULL && s->let != NULL) {
        g->nvars = s->vars->nslots;
        g->vars = ARENA_ARRAY(&g->base.arena, struct bv, g->nvars);
        for (int i = 0; i < g->nvars; i++)
            TRY(op_dup(op, &g->base.arena, s->let->vars[i], &g->vars[i]));
    }
    TRY(build(&o));
    *ret = &g->base;
    return 0;
fail:
    /* What was parsed but not chained owns only arena memory and its source. */
    if (g->last == NULL)
        g->last = g->source;
    qcursor_free(&g->base);
    return rc;
}
