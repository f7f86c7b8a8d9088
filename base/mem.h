/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Memory from the system; the only place that calls malloc and its kin (arenas take their chunks
 * here). What comes from here is given back by free().
 *
 * mem_try*: sizes that a client may have chosen. NULL when memory is out; the caller answers with
 * ERR_EXCEEDED_MEMORY_LIMIT (op_no_memory()) and leaves nothing half done.
 * mem_must*: small things of our own, without which there is no going on. When memory is out the
 * process ends as mem_out() says.
 *
 * Each call passes the fault point `allocate`, those of the first kind `allocLarge` as well.
 */
#ifndef RUNNEL_BASE_MEM_H
#define RUNNEL_BASE_MEM_H

#include <stddef.h>

#include "base/error.h"

/* The exit code of a process that ran out of memory; docs/durability.md promises it. */
#define MEM_EXIT_CODE 12

#define MEM_NEW_(...) __attribute__((malloc, warn_unused_result, __VA_ARGS__))

void *mem_try(size_t size) MEM_NEW_(alloc_size(1));
void *mem_try_zero(size_t n, size_t each) MEM_NEW_(alloc_size(1, 2));
/* For arenas, which pass the fault points themselves. */
void *mem_chunk(size_t size) MEM_NEW_(alloc_size(1));
/* align: a power of two; size: a multiple of it. */
void *mem_try_aligned(size_t align, size_t size) MEM_NEW_(alloc_size(2));
/* When it fails the old block stays as it was. */
void *mem_try_resize(void *old, size_t size) MUST_CHECK;

void *mem_must(size_t size) MEM_NEW_(alloc_size(1), returns_nonnull);
void *mem_must_zero(size_t n, size_t each) MEM_NEW_(alloc_size(1, 2), returns_nonnull);
void *mem_must_resize(void *old, size_t size) MUST_CHECK __attribute__((returns_nonnull));
char *mem_must_strdup(const char *s) MEM_NEW_(returns_nonnull);

#define MEM_NEW(type) ((type *)mem_must_zero(1, sizeof(type)))

/* Says in one line of the log that memory is out, how much was wanted and from where in the program
 * (for addr2line), and ends the process at once with MEM_EXIT_CODE: no core, no destructors. */
void mem_out(size_t size, const void *caller) __attribute__((noreturn, cold));

#endif
