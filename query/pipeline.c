/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pipelines: finding the stages of a specification, checking where each may stand, chaining them.
 *
 * Whether a stage may stand where it stands is checked after all of them were parsed, so that an
 * error inside a later stage wins, as MongoDB has it.
 */
#include "query/pipeline.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/limits.h"
#include "query/stage.h"

struct row {
    const char *name;
    stage_parse_fn parse; /* NULL: STAGE_OTHER */
    unsigned flags;
};

static const struct row rows[] = {
#define STAGE(name, parser, flags) {name, parser, flags},
#define STAGE_OTHER(name, flags)   {name, NULL, flags},
#include "query/stages.def"
#undef STAGE
#undef STAGE_OTHER
};

/* Tables are sorted with case ignored; no two names differ in case only. */
static int cmp_row(const void *key, const void *row)
{
    return strcasecmp(key, ((const struct row *)row)->name);
}

static const struct row *find_row(const char *name)
{
    const struct row *row =
        bsearch(name, rows, sizeof(rows) / sizeof(rows[0]), sizeof(rows[0]), cmp_row);

    return row != NULL && strcmp(row->name, name) == 0 ? row : NULL;
}

static int parse_stage(struct op *op, struct arena *a, struct bv doc, struct pipeline_ctx *ctx,
                       const struct row **ret_row, struct stage **ret)
{
    struct stage_parser p = {.op = op, .a = a, .ctx = ctx};
    const struct row *row;
    struct belem e;

    if (doc.type != BV_DOC)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "Each element of the 'pipeline' array must be an object");
    if (bv_count(doc) != 1)
        return op_fail(op, 40323,
                       "A pipeline stage specification object must contain exactly one field.");
    TRY_RETURN(op_dup(op, a, doc, &p.doc));
    p.spec = bv_first(p.doc, &e);
    row = find_row(e.key);
    if (row == NULL)
        return op_fail(op, 40324, "Unrecognized pipeline stage name: '%s'", e.key);
    if ((row->flags & STAGE_FIRST) != 0)
        return op_fail(op, 40602, "%s is only valid as the first stage in a pipeline", e.key);
    if ((row->flags & STAGE_STREAM_END) != 0 && ctx->change_stream)
        return op_fail(op, 7182802, "%s must be the last stage in the pipeline", e.key);
    if ((row->flags & STAGE_STREAM_END) != 0)
        return op_fail(op, ERR_ILLEGAL_OPERATION, "%s can only be used in a $changeStream pipeline",
                       e.key);
    *ret_row = row;
    /* Behind $changeStream most stages are refused in any case, by check_place(). */
    if (row->parse == NULL && ctx->change_stream && (row->flags & STAGE_IN_STREAM) == 0)
        return 0;
    if ((row->flags & STAGE_ATLAS) != 0)
        return op_fail(op, ERR_SEARCH_NOT_ENABLED,
                       "Using the %s aggregation stage requires additional configuration: it is "
                       "only for Atlas",
                       e.key);
    if (row->parse == NULL)
        return op_fail(op, ERR_NOT_IMPLEMENTED, "The pipeline stage %s is not supported yet",
                       e.key);
    p.name = row->name;
    return row->parse(&p, ret);
}

static int check_place(struct op *op, const struct row *row, const struct pipeline_ctx *ctx)
{
    if (ctx->change_stream && (row->flags & STAGE_IN_STREAM) == 0)
        return op_fail(op, ERR_ILLEGAL_OPERATION, "%s is not permitted in a $changeStream pipeline",
                       row->name);
    if (ctx->for_update && (row->flags & STAGE_IN_UPDATE) == 0)
        return op_fail(op, ERR_INVALID_OPTIONS, "%s is not allowed to be used within an update",
                       row->name);
    return 0;
}

/* $sort, perhaps $skip stages, then $limit: the sort need not keep more than those rows. */
static void join_limits(struct pipeline *p)
{
    for (size_t i = 0; i < p->n; i++) {
        int64_t skip = 0, n;
        size_t j = i + 1;

        while (j < p->n && (n = skip_of(p->stages[j])) >= 0) {
            if (__builtin_add_overflow(skip, n, &skip))
                skip = INT64_MAX;
            j++;
        }
        n = j < p->n ? limit_of(p->stages[j]) : -1;
        if (n >= 0 && !__builtin_add_overflow(skip, n, &n))
            (void)sort_limit(p->stages[i], n);
    }
}

