/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What clients ask about the server, its machine, its commands and themselves. */
#include <openssl/crypto.h>
#include <openssl/opensslv.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fields.h"
#include "base/limits.h"
#include "server/command.h"
#include "server/conn.h"
#include "server/server.h"
#include "server/top.h"

static const struct field no_fields[] = {{NULL, 0, 0, 0}};

static int parse_nothing(struct request *rq, const char *what)
{
    char none;

    return fields_parse(&rq->op, what, no_fields, rq->op.cmd, FIELDS_COMMAND, &none);
}

/* --- buildInfo ----------------------------------------------------------------------------- */

int cmd_buildInfo(struct request *rq)
{
    static const int version[] = MONGO_VERSION_ARRAY;
    struct bw *w = rq->reply;
    struct utsname uts;

    uname(&uts);
    bw_str(w, "version", MONGO_VERSION);
    bw_str(w, "gitVersion", "runnel-" RUNNEL_VERSION);
    bw_bv(w, "modules", bv_empty_array);
    bw_str(w, "allocator", "system");
    bw_str(w, "javascriptEngine", "none");
    bw_str(w, "sysInfo", "deprecated");
    bw_arr_begin(w, "versionArray");
    for (size_t i = 0; i < sizeof version / sizeof *version; i++)
        bw_i32(w, NULL, version[i]);
    bw_end(w);
    bw_doc_begin(w, "openssl");
    bw_str(w, "running", OpenSSL_version(OPENSSL_VERSION));
    bw_str(w, "compiled", OPENSSL_VERSION_TEXT);
    bw_end(w);
    bw_doc_begin(w, "buildEnvironment");
    bw_str(w, "distmod", "");
    bw_str(w, "distarch", uts.machine);
    bw_str(w, "cc", __VERSION__);
    bw_str(w, "target_arch", uts.machine);
    bw_str(w, "target_os", "linux");
    bw_end(w);
    bw_i32(w, "bits", (int32_t)sizeof(void *) * 8);
    bw_bool(w, "debug", false);
    bw_i32(w, "maxBsonObjectSize", LIMIT_DOC_BYTES);
    bw_arr_begin(w, "storageEngines");
    bw_str(w, NULL, "wiredTiger");
    bw_end(w);
    return 0;
}

/* --- hostInfo ------------------------------------------------------------------------------ */

/* The value of KEY="value" in os-release, without its quotes; "" when there is none. */
static const char *os_release(struct arena *a, const char *key)
{
    FILE *f = fopen("/etc/os-release", "re");
    size_t key_len = strlen(key);
    const char *found = "";
    char line[512];

    if (f == NULL)
        return found;
    while (fgets(line, sizeof line, f) != NULL) {
        const char *value = line + key_len + 1;
        size_t n;

        if (strncmp(line, key, key_len) != 0 || line[key_len] != '=')
            continue;
        value += *value == '"';
        n = strcspn(value, "\"\n");
        found = arena_strndup(a, value, n);
        break;
    }
    fclose(f);
    return found;
}

static void write_system(struct bw *w, const struct utsname *uts)
{
    int64_t pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    int64_t mem_mb = pages * page_bytes / (1024 * 1024);

    bw_doc_begin(w, "system");
    bw_date(w, "currentTime", clock_wall_ms());
    bw_str(w, "hostname", uts->nodename);
    bw_i32(w, "cpuAddrSize", (int32_t)sizeof(void *) * 8);
    bw_i64(w, "memSizeMB", mem_mb);
    bw_i64(w, "memLimitMB", mem_mb);
    bw_i32(w, "numCores", (int32_t)sysconf(_SC_NPROCESSORS_ONLN));
    bw_str(w, "cpuArch", uts->machine);
    bw_bool(w, "numaEnabled", false);
    bw_end(w);
}

