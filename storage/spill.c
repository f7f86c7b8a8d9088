/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "storage/spill.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "storage/table_write.h"

#define RUN_SHIFT    40
#define COMMIT_BYTES (4u * 1024 * 1024) /* written per transaction: bounds what the cache pins */

struct run {
    uint64_t next, end; /* keys */
    struct tcursor *cursor;
};

struct spill {
    struct engine *engine;
    char ident[IDENT_MAX];
    struct run *runs;
    uint32_t nruns;

    struct stx *stx; /* writing or reading; NULL: none */
    struct tcursor *writer;
    uint64_t next; /* key of the next value written */
    size_t uncommitted;
};

static _Atomic uint64_t spill_number;

int spill_new(struct engine *e, struct op *op, struct spill **ret)
{
    struct spill *s = mem_must_zero(1, sizeof(*s));
    int rc;

    s->engine = e;
    snprintf(s->ident, sizeof(s->ident), "tmp-%llu", (unsigned long long)++spill_number);
    TRY(engine_table_create(e, s->ident, TABLE_OPTIMES, false, op->err));
    *ret = s;
    return 0;

fail:
    free(s);
    return rc;
}

void spill_save(struct spill *s)
{
    for (uint32_t i = 0; i < s->nruns; i++) {
        tcursor_close(s->runs[i].cursor);
        s->runs[i].cursor = NULL;
    }
    tcursor_close(s->writer);
    s->writer = NULL;
    stx_rollback(s->stx);
    s->stx = NULL;
}

void spill_free(struct spill *s)
{
    if (s == NULL)
        return;
    spill_save(s);
    engine_table_drop_soon(s->engine, s->ident);
    free(s->runs);
    free(s);
}

static int begin_write(struct spill *s, struct op *op)
{
    TRY_RETURN(stx_begin(s->engine, op, &s->stx));
    s->uncommitted = 0;
    return tcursor_open(s->stx, s->ident, TABLE_OPTIMES, &s->writer);
}

static int commit(struct spill *s)
{
    struct stx *stx = s->stx;

    tcursor_close(s->writer);
    s->writer = NULL;
    s->stx = NULL;
    return stx_commit(stx);
}

int spill_run_begin(struct spill *s, struct op *op)
{
    struct run *runs;

    if (s->nruns == SPILL_RUNS_MAX)
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "a stage spilled more than %d times",
                       SPILL_RUNS_MAX);
    spill_save(s);
    runs = mem_must_resize(s->runs, (s->nruns + 1) * sizeof(*runs));
    s->runs = runs;
    s->next = (uint64_t)(s->nruns + 1) << RUN_SHIFT;
    runs[s->nruns++] = (struct run){s->next, s->next, NULL};
    return begin_write(s, op);
}

int spill_put(struct spill *s, struct op *op, struct bytes value)
{
    if (s->uncommitted > COMMIT_BYTES) {
        TRY_RETURN(commit(s));
        TRY_RETURN(begin_write(s, op));
    }
    TRY_RETURN(tcursor_insert_num(s->writer, s->next, value));
    s->runs[s->nruns - 1].end = ++s->next;
    s->uncommitted += value.len;
    return 0;
}

int spill_run_end(struct spill *s)
{
    return commit(s);
}

uint32_t spill_runs(const struct spill *s)
{
    return s->nruns;
}

int spill_read(struct spill *s, struct op *op, uint32_t run, struct bytes *ret, bool *ret_found)
{
    struct run *r = &s->runs[run];
    bool found;

    *ret_found = false;
    if (r->next == r->end)
        return 0;
    if (s->stx == NULL)
        TRY_RETURN(stx_begin(s->engine, op, &s->stx));
    if (r->cursor == NULL) {
        TRY_RETURN(tcursor_open(s->stx, s->ident, TABLE_OPTIMES, &r->cursor));
        TRY_RETURN(tcursor_seek_num(r->cursor, r->next, SEEK_EXACT, &found));
    } else {
        TRY_RETURN(tcursor_next(r->cursor, &found));
    }
    if (!found || tcursor_num(r->cursor) != r->next)
        return op_fail(op, ERR_INTERNAL, "a spilled row is not there");
    r->next++;
    *ret = tcursor_value(r->cursor);
    *ret_found = true;
    return 0;
}
