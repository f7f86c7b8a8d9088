/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "oplog/segments.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"

/* Slots of the open segment's name table: a power of two, at most half full. */
enum { NAME_SLOTS = 2 * SEGMENT_NAMES_MAX };

void segments_init(struct segments *s)
{
    memset(s, 0, sizeof(*s));
    mutex_init(&s->mx);
    s->name_table = mem_must_zero(NAME_SLOTS, sizeof(uint64_t));
    s->open.names = s->name_table;
}

void segment_free(struct segment *g)
{
    free(g->names);
    free(g);
}

void segments_fini(struct segments *s)
{
    for (size_t i = 0; i < s->n; i++)
        segment_free(s->sealed[i]);
    free(s->sealed);
    free(s->name_table);
    mutex_fini(&s->mx);
}

void segments_set_bounds(struct segments *s, const struct segment_bounds *b)
{
    mutex_lock(&s->mx);
    s->bounds = *b;
    mutex_unlock(&s->mx);
}

/* --- counting ------------------------------------------------------------------------------ */

static void add_name(void *arg, const struct scope_name *name)
{
    struct segment *g = arg;
    size_t i;
    uint64_t h;

    if (name == NULL)
        g->any = true;
    if (g->any)
        return;
    h = name->hash;
    for (i = h % NAME_SLOTS; g->names[i] != 0; i = (i + 1) % NAME_SLOTS) {
        if (g->names[i] == h)
            return;
    }
    if (g->nnames == SEGMENT_NAMES_MAX) {
        g->any = true;
        return;
    }
    g->names[i] = h;
    g->nnames++;
}

static bool full_locked(const struct segments *s, int64_t now_ms)
{
    const struct segment *g = &s->open;
    const struct segment_bounds *b = &s->bounds;

    return g->count > 0 &&
           ((b->count > 0 && g->count >= b->count) || (b->bytes > 0 && g->bytes >= b->bytes) ||
            (b->age_ms > 0 && llabs(now_ms - s->opened_ms) >= b->age_ms));
}

/* Appends a segment; takes it over. */
static void append_locked(struct segments *s, struct segment *g)
{
    mutex_assert_held(&s->mx);
    if (s->n == s->cap) {
        size_t cap = s->cap == 0 ? 64 : s->cap * 2;
        struct segment **v = mem_must_resize(s->sealed, cap * sizeof(struct segment *));

        s->sealed = v;
        s->cap = cap;
    }
    s->sealed[s->n++] = g;
}

void segments_append(struct segments *s, struct segment *g)
{
    mutex_lock(&s->mx);
    append_locked(s, g);
    s->count += g->count;
    s->bytes += g->bytes;
    mutex_unlock(&s->mx);
}

/* The open segment's names move into a plain array. */
static void seal_locked(struct segments *s)
{
    struct segment *g = mem_must(sizeof(*g));
    uint32_t n = 0;

    mutex_assert_held(&s->mx);
    *g = s->open;
    g->names = NULL;
    g->nnames = g->any ? 0 : g->nnames;
    if (g->nnames > 0) {
        g->names = mem_must(g->nnames * sizeof(uint64_t));
        for (size_t i = 0; i < NAME_SLOTS; i++) {
            if (s->name_table[i] != 0)
                g->names[n++] = s->name_table[i];
        }
        ASSERT(n == g->nnames);
    }
    append_locked(s, g);
    memset(s->name_table, 0, NAME_SLOTS * sizeof(uint64_t));
    s->open = (struct segment){.names = s->name_table};
}

bool segments_add(struct segments *s, const struct oplog_row *row)
{
    int64_t now_ms = clock_wall_ms();
    struct segment *g = &s->open;
    bool sealed;

    mutex_lock(&s->mx);
    sealed = full_locked(s, now_ms);
    if (sealed)
        seal_locked(s);
    if (g->count == 0) {
        g->first = row->optime;
        g->wall_ms = row->wall_ms;
        s->opened_ms = now_ms;
    }
    g->last = row->optime;
    g->count++;
    g->bytes += row->entry.len;
    if (row->wall_ms > g->wall_ms)
        g->wall_ms = row->wall_ms;
    scope_names(row, add_name, g);
    s->count++;
    s->bytes += row->entry.len;
    mutex_unlock(&s->mx);
    return sealed;
}

bool segments_seal_old(struct segments *s, int64_t now_ms)
{
    bool sealed;

    mutex_lock(&s->mx);
    sealed = s->bounds.age_ms > 0 && full_locked(s, now_ms);
    if (sealed)
        seal_locked(s);
    mutex_unlock(&s->mx);
    return sealed;
}

