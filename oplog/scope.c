/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The one test of an entry against a scope, and the names under which entries are looked up.
 *
 * Three tests of a stream's scope (reference: change-streams, B.6): a namespace ("db.coll"), a
 * collection name within the database of a command entry, and a command namespace ("db.$cmd").
 * A transaction's inner operations go through the same two functions as entries of their own.
 */
#include "oplog/scope.h"

#include "base/limits.h"

/* Commands whose value names a collection. Rows that only expanded streams show are marked. */
static const struct {
    const char *name;
    bool expanded;
} ddl_commands[] = {
    {"drop", false},       {"create", true},  {"createIndexes", true}, {"commitIndexBuild", true},
    {"dropIndexes", true}, {"collMod", true},
};
enum { DDL_COMMANDS = sizeof(ddl_commands) / sizeof(ddl_commands[0]) };

/* Room for "db.coll"; longer names do not exist (LIMIT_NS). */
enum { NAME_MAX_BYTES = LIMIT_NS + 1 };

static bool is_crud(char op)
{
    return op == 'i' || op == 'u' || op == 'd';
}

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Splits at the first dot; *ret_coll NULL: there is no collection part. */
static size_t split_ns(const char *ns, const char **ret_coll)
{
    const char *dot = strchr(ns, '.');

    *ret_coll = dot == NULL || dot[1] == '\0' ? NULL : dot + 1;
    return dot == NULL ? strlen(ns) : (size_t)(dot - ns);
}

static bool db_is(const char *ns, size_t db_len, const char *db)
{
    return strncmp(ns, db, db_len) == 0 && db[db_len] == '\0';
}

static bool db_internal(const char *ns, size_t db_len)
{
    return db_is(ns, db_len, "admin") || db_is(ns, db_len, "config") || db_is(ns, db_len, "local");
}

/* Collections that database and cluster streams show. */
static bool coll_shown(const struct scope *s, const char *coll)
{
    if (coll[0] == '$')
        return false;
    if (!starts_with(coll, "system."))
        return true;
    return s->system && (strcmp(coll, "system.js") == 0 || starts_with(coll, "system.buckets.") ||
                         starts_with(coll, "system.resharding."));
}

static bool db_matches(const struct scope *s, const char *ns, size_t db_len)
{
    if (s->kind == SCOPE_CLUSTER)
        return db_len > 0 && !db_internal(ns, db_len);
    return db_is(ns, db_len, s->db);
}

/* `ns` is split at db_len; coll is what follows the dot, or a name from a command of that db. */
static bool coll_matches(const struct scope *s, const char *ns, size_t db_len, const char *coll)
{
    if (s->kind == SCOPE_COLLECTION) {
        return strncmp(s->ns, ns, db_len) == 0 && s->ns[db_len] == '.' &&
               strcmp(s->ns + db_len + 1, coll) == 0;
    }
    return db_matches(s, ns, db_len) && coll_shown(s, coll);
}

static bool ns_matches(const struct scope *s, const char *ns)
{
    const char *coll;
    size_t db_len = split_ns(ns, &coll);

    return coll != NULL && coll_matches(s, ns, db_len, coll);
}

/* View definitions are documents of <db>.system.views. */
static bool views_match(const struct scope *s, const char *ns)
{
    const char *coll;
    size_t db_len = split_ns(ns, &coll);

    return s->expanded && s->kind != SCOPE_COLLECTION && coll != NULL &&
           strcmp(coll, "system.views") == 0 && db_matches(s, ns, db_len);
}

static bool is_command_ns(const char *coll)
{
    return coll != NULL && strcmp(coll, "$cmd") == 0;
}

static bool str_ns_matches(const struct scope *s, struct bv v)
{
    return v.type == BV_STRING && ns_matches(s, bv_str(v, NULL));
}

static bool command_matches(const struct scope *s, const char *ns, struct bv o)
{
    const char *coll;
    size_t db_len = split_ns(ns, &coll);
    struct bv v;

    if (!is_command_ns(coll) || !db_matches(s, ns, db_len))
        return false;
    for (int i = 0; i < DDL_COMMANDS; i++) {
        v = bv_get(o, ddl_commands[i].name);
        if (v.type == BV_STRING && (s->expanded || !ddl_commands[i].expanded) &&
            coll_matches(s, ns, db_len, bv_str(v, NULL)))
            return true;
    }
    v = bv_get(o, "renameCollection");
    if (!bv_is_missing(v) && (str_ns_matches(s, v) || str_ns_matches(s, bv_get(o, "to"))))
        return true;
    return s->kind != SCOPE_COLLECTION && !bv_is_missing(bv_get(o, "dropDatabase"));
}

/* One change: an entry of its own, or an operation inside applyOps. */
static bool change_matches(const struct scope *s, char op, const char *ns, struct bv o)
{
    if (is_crud(op))
        return ns_matches(s, ns) || views_match(s, ns);
    return op == 'c' && command_matches(s, ns, o);
}

static bool inner_matches(const struct scope *s, struct bv inner)
{
    struct bv op = bv_get(inner, "op"), ns = bv_get(inner, "ns");

    if (op.type != BV_STRING || ns.type != BV_STRING)
        return false;
    return change_matches(s, bv_str(op, NULL)[0], bv_str(ns, NULL), bv_get(inner, "o"));
}

/* True when what the entry stands for cannot be told from it alone: the last one of a chain. */
static bool needs_chain(const struct oplog_row *row, struct bv apply_ops)
{
    if (bv_is_missing(apply_ops)) {
        int64_t one;

        return bv_to_i64(bv_get(row->o, "commitTransaction"), &one) && one == 1;
    }
    return row->prev_optime != 0;
}

