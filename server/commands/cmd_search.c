/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The commands of Atlas search, which a MongoDB outside Atlas refuses by saying so. */
#include "server/command.h"

static int refuse(struct request *rq)
{
    return op_fail(&rq->op, ERR_SEARCH_NOT_ENABLED,
                   "Using Atlas Search Database Commands requires additional configuration: %s is "
                   "only for Atlas",
                   rq->cmd->name);
}

int cmd_createSearchIndexes(struct request *rq)
{
    return refuse(rq);
}

int cmd_dropSearchIndex(struct request *rq)
{
    return refuse(rq);
}

int cmd_listSearchIndexes(struct request *rq)
{
    return refuse(rq);
}

int cmd_updateSearchIndex(struct request *rq)
{
    return refuse(rq);
}
