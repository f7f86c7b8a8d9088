/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Records with their index keys: writing, undoing, scanning, building, validating. */
#include "tests/unit/storage_util.h"

#include <signal.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "storage/catalog_write.h"
#include "storage/key_string.h"
#include "storage/record_write.h"
#include "tests/unit/json.h"

static char *dir;
static struct engine *e;
static struct catalog *c;
static struct coll *k; /* d.c: _id, unique u, plain a, unique sparse (v, w) */
static struct op op;

static const char *const specs[] = {
    "{'v': 2, 'key': {'u': 1}, 'name': 'u_1', 'unique': true, 'sparse': true}",
    "{'v': 2, 'key': {'a': 1}, 'name': 'a_1'}",
    "{'v': 2, 'key': {'v': 1, 'w': -1}, 'name': 'v_1_w_-1', 'unique': true, 'sparse': true}",
};

static void open_all(void)
{
    struct error err;

    e = open_engine(dir);
    OK(catalog_open(e, &err, &c));
    k = catalog_get(c, "d.c");
}

static void close_all(void)
{
    coll_unref(k);
    catalog_close(c);
    close_engine(e);
}

static void make_coll(void)
{
    uint8_t uuid[16] = {1};
    struct stx *t;

    k = coll_new(c, "d.c", uuid, bv_empty_doc);
    for (size_t i = 0; i < 3; i++)
        coll_edit_add_index(k, json(&op.arena, specs[i]));
    OK(engine_table_create(e, k->ident, TABLE_RECORDS, true, op.err));
    for (uint32_t i = 0; i < k->nindexes; i++)
        OK(engine_table_create(e, k->indexes[i].ident, TABLE_BYTES, true, op.err));
    OK(stx_begin(e, &op, &t));
    OK(catalog_put_row(t, k));
    OK(stx_commit(t));
    catalog_publish(c, NULL, coll_ref(k), 0);
}

