/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Transactions: the rules that a request breaks or keeps by its own words. */
#include "server/server.h"
#include "server/transactions.h"

static int refuse(struct request *rq, const char *text)
{
    return op_fail(&rq->op, ERR_NOT_SUPPORTED_IN_TXN, "%s", text);
}

/* --- fields ----------------------------------------------------------------------------------- */

static int check_fields(struct request *rq)
{
    struct op *op = &rq->op;

    if (rq->env->txn_number >= 0 && bv_is_missing(rq->env->lsid))
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "Transaction number requires a session ID to also be specified");
    if (rq->env->has_autocommit && rq->env->txn_number < 0)
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "'autocommit' field requires a transaction number to also be specified");
    if (rq->env->start_transaction && !rq->env->has_autocommit)
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "'startTransaction' field requires 'autocommit' field to also be "
                       "specified");
    return 0;
}

/* txnNumber alone: a retryable write. */
static int check_retryable(struct request *rq)
{
    if ((rq->cmd->flags & CMD_NO_AUTH) != 0)
        return op_fail(&rq->op, 50889, "It is illegal to provide a txnNumber for this command");
    if ((rq->cmd->flags & CMD_RETRYABLE) == 0)
        return op_fail(&rq->op, 50768,
                       "txnNumber may only be provided for multi-document transactions and "
                       "retryable write commands. autocommit:false was not provided, and %s is not "
                       "a retryable write command.",
                       rq->cmd->name);
    return 0;
}

static int check_concerns(struct request *rq)
{
    struct op *op = &rq->op;

    if (rq->env->wc.given && !txn_rules_ends(rq->cmd))
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "writeConcern is not allowed within a multi-statement transaction");
    if (!rq->env->read_concern_given)
        return 0;
    if (!rq->env->start_transaction)
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "Only the first command in a transaction may specify a readConcern");
    if (rq->env->read_level == READ_AVAILABLE || rq->env->read_level == READ_LINEARIZABLE)
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "The readConcern level must be either 'local' (default), 'majority' or "
                       "'snapshot' in order to run in a transaction");
    if (rq->env->at_cluster_time != 0)
        return op_fail(op, ERR_NOT_IMPLEMENTED,
                       "readConcern atClusterTime in a transaction is not supported");
    return 0;
}

/* --- what may run ----------------------------------------------------------------------------- */

bool txn_rules_ends(const struct command *cmd)
{
    return cmd != NULL && (cmd->run == cmd_commitTransaction || cmd->run == cmd_abortTransaction);
}

static int check_start(struct request *rq)
{
    if (!rq->env->start_transaction)
        return 0;
    if (rq->cmd->run == cmd_killCursors)
        return refuse(rq, "Cannot run killCursors as the first operation in a multi-document "
                          "transaction.");
    if (rq->cmd->run == cmd_commitTransaction)
        return refuse(rq, "Cannot start a transaction with a commit");
    if (rq->cmd->run == cmd_abortTransaction)
        return refuse(rq, "Cannot start a transaction with an abort");
    return 0;
}

static int check_command(struct request *rq)
{
    if ((rq->cmd->flags & CMD_NO_AUTH) != 0)
        return refuse(rq, "This command is not supported in transactions");
    if (rq->cmd->run == cmd_count)
        return refuse(rq, "Cannot run 'count' in a multi-document transaction. Please see "
                          "http://dochub.mongodb.org/core/transaction-count for a recommended "
                          "alternative.");
    if ((rq->cmd->flags & CMD_TXN) == 0)
        return op_fail(&rq->op, ERR_NOT_SUPPORTED_IN_TXN,
                       "Cannot run '%s' in a multi-document transaction.", rq->cmd->name);
    return check_start(rq);
}

