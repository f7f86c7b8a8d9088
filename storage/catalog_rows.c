/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The catalog on disk: opening (in the order of trap T11), rows of the DDL, and the sizes that a
 * clean close leaves for the next open.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bw.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "storage/catalog_internal.h"
#include "storage/engine_internal.h"
#include "storage/index_keys.h"
#include "storage/record_write.h"
#include "storage/table_write.h"

#define META_KEY "meta"

/* A row wraps what a client nested as deep as a message may. */
#define ROW_DEPTH (LIMIT_DEPTH_MESSAGE + 8)

static struct bytes text_bytes(const char *s)
{
    return (struct bytes){(const uint8_t *)s, strlen(s)};
}

static struct bytes doc_bytes(struct bv doc)
{
    return (struct bytes){doc.p, doc.len};
}

/* A row's value as a document; BV_NONE for bytes that are none. */
static struct bv row_doc(const struct tcursor *c)
{
    struct bytes value = tcursor_value(c);
    struct error ignored;

    if (bv_check(value.p, value.len, ROW_DEPTH, &ignored) != 0)
        return BV_NONE;
    return bv_doc(value.p);
}

/* --- DDL ----------------------------------------------------------------------------------- */

static int put_doc(struct stx *t, const char *table, const char *key, struct bv doc)
{
    struct tcursor *c;
    int rc;

    TRY_RETURN(tcursor_open(t, table, TABLE_BYTES, &c));
    rc = tcursor_put(c, text_bytes(key), doc_bytes(doc));
    tcursor_close(c);
    return rc;
}

int catalog_put_meta(struct stx *t, struct catalog *c)
{
    struct bw w;

    bw_init(&w, &stx_op(t)->arena);
    bw_i64(&w, "nextIdent", atomic_load(&c->next_ident));
    return put_doc(t, CATALOG_IDENT, META_KEY, bw_done(&w));
}

int catalog_put_new_row(struct stx *t, struct coll *k)
{
    struct bv row = coll_to_row(&stx_op(t)->arena, k);

    if (bv_is_missing(row))
        return op_fail(stx_op(t), ERR_BSON_TOO_LARGE, "the catalog entry of %s is too large",
                       k->ns);
    TRY_RETURN(disk_watch_check(k->catalog->engine->disk, stx_op(t)->err, false));
    return put_doc(t, CATALOG_IDENT, k->ident, row);
}

int catalog_put_row(struct stx *t, struct coll *k)
{
    TRY_RETURN(catalog_put_new_row(t, k));
    return catalog_put_meta(t, k->catalog);
}

int catalog_remove_row(struct stx *t, struct coll *k)
{
    struct tcursor *c;
    bool found = false;
    int rc;

    TRY_RETURN(tcursor_open(t, CATALOG_IDENT, TABLE_BYTES, &c));
    rc = tcursor_remove(c, text_bytes(k->ident), &found);
    tcursor_close(c);
    if (rc == 0 && !found)
        return op_fail(stx_op(t), ERR_INTERNAL, "the catalog has no row of %s", k->ns);
    return rc;
}

/* --- opening: rows ------------------------------------------------------------------------- */

static void note_ident_number(struct catalog *c, const char *ident)
{
    const char *dash = strrchr(ident, '-');
    long long number = dash == NULL ? 0 : atoll(dash + 1);

    if (number >= atomic_load(&c->next_ident))
        atomic_store(&c->next_ident, number + 1);
}

static int load_row(struct catalog *c, struct tcursor *cursor, struct error *err)
{
    struct bytes key = tcursor_key(cursor);
    struct bv row = row_doc(cursor);
    struct coll *k;
    int64_t next;

    if (key.len == strlen(META_KEY) && memcmp(key.p, META_KEY, key.len) == 0) {
        if (bv_to_i64_exact(bv_get(row, "nextIdent"), &next) && next > atomic_load(&c->next_ident))
            atomic_store(&c->next_ident, next);
        return 0;
    }
    k = coll_from_row(c, row);
    if (k == NULL)
        return error_set(err, ERR_INVALID_BSON, "the catalog is damaged: row '%.*s'", (int)key.len,
                         (const char *)key.p);
    note_ident_number(c, k->ident);
    for (uint32_t i = 0; i < k->nindexes; i++)
        note_ident_number(c, k->indexes[i].ident);
    catalog_publish(c, NULL, k, 0);
    return 0;
}

static int load_rows(struct catalog *c, struct op *op)
{
    struct tcursor *cursor = NULL;
    struct stx *t;
    bool found;
    int rc;

    TRY_RETURN(stx_begin(c->engine, op, &t));
    TRY(tcursor_open(t, CATALOG_IDENT, TABLE_BYTES, &cursor));
    TRY(tcursor_first(cursor, &found));
    while (found) {
        TRY(load_row(c, cursor, op->err));
        TRY(tcursor_next(cursor, &found));
    }
fail:
    tcursor_close(cursor);
    stx_rollback(t);
    return rc;
}

