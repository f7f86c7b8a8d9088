/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which cursors a sweep closes: those that nobody has used for too long, whatever came before. */
#include "server/cursors_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "server/server.h"

static struct server server;
static struct request rq;

/* The program's; nothing here stops it. */
void server_stop(struct server *s)
{
    (void)s;
}

static int setup(void **state)
{
    (void)state;
    server.cursors = cursors_new(100);
    rq = (struct request){.server = &server};
    op_init(&rq.op);
    request_begin(&rq);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cursor_unpin(&rq);
    cursors_kill_all(server.cursors, ERR_CURSOR_KILLED);
    cursors_free(server.cursors);
    op_fini(&rq.op);
    return 0;
}

static int64_t new_cursor(bool no_timeout)
{
    struct cursor_entry e = {.txn_number = -1, .no_timeout = no_timeout};

    assert_int_equal(qcursor_from_array(&rq.op, "db.c", NULL, 0, &e.c), 0);
    assert_int_equal(cursor_entry_insert(server.cursors, &rq.op, &e), 0);
    return e.id;
}

static struct cursor_entry *use(int64_t id)
{
    struct cursor_entry *e;

    assert_int_equal(cursor_pin(&rq, id, "db.c"), 0);
    e = rq.cursor;
    cursor_unpin(&rq);
    return e;
}

static bool is_there(int64_t id)
{
    int rc = cursor_pin(&rq, id, "db.c");

    cursor_unpin(&rq);
    return rc == 0;
}

static int64_t timed_out(void)
{
    struct cursor_stats s;

    cursors_stats(server.cursors, &s);
    return s.timed_out;
}

static void only_idle_cursors_time_out(void **state)
{
    int64_t idle = new_cursor(false), forever = new_cursor(true), used = new_cursor(false);

    (void)state;
    assert_int_equal(cursor_pin(&rq, used, "db.c"), 0);
    cursors_sweep(server.cursors, 0);
    assert_int_equal(timed_out(), 1);
    cursor_unpin(&rq);
    assert_false(is_there(idle));
    assert_true(is_there(forever));
    cursors_sweep(server.cursors, 0);
    assert_int_equal(timed_out(), 2);
    assert_true(is_there(forever));
}

/* Whichever of three was used last, in whatever order they were made. */
static void a_used_cursor_begins_its_time_anew(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        int64_t ids[3];

        for (int k = 0; k < 3; k++) {
            ids[k] = new_cursor(false);
            use(ids[k])->last_use_us -= 60 * 1000000;
        }
        (void)use(ids[i]);
        cursors_sweep(server.cursors, 30 * 1000);
        for (int k = 0; k < 3; k++)
            assert_int_equal(is_there(ids[k]), k == i);
        assert_true(cursors_kill(server.cursors, &rq, ids[i], "db.c"));
    }
    assert_int_equal(timed_out(), 6);
}

/* Those that go in other ways are not met by a sweep, at whichever place they stood. */
static void killed_cursors_are_not_swept(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        int64_t ids[3];

        for (int k = 0; k < 3; k++)
            ids[k] = new_cursor(false);
        if (i == 1) {
            assert_int_equal(cursor_pin(&rq, ids[i], "db.c"), 0);
            cursor_doom(&rq);
        } else {
            assert_true(cursors_kill(server.cursors, &rq, ids[i], "db.c"));
        }
        cursors_sweep(server.cursors, 0);
        assert_int_equal(timed_out(), 2 * (i + 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_idle_cursors_time_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_used_cursor_begins_its_time_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(killed_cursors_are_not_swept, setup, teardown),
    };

    return cmocka_run_group_tests_name("server_cursors", tests, NULL, NULL);
}
