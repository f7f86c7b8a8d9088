/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the tests of query/update share: an op and an evaluator of each test's own. */
#ifndef RUNNEL_TESTS_UNIT_UPDATE_UTIL_H
#define RUNNEL_TESTS_UNIT_UPDATE_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "query/match.h"
#include "query/update.h"
#include "tests/unit/json.h"

static struct op op;
static struct eval ev;

static inline int setup(void **state)
{
    (void)state;
    op_init(&op);
    eval_init(&ev, &op, &op.arena);
    ev.now_ms = 1500000000123;
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    op_fini(&op);
    return 0;
}

static inline struct bv doc_of(const char *text)
{
    return json(&op.arena, text);
}

static inline const char *show(struct bv v)
{
    return bv_show(&op.arena, v, 4000);
}

static inline struct match *filter_of(const char *text)
{
    struct match_options o = {.vars = NULL};
    struct match *m = NULL;

    assert_int_equal(match_parse(&op, &op.arena, doc_of(text), &o, &m), 0);
    return m;
}

static inline int apply_bv(struct bv u_doc, struct bv old, struct update_result *ret)
{
    struct update_spec spec = {.u = u_doc};
    struct update *u = NULL;

    TRY_RETURN(update_parse(&op, &op.arena, &spec, &u));
    return update_apply(u, &ev, old, -1, ret);
}

#endif
