/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Index specifications: what a client may ask for, and how it is recorded. */
#include <math.h>

#include "base/limits.h"
#include "query/ddl.h"

enum option_kind {
    OPT_BOOL,    /* built: a safe boolean; false is as good as absent */
    OPT_NOTED,   /* a safe boolean that changes nothing; listed as it was asked for */
    OPT_UNBUILT, /* known to MongoDB, not built here */
    OPT_DROPPED, /* accepted and not recorded */
};

/* Sorted by name. v, key and name are handled apart. */
static const struct {
    const char *name;
    enum option_kind kind;
} options[] = {
    {"2dsphereIndexVersion", OPT_UNBUILT},
    {"background", OPT_NOTED},
    {"bits", OPT_UNBUILT},
    {"clustered", OPT_UNBUILT},
    {"collation", OPT_UNBUILT},
    {"default_language", OPT_UNBUILT},
    {"dropDups", OPT_DROPPED},
    {"expireAfterSeconds", OPT_UNBUILT},
    {"hidden", OPT_BOOL},
    {"language_override", OPT_UNBUILT},
    {"max", OPT_UNBUILT},
    {"min", OPT_UNBUILT},
    {"ns", OPT_DROPPED},
    {"partialFilterExpression", OPT_UNBUILT},
    {"prepareUnique", OPT_UNBUILT},
    {"sparse", OPT_BOOL},
    {"storageEngine", OPT_UNBUILT},
    {"textIndexVersion", OPT_UNBUILT},
    {"unique", OPT_BOOL},
    {"weights", OPT_UNBUILT},
    {"wildcardProjection", OPT_UNBUILT},
};

static int check_key_value(struct op *op, const struct belem *e)
{
    double d;

    if (e->v.type == BV_STRING) {
        static const char *const plugins[] = {"text", "2d", "2dsphere", "hashed"};

        for (size_t i = 0; i < sizeof(plugins) / sizeof(plugins[0]); i++) {
            if (bv_str_is(e->v, plugins[i]))
                return op_fail(op, ERR_NOT_IMPLEMENTED, "'%s' indexes are not supported yet",
                               plugins[i]);
        }
        return op_fail(op, ERR_CANNOT_CREATE_INDEX, "Unknown index plugin '%s'",
                       bv_str(e->v, NULL));
    }
    if (!bv_is_number(e->v))
        return op_fail(op, ERR_CANNOT_CREATE_INDEX,
                       "Values in v:2 index key pattern cannot be of type %s. Only numbers > 0, "
                       "numbers < 0, and strings are allowed.",
                       bv_type_name(e->v.type));
    d = bv_to_f64(e->v);
    if (isnan(d))
        return op_fail(op, ERR_CANNOT_CREATE_INDEX,
                       "Values in the index key pattern cannot be NaN.");
    if (d == 0)
        return op_fail(op, ERR_CANNOT_CREATE_INDEX, "Values in the index key pattern cannot be 0.");
    return 0;
}

static int check_key_path(struct op *op, const struct belem *e)
{
    if (e->key_len == 0)
        return op_fail(op, ERR_CANNOT_CREATE_INDEX, "Index keys cannot be an empty field.");
    if (e->key[0] == '.' || e->key[e->key_len - 1] == '.' || strstr(e->key, "..") != NULL)
        return op_fail(op, ERR_CANNOT_CREATE_INDEX, "Index keys cannot contain an empty field.");
    if (e->key[0] == '$')
        return op_fail(op, ERR_CANNOT_CREATE_INDEX,
                       "Index key contains an illegal field name: field name starts with '$'.");
    if (strstr(e->key, "$**") != NULL)
        return op_fail(op, ERR_NOT_IMPLEMENTED, "wildcard indexes are not supported yet");
    return 0;
}

