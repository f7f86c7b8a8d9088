/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "query/source.h"

#include <stdlib.h>

#include "oplog/reader.h"
#include "oplog/retry.h"
#include "query/collection_uuid.h"
#include "query/txn.h"

/* --- rows that are already there ------------------------------------------------------------- */

struct rows_stage {
    struct stage base;
    struct bv *docs;
    size_t n, at;
    const struct match *filter;
};

static int rows_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct rows_stage *r = (struct rows_stage *)s;

    while (r->at < r->n) {
        struct bv doc = r->docs[r->at++];
        bool ok = true;

        if (r->filter != NULL)
            TRY_RETURN(match_test(r->filter, &x->ev, doc, &ok, NULL));
        if (ok) {
            *ret = doc;
            *ret_more = true;
            return 0;
        }
    }
    *ret = BV_NONE;
    *ret_more = false;
    return 0;
}

static const struct stage_ops rows_ops = {.name = "QUEUE", .next = rows_next};

int source_rows(struct op *op, struct arena *a, const struct bv *docs, size_t n,
                const struct match *filter, struct stage **ret)
{
    struct rows_stage *r = ARENA_NEW(a, struct rows_stage);

    r->base.ops = &rows_ops;
    r->docs = ARENA_TRY_ARRAY(a, struct bv, n + 1);
    if (r->docs == NULL)
        return op_no_memory(op);
    for (size_t i = 0; i < n; i++)
        TRY_RETURN(op_dup(op, a, docs[i], &r->docs[i]));
    r->n = n;
    r->filter = filter;
    *ret = &r->base;
    return 0;
}

/* --- views of the server's own state --------------------------------------------------------- */

struct doc_list {
    struct arena *arena;
    struct bv *docs;
    size_t n, cap;
};

static int list_add(struct doc_list *l, struct op *op, struct bv doc)
{
    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? 16 : l->cap * 2;
        struct bv *grown =
            arena_regrow(l->arena, l->docs, l->cap * sizeof(*grown), cap * sizeof(*grown));

        if (grown == NULL)
            return op_no_memory(op);
        l->docs = grown;
        l->cap = cap;
    }
    TRY_RETURN(op_dup(op, l->arena, doc, &l->docs[l->n]));
    l->n++;
    return 0;
}

/* Rows that may be many or as large as documents are read a page at a time. */
struct paged_stage {
    struct stage base;
    const struct match *filter;
    /* Calls add_row() with the rows from the position on. */
    int (*read)(struct op *op, struct paged_stage *s);
    struct op *op; /* of the page being read */
    struct arena page;
    struct doc_list docs; /* in the page */
    size_t at, bytes;
    bool last_page;
    /* the position of the next page */
    uint64_t optime; /* of a pre-image, and its index */
    int64_t index;
    struct arena lsid_arena;
    struct bv lsid; /* of the last retry record; BV_NONE: at the first one */
};

enum { PAGE_BYTES = 1024 * 1024, PAGE_FULL = -1000 /* ends a walk; no error */ };

static int add_row(struct paged_stage *s, struct bv doc)
{
    TRY_RETURN(list_add(&s->docs, s->op, doc));
    s->bytes += doc.len;
    return s->bytes < PAGE_BYTES ? 0 : PAGE_FULL;
}

static int add_image(void *arg, struct bv doc)
{
    struct paged_stage *s = arg;
    struct bv id = bv_get(doc, "_id");

    s->optime = bv_ts(bv_get(id, "ts"));
    s->index = bv_i64(bv_get(id, "applyOpsIndex")) + 1;
    return add_row(s, doc);
}

static int read_images(struct op *op, struct paged_stage *s)
{
    return image_each(op->database->oplog, op, s->optime, s->index, add_image, s);
}

static int add_record(void *arg, struct bv doc)
{
    return add_row(arg, doc);
}

static int read_records(struct op *op, struct paged_stage *s, enum retry_view view)
{
    int rc = retry_each(op->database->engine, op, view, s->lsid, add_record, s);

    if (s->docs.n > 0) {
        arena_reset(&s->lsid_arena);
        s->lsid = bv_dup(&s->lsid_arena, bv_get(s->docs.docs[s->docs.n - 1], "_id"));
    }
    return rc;
}

static int read_transactions(struct op *op, struct paged_stage *s)
{
    return read_records(op, s, RETRY_TRANSACTIONS);
}

static int read_retry_images(struct op *op, struct paged_stage *s)
{
    return read_records(op, s, RETRY_IMAGES);
}

static int next_page(struct paged_stage *s, struct op *op)
{
    int rc;

    arena_reset(&s->page);
    s->docs = (struct doc_list){.arena = &s->page};
    s->op = op;
    s->at = s->bytes = 0;
    rc = s->read(op, s);
    s->last_page = rc == 0;
    return rc == PAGE_FULL ? 0 : rc;
}

