/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From a document to its keys in an index (multikey expansion), by MongoDB's rules.
 *
 * All fields of the index are followed through the document at once. As soon as one of them runs
 * into an array, every element of the array gives keys of its own: fields that end at the array
 * take the element as their value, fields that go on are followed inside the element. Only one
 * array may be expanded at each step, so all fields that meet an array must meet the same one.
 *
 * "a.1.b" is ambiguous where `a` is an array: 1 may be a position or a field of the elements. A
 * position that exists is followed once, before the elements are visited; if an element has a
 * field of that name too, the document cannot be indexed.
 *
 * Each step goes at least one array deeper into the document, whose nesting bv_check() bounded.
 */
#include "storage/index_keys.h"

#include <stdlib.h>

#include "base/limits.h"
#include "storage/key_string.h"

#define ERR_KEY_TOO_LONG    17280
#define ERR_AMBIGUOUS_FIELD 16746

/* Where one indexed field stands while the document is walked. */
struct spot {
    const char *path; /* what is left of it; "": its value is known */
    struct bv value;
    /* The element of the array in hand that `path` begins with the position of, if it exists: */
    bool positional;
    bool position_is_array;     /* an array right within the array */
    const char *position_path;  /* what is left behind it (or behind a further array) */
    struct belem position_elem; /* what was found there; may be missing */
};

struct expansion {
    struct op *op;
    struct arena *arena;
    const struct index *ix;
    struct key_set *set;
    size_t cap;
};

/* --- collecting keys ----------------------------------------------------------------------- */

static int add_key(struct expansion *x, const struct spot *spots)
{
    struct key_set *set = x->set;
    struct ks_builder k;

    if (set->n == LIMIT_INDEX_KEYS_DOC)
        return op_fail(x->op, ERR_BSON_TOO_LARGE, "Index %s: a document has more than %d keys",
                       x->ix->name, LIMIT_INDEX_KEYS_DOC);
    if (set->n == x->cap) {
        size_t cap = x->cap == 0 ? 4 : x->cap * 2;

        set->keys = arena_regrow(x->arena, set->keys, x->cap * sizeof(struct bytes),
                                 cap * sizeof(struct bytes));
        set->type_bits = arena_regrow(x->arena, set->type_bits, x->cap * sizeof(struct bytes),
                                      cap * sizeof(struct bytes));
        if (set->keys == NULL || set->type_bits == NULL)
            return op_fail(x->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for the keys of index %s",
                           x->ix->name);
        x->cap = cap;
    }
    ks_init(&k, x->arena);
    for (uint32_t i = 0; i < x->ix->nfields; i++)
        ks_append(&k, spots[i].value, x->ix->fields[i].descending);
    ks_append_end(&k);
    if (k.failed || k.len > LIMIT_INDEX_KEY_BYTES)
        return op_fail(x->op, ERR_KEY_TOO_LONG, "Index %s: a key is longer than %d bytes",
                       x->ix->name, LIMIT_INDEX_KEY_BYTES);
    set->keys[set->n] = (struct bytes){k.buf, k.len};
    set->type_bits[set->n].p = ks_type_bits(&k, &set->type_bits[set->n].len);
    set->n++;
    return 0;
}

static int key_cmp(struct bytes a, struct bytes b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int cmp = memcmp(a.p, b.p, n);

    return cmp != 0 ? cmp : (a.len > b.len) - (a.len < b.len);
}

struct pair {
    struct bytes key, type_bits;
    size_t at; /* of equal keys the first one counts */
};

static int pair_cmp(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    int cmp = key_cmp(x->key, y->key);

    return cmp != 0 ? cmp : (x->at > y->at) - (x->at < y->at);
}

static int sort_unique(struct expansion *x)
{
    struct key_set *set = x->set;
    struct pair *pairs;
    size_t n = 0;

    if (set->n < 2)
        return 0;
    pairs = arena_try(x->arena, set->n * sizeof(*pairs));
    if (pairs == NULL)
        return op_fail(x->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for the keys of index %s",
                       x->ix->name);
    for (size_t i = 0; i < set->n; i++)
        pairs[i] = (struct pair){set->keys[i], set->type_bits[i], i};
    qsort(pairs, set->n, sizeof(*pairs), pair_cmp);
    for (size_t i = 0; i < set->n; i++) {
        if (n > 0 && key_cmp(set->keys[n - 1], pairs[i].key) == 0)
            continue;
        set->keys[n] = pairs[i].key;
        set->type_bits[n++] = pairs[i].type_bits;
    }
    set->n = n;
    return 0;
}

