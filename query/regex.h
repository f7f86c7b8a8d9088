/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The wall around PCRE2: MongoDB's regular expressions.
 *
 * Patterns are UTF-8; flags are the letters i, m, s, x and u (u changes nothing, all patterns are
 * UTF). A compiled pattern lives wholly in the arena it was compiled into, needs no release and is
 * immutable: any thread may use it. The working memory of a search belongs to the thread.
 *
 * A search has a step limit and a memory limit, so that a hostile pattern ends in an error and
 * not in a stuck worker.
 */
#ifndef RUNNEL_QUERY_REGEX_H
#define RUNNEL_QUERY_REGEX_H

#include "base/op.h"

struct regex;

#define REGEX_UNSET SIZE_MAX /* start and end of a group that took no part */

struct regex_hit {
    size_t start, end;           /* byte offsets of the whole match */
    const size_t (*captures)[2]; /* [1..n] are groups; valid until this thread's next search */
    size_t ncaptures;            /* groups of the pattern */
};

/*
 * Errors, set in op: 51091 the pattern is no regular expression, 51108 unknown flag, BadValue too
 * long or holding a NUL byte.
 */
int regex_compile(struct op *op, struct arena *a, const char *pattern, size_t pattern_len,
                  const char *flags, size_t flags_len, struct regex **ret) MUST_CHECK;

/*
 * Searches s[from..len). 0 with *ret_found, or 51156 when a limit was passed. Bytes that are not
 * UTF-8 match nothing. ret_hit may be NULL.
 */
int regex_find(const struct regex *re, struct op *op, const char *s, size_t len, size_t from,
               bool *ret_found, struct regex_hit *ret_hit) MUST_CHECK;

#endif
