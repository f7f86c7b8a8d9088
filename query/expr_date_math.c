/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * $dateAdd, $dateSubtract, $dateDiff, $dateTrunc. Days and longer units are counted on the local
 * calendar of the time zone, shorter ones on the clock that never jumps.
 */
#include "query/expr_date.h"

static const char *const unit_names[] = {"year", "quarter", "month",  "week",       "day",
                                         "hour", "minute",  "second", "millisecond"};
/* of UNIT_WEEK and shorter */
static const int64_t unit_ms[] = {0, 0, 0, 7 * MS_DAY, MS_DAY, MS_HOUR, MS_MINUTE, MS_SECOND, 1};

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;

    return q - (a % b != 0 && (a < 0) != (b < 0));
}

int time_unit_parse(struct eval *ev, const char *name, struct bv v, enum time_unit *ret)
{
    if (v.type != BV_STRING)
        return op_fail(ev->op, 5439013, "%s requires 'unit' to be a string, but got %s", name,
                       bv_type_name(v.type));
    for (int i = UNIT_YEAR; i <= UNIT_MS; i++) {
        if (bv_str_is(v, unit_names[i])) {
            *ret = (enum time_unit)i;
            return 0;
        }
    }
    return op_fail(ev->op, ERR_FAILED_TO_PARSE,
                   "%s parameter 'unit' value cannot be recognized as "
                   "a time unit: %s",
                   name, bv_show(ev->scratch, v, 64));
}

/* 0 = Sunday; MongoDB takes full names and three letters, in any case. */
static int week_start(const struct expr *e, struct eval *ev, uint32_t i, int *ret, bool *ret_null)
{
    static const char *const days[] = {"sunday",   "monday", "tuesday", "wednesday",
                                       "thursday", "friday", "saturday"};
    const char *s;
    struct bv v;
    uint32_t n;

    *ret = 0;
    if (e->args[i] == NULL)
        return 0;
    TRY_RETURN(expr_eval(e->args[i], ev, &v));
    if (bv_is_nullish(v)) {
        *ret_null = true;
        return 0;
    }
    if (v.type != BV_STRING)
        return op_fail(ev->op, 5439015, "%s requires 'startOfWeek' to be a string, but got %s",
                       expr_name(e), bv_type_name(v.type));
    s = bv_str(v, &n);
    for (int day = 0; day < 7; day++) {
        if ((n == 3 && strncasecmp(s, days[day], 3) == 0) ||
            (n == strlen(days[day]) && strncasecmp(s, days[day], n) == 0)) {
            *ret = day;
            return 0;
        }
    }
    return op_fail(ev->op, ERR_FAILED_TO_PARSE,
                   "%s parameter 'startOfWeek' value cannot be recognized as a day of a week: %s",
                   expr_name(e), bv_show(ev->scratch, v, 64));
}

/* The unit operand; *ret_null when it is null. */
static int unit_arg(const struct expr *e, struct eval *ev, uint32_t i, enum time_unit *ret,
                    bool *ret_null)
{
    struct bv v;

    TRY_RETURN(expr_arg(e, i, ev, &v));
    if (bv_is_nullish(v)) {
        *ret_null = true;
        return 0;
    }
    return time_unit_parse(ev, expr_name(e), v, ret);
}

/* A date operand, with the operator's own code. */
static int date_arg(const struct expr *e, struct eval *ev, uint32_t i, const char *what, int code,
                    int64_t *ret, bool *ret_null)
{
    struct bv v;

    TRY_RETURN(expr_arg(e, i, ev, &v));
    if (bv_is_nullish(v)) {
        *ret_null = true;
        return 0;
    }
    if (!expr_date_of(v, ret))
        return op_fail(ev->op, code, "%s requires '%s' to be a date, but got %s", expr_name(e),
                       what, bv_type_name(v.type));
    return 0;
}

/* --- $dateAdd $dateSubtract: args startDate, unit, amount, timezone
 * ------------------------------------------ */

