/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/nslock.h"

static struct nslock_table *t;

/* A request that counts its wake-ups. */
struct request {
    struct op op;
    int wakes;
    struct nslock lock;
};

static void wake(struct waiter *w)
{
    ((struct request *)(void *)((char *)w - offsetof(struct request, op.waiter)))->wakes++;
}

static void request_init(struct request *r)
{
    op_init(&r->op);
    r->op.waiter.wake = wake;
    r->wakes = 0;
    r->lock.entry = NULL;
}

static void request_fini(struct request *r)
{
    if (r->op.unpark != NULL)
        r->op.unpark(&r->op);
    nslock_release(t, &r->lock);
    op_fini(&r->op);
}

/* As the executor runs a request again. */
static int acquire(struct request *r, const char *name, enum nslock_mode mode)
{
    if (r->op.unpark != NULL)
        r->op.unpark(&r->op);
    return nslock_acquire(t, &r->op, name, mode, &r->lock);
}

static int set_up(void **state)
{
    (void)state;
    t = nslock_table_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    nslock_table_free(t); /* asserts that every entry was given back */
    return 0;
}

static void test_modes(void **state)
{
    struct request a, b, c;
    struct nslock l = {NULL, NSLOCK_SHARED};

    (void)state;
    request_init(&a);
    request_init(&b);
    request_init(&c);
    assert_int_equal(acquire(&a, "db.x", NSLOCK_SHARED), 0);
    assert_int_equal(acquire(&b, "db.x", NSLOCK_SHARED), 0);
    assert_int_equal(nslock_try(t, "db.x", NSLOCK_EXCLUSIVE, &l), ERR_LOCK_TIMEOUT);
    assert_int_equal(nslock_try(t, "db.y", NSLOCK_EXCLUSIVE, &l), 0);
    assert_int_equal(acquire(&c, "db.y", NSLOCK_SHARED), INT_PARK);
    assert_int_equal(c.wakes, 0);
    nslock_release(t, &l);
    nslock_release(t, &l); /* a handle that is not held: nothing */
    assert_int_equal(c.wakes, 1);
    assert_int_equal(acquire(&c, "db.y", NSLOCK_SHARED), 0);
    request_fini(&a);
    request_fini(&b);
    request_fini(&c);
}

/* A waiting exclusive request keeps later shared ones out, so it gets its turn. */
static void test_exclusive_drains(void **state)
{
    struct request holder, ddl, late;

    (void)state;
    request_init(&holder);
    request_init(&ddl);
    request_init(&late);
    assert_int_equal(acquire(&holder, "db.x", NSLOCK_SHARED), 0);
    assert_int_equal(acquire(&ddl, "db.x", NSLOCK_EXCLUSIVE), INT_PARK);
    assert_int_equal(acquire(&late, "db.x", NSLOCK_SHARED), INT_PARK);
    nslock_release(t, &holder.lock);
    assert_int_equal(ddl.wakes, 1);
    assert_int_equal(acquire(&late, "db.x", NSLOCK_SHARED), INT_PARK);
    assert_int_equal(acquire(&ddl, "db.x", NSLOCK_EXCLUSIVE), 0);
    assert_int_equal(acquire(&late, "db.x", NSLOCK_SHARED), INT_PARK);
    late.wakes = 0;
    nslock_release(t, &ddl.lock);
    assert_int_equal(late.wakes, 1);
    assert_int_equal(acquire(&late, "db.x", NSLOCK_SHARED), 0);
    request_fini(&holder);
    request_fini(&ddl);
    request_fini(&late);
}

/* An exclusive request that gives up lets the shared ones through that it kept out. */
static void test_giving_up(void **state)
{
    struct request holder, ddl, late;

    (void)state;
    request_init(&holder);
    request_init(&ddl);
    request_init(&late);
    assert_int_equal(acquire(&holder, "db.x", NSLOCK_SHARED), 0);
    assert_int_equal(acquire(&ddl, "db.x", NSLOCK_EXCLUSIVE), INT_PARK);
    assert_int_equal(acquire(&late, "db.x", NSLOCK_SHARED), INT_PARK);
    late.wakes = 0;
    ddl.op.unpark(&ddl.op);
    assert_int_equal(late.wakes, 1);
    assert_int_equal(acquire(&late, "db.x", NSLOCK_SHARED), 0);
    request_fini(&holder);
    request_fini(&ddl);
    request_fini(&late);
}

static void test_many_names(void **state)
{
    static struct request r[2000];
    char name[32];

    (void)state;
    for (int i = 0; i < 2000; i++) {
        request_init(&r[i]);
        snprintf(name, sizeof(name), "db.c%d", i);
        assert_int_equal(acquire(&r[i], name, NSLOCK_EXCLUSIVE), 0);
    }
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(r[i].wakes, 0);
        request_fini(&r[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        T(test_modes),
        T(test_exclusive_drains),
        T(test_giving_up),
        T(test_many_names),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