int cmd_hostInfo(struct request *rq)
{
    struct bw *w = rq->reply;
    struct rlimit files;
    struct utsname uts;

    TRY_RETURN(parse_nothing(rq, "hostInfo"));
    uname(&uts);
    write_system(w, &uts);
    bw_doc_begin(w, "os");
    bw_str(w, "type", uts.sysname);
    bw_str(w, "name", os_release(&rq->op.arena, "PRETTY_NAME"));
    bw_str(w, "version", os_release(&rq->op.arena, "VERSION_ID"));
    bw_end(w);
    bw_doc_begin(w, "extra");
    bw_str(w, "versionString", uts.version);
    bw_str(w, "kernelVersion", uts.release);
    bw_i64(w, "pageSize", sysconf(_SC_PAGESIZE));
    bw_i64(w, "numPages", sysconf(_SC_PHYS_PAGES));
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        bw_i64(w, "maxOpenFiles", (int64_t)files.rlim_cur);
    bw_end(w);
    return 0;
}

/* --- the client itself --------------------------------------------------------------------- */

struct connection_status_args {
    bool show_privileges;
};

static const struct field connection_status_fields[] = {
    {"showPrivileges", F_BOOL, offsetof(struct connection_status_args, show_privileges), 0},
    {NULL, 0, 0, 0},
};

int cmd_connectionStatus(struct request *rq)
{
    struct connection_status_args args = {0};
    struct bw *w = rq->reply;

    TRY_RETURN(fields_parse(&rq->op, "connectionStatus", connection_status_fields, rq->op.cmd,
                            FIELDS_COMMAND, &args));
    bw_doc_begin(w, "authInfo");
    bw_bv(w, "authenticatedUsers", bv_empty_array);
    bw_bv(w, "authenticatedUserRoles", bv_empty_array);
    if (args.show_privileges)
        bw_bv(w, "authenticatedUserPrivileges", bv_empty_array);
    bw_end(w);
    return 0;
}

int cmd_whatsmyuri(struct request *rq)
{
    bw_str(rq->reply, "you", rq->conn != NULL ? rq->conn->remote : "");
    return 0;
}

/* --- the process --------------------------------------------------------------------------- */

static void write_parsed_options(struct bw *w, const struct server *server)
{
    const struct settings *s = &server->settings;

    bw_doc_begin(w, "net");
    bw_str(w, "bindIp", s->bind);
    bw_i32(w, "port", server->port);
    if (s->unix_socket != NULL) {
        bw_doc_begin(w, "unixDomainSocket");
        bw_bool(w, "enabled", true);
        bw_str(w, "path", s->unix_socket);
        bw_end(w);
    }
    bw_end(w);
    bw_doc_begin(w, "replication");
    bw_i64(w, "oplogSizeMB", s->oplog_size_mb);
    bw_str(w, "replSet", s->repl_set);
    bw_end(w);
    if (s->enable_test_commands) {
        bw_doc_begin(w, "setParameter");
        bw_str(w, "enableTestCommands", "1");
        bw_end(w);
    }
    bw_doc_begin(w, "storage");
    if (s->dbpath != NULL)
        bw_str(w, "dbPath", s->dbpath);
    bw_str(w, "engine", "wiredTiger");
    bw_end(w);
}

int cmd_getCmdLineOpts(struct request *rq)
{
    const struct settings *s = &rq->server->settings;
    struct bw *w = rq->reply;

    TRY_RETURN(parse_nothing(rq, "getCmdLineOpts"));
    bw_arr_begin(w, "argv");
    for (int i = 0; i < s->argc; i++)
        bw_str(w, NULL, s->argv[i]);
    bw_end(w);
    bw_doc_begin(w, "parsed");
    write_parsed_options(w, rq->server);
    bw_end(w);
    return 0;
}

int cmd_features(struct request *rq)
{
    /* The machine part of ObjectIds made here: none is, drivers make them. */
    bw_i32(rq->reply, "oidMachine", 0);
    return 0;
}

