/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which parts of a leading $match can be tested before an event is built. */
#include "query/change_stream_internal.h"

static void check_path(void *arg, const char *path)
{
    if (!event_summary_has(path, strcspn(path, ".")))
        *(bool *)arg = false;
}

/* False for a filter that reads what a summary lacks, or may read anything (the path ""). */
static bool reads_summary_only(const struct match *m)
{
    bool ok = true;

    match_paths(m, check_path, &ok);
    return ok;
}

static void add(struct pushed_filter *f, const struct match *m)
{
    if (reads_summary_only(m))
        f->parts[f->n++] = m;
}

void pushed_filter_init(struct pushed_filter *f, struct arena *a, const struct match *m)
{
    size_t n = match_nchildren(m);

    f->n = 0;
    f->parts = ARENA_ARRAY(a, const struct match *, n + 1);
    if (match_kind(m) != MATCH_AND) {
        add(f, m);
        return;
    }
    for (size_t i = 0; i < n; i++)
        add(f, match_child(m, i));
}

int pushed_filter_test(const struct pushed_filter *f, struct eval *ev, struct bv summary, bool *ret)
{
    *ret = true;
    eval_set_row(ev, summary);
    for (size_t i = 0; i < f->n && *ret; i++)
        TRY_RETURN(match_test(f->parts[i], ev, summary, ret, NULL));
    return 0;
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
