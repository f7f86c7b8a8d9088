/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Updates: of the first match, of all matches, and upserts. */
#include <stdlib.h>

#include "base/mem.h"
#include "query/write_internal.h"

/* One statement at work. */
struct job {
    struct writer *w;
    const struct update_stmt *s;
    struct arena *arena; /* of the statement */
    struct match *filter;
    struct update *update;
    struct exec *x;
};

static int job_parse(struct job *j)
{
    const struct update_stmt *s = j->s;
    struct match_options mo = {.vars = s->vars};
    struct update_spec us = {.u = s->u,
                             .array_filters = s->array_filters,
                             .constants = s->constants,
                             .vars = s->vars,
                             .upsert = s->upsert,
                             .multi = s->multi,
                             .keep_empty_ts = j->w->keep_empty_ts};

    TRY_RETURN(match_parse(j->w->op, j->arena, s->q, &mo, &j->filter));
    return update_parse(j->w->op, j->arena, &us, &j->update);
}

/* Applies the update to one document of the exec's transaction; *ret_entry is filled when it
 * changed. The entry's bytes live in the scratch. */
static int change_doc(struct job *j, int64_t rid, struct bv doc, struct oplog_op *ret_entry,
                      bool *ret_matched, bool *ret_changed, int64_t *ret_growth)
{
    struct exec *x = j->x;
    struct update_result r;
    int32_t position;

    *ret_changed = false;
    *ret_growth = 0;
    TRY_RETURN(match_test(j->filter, &x->ev, doc, ret_matched, &position));
    if (!*ret_matched)
        return 0;
    TRY_RETURN(update_apply(j->update, &x->ev, doc, position, &r));
    if (!r.changed)
        return 0;
    TRY_RETURN(record_update(x->stx, j->w->coll, rid, doc, r.doc));
    writer_entry(j->w, ret_entry, 'u', r.entry_o, writer_key_doc(&x->scratch, doc), doc,
                 j->s->stmt_id);
    *ret_changed = true;
    *ret_growth = (int64_t)r.doc.len - (int64_t)doc.len;
    return 0;
}

static int upsert_one(struct job *j, struct update_outcome *ret)
{
    struct retry_stmt stmt = {.stmt_id = j->s->stmt_id, .count = 1, .kind = 's'};
    struct oplog_op entry;
    struct bv doc;

    TRY_RETURN(writer_upsert(j->w, j->x, j->update, j->filter, j->s->stmt_id, &entry, &doc));
    stmt.result = entry.o2;
    TRY_RETURN(writer_commit(j->w, j->x, &entry, 1, &stmt, 1));
    writer_count(j->w, 1, doc.len);
    ret->matched = 1;
    ret->upserted = entry.o2;
    return 0;
}

static int update_one_try(struct job *j, struct update_outcome *ret)
{
    struct writer *w = j->w;
    struct oplog_op entry;
    struct retry_stmt stmt = {.stmt_id = j->s->stmt_id, .count = 1, .kind = 'u'};
    struct bv doc = BV_NONE;
    int64_t rid = 0, growth;
    bool matched, changed;

    if (w->coll != NULL)
        TRY_RETURN(
            writer_find_one(w, j->x, j->arena, j->filter, j->s->sort, j->s->hint, &rid, &doc));
    if (rid == 0)
        return j->s->upsert ? upsert_one(j, ret) : 0;
    TRY_RETURN(change_doc(j, rid, doc, &entry, &matched, &changed, &growth));
    ret->matched = 1;
    if (!changed)
        return 0;
    TRY_RETURN(writer_commit(w, j->x, &entry, 1, &stmt, 1));
    writer_count(w, 0, growth);
    ret->modified = 1;
    return 0;
}

static int update_one(struct job *j, struct update_outcome *ret)
{
    struct write_tries tries = {0};
    struct update_outcome out;
    int rc;

    do {
        out = (struct update_outcome){.upserted = BV_NONE};
        rc = update_one_try(j, &out);
    } while (writer_try_again(j->w, j->x, j->filter, j->s->upsert, &tries, rc, &rc));
    if (rc == 0)
        *ret = out;
    return rc;
}

/* One transaction's worth of a multi-update. */
struct chunk {
    struct oplog_op ops[WRITE_GROUP_DOCS];
    size_t n;        /* changed */
    size_t examined; /* record ids looked at */
    int64_t matched, growth;
};

