/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/fields.h"

#define FIELDS_MAX 64

bool field_is_generic(const char *name)
{
    static const char *const generic[] = {"lsid",
                                          "txnNumber",
                                          "autocommit",
                                          "startTransaction",
                                          "readConcern",
                                          "writeConcern",
                                          "maxTimeMS",
                                          "maxTimeMSOpOnly",
                                          "comment",
                                          "apiVersion",
                                          "apiStrict",
                                          "apiDeprecationErrors",
                                          "help",
                                          "shardVersion",
                                          "databaseVersion",
                                          "rawData",
                                          "mayBypassWriteBlocking",
                                          "expectPrefix",
                                          "serialization_context",
                                          "coordinator",
                                          "txnRetryCounter",
                                          "stmtId",
                                          "stmtIds",
                                          "readOnce",
                                          "allowPartialResults",
                                          "$db",
                                          "$clusterTime",
                                          "$readPreference",
                                          "$audit",
                                          "$client",
                                          "$configServerState",
                                          "$oplogQueryData",
                                          "$replData",
                                          "$queryOptions",
                                          "$tenant",
                                          "$gleStats",
                                          "$configTime",
                                          "$topologyTime",
                                          "$traceCtx",
                                          "querySettings",
                                          "requestGossipRoutingCache"};

    for (size_t i = 0; i < sizeof(generic) / sizeof(generic[0]); i++) {
        if (generic[i][0] == name[0] && strcmp(generic[i], name) == 0)
            return true;
    }
    return false;
}

static int wrong_type(struct op *op, const char *what, const struct field *f, struct bv v,
                      const char *expected)
{
    return op_fail(op, ERR_TYPE_MISMATCH,
                   "BSON field '%s.%s' is the wrong type '%s', expected type%s '%s'", what, f->name,
                   bv_type_name(v.type), expected[0] == '[' ? "s" : "", expected);
}

static const char *expected_types(enum field_kind kind)
{
    switch (kind) {
    case F_DOC:
        return "object";
    case F_ARRAY:
        return "array";
    case F_DOC_ARRAY:
        return "[array, object]";
    case F_STR:
    case F_STR_BV:
        return "string";
    case F_BOOL:
        return "[bool, long, int, decimal, double]";
    case F_STRICT_BOOL:
        return "bool";
    case F_INT:
        return "[long, int, decimal, double]";
    case F_NUMBER:
        return "[long, int, decimal, double]";
    case F_TS:
        return "timestamp";
    case F_STR_DOC:
        return "[string, object]";
    case F_BIN:
        return "binData";
    case F_DATE:
        return "date";
    default:
        return "any";
    }
}

static bool type_fits(enum field_kind kind, uint8_t type)
{
    bool number = type == BV_INT32 || type == BV_INT64 || type == BV_DOUBLE || type == BV_DECIMAL;

    switch (kind) {
    case F_DOC:
        return type == BV_DOC;
    case F_ARRAY:
        return type == BV_ARRAY;
    case F_DOC_ARRAY:
        return type == BV_DOC || type == BV_ARRAY;
    case F_STR:
    case F_STR_BV:
        return type == BV_STRING;
    case F_BOOL:
        return type == BV_BOOL || number;
    case F_STRICT_BOOL:
        return type == BV_BOOL;
    case F_INT:
    case F_NUMBER:
        return number;
    case F_TS:
        return type == BV_TIMESTAMP;
    case F_STR_DOC:
        return type == BV_STRING || type == BV_DOC;
    case F_BIN:
        return type == BV_BINARY;
    case F_DATE:
        return type == BV_DATE;
    default:
        return true;
    }
}

