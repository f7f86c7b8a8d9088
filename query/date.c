/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "query/date.h"

#include <stdio.h>

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;

    return q - (a % b != 0 && (a < 0) != (b < 0));
}

/* Years are counted from March, so that the leap day is the last of its year; 400 years have
 * 146097 days. */
int64_t date_day_number(int64_t year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year, era = floor_div(y, 400), of_era = y - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void split_day(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day)
{
    int64_t z = days + 719468, era = floor_div(z, 146097), of_era = z - era * 146097;
    int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * y + y / 4 - y / 100), m = (5 * of_year + 2) / 153;

    *ret_day = (int)(of_year - (153 * m + 2) / 5 + 1);
    *ret_month = (int)(m < 10 ? m + 3 : m - 9);
    *ret_year = y + era * 400 + (*ret_month <= 2);
}

void date_split(int64_t ms, struct date_parts *ret)
{
    int64_t days = floor_div(ms, MS_DAY), rest = ms % MS_DAY;

    if (rest < 0)
        rest += MS_DAY;
    split_day(days, &ret->year, &ret->month, &ret->day);
    ret->hour = (int)(rest / MS_HOUR);
    ret->minute = (int)(rest / MS_MINUTE % 60);
    ret->second = (int)(rest / MS_SECOND % 60);
    ret->ms = (int)(rest % 1000);
}

static bool add_scaled(int64_t *sum, int64_t n, int64_t unit)
{
    int64_t x;

    return !__builtin_mul_overflow(n, unit, &x) && !__builtin_add_overflow(*sum, x, sum);
}

bool date_join(int64_t year, int64_t month, int64_t day, int64_t hour, int64_t minute,
               int64_t second, int64_t ms, int64_t *ret)
{
    int64_t sum = 0, carry, days;

    if (__builtin_sub_overflow(month, 1, &month))
        return false;
    carry = floor_div(month, 12);
    month -= carry * 12;
    if (__builtin_add_overflow(year, carry, &year) || year > 400000000 || year < -400000000)
        return false;
    days = date_day_number(year, (int)month + 1, 1);
    if (!add_scaled(&sum, days, MS_DAY) || __builtin_sub_overflow(day, 1, &day) ||
        !add_scaled(&sum, day, MS_DAY) || !add_scaled(&sum, hour, MS_HOUR) ||
        !add_scaled(&sum, minute, MS_MINUTE) || !add_scaled(&sum, second, MS_SECOND) ||
        !add_scaled(&sum, ms, 1))
        return false;
    *ret = sum;
    return true;
}

int date_days_in_month(int64_t year, int month)
{
    int64_t next =
        month == 12 ? date_day_number(year + 1, 1, 1) : date_day_number(year, month + 1, 1);

    return (int)(next - date_day_number(year, month, 1));
}

int date_weekday_of(int64_t day)
{
    day += 4; /* 1970-01-01 was a Thursday */
    return (int)(day - floor_div(day, 7) * 7);
}

int date_weekday(int64_t ms)
{
    return date_weekday_of(floor_div(ms, MS_DAY));
}

int date_day_of_year(int64_t ms)
{
    struct date_parts p;

    date_split(ms, &p);
    return (int)(floor_div(ms, MS_DAY) - date_day_number(p.year, 1, 1)) + 1;
}

int date_week(int64_t ms)
{
    return (date_day_of_year(ms) - 1 + 7 - date_weekday(ms)) / 7;
}

int64_t date_iso_year_start(int64_t year)
{
    int64_t fourth = date_day_number(year, 1, 4); /* always in week 1 */

    return fourth - (date_weekday_of(fourth) + 6) % 7;
}

int date_iso_week(int64_t ms, int64_t *ret_year)
{
    int64_t day = floor_div(ms, MS_DAY);
    struct date_parts p;

    date_split(ms, &p);
    if (day < date_iso_year_start(p.year))
        p.year--;
    else if (day >= date_iso_year_start(p.year + 1))
        p.year++;
    *ret_year = p.year;
    return (int)((day - date_iso_year_start(p.year)) / 7) + 1;
}

size_t date_iso_text(int64_t ms, char buf[static 40])
{
    struct date_parts p;

    date_split(ms, &p);
    return (size_t)snprintf(buf, 40, "%04lld-%02d-%02dT%02d:%02d:%02d.%03dZ", (long long)p.year,
                            p.month, p.day, p.hour, p.minute, p.second, p.ms);
}
