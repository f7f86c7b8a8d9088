/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "query/doc_path.h"

int32_t path_index(const char *name, size_t len)
{
    int32_t n = 0;

    if (len == 0 || len > 9 || (name[0] == '0' && len > 1))
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (name[i] < '0' || name[i] > '9')
            return -1;
        n = n * 10 + (name[i] - '0');
    }
    return n;
}

struct doc_path *doc_path_new(struct arena *a, const char *text)
{
    uint32_t n = 1;
    struct doc_path *p;

    for (const char *s = text; *s != '\0'; s++)
        n += *s == '.';
    if (n > DOC_PATH_PARTS_MAX)
        return NULL;
    p = arena_alloc(a, sizeof(*p) + n * sizeof(p->parts[0]));
    p->text = arena_strdup(a, text);
    p->n = n;
    for (uint32_t i = 0; i < n; i++) {
        size_t len = strcspn(text, ".");

        p->parts[i].name = arena_strndup(a, text, len);
        p->parts[i].len = (uint32_t)len;
        p->parts[i].index = path_index(text, len);
        text += len + 1;
    }
    return p;
}
