/* SPDX-License-Identifier: GPL-3.0-or-later */
/* listCollections, listDatabases, listIndexes. */
#include <stdlib.h>

#include "query/match.h"
#include "query/source.h"
#include "server/commands/cmd_common.h"
#include "server/cursors.h"

/* Documents that pass a filter, gathered in the op's arena. */
struct listing {
    struct op *op;
    struct match *filter;
    struct eval ev;
    struct bv *docs;
    size_t n, cap;
};

static int listing_init(struct listing *l, struct op *op, struct bv filter)
{
    struct match_options mo = {.vars = NULL};

    memset(l, 0, sizeof(*l));
    l->op = op;
    eval_init(&l->ev, op, &op->arena);
    return match_parse(op, &op->arena, bv_is_missing(filter) ? bv_empty_doc : filter, &mo,
                       &l->filter);
}

static int listing_add(struct listing *l, struct bv doc, bool *ret_added)
{
    TRY_RETURN(match_test(l->filter, &l->ev, doc, ret_added, NULL));
    if (!*ret_added)
        return 0;
    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? 16 : l->cap * 2;
        struct bv *grown =
            arena_regrow(&l->op->arena, l->docs, l->cap * sizeof(*grown), cap * sizeof(*grown));

        if (grown == NULL)
            return op_no_memory(l->op);
        l->docs = grown;
        l->cap = cap;
    }
    l->docs[l->n++] = doc;
    return 0;
}

/* As listing_add(), for a document that others may free. */
static int listing_copy(struct listing *l, struct bv doc, bool *ret_added)
{
    TRY_RETURN(op_dup(l->op, &l->op->arena, doc, &doc));
    return listing_add(l, doc, ret_added);
}

struct cursor_option {
    int64_t batch_size;
};

static const struct field cursor_fields[] = {
    {"batchSize", F_INT, offsetof(struct cursor_option, batch_size), FIELD_NON_NEGATIVE},
    {NULL, 0, 0, 0}};

static int reply_listing(struct request *rq, struct listing *l, const char *ns, struct bv cursor)
{
    struct cursor_option o = {.batch_size = -1};
    struct batch_opts b = {.first = true, .field = "firstBatch"};
    struct qcursor *c;

    TRY_RETURN(fields_parse(&rq->op, "cursor", cursor_fields,
                            bv_is_missing(cursor) ? bv_empty_doc : cursor, 0, &o));
    /* A listing comes whole where no size is asked for. */
    b.batch_size = o.batch_size < 0 ? (int64_t)l->n + 1 : o.batch_size;
    TRY_RETURN(qcursor_from_array(&rq->op, ns, l->docs, l->n, &c));
    return cursor_first_batch(rq, c, &b);
}

/* --- listCollections ------------------------------------------------------------------------- */

struct list_args {
    struct bv filter, cursor;
    bool name_only, authorized;
};

static const struct field list_collections_fields[] = {
    {"filter", F_DOC, offsetof(struct list_args, filter), FIELD_NULL_OK},
    {"cursor", F_DOC, offsetof(struct list_args, cursor), FIELD_NULL_OK},
    {"nameOnly", F_BOOL, offsetof(struct list_args, name_only), FIELD_NULL_OK},
    {"authorizedCollections", F_BOOL, offsetof(struct list_args, authorized), FIELD_NULL_OK},
    {"includePendingDrops", F_IGNORE, 0, 0},
    {NULL, 0, 0, 0}};

static struct bv coll_doc(struct op *op, struct coll *k, bool name_only)
{
    struct bw w;

    bw_init(&w, &op->arena);
    bw_str(&w, "name", k->name);
    bw_str(&w, "type", "collection");
    if (!name_only) {
        bw_bv(&w, "options", k->options);
        bw_doc_begin(&w, "info");
        bw_bool(&w, "readOnly", false);
        bw_uuid(&w, "uuid", k->uuid);
        bw_end(&w);
        bw_bv(&w, "idIndex", k->indexes[0].spec);
    }
    return bw_done(&w);
}

