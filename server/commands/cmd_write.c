/* SPDX-License-Identifier: GPL-3.0-or-later */
/* insert, update, delete, findAndModify. */
#include "server/commands/cmd_write.h"

#include "base/limits.h"
#include "query/collection_uuid.h"
#include "server/commands/cmd_common.h"
#include "server/concerns.h"
#include "server/failpoints.h"
#include "server/server.h"
#include "server/transactions.h"

/* --- what the batch commands share ----------------------------------------------------------- */

struct batch {
    struct request *rq;
    struct writer writer;
    struct retry_state retry;
    bool retryable;    /* a txnNumber was given */
    bool writing;      /* session_write_begin() succeeded */
    struct bv uuid;    /* collectionUUID, or BV_NONE */
    size_t n;          /* statements */
    int32_t *stmt_ids; /* of the statements */
    struct bw errors;  /* array of writeErrors */
    size_t nerrors;
    struct bw retried; /* array of statement ids */
    size_t nretried;
};

int write_check_batch_size(struct op *op, size_t n)
{
    if (n == 0 || n > LIMIT_WRITE_BATCH)
        return op_fail(op, ERR_INVALID_LENGTH,
                       "Write batch sizes must be between 1 and %d. Got %zu operations.",
                       LIMIT_WRITE_BATCH, n);
    return 0;
}

int write_number_statements(struct request *rq, size_t n, int32_t **ret)
{
    struct biter it = biter(rq->env->stmt_ids);
    struct belem e;
    size_t i = 0;
    int32_t *ids = ARENA_TRY_ARRAY(&rq->op.arena, int32_t, n);

    *ret = ids;
    if (ids == NULL)
        return op_no_memory(&rq->op);
    if (!bv_is_missing(rq->env->stmt_ids) && !bv_is_missing(bv_get(rq->op.cmd, "stmtId")))
        return op_fail(&rq->op, ERR_INVALID_OPTIONS,
                       "May not specify both stmtId and stmtIds in %s command.",
                       strcmp(rq->cmd->name, "bulkWrite") == 0 ? "bulkWrite" : "write");
    if (rq->env->stmt_id < 0 || rq->env->stmt_id > INT32_MAX - (int64_t)n)
        return op_fail(&rq->op, ERR_BAD_VALUE, "stmtId must be a non-negative int");
    if (bv_is_missing(rq->env->stmt_ids)) {
        for (i = 0; i < n; i++)
            ids[i] = (int32_t)(rq->env->stmt_id + (int64_t)i);
        return 0;
    }
    while (biter_next(&it, &e) && i < n) {
        int64_t id;

        if (!bv_to_i64_exact(e.v, &id) || id < 0 || id > INT32_MAX)
            return op_fail(&rq->op, ERR_BAD_VALUE, "stmtIds must be non-negative integers");
        ids[i++] = (int32_t)id;
    }
    if (i != n || bv_count(rq->env->stmt_ids) != n)
        return op_fail(&rq->op, ERR_INVALID_LENGTH,
                       "Number of statement ids must match the number of batch entries. Got %u "
                       "statement ids but %zu operations.",
                       bv_count(rq->env->stmt_ids), n);
    return 0;
}

void write_count_retried(struct request *rq, size_t n)
{
    struct server_counters *c = &rq->server->counters;

    if (n == 0)
        return;
    atomic_fetch_add_explicit(&c->retried_commands, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->retried_statements, (int64_t)n, memory_order_relaxed);
}

int write_run_on_worker(struct request *rq)
{
    struct op *op = &rq->op;

    rq->to_schema = false;
    op->waiter.wake(&op->waiter);
    return INT_PARK;
}

