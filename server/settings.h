/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Every setting of the process, from the command line and the config file: one row each in
 * options.def. Set before any thread starts, constant afterwards. */
#ifndef RUNNEL_SERVER_SETTINGS_H
#define RUNNEL_SERVER_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

#define RUNNEL_VERSION "0.1.0"
#define MONGO_VERSION  "8.0.4"
#define MONGO_VERSION_ARRAY                                                                        \
    {                                                                                              \
        8, 0, 4, 0                                                                                 \
    }
#define MONGO_FCV        "8.0"
#define MAX_WIRE_VERSION 25

struct settings {
    const char *dbpath; /* NULL with memory */
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
    int64_t cache_mb; /* 0: choose */
    int64_t max_connections, max_cursors, max_sessions;
    int64_t stall_seconds;
    bool enable_test_commands;
    const char *config;
    struct arena strings; /* holds the strings that were set */
    int argc;             /* as started, for getCmdLineOpts */
    char **argv;
};

/* Also initialises; settings_fini() gives the strings back. */
void settings_default(struct settings *s);
void settings_fini(struct settings *s);
/* Sets one by its name from text; a flag takes "true" or "false". Strings are copied.
 * ERR_BAD_VALUE, or ERR_INVALID_OPTIONS for an unknown name. */
int settings_set(struct settings *s, const char *name, const char *value,
                 struct error *err) MUST_CHECK;
/* A YAML mapping of names to scalars. */
int settings_load(struct settings *s, const char *path, struct error *err) MUST_CHECK;
/* Rules between settings. */
int settings_check(const struct settings *s, struct error *err) MUST_CHECK;
/* Defaults, config file, command line (which goes first), rules. --help and --version print and
 * end the process, as bad usage does. */
int settings_parse(struct settings *s, int argc, char **argv, struct error *err) MUST_CHECK;

#endif
