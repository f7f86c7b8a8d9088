/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Versions of a collection: making, copying and changing them before they are published. */
#include <stdio.h>
#include <stdlib.h>

#include "base/bw.h"
#include "base/mem.h"
#include "storage/catalog_internal.h"

/* --- making -------------------------------------------------------------------------------- */

static void fresh_ident(struct catalog *c, const char *prefix, char ret[static IDENT_MAX])
{
    int64_t number = atomic_fetch_add(&c->next_ident, 1);

    snprintf(ret, IDENT_MAX, "%s-%lld", prefix, (long long)number);
}

static void set_ns(struct coll *k, const char *ns)
{
    const char *dot = strchr(ns, '.');

    ASSERT(dot != NULL);
    k->ns = arena_strdup(&k->arena, ns);
    k->db = arena_strndup(&k->arena, ns, (size_t)(dot - ns));
    k->name = k->ns + (dot - ns) + 1;
}

static void set_options(struct coll *k, struct bv options)
{
    struct bv images = bv_get(options, "changeStreamPreAndPostImages");

    k->options = bv_is_missing(options) ? bv_empty_doc : bv_dup(&k->arena, options);
    k->images = bv_truthy(bv_get(images, "enabled"));
    k->temp = bv_truthy(bv_get(options, "temp"));
}

struct coll *coll_alloc(struct catalog *c, const char *ns, const uint8_t uuid[16],
                        struct coll_counters *counters)
{
    struct coll *k = mem_must_zero(1, sizeof(*k));

    if (counters == NULL) {
        counters = mem_must_zero(1, sizeof(*counters));
        atomic_store(&counters->next_rid, 1);
    }
    atomic_fetch_add(&c->refs, 1);
    atomic_fetch_add(&counters->refs, 1);
    atomic_store(&k->refs, 1);
    k->catalog = c;
    k->counters = counters;
    arena_init(&k->arena);
    set_ns(k, ns);
    set_options(k, BV_NONE);
    memcpy(k->uuid, uuid, sizeof(k->uuid));
    return k;
}

static struct bv id_index_spec(struct arena *a)
{
    struct bw w;

    bw_init(&w, a);
    bw_i32(&w, "v", 2);
    bw_doc_begin(&w, "key");
    bw_i32(&w, "_id", 1);
    bw_end(&w);
    bw_str(&w, "name", "_id_");
    return bw_done(&w);
}

struct coll *coll_new(struct catalog *c, const char *ns, const uint8_t uuid[16], struct bv options)
{
    struct coll *k = coll_alloc(c, ns, uuid, NULL);

    fresh_ident(c, "coll", k->ident);
    set_options(k, options);
    coll_edit_add_index(k, id_index_spec(&k->arena));
    return k;
}

static void state_unref(struct index_state *state)
{
    if (atomic_fetch_sub(&state->refs, 1) == 1)
        free(state);
}

static struct index_state *state_ref(struct index_state *state)
{
    if (state == NULL) {
        state = mem_must_zero(1, sizeof(*state));
    }
    atomic_fetch_add(&state->refs, 1);
    return state;
}

static void coll_free(struct coll *k)
{
    struct catalog *c = k->catalog;

    for (uint32_t i = 0; i < k->nindexes; i++)
        state_unref(k->indexes[i].state);
    if (atomic_fetch_sub(&k->counters->refs, 1) == 1)
        free(k->counters);
    arena_fini(&k->arena);
    free(k);
    catalog_unref(c);
}

static bool uses(const struct coll *k, const char *ident)
{
    if (strcmp(k->ident, ident) == 0)
        return true;
    for (uint32_t i = 0; i < k->nindexes; i++) {
        if (strcmp(k->indexes[i].ident, ident) == 0)
            return true;
    }
    return false;
}

