/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The catalog: finding, publishing, dying idents, and what a reopening finds. */
#include "tests/unit/storage_util.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/limits.h"
#include "storage/catalog_write.h"
#include "storage/record_write.h"
#include "tests/unit/json.h"

static char *dir;
static struct engine *e;
static struct catalog *c;
static struct op op;

static void open_all(void)
{
    struct error err;
    int rc;

    e = open_engine(dir);
    rc = catalog_open(e, &err, &c);
    if (rc != 0)
        fail_msg("catalog_open: %s", err.text);
}

static void close_all(void)
{
    catalog_close(c);
    close_engine(e);
}

static int set_up(void **state)
{
    (void)state;
    dir = temp_dir();
    op_init(&op);
    open_all();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_all();
    op_fini(&op);
    remove_dir(dir);
    return 0;
}

static void make_tables(struct coll *k)
{
    OK(engine_table_create(e, k->ident, TABLE_RECORDS, true, op.err));
    for (uint32_t i = 0; i < k->nindexes; i++)
        OK(engine_table_create(e, k->indexes[i].ident, TABLE_BYTES, true, op.err));
}

static void put_row(struct coll *k)
{
    struct stx *t;

    OK(stx_begin(e, &op, &t));
    OK(catalog_put_row(t, k));
    OK(stx_commit(t));
}

static void create(const char *ns, uint8_t uuid_byte, const char *options)
{
    uint8_t uuid[16] = {uuid_byte};
    struct coll *k = coll_new(c, ns, uuid, json(&op.arena, options));

    make_tables(k);
    put_row(k);
    catalog_publish(c, NULL, k, 0);
}

static void drop(const char *ns)
{
    struct coll *k = catalog_get(c, ns);
    struct stx *t;

    assert_non_null(k);
    OK(stx_begin(e, &op, &t));
    OK(catalog_remove_row(t, k));
    OK(stx_commit(t));
    catalog_publish(c, k, NULL, 0);
    coll_unref(k);
}

static void add_index(const char *ns, const char *spec)
{
    struct coll *k = catalog_get(c, ns), *now = coll_copy(k);

    coll_edit_add_index(now, json(&op.arena, spec));
    make_tables(now);
    put_row(now);
    catalog_publish(c, k, now, 0);
    coll_unref(k);
}

static void insert(struct coll *k, const char *doc)
{
    struct bv v = json(&op.arena, doc);
    struct stx *t;
    int64_t rid;

    OK(stx_begin(e, &op, &t));
    OK(record_insert(t, k, v, &rid));
    OK(stx_commit(t));
    coll_count_add(k, 1, v.len);
}

static void add_name(void *arg, const char *ident)
{
    strcat(strcat(arg, ident), " ");
}

static void assert_tables(const char *expected)
{
    char text[512] = "";

    OK(engine_tables(e, add_name, text, op.err));
    assert_string_equal(text, expected);
}

static void finding(void **state)
{
    static const uint8_t uuid[16] = {2};
    struct coll *k, **list;
    const char **names;
    size_t n;

    (void)state;
    create("a.x", 1, "{}");
    create("a-b.y", 2, "{}");
    create("a.b.c", 3, "{\"changeStreamPreAndPostImages\": {\"enabled\": true}}");
    create("ab.z", 4, "{}");
    assert_null(catalog_get(c, "a.y"));
    assert_null(catalog_get(c, "a"));
    k = catalog_get(c, "a.b.c");
    assert_string_equal(k->db, "a");
    assert_string_equal(k->name, "b.c");
    assert_true(k->images);
    assert_int_equal(k->nindexes, 1);
    assert_true(k->indexes[0].is_id && k->indexes[0].unique);
    assert_string_equal(k->indexes[0].name, "_id_");
    assert_string_equal(bv_show(&op.arena, k->indexes[0].spec, 100),
                        "{ v: 2, key: { _id: 1 }, name: \"_id_\" }");
    coll_unref(k);
    k = catalog_get_uuid(c, uuid);
    assert_string_equal(k->ns, "a-b.y");
    coll_unref(k);

    list = catalog_list(c, &op.arena, "a", &n);
    assert_int_equal(n, 2);
    assert_string_equal(list[0]->ns, "a.b.c");
    assert_string_equal(list[1]->ns, "a.x");
    for (size_t i = 0; i < n; i++)
        coll_unref(list[i]);
    list = catalog_list(c, &op.arena, NULL, &n);
    assert_int_equal(n, 4);
    for (size_t i = 0; i < n; i++)
        coll_unref(list[i]);
    list = catalog_list(c, &op.arena, "none", &n);
    assert_int_equal(n, 0);

    names = catalog_dbs(c, &op.arena, &n);
    assert_int_equal(n, 3);
    assert_string_equal(names[0], "a");
    assert_string_equal(names[1], "a-b");
    assert_string_equal(names[2], "ab");
    assert_true(catalog_db_exists(c, "a-b"));
    assert_false(catalog_db_exists(c, "b"));
    assert_string_equal(catalog_db_other_case(c, &op.arena, "AB"), "ab");
    assert_null(catalog_db_other_case(c, &op.arena, "ab"));
}

