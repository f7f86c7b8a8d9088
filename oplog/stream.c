/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "oplog/stream.h"

#include <stdlib.h>

#include "base/mem.h"
#include "oplog/reader.h"
#include "oplog/ring.h"
#include "oplog/unwind.h"

/* A token that must outlive the arenas of requests: a high-water mark, or a document's bytes. */
struct kept_token {
    uint64_t time; /* when doc is NULL */
    uint8_t *doc;
    uint32_t len;
};

/* The last event of a stream, once it is known. */
struct invalidate {
    struct kept_token token;
    uint64_t time;
    int64_t wall_ms;
};

/* Those that wait are many, so what few of them need is kept elsewhere. */
struct stream {
    struct oplog *oplog;
    struct stream_options o;
    struct oplog_reader *reader; /* within a batch */
    struct unwind *unwind;       /* within a batch: the transaction at next_optime, or NULL */

    uint64_t next_optime; /* the first change not dealt with */
    int32_t next_index;   /* within a transaction */
    bool begun;           /* the start was found to lie within the oplog */
    bool searching;       /* the event of o.resume has not turned up yet */
    bool partly_seen;     /* that event is shown again: the client has only a fragment of it */
    bool ending;          /* `invalidate` is the next event */
    bool ended;
    _Atomic bool waiting; /* parked since the last stream_next() */

    struct kept_token token;
    _Atomic uint64_t latest; /* the time that token stands for; written by the owner only */
    uint64_t emitted;        /* clusterTime of the newest event given out */

    struct invalidate *invalidate; /* ending or ended; else NULL */
};

static _Atomic int64_t streams; /* of this process: one alone has nobody to share events with */

/* --- tokens ----------------------------------------------------------------------------------- */

static void keep_mark(struct kept_token *k, uint64_t time)
{
    free(k->doc);
    *k = (struct kept_token){.time = time};
}

/* False: memory is out, and the token is what it was. */
static bool keep_token(struct kept_token *k, struct bv token)
{
    if (k->doc == NULL || k->len != token.len) {
        uint8_t *doc = mem_try(token.len);

        if (doc == NULL)
            return false;
        free(k->doc);
        k->doc = doc;
    }
    memcpy(k->doc, token.p, token.len);
    k->len = token.len;
    return true;
}

struct bv stream_token(const struct stream *s, struct arena *a)
{
    const struct kept_token *k = &s->token;

    if (k->doc == NULL)
        return token_high_water_mark(a, k->time, s->o.token_version);
    return (struct bv){k->doc, k->len, BV_DOC};
}

/* Others only look at it: no order is asked for. */
static uint64_t latest(struct stream *s)
{
    return atomic_load_explicit(&s->latest, memory_order_relaxed);
}

static void set_latest(struct stream *s, uint64_t time)
{
    atomic_store_explicit(&s->latest, time, memory_order_relaxed);
}

uint64_t stream_seen(struct stream *s, bool *ret_waiting)
{
    *ret_waiting = atomic_load_explicit(&s->waiting, memory_order_relaxed);
    return latest(s);
}

bool stream_delivered(struct stream *s, struct bv token)
{
    if (!keep_token(&s->token, token))
        return false;
    if (s->emitted > latest(s))
        set_latest(s, s->emitted);
    return true;
}

/* --- life ------------------------------------------------------------------------------------- */

struct stream *stream_new(struct oplog *oplog, const struct stream_options *o)
{
    struct stream *s = mem_must_zero(1, sizeof(*s));
    uint64_t start = o->start_time;

    atomic_fetch_add(&streams, 1);
    s->oplog = oplog;
    s->o = *o;
    if (o->start == STREAM_FROM_NOW)
        start = oplog_allocated(oplog) + 1;
    else if (o->start == STREAM_FROM_TOKEN)
        start = o->resume->cluster_time;
    s->next_optime = start > 0 ? start : 1; /* 0 means "the oldest" to a reader */
    set_latest(s, start);
    s->searching = o->start == STREAM_FROM_TOKEN && o->resume->type == TOKEN_EVENT;
    s->partly_seen = s->searching && o->resume->fragment >= 0;
    if (o->start != STREAM_FROM_TOKEN)
        keep_mark(&s->token, start);
    else if (!keep_token(&s->token, o->resume_doc)) {
        stream_free(s);
        return NULL;
    }
    return s;
}

