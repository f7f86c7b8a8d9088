/* SPDX-License-Identifier: GPL-3.0-or-later */
/* runnelFault: arms and disarms the fault points of base/faults.def, for tests. */
#include "base/fault.h"
#include "server/command.h"

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
    bw_i64(&rq->reply, "hits", fault_hits(name));
    return fault_set(a.spec, &op->err);
}
