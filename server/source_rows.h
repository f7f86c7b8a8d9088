/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Source stages whose rows only the server knows: $collStats, $currentOp, $documents, $indexStats,
 * $listLocalSessions, $listSessions, $planCacheStats. One row each in source_rows.c.
 */
#ifndef RUNNEL_SERVER_SOURCE_ROWS_H
#define RUNNEL_SERVER_SOURCE_ROWS_H

#include "query/aggregate.h"
#include "server/command.h"

/* As aggregate_spec.rows; arg is the struct request. */
int source_rows_for(struct op *op, void *arg, const char *stage, struct bv spec, struct bv **ret,
                    size_t *ret_n) MUST_CHECK;

#endif