int cmd_listCommands(struct request *rq)
{
    struct bw *w = rq->reply;
    const struct command *c;

    TRY_RETURN(parse_nothing(rq, "listCommands"));
    bw_doc_begin(w, "commands");
    for (size_t i = 0; (c = command_at(i)) != NULL; i++) {
        if ((c->flags & CMD_TEST) != 0 && !rq->server->settings.enable_test_commands)
            continue;
        bw_doc_begin(w, c->name);
        bw_str(w, "help", c->help);
        bw_bool(w, "requiresAuth", (c->flags & CMD_NO_AUTH) == 0);
        bw_bool(w, "secondaryOk", (c->flags & CMD_WRITE) == 0);
        bw_bool(w, "adminOnly", (c->flags & CMD_ADMIN) != 0);
        bw_arr_begin(w, "apiVersions");
        if ((c->flags & CMD_API_V1) != 0)
            bw_str(w, NULL, "1");
        bw_end(w);
        bw_bv(w, "deprecatedApiVersions", bv_empty_array);
        bw_end(w);
    }
    bw_end(w);
    return 0;
}

/* --- top and profile ------------------------------------------------------------------------ */

static void write_count(struct bw *w, const char *key, const struct top_entry *e,
                        enum top_kind from, enum top_kind to)
{
    struct top_count sum = {0};

    for (int i = (int)from; i <= (int)to; i++) {
        sum.us += e->kinds[i].us;
        sum.count += e->kinds[i].count;
    }
    bw_doc_begin(w, key);
    bw_i64(w, "time", sum.us);
    bw_i64(w, "count", sum.count);
    bw_end(w);
}

int cmd_top(struct request *rq)
{
    struct bw *w = rq->reply;
    struct top_named *list;
    size_t n;

    TRY_RETURN(parse_nothing(rq, "top"));
    list = top_list(rq->server->top, &rq->op.arena, &n);
    bw_doc_begin(w, "totals");
    bw_str(w, "note", "all times in microseconds");
    for (size_t i = 0; i < n; i++) {
        const struct top_entry *e = &list[i].entry;

        bw_doc_begin(w, list[i].ns);
        write_count(w, "total", e, TOP_QUERIES, TOP_COMMANDS);
        write_count(w, "readLock", e, TOP_QUERIES, TOP_GETMORE);
        write_count(w, "writeLock", e, TOP_INSERT, TOP_REMOVE);
        write_count(w, "queries", e, TOP_QUERIES, TOP_QUERIES);
        write_count(w, "getmore", e, TOP_GETMORE, TOP_GETMORE);
        write_count(w, "insert", e, TOP_INSERT, TOP_INSERT);
        write_count(w, "update", e, TOP_UPDATE, TOP_UPDATE);
        write_count(w, "remove", e, TOP_REMOVE, TOP_REMOVE);
        write_count(w, "commands", e, TOP_COMMANDS, TOP_COMMANDS);
        bw_end(w);
    }
    bw_end(w);
    return 0;
}

struct profile_args {
    int64_t slow_ms;
    struct bv sample_rate, filter;
};

static const struct field profile_fields[] = {
    {"slowms", F_INT, offsetof(struct profile_args, slow_ms), FIELD_UNBUILT},
    {"sampleRate", F_NUMBER, offsetof(struct profile_args, sample_rate), FIELD_UNBUILT},
    {"filter", F_ANY, offsetof(struct profile_args, filter), FIELD_UNBUILT},
    {NULL, 0, 0, 0},
};

/* Nothing is profiled: only asking (-1) and switching off (0) succeed. */
int cmd_profile(struct request *rq)
{
    struct profile_args args = {0};
    struct belem first;
    int64_t level;

    TRY_RETURN(fields_parse(&rq->op, "profile", profile_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    bv_first(rq->op.cmd, &first);
    if (!bv_to_i64_exact(first.v, &level))
        return op_fail(&rq->op, ERR_TYPE_MISMATCH,
                       "BSON field 'profile.profile' is the wrong type '%s', expected type 'int'",
                       bv_type_name(first.v.type));
    if (level < -1 || level > 2)
        return op_fail(&rq->op, ERR_BAD_VALUE, "profiling level must be -1, 0, 1 or 2");
    if (level > 0)
        return op_fail(&rq->op, ERR_NOT_IMPLEMENTED, "the profiler is not built");
    bw_i32(rq->reply, "was", 0);
    bw_i32(rq->reply, "slowms", 100);
    bw_f64(rq->reply, "sampleRate", 1.0);
    return 0;
}
