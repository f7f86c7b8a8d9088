/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/failpoints.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "server/conn.h"

struct failpoint_data {
    unsigned refs; /* under points_mx */
    struct bv doc;
    uint8_t bytes[];
};

struct failpoint {
    const char *name;
    enum failpoint_mode mode;
    int64_t n;
    double probability;
    int64_t fired;
    struct failpoint_data *data;
};

static struct failpoint points[FAILPOINT_COUNT] = {
#define FAILPOINT(id, name, what) {name, FAILPOINT_OFF, 0, 0, 0, NULL},
#include "server/failpoints.def"
#undef FAILPOINT
};

_Atomic int failpoint_armed_count;
static struct mutex points_mx = {.mx = PTHREAD_MUTEX_INITIALIZER}; /* a leaf; guards points */

/* --- arming ----------------------------------------------------------------------------------- */

static struct failpoint_data *data_new(struct bv doc)
{
    struct failpoint_data *d;

    if (bv_is_missing(doc))
        doc = bv_empty_doc;
    d = mem_try(sizeof(*d) + doc.len);
    if (d == NULL)
        return NULL;
    memcpy(d->bytes, doc.p, doc.len);
    d->doc = bv_doc(d->bytes);
    d->refs = 1;
    return d;
}

static void data_put_locked(struct failpoint_data *d)
{
    mutex_assert_held(&points_mx);
    if (d != NULL && --d->refs == 0)
        free(d);
}

static void set_mode_locked(struct failpoint *p, enum failpoint_mode mode)
{
    mutex_assert_held(&points_mx);
    atomic_fetch_add(&failpoint_armed_count, (mode != FAILPOINT_OFF) - (p->mode != FAILPOINT_OFF));
    p->mode = mode;
}

static struct failpoint *find(const char *name)
{
    for (size_t i = 0; i < FAILPOINT_COUNT; i++) {
        if (strcmp(points[i].name, name) == 0)
            return &points[i];
    }
    return NULL;
}

int failpoint_set(struct op *op, const char *name, const struct failpoint_setting *set,
                  int64_t *ret_count)
{
    struct failpoint *p = find(name);
    struct failpoint_data *d;

    if (p == NULL)
        return op_fail(op, ERR_FAIL_POINT_SET_FAILED, "%.200s not found", name);
    d = set->mode == FAILPOINT_OFF ? NULL : data_new(set->data);
    if (d == NULL && set->mode != FAILPOINT_OFF)
        return op_no_memory(op);
    mutex_lock(&points_mx);
    data_put_locked(p->data);
    p->data = d;
    p->n = set->n;
    p->probability = set->probability;
    set_mode_locked(p, set->mode);
    *ret_count = p->fired;
    mutex_unlock(&points_mx);
    return 0;
}

/* --- firing ----------------------------------------------------------------------------------- */

/* A match of an armed point: whether it fires. */
static bool fires_locked(struct failpoint *p)
{
    mutex_assert_held(&points_mx);
    switch (p->mode) {
    case FAILPOINT_OFF:
        return false;
    case FAILPOINT_ON:
        return true;
    case FAILPOINT_TIMES:
        if (--p->n <= 0)
            set_mode_locked(p, FAILPOINT_OFF);
        return true;
    case FAILPOINT_SKIP:
        if (p->n == 0)
            return true;
        p->n--;
        return false;
    case FAILPOINT_RANDOM:
        return (double)random() < p->probability * ((double)RAND_MAX + 1);
    }
    return false;
}

/* The data of the point when it fires for rq, counted for the caller; NULL: it does not. */
static struct failpoint_data *enter(enum failpoint_id id, const struct request *rq,
                                    bool (*matches)(const struct request *rq, struct bv data))
{
    struct failpoint *p = &points[id];
    struct failpoint_data *d = NULL;

    mutex_lock(&points_mx);
    if (p->mode != FAILPOINT_OFF && (matches == NULL || matches(rq, p->data->doc)) &&
        fires_locked(p)) {
        d = p->data;
        d->refs++;
        p->fired++;
    }
    mutex_unlock(&points_mx);
    return d;
}

