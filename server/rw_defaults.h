/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The read and write concern of commands that give none, as setDefaultRWConcern has set them. Kept
 * over restarts by a document in config.settings:
 *
 *     {_id: "ReadWriteConcernDefaults", defaultReadConcern: {level}, defaultWriteConcern: {w, ...},
 *      updateOpTime: Timestamp, updateWallClockTime: Date}
 *
 * Any thread, unless it says otherwise. While nobody has set a default, asking for one costs one
 * load.
 */
#ifndef RUNNEL_SERVER_RW_DEFAULTS_H
#define RUNNEL_SERVER_RW_DEFAULTS_H

#include "server/command.h"

#define RW_DEFAULTS_NS "config.settings"
#define RW_DEFAULTS_ID "ReadWriteConcernDefaults"

struct rw_defaults;

struct rw_defaults *rw_defaults_new(void);
void rw_defaults_free(struct rw_defaults *d);

/* The defaults as one value. */
struct rw_values {
    bool has_read, has_write; /* false: the implicit one */
    enum read_level read_level;
    struct write_concern write;
    uint64_t update_time;      /* cluster time of the last change; 0: there was none */
    int64_t update_wall_ms;    /* of the last change */
    int64_t refreshed_wall_ms; /* when this process learned of it */
};
/* The tag of the write concern is copied to the arena. */
void rw_defaults_get(struct rw_defaults *d, struct arena *a, struct rw_values *ret);
/* Takes over a copy of *v; refreshed_wall_ms is set to now. */
void rw_defaults_set(struct rw_defaults *d, const struct rw_values *v);
/* Leaves *ret alone when the default is the implicit one. */
void rw_defaults_read(struct rw_defaults *d, enum read_level *ret);
/* False, with *ret alone, when the default is the implicit one. */
bool rw_defaults_write(struct rw_defaults *d, struct arena *a, struct write_concern *ret);

/* Reads the stored document; before the server listens. */
int rw_defaults_load(struct rw_defaults *d, struct op *op) MUST_CHECK;
/* Writes it; on the schema thread. May return INT_PARK. */
int rw_defaults_store(struct op *op, const struct rw_values *v) MUST_CHECK;

#endif
