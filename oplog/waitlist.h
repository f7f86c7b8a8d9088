/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Requests waiting for a number to be reached, in its order: a horizon or a flush ticket.
 *
 * The number itself is an atomic of the caller's, raised before waitlist_wake() is called. To wait,
 * the lowest number wanted is published first and the atomic read second; to wake, the other way
 * round: one of the two sees the other, so no wake-up is lost and an empty list costs one load.
 */
#ifndef RUNNEL_OPLOG_WAITLIST_H
#define RUNNEL_OPLOG_WAITLIST_H

#include "base/mutex.h"
#include "base/op.h"

struct waitlist {
    struct mutex mx;
    struct waiter *head, *tail; /* by `wanted`, ascending */
    _Atomic uint64_t lowest;    /* wanted by the head; UINT64_MAX: the list is empty */
};

void waitlist_init(struct waitlist *l);
void waitlist_fini(struct waitlist *l); /* must be empty */
/* INT_PARK: the op's waiter is on the list. 0: `reached` is at least `wanted` already. */
int waitlist_park(struct waitlist *l, struct op *op, uint64_t wanted,
                  const _Atomic uint64_t *reached) MUST_CHECK;
/* What op->unpark is set to. */
void waitlist_unpark(struct op *op);
/* Wakes all who want upto or less, a few at a time, so that those who park do not wait long. */
void waitlist_wake(struct waitlist *l, uint64_t upto);

#endif