static int check_key(struct op *op, struct bv key)
{
    struct biter it = biter(key);
    struct belem e;
    uint32_t n = 0;

    if (key.type != BV_DOC)
        return op_fail(op, bv_is_missing(key) ? ERR_FAILED_TO_PARSE : ERR_TYPE_MISMATCH,
                       bv_is_missing(key)
                           ? "The 'key' field is a required property of an index specification"
                           : "The field 'key' must be an object");
    if (bv_empty(key))
        return op_fail(op, ERR_CANNOT_CREATE_INDEX, "Index keys cannot be empty.");
    while (biter_next(&it, &e)) {
        struct biter again = biter(key);
        struct belem other;

        if (++n > LIMIT_INDEX_FIELDS)
            return op_fail(op, 13103, "too many compound keys");
        TRY_RETURN(check_key_path(op, &e));
        TRY_RETURN(check_key_value(op, &e));
        while (biter_next(&again, &other) && other.key != e.key) {
            if (strcmp(other.key, e.key) == 0)
                return op_fail(op, ERR_BAD_VALUE, "duplicate field '%s' in index key", e.key);
        }
    }
    if (n == 1 && strcmp(e.key, "_id") == 0 && bv_to_f64(e.v) != 1)
        return op_fail(op, ERR_BAD_VALUE,
                       "The field 'key' for an _id index must be {_id: 1}, but got %s",
                       bv_show(&op->arena, key, 200));
    return 0;
}

static int check_name(struct op *op, struct bv name)
{
    uint32_t n;
    const char *s;

    if (bv_is_missing(name))
        return op_fail(op, ERR_FAILED_TO_PARSE,
                       "The 'name' field is a required property of an index specification");
    if (name.type != BV_STRING)
        return op_fail(op, ERR_TYPE_MISMATCH, "The field 'name' must be a string, but got %s",
                       bv_type_name(name.type));
    s = bv_str(name, &n);
    if (n == 0)
        return op_fail(op, ERR_CANNOT_CREATE_INDEX, "index name cannot be empty");
    if (n > LIMIT_INDEX_NAME)
        return op_fail(op, ERR_CANNOT_CREATE_INDEX, "index name is longer than %d bytes",
                       LIMIT_INDEX_NAME);
    if (memchr(s, 0, n) != NULL)
        return op_fail(op, ERR_CANNOT_CREATE_INDEX, "index name cannot contain a NUL byte");
    if (n == 1 && *s == '*')
        return op_fail(op, ERR_BAD_VALUE, "The index name '*' is not valid.");
    return 0;
}

static int check_version(struct op *op, struct bv v)
{
    int64_t x;

    if (bv_is_missing(v))
        return 0;
    if (!bv_is_number(v))
        return op_fail(op, ERR_TYPE_MISMATCH, "The field 'v' must be a number, but got %s",
                       bv_type_name(v.type));
    if (!bv_to_i64_exact(v, &x) || x < 0 || x > 2)
        return op_fail(op, ERR_CANNOT_CREATE_INDEX,
                       "Invalid index specification; cannot create an index with v=%s",
                       bv_show(&op->arena, v, 40));
    return 0;
}

/* The range is checked first: a senseless value is its own error, a sensible one is not built. */
static int check_expiry(struct op *op, struct bv v)
{
    double d = bv_to_f64(v);

    if (!bv_is_number(v))
        return op_fail(op, ERR_CANNOT_CREATE_INDEX,
                       "TTL index 'expireAfterSeconds' option must be numeric, but received a "
                       "type of '%s'",
                       bv_type_name(v.type));
    if (!(d >= 0 && d <= INT32_MAX))
        return op_fail(op, ERR_CANNOT_CREATE_INDEX,
                       "TTL index 'expireAfterSeconds' option must be within an acceptable range, "
                       "try a lower number");
    return 0;
}

