/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The replica set as its one member shows it: status, configuration, and what a set of one cannot
 * do; and the commands that act on the oplog itself, appendOplogNote and pruneOplog.
 *
 * The configuration is made of --repl-set and --advertise and has version 1 for ever. Horizons:
 * applied is the visible one; durable, committed and majority are the durable one.
 */
#include "base/clock.h"
#include "base/fields.h"
#include "server/command.h"
#include "server/server.h"

enum { CONFIG_VERSION = 1, STATE_PRIMARY = 1, HEARTBEAT_MS = 2000, ELECTION_MS = 10000 };

static int64_t wall_ms(uint64_t optime)
{
    return (int64_t)(optime >> 32) * 1000;
}

static void write_optime(struct bw *w, const char *key, uint64_t ts, int64_t term)
{
    bw_doc_begin(w, key);
    bw_ts(w, "ts", ts);
    bw_i64(w, "t", term);
    bw_end(w);
}

/* --- replSetGetStatus ---------------------------------------------------------------------- */

static void write_optimes(struct bw *w, uint64_t visible, uint64_t durable, int64_t term)
{
    bw_doc_begin(w, "optimes");
    write_optime(w, "lastCommittedOpTime", durable, term);
    bw_date(w, "lastCommittedWallTime", wall_ms(durable));
    write_optime(w, "readConcernMajorityOpTime", durable, term);
    write_optime(w, "appliedOpTime", visible, term);
    write_optime(w, "durableOpTime", durable, term);
    bw_date(w, "lastAppliedWallTime", wall_ms(visible));
    bw_date(w, "lastDurableWallTime", wall_ms(durable));
    bw_end(w);
}

static void write_election(struct bw *w, const struct server *s, int64_t term)
{
    bw_doc_begin(w, "electionCandidateMetrics");
    bw_str(w, "lastElectionReason", "electionTimeout");
    bw_date(w, "lastElectionDate", s->start_wall_ms);
    bw_i64(w, "electionTerm", term);
    write_optime(w, "lastCommittedOpTimeAtElection", 0, -1);
    write_optime(w, "lastSeenOpTimeAtElection", 0, -1);
    bw_i32(w, "numVotesNeeded", 1);
    bw_f64(w, "priorityAtElection", 1.0);
    bw_i64(w, "electionTimeoutMillis", ELECTION_MS);
    bw_date(w, "newTermStartDate", s->start_wall_ms);
    bw_date(w, "wMajorityWriteAvailabilityDate", s->start_wall_ms);
    bw_end(w);
}

static void write_member(struct bw *w, const struct server *s, uint64_t visible, uint64_t durable,
                         int64_t term)
{
    bw_doc_begin(w, NULL);
    bw_i32(w, "_id", 0);
    bw_str(w, "name", s->host);
    bw_f64(w, "health", 1.0);
    bw_i32(w, "state", STATE_PRIMARY);
    bw_str(w, "stateStr", "PRIMARY");
    bw_i32(w, "uptime", (int32_t)((clock_mono_us() - s->start_us) / 1000000));
    write_optime(w, "optime", visible, term);
    bw_date(w, "optimeDate", wall_ms(visible));
    bw_date(w, "lastAppliedWallTime", wall_ms(visible));
    bw_date(w, "lastDurableWallTime", wall_ms(durable));
    bw_str(w, "syncSourceHost", "");
    bw_i32(w, "syncSourceId", -1);
    bw_str(w, "infoMessage", "");
    bw_ts(w, "electionTime", (uint64_t)(s->start_wall_ms / 1000) << 32 | 1);
    bw_date(w, "electionDate", s->start_wall_ms / 1000 * 1000);
    bw_i32(w, "configVersion", CONFIG_VERSION);
    bw_i32(w, "configTerm", (int32_t)term);
    bw_bool(w, "self", true);
    bw_str(w, "lastHeartbeatMessage", "");
    bw_end(w);
}

static const struct field status_fields[] = {
    {"initialSync", F_IGNORE, 0, 0},
    {NULL, 0, 0, 0},
};

