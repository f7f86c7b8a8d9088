/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/ops.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "server/conn.h"
#include "server/executor.h"
#include "server/server.h"

struct listing {
    struct request *self;
    struct bw *w;
    bool idle;
    char now[40];
};

/* Under the connection's mutex: what is read here is written under it or before it is shared. */
static void write_op(void *arg, struct conn *c, struct request *rq)
{
    struct listing *l = arg;
    struct bw *w = l->w;
    char desc[32];

    if (rq == NULL && !l->idle)
        return;
    snprintf(desc, sizeof desc, "conn%lld", (long long)c->id);
    bw_doc_begin(w, NULL);
    bw_str(w, "type", "op");
    bw_str(w, "host", l->self->server->host);
    bw_str(w, "desc", desc);
    bw_i64(w, "connectionId", c->id);
    bw_str(w, "client", c->remote);
    bw_bool(w, "active", rq != NULL);
    bw_str(w, "currentOpTime", l->now);
    bw_bool(w, "threaded", true);
    if (rq != NULL) {
        int64_t us = clock_mono_us() - rq->op.start_us;

        bw_i64(w, "opid", c->id);
        bw_i64(w, "secs_running", us / 1000000);
        bw_i64(w, "microsecs_running", us);
        bw_str(w, "op", "command");
    }
    bw_end(w);
}

void ops_write(struct request *rq, bool idle, struct bw *w)
{
    struct listing l = {.self = rq, .w = w, .idle = idle};
    int64_t ms = clock_wall_ms();
    time_t secs = (time_t)(ms / 1000);
    struct tm tm;
    size_t n;

    gmtime_r(&secs, &tm);
    n = strftime(l.now, sizeof l.now, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(l.now + n, sizeof l.now - n, ".%03d+00:00", (int)(ms % 1000));
    executor_each_conn(rq->server->executor, write_op, &l);
}

struct victim {
    int64_t opid;
};

static void kill_op(void *arg, struct conn *c, struct request *rq)
{
    struct victim *v = arg;

    if (rq != NULL && c->id == v->opid)
        request_interrupt(rq, ERR_INTERRUPTED);
}

void ops_kill(struct request *rq, int64_t opid)
{
    executor_each_conn(rq->server->executor, kill_op, &(struct victim){opid});
}
