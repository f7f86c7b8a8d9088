/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One client connection: its socket, what was read and not yet framed, what was not yet sent, and
 * what the client said about itself.
 *
 * Owner. A connection has one owner at a time. ARMED: epoll owns it, and the worker that gets its
 * event takes it over. BUSY: a worker, the run queue, or its parked request. Only the owner
 * touches it, but for the fields under `mx`, by which others find and interrupt its request.
 *
 * Edges. epoll tells of a change once. One that comes while the connection is BUSY is kept in
 * `edges`: the owner looks there before it arms, and reads on if there is one. It may be of bytes
 * that have been read since; only that the client has hung up stays true, and stays there.
 *
 * Structs are recycled and never freed while the executor lives, so an event that was fetched for
 * a connection already closed finds another generation and is dropped.
 */
#ifndef RUNNEL_SERVER_CONN_H
#define RUNNEL_SERVER_CONN_H

#include <sys/epoll.h>

#include "base/bv.h"
#include "base/mutex.h"
#include "wire/message.h"
#include "wire/transport.h"

struct request;
struct server;

enum conn_state { CONN_FREE, CONN_ARMED, CONN_BUSY };

#define CONN_HANG_UP ((uint32_t)EPOLLRDHUP | EPOLLHUP | EPOLLERR)

/* Ten thousand of these wait: 256 bytes each, which is a size that heaps have. */
struct conn {
    struct mutex mx;
    enum conn_state state; /* mx */
    uint32_t gen;          /* mx */
    uint32_t edges;        /* mx: EPOLLIN and CONN_HANG_UP that came and wait for the owner */
    bool hung_up;          /* mx: the client is gone */
    bool streaming;        /* mx: an exhaust series is on, the client must be silent */
    bool watched;          /* mx: BUSY, and a hang-up interrupts the request */
    bool output_only;      /* mx: epoll tells of room for output, and of nothing else */
    bool sheltered;        /* mx: its request is a write, which goes on without the client */
    _Atomic bool look;     /* conn_table_watch() may find something to do */
    bool local;            /* by the Unix socket */
    bool close_when_sent;
    bool dry;            /* all that had come was read with the last message */
    uint32_t amid_bytes; /* of an unfinished message moved so far; with amid_since_us */
    uint32_t slot;
    struct request *rq;   /* mx; the owner may read it without */
    const uint8_t *shown; /* mx: its message, while the bytes stay; NULL: not now */
    size_t shown_len;     /* mx */
    int64_t rq_since_us;  /* mx: when that request began */
    /* Set by the owner before it arms; read under mx while ARMED. When it began to wait within a
     * message; 0: it is between two. */
    int64_t amid_since_us;

    struct conn *queue_next; /* the executor's queues and free list */
    struct server *server;
    struct transport transport;
    int64_t id;
    uint8_t *in; /* received; the front is at in_off */
    size_t in_off, in_len, in_cap;
    uint8_t *out; /* to be sent */
    size_t out_off, out_len, out_cap;
    char *remote;    /* "ip:port" of the client */
    char *me;        /* "ip:port" that the client reached; made on demand */
    uint8_t *client; /* hello's client document, or NULL */
    char *app_name;  /* from it, or NULL */
};

enum { CONN_SCRATCH_BYTES = 64 * 1024 };

enum conn_input {
    INPUT_NONE,    /* no whole message: arm and wait */
    INPUT_MESSAGE, /* *ret is a framed message */
    INPUT_CLOSED,  /* the client is gone, or sent nonsense; err tells, if it is worth a line */
};

/*
 * The next message. It lies in the scratch memory or in c->in and stays there until
 * conn_consume(). Sets c->dry when there is no need to read again before arming.
 */
enum conn_input conn_next_message(struct conn *c, uint8_t *scratch, struct error *err,
                                  const uint8_t **ret, size_t *ret_len);
/* Done with the message that conn_next_message() gave. If `keep` is set the caller needs it for
 * longer: it gets heap memory of its own (freed with free()), without a copy where that can be.
 * False: there is none, and nothing has changed. */
bool conn_consume(struct conn *c, const uint8_t *msg, size_t len, uint8_t **keep);

enum conn_output {
    OUTPUT_SENT,
    OUTPUT_PENDING, /* the rest is kept: arm for writing, then conn_flush() */
    OUTPUT_BROKEN,
};
enum conn_output conn_send(struct conn *c, const struct iovec *iov, int n);
enum conn_output conn_flush(struct conn *c);

/* Before arming: whether the connection waits within a message, and since when. */
void conn_note_progress(struct conn *c);
/* Under mx, of an ARMED connection: true when the rest of a message is overdue. */
bool conn_stalled(const struct conn *c, int64_t now_us);

/* Keeps copies of the client document and the application's name (or NULL). */
void conn_set_client(struct conn *c, struct bv client, const char *app_name);
/* Frees all but the struct. */
void conn_clear(struct conn *c);
/* The address that the client reached, as "host:port". */
const char *conn_me(struct conn *c);

#endif