static void put(struct failpoint_data *d)
{
    mutex_lock(&points_mx);
    data_put_locked(d);
    mutex_unlock(&points_mx);
}

static bool flag(struct bv data, const char *name)
{
    return bv_truthy(bv_get(data, name));
}

static bool number(struct bv data, const char *name, int64_t *ret)
{
    return bv_to_i64(bv_get(data, name), ret);
}

/* --- failCommand ------------------------------------------------------------------------------ */

/* Of the connection; or of the very hello that is about to tell it. */
static bool has_app_name(const struct request *rq, struct bv name)
{
    struct bv told = bv_path(rq->op.cmd, "client.application.name");
    const char *known = rq->conn == NULL ? NULL : rq->conn->app_name;

    if (known != NULL)
        return bv_str_is(name, known);
    return told.type == BV_STRING && bv_identical(told, name);
}

static bool has_namespace(const struct request *rq, struct bv name)
{
    struct belem e;
    struct bv coll = bv_first(rq->op.cmd, &e);
    char ns[LIMIT_NS + 1];

    if (strcmp(rq->cmd->name, "getMore") == 0)
        coll = bv_get(rq->op.cmd, "collection");
    if (coll.type != BV_STRING)
        return bv_str_is(name, rq->op.db);
    return snprintf(ns, sizeof(ns), "%s.%s", rq->op.db, bv_str(coll, NULL)) <= LIMIT_NS &&
           bv_str_is(name, ns);
}

/* As currentOp and the log name what serves a connection. */
static bool has_thread_name(const struct request *rq, struct bv name)
{
    char desc[32];

    if (rq->conn == NULL)
        return false;
    snprintf(desc, sizeof(desc), "conn%lld", (long long)rq->conn->id);
    return bv_str_is(name, desc);
}

/* Any spelling of the command's name. */
static bool names_command(struct bv names, const struct command *cmd)
{
    struct biter it = biter(names);
    struct belem e;

    while (biter_next(&it, &e)) {
        if (e.v.type == BV_STRING && command_find(bv_str(e.v, NULL)) == cmd)
            return true;
    }
    return false;
}

/* An armed failCommand that asks for nothing, or for what this command cannot give, passes by. */
static bool has_effect(const struct request *rq, struct bv data)
{
    return flag(data, "closeConnection") || flag(data, "blockConnection") ||
           bv_is_number(bv_get(data, "errorCode")) ||
           (bv_get(data, "writeConcernError").type == BV_DOC && (rq->cmd->flags & CMD_WRITE) != 0);
}

static bool command_matches(const struct request *rq, struct bv data)
{
    struct bv app = bv_get(data, "appName"), ns = bv_get(data, "namespace");
    struct bv thread = bv_get(data, "threadName");

    if (strcmp(rq->cmd->name, "configureFailPoint") == 0)
        return false;
    if (app.type == BV_STRING && !has_app_name(rq, app))
        return false;
    if (ns.type == BV_STRING && !has_namespace(rq, ns))
        return false;
    if (thread.type == BV_STRING && !has_thread_name(rq, thread))
        return false;
    if (!flag(data, "failAllCommands") && !names_command(bv_get(data, "failCommands"), rq->cmd))
        return false;
    return has_effect(rq, data);
}

/* Parks, at most as long as maxTimeMS allows. 0: blockTimeMS are over. */
static int block(struct request *rq, struct bv data)
{
    struct op *op = &rq->op;
    int64_t ms, now_us = clock_mono_us();

    if (rq->failpoint_blocked || !flag(data, "blockConnection"))
        return 0;
    if (!number(data, "blockTimeMS", &ms) || ms < 0 || ms > LIMIT_AWAIT_MS)
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "must specify 'blockTimeMS' as a non-negative number with "
                       "'blockConnection'");
    TRY_RETURN(op_check(op));
    if (op->park_deadline_us == 0)
        op->park_deadline_us = now_us + ms * 1000;
    if (now_us < op->park_deadline_us)
        return INT_PARK;
    op->park_deadline_us = 0; /* the command's own waits begin now */
    rq->failpoint_blocked = true;
    return 0;
}

