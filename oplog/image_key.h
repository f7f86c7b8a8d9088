/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Keys and heads of rows in the table of images; for oplog/image*.c only. */
#ifndef RUNNEL_OPLOG_IMAGE_KEY_H
#define RUNNEL_OPLOG_IMAGE_KEY_H

#include <string.h>

#include "storage/table.h"

enum { IMAGE_KEY_BYTES = 16, IMAGE_HEAD_BYTES = 24 };

static inline struct bytes image_key(uint8_t buf[static IMAGE_KEY_BYTES], uint64_t optime,
                                     uint64_t index)
{
    optime = __builtin_bswap64(optime);
    index = __builtin_bswap64(index);
    memcpy(buf, &optime, 8);
    memcpy(buf + 8, &index, 8);
    return (struct bytes){buf, IMAGE_KEY_BYTES};
}

static inline uint64_t image_optime(struct bytes key)
{
    uint64_t x;

    memcpy(&x, key.p, 8);
    return __builtin_bswap64(x);
}

static inline int64_t image_index(struct bytes key)
{
    uint64_t x;

    memcpy(&x, key.p + 8, 8);
    return (int64_t)__builtin_bswap64(x);
}

/* The wall time of the entry; of a damaged row 0. */
static inline int64_t image_wall_ms(struct bytes value)
{
    int64_t ms = 0;

    if (value.len >= IMAGE_HEAD_BYTES)
        memcpy(&ms, value.p + 16, 8);
    return ms;
}

#endif
