/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A change stream's state: where it stands in the oplog, what it still looks for, how it ends.
 *
 * Position. (next_optime, next_index) is the first change not yet dealt with; it moves over entries
 * that the scope or the filter rejects, so a quiet stream stays resumable (invariant 10). Between
 * batches a stream holds nothing but that and its token: no reader, no snapshot.
 *
 * Resuming. After an event's token the stream reads on from the token's time and swallows what is
 * not behind it; the event itself must turn up (280 otherwise), so that a token is never taken for
 * a place that this stream does not have. A high-water mark is just a time.
 *
 * Ending. The event that ends the scope (events.def) is followed by `invalidate`, and then nothing.
 *
 * A stream belongs to one thread at a time (its cursor's).
 */
#ifndef RUNNEL_OPLOG_STREAM_H
#define RUNNEL_OPLOG_STREAM_H

#include "oplog/event.h"

enum stream_start {
    STREAM_FROM_NOW,   /* behind the newest optime handed out */
    STREAM_FROM_TIME,  /* start_time, inclusive */
    STREAM_FROM_TOKEN, /* behind `resume` */
};

struct stream_options {
    struct scope scope;
    struct event_options event;
    int32_t token_version; /* of new tokens: 1 or 2 */
    enum stream_start start;
    uint64_t start_time;
    const struct resume_token *resume; /* STREAM_FROM_TOKEN; its fragment does not count */
    struct bv resume_doc;              /* that token as the client gave it */
    /* Push-down: false drops the event before it is built. Asked for events behind the resume
     * point only; an event that ends the stream ends it all the same. May be NULL. */
    bool (*accept)(void *arg, struct op *op, const struct event *e);
    void *accept_arg;
};

struct stream;

/* Reads nothing yet: whether the start lies within the oplog is found by the first stream_next().
 * NULL when memory is out. What `o` points to must outlive the stream. */
struct stream *stream_new(struct oplog *oplog, const struct stream_options *o);
void stream_free(struct stream *s); /* NULL: nothing */
/* What it was made with. */
const struct stream_options *stream_options(const struct stream *s);

/*
 * The next event, in `scratch` (which is reset when a change is dropped). BV_NONE with *ret_more:
 * nothing now; without: the stream has ended. ERR_CHANGE_STREAM_HISTORY_LOST when the start (or a
 * part of a transaction) is no longer in the oplog, ERR_CAPPED_POSITION_LOST when retention
 * overtook a stream that had already begun, ERR_CHANGE_STREAM_FATAL when the resume token's event
 * is not there.
 */
int stream_next(struct stream *s, struct op *op, struct arena *scratch, struct bv *ret,
                bool *ret_more) MUST_CHECK;
/* The batch ends: drops what it reads with. */
void stream_save(struct stream *s);
/* 0: there may be more, read again. INT_PARK: op waits for it. */
int stream_wait(struct stream *s, struct op *op) MUST_CHECK;

/* The token to resume from now: behind the last delivered event, or behind all that was read. Valid
 * until the next call for this stream, or in the arena. */
struct bv stream_token(const struct stream *s, struct arena *a);
/* From any thread: the time that stream_token() stands for; *ret_waiting: the stream has read all
 * there is and waits for more. */
uint64_t stream_seen(struct stream *s, bool *ret_waiting);
/* The event with this token is put into a reply. False: memory is out, it must not be. */
bool stream_delivered(struct stream *s, struct bv token) MUST_CHECK;

#endif