/* --- walking ------------------------------------------------------------------------------- */

/* Element by name with its key, as bv_getn() finds it. */
static bool find(struct bv doc, const char *name, size_t len, struct belem *ret)
{
    for (struct biter it = biter(doc); biter_next(&it, ret);) {
        if (ret->key_len == len && memcmp(ret->key, name, len) == 0)
            return true;
    }
    ret->v = BV_NONE;
    return false;
}

/* Follows *path through documents to its end or to the first array; *path becomes what is left. */
static struct belem follow(struct bv doc, const char **path)
{
    struct belem e;

    for (;;) {
        size_t len = strcspn(*path, ".");

        if (!find(doc, *path, len, &e))
            return e;
        if ((*path)[len] == '\0') {
            *path += len;
            return e;
        }
        if (e.v.type != BV_DOC && e.v.type != BV_ARRAY) {
            e.v = BV_NONE;
            return e;
        }
        *path += len + 1;
        if (e.v.type == BV_ARRAY)
            return e;
        doc = e.v;
    }
}

/* follow(), or what the position that the path begins with leads to. */
static int step(struct expansion *x, struct bv doc, struct spot *s, struct belem *ret)
{
    struct belem e;
    size_t len = strcspn(s->path, ".");
    bool has_field = find(doc, s->path, len, &e);

    if (has_field && s->positional)
        return op_fail(x->op, ERR_AMBIGUOUS_FIELD,
                       "Ambiguous field name found in array (do not use numeric field names in "
                       "embedded elements in an array), field: '%.*s' for array: %s",
                       (int)len, s->path, s->position_elem.key);
    if (s->positional) {
        s->path = s->position_path;
        *ret = s->position_elem;
    } else {
        *ret = follow(doc, &s->path);
    }
    return 0;
}

/* Prepares the spots for the elements of an array: which of them begin with a position in it? */
static void find_positions(struct expansion *x, struct bv array, struct spot *spots)
{
    for (uint32_t i = 0; i < x->ix->nfields; i++) {
        struct spot *s = &spots[i];
        struct belem e;

        s->positional = *s->path != '\0' && find(array, s->path, strcspn(s->path, "."), &e);
        if (!s->positional)
            continue;
        s->position_is_array = e.v.type == BV_ARRAY;
        s->position_path = s->path;
        s->position_elem = follow(array, &s->position_path);
        if (bv_is_missing(s->position_elem.v))
            s->position_elem.key = e.key;
    }
}

static int expand(struct expansion *x, struct bv doc, const struct spot *from, uint32_t missing);

/* An array that the fields marked in `here` have met; those that end there take each element as
 * their value, or the array itself when `whole`. */
struct meeting {
    struct belem array;
    bool here[INDEX_PATHS_MAX];
    bool whole;
};

static int expand_element(struct expansion *x, struct bv elem, struct bv value,
                          const struct spot *spots, const struct meeting *m, uint32_t missing)
{
    struct spot mine[INDEX_PATHS_MAX];

    memcpy(mine, spots, x->ix->nfields * sizeof(*mine));
    for (uint32_t i = 0; i < x->ix->nfields; i++) {
        if (m->here[i] && *mine[i].path == '\0')
            mine[i].value = value;
    }
    return expand(x, elem.type == BV_DOC ? elem : bv_empty_doc, mine, missing);
}

static int expand_array(struct expansion *x, struct spot *spots, const struct meeting *m,
                        uint32_t missing)
{
    struct bv array = m->array.v;
    struct belem e;

    TRY_RETURN(op_work(x->op, array.len));
    x->set->multikey = true;
    find_positions(x, array, spots);
    if (bv_empty(array))
        return expand_element(x, bv_undefined, bv_undefined, spots, m, missing);
    for (struct biter it = biter(array); biter_next(&it, &e);)
        TRY_RETURN(expand_element(x, e.v, m->whole ? array : e.v, spots, m, missing));
    return 0;
}

/* Takes one field's spot to its value or to an array. */
static int advance(struct expansion *x, struct bv doc, struct spot *s, uint32_t i,
                   struct meeting *m, uint32_t *missing)
{
    bool nested = s->positional && s->position_is_array;
    struct belem e;

