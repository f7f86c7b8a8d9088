/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Snapshots at an exact optime (trap T5). Between taking its optimes and committing, a transaction
 * is above the horizon but perhaps in a snapshot, or the other way round. So new slots are held
 * back, the open ones are waited for, and the snapshot is taken while there is none.
 */
#include "oplog/oplog_internal.h"

int oplog_begin_snapshot(struct oplog *o, struct op *op, struct stx **ret, uint64_t *ret_at)
{
    uint64_t at = horizon_hold(&o->horizon);
    int rc = stx_begin(o->engine, op, ret);

    horizon_let_go(&o->horizon);
    *ret_at = at;
    return rc;
}
