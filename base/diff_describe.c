/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Diffs told as an updateDescription.
 *
 * The four parts are written one after the other, each by a walk of its own over the diff, so
 * nothing is collected. Within a document's diff the order is: updates, inserts, deletes, nested
 * diffs; within an array's: the new length, then the indexes.
 */
#include "base/diff.h"

#include <stdio.h>

#include "base/limits.h"

enum part { PART_UPDATED, PART_REMOVED, PART_TRUNCATED, PART_AMBIGUOUS };

struct component {
    uint32_t at;   /* where it starts in the path */
    int64_t index; /* of an array element; -1: a field name */
};

struct describe {
    struct op *op;
    struct bw *w;
    enum part part;
    char *path; /* components joined by dots: in `near`, in the arena when it grows */
    uint32_t len, cap;
    uint32_t depth;
    struct component components[LIMIT_DEPTH_MESSAGE + 2];
    char near[256];
};

static int malformed(struct op *op, const char *what)
{
    return op_fail(op, ERR_BAD_VALUE, "malformed update diff: %s", what);
}

static int push(struct describe *x, const char *name, uint32_t name_len, int64_t index)
{
    uint32_t need = x->len + name_len + 2;

    if (x->depth == LIMIT_DEPTH_MESSAGE + 2)
        return malformed(x->op, "too deep");
    if (need > x->cap) {
        uint32_t cap = need * 2;
        char *p = arena_regrow(&x->op->arena, x->path, x->cap, cap);

        if (p == NULL)
            return op_fail(x->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for an update's paths");
        x->path = p;
        x->cap = cap;
    }
    if (x->depth > 0)
        x->path[x->len++] = '.';
    x->components[x->depth++] = (struct component){x->len, index};
    memcpy(x->path + x->len, name, name_len);
    x->len += name_len;
    x->path[x->len] = '\0';
    return 0;
}

static void pop(struct describe *x)
{
    x->len = x->components[--x->depth].at;
    if (x->depth > 0)
        x->len--;
}

static uint32_t component_len(const struct describe *x, uint32_t i)
{
    uint32_t end = i + 1 < x->depth ? x->components[i + 1].at - 1 : x->len;

    return end - x->components[i].at;
}

/* "0", "12"; not "01". */
static bool is_numeric(const char *s, uint32_t n)
{
    if (n == 0 || (n > 1 && s[0] == '0'))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
    }
    return true;
}

/* A path that could be read in two ways: a name with a dot in it, or one that looks like an
 * index. */
static bool is_ambiguous(const struct describe *x)
{
    for (uint32_t i = 0; i < x->depth; i++) {
        const char *name = x->path + x->components[i].at;
        uint32_t n = component_len(x, i);

        if (x->components[i].index >= 0)
            continue;
        if (memchr(name, '.', n) != NULL || (i > 0 && is_numeric(name, n)))
            return true;
    }
    return false;
}

static void write_components(struct describe *x)
{
    if (!is_ambiguous(x))
        return;
    bw_arr_beginn(x->w, x->path, x->len);
    for (uint32_t i = 0; i < x->depth; i++) {
        const struct component *c = &x->components[i];

        if (c->index >= 0)
            bw_i32(x->w, NULL, (int32_t)c->index);
        else
            bw_strn(x->w, NULL, x->path + c->at, component_len(x, i));
    }
    bw_end(x->w);
}

/* Reports the path at which the walk stands, if it concerns the part being written. */
static void report(struct describe *x, enum part what, struct bv v)
{
    if (x->part == PART_AMBIGUOUS) {
        write_components(x);
        return;
    }
    if (x->part != what)
        return;
    if (what == PART_UPDATED) {
        bw_bvn(x->w, x->path, x->len, v);
    } else if (what == PART_REMOVED) {
        bw_strn(x->w, NULL, x->path, x->len);
    } else {
        bw_doc_begin(x->w, NULL);
        bw_strn(x->w, "field", x->path, x->len);
        bw_bv(x->w, "newSize", v);
        bw_end(x->w);
    }
}

