/* SPDX-License-Identifier: GPL-3.0-or-later */
/* $dateToString and $dateFromString. */
#include <stdio.h>

#include "query/expr_date.h"

/* --- $dateToString: args date, format, timezone, onNull
 * ------------------------------------------------ */

struct moment {
    int64_t local;
    int32_t offset_s;
    struct date_parts p;
};

/* One format item; returns its length, or -1 for an unknown one. */
static int format_item(char c, const struct moment *m, char out[static 32])
{
    static const char *const months[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};
    int minutes = m->offset_s / 60, abs = minutes < 0 ? -minutes : minutes, weekday;
    int64_t iso_year;
    int iso_week = date_iso_week(m->local, &iso_year);

    weekday = date_weekday(m->local);
    switch (c) {
    case 'd':
        return snprintf(out, 32, "%02d", m->p.day);
    case 'G':
        return snprintf(out, 32, "%04lld", (long long)iso_year);
    case 'H':
        return snprintf(out, 32, "%02d", m->p.hour);
    case 'j':
        return snprintf(out, 32, "%03d", date_day_of_year(m->local));
    case 'L':
        return snprintf(out, 32, "%03d", m->p.ms);
    case 'm':
        return snprintf(out, 32, "%02d", m->p.month);
    case 'M':
        return snprintf(out, 32, "%02d", m->p.minute);
    case 'S':
        return snprintf(out, 32, "%02d", m->p.second);
    case 'w':
        return snprintf(out, 32, "%d", weekday + 1);
    case 'u':
        return snprintf(out, 32, "%d", weekday == 0 ? 7 : weekday);
    case 'U':
        return snprintf(out, 32, "%02d", date_week(m->local));
    case 'V':
        return snprintf(out, 32, "%02d", iso_week);
    case 'Y':
        return snprintf(out, 32, "%04lld", (long long)m->p.year);
    case 'b':
        return snprintf(out, 32, "%.3s", months[m->p.month - 1]);
    case 'B':
        return snprintf(out, 32, "%s", months[m->p.month - 1]);
    case 'z':
        return snprintf(out, 32, "%c%02d%02d", minutes < 0 ? '-' : '+', abs / 60, abs % 60);
    case 'Z':
        return snprintf(out, 32, "%+d", minutes);
    case '%':
        return snprintf(out, 32, "%%");
    default:
        return -1;
    }
}

static int format_date(struct eval *ev, const char *f, size_t n, const struct moment *m,
                       struct bv *ret)
{
    size_t cap = n * 10 + 1, len = 0; /* no item is longer than ten times its two bytes */
    char *out, item[32];

    if (n > LIMIT_INTERNAL_BYTES / 10)
        return op_fail(ev->op, ERR_BSON_TOO_LARGE, "a date format of %zu bytes is too large", n);
    out = arena_try(ev->scratch, cap);
    if (out == NULL)
        return op_fail(ev->op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory formatting a date");
    for (size_t i = 0; i < n; i++) {
        int size = 1;

        item[0] = f[i];
        if (f[i] == '%') {
            if (++i == n)
                return op_fail(ev->op, 18535, "Unmatched '%%' at end of format string");
            size = format_item(f[i], m, item);
            if (size < 0)
                return op_fail(ev->op, 18536, "Invalid format character '%%%c' in format string",
                               f[i]);
        }
        memcpy(out + len, item, (size_t)size);
        len += (size_t)size;
    }
    return expr_string(ev, out, len, ret);
}

int eval_date_to_string(const struct expr *e, struct eval *ev, struct bv *ret)
{
    static const char utc_format[] = "%Y-%m-%dT%H:%M:%S.%LZ",
                      local_format[] = "%Y-%m-%dT%H:%M:%S.%L";
    struct bv date, format;
    struct moment m;
    struct tz tz;
    const char *f;
    bool null;
    int64_t ms;
    uint32_t n;

    TRY_RETURN(expr_arg(e, 0, ev, &date));
    TRY_RETURN(expr_arg(e, 1, ev, &format));
    TRY_RETURN(expr_tz_arg(e, ev, 2, &tz, &null));
    if (e->args[1] != NULL && !bv_is_nullish(format) && format.type != BV_STRING)
        return op_fail(ev->op, 18533,
                       "$dateToString requires that 'format' be a string, found: %s with value %s",
                       bv_type_name(format.type), bv_show(ev->scratch, format, 64));
    if (bv_is_nullish(date) && e->args[3] != NULL)
        return expr_eval(e->args[3], ev, ret);
    if (null || bv_is_nullish(date) || (e->args[1] != NULL && bv_is_nullish(format))) {
        *ret = bv_null;
        return 0;
    }
    TRY_RETURN(expr_date_coerce(ev, date, &ms));
    m.offset_s = tz_offset(tz, ms);
    m.local = tz_to_local(tz, ms);
    date_split(m.local, &m.p);
    if (m.p.year < 0 || m.p.year > 9999)
        return op_fail(ev->op, 18537,
                       "$dateToString is only defined on year 0-9999, tried to use year %lld",
                       (long long)m.p.year);
    if (e->args[1] == NULL) {
        bool utc = tz.zone == NULL && tz.offset_s == 0;

        f = utc ? utc_format : local_format;
        n = (uint32_t)strlen(f);
    } else {
        f = bv_str(format, &n);
    }
    return format_date(ev, f, n, &m, ret);
}

/* --- $dateFromString: args dateString, format, timezone, onError, onNull
 * -------------------------------- */

int eval_date_from_string(const struct expr *e, struct eval *ev, struct bv *ret)
{
    const char *text, *f = NULL;
    struct bv string, format;
    uint32_t n, fn = 0;
    struct tz tz;
    bool null;
    int64_t ms;
    int rc;

    TRY_RETURN(expr_arg(e, 0, ev, &string));
    TRY_RETURN(expr_arg(e, 1, ev, &format));
    TRY_RETURN(expr_tz_arg(e, ev, 2, &tz, &null));
    if (bv_is_nullish(string) && e->args[4] != NULL)
        return expr_eval(e->args[4], ev, ret);
    if (null || bv_is_nullish(string) || (e->args[1] != NULL && bv_is_nullish(format))) {
        *ret = bv_null;
        return 0;
    }
    if (e->args[1] != NULL && format.type != BV_STRING)
        return op_fail(
            ev->op, 40684,
            "$dateFromString requires that 'format' be a string, found: %s with value %s",
            bv_type_name(format.type), bv_show(ev->scratch, format, 64));
    if (string.type != BV_STRING) {
        if (e->args[3] != NULL)
            return expr_eval(e->args[3], ev, ret);
        return op_fail(
            ev->op, ERR_CONVERSION_FAILURE,
            "$dateFromString requires that 'dateString' be a string, found: %s with value "
            "%s",
            bv_type_name(string.type), bv_show(ev->scratch, string, 64));
    }
    text = bv_str(string, &n);
    if (e->args[1] != NULL)
        f = bv_str(format, &fn);
    rc = date_from_text(ev->op, text, n, f, fn, tz, e->args[2] != NULL, &ms);
    if (rc == ERR_CONVERSION_FAILURE && e->args[3] != NULL)
        return expr_eval(e->args[3], ev, ret);
    if (rc == 0)
        *ret = bv_new_date(ev->scratch, ms);
    return rc;
}
