/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Deletes: of the first match and of all matches. */
#include <stdlib.h>

#include "query/write_internal.h"

struct job {
    struct writer *w;
    const struct delete_stmt *s;
    struct arena *arena; /* of the statement */
    struct match *filter;
    struct exec *x;
};

static int delete_doc(struct job *j, int64_t rid, struct bv doc, struct oplog_op *ret_entry)
{
    TRY_RETURN(record_delete(j->x->stx, j->w->coll, rid, doc));
    writer_entry(j->w, ret_entry, 'd', writer_key_doc(&j->x->scratch, doc), BV_NONE, doc,
                 j->s->stmt_id);
    return 0;
}

static int delete_one_try(struct job *j, int64_t *ret_removed)
{
    struct retry_stmt stmt = {.stmt_id = j->s->stmt_id, .count = 1, .kind = 'd'};
    struct oplog_op entry;
    struct bv doc;
    int64_t rid;

    TRY_RETURN(writer_find_one(j->w, j->x, j->arena, j->filter, BV_NONE, j->s->hint, &rid, &doc));
    if (rid == 0)
        return 0;
    TRY_RETURN(delete_doc(j, rid, doc, &entry));
    TRY_RETURN(writer_commit(j->w, j->x, &entry, 1, &stmt, 1));
    writer_count(j->w, -1, -(int64_t)doc.len);
    *ret_removed = 1;
    return 0;
}

static int delete_one(struct job *j, int64_t *ret_removed)
{
    struct write_tries tries = {0};
    int rc;

    do {
        rc = delete_one_try(j, ret_removed);
    } while (writer_try_again(j->w, j->x, j->filter, false, &tries, rc, &rc));
    return rc;
}

/* One transaction's worth: removes rids[0..*ret_examined) that still match and commits. */
static int delete_chunk(struct job *j, struct oplog_op *ops, const int64_t *rids, size_t n,
                        size_t *ret_examined, int64_t *ret_removed)
{
    struct exec *x = j->x;
    struct stx *t;
    int64_t bytes = 0;
    size_t at = 0, removed = 0;

    arena_reset(&x->scratch);
    TRY_RETURN(exec_stx(x, &t));
    for (; at < n && removed < WRITE_GROUP_DOCS && bytes < WRITE_GROUP_BYTES; at++) {
        struct bv doc;
        bool matched = false;

        TRY_RETURN(record_get(t, j->w->coll, rids[at], &x->scratch, &doc));
        if (!bv_is_missing(doc))
            TRY_RETURN(match_test(j->filter, &x->ev, doc, &matched, NULL));
        if (!matched)
            continue;
        TRY_RETURN(delete_doc(j, rids[at], doc, &ops[removed++]));
        bytes += doc.len;
    }
    if (removed > 0)
        TRY_RETURN(writer_commit(j->w, x, ops, removed, NULL, 0));
    else
        exec_end(x);
    writer_count(j->w, -(int64_t)removed, -bytes);
    *ret_examined = at;
    *ret_removed += (int64_t)removed;
    return 0;
}

static int delete_many(struct job *j, int64_t *ret_removed)
{
    struct oplog_op *ops;
    int64_t *rids;
    size_t n, done = 0, examined = 0;
    unsigned attempt = 0;
    int rc = 0;

    TRY_RETURN(writer_collect(j->w, j->x, j->arena, j->filter, j->s->hint, &rids, &n));
    ops = ARENA_ARRAY(j->arena, struct oplog_op, WRITE_GROUP_DOCS);
    while (rc == 0 && done < n) {
        rc = op_check(j->w->op);
        if (rc == 0)
            rc = delete_chunk(j, ops, rids + done, n - done, &examined, ret_removed);
        if (rc == ERR_WRITE_CONFLICT) {
            exec_end(j->x);
            rc = writer_backoff(j->w, attempt++);
            continue;
        }
        attempt = 0;
        done += examined;
    }
    free(rids);
    return rc;
}

int write_delete(struct writer *w, const struct delete_stmt *s, struct eval *let,
                 int64_t *ret_removed, bool *ret_retried)
{
    struct match_options mo = {.vars = s->vars};
    struct arena arena;
    struct exec x;
    struct job j = {.w = w, .s = s, .arena = &arena, .x = &x};
    int rc;

    *ret_removed = 0;
    *ret_retried = w->retry != NULL && retry_state_find(w->retry, s->stmt_id) != NULL;
    if (*ret_retried) {
        *ret_removed = 1;
        return 0;
    }
    arena_init(&arena);
    exec_init(&x, w->op);
    if (let != NULL)
        memcpy(x.ev.vars, let->vars, sizeof(x.ev.vars));
    rc = match_parse(w->op, &arena, s->q, &mo, &j.filter);
    if (rc == 0 && w->coll != NULL)
        rc = s->multi ? delete_many(&j, ret_removed) : delete_one(&j, ret_removed);
    exec_end(&x);
    exec_fini(&x);
    arena_fini(&arena);
    return txn_write_error(w->op, rc);
}
