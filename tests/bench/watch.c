/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/bench/watch.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/load.h"

struct opening {
    struct client *clients;
    const char *coll;
    bool own;
    struct message m; /* the newest */
};

static const char *name_of(const struct opening *o, int i, char buf[static 64])
{
    if (!o->own)
        return o->coll;
    snprintf(buf, 64, "%s%d", o->coll, i);
    return buf;
}

static const struct message *make(void *arg, int i)
{
    struct opening *o = arg;
    char buf[64];

    message_free(&o->m);
    o->m = message_watch(BENCH_DB, name_of(o, i, buf), BV_NONE);
    return &o->m;
}

static void opened(void *arg, int i, struct bv reply)
{
    struct opening *o = arg;
    struct bv batch;
    char buf[64];
    int64_t id = reply_cursor(reply, &batch);

    o->clients[i].more = message_get_more(BENCH_DB, name_of(o, i, buf), id, WATCH_AWAIT_MS);
}

void watch_open(struct client *clients, int n, const char *coll, bool own)
{
    struct opening o = {.clients = clients, .coll = coll, .own = own};

    load_all(clients, n, make, opened, &o);
    message_free(&o.m);
}

struct bv watch_token(struct client *c, const char *coll)
{
    struct message m = message_watch(BENCH_DB, coll, BV_NONE), end;
    struct bv reply = client_call(c, &m), batch, token;
    int64_t id = reply_cursor(reply, &batch);
    uint8_t *copy;

    token = bv_path(reply, "cursor.postBatchResumeToken");
    if (token.type != BV_DOC || (copy = malloc(token.len)) == NULL)
        die("a stream without a resume token");
    memcpy(copy, token.p, token.len);
    end = message_kill_cursor(BENCH_DB, coll, id);
    (void)client_call(c, &end);
    message_free(&end);
    message_free(&m);
    return bv_doc(copy);
}

static bool each(struct bv batch, bool (*fn)(void *arg, struct bv event), void *arg)
{
    struct biter it = biter(batch);
    struct belem e;

    while (biter_next(&it, &e)) {
        if (!fn(arg, e.v))
            return false;
    }
    return true;
}

void watch_from(struct client *c, const char *coll, struct bv from,
                bool (*fn)(void *arg, struct bv event), void *arg)
{
    struct message m = message_watch(BENCH_DB, coll, from), more, end;
    struct bv batch;
    int64_t id = reply_cursor(client_call(c, &m), &batch);

    more = message_get_more(BENCH_DB, coll, id, WATCH_AWAIT_MS);
    while (each(batch, fn, arg)) {
        if (reply_cursor(client_call(c, &more), &batch) == 0)
            die("a stream ended");
    }
    end = message_kill_cursor(BENCH_DB, coll, id);
    (void)client_call(c, &end);
    message_free(&m);
    message_free(&more);
    message_free(&end);
}

int64_t event_v(struct bv event)
{
    struct bv v = bv_get(bv_get(event, "fullDocument"), "v");

    return v.type == BV_INT64 ? bv_i64(v) : -1;
}