/* The views of the server's state, which have no catalog entry. */
static struct bv view_doc(struct op *op, const char *name, bool name_only)
{
    /* Fixed, since these exist once in every server: the name, padded. */
    uint8_t uuid[16] = {0};
    bool oplog = strcmp(name, "oplog.rs") == 0;
    int64_t size, max;
    double seconds;
    struct bw w;

    memcpy(uuid, name, strlen(name) < 16 ? strlen(name) : 16);
    uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x40);
    uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
    bw_init(&w, &op->arena);
    bw_str(&w, "name", name);
    bw_str(&w, "type", "collection");
    if (name_only)
        return bw_done(&w);
    bw_doc_begin(&w, "options");
    if (oplog) {
        oplog_get_limits(op->database->oplog, &size, &seconds, &max);
        bw_bool(&w, "capped", true);
        bw_i64(&w, "size", size);
        bw_i64(&w, "max", max);
        bw_bool(&w, "autoIndexId", false);
    }
    bw_end(&w);
    bw_doc_begin(&w, "info");
    bw_bool(&w, "readOnly", false);
    bw_uuid(&w, "uuid", uuid);
    bw_end(&w);
    return bw_done(&w);
}

static int list_views(struct listing *l, bool name_only)
{
    struct op *op = l->op;
    size_t db_len = strlen(op->db);
    const char *ns;
    bool added;

    for (size_t i = 0; (ns = source_virtual_at(i)) != NULL; i++) {
        if (strncmp(ns, op->db, db_len) == 0 && ns[db_len] == '.' &&
            source_exists(op->database, ns))
            TRY_RETURN(listing_add(l, view_doc(op, ns + db_len + 1, name_only), &added));
    }
    return 0;
}

int cmd_listCollections(struct request *rq)
{
    struct list_args args = {.filter = BV_NONE, .cursor = BV_NONE};
    struct op *op = &rq->op;
    struct listing l;
    struct coll **colls;
    size_t n;
    bool added;
    int rc = 0;

    TRY_RETURN(fields_parse(op, "listCollections", list_collections_fields, op->cmd, FIELDS_COMMAND,
                            &args));
    TRY_RETURN(check_db_name(op, op->db));
    TRY_RETURN(listing_init(&l, op, args.filter));
    colls = catalog_list(op->database->catalog, &op->arena, op->db, &n);
    for (size_t i = 0; i < n; i++) {
        if (rc == 0)
            rc = listing_add(&l, coll_doc(op, colls[i], args.name_only), &added);
        coll_unref(colls[i]);
    }
    if (rc == 0)
        rc = list_views(&l, args.name_only);
    if (rc != 0)
        return rc;
    return reply_listing(rq, &l, arena_printf(&op->arena, "%s.$cmd.listCollections", op->db),
                         args.cursor);
}

/* --- listDatabases --------------------------------------------------------------------------- */

static const struct field list_databases_fields[] = {
    {"filter", F_DOC, offsetof(struct list_args, filter), FIELD_NULL_OK},
    {"nameOnly", F_BOOL, offsetof(struct list_args, name_only), FIELD_NULL_OK},
    {"authorizedDatabases", F_BOOL, offsetof(struct list_args, authorized), FIELD_NULL_OK},
    {NULL, 0, 0, 0}};

static int64_t db_bytes(struct op *op, const char *db)
{
    struct coll **colls;
    int64_t bytes = 0;
    size_t n;

    colls = catalog_list(op->database->catalog, &op->arena, db, &n);
    for (size_t i = 0; i < n; i++) {
        bytes += engine_table_bytes(op->database->engine, colls[i]->ident);
        for (uint32_t x = 0; x < colls[i]->nindexes; x++)
            bytes += engine_table_bytes(op->database->engine, colls[i]->indexes[x].ident);
        coll_unref(colls[i]);
    }
    return bytes;
}

