/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Date parts: $year and its kin, $dateToParts, $dateFromParts. */
#include "query/expr_date.h"

bool expr_date_of(struct bv v, int64_t *ret_ms)
{
    switch (v.type) {
    case BV_DATE:
        *ret_ms = bv_i64(v);
        return true;
    case BV_TIMESTAMP:
        *ret_ms = (int64_t)(bv_ts(v) >> 32) * 1000;
        return true;
    case BV_OID:
        *ret_ms = (int64_t)((uint32_t)v.p[0] << 24 | (uint32_t)v.p[1] << 16 |
                            (uint32_t)v.p[2] << 8 | v.p[3]) *
                  1000;
        return true;
    default:
        return false;
    }
}

int expr_date_coerce(struct eval *ev, struct bv v, int64_t *ret_ms)
{
    if (!expr_date_of(v, ret_ms))
        return op_fail(ev->op, 16006, "can't convert from BSON type %s to Date",
                       bv_type_name(v.type));
    return 0;
}

int expr_tz_arg(const struct expr *e, struct eval *ev, uint32_t i, struct tz *ret, bool *ret_null)
{
    const char *name;
    struct bv v;
    uint32_t n;

    *ret = TZ_UTC;
    *ret_null = false;
    if (i >= e->nargs || e->args[i] == NULL)
        return 0;
    TRY_RETURN(expr_eval(e->args[i], ev, &v));
    if (bv_is_nullish(v)) {
        *ret_null = true;
        return 0;
    }
    if (v.type != BV_STRING)
        return op_fail(ev->op, 40517, "timezone must evaluate to a string, found %s",
                       bv_type_name(v.type));
    name = bv_str(v, &n);
    return tz_find(ev->op, name, n, ret);
}

/* --- one part: args date, timezone
 * --------------------------------------------------------------------- */

/* An operand that is {date: ..., timezone: ...}, an expression, or an array with one of these. */
int parse_date_part(struct expr_parser *p, struct bv spec, struct expr *e)
{
    struct biter it;
    struct belem el;

    e->nargs = 2;
    e->args = ARENA_ARRAY(p->a, struct expr *, 2);
    if (spec.type == BV_ARRAY) {
        if (bv_count(spec) != 1)
            return op_fail(p->op, 40536,
                           "%s accepts exactly one argument if given an array, but was given %u",
                           expr_name(e), bv_count(spec));
        spec = bv_first(spec, &el);
        return expr_parse_operand(p, spec, &e->args[0]);
    }
    if (spec.type != BV_DOC || bv_empty(spec) || (bv_first(spec, &el), el.key[0] == '$'))
        return expr_parse_operand(p, spec, &e->args[0]);
    it = biter(spec);
    while (biter_next(&it, &el)) {
        if (strcmp(el.key, "date") == 0)
            TRY_RETURN(expr_parse_operand(p, el.v, &e->args[0]));
        else if (strcmp(el.key, "timezone") == 0)
            TRY_RETURN(expr_parse_operand(p, el.v, &e->args[1]));
        else
            return op_fail(p->op, 40535, "unrecognized option to %s: \"%s\"", expr_name(e), el.key);
    }
    if (e->args[0] == NULL)
        return op_fail(p->op, 40539, "missing 'date' argument to %s, provided: %s: %s",
                       expr_name(e), expr_name(e), bv_show(p->a, spec, 128));
    return 0;
}

/* The local time of operands date (0) and timezone (1). */
static int local_time(const struct expr *e, struct eval *ev, int64_t *ret_ms, bool *ret_null)
{
    struct tz tz;
    struct bv v;

    TRY_RETURN(expr_arg(e, 0, ev, &v));
    TRY_RETURN(expr_tz_arg(e, ev, 1, &tz, ret_null));
    if (bv_is_nullish(v))
        *ret_null = true;
    if (*ret_null)
        return 0;
    TRY_RETURN(expr_date_coerce(ev, v, ret_ms));
    *ret_ms = tz_to_local(tz, *ret_ms);
    return 0;
}

typedef int64_t (*part_fn)(int64_t ms, const struct date_parts *p);

