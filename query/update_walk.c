/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a walk over the tree of paths asks of it, and the path at which the walk stands. */
#include <stdio.h>
#include <stdlib.h>

#include "query/update_internal.h"

/* --- where the walk stands -------------------------------------------------------------------- */

void update_step_into(struct update_apply *x, const char *name, uint32_t len)
{
    ASSERT(x->depth <= LIMIT_DEPTH_MESSAGE);
    x->path[x->depth++] = (struct update_step){name, len, 0};
}

void update_step_at(struct update_apply *x, uint32_t index)
{
    ASSERT(x->depth <= LIMIT_DEPTH_MESSAGE);
    x->path[x->depth++] = (struct update_step){NULL, 0, index};
}

void update_step_back(struct update_apply *x)
{
    x->depth--;
}

static const char *step_text(const struct update_apply *x, uint32_t i)
{
    const struct update_step *s = &x->path[i];

    if (s->name == NULL)
        return arena_printf(x->a, "%u", s->index);
    return arena_strndup(x->a, s->name, s->len);
}

const char *update_path_text(const struct update_apply *x)
{
    char text[ERROR_TEXT_MAX]; /* longer ones would be cut anyway */
    size_t n = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < x->depth && n < sizeof(text); i++)
        n +=
            (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i > 0 ? "." : "", step_text(x, i));
    return arena_strdup(x->a, text);
}

const char *update_field_text(const struct update_apply *x)
{
    return x->depth == 0 ? "" : step_text(x, x->depth - 1);
}

const char *update_id_text(const struct update_apply *x)
{
    struct bv id = bv_get(x->doc, "_id");

    return bv_is_missing(id) ? "" : arena_printf(x->a, "_id: %s", bv_show(x->a, id, 200));
}

/* --- the tree --------------------------------------------------------------------------------- */

static bool leaf_creates(const struct update_apply *x, const struct update_leaf *l)
{
    switch (l->op->creates) {
    case CREATES:
        return true;
    case CREATES_ON_INSERT:
        return x->inserting;
    case CREATES_WITH_SOURCE: {
        const struct update_rename *r = l->parsed;

        return !bv_is_missing(x->renamed[r->at]);
    }
    case CREATES_NOTHING:
        break;
    }
    return false;
}

/* True when something at or below n would make a field where there is none. */
bool update_creates(const struct update_apply *x, const struct update_node *n)
{
    if (n->leaf != NULL)
        return leaf_creates(x, n->leaf);
    for (size_t i = 0; i < n->nchildren; i++) {
        if (update_creates(x, n->children[i]))
            return true;
    }
    return false;
}

const struct update_leaf *update_first_leaf(const struct update_node *n)
{
    while (n->leaf == NULL)
        n = n->children[0];
    return n->leaf;
}

static int cmp_nodes(const void *a, const void *b)
{
    return update_cmp_parts((*(struct update_node *const *)a)->part,
                            (*(struct update_node *const *)b)->part);
}

bool update_has_child(const struct update_node *n, enum update_part_kind kind)
{
    for (size_t i = 0; i < n->nchildren; i++) {
        if (n->children[i]->part->kind == kind)
            return true;
    }
    return false;
}

/* Both nodes' children in one node; leaves cannot be merged. The walk stands at their place. */
int update_merge(struct update_apply *x, const struct update_node *a, const struct update_node *b,
                 struct update_node **ret)
{
    struct update_node *m;
    size_t i = 0, j = 0;

    if (a->leaf != NULL || b->leaf != NULL)
        return op_fail(x->op, ERR_CONFLICTING_UPDATE_OPERATORS, "Update created a conflict at '%s'",
                       update_path_text(x));
    m = ARENA_NEW(x->a, struct update_node);
    m->part = a->part;
    m->children = arena_try(x->a, (a->nchildren + b->nchildren) * sizeof(m->children[0]));
    if (m->children == NULL)
        return op_fail(x->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for an update's paths");
    while (i < a->nchildren || j < b->nchildren) {
        int c = i == a->nchildren   ? 1
                : j == b->nchildren ? -1
                                    : cmp_nodes(&a->children[i], &b->children[j]);
        struct update_node *child = c <= 0 ? a->children[i] : b->children[j];

        if (c == 0) {
            update_step_into(x, child->part->name, child->part->len);
            TRY_RETURN(update_merge(x, a->children[i], b->children[j], &child));
            update_step_back(x);
        }
        m->children[m->nchildren++] = child;
        i += c <= 0;
        j += c >= 0;
    }
    *ret = m;
    return 0;
}

/* The node with the positional $ among its children replaced by the index that the query found. */
int update_resolve_positional(struct update_apply *x, const struct update_node *n,
                              const struct update_node **ret)
{
    struct update_part *part;
    struct update_node *only, *named, *rest, *merged = NULL;

    *ret = n;
    if (!update_has_child(n, PART_POSITIONAL))
        return 0;
    if (x->position < 0)
        return op_fail(x->op, ERR_BAD_VALUE,
                       "The positional operator did not find the match needed from the query.");
    part = ARENA_NEW(x->a, struct update_part);
    part->name = arena_printf(x->a, "%d", x->position);
    part->len = (uint32_t)strlen(part->name);
    part->index = x->position;
    rest = ARENA_NEW(x->a, struct update_node);
    rest->part = n->part;
    rest->children = arena_try(x->a, (n->nchildren + 1) * sizeof(rest->children[0]));
    if (rest->children == NULL)
        return op_fail(x->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for an update's paths");
    named = ARENA_NEW(x->a, struct update_node);
    for (size_t i = 0; i < n->nchildren; i++) {
        if (n->children[i]->part->kind != PART_POSITIONAL) {
            rest->children[rest->nchildren++] = n->children[i];
            continue;
        }
        *named = *n->children[i];
        named->part = part;
    }
    only = ARENA_NEW(x->a, struct update_node);
    only->part = n->part;
    only->children = arena_alloc(x->a, sizeof(only->children[0]));
    only->children[0] = named;
    only->nchildren = 1;
    TRY_RETURN(update_merge(x, rest, only, &merged));
    *ret = merged;
    return 0;
}

/* The child with that name, by bisection; NULL when there is none. */
struct update_node **update_find_child(const struct update_node *n, const struct belem *e)
{
    struct update_part part = {.name = e->key, .len = e->key_len};
    struct update_node key = {.part = &part}, *pkey = &key;

    if (n->nchildren == 0)
        return NULL;
    return bsearch(&pkey, n->children, n->nchildren, sizeof(n->children[0]), cmp_nodes);
}
