/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Shared and exclusive locks on names (databases, "db.collection"), whose waiters park.
 *
 * Writers hold the database and the collection shared from catalog lookup to commit; DDL holds
 * exclusively what it changes. Order: database first, then collections by name; a request that
 * cannot get a lock releases what it holds and parks, so there is no deadlock: INT_PARK comes back
 * with op->waiter on the lock's list, and the request is run again when the lock may be free.
 * A waiting exclusive request keeps later shared ones out, so DDL drains.
 *
 * A struct nslock is a handle in the caller's memory. Any thread.
 */
#ifndef RUNNEL_BASE_NSLOCK_H
#define RUNNEL_BASE_NSLOCK_H

#include "base/op.h"

struct nslock_table;
struct nslock_entry;

enum nslock_mode { NSLOCK_SHARED, NSLOCK_EXCLUSIVE };

struct nslock {
    struct nslock_entry *entry; /* NULL: not held */
    enum nslock_mode mode;
};

struct nslock_table *nslock_table_new(void);
void nslock_table_free(struct nslock_table *t);

/* 0: held. INT_PARK: not held, the op's waiter is registered; release everything and return. */
int nslock_acquire(struct nslock_table *t, struct op *op, const char *name, enum nslock_mode mode,
                   struct nslock *ret) MUST_CHECK;
/* 0: held. ERR_LOCK_TIMEOUT: taken by someone else; nothing registered. For internal tasks. */
int nslock_try(struct nslock_table *t, const char *name, enum nslock_mode mode,
               struct nslock *ret) MUST_CHECK;
/* Does nothing for a handle that is not held. Wakes waiters. */
void nslock_release(struct nslock_table *t, struct nslock *l);

#endif