    TRY_RETURN(step(x, doc, s, &e));
    if (bv_is_missing(e.v)) {
        s->value = bv_null;
        s->path = "";
        (*missing)++;
        return 0;
    }
    if (e.v.type != BV_ARRAY) {
        s->value = e.v;
        return 0;
    }
    if (!bv_is_missing(m->array.v) && m->array.v.p != e.v.p)
        return op_fail(x->op, ERR_CANNOT_INDEX_PARALLEL_ARRAYS,
                       "cannot index parallel arrays [%s] [%s]", e.key, m->array.key);
    m->array = e;
    m->here[i] = true;
    m->whole = m->whole || nested;
    return 0;
}

/* `missing`: how many fields were not found so far. */
static int expand(struct expansion *x, struct bv doc, const struct spot *from, uint32_t missing)
{
    struct spot spots[INDEX_PATHS_MAX];
    struct meeting m = {.array = {.v = BV_NONE}};

    memcpy(spots, from, x->ix->nfields * sizeof(*spots));
    for (uint32_t i = 0; i < x->ix->nfields; i++) {
        if (*spots[i].path != '\0')
            TRY_RETURN(advance(x, doc, &spots[i], i, &m, &missing));
    }
    if (!bv_is_missing(m.array.v))
        return expand_array(x, spots, &m, missing);
    if (x->ix->sparse && missing == x->ix->nfields)
        return 0;
    return add_key(x, spots);
}

int index_keys_in(struct op *op, struct arena *a, const struct index *ix, struct bv doc,
                  struct key_set *ret)
{
    struct expansion x = {.op = op, .arena = a, .ix = ix, .set = ret};
    struct spot spots[INDEX_PATHS_MAX];

    ASSERT(ix->nfields > 0);
    memset(ret, 0, sizeof(*ret));
    for (uint32_t i = 0; i < ix->nfields; i++)
        spots[i] = (struct spot){.path = ix->fields[i].path};
    TRY_RETURN(expand(&x, doc, spots, 0));
    return sort_unique(&x);
}

int index_keys(struct op *op, const struct index *ix, struct bv doc, struct key_set *ret)
{
    return index_keys_in(op, &op->arena, ix, doc, ret);
}

/* --- back from keys ------------------------------------------------------------------------ */

struct bv index_key_value(struct op *op, const struct index *ix, struct bytes key,
                          struct bytes type_bits)
{
    struct ks_reader r;
    struct error ignored;
    struct bw w;
    struct bv v;

    if (ks_reader_init(&r, key.p, key.len, type_bits.p, type_bits.len, &ignored) != 0)
        return BV_NONE;
    bw_init(&w, &op->arena);
    for (uint32_t i = 0; i < ix->nfields; i++) {
        r.inverted = ix->fields[i].descending;
        if (ks_read(&r, &op->arena, &ignored, &v) != 0 || bv_is_missing(v))
            return BV_NONE;
        bw_bv(&w, ix->fields[i].path, v);
    }
    return bw_done(&w);
}

int index_duplicate(struct op *op, const struct coll *k, const struct index *ix, struct bytes key,
                    struct bytes type_bits)
{
    struct bv value = index_key_value(op, ix, key, type_bits);
    struct bv info;
    struct bw w;

    bw_init(&w, &op->arena);
    bw_bv(&w, "keyPattern", ix->key);
    bw_bv(&w, "keyValue", value);
    info = bw_done(&w);
    op_fail(op, ERR_DUPLICATE_KEY,
            "E11000 duplicate key error collection: %s index: %s dup key: %s", k->ns, ix->name,
            bv_show(&op->arena, value, ERROR_TEXT_MAX));
    if (!bv_is_missing(info)) {
        op->err->info = info.p;
        op->err->info_len = info.len;
    }
    return ERR_DUPLICATE_KEY;
}

void rid_encode(int64_t rid, uint8_t ret[static RID_BYTES])
{
    uint64_t be = __builtin_bswap64((uint64_t)rid);

    memcpy(ret, &be, RID_BYTES);
}

int64_t rid_decode(const uint8_t bytes[static RID_BYTES])
{
    uint64_t be;

    memcpy(&be, bytes, RID_BYTES);
    return (int64_t)__builtin_bswap64(be);
}
