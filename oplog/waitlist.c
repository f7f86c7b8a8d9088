/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "oplog/waitlist.h"

/* Waiters woken under one hold of the mutex. */
enum { WAKE_CHUNK = 64 };

void waitlist_init(struct waitlist *l)
{
    mutex_init(&l->mx);
    l->head = l->tail = NULL;
    atomic_init(&l->lowest, UINT64_MAX);
}

void waitlist_fini(struct waitlist *l)
{
    ASSERT(l->head == NULL);
    mutex_fini(&l->mx);
}

static void publish_lowest_locked(struct waitlist *l)
{
    mutex_assert_held(&l->mx);
    atomic_store(&l->lowest, l->head == NULL ? UINT64_MAX : l->head->wanted);
}

/* Wants mostly grow, so the place is near the tail. */
static void insert_locked(struct waitlist *l, struct waiter *w)
{
    struct waiter *before = l->tail;

    mutex_assert_held(&l->mx);
    while (before != NULL && before->wanted > w->wanted)
        before = before->prev;
    w->prev = before;
    w->next = before == NULL ? l->head : before->next;
    if (w->next != NULL)
        w->next->prev = w;
    else
        l->tail = w;
    if (before != NULL)
        before->next = w;
    else
        l->head = w;
    w->list = l;
}

static void remove_locked(struct waitlist *l, struct waiter *w)
{
    mutex_assert_held(&l->mx);
    if (w->prev != NULL)
        w->prev->next = w->next;
    else
        l->head = w->next;
    if (w->next != NULL)
        w->next->prev = w->prev;
    else
        l->tail = w->prev;
    w->next = w->prev = NULL;
    w->list = NULL;
}

void waitlist_unpark(struct op *op)
{
    struct waitlist *l = op->park_list;

    mutex_lock(&l->mx);
    if (op->waiter.list == l) {
        remove_locked(l, &op->waiter);
        publish_lowest_locked(l);
    }
    mutex_unlock(&l->mx);
    op->unpark = NULL;
    op->park_list = NULL;
}

int waitlist_park(struct waitlist *l, struct op *op, uint64_t wanted,
                  const _Atomic uint64_t *reached)
{
    ASSERT(op->unpark == NULL);
    mutex_lock(&l->mx);
    op->waiter.wanted = wanted;
    insert_locked(l, &op->waiter);
    publish_lowest_locked(l);
    if (atomic_load(reached) >= wanted) {
        remove_locked(l, &op->waiter);
        publish_lowest_locked(l);
        mutex_unlock(&l->mx);
        return 0;
    }
    op->park_list = l;
    op->unpark = waitlist_unpark;
    mutex_unlock(&l->mx);
    return INT_PARK;
}

void waitlist_wake(struct waitlist *l, uint64_t upto)
{
    while (atomic_load(&l->lowest) <= upto) {
        mutex_lock(&l->mx);
        for (int n = 0; n < WAKE_CHUNK && l->head != NULL && l->head->wanted <= upto; n++) {
            struct waiter *w = l->head;

            remove_locked(l, w);
            w->wake(w);
        }
        publish_lowest_locked(l);
        mutex_unlock(&l->mx);
    }
}
