/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `$changeStream` as a query cursor: the stream and the user's stages behind it. */
#ifndef RUNNEL_QUERY_CHANGE_STREAM_H
#define RUNNEL_QUERY_CHANGE_STREAM_H

#include "query/cursor.h"

struct change_stream_args {
    const char *db;
    const char *coll;       /* NULL: {aggregate: 1} */
    struct bv pipeline;     /* the whole array; its first stage is $changeStream */
    struct expr_vars *vars; /* let; may be NULL */
    const struct eval *let; /* their values; NULL with vars */
    const char *read_level; /* explicit readConcern level, or NULL */
    bool v1_tokens;         /* {$_generateV2ResumeTokens: false} */
    bool as_written;        /* no push-down */
};

/* Opens nothing that waits: the cursor's first batch does. Errors of reference A.2 to A.4. */
int change_stream_open(struct op *op, const struct change_stream_args *args,
                       struct qcursor **ret) MUST_CHECK;

/* Since the process started: events (and fragments) put into replies, events too large to be shown,
 * and events shown in fragments. */
struct change_stream_stats {
    int64_t sent, large_failed, large_split;
};
void change_stream_stats(struct change_stream_stats *ret);

#endif
