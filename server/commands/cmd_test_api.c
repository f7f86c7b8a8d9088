/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Commands that drivers' tests of the Stable API run. They do nothing: what matters is which API
 * version each of them is in.
 */
#include "server/command.h"

static const struct field fields[] = {{NULL, 0, 0, 0}};

static int nothing(struct request *rq)
{
    return fields_parse(&rq->op, rq->cmd->name, fields, rq->op.cmd, FIELDS_COMMAND, NULL);
}

int cmd_testDeprecation(struct request *rq)
{
    return nothing(rq);
}

int cmd_testDeprecationInVersion2(struct request *rq)
{
    return nothing(rq);
}

int cmd_testRemoval(struct request *rq)
{
    return nothing(rq);
}

int cmd_testVersion2(struct request *rq)
{
    return nothing(rq);
}

int cmd_testVersions1And2(struct request *rq)
{
    return nothing(rq);
}
