/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Requests and the command table.
 *
 * A command is a row in commands.def, one function cmd_<name>() in commands/cmd_<family>.c, and a
 * test. The dispatcher (dispatch.c) parses the envelope into struct request, runs the function and
 * finishes the reply: the function appends the payload fields to rq->reply and returns 0, or an
 * error code (then the reply is dropped and the error document is sent), or INT_PARK (see
 * base/op.h), INT_TO_SCHEMA, INT_CLOSE, INT_NOREPLY.
 */
#ifndef RUNNEL_SERVER_COMMAND_H
#define RUNNEL_SERVER_COMMAND_H

#include "base/bw.h"
#include "base/fields.h"
#include "query/database.h"
#include "server/parking.h"
#include "server/settings.h"
#include "server/timers.h"

struct server;
struct conn;
struct lsession;
struct command;
struct request;
struct failpoint_data;
struct session_txn;

enum cmd_flag {
    CMD_READ = 1 << 0,
    CMD_WRITE = 1 << 1, /* takes writeConcern; the reply waits for it */
    CMD_ADMIN =
        1 << 2, /* only on db admin, else 13 "x may only be run against the admin database." */
    CMD_SCHEMA = 1 << 3,         /* always runs on the schema thread */
    CMD_NO_AUTH = 1 << 4,        /* allowed before login (authentication comes later) */
    CMD_TEST = 1 << 5,           /* unknown (59) without --enable-test-commands */
    CMD_RETRYABLE = 1 << 6,      /* takes txnNumber */
    CMD_READ_CONCERN = 1 << 7,   /* takes readConcern beyond local (else 72) */
    CMD_QUICK = 1 << 8,          /* hello, ping: answered by the reserved worker too */
    CMD_API_V1 = 1 << 9,         /* in Stable API version 1 */
    CMD_OP_QUERY = 1 << 10,      /* also by OP_QUERY */
    CMD_SECRET = 1 << 11,        /* its body is not logged */
    CMD_OWN_MAX_TIME = 1 << 12,  /* maxTimeMS is not its deadline (getMore, hello) */
    CMD_SNAPSHOT = 1 << 13,      /* takes readConcern snapshot outside transactions (else 72) */
    CMD_WRITE_CONCERN = 1 << 14, /* takes writeConcern, though it waits for nothing (else 72) */
    CMD_TXN = 1 << 15,           /* may run in a multi-document transaction */
    CMD_API_V2 = 1 << 16,        /* in version 2, which only tests ask for */
};

struct command {
    const char *name;
    int (*run)(struct request *rq);
    unsigned flags;
    const char *help;
};

enum read_level { READ_LOCAL, READ_AVAILABLE, READ_MAJORITY, READ_LINEARIZABLE, READ_SNAPSHOT };

struct write_concern {
    bool named;        /* the command has the field, if only {} */
    bool given, has_w; /* by the client */
    int64_t w;         /* number; -1: "majority" or a tag */
    const char *tag;   /* any other string, or NULL */
    bool j;
    int64_t wtimeout_ms;    /* 0: none */
    const char *provenance; /* who chose it, as errors tell */
};

/* The Stable API that a command asks for. */
struct api_params {
    const char *version; /* NULL: not given; static once it is checked */
    bool strict, deprecation_errors;
};

/* Where a request stands with the executor. */
enum request_phase {
    REQUEST_RUN, /* its command runs, or waits to run again */
    REQUEST_ACK, /* the reply is finished and waits for its horizon */
};

/* The fields that any command may carry (envelope.c). */
struct envelope {
    struct bv lsid;         /* {id, uid} completed with uid; BV_NONE: none */
    int64_t txn_number;     /* -1: none */
    bool has_autocommit;    /* names a multi-document transaction */
    bool start_transaction; /* and begins it */
    bool read_concern_given, read_level_given;
    bool help; /* tell what the command is for, instead of running it */
    enum read_level read_level;
    struct api_params api;
    struct bv stmt_ids;          /* stmtIds array, or BV_NONE */
    int64_t stmt_id;             /* stmtId start, or 0 */
    uint64_t after_cluster_time; /* 0: none */
    uint64_t at_cluster_time;    /* 0: none */
    struct write_concern wc;
    struct bv comment;
    int64_t max_time_ms; /* 0: none */
};

/*
 * One message and what is made of it. Of the many that are parked each is one of these and its
 * message, so what a run makes anew is not in here: `reply` and `env` lie in the arena, from
 * request_begin() until the request parks or ends.
 */
