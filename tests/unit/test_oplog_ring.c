/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The ring: one contiguous run, bounded, and what is kept beside its entries. */
#include "oplog_util.h"

#include "oplog/ring.h"

/* An entry with that optime, about `pad` bytes long. */
static struct ring_entry *entry(struct op *op, uint64_t optime, size_t pad)
{
    struct oplog_op src = {.op = 'i', .ns = "db.a", .stmt_id = -1};
    struct ring_entry *e;
    uint32_t ts_offset;
    struct bv doc;

    src.o = small_doc(op, (int64_t)optime, pad);
    OK(oplog_encode(op, &src, 1, 0, &doc, &ts_offset));
    e = ring_entry_new(doc);
    assert_non_null(e);
    oplog_patch(e->bytes, e->len, ts_offset, optime, 0, 0);
    e->row.optime = optime;
    return e;
}

/* Optimes in (after, horizon], joined; "behind" when the run begins above `after`. */
static const char *fetched(struct op *op, struct ring *r, uint64_t after, uint64_t horizon)
{
    struct ring_entry *e[3];
    char *s = arena_strdup(&op->arena, "");
    size_t n;

    do {
        if (!ring_fetch(r, after, horizon, e, 3, &n))
            return "behind";
        for (size_t i = 0; i < n; i++) {
            after = e[i]->row.optime;
            s = arena_printf(&op->arena, "%s%s%d", s, *s == '\0' ? "" : " ", (int)after);
            ring_entry_drop(e[i]);
        }
    } while (n > 0);
    return s;
}

static void one_contiguous_run(void **state)
{
    struct ring_chain c = {0};
    struct ring r;
    struct op op;
    size_t one;

    (void)state;
    op_init(&op);
    ring_chain_add(&c, entry(&op, 10, 100));
    one = c.bytes;
    ring_init(&r, 5 * one, 7);
    assert_string_equal(fetched(&op, &r, 7, 99), "");
    assert_string_equal(fetched(&op, &r, 6, 99), "behind");
    ring_push(&r, &c, 12);
    assert_null(c.first);
    assert_true(ring_upto(&r) == 12 && ring_floor(&r) == 7);
    for (uint64_t t = 20; t < 24; t++)
        ring_chain_add(&c, entry(&op, t, 100));
    ring_push(&r, &c, 23);
    assert_string_equal(fetched(&op, &r, 7, 99), "10 20 21 22 23");
    assert_string_equal(fetched(&op, &r, 10, 22), "20 21 22");
    ring_chain_add(&c, entry(&op, 30, 100));
    ring_chain_add(&c, entry(&op, 31, 100));
    ring_push(&r, &c, 31); /* two must go */
    assert_true(ring_floor(&r) == 20);
    assert_string_equal(fetched(&op, &r, 19, 99), "behind");
    assert_string_equal(fetched(&op, &r, 20, 99), "21 22 23 30 31");
    ring_chain_add(&c, entry(&op, 40, 100000)); /* larger than the ring */
    ring_push(&r, &c, 40);
    assert_true(ring_floor(&r) == 40 && ring_upto(&r) == 40);
    assert_string_equal(fetched(&op, &r, 40, 99), "");
    ring_fini(&r);
    op_fini(&op);
}

static void the_table_of_slots_grows(void **state)
{
    struct ring_chain c = {0};
    struct ring_entry *e[64];
    struct ring r;
    struct op op;
    size_t n;

    (void)state;
    op_init(&op);
    ring_init(&r, SIZE_MAX, 0);
    for (uint64_t t = 1; t <= 5000; t++) {
        ring_chain_add(&c, entry(&op, t, 0));
        if (t % 700 == 0)
            ring_push(&r, &c, t);
        arena_reset(&op.arena);
    }
    ring_push(&r, &c, 5000);
    for (uint64_t after = 0; after < 5000; after += n) {
        assert_true(ring_fetch(&r, after, 5000, e, 64, &n));
        assert_true(n > 0);
        for (size_t i = 0; i < n; i++) {
            assert_true(e[i]->row.optime == after + i + 1);
            assert_true(bv_i64(bv_get(e[i]->row.o, "_id")) == (int64_t)(after + i + 1));
            ring_entry_drop(e[i]);
        }
    }
    ring_fini(&r);
    op_fini(&op);
}