static int report_section(struct describe *x, enum part what, struct bv section)
{
    struct biter it = biter(section);
    struct belem e;

    while (!x->w->failed && biter_next(&it, &e)) {
        TRY_RETURN(push(x, e.key, e.key_len, -1));
        report(x, what, e.v);
        pop(x);
    }
    return 0;
}

static int walk(struct describe *x, struct bv diff);

static int walk_doc(struct describe *x, struct bv diff)
{
    struct biter it = biter(diff);
    struct belem e;

    if (x->part == PART_UPDATED || x->part == PART_AMBIGUOUS) {
        TRY_RETURN(report_section(x, PART_UPDATED, bv_get(diff, "u")));
        TRY_RETURN(report_section(x, PART_UPDATED, bv_get(diff, "i")));
        TRY_RETURN(report_section(x, PART_UPDATED, bv_get(diff, "b")));
    }
    if (x->part == PART_REMOVED || x->part == PART_AMBIGUOUS)
        TRY_RETURN(report_section(x, PART_REMOVED, bv_get(diff, "d")));
    while (!x->w->failed && biter_next(&it, &e)) {
        if (e.key[0] != 's')
            continue;
        TRY_RETURN(push(x, e.key + 1, e.key_len - 1, -1));
        TRY_RETURN(walk(x, e.v));
        pop(x);
    }
    return 0;
}

/* The number behind the first letter of "u12"; -1 when there is none. */
static int64_t entry_index(const struct belem *e)
{
    int64_t n = 0;

    if ((e->key[0] != 'u' && e->key[0] != 's') || e->key_len > 11 || e->key_len < 2)
        return -1;
    for (uint32_t i = 1; i < e->key_len; i++) {
        if (e->key[i] < '0' || e->key[i] > '9')
            return -1;
        n = n * 10 + (e->key[i] - '0');
    }
    return n > INT32_MAX ? -1 : n;
}

static int walk_array(struct describe *x, struct bv diff)
{
    struct biter it = biter(diff);
    struct belem e;

    (void)biter_next(&it, &e); /* a: true */
    while (!x->w->failed && biter_next(&it, &e)) {
        int64_t index = entry_index(&e);

        if (index < 0) {
            if (strcmp(e.key, "l") != 0 || e.v.type != BV_INT32)
                return malformed(x->op, "unknown field of an array diff");
            report(x, PART_TRUNCATED, e.v);
            continue;
        }
        TRY_RETURN(push(x, e.key + 1, e.key_len - 1, index));
        if (e.key[0] == 'u')
            report(x, PART_UPDATED, e.v);
        else
            TRY_RETURN(walk(x, e.v));
        pop(x);
    }
    return 0;
}

static int walk(struct describe *x, struct bv diff)
{
    struct belem first;

    if (diff.type != BV_DOC)
        return malformed(x->op, "nested diff is no document");
    if (!bv_is_missing(bv_first(diff, &first)) && strcmp(first.key, "a") == 0)
        return walk_array(x, diff);
    return walk_doc(x, diff);
}

int diff_describe(struct op *op, struct bv diff, bool disambiguate, struct bw *w)
{
    static const char *const names[] = {"updatedFields", "removedFields", "truncatedArrays",
                                        "disambiguatedPaths"};
    struct describe x;

    x.op = op;
    x.w = w;
    x.path = x.near;
    x.cap = sizeof(x.near);
    x.len = x.depth = 0;
    if (diff.type != BV_DOC)
        return malformed(op, "not a document");
    for (x.part = PART_UPDATED; x.part <= (disambiguate ? PART_AMBIGUOUS : PART_TRUNCATED);
         x.part++) {
        if (x.part == PART_UPDATED || x.part == PART_AMBIGUOUS)
            bw_doc_begin(w, names[x.part]);
        else
            bw_arr_begin(w, names[x.part]);
        TRY_RETURN(walk_doc(&x, diff));
        bw_end(w);
    }
    return 0;
}
