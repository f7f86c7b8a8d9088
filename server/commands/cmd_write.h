/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What insert, update, delete and bulkWrite share. */
#ifndef RUNNEL_SERVER_COMMANDS_CMD_WRITE_H
#define RUNNEL_SERVER_COMMANDS_CMD_WRITE_H

#include "query/write.h"
#include "server/command.h"

/* 16 unless there are between one and LIMIT_WRITE_BATCH statements. */
int write_check_batch_size(struct op *op, size_t n) MUST_CHECK;

/* The numbers of n statements, by the request's stmtId or stmtIds; in the op's arena. */
int write_number_statements(struct request *rq, size_t n, int32_t **ret) MUST_CHECK;

/* Counts the statements of a retryable write that had been done before; 0 is fine. */
void write_count_retried(struct request *rq, size_t n);

/* Whether an error ends the whole command instead of standing for one statement: interruptions, and
 * in a transaction those after which a client is to begin all of it again. All others, ours
 * included, stand beside what the other statements did. */
bool write_error_ends_command(const struct request *rq, int code);

/*
 * Returns INT_PARK: the schema thread has done its part, and the request runs again on a worker,
 * since a batch may be long and would hold up all DDL. The caller holds no lock.
 */
int write_run_on_worker(struct request *rq) MUST_CHECK;

#endif