static bool add_months(int64_t local, int64_t months, int64_t *ret)
{
    struct date_parts p;
    int64_t total, year;
    int month, last;

    date_split(local, &p);
    if (__builtin_add_overflow(p.year * 12 + p.month - 1, months, &total))
        return false;
    year = floor_div(total, 12);
    month = (int)(total - year * 12) + 1;
    if (year > 400000000 || year < -400000000)
        return false;
    last = date_days_in_month(year, month);
    return date_join(year, month, p.day < last ? p.day : last, p.hour, p.minute, p.second, p.ms,
                     ret);
}

static bool date_plus(int64_t date, enum time_unit unit, int64_t amount, struct tz tz, int64_t *ret)
{
    static const int64_t months[] = {12, 3, 1};
    int64_t ms;

    if (unit <= UNIT_MONTH) {
        if (__builtin_mul_overflow(amount, months[unit], &amount) ||
            !add_months(tz_to_local(tz, date), amount, &ms))
            return false;
        *ret = tz_to_utc(tz, ms);
        return true;
    }
    if (__builtin_mul_overflow(amount, unit_ms[unit], &ms))
        return false;
    if (unit > UNIT_DAY)
        return !__builtin_add_overflow(date, ms, ret);
    if (__builtin_add_overflow(tz_to_local(tz, date), ms, &ms))
        return false;
    *ret = tz_to_utc(tz, ms);
    return true;
}

static int shift(const struct expr *e, struct eval *ev, bool back, struct bv *ret)
{
    bool null = false, null_tz;
    enum time_unit unit = UNIT_MS;
    int64_t date = 0, amount = 0;
    struct tz tz;
    struct bv v;

    TRY_RETURN(date_arg(e, ev, 0, "startDate", 5166403, &date, &null));
    TRY_RETURN(unit_arg(e, ev, 1, &unit, &null));
    TRY_RETURN(expr_arg(e, 2, ev, &v));
    TRY_RETURN(expr_tz_arg(e, ev, 3, &tz, &null_tz));
    if (null || null_tz || bv_is_nullish(v)) {
        *ret = bv_null;
        return 0;
    }
    if (!bv_to_i64_exact(v, &amount))
        return op_fail(ev->op, 5166405, "%s expects integer amount of time units", expr_name(e));
    if (back && __builtin_sub_overflow((int64_t)0, amount, &amount))
        return op_fail(ev->op, 6045000, "invalid %s 'amount' parameter value", expr_name(e));
    if (!date_plus(date, unit, amount, tz, &date))
        return op_fail(ev->op, 5166406, "%s overflowed", expr_name(e));
    *ret = bv_new_date(ev->scratch, date);
    return 0;
}

int eval_date_add(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return shift(e, ev, false, ret);
}

int eval_date_subtract(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return shift(e, ev, true, ret);
}

/* --- $dateDiff: args startDate, endDate, unit, timezone, startOfWeek
 * ------------------------------------------- */

static int64_t month_number(int64_t local)
{
    struct date_parts p;

    date_split(local, &p);
    return p.year * 12 + p.month - 1;
}

/* Number of the week; weeks begin on `first` (0 = Sunday). 1970-01-01 was a Thursday. */
static int64_t week_number(int64_t local, int first)
{
    return floor_div(floor_div(local, MS_DAY) + 4 - first, 7);
}

/* How many beginnings of the unit lie between two moments. */
static int64_t boundaries(int64_t start, int64_t end, enum time_unit unit, struct tz tz, int first)
{
    int64_t a = tz_to_local(tz, start), b = tz_to_local(tz, end), turned;

    switch (unit) {
    case UNIT_YEAR:
        return floor_div(month_number(b), 12) - floor_div(month_number(a), 12);
    case UNIT_QUARTER:
        return floor_div(month_number(b), 3) - floor_div(month_number(a), 3);
    case UNIT_MONTH:
        return month_number(b) - month_number(a);
    case UNIT_WEEK:
        return week_number(b, first) - week_number(a, first);
    case UNIT_DAY:
        return floor_div(b, MS_DAY) - floor_div(a, MS_DAY);
    case UNIT_MS:
        return end - start;
    default:
        /* What the clock was turned by does not count. */
        turned = ((int64_t)tz_offset(tz, end) - tz_offset(tz, start)) * 1000;
        return floor_div(b, unit_ms[unit]) - floor_div(a, unit_ms[unit]) - turned / unit_ms[unit];
    }
}

