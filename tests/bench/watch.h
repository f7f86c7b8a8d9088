/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Change streams over connections of their own: opening, reading, going on. */
#ifndef RUNNEL_TESTS_BENCH_WATCH_H
#define RUNNEL_TESTS_BENCH_WATCH_H

#include "tests/bench/client.h"

enum { WATCH_AWAIT_MS = 600000 };

/*
 * Opens a stream on each connection, of collection coll, or with `own` of one named after the
 * connection. c->more is then its getMore, which waits for WATCH_AWAIT_MS; nothing is sent yet.
 */
void watch_open(struct client *clients, int n, const char *coll, bool own);
/* The stream's token now, in heap memory. */
struct bv watch_token(struct client *c, const char *coll);
/* Opens a stream after a token, or at a timestamp, and calls fn with each event until it returns
 * false. */
void watch_from(struct client *c, const char *coll, struct bv from,
                bool (*fn)(void *arg, struct bv event), void *arg);
/* v of the event's document; -1: it has none. */
int64_t event_v(struct bv event);

#endif