/* Retry state and writer; on failure the caller still calls batch_close(). */
static int batch_open(struct batch *b, struct request *rq, const char *ns, struct bv uuid, size_t n,
                      bool may_create)
{
    b->rq = rq;
    b->uuid = uuid;
    b->n = n;
    bw_init_array(&b->errors, &rq->op.arena);
    bw_init_array(&b->retried, &rq->op.arena);
    TRY_RETURN(write_number_statements(rq, n, &b->stmt_ids));
    b->retryable = rq->env->txn_number >= 0 && rq->txn == NULL;
    if (b->retryable) {
        TRY_RETURN(session_write_begin(rq));
        b->writing = true;
        TRY_RETURN(retry_state_open(&rq->op, rq->env->lsid, rq->env->txn_number, &b->retry));
        b->retry.before_commit = failpoints_armed() ? failpoint_before_commit : NULL;
    }
    /* No collection is made for a UUID that can not be its own. */
    TRY_RETURN(writer_open(&b->writer, &rq->op, ns, may_create && bv_is_missing(uuid),
                           b->retryable ? &b->retry : NULL));
    /* Another request has made the collection meanwhile. */
    return rq->op.on_schema_thread && b->writer.coll != NULL ? write_run_on_worker(rq) : 0;
}

/* Each statement on another collection than the one meant fails, unless it was done before. */
static int check_uuid(struct batch *b, size_t index)
{
    if (b->retryable && retry_state_find(&b->retry, b->stmt_ids[index]) != NULL)
        return 0;
    return collection_uuid_check(&b->rq->op, b->writer.ns, b->writer.coll, b->uuid);
}

static void batch_close(struct batch *b)
{
    writer_close(&b->writer);
    if (b->writing)
        session_write_end(b->rq);
}

bool write_error_ends_command(const struct request *rq, int code)
{
    if (txn_rules_transient(rq, code))
        return true;
    switch (code) {
    case ERR_MAX_TIME_MS_EXPIRED:
    case ERR_WRITE_CONCERN_TIMEOUT: /* it has waited for an optime */
    case ERR_INTERRUPTED:
    case ERR_INTERRUPTED_AT_SHUTDOWN:
    case ERR_CURSOR_KILLED:
    case ERR_SHUTDOWN_IN_PROGRESS:
    case ERR_UNAUTHORIZED:
        return true;
    default:
        return code < 0;
    }
}

/* True: the statements behind the failed one are not tried. */
static bool add_error(struct batch *b, size_t index, bool ordered)
{
    const struct error *err = b->rq->op.err;
    struct bw *w = &b->errors;

    bw_doc_begin(w, NULL);
    bw_i32(w, "index", (int32_t)index);
    bw_i32(w, "code", err->code);
    bw_str(w, "errmsg", err->text);
    if (err->info != NULL)
        bw_fields(w, bv_doc(err->info));
    bw_end(w);
    b->nerrors++;
    transaction_fail(b->rq);
    return ordered || b->rq->txn != NULL;
}

static void add_retried(struct batch *b, size_t index)
{
    bw_i32(&b->retried, NULL, b->stmt_ids[index]);
    b->nretried++;
}

static void append_errors(struct batch *b)
{
    struct bw *w = b->rq->reply;

    if (b->errors.failed || b->retried.failed)
        w->failed = w->no_memory = true; /* rather no reply than half of one */
    if (b->nerrors > 0 && !write_concern_is_silent(&b->rq->env->wc))
        bw_bv(w, "writeErrors", bw_done(&b->errors));
    if (b->nretried > 0)
        bw_bv(w, "retriedStmtIds", bw_done(&b->retried));
    write_count_retried(b->rq, b->nretried);
}

/* The elements of an array of documents. */
static int doc_array(struct op *op, const char *what, struct bv array, struct bv **ret,
                     size_t *ret_n)
{
    struct biter it = biter(array);
    struct belem e;
    size_t n = bv_count(array), i = 0;
    struct bv *docs;

    TRY_RETURN(write_check_batch_size(op, n));
    docs = ARENA_TRY_ARRAY(&op->arena, struct bv, n);
    if (docs == NULL)
        return op_no_memory(op);
    while (biter_next(&it, &e)) {
        if (e.v.type != BV_DOC)
            return op_fail(op, ERR_TYPE_MISMATCH,
                           "BSON field '%s.%s' is the wrong type '%s', expected type 'object'",
                           what, e.key, bv_type_name(e.v.type));
        docs[i++] = e.v;
    }
    *ret = docs;
    *ret_n = n;
    return 0;
}