int failpoint_command(struct request *rq)
{
    struct bv data, extra;
    int64_t code;

    if (!rq->failpoint_asked) {
        rq->failpoint_asked = true;
        rq->failpoint = enter(FAILPOINT_FAIL_COMMAND, rq, command_matches);
    }
    if (rq->failpoint == NULL)
        return 0;
    data = rq->failpoint->doc;
    TRY_RETURN(block(rq, data));
    if (flag(data, "closeConnection")) {
        op_fail(&rq->op, ERR_INTERNAL, "'failCommand' failpoint");
        return INT_CLOSE;
    }
    if (!number(data, "errorCode", &code) || code <= 0 || code > INT32_MAX)
        return 0;
    op_fail(&rq->op, (int)code, "Failing command via 'failCommand' failpoint");
    extra = bv_get(data, "errorExtraInfo");
    if (extra.type == BV_DOC) { /* lives as long as the choice of this request */
        rq->op.err->info = extra.p;
        rq->op.err->info_len = extra.len;
    }
    return (int)code;
}

struct bv failpoint_error_labels(const struct request *rq)
{
    struct bv v = rq->failpoint == NULL ? BV_NONE : bv_get(rq->failpoint->doc, "errorLabels");

    return v.type == BV_ARRAY ? v : BV_NONE;
}

struct bv failpoint_write_concern_error(const struct request *rq)
{
    struct bv v;

    if (rq->failpoint == NULL || (rq->cmd->flags & CMD_WRITE) == 0)
        return BV_NONE;
    v = bv_get(rq->failpoint->doc, "writeConcernError");
    return v.type == BV_DOC ? v : BV_NONE;
}

void failpoint_release(struct request *rq)
{
    if (rq->failpoint != NULL)
        put(rq->failpoint);
    rq->failpoint = NULL;
    rq->failpoint_asked = rq->failpoint_blocked = false;
}

/* --- the others ------------------------------------------------------------------------------- */

int failpoint_get_more(struct request *rq)
{
    struct failpoint_data *d = enter(FAILPOINT_FAIL_GET_MORE, rq, NULL);
    int64_t code = ERR_INTERNAL;

    if (d == NULL)
        return 0;
    if (!number(d->doc, "errorCode", &code) || code <= 0 || code > INT32_MAX)
        code = ERR_INTERNAL;
    put(d);
    return op_fail(&rq->op, (int)code, "Hit the 'failGetMoreAfterCursorCheckout' failpoint");
}

int failpoint_before_commit(struct op *op)
{
    struct request *rq = rq_of(op);
    struct failpoint_data *d = enter(FAILPOINT_TRANSACTIONAL_WRITE, rq, NULL);
    struct bv close;
    int64_t code = 0;

    if (d == NULL)
        return 0;
    close = bv_get(d->doc, "closeConnection");
    rq->lose_reply |= bv_is_missing(close) || bv_truthy(close);
    if (!number(d->doc, "failBeforeCommitExceptionCode", &code) || code < 0 || code > INT32_MAX)
        code = 0;
    put(d);
    if (code == 0)
        return 0;
    return op_fail(op, (int)code,
                   "Failing write for %s:%lld due to failpoint. The write must not be reflected.",
                   bv_show(&op->arena, rq->env->lsid, 200), (long long)rq->env->txn_number);
}

int64_t failpoint_deadline(int64_t start_us, int64_t max_time_us)
{
    struct failpoint_data *always = enter(FAILPOINT_MAX_TIME_ALWAYS, NULL, NULL);
    struct failpoint_data *never =
        always != NULL ? NULL : enter(FAILPOINT_MAX_TIME_NEVER, NULL, NULL);
    int64_t deadline_us = start_us + max_time_us;

    if (always != NULL) {
        put(always);
        deadline_us = 1;
    } else if (never != NULL) {
        put(never);
        deadline_us = start_us + (int64_t)LIMIT_AWAIT_MS * 1000;
    }
    return deadline_us;
}

bool failpoint_as_written(const struct request *rq)
{
    struct failpoint_data *d = enter(FAILPOINT_AS_WRITTEN, rq, NULL);

    if (d != NULL)
        put(d);
    return d != NULL;
}
