/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A parsed bulkWrite command: its namespaces and its operations. All in the request's arena. */
#ifndef RUNNEL_SERVER_COMMANDS_BULK_REQUEST_H
#define RUNNEL_SERVER_COMMANDS_BULK_REQUEST_H

#include "query/write.h"
#include "server/commands/cmd_common.h"

enum bulk_kind { BULK_INSERT, BULK_UPDATE, BULK_DELETE };

/* A collection that operations name, once, however often nsInfo has it. */
struct bulk_target {
    const char *ns;
    bool used;     /* by an operation */
    bool may_grow; /* an insert or an upsert may have to make the collection */
};

/* One entry of nsInfo. */
struct bulk_ns {
    const char *ns;
    struct bv uuid;  /* collectionUUID, or BV_NONE */
    uint32_t target; /* index */
};

struct bulk_op {
    struct bv doc; /* as sent; its fields are checked already */
    uint32_t ns;   /* index in nsInfo */
    enum bulk_kind kind;
};

struct bulk_request {
    bool ordered, errors_only, keep_empty_ts;
    int64_t batch_size; /* of the reply's cursor; -1: not given */
    struct let_vars let;
    struct bulk_ns *ns;
    struct bulk_target *targets; /* sorted by name */
    size_t nns, ntargets;
    struct bulk_op *ops;
    struct bv *documents; /* of the inserts, at their operation's place */
    size_t nops;
};

/* Parses and checks the whole command; what is wrong in one operation's values, though, is told
 * when it is its turn. */
int bulk_request_parse(struct op *op, struct bulk_request *ret) MUST_CHECK;

/* The statement of an update or delete operation. */
int bulk_update_stmt(struct op *op, const struct bulk_request *b, size_t at,
                     struct update_stmt *ret) MUST_CHECK;
int bulk_delete_stmt(struct op *op, const struct bulk_request *b, size_t at,
                     struct delete_stmt *ret) MUST_CHECK;

#endif
