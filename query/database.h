/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The opened database: what query code needs to reach. One per process; op->database. */
#ifndef RUNNEL_QUERY_DATABASE_H
#define RUNNEL_QUERY_DATABASE_H

#include "base/nslock.h"
#include "oplog/oplog.h"
#include "storage/catalog.h"

struct database {
    struct engine *engine;
    struct catalog *catalog;
    struct oplog *oplog;
    struct nslock_table *locks;
    struct txn_table *txns; /* query/txn.h */
    const char *host;       /* "host:port" as advertised, for $collStats and explain */
    /* The set's configuration, in the op's arena, for local.system.replset; NULL: none. */
    struct bv (*repl_config)(struct op *op);
};

#endif
