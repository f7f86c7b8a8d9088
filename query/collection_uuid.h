/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collectionUUID: a command says which collection it means, not only under which name. */
#ifndef RUNNEL_QUERY_COLLECTION_UUID_H
#define RUNNEL_QUERY_COLLECTION_UUID_H

#include "query/database.h"

/* The value itself, when the command is parsed: BV_NONE, or a UUID of 16 bytes; else 14 or 207. */
int collection_uuid_parse(struct op *op, struct bv uuid) MUST_CHECK;

/* Whether k (NULL: no collection) is the one with this UUID; true for BV_NONE. */
bool collection_uuid_is(const struct coll *k, struct bv uuid);

/*
 * That `ns`, which names k (NULL: no collection), is the collection with this UUID: else 361, with
 * the fields that tell that collection's name in the error's info. BV_NONE: nothing to check.
 * `uuid` has passed collection_uuid_parse().
 */
int collection_uuid_check(struct op *op, const char *ns, const struct coll *k,
                          struct bv uuid) MUST_CHECK;

#endif