static int set_up(void **state)
{
    (void)state;
    dir = temp_dir();
    op_init(&op);
    open_all();
    make_coll();
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

/* --- helpers ------------------------------------------------------------------------------- */

static int64_t insert_in(struct stx *t, const char *doc)
{
    int64_t rid = 0;

    OK(record_insert(t, k, json(&op.arena, doc), &rid));
    return rid;
}

static int64_t insert(const char *doc)
{
    struct stx *t;
    int64_t rid;

    OK(stx_begin(e, &op, &t));
    rid = insert_in(t, doc);
    OK(stx_commit(t));
    return rid;
}

/* The documents that an index leads to, in its order, as their _id; "~" before multikey repeats is
 * not needed: repeats show. */
static const char *scan(const char *index, bool backward)
{
    char *out = arena_zalloc(&op.arena, 2048);
    struct icursor *ic;
    struct stx *t;
    bool found;

    OK(stx_begin(e, &op, &t));
    OK(icursor_open(t, k, coll_index_by_name(k, index), &ic));
    OK(icursor_seek(ic, (struct bytes){NULL, 0}, backward, false, &found));
    while (found) {
        struct bv doc;

        OK(record_get(t, k, icursor_rid(ic), &op.arena, &doc));
        assert_false(bv_is_missing(doc));
        strcat(strcat(out, bv_show(&op.arena, bv_get(doc, "_id"), 50)), " ");
        OK(icursor_next(ic, backward, &found));
    }
    icursor_close(ic);
    OK(stx_commit(t));
    return out;
}

static void assert_valid(void)
{
    struct validate_result r;

    OK(coll_validate(e, &op, k, &r));
    if (r.nerrors != 0)
        fail_msg("%zu errors; first: %s", r.nerrors, r.errors[0]);
}

static const char *first_error(void)
{
    struct validate_result r;

    OK(coll_validate(e, &op, k, &r));
    return r.nerrors == 0 ? "valid" : r.errors[0];
}

/* --- writing ------------------------------------------------------------------------------- */

static void found_by_rid_and_id(void **state)
{
    struct bv doc, id;
    struct stx *t;
    int64_t rid;

    (void)state;
    assert_int_equal(insert("{'_id': 1, 'a': 'x'}"), 1);
    assert_int_equal(insert("{'_id': {'k': [1]}, 'a': 'y'}"), 2);
    OK(stx_begin(e, &op, &t));
    OK(record_get(t, k, 2, &op.arena, &doc));
    assert_string_equal(bv_show(&op.arena, doc, 100), "{ _id: { k: [ 1 ] }, a: \"y\" }");
    OK(record_get(t, k, 3, &op.arena, &doc));
    assert_true(bv_is_missing(doc));
    id = bv_get(json(&op.arena, "{'x': {'$numberDouble': '1.0'}}"), "x");
    OK(record_find_id(t, k, id, &op.arena, &rid, &doc)); /* across number types */
    assert_int_equal(rid, 1);
    assert_int_equal(bv_get(doc, "_id").type, BV_INT32);
    id = bv_get(json(&op.arena, "{'x': 2}"), "x");
    OK(record_find_id(t, k, id, &op.arena, &rid, &doc));
    assert_int_equal(rid, 0);
    assert_true(bv_is_missing(doc));
    OK(stx_commit(t));
}

static void duplicate_id(void **state)
{
    struct bv info;
    struct stx *t;
    int64_t rid;

    (void)state;
    insert("{'_id': 'x'}");
    OK(stx_begin(e, &op, &t));
    assert_int_equal(record_insert(t, k, json(&op.arena, "{'_id': 'x', 'a': 1}"), &rid),
                     ERR_DUPLICATE_KEY);
    assert_string_equal(op.err->text, "E11000 duplicate key error collection: d.c index: _id_ dup "
                                      "key: { _id: \"x\" }");
    info = bv_doc(op.err->info);
    assert_string_equal(bv_show(&op.arena, info, 200),
                        "{ keyPattern: { _id: 1 }, keyValue: { _id: \"x\" } }");
    stx_rollback(t);
}

/* The failed insert leaves nothing behind, and the transaction goes on. */
static void unique_undo(void **state)
{
    struct stx *t;
    int64_t rid;

    (void)state;
    insert("{'_id': 1, 'u': [1, 2], 'a': 0, 'v': 1, 'w': 1}");
    OK(stx_begin(e, &op, &t));
    insert_in(t, "{'_id': 2, 'u': 5, 'a': 1, 'v': 9}");
    /* _id and u 3, 4 go in before v, w is met */
    assert_int_equal(record_insert(t, k,
                                   json(&op.arena, "{'_id': 3, 'u': [3, 4], 'a': 2, 'v': 1, "
                                                   "'w': {'$numberDouble': '1.0'}}"),
                                   &rid),
                     ERR_DUPLICATE_KEY);
    assert_string_equal(op.err->text, "E11000 duplicate key error collection: d.c index: v_1_w_-1 "
                                      "dup key: { v: 1, w: 1.0 }");
    /* one key of u goes in before the second is met */
    assert_int_equal(record_insert(t, k, json(&op.arena, "{'_id': 3, 'u': [0, 2]}"), &rid),
                     ERR_DUPLICATE_KEY);
    assert_string_equal(op.err->text,
                        "E11000 duplicate key error collection: d.c index: u_1 dup key: { u: 2 }");
    /* not to be indexed: nothing is written at all */
    assert_int_equal(record_insert(t, k, json(&op.arena, "{'_id': 3, 'v': [1], 'w': [1]}"), &rid),
                     ERR_CANNOT_INDEX_PARALLEL_ARRAYS);
    insert_in(t, "{'_id': 3, 'u': [3, 4, 0], 'a': 2}"); /* all of it is free */
    OK(stx_commit(t));
    assert_string_equal(scan("_id_", false), "1 2 3 ");
    assert_string_equal(scan("u_1", false), "3 1 1 3 3 2 ");
    assert_string_equal(scan("a_1", false), "1 2 3 ");
    assert_string_equal(scan("v_1_w_-1", false), "1 2 ");
    assert_valid();
}

static int update_in(struct stx *t, int64_t rid, const char *doc)
{
    struct bv old;

    OK(record_get(t, k, rid, &op.arena, &old));
    return record_update(t, k, rid, old, json(&op.arena, doc));
}

static void updates(void **state)
{
    struct stx *t;
    int64_t rid;

    (void)state;
    rid = insert("{'_id': 1, 'u': [1, 2, 3], 'a': 5}");
    insert("{'_id': 2, 'u': 9, 'a': 4}");
    OK(stx_begin(e, &op, &t));
    OK(update_in(t, rid, "{'_id': 1, 'u': [2, 7], 'a': 3}"));
    assert_int_equal(update_in(t, rid, "{'_id': 1, 'u': [8, 9, 2], 'a': 1}"), ERR_DUPLICATE_KEY);
    assert_string_equal(op.err->text,
                        "E11000 duplicate key error collection: d.c index: u_1 dup key: { u: 9 }");
    OK(stx_commit(t));
    assert_string_equal(scan("u_1", false), "1 1 2 ");
    assert_string_equal(scan("a_1", false), "1 2 ");
    assert_valid();
    OK(stx_begin(e, &op, &t)); /* same keys, other types */
    OK(update_in(t, rid,
                 "{'_id': 1, 'u': [{'$numberLong': '2'}, {'$numberDouble': '7'}], 'a': 3}"));
    OK(stx_commit(t));
    assert_valid();
    OK(stx_begin(e, &op, &t)); /* out of the sparse index, and null in the other */
    OK(update_in(t, rid, "{'_id': 1}"));
    OK(stx_commit(t));
    assert_string_equal(scan("u_1", false), "2 ");
    assert_string_equal(scan("a_1", false), "1 2 ");
    assert_string_equal(scan("a_1", true), "2 1 ");
    assert_valid();
}

/* An update writes the type bits of keys that stay. */
static void updated_type_bits(void **state)
{
    struct index *ix = coll_index_by_name(k, "a_1");
    struct icursor *ic;
    struct stx *t;
    bool found;
    struct bv v;

    (void)state;
    insert("{'_id': 1, 'a': 5}");
    OK(stx_begin(e, &op, &t));
    OK(update_in(t, 1, "{'_id': 1, 'a': {'$numberDouble': '5'}}"));
    OK(icursor_open(t, k, ix, &ic));
    OK(icursor_seek(ic, (struct bytes){NULL, 0}, false, false, &found));
    assert_true(found);
    v = index_key_value(&op, ix, icursor_key(ic), icursor_type_bits(ic));
    assert_string_equal(bv_show(&op.arena, v, 50), "{ a: 5.0 }");
    OK(icursor_next(ic, false, &found));
    assert_false(found);
    icursor_close(ic);
    OK(stx_commit(t));
}

/* Only what differs is written: two updates of fields in different indexes of one record's
 * neighbours do not conflict on shared keys, and unchanged keys cost no write. */
static void unchanged_keys_are_not_written(void **state)
{
    struct error err;
    struct stx *t;
    long before;

    (void)state;
    insert("{'_id': 1, 'u': 1, 'a': [1, 2, 3], 'v': 1}");
    OK(fault_set("storageWrite:error=1:1000000", &err)); /* counts */
    before = fault_hits("storageWrite");
    OK(stx_begin(e, &op, &t));
    OK(update_in(t, 1, "{'_id': 1, 'u': 1, 'a': [1, 2, 3], 'v': 1, 'z': 1}"));
    assert_int_equal(fault_hits("storageWrite") - before, 1); /* the record */
    before = fault_hits("storageWrite");
    OK(update_in(t, 1, "{'_id': 1, 'u': 1, 'a': [1, 3, 4], 'v': 1}"));
    assert_int_equal(fault_hits("storageWrite") - before, 3); /* and one key more, one less */
    OK(stx_commit(t));
    fault_clear_all();
    assert_valid();
}

static void deletes(void **state)
{
    struct bv doc;
    struct stx *t;

    (void)state;
    insert("{'_id': 1, 'u': [1, 2], 'a': [1, 2]}");
    insert("{'_id': 2, 'u': 3, 'a': 1}");
    OK(stx_begin(e, &op, &t));
    OK(record_get(t, k, 1, &op.arena, &doc));
    OK(record_delete(t, k, 1, doc));
    assert_int_equal(record_delete(t, k, 1, doc), ERR_INTERNAL);
    OK(stx_commit(t));
    assert_string_equal(scan("u_1", false), "2 ");
    assert_string_equal(scan("a_1", false), "2 ");
    assert_int_equal(insert("{'_id': 1, 'u': 1}"), 3); /* record ids are not reused */
    assert_valid();
}

static void same_id_in_two_transactions(void **state)
{
    struct stx *t1, *t2;
    int64_t rid;

    (void)state;
    OK(stx_begin(e, &op, &t1));
    OK(stx_begin(e, &op, &t2));
    insert_in(t1, "{'_id': 1}");
    assert_int_equal(record_insert(t2, k, json(&op.arena, "{'_id': 1}"), &rid), ERR_WRITE_CONFLICT);
    OK(stx_commit(t1));
    stx_rollback(t2);
    OK(stx_begin(e, &op, &t2)); /* the retry */
    assert_int_equal(record_insert(t2, k, json(&op.arena, "{'_id': 1}"), &rid), ERR_DUPLICATE_KEY);
    stx_rollback(t2);
    /* equal keys of a plain index do not conflict */
    OK(stx_begin(e, &op, &t1));
    OK(stx_begin(e, &op, &t2));
    insert_in(t1, "{'_id': 2, 'a': 7}");
    insert_in(t2, "{'_id': 3, 'a': 7}");
    OK(stx_commit(t1));
    OK(stx_commit(t2));
    assert_valid();
}

/* Fails the n-th write, n = 1, 2, ... until one passes: each time all of it is undone by the
 * rollback, or none was written. */
static void every_write_fails_once(void **state)
{
    struct bv doc = json(&op.arena, "{'_id': 9, 'u': [1, 2], 'a': [1, 2], 'v': 1}");
    struct error err;
    struct stx *t;
    int64_t rid;
    int n = 0, rc;

    (void)state;
    insert("{'_id': 1, 'u': 100, 'a': 5}");
    do {
        char spec[64];

        snprintf(spec, sizeof(spec), "storageWrite:error=14031:%d", ++n);
        OK(fault_set(spec, &err));
        OK(stx_begin(e, &op, &t));
        rc = record_insert(t, k, doc, &rid);
        fault_clear_all();
        if (rc != 0) {
            assert_int_equal(rc, ERR_OUT_OF_DISK_SPACE);
            stx_rollback(t);
            assert_string_equal(scan("_id_", false), "1 ");
            assert_valid();
        }
    } while (rc != 0);
    OK(stx_commit(t));
    assert_int_equal(n, 8); /* seven writes: _id, u twice, v, record, a twice */
    assert_string_equal(scan("_id_", false), "1 9 ");
    assert_valid();
}

/* --- a full disk --------------------------------------------------------------------------- */

static void reopen_with_reserve(uint64_t bytes)
{
    struct engine_options o = {.path = dir, .small_log = true, .disk_reserve_bytes = bytes};
    struct error err;

    close_all();
    OK(engine_open(&o, &err, &e));
    OK(catalog_open(e, &err, &c));
    k = catalog_get(c, "d.c");
}

static int delete_one(int64_t rid)
{
    struct bv doc;
    struct stx *t;
    int rc;

    OK(stx_begin(e, &op, &t));
    OK(record_get(t, k, rid, &op.arena, &doc));
    rc = record_delete(t, k, rid, doc);
    if (rc == 0)
        return stx_commit(t);
    stx_rollback(t);
    return rc;
}

/* Growth is refused first, deletion later; reading and reopening always work. */
static void nearly_full_disk(void **state)
{
    struct statvfs s;
    struct stx *t;
    int64_t rid;

    (void)state;
    insert("{'_id': 1, 'a': 1}");
    insert("{'_id': 2, 'a': 2}");
    assert_int_equal(statvfs(dir, &s), 0);
    reopen_with_reserve((uint64_t)s.f_bavail * s.f_frsize / 2 * 3);
    OK(stx_begin(e, &op, &t));
    assert_int_equal(record_insert(t, k, json(&op.arena, "{'_id': 3}"), &rid),
                     ERR_OUT_OF_DISK_SPACE);
    assert_int_equal(update_in(t, 1, "{'_id': 1, 'a': 1, 'b': 1}"), ERR_OUT_OF_DISK_SPACE);
    OK(update_in(t, 1, "{'_id': 1, 'a': 9}"));
    OK(stx_commit(t));
    OK(delete_one(2));
    reopen_with_reserve(UINT64_MAX / 4);
    assert_int_equal(delete_one(1), ERR_OUT_OF_DISK_SPACE);
    assert_string_equal(scan("a_1", false), "1 ");
    reopen_with_reserve(0);
    OK(delete_one(1));
    assert_valid();
}

/* --- index cursors ------------------------------------------------------------------------- */

/* a bound of the given value of a in a_1 */
static struct bytes bound(const char *json_doc)
{
    struct ks_builder b;

    ks_init(&b, &op.arena);
    ks_append(&b, bv_first(json(&op.arena, json_doc), NULL), false);
    return (struct bytes){b.buf, b.len};
}

static int64_t rid_at(struct icursor *ic, const char *json_doc, bool backward, bool after)
{
    bool found;

    OK(icursor_seek(ic, bound(json_doc), backward, after, &found));
    return found ? icursor_rid(ic) : 0;
}

static void index_bounds(void **state)
{
    struct icursor *ic;
    struct stx *t;
    bool found;

    (void)state;
    insert("{'_id': 1, 'a': 10}");
    insert("{'_id': 2, 'a': 20}");
    insert("{'_id': 3, 'a': 20}");
    insert("{'_id': 4, 'a': 'str'}");
    insert("{'_id': 5, 'a': 'strand'}");
    OK(stx_begin(e, &op, &t));
    OK(icursor_open(t, k, coll_index_by_name(k, "a_1"), &ic));
    assert_int_equal(rid_at(ic, "{'a': 10}", false, false), 1);
    assert_int_equal(rid_at(ic, "{'a': 10}", false, true), 2);
    assert_int_equal(rid_at(ic, "{'a': 20}", false, false), 2);
    assert_int_equal(rid_at(ic, "{'a': 20}", false, true), 4);
    assert_int_equal(rid_at(ic, "{'a': 20}", true, false), 1);
    assert_int_equal(rid_at(ic, "{'a': 20}", true, true), 3);
    assert_int_equal(rid_at(ic, "{'a': 15}", false, false), 2);
    assert_int_equal(rid_at(ic, "{'a': 15}", true, true), 1);
    assert_int_equal(rid_at(ic, "{'a': 'str'}", false, true), 5);
    assert_int_equal(rid_at(ic, "{'a': 'str'}", true, true), 4);
    assert_int_equal(rid_at(ic, "{'a': 1}", true, true), 0);
    assert_int_equal(rid_at(ic, "{'a': {'x': 1}}", false, false), 0);

    /* going on behind an entry, also when it is gone */
    OK(icursor_seek_beyond(ic, bound("{'a': 20}"), 2, false, &found));
    assert_int_equal(icursor_rid(ic), 3);
    OK(icursor_seek_beyond(ic, bound("{'a': 20}"), 3, true, &found));
    assert_int_equal(icursor_rid(ic), 2);
    OK(icursor_seek_beyond(ic, bound("{'a': 20}"), 1, true, &found));
    assert_int_equal(icursor_rid(ic), 1);
    OK(icursor_seek_beyond(ic, bound("{'a': 20}"), 99, false, &found));
    assert_int_equal(icursor_rid(ic), 4);
    OK(icursor_seek_beyond(ic, bound("{'a': 'strand'}"), 5, false, &found));
    assert_false(found);
    icursor_close(ic);

    OK(icursor_open(t, k, &k->indexes[0], &ic)); /* the unique form */
    OK(icursor_seek_beyond(ic, bound("{'_id': 2}"), 2, false, &found));
    assert_int_equal(icursor_rid(ic), 3);
    assert_int_equal(icursor_key(ic).len, bound("{'_id': 3}").len);
    OK(icursor_seek_beyond(ic, bound("{'_id': 2}"), 2, true, &found));
    assert_int_equal(icursor_rid(ic), 1);
    icursor_close(ic);
    OK(stx_commit(t));
}

/* --- building and validating --------------------------------------------------------------- */

static struct coll *with_new_index(const char *spec, struct index **ret)
{
    struct coll *now = coll_copy(k);

    *ret = coll_edit_add_index(now, json(&op.arena, spec));
    OK(engine_table_create(e, (*ret)->ident, TABLE_BYTES, true, op.err));
    return now;
}

static void insert_many(int n)
{
    char text[64];

    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof(text), "{'_id': %d, 'x': %d, 'y': [%d, -1]}", i, n - i, i);
        insert(text);
    }
}

