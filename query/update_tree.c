/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From a list of paths to a tree of them; conflicts between paths. */
#include <stdlib.h>

#include "query/update_internal.h"

static bool is_number(const struct update_part *p)
{
    if (p->len > 1 && p->name[0] == '0')
        return false;
    for (uint32_t i = 0; i < p->len; i++) {
        if (p->name[i] < '0' || p->name[i] > '9')
            return false;
    }
    return true;
}

/* Numbers by value and before all else; the rest by bytes. Zero only for equal texts. */
int update_cmp_parts(const struct update_part *a, const struct update_part *b)
{
    bool na = is_number(a), nb = is_number(b);
    int c;

    if (na != nb)
        return na ? -1 : 1;
    if (na && a->len != b->len)
        return a->len < b->len ? -1 : 1;
    c = memcmp(a->name, b->name, a->len < b->len ? a->len : b->len);
    return c != 0 ? c : (a->len > b->len) - (a->len < b->len);
}

static uint32_t common_parts(const struct update_leaf *a, const struct update_leaf *b)
{
    uint32_t n = a->nparts < b->nparts ? a->nparts : b->nparts, i = 0;

    while (i < n && update_cmp_parts(&a->parts[i], &b->parts[i]) == 0)
        i++;
    return i;
}

static int cmp_leaves(const void *pa, const void *pb)
{
    const struct update_leaf *a = *(struct update_leaf *const *)pa;
    const struct update_leaf *b = *(struct update_leaf *const *)pb;
    uint32_t i = common_parts(a, b);

    if (i < a->nparts && i < b->nparts)
        return update_cmp_parts(&a->parts[i], &b->parts[i]);
    if (a->nparts != b->nparts)
        return a->nparts < b->nparts ? -1 : 1;
    return (a->seq > b->seq) - (a->seq < b->seq);
}

/* The sorted leaves, how many parts each shares with the one before it, and room for the nodes. */
struct builder {
    struct update_leaf **leaves;
    uint32_t *common;
    struct update_node *nodes, **children;
    size_t nnodes, nchildren;
};

/* The node of leaves[lo..hi), which agree in their first `depth` parts. */
static struct update_node *build(struct builder *b, size_t lo, size_t hi, uint32_t depth)
{
    struct update_node *n = &b->nodes[b->nnodes++];
    size_t from = lo;

    if (depth > 0)
        n->part = &b->leaves[lo]->parts[depth - 1];
    if (hi - lo == 1 && b->leaves[lo]->nparts == depth) {
        n->leaf = b->leaves[lo];
        return n;
    }
    for (size_t i = lo; i < hi; i++)
        n->nchildren += i == lo || b->common[i] == depth;
    n->children = b->children + b->nchildren;
    b->nchildren += n->nchildren;
    n->nchildren = 0;
    for (size_t i = lo + 1; i <= hi; i++) {
        if (i < hi && b->common[i] > depth)
            continue;
        n->children[n->nchildren++] = build(b, from, i, depth + 1);
        from = i;
    }
    return n;
}

static uint32_t later_seq(const struct update_leaf *a, const struct update_leaf *b)
{
    return a->seq > b->seq ? a->seq : b->seq;
}

/*
 * A path that is the beginning of others stands right before them. Of several conflicts the one
 * that the document shows first is told.
 */
static bool find_conflict(const struct builder *b, size_t n, const struct update_leaf **ret_later,
                          const struct update_leaf **ret_prefix)
{
    const struct update_leaf *first = NULL, *second = NULL;

    for (size_t i = 1; i < n; i++) {
        const struct update_leaf *x = b->leaves[i - 1], *y = b->leaves[i];

        if (b->common[i] < x->nparts)
            continue;
        if (first == NULL || later_seq(x, y) < later_seq(first, second)) {
            first = x;
            second = y;
        }
    }
    if (first == NULL)
        return false;
    *ret_later = first->seq > second->seq ? first : second;
    *ret_prefix = first;
    return true;
}

int update_build_tree(struct update_parser *p, struct update_node **ret,
                      const struct update_leaf **ret_later, const struct update_leaf **ret_prefix)
{
    struct builder b = {.leaves = p->leaves};
    size_t n = p->nleaves, nodes = 1;

    *ret = NULL;
    if (n == 0) {
        *ret = ARENA_NEW(p->a, struct update_node);
        return 0;
    }
    qsort(p->leaves, n, sizeof(struct update_leaf *), cmp_leaves);
    b.common = arena_try(p->a, n * sizeof(*b.common));
    if (b.common == NULL)
        return op_fail(p->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for an update's paths");
    for (size_t i = 0; i < n; i++) {
        b.common[i] = i == 0 ? 0 : common_parts(p->leaves[i - 1], p->leaves[i]);
        nodes += p->leaves[i]->nparts - b.common[i];
    }
    if (find_conflict(&b, n, ret_later, ret_prefix))
        return 0;
    b.nodes = arena_try(p->a, nodes * sizeof(*b.nodes));
    b.children = arena_try(p->a, nodes * sizeof(struct update_node *));
    if (b.nodes == NULL || b.children == NULL)
        return op_fail(p->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for an update's paths");
    memset(b.nodes, 0, nodes * sizeof(*b.nodes));
    *ret = build(&b, 0, n, 0);
    return 0;
}
