/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What collections were used for: counts, lists, forgetting, and the bound on their number. */
#include "server/top.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = TOP_MAX / 4 };

static const char *name_of(int i, char buf[static 32])
{
    snprintf(buf, 32, "db.c%d", i);
    return buf;
}

static struct top *many(int n)
{
    struct top *t = top_new();
    char ns[32];

    for (int i = 0; i < n; i++)
        top_record(t, name_of(i, ns), TOP_INSERT, i);
    return t;
}

static void each_name_has_its_own_counts(void **state)
{
    struct top *t = many(MANY);
    struct top_entry e;
    char ns[32];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        top_record(t, name_of(i, ns), TOP_REMOVE, 2 * i);
        top_record(t, ns, TOP_REMOVE, 1);
    }
    for (int i = 0; i < MANY; i++) {
        top_get(t, name_of(i, ns), &e);
        assert_int_equal(e.kinds[TOP_INSERT].count, 1);
        assert_int_equal(e.kinds[TOP_INSERT].us, i);
        assert_int_equal(e.kinds[TOP_REMOVE].count, 2);
        assert_int_equal(e.kinds[TOP_REMOVE].us, 2 * i + 1);
        assert_int_equal(e.kinds[TOP_QUERIES].count, 0);
    }
    top_get(t, "db.never", &e);
    assert_int_equal(e.kinds[TOP_INSERT].count, 0);
    top_free(t);
}

static void the_list_has_every_name_once_in_order(void **state)
{
    struct top *t = many(MANY);
    struct top_named *list;
    struct arena a;
    size_t n;

    (void)state;
    arena_init(&a);
    list = top_list(t, &a, &n);
    assert_int_equal(n, MANY);
    for (size_t i = 1; i < n; i++)
        assert_true(strcmp(list[i - 1].ns, list[i].ns) < 0);
    arena_fini(&a);
    top_free(t);
}

static void what_is_forgotten_begins_anew(void **state)
{
    struct top *t = many(MANY);
    struct top_entry e;
    struct arena a;
    char ns[32];
    size_t n;

    (void)state;
    arena_init(&a);
    for (int i = 0; i < MANY; i += 2)
        top_forget(t, name_of(i, ns));
    top_forget(t, "db.never");
    for (int i = 0; i < MANY; i++) {
        top_get(t, name_of(i, ns), &e);
        assert_int_equal(e.kinds[TOP_INSERT].count, i % 2);
    }
    (void)top_list(t, &a, &n);
    assert_int_equal(n, MANY / 2);
    arena_fini(&a);
    top_free(t);
}

/* What was forgotten makes room. */
static void names_that_come_and_go_push_none_out(void **state)
{
    struct top *t = top_new();
    struct top_entry e;
    char ns[32];

    (void)state;
    top_record(t, "db.stays", TOP_INSERT, 1);
    for (int i = 0; i < 2 * TOP_MAX; i++) {
        top_record(t, name_of(i, ns), TOP_INSERT, 1);
        top_forget(t, ns);
    }
    top_get(t, "db.stays", &e);
    assert_int_equal(e.kinds[TOP_INSERT].count, 1);
    top_free(t);
}

/* The newest name is always there, and never are there more than TOP_MAX. */
static void a_flood_of_names_is_bounded(void **state)
{
    struct top *t = top_new();
    struct top_entry e;
    struct arena a;
    char ns[32];
    size_t n;

    (void)state;
    arena_init(&a);
    for (int i = 0; i < 3 * TOP_MAX; i++)
        top_record(t, name_of(i, ns), TOP_INSERT, 1);
    top_get(t, ns, &e);
    assert_int_equal(e.kinds[TOP_INSERT].count, 1);
    (void)top_list(t, &a, &n);
    assert_in_range(n, TOP_MAX / 4, TOP_MAX);
    arena_fini(&a);
    top_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_name_has_its_own_counts),
        cmocka_unit_test(the_list_has_every_name_once_in_order),
        cmocka_unit_test(what_is_forgotten_begins_anew),
        cmocka_unit_test(names_that_come_and_go_push_none_out),
        cmocka_unit_test(a_flood_of_names_is_bounded),
    };

    return cmocka_run_group_tests_name("server_top", tests, NULL, NULL);
}
