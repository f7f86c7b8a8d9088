/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/oid.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/error.h"

static uint8_t process_bytes[5];
static _Atomic uint32_t counter;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void)
{
    uint8_t bytes[9];
    uint32_t first;

    ASSERT(getrandom(bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes));
    memcpy(process_bytes, bytes, 5);
    memcpy(&first, bytes + 5, 4);
    atomic_store(&counter, first);
}

void oid_new(uint8_t ret[12])
{
    uint32_t seconds = (uint32_t)(clock_wall_ms() / 1000), n;

    pthread_once(&once, start);
    n = atomic_fetch_add(&counter, 1);
    for (int i = 0; i < 4; i++)
        ret[i] = (uint8_t)(seconds >> (24 - 8 * i));
    memcpy(ret + 4, process_bytes, 5);
    for (int i = 0; i < 3; i++)
        ret[9 + i] = (uint8_t)(n >> (16 - 8 * i));
}
