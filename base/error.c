/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

void error_clear(struct error *err)
{
    err->code = 0;
    err->labels = 0;
    err->info = NULL;
    err->info_len = 0;
    err->text[0] = '\0';
}

int error_vset(struct error *err, int code, const char *fmt, va_list ap)
{
    error_clear(err);
    err->code = code;
    vsnprintf(err->text, sizeof(err->text), fmt, ap);
    utf8_clean(err->text);
    return code;
}

int error_set(struct error *err, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    error_vset(err, code, fmt, ap);
    va_end(ap);
    return code;
}

void error_prefix(struct error *err, const char *prefix)
{
    size_t n = strlen(prefix);
    size_t old = strlen(err->text);

    if (n >= sizeof(err->text))
        return;
    if (old > sizeof(err->text) - 1 - n)
        old = sizeof(err->text) - 1 - n;
    memmove(err->text + n, err->text, old);
    memcpy(err->text, prefix, n);
    err->text[n + old] = '\0';
    utf8_clean(err->text + n);
}

const char *error_name(int code, char buf[static 32])
{
    static const struct {
        int code;
        const char *name;
    } names[] = {
#define ERROR(name, code, text) {code, text},
#include "base/errors.def"
#undef ERROR
    };
    size_t lo = 0, hi = sizeof(names) / sizeof(names[0]);

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (names[mid].code == code)
            return names[mid].name;
        if (names[mid].code < code)
            lo = mid + 1;
        else
            hi = mid;
    }
    snprintf(buf, 32, "Location%d", code);
    return buf;
}

bool error_is_retriable(int code)
{
    switch (code) {
    case ERR_HOST_UNREACHABLE:
    case ERR_HOST_NOT_FOUND:
    case ERR_NETWORK_TIMEOUT:
    case ERR_SHUTDOWN_IN_PROGRESS:
    case ERR_READ_CONCERN_MAJORITY_NOT_YET:
    case ERR_PRIMARY_STEPPED_DOWN:
    case ERR_EXCEEDED_TIME_LIMIT:
    case ERR_RESOURCE_EXHAUSTED:
    case ERR_SOCKET_EXCEPTION:
    case ERR_NOT_WRITABLE_PRIMARY:
    case ERR_INTERRUPTED_AT_SHUTDOWN:
    case ERR_INTERRUPTED_REPL_STATE:
    case ERR_NOT_PRIMARY_NO_SECONDARY_OK:
    case ERR_NOT_PRIMARY_OR_SECONDARY:
    case ERR_INGRESS_RATE:
        return true;
    default:
        return false;
    }
}

bool error_is_not_primary(int code)
{
    switch (code) {
    case ERR_PRIMARY_STEPPED_DOWN:
    case ERR_NOT_WRITABLE_PRIMARY:
    case ERR_INTERRUPTED_REPL_STATE:
    case ERR_NOT_PRIMARY_NO_SECONDARY_OK:
    case ERR_NOT_PRIMARY_OR_SECONDARY:
        return true;
    default:
        return false;
    }
}

bool error_is_shutdown(int code)
{
    return code == ERR_SHUTDOWN_IN_PROGRESS || code == ERR_INTERRUPTED_AT_SHUTDOWN;
}

void assert_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "{\"s\":\"F\",\"msg\":\"assertion failed\",\"cond\":\"%s\",\"at\":\"%s:%d\"}\n",
            cond, file, line);
    abort();
}
