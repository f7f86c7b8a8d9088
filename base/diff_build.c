/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Diffs under construction, and the diff of two documents.
 *
 * A node keeps its BSON size up to date, so that the size rule (a sub-diff that is not smaller
 * than the new value is dropped for the value) costs nothing and an attempt that has grown past
 * the limit is given up early. Nothing is written before the whole tree is known: a value is
 * copied once, however deep it sits.
 *
 * Recursion follows the nesting of documents, which bv_check() has bounded.
 */
#include "base/diff.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"

struct diff_entry {
    struct diff_entry *next;
    const char *name; /* documents */
    uint32_t name_len;
    uint32_t index; /* arrays */
    uint32_t rank;
    struct bv v;           /* of updates and inserts */
    struct diff_node *sub; /* of nested diffs */
};

enum section { SECTION_DELETE, SECTION_UPDATE, SECTION_INSERT, SECTION_SUB, SECTIONS };

static const char *const section_names[] = {"d", "u", "i"};

struct diff_list {
    struct diff_entry *head, *last;
    uint32_t n;
    bool mixed; /* not by rank */
};

struct diff_node {
    struct arena *arena;
    struct diff_list lists[SECTIONS]; /* arrays keep all entries in SECTION_SUB */
    uint64_t bytes;
    int64_t new_len; /* arrays: -1 when not truncated */
    uint32_t rank;   /* of the next entry */
    bool array;
};

#define EMPTY_DOC_BYTES 5
#define SECTION_BYTES   (1 + 2 + EMPTY_DOC_BYTES) /* type, "d" with its NUL, the document */
#define FLAG_BYTES      (1 + 2 + 1)               /* a: true */
#define RESIZE_BYTES    (1 + 2 + 4)               /* l: int32 */
#define ROOT_PADDING    15                        /* MongoDB's allowance for {$v: 2, diff: } */

struct diff_node *diff_node_new(struct arena *a, bool array)
{
    struct diff_node *n = ARENA_NEW(a, struct diff_node);

    n->arena = a;
    n->array = array;
    n->new_len = -1;
    n->bytes = EMPTY_DOC_BYTES + (array ? FLAG_BYTES : 0);
    return n;
}

static struct diff_entry *add(struct diff_node *n, enum section s, const char *name,
                              uint32_t name_len)
{
    struct diff_entry *e = ARENA_NEW(n->arena, struct diff_entry);
    struct diff_list *l = &n->lists[s];

    e->name = name;
    e->name_len = name_len;
    e->rank = n->rank;
    if (l->head == NULL) {
        l->head = e;
        if (s != SECTION_SUB)
            n->bytes += SECTION_BYTES;
    } else {
        l->mixed |= l->last->rank > e->rank;
        l->last->next = e;
    }
    l->last = e;
    l->n++;
    n->bytes += (uint64_t)name_len + 2;
    return e;
}

void diff_delete(struct diff_node *n, const char *name, uint32_t name_len)
{
    add(n, SECTION_DELETE, name, name_len)->v = bv_false;
    n->bytes += bv_false.len;
}

void diff_update(struct diff_node *n, const char *name, uint32_t name_len, struct bv v)
{
    add(n, SECTION_UPDATE, name, name_len)->v = v;
    n->bytes += v.len;
}

void diff_insert(struct diff_node *n, const char *name, uint32_t name_len, struct bv v)
{
    add(n, SECTION_INSERT, name, name_len)->v = v;
    n->bytes += v.len;
}

void diff_sub(struct diff_node *n, const char *name, uint32_t name_len, struct diff_node *sub)
{
    add(n, SECTION_SUB, name, name_len)->sub = sub;
    n->bytes += 1 + sub->bytes;
}

void diff_rank(struct diff_node *n, uint32_t rank)
{
    n->rank = rank;
}

static struct diff_entry *merge(struct diff_entry *a, struct diff_entry *b)
{
    struct diff_entry *head = NULL, **tail = &head;

    while (a != NULL && b != NULL) {
        struct diff_entry **from = b->rank < a->rank ? &b : &a;

        *tail = *from;
        tail = &(*from)->next;
        *from = *tail;
    }
    *tail = a != NULL ? a : b;
    return head;
}

/* The first n entries of a list by rank, cut off from the others. */
static struct diff_entry *sort(struct diff_entry *e, uint32_t n)
{
    struct diff_entry *rest = e;

    if (n == 1) {
        e->next = NULL;
        return e;
    }
    for (uint32_t i = 0; i < n / 2; i++)
        rest = rest->next;
    rest = sort(rest, n - n / 2);
    return merge(sort(e, n / 2), rest);
}

static void sort_list(struct diff_list *l)
{
    l->head = sort(l->head, l->n);
    l->mixed = false;
    for (struct diff_entry *e = l->head; e != NULL; e = e->next)
        l->last = e;
}