static int store_int(struct op *op, const char *what, const struct field *f, struct bv v,
                     int64_t *out)
{
    int64_t x;
    int64_t min = (f->flags & FIELD_POSITIVE) != 0 ? 1 : 0;

    if (!bv_to_i64(v, &x))
        return op_fail(op, ERR_BAD_VALUE, "BSON field '%s.%s' is out of the range of a long", what,
                       f->name);
    if ((f->flags & (FIELD_NON_NEGATIVE | FIELD_POSITIVE)) != 0 && x < min)
        return op_fail(op, 51024, "BSON field '%s' value must be >= %lld, actual value '%lld'",
                       f->name, (long long)min, (long long)x);
    if ((f->flags & FIELD_INT32) != 0 && (x > INT32_MAX || x < INT32_MIN))
        return op_fail(op, ERR_BAD_VALUE, "%lld value for %s is out of range", (long long)x,
                       f->name);
    *out = x;
    return 0;
}

static int store(struct op *op, const char *what, const struct field *f, struct bv v, void *out)
{
    char *dst = (char *)out + f->offset;
    const char *s;
    uint32_t n;

    if (f->kind == F_IGNORE)
        return 0;
    if (v.type == BV_NULL && (f->flags & FIELD_NULL_OK) != 0)
        return 0;
    if ((f->flags & FIELD_UNBUILT) != 0)
        return op_fail(op, ERR_NOT_IMPLEMENTED, "'%s.%s' is not supported yet", what, f->name);
    if (!type_fits(f->kind, v.type))
        return wrong_type(op, what, f, v, expected_types(f->kind));
    switch (f->kind) {
    case F_STR:
        s = bv_str(v, &n);
        if (memchr(s, 0, n) != NULL)
            return op_fail(op, ERR_BAD_VALUE, "BSON field '%s.%s' contains a NUL byte", what,
                           f->name);
        s = arena_try_strndup(&op->arena, s, n);
        if (s == NULL)
            return op_no_memory(op);
        memcpy(dst, &s, sizeof(s));
        return 0;
    case F_BOOL:
    case F_STRICT_BOOL:
        *(bool *)(void *)dst = bv_truthy(v);
        return 0;
    case F_INT:
        return store_int(op, what, f, v, (int64_t *)(void *)dst);
    default:
        memcpy(dst, &v, sizeof(v));
        return 0;
    }
}

/* Most names differ in their first letter. */
static bool is_named(const struct field *f, const char *key)
{
    return f->name[0] == key[0] && strcmp(f->name, key) == 0;
}

int fields_parse(struct op *op, const char *what, const struct field *table, struct bv doc,
                 unsigned flags, void *out)
{
    struct biter it = biter(doc);
    struct belem e;
    uint64_t seen = 0;
    bool first = (flags & FIELDS_COMMAND) != 0;

    while (biter_next(&it, &e)) {
        const struct field *f = table;

        if (first) {
            first = false;
            if (f->name == NULL || !is_named(f, e.key))
                continue;
        }
        while (f->name != NULL && !is_named(f, e.key))
            f++;
        if (f->name == NULL) {
            if ((flags & FIELDS_LENIENT) != 0 ||
                ((flags & FIELDS_COMMAND) != 0 && field_is_generic(e.key)))
                continue;
            return op_fail(op, ERR_IDL_UNKNOWN_FIELD, "BSON field '%s.%s' is an unknown field.",
                           what, e.key);
        }
        ASSERT(f - table < FIELDS_MAX);
        if ((seen & (1ULL << (f - table))) != 0)
            return op_fail(op, ERR_IDL_DUPLICATE_FIELD, "BSON field '%s.%s' is a duplicate field",
                           what, e.key);
        seen |= 1ULL << (f - table);
        TRY_RETURN(store(op, what, f, e.v, out));
    }
    for (const struct field *f = table; f->name != NULL; f++) {
        if ((f->flags & FIELD_REQUIRED) != 0 && (seen & (1ULL << (f - table))) == 0)
            return op_fail(op, ERR_IDL_MISSING_FIELD,
                           "BSON field '%s.%s' is missing but a required field", what, f->name);
    }
    return 0;
}
