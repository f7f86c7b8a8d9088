/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An index specification and documents: {spec} {doc}... Completing a completed specification
 * changes nothing. The keys of a document come out sorted and unique, and each is told back as a
 * document that gives the same key again.
 */
#include "query/ddl.h"
#include "storage/key_string.h"
#include "storage/record.h"
#include "tests/fuzz/notation.h"

/* What catalog rows become in memory. */
static void index_from_spec(struct bv spec, struct index *ret)
{
    struct biter it;
    struct belem e;

    *ret = (struct index){.name = bv_str(bv_get(spec, "name"), NULL),
                          .spec = spec,
                          .key = bv_get(spec, "key"),
                          .unique = bv_truthy(bv_get(spec, "unique")),
                          .sparse = bv_truthy(bv_get(spec, "sparse"))};
    it = biter(ret->key);
    while (biter_next(&it, &e))
        ret->fields[ret->nfields++] =
            (struct index_field){e.key, bv_is_number(e.v) && bv_to_f64(e.v) < 0};
}

static int key_cmp(struct bytes a, struct bytes b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n == 0 ? 0 : memcmp(a.p, b.p, n);

    return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

/* The document that the key is told as, encoded again. */
static void check_key(struct op *op, const struct index *ix, struct bytes key, struct bytes bits)
{
    struct bv told = index_key_value(op, ix, key, bits);
    struct biter it = biter(told);
    struct ks_builder k;
    struct belem e;

    check_sound(told);
    ks_init(&k, &op->arena);
    for (uint32_t i = 0; biter_next(&it, &e); i++)
        ks_append(&k, e.v, ix->fields[i].descending);
    ks_append_end(&k);
    ASSERT(key_cmp((struct bytes){k.buf, k.len}, key) == 0);
}

static void check_doc(struct op *op, const struct index *ix, struct bv doc)
{
    struct key_set keys = {0};
    int rc = index_keys(op, ix, doc, &keys);

    if (rc != 0) {
        check_failure(op, rc);
        return;
    }
    for (size_t i = 0; i < keys.n; i++) {
        if (i > 0)
            ASSERT(key_cmp(keys.keys[i - 1], keys.keys[i]) < 0);
        check_key(op, ix, keys.keys[i], keys.type_bits[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bv spec, whole = BV_NONE, again = BV_NONE, v;
    struct index ix;
    struct input in;
    int rc;

    input_open(&in, data, size);
    spec = input_next(&in);
    rc = index_spec_complete(&in.op, "test.c", spec, false, &whole);
    if (rc != 0) {
        check_failure(&in.op, rc);
    } else {
        ASSERT(index_spec_complete(&in.op, "test.c", whole, false, &again) == 0);
        ASSERT(bv_identical(whole, again));
        index_from_spec(whole, &ix);
        while (!bv_is_missing(v = input_next(&in))) {
            if (v.type == BV_DOC)
                check_doc(&in.op, &ix, v);
        }
    }
    input_close(&in);
    return 0;
}
