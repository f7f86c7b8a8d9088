/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by the files of transactions and the write path; see query/txn.h. */
#ifndef RUNNEL_QUERY_TXN_INTERNAL_H
#define RUNNEL_QUERY_TXN_INTERNAL_H

#include "base/mutex.h"
#include "oplog/waitlist.h"
#include "query/txn.h"

struct txn_table {
    _Atomic int64_t open, pinned, writing;
    _Atomic int64_t lock_wait_ms, entry_ops;
    _Atomic int64_t waited, write_conflicts;
    _Atomic uint64_t ended;  /* transactions, ever */
    struct waitlist waiters; /* parked requests, for `ended` */
    struct mutex mx;         /* with cv: sleeping threads, for `ended`; a leaf */
    pthread_cond_t cv;
};

/* A lock on the name of a database. */
struct txn_db {
    struct txn_db *next;
    const char *name;
    struct nslock lock;
};

/* A namespace that the transaction has touched. */
struct txn_coll {
    struct txn_coll *next;
    const char *ns;
    struct nslock lock;
    struct coll *k;      /* a reference to what the transaction sees; NULL: none made yet */
    bool created;        /* by this transaction, with k for itself until the commit */
    int64_t docs, bytes; /* by how much the commit moves its counters */
};

/* An operation as it stands in applyOps, and its image. Memory of the transaction. */
struct txn_op {
    struct bv doc;       /* {op, ns, ui, o, o2} */
    struct bv pre_image; /* BV_NONE: none */
    const uint8_t *uuid; /* with the image: 16 bytes */
};

struct txn {
    struct database *db;
    struct stx *stx;
    uint64_t read_optime;
    bool read_only;
    struct arena arena; /* owns what follows */
    struct bv lsid;
    int64_t number;
    struct txn_db *dbs;
    struct txn_coll *colls; /* the newest first */
    size_t ncolls;
    struct txn_op *ops; /* on the heap */
    size_t nops, cap;
    size_t bytes;
};

struct stx *txn_stx(struct txn *t);

/*
 * The namespace, locked, to the end of the transaction; INT_PARK, 24, 246. Exclusive: to make a
 * collection there. Shared: NULL when there is none, and it is not locked then.
 */
int txn_touch(struct op *op, const char *ns, enum nslock_mode mode,
              struct txn_coll **ret) MUST_CHECK;

/* Copies the operations into the transaction; 257 when they become too many bytes. */
struct oplog_op;
int txn_add_ops(struct txn *t, struct op *op, const struct oplog_op *ops, size_t n) MUST_CHECK;
/* The code of a failed write as the client is told it: that the cache is full is a conflict (112),
 * which may succeed the next time, or 388 when it is this transaction that fills it. */
int txn_write_error(struct op *op, int code);
/* The commit will move the collection's counters by this. */
void txn_count(struct txn *t, const char *ns, int64_t docs, int64_t bytes);

/* The end of a transaction, in this order. */
void txn_release(struct txn *t); /* locks, references, memory; wakes who waits */

#endif
