/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Record ids that a scan has given: a hash set that grows to a bound and then takes no more. */
#ifndef RUNNEL_QUERY_RID_SET_H
#define RUNNEL_QUERY_RID_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rid_set {
    int64_t *slots; /* on the heap; 0: free (no record has that id) */
    size_t n, size;
};

bool rid_set_has(const struct rid_set *s, int64_t rid);
/* False: it is full (LIMIT_SCAN_SEEN), or there is no memory; the id is not in it then. */
bool rid_set_add(struct rid_set *s, int64_t rid);
void rid_set_free(struct rid_set *s);

#endif
