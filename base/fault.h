/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Named fault points for tests: places where a test makes the server die, wait or fail.
 *
 *     FAULT(COMMIT_BEFORE);             // die or wait here, if a test has armed it
 *     TRY(FAULT_ERROR(FLUSH));          // also return an error code, if armed so
 *
 * Unarmed, a point costs one relaxed load. Armed by `RUNNEL_FAULT=name:action[:nth]` in the
 * environment or by the admin command `runnelFault` (only with --enable-test-commands); actions:
 * kill (SIGKILL to ourselves), wait (until the fault is set to off), error=<code>, fail=<code>.
 */
#ifndef RUNNEL_BASE_FAULT_H
#define RUNNEL_BASE_FAULT_H

#include <stdatomic.h>

#include "base/error.h"

enum fault_id {
#define FAULT_POINT(id, name, what) FAULT_##id,
#include "base/faults.def"
#undef FAULT_POINT
    FAULT_COUNT
};

extern _Atomic int fault_armed; /* number of armed points */

int fault_hit(enum fault_id id); /* 0 or the error to return */

#define FAULT(id)                                                                                  \
    do {                                                                                           \
        if (__builtin_expect(atomic_load_explicit(&fault_armed, memory_order_relaxed) != 0, 0))    \
            (void)fault_hit(FAULT_##id);                                                           \
    } while (0)
#define FAULT_ERROR(id)                                                                            \
    (__builtin_expect(atomic_load_explicit(&fault_armed, memory_order_relaxed) != 0, 0)            \
         ? fault_hit(FAULT_##id)                                                                   \
         : 0)

/* "name:action[:nth]"; nth counts hits from 1 (default 1; for wait and error: every hit from the
 * nth on; for fail: the nth only). Arming starts the count anew, except a wait where a wait is
 * armed: so asking again tells how many have come. 0, or ERR_BAD_VALUE. Any thread. */
int fault_set(const char *spec, struct error *err) MUST_CHECK;
void fault_clear_all(void);
/* Hits of a point since it was armed; -1: no such point. */
long fault_hits(const char *name);

#endif
