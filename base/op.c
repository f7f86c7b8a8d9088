/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/op.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"

static struct error *error_new(void)
{
    struct error *err = mem_must(sizeof(*err));

    error_clear(err);
    return err;
}

void op_init(struct op *op)
{
    memset(op, 0, sizeof(*op));
    arena_init(&op->arena);
    op->err = error_new();
    op->start_us = clock_mono_us();
}

static void drop_resume(struct op *op)
{
    if (op->resume != NULL && op->resume_free != NULL)
        op->resume_free(op->resume);
    op->resume = NULL;
}

void op_renew(struct op *op)
{
    struct arena arena;
    struct error *err;

    drop_resume(op);
    op_wake(op);
    arena_reset(&op->arena);
    arena = op->arena;
    err = op->err;
    memset(op, 0, sizeof(*op));
    op->arena = arena;
    op->err = err;
    error_clear(err);
    op->start_us = clock_mono_us();
}

void op_rest(struct op *op)
{
    arena_fini(&op->arena);
    free(op->err);
    op->err = NULL;
}

void op_wake(struct op *op)
{
    if (op->err == NULL)
        op->err = error_new();
}

void op_fini(struct op *op)
{
    drop_resume(op);
    op_rest(op);
}

int op_fail(struct op *op, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    error_vset(op->err, code, fmt, ap);
    va_end(ap);
    return code;
}

int op_no_memory(struct op *op)
{
    return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory");
}

int op_dup(struct op *op, struct arena *a, struct bv v, struct bv *ret)
{
    uint8_t *p;

    if (v.len > 0) {
        p = arena_try(a, v.len);
        if (p == NULL)
            return op_no_memory(op);
        memcpy(p, v.p, v.len);
        v.p = p;
    }
    *ret = v;
    return 0;
}

void op_note_stuck(struct op *op, bool is)
{
    if (op->stuck != NULL)
        op->stuck(op, is);
}

int op_check(struct op *op)
{
    int code = atomic_load_explicit(&op->interrupt, memory_order_relaxed);

    if (code == ERR_INTERRUPTED_AT_SHUTDOWN)
        return op_fail(op, code, "interrupted at shutdown");
    if (code != 0)
        return op_fail(op, code, "operation was interrupted");
    if (op->deadline_us != 0 && clock_mono_us() >= op->deadline_us)
        return op_fail(op, ERR_MAX_TIME_MS_EXPIRED, "operation exceeded time limit");
    return 0;
}
