/* SPDX-License-Identifier: GPL-3.0-or-later */
/* bv_check(): the one place where bytes of a client become trusted BSON. */
#include "base/bv.h"

#define CHECK_DEPTH_MAX 256

struct checker {
    const uint8_t *at, *end;              /* end: of the innermost open document */
    const uint8_t *ends[CHECK_DEPTH_MAX]; /* ends of the outer ones */
    unsigned depth, max_depth;
    struct error *err;
};

static int bad(struct checker *c, const char *what)
{
    return error_set(c->err, ERR_INVALID_BSON, "invalid BSON: %s", what);
}

/* Opens the document at c->at. It must end before c->end, and inside another one also before the
 * terminator there. */
static int enter(struct checker *c)
{
    size_t room = (size_t)(c->end - c->at) - (c->depth > 0);
    int32_t n;

    if (c->depth >= c->max_depth)
        return error_set(c->err, ERR_OVERFLOW, "BSONObj exceeded maximum nested object depth: %u",
                         c->max_depth);
    if (room < 5)
        return bad(c, "document is cut short");
    memcpy(&n, c->at, 4);
    if (n < 5 || (size_t)n > room)
        return bad(c, "document length does not fit");
    if (c->at[n - 1] != 0)
        return bad(c, "document has no terminator");
    c->ends[c->depth++] = c->end;
    c->end = c->at + n;
    c->at += 4;
    return 0;
}

static int skip(struct checker *c, size_t n)
{
    /* The last byte of the document is its terminator and belongs to no value. */
    if ((size_t)(c->end - 1 - c->at) < n)
        return bad(c, "value is cut short");
    c->at += n;
    return 0;
}

static int skip_cstring(struct checker *c)
{
    const uint8_t *nul = memchr(c->at, 0, (size_t)(c->end - 1 - c->at));

    if (nul == NULL)
        return bad(c, "name or pattern has no terminator");
    c->at = nul + 1;
    return 0;
}

static int skip_string(struct checker *c)
{
    const uint8_t *start = c->at;
    int32_t n;

    TRY_RETURN(skip(c, 4));
    memcpy(&n, start, 4);
    if (n < 1)
        return bad(c, "string length is not positive");
    TRY_RETURN(skip(c, (size_t)n));
    if (c->at[-1] != 0)
        return bad(c, "string has no terminator");
    return 0;
}

static int skip_binary(struct checker *c)
{
    const uint8_t *start = c->at;
    int32_t n;

    TRY_RETURN(skip(c, 5));
    memcpy(&n, start, 4);
    if (n < 0)
        return bad(c, "binary length is negative");
    return skip(c, (size_t)n);
}

/* Code with scope: int32 total, string, document that must end exactly at total. */
static int skip_code_scope(struct checker *c)
{
    const uint8_t *start = c->at;
    int32_t n, scope;

    TRY_RETURN(skip(c, 4));
    memcpy(&n, start, 4);
    if (n < 14 || n > c->end - 1 - start)
        return bad(c, "code with scope does not fit");
    TRY_RETURN(skip_string(c));
    if (start + n - c->at < 5)
        return bad(c, "code with scope has no scope");
    memcpy(&scope, c->at, 4);
    if (scope != start + n - c->at)
        return bad(c, "scope length does not fit");
    return enter(c);
}

static int check_value(struct checker *c, uint8_t type)
{
    switch (type) {
    case BV_DOUBLE:
    case BV_DATE:
    case BV_TIMESTAMP:
    case BV_INT64:
        return skip(c, 8);
    case BV_INT32:
        return skip(c, 4);
    case BV_OID:
        return skip(c, 12);
    case BV_DECIMAL:
        return skip(c, 16);
    case BV_UNDEFINED:
    case BV_NULL:
    case BV_MAXKEY:
    case BV_MINKEY:
        return 0;
    case BV_BOOL:
        TRY_RETURN(skip(c, 1));
        return c->at[-1] > 1 ? bad(c, "boolean is neither 0 nor 1") : 0;
    case BV_STRING:
    case BV_CODE:
    case BV_SYMBOL:
        return skip_string(c);
    case BV_BINARY:
        return skip_binary(c);
    case BV_REGEX:
        TRY_RETURN(skip_cstring(c));
        return skip_cstring(c);
    case BV_DBPOINTER:
        TRY_RETURN(skip_string(c));
        return skip(c, 12);
    case BV_DOC:
    case BV_ARRAY:
        return enter(c);
    case BV_CODE_SCOPE:
        return skip_code_scope(c);
    default:
        return bad(c, "unknown type byte");
    }
}

int bv_check(const uint8_t *bytes, size_t len, unsigned max_depth, struct error *err)
{
    struct checker c = {.at = bytes, .end = bytes + len, .err = err};

    c.max_depth = max_depth < CHECK_DEPTH_MAX ? max_depth : CHECK_DEPTH_MAX;
    TRY_RETURN(enter(&c));
    if ((size_t)(c.end - bytes) != len)
        return bad(&c, "document length does not match");
    while (c.depth > 0) {
        uint8_t type;

        if (c.at == c.end - 1) {
            c.at = c.end;
            c.end = c.ends[--c.depth];
            continue;
        }
        type = *c.at++;
        if (type == 0)
            return bad(&c, "terminator inside a document");
        TRY_RETURN(skip_cstring(&c));
        TRY_RETURN(check_value(&c, type));
    }
    return 0;
}
