/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/crc32c.h"

#include <stdatomic.h>

typedef uint32_t (*crc32c_fn)(const void *bytes, size_t len);

/* Exported by libwiredtiger; declared here so that wiredtiger.h stays inside storage/. It picks
 * the implementation for this processor, which costs a CPUID: hence asked for once. */
extern crc32c_fn wiredtiger_crc32c_func(void);

uint32_t crc32c(const void *bytes, size_t len)
{
    static _Atomic(crc32c_fn) cached;
    crc32c_fn fn = atomic_load_explicit(&cached, memory_order_relaxed);

    if (fn == NULL) {
        fn = wiredtiger_crc32c_func();
        atomic_store_explicit(&cached, fn, memory_order_relaxed);
    }
    return fn(bytes, len);
}