/* `coll` may be NULL. */
static int check_name(struct request *rq, const char *db, const char *coll)
{
    if (strcmp(db, "local") == 0 || strcmp(db, "config") == 0)
        return op_fail(&rq->op, ERR_NOT_SUPPORTED_IN_TXN,
                       "Cannot run command against the '%s' database in a transaction.", db);
    if (coll != NULL && (strcmp(coll, "system.profile") == 0 || strcmp(coll, "system.views") == 0))
        return op_fail(&rq->op, ERR_NOT_SUPPORTED_IN_TXN,
                       "Cannot run command against the '%s.%s' namespace in a transaction.", db,
                       coll);
    return 0;
}

/* bulkWrite names many; what is no name at all is the command's matter. */
static int check_bulk_namespaces(struct request *rq)
{
    struct biter it = biter(bv_get(rq->op.cmd, "nsInfo"));
    struct belem e;

    while (biter_next(&it, &e)) {
        struct bv ns = e.v.type == BV_DOC ? bv_get(e.v, "ns") : BV_NONE;
        const char *name = ns.type == BV_STRING ? bv_str(ns, NULL) : "", *dot = strchr(name, '.');

        if (dot != NULL)
            TRY_RETURN(
                check_name(rq, arena_strndup(&rq->op.arena, name, (size_t)(dot - name)), dot + 1));
    }
    return 0;
}

static int check_namespace(struct request *rq)
{
    struct bv first = bv_first(rq->op.cmd, NULL);

    if (rq->cmd->run == cmd_bulkWrite)
        return check_bulk_namespaces(rq);
    return check_name(rq, rq->op.db, first.type == BV_STRING ? bv_str(first, NULL) : NULL);
}

/* Stages that show or change more than the transaction's snapshot. Sorted by name. */
static const char *const outside_stages[] = {
    "$changeStream",      "$collStats",    "$currentOp", "$indexStats", "$listLocalSessions",
    "$listSearchIndexes", "$listSessions", "$merge",     "$out",        "$planCacheStats",
};

int txn_rules_stages(struct request *rq)
{
    struct biter it = biter(bv_get(rq->op.cmd, "pipeline"));
    struct belem e, stage;

    while (biter_next(&it, &e)) {
        if (e.v.type != BV_DOC || bv_is_missing(bv_first(e.v, &stage)))
            continue;
        for (size_t i = 0; i < sizeof(outside_stages) / sizeof(outside_stages[0]); i++) {
            if (strcmp(stage.key, outside_stages[i]) == 0)
                return op_fail(&rq->op, ERR_NOT_SUPPORTED_IN_TXN,
                               "Stage not supported inside of a multi-document transaction: %s",
                               stage.key);
        }
    }
    return 0;
}

int txn_rules_check(struct request *rq)
{
    TRY_RETURN(check_fields(rq));
    if (rq->env->txn_number < 0)
        return 0;
    if (!rq->env->has_autocommit)
        return check_retryable(rq);
    TRY_RETURN(check_command(rq));
    TRY_RETURN(check_namespace(rq));
    return check_concerns(rq);
}

/* --- labels ----------------------------------------------------------------------------------- */

bool txn_rules_transient(const struct request *rq, int code)
{
    if (rq->env->txn_number < 0 || !rq->env->has_autocommit)
        return false;
    switch (code) {
    case ERR_WRITE_CONFLICT:
    case ERR_LOCK_TIMEOUT:
    case ERR_PREPARED_TRANSACTION:
    case ERR_SNAPSHOT_TOO_OLD:
    case ERR_SNAPSHOT_UNAVAILABLE:
    case ERR_MIGRATION_CONFLICT:
    case ERR_STALE_EPOCH:
    case ERR_STALE_CONFIG:
    case 249: /* StaleDbVersion */
    case 250: /* StaleChunkHistory */
    case 343: /* ShardCannotRefreshDueToLocksHeld */
        return true;
    default:
        break;
    }
    if (txn_rules_ends(rq->cmd))
        return code == ERR_NO_SUCH_TRANSACTION;
    return code == ERR_NO_SUCH_TRANSACTION || error_is_retriable(code);
}
