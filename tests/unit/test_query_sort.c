/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sorting, its keys, and blocking stages that spill to disk. */
#include "stage_cases.h"
#include "storage_util.h"

#include "query/sort_key.h"
#include "query/stage.h"
#include "storage/spill.h"

static void test_order(void **state)
{
    static const struct stage_case cases[] = {
        {"[{\"$sort\": {\"a\": 1}}]", "[{\"a\": 2}, {\"a\": 1}, {\"a\": 3}]",
         "[{\"a\": 1}, {\"a\": 2}, {\"a\": 3}]", 0},
        {"[{\"$sort\": {\"a\": -1, \"b\": 1}}]",
         "[{\"a\": 1, \"b\": 2}, {\"a\": 2, \"b\": 9}, {\"a\": 1, \"b\": 1}]",
         "[{\"a\": 2, \"b\": 9}, {\"a\": 1, \"b\": 1}, {\"a\": 1, \"b\": 2}]", 0},
        /* equal keys keep their order of arrival; missing is null */
        {"[{\"$sort\": {\"a\": 1}}]",
         "[{\"i\": 1, \"a\": 1}, {\"i\": 2}, {\"i\": 3, \"a\": null}, {\"i\": 4, \"a\": 1.0}]",
         "[{\"i\": 2}, {\"i\": 3, \"a\": null}, {\"i\": 1, \"a\": 1}, {\"i\": 4, \"a\": 1.0}]", 0},
        /* arrays: the least element going up, the greatest going down; an empty one before null */
        {"[{\"$sort\": {\"a\": 1}}]", "[{\"a\": [5, 1]}, {\"a\": 2}, {\"a\": null}, {\"a\": []}]",
         "[{\"a\": []}, {\"a\": null}, {\"a\": [5, 1]}, {\"a\": 2}]", 0},
        {"[{\"$sort\": {\"a\": -1}}]", "[{\"a\": 2}, {\"a\": [5, 1]}, {\"a\": 3}]",
         "[{\"a\": [5, 1]}, {\"a\": 3}, {\"a\": 2}]", 0},
        {"[{\"$sort\": {\"a.b\": 1}}]",
         "[{\"a\": {\"b\": 2}}, {\"a\": [{\"b\": 9}, {\"b\": 1}]}, {\"a\": 7}]",
         "[{\"a\": 7}, {\"a\": [{\"b\": 9}, {\"b\": 1}]}, {\"a\": {\"b\": 2}}]", 0},
        {"[{\"$sort\": {\"a.1\": 1}}]", "[{\"a\": [1, 9]}, {\"a\": [5, 2]}]",
         "[{\"a\": [5, 2]}, {\"a\": [1, 9]}]", 0},
        /* both keys of one element: [(1, 9), (2, 0)] gives (1, 9), not (1, 0) */
        {"[{\"$sort\": {\"a.x\": 1, \"a.y\": 1}}]",
         "[{\"a\": [{\"x\": 1, \"y\": 9}, {\"x\": 2, \"y\": 0}]}, {\"a\": {\"x\": 1, \"y\": 5}}]",
         "[{\"a\": {\"x\": 1, \"y\": 5}}, {\"a\": [{\"x\": 1, \"y\": 9}, {\"x\": 2, \"y\": 0}]}]",
         0},
        {"[{\"$sort\": {\"a\": 1, \"b\": 1}}]", "[{\"a\": [1, 2], \"b\": [1, 2]}]", NULL,
         ERR_BAD_VALUE},
        {"[{\"$sort\": {\"a\": 1}}]",
         "[{\"a\": true}, {\"a\": \"x\"}, {\"a\": {}}, {\"a\": 1}, {\"a\": {\"$minKey\": 1}}]",
         "[{\"a\": {\"$minKey\": 1}}, {\"a\": 1}, {\"a\": \"x\"}, {\"a\": {}}, {\"a\": true}]", 0},
        /* a limit behind a sort, also behind a skip */
        {"[{\"$sort\": {\"a\": 1}}, {\"$limit\": 2}]",
         "[{\"a\": 4}, {\"a\": 1, \"i\": 1}, {\"a\": 3}, {\"a\": 1, \"i\": 2}, {\"a\": 1, \"i\": "
         "3}]",
         "[{\"a\": 1, \"i\": 1}, {\"a\": 1, \"i\": 2}]", 0},
        {"[{\"$sort\": {\"a\": -1}}, {\"$skip\": 1}, {\"$limit\": 2}]",
         "[{\"a\": 4}, {\"a\": 1}, {\"a\": 3}, {\"a\": 5}, {\"a\": 2}]", "[{\"a\": 4}, {\"a\": 3}]",
         0},
    };

    (void)state;
    RUN_STAGE_CASES(cases);
}

