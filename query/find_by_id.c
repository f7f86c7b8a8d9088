/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The find of one document by its _id, which is what most finds are: without a filter to parse, a
 * plan to choose or a cursor. It gives what the plan for such a filter (PLAN_ID) would.
 */
#include "base/fault.h"
#include "query/find.h"
#include "query/plan.h"
#include "query/source.h"
#include "query/txn.h"
#include "storage/record.h"

static bool is_one_id(struct bv filter, struct bv *ret)
{
    struct belem e;

    *ret = bv_first(filter, &e);
    return plan_is_one_id(*ret) && strcmp(e.key, "_id") == 0 && bv_count(filter) == 1;
}

static bool is_plain(const struct find_spec *s)
{
    return bv_empty(s->sort) && bv_empty(s->projection) && s->hint.type != BV_STRING &&
           bv_empty(s->hint) && bv_empty(s->min) && bv_empty(s->max) && bv_is_missing(s->uuid) &&
           s->skip == 0 && !s->show_record_id && !s->tailable && !s->await_data;
}

int find_by_id(struct op *op, const struct find_spec *s, bool *ret_read, struct bv *ret)
{
    struct stx *t = NULL;
    struct coll *k;
    struct bv id;
    int64_t rid;
    int rc;

    *ret_read = false;
    *ret = BV_NONE;
    if (!is_plain(s) || !is_one_id(s->filter, &id) || source_is_virtual(s->ns))
        return 0;
    TRY_RETURN(txn_lookup(op, s->ns, &k));
    *ret_read = true;
    if (k == NULL)
        return 0;
    TRY(read_begin(op, &t));
    FAULT(SCAN_SNAPSHOT);
    /* A collection that went in between is for the cursor to tell of. In a transaction the locks
     * keep it. */
    *ret_read = op->txn != NULL || coll_is_current(k);
    if (*ret_read)
        TRY(record_find_id(t, k, id, &op->arena, &rid, ret));
fail:
    read_end(op, t);
    coll_unref(k);
    return rc;
}
