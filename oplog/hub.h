/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Parked streams, found by the names they watch.
 *
 * A topic is one watched name with those who wait for it; topics hang in a hash table whose buckets
 * tell without a lock whether a name may be watched, so a write to a name that nobody watches costs
 * one load per name. Cluster-wide streams and tailers of the oplog have a topic each.
 *
 * To wait: the node is linked and counted first, then the horizon is read and the ring searched; to
 * wake: the horizon is raised first, then the topics are looked up. One of the two sees the other.
 *
 * `announced` follows the horizon: every parked stream that an entry at or below it concerns has
 * been woken. What is still parked may take it as its position without reading.
 *
 * `expected` is the newest optime that a parked stream may want to be told of; nothing behind it
 * has to be looked at when the horizon is raised. Two raise it: the pump, through which every entry
 * goes before it is announced, for those who are parked by then; and a stream that parks with such
 * an entry above the horizon, which then looks at the horizon once more, for it may have been
 * raised before `expected` was.
 */
#ifndef RUNNEL_OPLOG_HUB_H
#define RUNNEL_OPLOG_HUB_H

#include "base/mutex.h"
#include "oplog/ring.h"
#include "oplog/scope.h"

enum { HUB_BUCKETS = 16384, HUB_SHARDS = 64 };

struct hub_topic;

struct hub_bucket {
    /* Which topics are in it. 0: none. Even: the hash of the only one, without its last bit. Odd:
     * several; above the last bit a set of the hashes, one bit for each. */
    _Atomic uint64_t key;
    struct hub_topic *topics;
};

struct hub {
    struct mutex shards[HUB_SHARDS]; /* of the buckets, by index */
    struct hub_bucket *buckets;
    struct mutex wide_mx; /* of the two below */
    struct hub_topic *cluster, *tailers;
    _Atomic int64_t streams;   /* parked on buckets and on `cluster` */
    _Atomic int64_t nclusters; /* of these, on `cluster` */
    _Atomic int64_t ntailers;  /* parked on `tailers` */
    _Atomic uint64_t announced, expected;
};

void hub_init(struct hub *h, uint64_t announced);
void hub_fini(struct hub *h); /* nobody is parked */

/* What a waiter's check says about the entries above its position. */
enum hub_check { HUB_NOTHING, HUB_READ_AGAIN };

/* Links the op's waiter, then calls `check` under the same lock; HUB_READ_AGAIN takes it off again.
 * 0: read again. INT_PARK: parked. */
int hub_park(struct hub *h, struct op *op, const struct scope *s, uint64_t after,
             enum hub_check (*check)(void *arg), void *arg) MUST_CHECK;
/* True when a parked stream may want this entry. Never waits for those who wake. */
bool hub_wants(struct hub *h, const struct oplog_row *row);
/* The entry of this optime, or one before it, is to be looked at when it is announced. */
void hub_expect(struct hub *h, uint64_t optime);
/* Wakes the streams that the entry concerns. */
void hub_wake(struct hub *h, const struct oplog_row *row);
/* Wakes every stream whose position is below upto. */
void hub_wake_all(struct hub *h, uint64_t upto);
/* Wakes the tailers of the oplog whose position is below visible. */
void hub_wake_tailers(struct hub *h, uint64_t visible);
/* Where a parked stream's wait ended: see oplog_wait_passed(). */
uint64_t hub_passed(const struct op *op);

#endif
