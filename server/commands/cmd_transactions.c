/* SPDX-License-Identifier: GPL-3.0-or-later */
/* commitTransaction and abortTransaction. What they mean stands in server/transactions.c. */
#include "server/transactions.h"

/* Fields of coordinators and of recovery by routers have no meaning in a set of one member. */
static const struct field end_fields[] = {
    {"commitTimestamp", F_IGNORE, 0, 0},
    {"coordinator", F_IGNORE, 0, 0},
    {"recoveryToken", F_IGNORE, 0, 0},
    {NULL, 0, 0, 0},
};

static int parse_end(struct request *rq)
{
    char none;

    return fields_parse(&rq->op, rq->cmd->name, end_fields, rq->op.cmd, FIELDS_COMMAND, &none);
}

int cmd_commitTransaction(struct request *rq)
{
    TRY_RETURN(parse_end(rq));
    return transaction_commit(rq);
}

int cmd_abortTransaction(struct request *rq)
{
    TRY_RETURN(parse_end(rq));
    return transaction_abort(rq);
}