static void end_unwinding(struct stream *s)
{
    if (s->unwind == NULL)
        return;
    unwind_close(s->unwind);
    free(s->unwind);
    s->unwind = NULL;
}

void stream_save(struct stream *s)
{
    end_unwinding(s);
    oplog_reader_close(s->reader);
    s->reader = NULL;
}

const struct stream_options *stream_options(const struct stream *s)
{
    return &s->o;
}

void stream_free(struct stream *s)
{
    if (s == NULL)
        return;
    stream_save(s);
    atomic_fetch_sub(&streams, 1);
    free(s->token.doc);
    if (s->invalidate != NULL)
        free(s->invalidate->token.doc);
    free(s->invalidate);
    free(s);
}

int stream_wait(struct stream *s, struct op *op)
{
    int rc;

    if (s->ending || s->ended || s->next_index > 0)
        return 0;
    rc = oplog_wait_entry(s->oplog, op, &s->o.scope, s->next_optime - 1);
    atomic_store_explicit(&s->waiting, rc == INT_PARK, memory_order_relaxed);
    return rc;
}

/* --- errors ----------------------------------------------------------------------------------- */

static int fatal(struct op *op, int rc)
{
    op->err->labels |= LABEL_NON_RESUMABLE_CHANGE_STREAM;
    return rc;
}

static int position_lost(struct stream *s, struct op *op)
{
    if (s->begun)
        return op_fail(op, ERR_CAPPED_POSITION_LOST,
                       "CollectionScan died due to position in capped collection being deleted. "
                       "Last seen record id: RecordId(%llu)",
                       (unsigned long long)s->next_optime - 1);
    return fatal(op, op_fail(op, ERR_CHANGE_STREAM_HISTORY_LOST,
                             "Resume of change stream was not possible, as the resume point may "
                             "no longer be in the oplog."));
}

static int token_not_found(struct stream *s, struct op *op)
{
    return fatal(op, op_fail(op, ERR_CHANGE_STREAM_FATAL,
                             "cannot resume stream; the resume token was not found. %s",
                             bv_show(&op->arena, s->o.resume_doc, 512)));
}

/* --- reading changes -------------------------------------------------------------------------- */

static int open_reader(struct stream *s, struct op *op)
{
    uint64_t from = s->next_optime, oldest = oplog_oldest(s->oplog), horizon;
    int rc;

    if (from < oldest && oplog_complete(s->oplog))
        from = oldest;
    rc = oplog_reader_open(s->oplog, op, from, &s->o.scope, false, &s->reader);
    if (rc == ERR_CAPPED_POSITION_LOST)
        return position_lost(s, op);
    if (rc != 0)
        return rc;
    horizon = oplog_reader_horizon(s->reader);
    if (horizon > op->read_optime)
        op->read_optime = horizon;
    return 0;
}

/* Steps over operations that were dealt with in an earlier batch, or are out of scope. */
static bool next_inner(struct stream *s, struct change *ret)
{
    while (unwind_next(s->unwind, ret)) {
        if (ret->txn_op_index < s->next_index)
            continue;
        s->next_index = ret->txn_op_index + 1;
        if (scope_matches(&s->o.scope, &ret->row))
            return true;
    }
    end_unwinding(s);
    s->next_optime++;
    s->next_index = 0;
    return false;
}

