/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Diffs applied to a document.
 *
 * Diffs come from the oplog, so their bytes are sound BSON; what they say is still checked, since
 * a diff may be older than this program. One pass over the document and one over the diff per
 * level; names are looked up in a sorted table, so many changes of a wide document stay cheap.
 */
#include "base/diff.h"

#include <stdlib.h>

#include "base/limits.h"

struct apply {
    struct op *op;
    struct arena *arena; /* for the tables */
    struct bw *w;
    unsigned depth;
};

enum change_kind { CHANGE_DELETE, CHANGE_UPDATE, CHANGE_INSERT, CHANGE_SUB };

struct change {
    const char *name;
    uint32_t name_len;
    enum change_kind kind;
    bool used;
    struct bv v;
};

static int malformed(struct op *op, const char *what)
{
    return op_fail(op, ERR_BAD_VALUE, "malformed update diff: %s", what);
}

static int cmp_change(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    int c = memcmp(x->name, y->name, x->name_len < y->name_len ? x->name_len : y->name_len);

    return c != 0 ? c : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

static struct change *find_change(struct change *c, size_t n, const struct belem *e)
{
    struct change key = {.name = e->key, .name_len = e->key_len};

    return n == 0 ? NULL : bsearch(&key, c, n, sizeof(*c), cmp_change);
}

/* The section a key names; false when it names none of a document diff's. */
static bool section_kind(const struct belem *e, enum change_kind *ret)
{
    if (e->v.type != BV_DOC)
        return false;
    if (e->key[0] == 's') {
        *ret = CHANGE_SUB;
        return true;
    }
    if (e->key_len != 1)
        return false;
    switch (e->key[0]) {
    case 'd':
        *ret = CHANGE_DELETE;
        return true;
    case 'u':
        *ret = CHANGE_UPDATE;
        return true;
    case 'i':
        *ret = CHANGE_INSERT;
        return true;
    default:
        return false;
    }
}

/* All changes of one document diff, sorted by name. */
static int collect(struct apply *x, struct bv diff, struct change **ret, size_t *ret_n)
{
    struct biter it = biter(diff), fields;
    struct belem e, f;
    enum change_kind kind;
    struct change *c;
    size_t n = 0;

    while (biter_next(&it, &e))
        n += e.key[0] == 's' ? 1 : bv_count(e.v);
    c = arena_try(x->arena, (n + 1) * sizeof(*c));
    if (c == NULL)
        return op_fail(x->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory to apply an update diff");
    n = 0;
    it = biter(diff);
    while (biter_next(&it, &e)) {
        if (!section_kind(&e, &kind))
            return malformed(x->op, "unknown section");
        if (kind == CHANGE_SUB) {
            c[n++] = (struct change){e.key + 1, e.key_len - 1, kind, false, e.v};
            continue;
        }
        fields = biter(e.v);
        while (biter_next(&fields, &f))
            c[n++] = (struct change){f.key, f.key_len, kind, false, f.v};
    }
    qsort(c, n, sizeof(*c), cmp_change);
    *ret = c;
    *ret_n = n;
    return 0;
}

static int apply_container(struct apply *x, struct bv pre, struct bv diff);

/* Writes the changed value of a field or element (key NULL) of the open document or array. */
static int apply_sub(struct apply *x, const char *key, uint32_t key_len, struct bv pre,
                     struct bv diff)
{
    struct belem first;
    bool array = bv_first(diff, &first).type != BV_MISSING && strcmp(first.key, "a") == 0;

    if (pre.type != (array ? BV_ARRAY : BV_DOC))
        return malformed(x->op, "nested diff of a value of another type");
    if (++x->depth > LIMIT_DEPTH_MESSAGE)
        return malformed(x->op, "too deep");
    if (array)
        bw_arr_beginn(x->w, key, key_len);
    else
        bw_doc_beginn(x->w, key, key_len);
    TRY_RETURN(apply_container(x, pre, diff));
    bw_end(x->w);
    x->depth--;
    return 0;
}

/* Fields that were not there to be overwritten, and inserted ones, go to the end in the order of
 * the diff. */
static void append_fields(struct apply *x, struct bv section, struct change *c, size_t n)
{
    struct biter it = biter(section);
    struct belem e;

    while (biter_next(&it, &e)) {
        struct change *found = find_change(c, n, &e);

        if (found->kind == CHANGE_INSERT || !found->used)
            bw_elem(x->w, &e);
    }
}

static int apply_doc(struct apply *x, struct bv pre, struct bv diff)
{
    struct biter it = biter(pre);
    struct belem e;
    struct change *changes = NULL, *c;
    size_t n = 0;

    TRY_RETURN(collect(x, diff, &changes, &n));
    while (biter_next(&it, &e)) {
        c = find_change(changes, n, &e);
        if (c == NULL || c->used) {
            bw_elem(x->w, &e);
            continue;
        }
        c->used = true;
        if (c->kind == CHANGE_UPDATE)
            bw_bvn(x->w, e.key, e.key_len, c->v);
        else if (c->kind == CHANGE_SUB)
            TRY_RETURN(apply_sub(x, e.key, e.key_len, e.v, c->v));
    }
    append_fields(x, bv_get(diff, "u"), changes, n);
    append_fields(x, bv_get(diff, "i"), changes, n);
    return 0;
}

/* "u12" or "s12": false when it is neither. */
static bool parse_index(const struct belem *e, bool *ret_sub, uint32_t *ret)
{
    uint64_t x = 0;

    if (e->key_len < 2 || e->key_len > 11 || (e->key[0] != 'u' && e->key[0] != 's'))
        return false;
    for (uint32_t i = 1; i < e->key_len; i++) {
        if (e->key[i] < '0' || e->key[i] > '9')
            return false;
        x = x * 10 + (uint64_t)(e->key[i] - '0');
    }
    if (x > INT32_MAX)
        return false;
    *ret_sub = e->key[0] == 's';
    *ret = (uint32_t)x;
    return true;
}

/* A walk along an array: what is left of it, and the index that is written next. */
struct array_walk {
    struct biter it;
    uint64_t next, end; /* elements at `end` and beyond are truncated */
};

/* Copies old elements until the next one to be written is `index`; false when they run out. */
static bool copy_until(struct apply *x, struct array_walk *aw, uint64_t index)
{
    struct belem e;

    while (aw->next < index && aw->next < aw->end && biter_next(&aw->it, &e)) {
        bw_bv(x->w, NULL, e.v);
        aw->next++;
    }
    return aw->next == index;
}

static int pad_until(struct apply *x, struct array_walk *aw, uint64_t index)
{
    if (index - aw->next > LIMIT_ARRAY_BACKFILL)
        return malformed(x->op, "index far beyond the end of the array");
    for (; aw->next < index; aw->next++)
        bw_null(x->w, NULL);
    return 0;
}

static int apply_array_entry(struct apply *x, struct array_walk *aw, const struct belem *e)
{
    struct belem old = {.v = BV_NONE};
    bool sub, there;
    uint32_t index;

    if (!parse_index(e, &sub, &index))
        return malformed(x->op, "unknown field of an array diff");
    if (index < aw->next)
        return malformed(x->op, "array indexes are not ascending");
    if (!copy_until(x, aw, index))
        TRY_RETURN(pad_until(x, aw, index));
    there = aw->next < aw->end && biter_next(&aw->it, &old);
    aw->next++;
    if (!sub) {
        bw_bv(x->w, NULL, e->v);
        return 0;
    }
    if (!there || e->v.type != BV_DOC)
        return malformed(x->op, "nested diff of an element that is not there");
    return apply_sub(x, NULL, 0, old.v, e->v);
}

static int apply_array(struct apply *x, struct bv pre, struct bv diff)
{
    struct array_walk aw = {.it = biter(pre), .end = UINT64_MAX};
    struct biter it = biter(diff);
    struct belem e;

    if (!biter_next(&it, &e) || e.v.type != BV_BOOL || !bv_bool(e.v))
        return malformed(x->op, "the array marker is not true");
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "l") != 0) {
            TRY_RETURN(apply_array_entry(x, &aw, &e));
            continue;
        }
        if (aw.next != 0 || aw.end != UINT64_MAX || e.v.type != BV_INT32 || bv_i32(e.v) < 0)
            return malformed(x->op, "wrong new length of an array");
        aw.end = (uint64_t)bv_i32(e.v);
    }
    copy_until(x, &aw, aw.end);
    return 0;
}

static int apply_container(struct apply *x, struct bv pre, struct bv diff)
{
    return pre.type == BV_ARRAY ? apply_array(x, pre, diff) : apply_doc(x, pre, diff);
}

int diff_apply(struct op *op, struct arena *a, struct bv pre, struct bv diff, struct bv *ret)
{
    struct bw w;
    struct apply x = {.op = op, .arena = a, .w = &w};
    struct bv post;

    if (pre.type != BV_DOC || diff.type != BV_DOC)
        return malformed(op, "not a document");
    bw_init(&w, a);
    TRY_RETURN(apply_doc(&x, pre, diff));
    post = bw_done(&w);
    if (bv_is_missing(post))
        return op_fail(op, ERR_BSON_TOO_LARGE, "a document after its update is too large");
    *ret = post;
    return 0;
}