/* All older versions are gone already: each holds its successor. */
static void bury(struct coll *k)
{
    const struct coll *after = k->successor;

    if (after == NULL && !k->dropped)
        return; /* never published, or the catalog is closed */
    if (after == NULL || !uses(after, k->ident))
        catalog_add_dead(k->catalog, k->ident);
    for (uint32_t i = 0; i < k->nindexes; i++) {
        if (after == NULL || !uses(after, k->indexes[i].ident))
            catalog_add_dead(k->catalog, k->indexes[i].ident);
    }
}

struct coll *coll_ref(struct coll *k)
{
    atomic_fetch_add_explicit(&k->refs, 1, memory_order_relaxed);
    return k;
}

void coll_unref(struct coll *k)
{
    while (k != NULL && atomic_fetch_sub(&k->refs, 1) == 1) {
        struct coll *after = k->successor;

        bury(k);
        coll_free(k);
        k = after;
    }
}

bool coll_is_current(struct coll *k)
{
    return atomic_load(&k->current);
}

/* --- changing ------------------------------------------------------------------------------ */

struct coll *coll_copy(struct coll *k)
{
    struct coll *now = coll_alloc(k->catalog, k->ns, k->uuid, k->counters);

    memcpy(now->ident, k->ident, sizeof(now->ident));
    set_options(now, k->options);
    for (uint32_t i = 0; i < k->nindexes; i++)
        coll_add_index_as(now, k->indexes[i].ident, k->indexes[i].spec, k->indexes[i].state);
    return now;
}

void coll_edit_rename(struct coll *k, const char *ns)
{
    ASSERT(!atomic_load(&k->current));
    set_ns(k, ns);
}

void coll_edit_options(struct coll *k, struct bv options)
{
    ASSERT(!atomic_load(&k->current));
    set_options(k, options);
}

/* Sets everything but the ident from the spec. */
static void set_index_spec(struct coll *k, struct index *ix, struct bv spec)
{
    struct biter it;
    struct belem e;

    ix->spec = bv_dup(&k->arena, spec);
    ix->key = bv_get(ix->spec, "key");
    ix->name = bv_str(bv_get(ix->spec, "name"), NULL);
    ix->nfields = 0;
    for (it = biter(ix->key); biter_next(&it, &e); ix->nfields++) {
        ASSERT(ix->nfields < INDEX_PATHS_MAX);
        ix->fields[ix->nfields].path = e.key;
        ix->fields[ix->nfields].descending = bv_is_number(e.v) && bv_to_f64(e.v) < 0;
    }
    ASSERT(ix->nfields > 0);
    ix->is_id =
        ix->nfields == 1 && strcmp(ix->fields[0].path, "_id") == 0 && !ix->fields[0].descending;
    ix->unique = ix->is_id || bv_truthy(bv_get(ix->spec, "unique"));
    ix->sparse = bv_truthy(bv_get(ix->spec, "sparse"));
    ix->hidden = bv_truthy(bv_get(ix->spec, "hidden"));
}

struct index *coll_add_index_as(struct coll *k, const char *ident, struct bv spec,
                                struct index_state *state)
{
    struct index *indexes = ARENA_ARRAY(&k->arena, struct index, k->nindexes + 1);
    struct index *ix = &indexes[k->nindexes];

    ASSERT(!atomic_load(&k->current));
    if (k->nindexes > 0)
        memcpy(indexes, k->indexes, sizeof(*indexes) * k->nindexes);
    snprintf(ix->ident, sizeof(ix->ident), "%s", ident);
    set_index_spec(k, ix, spec);
    ix->state = state_ref(state);
    k->indexes = indexes;
    k->nindexes++;
    return ix;
}

struct index *coll_edit_add_index(struct coll *k, struct bv spec)
{
    char ident[IDENT_MAX];

    fresh_ident(k->catalog, "index", ident);
    return coll_add_index_as(k, ident, spec, NULL);
}

void coll_edit_drop_index(struct coll *k, const char *name)
{
    struct index *ix = coll_index_by_name(k, name);

    ASSERT(!atomic_load(&k->current));
    if (ix == NULL)
        return;
    state_unref(ix->state);
    memmove(ix, ix + 1, sizeof(*ix) * (size_t)(k->indexes + k->nindexes - (ix + 1)));
    k->nindexes--;
}

