/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reading dates from text: by a format, or in the forms that programs write: ISO 8601 in its long
 * and short spelling, 2024/01/31, 01/31/2024, "31 Jan 2024", "January 31, 2024", each with or
 * without a time and a zone.
 */
#include <strings.h>

#include "query/expr_date.h"

static const char *const month_names[] = {"January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December"};

struct reader {
    struct op *op;
    const char *start, *s, *end;
    int64_t year, month, day, hour, minute, second, ms;
    int64_t day_of_year, iso_year, iso_week, iso_day; /* 0: not given */
    struct tz tz;
    bool has_zone; /* the text names one */
};

static int fail(const struct reader *r, const char *why)
{
    return op_fail(r->op, ERR_CONVERSION_FAILURE, "Error parsing date string '%.*s'; %d: %s",
                   (int)(r->end - r->start < 200 ? r->end - r->start : 200), r->start,
                   (int)(r->s - r->start), why);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t left(const struct reader *r)
{
    return (size_t)(r->end - r->s);
}

/* How many digits stand here. */
static size_t digit_run(const struct reader *r)
{
    size_t n = 0;

    while (n < left(r) && is_digit(r->s[n]))
        n++;
    return n;
}

static bool at(const struct reader *r, char c)
{
    return r->s < r->end && *r->s == c;
}

static bool accept(struct reader *r, char c)
{
    if (!at(r, c))
        return false;
    r->s++;
    return true;
}

/* A number of min to max digits. */
static bool number(struct reader *r, size_t min, size_t max, int64_t *ret)
{
    size_t n = digit_run(r);
    int64_t x = 0;

    if (n < min)
        return false;
    if (n > max)
        n = max;
    for (size_t i = 0; i < n; i++)
        x = x * 10 + (*r->s++ - '0');
    *ret = x;
    return true;
}

static size_t letter_run(const struct reader *r)
{
    size_t n = 0;

    while (n < left(r) &&
           ((r->s[n] >= 'a' && r->s[n] <= 'z') || (r->s[n] >= 'A' && r->s[n] <= 'Z')))
        n++;
    return n;
}

/* A month's full name or its first three letters. */
static bool month_name(struct reader *r)
{
    size_t n = letter_run(r);

    for (int i = 0; i < 12; i++) {
        if ((n == 3 || n == strlen(month_names[i])) && strncasecmp(r->s, month_names[i], n) == 0) {
            r->month = i + 1;
            r->s += n;
            accept(r, '.');
            return true;
        }
    }
    return false;
}

static void skip_spaces(struct reader *r)
{
    while (accept(r, ' ') || accept(r, ','))
        ;
}

/* --- without a format
 * --------------------------------------------------------------------------------- */

static bool numeric_date(struct reader *r)
{
    size_t n = digit_run(r);

    if (n == 8)
        return number(r, 4, 4, &r->year) && number(r, 2, 2, &r->month) && number(r, 2, 2, &r->day);
    if (n == 4) {
        char sep;

        number(r, 4, 4, &r->year);
        if (!at(r, '-') && !at(r, '/'))
            return false;
        sep = *r->s++;
        return number(r, 1, 2, &r->month) && accept(r, sep) && number(r, 1, 2, &r->day);
    }
    if (n == 0 || n > 2)
        return false;
    number(r, 1, 2, &r->day);
    if (accept(r, '/')) {
        r->month = r->day;
        return number(r, 1, 2, &r->day) && accept(r, '/') && number(r, 4, 4, &r->year);
    }
    if (!accept(r, '-'))
        skip_spaces(r);
    if (!month_name(r))
        return false;
    if (!accept(r, '-'))
        skip_spaces(r);
    return number(r, 4, 4, &r->year);
}

static bool any_date(struct reader *r)
{
    static const char *const weekdays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};

    for (int i = 0; i < 7; i++) {
        if (letter_run(r) >= 3 && strncasecmp(r->s, weekdays[i], 3) == 0) {
            r->s += letter_run(r);
            skip_spaces(r);
        }
    }
    if (!month_name(r))
        return numeric_date(r);
    skip_spaces(r);
    if (!number(r, 1, 2, &r->day))
        return false;
    skip_spaces(r);
    return number(r, 4, 4, &r->year);
}

