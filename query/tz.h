/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Time zones: UTC offsets ("+05:30", "-08", "UTC", "GMT") and the zones of the system's tz
 * database by their names ("Europe/Paris"), read from its TZif files (RFC 8536) when first asked
 * for and kept for the life of the process. Any thread.
 */
#ifndef RUNNEL_QUERY_TZ_H
#define RUNNEL_QUERY_TZ_H

#include "base/op.h"

struct tz_zone;

/* Small and passed by value. */
struct tz {
    const struct tz_zone *zone; /* NULL: a fixed offset */
    int32_t offset_s;           /* east of UTC */
};

#define TZ_UTC ((struct tz){NULL, 0})

/* Error 40485 for a name that is no zone. */
int tz_find(struct op *op, const char *name, size_t len, struct tz *ret) MUST_CHECK;
/* What has to be added to UTC to get local time, at that moment; seconds. */
int32_t tz_offset(struct tz tz, int64_t utc_ms);
/* The moment of a local time. One that occurs twice is taken as the earlier; one that is skipped
 * moves on by the gap. */
int64_t tz_to_utc(struct tz tz, int64_t local_ms);
int64_t tz_to_local(struct tz tz, int64_t utc_ms);

/* Parses a TZif file's bytes; NULL when they are none. For tests and tz_find(). */
struct tz_zone *tz_parse(const uint8_t *bytes, size_t len, const char *name);
void tz_zone_free(struct tz_zone *z); /* NULL: nothing */

#endif
