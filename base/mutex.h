/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A mutex that knows its owner, so that _locked functions can assert it. */
#ifndef RUNNEL_BASE_MUTEX_H
#define RUNNEL_BASE_MUTEX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"

struct mutex {
    pthread_mutex_t mx;
    _Atomic uintptr_t owner; /* address of a thread-local of the owner; 0: free */
};

extern _Thread_local char mutex_self;

static inline void mutex_init(struct mutex *m)
{
    pthread_mutex_init(&m->mx, NULL);
    atomic_init(&m->owner, 0);
}

static inline void mutex_fini(struct mutex *m)
{
    pthread_mutex_destroy(&m->mx);
}

static inline void mutex_lock(struct mutex *m)
{
    pthread_mutex_lock(&m->mx);
    atomic_store_explicit(&m->owner, (uintptr_t)&mutex_self, memory_order_relaxed);
}

static inline void mutex_unlock(struct mutex *m)
{
    atomic_store_explicit(&m->owner, 0, memory_order_relaxed);
    pthread_mutex_unlock(&m->mx);
}

static inline void mutex_assert_held(struct mutex *m)
{
    ASSERT(atomic_load_explicit(&m->owner, memory_order_relaxed) == (uintptr_t)&mutex_self);
}

/* Waits on cv with m held; the deadline is CLOCK_MONOTONIC (cv made by cond_init), <0: none. */
int mutex_wait(struct mutex *m, pthread_cond_t *cv, int64_t deadline_us);
void cond_init(pthread_cond_t *cv);

#endif
