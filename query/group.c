/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Groups: a hash table from _id to the states of the accumulators, in order of first arrival.
 *
 * Past the memory limit all groups are written out as a run, sorted by _id, each {i: _id,
 * p: {<number of accumulator>: partial}}, and the table starts again empty. At the end the last
 * groups become a run too and the runs are merged: equal ids are next to each other, and their
 * partials are merged in the order of the runs, which is the order of arrival.
 */
#include "query/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "query/expr_op.h"
#include "storage/spill.h"

#define STATE_ALIGN 16u

struct group {
    uint64_t hash;
    struct bv id;    /* missing: a group whose _id is not there */
    uint8_t *states; /* aligned; inside this allocation, like the id's bytes */
    size_t bytes;    /* of this allocation */
};

/* The row a run stands at while runs are merged. */
struct head {
    struct held row;
    bool found;
};

struct groups {
    const struct group_spec *spec;
    bool allow_disk;
    size_t *offsets; /* of each accumulator's state */
    size_t state_bytes;

    struct group **list;
    size_t n, cap, at;
    uint32_t *slots; /* number in the list + 1 */
    size_t nslots;
    size_t bytes;
    struct stage_memory memory;

    struct spill *spill;
    struct head *heads;
    struct group *merged; /* the group being put together from partials */
};

static size_t align(size_t n)
{
    return (n + STATE_ALIGN - 1) & ~(size_t)(STATE_ALIGN - 1);
}

struct groups *groups_new(const struct group_spec *spec, bool allow_disk)
{
    struct groups *g = mem_try_zero(1, sizeof(*g));

    if (g == NULL)
        return NULL;
    g->spec = spec;
    g->allow_disk = allow_disk;
    g->offsets = mem_try_zero(spec->n + 1, sizeof(*g->offsets));
    if (g->offsets == NULL) {
        free(g);
        return NULL;
    }
    for (uint32_t i = 0; i < spec->n; i++) {
        g->offsets[i] = g->state_bytes;
        g->state_bytes += align(spec->accs[i].row->ops->size);
    }
    return g;
}

static void *state_of(const struct groups *g, const struct group *group, uint32_t i)
{
    return group->states + g->offsets[i];
}

static struct group *group_new(const struct groups *g, struct op *op, struct bv id, uint64_t hash)
{
    size_t head = align(sizeof(struct group));
    size_t size = align(head + g->state_bytes + id.len);
    struct group *group = mem_try_aligned(STATE_ALIGN, size);

    if (group == NULL) {
        (void)!op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory grouping");
        return NULL;
    }
    memset(group, 0, head + g->state_bytes);
    group->hash = hash;
    group->bytes = size;
    group->states = (uint8_t *)group + head;
    group->id = id;
    if (id.len > 0) {
        memcpy(group->states + g->state_bytes, id.p, id.len);
        group->id.p = group->states + g->state_bytes;
    }
    return group;
}

static void group_free(const struct groups *g, struct group *group)
{
    if (group == NULL)
        return;
    for (uint32_t i = 0; i < g->spec->n; i++) {
        if (g->spec->accs[i].row->ops->free != NULL)
            g->spec->accs[i].row->ops->free(state_of(g, group, i));
    }
    free(group);
}

static void clear(struct groups *g)
{
    for (size_t i = g->at; i < g->n; i++)
        group_free(g, g->list[i]);
    g->n = 0;
    g->at = 0;
    g->bytes = g->cap * sizeof(*g->list) + g->nslots * sizeof(*g->slots);
    if (g->nslots > 0)
        memset(g->slots, 0, g->nslots * sizeof(*g->slots));
}

void groups_free(struct groups *g)
{
    if (g == NULL)
        return;
    clear(g);
    stage_memory_release(&g->memory);
    group_free(g, g->merged);
    if (g->heads != NULL) {
        for (uint32_t i = 0; i < spill_runs(g->spill); i++)
            held_free(&g->heads[i].row);
    }
    spill_free(g->spill);
    free(g->heads);
    free(g->list);
    free(g->slots);
    free(g->offsets);
    free(g);
}

/* --- the table
 * -------------------------------------------------------------------------------------- */

static bool same_id(const struct group *group, uint64_t hash, struct bv id)
{
    return group->hash == hash && bv_cmp(group->id, id) == 0;
}

