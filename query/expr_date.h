/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the files of date operators share. */
#ifndef RUNNEL_QUERY_EXPR_DATE_H
#define RUNNEL_QUERY_EXPR_DATE_H

#include "query/date.h"
#include "query/expr_op.h"
#include "query/tz.h"

/* A date out of a date, timestamp or ObjectId; false for other types. */
bool expr_date_of(struct bv v, int64_t *ret_ms);
/* The same, with error 16006. */
int expr_date_coerce(struct eval *ev, struct bv v, int64_t *ret_ms) MUST_CHECK;
/* Operand i as a time zone: UTC when not given; *ret_null when it is null. 40517 for no string. */
int expr_tz_arg(const struct expr *e, struct eval *ev, uint32_t i, struct tz *ret,
                bool *ret_null) MUST_CHECK;

enum time_unit {
    UNIT_YEAR,
    UNIT_QUARTER,
    UNIT_MONTH,
    UNIT_WEEK,
    UNIT_DAY,
    UNIT_HOUR,
    UNIT_MINUTE,
    UNIT_SECOND,
    UNIT_MS,
};
/* "hour", "day", ... (no plurals); FailedToParse for other strings, 5439013 for other types. */
int time_unit_parse(struct eval *ev, const char *name, struct bv v, enum time_unit *ret) MUST_CHECK;

/* Parses a date string, by a format (NULL: the forms of ISO 8601 and a few others). `tz` is used
 * where the string names no zone of its own; has_tz: it was given, so a zone in the string is an
 * error. ERR_CONVERSION_FAILURE. */
int date_from_text(struct op *op, const char *s, size_t n, const char *format, size_t format_n,
                   struct tz tz, bool has_tz, int64_t *ret_ms) MUST_CHECK;

#endif
