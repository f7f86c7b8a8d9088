/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * `$changeStream` as a query cursor: stream -> the user's stages -> the check that _id still is
 * the resume token. Everything behind the stream is row by row, so what comes out at the end is
 * always made of the event that the stream gave last.
 */
#include "query/change_stream.h"

#include "base/limits.h"
#include "query/change_stream_internal.h"
#include "storage/record.h"

#define SPLIT_STAGE "$changeStreamSplitLargeEvent"

/* Streams are many and mostly wait: names and a stage without options need no more. */
enum { ARENA_BYTES = 144 };

static _Atomic int64_t sent, large_failed, large_split;

void change_stream_stats(struct change_stream_stats *ret)
{
    ret->sent = atomic_load_explicit(&sent, memory_order_relaxed);
    ret->large_failed = atomic_load(&large_failed);
    ret->large_split = atomic_load(&large_split);
}

/* With $changeStreamSplitLargeEvent as the last stage. */
struct splitting {
    struct event_split event;   /* that is being handed out in fragments */
    struct resume_token resume; /* a fragment's, until its event has come by; else fragment -1 */
};

struct cs_cursor {
    struct qcursor base;
    struct stage source; /* first in the chain; its next() asks the stream */
    struct stage *last;
    struct stream *stream;
    struct pushed_filter pushed;
    struct arena row_scratch; /* of the pushed filter, within a batch */
    struct splitting *split;  /* NULL: large events are errors */
    struct bv *vars;          /* let */
    int nvars;

    /* within a call of next() */
    struct exec *x;
    struct bv token;        /* of the event under way */
    uint64_t snapshot_time; /* x->stx sees all that was visible at this optime */
};

static struct cs_cursor *cursor_of_source(struct stage *s)
{
    return (struct cs_cursor *)(void *)((char *)s - offsetof(struct cs_cursor, source));
}

/* --- the source --------------------------------------------------------------------------------
 */

static int source_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct cs_cursor *c = cursor_of_source(s);

    TRY_RETURN(stream_next(c->stream, x->op, &x->scratch, ret, ret_more));
    c->token = bv_get(*ret, "_id");
    return 0;
}

static const struct stage_ops source_ops = {.name = "$changeStream", .next = source_next};

/* What the test composes lies in memory of its own: the stages find the scratch as it would be
 * without it. */
static bool accept_event(void *arg, struct op *op, const struct event *e)
{
    struct cs_cursor *c = arg;
    struct event_fields fields = {
        .e = e, .opts = &stream_options(c->stream)->event, .op = op, .arena = &c->row_scratch};
    struct eval *ev = &c->x->ev;
    bool keep;

    if (c->pushed.n == 0)
        return true;
    arena_reset(&c->row_scratch);
    ev->scratch = &c->row_scratch;
    keep = pushed_filter_keeps(&c->pushed, ev, &fields);
    ev->scratch = &c->x->scratch;
    return keep;
}

/* --- updateLookup ------------------------------------------------------------------------------
 */

/* The batch's transaction, with a snapshot that is not older than the event. */
static int fresh_stx(struct cs_cursor *c, uint64_t event_time, struct stx **ret)
{
    struct exec *x = c->x;
    bool had = x->stx != NULL;
    uint64_t visible = oplog_visible(x->db->oplog);

    TRY_RETURN(exec_stx(x, ret));
    if (had && c->snapshot_time < event_time) {
        TRY_RETURN(stx_refresh(*ret));
        c->snapshot_time = visible;
    } else if (!had) {
        c->snapshot_time = visible;
    }
    return 0;
}

/* The document as it is now. What is read may not be durable yet: the reply waits for that. */
static int look_up(void *arg, struct op *op, struct arena *a, const struct event *e, struct bv *ret)
{
    struct cs_cursor *c = arg;
    struct database *db = op->database;
    char *ns = arena_printf(a, "%.*s.%s", (int)e->db_len, e->db, e->coll);
    struct coll *k = catalog_get(db->catalog, ns);
    struct bv ui = e->change->row.ui;
    struct stx *t;
    int64_t rid;
    int rc = 0;

    *ret = BV_NONE;
    if (k == NULL)
        return 0;
    /* A collection made anew under the name is another one. */
    if (bv_is_missing(ui) || memcmp(ui.p + 5, k->uuid, sizeof(k->uuid)) == 0) {
        TRY(fresh_stx(c, e->change->row.optime, &t));
        TRY(record_find_id(t, k, bv_get(e->document_key, "_id"), a, &rid, ret));
        op->ack_flush = oplog_flush_ticket(db->oplog);
    }
fail:
    coll_unref(k);
    return rc;
}

/* --- the cursor --------------------------------------------------------------------------------
 */

static int fatal(struct op *op, int rc)
{
    op->err->labels |= LABEL_NON_RESUMABLE_CHANGE_STREAM;
    return rc;
}

