/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Plans and scans over real storage, and scans of the oplog. */
#include "tests/unit/oplog_util.h"

#include "query/pipeline.h"
#include "query/plan.h"
#include "storage/catalog_write.h"
#include "storage/record_write.h"
#include "tests/unit/json_values.h"

static struct db d;
static struct database database;
static struct op op;

static int set_up(void **state)
{
    struct error err;

    (void)state;
    db_open(&d, true, &roomy);
    memset(&database, 0, sizeof(database));
    database.engine = d.engine;
    database.oplog = d.oplog;
    if (catalog_open(d.engine, &err, &database.catalog) != 0)
        fail_msg("catalog_open: %s", err.text);
    op_init(&op);
    op.database = &database;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    op_fini(&op);
    catalog_close(database.catalog);
    db_remove(&d);
    return 0;
}

/* --- collections ---------------------------------------------------------------------------------
 */

static struct coll *publish(struct coll *old, struct coll *now)
{
    struct stx *t;

    OK(engine_table_create(d.engine, now->ident, TABLE_RECORDS, true, op.err));
    for (uint32_t i = 0; i < now->nindexes; i++)
        OK(engine_table_create(d.engine, now->indexes[i].ident, TABLE_BYTES, true, op.err));
    OK(stx_begin(d.engine, &op, &t));
    OK(catalog_put_row(t, now));
    OK(stx_commit(t));
    catalog_publish(database.catalog, old, now, 0);
    coll_unref(old);
    return catalog_get(database.catalog, now->ns);
}

static struct coll *create(const char *ns)
{
    static uint8_t uuid[16];

    uuid[0]++;
    return publish(NULL, coll_new(database.catalog, ns, uuid, bv_empty_doc));
}

static struct coll *add_index(struct coll *k, const char *spec)
{
    struct coll *now = coll_copy(k);

    coll_edit_add_index(now, json_doc(&op.arena, spec));
    return publish(k, now);
}

static void drop(struct coll *k)
{
    struct stx *t;

    OK(stx_begin(d.engine, &op, &t));
    OK(catalog_remove_row(t, k));
    OK(stx_commit(t));
    catalog_publish(database.catalog, k, NULL, 0);
}

static void insert_bv(struct coll *k, struct bv doc)
{
    struct stx *t;
    int64_t rid;

    OK(stx_begin(d.engine, &op, &t));
    if (record_insert(t, k, doc, &rid) != 0)
        fail_msg("%s", op.err->text);
    OK(stx_commit(t));
}

static void insert(struct coll *k, const char *doc)
{
    insert_bv(k, json_doc(&op.arena, doc));
}

/* --- queries -------------------------------------------------------------------------------------
 */

struct query {
    struct exec x;
    struct match *filter;
    struct stage *scan;
    bool sorted;
};

static struct bv optional(const char *text)
{
    return text == NULL ? BV_NONE : json_value(&op.arena, text);
}

static int open_query(struct query *q, struct coll *k, bool oplog, const char *filter,
                      const char *sort, const char *hint, bool tailable)
{
    struct scan_spec spec = {.k = k, .tailable = tailable};

    memset(q, 0, sizeof(*q));
    exec_init(&q->x, &op);
    OK(match_parse(&op, &op.arena, json_doc(&op.arena, filter), NULL, &q->filter));
    spec.filter = q->filter;
    spec.sort = optional(sort);
    spec.hint = optional(hint);
    return oplog ? scan_oplog_new(&op, &op.arena, &spec, &q->scan, &q->sorted)
                 : scan_new(&op, &op.arena, &spec, &q->scan, &q->sorted);
}

/* As between two batches. */
static void save(struct query *q)
{
    stage_save(q->scan, &q->x);
    stx_rollback(q->x.stx);
    q->x.stx = NULL;
    arena_reset(&q->x.scratch);
}

static void close_query(struct query *q)
{
    save(q);
    stage_close(q->scan);
    exec_fini(&q->x);
}

/* The next _id as text; NULL: no row. */
static const char *next_id(struct query *q, bool *ret_more)
{
    struct bv doc;
    int rc = stage_next(q->scan, &q->x, &doc, ret_more);

    if (rc != 0)
        return arena_printf(&op.arena, "error %d", rc);
    if (bv_is_missing(doc))
        return NULL;
    if (!bv_is_missing(bv_get(doc, "o")))
        doc = bv_get(doc, "o");
    return bv_show(&op.arena, bv_get(doc, "_id"), 40);
}

/* All ids joined by spaces; with a save after every `batch` rows. */
static const char *read_all(struct query *q, int batch)
{
    const char *id, *text = "";
    bool more;
    int n = 0;

    while ((id = next_id(q, &more)) != NULL) {
        text = arena_printf(&op.arena, "%s%s%s", text, *text == '\0' ? "" : " ", id);
        if (strncmp(id, "error", 5) == 0)
            break;
        if (batch > 0 && ++n % batch == 0)
            save(q);
    }
    close_query(q);
    return text;
}

