/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "query/write.h"

#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "query/ddl_internal.h"
#include "query/write_internal.h"

/* --- retryable writes ------------------------------------------------------------------------ */

/* Notes when the statements from `from` on leave the order of their numbers. */
static void check_order(struct retry_state *r, size_t from)
{
    const struct retry_stmt *s = r->record.stmts;

    for (size_t i = from; i < r->record.n; i++) {
        if (i > 0 && s[i].stmt_id - s[i - 1].stmt_id < s[i - 1].count)
            r->unordered = true;
    }
}

int retry_state_open(struct op *op, struct bv lsid, int64_t txn_number, struct retry_state *ret)
{
    struct retry_state r = {.lsid = lsid, .txn_number = txn_number};

    TRY_RETURN(retry_load(op->database->engine, op, lsid, &op->arena, &r.record));
    if (r.record.found && txn_number < r.record.txn_number)
        return op_fail(op, ERR_TRANSACTION_TOO_OLD,
                       "Retryable write with txnNumber %lld is prohibited on session %s because a "
                       "newer retryable write with txnNumber %lld has already started on this "
                       "session.",
                       (long long)txn_number, bv_show(&op->arena, lsid, 200),
                       (long long)r.record.txn_number);
    if (r.record.found && txn_number == r.record.txn_number && r.record.committed)
        return op_fail(op, ERR_INCOMPLETE_TXN_HISTORY,
                       "Cannot retry a retryable write that has been converted into a transaction");
    if (!r.record.found || txn_number > r.record.txn_number) {
        r.record.txn_number = txn_number;
        r.record.committed = false;
        r.record.stmts = NULL;
        r.record.n = 0;
        r.record.stale = r.record.chunks;
        r.record.chunks = 0;
    }
    r.cap = r.record.n;
    check_order(&r, 0);
    *ret = r;
    return 0;
}

static bool covers(const struct retry_stmt *s, int32_t stmt_id)
{
    return stmt_id >= s->stmt_id && stmt_id - s->stmt_id < s->count;
}

/* Drivers number statements as they come, so they are nearly always in order: then the newest one
 * tells that a statement is new, and a search finds an old one. */
const struct retry_stmt *retry_state_find(const struct retry_state *r, int32_t stmt_id)
{
    const struct retry_stmt *stmts = r->record.stmts;
    size_t lo = 0, hi = r->record.n;

    for (size_t i = 0; r->unordered && i < r->record.n; i++) {
        if (covers(&stmts[i], stmt_id))
            return &stmts[i];
    }
    if (r->unordered || hi == 0)
        return NULL;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;

        if (stmts[mid].stmt_id <= stmt_id)
            lo = mid;
        else
            hi = mid;
    }
    return covers(&stmts[lo], stmt_id) ? &stmts[lo] : NULL;
}

/* --- opening and closing --------------------------------------------------------------------- */

#define UPSERT_RETRIES 10
#define QUICK_TRIES    4 /* before it is taken that a long transaction is the other side */

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Namespaces that are views of the server's own state. */
static bool server_owned(const char *ns)
{
    static const char *const owned[] = {"local.oplog.rs",          "config.transactions",
                                        "config.system.preimages", "config.image_collection",
                                        "config.system.sessions",  "local.system.replset"};

    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) {
        if (strcmp(ns, owned[i]) == 0)
            return true;
    }
    return false;
}

static int open_in_txn(struct writer *w, bool may_create)
{
    struct op *op = w->op;
    struct txn_coll *made;

    if (!w->logged || txn_read_only(op->txn))
        return op_fail(op, ERR_NOT_SUPPORTED_IN_TXN,
                       "Cannot run command against the 'local' database in a transaction.");
    TRY_RETURN(txn_lookup(op, w->ns, &w->coll));
    if (w->coll != NULL || !may_create)
        return 0;
    if (!op->on_schema_thread)
        return INT_TO_SCHEMA;
    /* Now: in the midst of its work the command could not wait for the lock. */
    return txn_touch(op, w->ns, NSLOCK_EXCLUSIVE, &made);
}

int writer_open(struct writer *w, struct op *op, const char *ns, bool may_create,
                struct retry_state *retry)
{
    struct database *db = op->database;
    const char *dot = strchr(ns, '.');
    char *db_name;
    int rc;

