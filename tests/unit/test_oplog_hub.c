/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The hub with many topics: a watched name is always found, one that nobody watches costs nothing.
 */
#include "oplog_util.h"

#include "oplog/hub.h"

enum { WATCHERS = 10000, FOREIGN = 20000 };

static struct hub hub;
static struct op ops[WATCHERS];
static int woken;

static enum hub_check nothing(void *arg)
{
    (void)arg;
    return HUB_NOTHING;
}

static void count_wake(struct waiter *w)
{
    (void)w;
    woken++;
}

static void park_all(void)
{
    hub_init(&hub, 0);
    for (int i = 0; i < WATCHERS; i++) {
        struct scope s = {.kind = SCOPE_COLLECTION};

        op_init(&ops[i]);
        ops[i].waiter.wake = count_wake;
        s.db = "db";
        s.ns = arena_printf(&ops[i].arena, "db.watched%d", i);
        assert_int_equal(hub_park(&hub, &ops[i], &s, 0, nothing, NULL), INT_PARK);
    }
}

static void unpark_all(void)
{
    for (int i = 0; i < WATCHERS; i++) {
        ops[i].unpark(&ops[i]);
        op_fini(&ops[i]);
    }
    hub_fini(&hub);
}

static struct oplog_row insert_into(const char *ns)
{
    return (struct oplog_row){.op = 'i', .ns = ns, .o = bv_empty_doc, .optime = 1};
}

static void a_name_beside_many_is_not_wanted(void **state)
{
    int wanted = 0;
    char ns[64];

    (void)state;
    park_all();
    for (int i = 0; i < FOREIGN; i++) {
        struct oplog_row row;

        snprintf(ns, sizeof(ns), "db.foreign%d", i);
        row = insert_into(ns);
        wanted += hub_wants(&hub, &row);
    }
    assert_true(wanted < FOREIGN / 50);
    unpark_all();
}

static void every_watched_name_is_found(void **state)
{
    char ns[64];

    (void)state;
    park_all();
    woken = 0;
    for (int i = 0; i < WATCHERS; i++) {
        struct oplog_row row;

        snprintf(ns, sizeof(ns), "db.watched%d", i);
        row = insert_into(ns);
        assert_true(hub_wants(&hub, &row));
        hub_wake(&hub, &row);
        assert_int_equal(woken, i + 1);
    }
    unpark_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_beside_many_is_not_wanted),
        cmocka_unit_test(every_watched_name_is_found),
    };

    return cmocka_run_group_tests_name("oplog_hub", tests, NULL, NULL);
}