static void builds(void **state)
{
    struct coll *now, *old;
    struct index *ix;
    struct validate_result r;

    (void)state;
    insert_many(1203);
    now = with_new_index("{'v': 2, 'key': {'y': 1, 'x': -1}, 'name': 'new'}", &ix);
    OK(index_build(e, &op, now, ix));
    assert_true(index_is_multikey(ix));
    old = k;
    k = now;
    OK(coll_validate(e, &op, k, &r));
    assert_int_equal(r.nerrors, 0);
    assert_int_equal(r.records, 1203);
    assert_int_equal(r.keys_per_index[0], 1203);
    assert_int_equal(r.keys_per_index[4], 2 * 1203);
    k = old;
    coll_unref(now);
}

static void build_of_unique_meets_duplicate(void **state)
{
    struct coll *now;
    struct index *ix;

    (void)state;
    insert_many(700);
    insert("{'_id': 'last', 'x': 3}");
    now = with_new_index("{'v': 2, 'key': {'x': 1}, 'name': 'x_1', 'unique': true}", &ix);
    assert_int_equal(index_build(e, &op, now, ix), ERR_DUPLICATE_KEY);
    assert_string_equal(op.err->text,
                        "E11000 duplicate key error collection: d.c index: x_1 dup key: { x: 3 }");
    coll_unref(now);
}

