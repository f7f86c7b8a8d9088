/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * topologyVersion, and the hello requests that wait for it to change. A one-member set changes
 * when it begins to stop and when it is reconfigured.
 */
#ifndef RUNNEL_SERVER_TOPOLOGY_H
#define RUNNEL_SERVER_TOPOLOGY_H

#include "base/bw.h"
#include "base/mutex.h"
#include "base/op.h"

struct topology {
    struct mutex mx;
    uint8_t process_id[12]; /* new at each start */
    int64_t counter;
    struct waiter *waiting;
};

void topology_init(struct topology *t);
void topology_fini(struct topology *t);
int64_t topology_counter(struct topology *t);
/* 0: the counter has passed `counter`. INT_PARK: op->waiter is registered. */
int topology_wait(struct topology *t, struct op *op, int64_t counter) MUST_CHECK;
void topology_bump(struct topology *t);
/* The field topologyVersion; returns the counter in it. */
int64_t topology_write(struct topology *t, struct bw *w);

#endif
