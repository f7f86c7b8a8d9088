/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * WiredTiger alone, with the server's configuration and the server's three rows for a document: the
 * record, the key of _id, the oplog entry. Cursors stay open; nothing is parsed, nothing sent. What
 * it does a second is a ceiling for any server on top of it.
 *
 * A failing call ends the process. A session belongs to one thread.
 */
#ifndef RUNNEL_TESTS_BENCH_BARE_H
#define RUNNEL_TESTS_BENCH_BARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wiredtiger.h>

struct bare {
    WT_CONNECTION *conn;
};

struct bare_session {
    WT_SESSION *wt;
    WT_CURSOR *records, *ids, *log;
};

/* In the directory of argument `dir`, which exists and is empty. */
void bare_open(struct bare *b);
void bare_close(struct bare *b);
void bare_session_open(struct bare *b, struct bare_session *s);

void bare_begin(struct bare_session *s);
void bare_commit(struct bare_session *s);
void bare_sync(struct bare_session *s); /* the log, to the disk */
/* The three rows of document `id`, whose entry has entry_bytes; it is also the optime. */
void bare_insert(struct bare_session *s, uint64_t id, size_t doc_bytes, size_t entry_bytes);
/* Record and entry. */
void bare_update(struct bare_session *s, uint64_t id, uint64_t optime, size_t doc_bytes,
                 size_t entry_bytes);
/* By the key of _id. The record lies in s->records, or in a copy. */
void bare_find(struct bare_session *s, uint64_t id, WT_ITEM *ret);
/* Documents 1 to docs. */
void bare_fill(struct bare *b, uint64_t docs, size_t doc_bytes, size_t entry_bytes);

/* A pair of connected TCP sockets on loopback: [0] sends, [1] receives. */
void loopback_pair(int fds[static 2]);
/* Reads and forgets all that arrives, on a thread of its own, until the sender closes. */
void loopback_sink(int fd);
void send_all(int fd, const void *bytes, size_t n);

#endif
