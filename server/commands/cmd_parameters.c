/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Server parameters: getParameter, setParameter. A parameter is a row in
 * parameters.def, a function that writes its value, and, where it can change while the server
 * runs, one that sets it.
 */
#include <math.h>

#include "base/fields.h"
#include "base/limits.h"
#include "base/log.h"
#include "query/txn.h"
#include "server/command.h"
#include "server/server.h"
#include "server/snapshots.h"
#include "server/transactions.h"

struct parameter {
    const char *name;
    void (*get)(struct request *rq, struct bw *w, const char *name);
    int (*set)(struct request *rq, const char *name, struct bv v); /* NULL: fixed */
};

/* --- values --------------------------------------------------------------------------------- */

static void get_mechanisms(struct request *rq, struct bw *w, const char *name)
{
    (void)rq;
    bw_bv(w, name, bv_empty_array);
}

static void get_auth_schema(struct request *rq, struct bw *w, const char *name)
{
    (void)rq;
    bw_i32(w, name, 5);
}

static void get_cursor_timeout(struct request *rq, struct bw *w, const char *name)
{
    (void)rq;
    bw_i64(w, name, LIMIT_CURSOR_IDLE_MS);
}

static void get_test_commands(struct request *rq, struct bw *w, const char *name)
{
    bw_bool(w, name, rq->server->settings.enable_test_commands);
}

static void get_fcv(struct request *rq, struct bw *w, const char *name)
{
    (void)rq;
    bw_doc_begin(w, name);
    bw_str(w, "version", MONGO_FCV);
    bw_end(w);
}

static void get_session_timeout(struct request *rq, struct bw *w, const char *name)
{
    (void)rq;
    bw_i32(w, name, LIMIT_SESSION_MINUTES);
}

static void get_require_api(struct request *rq, struct bw *w, const char *name)
{
    bw_bool(w, name, atomic_load(&rq->server->require_api));
}

static int set_require_api(struct request *rq, const char *name, struct bv v)
{
    (void)name;
    atomic_store(&rq->server->require_api, bv_truthy(v));
    return 0;
}

static void get_accept_api_2(struct request *rq, struct bw *w, const char *name)
{
    bw_bool(w, name, atomic_load(&rq->server->accept_api_2));
}

static int set_accept_api_2(struct request *rq, const char *name, struct bv v)
{
    if (!rq->server->settings.enable_test_commands)
        return op_fail(&rq->op, ERR_INVALID_OPTIONS,
                       "parameter %s can only be set with --enable-test-commands", name);
    atomic_store(&rq->server->accept_api_2, bv_truthy(v));
    return 0;
}

static void get_log_level(struct request *rq, struct bw *w, const char *name)
{
    (void)rq;
    bw_i32(w, name, (int32_t)log_get_level() - (int32_t)LOG_INFO);
}

static int set_log_level(struct request *rq, const char *name, struct bv v)
{
    int64_t level;

    if (!bv_to_i64_exact(v, &level) || level < 0 || level > 5)
        return op_fail(&rq->op, ERR_BAD_VALUE, "Invalid value for parameter %s: %s", name,
                       bv_show(&rq->op.arena, v, 100));
    log_set_level(level == 0 ? LOG_INFO : LOG_DEBUG);
    return 0;
}

static void get_verbosity(struct request *rq, struct bw *w, const char *name)
{
    bw_doc_begin(w, name);
    get_log_level(rq, w, "verbosity");
    bw_end(w);
}

/* One level for all: components have none of their own. */
static int set_verbosity(struct request *rq, const char *name, struct bv v)
{
    struct biter it = biter(v);
    struct belem e;

    if (v.type != BV_DOC)
        return op_fail(&rq->op, ERR_TYPE_MISMATCH, "parameter %s must be an object, not %s", name,
                       bv_type_name(v.type));
    while (biter_next(&it, &e))
        if (strcmp(e.key, "verbosity") != 0)
            return op_fail(&rq->op, ERR_NOT_IMPLEMENTED,
                           "the log level of a single component cannot be set: %s", e.key);
    return bv_empty(v) ? 0 : set_log_level(rq, name, bv_get(v, "verbosity"));
}

/* --- limits of the oplog -------------------------------------------------------------------- */

static void get_oplog_entries(struct request *rq, struct bw *w, const char *name)
{
    int64_t bytes, entries;
    double seconds;

    oplog_get_limits(rq->op.database->oplog, &bytes, &seconds, &entries);
    bw_i64(w, name, entries);
}

static void get_oplog_seconds(struct request *rq, struct bw *w, const char *name)
{
    int64_t bytes, entries;
    double seconds;

    oplog_get_limits(rq->op.database->oplog, &bytes, &seconds, &entries);
    bw_f64(w, name, seconds);
}

