/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The pool of WiredTiger sessions: small, growing to a limit, idle ones kept. */
#include <stdlib.h>

#include "base/mem.h"
#include "storage/engine_internal.h"

void session_pool_init(struct session_pool *p)
{
    mutex_init(&p->mx);
    p->idle = NULL;
    p->open = p->leased = 0;
}

void session_pool_fini(struct session_pool *p)
{
    ASSERT(p->leased == 0);
    while (p->idle != NULL) {
        struct session *s = p->idle;

        p->idle = s->next;
        tcursor_free_all(s->kept);
        tcursor_free_all(s->free_cursors);
        arena_fini(&s->scratch);
        free(s);
    }
    mutex_fini(&p->mx);
}

/* True: a session may be opened, and is counted already. */
static bool take_idle(struct session_pool *p, struct session **ret)
{
    bool may_open = false;

    mutex_lock(&p->mx);
    *ret = p->idle;
    if (p->idle != NULL) {
        p->idle = p->idle->next;
        p->leased++;
    } else if (p->open < SESSION_POOL_MAX) {
        may_open = true;
        p->open++;
        p->leased++;
    }
    mutex_unlock(&p->mx);
    return may_open;
}

int session_lease(struct engine *e, struct error *err, struct session **ret)
{
    struct session_pool *p = &e->pool;
    struct session *s;
    int rc;

    if (!take_idle(p, &s)) {
        if (s == NULL)
            return error_set(err, ERR_TEMPORARILY_UNAVAILABLE,
                             "too many storage transactions are open (%d)", SESSION_POOL_MAX);
        *ret = s;
        return 0;
    }
    s = mem_must_zero(1, sizeof(*s));
    arena_init(&s->scratch);
    rc = e->wt->open_session(e->wt, NULL, "isolation=snapshot", &s->wt);
    if (rc != 0) {
        free(s);
        mutex_lock(&p->mx);
        p->open--;
        p->leased--;
        mutex_unlock(&p->mx);
        return wt_error(err, rc, "cannot open a storage session");
    }
    *ret = s;
    return 0;
}

void session_return(struct engine *e, struct session *s)
{
    struct session_pool *p = &e->pool;

    mutex_lock(&p->mx);
    s->next = p->idle;
    p->idle = s;
    p->leased--;
    mutex_unlock(&p->mx);
}

void session_pool_forget(struct session_pool *p, const char *ident)
{
    mutex_lock(&p->mx);
    for (struct session *s = p->idle; s != NULL; s = s->next)
        tcursor_forget(s, ident);
    mutex_unlock(&p->mx);
}
