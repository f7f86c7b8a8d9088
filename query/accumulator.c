/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Finding and parsing accumulators; values kept on the heap. */
#include "query/accumulator.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

static const struct acc_row rows[] = {
#define ACCUMULATOR(name, operations, parser, mode) {name, &operations, parser, mode},
#include "query/accumulators.def"
#undef ACCUMULATOR
};

/* Tables are sorted with case ignored; no two names differ in case only. */
static int cmp_row(const void *key, const void *row)
{
    return strcasecmp(key, ((const struct acc_row *)row)->name);
}

const struct acc_row *acc_find(const char *name)
{
    const struct acc_row *row =
        bsearch(name, rows, sizeof(rows) / sizeof(rows[0]), sizeof(rows[0]), cmp_row);

    return row != NULL && strcmp(row->name, name) == 0 ? row : NULL;
}

int acc_parse(struct op *op, struct arena *a, const struct acc_row *row, struct bv spec,
              struct expr_vars *vars, struct accumulator *ret)
{
    struct accumulator acc = {.row = row};

    if (row->parse != NULL) {
        TRY_RETURN(row->parse(op, a, spec, vars, &acc));
    } else {
        if (spec.type == BV_ARRAY)
            return op_fail(op, 40237, "The %s accumulator is a unary operator", row->name);
        TRY_RETURN(expr_parse(op, a, spec, vars, &acc.arg));
    }
    *ret = acc;
    return 0;
}

int acc_add_row(void *state, const struct accumulator *acc, struct eval *ev, size_t *bytes)
{
    struct bv v = BV_NONE;

    if (acc->arg != NULL)
        TRY_RETURN(expr_eval(acc->arg, ev, &v));
    return acc->row->ops->add(state, acc, ev, v, bytes);
}

int held_set(struct held *h, struct op *op, struct bv v, size_t *bytes)
{
    if (v.len > h->cap) {
        uint8_t *p = mem_try_resize(h->p, v.len);

        if (p == NULL)
            return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory in an accumulator");
        *bytes += v.len - h->cap;
        h->p = p;
        h->cap = v.len;
    }
    if (v.len > 0)
        memmove(h->p, v.p, v.len);
    h->len = v.len;
    h->type = v.type;
    return 0;
}

void held_free(struct held *h)
{
    free(h->p);
    memset(h, 0, sizeof(*h));
}

struct bv acc_partial_bytes(struct eval *ev, const void *state, size_t size)
{
    return bv_new_bin(ev->scratch, 0, state, size);
}