static struct bv many_docs(struct arena *a, int n)
{
    struct bw w;

    bw_init_array(&w, a);
    for (int i = 0; i < n; i++) {
        bw_doc_begin(&w, NULL);
        bw_i32(&w, "_id", i);
        bw_i32(&w, "k", (int)((unsigned)i * 7919u % 97));
        bw_str(&w, "pad", "0123456789012345678901234567890123456789");
        bw_end(&w);
    }
    return bw_done(&w);
}

/* Runs a pipeline twice, in memory and with a limit that makes it spill often, with and without
 * batches ending in between; all must agree. */
static void compare_spilled(const char *pipeline)
{
    char *dir = temp_dir();
    struct engine *e = open_engine(dir);
    struct database db = {.engine = e};
    struct bv want, got;
    struct op op;

    op_init(&op);
    for (int often = 0; often < 2; often++) {
        struct stage_run run = {.pipeline = pipeline,
                                .docs = many_docs(&op.arena, 2000),
                                .db = &db,
                                .allow_disk_use = true,
                                .save_often = often != 0};

        stage_memory_limit_set(0);
        OK(run_pipeline(&op, &run, &want));
        stage_memory_limit_set(20000);
        if (run_pipeline(&op, &run, &got) != 0)
            fail_msg("%s: %s", pipeline, op.err->text);
        if (!bv_identical(want, got))
            fail_msg("%s: expected %s, got %s", pipeline, bv_show(&op.arena, want, 600),
                     bv_show(&op.arena, got, 600));
        assert_true(bv_count(got) > 0);
    }
    stage_memory_limit_set(0);
    op_fini(&op);
    OK(engine_close(e, &(struct error){0}));
    remove_dir(dir);
}

static void test_sort_spills(void **state)
{
    (void)state;
    compare_spilled("[{\"$sort\": {\"k\": 1}}]");
    compare_spilled("[{\"$sort\": {\"k\": -1, \"_id\": -1}}, {\"$limit\": 700}]");
}

static void test_group_spills(void **state)
{
    (void)state;
    compare_spilled(
        "[{\"$group\": {\"_id\": \"$k\", \"n\": {\"$sum\": 1}, \"c\": {\"$count\": {}}, \"avg\": "
        "{\"$avg\": \"$_id\"}, \"lo\": {\"$min\": \"$_id\"}, \"hi\": {\"$max\": \"$_id\"}, \"f\": "
        "{\"$first\": \"$_id\"}, \"l\": {\"$last\": \"$_id\"}, \"miss\": {\"$first\": \"$no\"}, "
        "\"all\": {\"$push\": \"$_id\"}, \"set\": {\"$addToSet\": \"$k\"}, \"m\": "
        "{\"$mergeObjects\": {\"x\": \"$_id\"}}, \"f2\": {\"$firstN\": {\"input\": \"$_id\", "
        "\"n\": 2}}, \"l2\": {\"$lastN\": {\"input\": \"$_id\", \"n\": 2}}, \"lo2\": {\"$minN\": "
        "{\"input\": \"$_id\", \"n\": 2}}, \"hi2\": {\"$maxN\": {\"input\": \"$_id\", \"n\": 2}}, "
        "\"t\": {\"$top\": {\"sortBy\": {\"k\": 1}, \"output\": \"$_id\"}}, \"b\": {\"$bottom\": "
        "{\"sortBy\": {\"k\": 1}, \"output\": \"$_id\"}}, \"t2\": {\"$topN\": {\"n\": 2, "
        "\"sortBy\": {\"_id\": -1}, \"output\": \"$_id\"}}, \"b2\": {\"$bottomN\": {\"n\": 2, "
        "\"sortBy\": {\"k\": 1}, \"output\": \"$_id\"}}}}, {\"$sort\": {\"_id\": 1}}]");
    compare_spilled("[{\"$group\": {\"_id\": \"$_id\", \"k\": {\"$sum\": \"$k\"}}}, {\"$sort\": "
                    "{\"_id\": 1}}]");
    /* standard deviations are merged by another formula: equal but for the last digits */
    compare_spilled("[{\"$group\": {\"_id\": \"$k\", \"d\": {\"$stdDevPop\": \"$_id\"}}}, "
                    "{\"$project\": {\"d\": {\"$round\": [\"$d\", 6]}}}, {\"$sort\": {\"_id\": "
                    "1}}]");
}