    ASSERT(dot != NULL);
    memset(w, 0, sizeof(*w));
    if (server_owned(ns))
        return op_fail(op, ERR_UNAUTHORIZED, "not authorized on %.*s to write to '%s'",
                       (int)(dot - ns), ns, ns);
    w->op = op;
    w->ns = ns;
    w->retry = retry;
    w->logged = !starts_with(ns, "local.");
    w->txns_ended = txn_ended(db);
    if (op->txn != NULL)
        return open_in_txn(w, may_create);
    db_name = arena_strndup(&op->arena, ns, (size_t)(dot - ns));
    TRY(nslock_acquire(db->locks, op, db_name, NSLOCK_SHARED, &w->db_lock));
    TRY(nslock_acquire(db->locks, op, ns, NSLOCK_SHARED, &w->coll_lock));
    w->coll = catalog_get(db->catalog, ns);
    if (w->coll == NULL && may_create) {
        if (!op->on_schema_thread) {
            rc = INT_TO_SCHEMA;
            goto fail;
        }
        nslock_release(db->locks, &w->coll_lock);
        TRY(nslock_acquire(db->locks, op, ns, NSLOCK_EXCLUSIVE, &w->coll_lock));
        w->coll = catalog_get(db->catalog, ns);
    }
    return 0;
fail:
    writer_close(w);
    return rc;
}

void writer_close(struct writer *w)
{
    if (w->op == NULL)
        return;
    coll_unref(w->coll);
    w->coll = NULL;
    nslock_release(w->op->database->locks, &w->coll_lock);
    nslock_release(w->op->database->locks, &w->db_lock);
    w->op = NULL;
}

int writer_create(struct writer *w)
{
    if (w->op->txn != NULL) {
        TRY_RETURN(ddl_create_in_txn(w->op, w->ns, bv_empty_doc));
        return txn_lookup(w->op, w->ns, &w->coll);
    }
    ASSERT(w->op->on_schema_thread && w->coll_lock.mode == NSLOCK_EXCLUSIVE);
    TRY_RETURN(ddl_create_locked(w->op, w->ns, bv_empty_doc));
    w->coll = catalog_get(w->op->database->catalog, w->ns);
    ASSERT(w->coll != NULL);
    return 0;
}

/* --- committing ------------------------------------------------------------------------------ */

struct retry_extra {
    struct writer *w;
    struct retry_stmt *stmts;
    size_t n;
    struct retry_record next;
};

/* Room for n more statements behind those of the record, which do not move on disk for it. */
static int reserve_stmts(struct retry_state *state, struct op *op, size_t n)
{
    struct retry_record *r = &state->record;
    size_t cap = state->cap * 2 > r->n + n ? state->cap * 2 : r->n + n;
    struct retry_stmt *grown;

    if (r->n + n <= state->cap)
        return 0;
    grown = arena_regrow(&op->arena, r->stmts, state->cap * sizeof(*grown), cap * sizeof(*grown));
    if (grown == NULL)
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory for a retry record");
    r->stmts = grown;
    state->cap = cap;
    return 0;
}

/* The record as it will be: what it had, and the new statements with their optimes. */
static int store_retry(void *arg, struct stx *t, uint64_t first)
{
    struct retry_extra *e = arg;
    struct retry_state *state = e->w->retry;
    struct retry_record *r = &e->next;

    TRY_RETURN(reserve_stmts(state, e->w->op, e->n));
    *r = state->record;
    r->found = true;
    r->txn_number = state->txn_number;
    for (size_t i = 0; i < e->n; i++) {
        struct retry_stmt *s = &r->stmts[r->n++];

        *s = e->stmts[i];
        s->optime += first;
        r->optime = s->optime + (uint64_t)s->count - 1;
    }
    r->term = oplog_term(e->w->op->database->oplog);
    r->date_ms = (int64_t)(first >> 32) * 1000;
    return retry_store(t, state->lsid, r);
}

int writer_commit(struct writer *w, struct exec *x, struct oplog_op *ops, size_t n,
                  struct retry_stmt *stmts, size_t nstmts)
{
    struct oplog *o = w->op->database->oplog;
    struct retry_extra extra = {.w = w, .stmts = stmts, .n = nstmts};
    bool retry = w->retry != NULL && nstmts > 0 && w->logged;
    struct stx *t = x->stx;
    uint64_t first;

