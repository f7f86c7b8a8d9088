/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * serverStatus: a head that is always there, then sections, one function each in the table below,
 * in MongoDB's (alphabetical) order, mem and metrics last. {serverStatus: 1, repl: 0} leaves a
 * section out.
 */
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "query/change_stream.h"
#include "query/txn.h"
#include "server/command.h"
#include "server/cursors.h"
#include "server/executor.h"
#include "server/server.h"
#include "server/sessions.h"
#include "server/snapshots.h"
#include "server/stats.h"
#include "server/transactions.h"

#define COUNTER(rq, name) atomic_load_explicit(&(rq)->server->counters.name, memory_order_relaxed)

/* --- process ------------------------------------------------------------------------------- */

static void section_asserts(struct request *rq, struct bw *w)
{
    bw_i32(w, "regular", 0);
    bw_i32(w, "warning", 0);
    bw_i32(w, "msg", 0);
    stats_int(w, "user", COUNTER(rq, asserts_user));
    bw_i32(w, "rollovers", 0);
}

static void section_connections(struct request *rq, struct bw *w)
{
    int64_t current = COUNTER(rq, connections);

    stats_int(w, "current", current);
    stats_int(w, "available", rq->server->settings.max_connections - current);
    stats_int(w, "totalCreated", COUNTER(rq, connections_created));
    stats_int(w, "rejected", COUNTER(rq, refused));
    stats_int(w, "active", current - COUNTER(rq, exhaust_hello));
    stats_int(w, "threaded", current);
    bw_i32(w, "exhaustIsMaster", 0);
    stats_int(w, "exhaustHello", COUNTER(rq, exhaust_hello));
    stats_int(w, "awaitingTopologyChanges", COUNTER(rq, awaiting_hello));
}

static void section_extra_info(struct request *rq, struct bw *w)
{
    struct rusage u;

    (void)rq;
    getrusage(RUSAGE_SELF, &u);
    bw_str(w, "note", "fields vary by platform");
    bw_i64(w, "user_time_us", u.ru_utime.tv_sec * 1000000LL + u.ru_utime.tv_usec);
    bw_i64(w, "system_time_us", u.ru_stime.tv_sec * 1000000LL + u.ru_stime.tv_usec);
    bw_i64(w, "maximum_resident_set_kb", u.ru_maxrss);
    bw_i64(w, "input_blocks", u.ru_inblock);
    bw_i64(w, "output_blocks", u.ru_oublock);
    bw_i64(w, "page_reclaims", u.ru_minflt);
    bw_i64(w, "page_faults", u.ru_majflt);
    bw_i64(w, "voluntary_context_switches", u.ru_nvcsw);
    bw_i64(w, "involuntary_context_switches", u.ru_nivcsw);
}

static void section_mem(struct request *rq, struct bw *w)
{
    FILE *f = fopen("/proc/self/statm", "re");
    long virtual_pages = 0, resident_pages = 0, page = sysconf(_SC_PAGESIZE);

    (void)rq;
    if (f != NULL) {
        if (fscanf(f, "%ld %ld", &virtual_pages, &resident_pages) != 2)
            virtual_pages = resident_pages = 0;
        fclose(f);
    }
    bw_i32(w, "bits", (int32_t)sizeof(void *) * 8);
    stats_int(w, "resident", resident_pages * page / (1024 * 1024));
    stats_int(w, "virtual", virtual_pages * page / (1024 * 1024));
    bw_bool(w, "supported", true);
}

static void section_network(struct request *rq, struct bw *w)
{
    bw_i64(w, "bytesIn", COUNTER(rq, bytes_in));
    bw_i64(w, "bytesOut", COUNTER(rq, bytes_out));
    bw_i64(w, "physicalBytesIn", COUNTER(rq, bytes_in));
    bw_i64(w, "physicalBytesOut", COUNTER(rq, bytes_out));
    bw_i64(w, "numSlowDNSOperations", 0);
    bw_i64(w, "numSlowSSLOperations", 0);
    bw_i64(w, "numRequests", COUNTER(rq, requests));
    /* Our own: what slow clients make the server hold, and how many it got rid of. */
    bw_i64(w, "inFlightBytes", COUNTER(rq, in_flight_bytes));
    bw_i64(w, "unsentBytes", COUNTER(rq, unsent_bytes));
    bw_i64(w, "stalledClients", COUNTER(rq, stalled));
}

static void section_security(struct request *rq, struct bw *w)
{
    (void)rq;
    bw_doc_begin(w, "authentication");
    bw_bv(w, "mechanisms", bv_empty_doc);
    bw_end(w);
}