void diff_arrange(struct diff_node *n)
{
    for (int s = 0; s < SECTIONS; s++) {
        if (n->lists[s].mixed)
            sort_list(&n->lists[s]);
    }
}

static uint32_t digits(uint32_t x)
{
    uint32_t n = 1;

    while (x >= 10) {
        x /= 10;
        n++;
    }
    return n;
}

static struct diff_entry *add_at(struct diff_node *n, uint32_t index)
{
    struct diff_entry *e = add(n, SECTION_SUB, NULL, 1 + digits(index));

    e->index = index;
    return e;
}

void diff_resize(struct diff_node *n, uint32_t new_len)
{
    n->new_len = new_len;
    n->bytes += RESIZE_BYTES;
}

void diff_update_at(struct diff_node *n, uint32_t index, struct bv v)
{
    add_at(n, index)->v = v;
    n->bytes += v.len;
}

void diff_sub_at(struct diff_node *n, uint32_t index, struct diff_node *sub)
{
    add_at(n, index)->sub = sub;
    n->bytes += sub->bytes;
}

bool diff_node_empty(const struct diff_node *n)
{
    for (int s = 0; s < SECTIONS; s++) {
        if (n->lists[s].head != NULL)
            return false;
    }
    return n->new_len < 0;
}

uint64_t diff_node_bytes(const struct diff_node *n)
{
    return n->bytes;
}

/* --- writing -------------------------------------------------------------------------------- */

static void write_array_entries(const struct diff_node *n, struct bw *w)
{
    char key[16];

    bw_bool(w, "a", true);
    if (n->new_len >= 0)
        bw_i32(w, "l", (int32_t)n->new_len);
    for (const struct diff_entry *e = n->lists[SECTION_SUB].head; e != NULL; e = e->next) {
        snprintf(key, sizeof(key), "%c%u", e->sub != NULL ? 's' : 'u', e->index);
        if (e->sub != NULL)
            diff_write(e->sub, w, key);
        else
            bw_bv(w, key, e->v);
    }
}

static void write_subs(const struct diff_node *n, struct bw *w)
{
    for (const struct diff_entry *e = n->lists[SECTION_SUB].head; e != NULL; e = e->next) {
        char *key = arena_try(n->arena, (size_t)e->name_len + 2);

        if (key == NULL) {
            w->failed = true;
            return;
        }
        key[0] = 's';
        memcpy(key + 1, e->name, e->name_len);
        key[e->name_len + 1] = '\0';
        diff_write(e->sub, w, key);
    }
}

void diff_write(const struct diff_node *n, struct bw *w, const char *key)
{
    bw_doc_begin(w, key);
    if (n->array) {
        write_array_entries(n, w);
        bw_end(w);
        return;
    }
    for (int s = 0; s < SECTION_SUB; s++) {
        if (n->lists[s].head == NULL)
            continue;
        bw_doc_begin(w, section_names[s]);
        for (const struct diff_entry *e = n->lists[s].head; e != NULL; e = e->next)
            bw_bvn(w, e->name, e->name_len, e->v);
        bw_end(w);
    }
    write_subs(n, w);
    bw_end(w);
}

/* --- the diff of two documents -------------------------------------------------------------- */

static struct diff_node *compute(struct arena *a, struct bv pre, struct bv post, uint64_t limit);

/* The diff of two values of one type, or NULL when the new value is to be logged whole. */
static struct diff_node *compute_value(struct arena *a, struct bv pre, struct bv post)
{
    if (!bv_is_container(pre) || pre.type != post.type)
        return NULL;
    return compute(a, pre, post, post.len);
}

/* A cut alone never outweighs the array: docs/decisions/0004-truncated-arrays.md. */
static bool compute_array(struct diff_node *n, struct bv pre, struct bv post, uint64_t limit)
{
    struct biter ipre = biter(pre), ipost = biter(post);
    struct belem b, p;
    bool more_b = biter_next(&ipre, &b), more_p = biter_next(&ipost, &p), fits;
    uint32_t i = 0;

    for (; more_p; i++, more_p = biter_next(&ipost, &p)) {
        struct diff_node *sub = NULL;

        if (!more_b || !bv_identical(b.v, p.v)) {
            if (more_b)
                sub = compute_value(n->arena, b.v, p.v);
            if (sub != NULL)
                diff_sub_at(n, i, sub);
            else
                diff_update_at(n, i, p.v);
            if (n->bytes >= limit)
                return false;
        }
        more_b = more_b && biter_next(&ipre, &b);
    }
    fits = n->bytes < limit;
    if (more_b)
        diff_resize(n, i);
    return fits;
}

/* Fields of the old document that the walk passed over: deleted, unless they come up later. */
struct passed {
    struct passed *next;
    const char *name;
    uint32_t name_len;
    bool came_back;
};

struct passed_list {
    struct passed *head, **tail;
    size_t n;
};