static const char *find(struct coll *k, const char *filter, const char *sort, const char *hint,
                        int batch)
{
    struct query q;
    int rc = open_query(&q, k, false, filter, sort, hint, false);

    if (rc != 0) {
        exec_fini(&q.x);
        return arena_printf(&op.arena, "error %d: %s", rc, op.err->text);
    }
    return read_all(&q, batch);
}

/* "COLLSCAN forward", "IXSCAN a_1 forward { a: [ "[1, 1]" ] }", "IDHACK", "EOF" */
static const char *plan_text(struct coll *k, const char *filter, const char *sort, const char *hint,
                             bool *ret_sorted)
{
    struct query q;
    struct bv doc, input;
    struct bw w;

    OK(open_query(&q, k, false, filter, sort, hint, false));
    bw_init(&w, &op.arena);
    bw_str(&w, "stage", q.scan->ops->name);
    q.scan->ops->explain(q.scan, &w);
    doc = bw_done(&w);
    if (ret_sorted != NULL)
        *ret_sorted = q.sorted;
    close_query(&q);
    input = bv_get(doc, "inputStage");
    if (bv_is_missing(input))
        return bv_is_missing(bv_get(doc, "direction"))
                   ? bv_str(bv_get(doc, "stage"), NULL)
                   : arena_printf(&op.arena, "%s %s", bv_str(bv_get(doc, "stage"), NULL),
                                  bv_str(bv_get(doc, "direction"), NULL));
    assert_string_equal(bv_str(bv_get(doc, "stage"), NULL), "FETCH");
    return arena_printf(&op.arena, "IXSCAN %s %s %s", bv_str(bv_get(input, "indexName"), NULL),
                        bv_str(bv_get(input, "direction"), NULL),
                        bv_show(&op.arena, bv_get(input, "indexBounds"), 400));
}

/* --- tests ---------------------------------------------------------------------------------------
 */

static void test_collscan(void **state)
{
    struct coll *k = create("t.c");

    (void)state;
    for (int i = 1; i <= 7; i++)
        insert(k, arena_printf(&op.arena, "{\"_id\": %d, \"a\": %d}", i, i % 3));
    assert_string_equal(find(k, "{}", NULL, NULL, 0), "1 2 3 4 5 6 7");
    assert_string_equal(find(k, "{}", NULL, NULL, 1), "1 2 3 4 5 6 7");
    assert_string_equal(find(k, "{}", NULL, NULL, 3), "1 2 3 4 5 6 7");
    assert_string_equal(find(k, "{\"a\": 1}", NULL, NULL, 1), "1 4 7");
    assert_string_equal(find(k, "{}", "{\"%natural\": -1}", NULL, 2), "7 6 5 4 3 2 1");
    assert_string_equal(find(k, "{\"a\": {\"%gt\": 0}}", NULL, "{\"%natural\": -1}", 2),
                        "7 5 4 2 1");
    assert_string_equal(plan_text(k, "{}", NULL, NULL, NULL), "COLLSCAN forward");
    assert_string_equal(plan_text(k, "{}", "{\"%natural\": -1}", NULL, NULL), "COLLSCAN backward");
    assert_string_equal(find(NULL, "{}", NULL, NULL, 0), "");
    assert_string_equal(plan_text(NULL, "{}", NULL, "\"x_1\"", NULL), "EOF");
    coll_unref(k);
}

/* Whether the documents that the plan gives need not be tested. */
static bool is_exact(struct coll *k, const char *filter)
{
    struct match *m;
    struct plan plan;

    OK(match_parse(&op, &op.arena, json_doc(&op.arena, filter), NULL, &m));
    OK(plan_choose(&op, &op.arena, &(struct scan_spec){.k = k, .filter = m}, &plan));
    return plan.exact;
}

