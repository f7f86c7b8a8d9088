/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Composing event documents. The order of the fields is the same for all event types and stands
 * here once; absent fields are skipped:
 *     to txnNumber lsid _id operationType clusterTime collectionUUID wallTime fullDocument ns
 *     documentKey operationDescription updateDescription stateBeforeChange
 *     fullDocumentBeforeChange
 */
#include "base/diff.h"
#include "base/limits.h"
#include "oplog/event.h"
#include "oplog/reader.h"

/* --- the frame -------------------------------------------------------------------------------- */

static void write_head(struct bw *w, const struct event *e, bool expanded, struct bv token)
{
    const struct oplog_row *row = &e->change->row;

    bw_bv(w, "to", e->to);
    if (e->change->in_txn) {
        bw_i64(w, "txnNumber", row->txn_number);
        bw_bv(w, "lsid", row->lsid);
    }
    bw_bv(w, "_id", token);
    bw_str(w, "operationType", e->name);
    bw_ts(w, "clusterTime", row->optime);
    if (expanded && (e->flags & EVENT_VIEW) == 0)
        bw_bv(w, "collectionUUID", row->ui);
    bw_date(w, "wallTime", row->wall_ms);
}

static void write_subject(struct bw *w, const struct event *e, bool expanded)
{
    bw_doc_begin(w, "ns");
    bw_strn(w, "db", e->db, e->db_len);
    if (e->coll != NULL)
        bw_str(w, "coll", e->coll);
    bw_end(w);
    bw_bv(w, "documentKey", e->document_key);
    if (expanded)
        bw_bv(w, "operationDescription", e->description);
}

struct bv event_build_invalidate(struct arena *a, uint64_t cluster_time, int64_t wall_ms,
                                 struct bv token)
{
    struct bw w;

    bw_init(&w, a);
    bw_bv(&w, "_id", token);
    bw_str(&w, "operationType", "invalidate");
    bw_ts(&w, "clusterTime", cluster_time);
    bw_date(&w, "wallTime", wall_ms);
    return bw_done(&w);
}

/* --- images ----------------------------------------------------------------------------------- */

/* What the builder of one event works with. */
struct build {
    struct op *op;
    struct arena *arena;
    struct oplog *oplog;
    const struct event *e;
    const struct event_options *opts;
    bool image_read;
    struct bv image; /* BV_NONE: there is none */
};

static int read_image(struct build *b)
{
    const struct change *c = b->e->change;

    if (b->image_read)
        return 0;
    b->image = BV_NONE;
    TRY_RETURN(image_get(b->oplog, b->op, c->image_optime, c->image_index, b->arena, &b->image));
    b->image_read = true;
    return 0;
}

static int missing_image(struct build *b, const char *which, const char *events)
{
    const struct event *e = b->e;
    struct bw w;

    bw_init(&w, b->arena);
    bw_str(&w, "operationType", e->name);
    bw_doc_begin(&w, "ns");
    bw_strn(&w, "db", e->db, e->db_len);
    bw_str(&w, "coll", e->coll);
    bw_end(&w);
    bw_ts(&w, "clusterTime", e->change->row.optime);
    if (e->change->in_txn)
        bw_i64(&w, "txnNumber", e->change->row.txn_number);
    return op_fail(b->op, ERR_NO_MATCHING_DOCUMENT,
                   "Change stream was configured to require a %s-image for all %s events, but the "
                   "%s-image was not found for event: %s",
                   which, events, which, bv_show(b->arena, bw_done(&w), 512));
}

static int post_image(struct build *b, struct bv *ret)
{
    struct bv diff = bv_get(b->e->change->row.o, "diff");

    TRY_RETURN(read_image(b));
    *ret = BV_NONE;
    if (!bv_is_missing(b->image))
        return diff_apply(b->op, b->arena, b->image, diff, ret);
    if (b->opts->full == FULL_REQUIRED)
        return missing_image(b, "post", "update");
    return 0;
}

static int full_document(struct build *b, struct bv *ret)
{
    *ret = b->e->full_document;
    if (b->e->id != EVENT_UPDATE || b->opts->full == FULL_DEFAULT)
        return 0;
    if (b->opts->full == FULL_UPDATE_LOOKUP)
        TRY_RETURN(b->opts->lookup(b->opts->lookup_arg, b->op, b->arena, b->e, ret));
    else
        TRY_RETURN(post_image(b, ret));
    if (bv_is_missing(*ret))
        *ret = bv_null;
    return 0;
}

static int document_before(struct build *b, struct bv *ret)
{
    enum event_id id = b->e->id;

    *ret = BV_NONE;
    if (b->opts->before == BEFORE_OFF ||
        (id != EVENT_UPDATE && id != EVENT_REPLACE && id != EVENT_DELETE))
        return 0;
    TRY_RETURN(read_image(b));
    if (bv_is_missing(b->image) && b->opts->before == BEFORE_REQUIRED)
        return missing_image(b, "pre", "update, delete and replace");
    *ret = bv_is_missing(b->image) ? bv_null : b->image;
    return 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int write_update(struct build *b, struct bw *w)
{
    struct bv o = b->e->change->row.o;

    if (b->e->id != EVENT_UPDATE)
        return 0;
    if (b->opts->raw_update) {
        bw_bv(w, "rawUpdateDescription", o);
        return 0;
    }
    bw_doc_begin(w, "updateDescription");
    TRY_RETURN(diff_describe(b->op, bv_get(o, "diff"), b->opts->expanded, w));
    bw_end(w);
    return 0;
}

int event_build(struct op *op, struct arena *a, struct oplog *o, const struct event *e,
                const struct event_options *opts, struct bv token, struct bv *ret)
{
    struct build b = {.op = op, .arena = a, .oplog = o, .e = e, .opts = opts};
    struct bv full = BV_NONE, before = BV_NONE, doc;
    struct bw w;

    TRY_RETURN(document_before(&b, &before));
    TRY_RETURN(full_document(&b, &full));
    bw_init(&w, a);
    write_head(&w, e, opts->expanded, token);
    bw_bv(&w, "fullDocument", full);
    write_subject(&w, e, opts->expanded);
    TRY_RETURN(write_update(&b, &w));
    if (opts->expanded)
        bw_bv(&w, "stateBeforeChange", e->state_before);
    bw_bv(&w, "fullDocumentBeforeChange", before);
    doc = bw_done(&w);
    if (bv_is_missing(doc))
        return op_fail(op, ERR_BSON_TOO_LARGE, "a change event is too large to be built");
    *ret = doc;
    return 0;
}