/* --- insert ---------------------------------------------------------------------------------- */

struct insert_args {
    struct bv documents, uuid;
    bool ordered, bypass, keep_empty_ts;
};

static const struct field insert_fields[] = {
    {"documents", F_ARRAY, offsetof(struct insert_args, documents), FIELD_REQUIRED},
    {"ordered", F_BOOL, offsetof(struct insert_args, ordered), 0},
    {"bypassDocumentValidation", F_BOOL, offsetof(struct insert_args, bypass), FIELD_NULL_OK},
    {"bypassEmptyTsReplacement", F_BOOL, offsetof(struct insert_args, keep_empty_ts),
     FIELD_NULL_OK},
    {"collectionUUID", F_BIN, offsetof(struct insert_args, uuid), FIELD_NULL_OK},
    {"encryptionInformation", F_DOC, 0, FIELD_UNBUILT},
    {NULL, 0, 0, 0}};

static int insert_all(struct batch *b, const struct bv *docs, bool ordered, int64_t *ret_n)
{
    size_t at = 0;

    *ret_n = 0;
    for (size_t i = 0; b->retryable && i < b->n; i++) {
        if (retry_state_find(&b->retry, b->stmt_ids[i]) != NULL)
            add_retried(b, i);
    }
    while (at < b->n) {
        /* Of another collection only what was done before may pass: one statement at a time. */
        size_t to = collection_uuid_is(b->writer.coll, b->uuid) ? b->n : at + 1, done = 0;
        int64_t inserted = 0;
        int rc = check_uuid(b, at);

        if (rc == 0)
            rc = write_insert(&b->writer, docs, at, to, b->stmt_ids, &done, &inserted);
        at += done;
        *ret_n += inserted;
        if (rc == 0)
            continue;
        if (write_error_ends_command(b->rq, rc))
            return rc;
        if (add_error(b, at++, ordered))
            return 0;
    }
    return 0;
}

