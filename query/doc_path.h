/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Dotted paths, split once. A part that is a canonical decimal number ("0", "17", not "01") may
 * name a field as well as index an array.
 */
#ifndef RUNNEL_QUERY_DOC_PATH_H
#define RUNNEL_QUERY_DOC_PATH_H

#include "base/op.h"

struct path_part {
    const char *name; /* NUL-terminated */
    uint32_t len;
    int32_t index; /* -1: no array index */
};

struct doc_path {
    const char *text;
    uint32_t n; /* at least 1; "" is one empty part */
    struct path_part parts[];
};

/* No document is deep enough for a longer path. */
#define DOC_PATH_PARTS_MAX 255

/* NULL: more than DOC_PATH_PARTS_MAX parts. */
struct doc_path *doc_path_new(struct arena *a, const char *text);
/* The array index a name stands for, or -1. */
int32_t path_index(const char *name, size_t len);

#endif
