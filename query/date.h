/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The calendar: milliseconds since 1970 to and from years, months and days (Gregorian, also before
 * it was introduced, no leap seconds), weeks, and MongoDB's date formats. Pure; any thread.
 */
#ifndef RUNNEL_QUERY_DATE_H
#define RUNNEL_QUERY_DATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MS_SECOND INT64_C(1000)
#define MS_MINUTE (60 * MS_SECOND)
#define MS_HOUR   (60 * MS_MINUTE)
#define MS_DAY    (24 * MS_HOUR)

struct date_parts {
    int64_t year;
    int month, day; /* from 1 */
    int hour, minute, second, ms;
};

void date_split(int64_t ms, struct date_parts *ret);
/* Parts may lie outside their ranges (month 13, day 0) and carry over. False: outside int64. */
bool date_join(int64_t year, int64_t month, int64_t day, int64_t hour, int64_t minute,
               int64_t second, int64_t ms, int64_t *ret);
/* Day number since 1970 of a date; month 1-12. */
int64_t date_day_number(int64_t year, int month, int day);
int date_days_in_month(int64_t year, int month);

int date_weekday(int64_t ms);     /* 0 = Sunday */
int date_weekday_of(int64_t day); /* of a day number */
int date_day_of_year(int64_t ms); /* from 1 */
int date_week(int64_t ms);        /* weeks begin on Sunday; days before the first: week 0 */
/* ISO 8601: weeks begin on Monday, week 1 has the year's first Thursday. */
int date_iso_week(int64_t ms, int64_t *ret_year);
/* Monday of an ISO year's week 1, as a day number. */
int64_t date_iso_year_start(int64_t year);

/* "2024-01-02T03:04:05.678Z"; NUL-terminated; returns the length. */
size_t date_iso_text(int64_t ms, char buf[static 40]);

#endif