static void interrupted_build(void **state)
{
    struct coll *now;
    struct index *ix;

    (void)state;
    insert_many(10);
    now = with_new_index("{'v': 2, 'key': {'x': 1}, 'name': 'x_1'}", &ix);
    atomic_store(&op.interrupt, ERR_INTERRUPTED);
    assert_int_equal(index_build(e, &op, now, ix), ERR_INTERRUPTED);
    atomic_store(&op.interrupt, 0);
    coll_unref(now);
}

/* Writes past the index code. */
static void plant(const char *ident, const char *key, size_t key_len, const char *value,
                  size_t value_len)
{
    struct tcursor *cursor;
    struct stx *t;

    OK(stx_begin(e, &op, &t));
    OK(tcursor_open(t, ident, TABLE_BYTES, &cursor));
    OK(tcursor_put(cursor, (struct bytes){(const uint8_t *)key, key_len},
                   (struct bytes){(const uint8_t *)value, value_len}));
    tcursor_close(cursor);
    OK(stx_commit(t));
}

static void unplant(const char *ident)
{
    struct tcursor *cursor;
    struct stx *t;
    bool found;

    OK(stx_begin(e, &op, &t));
    OK(tcursor_open(t, ident, TABLE_BYTES, &cursor));
    OK(tcursor_first(cursor, &found));
    OK(tcursor_remove(cursor, tcursor_key(cursor), &found));
    assert_true(found);
    tcursor_close(cursor);
    OK(stx_commit(t));
}

