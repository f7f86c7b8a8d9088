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

/* --- who is woken ------------------------------------------------------------------------------
 */

static const struct {
    struct scope scope;
    bool concerned; /* by an insert into db.watched */
} kinds[] = {
    {{.kind = SCOPE_COLLECTION, .db = "db", .ns = "db.watched"}, true},
    {{.kind = SCOPE_DATABASE, .db = "db"}, true},
    {{.kind = SCOPE_CLUSTER}, true},
    {{.kind = SCOPE_COLLECTION, .db = "db", .ns = "db.watched", .expanded = true}, true},
    {{.kind = SCOPE_COLLECTION, .db = "db", .ns = "db.other"}, false},
    {{.kind = SCOPE_DATABASE, .db = "other"}, false},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), MIXED = 300 * KINDS, AT = 10 };

/* Three in four stand before the entry, which is at optime AT. */
static uint64_t position_of(int i)
{
    return i / KINDS % 4 == 1 ? AT : AT - 1;
}

static bool is_woken(int i)
{
    return ops[i].waiter.wanted == 1;
}

static void mark_woken(struct waiter *w)
{
    w->wanted = 1;
    woken++;
}

static void park_mixed(void)
{
    hub_init(&hub, 0);
    woken = 0;
    for (int i = 0; i < MIXED; i++) {
        op_init(&ops[i]);
        ops[i].waiter.wake = mark_woken;
        assert_int_equal(
            hub_park(&hub, &ops[i], &kinds[i % KINDS].scope, position_of(i), nothing, NULL),
            INT_PARK);
    }
}

static void unpark_mixed(void)
{
    for (int i = 0; i < MIXED; i++) {
        ops[i].unpark(&ops[i]);
        op_fini(&ops[i]);
    }
    hub_fini(&hub);
}

/* All of them, wherever they stand in the lists, and nobody else; the next entry wakes the rest. */
static void an_entry_wakes_just_those_it_concerns(void **state)
{
    struct oplog_row row = insert_into("db.watched");

    (void)state;
    park_mixed();
    for (row.optime = AT; row.optime <= AT + 1; row.optime++) {
        hub_wake(&hub, &row);
        for (int i = 0; i < MIXED; i++) {
            bool want = kinds[i % KINDS].concerned && position_of(i) < row.optime;

            if (is_woken(i) != want)
                fail_msg("waiter %d: woken %d, wanted %d", i, is_woken(i), want);
        }
    }
    assert_int_equal(woken, MIXED / KINDS * 4);
    unpark_mixed();
}

/* The only one that stands before the entry, at each place of the list. */
static void one_of_many_is_woken_wherever_it_stands(void **state)
{
    enum { N = 70 };
    const struct scope *scope = &kinds[0].scope;
    struct oplog_row row = insert_into(scope->ns);

    (void)state;
    row.optime = AT;
    for (int k = 0; k < N; k++) {
        hub_init(&hub, 0);
        woken = 0;
        for (int i = 0; i < N; i++) {
            op_init(&ops[i]);
            ops[i].waiter.wake = mark_woken;
            assert_int_equal(hub_park(&hub, &ops[i], scope, i == k ? AT - 1 : AT, nothing, NULL),
                             INT_PARK);
        }
        hub_wake(&hub, &row);
        assert_int_equal(woken, 1);
        assert_true(is_woken(k));
        for (int i = 0; i < N; i++) {
            ops[i].unpark(&ops[i]);
            op_fini(&ops[i]);
        }
        hub_fini(&hub);
    }
}

/* One operation of a transaction is enough, whichever. */
static void a_transaction_wakes_for_each_operation(void **state)
{
    struct arena a;
    struct bw w;
    struct oplog_row row = {.op = 'c', .ns = "admin.$cmd", .optime = AT + 1};

    (void)state;
    arena_init(&a);
    bw_init(&w, &a);
    bw_arr_begin(&w, "applyOps");
    for (int i = 0; i < 3; i++) {
        bw_doc_begin(&w, NULL);
        bw_str(&w, "op", "i");
        bw_str(&w, "ns", i == 2 ? "db.watched" : "else.c");
        bw_bv(&w, "o", bv_empty_doc);
        bw_end(&w);
    }
    bw_end(&w);
    row.o = bw_done(&w);
    park_mixed();
    assert_true(hub_wants(&hub, &row));
    hub_wake(&hub, &row);
    for (int i = 0; i < MIXED; i++)
        assert_true(is_woken(i) == kinds[i % KINDS].concerned);
    unpark_mixed();
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_beside_many_is_not_wanted),
        cmocka_unit_test(every_watched_name_is_found),
        cmocka_unit_test(an_entry_wakes_just_those_it_concerns),
        cmocka_unit_test(one_of_many_is_woken_wherever_it_stands),
        cmocka_unit_test(a_transaction_wakes_for_each_operation),
    };

    return cmocka_run_group_tests_name("oplog_hub", tests, NULL, NULL);
}