static void test_by_id(void **state)
{
    struct coll *k = create("t.c");
    bool sorted;

    (void)state;
    insert(k, "{\"_id\": 1, \"a\": 5}");
    insert(k, "{\"_id\": \"x\", \"a\": 6}");
    insert(k, "{\"_id\": 7, \"a\": 7}");
    assert_string_equal(find(k, "{\"_id\": 1.0}", NULL, NULL, 1), "1");
    assert_string_equal(find(k, "{\"_id\": \"x\", \"a\": 6}", NULL, NULL, 1), "\"x\"");
    assert_string_equal(find(k, "{\"_id\": \"x\", \"a\": 5}", NULL, NULL, 1), "");
    assert_string_equal(find(k, "{\"_id\": 9}", NULL, NULL, 1), "");
    assert_string_equal(plan_text(k, "{\"_id\": 1}", NULL, NULL, NULL), "IDHACK");
    assert_string_equal(plan_text(k, "{\"_id\": {\"%gte\": 1, \"%lte\": 1}}", NULL, NULL, NULL),
                        "IDHACK");
    assert_string_equal(plan_text(k, "{\"_id\": {\"%gt\": 1, \"%lt\": 1}}", NULL, NULL, NULL),
                        "EOF");
    assert_string_equal(plan_text(k, "{\"_id\": {\"%in\": []}}", NULL, NULL, NULL), "EOF");
    assert_string_equal(plan_text(k, "{\"%alwaysFalse\": 1}", NULL, NULL, NULL), "EOF");
    assert_string_equal(find(k, "{\"_id\": {\"%in\": [7, 1, 5]}}", NULL, NULL, 1), "1 7");
    assert_string_equal(plan_text(k, "{\"_id\": {\"%gt\": 1, \"%lt\": 8}}", NULL, NULL, NULL),
                        "IXSCAN _id_ forward { _id: [ \"(1, 8)\" ] }");
    assert_string_equal(plan_text(k, "{}", "{\"_id\": -1}", NULL, &sorted),
                        "IXSCAN _id_ backward { _id: [ \"[MaxKey, MinKey]\" ] }");
    assert_true(sorted);
    assert_string_equal(find(k, "{}", "{\"_id\": -1}", NULL, 1), "\"x\" 7 1");
    assert_true(is_exact(k, "{\"_id\": 1}"));
    assert_true(is_exact(k, "{\"_id\": {\"%eq\": \"x\"}}"));
    assert_false(is_exact(k, "{\"_id\": \"x\", \"a\": 5}"));
    assert_false(is_exact(k, "{\"_id\": {\"%ne\": 1}}"));
    assert_false(is_exact(k, "{\"_id\": {\"b\": 1}}"));
    assert_false(is_exact(k, "{\"a\": 5}"));
    coll_unref(k);
}

static void test_compound(void **state)
{
    struct coll *k = add_index(create("t.c"), "{\"v\": 2, \"key\": {\"a\": 1, \"b\": -1}, "
                                              "\"name\": \"a_1_b_-1\"}");

    (void)state;
    for (int i = 0; i < 20; i++)
        insert(k, arena_printf(&op.arena, "{\"_id\": %d, \"a\": %d, \"b\": %d}", i, i % 4, i / 4));
    assert_string_equal(find(k, "{\"a\": 2}", NULL, NULL, 1), "18 14 10 6 2");
    assert_string_equal(find(k, "{\"a\": 2, \"b\": {\"%gte\": 3}}", NULL, NULL, 1), "18 14");
    assert_string_equal(find(k, "{\"a\": 2, \"b\": {\"%gt\": 3}}", NULL, NULL, 1), "18");
    assert_string_equal(find(k, "{\"a\": 2, \"b\": {\"%lt\": 2}}", NULL, NULL, 1), "6 2");
    assert_string_equal(find(k, "{\"a\": {\"%in\": [3, 1]}, \"b\": 4}", NULL, NULL, 1), "17 19");
    assert_string_equal(plan_text(k, "{\"a\": 2, \"b\": {\"%gte\": 3}}", NULL, NULL, NULL),
                        "IXSCAN a_1_b_-1 forward { a: [ \"[2, 2]\" ], b: [ \"[inf.0, 3]\" ] }");
    assert_string_equal(plan_text(k, "{\"b\": 2}", NULL, NULL, NULL), "COLLSCAN forward");
    assert_string_equal(find(k, "{\"b\": 2}", NULL, "\"a_1_b_-1\"", 3), "8 9 10 11");
    assert_string_equal(find(k, "{\"b\": 2}", NULL, "{\"a\": 1, \"b\": -1}", 0), "8 9 10 11");
    assert_string_equal(find(k, "{}", NULL, "\"nope\"", 0),
                        "error 2: error processing query: ns=t.c planner returned error :: caused "
                        "by :: hint provided does not correspond to an existing index");
    coll_unref(k);
}

static void test_unique_first(void **state)
{
    struct coll *k = create("t.c");

    (void)state;
    k = add_index(k, "{\"v\": 2, \"key\": {\"a\": 1, \"b\": 1}, \"name\": \"ab\"}");
    k = add_index(k, "{\"v\": 2, \"key\": {\"c\": 1}, \"name\": \"c\", \"unique\": true}");
    k = add_index(k, "{\"v\": 2, \"key\": {\"s\": 1}, \"name\": \"s\", \"sparse\": true}");
    insert(k, "{\"_id\": 1, \"a\": 1, \"b\": 1, \"c\": 1}");
    insert(k, "{\"_id\": 2, \"a\": 1, \"b\": 1, \"c\": 2, \"s\": 1}");
    insert(k, "{\"_id\": 3, \"a\": 1, \"b\": 2, \"s\": null}");
    assert_string_equal(plan_text(k, "{\"a\": 1, \"b\": 1, \"c\": 2}", NULL, NULL, NULL),
                        "IXSCAN c forward { c: [ \"[2, 2]\" ] }");
    assert_string_equal(find(k, "{\"a\": 1, \"b\": 1, \"c\": 2}", NULL, NULL, 1), "2");
    assert_string_equal(plan_text(k, "{\"a\": 1, \"c\": {\"%gt\": 1}}", NULL, NULL, NULL),
                        "IXSCAN ab forward { a: [ \"[1, 1]\" ], b: [ \"[MinKey, MaxKey]\" ] }");
    /* null also means missing, which the sparse index does not hold */
    assert_string_equal(plan_text(k, "{\"s\": null}", NULL, NULL, NULL), "COLLSCAN forward");
    assert_string_equal(find(k, "{\"s\": null}", NULL, NULL, 1), "1 3");
    assert_string_equal(plan_text(k, "{\"s\": 1}", NULL, NULL, NULL),
                        "IXSCAN s forward { s: [ \"[1, 1]\" ] }");
    assert_string_equal(find(k, "{\"c\": null}", NULL, NULL, 1), "3");
    coll_unref(k);
}

