/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/bench/bare.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "storage/wt_startup.h"
#include "tests/bench/bench.h"

/* storage/engine.c's and storage/engine_tables.c's. */
#define CONNECTION                                                                                 \
    "create,cache_size=4GB,session_max=512,eviction=(threads_min=1,threads_max=4),"                \
    "statistics=(fast),log=(enabled=true,archive=true,file_max=16MB,prealloc=false),"              \
    "transaction_sync=(enabled=false),checkpoint=(wait=60,log_size=256MB)"
#define ROWS(key)                                                                                  \
    "key_format=" key ",value_format=u,leaf_page_max=32KB,leaf_value_max=64MB,"                    \
    "memory_page_max=10MB,split_pct=90"
#define KEYS                                                                                       \
    "key_format=u,value_format=u,leaf_page_max=16KB,internal_page_max=16KB,leaf_value_max=64MB,"   \
    "memory_page_max=5MB,prefix_compression=true"

enum { ID_KEY_BYTES = 14, FILL_BATCH = 1000, VALUE_MAX = 4096, SINK_BYTES = 256 * 1024 };

static const uint8_t filler[VALUE_MAX];

static void must(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "bench: WiredTiger: %s: %s\n", what, wiredtiger_strerror(rc));
    exit(1);
}

void bare_open(struct bare *b)
{
    WT_SESSION *s;

    (void)wt_startup_is_short();
    must(wiredtiger_open(arg_str("dir", NULL), NULL, CONNECTION, &b->conn), "open");
    must(b->conn->open_session(b->conn, NULL, NULL, &s), "session");
    must(s->create(s, "table:records", ROWS("q")), "create");
    must(s->create(s, "table:ids", KEYS), "create");
    must(s->create(s, "table:log", ROWS("Q")), "create");
    must(s->close(s, NULL), "close");
}

void bare_close(struct bare *b)
{
    must(b->conn->close(b->conn, NULL), "close");
}

void bare_session_open(struct bare *b, struct bare_session *s)
{
    must(b->conn->open_session(b->conn, NULL, "isolation=snapshot", &s->wt), "session");
    must(s->wt->open_cursor(s->wt, "table:records", NULL, NULL, &s->records), "cursor");
    must(s->wt->open_cursor(s->wt, "table:ids", NULL, "overwrite=false", &s->ids), "cursor");
    must(s->wt->open_cursor(s->wt, "table:log", NULL, NULL, &s->log), "cursor");
}

void bare_begin(struct bare_session *s)
{
    must(s->wt->begin_transaction(s->wt, NULL), "begin");
}

void bare_commit(struct bare_session *s)
{
    must(s->wt->commit_transaction(s->wt, NULL), "commit");
}

void bare_sync(struct bare_session *s)
{
    must(s->wt->log_flush(s->wt, "sync=on"), "log_flush");
}

static void put(WT_CURSOR *c, size_t bytes)
{
    WT_ITEM value = {.data = filler, .size = bytes};

    c->set_value(c, &value);
    must(c->insert(c), "insert");
}

static void set_id_key(struct bare_session *s, uint64_t id, uint8_t key[static ID_KEY_BYTES])
{
    WT_ITEM item = {.data = key, .size = ID_KEY_BYTES};
    uint64_t big = __builtin_bswap64(id);

    memset(key, 0, ID_KEY_BYTES);
    key[0] = 0x64;
    memcpy(key + 5, &big, sizeof(big));
    s->ids->set_key(s->ids, &item);
}

static void put_log(struct bare_session *s, uint64_t optime, size_t entry_bytes)
{
    s->log->set_key(s->log, optime);
    put(s->log, entry_bytes);
}

static void put_record(struct bare_session *s, uint64_t id, size_t doc_bytes)
{
    s->records->set_key(s->records, (int64_t)id);
    put(s->records, doc_bytes);
}

void bare_insert(struct bare_session *s, uint64_t id, size_t doc_bytes, size_t entry_bytes)
{
    uint8_t key[ID_KEY_BYTES];
    WT_ITEM rid = {.data = &id, .size = sizeof(id)};

    set_id_key(s, id, key);
    s->ids->set_value(s->ids, &rid);
    must(s->ids->insert(s->ids), "insert");
    put_record(s, id, doc_bytes);
    put_log(s, id, entry_bytes);
}

void bare_update(struct bare_session *s, uint64_t id, uint64_t optime, size_t doc_bytes,
                 size_t entry_bytes)
{
    put_record(s, id, doc_bytes);
    put_log(s, optime, entry_bytes);
}

void bare_find(struct bare_session *s, uint64_t id, WT_ITEM *ret)
{
    uint8_t key[ID_KEY_BYTES];
    WT_ITEM item;
    int64_t rid;

    set_id_key(s, id, key);
    must(s->ids->search(s->ids), "search");
    must(s->ids->get_value(s->ids, &item), "value");
    memcpy(&rid, item.data, sizeof(rid));
    s->records->set_key(s->records, rid);
    must(s->records->search(s->records), "search");
    must(s->records->get_value(s->records, ret), "value");
}

void bare_fill(struct bare *b, uint64_t docs, size_t doc_bytes, size_t entry_bytes)
{
    struct bare_session s;

    bare_session_open(b, &s);
    for (uint64_t id = 1; id <= docs;) {
        bare_begin(&s);
        for (int i = 0; i < FILL_BATCH && id <= docs; i++)
            bare_insert(&s, id++, doc_bytes, entry_bytes);
        bare_commit(&s);
    }
    bare_sync(&s);
    must(s.wt->close(s.wt, NULL), "close");
}

/* --- loopback ------------------------------------------------------------------------------------
 */

void loopback_pair(int fds[static 2])
{
    struct sockaddr_in sin = {.sin_family = AF_INET};
    socklen_t len = sizeof(sin);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (listener < 0 || bind(listener, (struct sockaddr *)&sin, sizeof(sin)) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&sin, &len) != 0)
        die("listen");
    fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fds[1] < 0 || connect(fds[1], (struct sockaddr *)&sin, sizeof(sin)) != 0 ||
        (fds[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
        die("connect");
    setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    close(listener);
}

static void *sink(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char *buf = malloc(SINK_BYTES);

    while (buf != NULL && recv(fd, buf, SINK_BYTES, 0) > 0)
        ;
    free(buf);
    return NULL;
}

void loopback_sink(int fd)
{
    pthread_t t;

    if (pthread_create(&t, NULL, sink, (void *)(intptr_t)fd) != 0)
        die("thread");
    pthread_detach(t);
}

void send_all(int fd, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;

    while (n > 0) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

        if (k <= 0)
            die("send");
        p += k;
        n -= (size_t)k;
    }
}
