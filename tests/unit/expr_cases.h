/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Tables of expressions: expression, document, and the value expected, all as extended JSON, or an
 * error code. Values are compared by type and bytes.
 */
#ifndef RUNNEL_TESTS_EXPR_CASES_H
#define RUNNEL_TESTS_EXPR_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "json_values.h"
#include "query/expr.h"

struct expr_case {
    const char *expr;     /* JSON of any value */
    const char *doc;      /* JSON document; NULL: {} */
    const char *expected; /* JSON of any value; NULL: an error; "missing" */
    int code;             /* when expected is NULL */
};

/* Evaluates; returns the code. */
static inline int eval_json(struct op *op, const char *expr, const char *doc, struct bv *ret)
{
    struct expr_vars vars = {0};
    struct eval ev;
    struct expr *e;

    TRY_RETURN(expr_parse(op, &op->arena, json_value(&op->arena, expr), &vars, &e));
    eval_init(&ev, op, &op->arena);
    eval_set_row(&ev, json_value(&op->arena, doc != NULL ? doc : "{}"));
    return expr_eval(e, &ev, ret);
}

static inline void run_expr_cases(const struct expr_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct expr_case *c = &cases[i];
        struct bv got = BV_NONE, want = BV_NONE;
        struct op op;
        int rc;

        op_init(&op);
        rc = eval_json(&op, c->expr, c->doc, &got);
        if (c->expected == NULL) {
            if (rc != c->code)
                fail_msg("%s: expected error %d, got %d (%s)", c->expr, c->code, rc, op.err->text);
            if (op.err->text[0] == '\0')
                fail_msg("%s: error %d has no text", c->expr, rc);
        } else {
            if (rc != 0)
                fail_msg("%s: error %d: %s", c->expr, rc, op.err->text);
            if (strcmp(c->expected, "missing") != 0)
                want = json_value(&op.arena, c->expected);
            if (!bv_identical(got, want))
                fail_msg("%s of %s: expected %s (%s), got %s (%s)", c->expr,
                         c->doc != NULL ? c->doc : "{}", c->expected, bv_type_name(want.type),
                         bv_is_missing(got) ? "nothing" : bv_show(&op.arena, got, 500),
                         bv_type_name(got.type));
        }
        op_fini(&op);
    }
}

#define RUN_EXPR_CASES(table) run_expr_cases((table), sizeof(table) / sizeof((table)[0]))

#endif
