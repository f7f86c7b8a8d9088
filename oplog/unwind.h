/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The changes inside a transaction: applyOps entries, one or a chain of them linked backwards by
 * prevOpTime, taken apart in order.
 */
#ifndef RUNNEL_OPLOG_UNWIND_H
#define RUNNEL_OPLOG_UNWIND_H

#include "oplog/event.h"

struct unwind_part;

struct unwind {
    struct arena arena;       /* earlier entries of the chain */
    struct oplog_row head;    /* the entry that commits; its bytes are borrowed */
    struct unwind_part *part; /* the one being read; NULL: the end */
    struct biter it;
    int64_t at;    /* position of the next operation within the part */
    int32_t index; /* and within the whole */
    bool in_txn;   /* a transaction of a session, not a batched write */
};

/* True for an entry that stands for the changes inside it. */
bool unwind_wanted(const struct oplog_row *row);
/* ERR_CHANGE_STREAM_HISTORY_LOST when an earlier entry of the chain is gone. After any return
 * unwind_close() may be called. */
int unwind_open(struct unwind *u, struct oplog *o, struct op *op,
                const struct oplog_row *row) MUST_CHECK;
/* The next operation, as a change; false: there is none. Valid while the head's bytes are. */
bool unwind_next(struct unwind *u, struct change *ret);
void unwind_close(struct unwind *u);

#endif
