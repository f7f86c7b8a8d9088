/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "query/regex.h"

#include <pthread.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/limits.h"
#include "base/mem.h"

#define STEP_LIMIT     10000000u /* backtracking steps of one search: some tenths of a second */
#define FEW_STEPS      20000u    /* a search that needs more asks first whether it may go on */
#define HEAP_LIMIT_KIB (32u * 1024)
#define CALL_WORK      256 /* what the shortest search costs, in op_work()'s bytes */

struct regex {
    pcre2_code *code;
    uint32_t ncaptures;
};

/* A thread's working memory; made on first use, freed when the thread ends. */
struct scratch {
    pcre2_match_context *limits;
    pcre2_match_data *data;
    uint32_t pairs;
};

static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;

static void scratch_free(void *arg)
{
    struct scratch *s = arg;

    pcre2_match_data_free(s->data);
    pcre2_match_context_free(s->limits);
    free(s);
}

static void scratch_key_make(void)
{
    if (pthread_key_create(&scratch_key, scratch_free) != 0)
        abort();
}

/* The thread's scratch with room for this many pairs of offsets. */
static struct scratch *scratch_get(uint32_t pairs)
{
    struct scratch *s;

    pthread_once(&scratch_once, scratch_key_make);
    s = pthread_getspecific(scratch_key);
    if (s == NULL) {
        s = mem_must_zero(1, sizeof(*s));
        s->limits = pcre2_match_context_create(NULL);
        if (s->limits == NULL || pthread_setspecific(scratch_key, s) != 0)
            mem_out(sizeof(*s), __builtin_return_address(0));
        pcre2_set_heap_limit(s->limits, HEAP_LIMIT_KIB);
    }
    if (s->data == NULL || s->pairs < pairs) {
        pcre2_match_data_free(s->data);
        s->pairs = pairs < 16 ? 16 : pairs;
        s->data = pcre2_match_data_create(s->pairs, NULL);
        if (s->data == NULL)
            mem_out(s->pairs * 2 * sizeof(size_t), __builtin_return_address(0));
    }
    return s;
}

static void *arena_malloc(size_t size, void *arena)
{
    return arena_try(arena, size);
}

static void arena_nofree(void *p, void *arena)
{
    (void)p;
    (void)arena;
}

static int parse_flags(struct op *op, const char *flags, size_t n, uint32_t *ret)
{
    uint32_t bits = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C;

    for (size_t i = 0; i < n; i++) {
        switch (flags[i]) {
        case 'i':
            bits |= PCRE2_CASELESS;
            break;
        case 'm':
            bits |= PCRE2_MULTILINE;
            break;
        case 's':
            bits |= PCRE2_DOTALL;
            break;
        case 'x':
            bits |= PCRE2_EXTENDED;
            break;
        case 'u':
            break;
        case '\0':
            return op_fail(op, ERR_BAD_VALUE,
                           "Regular expression options string cannot contain "
                           "an embedded null byte");
        default:
            return op_fail(op, 51108, "invalid flag in regex options: %c", flags[i]);
        }
    }
    *ret = bits;
    return 0;
}

int regex_compile(struct op *op, struct arena *a, const char *pattern, size_t pattern_len,
                  const char *flags, size_t flags_len, struct regex **ret)
{
    pcre2_general_context *memory;
    pcre2_compile_context *ctx;
    struct regex *re;
    uint32_t bits;
    int code;
    size_t at;

    if (pattern_len > LIMIT_REGEX_BYTES)
        return op_fail(op, ERR_BAD_VALUE, "Regular expression is too long");
    if (memchr(pattern, 0, pattern_len) != NULL)
        return op_fail(op, ERR_BAD_VALUE,
                       "Regular expression cannot contain an embedded null byte");
    TRY_RETURN(parse_flags(op, flags, flags_len, &bits));
    memory = pcre2_general_context_create(arena_malloc, arena_nofree, a);
    ctx = memory == NULL ? NULL : pcre2_compile_context_create(memory);
    if (ctx == NULL)
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for a regular expression");
    re = ARENA_NEW(a, struct regex);
    re->code = pcre2_compile((PCRE2_SPTR)pattern, pattern_len, bits, &code, &at, ctx);
    if (re->code == NULL) {
        PCRE2_UCHAR text[160];

        pcre2_get_error_message(code, text, sizeof(text));
        return op_fail(op, 51091, "Regular expression is invalid: %s", (const char *)text);
    }
    pcre2_pattern_info(re->code, PCRE2_INFO_CAPTURECOUNT, &re->ncaptures);
    *ret = re;
    return 0;
}

int regex_find(const struct regex *re, struct op *op, const char *s, size_t len, size_t from,
               bool *ret_found, struct regex_hit *ret_hit)
{
    struct scratch *w = scratch_get(re->ncaptures + 1);
    const size_t(*pairs)[2];
    int n;

    TRY_RETURN(op_work(op, CALL_WORK + len - from));
    pcre2_set_match_limit(w->limits, FEW_STEPS);
    n = pcre2_match(re->code, (PCRE2_SPTR)s, len, from, 0, w->data, w->limits);
    if (n == PCRE2_ERROR_MATCHLIMIT) {
        TRY_RETURN(op_check(op));
        pcre2_set_match_limit(w->limits, STEP_LIMIT);
        n = pcre2_match(re->code, (PCRE2_SPTR)s, len, from, 0, w->data, w->limits);
    }
    if (n == PCRE2_ERROR_NOMATCH) {
        *ret_found = false;
        return 0;
    }
    if (n < 0) {
        /* The search may have grown its memory to the limit: give that back. */
        pcre2_match_data_free(w->data);
        w->data = NULL;
        return op_fail(op, 51156,
                       "Error occurred while executing the regular expression. Result code: %d", n);
    }
    *ret_found = true;
    if (ret_hit == NULL)
        return 0;
    pairs = (const size_t(*)[2])(const void *)pcre2_get_ovector_pointer(w->data);
    *ret_hit = (struct regex_hit){pairs[0][0], pairs[0][1], pairs, re->ncaptures};
    return 0;
}
