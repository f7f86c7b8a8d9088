/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a worker does with a connection it owns: read, run, park, reply, and again. */
#ifndef RUNNEL_SERVER_SERVE_H
#define RUNNEL_SERVER_SERVE_H

#include "server/executor.h"

/* Takes a connection through its pending output and its messages, until it is armed, parked,
 * handed on or closed. The caller owns it (BUSY) and must not touch it afterwards. */
void serve_conn(struct worker *w, struct conn *c);
/* Continues a connection from a queue: its request if it has one, then as serve_conn(). */
void serve_queued(struct worker *w, struct conn *c);

#endif
