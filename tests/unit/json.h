/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Documents for tests, written as extended JSON with single quotes: json(&arena, "{'a': 1}"). */
#ifndef RUNNEL_TESTS_UNIT_JSON_H
#define RUNNEL_TESTS_UNIT_JSON_H

#include <stdio.h>
#include <stdlib.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion" /* the library's header */
#include <bson/bson.h>
#pragma GCC diagnostic pop

#include "base/bw.h"

static inline struct bv json(struct arena *a, const char *text)
{
    char *s = arena_strdup(a, text);
    bson_error_t err;
    struct bv doc;
    bson_t *b;

    for (char *p = s; *p != '\0'; p++)
        *p = *p == '\'' ? '"' : *p;
    b = bson_new_from_json((const uint8_t *)s, -1, &err);
    if (b == NULL) {
        fprintf(stderr, "%s: %s\n", text, err.message);
        abort();
    }
    doc = bv_dup(a, bv_doc(bson_get_data(b)));
    bson_destroy(b);
    return doc;
}

#endif