/* --- skipping ------------------------------------------------------------------------------ */

static bool has_name(const struct segment *g, bool open, uint64_t h)
{
    if (open) {
        for (size_t i = h % NAME_SLOTS; g->names[i] != 0; i = (i + 1) % NAME_SLOTS) {
            if (g->names[i] == h)
                return true;
        }
        return false;
    }
    for (uint32_t i = 0; i < g->nnames; i++) {
        if (g->names[i] == h)
            return true;
    }
    return false;
}

/* h: the hash of the scope's own name, for collections and databases. */
static bool may_concern(const struct segment *g, bool open, const struct scope *scope, uint64_t h)
{
    if (g->any || scope->kind == SCOPE_OPLOG)
        return true;
    if (scope->kind == SCOPE_CLUSTER)
        return g->nnames > 0;
    return has_name(g, open, h);
}

/* Index of the first sealed segment that ends at or above `from`. */
static size_t find_locked(const struct segments *s, uint64_t from)
{
    size_t lo = 0, hi = s->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (s->sealed[mid]->last < from)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool segments_next(struct segments *s, const struct scope *scope, uint64_t from, uint64_t *ret_from,
                   uint64_t *ret_to)
{
    uint64_t h = 0;
    bool found = false;

    if (scope->kind == SCOPE_COLLECTION || scope->kind == SCOPE_DATABASE)
        h = name_hash(scope->kind == SCOPE_COLLECTION ? scope->ns : scope->db);
    mutex_lock(&s->mx);
    for (size_t i = find_locked(s, from); i < s->n && !found; i++) {
        const struct segment *g = s->sealed[i];

        if (may_concern(g, false, scope, h)) {
            *ret_from = from > g->first ? from : g->first;
            *ret_to = g->last;
            found = true;
        }
    }
    if (!found && s->open.count > 0 && may_concern(&s->open, true, scope, h)) {
        *ret_from = from > s->open.first ? from : s->open.first;
        *ret_to = UINT64_MAX;
        found = true;
    }
    mutex_unlock(&s->mx);
    return found;
}

/* --- numbers, cutting ---------------------------------------------------------------------- */

void segments_totals(struct segments *s, int64_t *ret_count, int64_t *ret_bytes, int64_t *ret_n)
{
    mutex_lock(&s->mx);
    *ret_count = s->count;
    *ret_bytes = s->bytes;
    *ret_n = (int64_t)s->n + (s->open.count > 0);
    mutex_unlock(&s->mx);
}

uint64_t segments_newest(struct segments *s)
{
    uint64_t x;

    mutex_lock(&s->mx);
    x = s->open.count > 0 ? s->open.last : s->n > 0 ? s->sealed[s->n - 1]->last : 0;
    mutex_unlock(&s->mx);
    return x;
}

uint64_t segments_oldest(struct segments *s)
{
    uint64_t x;

    mutex_lock(&s->mx);
    x = s->n > 0 ? s->sealed[0]->first : s->open.first;
    mutex_unlock(&s->mx);
    return x;
}

bool segments_get(struct segments *s, size_t i, struct segment *ret)
{
    bool found;

    mutex_lock(&s->mx);
    found = i < s->n || (i == s->n && s->open.count > 0);
    if (found)
        *ret = i < s->n ? *s->sealed[i] : s->open;
    mutex_unlock(&s->mx);
    ret->names = NULL;
    return found;
}

static void shrink_locked(struct segments *s, struct segment *g, uint64_t next, int64_t count,
                          int64_t bytes)
{
    mutex_assert_held(&s->mx);
    ASSERT(count < g->count && next > g->first && next <= g->last);
    g->first = next;
    g->count -= count;
    g->bytes -= bytes;
    s->count -= count;
    s->bytes -= bytes;
}

void segments_cut(struct segments *s, uint64_t cut, uint64_t next, int64_t count, int64_t bytes)
{
    size_t gone = 0;

    mutex_lock(&s->mx);
    while (gone < s->n && s->sealed[gone]->last <= cut) {
        s->count -= s->sealed[gone]->count;
        s->bytes -= s->sealed[gone]->bytes;
        segment_free(s->sealed[gone++]);
    }
    s->n -= gone;
    if (gone > 0 && s->n > 0)
        memmove(s->sealed, s->sealed + gone, s->n * sizeof(*s->sealed));
    if (s->n > 0 && s->sealed[0]->first <= cut)
        shrink_locked(s, s->sealed[0], next, count, bytes);
    else if (s->n == 0 && s->open.count > 0 && s->open.first <= cut)
        shrink_locked(s, &s->open, next, count, bytes);
    mutex_unlock(&s->mx);
}
