/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "wire/transport.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"

/* True: a test has the call fail; errno says how. */
static bool refused(int code)
{
    errno = code;
    return code != 0;
}

static ssize_t plain_read(struct transport *t, void *buf, size_t len)
{
    ssize_t n;

    if (FAULT_ERROR(SOCKET_SHORT) != 0)
        len = 1;
    do
        n = refused(FAULT_ERROR(SOCKET_READ)) ? -1 : recv(t->fd, buf, len, 0);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        return n;
    t->wants_write = false;
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? TRANSPORT_AGAIN : TRANSPORT_CLOSED;
}

static ssize_t plain_writev(struct transport *t, const struct iovec *iov, int count)
{
    struct msghdr m = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)count};
    struct iovec first;
    ssize_t n;

    if (FAULT_ERROR(SOCKET_SHORT) != 0) {
        first = (struct iovec){iov[0].iov_base, 1};
        m.msg_iov = &first;
        m.msg_iovlen = 1;
    }
    do
        n = refused(FAULT_ERROR(SOCKET_WRITE)) ? -1 : sendmsg(t->fd, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return n;
    t->wants_write = true;
    return errno == EAGAIN || errno == EWOULDBLOCK ? TRANSPORT_AGAIN : TRANSPORT_CLOSED;
}

static bool plain_pending(struct transport *t)
{
    (void)t;
    return false;
}

static void plain_close(struct transport *t)
{
    close(t->fd);
    t->fd = -1;
}

void transport_init_plain(struct transport *t, int fd)
{
    static const struct transport_ops plain = {plain_read, plain_writev, plain_pending,
                                               plain_close};

    *t = (struct transport){.ops = &plain, .fd = fd};
}
