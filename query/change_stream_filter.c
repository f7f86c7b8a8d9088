/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Push-down: the leading $match stages, tested on an entry before its event is built. An event is
 * dropped only when the stages are certain to drop it, and without an error; they stay in the chain
 * all the same, so this saves work and changes nothing.
 */
#include "query/change_stream_internal.h"

static bool get_field(void *arg, const char *name, struct bv *ret)
{
    return event_field(arg, name, ret);
}

static struct match_fields fields_of(struct event_fields *e)
{
    return (struct match_fields){.get = get_field, .ever = event_field_ever, .arg = e};
}

/* False: nothing behind this part may be tested. */
static bool add(struct pushed_filter *f, const struct match *m)
{
    const struct match_fields fields = fields_of(NULL);
    bool no, risk;

    match_outlook(m, &fields, &no, &risk);
    if (no)
        f->parts[f->n++] = m;
    return no || !risk;
}

static size_t parts_of(const struct match *m)
{
    return match_kind(m) == MATCH_AND ? match_nchildren(m) : 1;
}

static bool add_parts(struct pushed_filter *f, const struct match *m)
{
    if (match_kind(m) != MATCH_AND)
        return add(f, m);
    for (size_t i = 0; i < match_nchildren(m); i++) {
        if (!add(f, match_child(m, i)))
            return false;
    }
    return true;
}

void pushed_filter_init(struct pushed_filter *f, struct arena *a, const struct pipeline *p)
{
    size_t stages = 0, n = 0;

    for (; stages < p->n && p->stages[stages]->match != NULL; stages++)
        n += parts_of(p->stages[stages]->match);
    f->n = 0;
    f->parts = ARENA_TRY_ARRAY(a, const struct match *, n);
    if (f->parts == NULL) /* no memory: more events are built than need be */
        return;
    for (size_t i = 0; i < stages; i++) {
        if (!add_parts(f, p->stages[i]->match))
            return;
    }
}

bool pushed_filter_keeps(const struct pushed_filter *f, struct eval *ev, struct event_fields *e)
{
    const struct match_fields fields = fields_of(e);

    for (size_t i = 0; i < f->n; i++) {
        enum match_answer answer = match_foresee(f->parts[i], ev, &fields);

        if (answer == MATCH_NO || answer == MATCH_RISK)
            return answer == MATCH_RISK;
    }
    return true;
}

void pushed_filter_explain(const struct pushed_filter *f, struct arena *a, struct bw *w)
{
    if (f->n == 0)
        return;
    bw_arr_begin(w, "pushedDown");
    for (size_t i = 0; i < f->n; i++)
        bw_bv(w, NULL, match_show(f->parts[i], a));
    bw_end(w);
}