static void versions_and_indexes(void **state)
{
    struct coll *k, *now;

    (void)state;
    create("d.c", 1, "{}");
    add_index("d.c", "{\"v\": 2, \"key\": {\"a.b\": 1, \"c\": -1}, \"name\": \"a.b_1_c_-1\", "
                     "\"unique\": true, \"sparse\": true}");
    k = catalog_get(c, "d.c");
    assert_int_equal(k->nindexes, 2);
    assert_string_equal(k->indexes[1].fields[0].path, "a.b");
    assert_false(k->indexes[1].fields[0].descending);
    assert_true(k->indexes[1].fields[1].descending);
    assert_true(k->indexes[1].unique && k->indexes[1].sparse && !k->indexes[1].hidden);
    assert_ptr_equal(coll_index_by_name(k, "a.b_1_c_-1"), &k->indexes[1]);
    assert_null(coll_index_by_name(k, "x"));
    assert_ptr_equal(coll_index_by_key(k, json(&op.arena, "{\"a.b\": 1.0, \"c\": -1}")),
                     &k->indexes[1]);
    assert_null(coll_index_by_key(k, json(&op.arena, "{\"c\": -1, \"a.b\": 1}")));
    assert_null(coll_index_by_key(k, json(&op.arena, "{\"a.b\": 1}")));
    assert_true(coll_is_current(k));

    now = coll_copy(k);
    coll_edit_rename(now, "d.new");
    coll_edit_options(now,
                      json(&op.arena, "{\"changeStreamPreAndPostImages\": {\"enabled\": true}}"));
    coll_edit_index_spec(now, "a.b_1_c_-1",
                         json(&op.arena, "{\"v\": 2, \"key\": {\"a.b\": 1, \"c\": -1}, \"name\": "
                                         "\"a.b_1_c_-1\", \"hidden\": true}"));
    put_row(now);
    assert_false(coll_is_current(now));
    catalog_publish(c, k, now, 0);
    assert_false(coll_is_current(k));
    assert_true(coll_is_current(now));
    assert_string_equal(k->ns, "d.c");
    assert_ptr_equal(k->counters, now->counters);
    assert_string_equal(k->ident, now->ident);
    assert_null(catalog_get(c, "d.c"));
    coll_unref(k);
    k = catalog_get(c, "d.new");
    assert_ptr_equal(k, now);
    assert_true(k->images && k->indexes[1].hidden && !k->indexes[1].unique);
    coll_unref(k);
}

static void idents_die_with_their_last_reader(void **state)
{
    char ident[IDENT_MAX], index_ident[IDENT_MAX];
    struct coll *first, *second, *now;

    (void)state;
    create("d.c", 1, "{}");
    add_index("d.c", "{\"v\": 2, \"key\": {\"a\": 1}, \"name\": \"a_1\"}");
    first = catalog_get(c, "d.c"); /* uses a_1 */
    strcpy(index_ident, first->indexes[1].ident);
    now = coll_copy(first);
    coll_edit_options(now, json(&op.arena, "{\"x\": 1}"));
    put_row(now);
    catalog_publish(c, first, now, 0);
    second = catalog_get(c, "d.c"); /* too */
    now = coll_copy(second);
    coll_edit_drop_index(now, "a_1");
    put_row(now);
    catalog_publish(c, second, now, 0);
    assert_false(catalog_take_dead(c, ident));
    coll_unref(second);
    assert_false(catalog_take_dead(c, ident)); /* `first` still uses it */
    coll_unref(first);
    assert_true(catalog_take_dead(c, ident));
    assert_string_equal(ident, index_ident);
    assert_false(catalog_take_dead(c, ident));
    catalog_add_dead(c, index_ident); /* the reaper gives it back */
    assert_true(catalog_take_dead(c, ident));

    first = catalog_get(c, "d.c");
    drop("d.c");
    assert_false(catalog_take_dead(c, ident));
    coll_unref(first);
    assert_true(catalog_take_dead(c, ident));
    assert_string_equal(ident, "coll-1");
    assert_true(catalog_take_dead(c, ident));
    assert_string_equal(ident, "index-2");
    assert_false(catalog_take_dead(c, ident));
}