static void validate_finds_missing_keys(void **state)
{
    (void)state;
    insert("{'_id': 1, 'a': 1}");
    insert("{'_id': 2, 'a': 2}");
    assert_string_equal(first_error(), "valid");
    unplant(coll_index_by_name(k, "a_1")->ident);
    assert_string_equal(first_error(), "index 'a_1' lacks a key of the record 1, whose _id is 1");
}

static void validate_finds_keys_too_many(void **state)
{
    (void)state;
    insert("{'_id': 1, 'a': 1}");
    plant(coll_index_by_name(k, "a_1")->ident, "\x2b\x08\x04\0\0\0\0\0\0\0\x07", 11, "", 0);
    assert_string_equal(first_error(), "index 'a_1' has a key that the record 7 does not (there is "
                                       "no such record)");
}

static void validate_finds_wrong_record(void **state)
{
    struct ks_builder b;

    (void)state;
    insert("{'_id': 1}");
    insert("{'_id': 2}");
    ks_init(&b, &op.arena);
    ks_append(&b, bv_new_i32(&op.arena, 2), false);
    ks_append_end(&b);
    plant(k->indexes[0].ident, (const char *)b.buf, b.len, "\0\0\0\0\0\0\0\1", 8);
    assert_string_equal(first_error(), "index '_id_' lacks a key of the record 2, whose _id is 2");
}

