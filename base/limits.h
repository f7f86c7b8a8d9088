/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Every bound on what a client can choose, with the reason for its value. MongoDB's own limits
 * are marked (M); drivers rely on them.
 */
#ifndef RUNNEL_BASE_LIMITS_H
#define RUNNEL_BASE_LIMITS_H

#define LIMIT_DOC_BYTES        (16 * 1024 * 1024)        /* (M) a user document */
#define LIMIT_INTERNAL_BYTES   (LIMIT_DOC_BYTES + 16384) /* (M) commands, events, oplog entries */
#define LIMIT_MESSAGE_BYTES    48000000                  /* (M) one wire message */
#define LIMIT_WRITE_BATCH      100000                    /* (M) statements in one write command */
#define LIMIT_BULK_RESULTS     (30 * 1024 * 1024)        /* (M) result bytes of one bulkWrite */
#define LIMIT_BATCH_BYTES      LIMIT_DOC_BYTES           /* (M) documents of one cursor reply */
#define LIMIT_FIRST_BATCH      101                       /* (M) documents without a batchSize */
#define LIMIT_DB_NAME          63                        /* (M) bytes of a database name */
#define LIMIT_NS               255                       /* (M) bytes of "db.collection" */
#define LIMIT_DEPTH_STORED     180                       /* (M) nesting of a stored document */
#define LIMIT_DEPTH_MESSAGE    200                       /* (M) nesting of a command */
#define LIMIT_SEQUENCES        2                         /* (M) kind-1 sections in one message */
#define LIMIT_INDEXES          64                        /* (M) indexes of one collection */
#define LIMIT_INDEX_FIELDS     32                        /* (M) fields of one index key */
#define LIMIT_INDEX_NAME       255                       /* an index name; (M) had 127 of the ns */
#define LIMIT_INDEX_KEY_BYTES  (2 * LIMIT_DOC_BYTES)     /* one key: strings escape their zeros */
#define LIMIT_INDEX_KEYS_DOC   100000                    /* keys of one document in one index */
#define LIMIT_CLIENT_METADATA  1024                      /* (M) hello's client document */
#define LIMIT_APP_NAME         128                       /* (M) client.application.name */
#define LIMIT_PIPELINE_STAGES  1000                      /* (M) stages of one pipeline */
#define LIMIT_SCAN_SEEN        65536                /* ids that a multikey scan remembers: 1 MB */
#define LIMIT_EXPR_DEPTH       100                  /* nested filters or expressions: stack */
#define LIMIT_EXPR_BYTES       (256 * 1024 * 1024)  /* values computed for one document */
#define LIMIT_REGEX_BYTES      32764                /* (M) one pattern */
#define LIMIT_ARRAY_BACKFILL   1500000              /* (M) nulls that $set may pad with */
#define LIMIT_SORT_BYTES       (100 * 1024 * 1024)  /* (M) blocking stages before spilling */
#define LIMIT_GROUP_BYTES      (100 * 1024 * 1024)  /* (M) same */
#define LIMIT_BLOCKING_BYTES   (1024 * 1024 * 1024) /* all blocking stages together */
#define LIMIT_PUSH_BYTES       (100 * 1024 * 1024)  /* (M) one accumulated array */
#define LIMIT_MEMBERS          50                   /* (M) members a write can ask for */
#define LIMIT_CONNECTIONS      20000                /* sockets served at once */
#define LIMIT_CURSORS          100000               /* open cursors */
#define LIMIT_LOGICAL_SESSIONS 1000000              /* (M) sessions remembered */
#define LIMIT_SESSION_IDS      10000                /* (M) ids in one endSessions */
#define LIMIT_AWAIT_MS         INT32_MAX            /* (M) maxTimeMS, maxAwaitTimeMS */
#define LIMIT_IN_FLIGHT_BYTES  (512 * 1024 * 1024)  /* request bytes held by the server */
#define LIMIT_OUT_BYTES        (64 * 1024 * 1024)   /* unsent reply bytes of a connection */
#define LIMIT_UNSENT_BYTES     (512 * 1024 * 1024)  /* unsent reply bytes of all of them */
#define LIMIT_STALL_RATE       1000                 /* bytes/s that keep a slow client on */
#define LIMIT_RETRY_STMTS      100000               /* remembered statements of one txnNumber */
#define LIMIT_TRANSACTIONS     300  /* open ones and pins: each holds a storage session */
#define LIMIT_SNAPSHOTS        100  /* pins of readConcern snapshot: part of those */
#define LIMIT_TXN_NAMESPACES   4096 /* collections touched by one transaction: locks */
#define LIMIT_TXN_CACHE_SHARE  0.4  /* (M) of the cache, for one transaction's changes */
#define LIMIT_TXN_BYTES        (256 * 1024 * 1024) /* buffered operations of one transaction */
#define LIMIT_CURSOR_IDLE_MS   (10 * 60 * 1000)    /* (M) an idle cursor is closed */
#define LIMIT_SESSION_MINUTES  30                  /* (M) an idle session is forgotten */

/* Bytes of a running command that currentOp shows; it must check them while the request waits. */
#define LIMIT_SHOWN_BYTES (256 * 1024)

#endif
