/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The requests that are running or parked, for currentOp and killOp. A request has no number of
 * its own: a connection has one at a time, so its operation id is the connection's id. */
#ifndef RUNNEL_SERVER_OPS_H
#define RUNNEL_SERVER_OPS_H

#include "server/command.h"

/* Appends one document per connection that runs a request, with `idle` of every connection, to
 * the array that is open in w. */
void ops_write(struct request *rq, bool idle, struct bw *w);
/* Interrupts what the connection with this id runs; nothing happens when it runs nothing. */
void ops_kill(struct request *rq, int64_t opid);

#endif
