/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Test documents from JSON text (libbson's extended JSON), with single quotes for double ones. */
#ifndef RUNNEL_TESTS_UNIT_JSON_H
#define RUNNEL_TESTS_UNIT_JSON_H

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion" /* libbson's header */
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <bson/bson.h>
#pragma GCC diagnostic pop

#include "base/bv.h"

/* A document (or array) in the arena; fails the test on bad JSON. Needs cmocka.h before it. */
static inline struct bv json(struct arena *a, const char *text)
{
    char *copy = arena_strdup(a, text);
    bson_error_t error;
    bson_t *b;
    struct bv v;

    for (char *p = copy; *p != '\0'; p++) {
        if (*p == '\'')
            *p = '"';
    }
    b = bson_new_from_json((const uint8_t *)copy, -1, &error);
    if (b == NULL)
        fail_msg("%s: %s", text, error.message);
    v = bv_dup(a, bv_doc(bson_get_data(b)));
    bson_destroy(b);
    if (text[0] == '[')
        v.type = BV_ARRAY;
    return v;
}

#endif