/* The slot that holds the id, or the free one where it belongs. */
static size_t find_slot(const struct groups *g, uint64_t hash, struct bv id)
{
    size_t i = (size_t)hash & (g->nslots - 1);

    while (g->slots[i] != 0 && !same_id(g->list[g->slots[i] - 1], hash, id))
        i = (i + 1) & (g->nslots - 1);
    return i;
}

static int grow(struct groups *g, struct op *op)
{
    size_t cap = g->cap == 0 ? 64 : g->cap * 2, nslots = cap * 2;
    struct group **list = mem_try_resize(g->list, cap * sizeof(*list));
    uint32_t *slots = mem_try_zero(nslots, sizeof(*slots));

    if (list != NULL)
        g->list = list;
    if (list == NULL || slots == NULL) {
        free(slots);
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory grouping");
    }
    free(g->slots);
    g->slots = slots;
    g->bytes += (cap - g->cap) * sizeof(*list) + (nslots - g->nslots) * sizeof(*slots);
    g->cap = cap;
    g->nslots = nslots;
    for (size_t i = 0; i < g->n; i++)
        slots[find_slot(g, g->list[i]->hash, g->list[i]->id)] = (uint32_t)i + 1;
    return 0;
}

static int find_group(struct groups *g, struct op *op, struct bv id, struct group **ret)
{
    uint64_t hash = bv_hash(id);
    struct group *group;
    size_t slot;

    if (g->n == g->cap)
        TRY_RETURN(grow(g, op));
    slot = find_slot(g, hash, id);
    if (g->slots[slot] != 0) {
        *ret = g->list[g->slots[slot] - 1];
        return 0;
    }
    group = group_new(g, op, id, hash);
    if (group == NULL)
        return ERR_EXCEEDED_MEMORY_LIMIT;
    g->list[g->n++] = group;
    g->slots[slot] = (uint32_t)g->n;
    g->bytes += group->bytes;
    *ret = group;
    return 0;
}

/* --- spilling
 * ------------------------------------------------------------------------------------------- */

static int cmp_groups(const void *a, const void *b)
{
    return bv_cmp((*(struct group *const *)a)->id, (*(struct group *const *)b)->id);
}

static int write_group(struct groups *g, struct exec *x, const struct group *group)
{
    struct bv row, partial;
    struct bw w;

    bw_init(&w, &x->scratch);
    bw_bv(&w, "i", group->id);
    bw_arr_begin(&w, "p");
    for (uint32_t i = 0; i < g->spec->n; i++) {
        const struct accumulator *acc = &g->spec->accs[i];

        TRY_RETURN(acc->row->ops->partial(state_of(g, group, i), acc, &x->ev, &partial));
        bw_bv(&w, NULL, partial);
    }
    bw_end(&w);
    TRY_RETURN(expr_done(&x->ev, &w, &row));
    return spill_put(g->spill, x->op, (struct bytes){row.p, row.len});
}

static int spill_groups(struct groups *g, struct exec *x)
{
    if (!g->allow_disk)
        return op_fail(x->op, ERR_QUERY_MEMORY_NO_DISK,
                       "Exceeded memory limit for $group, but didn't allow external sort. Pass "
                       "allowDiskUse:true to opt in.");
    if (g->spill == NULL)
        TRY_RETURN(spill_new(x->db->engine, x->op, &g->spill));
    if (g->n > 1)
        qsort(g->list, g->n, sizeof(*g->list), cmp_groups);
    TRY_RETURN(spill_run_begin(g->spill, x->op));
    for (size_t i = 0; i < g->n; i++) {
        TRY_RETURN(write_group(g, x, g->list[i]));
        arena_reset(&x->scratch);
        if ((i & 255) == 255)
            TRY_RETURN(op_check(x->op));
    }
    clear(g);
    return spill_run_end(g->spill);
}

/* Reads a run's next row into its head. */
static int pull(struct groups *g, struct exec *x, uint32_t run)
{
    struct head *head = &g->heads[run];
    struct bytes value;
    size_t bytes = 0;

    TRY_RETURN(spill_read(g->spill, x->op, run, &value, &head->found));
    if (!head->found)
        return 0;
    return held_set(&head->row, x->op, bv_doc(value.p), &bytes);
}

static struct bv head_id(const struct groups *g, uint32_t run)
{
    return bv_get(held_value(&g->heads[run].row), "i");
}

