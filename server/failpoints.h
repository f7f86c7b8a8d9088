/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * MongoDB's fail points, as far as drivers' test suites arm them by configureFailPoint. They exist
 * only with --enable-test-commands. (Places where the server itself is to die are base/fault.h.)
 *
 * A fail point is a row in failpoints.def. Unarmed they cost one relaxed load for all of them:
 * every call here is behind failpoints_armed(), or belongs to a request that one has chosen.
 * What a point was armed with is one BSON document, counted by its users, so that a request keeps
 * what it was chosen with however the point is set meanwhile.
 *
 * failCommand chooses a request once, in its first run, and the choice stays with the request
 * (rq->failpoint) over all waits.
 */
#ifndef RUNNEL_SERVER_FAILPOINTS_H
#define RUNNEL_SERVER_FAILPOINTS_H

#include <stdatomic.h>

#include "server/command.h"

enum failpoint_id {
#define FAILPOINT(id, name, what) FAILPOINT_##id,
#include "server/failpoints.def"
#undef FAILPOINT
    FAILPOINT_COUNT
};

enum failpoint_mode {
    FAILPOINT_OFF,
    FAILPOINT_ON,
    FAILPOINT_TIMES,  /* the next `n` matches */
    FAILPOINT_SKIP,   /* all but the next `n` matches */
    FAILPOINT_RANDOM, /* each match with `probability` */
};

struct failpoint_setting {
    enum failpoint_mode mode;
    int64_t n;
    double probability;
    struct bv data; /* document, or BV_NONE */
};

struct failpoint_data; /* what a point was armed with; shared, see below */

extern _Atomic int failpoint_armed_count;

static inline bool failpoints_armed(void)
{
    return __builtin_expect(atomic_load_explicit(&failpoint_armed_count, memory_order_relaxed) != 0,
                            0);
}

/* Arms, changes or disarms a point; copies the data. *ret_count: how often it has fired since the
 * start of the process. ERR_FAIL_POINT_SET_FAILED: no such point. Any thread. */
int failpoint_set(struct op *op, const char *name, const struct failpoint_setting *set,
                  int64_t *ret_count) MUST_CHECK;

/* --- places ------------------------------------------------------------------------------------
 */

/*
 * failCommand, once the envelope of rq is parsed: 0 to run the command (which the reply may still
 * see, below), INT_PARK, INT_CLOSE, or the error to fail with.
 */
int failpoint_command(struct request *rq) MUST_CHECK;
/* What rq was chosen with says for its reply: an array (also empty) that stands instead of the
 * labels, a document. BV_NONE: nothing. */
struct bv failpoint_error_labels(const struct request *rq);
struct bv failpoint_write_concern_error(const struct request *rq);
/* failGetMoreAfterCursorCheckout: 0 or the error. Only in the first run of rq. */
int failpoint_get_more(struct request *rq) MUST_CHECK;
/* onPrimaryTransactionalWrite, before the commit of a statement: 0 or the error that refuses it;
 * may set rq->lose_reply. The signature is that of retry_state's before_commit. */
int failpoint_before_commit(struct op *op) MUST_CHECK;
/* The deadline (monotonic) of a request that began at start_us with this maxTimeMS. */
int64_t failpoint_deadline(int64_t start_us, int64_t max_time_us);
/* disablePipelineOptimization: whether the pipeline is to run as it is written. */
bool failpoint_as_written(const struct request *rq);

/* Gives up what rq was chosen with. */
void failpoint_release(struct request *rq);

#endif
