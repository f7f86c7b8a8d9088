/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Parsed forms of the reading commands, for the commands themselves and for explain. */
#ifndef RUNNEL_SERVER_COMMANDS_CMD_QUERY_H
#define RUNNEL_SERVER_COMMANDS_CMD_QUERY_H

#include "query/aggregate.h"
#include "query/find.h"
#include "server/commands/cmd_common.h"

struct find_command {
    struct find_spec spec;
    struct bv collation, let;
    int64_t batch_size; /* -1: not given */
    bool single_batch, no_timeout, return_key;
};
int find_command_parse(struct op *op, struct bv cmd, const char *ns,
                       struct find_command *ret) MUST_CHECK;

struct aggregate_command {
    struct aggregate_spec spec;
    struct bv pipeline, cursor, collation, let, hint;
    int64_t batch_size; /* -1: not given */
    bool explain, allow_disk_use, bypass, generate_v2_tokens;
};
/* `explaining`: the cursor option may be missing. */
int aggregate_command_parse(struct request *rq, struct bv cmd, bool explaining,
                            struct aggregate_command *ret) MUST_CHECK;

#endif