struct request {
    struct op op; /* first: &rq->op and rq are the same address */
    struct server *server;
    struct conn *conn; /* NULL: an internal request */
    const struct command *cmd;
    struct bw *reply;     /* payload fields go here */
    struct envelope *env; /* what it says, once it is parsed; before, as if it said nothing */

    struct lsession *session;      /* pinned while the request runs; NULL: no lsid */
    struct request *next;          /* among the requests of its session, or those ended */
    struct snapshot *snapshot;     /* it reads from, while it runs (snapshots.h) */
    struct cursor_entry *cursor;   /* pinned by this request, also while it is parked */
    struct session_txn *txn;       /* has its session for this transaction (transactions.h) */
    struct bv write_concern_error; /* set by the dispatcher or a command: document or BV_NONE */
    int64_t ack_deadline_us;       /* a finished reply waits for durability no longer; 0: none */
    int64_t park_start_us;         /* when the request began to wait for the first time; 0: never */
    int64_t opened_cursor;         /* the reply tells of a cursor that no one knows yet; 0: none */
    int64_t topology_seen;         /* exhaust hello: the counter of the reply sent last */
    unsigned replies;              /* replies sent so far; > 0: the next one of an exhaust series */
    bool exhaust;                  /* exhaustAllowed was set */
    bool more_to_come_in;          /* moreToCome: no reply wanted */
    bool exhaust_reply;            /* set by hello and getMore: send with moreToCome, run again */
    bool change_stream;            /* aggregate or getMore of a change stream: for error labels */
    bool in_txn;                   /* works in its transaction; not while it is parked */
    bool txn_failed;               /* a statement has failed: the transaction aborts */

    /* fail points (failpoints.h) */
    bool failpoint_asked;             /* it had its chance to */
    bool failpoint_blocked;           /* its blockTimeMS are over */
    bool lose_reply;                  /* close the connection instead of replying */
    struct failpoint_data *failpoint; /* failCommand has chosen this request; counted */

    /* the executor's */
    enum request_phase phase;
    struct parking parking;
    struct timer timer;
    const uint8_t *raw; /* the message; survives a park */
    size_t raw_len;
    int32_t request_id;  /* of the message; then of our last reply to it (exhaust) */
    bool raw_owned;      /* on the heap, freed with the request; else the connection's */
    bool legacy;         /* came as OP_QUERY: answered by OP_REPLY */
    bool legacy_failure; /* an OP_QUERY that was not even a command */
    bool checksum;       /* the reply carries one too */
    bool close_after;    /* close the connection behind the reply */
    bool to_schema;      /* runs on the schema thread from now on; cleared: on workers again */
    bool handed_on;      /* queued by its runner, not by a wake-up */
    bool goes_on;        /* the next run continues this one: what it wrote stays written */
    struct bv out;       /* the finished reply, in the arena */
};

struct request *request_new(struct server *s, struct conn *c);
void request_free(struct request *rq); /* NULL: nothing */
/* A run begins: an empty reply, and an envelope that says nothing. */
void request_begin(struct request *rq);
/* A thread that made or freed requests ends: its memory kept for the next one goes. */
void request_thread_end(void);
/* Before a park: keeps the message, gives all other memory back. */
void request_rest(struct request *rq);
/* Before a run that is not the first one. WAKE_NONE: it was not parked, only moved. */
void request_rerun(struct request *rq, enum wake_reason woken);
/* Before the next run of an exhaust series: as if the same message had come again. */
void request_again(struct request *rq);
/* The request is over: gives up what it holds (cursor, session) before the next one may begin. */
void request_end(struct request *rq);

#define rq_of(opp) ((struct request *)(void *)(opp))

/* Sorted by name. */
#define COMMAND(name, flags, help) int cmd_##name(struct request *rq);
#include "server/commands.def"
#undef COMMAND

const struct command *command_find(const char *name); /* exact; aliases included; NULL: unknown */
const struct command *command_at(size_t i);           /* NULL past the end; for listCommands */
size_t command_index(const struct command *cmd);      /* the i of command_at() */

/* "db.coll" in the arena. */
char *ns_join(struct arena *a, const char *db, const char *coll);
/* "db.coll" from the command's first field, checked (73 with text); in the op's arena. Also gives
 * the collection part. */
int request_ns(struct request *rq, const char **ret_ns, const char **ret_coll) MUST_CHECK;
/* Names: 0 or ERR_INVALID_NAMESPACE with MongoDB's text. */
int check_db_name(struct op *op, const char *db) MUST_CHECK;
int check_coll_name(struct op *op, const char *db, const char *coll) MUST_CHECK;

/* The configuration of the replica set, as replSetGetConfig and local.system.replset show it. */
struct bv repl_config_doc(struct op *op);

#endif