/* Until an array comes, conditions on one path bound it together and the index gives an order. */
static void test_multikey(void **state)
{
    static const char *const range = "{\"a\": {\"%gte\": 5, \"%lt\": 9}}";
    struct coll *k = add_index(create("t.c"), "{\"v\": 2, \"key\": {\"a\": 1}, \"name\": \"a_1\"}");
    bool sorted;

    (void)state;
    for (int i = 1; i <= 9; i++)
        insert(k, arena_printf(&op.arena, "{\"_id\": %d, \"a\": %d}", i, 10 - i));
    assert_string_equal(plan_text(k, range, NULL, NULL, NULL),
                        "IXSCAN a_1 forward { a: [ \"[5, 9)\" ] }");
    assert_string_equal(plan_text(k, "{}", "{\"a\": -1}", NULL, &sorted),
                        "IXSCAN a_1 backward { a: [ \"[MaxKey, MinKey]\" ] }");
    assert_true(sorted);
    assert_string_equal(find(k, range, "{\"a\": 1}", NULL, 1), "5 4 3 2");
    assert_string_equal(find(k, range, "{\"a\": -1}", NULL, 1), "2 3 4 5");
    insert(k, "{\"_id\": 10, \"a\": [2, 6, 7, 20]}");
    assert_string_equal(plan_text(k, range, "{\"a\": 1}", NULL, &sorted),
                        "IXSCAN a_1 forward { a: [ \"[5, inf.0]\" ] }");
    assert_false(sorted);
    assert_string_equal(find(k, range, NULL, NULL, 1), "5 4 10 3 2");
    assert_string_equal(
        plan_text(k, "{\"a\": {\"%elemMatch\": {\"%gte\": 5, \"%lt\": 9}}}", NULL, NULL, NULL),
        "IXSCAN a_1 forward { a: [ \"[5, 9)\" ] }");
    assert_string_equal(plan_text(k, "{}", "{\"a\": 1}", NULL, NULL), "COLLSCAN forward");
    coll_unref(k);
}

static void test_or(void **state)
{
    struct coll *k = create("t.c");
    struct query q;
    bool more;

    (void)state;
    k = add_index(k, "{\"v\": 2, \"key\": {\"a\": 1}, \"name\": \"a\"}");
    k = add_index(k, "{\"v\": 2, \"key\": {\"b\": 1}, \"name\": \"b\"}");
    for (int i = 0; i < 12; i++)
        insert(k, arena_printf(&op.arena, "{\"_id\": %d, \"a\": %d, \"b\": %d}", i, i % 3, i % 4));
    assert_string_equal(plan_text(k, "{\"%or\": [{\"a\": 1}, {\"b\": 2}]}", NULL, NULL, NULL),
                        "OR");
    assert_string_equal(find(k, "{\"%or\": [{\"a\": 1}, {\"b\": 2}]}", NULL, NULL, 0),
                        "1 4 7 10 2 6");
    assert_string_equal(find(k, "{\"%or\": [{\"a\": 1}, {\"b\": 2}]}", NULL, NULL, 1),
                        "1 4 7 10 2 6");
    assert_string_equal(
        find(k, "{\"%or\": [{\"a\": 1}, {\"_id\": 2}, {\"_id\": 4}], \"b\": {\"%lt\": 3}}", NULL,
             "{\"%natural\": 1}", 1),
        "1 2 4 10");
    assert_string_equal(plan_text(k, "{\"%or\": [{\"a\": 1}, {\"c\": 2}]}", NULL, NULL, NULL),
                        "COLLSCAN forward");
    /* a bound beside the $or is enough */
    assert_string_equal(
        plan_text(k, "{\"a\": 2, \"%or\": [{\"a\": 1}, {\"b\": 2}]}", NULL, NULL, NULL),
        "IXSCAN a forward { a: [ \"[2, 2]\" ] }");
    OK(open_query(&q, k, false, "{\"%or\": [{\"a\": 9}, {\"b\": 3}]}", NULL, NULL, false));
    assert_string_equal(next_id(&q, &more), "3");
    assert_int_equal(scan_rid(q.scan), 4);
    close_query(&q);
    coll_unref(k);
}

