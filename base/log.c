/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/log.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/utf8.h"

#define LINE_MAX_BYTES 4096

static _Atomic int level_max = LOG_INFO;

struct line {
    char buf[LINE_MAX_BYTES];
    size_t len;
};

void log_set_level(enum log_level max)
{
    atomic_store(&level_max, (int)max);
}

enum log_level log_get_level(void)
{
    return (enum log_level)atomic_load(&level_max);
}

/* --- recent lines ---------------------------------------------------------------------------- */

struct recent_line {
    enum log_level level;
    char *text;
};

static struct mutex recent_mx = {.mx = PTHREAD_MUTEX_INITIALIZER};
static struct recent_line recent[LOG_RECENT]; /* recent_mx; a ring */
static int64_t written;                       /* recent_mx; the next one goes to written % size */

static void remember(enum log_level level, const struct line *l)
{
    char *text = mem_try(l->len + 1);
    struct recent_line *r;

    if (text == NULL)
        return;
    memcpy(text, l->buf, l->len);
    text[l->len] = '\0';
    mutex_lock(&recent_mx);
    r = &recent[written++ % LOG_RECENT];
    free(r->text);
    *r = (struct recent_line){level, text};
    mutex_unlock(&recent_mx);
}

int64_t log_recent(void (*fn)(void *arg, enum log_level level, const char *line), void *arg)
{
    int64_t total;

    mutex_lock(&recent_mx);
    total = written;
    for (int64_t i = total > LOG_RECENT ? total - LOG_RECENT : 0; i < total; i++)
        fn(arg, recent[i % LOG_RECENT].level, recent[i % LOG_RECENT].text);
    mutex_unlock(&recent_mx);
    return total;
}

/* --- writing --------------------------------------------------------------------------------- */

static void add(struct line *l, const char *s)
{
    size_t n = strlen(s);

    if (n > sizeof(l->buf) - l->len - 8)
        n = sizeof(l->buf) - l->len - 8; /* room for the closing */
    memcpy(l->buf + l->len, s, n);
    l->len += n;
}

static void add_string(struct line *l, const char *s)
{
    char esc[8];

    add(l, "\"");
    while (*s != '\0' && l->len < sizeof(l->buf) - 32) {
        unsigned char c = (unsigned char)*s;
        size_t n = utf8_char(s);

        if (c == '"' || c == '\\')
            snprintf(esc, sizeof(esc), "\\%c", c);
        else if (c < 0x20)
            snprintf(esc, sizeof(esc), "\\u%04x", c);
        else
            snprintf(esc, sizeof(esc), "%.*s", (int)(n == 0 ? 1 : n), n == 0 ? "?" : s);
        add(l, esc);
        s += n == 0 ? 1 : n;
    }
    add(l, "\"");
}

void log_write(enum log_level level, const char *component, const char *msg,
               const struct log_pair *pairs)
{
    static const char *const letters[] = {"F", "E", "W", "I", "D"};
    struct line l = {.len = 0};
    int64_t ms = clock_wall_ms();
    time_t secs = (time_t)(ms / 1000);
    struct tm tm;
    char num[40];

    if ((int)level > atomic_load_explicit(&level_max, memory_order_relaxed))
        return;
    gmtime_r(&secs, &tm);
    add(&l, "{\"t\":\"");
    strftime(num, sizeof(num), "%Y-%m-%dT%H:%M:%S", &tm);
    add(&l, num);
    snprintf(num, sizeof(num), ".%03dZ\",\"s\":\"", (int)(ms % 1000));
    add(&l, num);
    add(&l, letters[level]);
    add(&l, "\",\"c\":");
    add_string(&l, component);
    add(&l, ",\"msg\":");
    add_string(&l, msg);
    for (; pairs->name != NULL; pairs++) {
        add(&l, ",");
        add_string(&l, pairs->name);
        add(&l, ":");
        if (pairs->v.s != NULL) {
            add_string(&l, pairs->v.s);
        } else {
            snprintf(num, sizeof(num), "%" PRId64, pairs->v.n);
            add(&l, num);
        }
    }
    add(&l, "}");
    if (level != LOG_FATAL) /* the process ends, perhaps inside the ring's lock */
        remember(level, &l);
    l.buf[l.len++] = '\n';
    if (write(STDERR_FILENO, l.buf, l.len) < 0)
        return; /* nowhere left to say so */
}
