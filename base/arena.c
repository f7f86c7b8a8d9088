/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/arena.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"

#define CHUNK_MIN      4096u
#define CHUNK_MAX      (256u * 1024)
#define LARGE_KEPT_MAX (40u * 1024 * 1024) /* the buffer of the largest reply */

/* Under AddressSanitizer what no one was given is poisoned, and blocks are kept apart, so that a
 * step past the end of one is found as it would be on the heap. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISON 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_POISON 1
#endif
#ifdef ARENA_POISON
#include <sanitizer/asan_interface.h>
enum { GAP = 8 };
#define SPARE_MAX 0 /* memory that goes back at once is watched better */
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
enum { GAP = 0 };
#define SPARE_MAX                         8
#endif

struct arena_chunk {
    struct arena_chunk *next;
    size_t size; /* bytes after this header */
};

#define CALLER __builtin_return_address(0)

/* --- spare chunks -------------------------------------------------------------------------- */

/* Small chunks of this thread that nobody uses: arenas come and go several times in a request. */
struct spare {
    struct arena_chunk *chunks;
    unsigned n;
};

static _Thread_local struct spare spare;
static pthread_key_t spare_key;
static pthread_once_t spare_once = PTHREAD_ONCE_INIT;

static void free_spare(void *p)
{
    struct spare *s = p;

    while (s->chunks != NULL) {
        struct arena_chunk *c = s->chunks;

        s->chunks = c->next;
        free(c);
    }
    s->n = SPARE_MAX; /* what other destructors release is freed */
}

static void make_key(void)
{
    if (pthread_key_create(&spare_key, free_spare) != 0)
        abort();
}

/* One large chunk, of the process: a stream of large replies would have the system clear and map as
 * many new pages for each. */
static _Atomic(struct arena_chunk *) spare_large;

static struct arena_chunk *take_large(size_t size)
{
    struct arena_chunk *c = atomic_exchange(&spare_large, NULL);

    if (c != NULL && c->size < size) {
        free(c);
        c = NULL;
    }
    return c;
}

void arena_give_back(void)
{
    free(atomic_exchange(&spare_large, NULL));
}

static void release(struct arena_chunk *c)
{
    if (SPARE_MAX > 0 && c->size > CHUNK_MAX && c->size <= LARGE_KEPT_MAX) {
        free(atomic_exchange(&spare_large, c));
        return;
    }
    if (c->size != CHUNK_MIN || spare.n == SPARE_MAX) {
        free(c);
        return;
    }
    if (spare.chunks == NULL) {
        pthread_once(&spare_once, make_key);
        pthread_setspecific(spare_key, &spare);
    }
    c->next = spare.chunks;
    spare.chunks = c;
    spare.n++;
}

static struct arena_chunk *acquire(size_t size)
{
    struct arena_chunk *c = spare.chunks;

    if (FAULT_ERROR(ALLOCATE) != 0)
        return NULL;
    if (size == CHUNK_MIN && c != NULL) {
        spare.chunks = c->next;
        spare.n--;
        return c;
    }
    if (size > CHUNK_MAX && (c = take_large(size)) != NULL)
        return c;
    c = mem_chunk(sizeof(*c) + size);
    if (c != NULL)
        c->size = size;
    return c;
}

/* --- arenas -------------------------------------------------------------------------------- */

static uint8_t *chunk_data(struct arena_chunk *c)
{
    return (uint8_t *)(c + 1);
}

/* What a block of n bytes takes; smaller than n when that cannot be said. */
static size_t footprint(size_t n)
{
    return ((n + 7) & ~(size_t)7) + GAP;
}

void arena_init(struct arena *a)
{
    memset(a, 0, sizeof(*a));
}

void arena_init_small(struct arena *a, size_t bytes)
{
    struct arena_chunk *c = acquire((bytes + 7) & ~(size_t)7);

    if (c == NULL)
        mem_out(bytes, CALLER);
    c->next = NULL;
    a->chunks = c;
    a->at = chunk_data(c);
    a->end = a->at + c->size;
    a->bytes = c->size + sizeof(*c);
    ASAN_POISON_MEMORY_REGION(a->at, c->size);
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
            release(c);
    }
    if (keep == NULL) {
        arena_init(a);
        return;
    }
    keep->next = NULL;
    a->chunks = keep;
    a->at = chunk_data(keep);
    a->end = a->at + keep->size;
    ASAN_POISON_MEMORY_REGION(a->at, keep->size);
    a->bytes = keep->size + sizeof(*keep);
}

