/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Errors: one number (MongoDB's), one text, optional labels and extra reply fields.
 *
 * Fallible functions return an int: 0 is success, any other value is a MongoDB error code; codes
 * without a name of their own ("Location40415") are passed as plain integers. The text is attached
 * once, where the fault is known, by error_set() or op_fail(). Codes below zero never reach a
 * client: they steer the server (see enum internal_code).
 */
#ifndef RUNNEL_BASE_ERROR_H
#define RUNNEL_BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#define MUST_CHECK        __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

enum error_code {
    ERR_OK = 0,
#define ERROR(name, code, text) ERR_##name = (code),
#include "base/errors.def"
#undef ERROR
};

/* Results that are not errors of the client; never put into a reply. */
enum internal_code {
    INT_PARK = -1,      /* the request must wait; its waiter is registered, run it again later */
    INT_TO_SCHEMA = -2, /* run this request again on the schema thread */
    INT_CLOSE = -3,     /* close the connection without a reply */
    INT_NOREPLY = -4,   /* done, and nothing is to be sent */
    INT_NO_OPTIME = -5, /* the disk must catch up first: see oplog/append.h */
};

/* Labels that a reply's errorLabels array may carry; a bit each. */
enum error_label {
    LABEL_TRANSIENT_TRANSACTION = 1 << 0,
    LABEL_RETRYABLE_WRITE = 1 << 1,
    LABEL_NO_WRITES_PERFORMED = 1 << 2,
    LABEL_RESUMABLE_CHANGE_STREAM = 1 << 3,
    LABEL_NON_RESUMABLE_CHANGE_STREAM = 1 << 4,
    LABEL_SYSTEM_OVERLOADED = 1 << 5,
    LABEL_RETRYABLE = 1 << 6,
};

#define ERROR_TEXT_MAX 1008 /* struct error is of a size that malloc keeps at hand */

struct error {
    int code;
    uint32_t labels;     /* set of enum error_label */
    const uint8_t *info; /* BSON document whose fields are added to the reply, or NULL; */
    uint32_t info_len;   /* borrowed: lives in the arena of the failing request */
    char text[ERROR_TEXT_MAX];
};

/* Sets code and text; returns code, so that `return error_set(...)` reads well. Whatever a client
 * put into the arguments, the text is UTF-8. */
int error_set(struct error *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
int error_vset(struct error *err, int code, const char *fmt, va_list ap) PRINTF_LIKE(3, 0);

void error_clear(struct error *err); /* no error */

/* Puts a prefix before the text ("Executor error during getMore :: caused by :: "). */
void error_prefix(struct error *err, const char *prefix);

/* The codeName of a reply: the listed name, or "Location<code>" written into buf. */
const char *error_name(int code, char buf[static 32]);

/* True when drivers may retry the operation that failed with this code (RetriableError category).
 */
bool error_is_retriable(int code);
/* True for the codes that say "I am not the primary (any more)". */
bool error_is_not_primary(int code);
/* True for the codes that say "I am shutting down". */
bool error_is_shutdown(int code);

/* `rc` must be an int variable and `fail` a label of the enclosing function. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((rc = (call)) != 0)                                                                    \
            goto fail;                                                                             \
    } while (0)

/* For functions that own nothing: hands a failure straight on. */
#define TRY_RETURN(call)                                                                           \
    do {                                                                                           \
        int try_rc_ = (call);                                                                      \
        if (try_rc_ != 0)                                                                          \
            return try_rc_;                                                                        \
    } while (0)

/* Our own mistakes; stays on in release builds. Never for bytes that a client sent. */
#define ASSERT(cond)                                                                               \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            assert_failed(#cond, __FILE__, __LINE__);                                              \
    } while (0)

void assert_failed(const char *cond, const char *file, int line) __attribute__((noreturn));

#endif