static int update_chunk(struct job *j, struct chunk *c, const int64_t *rids, size_t n)
{
    struct exec *x = j->x;
    struct stx *t;
    int64_t bytes = 0;

    c->n = c->examined = 0;
    c->matched = c->growth = 0;
    arena_reset(&x->scratch);
    TRY_RETURN(exec_stx(x, &t));
    while (c->examined < n && c->n < WRITE_GROUP_DOCS && bytes < WRITE_GROUP_BYTES) {
        struct bv doc;
        bool matched = false, changed;
        int64_t growth;

        TRY_RETURN(record_get(t, j->w->coll, rids[c->examined], &x->scratch, &doc));
        if (!bv_is_missing(doc)) {
            TRY_RETURN(
                change_doc(j, rids[c->examined], doc, &c->ops[c->n], &matched, &changed, &growth));
            c->matched += matched;
            c->n += changed;
            c->growth += growth;
            bytes += doc.len;
        }
        c->examined++;
    }
    return 0;
}

static int commit_chunk(struct job *j, struct chunk *c, struct update_outcome *ret)
{
    if (c->n > 0)
        TRY_RETURN(writer_commit(j->w, j->x, c->ops, c->n, NULL, 0));
    else
        exec_end(j->x);
    writer_count(j->w, 0, c->growth);
    ret->matched += c->matched;
    ret->modified += (int64_t)c->n;
    return 0;
}

/* A statement that fails part-way keeps what it has done before, as MongoDB's does. */
static int update_rids(struct job *j, struct chunk *c, const int64_t *rids, size_t n,
                       struct update_outcome *ret)
{
    size_t done = 0;
    unsigned attempt = 0;

    while (done < n) {
        int rc;

        TRY_RETURN(op_check(j->w->op)); /* between two transactions: nothing is pending */
        rc = update_chunk(j, c, rids + done, n - done);
        if (rc != 0 && rc != ERR_WRITE_CONFLICT) {
            struct error err = *j->w->op->err;
            int commit_rc = commit_chunk(j, c, ret);

            if (commit_rc < 0)
                return commit_rc;
            if (commit_rc != ERR_WRITE_CONFLICT) {
                *j->w->op->err = err;
                return rc;
            }
            rc = commit_rc;
        }
        if (rc == 0)
            rc = commit_chunk(j, c, ret);
        if (rc == ERR_WRITE_CONFLICT) {
            exec_end(j->x);
            TRY_RETURN(writer_backoff(j->w, attempt++));
            continue;
        }
        TRY_RETURN(rc);
        done += c->examined;
        attempt = 0;
    }
    return 0;
}

static int update_many(struct job *j, struct update_outcome *ret)
{
    struct chunk *c;
    int64_t *rids = NULL;
    size_t n = 0;
    int rc;

    if (j->w->coll != NULL)
        TRY_RETURN(writer_collect(j->w, j->x, j->arena, j->filter, j->s->hint, &rids, &n));
    if (n == 0) {
        free(rids);
        return j->s->upsert ? update_one(j, ret) : 0;
    }
    c = mem_must(sizeof(*c));
    rc = update_rids(j, c, rids, n, ret);
    free(c);
    free(rids);
    return rc;
}

static bool answered_before(struct writer *w, int32_t stmt_id, struct update_outcome *ret)
{
    const struct retry_stmt *done = w->retry == NULL ? NULL : retry_state_find(w->retry, stmt_id);

    if (done == NULL)
        return false;
    ret->retried = true;
    ret->matched = 1;
    if (done->kind == 's')
        ret->upserted = done->result;
    else
        ret->modified = 1;
    return true;
}

int write_update_check(struct writer *w, const struct update_stmt *s)
{
    struct arena arena;
    struct job j = {.w = w, .s = s, .arena = &arena};
    int rc;

    arena_init(&arena);
    rc = job_parse(&j);
    w->op->err->info = NULL;
    arena_fini(&arena);
    return rc;
}

int write_update(struct writer *w, const struct update_stmt *s, struct eval *let,
                 struct update_outcome *ret)
{
    struct arena arena;
    struct exec x;
    struct job j = {.w = w, .s = s, .arena = &arena, .x = &x};
    int rc;

    *ret = (struct update_outcome){.upserted = BV_NONE};
    if (answered_before(w, s->stmt_id, ret))
        return 0;
    arena_init(&arena);
    exec_init(&x, w->op);
    if (let != NULL)
        memcpy(x.ev.vars, let->vars, sizeof(x.ev.vars));
    rc = job_parse(&j);
    if (rc == 0)
        rc = s->multi ? update_many(&j, ret) : update_one(&j, ret);
    exec_end(&x);
    exec_fini(&x);
    arena_fini(&arena);
    return txn_write_error(w->op, rc);
}
