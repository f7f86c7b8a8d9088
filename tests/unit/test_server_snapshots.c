/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pinned snapshots: their times, sharing, waiting, and which of them goes first. */
#include "tests/unit/txn_util.h"

#include "base/limits.h"
#include "server/server.h"
#include "server/snapshots.h"

static struct world world;
static struct server server;
static int woken;

/* The program's; nothing here stops it. */
void server_stop(struct server *s)
{
    (void)s;
}

static void count_wake(struct waiter *w)
{
    (void)w;
    woken++;
}

static int setup(void **state)
{
    (void)state;
    world_open(&world, true, false);
    memset(&server, 0, sizeof(server));
    atomic_store(&server.database, &world.db);
    server.snapshots = snapshots_new();
    woken = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    snapshots_free(server.snapshots);
    request_thread_end();
    world_remove(&world);
    return 0;
}

/* A request that reads at a time (0: a new one) of the database t. */
static struct request *reader(uint64_t at)
{
    struct request *rq = request_new(&server, NULL);

    request_begin(rq);
    rq->op.db = "t";
    rq->op.waiter.wake = count_wake;
    rq->env->read_level = READ_SNAPSHOT;
    rq->env->at_cluster_time = at;
    return rq;
}

static void finish(struct request *rq)
{
    snapshot_leave(rq);
    request_free(rq);
}

static void write_one(int id)
{
    char doc[32];
    struct op op;

    snprintf(doc, sizeof(doc), "{\"_id\": %d}", id);
    request_init(&op, &world);
    OK(insert(&op, "t.c", doc));
    op_fini(&op);
}

/* Pins a new snapshot; its time. */
static uint64_t pin(void)
{
    struct request *rq = reader(0);
    uint64_t at;

    OK(snapshot_enter(rq));
    at = rq->env->at_cluster_time;
    finish(rq);
    return at;
}

/* What a read at that time gives. */
static int read_at(uint64_t at)
{
    struct request *rq = reader(at);
    int rc = snapshot_enter(rq);

    finish(rq);
    return rc;
}

static int64_t pinned(void)
{
    struct snapshots_stats st;

    snapshots_stats(server.snapshots, &st);
    return st.pinned;
}

static void test_times(void **state)
{
    uint64_t one, two;

    (void)state;
    write_one(1);
    one = pin();
    assert_int_equal(one, oplog_allocated(world.db.oplog));
    assert_int_equal(pin(), one); /* nothing was written between */
    assert_int_equal(pinned(), 1);
    write_one(2);
    two = pin();
    assert_true(two > one);
    assert_int_equal(pinned(), 2);
    OK(read_at(one));
    OK(read_at(two));
    assert_int_equal(read_at(one - 1), ERR_SNAPSHOT_TOO_OLD);
    write_one(3);
    write_one(4);
    assert_int_equal(read_at(two + 1), ERR_SNAPSHOT_TOO_OLD);
    assert_int_equal(pinned(), 2);
}

/* A time ahead becomes the newest one: what is written later is above it. */
static void test_time_ahead(void **state)
{
    uint64_t ahead;

    (void)state;
    write_one(1);
    ahead = oplog_allocated(world.db.oplog) + (UINT64_C(100) << 32);
    OK(read_at(ahead));
    assert_int_equal(oplog_allocated(world.db.oplog), ahead);
    write_one(2);
    assert_true(oplog_allocated(world.db.oplog) > ahead);
    OK(read_at(ahead));
}

static void test_one_at_a_time(void **state)
{
    struct request *first = reader(0), *second;

    (void)state;
    write_one(1);
    OK(snapshot_enter(first));
    OK(snapshot_enter(first)); /* inside already */
    write_one(2);
    second = reader(first->env->at_cluster_time);
    assert_int_equal(snapshot_enter(second), INT_PARK);
    assert_int_equal(woken, 0);
    snapshot_leave(first);
    assert_int_equal(woken, 1);
    second->op.unpark(&second->op);
    OK(snapshot_enter(second));
    finish(second);
    request_free(first);
}

static void test_least_recently_used_goes(void **state)
{
    uint64_t at[LIMIT_SNAPSHOTS];

    (void)state;
    for (int i = 0; i < LIMIT_SNAPSHOTS; i++) {
        write_one(i);
        at[i] = pin();
    }
    OK(read_at(at[0]));
    write_one(LIMIT_SNAPSHOTS);
    pin();
    assert_int_equal(pinned(), LIMIT_SNAPSHOTS);
    OK(read_at(at[0]));
    assert_int_equal(read_at(at[1]), ERR_SNAPSHOT_TOO_OLD);
    OK(read_at(at[2]));
}

static void test_all_in_use(void **state)
{
    struct request *rq[LIMIT_SNAPSHOTS + 1];

    (void)state;
    for (int i = 0; i <= LIMIT_SNAPSHOTS; i++) {
        write_one(i);
        rq[i] = reader(0);
        assert_int_equal(snapshot_enter(rq[i]), i < LIMIT_SNAPSHOTS ? 0 : INT_PARK);
    }
    assert_false(snapshots_drop_oldest(server.snapshots) && pinned() < LIMIT_SNAPSHOTS);
    finish(rq[0]);
    assert_int_equal(woken, 1);
    rq[LIMIT_SNAPSHOTS]->op.unpark(&rq[LIMIT_SNAPSHOTS]->op);
    OK(snapshot_enter(rq[LIMIT_SNAPSHOTS]));
    for (int i = 1; i <= LIMIT_SNAPSHOTS; i++)
        finish(rq[i]);
}

static void test_giving_up(void **state)
{
    struct request *rq;
    uint64_t one, two;

    (void)state;
    assert_false(snapshots_drop_oldest(server.snapshots));
    write_one(1);
    one = pin();
    write_one(2);
    two = pin();
    rq = reader(one);
    OK(snapshot_enter(rq));
    assert_true(snapshots_drop_oldest(server.snapshots)); /* when its reader leaves */
    assert_int_equal(pinned(), 2);
    finish(rq);
    assert_int_equal(pinned(), 1);
    assert_int_equal(read_at(one), ERR_SNAPSHOT_TOO_OLD);
    snapshots_sweep(server.snapshots, NULL);
    OK(read_at(two));
    snapshots_set_window_s(server.snapshots, 0);
    snapshots_sweep(server.snapshots, NULL);
    assert_int_equal(pinned(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_times, setup, teardown),
        cmocka_unit_test_setup_teardown(test_time_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_least_recently_used_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_in_use, setup, teardown),
        cmocka_unit_test_setup_teardown(test_giving_up, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
