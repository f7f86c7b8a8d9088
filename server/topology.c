/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/topology.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"

/* An ObjectId: seconds, random. */
static void make_process_id(uint8_t id[12])
{
    uint32_t secs = (uint32_t)(clock_wall_ms() / 1000);

    for (int i = 0; i < 4; i++)
        id[i] = (uint8_t)(secs >> (24 - 8 * i));
    if (getrandom(id + 4, 8, 0) != 8)
        abort();
}

void topology_init(struct topology *t)
{
    memset(t, 0, sizeof(*t));
    mutex_init(&t->mx);
    make_process_id(t->process_id);
    t->counter = 6; /* as a member has that has just become primary */
}

void topology_fini(struct topology *t)
{
    ASSERT(t->waiting == NULL);
    mutex_fini(&t->mx);
}

int64_t topology_counter(struct topology *t)
{
    int64_t n;

    mutex_lock(&t->mx);
    n = t->counter;
    mutex_unlock(&t->mx);
    return n;
}

static void unpark(struct op *op)
{
    struct topology *t = op->park_list;
    struct waiter *w = &op->waiter;

    mutex_lock(&t->mx);
    if (w->prev != NULL)
        w->prev->next = w->next;
    else
        t->waiting = w->next;
    if (w->next != NULL)
        w->next->prev = w->prev;
    w->next = w->prev = NULL;
    mutex_unlock(&t->mx);
    op->unpark = NULL;
    op->park_list = NULL;
}

int topology_wait(struct topology *t, struct op *op, int64_t counter)
{
    struct waiter *w = &op->waiter;
    int rc = 0;

    mutex_lock(&t->mx);
    if (t->counter <= counter) {
        ASSERT(op->unpark == NULL);
        w->prev = NULL;
        w->next = t->waiting;
        if (t->waiting != NULL)
            t->waiting->prev = w;
        t->waiting = w;
        op->park_list = t;
        op->unpark = unpark;
        rc = INT_PARK;
    }
    mutex_unlock(&t->mx);
    return rc;
}

void topology_bump(struct topology *t)
{
    mutex_lock(&t->mx);
    t->counter++;
    for (struct waiter *w = t->waiting; w != NULL; w = w->next)
        w->wake(w);
    mutex_unlock(&t->mx);
}

int64_t topology_write(struct topology *t, struct bw *w)
{
    int64_t counter = topology_counter(t);

    bw_doc_begin(w, "topologyVersion");
    bw_oid(w, "processId", t->process_id);
    bw_i64(w, "counter", counter);
    bw_end(w);
    return counter;
}
