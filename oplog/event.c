/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a change is: its event type, what it is about, and its place in the order of events.
 */
#include "oplog/event.h"

struct event_type {
    const char *name;
    char op;
    const char *where;
    unsigned flags;
    void (*describe)(struct event *e, struct arena *a);
};

/* --- what each type has of its own ------------------------------------------------------------ */

static void describe_insert(struct event *e, struct arena *a)
{
    const struct oplog_row *row = &e->change->row;
    struct bw w;

    e->full_document = row->o;
    e->document_key = row->o2;
    if (bv_is_missing(row->o2)) {
        bw_init(&w, a);
        bw_bv(&w, "_id", bv_get(row->o, "_id"));
        e->document_key = bw_done(&w);
    }
}

static void describe_update(struct event *e, struct arena *a)
{
    (void)a;
    e->document_key = e->change->row.o2;
}

static void describe_replace(struct event *e, struct arena *a)
{
    describe_update(e, a);
    e->full_document = e->change->row.o;
}

static void describe_delete(struct event *e, struct arena *a)
{
    (void)a;
    e->document_key = e->change->row.o;
}

/* The value of `o`'s first field names the collection. */
static void describe_collection(struct event *e, struct arena *a)
{
    struct bv name = bv_first(e->change->row.o, NULL);

    (void)a;
    e->coll = name.type == BV_STRING ? bv_str(name, NULL) : "";
}

static void describe_database(struct event *e, struct arena *a)
{
    (void)a;
    e->coll = NULL;
}

/* Splits "db.coll" at the first dot. */
static uint32_t split_ns(const char *ns, const char **ret_coll)
{
    const char *dot = strchr(ns, '.');

    *ret_coll = dot == NULL ? "" : dot + 1;
    return (uint32_t)(dot == NULL ? strlen(ns) : (size_t)(dot - ns));
}

static struct bv ns_document(struct arena *a, const char *db, uint32_t db_len, const char *coll)
{
    struct bw w;

    bw_init(&w, a);
    bw_strn(&w, "db", db, db_len);
    if (coll != NULL)
        bw_str(&w, "coll", coll);
    return bw_done(&w);
}

/* o: {renameCollection: "db.a", to: "db.b", stayTemp, dropTarget?} */
static void describe_rename(struct event *e, struct arena *a)
{
    struct biter it = biter(e->change->row.o);
    struct belem f;
    struct bw w;

    bw_init(&w, a);
    while (biter_next(&it, &f)) {
        bool text = f.v.type == BV_STRING;
        const char *coll;

        if (text && strcmp(f.key, "renameCollection") == 0) {
            e->db = bv_str(f.v, NULL);
            e->db_len = split_ns(e->db, &e->coll);
        } else if (text && strcmp(f.key, "to") == 0) {
            uint32_t db_len = split_ns(bv_str(f.v, NULL), &coll);

            e->to = ns_document(a, bv_str(f.v, NULL), db_len, coll);
            bw_bv(&w, "to", e->to);
        } else if (strcmp(f.key, "stayTemp") != 0) {
            bw_elem(&w, &f);
        }
    }
    e->description = bw_done(&w);
}

/* All of `o` but its first field. */
static struct bv rest_of(struct bv o, struct arena *a)
{
    struct biter it = biter(o);
    struct belem f;
    struct bw w;

    bw_init(&w, a);
    (void)biter_next(&it, &f);
    while (biter_next(&it, &f))
        bw_elem(&w, &f);
    return bw_done(&w);
}

static void describe_rest(struct event *e, struct arena *a)
{
    describe_collection(e, a);
    e->description = rest_of(e->change->row.o, a);
}

/* o2: {collectionOptions_old, indexOptions_old?} */
static void describe_modify(struct event *e, struct arena *a)
{
    struct bv o2 = e->change->row.o2;
    struct bw w;

    describe_rest(e, a);
    bw_init(&w, a);
    bw_bv(&w, "collectionOptions", bv_get(o2, "collectionOptions_old"));
    bw_bv(&w, "indexOptions", bv_get(o2, "indexOptions_old"));
    e->state_before = bw_done(&w);
}

static struct bv indexes_document(struct arena *a, struct bv spec)
{
    struct bw w;

    bw_init(&w, a);
    bw_arr_begin(&w, "indexes");
    bw_bv(&w, NULL, spec);
    bw_end(&w);
    return bw_done(&w);
}

static void describe_index(struct event *e, struct arena *a)
{
    describe_collection(e, a);
    e->description = indexes_document(a, rest_of(e->change->row.o, a));
}

static void describe_indexes(struct event *e, struct arena *a)
{
    struct bw w;

    describe_collection(e, a);
    bw_init(&w, a);
    bw_bv(&w, "indexes", bv_get(e->change->row.o, "indexes"));
    e->description = bw_done(&w);
}

