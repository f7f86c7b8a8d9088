/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A zone is its list of transitions and, for times behind the last one, the rule of the file's
 * footer (a POSIX TZ string such as "CET-1CEST,M3.5.0,M10.5.0/3").
 *
 * Zones that were read stay in a list that only grows; a file that is not there is not remembered,
 * so the list is bounded by the number of zones that exist.
 */
#include "query/tz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "query/date.h"

/* Beyond it local times might not fit; offsets there are those at this point. */
#define TIME_MAX (INT64_MAX - 4 * MS_DAY)

#define ZONE_DIR            "/usr/share/zoneinfo/"
#define ZONE_NAME_MAX       64
#define ZONE_FILE_MAX       (256 * 1024)
#define ZONE_TRANSITION_MAX 20000

/* When daylight saving time begins or ends: "M3.5.0/2", "J60", "59". */
struct rule {
    enum { RULE_MONTH, RULE_JULIAN, RULE_DAY } kind;
    int month, week, weekday; /* RULE_MONTH; week 5: the last one */
    int day;                  /* RULE_JULIAN: 1-365, no leap days; RULE_DAY: 0-365 */
    int32_t time_s;           /* local time of day */
};

struct tz_zone {
    struct tz_zone *next;
    char name[ZONE_NAME_MAX];
    size_t n;
    int64_t *at_s;    /* transitions, UTC seconds */
    int32_t *after_s; /* offset from then on */
    int32_t first_s;  /* offset before the first */
    bool has_footer, has_dst;
    int32_t std_s, dst_s; /* of the footer */
    struct rule start, end;
};

/* --- the footer
 * ------------------------------------------------------------------------------------- */

/* "EST" or "<+03>" */
static const char *skip_abbreviation(const char *s)
{
    if (*s == '<') {
        s = strchr(s, '>');
        return s != NULL ? s + 1 : NULL;
    }
    while ((*s >= 'A' && *s <= 'Z') || (*s >= 'a' && *s <= 'z'))
        s++;
    return s;
}

/* "[+-]h[h[h]][:mm[:ss]]"; NULL when it is not there */
static const char *parse_time(const char *s, int32_t *ret_s)
{
    int part[3] = {0, 0, 0}, sign = 1;

    if (*s == '+' || *s == '-')
        sign = *s++ == '-' ? -1 : 1;
    for (int i = 0; i < 3; i++) {
        if (*s < '0' || *s > '9')
            return NULL;
        for (int digits = 0; digits < 3 && *s >= '0' && *s <= '9'; digits++)
            part[i] = part[i] * 10 + (*s++ - '0');
        if (*s != ':')
            break;
        s++;
    }
    *ret_s = sign * (part[0] * 3600 + part[1] * 60 + part[2]);
    return s;
}

static const char *parse_int(const char *s, int *ret)
{
    char *end;
    long n = strtol(s, &end, 10);

    if (end == s || n < 0 || n > 366)
        return NULL;
    *ret = (int)n;
    return end;
}

static const char *parse_month_rule(const char *s, struct rule *r)
{
    r->kind = RULE_MONTH;
    if ((s = parse_int(s, &r->month)) == NULL || *s != '.')
        return NULL;
    if ((s = parse_int(s + 1, &r->week)) == NULL || *s != '.')
        return NULL;
    if ((s = parse_int(s + 1, &r->weekday)) == NULL)
        return NULL;
    if (r->month < 1 || r->month > 12 || r->week < 1 || r->week > 5 || r->weekday > 6)
        return NULL;
    return s;
}

static const char *parse_rule(const char *s, struct rule *r)
{
    if (*s == 'M') {
        s = parse_month_rule(s + 1, r);
    } else {
        r->kind = *s == 'J' ? RULE_JULIAN : RULE_DAY;
        s = parse_int(*s == 'J' ? s + 1 : s, &r->day);
    }
    r->time_s = 2 * 3600;
    if (s != NULL && *s == '/')
        s = parse_time(s + 1, &r->time_s);
    return s;
}

static bool parse_footer(const char *s, struct tz_zone *z)
{
    s = skip_abbreviation(s);
    if (s == NULL || (s = parse_time(s, &z->std_s)) == NULL)
        return false;
    z->std_s = -z->std_s; /* POSIX counts westward */
    if (*s == '\0')
        return true;
    s = skip_abbreviation(s);
    if (s == NULL)
        return false;
    z->dst_s = z->std_s + 3600;
    if (*s != ',') {
        if ((s = parse_time(s, &z->dst_s)) == NULL)
            return false;
        z->dst_s = -z->dst_s;
    }
    if (*s != ',' || (s = parse_rule(s + 1, &z->start)) == NULL)
        return false;
    if (*s != ',' || (s = parse_rule(s + 1, &z->end)) == NULL || *s != '\0')
        return false;
    z->has_dst = true;
    return true;
}