/* --- work ---------------------------------------------------------------------------------- */

static void write_split(struct bw *w, const char *key, const char *sum, int64_t n)
{
    bw_doc_begin(w, key);
    stats_int(w, sum, n);
    bw_i32(w, "readers", 0);
    bw_i32(w, "writers", 0);
    bw_end(w);
}

static void section_global_lock(struct request *rq, struct bw *w)
{
    struct executor_stats es;

    executor_stats(rq->server->executor, &es);
    bw_i64(w, "totalTime", clock_mono_us() - rq->server->start_us);
    write_split(w, "currentQueue", "total", es.queued);
    write_split(w, "activeClients", "total", es.workers - es.idle);
}

static void section_session_cache(struct request *rq, struct bw *w)
{
    int64_t n = sessions_count(rq->server->sessions);

    stats_int(w, "activeSessionsCount", n);
    stats_int(w, "sessionCatalogSize", n);
}

static void section_opcounters(struct request *rq, struct bw *w)
{
    bw_i64(w, "insert", COUNTER(rq, op_insert));
    bw_i64(w, "query", COUNTER(rq, op_query));
    bw_i64(w, "update", COUNTER(rq, op_update));
    bw_i64(w, "delete", COUNTER(rq, op_delete));
    bw_i64(w, "getmore", COUNTER(rq, op_getmore));
    bw_i64(w, "command", COUNTER(rq, op_command));
}

/* Operations applied from another member: there is none. */
static void section_opcounters_repl(struct request *rq, struct bw *w)
{
    static const char *const names[] = {"insert", "query",   "update",
                                        "delete", "getmore", "command"};

    (void)rq;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        bw_i64(w, names[i], 0);
}

static void section_transactions(struct request *rq, struct bw *w)
{
    struct transaction_stats n;

    transactions_stats(rq->server->transactions, &n);
    bw_i64(w, "retriedCommandsCount", COUNTER(rq, retried_commands));
    bw_i64(w, "retriedStatementsCount", COUNTER(rq, retried_statements));
    bw_i64(w, "transactionsCollectionWriteCount", n.record_writes);
    bw_i64(w, "currentActive", n.active);
    bw_i64(w, "currentInactive", n.open - n.active);
    bw_i64(w, "currentOpen", n.open);
    bw_i64(w, "totalAborted", n.aborted);
    bw_i64(w, "totalCommitted", n.committed);
    bw_i64(w, "totalStarted", n.started);
    bw_i64(w, "totalPrepared", 0);
    bw_i64(w, "totalPreparedThenCommitted", 0);
    bw_i64(w, "totalPreparedThenAborted", 0);
    bw_i64(w, "currentPrepared", 0);
}

/* Those that were asked for: as MongoDB, which has no row of a command before its first run. */
static void write_commands(struct request *rq, struct bw *w)
{
    const struct command *cmd;

    bw_doc_begin(w, "commands");
    bw_i64(w, "<UNKNOWN>", COUNTER(rq, unknown_commands));
    for (size_t i = 0; (cmd = command_at(i)) != NULL; i++) {
        int64_t total = COUNTER(rq, commands[i].total);

        if (total == 0)
            continue;
        bw_doc_begin(w, cmd->name);
        bw_i64(w, "failed", COUNTER(rq, commands[i].failed));
        bw_i64(w, "total", total);
        bw_end(w);
    }
    bw_end(w);
}

static void section_metrics(struct request *rq, struct bw *w)
{
    struct change_stream_stats events;
    struct txn_table_stats txns;
    struct cursor_stats cs;

    txn_table_stats(rq->op.database->txns, &txns);
    change_stream_stats(&events);
    cursors_stats(rq->server->cursors, &cs);
    bw_doc_begin(w, "changeStreams");
    bw_i64(w, "open", cs.change_streams);
    bw_i64(w, "parked", cs.parked);
    bw_i64(w, "eventsSent", events.sent);
    bw_i64(w, "largeEventsFailed", events.large_failed);
    bw_i64(w, "largeEventsSplit", events.large_split);
    bw_end(w);
    write_commands(rq, w);
    bw_doc_begin(w, "cursor");
    bw_i64(w, "timedOut", cs.timed_out);
    bw_doc_begin(w, "open");
    bw_i64(w, "noTimeout", cs.no_timeout);
    bw_i64(w, "pinned", cs.pinned);
    bw_i64(w, "total", cs.open);
    bw_end(w);
    bw_end(w);
    bw_doc_begin(w, "operation");
    bw_i64(w, "writeConflicts", txns.write_conflicts);
    bw_end(w);
}

