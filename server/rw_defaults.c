/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/rw_defaults.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "query/find.h"
#include "query/write.h"
#include "server/concerns.h"

struct rw_defaults {
    _Atomic bool custom; /* a default was set; else nobody needs the mutex */
    struct mutex mx;
    struct rw_values v;
    char *tag; /* of v.write */
};

struct rw_defaults *rw_defaults_new(void)
{
    struct rw_defaults *d = mem_must_zero(1, sizeof(*d));

    mutex_init(&d->mx);
    d->v.refreshed_wall_ms = clock_wall_ms();
    write_concern_implicit(&d->v.write);
    return d;
}

void rw_defaults_free(struct rw_defaults *d)
{
    if (d == NULL)
        return;
    mutex_fini(&d->mx);
    free(d->tag);
    free(d);
}

void rw_defaults_get(struct rw_defaults *d, struct arena *a, struct rw_values *ret)
{
    mutex_lock(&d->mx);
    *ret = d->v;
    if (d->tag != NULL)
        ret->write.tag = arena_strdup(a, d->tag);
    mutex_unlock(&d->mx);
}

void rw_defaults_set(struct rw_defaults *d, const struct rw_values *v)
{
    char *tag = v->has_write && v->write.tag != NULL ? mem_must_strdup(v->write.tag) : NULL;

    mutex_lock(&d->mx);
    free(d->tag);
    d->tag = tag;
    d->v = *v;
    d->v.write.tag = tag;
    d->v.write.given = false;
    d->v.write.provenance = v->has_write ? "customDefault" : "implicitDefault";
    d->v.refreshed_wall_ms = clock_wall_ms();
    mutex_unlock(&d->mx);
    atomic_store(&d->custom, v->has_read || v->has_write);
}

void rw_defaults_read(struct rw_defaults *d, enum read_level *ret)
{
    if (!atomic_load_explicit(&d->custom, memory_order_relaxed))
        return;
    mutex_lock(&d->mx);
    if (d->v.has_read)
        *ret = d->v.read_level;
    mutex_unlock(&d->mx);
}

bool rw_defaults_write(struct rw_defaults *d, struct arena *a, struct write_concern *ret)
{
    struct rw_values v;

    if (!atomic_load_explicit(&d->custom, memory_order_relaxed))
        return false;
    rw_defaults_get(d, a, &v);
    if (v.has_write)
        *ret = v.write;
    return v.has_write;
}

/* --- on disk ---------------------------------------------------------------------------------- */

static struct bv name_filter(struct op *op)
{
    struct bw w;

    bw_init(&w, &op->arena);
    bw_str(&w, "_id", RW_DEFAULTS_ID);
    return bw_done(&w);
}

struct loading {
    struct rw_defaults *d;
    struct op *op;
};

static int load_row(void *arg, struct bv doc)
{
    struct loading *l = arg;
    struct bv level = bv_path(doc, "defaultReadConcern.level");
    struct bv write = bv_get(doc, "defaultWriteConcern"), at = bv_get(doc, "updateOpTime");
    struct bv wall = bv_get(doc, "updateWallClockTime");
    struct rw_values v = {.update_time = at.type == BV_TIMESTAMP ? bv_ts(at) : 0,
                          .update_wall_ms = wall.type == BV_DATE ? bv_i64(wall) : 0};

    write_concern_implicit(&v.write);
    v.has_read = !bv_is_missing(level);
    if (v.has_read)
        TRY_RETURN(read_level_parse(l->op, level, &v.read_level));
    v.has_write = !bv_is_missing(write);
    if (v.has_write)
        TRY_RETURN(write_concern_parse(l->op, write, &v.write));
    rw_defaults_set(l->d, &v);
    return 0;
}

int rw_defaults_load(struct rw_defaults *d, struct op *op)
{
    struct find_spec spec = {.ns = RW_DEFAULTS_NS, .filter = name_filter(op)};
    struct loading l = {d, op};
    struct qcursor *c;
    int rc;

    TRY_RETURN(find_open(op, &spec, &c));
    rc = qcursor_each(op, c, load_row, &l);
    qcursor_free(c);
    return rc;
}

static struct bv as_document(struct op *op, const struct rw_values *v)
{
    struct bw w;

    bw_init(&w, &op->arena);
    bw_str(&w, "_id", RW_DEFAULTS_ID);
    if (v->has_read) {
        bw_doc_begin(&w, "defaultReadConcern");
        bw_str(&w, "level", read_level_name(v->read_level));
        bw_end(&w);
    }
    if (v->has_write) {
        bw_doc_begin(&w, "defaultWriteConcern");
        write_concern_write(&v->write, &w);
        bw_end(&w);
    }
    bw_ts(&w, "updateOpTime", v->update_time);
    bw_date(&w, "updateWallClockTime", v->update_wall_ms);
    return bw_done(&w);
}

int rw_defaults_store(struct op *op, const struct rw_values *v)
{
    struct update_stmt stmt = {.q = name_filter(op),
                               .u = as_document(op, v),
                               .array_filters = BV_NONE,
                               .hint = BV_NONE,
                               .constants = BV_NONE,
                               .upsert = true};
    struct update_outcome outcome;
    struct writer w;
    int rc;

    TRY_RETURN(writer_open(&w, op, RW_DEFAULTS_NS, true, NULL));
    rc = write_update(&w, &stmt, NULL, &outcome);
    writer_close(&w);
    return rc;
}
