/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The library reaches its own __wt_library_init() through the dynamic symbol table, so that one
 * defined in the executable is called instead. Ours initialises the library's process-wide
 * structure as the original does, but leaves the calibration out and has the library take its
 * times from clock_gettime() instead of the processor's counter.
 *
 * This knows the layout of a private structure, so it acts only when built against and running
 * with exactly 3.2.1 and when the structure has the known size; else the library's own function
 * is called, and nothing is lost but time. With any other version this file is empty.
 */
#include "storage/wt_startup.h"

#include "storage/wt_version.h"

#if WT_IS_321 && defined(__x86_64__)

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* struct __wt_process of 3.2.1 on amd64. */
struct wt_process_321 {
    struct {
        pthread_mutex_t mutex;
        const char *name;
        int16_t stat_offsets[3]; /* -1: not counted */
        int16_t unused;
        int8_t initialized;
    } spinlock;
    struct {
        void *first;
        void **last;
    } connections; /* a tail queue */
    bool page_version_ts;
    uint32_t (*checksum)(const void *bytes, size_t len);
    double tsc_nsec_ratio;
    bool use_epochtime; /* take times from clock_gettime() */
    void *cache_pool;
};
#define WT_PROCESS_SIZE 0x78

_Static_assert(offsetof(struct wt_process_321, spinlock.name) == 40, "layout of 3.2.1");
_Static_assert(offsetof(struct wt_process_321, spinlock.initialized) == 56, "layout of 3.2.1");
_Static_assert(offsetof(struct wt_process_321, connections) == 64, "layout of 3.2.1");
_Static_assert(offsetof(struct wt_process_321, checksum) == 88, "layout of 3.2.1");
_Static_assert(offsetof(struct wt_process_321, use_epochtime) == 104, "layout of 3.2.1");
_Static_assert(sizeof(struct wt_process_321) == WT_PROCESS_SIZE, "layout of 3.2.1");

/* Part of the library's interface towards itself; no header declares it. */
int __wt_library_init(void);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int once_result;
static bool is_short;

static struct wt_process_321 *find_process(void)
{
    int major = 0, minor = 0, patch = 0;
    void *address = dlsym(RTLD_DEFAULT, "__wt_process");
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;

    (void)wiredtiger_version(&major, &minor, &patch);
    if (major != 3 || minor != 2 || patch != 1 || address == NULL)
        return NULL;
    if (dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) == 0 || symbol == NULL ||
        symbol->st_size != WT_PROCESS_SIZE)
        return NULL;
    return address;
}

static void init_once(void)
{
    struct wt_process_321 *p = find_process();

    if (p == NULL) {
        int (*original)(void) = (int (*)(void))dlsym(RTLD_NEXT, "__wt_library_init");

        ASSERT(original != NULL);
        once_result = original();
        return;
    }
    pthread_mutex_init(&p->spinlock.mutex, NULL);
    p->spinlock.name = "global";
    for (int i = 0; i < 3; i++)
        p->spinlock.stat_offsets[i] = -1;
    p->spinlock.initialized = 1;
    p->connections.first = NULL;
    p->connections.last = &p->connections.first;
    p->checksum = wiredtiger_crc32c_func();
    p->tsc_nsec_ratio = 1.0;
    p->use_epochtime = true;
    is_short = true;
}

int __wt_library_init(void)
{
    pthread_once(&once, init_once);
    return once_result;
}

bool wt_startup_is_short(void)
{
    (void)__wt_library_init();
    return is_short;
}

#else

bool wt_startup_is_short(void)
{
    return false;
}

#endif
