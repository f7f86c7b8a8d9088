/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Walking UTF-8 that need not be valid: a byte that begins nothing counts as a character. */
#ifndef RUNNEL_QUERY_UTF8_H
#define RUNNEL_QUERY_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool utf8_is_continuation(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* Bytes of the character at s[0], at most n. n > 0. */
static inline size_t utf8_size(const char *s, size_t n)
{
    unsigned char c = (unsigned char)s[0];
    size_t want = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1, have = 1;

    while (have < want && have < n && utf8_is_continuation(s[have]))
        have++;
    return have;
}

/* Characters in s[0..n). */
static inline size_t utf8_count(const char *s, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i += utf8_size(s + i, n - i))
        count++;
    return count;
}

/* Byte offset of character number `chars`; n when there are not so many. */
static inline size_t utf8_offset(const char *s, size_t n, uint64_t chars)
{
    size_t i = 0;

    while (chars-- > 0 && i < n)
        i += utf8_size(s + i, n - i);
    return i;
}

#endif