int cmd_insert(struct request *rq)
{
    struct insert_args args = {.ordered = true};
    struct batch b = {0};
    const char *ns, *coll;
    struct bv *docs;
    size_t n;
    int64_t inserted = 0;
    int rc;

    TRY_RETURN(request_ns(rq, &ns, &coll));
    TRY_RETURN(fields_parse(&rq->op, "insert", insert_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    TRY_RETURN(collection_uuid_parse(&rq->op, args.uuid));
    TRY_RETURN(doc_array(&rq->op, "insert.documents", args.documents, &docs, &n));
    TRY_RETURN(check_user_ns(&rq->op, ns));
    TRY(batch_open(&b, rq, ns, args.uuid, n, true));
    b.writer.keep_empty_ts = args.keep_empty_ts;
    if (b.writer.coll == NULL && bv_is_missing(args.uuid)) {
        TRY(writer_create(&b.writer));
        TRY(write_run_on_worker(rq));
    }
    TRY(insert_all(&b, docs, args.ordered, &inserted));
    bw_i32(rq->reply, "n", (int32_t)inserted);
    append_errors(&b);
fail:
    batch_close(&b);
    return rc;
}

/* --- update ---------------------------------------------------------------------------------- */

struct batch_args {
    struct bv statements, let, uuid;
    bool ordered, bypass, keep_empty_ts;
};

static const struct field update_fields[] = {
    {"updates", F_ARRAY, offsetof(struct batch_args, statements), FIELD_REQUIRED},
    {"ordered", F_BOOL, offsetof(struct batch_args, ordered), 0},
    {"let", F_DOC, offsetof(struct batch_args, let), FIELD_NULL_OK},
    {"bypassDocumentValidation", F_BOOL, offsetof(struct batch_args, bypass), FIELD_NULL_OK},
    {"bypassEmptyTsReplacement", F_BOOL, offsetof(struct batch_args, keep_empty_ts), FIELD_NULL_OK},
    {"collectionUUID", F_BIN, offsetof(struct batch_args, uuid), FIELD_NULL_OK},
    {"encryptionInformation", F_DOC, 0, FIELD_UNBUILT},
    {NULL, 0, 0, 0}};

struct update_args {
    struct update_stmt s;
    struct bv collation;
};

static const struct field update_stmt_fields[] = {
    {"q", F_DOC, offsetof(struct update_args, s.q), FIELD_REQUIRED},
    {"u", F_DOC_ARRAY, offsetof(struct update_args, s.u), FIELD_REQUIRED},
    {"c", F_DOC, offsetof(struct update_args, s.constants), 0},
    {"arrayFilters", F_ARRAY, offsetof(struct update_args, s.array_filters), 0},
    {"multi", F_BOOL, offsetof(struct update_args, s.multi), 0},
    {"upsert", F_BOOL, offsetof(struct update_args, s.upsert), 0},
    {"upsertSupplied", F_IGNORE, 0, 0},
    {"hint", F_STR_DOC, offsetof(struct update_args, s.hint), 0},
    {"sort", F_DOC, offsetof(struct update_args, s.sort), 0},
    {"collation", F_DOC, offsetof(struct update_args, collation), 0},
    {NULL, 0, 0, 0}};

static int parse_updates(struct request *rq, struct bv *docs, size_t n, struct let_vars *let,
                         struct update_stmt **ret, bool *ret_upserts)
{
    struct op *op = &rq->op;
    struct update_stmt *stmts = ARENA_TRY_ARRAY(&op->arena, struct update_stmt, n);

    *ret_upserts = false;
    if (stmts == NULL)
        return op_no_memory(op);
    for (size_t i = 0; i < n; i++) {
        struct update_args a;

        memset(&a, 0, sizeof(a));
        TRY_RETURN(fields_parse(op, "update.updates", update_stmt_fields, docs[i], 0, &a));
        TRY_RETURN(check_collation(op, a.collation));
        TRY_RETURN(check_hint(op, a.s.hint, &a.s.hint));
        if (a.s.multi && rq->env->txn_number >= 0 && !rq->env->has_autocommit)
            return op_fail(op, ERR_INVALID_OPTIONS,
                           "Cannot use (or request) retryable writes with multi=true");
        if (a.s.multi && !bv_is_missing(a.s.sort))
            return op_fail(op, ERR_FAILED_TO_PARSE, "Cannot specify sort with multi=true");
        a.s.vars = let->vars;
        stmts[i] = a.s;
        *ret_upserts = *ret_upserts || a.s.upsert;
    }
    *ret = stmts;
    return 0;
}

struct update_totals {
    int64_t n, modified;
    struct bw upserted;
    size_t nupserted;
};

static int update_all(struct batch *b, struct update_stmt *stmts, struct let_vars *let,
                      bool ordered, struct update_totals *t)
{
    for (size_t i = 0; i < b->n; i++) {
        struct update_outcome out;
        int rc;

        stmts[i].stmt_id = b->stmt_ids[i];
        out = (struct update_outcome){.upserted = BV_NONE};
        rc = check_uuid(b, i);
        if (rc == 0)
            rc = write_update(&b->writer, &stmts[i], let->ev, &out);
        if (write_error_ends_command(b->rq, rc))
            return rc;
        t->n += out.matched;
        t->modified += out.modified;
        if (rc != 0) {
            if (add_error(b, i, ordered))
                return 0;
            continue;
        }
        if (out.retried)
            add_retried(b, i);
        if (!bv_is_missing(out.upserted)) {
            bw_doc_begin(&t->upserted, NULL);
            bw_i32(&t->upserted, "index", (int32_t)i);
            bw_fields(&t->upserted, out.upserted);
            bw_end(&t->upserted);
            t->nupserted++;
        }
    }
    return 0;
}

/* A batch comes to an upsert, which makes the collection, unless a faulty statement stands before
 * it: what matches nothing does nothing. */
static bool comes_to_upsert(struct batch *b, const struct update_stmt *stmts)
{
    for (size_t i = 0; i < b->n; i++) {
        if (write_update_check(&b->writer, &stmts[i]) != 0)
            return false;
        if (stmts[i].upsert)
            return true;
    }
    return false;
}

int cmd_update(struct request *rq)
{
    struct batch_args args = {.ordered = true};
    struct batch b = {0};
    struct update_totals t = {0};
    struct let_vars let;
    struct update_stmt *stmts = NULL;
    const char *ns, *coll;
    struct bv *docs;
    size_t n;
    bool upserts;
    int rc;

    TRY_RETURN(request_ns(rq, &ns, &coll));
    TRY_RETURN(fields_parse(&rq->op, "update", update_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    TRY_RETURN(collection_uuid_parse(&rq->op, args.uuid));
    TRY_RETURN(doc_array(&rq->op, "update.updates", args.statements, &docs, &n));
    TRY_RETURN(command_let(&rq->op, args.let, &let));
    TRY_RETURN(parse_updates(rq, docs, n, &let, &stmts, &upserts));
    TRY_RETURN(check_user_ns(&rq->op, ns));
    TRY(batch_open(&b, rq, ns, args.uuid, n, upserts));
    b.writer.keep_empty_ts = args.keep_empty_ts;
    if (rq->op.on_schema_thread && n > 1 && comes_to_upsert(&b, stmts)) {
        TRY(writer_create(&b.writer));
        TRY(write_run_on_worker(rq));
    }
    bw_init_array(&t.upserted, &rq->op.arena);
    TRY(update_all(&b, stmts, &let, args.ordered, &t));
    bw_i32(rq->reply, "n", (int32_t)t.n);
    if (t.upserted.failed)
        rq->reply->failed = rq->reply->no_memory = true;
    else if (t.nupserted > 0)
        bw_bv(rq->reply, "upserted", bw_done(&t.upserted));
    bw_i32(rq->reply, "nModified", (int32_t)t.modified);
    append_errors(&b);
fail:
    batch_close(&b);
    return rc;
}

/* --- delete ---------------------------------------------------------------------------------- */

static const struct field delete_fields[] = {
    {"deletes", F_ARRAY, offsetof(struct batch_args, statements), FIELD_REQUIRED},
    {"ordered", F_BOOL, offsetof(struct batch_args, ordered), 0},
    {"let", F_DOC, offsetof(struct batch_args, let), FIELD_NULL_OK},
    {"bypassDocumentValidation", F_BOOL, offsetof(struct batch_args, bypass), FIELD_NULL_OK},
    {"collectionUUID", F_BIN, offsetof(struct batch_args, uuid), FIELD_NULL_OK},
    {"encryptionInformation", F_DOC, 0, FIELD_UNBUILT},
    {NULL, 0, 0, 0}};

struct delete_args {
    struct delete_stmt s;
    struct bv collation;
    int64_t limit;
};

static const struct field delete_stmt_fields[] = {
    {"q", F_DOC, offsetof(struct delete_args, s.q), FIELD_REQUIRED},
    {"limit", F_INT, offsetof(struct delete_args, limit), FIELD_REQUIRED},
    {"hint", F_STR_DOC, offsetof(struct delete_args, s.hint), 0},
    {"collation", F_DOC, offsetof(struct delete_args, collation), 0},
    {NULL, 0, 0, 0}};

static int parse_deletes(struct request *rq, struct bv *docs, size_t n, struct let_vars *let,
                         struct delete_stmt **ret)
{
    struct op *op = &rq->op;
    struct delete_stmt *stmts = ARENA_TRY_ARRAY(&op->arena, struct delete_stmt, n);

    if (stmts == NULL)
        return op_no_memory(op);
    for (size_t i = 0; i < n; i++) {
        struct delete_args a;

        memset(&a, 0, sizeof(a));
        TRY_RETURN(fields_parse(op, "delete.deletes", delete_stmt_fields, docs[i], 0, &a));
        TRY_RETURN(check_collation(op, a.collation));
        TRY_RETURN(check_hint(op, a.s.hint, &a.s.hint));
        if (a.limit != 0 && a.limit != 1)
            return op_fail(op, ERR_FAILED_TO_PARSE,
                           "The limit field in delete objects must be 0 or 1. Got %lld",
                           (long long)a.limit);
        a.s.multi = a.limit == 0;
        if (a.s.multi && rq->env->txn_number >= 0 && !rq->env->has_autocommit)
            return op_fail(op, ERR_INVALID_OPTIONS,
                           "Cannot use (or request) retryable writes with limit=0");
        a.s.vars = let->vars;
        stmts[i] = a.s;
    }
    *ret = stmts;
    return 0;
}

int cmd_delete(struct request *rq)
{
    struct batch_args args = {.ordered = true};
    struct batch b = {0};
    struct let_vars let;
    struct delete_stmt *stmts = NULL;
    const char *ns, *coll;
    struct bv *docs;
    int64_t total = 0;
    size_t n;
    int rc;

    TRY_RETURN(request_ns(rq, &ns, &coll));
    TRY_RETURN(fields_parse(&rq->op, "delete", delete_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    TRY_RETURN(collection_uuid_parse(&rq->op, args.uuid));
    TRY_RETURN(doc_array(&rq->op, "delete.deletes", args.statements, &docs, &n));
    TRY_RETURN(command_let(&rq->op, args.let, &let));
    TRY_RETURN(parse_deletes(rq, docs, n, &let, &stmts));
    TRY_RETURN(check_user_ns(&rq->op, ns));
    TRY(batch_open(&b, rq, ns, args.uuid, n, false));
    for (size_t i = 0; i < n; i++) {
        int64_t removed = 0;
        bool retried = false;

        stmts[i].stmt_id = b.stmt_ids[i];
        rc = check_uuid(&b, i);
        if (rc == 0)
            rc = write_delete(&b.writer, &stmts[i], let.ev, &removed, &retried);
        if (write_error_ends_command(rq, rc))
            goto fail;
        total += removed;
        if (retried)
            add_retried(&b, i);
        if (rc != 0 && add_error(&b, i, args.ordered))
            break;
    }
    bw_i32(rq->reply, "n", (int32_t)total);
    append_errors(&b);
    rc = 0;
fail:
    batch_close(&b);
    return rc;
}

/* --- findAndModify --------------------------------------------------------------------------- */

struct modify_args {
    struct modify_stmt s;
    struct bv collation, let, uuid;
    bool bypass, keep_empty_ts;
};

#define MODIFY_FIELD(name, kind, member, flags)                                                    \
    {                                                                                              \
        name, kind, offsetof(struct modify_args, member), flags                                    \
    }

static const struct field modify_fields[] = {
    MODIFY_FIELD("query", F_DOC, s.update.q, FIELD_NULL_OK),
    MODIFY_FIELD("fields", F_DOC, s.fields, FIELD_NULL_OK),
    MODIFY_FIELD("sort", F_DOC, s.update.sort, FIELD_NULL_OK),
    MODIFY_FIELD("hint", F_STR_DOC, s.update.hint, 0),
    MODIFY_FIELD("collation", F_DOC, collation, 0),
    MODIFY_FIELD("arrayFilters", F_ARRAY, s.update.array_filters, 0),
    MODIFY_FIELD("remove", F_BOOL, s.remove, FIELD_NULL_OK),
    MODIFY_FIELD("update", F_DOC_ARRAY, s.update.u, FIELD_NULL_OK),
    MODIFY_FIELD("upsert", F_BOOL, s.update.upsert, FIELD_NULL_OK),
    MODIFY_FIELD("new", F_BOOL, s.want_new, FIELD_NULL_OK),
    MODIFY_FIELD("let", F_DOC, let, FIELD_NULL_OK),
    MODIFY_FIELD("bypassDocumentValidation", F_BOOL, bypass, FIELD_NULL_OK),
    MODIFY_FIELD("bypassEmptyTsReplacement", F_BOOL, keep_empty_ts, FIELD_NULL_OK),
    {"runtimeConstants", F_IGNORE, 0, 0},
    MODIFY_FIELD("collectionUUID", F_BIN, uuid, FIELD_NULL_OK),
    {"encryptionInformation", F_DOC, 0, FIELD_UNBUILT},
    {NULL, 0, 0, 0}};

static int check_modify(struct op *op, struct modify_args *a)
{
    bool update = !bv_is_missing(a->s.update.u);

    if (bv_is_missing(a->s.update.q))
        a->s.update.q = bv_empty_doc;
    if (!a->s.remove && !update)
        return op_fail(op, ERR_FAILED_TO_PARSE,
                       "Either an update or remove=true must be specified");
    if (a->s.remove && update)
        return op_fail(op, ERR_FAILED_TO_PARSE, "Cannot specify both an update and remove=true");
    if (a->s.remove && a->s.update.upsert)
        return op_fail(op, ERR_FAILED_TO_PARSE, "Cannot specify both upsert=true and remove=true");
    if (a->s.remove && a->s.want_new)
        return op_fail(op, ERR_FAILED_TO_PARSE,
                       "Cannot specify both new=true and remove=true; 'remove' always returns the "
                       "deleted document");
    if (a->s.remove && !bv_is_missing(a->s.update.array_filters))
        return op_fail(op, ERR_FAILED_TO_PARSE, "Cannot specify arrayFilters and remove=true");
    TRY_RETURN(check_collation(op, a->collation));
    TRY_RETURN(collection_uuid_parse(op, a->uuid));
    return check_hint(op, a->s.update.hint, &a->s.update.hint);
}

static void append_modify(struct request *rq, const struct modify_args *a,
                          const struct modify_outcome *out)
{
    struct bw *w = rq->reply;

    bw_doc_begin(w, "lastErrorObject");
    bw_i32(w, "n", (int32_t)out->n);
    if (!a->s.remove)
        bw_bool(w, "updatedExisting", out->updated_existing);
    if (!bv_is_missing(out->upserted))
        bw_bv(w, "upserted", bv_get(out->upserted, "_id"));
    bw_end(w);
    bw_bv(w, "value", bv_is_missing(out->value) ? bv_null : out->value);
    if (out->retried)
        bw_i32(w, "retriedStmtId", a->s.update.stmt_id);
}

int cmd_findAndModify(struct request *rq)
{
    struct modify_args args;
    struct modify_outcome out;
    struct batch b = {0};
    struct let_vars let;
    const char *ns, *coll;
    int rc;

    memset(&args, 0, sizeof(args));
    TRY_RETURN(request_ns(rq, &ns, &coll));
    TRY_RETURN(
        fields_parse(&rq->op, "findAndModify", modify_fields, rq->op.cmd, FIELDS_COMMAND, &args));
    TRY_RETURN(check_modify(&rq->op, &args));
    TRY_RETURN(command_let(&rq->op, args.let, &let));
    args.s.update.vars = let.vars;
    TRY_RETURN(check_user_ns(&rq->op, ns));
    TRY(batch_open(&b, rq, ns, args.uuid, 1, args.s.update.upsert));
    b.writer.keep_empty_ts = args.keep_empty_ts;
    args.s.update.stmt_id = b.stmt_ids[0];
    TRY(check_uuid(&b, 0));
    TRY(write_modify(&b.writer, &args.s, let.ev, &out));
    append_modify(rq, &args, &out);
    write_count_retried(rq, out.retried);
fail:
    batch_close(&b);
    return rc;
}
