/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A connection to a server: framing, one request outstanding. It belongs to one thread. */
#ifndef RUNNEL_TESTS_BENCH_CLIENT_H
#define RUNNEL_TESTS_BENCH_CLIENT_H

#include <sys/socket.h>

#include "base/bv.h"
#include "tests/bench/message.h"

struct target {
    struct sockaddr_storage addr;
    socklen_t len;
};

struct client {
    int fd;
    bool watcher;   /* see load.h */
    int64_t due_ns; /* when the outstanding request was due */
    int64_t tag;    /* the workload's */
    uint8_t *in;    /* what has arrived of the reply */
    size_t len, cap;
    struct message more; /* the workload's: the getMore of this connection's cursor */
};

/* mongodb://host[:port]; anything after the address is ignored. */
struct target target_parse(const char *uri);
/* Connected sockets; a failure ends the process. */
void client_open(struct client *c, const struct target *t);
void client_close(struct client *c);
void client_send(struct client *c, const struct message *m);
/* True: the reply is whole, *ret is its document, valid until the next send. Never blocks. */
bool client_receive(struct client *c, struct bv *ret);
/* Sends and waits. A reply without ok: 1 or with write errors ends the process. */
struct bv client_call(struct client *c, const struct message *m);

/* ok: 1 and no write error. */
bool reply_good(struct bv reply);
/* The cursor's id (0: it is exhausted) and its first or next batch. */
int64_t reply_cursor(struct bv reply, struct bv *ret_batch);

#endif