int pipeline_parse(struct op *op, struct arena *a, struct bv stages, struct pipeline_ctx *ctx,
                   struct pipeline *ret)
{
    struct pipeline p = {0};
    const struct row **found;
    struct biter it = biter(stages);
    struct belem e;
    uint32_t n = bv_count(stages);

    if (stages.type != BV_ARRAY)
        return op_fail(op, ERR_TYPE_MISMATCH, "'pipeline' option must be specified as an array");
    if (n > LIMIT_PIPELINE_STAGES)
        return op_fail(op, 7749501, "Pipeline length must be no longer than %d stages",
                       LIMIT_PIPELINE_STAGES);
    p.stages = ARENA_ARRAY(a, struct stage *, n);
    found = ARENA_ARRAY(a, const struct row *, n);
    while (biter_next(&it, &e)) {
        TRY_RETURN(parse_stage(op, a, e.v, ctx, &found[p.n], &p.stages[p.n]));
        p.n++;
    }
    for (size_t i = 0; i < p.n; i++)
        TRY_RETURN(check_place(op, found[i], ctx));
    join_limits(&p);
    *ret = p;
    return 0;
}

struct stage *pipeline_link(struct pipeline *p, struct stage *source)
{
    for (size_t i = 0; i < p->n; i++) {
        p->stages[i]->source = source;
        source = p->stages[i];
    }
    return source;
}

int stage_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    return s->ops->next(s, x, ret, ret_more);
}

void stage_save(struct stage *s, struct exec *x)
{
    for (; s != NULL; s = s->source) {
        if (s->ops->save != NULL)
            s->ops->save(s, x);
    }
}

void stage_close(struct stage *s)
{
    for (; s != NULL; s = s->source) {
        if (s->ops->close != NULL)
            s->ops->close(s);
    }
}

void *stage_new(struct arena *a, size_t size, const struct stage_ops *ops, struct bv doc)
{
    struct stage *s = arena_zalloc(a, size);

    s->ops = ops;
    s->spec = doc;
    return s;
}

int stage_int(struct stage_parser *p, int code_type, int code_range, int64_t min, int64_t *ret)
{
    int64_t n;

    if (!bv_is_number(p->spec))
        return op_fail(p->op, code_type,
                       "invalid argument to %s stage: Expected a number in: %s: %s", p->name,
                       p->name, bv_show(p->a, p->spec, 128));
    if (!bv_to_i64_exact(p->spec, &n))
        return op_fail(p->op, code_type,
                       "invalid argument to %s stage: Expected an integer: %s: %s", p->name,
                       p->name, bv_show(p->a, p->spec, 128));
    if (n < 0)
        return op_fail(p->op, code_type,
                       "invalid argument to %s stage: Expected a non-negative number in: %s: %lld",
                       p->name, p->name, (long long)n);
    if (n < min)
        return op_fail(p->op, code_range, "the limit must be positive");
    *ret = n;
    return 0;
}

/* --- one row
 * -------------------------------------------------------------------------------------- */

/* The source of pipeline_apply_row(). */
struct one_row {
    struct stage s;
    struct bv doc; /* BV_NONE when given */
};

static int one_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct one_row *one = (struct one_row *)s;

    (void)x;
    *ret = one->doc;
    *ret_more = !bv_is_missing(one->doc);
    one->doc = BV_NONE;
    return 0;
}

static const struct stage_ops one_ops = {.name = "row", .next = one_next};

int pipeline_apply_row(struct pipeline *p, struct exec *x, struct bv doc, struct bv *ret)
{
    struct one_row one = {.s = {.ops = &one_ops}, .doc = doc};
    struct stage *last = pipeline_link(p, &one.s);
    bool more;

    TRY_RETURN(stage_next(last, x, ret, &more));
    return more ? 0 : op_fail(x->op, ERR_INTERNAL, "an update pipeline dropped its document");
}