int eval_date_diff(const struct expr *e, struct eval *ev, struct bv *ret)
{
    bool null = false, null_tz;
    enum time_unit unit = UNIT_MS;
    int64_t start = 0, end = 0, ms;
    struct tz tz;
    int first;

    TRY_RETURN(date_arg(e, ev, 0, "startDate", 5166307, &start, &null));
    TRY_RETURN(date_arg(e, ev, 1, "endDate", 5166307, &end, &null));
    TRY_RETURN(unit_arg(e, ev, 2, &unit, &null));
    TRY_RETURN(expr_tz_arg(e, ev, 3, &tz, &null_tz));
    TRY_RETURN(week_start(e, ev, 4, &first, &null));
    if (null || null_tz) {
        *ret = bv_null;
        return 0;
    }
    if (__builtin_sub_overflow(end, start, &ms))
        return op_fail(ev->op, 5166308, "dateDiff overflowed");
    *ret = bv_new_i64(ev->scratch, boundaries(start, end, unit, tz, first));
    return 0;
}

/* --- $dateTrunc: args date, unit, binSize, timezone, startOfWeek
 * -------------------------------------------------- */

/* Bins are counted from the year 2000, weeks from its first week start. */
static bool truncate_to(int64_t date, enum time_unit unit, int64_t bin, struct tz tz, int first,
                        int64_t *ret)
{
    static const int64_t months[] = {12, 3, 1};
    int64_t reference = date_day_number(2000, 1, 1) * MS_DAY, local = tz_to_local(tz, date), size;
    int64_t n;

    if (unit <= UNIT_MONTH) {
        if (__builtin_mul_overflow(bin, months[unit], &size))
            return false;
        n = floor_div(month_number(local) - 2000 * 12, size) * size + 2000 * 12;
        if (!date_join(floor_div(n, 12), n - floor_div(n, 12) * 12 + 1, 1, 0, 0, 0, 0, &n))
            return false;
        *ret = tz_to_utc(tz, n);
        return true;
    }
    if (__builtin_mul_overflow(bin, unit_ms[unit], &size))
        return false;
    if (unit == UNIT_WEEK)
        reference += ((first - date_weekday(reference) + 7) % 7) * MS_DAY;
    if (unit > UNIT_DAY) {
        reference = tz_to_utc(tz, reference);
        local = date;
    }
    if (__builtin_sub_overflow(local, reference, &n))
        return false;
    n = floor_div(n, size);
    if (__builtin_mul_overflow(n, size, &n) || __builtin_add_overflow(n, reference, &n))
        return false;
    *ret = unit > UNIT_DAY ? n : tz_to_utc(tz, n);
    return true;
}

int eval_date_trunc(const struct expr *e, struct eval *ev, struct bv *ret)
{
    bool null = false, null_tz;
    enum time_unit unit = UNIT_MS;
    int64_t date = 0, bin = 1;
    struct tz tz;
    struct bv v;
    int first;

    TRY_RETURN(date_arg(e, ev, 0, "date", 5439012, &date, &null));
    TRY_RETURN(unit_arg(e, ev, 1, &unit, &null));
    TRY_RETURN(expr_arg(e, 2, ev, &v));
    TRY_RETURN(expr_tz_arg(e, ev, 3, &tz, &null_tz));
    TRY_RETURN(week_start(e, ev, 4, &first, &null));
    if (null || null_tz || (e->args[2] != NULL && bv_is_nullish(v))) {
        *ret = bv_null;
        return 0;
    }
    if (e->args[2] != NULL && !bv_to_i64_exact(v, &bin))
        return op_fail(
            ev->op, 5439017,
            "$dateTrunc requires 'binSize' to be a 64-bit integer, but got value '%s' of "
            "type %s",
            bv_show(ev->scratch, v, 64), bv_type_name(v.type));
    if (bin <= 0)
        return op_fail(ev->op, 5439018,
                       "$dateTrunc requires 'binSize' to be greater than 0, but got value %lld",
                       (long long)bin);
    if (!truncate_to(date, unit, bin, tz, first, &date))
        return op_fail(ev->op, 5439004, "$dateTrunc overflowed");
    *ret = bv_new_date(ev->scratch, date);
    return 0;
}