int cmd_replSetGetStatus(struct request *rq)
{
    const struct server *s = rq->server;
    struct oplog *o = rq->op.database->oplog;
    uint64_t durable = oplog_durable(o); /* first: it may not pass what is shown as applied */
    uint64_t visible = oplog_visible(o);
    int64_t term = oplog_term(o);
    struct bw *w = rq->reply;
    char none;

    TRY_RETURN(fields_parse(&rq->op, "replSetGetStatus", status_fields, rq->op.cmd, FIELDS_COMMAND,
                            &none));
    bw_str(w, "set", s->settings.repl_set);
    bw_date(w, "date", clock_wall_ms());
    bw_i32(w, "myState", STATE_PRIMARY);
    bw_i64(w, "term", term);
    bw_str(w, "syncSourceHost", "");
    bw_i32(w, "syncSourceId", -1);
    bw_i64(w, "heartbeatIntervalMillis", HEARTBEAT_MS);
    bw_i32(w, "majorityVoteCount", 1);
    bw_i32(w, "writeMajorityCount", 1);
    bw_i32(w, "votingMembersCount", 1);
    bw_i32(w, "writableVotingMembersCount", 1);
    write_optimes(w, visible, durable, term);
    bw_ts(w, "lastStableRecoveryTimestamp", durable);
    write_election(w, s, term);
    bw_arr_begin(w, "members");
    write_member(w, s, visible, durable, term);
    bw_end(w);
    return 0;
}

/* --- replSetGetConfig ---------------------------------------------------------------------- */

struct get_config_args {
    bool commitment_status;
};

static const struct field get_config_fields[] = {
    {"commitmentStatus", F_BOOL, offsetof(struct get_config_args, commitment_status), 0},
    {NULL, 0, 0, 0},
};

static void write_config(struct bw *w, const struct server *s, int64_t term)
{
    bw_str(w, "_id", s->settings.repl_set);
    bw_i32(w, "version", CONFIG_VERSION);
    bw_i32(w, "term", (int32_t)term);
    bw_arr_begin(w, "members");
    bw_doc_begin(w, NULL);
    bw_i32(w, "_id", 0);
    bw_str(w, "host", s->host);
    bw_bool(w, "arbiterOnly", false);
    bw_bool(w, "buildIndexes", true);
    bw_bool(w, "hidden", false);
    bw_i32(w, "priority", 1);
    bw_bv(w, "tags", bv_empty_doc);
    bw_i64(w, "secondaryDelaySecs", 0);
    bw_i32(w, "votes", 1);
    bw_end(w);
    bw_end(w);
    bw_i64(w, "protocolVersion", 1);
    bw_bool(w, "writeConcernMajorityJournalDefault", true);
    bw_doc_begin(w, "settings");
    bw_bool(w, "chainingAllowed", true);
    bw_i32(w, "heartbeatIntervalMillis", HEARTBEAT_MS);
    bw_i32(w, "heartbeatTimeoutSecs", 10);
    bw_i32(w, "electionTimeoutMillis", ELECTION_MS);
    bw_i32(w, "catchUpTimeoutMillis", -1);
    bw_i32(w, "catchUpTakeoverDelayMillis", 30000);
    bw_bv(w, "getLastErrorModes", bv_empty_doc);
    bw_doc_begin(w, "getLastErrorDefaults");
    bw_i32(w, "w", 1);
    bw_i32(w, "wtimeout", 0);
    bw_end(w);
    bw_oid(w, "replicaSetId", s->replica_set_id);
    bw_end(w);
}

struct bv repl_config_doc(struct op *op)
{
    struct bw w;

    bw_init(&w, &op->arena);
    write_config(&w, op->server, oplog_term(op->database->oplog));
    return bw_done(&w);
}

int cmd_replSetGetConfig(struct request *rq)
{
    struct get_config_args args = {0};

    TRY_RETURN(fields_parse(&rq->op, "replSetGetConfig", get_config_fields, rq->op.cmd,
                            FIELDS_COMMAND, &args));
    bw_bv(rq->reply, "config", repl_config_doc(&rq->op));
    if (args.commitment_status)
        bw_bool(rq->reply, "commitmentStatus", true);
    return 0;
}

