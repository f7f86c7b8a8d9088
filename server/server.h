/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The process: what commands reach through rq->server. One per process; any thread. */
#ifndef RUNNEL_SERVER_SERVER_H
#define RUNNEL_SERVER_SERVER_H

#include <stdatomic.h>

#include "query/database.h"
#include "server/settings.h"
#include "server/topology.h"

struct executor;
struct sessions;
struct cursors;
struct top;
struct rw_defaults;
struct snapshots;
struct transactions;

enum {
    NCOMMANDS = 0
#define COMMAND(name, flags, help) +1
#include "server/commands.def"
#undef COMMAND
};

/* Counted since the start; for serverStatus. */
struct server_counters {
    _Atomic int64_t op_insert, op_query, op_update, op_delete, op_getmore, op_command;
    _Atomic int64_t bytes_in, bytes_out, requests;
    _Atomic int64_t connections, connections_created;
    _Atomic int64_t in_flight_bytes; /* of messages being received or kept by parked requests */
    _Atomic int64_t unsent_bytes;    /* of replies whose readers are slow */
    _Atomic int64_t stalled;         /* clients closed for stopping within a message */
    _Atomic int64_t refused;         /* clients closed at once: too many */
    _Atomic int64_t asserts_user;    /* replies with an error */
    _Atomic int64_t parked;          /* requests waiting now */
    _Atomic int64_t exhaust_hello, awaiting_hello;
    /* Retryable writes sent again: those of which something had been done, and what had been. */
    _Atomic int64_t retried_commands, retried_statements;
    _Atomic int64_t unknown_commands;
    struct {
        _Atomic int64_t total, failed;
    } commands[NCOMMANDS]; /* by command_index() */
};

struct server {
    struct settings settings;
    _Atomic(struct database *) database; /* NULL until it is open */
    struct executor *executor;
    struct sessions *sessions;
    struct cursors *cursors;
    struct transactions *transactions;
    struct top *top;
    struct rw_defaults *rw_defaults;
    struct snapshots *snapshots;
    struct topology topology;
    _Atomic bool require_api, accept_api_2; /* parameters of the Stable API */
    struct server_counters counters;
    _Atomic uint64_t gossip_time; /* newest $clusterTime that clients told */
    uint8_t replica_set_id[12];
    int64_t start_us; /* monotonic */
    int64_t start_wall_ms;
    int port;             /* bound */
    char host[300];       /* "host:port" of the configuration (rs.conf()) */
    _Atomic int stopping; /* set once, by a signal or the shutdown command */
};

/* Begins an orderly stop; any thread. */
void server_stop(struct server *s);

#endif