/* ".5" is 500 ms; digits beyond the third are dropped. */
static bool fraction(struct reader *r)
{
    int64_t unit = 100;

    if (digit_run(r) == 0)
        return false;
    for (; r->s < r->end && is_digit(*r->s); r->s++, unit /= 10)
        r->ms += (*r->s - '0') * unit;
    return true;
}

static bool any_time(struct reader *r)
{
    if (digit_run(r) == 4 || digit_run(r) == 6) {
        bool seconds = digit_run(r) == 6;

        return number(r, 2, 2, &r->hour) && number(r, 2, 2, &r->minute) &&
               (!seconds || number(r, 2, 2, &r->second));
    }
    if (!number(r, 1, 2, &r->hour) || !accept(r, ':') || !number(r, 2, 2, &r->minute))
        return false;
    if (accept(r, ':') && !number(r, 2, 2, &r->second))
        return false;
    if ((accept(r, '.') || accept(r, ',')) && !fraction(r))
        return false;
    skip_spaces(r);
    if (left(r) >= 2 && (strncasecmp(r->s, "am", 2) == 0 || strncasecmp(r->s, "pm", 2) == 0)) {
        if (r->hour < 1 || r->hour > 12)
            return false;
        r->hour = r->hour % 12 + (*r->s == 'p' || *r->s == 'P' ? 12 : 0);
        r->s += 2;
    }
    return true;
}

/* What is left of the text is a zone. */
static int any_zone(struct reader *r)
{
    skip_spaces(r);
    if (r->s == r->end)
        return 0;
    r->has_zone = true;
    if (left(r) == 1 && (*r->s == 'Z' || *r->s == 'z')) {
        r->tz = TZ_UTC;
    } else if (tz_find(r->op, r->s, left(r), &r->tz) != 0) {
        return fail(r, "The timezone could not be found in the database");
    }
    r->s = r->end;
    return 0;
}

static int read_free(struct reader *r)
{
    skip_spaces(r);
    if (!any_date(r))
        return fail(r, "not a date");
    if (accept(r, 'T') || accept(r, 't') || at(r, ' ')) {
        skip_spaces(r);
        if (r->s < r->end && is_digit(*r->s) && !any_time(r))
            return fail(r, "not a time");
    }
    return any_zone(r);
}

/* --- by a format
 * ----------------------------------------------------------------------------------------- */

/* "+0530", "+05:30", "+05" or "Z" for %z; minutes, "+330", for %Z */
static int format_zone(struct reader *r, bool minutes)
{
    const char *start = r->s;
    int64_t n;
    bool west;

    r->has_zone = true;
    if (!minutes) {
        if (at(r, '+') || at(r, '-')) {
            r->s++;
            while (r->s < r->end && (is_digit(*r->s) || *r->s == ':'))
                r->s++;
        } else {
            r->s += letter_run(r);
        }
        if (r->s - start == 1 && (*start == 'Z' || *start == 'z')) {
            r->tz = TZ_UTC;
            return 0;
        }
        if (tz_find(r->op, start, (size_t)(r->s - start), &r->tz) != 0)
            return fail(r, "The timezone could not be found in the database");
        return 0;
    }
    west = at(r, '-');
    if (!accept(r, '+') && !accept(r, '-'))
        return fail(r, "a number of minutes with its sign was expected");
    if (!number(r, 1, 4, &n))
        return fail(r, "a number of minutes was expected");
    r->tz = (struct tz){NULL, (int32_t)(west ? -n : n) * 60};
    return 0;
}