/* Local seconds since 1970 at which the rule strikes in a year. */
static int64_t rule_local_s(const struct rule *r, int64_t year)
{
    int64_t first, day;
    bool leap = date_days_in_month(year, 2) == 29;

    switch (r->kind) {
    case RULE_MONTH:
        first = date_day_number(year, r->month, 1);
        day = first + (r->weekday - date_weekday_of(first) + 7) % 7 + (r->week - 1) * 7;
        while (day >= first + date_days_in_month(year, r->month))
            day -= 7;
        break;
    case RULE_JULIAN:
        day = date_day_number(year, 1, 1) + r->day - 1 + (leap && r->day >= 60);
        break;
    default:
        day = date_day_number(year, 1, 1) + r->day;
    }
    return day * (MS_DAY / 1000) + r->time_s;
}

static int32_t footer_offset(const struct tz_zone *z, int64_t utc_s)
{
    struct date_parts p;
    int64_t start, end;
    bool dst;

    if (!z->has_dst)
        return z->std_s;
    date_split((utc_s + z->std_s) * 1000, &p);
    start = rule_local_s(&z->start, p.year) - z->std_s;
    end = rule_local_s(&z->end, p.year) - z->dst_s;
    dst = start < end ? utc_s >= start && utc_s < end : utc_s >= start || utc_s < end;
    return dst ? z->dst_s : z->std_s;
}

/* --- the file
 * ---------------------------------------------------------------------------------------- */

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t be64(const uint8_t *p)
{
    return (int64_t)((uint64_t)be32(p) << 32 | be32(p + 4));
}

struct header {
    uint32_t isut, isstd, leap, time, type, chars;
};

#define HEADER_BYTES 44u

static bool read_header(const uint8_t *p, size_t len, struct header *ret)
{
    if (len < HEADER_BYTES || memcmp(p, "TZif", 4) != 0)
        return false;
    *ret = (struct header){be32(p + 20), be32(p + 24), be32(p + 28),
                           be32(p + 32), be32(p + 36), be32(p + 40)};
    return ret->time <= ZONE_TRANSITION_MAX && ret->type <= 256 && ret->type > 0 &&
           ret->chars <= 4096 && ret->leap <= 4096 && ret->isut <= 256 && ret->isstd <= 256;
}

static size_t data_bytes(const struct header *h, size_t time_size)
{
    return h->time * (time_size + 1) + h->type * 6 + h->chars + h->leap * (time_size + 4) +
           h->isstd + h->isut;
}

static bool read_transitions(const uint8_t *p, const struct header *h, struct tz_zone *z)
{
    const uint8_t *index = p + h->time * 8, *types = index + h->time;

    z->n = h->time;
    z->at_s = mem_must_zero(h->time + 1, sizeof(*z->at_s));
    z->after_s = mem_must_zero(h->time + 1, sizeof(*z->after_s));
    z->first_s = (int32_t)be32(types);
    for (uint32_t i = 0; i < h->time; i++) {
        if (index[i] >= h->type)
            return false;
        z->at_s[i] = be64(p + i * 8);
        z->after_s[i] = (int32_t)be32(types + index[i] * 6);
        if (i > 0 && z->at_s[i] <= z->at_s[i - 1])
            return false;
    }
    return true;
}

/* "\n<TZ string>\n" behind the data */
static void read_footer(const uint8_t *p, size_t len, struct tz_zone *z)
{
    const uint8_t *end;
    char text[128];

    if (len < 2 || p[0] != '\n')
        return;
    end = memchr(p + 1, '\n', len - 1);
    if (end == NULL || end == p + 1 || (size_t)(end - p) > sizeof(text))
        return;
    memcpy(text, p + 1, (size_t)(end - p - 1));
    text[end - p - 1] = '\0';
    z->has_footer = parse_footer(text, z);
}

struct tz_zone *tz_parse(const uint8_t *bytes, size_t len, const char *name)
{
    struct tz_zone *z;
    struct header h;
    size_t skip;

    /* The first block, with 32-bit times, is only passed over: version 2 repeats it with 64. */
    if (!read_header(bytes, len, &h) || bytes[4] < '2')
        return NULL;
    skip = HEADER_BYTES + data_bytes(&h, 4);
    if (len < skip || !read_header(bytes + skip, len - skip, &h))
        return NULL;
    bytes += skip + HEADER_BYTES;
    len -= skip + HEADER_BYTES;
    if (len < data_bytes(&h, 8))
        return NULL;
    z = mem_must_zero(1, sizeof(*z));
    snprintf(z->name, sizeof(z->name), "%s", name);
    if (!read_transitions(bytes, &h, z)) {
        tz_zone_free(z);
        return NULL;
    }
    read_footer(bytes + data_bytes(&h, 8), len - data_bytes(&h, 8), z);
    return z;
}

void tz_zone_free(struct tz_zone *z)
{
    if (z == NULL)
        return;
    free(z->at_s);
    free(z->after_s);
    free(z);
}

/* --- finding
 * ------------------------------------------------------------------------------------------- */