static int part(const struct expr *e, struct eval *ev, part_fn fn, bool wide, struct bv *ret)
{
    struct date_parts p;
    bool null = false;
    int64_t ms = 0;

    TRY_RETURN(local_time(e, ev, &ms, &null));
    if (null) {
        *ret = bv_null;
        return 0;
    }
    date_split(ms, &p);
    *ret = number_from_i64(ev->scratch, fn(ms, &p), wide);
    return 0;
}

#define DATE_PART(name, wide, value)                                                               \
    static int64_t part_of_##name(int64_t ms, const struct date_parts *p)                          \
    {                                                                                              \
        (void)ms;                                                                                  \
        (void)p;                                                                                   \
        return (value);                                                                            \
    }                                                                                              \
    int name(const struct expr *e, struct eval *ev, struct bv *ret)                                \
    {                                                                                              \
        return part(e, ev, part_of_##name, (wide), ret);                                           \
    }

static int64_t iso_year(int64_t ms)
{
    int64_t year;

    date_iso_week(ms, &year);
    return year;
}

static int64_t iso_week(int64_t ms)
{
    int64_t year;

    return date_iso_week(ms, &year);
}

static int iso_weekday(int64_t ms)
{
    int day = date_weekday(ms);

    return day == 0 ? 7 : day;
}

DATE_PART(eval_year, false, p->year)
DATE_PART(eval_month, false, p->month)
DATE_PART(eval_day_of_month, false, p->day)
DATE_PART(eval_hour, false, p->hour)
DATE_PART(eval_minute, false, p->minute)
DATE_PART(eval_second, false, p->second)
DATE_PART(eval_millisecond, false, p->ms)
DATE_PART(eval_day_of_year, false, date_day_of_year(ms))
DATE_PART(eval_day_of_week, false, date_weekday(ms) + 1)
DATE_PART(eval_week, false, date_week(ms))
DATE_PART(eval_iso_week, false, iso_week(ms))
DATE_PART(eval_iso_week_year, true, iso_year(ms))
DATE_PART(eval_iso_day_of_week, false, iso_weekday(ms))

/* --- $dateToParts: args date, timezone, iso8601
 * ------------------------------------------------------------ */

int eval_date_to_parts(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct date_parts p;
    bool null = false;
    int64_t ms = 0;
    struct bv iso;
    struct bw w;

    TRY_RETURN(local_time(e, ev, &ms, &null));
    TRY_RETURN(expr_arg(e, 2, ev, &iso));
    if (e->args[2] != NULL && bv_is_nullish(iso))
        null = true;
    if (null) {
        *ret = bv_null;
        return 0;
    }
    if (e->args[2] != NULL && iso.type != BV_BOOL)
        return op_fail(ev->op, 40521, "iso8601 must evaluate to a bool, found %s",
                       bv_type_name(iso.type));
    date_split(ms, &p);
    bw_init(&w, ev->scratch);
    if (bv_truthy(iso)) {
        bw_i32(&w, "isoWeekYear", (int32_t)iso_year(ms));
        bw_i32(&w, "isoWeek", (int32_t)iso_week(ms));
        bw_i32(&w, "isoDayOfWeek", iso_weekday(ms));
    } else {
        bw_i32(&w, "year", (int32_t)p.year);
        bw_i32(&w, "month", p.month);
        bw_i32(&w, "day", p.day);
    }
    bw_i32(&w, "hour", p.hour);
    bw_i32(&w, "minute", p.minute);
    bw_i32(&w, "second", p.second);
    bw_i32(&w, "millisecond", p.ms);
    return expr_done(ev, &w, ret);
}

/* --- $dateFromParts
 * -------------------------------------------------------------------------------------------- */

/* In the order of the row's fields. */
enum {
    F_YEAR,
    F_MONTH,
    F_DAY,
    F_ISO_YEAR,
    F_ISO_WEEK,
    F_ISO_DAY,
    F_HOUR,
    F_MINUTE,
    F_SECOND,
    F_MS,
    F_TZ
};

static const char *const part_names[] = {"year",    "month",        "day",  "isoWeekYear",
                                         "isoWeek", "isoDayOfWeek", "hour", "minute",
                                         "second",  "millisecond"};

int parse_date_from_parts(struct expr_parser *p, struct bv spec, struct expr *e)
{
    struct biter it = biter(spec);
    struct belem el;

    if (spec.type != BV_DOC)
        return op_fail(p->op, 40519, "$dateFromParts only supports an object as its argument");
    e->nargs = F_TZ + 1;
    e->args = ARENA_ARRAY(p->a, struct expr *, F_TZ + 1);
    while (biter_next(&it, &el)) {
        int i = 0;

        while (i < F_TZ && strcmp(el.key, part_names[i]) != 0)
            i++;
        if (i == F_TZ && strcmp(el.key, "timezone") != 0)
            return op_fail(p->op, 40518, "Unrecognized argument to $dateFromParts: %s", el.key);
        TRY_RETURN(expr_parse_operand(p, el.v, &e->args[i]));
    }
    if (e->args[F_YEAR] == NULL && e->args[F_ISO_YEAR] == NULL)
        return op_fail(p->op, 40516,
                       "$dateFromParts requires either 'year' or 'isoWeekYear' to be present");
    if (e->args[F_YEAR] != NULL &&
        (e->args[F_ISO_YEAR] != NULL || e->args[F_ISO_WEEK] != NULL || e->args[F_ISO_DAY] != NULL))
        return op_fail(p->op, 40489,
                       "$dateFromParts does not allow mixing natural dates with ISO dates");
    if (e->args[F_ISO_YEAR] != NULL && (e->args[F_MONTH] != NULL || e->args[F_DAY] != NULL))
        return op_fail(p->op, 40525,
                       "$dateFromParts does not allow mixing ISO dates with natural dates");
    return 0;
}

static int number_part(const struct expr *e, struct eval *ev, int i, int64_t *ret, bool *ret_null)
{
    bool year = i == F_YEAR || i == F_ISO_YEAR;
    struct bv v;

    if (e->args[i] == NULL)
        return 0;
    TRY_RETURN(expr_eval(e->args[i], ev, &v));
    if (bv_is_nullish(v)) {
        *ret_null = true;
        return 0;
    }
    if (!bv_to_i64_exact(v, ret))
        return op_fail(ev->op, 40515, "'%s' must evaluate to an integer, found %s with value :%s",
                       part_names[i], bv_type_name(v.type), bv_show(ev->scratch, v, 64));
    if (year && (*ret < 1 || *ret > 9999))
        return op_fail(ev->op, i == F_YEAR ? 40523 : 31095,
                       "'%s' must evaluate to an integer in the range 1 to 9999, found %lld",
                       part_names[i], (long long)*ret);
    if (!year && (*ret < -32768 || *ret > 32767))
        return op_fail(ev->op, 31034,
                       "'%s' must evaluate to a value in the range [-32768, 32767]; value %lld is "
                       "not in range",
                       part_names[i], (long long)*ret);
    return 0;
}

int eval_date_from_parts(const struct expr *e, struct eval *ev, struct bv *ret)
{
    int64_t n[F_TZ] = {1970, 1, 1, 1970, 1, 1, 0, 0, 0, 0}, ms = 0;
    bool null = false, null_tz, ok;
    struct tz tz;

    for (int i = 0; i < F_TZ; i++)
        TRY_RETURN(number_part(e, ev, i, &n[i], &null));
    TRY_RETURN(expr_tz_arg(e, ev, F_TZ, &tz, &null_tz));
    if (null || null_tz) {
        *ret = bv_null;
        return 0;
    }
    if (e->args[F_ISO_YEAR] != NULL) {
        int64_t day = date_iso_year_start(n[F_ISO_YEAR]) + (n[F_ISO_WEEK] - 1) * 7 + n[F_ISO_DAY];

        ok = date_join(1970, 1, day, n[F_HOUR], n[F_MINUTE], n[F_SECOND], n[F_MS], &ms);
    } else {
        ok = date_join(n[F_YEAR], n[F_MONTH], n[F_DAY], n[F_HOUR], n[F_MINUTE], n[F_SECOND],
                       n[F_MS], &ms);
    }
    if (!ok)
        return op_fail(ev->op, ERR_OVERFLOW, "$dateFromParts gives a date out of range");
    *ret = bv_new_date(ev->scratch, tz_to_utc(tz, ms));
    return 0;
}
