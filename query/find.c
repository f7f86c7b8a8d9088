/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "query/find.h"

#include "query/projection.h"
#include "query/source.h"

struct find_cursor {
    struct qcursor base;
    struct match *filter;
    struct stage *last;
    struct projection *projection; /* NULL: whole documents */
    struct bv *vars;               /* values of let variables, in the arena */
    int nvars;
    bool oplog;
    uint64_t position; /* oplog: everything up to here was seen at the last end of rows */
};

static void load_vars(struct find_cursor *f, struct exec *x)
{
    if (f->nvars > 0)
        memcpy(x->ev.vars, f->vars, (size_t)f->nvars * sizeof(f->vars[0]));
}

static int find_next(struct qcursor *c, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct find_cursor *f = (struct find_cursor *)c;

    load_vars(f, x);
    TRY_RETURN(stage_next(f->last, x, ret, ret_more));
    if (bv_is_missing(*ret) || f->projection == NULL)
        return 0;
    return projection_apply(f->projection, &x->ev, *ret, ret);
}

static void find_save(struct qcursor *c, struct exec *x)
{
    stage_save(((struct find_cursor *)c)->last, x);
}

static int find_wait(struct qcursor *c, struct exec *x)
{
    static const struct scope all = {.kind = SCOPE_OPLOG};
    struct find_cursor *f = (struct find_cursor *)c;
    struct stage *s = f->last;

    while (s->source != NULL)
        s = s->source;
    return oplog_wait_entry(x->db->oplog, x->op, &all, scan_oplog_position(s));
}

static void find_close(struct qcursor *c)
{
    struct find_cursor *f = (struct find_cursor *)c;

    if (f->last != NULL)
        stage_close(f->last);
}

static void explain_chain(struct stage *s, struct bw *w)
{
    bw_str(w, "stage", s->ops->plan != NULL ? s->ops->plan : s->ops->name);
    if (s->ops->explain != NULL)
        s->ops->explain(s, w);
    if (s->source != NULL) {
        bw_doc_begin(w, "inputStage");
        explain_chain(s->source, w);
        bw_end(w);
    }
}

static void find_explain(struct qcursor *c, struct bw *w, int verbosity)
{
    struct find_cursor *f = (struct find_cursor *)c;

    (void)verbosity;
    bw_str(w, "namespace", c->ns);
    bw_bool(w, "indexFilterSet", false);
    bw_bv(w, "parsedQuery", match_show(f->filter, &c->arena));
    bw_bool(w, "maxIndexedOrSolutionsReached", false);
    bw_bool(w, "maxIndexedAndSolutionsReached", false);
    bw_bool(w, "maxScansToExplodeReached", false);
    bw_doc_begin(w, "winningPlan");
    explain_chain(f->last, w);
    bw_end(w);
    bw_arr_begin(w, "rejectedPlans");
    bw_end(w);
}

static const struct qcursor_ops find_ops = {
    .next = find_next, .save = find_save, .close = find_close, .explain = find_explain};
static const struct qcursor_ops find_await_ops = {.next = find_next,
                                                  .save = find_save,
                                                  .wait = find_wait,
                                                  .close = find_close,
                                                  .explain = find_explain};

static bool natural(struct bv sort)
{
    struct belem e;

    return !bv_is_missing(bv_first(sort, &e)) && strcmp(e.key, "$natural") == 0;
}

static int check_tailable(struct op *op, const struct find_spec *s)
{
    int64_t direction = 1;

    if (s->await_data && !s->tailable)
        return op_fail(op, ERR_FAILED_TO_PARSE,
                       "Cannot set 'awaitData' without also setting 'tailable'");
    if (!s->tailable)
        return 0;
    if (!bv_empty(s->sort) &&
        (!natural(s->sort) || !bv_to_i64(bv_get(s->sort, "$natural"), &direction) ||
         direction != 1))
        return op_fail(op, ERR_BAD_VALUE,
                       "Cannot use tailable option with a sort other than {$natural: 1}");
    if (strcmp(s->ns, "local.oplog.rs") != 0 && source_exists(op->database, s->ns))
        return op_fail(op, ERR_BAD_VALUE,
                       "error processing query: ns=%s tailable cursor requested on non capped "
                       "collection",
                       s->ns);
    return 0;
}

static int build(struct find_cursor *f, struct op *op, const struct find_spec *s)
{
    struct arena *a = &f->base.arena;
    struct source_spec src = {.ns = f->base.ns,
                              .filter = f->filter,
                              .uuid = s->uuid,
                              .show_record_id = s->show_record_id,
                              .tailable = s->tailable};
    bool sorted;

    TRY_RETURN(op_dup(op, a, s->sort, &src.sort));
    TRY_RETURN(op_dup(op, a, s->hint, &src.hint));
    TRY_RETURN(op_dup(op, a, s->min, &src.min));
    TRY_RETURN(op_dup(op, a, s->max, &src.max));
    TRY_RETURN(source_new(op, a, &src, &f->last, &sorted, &f->oplog));
    if (!bv_empty(s->sort) && !natural(s->sort)) {
        int64_t keep = s->limit == 0 || s->limit > INT64_MAX - s->skip ? 0 : s->limit + s->skip;
        struct stage *sort;

        /* Made also where it is not needed: a sort that is wrong is an error all the same. */
        TRY_RETURN(sort_new(op, a, src.sort, keep, s->allow_disk_use, &sort));
        sort->source = f->last;
        f->last = sorted ? f->last : sort;
    }
    if (s->skip > 0) {
        struct stage *skip = skip_new(a, s->skip);

        skip->source = f->last;
        f->last = skip;
    }
    if (s->limit > 0) {
        struct stage *limit = limit_new(a, s->limit);

        limit->source = f->last;
        f->last = limit;
    }
    return 0;
}

int find_open(struct op *op, const struct find_spec *s, struct qcursor **ret)
{
    struct match_options mo = {.vars = s->vars};
    struct find_cursor *f;
    struct arena *a;
    int rc;

    TRY_RETURN(check_tailable(op, s));
    f = qcursor_new(sizeof(*f), 0, s->await_data ? &find_await_ops : &find_ops);
    a = &f->base.arena;
    f->base.ns = arena_strdup(a, s->ns);
    if (s->vars != NULL && s->let != NULL) {
        f->nvars = s->vars->nslots;
        f->vars = ARENA_ARRAY(a, struct bv, f->nvars);
        for (int i = 0; i < f->nvars; i++)
            TRY(op_dup(op, a, s->let->vars[i], &f->vars[i]));
    }
    TRY(match_parse(op, a, bv_is_missing(s->filter) ? bv_empty_doc : s->filter, &mo, &f->filter));
    if (!bv_empty(s->projection))
        TRY(projection_parse(op, a, s->projection, PROJECT_FIND, s->vars, f->filter,
                             &f->projection));
    TRY(build(f, op, s));
    f->base.tailable = s->tailable && f->oplog;
    f->base.await_data = s->await_data && f->oplog;
    *ret = &f->base;
    return 0;
fail:
    qcursor_free(&f->base);
    return rc;
}