/* The next change in scope; the stream's position moves behind it. */
static int next_change(struct stream *s, struct op *op, struct change *ret, bool *ret_found)
{
    struct oplog_row row;
    int rc;

    if (s->unwind != NULL && next_inner(s, ret)) {
        *ret_found = true;
        return 0;
    }
    if (s->reader == NULL)
        TRY_RETURN(open_reader(s, op));
    for (;;) {
        rc = oplog_reader_next(s->reader, &row, ret_found);
        if (rc == ERR_CAPPED_POSITION_LOST)
            return position_lost(s, op);
        if (rc != 0 || !*ret_found)
            return rc;
        if (!unwind_wanted(&row))
            break;
        if (row.optime > s->next_optime)
            s->next_index = 0;
        s->next_optime = row.optime;
        s->unwind = mem_must_zero(1, sizeof(*s->unwind));
        TRY_RETURN(unwind_open(s->unwind, s->oplog, op, &row));
        if (next_inner(s, ret))
            return 0;
    }
    *ret = (struct change){.row = row, .image_optime = row.optime};
    s->next_optime = row.optime + 1;
    s->next_index = 0;
    return 0;
}

/* There is nothing to show up to and including `passed`: the token may stand for it. */
static void move_to(struct stream *s, uint64_t passed)
{
    if (passed >= s->next_optime) {
        s->next_optime = passed + 1;
        s->next_index = 0;
    }
    if (passed > latest(s)) {
        keep_mark(&s->token, passed);
        set_latest(s, passed);
    }
}

/* All there is has been read. The next call reads up to a new horizon. */
static int at_end(struct stream *s, struct op *op)
{
    uint64_t passed = oplog_reader_position(s->reader);

    oplog_reader_close(s->reader);
    s->reader = NULL;
    if (s->searching && passed >= s->o.resume->cluster_time)
        return token_not_found(s, op);
    s->begun = true;
    move_to(s, passed);
    return 0;
}

/* --- showing events --------------------------------------------------------------------------- */

static bool ends_scope(const struct stream *s, const struct event *e)
{
    switch (s->o.scope.kind) {
    case SCOPE_COLLECTION:
        return (e->flags & EVENT_ENDS_COLLECTION) != 0;
    case SCOPE_DATABASE:
        return (e->flags & EVENT_ENDS_DATABASE) != 0;
    default:
        return false;
    }
}

static int queue_invalidate(struct stream *s, struct op *op, struct arena *scratch,
                            const struct event *e)
{
    struct resume_token t;
    struct bv token;

    event_token(e, scratch, s->o.token_version, true, &t);
    token = token_encode(scratch, &t);
    if (s->invalidate == NULL)
        s->invalidate = mem_must_zero(1, sizeof(*s->invalidate));
    if (bv_is_missing(token) || !keep_token(&s->invalidate->token, token))
        return op_no_memory(op);
    s->invalidate->time = e->change->row.optime;
    s->invalidate->wall_ms = e->change->row.wall_ms;
    s->ending = true;
    return 0;
}

/*
 * Compares the event, and the invalidate that would follow it, with the token looked for. Tokens
 * are compared in the version of the client's. Of what is met here only the invalidate behind the
 * very event that the token names is shown, and that event when it was split.
 */
static int search(struct stream *s, struct op *op, struct arena *scratch, const struct event *e,
                  bool *ret_show)
{
    struct resume_token t, wanted = *s->o.resume;
    int c;

    wanted.fragment = -1;
    event_token(e, scratch, wanted.version, false, &t);
    c = token_cmp(&t, &wanted);
    if (c > 0)
        return token_not_found(s, op);
    if (c == 0) {
        s->searching = false;
        *ret_show = s->partly_seen;
        if (!s->partly_seen && ends_scope(s, e))
            return queue_invalidate(s, op, scratch, e);
        return 0;
    }
    if (!ends_scope(s, e))
        return 0;
    event_token(e, scratch, wanted.version, true, &t);
    c = token_cmp(&t, &wanted);
    if (c > 0)
        return token_not_found(s, op);
    if (c == 0)
        s->searching = false;
    return 0;
}

/* All that an event depends on besides its entry and images. 0: it is not to be shared, since it
 * depends on current data too, or its image, which another stream was still given, has expired. */
