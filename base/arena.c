/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_MIN 4096u
#define CHUNK_MAX (256u * 1024)

struct arena_chunk {
    struct arena_chunk *next;
    size_t size; /* bytes after this header */
};

static uint8_t *chunk_data(struct arena_chunk *c)
{
    return (uint8_t *)(c + 1);
}

static size_t round8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

void arena_init(struct arena *a)
{
    memset(a, 0, sizeof(*a));
}

void arena_reset(struct arena *a)
{
    struct arena_chunk *keep = NULL;

    while (a->chunks != NULL) {
        struct arena_chunk *c = a->chunks;

        a->chunks = c->next;
        if (keep == NULL && c->size <= CHUNK_MIN)
            keep = c;
        else
            free(c);
    }
    if (keep == NULL) {
        arena_init(a);
        return;
    }
    keep->next = NULL;
    a->chunks = keep;
    a->at = chunk_data(keep);
    a->end = a->at + keep->size;
    a->bytes = keep->size + sizeof(*keep);
}

void arena_fini(struct arena *a)
{
    while (a->chunks != NULL) {
        struct arena_chunk *c = a->chunks;

        a->chunks = c->next;
        free(c);
    }
    arena_init(a);
}

void *arena_try(struct arena *a, size_t size)
{
    size_t need = round8(size == 0 ? 1 : size);
    struct arena_chunk *c;
    size_t chunk;
    void *p;

    if (need < size || need > SIZE_MAX - sizeof(*c))
        return NULL;
    if ((size_t)(a->end - a->at) >= need) {
        p = a->at;
        a->at += need;
        return p;
    }
    chunk = a->bytes < CHUNK_MIN ? CHUNK_MIN : a->bytes;
    if (chunk > CHUNK_MAX)
        chunk = CHUNK_MAX;
    if (chunk < need)
        chunk = need;
    c = malloc(sizeof(*c) + chunk);
    if (c == NULL)
        return NULL;
    c->size = chunk;
    a->bytes += chunk + sizeof(*c);
    /* A chunk for one big block goes behind the current one, whose rest stays in use. */
    if (chunk == need && a->chunks != NULL) {
        c->next = a->chunks->next;
        a->chunks->next = c;
        return chunk_data(c);
    }
    c->next = a->chunks;
    a->chunks = c;
    a->at = chunk_data(c) + need;
    a->end = chunk_data(c) + chunk;
    return chunk_data(c);
}

void *arena_alloc(struct arena *a, size_t size)
{
    void *p = arena_try(a, size);

    if (p == NULL)
        abort();
    return p;
}

void *arena_zalloc(struct arena *a, size_t size)
{
    return memset(arena_alloc(a, size), 0, size);
}

void *arena_regrow(struct arena *a, void *old, size_t old_size, size_t size)
{
    size_t had = round8(old_size);
    void *p;

    if (old != NULL && (uint8_t *)old + had == a->at && size >= old_size &&
        (size_t)(a->end - (uint8_t *)old) >= round8(size)) {
        a->at = (uint8_t *)old + round8(size);
        return old;
    }
    p = arena_try(a, size);
    if (p != NULL && old != NULL)
        memcpy(p, old, old_size < size ? old_size : size);
    return p;
}

void *arena_dup(struct arena *a, const void *src, size_t size)
{
    void *p = arena_alloc(a, size);

    if (size > 0)
        memcpy(p, src, size);
    return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    char *p = arena_alloc(a, n + 1);

    memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    int n;
    char *p;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    ASSERT(n >= 0);
    p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}
