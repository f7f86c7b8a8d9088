/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/bench/client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/bench/bench.h"

enum { REPLY_MS_MAX = 60000, FIRST_BUFFER = 1024 };

struct target target_parse(const char *uri)
{
    static const char scheme[] = "mongodb://";
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found;
    struct target t = {.len = 0};
    char host[256], *port;

    if (strncmp(uri, scheme, sizeof(scheme) - 1) == 0)
        uri += sizeof(scheme) - 1;
    snprintf(host, sizeof(host), "%.*s", (int)strcspn(uri, "/?"), uri);
    port = strrchr(host, ':');
    if (port != NULL)
        *port++ = '\0';
    if (getaddrinfo(host, port == NULL ? "27017" : port, &hints, &found) != 0)
        die("the server's address");
    memcpy(&t.addr, found->ai_addr, found->ai_addrlen);
    t.len = found->ai_addrlen;
    freeaddrinfo(found);
    return t;
}

void client_open(struct client *c, const struct target *t)
{
    int one = 1;

    memset(c, 0, sizeof(*c));
    c->fd = socket(t->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&t->addr, t->len) != 0)
        die("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

void client_close(struct client *c)
{
    close(c->fd);
    free(c->in);
}

void client_send(struct client *c, const struct message *m)
{
    size_t at = 0;

    c->len = 0;
    while (at < m->len) {
        ssize_t n = send(c->fd, m->bytes + at, m->len - at, MSG_NOSIGNAL);

        if (n <= 0)
            die("send");
        at += (size_t)n;
    }
}

/* How many bytes the reply has; 0: not known yet. */
static size_t wanted(const struct client *c)
{
    int32_t n;

    if (c->len < 4)
        return 0;
    memcpy(&n, c->in, 4);
    return (size_t)n;
}

static void reserve(struct client *c)
{
    size_t want = wanted(c);

    if (want < FIRST_BUFFER)
        want = FIRST_BUFFER;
    if (c->cap >= want)
        return;
    c->in = realloc(c->in, want);
    if (c->in == NULL)
        die("memory");
    c->cap = want;
}

bool client_receive(struct client *c, struct bv *ret)
{
    for (;;) {
        ssize_t n;

        reserve(c);
        n = recv(c->fd, c->in + c->len, c->cap - c->len, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n <= 0)
            die("the server closed a connection");
        c->len += (size_t)n;
        if (wanted(c) > 0 && c->len >= wanted(c))
            break;
        if (c->len < c->cap)
            return false;
    }
    *ret = bv_doc(c->in + MESSAGE_HEAD_BYTES);
    return true;
}

bool reply_good(struct bv reply)
{
    struct bv ok = bv_get(reply, "ok");

    return bv_is_number(ok) && bv_to_f64(ok) == 1 && bv_is_missing(bv_get(reply, "writeErrors"));
}

int64_t reply_cursor(struct bv reply, struct bv *ret_batch)
{
    struct bv cursor = bv_get(reply, "cursor");
    int64_t id = 0;

    *ret_batch = bv_get(cursor, "nextBatch");
    if (bv_is_missing(*ret_batch))
        *ret_batch = bv_get(cursor, "firstBatch");
    if (bv_is_missing(*ret_batch) || !bv_to_i64(bv_get(cursor, "id"), &id))
        die("a reply without a cursor");
    return id;
}

struct bv client_call(struct client *c, const struct message *m)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    struct bv reply;

    client_send(c, m);
    while (!client_receive(c, &reply)) {
        if (poll(&p, 1, REPLY_MS_MAX) <= 0)
            die("no reply in a minute");
    }
    if (!reply_good(reply)) {
        struct arena a;

        arena_init(&a);
        fprintf(stderr, "bench: %s\n", bv_show(&a, reply, 400));
        exit(1);
    }
    return reply;
}