static int cmp_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The databases that have collections, and those that every replica set member has. */
static const char **all_dbs(struct op *op, size_t *ret_n)
{
    static const char *const always[] = {"admin", "config", "local"};
    const char **found, **names;
    size_t n, total;

    found = catalog_dbs(op->database->catalog, &op->arena, &n);
    names = ARENA_ARRAY(&op->arena, const char *, n + 3);
    for (total = 0; total < n; total++)
        names[total] = found[total];
    for (size_t i = 0; i < 3; i++) {
        bool there = i == 2 && oplog_hidden(op->database->oplog);

        for (size_t x = 0; x < n && !there; x++)
            there = strcmp(found[x], always[i]) == 0;
        if (!there)
            names[total++] = always[i];
    }
    qsort(names, total, sizeof(names[0]), cmp_names);
    *ret_n = total;
    return names;
}

static int list_db(struct listing *l, const char *name, bool name_only, int64_t *total)
{
    struct op *op = l->op;
    int64_t bytes = db_bytes(op, name);
    struct bv doc;
    struct bw w;
    bool added;

    bw_init(&w, &op->arena);
    bw_str(&w, "name", name);
    bw_i64(&w, "sizeOnDisk", bytes);
    bw_bool(&w, "empty", false);
    doc = bw_done(&w);
    TRY_RETURN(listing_add(l, doc, &added));
    if (!added)
        return 0;
    *total += bytes;
    if (name_only) {
        bw_init(&w, &op->arena);
        bw_str(&w, "name", name);
        l->docs[l->n - 1] = bw_done(&w);
    }
    return 0;
}

int cmd_listDatabases(struct request *rq)
{
    struct list_args args = {.filter = BV_NONE};
    struct op *op = &rq->op;
    struct listing l;
    const char **names;
    int64_t total = 0;
    size_t n;

    TRY_RETURN(
        fields_parse(op, "listDatabases", list_databases_fields, op->cmd, FIELDS_COMMAND, &args));
    TRY_RETURN(listing_init(&l, op, args.filter));
    names = all_dbs(op, &n);
    for (size_t i = 0; i < n; i++)
        TRY_RETURN(list_db(&l, names[i], args.name_only, &total));
    bw_arr_begin(rq->reply, "databases");
    for (size_t i = 0; i < l.n; i++)
        bw_bv(rq->reply, NULL, l.docs[i]);
    bw_end(rq->reply);
    if (!args.name_only) {
        bw_i64(rq->reply, "totalSize", total);
        bw_i64(rq->reply, "totalSizeMb", total >> 20);
    }
    return 0;
}

/* --- listIndexes ----------------------------------------------------------------------------- */

static const struct field list_indexes_fields[] = {
    {"cursor", F_DOC, offsetof(struct list_args, cursor), FIELD_NULL_OK},
    {"includeBuildUUIDs", F_IGNORE, 0, 0},
    {"includeIndexBuildInfo", F_IGNORE, 0, 0},
    {NULL, 0, 0, 0}};

int cmd_listIndexes(struct request *rq)
{
    struct list_args args = {.cursor = BV_NONE};
    struct op *op = &rq->op;
    struct listing l;
    struct coll *k;
    const char *ns, *coll;
    bool added;
    int rc = 0;

    TRY_RETURN(request_ns(rq, &ns, &coll));
    TRY_RETURN(
        fields_parse(op, "listIndexes", list_indexes_fields, op->cmd, FIELDS_COMMAND, &args));
    TRY_RETURN(listing_init(&l, op, BV_NONE));
    k = catalog_get(op->database->catalog, ns);
    if (k == NULL && !(source_is_virtual(ns) && source_exists(op->database, ns)))
        return op_fail(op, ERR_NAMESPACE_NOT_FOUND, "ns does not exist: %s", ns);
    for (uint32_t i = 0; rc == 0 && k != NULL && i < k->nindexes; i++)
        rc = listing_copy(&l, k->indexes[i].spec, &added);
    coll_unref(k);
    if (rc != 0)
        return rc;
    return reply_listing(rq, &l, ns, args.cursor);
}
