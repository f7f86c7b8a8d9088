/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Cluster parameters: kept over restarts, each a document. A parameter is a row in the table: its
 * name, a function that appends its fields, and one that checks a document and makes it the value.
 */
#include "base/fields.h"
#include "server/command.h"

struct cluster_parameter {
    const char *name;
    void (*get)(struct request *rq); /* clusterParameterTime and the fields, to the reply */
    int (*set)(struct request *rq, struct bv value);
};

/* --- changeStreamOptions -------------------------------------------------------------------- */

static void get_stream_options(struct request *rq)
{
    struct bw *w = rq->reply;
    uint64_t set_at;
    int64_t seconds = oplog_get_image_expiry(rq->op.database->oplog, &set_at);

    bw_ts(w, "clusterParameterTime", set_at);
    bw_doc_begin(w, "preAndPostImages");
    if (seconds == 0)
        bw_str(w, "expireAfterSeconds", "off");
    else
        bw_i64(w, "expireAfterSeconds", seconds);
    bw_end(w);
}

struct stream_options_args {
    struct bv images;
};

static const struct field stream_options_fields[] = {
    {"preAndPostImages", F_DOC, offsetof(struct stream_options_args, images), 0},
    {NULL, 0, 0, 0},
};

struct images_args {
    struct bv expire;
};

static const struct field images_fields[] = {
    {"expireAfterSeconds", F_ANY, offsetof(struct images_args, expire), 0},
    {NULL, 0, 0, 0},
};

/* "off" (0) or a positive number of seconds. */
static int parse_expiry(struct op *op, struct bv v, int64_t *ret)
{
    const char *shown = bv_show(&op->arena, v, 100);

    if (bv_str_is(v, "off")) {
        *ret = 0;
        return 0;
    }
    if (v.type == BV_STRING)
        return op_fail(op, ERR_BAD_VALUE,
                       "Expected a positive integer or 'off' for 'expireAfterSeconds', received: "
                       "%s",
                       shown);
    if (bv_is_missing(v))
        return op_fail(op, ERR_BAD_VALUE,
                       "changeStreamOptions needs preAndPostImages.expireAfterSeconds");
    if (!bv_is_number(v))
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "BSON field 'preAndPostImages.expireAfterSeconds' is the wrong type '%s', "
                       "expected types '[string, long, int, decimal, double]'",
                       bv_type_name(v.type));
    if (!bv_to_i64_exact(v, ret) || *ret <= 0)
        return op_fail(op, ERR_BAD_VALUE,
                       "Expected a positive integer for 'expireAfterSeconds', received: %s", shown);
    return 0;
}

static int set_stream_options(struct request *rq, struct bv value)
{
    struct stream_options_args args = {.images = BV_NONE};
    struct images_args images = {.expire = BV_NONE};
    struct op *op = &rq->op;
    int64_t seconds;

    TRY_RETURN(fields_parse(op, "changeStreamOptions", stream_options_fields, value, 0, &args));
    if (!bv_is_missing(args.images))
        TRY_RETURN(fields_parse(op, "changeStreamOptions.preAndPostImages", images_fields,
                                args.images, 0, &images));
    TRY_RETURN(parse_expiry(op, images.expire, &seconds));
    return oplog_set_image_expiry(op->database->oplog, op, seconds);
}

/* --- the table ------------------------------------------------------------------------------ */

static const struct cluster_parameter parameters[] = {
    {"changeStreamOptions", get_stream_options, set_stream_options},
};

enum { NPARAMETERS = sizeof parameters / sizeof *parameters };

static int find(struct op *op, const char *name, const struct cluster_parameter **ret)
{
    for (size_t i = 0; i < NPARAMETERS; i++) {
        if (strcmp(parameters[i].name, name) == 0) {
            *ret = &parameters[i];
            return 0;
        }
    }
    return op_fail(op, ERR_NO_SUCH_KEY, "Unknown server parameter: %.200s", name);
}

/* --- getClusterParameter -------------------------------------------------------------------- */

static void show(struct request *rq, const struct cluster_parameter *p)
{
    bw_doc_begin(rq->reply, NULL);
    bw_str(rq->reply, "_id", p->name);
    p->get(rq);
    bw_end(rq->reply);
}

static int show_named(struct request *rq, struct bv name)
{
    const struct cluster_parameter *p;

    if (name.type != BV_STRING)
        return op_fail(&rq->op, ERR_TYPE_MISMATCH, "a cluster parameter's name is a string, not %s",
                       bv_type_name(name.type));
    TRY_RETURN(find(&rq->op, bv_str(name, NULL), &p));
    show(rq, p);
    return 0;
}

static const struct field no_fields[] = {{NULL, 0, 0, 0}};

int cmd_getClusterParameter(struct request *rq)
{
    struct belem first, e;
    struct biter it;
    char none;

    TRY_RETURN(
        fields_parse(&rq->op, "getClusterParameter", no_fields, rq->op.cmd, FIELDS_COMMAND, &none));
    bv_first(rq->op.cmd, &first);
    bw_arr_begin(rq->reply, "clusterParameters");
    if (bv_str_is(first.v, "*")) {
        for (size_t i = 0; i < NPARAMETERS; i++)
            show(rq, &parameters[i]);
    } else if (first.v.type == BV_ARRAY) {
        if (bv_empty(first.v))
            return op_fail(&rq->op, ERR_BAD_VALUE,
                           "Must supply at least one cluster server "
                           "parameter name to getClusterParameter");
        it = biter(first.v);
        while (biter_next(&it, &e))
            TRY_RETURN(show_named(rq, e.v));
    } else {
        TRY_RETURN(show_named(rq, first.v));
    }
    bw_end(rq->reply);
    return 0;
}

/* --- setClusterParameter -------------------------------------------------------------------- */

int cmd_setClusterParameter(struct request *rq)
{
    const struct cluster_parameter *p;
    struct op *op = &rq->op;
    struct belem first, e;
    char none;

    TRY_RETURN(fields_parse(op, "setClusterParameter", no_fields, op->cmd, FIELDS_COMMAND, &none));
    bv_first(op->cmd, &first);
    if (first.v.type != BV_DOC)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "BSON field 'setClusterParameter.setClusterParameter' is the wrong type "
                       "'%s', expected type 'object'",
                       bv_type_name(first.v.type));
    if (bv_count(first.v) != 1)
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "setClusterParameter only supports setting exactly one parameter");
    bv_first(first.v, &e);
    TRY_RETURN(find(op, e.key, &p));
    if (e.v.type != BV_DOC)
        return op_fail(op, ERR_TYPE_MISMATCH, "Cluster parameter value must be an object");
    return p->set(rq, e.v);
}
