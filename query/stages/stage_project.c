/* SPDX-License-Identifier: GPL-3.0-or-later */
/* $project, $addFields, $set and $unset: query/projection.h row by row. */
#include "query/projection.h"
#include "query/stage.h"

struct project {
    struct stage s;
    struct projection *projection;
};

static int project_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    const struct project *project = (struct project *)s;
    struct bv row;

    TRY_RETURN(stage_next(s->source, x, &row, ret_more));
    *ret = row;
    if (bv_is_missing(row))
        return 0;
    eval_set_row(&x->ev, row);
    return projection_apply(project->projection, &x->ev, row, ret);
}

static const struct stage_ops project_ops = {.name = "$project", .next = project_next};
static const struct stage_ops add_fields_ops = {.name = "$addFields", .next = project_next};
static const struct stage_ops unset_ops = {.name = "$unset", .next = project_next};

static int parse(struct stage_parser *p, enum projection_use use, const struct stage_ops *ops,
                 struct stage **ret)
{
    struct project *project = STAGE_NEW(p, struct project, ops);

    TRY_RETURN(
        projection_parse(p->op, p->a, p->spec, use, p->ctx->vars, NULL, &project->projection));
    *ret = &project->s;
    return 0;
}

int stage_project_parse(struct stage_parser *p, struct stage **ret)
{
    if (p->spec.type != BV_DOC)
        return op_fail(p->op, 15969, "$project specification must be an object");
    return parse(p, PROJECT_STAGE, &project_ops, ret);
}

int stage_add_fields_parse(struct stage_parser *p, struct stage **ret)
{
    if (p->spec.type != BV_DOC)
        return op_fail(p->op, 40272, "%s specification stage must be an object, got %s", p->name,
                       bv_type_name(p->spec.type));
    return parse(p, PROJECT_ADD_FIELDS, &add_fields_ops, ret);
}

int stage_unset_parse(struct stage_parser *p, struct stage **ret)
{
    return parse(p, PROJECT_UNSET, &unset_ops, ret);
}
