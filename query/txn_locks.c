/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The namespaces of a transaction: their locks, and what its snapshot and the catalog both know of
 * them.
 *
 * The catalog in memory has no history. So a collection, whose newest change is younger than the
 * snapshot, or which has gone since, is refused; and one that has been looked up is locked until
 * the end, so that what was found stays true.
 */
#include "base/clock.h"
#include "base/limits.h"
#include "query/ddl_internal.h"
#include "query/txn_internal.h"

/*
 * 0, INT_PARK, or 24 when it has waited for as long as it may. The end of the wait is kept in
 * op->park_deadline_us, which survives a park.
 */
static int take_lock(struct op *op, const char *name, enum nslock_mode mode, struct nslock *ret)
{
    int64_t wait_ms = atomic_load(&op->database->txns->lock_wait_ms);
    int rc = nslock_acquire(op->database->locks, op, name, mode, ret);

    if (rc == INT_PARK && wait_ms >= 0) {
        int64_t now_us = clock_mono_us();

        if (op->park_deadline_us == 0)
            op->park_deadline_us = now_us + wait_ms * 1000;
        if (now_us >= op->park_deadline_us) {
            op->unpark(op);
            rc = op_fail(op, ERR_LOCK_TIMEOUT, "Unable to acquire %s lock on '%s' within %lldms.",
                         mode == NSLOCK_SHARED ? "IX" : "X", name, (long long)wait_ms);
        }
    }
    if (rc != INT_PARK)
        op->park_deadline_us = 0;
    return rc;
}

static int lock_db(struct op *op, const char *ns)
{
    struct txn *t = op->txn;
    size_t len = strcspn(ns, ".");
    struct nslock lock = {0};
    struct txn_db *d;
    char *name;

    for (d = t->dbs; d != NULL; d = d->next) {
        if (strncmp(d->name, ns, len) == 0 && d->name[len] == '\0')
            return 0;
    }
    name = arena_strndup(&t->arena, ns, len);
    TRY_RETURN(take_lock(op, name, NSLOCK_SHARED, &lock));
    d = ARENA_NEW(&t->arena, struct txn_db);
    d->name = name;
    d->lock = lock;
    d->next = t->dbs;
    t->dbs = d;
    return 0;
}

static int changed_since(struct op *op, uint64_t changed)
{
    uint64_t at = op->txn->read_optime;

    return op_fail(op, ERR_SNAPSHOT_UNAVAILABLE,
                   "Unable to read from a snapshot due to pending collection catalog changes; "
                   "please retry the operation. Snapshot timestamp is Timestamp(%u, %u). "
                   "Collection minimum is Timestamp(%u, %u)",
                   (unsigned)(at >> 32), (unsigned)at, (unsigned)(changed >> 32),
                   (unsigned)changed);
}

/* What the snapshot and the catalog both know under this name; its lock is held. */
static int look_up(struct op *op, const char *ns, struct coll **ret)
{
    struct txn *t = op->txn;
    struct coll *k = catalog_get(t->db->catalog, ns);
    int rc = 0;

    if (k != NULL && k->changed > t->read_optime)
        rc = changed_since(op, k->changed);
    else if (k == NULL && catalog_gone_since(t->db->catalog, ns, t->read_optime))
        rc = changed_since(op, oplog_visible(t->db->oplog));
    if (rc != 0) {
        coll_unref(k);
        k = NULL;
    }
    *ret = k;
    return rc;
}

int txn_touch(struct op *op, const char *ns, enum nslock_mode mode, struct txn_coll **ret)
{
    struct txn *t = op->txn;
    struct nslock lock = {0};
    struct coll *k;
    struct txn_coll *c;
    int rc;

    for (c = t->colls; c != NULL; c = c->next) {
        if (strcmp(c->ns, ns) == 0) {
            *ret = c;
            return 0;
        }
    }
    *ret = NULL;
    if (t->ncolls == LIMIT_TXN_NAMESPACES)
        return op_fail(op, ERR_TRANSACTION_TOO_LARGE,
                       "a transaction may use %d collections at most", LIMIT_TXN_NAMESPACES);
    TRY_RETURN(lock_db(op, ns));
    TRY_RETURN(take_lock(op, ns, mode, &lock));
    TRY(look_up(op, ns, &k));
    if (k == NULL && mode == NSLOCK_SHARED)
        goto fail; /* whoever makes it shall not wait: it is refused here from then on */
    c = ARENA_NEW(&t->arena, struct txn_coll);
    c->ns = arena_strdup(&t->arena, ns);
    c->lock = lock;
    c->k = k;
    c->next = t->colls;
    t->colls = c;
    t->ncolls++;
    *ret = c;
    return 0;
fail:
    nslock_release(t->db->locks, &lock);
    return rc;
}

/* A pin holds no locks; it takes them for the look, so that it meets no half-made change. */
static int look_up_pinned(struct op *op, const char *ns, struct coll **ret)
{
    struct nslock_table *locks = op->database->locks;
    struct nslock db = {0}, coll = {0};
    int rc;

    TRY(nslock_acquire(locks, op, ddl_db_of(op, ns), NSLOCK_SHARED, &db));
    TRY(nslock_acquire(locks, op, ns, NSLOCK_SHARED, &coll));
    rc = look_up(op, ns, ret);
fail:
    nslock_release(locks, &coll);
    nslock_release(locks, &db);
    return rc;
}

int txn_lookup(struct op *op, const char *ns, struct coll **ret)
{
    struct txn_coll *c;

    if (op->txn == NULL) {
        *ret = catalog_get(op->database->catalog, ns);
        return 0;
    }
    if (op->txn->read_only)
        return look_up_pinned(op, ns, ret);
    TRY_RETURN(txn_touch(op, ns, NSLOCK_SHARED, &c));
    *ret = c == NULL || c->k == NULL ? NULL : coll_ref(c->k);
    return 0;
}