static int paged_next(struct stage *base, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct paged_stage *s = (struct paged_stage *)base;

    for (;;) {
        bool ok = true;

        if (s->at == s->docs.n) {
            *ret = BV_NONE;
            *ret_more = false;
            if (s->last_page)
                return 0;
            TRY_RETURN(next_page(s, x->op));
            continue;
        }
        *ret = s->docs.docs[s->at++];
        *ret_more = true;
        if (s->filter != NULL)
            TRY_RETURN(match_test(s->filter, &x->ev, *ret, &ok, NULL));
        if (ok)
            return 0;
        arena_reset(&x->scratch);
    }
}

static void paged_close(struct stage *base)
{
    struct paged_stage *s = (struct paged_stage *)base;

    arena_fini(&s->page);
    arena_fini(&s->lsid_arena);
}

static const struct stage_ops paged_ops = {
    .name = "QUEUE", .next = paged_next, .close = paged_close};

static struct stage *paged_source(struct arena *a, const struct match *filter,
                                  int (*read)(struct op *op, struct paged_stage *s))
{
    struct paged_stage *s = ARENA_NEW(a, struct paged_stage);

    s->base.ops = &paged_ops;
    s->filter = filter;
    s->read = read;
    s->lsid = BV_NONE;
    arena_init(&s->page);
    arena_init(&s->lsid_arena);
    return &s->base;
}

static int repl_config(struct op *op, struct doc_list *l)
{
    if (op->database->repl_config != NULL)
        return list_add(l, op, op->database->repl_config(op));
    return 0;
}

static const struct {
    const char *ns;
    bool needs_oplog;
    /* At most one of them; neither: has a stage of its own. */
    int (*list)(struct op *op, struct doc_list *l);
    int (*read)(struct op *op, struct paged_stage *s);
} views[] = {
    {"config.image_collection", false, NULL, read_retry_images},
    {"config.system.preimages", true, NULL, read_images},
    {"config.transactions", false, NULL, read_transactions},
    {"local.oplog.rs", true, NULL, NULL},
    {"local.system.replset", true, repl_config, NULL},
};

#define NVIEWS (sizeof(views) / sizeof(views[0]))

static size_t find_view(const char *ns)
{
    size_t i = 0;

    while (i < NVIEWS && strcmp(views[i].ns, ns) != 0)
        i++;
    return i;
}

bool source_is_virtual(const char *ns)
{
    return find_view(ns) < NVIEWS;
}

const char *source_virtual_at(size_t i)
{
    return i < NVIEWS ? views[i].ns : NULL;
}

bool source_exists(struct database *db, const char *ns)
{
    size_t i = find_view(ns);
    struct coll *k;

    if (i < NVIEWS)
        return !(views[i].needs_oplog && oplog_hidden(db->oplog));
    k = catalog_get(db->catalog, ns);
    coll_unref(k);
    return k != NULL;
}

static int view_source(struct op *op, struct arena *a, size_t view, const struct source_spec *s,
                       struct stage **ret)
{
    struct doc_list l = {.arena = a};

    TRY_RETURN(views[view].list(op, &l));
    return source_rows(op, a, l.docs, l.n, s->filter, ret);
}

int source_check_uuid(struct op *op, const char *ns, struct bv uuid)
{
    struct coll *k;
    int rc;

    if (bv_is_missing(uuid))
        return 0;
    TRY_RETURN(txn_lookup(op, ns, &k));
    rc = collection_uuid_check(op, ns, k, uuid);
    coll_unref(k);
    return rc;
}

int source_new(struct op *op, struct arena *a, const struct source_spec *s, struct stage **ret,
               bool *ret_sorted, bool *ret_oplog)
{
    struct scan_spec scan = {.filter = s->filter,
                             .sort = s->sort,
                             .hint = s->hint,
                             .min = s->min,
                             .max = s->max,
                             .show_record_id = s->show_record_id,
                             .tailable = s->tailable};
    size_t view = find_view(s->ns);
    struct coll *k;
    int rc;

    *ret_sorted = false;
    *ret_oplog = false;
    if (view < NVIEWS)
        TRY_RETURN(collection_uuid_check(op, s->ns, NULL, s->uuid));
    if (view < NVIEWS && views[view].needs_oplog && oplog_hidden(op->database->oplog)) {
        return source_rows(op, a, NULL, 0, NULL, ret);
    }
    if (view < NVIEWS && views[view].list != NULL)
        return view_source(op, a, view, s, ret);
    if (view < NVIEWS && views[view].read != NULL) {
        *ret = paged_source(a, s->filter, views[view].read);
        return 0;
    }
    if (view < NVIEWS) {
        *ret_oplog = true;
        return scan_oplog_new(op, a, &scan, ret, ret_sorted);
    }
    TRY_RETURN(txn_lookup(op, s->ns, &k));
    scan.k = k;
    rc = collection_uuid_check(op, s->ns, k, s->uuid);
    if (rc == 0)
        rc = scan_new(op, a, &scan, ret, ret_sorted);
    coll_unref(k);
    return rc;
}