static void validate_finds_broken_records(void **state)
{
    struct validate_result r;
    struct tcursor *cursor;
    struct stx *t;

    (void)state;
    insert("{'_id': 1}");
    OK(stx_begin(e, &op, &t));
    OK(tcursor_open(t, k->ident, TABLE_RECORDS, &cursor));
    OK(tcursor_put_num(cursor, 5, str_bytes("no document")));
    tcursor_close(cursor);
    OK(stx_commit(t));
    OK(coll_validate(e, &op, k, &r));
    assert_int_equal(r.records, 2);
    assert_int_equal(r.invalid_docs, 1);
    assert_int_equal(r.nerrors, 1);
}

/* --- crash --------------------------------------------------------------------------------- */

/* Inserts, updates and deletes; after each commit and sync says so through the pipe. */
static void write_until_killed(int out)
{
    open_all();
    for (int i = 0;; i++) {
        char text[128];
        struct error err;
        struct stx *t;
        int64_t rid;

        snprintf(text, sizeof(text), "{'_id': %d, 'u': [%d, %d], 'a': [%d, 1], 'v': %d}", i, 2 * i,
                 2 * i + 1, i % 7, i);
        OK(stx_begin(e, &op, &t));
        rid = insert_in(t, text);
        if (i % 3 == 0)
            OK(update_in(t, rid, "{'_id': -1, 'a': 3}"));
        if (i % 3 == 0) {
            struct bv doc;

            OK(record_get(t, k, rid, &op.arena, &doc));
            OK(record_delete(t, k, rid, doc));
        }
        OK(stx_commit(t));
        OK(engine_sync_log(e, &err));
        if (write(out, &i, sizeof(i)) != sizeof(i))
            _exit(1);
        if (i % 50 == 0)
            OK(engine_checkpoint(e, &err));
        arena_reset(&op.arena);
    }
}