/* Parts of a transaction that are shown with a later entry. */
static bool is_partial(const struct oplog_row *row)
{
    return bv_truthy(bv_get(row->o, "prepare")) || bv_truthy(bv_get(row->o, "partialTxn"));
}

bool scope_matches(const struct scope *s, const struct oplog_row *row)
{
    struct bv apply_ops;
    struct biter it;
    struct belem e;

    if (s->kind == SCOPE_OPLOG)
        return true;
    if ((row->from_migrate && !s->migration) || row->op == 'n')
        return false;
    if (row->op != 'c')
        return change_matches(s, row->op, row->ns, row->o);
    apply_ops = bv_get(row->o, "applyOps");
    if (needs_chain(row, apply_ops))
        return bv_is_missing(apply_ops) || !is_partial(row);
    if (apply_ops.type != BV_ARRAY)
        return command_matches(s, row->ns, row->o);
    if (is_partial(row))
        return false;
    it = biter(apply_ops);
    while (biter_next(&it, &e)) {
        if (inner_matches(s, e.v))
            return true;
    }
    return false;
}

/* --- names --------------------------------------------------------------------------------- */

/* FNV-1a, 64 bits. */
#define HASH_START UINT64_C(14695981039346656037)
#define HASH_PRIME UINT64_C(1099511628211)

static uint64_t hash_on(uint64_t h, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)p[i]) * HASH_PRIME;
    return h;
}

static uint64_t not_zero(uint64_t h)
{
    return h == 0 ? 1 : h;
}

uint64_t name_hash(const char *name)
{
    return not_zero(hash_on(HASH_START, name, strlen(name)));
}

struct ns_hashes ns_hash(const char *ns)
{
    const char *coll;
    size_t db_len = split_ns(ns, &coll), len = db_len;
    uint64_t h = hash_on(HASH_START, ns, db_len);
    struct ns_hashes ret = {.db = not_zero(h), .db_len = (uint32_t)db_len};

    if (coll != NULL) {
        len += strlen(ns + db_len);
        ret.ns = not_zero(hash_on(h, ns + db_len, len - db_len));
    }
    ret.ns_len = (uint32_t)len;
    return ret;
}

struct names {
    void (*fn)(void *arg, const struct scope_name *name);
    void *arg;
};

static void give(const struct names *n, const char *p, size_t len, uint64_t hash)
{
    struct scope_name name = {p, len, hash};

    n->fn(n->arg, &name);
}

static void give_hashed(const struct names *n, const char *ns, const struct ns_hashes *h)
{
    if (h->ns != 0)
        give(n, ns, h->ns_len, h->ns);
    give(n, ns, h->db_len, h->db);
}

static void name_ns(const struct names *n, const char *ns)
{
    struct ns_hashes h = ns_hash(ns);

    give_hashed(n, ns, &h);
}

/* A collection that a command of this database names. */
static void name_coll(const struct names *n, const char *db, size_t db_len, const char *coll)
{
    char buf[NAME_MAX_BYTES];
    size_t coll_len = strlen(coll), len = db_len + 1 + coll_len;

    if (len >= sizeof(buf)) {
        n->fn(n->arg, NULL);
        return;
    }
    memcpy(buf, db, db_len);
    buf[db_len] = '.';
    memcpy(buf + db_len + 1, coll, coll_len + 1);
    give(n, buf, len, name_hash(buf));
}

static void names_of_command(const struct names *n, const char *ns, struct bv o)
{
    const char *coll;
    size_t db_len = split_ns(ns, &coll);
    struct bv v;

    give(n, ns, db_len, not_zero(hash_on(HASH_START, ns, db_len)));
    for (int i = 0; i < DDL_COMMANDS; i++) {
        v = bv_get(o, ddl_commands[i].name);
        if (v.type == BV_STRING)
            name_coll(n, ns, db_len, bv_str(v, NULL));
    }
    v = bv_get(o, "renameCollection");
    if (v.type == BV_STRING) {
        name_ns(n, bv_str(v, NULL));
        v = bv_get(o, "to");
        if (v.type == BV_STRING)
            name_ns(n, bv_str(v, NULL));
    }
}

static void names_of_inner(const struct names *n, struct bv inner)
{
    struct bv op = bv_get(inner, "op"), ns = bv_get(inner, "ns");
    char kind;

    if (op.type != BV_STRING || ns.type != BV_STRING)
        return;
    kind = bv_str(op, NULL)[0];
    if (is_crud(kind))
        name_ns(n, bv_str(ns, NULL));
    else if (kind == 'c')
        names_of_command(n, bv_str(ns, NULL), bv_get(inner, "o"));
}

static void names_of_entry(const struct names *n, const struct oplog_row *row)
{
    struct bv apply_ops = bv_get(row->o, "applyOps");
    struct biter it;
    struct belem e;

    if (needs_chain(row, apply_ops)) {
        n->fn(n->arg, NULL);
        return;
    }
    if (apply_ops.type != BV_ARRAY) {
        names_of_command(n, row->ns, row->o);
        return;
    }
    it = biter(apply_ops);
    while (biter_next(&it, &e))
        names_of_inner(n, e.v);
}

void scope_names(const struct oplog_row *row, void (*fn)(void *arg, const struct scope_name *name),
                 void *arg)
{
    struct names n = {fn, arg};

    if (is_crud(row->op) && row->hashes.db != 0)
        give_hashed(&n, row->ns, &row->hashes);
    else if (is_crud(row->op))
        name_ns(&n, row->ns);
    else if (row->op == 'c')
        names_of_entry(&n, row);
}

void scope_hash_row(struct oplog_row *row)
{
    if (is_crud(row->op))
        row->hashes = ns_hash(row->ns);
}