/* Documents inserted and deleted between batches; the place itself is deleted. */
static void test_yield(void **state)
{
    struct coll *k = add_index(create("t.c"), "{\"v\": 2, \"key\": {\"a\": 1}, \"name\": \"a_1\"}");
    static const char *const hints[] = {"{\"%natural\": 1}", "\"a_1\""};

    (void)state;
    for (int h = 0; h < 2; h++) {
        struct query q;
        struct stx *t;
        bool more;
        int64_t rid;
        struct bv doc;

        for (int i = 10; i <= 50; i += 10)
            insert(k, arena_printf(&op.arena, "{\"_id\": %d, \"a\": %d}", 100 * h + i, i));
        OK(open_query(
            &q, k, false,
            arena_printf(&op.arena, "{\"_id\": {\"%%gte\": %d}, \"a\": {\"%%gt\": 10}}", 100 * h),
            NULL, hints[h], false));
        assert_string_equal(next_id(&q, &more), arena_printf(&op.arena, "%d", 100 * h + 20));
        save(&q);
        OK(stx_begin(d.engine, &op, &t));
        OK(record_find_id(t, k, bv_new_i32(&op.arena, 100 * h + 20), &op.arena, &rid, &doc));
        OK(record_delete(t, k, rid, doc));
        OK(record_find_id(t, k, bv_new_i32(&op.arena, 100 * h + 30), &op.arena, &rid, &doc));
        OK(record_delete(t, k, rid, doc));
        OK(stx_commit(t));
        insert(k, arena_printf(&op.arena, "{\"_id\": %d, \"a\": 60}", 100 * h + 60));
        assert_string_equal(read_all(&q, 1), arena_printf(&op.arena, "%d %d %d", 100 * h + 40,
                                                          100 * h + 50, 100 * h + 60));
    }
    coll_unref(k);
}

static void test_dropped(void **state)
{
    struct coll *k = add_index(create("t.c"), "{\"v\": 2, \"key\": {\"a\": 1}, \"name\": \"a_1\"}");
    struct coll *now;
    struct query q, by_index;
    bool more;

    (void)state;
    for (int i = 1; i <= 3; i++)
        insert(k, arena_printf(&op.arena, "{\"_id\": %d, \"a\": %d}", i, i));
    OK(open_query(&q, k, false, "{}", NULL, NULL, false));
    OK(open_query(&by_index, k, false, "{\"a\": {\"%gt\": 0}}", NULL, NULL, false));
    assert_string_equal(next_id(&q, &more), "1");
    assert_string_equal(next_id(&by_index, &more), "1");
    save(&q);
    save(&by_index);
    now = coll_copy(k);
    coll_edit_drop_index(now, "a_1");
    k = publish(k, now);
    assert_string_equal(next_id(&q, &more), "2");
    assert_string_equal(next_id(&by_index, &more), "error 175");
    assert_string_equal(op.err->text, "index 'a_1' dropped");
    save(&q);
    drop(k);
    assert_string_equal(next_id(&q, &more), "error 175");
    assert_non_null(strstr(op.err->text, "collection dropped"));
    close_query(&q);
    close_query(&by_index);
    coll_unref(k);
}

static void test_interrupt(void **state)
{
    struct coll *k = create("t.c");
    struct query q;
    bool more;

    (void)state;
    for (int i = 0; i < 300; i++)
        insert(k, arena_printf(&op.arena, "{\"_id\": %d}", i));
    OK(open_query(&q, k, false, "{\"a\": 1}", NULL, NULL, false));
    atomic_store(&op.interrupt, ERR_INTERRUPTED);
    assert_string_equal(next_id(&q, &more), "error 11601");
    atomic_store(&op.interrupt, 0);
    close_query(&q);
    coll_unref(k);
}

/* --- indexes against a scan of the collection
 * ----------------------------------------------------- */

static uint32_t seed = 12345;

static uint32_t pick(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 10) % n;
}

static const char *const values[] = {
    "1",
    "2",
    "3.5",
    "{\"$numberLong\": \"2\"}",
    "{\"$numberDecimal\": \"2.5\"}",
    "{\"$numberDouble\": \"NaN\"}",
    "\"abc\"",
    "\"abd\"",
    "\"\"",
    "null",
    "true",
    "false",
    "{\"b\": 1}",
    "{\"b\": [1, 2]}",
    "{\"b\": null}",
    "{}",
    "[]",
    "[1, 3]",
    "[3, 1]",
    "[[1, 3]]",
    "[[]]",
    "[{\"b\": 1}, {\"b\": 3}]",
    "[{\"b\": 2}, 7]",
    "[{}]",
    "[null, 2]",
    "[\"abc\", 2]",
    "[{\"b\": 3, \"c\": 1}, {\"b\": 1, \"c\": 3}]",
    "{\"b\": {\"c\": 2}}",
    "{\"$date\": \"2020-01-01T00:00:00Z\"}",
    "{\"$timestamp\": {\"t\": 5, \"i\": 1}}",
    "{\"$oid\": \"5f0000000000000000000001\"}",
    "{\"$binary\": {\"base64\": \"AQI=\", \"subType\": \"00\"}}",
    "{\"$regularExpression\": {\"pattern\": \"^ab\", \"options\": \"\"}}",
    "{\"$minKey\": 1}",
    "{\"$maxKey\": 1}",
    "{\"$undefined\": true}",
};
#define NVALUES (sizeof(values) / sizeof(values[0]))

