/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Storage transactions and the one translation of WiredTiger's results.
 *
 * WiredTiger reports a conflict at the write that meets it, and goes on answering 0 to later calls
 * of the lost transaction; only its commit fails then, and not even that when nothing had been
 * written before. So the conflict is remembered here and commit turns into rollback.
 */
#include "storage/txn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "storage/engine_internal.h"

int wt_error(struct error *err, int rc, const char *what)
{
    switch (rc) {
    case WT_ROLLBACK:
        return error_set(err, ERR_WRITE_CONFLICT,
                         "Write conflict during plan execution and yielding is disabled. Please "
                         "retry your operation or multi-document transaction.");
    case WT_DUPLICATE_KEY:
        return error_set(err, ERR_DUPLICATE_KEY, "%s: the key is there already", what);
    case WT_CACHE_FULL:
        return error_set(err, ERR_TEMPORARILY_UNAVAILABLE,
                         "%s: WT_CACHE_FULL: operation would overflow cache", what);
    case ENOSPC:
        return error_set(err, ERR_OUT_OF_DISK_SPACE, "%s: no space left on the device", what);
    case EBUSY:
        return error_set(err, ERR_OBJECT_IS_BUSY, "%s: the table is in use", what);
    case WT_PANIC:
        log_event(LOG_FATAL, "storage", "the storage engine stopped", {"doing", LOG_STR(what)}, );
        _Exit(EXIT_FAILURE);
    default:
        return error_set(err, ERR_INTERNAL, "%s: %s", what, wiredtiger_strerror(rc));
    }
}

int stx_fail(struct stx *t, int rc, const char *what)
{
    int code = wt_error(t->op->err, rc, what);

    if (code == ERR_WRITE_CONFLICT)
        t->lost = true;
    else if (code != ERR_DUPLICATE_KEY)
        t->torn = true;
    return code;
}

int stx_fault(struct stx *t, int code, const char *what)
{
    if (code == ERR_WRITE_CONFLICT)
        t->lost = true;
    else
        t->torn = true;
    return op_fail(t->op, code, "%s: fault point", what);
}

static int begin(struct stx *t)
{
    WT_SESSION *wt = t->session->wt;
    int rc = wt->begin_transaction(wt, NULL);

    if (rc != 0)
        return stx_fail(t, rc, "cannot begin a transaction");
    t->active = true;
    return 0;
}

static void end(struct stx *t)
{
    ASSERT(t->cursors == NULL);
    session_return(t->engine, t->session);
}

int stx_begin(struct engine *e, struct op *op, struct stx **ret)
{
    struct session *s;
    struct stx *t;
    int rc = FAULT_ERROR(STORAGE_BEGIN);

    if (rc != 0)
        return op_fail(op, rc, "cannot begin a transaction: fault point");
    TRY_RETURN(session_lease(e, op->err, &s));
    t = &s->txn;
    memset(t, 0, sizeof(*t));
    t->engine = e;
    t->op = op;
    t->session = s;
    TRY(begin(t));
    *ret = t;
    return 0;
fail:
    session_return(e, s);
    return rc;
}

static void roll_back(struct stx *t)
{
    WT_SESSION *wt = t->session->wt;
    int rc;

    if (!t->active)
        return;
    t->active = false;
    rc = wt->rollback_transaction(wt, NULL);
    if (rc != 0) {
        struct error err;

        (void)wt_error(&err, rc, "cannot roll back a transaction");
        log_event(LOG_ERROR, "storage", "rollback failed", {"why", LOG_STR(err.text)}, );
    }
}

int stx_commit(struct stx *t)
{
    WT_SESSION *wt = t->session->wt;
    int rc;

    ASSERT(t->cursors == NULL);
    if (t->lost) {
        rc = wt_error(t->op->err, WT_ROLLBACK, "commit");
        stx_rollback(t);
        return rc;
    }
    rc = FAULT_ERROR(STORAGE_COMMIT);
    if (rc != 0)
        rc = stx_fault(t, rc, "cannot commit a transaction");
    else if (t->torn)
        rc = op_fail(t->op, ERR_INTERNAL, "a write of this transaction has failed before");
    if (rc != 0) {
        stx_rollback(t);
        return rc;
    }
    ASSERT(t->active);
    t->active = false; /* WiredTiger rolls a failed commit back itself */
    rc = wt->commit_transaction(wt, NULL);
    if (rc != 0)
        rc = stx_fail(t, rc, "cannot commit a transaction");
    end(t);
    return rc;
}

void stx_rollback(struct stx *t)
{
    if (t == NULL)
        return;
    ASSERT(t->cursors == NULL);
    roll_back(t);
    end(t);
}

int stx_refresh(struct stx *t)
{
    ASSERT(!t->written);
    for (struct tcursor *c = t->cursors; c != NULL; c = tcursor_lost_position(c))
        ;
    roll_back(t);
    return begin(t);
}

struct op *stx_op(struct stx *t)
{
    return t->op;
}

void stx_set_op(struct stx *t, struct op *op)
{
    t->op = op;
}

struct engine *stx_engine(struct stx *t)
{
    return t->engine;
}

bool stx_has_written(const struct stx *t)
{
    return t->written;
}

struct arena *stx_scratch(struct stx *t)
{
    arena_reset(&t->session->scratch);
    return &t->session->scratch;
}