static int check_id(struct cs_cursor *c, struct op *op, struct bv event)
{
    struct bv id = bv_get(event, "_id");
    const char *found = "{}";

    if (bv_identical(id, c->token))
        return 0;
    if (!bv_is_missing(id))
        found = arena_printf(&op->arena, "{ _id: %s }", bv_show(&op->arena, id, 256));
    return fatal(op, op_fail(op, ERR_CHANGE_STREAM_FATAL,
                             "Encountered an event whose _id field, which contains the resume "
                             "token, was modified by the pipeline. A stream whose events have "
                             "another _id cannot be resumed; only stages that keep the _id field "
                             "as it is are allowed. Expected: { _id: %s } but found: %s",
                             bv_show(&op->arena, c->token, 256), found));
}

static int too_large(struct cs_cursor *c, struct op *op, struct bv event)
{
    atomic_fetch_add(&large_failed, 1);
    return op_fail(op, ERR_BSON_TOO_LARGE,
                   "BSONObj size: %u (0x%X) is invalid. Size must be between 0 and %d(16MB) First "
                   "element: _id: %s",
                   event.len, event.len, LIMIT_INTERNAL_BYTES, bv_show(&op->arena, c->token, 256));
}

/* The number of fragments of this event that the client has seen already. */
static int fragments_seen(struct cs_cursor *c, struct op *op, uint32_t *ret)
{
    struct resume_token t, resume = c->split->resume;

    *ret = 0;
    if (resume.fragment < 0)
        return 0;
    c->split->resume.fragment = -1;
    TRY_RETURN(token_decode(op, c->token, &t));
    *ret = (uint32_t)resume.fragment + 1;
    resume.fragment = -1;
    if (token_cmp(&t, &resume) != 0)
        *ret = 0; /* a filter has dropped the event */
    return 0;
}

/* Turns a large event into its next fragment. */
static int split_event(struct cs_cursor *c, struct exec *x, struct bv *event)
{
    struct event_split *split = &c->split->event;
    uint32_t seen;

    TRY_RETURN(fragments_seen(c, x->op, &seen));
    if (split_wanted(*event)) {
        TRY_RETURN(split_begin(split, x->op, *event, seen));
        if (split_pending(split)) {
            atomic_fetch_add(&large_split, 1);
            return split_next(split, x->op, &x->scratch, event);
        }
    }
    if (seen > 0)
        return fatal(x->op, op_fail(x->op, ERR_CHANGE_STREAM_FATAL,
                                    "cannot resume within a split event: it is not split as it "
                                    "was when the resume token was made"));
    return 0;
}

static bool fragments_left(const struct cs_cursor *c)
{
    return c->split != NULL && split_pending(&c->split->event);
}

static int finish_event(struct cs_cursor *c, struct exec *x, struct bv *event)
{
    TRY_RETURN(check_id(c, x->op, *event));
    if (c->split != NULL)
        return split_event(c, x, event);
    return event->len > LIMIT_INTERNAL_BYTES ? too_large(c, x->op, *event) : 0;
}

static int cs_next(struct qcursor *qc, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct cs_cursor *c = (struct cs_cursor *)qc;

    *ret_more = true;
    if (fragments_left(c))
        return split_next(&c->split->event, x->op, &x->scratch, ret);
    c->x = x;
    if (c->nvars > 0)
        memcpy(x->ev.vars, c->vars, (size_t)c->nvars * sizeof(c->vars[0]));
    TRY_RETURN(stage_next(c->last, x, ret, ret_more));
    if (!*ret_more)
        qc->invalidated = true;
    return bv_is_missing(*ret) ? 0 : finish_event(c, x, ret);
}

static void cs_save(struct qcursor *qc, struct exec *x)
{
    struct cs_cursor *c = (struct cs_cursor *)qc;

    stage_save(c->last, x);
    stream_save(c->stream);
    arena_fini(&c->row_scratch);
    c->x = NULL;
    c->snapshot_time = 0;
}

static int cs_wait(struct qcursor *qc, struct exec *x)
{
    struct cs_cursor *c = (struct cs_cursor *)qc;

    return fragments_left(c) ? 0 : stream_wait(c->stream, x->op);
}

static struct bv cs_resume_token(struct qcursor *qc, struct arena *a)
{
    return stream_token(((struct cs_cursor *)qc)->stream, a);
}

static int cs_delivered(struct qcursor *qc, struct op *op, struct bv row)
{
    if (!stream_delivered(((struct cs_cursor *)qc)->stream, bv_get(row, "_id")))
        return op_no_memory(op);
    atomic_fetch_add_explicit(&sent, 1, memory_order_relaxed);
    return 0;
}

static void cs_watch(struct qcursor *qc, struct stream_watch *ret)
{
    struct cs_cursor *c = (struct cs_cursor *)qc;

    ret->scope = stream_options(c->stream)->scope;
    ret->token_time = stream_seen(c->stream, &ret->waiting);
}

static void cs_close(struct qcursor *qc)
{
    struct cs_cursor *c = (struct cs_cursor *)qc;

    if (c->last != NULL)
        stage_close(c->last);
    if (c->split != NULL)
        split_end(&c->split->event);
    arena_fini(&c->row_scratch);
    stream_free(c->stream);
}

