/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "query/rid_set.h"

#include <stdlib.h>

#include "base/limits.h"
#include "base/mem.h"

/* The slot that holds rid, or the free one where it belongs. */
static int64_t *slot_of(const struct rid_set *s, int64_t rid)
{
    uint64_t h = (uint64_t)rid * 0x9E3779B97F4A7C15u;
    size_t mask = s->size - 1, i = (size_t)(h >> 32) & mask;

    while (s->slots[i] != 0 && s->slots[i] != rid)
        i = (i + 1) & mask;
    return &s->slots[i];
}

bool rid_set_has(const struct rid_set *s, int64_t rid)
{
    return s->size > 0 && *slot_of(s, rid) == rid;
}

static bool grow(struct rid_set *s)
{
    struct rid_set bigger = {.n = s->n, .size = s->size == 0 ? 64 : s->size * 2};

    bigger.slots = mem_try_zero(bigger.size, sizeof(*bigger.slots));
    if (bigger.slots == NULL)
        return false;
    for (size_t i = 0; i < s->size; i++) {
        if (s->slots[i] != 0)
            *slot_of(&bigger, s->slots[i]) = s->slots[i];
    }
    free(s->slots);
    *s = bigger;
    return true;
}

bool rid_set_add(struct rid_set *s, int64_t rid)
{
    if (rid_set_has(s, rid))
        return true;
    if (s->n >= LIMIT_SCAN_SEEN || (s->n * 2 >= s->size && !grow(s)))
        return false;
    *slot_of(s, rid) = rid;
    s->n++;
    return true;
}

void rid_set_free(struct rid_set *s)
{
    free(s->slots);
    *s = (struct rid_set){0};
}