static void fetched_entries_outlive_their_eviction(void **state)
{
    struct ring_chain c = {0};
    struct ring_entry *e;
    struct ring r;
    struct op op;
    size_t n;

    (void)state;
    op_init(&op);
    ring_init(&r, 2000, 0);
    ring_chain_add(&c, entry(&op, 1, 100));
    ring_push(&r, &c, 1);
    assert_true(ring_fetch(&r, 0, 9, &e, 1, &n) && n == 1);
    ring_chain_add(&c, entry(&op, 2, 1900));
    ring_push(&r, &c, 2);
    ring_fini(&r);
    assert_true(e->row.optime == 1 && bv_i64(bv_get(e->row.o, "_id")) == 1);
    ring_entry_drop(e);
    op_fini(&op);
}

static void one_document_is_kept_for_each_shape(void **state)
{
    struct ring_entry *e;
    struct bv docs[6];
    struct op op;

    (void)state;
    op_init(&op);
    e = entry(&op, 1, 0);
    for (int i = 0; i < 6; i++)
        docs[i] = small_doc(&op, i, 0);
    assert_true(bv_is_missing(ring_entry_built(e, 1)));
    ring_entry_keep(e, 1, docs[0]);
    ring_entry_keep(e, 1, docs[5]); /* the first stays */
    assert_true(bv_identical(ring_entry_built(e, 1), docs[0]));
    for (unsigned i = 1; i < 6; i++)
        ring_entry_keep(e, i + 1, docs[i]);
    for (unsigned i = 0; i < RING_SHAPES_MAX; i++)
        assert_true(bv_identical(ring_entry_built(e, i + 1), docs[i]));
    assert_true(bv_is_missing(ring_entry_built(e, RING_SHAPES_MAX + 1)));
    ring_entry_drop(e);
    op_fini(&op);
}

static void what_is_kept_is_bounded(void **state)
{
    enum { DOC = 1 << 20, N = 2 * RING_BUILT_BYTES_MAX / DOC };
    struct ring_entry *e[N];
    struct bv doc;
    struct op op;

    (void)state;
    op_init(&op);
    doc = small_doc(&op, 1, DOC);
    for (int again = 0; again < 2; again++) { /* what goes with its entry is free again */
        int kept = 0;

        for (int i = 0; i < N; i++) {
            e[i] = entry(&op, 1, 0);
            ring_entry_keep(e[i], 1, doc);
            kept += !bv_is_missing(ring_entry_built(e[i], 1));
        }
        assert_int_equal(kept, RING_BUILT_BYTES_MAX / DOC - 1);
        for (int i = 0; i < N; i++)
            ring_entry_drop(e[i]);
    }
    op_fini(&op);
}

/* Rows of the ring keep; rows of the table and operations that look like rows do not. */
static void only_whole_entries_of_the_ring_keep(void **state)
{
    struct oplog_options o = roomy;
    struct oplog_reader *r;
    struct oplog_row row, inner;
    struct bv doc;
    bool found;
    struct op op;
    struct db d;

    (void)state;
    op_init(&op);
    for (int in_ring = 0; in_ring < 2; in_ring++) {
        uint64_t optime;

        o.hub_bytes = in_ring ? 0 : 1;
        db_open(&d, true, &o);
        optime = put(&d, &op, "db.a", 1);
        doc = small_doc(&op, 99, 0);
        for (int i = 0; i < 2; i++) {
            OK(oplog_reader_open(d.oplog, &op, optime, &whole_oplog, false, &r));
            OK(oplog_reader_next(r, &row, &found));
            assert_true(found);
            inner = row;
            inner.o = doc;
            assert_true(bv_is_missing(ring_row_built(&inner, 7)));
            if (i == 0)
                ring_row_keep(&row, 7, doc);
            else if (in_ring)
                assert_true(bv_identical(ring_row_built(&row, 7), doc));
            else
                assert_true(bv_is_missing(ring_row_built(&row, 7)));
            oplog_reader_close(r);
        }
        db_remove(&d);
    }
    op_fini(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_contiguous_run),
        cmocka_unit_test(the_table_of_slots_grows),
        cmocka_unit_test(fetched_entries_outlive_their_eviction),
        cmocka_unit_test(one_document_is_kept_for_each_shape),
        cmocka_unit_test(what_is_kept_is_bounded),
        cmocka_unit_test(only_whole_entries_of_the_ring_keep),
    };

    return cmocka_run_group_tests_name("oplog_ring", tests, NULL, NULL);
}
