/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The allocator behind base/mem.h as a whole: how it is set, what it has from the system, and when
 * it gives that back. It is jemalloc where the process has it, linked or preloaded, and else the C
 * library's (or a sanitizer's, which counts nothing).
 */
#ifndef RUNNEL_BASE_HEAP_H
#define RUNNEL_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_stats {
    const char *allocator; /* "jemalloc" or "libc"; static */
    int64_t heap_bytes;    /* had from the system for pieces of any size */
    int64_t used_bytes;    /* of those, in use */
    int64_t free_bytes;    /* kept for what is asked for next */
    int64_t mapped_bytes;  /* in use, each mapped by itself; 0 with jemalloc */
};

/* Before the first thread starts. */
void heap_tune(void);

/* Any thread. The C library's allocator holds its locks meanwhile, and walks all free pieces. */
void heap_stats(struct heap_stats *ret);

/* Gives free_bytes back to the system when they are more than kept. Any thread; costs what
 * heap_stats() costs, and when it gives back some milliseconds more. */
void heap_give_back(int64_t kept);

#endif