/* --- opening: tables against rows ---------------------------------------------------------- */

struct ident_list {
    struct arena *arena;
    const char **idents;
    size_t n, cap;
};

static void add_ident(void *arg, const char *ident)
{
    struct ident_list *l = arg;

    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? 64 : l->cap * 2;
        const char **grown = ARENA_ARRAY(l->arena, const char *, cap);

        if (l->n > 0)
            memcpy(grown, l->idents, l->n * sizeof(*grown));
        l->idents = grown;
        l->cap = cap;
    }
    l->idents[l->n++] = arena_strdup(l->arena, ident);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sort_idents(struct ident_list *l)
{
    if (l->n > 1)
        qsort(l->idents, l->n, sizeof(*l->idents), by_text);
}

static bool has_ident(const struct ident_list *l, const char *ident)
{
    return l->n > 0 && bsearch(&ident, l->idents, l->n, sizeof(*l->idents), by_text) != NULL;
}

static bool is_swept(const char *ident)
{
    return strncmp(ident, "coll-", 5) == 0 || strncmp(ident, "index-", 6) == 0 ||
           strncmp(ident, "tmp-", 4) == 0;
}

static int check_named(const struct ident_list *named, const struct ident_list *tables,
                       struct error *err)
{
    for (size_t i = 0; i < named->n; i++) {
        if (!has_ident(tables, named->idents[i]))
            return error_set(err, ERR_INTERNAL,
                             "the catalog names the table '%s', which is missing: the data "
                             "directory is damaged",
                             named->idents[i]);
    }
    return 0;
}

static int sweep(struct catalog *c, struct op *op)
{
    struct ident_list tables = {.arena = &op->arena}, named = {.arena = &op->arena};

    TRY_RETURN(engine_tables(c->engine, add_ident, &tables, op->err));
    for (size_t i = 0; i < c->n; i++) {
        struct coll *k = c->by_ns[i];

        add_ident(&named, k->ident);
        for (uint32_t j = 0; j < k->nindexes; j++)
            add_ident(&named, k->indexes[j].ident);
    }
    sort_idents(&tables);
    sort_idents(&named);
    TRY_RETURN(check_named(&named, &tables, op->err));
    for (size_t i = 0; i < tables.n; i++) {
        const char *ident = tables.idents[i];

        if (!is_swept(ident) || has_ident(&named, ident))
            continue;
        note_ident_number(c, ident);
        TRY_RETURN(engine_table_drop_at_start(c->engine, ident, op->err));
        log_event(LOG_DEBUG, "storage", "dropped a table left over", {"ident", LOG_STR(ident)}, );
    }
    return 0;
}

/* --- indexes that have expanded an array --------------------------------------------------- */

int index_set_multikey(struct engine *e, struct op *op, const struct index *ix)
{
    struct tcursor *c = NULL;
    struct stx *t;
    int rc;

    TRY_RETURN(stx_begin(e, op, &t));
    TRY(tcursor_open(t, MULTIKEY_IDENT, TABLE_BYTES, &c));
    TRY(tcursor_put(c, text_bytes(ix->ident), (struct bytes){NULL, 0}));
    tcursor_close(c);
    TRY_RETURN(stx_commit(t));
    FAULT(MULTIKEY_SET);
    atomic_store(&ix->state->multikey, true);
    return 0;
fail:
    tcursor_close(c);
    stx_rollback(t);
    return rc;
}

static int load_multikey(struct catalog *c, struct op *op)
{
    struct tcursor *cursor = NULL;
    struct stx *t;
    int rc;

    TRY_RETURN(stx_begin(c->engine, op, &t));
    TRY(tcursor_open(t, MULTIKEY_IDENT, TABLE_BYTES, &cursor));
    for (size_t i = 0; i < c->n; i++) {
        for (uint32_t j = 0; j < c->by_ns[i]->nindexes; j++) {
            const struct index *ix = &c->by_ns[i]->indexes[j];
            bool found;

            TRY(tcursor_seek(cursor, text_bytes(ix->ident), SEEK_EXACT, &found));
            if (found)
                atomic_store(&ix->state->multikey, true);
        }
    }
fail:
    tcursor_close(cursor);
    stx_rollback(t);
    return rc;
}

/* --- sizes --------------------------------------------------------------------------------- */