static void describe_dropped_index(struct event *e, struct arena *a)
{
    describe_collection(e, a);
    e->description = indexes_document(a, e->change->row.o2);
}

/* The document of system.views: {_id: "db.view", ...}; deletes have only the _id. */
static void describe_dropped_view(struct event *e, struct arena *a)
{
    struct bv id = bv_get(e->change->row.o, "_id");
    const char *coll = "";

    (void)a;
    if (id.type == BV_STRING)
        (void)split_ns(bv_str(id, NULL), &coll);
    e->coll = coll;
}

static void describe_view(struct event *e, struct arena *a)
{
    describe_dropped_view(e, a);
    e->description = rest_of(e->change->row.o, a);
}

/* --- finding the type --------------------------------------------------------------------------
 */

static const struct event_type event_types[EVENT_COUNT] = {
#define EVENT(id, name, op, where, flags, describe) {name, op, where, flags, describe},
#include "oplog/events.def"
#undef EVENT
};

/* An update is {$v: 2, diff}, or a whole document without $v. */
static bool update_fits(const struct event_type *t, struct bv o)
{
    struct bv version = bv_get(o, "$v");
    int64_t v = 0;

    if ((t->flags & EVENT_DIFF) == 0)
        return bv_is_missing(version) && !bv_is_missing(bv_get(o, "_id"));
    return bv_to_i64(version, &v) && v == 2 && bv_get(o, "diff").type == BV_DOC;
}

static bool type_fits(const struct event_type *t, const struct oplog_row *row, const char *command,
                      bool views)
{
    if (t->op != row->op)
        return false;
    if (row->op == 'c')
        return strcmp(t->where, command) == 0;
    if ((t->where != NULL) != views)
        return false;
    return row->op != 'u' || update_fits(t, row->o);
}

int event_open(struct op *op, struct arena *a, const struct change *c, struct event *ret,
               bool *ret_found)
{
    const struct oplog_row *row = &c->row;
    struct belem first = {.key = ""};
    struct event e = {.change = c,
                      .document_key = BV_NONE,
                      .full_document = BV_NONE,
                      .to = BV_NONE,
                      .description = BV_NONE,
                      .state_before = BV_NONE};

    e.db = row->ns;
    e.db_len = split_ns(row->ns, &e.coll);
    (void)bv_first(row->o, &first);
    *ret_found = false;
    for (int i = 0; i < EVENT_COUNT; i++) {
        const struct event_type *t = &event_types[i];

        if (!type_fits(t, row, first.key, strcmp(e.coll, "system.views") == 0))
            continue;
        e.id = (enum event_id)i;
        e.name = t->name;
        e.flags = t->flags;
        t->describe(&e, a);
        *ret = e;
        *ret_found = true;
        return 0;
    }
    if (row->op == 'u')
        return op_fail(op, 6741200, "Unsupported or missing update version in an oplog entry");
    return 0;
}

/* --- its place ---------------------------------------------------------------------------------
 */

/* {operationType, documentKey} or {operationType, operationDescription?} */
static struct bv identifier(const struct event *e, struct arena *a)
{
    struct bw w;

    bw_init(&w, a);
    bw_str(&w, "operationType", e->name);
    bw_bv(&w, "documentKey", e->document_key);
    bw_bv(&w, "operationDescription", e->description);
    return bw_done(&w);
}

/* Version 1 had the documentKey alone, nothing for the classic commands, and nothing without a
 * UUID. */
static struct bv identifier_v1(const struct event *e, struct arena *a)
{
    if (!bv_is_missing(e->document_key))
        return e->document_key;
    if ((e->flags & EVENT_EXPANDED) != 0 && (e->flags & EVENT_VIEW) == 0)
        return identifier(e, a);
    return BV_NONE;
}

void event_token(const struct event *e, struct arena *a, int32_t version, bool invalidate,
                 struct resume_token *ret)
{
    const struct change *c = e->change;
    struct resume_token t = {.cluster_time = c->row.optime,
                             .version = version,
                             .type = TOKEN_EVENT,
                             .txn_op_index = c->txn_op_index,
                             .from_invalidate = invalidate,
                             .event_id = BV_NONE,
                             .fragment = -1};

    if (c->row.ui.type == BV_BINARY && (e->flags & EVENT_VIEW) == 0) {
        uint32_t n;
        const uint8_t *p = bv_bin(c->row.ui, &n, NULL);

        t.has_uuid = n == 16;
        if (t.has_uuid)
            memcpy(t.uuid, p, 16);
    }
    if (version >= 2)
        t.event_id = identifier(e, a);
    else if (t.has_uuid)
        t.event_id = identifier_v1(e, a);
    *ret = t;
}
