/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One JSON line per event on stderr. Any thread; a line is written in one call. */
#ifndef RUNNEL_BASE_LOG_H
#define RUNNEL_BASE_LOG_H

#include <stdint.h>

enum log_level { LOG_FATAL, LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level max);
enum log_level log_get_level(void);

/*
 * log_event(LOG_INFO, "storage", "recovery done", {"ms", LOG_NUM(12)}, {"path", LOG_STR(path)},);
 * The comma after the last pair belongs to the macro's form.
 */
struct log_value {
    const char *s; /* a string, or NULL: the number */
    int64_t n;
};
#define LOG_STR(x) ((struct log_value){(x), 0})
#define LOG_NUM(x) ((struct log_value){0, (int64_t)(x)})
struct log_pair {
    const char *name;
    struct log_value v;
};
#define log_event(level, component, msg, ...)                                                      \
    log_write((level), (component), (msg), (const struct log_pair[]){__VA_ARGS__{0, {0, 0}}})

void log_write(enum log_level level, const char *component, const char *msg,
               const struct log_pair *pairs);

/* The newest lines, at most LOG_RECENT, oldest first, without their newline; fn must not log.
 * Returns how many lines were written since the start. */
enum { LOG_RECENT = 1024 };
int64_t log_recent(void (*fn)(void *arg, enum log_level level, const char *line), void *arg);

#endif
