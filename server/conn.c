/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/conn.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/server.h"

/* A client that sends a byte and no more shall not hold much. */
enum { INPUT_FIRST_BYTES = 1024 };

/* Adds to what all connections together hold; false: it would be too much, and nothing is added. */
static bool claim_bytes(_Atomic int64_t *sum, size_t n, int64_t most)
{
    int64_t now = atomic_load_explicit(sum, memory_order_relaxed);

    do {
        if (now + (int64_t)n > most)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(sum, &now, now + (int64_t)n,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

static void give_back_bytes(_Atomic int64_t *sum, size_t n)
{
    atomic_fetch_sub_explicit(sum, (int64_t)n, memory_order_relaxed);
}

static void drop_input(struct conn *c)
{
    give_back_bytes(&c->server->counters.in_flight_bytes, c->in_cap);
    free(c->in);
    c->in = NULL;
    c->in_off = c->in_len = c->in_cap = 0;
}

/* Room for `arrived` bytes from in_off on and for more, towards `want`: memory grows with what has
 * really arrived, not with the length that a client claims. */
static bool reserve_input(struct conn *c, size_t arrived, size_t want)
{
    _Atomic int64_t *in_flight = &c->server->counters.in_flight_bytes;
    size_t have = c->in_len - c->in_off;
    size_t cap;
    uint8_t *p;

    if (c->in_off > 0) {
        memmove(c->in, c->in + c->in_off, have);
        c->in_off = 0;
        c->in_len = have;
    }
    have = have < arrived ? arrived : have;
    if (c->in_cap > have && c->in_cap >= want)
        return true;
    cap = c->in_cap == 0 ? INPUT_FIRST_BYTES : c->in_cap;
    while (cap <= have)
        cap *= 2;
    if (cap > want && want > have)
        cap = want;
    if (cap <= c->in_cap)
        return true;
    if (!claim_bytes(in_flight, cap - c->in_cap, LIMIT_IN_FLIGHT_BYTES))
        return false;
    p = mem_try_resize(c->in, cap);
    if (p == NULL) {
        give_back_bytes(in_flight, cap - c->in_cap);
        return false;
    }
    c->in = p;
    c->in_cap = cap;
    return true;
}

static enum conn_input bad_frame(struct conn *c, enum wire_frame frame, struct error *err)
{
    if (frame == WIRE_FRAME_HTTP) {
        struct iovec iov = {(void *)(uintptr_t)wire_http_hint, strlen(wire_http_hint)};

        (void)transport_writev(&c->transport, &iov, 1);
        error_set(err, ERR_PROTOCOL, "a client speaks HTTP");
    } else {
        error_set(err, ERR_PROTOCOL, "message length out of bounds");
    }
    return INPUT_CLOSED;
}

static enum conn_input read_result(ssize_t n)
{
    return n == TRANSPORT_AGAIN ? INPUT_NONE : INPUT_CLOSED;
}

/* Input that does not fit the common case (one whole message at once) goes on here. */
static enum conn_input next_buffered(struct conn *c, struct error *err, const uint8_t **ret,
                                     size_t *ret_len)
{
    for (;;) {
        struct wire_header h = {0};
        enum wire_frame frame = wire_frame(c->in + c->in_off, c->in_len - c->in_off, &h);
        ssize_t n;

        if (frame == WIRE_FRAME_DONE) {
            *ret = c->in + c->in_off;
            *ret_len = (size_t)h.length;
            return INPUT_MESSAGE;
        }
        if (frame != WIRE_FRAME_MORE)
            return bad_frame(c, frame, err);
        if (!reserve_input(c, 0, h.length > 0 ? (size_t)h.length : CONN_SCRATCH_BYTES)) {
            error_set(err, ERR_RESOURCE_EXHAUSTED, "too many bytes of messages in flight");
            return INPUT_CLOSED;
        }
        n = transport_read(&c->transport, c->in + c->in_len, c->in_cap - c->in_len);
        if (n < 0)
            return read_result(n);
        c->in_len += (size_t)n;
        atomic_fetch_add_explicit(&c->server->counters.bytes_in, n, memory_order_relaxed);
    }
}

enum conn_input conn_next_message(struct conn *c, uint8_t *scratch, struct error *err,
                                  const uint8_t **ret, size_t *ret_len)
{
    struct wire_header h = {0};
    enum wire_frame frame;
    ssize_t n;

    c->dry = false;
    if (c->in != NULL)
        return next_buffered(c, err, ret, ret_len);
    n = transport_read(&c->transport, scratch, CONN_SCRATCH_BYTES);
    if (n < 0)
        return read_result(n);
    atomic_fetch_add_explicit(&c->server->counters.bytes_in, n, memory_order_relaxed);
    frame = wire_frame(scratch, (size_t)n, &h);
    if (frame == WIRE_FRAME_DONE && h.length == n) {
        *ret = scratch;
        *ret_len = (size_t)n;
        c->dry = n < CONN_SCRATCH_BYTES && !transport_pending(&c->transport);
        return INPUT_MESSAGE;
    }
    if (frame == WIRE_FRAME_BAD || frame == WIRE_FRAME_HTTP)
        return bad_frame(c, frame, err);
    if (!reserve_input(c, (size_t)n, CONN_SCRATCH_BYTES)) {
        error_set(err, ERR_RESOURCE_EXHAUSTED, "too many bytes of messages in flight");
        return INPUT_CLOSED;
    }
    memcpy(c->in, scratch, (size_t)n);
    c->in_len = (size_t)n;
    return next_buffered(c, err, ret, ret_len);
}

bool conn_consume(struct conn *c, const uint8_t *msg, size_t len, uint8_t **keep)
{
    bool buffered = c->in != NULL && msg == c->in + c->in_off;

    if (keep != NULL) {
        if (buffered && c->in_off == 0 && c->in_len == len && len > CONN_SCRATCH_BYTES / 2) {
            give_back_bytes(&c->server->counters.in_flight_bytes, c->in_cap);
            *keep = c->in;
            c->in = NULL;
            c->in_off = c->in_len = c->in_cap = 0;
            return true;
        }
        *keep = mem_try(len);
        if (*keep == NULL)
            return false;
        memcpy(*keep, msg, len);
    }
    if (!buffered)
        return true;
    c->amid_since_us = 0;
    c->in_off += len;
    if (c->in_off == c->in_len)
        drop_input(c);
    return true;
}

/* Room for so many bytes of a reply that waits for a slow reader. */
static bool reserve_output(struct conn *c, size_t n)
{
    _Atomic int64_t *unsent = &c->server->counters.unsent_bytes;

    if (n > LIMIT_OUT_BYTES || !claim_bytes(unsent, n, LIMIT_UNSENT_BYTES)) {
        log_event(LOG_INFO, "network", "too many bytes of replies unsent: connection closed",
                  {"conn", LOG_NUM(c->id)}, );
        return false;
    }
    c->out = mem_try(n);
    if (c->out == NULL) {
        give_back_bytes(unsent, n);
        return false;
    }
    c->out_cap = n;
    return true;
}

static void drop_output(struct conn *c)
{
    give_back_bytes(&c->server->counters.unsent_bytes, c->out_cap);
    free(c->out);
    c->out = NULL;
    c->out_off = c->out_len = c->out_cap = 0;
    c->amid_since_us = 0;
}

enum conn_output conn_send(struct conn *c, const struct iovec *iov, int n)
{
    size_t total = 0, skip;
    ssize_t sent;

    ASSERT(c->out == NULL);
    for (int i = 0; i < n; i++)
        total += iov[i].iov_len;
    sent = transport_writev(&c->transport, iov, n);
    if (sent == TRANSPORT_AGAIN)
        sent = 0;
    if (sent < 0)
        return OUTPUT_BROKEN;
    atomic_fetch_add_explicit(&c->server->counters.bytes_out, (int64_t)total, memory_order_relaxed);
    if ((size_t)sent == total)
        return OUTPUT_SENT;
    if (!reserve_output(c, total - (size_t)sent))
        return OUTPUT_BROKEN;
    skip = (size_t)sent;
    c->out_off = c->out_len = 0;
    for (int i = 0; i < n; i++) {
        size_t drop = skip < iov[i].iov_len ? skip : iov[i].iov_len;

        memcpy(c->out + c->out_len, (const uint8_t *)iov[i].iov_base + drop, iov[i].iov_len - drop);
        c->out_len += iov[i].iov_len - drop;
        skip -= drop;
    }
    return conn_flush(c);
}

enum conn_output conn_flush(struct conn *c)
{
    while (c->out_off < c->out_len) {
        struct iovec iov = {c->out + c->out_off, c->out_len - c->out_off};
        ssize_t n = transport_writev(&c->transport, &iov, 1);

        if (n == TRANSPORT_AGAIN)
            return OUTPUT_PENDING;
        if (n < 0)
            return OUTPUT_BROKEN;
        c->out_off += (size_t)n;
    }
    drop_output(c);
    return OUTPUT_SENT;
}

void conn_note_progress(struct conn *c)
{
    if (c->in == NULL && c->out == NULL)
        c->amid_since_us = 0;
    else if (c->amid_since_us == 0)
        c->amid_since_us = clock_mono_us();
    c->amid_bytes = (uint32_t)(c->out != NULL ? c->out_off : c->in_len - c->in_off);
}

bool conn_stalled(const struct conn *c, int64_t now_us)
{
    int64_t allowed_us = c->server->settings.stall_seconds * 1000000;

    allowed_us += (int64_t)c->amid_bytes * (1000000 / LIMIT_STALL_RATE);
    return c->amid_since_us != 0 && now_us - c->amid_since_us > allowed_us;
}

void conn_set_client(struct conn *c, struct bv client, const char *app_name)
{
    uint8_t *doc = mem_must(client.len);
    char *name = app_name == NULL ? NULL : mem_must_strdup(app_name);

    memcpy(doc, client.p, client.len);
    mutex_lock(&c->mx);
    c->client = doc;
    c->app_name = name;
    mutex_unlock(&c->mx);
}

void conn_clear(struct conn *c)
{
    drop_input(c);
    drop_output(c);
    free(c->me);
    mutex_lock(&c->mx);
    free(c->client);
    free(c->app_name);
    free(c->remote);
    c->remote = c->app_name = NULL;
    c->client = NULL;
    mutex_unlock(&c->mx);
    c->me = NULL;
    c->local = c->close_when_sent = c->dry = false;
}

const char *conn_me(struct conn *c)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof(ss);
    char ip[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN + 16];

    if (c->server->settings.advertise != NULL)
        return c->server->settings.advertise;
    if (c->local)
        return c->server->host;
    if (c->me != NULL)
        return c->me;
    if (getsockname(c->transport.fd, (struct sockaddr *)&ss, &len) != 0)
        return c->server->host;
    if (ss.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)&ss;

        inet_ntop(AF_INET6, &in6->sin6_addr, ip, sizeof(ip));
        if (strncmp(ip, "::ffff:", 7) == 0 && strchr(ip, '.') != NULL)
            snprintf(text, sizeof(text), "%s:%u", ip + 7, ntohs(in6->sin6_port));
        else
            snprintf(text, sizeof(text), "[%s]:%u", ip, ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in4 = (const void *)&ss;

        inet_ntop(AF_INET, &in4->sin_addr, ip, sizeof(ip));
        snprintf(text, sizeof(text), "%s:%u", ip, ntohs(in4->sin_port));
    }
    c->me = mem_must_strdup(text);
    return c->me;
}