/* --- replication and storage ---------------------------------------------------------------- */

static void section_oplog(struct request *rq, struct bw *w)
{
    struct oplog_stats os;
    double seconds;

    oplog_stats(rq->op.database->oplog, &os);
    seconds = os.last > os.first ? (double)(os.last >> 32) - (double)(os.first >> 32) : 0;
    bw_ts(w, "first", os.first);
    bw_ts(w, "last", os.last);
    bw_i64(w, "bytes", os.bytes);
    bw_i64(w, "entries", os.entries);
    bw_f64(w, "hours", seconds / 3600);
    bw_i64(w, "segments", os.segments);
    bw_i64(w, "commits", os.commits);
    bw_i64(w, "flushes", os.flushes);
    bw_i64(w, "waitingStreams", os.waiting_streams);
}

static void write_optime(struct bw *w, const char *key, uint64_t ts, int64_t term)
{
    bw_doc_begin(w, key);
    bw_ts(w, "ts", ts);
    bw_i64(w, "t", term);
    bw_end(w);
}

static void section_repl(struct request *rq, struct bw *w)
{
    const struct server *s = rq->server;
    struct oplog *o = rq->op.database->oplog;
    uint64_t durable = oplog_durable(o), visible = oplog_visible(o);
    int64_t term = oplog_term(o);

    bw_arr_begin(w, "hosts");
    bw_str(w, NULL, s->host);
    bw_end(w);
    bw_str(w, "setName", s->settings.repl_set);
    bw_i32(w, "setVersion", 1);
    bw_bool(w, "isWritablePrimary", true);
    bw_bool(w, "ismaster", true);
    bw_bool(w, "secondary", false);
    bw_str(w, "primary", s->host);
    bw_str(w, "me", s->host);
    bw_doc_begin(w, "lastWrite");
    write_optime(w, "opTime", visible, term);
    bw_date(w, "lastWriteDate", (int64_t)(visible >> 32) * 1000);
    write_optime(w, "majorityOpTime", durable, term);
    bw_date(w, "majorityWriteDate", (int64_t)(durable >> 32) * 1000);
    bw_end(w);
    bw_i32(w, "rbid", 1);
}

/* Our own: who works and who waits, and what the allocator has from the system. */
static void section_runnel(struct request *rq, struct bw *w)
{
    struct executor_stats es;
    struct heap_stats m;

    heap_stats(&m);
    executor_stats(rq->server->executor, &es);
    bw_doc_begin(w, "executor");
    stats_int(w, "workers", es.workers);
    stats_int(w, "idle", es.idle);
    stats_int(w, "stuck", es.stuck);
    stats_int(w, "queued", es.queued);
    stats_int(w, "parked", COUNTER(rq, parked));
    bw_end(w);
    bw_doc_begin(w, "memory");
    bw_str(w, "allocator", m.allocator);
    bw_i64(w, "heapBytes", m.heap_bytes);
    bw_i64(w, "heapUsedBytes", m.used_bytes);
    bw_i64(w, "mappedBytes", m.mapped_bytes);
    bw_end(w);
}

static void section_storage_engine(struct request *rq, struct bw *w)
{
    bw_str(w, "name", "wiredTiger");
    bw_bool(w, "supportsCommittedReads", true);
    bw_bool(w, "oldestRequiredTimestampForCrashRecovery", false);
    bw_bool(w, "supportsPendingDrops", true);
    bw_bool(w, "supportsSnapshotReadConcern", true);
    bw_bool(w, "readOnly", false);
    bw_bool(w, "persistent", !rq->server->settings.memory);
    bw_bool(w, "backupCursorOpen", false);
}

static void write_tickets(struct bw *w, const char *key, const struct engine_stats *es)
{
    bw_doc_begin(w, key);
    stats_int(w, "out", es->sessions_open);
    stats_int(w, "available", es->sessions_max - es->sessions_open);
    stats_int(w, "totalTickets", es->sessions_max);
    bw_end(w);
}

/* As MongoDB shows optimes here: "Nov 30 23:59:59:1". */
static void write_pretty(struct bw *w, const char *key, uint64_t ts)
{
    time_t secs = (time_t)(ts >> 32);
    char buf[48];
    struct tm tm;
    size_t n;

    gmtime_r(&secs, &tm);
    n = strftime(buf, sizeof(buf), "%b %e %H:%M:%S", &tm);
    snprintf(buf + n, sizeof(buf) - n, ":%x", (unsigned)ts);
    bw_str(w, key, buf);
}

