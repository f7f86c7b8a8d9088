/* SPDX-License-Identifier: GPL-3.0-or-later */
/* $count: one row with the number of rows; none when there were none. */
#include "query/stage.h"

struct count {
    struct stage s;
    const char *field;
    int64_t n;
    bool done;
};

static int count_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct count *c = (struct count *)s;
    struct bw w;

    *ret = BV_NONE;
    *ret_more = false;
    if (c->done)
        return 0;
    for (;;) {
        struct bv row;

        TRY_RETURN(stage_next(s->source, x, &row, ret_more));
        if (bv_is_missing(row))
            break;
        arena_reset(&x->scratch);
        if ((++c->n & 255) == 0)
            TRY_RETURN(op_check(x->op));
    }
    if (*ret_more)
        return 0;
    c->done = true;
    if (c->n == 0)
        return 0;
    bw_init(&w, &x->scratch);
    if (c->n <= INT32_MAX)
        bw_i32(&w, c->field, (int32_t)c->n);
    else
        bw_i64(&w, c->field, c->n);
    *ret = bw_done(&w);
    *ret_more = true;
    return 0;
}

static const struct stage_ops count_ops = {.name = "$count", .next = count_next};

int stage_count_parse(struct stage_parser *p, struct stage **ret)
{
    struct count *c = STAGE_NEW(p, struct count, &count_ops);
    const char *name;
    uint32_t n;

    if (p->spec.type != BV_STRING)
        return op_fail(p->op, 40156, "the count field must be a non-empty string");
    name = bv_str(p->spec, &n);
    if (n == 0)
        return op_fail(p->op, 40157, "the count field must be a non-empty string");
    if (name[0] == '$')
        return op_fail(p->op, 40158, "the count field cannot be a $-prefixed path");
    if (memchr(name, '\0', n) != NULL)
        return op_fail(p->op, 40159, "the count field cannot contain a null byte");
    if (memchr(name, '.', n) != NULL)
        return op_fail(p->op, 40160, "the count field cannot contain '.'");
    c->field = name; /* the spec lives as long as the stage */
    *ret = &c->s;
    return 0;
}
