/* SPDX-License-Identifier: GPL-3.0-or-later */
/* $regexMatch, $regexFind, $regexFindAll: args input, regex, options. */
#include "query/expr_op.h"
#include "query/regex.h"
#include "query/utf8.h"

/* The pattern compiled when parsing, if it is constant (else NULL: compiled at each evaluation). */
struct prepared {
    struct regex *re;
    bool null; /* the pattern or the options are null */
};

/* Flags that stand in a regex value and in `options` must not both be given. */
static int compile(const struct expr *e, struct op *op, struct arena *a, struct bv pattern,
                   struct bv options, struct prepared *ret)
{
    const char *s, *flags = "";
    uint32_t n, nflags = 0;

    *ret = (struct prepared){NULL, bv_is_nullish(pattern)};
    if (options.type == BV_STRING)
        flags = bv_str(options, &nflags);
    else if (!bv_is_nullish(options))
        return op_fail(op, 51106, "%s needs 'options' to be of type string", expr_name(e));
    if (pattern.type == BV_STRING) {
        s = bv_str(pattern, &n);
    } else if (pattern.type == BV_REGEX) {
        const char *own;

        s = (const char *)pattern.p;
        n = (uint32_t)strlen(s);
        own = s + n + 1;
        if (*own != '\0' && nflags > 0)
            return op_fail(op, 51107,
                           "%s found regex option(s) specified in both 'regex' and 'option' fields",
                           expr_name(e));
        if (*own != '\0') {
            flags = own;
            nflags = (uint32_t)strlen(own);
        }
    } else if (ret->null) {
        return 0;
    } else {
        return op_fail(op, 51105, "%s needs 'regex' to be of type string or regex", expr_name(e));
    }
    return regex_compile(op, a, s, n, flags, nflags, &ret->re);
}

static int parse(struct expr_parser *p, struct bv spec, struct expr *e)
{
    static const char *const names[] = {"input", "regex", "options"};
    struct biter it = biter(spec);
    struct bv pattern, options = BV_NONE;
    struct prepared *prepared;
    struct belem el;

    if (spec.type != BV_DOC)
        return op_fail(p->op, 51103, "%s expects an object of named arguments but found: %s",
                       expr_name(e), bv_type_name(spec.type));
    e->nargs = 3;
    e->args = ARENA_ARRAY(p->a, struct expr *, 3);
    while (biter_next(&it, &el)) {
        int i = 0;

        while (i < 3 && strcmp(el.key, names[i]) != 0)
            i++;
        if (i == 3)
            return op_fail(p->op, 31024, "%s found an unknown argument: %s", expr_name(e), el.key);
        TRY_RETURN(expr_parse_operand(p, el.v, &e->args[i]));
    }
    if (e->args[0] == NULL)
        return op_fail(p->op, 31022, "%s requires 'input' parameter", expr_name(e));
    if (e->args[1] == NULL)
        return op_fail(p->op, 31023, "%s requires 'regex' parameter", expr_name(e));
    if (!expr_constant(e->args[1], &pattern) ||
        (e->args[2] != NULL && !expr_constant(e->args[2], &options)))
        return 0;
    prepared = ARENA_NEW(p->a, struct prepared);
    TRY_RETURN(compile(e, p->op, p->a, pattern, options, prepared));
    e->data = prepared;
    return 0;
}

int parse_regex(struct expr_parser *p, struct bv spec, struct expr *e)
{
    return parse(p, spec, e);
}

struct subject {
    const char *s;
    uint32_t n;
    bool null;
    struct regex *re;
};

static int prepare(const struct expr *e, struct eval *ev, struct subject *ret)
{
    const struct prepared *ready = e->data;
    struct prepared now;
    struct bv input, pattern, options;

    TRY_RETURN(expr_arg(e, 0, ev, &input));
    if (!bv_is_nullish(input) && input.type != BV_STRING)
        return op_fail(ev->op, 51104, "%s needs 'input' to be of type string", expr_name(e));
    if (ready == NULL) {
        TRY_RETURN(expr_arg(e, 1, ev, &pattern));
        TRY_RETURN(expr_arg(e, 2, ev, &options));
        TRY_RETURN(compile(e, ev->op, ev->scratch, pattern, options, &now));
        ready = &now;
    }
    ret->null = ready->null || bv_is_nullish(input);
    ret->re = ready->re;
    if (!ret->null)
        ret->s = bv_str(input, &ret->n);
    return 0;
}

int eval_regex_match(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct subject t;
    bool found = false;

    TRY_RETURN(prepare(e, ev, &t));
    if (!t.null)
        TRY_RETURN(regex_find(t.re, ev->op, t.s, t.n, 0, &found, NULL));
    *ret = bv_new_bool(found);
    return 0;
}

/* {match, idx, captures} */
static void write_hit(struct bw *w, const struct subject *t, const struct regex_hit *hit)
{
    bw_strn(w, "match", t->s + hit->start, hit->end - hit->start);
    bw_i32(w, "idx", (int32_t)utf8_count(t->s, hit->start));
    bw_arr_begin(w, "captures");
    for (size_t i = 1; i <= hit->ncaptures; i++) {
        const size_t *c = hit->captures[i];

        if (c[0] == REGEX_UNSET)
            bw_null(w, NULL);
        else
            bw_strn(w, NULL, t->s + c[0], c[1] - c[0]);
    }
    bw_end(w);
}

int eval_regex_find(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct regex_hit hit;
    struct subject t;
    bool found = false;
    struct bw w;

    TRY_RETURN(prepare(e, ev, &t));
    if (!t.null)
        TRY_RETURN(regex_find(t.re, ev->op, t.s, t.n, 0, &found, &hit));
    if (!found) {
        *ret = bv_null;
        return 0;
    }
    bw_init(&w, ev->scratch);
    write_hit(&w, &t, &hit);
    return expr_done(ev, &w, ret);
}

int eval_regex_find_all(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct regex_hit hit;
    struct subject t;
    size_t from = 0;
    struct bw w;

    TRY_RETURN(prepare(e, ev, &t));
    bw_init_array(&w, ev->scratch);
    for (uint32_t i = 0; !t.null && from <= t.n; i++) {
        bool found;

        TRY_RETURN(expr_tick(ev, i));
        TRY_RETURN(regex_find(t.re, ev->op, t.s, t.n, from, &found, &hit));
        if (!found)
            break;
        bw_doc_begin(&w, NULL);
        write_hit(&w, &t, &hit);
        bw_end(&w);
        from = hit.end;
        /* An empty match would be found again: go on behind the next character. */
        if (hit.end == hit.start)
            from += from < t.n ? utf8_size(t.s + from, t.n - from) : 1;
    }
    return expr_done(ev, &w, ret);
}
