/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Single fields of an event that is not built, for testing filters on the oplog's row. A row of the
 * table per field that an event can have; what costs an image, a lookup or the token is not at
 * hand.
 */
#include "base/diff.h"
#include "oplog/event.h"

/* False: not at hand. */
typedef bool (*field_fn)(struct event_fields *f, struct bv *ret);

static bool get_to(struct event_fields *f, struct bv *ret)
{
    *ret = f->e->to;
    return true;
}

static bool get_txn_number(struct event_fields *f, struct bv *ret)
{
    if (f->e->change->in_txn)
        *ret = bv_new_i64(f->arena, f->e->change->row.txn_number);
    return true;
}

static bool get_lsid(struct event_fields *f, struct bv *ret)
{
    if (f->e->change->in_txn)
        *ret = f->e->change->row.lsid;
    return true;
}

static bool get_nothing(struct event_fields *f, struct bv *ret)
{
    (void)f;
    (void)ret;
    return false;
}

static bool get_type(struct event_fields *f, struct bv *ret)
{
    *ret = bv_new_str(f->arena, f->e->name, strlen(f->e->name));
    return true;
}

static bool get_cluster_time(struct event_fields *f, struct bv *ret)
{
    *ret = bv_new_ts(f->arena, f->e->change->row.optime);
    return true;
}

static bool get_uuid(struct event_fields *f, struct bv *ret)
{
    if (f->opts->expanded && (f->e->flags & EVENT_VIEW) == 0)
        *ret = f->e->change->row.ui;
    return true;
}

static bool get_wall_time(struct event_fields *f, struct bv *ret)
{
    *ret = bv_new_date(f->arena, f->e->change->row.wall_ms);
    return true;
}

static bool get_document(struct event_fields *f, struct bv *ret)
{
    *ret = f->e->full_document;
    return f->e->id != EVENT_UPDATE || f->opts->full == FULL_DEFAULT;
}

static bool get_ns(struct event_fields *f, struct bv *ret)
{
    const struct event *e = f->e;
    struct bw w;

    bw_init(&w, f->arena);
    bw_strn(&w, "db", e->db, e->db_len);
    if (e->coll != NULL)
        bw_str(&w, "coll", e->coll);
    *ret = bw_done(&w);
    return true;
}

static bool get_key(struct event_fields *f, struct bv *ret)
{
    *ret = f->e->document_key;
    return true;
}

static bool get_description(struct event_fields *f, struct bv *ret)
{
    if (f->opts->expanded)
        *ret = f->e->description;
    return true;
}

static bool get_update(struct event_fields *f, struct bv *ret)
{
    struct bv diff = bv_get(f->e->change->row.o, "diff");
    struct bw w;

    if (f->e->id != EVENT_UPDATE || f->opts->raw_update)
        return true;
    bw_init(&w, f->arena);
    if (diff_describe(f->op, diff, f->opts->expanded, &w) != 0) {
        f->op->err->code = 0; /* whoever builds the event finds it again */
        return false;
    }
    *ret = bw_done(&w);
    return !bv_is_missing(*ret);
}

static bool get_raw_update(struct event_fields *f, struct bv *ret)
{
    if (f->e->id == EVENT_UPDATE && f->opts->raw_update)
        *ret = f->e->change->row.o;
    return true;
}

static bool get_state_before(struct event_fields *f, struct bv *ret)
{
    if (f->opts->expanded)
        *ret = f->e->state_before;
    return true;
}

static bool get_document_before(struct event_fields *f, struct bv *ret)
{
    enum event_id id = f->e->id;

    (void)ret;
    return f->opts->before == BEFORE_OFF ||
           (id != EVENT_UPDATE && id != EVENT_REPLACE && id != EVENT_DELETE);
}

static const struct {
    const char *name;
    field_fn get;
} event_fields[] = {
    {"operationType", get_type},
    {"ns", get_ns},
    {"documentKey", get_key},
    {"fullDocument", get_document},
    {"updateDescription", get_update},
    {"clusterTime", get_cluster_time},
    {"wallTime", get_wall_time},
    {"to", get_to},
    {"_id", get_nothing},
    {"txnNumber", get_txn_number},
    {"lsid", get_lsid},
    {"collectionUUID", get_uuid},
    {"operationDescription", get_description},
    {"rawUpdateDescription", get_raw_update},
    {"stateBeforeChange", get_state_before},
    {"fullDocumentBeforeChange", get_document_before},
};
#define FIELDS ((int)(sizeof(event_fields) / sizeof(event_fields[0])))
_Static_assert(FIELDS == EVENT_FIELDS, "room to remember each field");

static int find(const char *name)
{
    for (int i = 0; i < FIELDS; i++) {
        if (strcmp(event_fields[i].name, name) == 0)
            return i;
    }
    return FIELDS;
}

bool event_field(struct event_fields *f, const char *name, struct bv *ret)
{
    int i = find(name);
    uint32_t bit = 1u << i;

    *ret = BV_NONE;
    if (i == FIELDS)
        return true;
    if ((f->asked & bit) == 0) {
        f->value[i] = BV_NONE;
        if (event_fields[i].get(f, &f->value[i]))
            f->at_hand |= bit;
        f->asked |= bit;
    }
    *ret = f->value[i];
    return (f->at_hand & bit) != 0;
}

bool event_field_ever(const char *name)
{
    int i = find(name);

    return i == FIELDS || event_fields[i].get != get_nothing;
}