static const char *const filters[] = {
    "{\"a\": 2}",
    "{\"a\": null}",
    "{\"a\": [1, 3]}",
    "{\"a\": []}",
    "{\"a\": [[1, 3]]}",
    "{\"a\": {\"b\": 1}}",
    "{\"a\": {\"%gt\": 1, \"%lt\": 3}}",
    "{\"a\": {\"%gte\": 2}}",
    "{\"a\": {\"%lte\": 2}}",
    "{\"a\": {\"%gt\": \"abc\"}}",
    "{\"a\": {\"%lt\": \"abd\"}}",
    "{\"a\": {\"%gte\": null}}",
    "{\"a\": {\"%gt\": {\"b\": 0}}}",
    "{\"a\": {\"%lt\": [2]}}",
    "{\"a\": {\"%gte\": []}}",
    "{\"a\": {\"%lte\": {\"$numberDouble\": \"NaN\"}}}",
    "{\"a\": {\"%lt\": true}}",
    "{\"a\": {\"%gte\": {\"$date\": \"2019-01-01T00:00:00Z\"}}}",
    "{\"a\": {\"%gt\": {\"$timestamp\": {\"t\": 1, \"i\": 1}}}}",
    "{\"a\": {\"%gt\": {\"$minKey\": 1}}}",
    "{\"a\": {\"%lte\": {\"$maxKey\": 1}}}",
    "{\"a\": {\"$minKey\": 1}}",
    "{\"a\": {\"%gte\": {\"$oid\": \"000000000000000000000000\"}}}",
    "{\"a\": {\"%gt\": {\"$binary\": {\"base64\": \"AQ==\", \"subType\": \"00\"}}}}",
    "{\"a\": {\"%in\": [2, null, \"abc\", [1, 3]]}}",
    "{\"a\": {\"%in\": [{\"$regularExpression\": {\"pattern\": \"c\", \"options\": \"\"}}, 1]}}",
    "{\"a\": {\"%nin\": [1, 2]}}",
    "{\"a\": {\"%ne\": 2}}",
    "{\"a\": {\"%exists\": true}}",
    "{\"a\": {\"%exists\": false}}",
    "{\"a\": {\"%type\": \"array\"}}",
    "{\"a\": {\"%size\": 2}}",
    "{\"a\": {\"%mod\": [2, 0]}}",
    "{\"a\": {\"%not\": {\"%gt\": 2}}}",
    "{\"a\": {\"%regex\": \"^ab\"}}",
    "{\"a\": {\"%regex\": \"^abc*\"}}",
    "{\"a\": {\"%regex\": \"b\"}}",
    "{\"a\": {\"%all\": [1, 3]}}",
    "{\"a\": {\"%elemMatch\": {\"%gt\": 1, \"%lt\": 4}}}",
    "{\"a\": {\"%elemMatch\": {\"%elemMatch\": {\"%eq\": 1}}}}",
    "{\"a\": {\"%elemMatch\": {\"b\": 1}}}",
    "{\"a\": {\"%elemMatch\": {\"b\": {\"%gt\": 1}, \"c\": 1}}}",
    "{\"a\": {\"%elemMatch\": {\"b\": null}}}",
    "{\"a\": {\"%elemMatch\": {\"0\": 1}}}",
    "{\"a.b\": 1}",
    "{\"a.b\": null}",
    "{\"a.b\": {\"%exists\": false}}",
    "{\"a.b\": {\"%gt\": 0, \"%lt\": 2}}",
    "{\"a.b\": 1, \"a.c\": 1}",
    "{\"a.b.c\": 2}",
    "{\"a.0\": 1}",
    "{\"a.0\": [1, 3]}",
    "{\"a.1\": {\"%gte\": 1}}",
    "{\"a.0.b\": 1}",
    "{\"a\": 2, \"x\": {\"%gt\": 1}}",
    "{\"a\": {\"%gt\": 1}, \"x\": 2}",
    "{\"x\": {\"%in\": [1, 3]}, \"a\": {\"%gte\": 1}}",
    "{\"%or\": [{\"a\": 1}, {\"x\": 2}]}",
    "{\"%or\": [{\"a\": {\"%gt\": 1}}, {\"a\": 1}, {\"x\": {\"%in\": [0, 2]}}]}",
    "{\"%or\": [{\"a.b\": 1, \"x\": 1}, {\"_id\": {\"%lt\": 100}}], \"a\": {\"%ne\": 2}}",
    "{\"%or\": [{\"a\": 1}, {\"y\": 2}]}",
    "{\"%and\": [{\"a\": {\"%gt\": 1}}, {\"a\": {\"%lt\": 3}}]}",
};

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* The ids, sorted; fails when one is given twice. */
static const char *sorted_ids(const char *ids)
{
    int v[300], n = 0;
    const char *text = "";

    for (const char *s = ids; *s != '\0'; s += strspn(s, " ")) {
        v[n++] = (int)strtol(s, (char **)&s, 10);
        assert_true(n < 300);
    }
    qsort(v, (size_t)n, sizeof(v[0]), by_number);
    for (int i = 0; i < n; i++) {
        if (i > 0 && v[i] == v[i - 1])
            fail_msg("%d is given twice", v[i]);
        text = arena_printf(&op.arena, "%s %d", text, v[i]);
    }
    return text;
}

