/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/parking.h"

static unsigned pack(enum park_state state, enum wake_reason reason)
{
    return (unsigned)state | (unsigned)reason << 8;
}

static enum park_state state_of(unsigned word)
{
    return (enum park_state)(word & 0xFF);
}

static enum wake_reason reason_of(unsigned word)
{
    return (enum wake_reason)(word >> 8);
}

void parking_init(struct parking *p)
{
    atomic_init(&p->word, pack(PARK_RUNNING, WAKE_NONE));
}

enum park_state parking_state(struct parking *p)
{
    return state_of(atomic_load(&p->word));
}

bool parking_wake(struct parking *p, enum wake_reason reason)
{
    unsigned old = atomic_load(&p->word), now;

    do {
        enum wake_reason kept = reason_of(old) > reason ? reason_of(old) : reason;

        switch (state_of(old)) {
        case PARK_RUNNING:
        case PARK_WAKE_PENDING:
            now = pack(PARK_WAKE_PENDING, kept);
            break;
        default:
            now = pack(PARK_READY, kept);
            break;
        }
    } while (!atomic_compare_exchange_weak(&p->word, &old, now));
    return state_of(old) == PARK_PARKED;
}

bool parking_park(struct parking *p, enum wake_reason *ret_reason)
{
    unsigned old = pack(PARK_RUNNING, WAKE_NONE);

    if (atomic_compare_exchange_strong(&p->word, &old, pack(PARK_PARKED, WAKE_NONE)))
        return true;
    ASSERT(state_of(old) == PARK_WAKE_PENDING);
    old = atomic_exchange(&p->word, pack(PARK_RUNNING, WAKE_NONE));
    *ret_reason = reason_of(old);
    return false;
}

enum wake_reason parking_resume(struct parking *p)
{
    unsigned old = atomic_exchange(&p->word, pack(PARK_RUNNING, WAKE_NONE));

    ASSERT(state_of(old) == PARK_READY);
    return reason_of(old);
}