/* One alone would fit; together they do not, so whoever grows spills, and nothing stays counted. */
static void test_all_stages_share_their_memory(void **state)
{
    struct stage_memory others = {0};
    struct stage_run run = {.pipeline = "[{\"$sort\": {\"k\": 1}}]", .allow_disk_use = true};
    char *dir = temp_dir();
    struct engine *e = open_engine(dir);
    struct database db = {.engine = e};
    struct bv want, got;
    struct op op;

    (void)state;
    op_init(&op);
    run.db = &db;
    run.docs = many_docs(&op.arena, 20000);
    OK(run_pipeline(&op, &run, &want));
    assert_int_equal(stage_memory_total(), 0);
    stage_memory_total_set(8 * 1024 * 1024);
    assert_false(stage_memory_full(&others, 7 * 1024 * 1024));
    assert_int_equal(stage_memory_total(), 7 * 1024 * 1024);
    OK(run_pipeline(&op, &run, &got));
    assert_true(bv_identical(want, got));
    run.allow_disk_use = false;
    assert_int_equal(run_pipeline(&op, &run, &got), ERR_QUERY_MEMORY_NO_DISK);
    assert_int_equal(stage_memory_total(), 7 * 1024 * 1024);
    stage_memory_release(&others);
    assert_int_equal(stage_memory_total(), 0);
    OK(run_pipeline(&op, &run, &got));
    stage_memory_total_set(0);
    op_fini(&op);
    OK(engine_close(e, &(struct error){0}));
    remove_dir(dir);
}

static void test_no_disk(void **state)
{
    static const char *const pipelines[] = {"[{\"$sort\": {\"k\": 1}}]",
                                            "[{\"$group\": {\"_id\": \"$_id\"}}]"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct bv got;
        struct op op;
        struct stage_run run = {.pipeline = pipelines[i]};

        op_init(&op);
        run.docs = many_docs(&op.arena, 2000);
        stage_memory_limit_set(20000);
        assert_int_equal(run_pipeline(&op, &run, &got), ERR_QUERY_MEMORY_NO_DISK);
        stage_memory_limit_set(0);
        op_fini(&op);
    }
}

/* Memory is bounded by the limit and not by the number of rows. */
static void test_limited_sort_keeps_few_rows(void **state)
{
    struct stage_run run = {.pipeline = "[{\"$sort\": {\"k\": 1}}, {\"$limit\": 5}]"};
    struct bv got;
    struct op op;

    (void)state;
    op_init(&op);
    run.docs = many_docs(&op.arena, 2000);
    stage_memory_limit_set(20000);
    assert_int_equal(run_pipeline(&op, &run, &got), 0); /* no disk allowed, none needed */
    stage_memory_limit_set(0);
    assert_int_equal(bv_count(got), 5);
    op_fini(&op);
}

static void count_tmp(void *arg, const char *ident)
{
    *(int *)arg += strncmp(ident, "tmp-", 4) == 0;
}

static void test_spill_drops_its_table(void **state)
{
    char *dir = temp_dir();
    struct engine *e = open_engine(dir);
    struct spill *s;
    struct bytes got;
    bool found;
    struct op op;
    int n = 0;

    (void)state;
    op_init(&op);
    OK(spill_new(e, &op, &s));
    for (int run = 0; run < 2; run++) {
        OK(spill_run_begin(s, &op));
        for (int i = 0; i < 3; i++)
            OK(spill_put(s, &op, (struct bytes){(const uint8_t *)(run ? "xyz" : "abc") + i, 1}));
        OK(spill_run_end(s));
    }
    assert_int_equal(spill_runs(s), 2);
    for (int i = 0; i < 3; i++) {
        for (uint32_t run = 0; run < 2; run++) {
            OK(spill_read(s, &op, run, &got, &found));
            assert_true(found);
            assert_int_equal(got.p[0], (run ? 'x' : 'a') + i);
        }
        spill_save(s);
    }
    OK(spill_read(s, &op, 0, &got, &found));
    assert_false(found);
    spill_free(s);
    OK(engine_tables(e, count_tmp, &n, op.err));
    assert_int_equal(n, 0);
    op_fini(&op);
    OK(engine_close(e, &(struct error){0}));
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_sort_spills),
        cmocka_unit_test(test_group_spills),
        cmocka_unit_test(test_all_stages_share_their_memory),
        cmocka_unit_test(test_no_disk),
        cmocka_unit_test(test_limited_sort_keeps_few_rows),
        cmocka_unit_test(test_spill_drops_its_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
