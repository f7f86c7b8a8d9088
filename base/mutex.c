/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/mutex.h"

#include <time.h>

_Thread_local char mutex_self;

void cond_init(pthread_cond_t *cv)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cv, &attr);
    pthread_condattr_destroy(&attr);
}

int mutex_wait(struct mutex *m, pthread_cond_t *cv, int64_t deadline_us)
{
    int rc;

    mutex_assert_held(m);
    atomic_store_explicit(&m->owner, 0, memory_order_relaxed);
    if (deadline_us < 0) {
        rc = pthread_cond_wait(cv, &m->mx);
    } else {
        struct timespec ts = {.tv_sec = deadline_us / 1000000,
                              .tv_nsec = (deadline_us % 1000000) * 1000};

        rc = pthread_cond_timedwait(cv, &m->mx, &ts);
    }
    atomic_store_explicit(&m->owner, (uintptr_t)&mutex_self, memory_order_relaxed);
    return rc;
}
