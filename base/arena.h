/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Memory that is freed all at once: one arena per request, one per cursor.
 *
 * An arena belongs to one thread at a time. Memory is 8-byte aligned and uninitialised unless the
 * name says zero. A request of more than ARENA_SMALL_MAX bytes, whose size a client may have
 * chosen, must go through arena_try(), which can return NULL; when memory is out, all else ends the
 * process (mem_out() in base/mem.h).
 */
#ifndef RUNNEL_BASE_ARENA_H
#define RUNNEL_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define ARENA_SMALL_MAX (64u * 1024)

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks; /* newest first */
    uint8_t *at, *end;          /* free part of the newest chunk */
    size_t bytes;               /* bytes held from the system */
};

void arena_init(struct arena *a);
/* As arena_init(), for what lives long and holds little: begins with a chunk of that many bytes and
 * doubles from there. */
void arena_init_small(struct arena *a, size_t bytes);
/* Frees everything but one small chunk, so that the next request starts without malloc. */
void arena_reset(struct arena *a);
void arena_fini(struct arena *a);
/* Frees what is kept of large blocks for the next one. Any thread. */
void arena_give_back(void);

void *arena_alloc(struct arena *a, size_t size);
void *arena_zalloc(struct arena *a, size_t size);
/* Any size; NULL when memory is out. */
void *arena_try(struct arena *a, size_t size) MUST_CHECK;
void *arena_try_zero(struct arena *a, size_t n, size_t each) MUST_CHECK;
/* Grows the newest allocation in place where it can, else copies. NULL when memory is out. */
void *arena_regrow(struct arena *a, void *old, size_t old_size, size_t size) MUST_CHECK;
void *arena_dup(struct arena *a, const void *src, size_t size);
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);
/* NULL when memory is out. */
char *arena_try_strndup(struct arena *a, const char *s, size_t n) MUST_CHECK;
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define ARENA_NEW(a, type)      ((type *)arena_zalloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_zalloc((a), sizeof(type) * (size_t)(n)))
/* Of as many as a client wants; NULL when memory is out. */
#define ARENA_TRY_ARRAY(a, type, n) ((type *)arena_try_zero((a), (size_t)(n), sizeof(type)))

#endif
