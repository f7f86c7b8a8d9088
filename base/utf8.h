/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which bytes are UTF-8. BSON of a client is not checked for it (as in MongoDB), but what the
 * server itself writes must be: drivers throw on an error text that is not. */
#ifndef RUNNEL_BASE_UTF8_H
#define RUNNEL_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the character that s begins with (1 to 4), or 0 when that is none. s ends with a NUL. */
size_t utf8_char(const char *s);

/* Puts a question mark for every byte of s that belongs to no character. */
void utf8_clean(char *s);

#endif
