/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/utf8.h"

/* The second byte's range, which keeps out overlong forms, surrogates and what lies past U+10FFFF.
 */
static int second_fits(unsigned char first, unsigned char second)
{
    unsigned char least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;

    return second >= least && second <= most;
}

size_t utf8_char(const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t n;

    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4)
        return 0;
    n = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (!second_fits(p[0], p[1]))
        return 0;
    for (size_t i = 2; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    }
    return n;
}

void utf8_clean(char *s)
{
    while (*s != '\0') {
        size_t n = utf8_char(s);

        if (n == 0) {
            *s = '?';
            n = 1;
        }
        s += n;
    }
}