static void get_oplog_size(struct request *rq, struct bw *w, const char *name)
{
    int64_t bytes, entries;
    double seconds;

    oplog_get_limits(rq->op.database->oplog, &bytes, &seconds, &entries);
    bw_i64(w, name, bytes / (1024 * 1024));
}

static int bad_limit(struct request *rq, const char *name, struct bv v)
{
    if (!bv_is_number(v))
        return op_fail(&rq->op, ERR_TYPE_MISMATCH, "parameter %s must be a number, not %s", name,
                       bv_type_name(v.type));
    return op_fail(&rq->op, ERR_BAD_VALUE, "Invalid value for parameter %s: %s is out of range",
                   name, bv_show(&rq->op.arena, v, 100));
}

static int set_oplog_entries(struct request *rq, const char *name, struct bv v)
{
    int64_t n;

    if (!bv_to_i64_exact(v, &n) || n < 0)
        return bad_limit(rq, name, v);
    oplog_set_limits(rq->op.database->oplog, NULL, NULL, &n);
    return 0;
}

static int set_oplog_seconds(struct request *rq, const char *name, struct bv v)
{
    double seconds = bv_to_f64(v);

    if (!bv_is_number(v) || !isfinite(seconds) || seconds < 0)
        return bad_limit(rq, name, v);
    oplog_set_limits(rq->op.database->oplog, NULL, &seconds, NULL);
    return 0;
}

static int set_oplog_size(struct request *rq, const char *name, struct bv v)
{
    int64_t mb, bytes;

    if (!bv_to_i64_exact(v, &mb) || mb < 1 || mb > INT64_MAX / (1024 * 1024))
        return bad_limit(rq, name, v);
    bytes = mb * 1024 * 1024;
    oplog_set_limits(rq->op.database->oplog, &bytes, NULL, NULL);
    return 0;
}

/* --- transactions --------------------------------------------------------------------------- */

static void get_txn_lifetime(struct request *rq, struct bw *w, const char *name)
{
    bw_i32(w, name, (int32_t)transactions_lifetime_s(rq->server->transactions));
}

static int set_txn_lifetime(struct request *rq, const char *name, struct bv v)
{
    int64_t seconds;

    if (!bv_to_i64_exact(v, &seconds) || seconds < 1 || seconds > INT32_MAX)
        return bad_limit(rq, name, v);
    transactions_set_lifetime_s(rq->server->transactions, seconds);
    return 0;
}

static void get_entry_ops(struct request *rq, struct bw *w, const char *name)
{
    bw_i32(w, name, (int32_t)txn_entry_ops(rq->op.database->txns));
}

static int set_entry_ops(struct request *rq, const char *name, struct bv v)
{
    int64_t n;

    if (!bv_to_i64_exact(v, &n) || n < 1 || n > INT32_MAX)
        return bad_limit(rq, name, v);
    txn_set_entry_ops(rq->op.database->txns, n);
    return 0;
}

static void get_lock_wait(struct request *rq, struct bw *w, const char *name)
{
    bw_i32(w, name, (int32_t)txn_lock_wait_ms(rq->op.database->txns));
}

static int set_lock_wait(struct request *rq, const char *name, struct bv v)
{
    int64_t ms;

    if (!bv_to_i64_exact(v, &ms) || ms < -1 || ms > INT32_MAX)
        return bad_limit(rq, name, v);
    txn_set_lock_wait_ms(rq->op.database->txns, ms);
    return 0;
}

/* --- snapshots ------------------------------------------------------------------------------ */

static void get_snapshot_window(struct request *rq, struct bw *w, const char *name)
{
    bw_i32(w, name, (int32_t)snapshots_window_s(rq->server->snapshots));
}

static int set_snapshot_window(struct request *rq, const char *name, struct bv v)
{
    int64_t n;

    if (!bv_to_i64_exact(v, &n) || n < 0 || n > INT32_MAX)
        return bad_limit(rq, name, v);
    snapshots_set_window_s(rq->server->snapshots, n);
    return 0;
}

/* --- the table ------------------------------------------------------------------------------ */

static const struct parameter parameters[] = {
#define PARAMETER(name, get, set, help) {#name, get, set},
#include "server/parameters.def"
#undef PARAMETER
};

enum { NPARAMETERS = sizeof parameters / sizeof *parameters };

static const struct parameter *parameter_find(const char *name)
{
    for (size_t i = 0; i < NPARAMETERS; i++)
        if (strcmp(parameters[i].name, name) == 0)
            return &parameters[i];
    return NULL;
}