static void ddl_survives_reopening(void **state)
{
    struct coll *k;

    (void)state;
    create("d.c", 7, "{\"capped\": true, \"size\": 4096}");
    add_index("d.c", "{\"v\": 2, \"key\": {\"a\": -1}, \"name\": \"a_-1\", \"unique\": true}");
    create("d.gone", 8, "{}");
    drop("d.gone");
    k = catalog_get(c, "d.c");
    insert(k, "{\"_id\": 1, \"a\": 1}");
    insert(k, "{\"_id\": 2, \"a\": 2}");
    coll_unref(k);
    close_all();
    open_all();
    assert_null(catalog_get(c, "d.gone"));
    k = catalog_get(c, "d.c");
    assert_non_null(k);
    assert_string_equal(bv_show(&op.arena, k->options, 100), "{ capped: true, size: 4096 }");
    assert_int_equal(k->uuid[0], 7);
    assert_string_equal(k->ident, "coll-1");
    assert_string_equal(k->indexes[1].name, "a_-1");
    assert_true(k->indexes[1].unique);
    assert_true(k->indexes[1].fields[0].descending);
    assert_int_equal(atomic_load(&k->counters->count), 2);
    assert_int_equal(atomic_load(&k->counters->bytes), 2 * 21);
    assert_int_equal(atomic_load(&k->counters->next_rid), 3);
    coll_unref(k);
    /* the sizes are gone from disk: a crash now must not find them again */
    create("d.more", 9, "{}");
    k = catalog_get(c, "d.more");
    assert_true(atoi(k->ident + 5) > 5); /* never an old number */
    coll_unref(k);
}

static void unpublished_tables_are_swept(void **state)
{
    struct coll *k;
    uint8_t uuid[16] = {9};

    (void)state;
    create("d.c", 1, "{}"); /* coll-1, index-2 */
    k = coll_new(c, "d.half", uuid, json(&op.arena, "{}"));
    make_tables(k); /* no row: the crash came first */
    coll_unref(k);
    create("d.dropped", 2, "{}");
    drop("d.dropped"); /* row gone, the reaper did not come */
    OK(engine_table_create(e, "tmp-90", TABLE_BYTES, false, op.err));
    OK(engine_table_create(e, "oplog", TABLE_OPTIMES, true, op.err));
    close_all();
    open_all();
    assert_tables("catalog coll-1 index-2 multikey oplog sizes ");
    create("d.next", 3, "{}");
    k = catalog_get(c, "d.next");
    assert_string_equal(k->ident, "coll-91");
    coll_unref(k);
}

static void missing_table_is_refused(void **state)
{
    struct error err;
    struct catalog *again;

    (void)state;
    create("d.c", 1, "{}");
    catalog_close(c);
    OK(engine_table_drop(e, "index-2", op.err));
    assert_int_equal(catalog_open(e, &err, &again), ERR_INTERNAL);
    assert_non_null(strstr(err.text, "'index-2', which is missing"));
    OK(engine_table_create(e, "index-2", TABLE_BYTES, true, op.err));
    OK(catalog_open(e, &err, &c));
}

static void write_and_die(void)
{
    struct coll *k;
    struct error err;

    open_all();
    create("d.c", 1, "{}");
    k = catalog_get(c, "d.c");
    for (int i = 0; i < 50; i++) {
        char text[64];

        snprintf(text, sizeof(text), "{\"_id\": %d}", i);
        insert(k, text);
    }
    OK(engine_sync_log(e, &err));
    kill(getpid(), SIGKILL);
}

static void counts_after_a_kill(void **state)
{
    struct validate_result result;
    struct coll *k;
    int status;
    pid_t pid;

    (void)state;
    close_all();
    pid = fork();
    if (pid == 0)
        write_and_die();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    open_all();
    k = catalog_get(c, "d.c");
    assert_non_null(k);
    assert_int_equal(atomic_load(&k->counters->count), 50);
    assert_int_equal(atomic_load(&k->counters->bytes), 50 * 14);
    assert_int_equal(atomic_load(&k->counters->next_rid), 51);
    OK(coll_validate(e, &op, k, &result));
    assert_int_equal(result.nerrors, 0);
    assert_int_equal(result.records, 50);
    coll_unref(k);
}

