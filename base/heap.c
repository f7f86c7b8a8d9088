/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/heap.h"

#include <malloc.h>

/* jemalloc's only entry that we use; NULL in a process without it. */
extern int mallctl(const char *name, void *old, size_t *old_len, void *new, size_t new_len)
    __attribute__((weak));

/* MALLCTL_ARENAS_ALL is 4096; this much of jemalloc's interface has been the same since 5.0. */
#define PURGE_ALL "arena.4096.purge"

/* Large replies grow by remapping pages, without a copy, and go back to the system when they are
 * sent; what is smaller stays with the process, which does not fault it in again and again. */
static void tune_libc(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, 1024 * 1024);
    (void)mallopt(M_TRIM_THRESHOLD, 4 * 1024 * 1024);
}

void heap_tune(void)
{
    if (mallctl == NULL)
        tune_libc();
}

static int64_t jemalloc_stat(const char *name)
{
    size_t n = 0, len = sizeof(n);

    return mallctl(name, &n, &len, NULL, 0) == 0 ? (int64_t)n : 0;
}

static void jemalloc_stats(struct heap_stats *ret)
{
    uint64_t epoch = 1;

    /* What the statistics say is of the last time the epoch was set. */
    (void)mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
    *ret = (struct heap_stats){.allocator = "jemalloc",
                               .heap_bytes = jemalloc_stat("stats.resident"),
                               .used_bytes = jemalloc_stat("stats.allocated")};
    ret->free_bytes = ret->heap_bytes - jemalloc_stat("stats.active");
}

void heap_stats(struct heap_stats *ret)
{
    struct mallinfo2 m;

    if (mallctl != NULL) {
        jemalloc_stats(ret);
        return;
    }
    m = mallinfo2();
    *ret = (struct heap_stats){.allocator = "libc",
                               .heap_bytes = (int64_t)m.arena,
                               .used_bytes = (int64_t)m.uordblks,
                               .free_bytes = (int64_t)m.fordblks,
                               .mapped_bytes = (int64_t)m.hblkhd};
}

void heap_give_back(int64_t kept)
{
    struct heap_stats s;

    heap_stats(&s);
    if (s.free_bytes <= kept)
        return;
    if (mallctl != NULL)
        (void)mallctl(PURGE_ALL, NULL, NULL, NULL, 0);
    else
        (void)malloc_trim(0);
}
