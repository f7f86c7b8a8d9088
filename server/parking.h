/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The state of a request between running and waiting, so that no wake-up is lost.
 *
 *     RUNNING --wake--> WAKE_PENDING --park--> (runs again at once)
 *     RUNNING --park--> PARKED --wake--> READY --resume--> RUNNING
 *
 * Exactly one call of parking_wake() turns PARKED into READY, and its caller queues the request;
 * all other wake-ups only add their reason. A wake-up between READY and RUNNING is absorbed: the
 * request is about to look at its condition anyway. Reasons are ordered (enum wake_reason); the
 * strongest one is kept.
 */
#ifndef RUNNEL_SERVER_PARKING_H
#define RUNNEL_SERVER_PARKING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/op.h"

enum park_state { PARK_RUNNING, PARK_WAKE_PENDING, PARK_PARKED, PARK_READY };

struct parking {
    _Atomic unsigned word; /* enum park_state | reason << 8 */
};

void parking_init(struct parking *p);
enum park_state parking_state(struct parking *p);
/* Any thread. True: the caller must queue the request. */
bool parking_wake(struct parking *p, enum wake_reason reason);
/* By the thread that runs the request, as its last touch of it. True: parked, and now in other
 * hands. False: a wake-up came first; still the caller's, PARK_RUNNING. */
bool parking_park(struct parking *p, enum wake_reason *ret_reason);
/* By the thread that took the request off the queue. */
enum wake_reason parking_resume(struct parking *p);

#endif
