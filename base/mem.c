/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/mem.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"

#define CALLER __builtin_return_address(0)

void mem_out(size_t size, const void *caller)
{
    Dl_info in = {0};
    char at[256];

    if (dladdr(caller, &in) != 0 && in.dli_fname != NULL) {
        const char *slash = strrchr(in.dli_fname, '/');

        snprintf(at, sizeof(at), "%s+0x%zx", slash == NULL ? in.dli_fname : slash + 1,
                 (size_t)((uintptr_t)caller - (uintptr_t)in.dli_fbase));
    } else {
        snprintf(at, sizeof(at), "%p", caller);
    }
    log_event(LOG_FATAL, "memory",
              "out of memory; the process ends. What was acknowledged as durable is there with the "
              "next start",
              {"bytes", LOG_NUM(size)}, {"at", LOG_STR(at)}, );
    _exit(MEM_EXIT_CODE);
}

static bool refused(void)
{
    return FAULT_ERROR(ALLOCATE) != 0;
}

static bool refused_large(void)
{
    return refused() || FAULT_ERROR(ALLOC_LARGE) != 0;
}

void *mem_try(size_t size)
{
    return refused_large() ? NULL : malloc(size);
}

void *mem_chunk(size_t size)
{
    return malloc(size);
}

void *mem_try_zero(size_t n, size_t each)
{
    return refused_large() ? NULL : calloc(n, each);
}

void *mem_try_aligned(size_t align, size_t size)
{
    return refused_large() ? NULL : aligned_alloc(align, size);
}

void *mem_try_resize(void *old, size_t size)
{
    return refused_large() ? NULL : realloc(old, size);
}

void *mem_must(size_t size)
{
    void *p = refused() ? NULL : malloc(size);

    if (__builtin_expect(p == NULL, 0))
        mem_out(size, CALLER);
    return p;
}

void *mem_must_zero(size_t n, size_t each)
{
    void *p = refused() ? NULL : calloc(n, each);

    if (__builtin_expect(p == NULL, 0))
        mem_out(n * each, CALLER);
    return p;
}

void *mem_must_resize(void *old, size_t size)
{
    void *p = refused() ? NULL : realloc(old, size);

    if (__builtin_expect(p == NULL, 0))
        mem_out(size, CALLER);
    return p;
}

char *mem_must_strdup(const char *s)
{
    size_t size = strlen(s) + 1;
    char *p = refused() ? NULL : malloc(size);

    if (__builtin_expect(p == NULL, 0))
        mem_out(size, CALLER);
    return memcpy(p, s, size);
}
