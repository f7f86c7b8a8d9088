/* SPDX-License-Identifier: GPL-3.0-or-later */
/* configureFailPoint: arms and disarms the fail points of server/failpoints.def, for tests. */
#include "server/failpoints.h"

struct failpoint_args {
    const char *name;
    struct bv mode, data;
};

static const struct field fields[] = {
    {"configureFailPoint", F_STR, offsetof(struct failpoint_args, name), FIELD_REQUIRED},
    {"mode", F_ANY, offsetof(struct failpoint_args, mode), FIELD_REQUIRED},
    {"data", F_DOC, offsetof(struct failpoint_args, data), FIELD_NULL_OK},
    {NULL, 0, 0, 0},
};

static int parse_count(struct op *op, const struct belem *e, enum failpoint_mode mode,
                       struct failpoint_setting *ret)
{
    if (!bv_is_number(e->v))
        return op_fail(op, ERR_TYPE_MISMATCH, "'%s' option to 'mode' must be numeric, not %s",
                       e->key, bv_type_name(e->v.type));
    if (!bv_to_i64(e->v, &ret->n) || ret->n < 0 || ret->n > INT32_MAX)
        return op_fail(op, ERR_BAD_VALUE, "'%s' option to 'mode' must be between 0 and %d", e->key,
                       INT32_MAX);
    ret->mode = mode == FAILPOINT_TIMES && ret->n == 0 ? FAILPOINT_OFF : mode;
    return 0;
}

static int parse_probability(struct op *op, struct bv v, struct failpoint_setting *ret)
{
    if (!bv_is_number(v))
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "the 'activationProbability' option to 'mode' must be a double between 0 "
                       "and 1");
    ret->probability = bv_to_f64(v);
    if (!(ret->probability >= 0 && ret->probability <= 1))
        return op_fail(op, ERR_BAD_VALUE, "activationProbability must be between 0 and 1");
    ret->mode = FAILPOINT_RANDOM;
    return 0;
}

static int parse_mode(struct op *op, struct bv v, struct failpoint_setting *ret)
{
    struct belem e;

    if (bv_str_is(v, "off") || bv_str_is(v, "alwaysOn")) {
        ret->mode = bv_str_is(v, "off") ? FAILPOINT_OFF : FAILPOINT_ON;
        return 0;
    }
    if (v.type == BV_STRING)
        return op_fail(op, ERR_BAD_VALUE, "unknown mode: %.200s", bv_str(v, NULL));
    if (v.type != BV_DOC)
        return op_fail(op, ERR_TYPE_MISMATCH, "'mode' must be a string or JSON object");
    if (bv_is_missing(bv_first(v, &e)))
        e.key = "";
    if (strcmp(e.key, "times") == 0)
        return parse_count(op, &e, FAILPOINT_TIMES, ret);
    if (strcmp(e.key, "skip") == 0)
        return parse_count(op, &e, FAILPOINT_SKIP, ret);
    if (strcmp(e.key, "activationProbability") == 0)
        return parse_probability(op, e.v, ret);
    return op_fail(op, ERR_BAD_VALUE,
                   "'mode' must be one of 'off', 'alwaysOn', 'times', 'skip' and "
                   "'activationProbability'");
}

/* {configureFailPoint: name, mode, data}: {count} of how often it has fired. */
int cmd_configureFailPoint(struct request *rq)
{
    struct op *op = &rq->op;
    struct failpoint_args a = {0};
    struct failpoint_setting set = {0};
    int64_t count;

    TRY_RETURN(fields_parse(op, "configureFailPoint", fields, op->cmd, FIELDS_COMMAND, &a));
    TRY_RETURN(parse_mode(op, a.mode, &set));
    set.data = a.data;
    TRY_RETURN(failpoint_set(op, a.name, &set, &count));
    bw_i32(rq->reply, "count", (int32_t)count);
    return 0;
}