void arena_fini(struct arena *a)
{
    while (a->chunks != NULL) {
        struct arena_chunk *c = a->chunks;

        a->chunks = c->next;
        release(c);
    }
    arena_init(a);
}

static void *allocate(struct arena *a, size_t size)
{
    size_t need = footprint(size == 0 ? 1 : size);
    struct arena_chunk *c;
    size_t chunk;
    void *p;

    if (need < size || need > SIZE_MAX - sizeof(*c))
        return NULL;
    if ((size_t)(a->end - a->at) >= need) {
        p = a->at;
        a->at += need;
        ASAN_UNPOISON_MEMORY_REGION(p, size);
        return p;
    }
    chunk = a->bytes == 0 ? CHUNK_MIN : a->bytes;
    if (chunk > CHUNK_MAX)
        chunk = CHUNK_MAX;
    if (chunk < need)
        chunk = need;
    c = acquire(chunk);
    if (c == NULL && chunk > need && chunk > CHUNK_MIN) { /* a smaller one does, too */
        chunk = need < CHUNK_MIN ? CHUNK_MIN : need;
        c = acquire(chunk);
    }
    if (c == NULL)
        return NULL;
    a->bytes += c->size + sizeof(*c);
    ASAN_POISON_MEMORY_REGION(chunk_data(c) + size, chunk - size);
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

void *arena_try(struct arena *a, size_t size)
{
    return size > ARENA_SMALL_MAX && FAULT_ERROR(ALLOC_LARGE) != 0 ? NULL : allocate(a, size);
}

void *arena_try_zero(struct arena *a, size_t n, size_t each)
{
    void *p = n > SIZE_MAX / each ? NULL : arena_try(a, n * each);

    return p == NULL ? NULL : memset(p, 0, n * each);
}

void *arena_alloc(struct arena *a, size_t size)
{
    void *p = allocate(a, size);

    if (__builtin_expect(p == NULL, 0))
        mem_out(size, CALLER);
    return p;
}

void *arena_zalloc(struct arena *a, size_t size)
{
    void *p = allocate(a, size);

    if (__builtin_expect(p == NULL, 0))
        mem_out(size, CALLER);
    return memset(p, 0, size);
}

/* A large block has a chunk of its own, which can grow without a copy: into the rest of the chunk,
 * or the system moves whole pages. NULL: it is no such block, or memory is out. */
static void *regrow_chunk(struct arena *a, void *old, size_t had, size_t size)
{
    struct arena_chunk **link = &a->chunks, *c, *next;
    size_t need = footprint(size), was;
    bool current = a->end == (uint8_t *)old + had;

    while (*link != NULL && chunk_data(*link) != old)
        link = &(*link)->next;
    c = *link;
    if (c == NULL || (c->size != had && c->size <= CHUNK_MAX) || need < size ||
        need > SIZE_MAX - sizeof(*c))
        return NULL;
    was = c->size;
    next = c->next;
    if (need > c->size) {
        struct arena_chunk *grown = take_large(need);

        if (grown != NULL) {
            memcpy(chunk_data(grown), old, had);
            release(c);
        } else if ((grown = mem_try_resize(c, sizeof(*c) + need)) != NULL) {
            grown->size = need;
        } else {
            return NULL;
        }
        c = grown;
        c->next = next;
    }
    *link = c;
    a->bytes += c->size - was;
    ASAN_POISON_MEMORY_REGION(chunk_data(c) + size, need - size);
    if (current)
        a->at = a->end = chunk_data(c) + need;
    return chunk_data(c);
}

void *arena_regrow(struct arena *a, void *old, size_t old_size, size_t size)
{
    size_t had = footprint(old_size), need = footprint(size);
    void *p;

    if (old != NULL && (uint8_t *)old + had == a->at && size >= old_size && need >= size &&
        (size_t)(a->end - (uint8_t *)old) >= need) {
        a->at = (uint8_t *)old + need;
        ASAN_UNPOISON_MEMORY_REGION(old, size);
        return old;
    }
    if (had >= CHUNK_MAX && size > had && (p = regrow_chunk(a, old, had, size)) != NULL)
        return p;
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

char *arena_try_strndup(struct arena *a, const char *s, size_t n)
{
    char *p = n == SIZE_MAX ? NULL : arena_try(a, n + 1);

    if (p == NULL)
        return NULL;
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
