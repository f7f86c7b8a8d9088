/* SPDX-License-Identifier: GPL-3.0-or-later */
/* For tests: runnelFault arms and disarms the fault points of base/faults.def, runnelClock shifts
 * the wall clock of this process. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "server/command.h"

#define SHIFT_MAX_MS (INT64_C(10) * 366 * 86400 * 1000)

struct fault_args {
    const char *spec;
};

static const struct field fields[] = {
    {"runnelFault", F_STR, offsetof(struct fault_args, spec), FIELD_REQUIRED},
    {NULL, 0, 0, 0},
};

/* {runnelFault: "name:action[:nth]"} or {runnelFault: "off"}: {hits} of the point named. */
int cmd_runnelFault(struct request *rq)
{
    struct op *op = &rq->op;
    struct fault_args a = {NULL};
    const char *name;

    TRY_RETURN(fields_parse(op, "runnelFault", fields, op->cmd, FIELDS_COMMAND, &a));
    if (strcmp(a.spec, "off") == 0) {
        fault_clear_all();
        return 0;
    }
    name = arena_strndup(&op->arena, a.spec, strcspn(a.spec, ":"));
    bw_i64(rq->reply, "hits", fault_hits(name));
    return fault_set(a.spec, op->err);
}

struct clock_args {
    int64_t shift_ms;
};

static const struct field clock_fields[] = {
    {"runnelClock", F_INT, offsetof(struct clock_args, shift_ms), FIELD_REQUIRED},
    {NULL, 0, 0, 0},
};

/* {runnelClock: <ms>}: from now on the wall clock shows so much more; {now: <date>}. */
int cmd_runnelClock(struct request *rq)
{
    struct clock_args a = {0};

    TRY_RETURN(fields_parse(&rq->op, "runnelClock", clock_fields, rq->op.cmd, FIELDS_COMMAND, &a));
    if (llabs(a.shift_ms) > SHIFT_MAX_MS)
        return op_fail(&rq->op, ERR_BAD_VALUE, "a shift of more than ten years");
    clock_test_shift_wall(a.shift_ms);
    bw_date(rq->reply, "now", clock_wall_ms());
    return 0;
}