static int add_option(struct op *op, const struct belem *e, bool ignore_unknown, struct bw *w)
{
    size_t i = 0, n = sizeof(options) / sizeof(options[0]);

    while (i < n && strcmp(options[i].name, e->key) != 0)
        i++;
    if (i == n) {
        if (ignore_unknown)
            return 0;
        return op_fail(op, ERR_INVALID_INDEX_OPTION,
                       "The field '%s' is not valid for an index specification.", e->key);
    }
    if (strcmp(e->key, "expireAfterSeconds") == 0)
        TRY_RETURN(check_expiry(op, e->v));
    if (options[i].kind == OPT_DROPPED)
        return 0;
    if (options[i].kind == OPT_UNBUILT)
        return op_fail(op, ERR_NOT_IMPLEMENTED, "index option '%s' is not supported yet", e->key);
    if (e->v.type != BV_BOOL && !bv_is_number(e->v))
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "The field '%s' has value %s: %s, which is not convertible to bool", e->key,
                       e->key, bv_show(&op->arena, e->v, 100));
    if (bv_truthy(e->v) || options[i].kind == OPT_NOTED)
        bw_bool(w, e->key, bv_truthy(e->v));
    return 0;
}

int index_spec_complete(struct op *op, const char *ns, struct bv spec, bool ignore_unknown,
                        struct bv *ret)
{
    struct biter it = biter(spec);
    struct belem e;
    struct bw w;

    (void)ns;
    if (spec.type != BV_DOC)
        return op_fail(op, ERR_TYPE_MISMATCH,
                       "BSON field 'createIndexes.indexes.0' is the wrong type '%s', expected type "
                       "'object'",
                       bv_type_name(spec.type));
    TRY_RETURN(check_key(op, bv_get(spec, "key")));
    TRY_RETURN(check_name(op, bv_get(spec, "name")));
    TRY_RETURN(check_version(op, bv_get(spec, "v")));
    bw_init(&w, &op->arena);
    bw_i32(&w, "v", 2);
    bw_bv(&w, "key", bv_get(spec, "key"));
    bw_bv(&w, "name", bv_get(spec, "name"));
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "v") != 0 && strcmp(e.key, "key") != 0 && strcmp(e.key, "name") != 0)
            TRY_RETURN(add_option(op, &e, ignore_unknown, &w));
    }
    *ret = bw_done(&w);
    return 0;
}

static bool same_option(struct bv a, struct bv b, const char *name)
{
    return bv_truthy(bv_get(a, name)) == bv_truthy(bv_get(b, name));
}

int index_spec_compare(struct op *op, struct coll *k, struct bv spec, bool *ret_same)
{
    struct bv key = bv_get(spec, "key");
    const char *name = bv_str(bv_get(spec, "name"), NULL);
    struct index *by_key = coll_index_by_key(k, key), *by_name = coll_index_by_name(k, name);

    *ret_same = false;
    if (by_key != NULL && by_key->is_id) {
        *ret_same = true; /* asking for the _id index again is always fine */
        return 0;
    }
    if (by_name != NULL && by_key != by_name)
        return op_fail(op, ERR_INDEX_KEY_SPECS_CONFLICT,
                       "An existing index has the same name as the requested index. When index "
                       "names are not specified, they are auto generated and can cause conflicts. "
                       "Please refer to our documentation. Requested index: %s, existing index: %s",
                       bv_show(&op->arena, spec, 300), bv_show(&op->arena, by_name->spec, 300));
    if (by_key == NULL)
        return 0;
    if (by_name == NULL)
        return op_fail(op, ERR_INDEX_OPTIONS_CONFLICT,
                       "Index already exists with a different name: %s", by_key->name);
    if (!same_option(spec, by_key->spec, "unique") || !same_option(spec, by_key->spec, "sparse"))
        return op_fail(op, ERR_INDEX_OPTIONS_CONFLICT,
                       "An equivalent index already exists with the same name but different "
                       "options. Requested index: %s, existing index: %s",
                       bv_show(&op->arena, spec, 300), bv_show(&op->arena, by_key->spec, 300));
    *ret_same = true;
    return 0;
}
