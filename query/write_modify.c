/* SPDX-License-Identifier: GPL-3.0-or-later */
/* findAndModify: one document found, changed or removed, and returned. */
#include "query/projection.h"
#include "query/write_internal.h"

struct job {
    struct writer *w;
    const struct modify_stmt *s;
    struct arena *arena; /* of the statement */
    struct match *filter;
    struct update *update;     /* NULL: remove */
    struct projection *fields; /* NULL: whole documents */
    struct exec *x;
};

static int job_parse(struct job *j)
{
    const struct update_stmt *s = &j->s->update;
    struct op *op = j->w->op;
    struct match_options mo = {.vars = s->vars};
    struct update_spec us = {.u = s->u,
                             .array_filters = s->array_filters,
                             .constants = s->constants,
                             .vars = s->vars,
                             .upsert = s->upsert,
                             .keep_empty_ts = j->w->keep_empty_ts};

    TRY_RETURN(match_parse(op, j->arena, s->q, &mo, &j->filter));
    if (!bv_empty(j->s->fields))
        TRY_RETURN(projection_parse(op, j->arena, j->s->fields, PROJECT_FIND, NULL, j->filter,
                                    &j->fields));
    if (j->s->remove)
        return 0;
    return update_parse(op, j->arena, &us, &j->update);
}

/* The document as the reply shows it, in the op's arena. */
static int show(struct job *j, struct bv doc, struct bv *ret)
{
    if (j->fields != NULL)
        TRY_RETURN(projection_apply(j->fields, &j->x->ev, doc, &doc));
    return op_dup(j->w->op, &j->w->op->arena, doc, ret);
}

/* What a retry of this statement will be told. */
static struct bv remember(struct job *j, const struct modify_outcome *out)
{
    struct bw w;

    bw_init(&w, &j->w->op->arena);
    bw_i64(&w, "n", out->n);
    bw_bool(&w, "updatedExisting", out->updated_existing);
    bw_bv(&w, "value", out->value);
    bw_bv(&w, "upserted", out->upserted);
    if (j->s->want_new)
        bw_bool(&w, "post", true);
    return bw_done(&w);
}

static bool recall(struct writer *w, int32_t stmt_id, struct modify_outcome *ret)
{
    const struct retry_stmt *s = w->retry == NULL ? NULL : retry_state_find(w->retry, stmt_id);
    int64_t n = 0;

    if (s == NULL)
        return false;
    *ret = (struct modify_outcome){.retried = true,
                                   .value = bv_get(s->result, "value"),
                                   .upserted = bv_get(s->result, "upserted"),
                                   .updated_existing =
                                       bv_truthy(bv_get(s->result, "updatedExisting"))};
    if (bv_to_i64(bv_get(s->result, "n"), &n))
        ret->n = n;
    return true;
}

static int commit(struct job *j, struct oplog_op *entry, const struct modify_outcome *out)
{
    struct retry_stmt stmt = {.stmt_id = j->s->update.stmt_id, .count = 1, .kind = 'f'};

    if (j->w->retry != NULL) {
        stmt.result = remember(j, out);
        /* An insert has no image before it, and is itself the one after it. */
        if (entry->op != 'i')
            entry->retry_image = j->s->want_new ? "postImage" : "preImage";
    }
    return writer_commit(j->w, j->x, entry, 1, &stmt, 1);
}

static int remove_doc(struct job *j, int64_t rid, struct bv doc, struct modify_outcome *out)
{
    struct oplog_op entry;

    TRY_RETURN(show(j, doc, &out->value));
    out->n = 1;
    TRY_RETURN(record_delete(j->x->stx, j->w->coll, rid, doc));
    writer_entry(j->w, &entry, 'd', writer_key_doc(&j->x->scratch, doc), BV_NONE, doc,
                 j->s->update.stmt_id);
    TRY_RETURN(commit(j, &entry, out));
    writer_count(j->w, -1, -(int64_t)doc.len);
    return 0;
}

static int update_doc(struct job *j, int64_t rid, struct bv doc, struct modify_outcome *out)
{
    struct exec *x = j->x;
    struct update_result r;
    struct oplog_op entry;
    int32_t position;
    bool matched;

    TRY_RETURN(match_test(j->filter, &x->ev, doc, &matched, &position));
    TRY_RETURN(update_apply(j->update, &x->ev, doc, position, &r));
    TRY_RETURN(show(j, j->s->want_new ? r.doc : doc, &out->value));
    out->n = 1;
    out->updated_existing = true;
    if (!r.changed)
        return 0;
    TRY_RETURN(record_update(x->stx, j->w->coll, rid, doc, r.doc));
    writer_entry(j->w, &entry, 'u', r.entry_o, writer_key_doc(&x->scratch, doc), doc,
                 j->s->update.stmt_id);
    TRY_RETURN(commit(j, &entry, out));
    writer_count(j->w, 0, (int64_t)r.doc.len - (int64_t)doc.len);
    return 0;
}

static int upsert_doc(struct job *j, struct modify_outcome *out)
{
    struct oplog_op entry;
    struct bv doc;

    TRY_RETURN(writer_upsert(j->w, j->x, j->update, j->filter, j->s->update.stmt_id, &entry, &doc));
    out->n = 1;
    out->upserted = entry.o2;
    if (j->s->want_new)
        TRY_RETURN(show(j, doc, &out->value));
    TRY_RETURN(commit(j, &entry, out));
    writer_count(j->w, 1, doc.len);
    return 0;
}

static int modify_try(struct job *j, struct modify_outcome *out)
{
    struct bv doc = BV_NONE;
    int64_t rid = 0;

    if (j->w->coll != NULL)
        TRY_RETURN(writer_find_one(j->w, j->x, j->arena, j->filter, j->s->update.sort,
                                   j->s->update.hint, &rid, &doc));
    if (rid == 0)
        return j->s->update.upsert && !j->s->remove ? upsert_doc(j, out) : 0;
    return j->s->remove ? remove_doc(j, rid, doc, out) : update_doc(j, rid, doc, out);
}

static int modify(struct job *j, struct modify_outcome *ret)
{
    struct write_tries tries = {0};
    struct modify_outcome out;
    int rc;

    do {
        out = (struct modify_outcome){.value = BV_NONE, .upserted = BV_NONE};
        rc = modify_try(j, &out);
    } while (writer_try_again(j->w, j->x, j->filter, j->s->update.upsert, &tries, rc, &rc));
    if (rc == 0)
        *ret = out;
    return rc;
}

int write_modify(struct writer *w, const struct modify_stmt *s, struct eval *let,
                 struct modify_outcome *ret)
{
    struct arena arena;
    struct exec x;
    struct job j = {.w = w, .s = s, .arena = &arena, .x = &x};
    int rc;

    *ret = (struct modify_outcome){.value = BV_NONE, .upserted = BV_NONE};
    if (recall(w, s->update.stmt_id, ret))
        return 0;
    arena_init(&arena);
    exec_init(&x, w->op);
    if (let != NULL)
        memcpy(x.ev.vars, let->vars, sizeof(x.ev.vars));
    rc = job_parse(&j);
    if (rc == 0)
        rc = modify(&j, ret);
    exec_end(&x);
    exec_fini(&x);
    arena_fini(&arena);
    return txn_write_error(w->op, rc);
}
