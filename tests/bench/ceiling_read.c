/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ceilings of reading: WiredTiger's rows in order, and bytes over loopback sockets. */
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bare.h"
#include "tests/bench/bench.h"
#include "tests/bench/message.h"

enum { OUT_BYTES = 256 * 1024, ENTRY_BYTES = DOC_BYTES + 133 };

/* Bytes on their way to a socket. */
struct out {
    int fd;
    size_t len;
    uint8_t buf[OUT_BYTES];
};

static void out_put(struct out *o, const void *bytes, size_t n)
{
    if (o->len + n > sizeof(o->buf)) {
        send_all(o->fd, o->buf, o->len);
        o->len = 0;
    }
    memcpy(o->buf + o->len, bytes, n);
    o->len += n;
}

static void out_flush(struct out *o)
{
    send_all(o->fd, o->buf, o->len);
    o->len = 0;
}

static struct out *out_new(void)
{
    struct out *o = calloc(1, sizeof(*o));
    int fds[2];

    if (o == NULL)
        die("memory");
    loopback_pair(fds);
    o->fd = fds[0];
    loopback_sink(fds[1]);
    return o;
}

/* Through the keys of _id, as a range of them must be read. */
static uint64_t scan_once(struct bare_session *s, struct out *o)
{
    uint64_t n = 0;

    bare_begin(s);
    s->ids->reset(s->ids);
    while (s->ids->next(s->ids) == 0) {
        WT_ITEM item;
        int64_t rid;

        s->ids->get_value(s->ids, &item);
        memcpy(&rid, item.data, sizeof(rid));
        s->records->set_key(s->records, rid);
        if (s->records->search(s->records) != 0)
            die("search");
        s->records->get_value(s->records, &item);
        out_put(o, item.data, item.size);
        n++;
    }
    out_flush(o);
    bare_commit(s);
    return n;
}

void run_bare_scan(void)
{
    uint64_t docs = (uint64_t)arg_int("docs", 100000), n = 0;
    struct out *o = out_new();
    struct bare_session s;
    struct bare b;
    int64_t begin, end;

    bare_open(&b);
    bare_fill(&b, docs, DOC_BYTES, ENTRY_BYTES);
    bare_session_open(&b, &s);
    (void)scan_once(&s, o);
    begin = now_ns();
    end = begin + (int64_t)(arg_num("seconds", 1) * NS);
    while (now_ns() < end)
        n += scan_once(&s, o);
    report_num("docs_per_second", (double)n * NS / (double)(now_ns() - begin));
    bare_close(&b);
    free(o);
}

/* The oplog's rows are read; as many bytes go out as the events have. */
static void drain_once(struct bare_session *s, struct out *o, size_t event_bytes)
{
    uint8_t event[4096] = {0};

    bare_begin(s);
    s->log->reset(s->log);
    while (s->log->next(s->log) == 0) {
        WT_ITEM item;

        s->log->get_value(s->log, &item);
        memcpy(event, item.data, item.size < event_bytes ? item.size : event_bytes);
        out_put(o, event, event_bytes);
    }
    out_flush(o);
    bare_commit(s);
}

void run_bare_drain(void)
{
    uint64_t rows = (uint64_t)arg_int("rows", 100000), n = 0;
    size_t event_bytes = (size_t)arg_int("event_bytes", 400);
    struct out *o = out_new();
    struct bare_session s;
    struct bare b;
    int64_t begin, end;

    if (event_bytes > 4096)
        die("event_bytes");
    bare_open(&b);
    bare_fill(&b, rows, SMALL_DOC_BYTES, (size_t)arg_int("row_bytes", 250));
    bare_session_open(&b, &s);
    begin = now_ns();
    end = begin + (int64_t)(arg_num("seconds", 1) * NS);
    for (; now_ns() < end; n += rows)
        drain_once(&s, o, event_bytes);
    report_num("events_per_second", (double)n * NS / (double)(now_ns() - begin));
    bare_close(&b);
    free(o);
}
