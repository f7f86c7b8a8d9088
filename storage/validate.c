/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Comparing a collection's records with its indexes, in one snapshot.
 *
 * Every key that a record should have is looked up and must lead to that record. If all are there
 * and the index has no more entries than keys were expected, the two agree; an index with more is
 * read again to name the entries that lead nowhere.
 */
#include "base/limits.h"
#include "storage/engine_internal.h"
#include "storage/index_keys.h"
#include "storage/record.h"

#define ERRORS_MAX 100 /* texts kept; the rest is only counted */

struct validation {
    struct op *op;
    struct stx *t;
    struct coll *k;
    struct tcursor *records;
    struct tcursor **indexes; /* by position */
    int64_t *expected;        /* keys that the records should have, by position */
    struct arena arena;       /* of one record or entry */
    struct validate_result *ret;
};

static void report(struct validation *v, const char *text)
{
    struct validate_result *r = v->ret;

    if (r->nerrors < ERRORS_MAX)
        r->errors[r->nerrors] = text;
    r->nerrors++;
}

/* Does the index have this key, and does it lead to the record? */
static int check_key(struct validation *v, uint32_t at, int64_t rid, struct bytes key, bool *ret_ok)
{
    const struct index *ix = &v->k->indexes[at];
    struct bytes entry = key;
    bool found;

    if (!ix->unique) {
        uint8_t *p = arena_try(&v->arena, key.len + RID_BYTES);

        if (p == NULL)
            return op_fail(v->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for an index key");
        memcpy(p, key.p, key.len);
        rid_encode(rid, p + key.len);
        entry = (struct bytes){p, key.len + RID_BYTES};
    }
    TRY_RETURN(tcursor_seek(v->indexes[at], entry, SEEK_EXACT, &found));
    if (found && ix->unique) {
        struct bytes value = tcursor_value(v->indexes[at]);

        found = value.len >= RID_BYTES && rid_decode(value.p) == rid;
    }
    *ret_ok = found;
    return 0;
}

static int check_keys(struct validation *v, int64_t rid, struct bv doc)
{
    for (uint32_t at = 0; at < v->k->nindexes; at++) {
        const struct index *ix = &v->k->indexes[at];
        struct key_set set;
        bool ok = false;

        if (index_keys_in(v->op, &v->arena, ix, doc, &set) != 0) {
            report(v, arena_printf(&v->op->arena, "record %lld cannot be indexed by '%s': %s",
                                   (long long)rid, ix->name, v->op->err->text));
            continue;
        }
        v->expected[at] += (int64_t)set.n;
        for (size_t i = 0; i < set.n; i++) {
            TRY_RETURN(check_key(v, at, rid, set.keys[i], &ok));
            if (!ok)
                report(v, arena_printf(&v->op->arena,
                                       "index '%s' lacks a key of the record %lld, whose _id is %s",
                                       ix->name, (long long)rid,
                                       bv_show(&v->arena, bv_get(doc, "_id"), 200)));
        }
    }
    return 0;
}

static int check_record(struct validation *v)
{
    struct bytes value = tcursor_value(v->records);
    int64_t rid = (int64_t)tcursor_num(v->records);
    struct error why;

    arena_reset(&v->arena);
    v->ret->records++;
    if (bv_check(value.p, value.len, LIMIT_DEPTH_MESSAGE, &why) != 0) {
        v->ret->invalid_docs++;
        report(v, arena_printf(&v->op->arena, "record %lld is not valid BSON: %s", (long long)rid,
                               why.text));
        return 0;
    }
    return check_keys(v, rid, bv_doc(value.p));
}

static int check_records(struct validation *v)
{
    bool found;

    TRY_RETURN(tcursor_first(v->records, &found));
    while (found) {
        TRY_RETURN(check_record(v));
        if (v->ret->records % 200 == 0)
            TRY_RETURN(op_check(v->op));
        TRY_RETURN(tcursor_next(v->records, &found));
    }
    return 0;
}

static int count_entries(struct validation *v, uint32_t at)
{
    struct tcursor *c = v->indexes[at];
    int64_t n = 0;
    bool found;

    TRY_RETURN(tcursor_first(c, &found));
    while (found) {
        if (++n % 1000 == 0)
            TRY_RETURN(op_check(v->op));
        TRY_RETURN(tcursor_next(c, &found));
    }
    v->ret->keys_per_index[at] = n;
    return 0;
}

/* Is the entry the cursor is on one that its record should have? */
static int check_entry(struct validation *v, uint32_t at)
{
    const struct index *ix = &v->k->indexes[at];
    struct bytes key = tcursor_key(v->indexes[at]), value = tcursor_value(v->indexes[at]);
    struct key_set set = {0};
    int64_t rid;
    bool found;

    if ((ix->unique ? value.len : key.len) < RID_BYTES) {
        report(v, arena_printf(&v->op->arena, "index '%s' has a broken entry", ix->name));
        return 0;
    }
    if (!ix->unique)
        key.len -= RID_BYTES;
    rid = rid_decode(ix->unique ? value.p : key.p + key.len);
    arena_reset(&v->arena);
    TRY_RETURN(tcursor_seek_num(v->records, (uint64_t)rid, SEEK_EXACT, &found));
    if (found) {
        struct bytes doc = tcursor_value(v->records);
        struct error ignored;

        if (bv_check(doc.p, doc.len, LIMIT_DEPTH_MESSAGE, &ignored) != 0 ||
            index_keys_in(v->op, &v->arena, ix, bv_doc(doc.p), &set) != 0)
            return 0; /* reported with the record */
    }
    for (size_t i = 0; i < set.n; i++) {
        if (set.keys[i].len == key.len && memcmp(set.keys[i].p, key.p, key.len) == 0)
            return 0;
    }
    report(v, arena_printf(&v->op->arena, "index '%s' has a key that the record %lld does not%s",
                           ix->name, (long long)rid, found ? "" : " (there is no such record)"));
    return 0;
}

static int check_entries(struct validation *v, uint32_t at)
{
    bool found;

    TRY_RETURN(tcursor_first(v->indexes[at], &found));
    while (found) {
        TRY_RETURN(check_entry(v, at));
        TRY_RETURN(op_check(v->op));
        TRY_RETURN(tcursor_next(v->indexes[at], &found));
    }
    return 0;
}

static int check_all(struct validation *v)
{
    TRY_RETURN(tcursor_open(v->t, v->k->ident, TABLE_RECORDS, &v->records));
    for (uint32_t at = 0; at < v->k->nindexes; at++)
        TRY_RETURN(tcursor_open(v->t, v->k->indexes[at].ident, TABLE_BYTES, &v->indexes[at]));
    TRY_RETURN(check_records(v));
    for (uint32_t at = 0; at < v->k->nindexes; at++) {
        TRY_RETURN(count_entries(v, at));
        if (v->ret->keys_per_index[at] > v->expected[at])
            TRY_RETURN(check_entries(v, at));
    }
    return 0;
}

int coll_validate(struct engine *e, struct op *op, struct coll *k, struct validate_result *ret)
{
    struct validate_result r = {0};
    struct validation v = {.op = op, .k = k, .ret = &r};
    int rc;

    r.keys_per_index = ARENA_ARRAY(&op->arena, int64_t, k->nindexes);
    r.errors = ARENA_ARRAY(&op->arena, const char *, ERRORS_MAX + 1);
    v.indexes = ARENA_ARRAY(&op->arena, struct tcursor *, k->nindexes);
    v.expected = ARENA_ARRAY(&op->arena, int64_t, k->nindexes);
    arena_init(&v.arena);
    TRY_RETURN(stx_begin(e, op, &v.t));
    rc = check_all(&v);
    tcursor_close(v.records);
    for (uint32_t at = 0; at < k->nindexes; at++)
        tcursor_close(v.indexes[at]);
    stx_rollback(v.t);
    arena_fini(&v.arena);
    if (rc != 0)
        return rc;
    if (r.nerrors > ERRORS_MAX) {
        r.errors[ERRORS_MAX] = arena_printf(&op->arena, "%zu more errors", r.nerrors - ERRORS_MAX);
        r.nerrors = ERRORS_MAX + 1;
    }
    *ret = r;
    return 0;
}