static void test_against_collscan(void **state)
{
    static const char *const specs[] = {
        "{\"v\": 2, \"key\": {\"a\": 1}, \"name\": \"a\"}",
        "{\"v\": 2, \"key\": {\"a\": -1, \"x\": 1}, \"name\": \"ax\"}",
        "{\"v\": 2, \"key\": {\"x\": 1, \"a\": -1}, \"name\": \"xa\"}",
        "{\"v\": 2, \"key\": {\"a.b\": 1, \"a.c\": 1}, \"name\": \"abac\"}",
        "{\"v\": 2, \"key\": {\"a.b.c\": 1}, \"name\": \"abc\"}",
        "{\"v\": 2, \"key\": {\"a.0\": 1}, \"name\": \"a0\"}",
    };
    static const char *const sorts[] = {NULL, "{\"a\": 1}", "{\"a\": -1, \"x\": 1}", "{\"x\": -1}"};
    struct coll *k = create("t.c");

    (void)state;
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        k = add_index(k, specs[i]);
    for (int i = 0; i < 250; i++) {
        const char *a = values[(size_t)i < NVALUES ? (uint32_t)i : pick(NVALUES)];

        insert(k, i % 9 == 8 ? arena_printf(&op.arena, "{\"_id\": %d, \"x\": %u}", i, pick(4))
                             : arena_printf(&op.arena, "{\"_id\": %d, \"a\": %s, \"x\": %u}", i, a,
                                            pick(4)));
    }
    for (size_t f = 0; f < sizeof(filters) / sizeof(filters[0]); f++) {
        const char *want = sorted_ids(find(k, filters[f], NULL, "{\"%natural\": 1}", 0));

        for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
            const char *name = bv_str(bv_get(json_doc(&op.arena, specs[i]), "name"), NULL);
            const char *hint = arena_printf(&op.arena, "\"%s\"", name);
            const char *got = sorted_ids(find(k, filters[f], NULL, hint, 7));

            if (strcmp(got, want) != 0)
                fail_msg("%s by %s (%s):\n got %s\nwant %s", filters[f], name,
                         plan_text(k, filters[f], NULL, hint, NULL), got, want);
        }
        for (size_t i = 0; i < sizeof(sorts) / sizeof(sorts[0]); i++) {
            const char *got = sorted_ids(find(k, filters[f], sorts[i], NULL, 1));

            if (strcmp(got, want) != 0)
                fail_msg("%s sort %s (%s):\n got %s\nwant %s", filters[f], sorts[i],
                         plan_text(k, filters[f], sorts[i], NULL, NULL), got, want);
        }
    }
    coll_unref(k);
}

/* --- the oplog
 * ------------------------------------------------------------------------------------ */

static const char *find_oplog(const char *filter, const char *sort, const char *hint, int batch,
                              bool *ret_sorted)
{
    struct query q;
    int rc = open_query(&q, NULL, true, filter, sort, hint, false);

    if (rc != 0) {
        exec_fini(&q.x);
        return arena_printf(&op.arena, "error %d", rc);
    }
    if (ret_sorted != NULL)
        *ret_sorted = q.sorted;
    return read_all(&q, batch);
}

static const char *ts_filter(const char *fmt, uint64_t ts)
{
    return arena_printf(
        &op.arena, "{\"op\": \"i\", \"ts\": {\"%s\": {\"$timestamp\": {\"t\": %u, \"i\": %u}}}}",
        fmt, (unsigned)(ts >> 32), (unsigned)ts);
}