static int cmp_names(const char *a, uint32_t an, const char *b, uint32_t bn)
{
    int c = memcmp(a, b, an < bn ? an : bn);

    return c != 0 ? c : (an > bn) - (an < bn);
}

static int cmp_passed(const void *a, const void *b)
{
    const struct passed *x = *(struct passed *const *)a, *y = *(struct passed *const *)b;

    return cmp_names(x->name, x->name_len, y->name, y->name_len);
}

static void pass_over(struct passed_list *l, struct arena *a, const struct belem *e)
{
    struct passed *p = ARENA_NEW(a, struct passed);

    p->name = e->key;
    p->name_len = e->key_len;
    *l->tail = p;
    l->tail = &p->next;
    l->n++;
}

/* What is left of the new document is inserted; a passed name among it was only moved. */
static bool insert_rest(struct diff_node *n, struct passed_list *l, struct biter *it,
                        struct belem *e, uint64_t limit)
{
    struct passed **sorted = NULL;
    size_t i = 0;

    if (l->n > 0) {
        sorted = arena_try(n->arena, l->n * sizeof(struct passed *));
        if (sorted == NULL)
            return false;
        for (struct passed *p = l->head; p != NULL; p = p->next)
            sorted[i++] = p;
        qsort(sorted, l->n, sizeof(*sorted), cmp_passed);
    }
    do {
        struct passed key = {.name = e->key, .name_len = e->key_len};
        struct passed *want = &key, **found = NULL;

        if (sorted != NULL)
            found = bsearch(&want, sorted, l->n, sizeof(*sorted), cmp_passed);
        if (found != NULL)
            (*found)->came_back = true;
        diff_insert(n, e->key, e->key_len, e->v);
        if (n->bytes >= limit)
            return false;
    } while (biter_next(it, e));
    return true;
}

static bool compute_doc(struct diff_node *n, struct bv pre, struct bv post, uint64_t limit)
{
    struct biter ipre = biter(pre), ipost = biter(post);
    struct passed_list passed = {.tail = &passed.head};
    struct belem b, p;
    bool more_b = biter_next(&ipre, &b), more_p = biter_next(&ipost, &p);

    while (more_b && more_p && n->bytes < limit) {
        if (b.key_len != p.key_len || memcmp(b.key, p.key, b.key_len) != 0) {
            pass_over(&passed, n->arena, &b);
            more_b = biter_next(&ipre, &b);
            continue;
        }
        if (!bv_identical(b.v, p.v)) {
            struct diff_node *sub = compute_value(n->arena, b.v, p.v);

            if (sub != NULL)
                diff_sub(n, p.key, p.key_len, sub);
            else
                diff_update(n, p.key, p.key_len, p.v);
        }
        more_b = biter_next(&ipre, &b);
        more_p = biter_next(&ipost, &p);
    }
    for (; more_b; more_b = biter_next(&ipre, &b))
        diff_delete(n, b.key, b.key_len);
    if (more_p && !insert_rest(n, &passed, &ipost, &p, limit))
        return false;
    for (struct passed *d = passed.head; d != NULL; d = d->next) {
        if (!d->came_back)
            diff_delete(n, d->name, d->name_len);
    }
    return n->bytes < limit;
}

/* NULL when the diff would take `limit` bytes or more. */
static struct diff_node *compute(struct arena *a, struct bv pre, struct bv post, uint64_t limit)
{
    struct diff_node *n = diff_node_new(a, post.type == BV_ARRAY);
    bool small;

    if (n->bytes >= limit)
        return NULL;
    small = n->array ? compute_array(n, pre, post, limit) : compute_doc(n, pre, post, limit);
    return small ? n : NULL;
}

/* Repeated field names are the one thing that a diff cannot always tell apart. */
static bool reproduces(struct op *op, struct bv pre, struct bv diff, struct bv post)
{
    struct arena tmp;
    struct bv got;
    bool same;

    arena_init(&tmp);
    same = diff_apply(op, &tmp, pre, diff, &got) == 0 && bv_identical(got, post);
    arena_fini(&tmp);
    return same;
}

int diff_compute(struct op *op, struct arena *a, struct bv pre, struct bv post, struct bv *ret)
{
    struct diff_node *n;
    struct bw w;
    struct bv envelope, diff;

    if (bv_identical(pre, post)) {
        *ret = bv_empty_doc;
        return 0;
    }
    n = post.len > ROOT_PADDING ? compute(a, pre, post, post.len - ROOT_PADDING) : NULL;
    if (n == NULL) {
        *ret = BV_NONE;
        return 0;
    }
    bw_init(&w, a);
    diff_write(n, &w, "");
    envelope = bw_done(&w);
    if (bv_is_missing(envelope))
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for an update's oplog entry");
    diff = bv_first(envelope, NULL);
    *ret = reproduces(op, pre, diff, post) ? diff : BV_NONE;
    return 0;
}