/* --- getParameter --------------------------------------------------------------------------- */

struct get_args {
    bool details, all;
};

static const struct field get_fields[] = {
    {"showDetails", F_BOOL, offsetof(struct get_args, details), 0},
    {"allParameters", F_BOOL, offsetof(struct get_args, all), 0},
    {"setAt", F_IGNORE, 0, 0},
    {NULL, 0, 0, 0},
};

static void show(struct request *rq, const struct parameter *p, bool details)
{
    struct bw *w = rq->reply;

    if (!details) {
        p->get(rq, w, p->name);
        return;
    }
    bw_doc_begin(w, p->name);
    p->get(rq, w, "value");
    bw_bool(w, "settableAtRuntime", p->set != NULL);
    bw_bool(w, "settableAtStartup", false);
    bw_end(w);
}

int cmd_getParameter(struct request *rq)
{
    struct get_args args = {0};
    struct belem e;
    struct biter it = biter(rq->op.cmd);
    int shown = 0;

    if (!biter_next(&it, &e))
        return op_fail(&rq->op, ERR_INVALID_OPTIONS, "no option found to get");
    if (e.v.type == BV_DOC)
        TRY_RETURN(fields_parse(&rq->op, "getParameter", get_fields, e.v, 0, &args));
    if (bv_str_is(e.v, "*") || args.all) {
        for (size_t i = 0; i < NPARAMETERS; i++)
            show(rq, &parameters[i], args.details);
        return 0;
    }
    while (biter_next(&it, &e)) {
        const struct parameter *p = parameter_find(e.key);

        if (p != NULL) {
            show(rq, p, args.details);
            shown++;
        }
    }
    if (shown == 0)
        return op_fail(&rq->op, ERR_INVALID_OPTIONS, "no option found to get");
    return 0;
}

/* --- setParameter --------------------------------------------------------------------------- */

/* Checks every name before anything is set. */
static int check_names(struct request *rq, size_t *ret_n)
{
    struct biter it = biter(rq->op.cmd);
    struct belem e;

    *ret_n = 0;
    for (bool first = true; biter_next(&it, &e); first = false) {
        const struct parameter *p;

        if (first || field_is_generic(e.key))
            continue;
        p = parameter_find(e.key);
        if (p == NULL)
            return op_fail(&rq->op, ERR_INVALID_OPTIONS,
                           "attempted to set unrecognized parameter [%s], use help:true to see "
                           "options ",
                           e.key);
        if (p->set == NULL)
            return op_fail(&rq->op, ERR_ILLEGAL_OPERATION, "not allowed to change [%s] at runtime",
                           e.key);
        ++*ret_n;
    }
    return 0;
}

int cmd_setParameter(struct request *rq)
{
    struct biter it = biter(rq->op.cmd);
    struct belem e;
    bool was = false;
    size_t n;

    TRY_RETURN(check_names(rq, &n));
    if (n == 0)
        return op_fail(&rq->op, ERR_INVALID_OPTIONS,
                       "no option found to set, use help:true to see options ");
    for (bool first = true; biter_next(&it, &e); first = false) {
        const struct parameter *p;

        if (first || field_is_generic(e.key))
            continue;
        p = parameter_find(e.key);
        if (!was)
            p->get(rq, rq->reply, "was");
        was = true;
        TRY_RETURN(p->set(rq, p->name, e.v));
    }
    return 0;
}

/* --- the feature version -------------------------------------------------------------------- */

struct fcv_args {
    bool confirm;
};

static const struct field fcv_fields[] = {
    {"confirm", F_BOOL, offsetof(struct fcv_args, confirm), 0},
    {"fromConfigServer", F_IGNORE, 0, 0},
    {NULL, 0, 0, 0},
};

int cmd_setFeatureCompatibilityVersion(struct request *rq)
{
    struct fcv_args args = {0};
    struct belem first;

    TRY_RETURN(fields_parse(&rq->op, "setFeatureCompatibilityVersion", fcv_fields, rq->op.cmd,
                            FIELDS_COMMAND, &args));
    bv_first(rq->op.cmd, &first);
    if (first.v.type != BV_STRING)
        return op_fail(&rq->op, ERR_TYPE_MISMATCH,
                       "BSON field 'setFeatureCompatibilityVersion."
                       "setFeatureCompatibilityVersion' is the wrong type '%s', expected type "
                       "'string'",
                       bv_type_name(first.v.type));
    if (!bv_str_is(first.v, MONGO_FCV))
        return op_fail(&rq->op, ERR_BAD_VALUE,
                       "Invalid feature compatibility version value, expected '" MONGO_FCV "'");
    return 0;
}