    if (w->op->txn != NULL) {
        exec_end(x);
        return txn_add_ops(w->op->txn, w->op, ops, n);
    }
    if (retry && w->retry->before_commit != NULL)
        TRY_RETURN(w->retry->before_commit(w->op));
    x->stx = NULL;
    TRY_RETURN(oplog_commit(o, w->op, t, ops, w->logged ? n : 0, retry ? store_retry : NULL, &extra,
                            &first));
    if (!w->logged)
        w->op->ack_flush = oplog_flush_ticket(o);
    if (retry) {
        size_t old = w->retry->record.n;

        w->retry->record = extra.next;
        check_order(w->retry, old);
    }
    return 0;
}

void writer_count(struct writer *w, int64_t docs, int64_t bytes)
{
    if (w->op->txn != NULL)
        txn_count(w->op->txn, w->ns, docs, bytes);
    else
        coll_count_add(w->coll, docs, bytes);
}

/* The other side is a short transaction of another worker: it ends without our help. */
static void pause_shortly(unsigned attempt)
{
    struct timespec ts = {0, attempt < 3 ? 0 : 20000L << (attempt < 10 ? attempt - 3 : 7)};

    if (ts.tv_nsec > 0)
        nanosleep(&ts, NULL);
}

int writer_backoff(struct writer *w, unsigned attempt)
{
    struct database *db = w->op->database;

    txn_note_conflict(db);
    if (w->op->txn != NULL)
        return ERR_WRITE_CONFLICT;
    TRY_RETURN(op_check(w->op));
    if (attempt < QUICK_TRIES || !w->logged || !txn_any_writing(db))
        pause_shortly(attempt);
    else
        TRY_RETURN(txn_wait_ended(w->op, w->txns_ended, attempt - QUICK_TRIES));
    w->txns_ended = txn_ended(db);
    return 0;
}

void writer_entry(const struct writer *w, struct oplog_op *ret, char kind, struct bv o,
                  struct bv o2, struct bv pre_image, int32_t stmt_id)
{
    *ret = (struct oplog_op){.op = kind,
                             .ns = w->ns,
                             .uuid = w->coll->uuid,
                             .o = o,
                             .o2 = o2,
                             .pre_image = w->coll->images ? pre_image : BV_NONE,
                             .stmt_id = -1};
    if (w->retry != NULL) {
        ret->lsid = w->retry->lsid;
        ret->txn_number = w->retry->txn_number;
        ret->stmt_id = stmt_id;
    }
}

struct bv writer_key_doc(struct arena *a, struct bv doc)
{
    struct bw w;

    bw_init(&w, a);
    bw_bv(&w, "_id", bv_get(doc, "_id"));
    return bw_done(&w);
}

uint64_t writer_now_ts(const struct writer *w)
{
    return w->keep_empty_ts ? 0 : oplog_allocated(w->op->database->oplog) + 1;
}

/* --- finding what to change ------------------------------------------------------------------ */

int writer_collect(struct writer *w, struct exec *x, struct arena *a, const struct match *filter,
                   struct bv hint, int64_t **ret, size_t *ret_n)
{
    struct scan_spec spec = {.k = w->coll, .filter = filter, .hint = hint};
    struct stage *scan = NULL;
    int64_t *rids = NULL;
    size_t n = 0, cap = 0;
    bool sorted, more = true;
    int rc;

    TRY(scan_new(w->op, a, &spec, &scan, &sorted));
    while (more) {
        struct bv doc;

        TRY(stage_next(scan, x, &doc, &more));
        if (bv_is_missing(doc))
            break;
        if (n == cap) {
            int64_t *grown;

            cap = cap == 0 ? 64 : cap * 2;
            grown = mem_try_resize(rids, cap * sizeof(*rids));
            if (grown == NULL) {
                rc = op_fail(w->op, ERR_EXCEEDED_MEMORY_LIMIT, "too many documents to change");
                goto fail;
            }
            rids = grown;
        }
        rids[n++] = scan_rid(scan);
        arena_reset(&x->scratch);
    }
    stage_save(scan, x);
    stage_close(scan);
    exec_end(x);
    *ret = rids;
    *ret_n = n;
    return 0;
fail:
    if (scan != NULL) {
        stage_save(scan, x);
        stage_close(scan);
    }
    exec_end(x);
    free(rids);
    return rc;
}