/* The run with the lowest id, the earliest of those; spill_runs() when all are at their end. */
static uint32_t lowest(const struct groups *g)
{
    uint32_t best = spill_runs(g->spill);

    for (uint32_t i = 0; i < spill_runs(g->spill); i++) {
        if (g->heads[i].found &&
            (best == spill_runs(g->spill) || bv_cmp(head_id(g, i), head_id(g, best)) < 0))
            best = i;
    }
    return best;
}

static int merge_head(struct groups *g, struct exec *x, uint32_t run)
{
    struct biter it = biter(bv_get(held_value(&g->heads[run].row), "p"));
    struct belem e;
    size_t bytes = 0;

    for (uint32_t i = 0; biter_next(&it, &e); i++) {
        const struct accumulator *acc = &g->spec->accs[i];

        TRY_RETURN(acc->row->ops->merge(state_of(g, g->merged, i), acc, &x->ev, e.v, &bytes));
    }
    return pull(g, x, run);
}

/* Puts the next group together in g->merged; NULL: there are no more. */
static int merge_next(struct groups *g, struct exec *x)
{
    uint32_t first = lowest(g);

    group_free(g, g->merged);
    g->merged = NULL;
    if (first == spill_runs(g->spill))
        return 0;
    g->merged = group_new(g, x->op, head_id(g, first), 0);
    if (g->merged == NULL)
        return ERR_EXCEEDED_MEMORY_LIMIT;
    for (uint32_t i = first; i < spill_runs(g->spill); i++) {
        if (g->heads[i].found && bv_cmp(head_id(g, i), g->merged->id) == 0)
            TRY_RETURN(merge_head(g, x, i));
    }
    return 0;
}

/* --- rows in, rows out
 * ------------------------------------------------------------------------------------- */

int groups_add(struct groups *g, struct exec *x)
{
    struct group *group;
    struct bv id;

    TRY_RETURN(expr_eval(g->spec->id, &x->ev, &id));
    TRY_RETURN(find_group(g, x->op, bv_is_missing(id) ? bv_null : id, &group));
    for (uint32_t i = 0; i < g->spec->n; i++)
        TRY_RETURN(acc_add_row(state_of(g, group, i), &g->spec->accs[i], &x->ev, &g->bytes));
    return stage_memory_full(&g->memory, g->bytes) ? spill_groups(g, x) : 0;
}

int groups_finish(struct groups *g, struct exec *x)
{
    if (g->spill == NULL)
        return 0;
    TRY_RETURN(spill_groups(g, x));
    g->heads = mem_must_zero(spill_runs(g->spill), sizeof(*g->heads));
    for (uint32_t i = 0; i < spill_runs(g->spill); i++)
        TRY_RETURN(pull(g, x, i));
    return 0;
}

static int make_row(struct groups *g, struct exec *x, const struct group *group, struct bv *ret)
{
    struct bv v;
    struct bw w;

    bw_init(&w, &x->scratch);
    bw_bv(&w, "_id", group->id);
    for (uint32_t i = 0; i < g->spec->n; i++) {
        const struct accumulator *acc = &g->spec->accs[i];

        TRY_RETURN(acc->row->ops->result(state_of(g, group, i), acc, &x->ev, &v));
        bw_bv(&w, g->spec->names[i], bv_is_missing(v) ? bv_null : v);
    }
    TRY_RETURN(expr_done(&x->ev, &w, ret));
    if (ret->len > LIMIT_INTERNAL_BYTES)
        return op_fail(x->op, ERR_BSON_TOO_LARGE,
                       "BSONObj size: %u (0x%X) is invalid. Size must be between 0 and %d(16MB)",
                       ret->len, ret->len, LIMIT_INTERNAL_BYTES);
    return 0;
}

int groups_next(struct groups *g, struct exec *x, struct bv *ret, bool *ret_found)
{
    struct group *group;

    *ret_found = false;
    if (g->spill != NULL) {
        TRY_RETURN(merge_next(g, x));
        if (g->merged == NULL)
            return 0;
        *ret_found = true;
        return make_row(g, x, g->merged, ret);
    }
    if (g->at == g->n)
        return 0;
    group = g->list[g->at++];
    *ret_found = true;
    TRY_RETURN(make_row(g, x, group, ret));
    group_free(g, group);
    return 0;
}

void groups_save(struct groups *g)
{
    if (g->spill != NULL)
        spill_save(g->spill);
}
