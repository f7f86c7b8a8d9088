/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Entries: exact bytes, MongoDB's field order, patching of timestamps, refusal of damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "oplog/entry.h"

static const uint8_t uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static struct bv doc_i32(struct op *op, const char *key, int32_t x)
{
    struct bw w;

    bw_init(&w, &op->arena);
    bw_i32(&w, key, x);
    return bw_done(&w);
}

/* Top-level field names, joined by spaces. */
static const char *field_names(struct op *op, struct bv doc)
{
    struct biter it = biter(doc);
    struct belem e;
    char *s = arena_strdup(&op->arena, "");

    while (biter_next(&it, &e))
        s = arena_printf(&op->arena, "%s%s%s", s, *s == '\0' ? "" : " ", e.key);
    return s;
}

static void insert_is_byte_exact(void **state)
{
    static const uint8_t expected[] =
        "\x88\0\0\0"
        "\x02op\0\x02\0\0\0i\0"
        "\x02ns\0\x05\0\0\0db.c\0"
        "\x05ui\0\x10\0\0\0\x04\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10"
        "\x03o\0\x0e\0\0\0\x10_id\0\x07\0\0\0\0"
        "\x03o2\0\x0e\0\0\0\x10_id\0\x07\0\0\0\0"
        "\x11ts\0\x02\0\0\0\x01\0\0\0"
        "\x12t\0\x03\0\0\0\0\0\0\0"
        "\x12v\0\x02\0\0\0\0\0\0\0"
        "\x09wall\0\xe8\x03\0\0\0\0\0\0";
    struct op op;
    struct oplog_op src = {.op = 'i', .ns = "db.c", .uuid = uuid, .stmt_id = -1};
    struct bv entry;
    uint32_t ts_offset;

    (void)state;
    op_init(&op);
    src.o = src.o2 = doc_i32(&op, "_id", 7);
    assert_int_equal(oplog_encode(&op, &src, 3, 1000, &entry, &ts_offset), 0);
    oplog_patch((uint8_t *)entry.p, entry.len, ts_offset, (1ULL << 32) | 2, 0, 0);
    assert_int_equal(entry.type, BV_DOC);
    assert_int_equal(entry.len, sizeof(expected)); /* the literal's NUL is the terminator */
    assert_memory_equal(entry.p + 4, expected + 4, sizeof(expected) - 4);
    assert_memory_equal(entry.p, expected, 4);
    op_fini(&op);
}

static void fields_come_in_mongodb_order(void **state)
{
    struct op op;
    struct bv entry, empty, uid_doc;
    uint32_t off;

    (void)state;
    op_init(&op);
    empty = bv_empty_doc;
    uid_doc = doc_i32(&op, "id", 1);
    const struct {
        struct oplog_op src;
        const char *names;
    } rows[] = {
        {{.op = 'n', .ns = "", .o = empty, .stmt_id = -1}, "op ns o ts t v wall"},
        {{.op = 'd', .ns = "db.c", .uuid = uuid, .o = empty, .stmt_id = -1},
         "op ns ui o ts t v wall"},
        {{.op = 'u', .ns = "db.c", .uuid = uuid, .o = empty, .o2 = empty, .stmt_id = -1},
         "op ns ui o o2 ts t v wall"},
        {{.op = 'c', .ns = "db.$cmd", .uuid = uuid, .o = empty, .o2 = empty, .stmt_id = -1},
         "op ns ui o o2 ts t v wall"},
        {{.op = 'u',
          .ns = "db.c",
          .uuid = uuid,
          .o = empty,
          .o2 = empty,
          .lsid = uid_doc,
          .txn_number = 5,
          .stmt_id = 0,
          .retry_image = "preImage"},
         "lsid txnNumber op ns ui o o2 needsRetryImage stmtId ts t v wall prevOpTime"},
        {{.op = 'c',
          .ns = "admin.$cmd",
          .o = empty,
          .lsid = uid_doc,
          .txn_number = 5,
          .stmt_id = -1},
         "lsid txnNumber op ns o ts t v wall prevOpTime"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(oplog_encode(&op, &rows[i].src, 1, 0, &entry, &off), 0);
        assert_string_equal(field_names(&op, entry), rows[i].names);
    }
    op_fini(&op);
}

static void timestamps_are_patched(void **state)
{
    struct op op;
    struct oplog_op src = {.op = 'i', .ns = "db.c", .uuid = uuid, .txn_number = 9, .stmt_id = 3};
    struct oplog_row row;
    struct bv entry, prev;
    uint32_t off;

    (void)state;
    op_init(&op);
    src.o = doc_i32(&op, "_id", 1);
    src.lsid = doc_i32(&op, "id", 1);
    assert_int_equal(oplog_encode(&op, &src, 4, -5, &entry, &off), 0);
    prev = bv_get(entry, "prevOpTime");
    assert_string_equal(field_names(&op, prev), "ts t");
    assert_true(bv_ts(bv_get(prev, "ts")) == 0);
    assert_true(bv_i64(bv_get(prev, "t")) == -1);

    oplog_patch((uint8_t *)entry.p, entry.len, off, 0x1234567800000009, 0x1234567800000008, 4);
    assert_true(oplog_parse(entry, &row));
    assert_true(row.optime == 0x1234567800000009);
    assert_true(row.prev_optime == 0x1234567800000008);
    assert_true(bv_i64(bv_get(bv_get(entry, "prevOpTime"), "t")) == 4);
    assert_int_equal(row.op, 'i');
    assert_string_equal(row.ns, "db.c");
    assert_int_equal(row.ns_len, 4);
    assert_true(row.term == 4 && row.wall_ms == -5 && row.txn_number == 9);
    assert_true(bv_identical(row.o, src.o));
    assert_true(bv_identical(row.lsid, src.lsid));
    assert_int_equal(row.ui.type, BV_BINARY);
    assert_int_equal(row.o2.type, BV_MISSING);
    assert_int_equal(bv_get(entry, "stmtId").type, BV_INT32);
    assert_int_equal(bv_get(entry, "v").type, BV_INT64);
    assert_false(row.from_migrate);
    op_fini(&op);
}

static void damage_is_refused(void **state)
{
    struct op op;
    struct oplog_op src = {.op = 'n', .ns = "", .o = bv_empty_doc, .stmt_id = -1};
    struct oplog_row row;
    struct bv entry, shorter;
    uint32_t off;

    (void)state;
    op_init(&op);
    assert_false(oplog_parse(BV_NONE, &row));
    assert_false(oplog_parse(bv_empty_doc, &row));
    assert_false(oplog_parse(doc_i32(&op, "op", 1), &row));
    assert_int_equal(oplog_encode(&op, &src, 1, 0, &entry, &off), 0);
    assert_true(oplog_parse(entry, &row));
    shorter = entry;
    shorter.len--;
    assert_false(oplog_parse(shorter, &row));
    op_fini(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(insert_is_byte_exact),
        cmocka_unit_test(fields_come_in_mongodb_order),
        cmocka_unit_test(timestamps_are_patched),
        cmocka_unit_test(damage_is_refused),
    };

    return cmocka_run_group_tests_name("oplog_entry", tests, NULL, NULL);
}
