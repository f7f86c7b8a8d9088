/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What carries a connection's bytes: a table of functions over a non-blocking socket, so that TLS
 * is one more table. A transport belongs to one thread at a time.
 */
#ifndef RUNNEL_WIRE_TRANSPORT_H
#define RUNNEL_WIRE_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct transport;

enum transport_result {
    TRANSPORT_CLOSED = -1, /* end of stream or an error: the connection is done for */
    TRANSPORT_AGAIN = -2,  /* nothing now; wait for transport_wants() */
};

struct transport_ops {
    /* Bytes read or written (> 0), or an enum transport_result. */
    ssize_t (*read)(struct transport *t, void *buf, size_t len);
    ssize_t (*writev)(struct transport *t, const struct iovec *iov, int n);
    /* Bytes are buffered inside (TLS records), so epoll would not tell of them. */
    bool (*pending)(struct transport *t);
    void (*close)(struct transport *t);
};

struct transport {
    const struct transport_ops *ops;
    int fd;
    bool wants_write; /* why the last call gave TRANSPORT_AGAIN: wait for writable, not readable */
    bool secure;      /* TLS: replies carry no checksum */
};

/* Takes over a non-blocking socket. */
void transport_init_plain(struct transport *t, int fd);

static inline ssize_t transport_read(struct transport *t, void *buf, size_t len)
{
    return t->ops->read(t, buf, len);
}

static inline ssize_t transport_writev(struct transport *t, const struct iovec *iov, int n)
{
    return t->ops->writev(t, iov, n);
}

static inline bool transport_pending(struct transport *t)
{
    return t->ops->pending(t);
}

static inline void transport_close(struct transport *t)
{
    t->ops->close(t);
}

#endif