/* --- what a set of one cannot do ------------------------------------------------------------ */

int cmd_replSetInitiate(struct request *rq)
{
    return op_fail(&rq->op, ERR_ALREADY_INITIALIZED, "already initialized");
}

int cmd_replSetReconfig(struct request *rq)
{
    return op_fail(&rq->op, ERR_NEW_CONFIG_INCOMPATIBLE,
                   "the configuration of this one-member set comes from --repl-set and "
                   "--advertise; change them and restart");
}

struct step_down_args {
    bool force;
};

static const struct field step_down_fields[] = {
    {"force", F_BOOL, offsetof(struct step_down_args, force), 0},
    {"secondaryCatchUpPeriodSecs", F_IGNORE, 0, 0},
    {NULL, 0, 0, 0},
};

int cmd_replSetStepDown(struct request *rq)
{
    struct step_down_args args = {0};
    struct belem first;

    bv_first(rq->op.cmd, &first);
    if (!bv_is_number(first.v))
        return op_fail(&rq->op, ERR_TYPE_MISMATCH,
                       "Expected field \"replSetStepDown\" to have numeric type, but found %s",
                       bv_type_name(first.v.type));
    TRY_RETURN(fields_parse(&rq->op, "replSetStepDown", step_down_fields, rq->op.cmd,
                            FIELDS_COMMAND, &args));
    if (args.force)
        return op_fail(&rq->op, ERR_NOT_IMPLEMENTED,
                       "a one-member set has nobody to step down for");
    return op_fail(&rq->op, ERR_EXCEEDED_TIME_LIMIT,
                   "No electable secondaries caught up. Please use the replSetStepDown command "
                   "with the argument {force: true} to force node to step down.");
}

int cmd_replSetFreeze(struct request *rq)
{
    return op_fail(&rq->op, ERR_NOT_SECONDARY,
                   "cannot freeze node when primary or running for election. state: Primary");
}

/* --- acting on the oplog -------------------------------------------------------------------- */

static int need_oplog(struct request *rq)
{
    if (!oplog_hidden(rq->op.database->oplog))
        return 0;
    return op_fail(&rq->op, ERR_NO_REPLICATION_ENABLED,
                   "Must have replication set up to run \"%s\"", rq->cmd->name);
}

struct note_args {
    struct bv data;
};

static const struct field note_fields[] = {
    {"data", F_DOC, offsetof(struct note_args, data), FIELD_REQUIRED},
    {"maxClusterTime", F_TS, 0, FIELD_UNBUILT},
    {NULL, 0, 0, 0},
};

int cmd_appendOplogNote(struct request *rq)
{
    struct note_args args = {.data = BV_NONE};
    uint64_t optime;

    TRY_RETURN(
        fields_parse(&rq->op, "appendOplogNote", note_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    TRY_RETURN(need_oplog(rq));
    return oplog_noop(rq->op.database->oplog, &rq->op, args.data, &optime);
}

struct prune_args {
    struct bv now;
};

static const struct field prune_fields[] = {
    {"now", F_DATE, offsetof(struct prune_args, now), FIELD_NULL_OK},
    {NULL, 0, 0, 0},
};

/* {pruneOplog: 1, now: <date>}: applies the retention limits at once and to the entry, taking now
 * as the time. Replies {removed: <entries>, oldest: <timestamp of the oldest that is left>}. */
int cmd_pruneOplog(struct request *rq)
{
    struct prune_args args = {.now = BV_NONE};
    struct oplog *o = rq->op.database->oplog;
    int64_t removed;

    TRY_RETURN(
        fields_parse(&rq->op, "pruneOplog", prune_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    TRY_RETURN(need_oplog(rq));
    TRY_RETURN(oplog_prune(o, &rq->op,
                           bv_is_missing(args.now) ? oplog_retention_now_ms(o) : bv_i64(args.now),
                           &removed));
    rq->op.ack_flush = oplog_flush_ticket(o); /* what was answered as removed stays removed */
    bw_i64(rq->reply, "removed", removed);
    bw_ts(rq->reply, "oldest", oplog_oldest(o));
    return 0;
}
