/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Values written as extended JSON, for table-driven tests. A % in a name stands for $, so that
 * {"a": {"%regex": "x"}} is an operator and not libbson's regular expression; {"$numberLong": "5"}
 * and its kin keep their meaning.
 */
#ifndef RUNNEL_TESTS_UNIT_JSON_VALUES_H
#define RUNNEL_TESTS_UNIT_JSON_VALUES_H

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion" /* libbson's inline functions */
#pragma GCC diagnostic ignored "-Wconversion"
#include <bson/bson.h>
#pragma GCC diagnostic pop
#include <stdio.h>
#include <stdlib.h>

#include "base/bw.h"

static inline void json_copy(struct bw *w, struct bv v)
{
    struct biter it = biter(v);
    struct belem e;

    while (biter_next(&it, &e)) {
        char key[256];

        snprintf(key, sizeof(key), "%s", e.key);
        for (char *s = strchr(key, '%'); s != NULL; s = strchr(s, '%'))
            *s = '$';
        if (e.v.type == BV_DOC)
            bw_doc_begin(w, key);
        else if (e.v.type == BV_ARRAY)
            bw_arr_begin(w, key);
        else
            bw_bv(w, key, e.v);
        if (bv_is_container(e.v)) {
            json_copy(w, e.v);
            bw_end(w);
        }
    }
}

static inline struct bv json_doc(struct arena *a, const char *text)
{
    bson_error_t err;
    bson_t *b = bson_new_from_json((const uint8_t *)text, -1, &err);
    struct bw w;

    if (b == NULL) {
        fprintf(stderr, "bad JSON: %s: %s\n", text, err.message);
        abort();
    }
    bw_init(&w, a);
    json_copy(&w, bv_doc(bson_get_data(b)));
    bson_destroy(b);
    return bw_done(&w);
}

/* Any value: json_value(a, "[1, 2]"). */
static inline struct bv json_value(struct arena *a, const char *text)
{
    return bv_get(json_doc(a, arena_printf(a, "{\"v\": %s}", text)), "v");
}

/* Relaxed extended JSON of a document, for failure texts and exact comparison. */
static inline char *json_text(struct arena *a, struct bv doc)
{
    bson_t b;
    char *s, *copy;

    if (!bson_init_static(&b, doc.p, doc.len))
        abort();
    s = bson_as_canonical_extended_json(&b, NULL);
    copy = arena_strdup(a, s);
    bson_free(s);
    return copy;
}

#endif