static int format_item(struct reader *r, char c)
{
    bool ok;

    switch (c) {
    case 'Y':
        ok = number(r, 4, 4, &r->year);
        break;
    case 'm':
        ok = number(r, 1, 2, &r->month);
        break;
    case 'd':
        ok = number(r, 1, 2, &r->day);
        break;
    case 'H':
        ok = number(r, 1, 2, &r->hour);
        break;
    case 'M':
        ok = number(r, 1, 2, &r->minute);
        break;
    case 'S':
        ok = number(r, 1, 2, &r->second);
        break;
    case 'L':
        ok = digit_run(r) <= 3 && fraction(r);
        break;
    case 'j':
        ok = number(r, 1, 3, &r->day_of_year);
        break;
    case 'G':
        ok = number(r, 4, 4, &r->iso_year);
        break;
    case 'V':
        ok = number(r, 1, 2, &r->iso_week);
        break;
    case 'u':
        ok = number(r, 1, 1, &r->iso_day);
        break;
    case 'b':
    case 'B':
        ok = month_name(r);
        break;
    case 'z':
    case 'Z':
        return format_zone(r, c == 'Z');
    case '%':
        ok = accept(r, '%');
        break;
    default:
        return op_fail(r->op, 18536, "Invalid format character '%%%c' in format string", c);
    }
    return ok ? 0 : fail(r, "does not match the format");
}

static int read_format(struct reader *r, const char *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (f[i] != '%') {
            if (!accept(r, f[i]))
                return fail(r, "does not match the format");
            continue;
        }
        if (++i == n)
            return op_fail(r->op, 18535, "Unmatched '%%' at end of format string");
        TRY_RETURN(format_item(r, f[i]));
    }
    return r->s == r->end ? 0 : fail(r, "Trailing data");
}

/* --- putting the date together
 * ------------------------------------------------------------------------------ */

static bool in_range(int64_t x, int64_t lo, int64_t hi)
{
    return x >= lo && x <= hi;
}

static int join(struct reader *r, int64_t *ret)
{
    int64_t local = 0;

    if (!in_range(r->hour, 0, 24) || !in_range(r->minute, 0, 59) || !in_range(r->second, 0, 60))
        return fail(r, "the time is out of range");
    if (r->iso_year > 0) {
        if (!in_range(r->iso_week, 0, 53) || !in_range(r->iso_day, 0, 7))
            return fail(r, "the week date is out of range");
        r->day = date_iso_year_start(r->iso_year) + (r->iso_week > 0 ? r->iso_week - 1 : 0) * 7 +
                 (r->iso_day > 0 ? r->iso_day : 1);
        r->year = 1970;
        r->month = 1;
    } else if (r->day_of_year > 0) {
        if (r->year < 0 || r->day_of_year > 366)
            return fail(r, "the day of the year is out of range");
        r->month = 1;
        r->day = r->day_of_year;
    } else if (r->year < 0 || r->month < 0 || r->day < 0) {
        return fail(r, "an incomplete date/time string has been found, with elements missing");
    } else if (!in_range(r->month, 1, 12) ||
               !in_range(r->day, 1, date_days_in_month(r->year, (int)r->month))) {
        return fail(r, "The parsed date was invalid");
    }
    if (!date_join(r->year, r->month, r->day, r->hour, r->minute, r->second, r->ms, &local))
        return fail(r, "the date is out of range");
    *ret = tz_to_utc(r->tz, local);
    return 0;
}

int date_from_text(struct op *op, const char *s, size_t n, const char *format, size_t format_n,
                   struct tz tz, bool has_tz, int64_t *ret_ms)
{
    struct reader r = {
        .op = op, .start = s, .s = s, .end = s + n, .year = -1, .month = -1, .day = -1, .tz = tz};

    if (format != NULL)
        TRY_RETURN(read_format(&r, format, format_n));
    else
        TRY_RETURN(read_free(&r));
    if (r.has_zone && has_tz)
        return fail(&r, "you cannot pass in a date/time string with time zone information together "
                        "with a timezone argument");
    return join(&r, ret_ms);
}