/* The snapshots that reads with readConcern snapshot may go back to: those that are pinned. */
static void write_snapshot_window(struct request *rq, struct bw *w)
{
    struct snapshots_stats n;
    uint64_t durable = oplog_durable(rq->op.database->oplog), oldest;

    snapshots_stats(rq->server->snapshots, &n);
    oldest = n.oldest == 0 ? durable : n.oldest;
    bw_i64(w, "total number of SnapshotTooOld errors", n.too_old);
    bw_i64(w, "minimum target snapshot window size in seconds",
           snapshots_window_s(rq->server->snapshots));
    bw_i64(w, "current available snapshot window size in seconds",
           durable > oldest ? (int64_t)(durable >> 32) - (int64_t)(oldest >> 32) : 0);
    write_pretty(w, "latest majority snapshot timestamp available", durable);
    write_pretty(w, "oldest majority snapshot timestamp available", oldest);
    bw_i64(w, "pinned timestamp requests", n.pinned);
    bw_ts(w, "min pinned timestamp", n.oldest);
}

static void section_wired_tiger(struct request *rq, struct bw *w)
{
    struct engine_stats es;

    engine_stats(rq->op.database->engine, &es);
    bw_doc_begin(w, "cache");
    bw_i64(w, "bytes currently in the cache", es.cache_bytes);
    bw_i64(w, "maximum bytes configured", es.cache_max);
    bw_i64(w, "tracked dirty bytes in the cache", es.cache_dirty);
    bw_end(w);
    bw_doc_begin(w, "concurrentTransactions");
    write_tickets(w, "read", &es);
    write_tickets(w, "write", &es);
    bw_end(w);
    bw_doc_begin(w, "log");
    bw_i64(w, "log bytes written", es.log_bytes_written);
    bw_end(w);
    bw_doc_begin(w, "session");
    bw_i64(w, "open cursor count", es.wt_cursors);
    bw_i64(w, "open session count", es.wt_sessions);
    bw_end(w);
    bw_doc_begin(w, "snapshot-window-settings");
    write_snapshot_window(rq, w);
    bw_end(w);
    bw_doc_begin(w, "transaction");
    bw_i64(w, "transaction checkpoints", es.checkpoints);
    bw_end(w);
}

/* --- the table ------------------------------------------------------------------------------ */

struct section {
    const char *name;
    void (*write)(struct request *rq, struct bw *w);
    bool of_oplog; /* not shown with --no-oplog */
};

static const struct section sections[] = {
    {"asserts", section_asserts, false},
    {"connections", section_connections, false},
    {"extra_info", section_extra_info, false},
    {"globalLock", section_global_lock, false},
    {"logicalSessionRecordCache", section_session_cache, false},
    {"network", section_network, false},
    {"opcounters", section_opcounters, false},
    {"opcountersRepl", section_opcounters_repl, false},
    {"oplog", section_oplog, true},
    {"repl", section_repl, false},
    {"runnel", section_runnel, false},
    {"security", section_security, false},
    {"storageEngine", section_storage_engine, false},
    {"transactions", section_transactions, false},
    {"wiredTiger", section_wired_tiger, false},
    {"mem", section_mem, false},
    {"metrics", section_metrics, false},
};

static void write_head(struct request *rq)
{
    const struct server *s = rq->server;
    struct bw *w = rq->reply;
    int64_t up_ms = (clock_mono_us() - s->start_us) / 1000;

    bw_str(w, "host", s->host);
    bw_str(w, "version", MONGO_VERSION);
    bw_str(w, "process", "mongod");
    bw_i64(w, "pid", getpid());
    bw_f64(w, "uptime", (double)up_ms / 1000);
    bw_i64(w, "uptimeMillis", up_ms);
    bw_i64(w, "uptimeEstimate", up_ms / 1000);
    bw_date(w, "localTime", clock_wall_ms());
}

int cmd_serverStatus(struct request *rq)
{
    write_head(rq);
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const struct section *s = &sections[i];
        struct bv wanted = bv_get(rq->op.cmd, s->name);

        if (!bv_is_missing(wanted) && !bv_truthy(wanted))
            continue;
        if (s->of_oplog && oplog_hidden(rq->op.database->oplog))
            continue;
        bw_doc_begin(rq->reply, s->name);
        s->write(rq, rq->reply);
        bw_end(rq->reply);
    }
    return 0;
}
