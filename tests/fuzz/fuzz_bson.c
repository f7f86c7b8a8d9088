/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * bv_check() over raw bytes. What it accepts can be read to its end, written again as the same
 * bytes, shown, hashed, and compared with itself.
 */
#include <stdio.h>

#include "base/limits.h"
#include "tests/fuzz/notation.h"

static void copy_fields(struct bw *w, struct bv v);

static void copy_element(struct bw *w, const struct belem *e)
{
    if (e->v.type == BV_DOC)
        bw_doc_beginn(w, e->key, e->key_len);
    else if (e->v.type == BV_ARRAY)
        bw_arr_beginn(w, e->key, e->key_len);
    else
        bw_bvn(w, e->key, e->key_len, e->v);
    if (bv_is_container(e->v)) {
        copy_fields(w, e->v);
        bw_end(w);
    }
}

/* Arrays whose keys are no indexes are written with indexes: only those of writers of BSON that
 * bend the rules. They are told apart by the caller. */
static void copy_fields(struct bw *w, struct bv v)
{
    struct biter it = biter(v);
    struct belem e;

    while (biter_next(&it, &e))
        copy_element(w, &e);
}

static bool plain_arrays(struct bv v)
{
    struct biter it = biter(v);
    struct belem e;
    char want[16];

    for (unsigned i = 0; biter_next(&it, &e); i++) {
        snprintf(want, sizeof(want), "%u", i);
        if (v.type == BV_ARRAY && strcmp(want, e.key) != 0)
            return false;
        if (!plain_arrays(e.v))
            return false;
    }
    return true;
}

static void check_accepted(struct arena *a, struct bv doc)
{
    struct bw w;

    bw_init(&w, a);
    copy_fields(&w, doc);
    ASSERT(!plain_arrays(doc) || bv_identical(bw_done(&w), doc));
    ASSERT(bv_cmp(doc, doc) == 0 && bv_cmp_docs(doc, doc) == 0);
    ASSERT(bv_hash(doc) == bv_hash(bv_dup(a, doc)));
    ASSERT(strlen(bv_show(a, doc, 100)) <= 104);
    (void)bv_show(a, doc, 100000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    struct arena a;
    int rc = bv_check(data, size, LIMIT_DEPTH_STORED, &err);

    arena_init(&a);
    if (rc == 0)
        check_accepted(&a, bv_doc(data));
    else
        ASSERT(rc == err.code && err.text[0] != '\0');
    arena_fini(&a);
    return 0;
}
