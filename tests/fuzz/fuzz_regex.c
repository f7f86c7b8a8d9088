/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Regular expressions: 'pattern' 'flags' 'text'... Compiling or searching fails with a code, or a
 * hit lies inside the text, its groups inside the text too.
 */
#include "query/regex.h"
#include "tests/fuzz/notation.h"

static void search(struct op *op, const struct regex *re, const char *s, size_t len)
{
    size_t from = 0;

    for (int hits = 0; hits < 20 && from <= len; hits++) {
        struct regex_hit hit = {0};
        bool found = false;
        int rc = regex_find(re, op, s, len, from, &found, &hit);

        if (rc != 0) {
            check_failure(op, rc);
            return;
        }
        if (!found)
            return;
        ASSERT(hit.start <= len && hit.end <= len);
        for (size_t i = 1; i <= hit.ncaptures; i++) {
            size_t start = hit.captures[i][0], end = hit.captures[i][1];

            ASSERT(start == SIZE_MAX || (start <= len && end <= len));
        }
        from = hit.end > from ? hit.end : from + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *part[2] = {"", ""};
    uint32_t len[2] = {0, 0};
    struct regex *re = NULL;
    struct input in;
    struct bv v;
    int rc;

    input_open(&in, data, size);
    for (size_t i = 0; i < 2; i++) {
        v = input_next(&in);
        if (v.type == BV_STRING)
            part[i] = bv_str(v, &len[i]);
    }
    rc = regex_compile(&in.op, &in.op.arena, part[0], len[0], part[1], len[1], &re);
    if (rc != 0) {
        check_failure(&in.op, rc);
    } else {
        while ((v = input_next(&in)).type == BV_STRING) {
            uint32_t n;
            const char *s = bv_str(v, &n);

            search(&in.op, re, s, n);
        }
    }
    input_close(&in);
    return 0;
}
