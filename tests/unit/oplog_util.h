/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the tests of oplog/ share: an engine with an oplog, entries to write, requests that wait. */
#ifndef RUNNEL_TESTS_UNIT_OPLOG_UTIL_H
#define RUNNEL_TESTS_UNIT_OPLOG_UTIL_H

#include "storage_util.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "oplog/append.h"
#include "oplog/reader.h"

struct db {
    char *path; /* NULL: in memory */
    struct engine *engine;
    struct oplog *oplog;
};

static const struct oplog_options roomy = {.size_bytes = 1 << 30, .noop_interval_ms = 3600 * 1000};

UNUSED static void db_reopen(struct db *d, const struct oplog_options *o)
{
    struct error err;

    d->engine = open_engine(d->path);
    if (oplog_open(d->engine, o, &err, &d->oplog) != 0)
        fail_msg("oplog_open: %s", err.text);
}

UNUSED static void db_open(struct db *d, bool memory, const struct oplog_options *o)
{
    d->path = memory ? NULL : temp_dir();
    db_reopen(d, o);
}

UNUSED static void db_close(struct db *d)
{
    oplog_close(d->oplog);
    close_engine(d->engine);
}

UNUSED static void db_remove(struct db *d)
{
    db_close(d);
    if (d->path != NULL)
        remove_dir(d->path);
}

static const uint8_t test_uuid[16] = {9, 9, 9};

/* {_id: id, pad: binary of that many bytes} */
UNUSED static struct bv small_doc(struct op *op, int64_t id, size_t pad)
{
    struct bw w;

    bw_init(&w, &op->arena);
    bw_i64(&w, "_id", id);
    if (pad > 0)
        bw_bin(&w, "pad", 0, arena_zalloc(&op->arena, pad), pad);
    return bw_done(&w);
}

/* Writes one insert entry of its own; the optime. */
UNUSED static uint64_t put_padded(struct db *d, struct op *op, const char *ns, int64_t id,
                                  size_t pad)
{
    struct oplog_op e = {.op = 'i', .ns = ns, .uuid = test_uuid, .stmt_id = -1};
    struct stx *t;
    uint64_t first;

    e.o = small_doc(op, id, pad);
    OK(stx_begin(d->engine, op, &t));
    OK(oplog_commit(d->oplog, op, t, &e, 1, NULL, NULL, &first));
    return first;
}

UNUSED static uint64_t put(struct db *d, struct op *op, const char *ns, int64_t id)
{
    return put_padded(d, op, ns, id, 0);
}

/* --- requests that wait -------------------------------------------------------------------- */

struct parked {
    struct op op; /* first: op.waiter leads back here */
    struct mutex mx;
    pthread_cond_t cv;
    int wakes;
};

UNUSED static void parked_wake(struct waiter *w)
{
    struct parked *p = (struct parked *)((char *)w - offsetof(struct parked, op.waiter));

    mutex_lock(&p->mx);
    p->wakes++;
    pthread_cond_broadcast(&p->cv);
    mutex_unlock(&p->mx);
}

UNUSED static void parked_init(struct parked *p)
{
    op_init(&p->op);
    p->op.waiter.wake = parked_wake;
    mutex_init(&p->mx);
    cond_init(&p->cv);
    p->wakes = 0;
}

/* As the executor does before it runs a request again. */
UNUSED static void parked_unpark(struct parked *p)
{
    if (p->op.unpark != NULL)
        p->op.unpark(&p->op);
    p->op.runs++;
}

UNUSED static int parked_wakes(struct parked *p)
{
    int n;

    mutex_lock(&p->mx);
    n = p->wakes;
    mutex_unlock(&p->mx);
    return n;
}

/* Waits until it is woken, then unparks. False: not within that time. */
UNUSED static bool parked_wait_ms(struct parked *p, int64_t ms)
{
    int64_t deadline_us = clock_mono_us() + ms * 1000;
    bool woken;

    mutex_lock(&p->mx);
    while (p->wakes == 0 && clock_mono_us() < deadline_us)
        (void)mutex_wait(&p->mx, &p->cv, deadline_us);
    woken = p->wakes > 0;
    p->wakes = 0;
    mutex_unlock(&p->mx);
    parked_unpark(p);
    return woken;
}

UNUSED static bool parked_wait(struct parked *p)
{
    return parked_wait_ms(p, 10000);
}

UNUSED static void parked_fini(struct parked *p)
{
    parked_unpark(p);
    op_fini(&p->op);
    mutex_fini(&p->mx);
    pthread_cond_destroy(&p->cv);
}

/* Blocks until the optime is durable. */
UNUSED static void await_durable(struct db *d, uint64_t optime)
{
    struct parked p;

    parked_init(&p);
    p.op.ack_durable = optime;
    while (oplog_wait_ack(d->oplog, &p.op) == INT_PARK)
        assert_true(parked_wait(&p));
    parked_fini(&p);
}

/* --- reading ------------------------------------------------------------------------------- */

static const struct scope whole_oplog = {.kind = SCOPE_OPLOG};

/* The _id values (or, for noops, the messages) of what a scope reads, joined by spaces. */
UNUSED static char *read_ids(struct db *d, struct op *op, const struct scope *s, uint64_t from,
                             bool backward)
{
    struct oplog_reader *r;
    struct oplog_row row;
    char *text = arena_strdup(&op->arena, "");
    uint64_t last = 0;
    bool found;
    int rc = oplog_reader_open(d->oplog, op, from, s, backward, &r);

    if (rc != 0)
        return arena_printf(&op->arena, "error %d", rc);
    for (;;) {
        struct bv id;

        rc = oplog_reader_next(r, &row, &found);
        if (rc != 0 || !found)
            break;
        assert_true(last == 0 || (backward ? row.optime < last : row.optime > last));
        last = row.optime;
        id = bv_get(row.o, row.op == 'n' ? "msg" : "_id");
        text =
            arena_printf(&op->arena, "%s%s%s", text, *text == '\0' ? "" : " ",
                         row.op == 'n' ? bv_str(id, NULL)
                                       : arena_printf(&op->arena, "%lld", (long long)bv_i64(id)));
    }
    if (rc == 0 && !backward)
        assert_true(oplog_reader_position(r) >= oplog_reader_horizon(r));
    oplog_reader_close(r);
    return rc == 0 ? text : arena_printf(&op->arena, "%s error %d", text, rc);
}

#endif