static uint64_t shape_of(const struct stream *s, const struct event *e)
{
    const struct event_options *o = &s->o.event;
    bool images = o->before != BEFORE_OFF || o->full >= FULL_WHEN_AVAILABLE;

    if (o->full == FULL_UPDATE_LOOKUP && (e->flags & EVENT_DIFF) != 0)
        return 0;
    if (images && image_expired(s->oplog, e->change->row.wall_ms))
        return 0;
    return 1 | (uint64_t)o->expanded << 1 | (uint64_t)o->raw_update << 2 |
           (uint64_t)(s->o.token_version & 3) << 3 | (uint64_t)o->full << 8 |
           (uint64_t)o->before << 16;
}

/* The event's document, shared with the other streams that want it in the same shape. */
static int build(struct stream *s, struct op *op, struct arena *scratch, const struct event *e,
                 struct bv *ret)
{
    const struct oplog_row *row = &e->change->row;
    uint64_t shape = shape_of(s, e);
    struct resume_token t;
    struct bv token;

    *ret = shape == 0 ? BV_NONE : ring_row_built(row, shape);
    if (!bv_is_missing(*ret)) {
        return op_dup(op, scratch, *ret, ret);
    }
    event_token(e, scratch, s->o.token_version, false, &t);
    token = token_encode(scratch, &t);
    if (bv_is_missing(token))
        return op_no_memory(op);
    TRY_RETURN(event_build(op, scratch, s->oplog, e, &s->o.event, token, ret));
    if (shape != 0 && atomic_load_explicit(&streams, memory_order_relaxed) > 1)
        ring_row_keep(row, shape, *ret);
    return 0;
}

/* BV_NONE: the change gives no event. */
static int show(struct stream *s, struct op *op, struct arena *scratch, const struct change *c,
                struct bv *ret)
{
    struct event e;
    bool found, wanted = false;

    *ret = BV_NONE;
    TRY_RETURN(event_open(op, scratch, c, &e, &found));
    if (!found || ((e.flags & EVENT_EXPANDED) != 0 && !s->o.event.expanded))
        return 0;
    if (s->searching) {
        TRY_RETURN(search(s, op, scratch, &e, &wanted));
        if (!wanted)
            return 0;
    }
    if (ends_scope(s, &e))
        TRY_RETURN(queue_invalidate(s, op, scratch, &e));
    if (s->o.accept != NULL && !s->o.accept(s->o.accept_arg, op, &e))
        return 0;
    TRY_RETURN(build(s, op, scratch, &e, ret));
    s->emitted = c->row.optime;
    s->begun = true;
    return 0;
}

static struct bv invalidate_token(const struct stream *s)
{
    const struct kept_token *k = &s->invalidate->token;

    return (struct bv){k->doc, k->len, BV_DOC};
}

static struct bv show_invalidate(struct stream *s, struct arena *scratch)
{
    const struct invalidate *i = s->invalidate;

    s->ending = false;
    s->ended = true;
    s->emitted = i->time;
    return event_build_invalidate(scratch, i->time, i->wall_ms, invalidate_token(s));
}

int stream_next(struct stream *s, struct op *op, struct arena *scratch, struct bv *ret,
                bool *ret_more)
{
    *ret = BV_NONE;
    *ret_more = true;
    if (s->ended) {
        /* A filter may have dropped it; the stream resumes behind it all the same. */
        if (!stream_delivered(s, invalidate_token(s)))
            return op_no_memory(op);
        *ret_more = false;
        return 0;
    }
    if (atomic_load_explicit(&s->waiting, memory_order_relaxed))
        move_to(s, oplog_wait_passed(op));
    atomic_store_explicit(&s->waiting, false, memory_order_relaxed);
    for (uint32_t i = 1;; i++) {
        struct change c;
        bool found;

        if (s->ending) {
            *ret = show_invalidate(s, scratch);
            return 0;
        }
        if (i % 256 == 0)
            TRY_RETURN(op_check(op));
        TRY_RETURN(next_change(s, op, &c, &found));
        if (!found)
            return at_end(s, op);
        TRY_RETURN(show(s, op, scratch, &c, ret));
        if (!bv_is_missing(*ret))
            return 0;
        arena_reset(scratch);
    }
}