int writer_find_one(struct writer *w, struct exec *x, struct arena *a, const struct match *filter,
                    struct bv sort, struct bv hint, int64_t *ret_rid, struct bv *ret)
{
    struct scan_spec spec = {.k = w->coll, .filter = filter, .hint = hint, .sort = sort};
    struct stage *scan = NULL, *last = NULL;
    struct stx *t;
    struct bv doc = BV_NONE;
    bool sorted = false, more;
    int64_t rid = 0;
    int rc;

    TRY_RETURN(exec_stx(x, &t));
    TRY(scan_new(w->op, a, &spec, &scan, &sorted));
    last = scan;
    if (!bv_empty(sort) && !sorted) {
        TRY(sort_new(w->op, a, sort, 1, true, &last));
        last->source = scan;
    }
    TRY(stage_next(last, x, &doc, &more));
    if (!bv_is_missing(doc)) {
        TRY(op_dup(w->op, &x->scratch, doc, &doc));
        rid = last == scan ? scan_rid(scan) : -1;
    }
    stage_save(last, x);
    stage_close(last);
    if (rid == -1) /* a sort has lost the record id */
        TRY_RETURN(record_find_id(t, w->coll, bv_get(doc, "_id"), &x->scratch, &rid, &doc));
    *ret_rid = rid;
    *ret = doc;
    return 0;
fail:
    if (last != NULL) {
        stage_save(last, x);
        stage_close(last);
    }
    return rc;
}

/* --- upserts --------------------------------------------------------------------------------- */

int writer_upsert(struct writer *w, struct exec *x, const struct update *u,
                  const struct match *filter, int32_t stmt_id, struct oplog_op *ret_entry,
                  struct bv *ret_doc)
{
    struct bv doc;
    struct stx *t;
    int64_t rid;

    TRY_RETURN(update_upsert_doc(u, &x->ev, filter, &doc));
    TRY_RETURN(document_prepare(w->op, &w->op->arena, doc, writer_now_ts(w), &doc));
    TRY_RETURN(op_dup(w->op, &w->op->arena, doc, &doc));
    if (w->coll == NULL) {
        exec_end(x); /* its snapshot is older than the collection */
        TRY_RETURN(writer_create(w));
    }
    TRY_RETURN(exec_stx(x, &t));
    TRY_RETURN(record_insert(t, w->coll, doc, &rid));
    writer_entry(w, ret_entry, 'i', doc, writer_key_doc(&w->op->arena, doc), BV_NONE, stmt_id);
    *ret_doc = doc;
    return 0;
}

static bool pins(const struct match *m, const char *path)
{
    if (match_kind(m) == MATCH_EQ)
        return strcmp(match_path(m), path) == 0;
    if (match_kind(m) != MATCH_AND)
        return false;
    for (size_t i = 0; i < match_nchildren(m); i++) {
        if (pins(match_child(m, i), path))
            return true;
    }
    return false;
}

static bool upsert_may_retry(struct op *op, const struct match *filter)
{
    struct bv pattern;
    struct biter it;
    struct belem e;

    if (op->err->info == NULL)
        return false;
    pattern = bv_get(bv_doc(op->err->info), "keyPattern");
    it = biter(pattern);
    while (biter_next(&it, &e)) {
        if (!pins(filter, e.key))
            return false;
    }
    return !bv_empty(pattern);
}

bool writer_try_again(struct writer *w, struct exec *x, const struct match *filter, bool upsert,
                      struct write_tries *tries, int rc, int *ret_rc)
{
    exec_end(x);
    if (rc == ERR_WRITE_CONFLICT) {
        rc = writer_backoff(w, tries->conflicts++);
    } else if (rc == ERR_DUPLICATE_KEY && upsert && w->op->txn == NULL &&
               tries->upserts < UPSERT_RETRIES && upsert_may_retry(w->op, filter)) {
        tries->upserts++;
        rc = 0;
    } else {
        *ret_rc = rc;
        return false;
    }
    arena_reset(&x->scratch);
    *ret_rc = rc;
    return rc == 0;
}
