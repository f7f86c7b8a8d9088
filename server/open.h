/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Opening and closing the database of the process, and what is done for it from time to time. */
#ifndef RUNNEL_SERVER_OPEN_H
#define RUNNEL_SERVER_OPEN_H

#include "server/server.h"

/* In the order of trap T11. On failure nothing is left open. */
int database_open(struct server *s, struct error *err) MUST_CHECK;
/* No request is running. Nothing for one that is not open. */
void database_close(struct server *s);
/* Once a second, on the schema thread: dead tables, idle cursors, old sessions. */
void database_tick(struct server *s);
/* What each minute's tick does: old sessions and retry records go. Schema thread. */
void database_reap_sessions(struct server *s, int64_t ahead_us);
/* Once a second, on the main thread, whatever the schema thread does: transactions and snapshots
 * that are too old, or in the way of the cache. */
void database_sweep(struct server *s);

#endif
