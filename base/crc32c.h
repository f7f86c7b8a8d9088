/* SPDX-License-Identifier: GPL-3.0-or-later */
/* CRC-32C (Castagnoli), as OP_MSG checksums use it: WiredTiger's public function. Any thread. */
#ifndef RUNNEL_BASE_CRC32C_H
#define RUNNEL_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *bytes, size_t len);

#endif
