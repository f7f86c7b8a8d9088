/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Rows that a blocking stage has no memory for: runs of values in a temporary table.
 *
 * A spill is one unlogged table "tmp-N" (swept at start-up if the process dies), holding runs that
 * are written one after the other and then read side by side. Key: run << 40 | position. Writing
 * commits as it goes; reading holds a transaction until spill_save(), after which it goes on where
 * it was. One thread at a time.
 */
#ifndef RUNNEL_STORAGE_SPILL_H
#define RUNNEL_STORAGE_SPILL_H

#include "storage/table.h"

#define SPILL_RUNS_MAX 4096

struct spill;

int spill_new(struct engine *e, struct op *op, struct spill **ret) MUST_CHECK;
/* Ends the transaction and drops the table. NULL: nothing. */
void spill_free(struct spill *s);

/* Begins the next run, to which spill_put() then appends. */
int spill_run_begin(struct spill *s, struct op *op) MUST_CHECK;
int spill_put(struct spill *s, struct op *op, struct bytes value) MUST_CHECK;
int spill_run_end(struct spill *s) MUST_CHECK;

uint32_t spill_runs(const struct spill *s);
/* The next value of a run; valid until the next call for that run or spill_save().
 * *ret_found false: the run is at its end. */
int spill_read(struct spill *s, struct op *op, uint32_t run, struct bytes *ret,
               bool *ret_found) MUST_CHECK;
/* Gives up the transaction between batches. */
void spill_save(struct spill *s);

#endif