static void test_oplog(void **state)
{
    uint64_t ts[6];
    bool sorted;

    (void)state;
    for (int i = 0; i < 5; i++)
        ts[i] = put(&d, &op, "t.c", i);
    assert_string_equal(find_oplog("{\"op\": \"i\"}", NULL, NULL, 0, &sorted), "0 1 2 3 4");
    assert_false(sorted);
    assert_string_equal(find_oplog("{\"op\": \"i\"}", NULL, NULL, 2, NULL), "0 1 2 3 4");
    assert_string_equal(find_oplog("{\"op\": \"i\"}", "{\"ts\": -1}", NULL, 2, &sorted),
                        "4 3 2 1 0");
    assert_true(sorted);
    assert_string_equal(find_oplog("{\"op\": \"i\"}", "{\"%natural\": -1}", NULL, 1, &sorted),
                        "4 3 2 1 0");
    assert_true(sorted);
    assert_string_equal(find_oplog("{\"op\": \"i\"}", NULL, "{\"%natural\": -1}", 1, NULL),
                        "4 3 2 1 0");
    assert_string_equal(find_oplog(ts_filter("%gt", ts[2]), NULL, NULL, 1, NULL), "3 4");
    assert_string_equal(find_oplog(ts_filter("%gte", ts[2]), NULL, NULL, 1, NULL), "2 3 4");
    assert_string_equal(find_oplog(ts_filter("%lt", ts[2]), NULL, NULL, 1, NULL), "0 1");
    assert_string_equal(find_oplog(ts_filter("%lte", ts[2]), "{\"ts\": -1}", NULL, 1, NULL),
                        "2 1 0");
    assert_string_equal(find_oplog(ts_filter("%eq", ts[2]), NULL, NULL, 1, NULL), "2");
    assert_string_equal(find_oplog(arena_printf(&op.arena, "{\"%%and\": [%s, %s]}",
                                                ts_filter("%gt", ts[0]), ts_filter("%lt", ts[3])),
                                   NULL, NULL, 1, NULL),
                        "1 2");
    assert_string_equal(find_oplog("{\"ts\": 5}", NULL, NULL, 1, NULL), "");
    assert_string_equal(
        find_oplog("{\"ts\": {\"%gt\": {\"$minKey\": 1}}, \"op\": \"i\"}", NULL, NULL, 1, NULL),
        "0 1 2 3 4");
    assert_string_equal(find_oplog("{}", NULL, "\"ts_1\"", 1, NULL), "error 2");
}

static void test_oplog_seeks(void **state)
{
    struct query q;
    struct bv explained;
    struct bw w;
    uint64_t ts = put(&d, &op, "t.c", 1);

    (void)state;
    OK(open_query(&q, NULL, true, ts_filter("%gt", ts), NULL, NULL, false));
    bw_init(&w, &op.arena);
    q.scan->ops->explain(q.scan, &w);
    explained = bw_done(&w);
    assert_true(bv_ts(bv_get(explained, "minRecord")) == ts + 1);
    assert_true(bv_is_missing(bv_get(explained, "maxRecord")));
    assert_string_equal(bv_str(bv_get(explained, "direction"), NULL), "forward");
    close_query(&q);
}

static void test_oplog_tail(void **state)
{
    struct query q;
    struct parked p;
    uint64_t ts;
    bool more;

    (void)state;
    ts = put(&d, &op, "t.c", 1);
    OK(open_query(&q, NULL, true, ts_filter("%gte", ts), NULL, NULL, true));
    assert_string_equal(next_id(&q, &more), "1");
    assert_null(next_id(&q, &more));
    assert_true(more);
    save(&q);
    parked_init(&p);
    assert_int_equal(oplog_wait_entry(d.oplog, &p.op, &whole_oplog, scan_oplog_position(q.scan)),
                     INT_PARK);
    put(&d, &op, "t.c", 2);
    assert_true(parked_wait(&p));
    assert_int_equal(oplog_wait_entry(d.oplog, &p.op, &whole_oplog, scan_oplog_position(q.scan)),
                     0);
    assert_string_equal(next_id(&q, &more), "2");
    assert_null(next_id(&q, &more));
    /* a later entry is seen in the same batch too */
    put(&d, &op, "t.c", 3);
    assert_string_equal(next_id(&q, &more), "3");
    assert_null(next_id(&q, &more));
    assert_true(more);
    parked_fini(&p);
    close_query(&q);
}

static void test_oplog_pruned(void **state)
{
    struct query q, late;
    const int64_t keep = 2;
    int64_t removed;
    uint64_t first;
    bool more;

    (void)state;
    first = put(&d, &op, "t.c", 0);
    for (int i = 1; i < 50; i++)
        put(&d, &op, "t.c", i);
    OK(open_query(&q, NULL, true, "{\"op\": \"i\"}", NULL, NULL, true));
    assert_string_equal(next_id(&q, &more), "0");
    save(&q);
    oplog_set_limits(d.oplog, NULL, NULL, &keep);
    OK(oplog_prune(d.oplog, &op, clock_wall_ms(), &removed));
    assert_true(oplog_oldest(d.oplog) > first); /* the background thread may have been first */
    assert_string_equal(next_id(&q, &more), "error 136");
    assert_non_null(strstr(op.err->text, "CollectionScan died due to position in capped collection "
                                         "being deleted. Last seen record id: RecordId("));
    close_query(&q);
    /* one that begins before the oldest entry begins there */
    OK(open_query(&late, NULL, true, ts_filter("%gte", first), NULL, NULL, false));
    assert_string_equal(read_all(&late, 1), "48 49");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        T(test_collscan),   T(test_by_id),
        T(test_compound),   T(test_unique_first),
        T(test_multikey),   T(test_or),
        T(test_yield),      T(test_dropped),
        T(test_interrupt),  T(test_against_collscan),
        T(test_oplog),      T(test_oplog_seeks),
        T(test_oplog_tail), T(test_oplog_pruned),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