void coll_edit_index_spec(struct coll *k, const char *name, struct bv spec)
{
    struct index *ix = coll_index_by_name(k, name);

    ASSERT(!atomic_load(&k->current) && ix != NULL);
    set_index_spec(k, ix, spec);
}

/* --- asking -------------------------------------------------------------------------------- */

struct index *coll_index_by_name(struct coll *k, const char *name)
{
    for (uint32_t i = 0; i < k->nindexes; i++) {
        if (strcmp(k->indexes[i].name, name) == 0)
            return &k->indexes[i];
    }
    return NULL;
}

static bool same_key(struct bv a, struct bv b)
{
    struct biter ia = biter(a), ib = biter(b);
    struct belem ea, eb;

    for (;;) {
        bool more = biter_next(&ia, &ea);

        if (more != biter_next(&ib, &eb))
            return false;
        if (!more)
            return true;
        if (strcmp(ea.key, eb.key) != 0 || bv_cmp(ea.v, eb.v) != 0)
            return false;
    }
}

struct index *coll_index_by_key(struct coll *k, struct bv key)
{
    for (uint32_t i = 0; i < k->nindexes; i++) {
        if (same_key(k->indexes[i].key, key))
            return &k->indexes[i];
    }
    return NULL;
}

/* --- rows ---------------------------------------------------------------------------------- */

struct bv coll_to_row(struct arena *a, struct coll *k)
{
    struct bw w;

    bw_init(&w, a);
    bw_str(&w, "ident", k->ident);
    bw_str(&w, "ns", k->ns);
    bw_uuid(&w, "uuid", k->uuid);
    bw_bv(&w, "options", k->options);
    bw_arr_begin(&w, "indexes");
    for (uint32_t i = 0; i < k->nindexes; i++) {
        bw_doc_begin(&w, NULL);
        bw_str(&w, "ident", k->indexes[i].ident);
        bw_bv(&w, "spec", k->indexes[i].spec);
        bw_end(&w);
    }
    bw_end(&w);
    return bw_done(&w);
}

static bool is_ident(struct bv v)
{
    uint32_t len;

    return v.type == BV_STRING && (bv_str(v, &len), len > 0 && len < IDENT_MAX);
}

static bool add_index_from_row(struct coll *k, struct bv entry)
{
    struct bv ident = bv_get(entry, "ident"), spec = bv_get(entry, "spec");
    uint32_t nkeys = bv_count(bv_get(spec, "key"));

    if (!is_ident(ident) || bv_get(spec, "name").type != BV_STRING || nkeys == 0 ||
        nkeys > INDEX_PATHS_MAX)
        return false;
    coll_add_index_as(k, bv_str(ident, NULL), spec, NULL);
    return true;
}

struct coll *coll_from_row(struct catalog *c, struct bv row)
{
    struct bv ident = bv_get(row, "ident"), ns = bv_get(row, "ns"), uuid = bv_get(row, "uuid");
    const uint8_t *bytes;
    uint32_t len;
    struct biter it;
    struct belem e;
    struct coll *k;

    if (!is_ident(ident) || ns.type != BV_STRING || strchr(bv_str(ns, NULL), '.') == NULL ||
        uuid.type != BV_BINARY)
        return NULL;
    bytes = bv_bin(uuid, &len, NULL);
    if (len != 16)
        return NULL;
    k = coll_alloc(c, bv_str(ns, NULL), bytes, NULL);
    snprintf(k->ident, sizeof(k->ident), "%s", bv_str(ident, NULL));
    set_options(k, bv_get(row, "options"));
    for (it = biter(bv_get(row, "indexes")); biter_next(&it, &e);) {
        if (!add_index_from_row(k, e.v))
            goto bad;
    }
    if (k->nindexes > 0)
        return k;
bad:
    coll_unref(k);
    return NULL;
}
