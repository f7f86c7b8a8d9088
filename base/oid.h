/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Generated ObjectIds: seconds, five random bytes of this process, a counter. Any thread. */
#ifndef RUNNEL_BASE_OID_H
#define RUNNEL_BASE_OID_H

#include <stdint.h>

void oid_new(uint8_t ret[12]);

#endif
