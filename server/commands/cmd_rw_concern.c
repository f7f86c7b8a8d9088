/* SPDX-License-Identifier: GPL-3.0-or-later */
/* getDefaultRWConcern, setDefaultRWConcern. */
#include "base/clock.h"
#include "base/fields.h"
#include "server/concerns.h"
#include "server/dispatch.h"
#include "server/rw_defaults.h"
#include "server/server.h"

static void show(struct request *rq, const struct rw_values *v)
{
    struct bw *w = rq->reply;

    bw_doc_begin(w, "defaultReadConcern");
    bw_str(w, "level", read_level_name(v->read_level));
    bw_end(w);
    bw_doc_begin(w, "defaultWriteConcern");
    write_concern_write(&v->write, w);
    bw_end(w);
    if (v->update_time != 0) {
        bw_ts(w, "updateOpTime", v->update_time);
        bw_date(w, "updateWallClockTime", v->update_wall_ms);
    }
    bw_str(w, "defaultWriteConcernSource", v->has_write ? "global" : "implicit");
    bw_str(w, "defaultReadConcernSource", v->has_read ? "global" : "implicit");
    bw_date(w, "localUpdateWallClockTime", v->refreshed_wall_ms);
}

/* --- getDefaultRWConcern ---------------------------------------------------------------------- */

struct get_args {
    bool in_memory;
};

static const struct field get_fields[] = {
    {"inMemory", F_BOOL, offsetof(struct get_args, in_memory), 0},
    {NULL, 0, 0, 0},
};

int cmd_getDefaultRWConcern(struct request *rq)
{
    struct get_args args = {0};
    struct rw_values v;

    TRY_RETURN(fields_parse(&rq->op, "getDefaultRWConcern", get_fields, rq->op.cmd, FIELDS_COMMAND,
                            &args));
    rw_defaults_get(rq->server->rw_defaults, &rq->op.arena, &v);
    show(rq, &v);
    if (args.in_memory)
        bw_bool(rq->reply, "inMemory", true);
    return 0;
}

/* --- setDefaultRWConcern ---------------------------------------------------------------------- */

struct set_args {
    struct bv read, write;
};

static const struct field set_fields[] = {
    {"defaultReadConcern", F_DOC, offsetof(struct set_args, read), 0},
    {"defaultWriteConcern", F_DOC, offsetof(struct set_args, write), 0},
    {NULL, 0, 0, 0},
};

static int set_read(struct op *op, struct bv given, struct rw_values *v)
{
    struct biter it = biter(given);
    struct belem e;

    v->has_read = false;
    v->read_level = READ_LOCAL;
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "afterClusterTime") == 0 || strcmp(e.key, "atClusterTime") == 0 ||
            strcmp(e.key, "afterOpTime") == 0)
            return op_fail(op, ERR_BAD_VALUE, "'%s' is not suitable for the default read concern",
                           e.key);
        if (strcmp(e.key, "provenance") == 0)
            return op_fail(op, ERR_BAD_VALUE, "'provenance' must be unset in default read concern");
        if (strcmp(e.key, "level") != 0)
            return op_fail(op, ERR_IDL_UNKNOWN_FIELD,
                           "BSON field 'readConcern.%.200s' is an unknown field.", e.key);
        TRY_RETURN(read_level_parse(op, e.v, &v->read_level));
        v->has_read = true;
    }
    if (v->read_level == READ_LINEARIZABLE || v->read_level == READ_SNAPSHOT)
        return op_fail(op, ERR_BAD_VALUE,
                       "level: '%s' is not suitable for the default read concern",
                       read_level_name(v->read_level));
    return 0;
}

static int set_write(struct op *op, struct bv given, struct rw_values *v)
{
    struct write_concern wc;

    if (bv_empty(given)) {
        if (v->has_write)
            return op_fail(op, ERR_ILLEGAL_OPERATION,
                           "The global default write concern cannot be unset once it is set.");
        return 0;
    }
    write_concern_implicit(&wc);
    TRY_RETURN(write_concern_parse(op, given, &wc));
    if (!bv_is_missing(bv_get(given, "provenance")))
        return op_fail(op, ERR_BAD_VALUE, "'provenance' must be unset in default write concern");
    if (write_concern_is_silent(&wc))
        return op_fail(op, ERR_BAD_VALUE,
                       "Unacknowledged write concern is not suitable for the default write "
                       "concern");
    v->write = wc;
    v->has_write = true;
    return 0;
}

/* On the schema thread, as one of a kind: what it reads and writes is not changed by another. */
int cmd_setDefaultRWConcern(struct request *rq)
{
    struct set_args args = {.read = BV_NONE, .write = BV_NONE};
    struct rw_defaults *d = rq->server->rw_defaults;
    struct op *op = &rq->op;
    struct rw_values v;

    TRY_RETURN(fields_parse(op, "setDefaultRWConcern", set_fields, op->cmd, FIELDS_COMMAND, &args));
    if (bv_is_missing(args.read) && bv_is_missing(args.write))
        return op_fail(op, ERR_BAD_VALUE,
                       "At least one of the \"defaultReadConcern\" or \"defaultWriteConcern\" "
                       "fields must be present");
    rw_defaults_get(d, &op->arena, &v);
    if (!bv_is_missing(args.read))
        TRY_RETURN(set_read(op, args.read, &v));
    if (!bv_is_missing(args.write))
        TRY_RETURN(set_write(op, args.write, &v));
    v.update_time = server_cluster_time(rq->server);
    v.update_wall_ms = clock_wall_ms();
    TRY_RETURN(rw_defaults_store(op, &v));
    rw_defaults_set(d, &v);
    rw_defaults_get(d, &op->arena, &v);
    show(rq, &v);
    return 0;
}
