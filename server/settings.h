/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Every setting of the process, from the command line, the config file and setParameter: one row
 * each in options.def. */
#ifndef RUNNEL_SERVER_SETTINGS_H
#define RUNNEL_SERVER_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#define RUNNEL_VERSION       "0.1.0"
#define MONGO_VERSION        "7.0.14"
#define MONGO_VERSION_ARRAY  {7, 0, 14, 0}
#define MONGO_FCV            "7.0"
#define MAX_WIRE_VERSION     21

struct settings {
    const char *dbpath;      /* NULL with memory */
    bool memory;
    int64_t port;
    const char *bind;
    const char *repl_set;
    const char *advertise;   /* NULL: the address reached */
    const char *unix_socket; /* NULL: none */
    int64_t oplog_size_mb;
    double oplog_retention_seconds;
    int64_t oplog_max_entries;
    bool no_oplog;
    int64_t cache_mb;        /* 0: choose */
    bool enable_test_commands;
    const char *config;
    int argc;                /* as started, for getCmdLineOpts */
    char **argv;
};

#endif