static void cs_explain(struct qcursor *qc, struct bw *w, int verbosity)
{
    struct cs_cursor *c = (struct cs_cursor *)qc;
    const struct stage *chain[LIMIT_PIPELINE_STAGES + 1];
    size_t n = 0;

    (void)verbosity;
    for (const struct stage *s = c->last; s != NULL; s = s->source)
        chain[n++] = s;
    bw_arr_begin(w, "stages");
    while (n-- > 0) {
        bw_doc_begin(w, NULL);
        if (chain[n] == &c->source) {
            bw_bv(w, chain[n]->ops->name, chain[n]->spec);
            pushed_filter_explain(&c->pushed, &c->base.arena, w);
        } else {
            bw_fields(w, chain[n]->spec);
        }
        bw_end(w);
    }
    if (c->split != NULL) {
        bw_doc_begin(w, NULL);
        bw_bv(w, SPLIT_STAGE, bv_empty_doc);
        bw_end(w);
    }
    bw_end(w);
}

static const struct qcursor_ops cs_ops = {.next = cs_next,
                                          .save = cs_save,
                                          .wait = cs_wait,
                                          .resume_token = cs_resume_token,
                                          .delivered = cs_delivered,
                                          .close = cs_close,
                                          .watch = cs_watch,
                                          .explain = cs_explain};

/* --- opening -----------------------------------------------------------------------------------
 */

/* Takes the stage off the end of a pipeline; *ret_found: it was there. Anywhere else it is refused
 * by pipeline_parse(). */
static int take_split_stage(struct op *op, struct bv pipeline, bool *ret_found)
{
    struct biter it = biter(pipeline);
    struct belem e, stage = {.key = ""};
    struct bv last = BV_NONE, spec;

    while (biter_next(&it, &e))
        last = e.v;
    spec = bv_first(last, &stage);
    *ret_found = strcmp(stage.key, SPLIT_STAGE) == 0 && bv_count(last) == 1;
    if (*ret_found && (spec.type != BV_DOC || !bv_empty(spec)))
        return op_fail(op, 7182800, SPLIT_STAGE " spec should be an empty object");
    return 0;
}

/* What stands between $changeStream and the end (or the split stage). */
static struct bv user_stages(struct arena *a, struct bv pipeline, bool split)
{
    struct biter it = biter(pipeline);
    uint32_t n = bv_count(pipeline) - split;
    struct belem e;
    struct bw w;

    if (n <= 1)
        return bv_empty_array; /* most streams: a writer's buffer would be most of their memory */
    bw_init_array(&w, a);
    for (uint32_t i = 0; i < n && biter_next(&it, &e); i++) {
        if (i > 0)
            bw_bv(&w, NULL, e.v);
    }
    return bw_done(&w);
}

static int chain_stages(struct cs_cursor *c, struct op *op, const struct change_stream_args *args)
{
    struct arena *a = &c->base.arena;
    struct pipeline_ctx ctx = {
        .db = args->db, .coll = args->coll, .vars = args->vars, .change_stream = true};
    struct pipeline p;

    TRY_RETURN(pipeline_parse(op, a, user_stages(a, args->pipeline, c->split != NULL), &ctx, &p));
    if (!args->as_written)
        pushed_filter_init(&c->pushed, a, &p);
    c->source.ops = &source_ops;
    TRY_RETURN(op_dup(op, a, bv_first(bv_first(args->pipeline, NULL), NULL), &c->source.spec));
    c->last = pipeline_link(&p, &c->source);
    return 0;
}

static struct splitting *splitting_new(struct arena *a, const struct stream_options *o)
{
    struct splitting *s = ARENA_NEW(a, struct splitting);

    s->resume.fragment = -1;
    if (o->start == STREAM_FROM_TOKEN)
        s->resume = *o->resume;
    return s;
}

int change_stream_open(struct op *op, const struct change_stream_args *args, struct qcursor **ret)
{
    struct cs_cursor *c = qcursor_new(sizeof(*c), ARENA_BYTES, &cs_ops);
    struct arena *a = &c->base.arena;
    struct stream_options o;
    bool splits;
    int rc;

    TRY(take_split_stage(op, args->pipeline, &splits));
    TRY(change_stream_parse(op, args, splits, a, &o));
    if (splits)
        c->split = splitting_new(a, &o);
    TRY(chain_stages(c, op, args));
    c->base.ns = o.scope.kind == SCOPE_COLLECTION
                     ? o.scope.ns
                     : arena_printf(a, "%s.%s", args->db, "$cmd.aggregate");
    c->base.tailable = c->base.await_data = c->base.change_stream = true;
    if (args->vars != NULL && args->let != NULL) {
        c->nvars = args->vars->nslots;
        c->vars = ARENA_ARRAY(a, struct bv, c->nvars);
        for (int i = 0; i < c->nvars; i++)
            TRY(op_dup(op, a, args->let->vars[i], &c->vars[i]));
    }
    o.event.lookup = look_up;
    o.event.lookup_arg = c;
    o.accept = accept_event;
    o.accept_arg = c;
    c->stream = stream_new(op->database->oplog, &o);
    if (c->stream == NULL)
        TRY(op_no_memory(op));
    *ret = &c->base;
    return 0;
fail:
    qcursor_free(&c->base);
    return rc;
}
