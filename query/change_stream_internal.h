/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by query/change_stream*.c only. */
#ifndef RUNNEL_QUERY_CHANGE_STREAM_INTERNAL_H
#define RUNNEL_QUERY_CHANGE_STREAM_INTERNAL_H

#include "oplog/stream.h"
#include "query/change_stream.h"
#include "query/pipeline.h"

/* The options of the stage, checked, as a stream takes them; strings and views in the arena.
 * `split`: the pipeline ends with $changeStreamSplitLargeEvent. */
int change_stream_parse(struct op *op, const struct change_stream_args *args, bool split,
                        struct arena *a, struct stream_options *ret) MUST_CHECK;

/*
 * Push-down: the parts of the $match stages right behind $changeStream that can be told for some
 * entries before the event is built. The stages stay in the chain.
 */
struct pushed_filter {
    const struct match **parts;
    size_t n;
};
/* Views of the pipeline's filters. */
void pushed_filter_init(struct pushed_filter *f, struct arena *a, const struct pipeline *p);
/* False: the stages would drop the event. ev: its scratch takes what the test composes. */
bool pushed_filter_keeps(const struct pushed_filter *f, struct eval *ev, struct event_fields *e);
/* Appends pushedDown, the array of the parts; nothing when there are none. */
void pushed_filter_explain(const struct pushed_filter *f, struct arena *a, struct bw *w);

/* --- splitting large events (change_stream_split.c) ---------------------------------------------
 */

struct event_split {
    uint8_t *bytes;       /* a copy of the event, on the heap */
    struct bv event;      /* a view of it */
    struct belem *fields; /* without _id, by size */
    uint32_t *starts;     /* of each fragment in `fields`, and the end */
    uint32_t nfields, n, at;
};

/* True for an event that the stage has to split. */
bool split_wanted(struct bv event);
/* Takes a copy; the fragments before `skip` are left out. */
int split_begin(struct event_split *s, struct op *op, struct bv event, uint32_t skip) MUST_CHECK;
bool split_pending(const struct event_split *s);
int split_next(struct event_split *s, struct op *op, struct arena *scratch,
               struct bv *ret) MUST_CHECK;
void split_end(struct event_split *s); /* zeroed: nothing */

#endif
