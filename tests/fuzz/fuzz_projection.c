/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A projection, a sort pattern and documents: {projection} {sort} {doc}... The projection is tried
 * by the rules of each place where one may stand. Sort keys order the documents: antisymmetric,
 * transitive, and equal to themselves.
 */
#include "query/projection.h"
#include "query/sort_key.h"
#include "tests/fuzz/notation.h"

enum { DOCS_MAX = 8 };

static void project(struct input *in, struct bv spec, enum projection_use use,
                    const struct bv *docs, size_t n)
{
    struct projection *p = NULL;
    struct expr_vars vars = {0};
    struct arena scratch;
    struct eval ev;
    int rc = projection_parse(&in->op, &in->op.arena, spec, use, &vars, NULL, &p);

    if (rc != 0) {
        check_failure(&in->op, rc);
        return;
    }
    arena_init(&scratch);
    eval_init(&ev, &in->op, &scratch);
    for (size_t i = 0; i < n; i++) {
        struct bv out = BV_NONE;

        eval_set_row(&ev, docs[i]);
        rc = projection_apply(p, &ev, docs[i], &out);
        if (rc == 0)
            check_sound(out);
        else
            check_failure(&in->op, rc);
        arena_reset(&scratch);
    }
    arena_fini(&scratch);
}

static int sign(int x)
{
    return (x > 0) - (x < 0);
}

static void check_order(const struct sort_spec *spec, struct bv keys[][SORT_KEYS_MAX], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ASSERT(sort_keys_cmp(spec, keys[i], keys[i]) == 0);
        for (size_t j = 0; j < n; j++) {
            int ij = sign(sort_keys_cmp(spec, keys[i], keys[j]));

            ASSERT(ij == -sign(sort_keys_cmp(spec, keys[j], keys[i])));
            for (size_t k = 0; k < n; k++) {
                if (ij <= 0 && sort_keys_cmp(spec, keys[j], keys[k]) <= 0)
                    ASSERT(sort_keys_cmp(spec, keys[i], keys[k]) <= 0);
            }
        }
    }
}

static void sort(struct input *in, struct bv pattern, const struct bv *docs, size_t n)
{
    static struct bv keys[DOCS_MAX][SORT_KEYS_MAX];
    struct sort_spec spec = {0};
    int rc = sort_spec_parse(&in->op, &in->op.arena, pattern, &spec);
    size_t good = 0;

    if (rc != 0) {
        check_failure(&in->op, rc);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        rc = sort_keys(&spec, &in->op, docs[i], keys[good]);
        if (rc == 0)
            good++;
        else
            check_failure(&in->op, rc);
    }
    check_order(&spec, keys, good);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bv spec, pattern, docs[DOCS_MAX], v;
    struct input in;
    size_t n = 0;

    input_open(&in, data, size);
    spec = input_next(&in);
    pattern = input_doc(&in);
    while (n < DOCS_MAX && !bv_is_missing(v = input_next(&in))) {
        if (v.type == BV_DOC)
            docs[n++] = v;
    }
    if (spec.type == BV_DOC) {
        project(&in, spec, PROJECT_FIND, docs, n);
        project(&in, spec, PROJECT_STAGE, docs, n);
        project(&in, spec, PROJECT_ADD_FIELDS, docs, n);
    } else if (!bv_is_missing(spec)) {
        project(&in, spec, PROJECT_UNSET, docs, n);
    }
    sort(&in, pattern, docs, n);
    input_close(&in);
    return 0;
}
