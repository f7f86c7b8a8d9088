/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Writers, readers, DDL and the reaper at the same time, as the server runs them: readers hold no
 * lock, writers a shared one, DDL an exclusive one. At the end records, indexes and counts agree.
 */
#include "tests/unit/storage_util.h"

#include <pthread.h>
#include <stdatomic.h>

#include "storage/catalog_write.h"
#include "storage/record_write.h"
#include "tests/unit/json.h"

enum { WRITERS = 3, READERS = 2, WRITES = 300, ROUNDS = 12 };

static char *dir;
static struct engine *e;
static struct catalog *c;
static pthread_rwlock_t ns_lock = PTHREAD_RWLOCK_INITIALIZER;
static _Atomic bool stop;

static struct bv make_doc(struct arena *a, int id, int x)
{
    struct bw w;

    bw_init(&w, a);
    bw_i32(&w, "_id", id);
    bw_i32(&w, "x", x);
    return bw_done(&w);
}

/* One insert, or an update of a document that the others update too. */
static int write_one(struct op *op, struct coll *k, int writer, int i)
{
    struct bv old, now;
    struct stx *t;
    int64_t rid;
    int rc;

    TRY_RETURN(stx_begin(e, op, &t));
    if (i % 2 == 0) {
        now = make_doc(&op->arena, writer * WRITES + i, i);
        TRY(record_insert(t, k, now, &rid));
    } else {
        TRY(record_find_id(t, k, bv_new_i32(&op->arena, 0), &op->arena, &rid, &old));
        if (rid != 0)
            TRY(record_update(t, k, rid, old, make_doc(&op->arena, 0, i)));
    }
    TRY_RETURN(stx_commit(t));
    if (i % 2 == 0)
        coll_count_add(k, 1, now.len);
    return 0;
fail:
    stx_rollback(t);
    return rc;
}

static void *writer(void *arg)
{
    int me = (int)(intptr_t)arg;
    struct op op;

    op_init(&op);
    for (int i = 0; i < WRITES;) {
        struct coll *k;
        int rc;

        pthread_rwlock_rdlock(&ns_lock);
        k = catalog_get(c, "d.c");
        rc = write_one(&op, k, me, i);
        coll_unref(k);
        pthread_rwlock_unlock(&ns_lock);
        if (rc != ERR_WRITE_CONFLICT)
            i++;
        if (rc != 0 && rc != ERR_WRITE_CONFLICT)
            fprintf(stderr, "writer: %s\n", op.err->text);
        arena_reset(&op.arena);
    }
    op_fini(&op);
    return NULL;
}

/* In one snapshot every index leads to every record, whatever happens meanwhile. */
static void *reader(void *arg)
{
    _Atomic int *bad = arg;
    struct op op;

    op_init(&op);
    while (!atomic_load(&stop)) {
        struct coll *k = catalog_get(c, "d.c");
        struct validate_result r;

        /* A version that was replaced before the snapshot was opened may miss later keys. */
        if ((coll_validate(e, &op, k, &r) != 0 || r.nerrors != 0) && coll_is_current(k)) {
            fprintf(stderr, "reader: %s\n", r.nerrors != 0 ? r.errors[0] : op.err->text);
            atomic_fetch_add(bad, 1);
        }
        coll_unref(k);
        arena_reset(&op.arena);
    }
    op_fini(&op);
    return NULL;
}

static void publish_row(struct op *op, struct coll *old, struct coll *now)
{
    struct stx *t;

    OK(stx_begin(e, op, &t));
    OK(catalog_put_row(t, now));
    OK(stx_commit(t));
    catalog_publish(c, old, now, 0);
}

static void reap(struct op *op)
{
    char ident[IDENT_MAX], busy[8][IDENT_MAX];
    int n = 0;

    while (n < 8 && catalog_take_dead(c, ident)) {
        int rc = engine_table_drop(e, ident, op->err);

        if (rc == ERR_OBJECT_IS_BUSY)
            strcpy(busy[n++], ident);
        else
            OK(rc);
    }
    while (n > 0)
        catalog_add_dead(c, busy[--n]);
}

/* Adds and drops an index again and again. */
static void ddl(struct op *op)
{
    struct bv spec = json(&op->arena, "{'v': 2, 'key': {'x': 1}, 'name': 'x_1'}");

    for (int i = 0; i < ROUNDS; i++) {
        struct coll *k, *now;

        pthread_rwlock_wrlock(&ns_lock);
        k = catalog_get(c, "d.c");
        now = coll_copy(k);
        if (coll_index_by_name(k, "x_1") == NULL) {
            struct index *ix = coll_edit_add_index(now, spec);

            OK(engine_table_create(e, ix->ident, TABLE_BYTES, true, op->err));
            OK(index_build(e, op, now, ix));
        } else {
            coll_edit_drop_index(now, "x_1");
        }
        publish_row(op, k, now);
        coll_unref(k);
        pthread_rwlock_unlock(&ns_lock);
        reap(op);
    }
}

static void all_at_once(void **state)
{
    pthread_t writers[WRITERS], readers[READERS];
    struct validate_result r;
    uint8_t uuid[16] = {1};
    _Atomic int bad = 0;
    struct error err;
    struct coll *k;
    struct op op;

    (void)state;
    dir = temp_dir();
    op_init(&op);
    e = open_engine(dir);
    OK(catalog_open(e, &err, &c));
    k = coll_new(c, "d.c", uuid, bv_empty_doc);
    OK(engine_table_create(e, k->ident, TABLE_RECORDS, true, &err));
    OK(engine_table_create(e, k->indexes[0].ident, TABLE_BYTES, true, &err));
    publish_row(&op, NULL, k);
    for (intptr_t i = 0; i < WRITERS; i++)
        pthread_create(&writers[i], NULL, writer, (void *)i);
    for (int i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, reader, &bad);
    ddl(&op);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);

    assert_int_equal(bad, 0);
    k = catalog_get(c, "d.c");
    OK(coll_validate(e, &op, k, &r));
    assert_int_equal(r.nerrors, 0);
    assert_int_equal(r.records, WRITERS * WRITES / 2);
    assert_int_equal(atomic_load(&k->counters->count), WRITERS * WRITES / 2);
    coll_unref(k);
    catalog_close(c);
    close_engine(e);
    e = open_engine(dir);
    OK(catalog_open(e, &err, &c));
    k = catalog_get(c, "d.c");
    OK(coll_validate(e, &op, k, &r));
    assert_int_equal(r.nerrors, 0);
    coll_unref(k);
    catalog_close(c);
    close_engine(e);
    op_fini(&op);
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_at_once)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