/* As deep as a message may nest: the row is deeper still. */
static void deep_options(void **state)
{
    uint8_t uuid[16] = {1};
    struct coll *k;
    struct bw w;

    (void)state;
    bw_init(&w, &op.arena);
    for (int i = 0; i < LIMIT_DEPTH_MESSAGE - 1; i++)
        bw_doc_begin(&w, "a");
    for (int i = 0; i < LIMIT_DEPTH_MESSAGE - 1; i++)
        bw_end(&w);
    k = coll_new(c, "d.c", uuid, bw_done(&w));
    make_tables(k);
    put_row(k);
    catalog_publish(c, NULL, k, 0);
    close_all();
    open_all();
    k = catalog_get(c, "d.c");
    assert_non_null(k);
    coll_unref(k);
}

/* A reference that outlives the catalog is no use after free. */
static void late_reference(void **state)
{
    struct coll *k;

    (void)state;
    create("d.c", 1, "{}");
    k = catalog_get(c, "d.c");
    close_all();
    assert_false(coll_is_current(k));
    assert_string_equal(k->ns, "d.c");
    coll_unref(k);
    open_all();
}

static void in_memory(void **state)
{
    struct catalog *mem_catalog, *disk_catalog = c;
    struct engine *disk = e;
    struct error err;
    struct coll *k;

    (void)state;
    e = open_engine(NULL);
    OK(catalog_open(e, &err, &mem_catalog));
    c = mem_catalog;
    create("d.c", 1, "{}");
    k = catalog_get(c, "d.c");
    insert(k, "{\"_id\": 1}");
    coll_unref(k);
    close_all();
    e = disk;
    c = disk_catalog;
}

static bool multikey(const char *ns)
{
    struct coll *k = catalog_get(c, ns);
    bool yes = index_is_multikey(coll_index_by_name(k, "a_1"));

    assert_false(index_is_multikey(&k->indexes[0]));
    coll_unref(k);
    return yes;
}

/* An index that has expanded an array stays marked: over versions, a rollback and a reopening. */
static void arrays_mark_their_index(void **state)
{
    struct coll *k;
    struct stx *t;
    int64_t rid;

    (void)state;
    create("d.plain", 1, "{}");
    create("d.arrays", 2, "{}");
    add_index("d.plain", "{'v': 2, 'key': {'a': 1}, 'name': 'a_1'}");
    add_index("d.arrays", "{'v': 2, 'key': {'a': 1}, 'name': 'a_1'}");
    k = catalog_get(c, "d.plain");
    insert(k, "{'_id': 1, 'a': {'b': [1, 2]}, 'c': [1]}");
    coll_unref(k);
    k = catalog_get(c, "d.arrays");
    add_index("d.arrays", "{'v': 2, 'key': {'b': 1}, 'name': 'b_1'}");
    assert_false(multikey("d.arrays"));
    OK(stx_begin(e, &op, &t));
    OK(record_insert(t, k, json(&op.arena, "{'_id': 1, 'a': []}"), &rid));
    stx_rollback(t);
    coll_unref(k);
    assert_true(multikey("d.arrays"));
    close_all();
    open_all();
    assert_true(multikey("d.arrays"));
    assert_false(multikey("d.plain"));
}

static bool has_file(const char *name)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void leave_file(const char *name)
{
    char path[600];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

/* What WiredTiger leaves when it dies between the metadata and the file of a dropped table. */
static void files_of_dropped_tables_go(void **state)
{
    char path[600];

    (void)state;
    create("db.a", 1, "{}");
    close_all();
    leave_file("index-77.wt");
    leave_file("coll-78.wt.mine");
    open_all(); /* a clean start looks for nothing */
    assert_true(has_file("index-77.wt"));
    close_all();
    snprintf(path, sizeof(path), "%s/RUNNEL.clean", dir);
    assert_int_equal(unlink(path), 0);
    open_all();
    assert_false(has_file("index-77.wt"));
    assert_true(has_file("coll-78.wt.mine"));
    assert_true(has_file("coll-1.wt"));
    assert_true(has_file("index-2.wt"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(finding),
        TEST(versions_and_indexes),
        TEST(idents_die_with_their_last_reader),
        TEST(ddl_survives_reopening),
        TEST(unpublished_tables_are_swept),
        TEST(missing_table_is_refused),
        TEST(counts_after_a_kill),
        TEST(deep_options),
        TEST(late_reference),
        TEST(arrays_mark_their_index),
        TEST(in_memory),
        TEST(files_of_dropped_tables_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