static struct mutex zones_mutex = {.mx = PTHREAD_MUTEX_INITIALIZER};
static struct tz_zone *zones;

/* Names are paths below the database's folder and must not lead out of it. */
static bool good_name(const char *name, size_t len)
{
    if (len == 0 || len >= ZONE_NAME_MAX || name[0] == '/')
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = name[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '/' || c == '_' || c == '-' || c == '+'))
            return false;
    }
    return true;
}

static struct tz_zone *read_zone(const char *name)
{
    char path[sizeof(ZONE_DIR) + ZONE_NAME_MAX];
    struct tz_zone *z = NULL;
    uint8_t *bytes;
    FILE *f;

    snprintf(path, sizeof(path), "%s%s", ZONE_DIR, name);
    f = fopen(path, "rbe");
    if (f == NULL)
        return NULL;
    bytes = mem_must(ZONE_FILE_MAX);
    z = tz_parse(bytes, fread(bytes, 1, ZONE_FILE_MAX, f), name);
    free(bytes);
    fclose(f);
    return z;
}

static const struct tz_zone *find_zone(const char *name)
{
    struct tz_zone *z;

    mutex_lock(&zones_mutex);
    for (z = zones; z != NULL && strcmp(z->name, name) != 0;)
        z = z->next;
    if (z == NULL) {
        z = read_zone(name);
        if (z != NULL) {
            z->next = zones;
            zones = z;
        }
    }
    mutex_unlock(&zones_mutex);
    return z;
}

static int digits(const char *s)
{
    return s[0] >= '0' && s[0] <= '9' && s[1] >= '0' && s[1] <= '9'
               ? (s[0] - '0') * 10 + (s[1] - '0')
               : -1;
}

/* "+hh", "+hhmm", "+hh:mm" */
static bool parse_offset(const char *s, size_t len, int32_t *ret_s)
{
    int hours, minutes = 0;

    if ((s[0] != '+' && s[0] != '-') || (len != 3 && len != 5 && len != 6))
        return false;
    hours = digits(s + 1);
    if (len == 5)
        minutes = digits(s + 3);
    else if (len == 6)
        minutes = s[3] == ':' ? digits(s + 4) : -1;
    if (hours < 0 || minutes < 0)
        return false;
    *ret_s = (s[0] == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    return true;
}

int tz_find(struct op *op, const char *name, size_t len, struct tz *ret)
{
    struct tz tz = TZ_UTC;
    char copy[ZONE_NAME_MAX];

    if (len == 3 && (memcmp(name, "UTC", 3) == 0 || memcmp(name, "GMT", 3) == 0)) {
        *ret = tz;
        return 0;
    }
    if (len > 0 && parse_offset(name, len, &tz.offset_s)) {
        *ret = tz;
        return 0;
    }
    if (good_name(name, len)) {
        memcpy(copy, name, len);
        copy[len] = '\0';
        tz.zone = find_zone(copy);
    }
    if (tz.zone == NULL)
        return op_fail(op, 40485, "unrecognized time zone identifier: \"%.*s\"",
                       (int)(len < 100 ? len : 100), name);
    *ret = tz;
    return 0;
}

int32_t tz_offset(struct tz tz, int64_t utc_ms)
{
    const struct tz_zone *z = tz.zone;
    int64_t utc_s;
    size_t lo = 0, hi;

    if (z == NULL)
        return tz.offset_s;
    if (utc_ms > TIME_MAX)
        utc_ms = TIME_MAX;
    if (utc_ms < -TIME_MAX)
        utc_ms = -TIME_MAX;
    utc_s = utc_ms / 1000 - (utc_ms % 1000 < 0);
    if (z->has_footer && (z->n == 0 || utc_s >= z->at_s[z->n - 1]))
        return footer_offset(z, utc_s);
    for (hi = z->n; lo < hi;) {
        size_t mid = (lo + hi) / 2;

        if (z->at_s[mid] <= utc_s)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo == 0 ? z->first_s : z->after_s[lo - 1];
}

int64_t tz_to_local(struct tz tz, int64_t utc_ms)
{
    int64_t local;

    if (__builtin_add_overflow(utc_ms, (int64_t)tz_offset(tz, utc_ms) * 1000, &local))
        return utc_ms;
    return local;
}

int64_t tz_to_utc(struct tz tz, int64_t local_ms)
{
    int64_t before, after, utc;

    if (local_ms > TIME_MAX || local_ms < -TIME_MAX)
        return local_ms;
    /* The offsets in force a day before and after bracket any transition. */
    before = (int64_t)tz_offset(tz, local_ms - MS_DAY) * 1000;
    after = (int64_t)tz_offset(tz, local_ms + MS_DAY) * 1000;
    utc = local_ms - before;
    if (before == after || (int64_t)tz_offset(tz, utc) * 1000 == before)
        return utc;
    if ((int64_t)tz_offset(tz, local_ms - after) * 1000 == after)
        return local_ms - after;
    return utc; /* skipped by the clock */
}