/* *ret_found false: the records must be counted. */
static int load_size(struct tcursor *sizes, struct coll *k, bool *ret_found)
{
    int64_t count, bytes, next_rid;
    struct bv row;
    bool found;

    *ret_found = false;
    TRY_RETURN(tcursor_seek(sizes, text_bytes(k->ident), SEEK_EXACT, &found));
    if (!found)
        return 0;
    row = row_doc(sizes);
    if (!bv_to_i64_exact(bv_get(row, "count"), &count) ||
        !bv_to_i64_exact(bv_get(row, "bytes"), &bytes) ||
        !bv_to_i64_exact(bv_get(row, "nextRid"), &next_rid))
        return 0;
    atomic_store(&k->counters->count, count);
    atomic_store(&k->counters->bytes, bytes);
    atomic_store(&k->counters->next_rid, next_rid);
    *ret_found = true;
    return 0;
}

/* Loads what a clean close wrote and removes it; the rest is counted. */
static int load_sizes(struct catalog *c, struct op *op)
{
    bool trusted = !engine_was_unclean(c->engine);
    bool *known = ARENA_ARRAY(&op->arena, bool, c->n + 1);
    struct tcursor *sizes = NULL;
    struct stx *t;
    int rc;

    TRY_RETURN(stx_begin(c->engine, op, &t));
    TRY(tcursor_open(t, SIZES_IDENT, TABLE_BYTES, &sizes));
    for (size_t i = 0; i < c->n && trusted; i++)
        TRY(load_size(sizes, c->by_ns[i], &known[i]));
    for (size_t i = 0; i < c->n; i++)
        TRY(tcursor_remove(sizes, text_bytes(c->by_ns[i]->ident), NULL));
    tcursor_close(sizes);
    TRY_RETURN(stx_commit(t));
    for (size_t i = 0; i < c->n; i++) {
        if (!known[i])
            TRY_RETURN(coll_recount(c->engine, op, c->by_ns[i]));
    }
    return 0;
fail:
    tcursor_close(sizes);
    stx_rollback(t);
    return rc;
}

static int save_size(struct tcursor *sizes, struct arena *a, struct coll *k)
{
    struct bw w;

    bw_init(&w, a);
    bw_i64(&w, "count", atomic_load(&k->counters->count));
    bw_i64(&w, "bytes", atomic_load(&k->counters->bytes));
    bw_i64(&w, "nextRid", atomic_load(&k->counters->next_rid));
    return tcursor_put(sizes, text_bytes(k->ident), doc_bytes(bw_done(&w)));
}

static int save_sizes(struct catalog *c, struct op *op)
{
    struct tcursor *sizes = NULL;
    struct stx *t;
    int rc;

    TRY_RETURN(stx_begin(c->engine, op, &t));
    TRY(tcursor_open(t, SIZES_IDENT, TABLE_BYTES, &sizes));
    for (size_t i = 0; i < c->n; i++)
        TRY(save_size(sizes, &op->arena, c->by_ns[i]));
    tcursor_close(sizes);
    TRY_RETURN(stx_commit(t));
    FAULT(STOP_SIZES);
    return 0;
fail:
    tcursor_close(sizes);
    stx_rollback(t);
    return rc;
}

/* --- opening and closing ------------------------------------------------------------------- */

static void close_quietly(struct catalog *c)
{
    size_t n = c->n;

    c->n = 0;
    for (size_t i = 0; i < n; i++) {
        atomic_store(&c->by_ns[i]->current, false);
        coll_unref(c->by_ns[i]);
    }
    catalog_unref(c);
}

int catalog_open(struct engine *e, struct error *err, struct catalog **ret)
{
    struct catalog *c = mem_must_zero(1, sizeof(*c));
    struct op op;
    int rc;

    op_init(&op);
    c->engine = e;
    atomic_store(&c->refs, 1);
    atomic_store(&c->next_ident, 1);
    mutex_init(&c->mx);
    c->dead_end = &c->dead;
    TRY(engine_table_create(e, CATALOG_IDENT, TABLE_BYTES, true, op.err));
    TRY(engine_table_create(e, SIZES_IDENT, TABLE_BYTES, true, op.err));
    TRY(engine_table_create(e, MULTIKEY_IDENT, TABLE_BYTES, true, op.err));
    if (engine_was_unclean(e))
        TRY(engine_sweep_files(e, op.err));
    TRY(load_rows(c, &op));
    TRY(load_multikey(c, &op));
    TRY(sweep(c, &op));
    FAULT(START_SIZES);
    TRY(load_sizes(c, &op));
    op_fini(&op);
    *ret = c;
    return 0;
fail:
    rc = error_set(err, rc, "%s", op.err->text);
    op_fini(&op);
    close_quietly(c);
    return rc;
}

void catalog_close(struct catalog *c)
{
    struct op op;

    if (c == NULL)
        return;
    op_init(&op);
    /* Without its sizes the next open counts again: slower, not wrong. */
    if (!engine_in_memory(c->engine) && save_sizes(c, &op) != 0)
        log_event(LOG_WARNING, "storage", "cannot write the sizes of collections",
                  {"why", LOG_STR(op.err->text)}, );
    op_fini(&op);
    close_quietly(c);
}
