/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The requests that are running or parked, for currentOp and killOp. A request has no number of
 * its own: a connection has one at a time, so its operation id is the connection's id. */
#ifndef RUNNEL_SERVER_OPS_H
#define RUNNEL_SERVER_OPS_H

#include "server/command.h"

struct ops_filter {
    bool idle_connections, idle_cursors, idle_sessions;
    bool truncate; /* commands of more than 1000 bytes become the beginning of their text */
};

/*
 * Appends to the array that is open in w: one document per connection that runs a request, with
 * idle_connections of every connection, with idle_cursors of every cursor that no request uses,
 * with idle_sessions of every session whose open transaction no request works in. A request in a
 * transaction shows it, and every one its command, as far as the message's body has it. A getMore
 * shows its cursor; a change stream what it watches, the time of its resume token, and by how many
 * seconds that is behind the newest entry it could have seen.
 */
int ops_write(struct request *rq, const struct ops_filter *f, struct bw *w) MUST_CHECK;
/* Interrupts what the connection with this id runs; nothing happens when it runs nothing. */
void ops_kill(struct request *rq, int64_t opid);

#endif