static void acknowledged_survives_a_kill(void **state)
{
    int fds[2], status, last = -1, i;
    struct bv doc;
    struct stx *t;
    pid_t pid;

    (void)state;
    close_all();
    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        close(fds[0]);
        write_until_killed(fds[1]);
    }
    close(fds[1]);
    while (last < 300 && read(fds[0], &i, sizeof(i)) == sizeof(i))
        last = i;
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    while (read(fds[0], &i, sizeof(i)) == sizeof(i))
        last = i;
    close(fds[0]);
    assert_true(last >= 300);
    open_all();
    assert_valid();
    OK(stx_begin(e, &op, &t));
    for (i = 0; i <= last; i++) {
        int64_t rid;

        OK(record_find_id(t, k, bv_new_i32(&op.arena, i), &op.arena, &rid, &doc));
        assert_int_equal(rid != 0, i % 3 != 0);
    }
    OK(stx_commit(t));
    assert_in_range(atomic_load(&k->counters->count), (last + 1) * 2 / 3, (last + 1) * 2 / 3 + 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(found_by_rid_and_id),
        TEST(duplicate_id),
        TEST(unique_undo),
        TEST(updates),
        TEST(updated_type_bits),
        TEST(unchanged_keys_are_not_written),
        TEST(deletes),
        TEST(same_id_in_two_transactions),
        TEST(every_write_fails_once),
        TEST(nearly_full_disk),
        TEST(index_bounds),
        TEST(builds),
        TEST(build_of_unique_meets_duplicate),
        TEST(interrupted_build),
        TEST(validate_finds_missing_keys),
        TEST(validate_finds_keys_too_many),
        TEST(validate_finds_wrong_record),
        TEST(validate_finds_broken_records),
        TEST(acknowledged_survives_a_kill),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
