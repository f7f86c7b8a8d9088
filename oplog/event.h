/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Change events: from a change in the oplog to the document that a stream shows.
 *
 * In two steps, because most changes are only looked at: event_open() tells what the change is and
 * names its place (the parts of a resume token) from views of the row; event_build() composes the
 * document, with images and lookups. events.def has a row per event type.
 *
 * An event is built from its entry and its images alone (design D12); only the lookup that the
 * caller brings along reads current data.
 */
#ifndef RUNNEL_OPLOG_EVENT_H
#define RUNNEL_OPLOG_EVENT_H

#include "oplog/oplog.h"
#include "oplog/resume_token.h"

enum event_flag {
    EVENT_DIFF = 1 << 0,            /* `o` is {$v: 2, diff} */
    EVENT_EXPANDED = 1 << 1,        /* only with showExpandedEvents */
    EVENT_ENDS_COLLECTION = 1 << 2, /* a collection stream is invalidated by it */
    EVENT_ENDS_DATABASE = 1 << 3,   /* a database stream is */
    EVENT_VIEW = 1 << 4,            /* a view definition: concerns no collection's UUID */
};

enum event_id {
#define EVENT(id, name, op, where, flags, describe) EVENT_##id,
#include "oplog/events.def"
#undef EVENT
    EVENT_COUNT
};

/* One change: an entry of its own, or an operation inside applyOps made to look like one (row.o,
 * .ns, .ui, ... from the operation; optime and wall time from the entry that commits it). */
struct change {
    struct oplog_row row;
    int32_t txn_op_index;
    bool in_txn;           /* row.lsid and row.txn_number are shown */
    uint64_t image_optime; /* where its pre-image is kept: the entry that holds the operation */
    int64_t image_index;   /* and the position in it */
};

enum event_full { FULL_DEFAULT, FULL_UPDATE_LOOKUP, FULL_WHEN_AVAILABLE, FULL_REQUIRED };
enum event_before { BEFORE_OFF, BEFORE_WHEN_AVAILABLE, BEFORE_REQUIRED };

struct event;

struct event_options {
    enum event_full full;
    enum event_before before;
    bool expanded;
    bool raw_update; /* rawUpdateDescription instead of updateDescription */
    /* FULL_UPDATE_LOOKUP: the current document, in the arena; BV_NONE: gone. */
    int (*lookup)(void *arg, struct op *op, struct arena *a, const struct event *e, struct bv *ret);
    void *lookup_arg;
};

/* What a change is. Views into the row or the arena. */
struct event {
    enum event_id id;
    const char *name;
    unsigned flags;
    const struct change *change;
    const char *db; /* not NUL-terminated */
    uint32_t db_len;
    const char *coll;        /* NULL: a whole database */
    struct bv document_key;  /* CRUD */
    struct bv full_document; /* insert, replace */
    struct bv to;            /* rename: {db, coll} */
    struct bv description;   /* operationDescription; BV_NONE: none */
    struct bv state_before;  /* modify: {collectionOptions, indexOptions?} */
};

/*
 * *ret_found false: no event type has this change. 6741200 for an update in a form that nobody
 * writes. Whether a stream's scope includes the change is not asked here.
 */
int event_open(struct op *op, struct arena *a, const struct change *c, struct event *ret,
               bool *ret_found) MUST_CHECK;

/* The event's place in the order of all events, as a token of that version. `invalidate`: that of
 * the invalidate event which follows it. Views into the event and the arena. */
void event_token(const struct event *e, struct arena *a, int32_t version, bool invalidate,
                 struct resume_token *ret);

/*
 * The event document; `token` becomes its _id. ERR_NO_MATCHING_DOCUMENT when a required image is
 * missing.
 */
int event_build(struct op *op, struct arena *a, struct oplog *o, const struct event *e,
                const struct event_options *opts, struct bv token, struct bv *ret) MUST_CHECK;
/* The invalidate event: {_id, operationType, clusterTime, wallTime}. */
struct bv event_build_invalidate(struct arena *a, uint64_t cluster_time, int64_t wall_ms,
                                 struct bv token);

/* --- single fields -----------------------------------------------------------------------------
 *
 * For testing filters before the event is built. Zeroed but for the first four members, one of
 * these serves one event; what it has composed is remembered.
 */
enum { EVENT_FIELDS = 16 };
struct event_fields {
    const struct event *e;
    const struct event_options *opts;
    struct op *op;       /* its error is left as if nothing had failed */
    struct arena *arena; /* of what must be composed */
    uint32_t asked, at_hand;
    struct bv value[EVENT_FIELDS];
};
/* A top-level field exactly as event_build() would write it; BV_NONE: this event has none of that
 * name. False: it is not at hand, since it takes an image, a lookup or the token. */
bool event_field(struct event_fields *f, const char *name, struct bv *ret);
/* False for a field that is at hand for no event. */
bool event_field_ever(const char *name);

#endif
