/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Object operators: $getField, $setField, $unsetField, $objectToArray, $arrayToObject, sizes. */
#include "query/expr_op.h"

/* --- $getField $setField $unsetField: args field, input, value
 * ---------------------------------------- */

struct field_codes {
    int not_object, unknown, missing_field, missing_input, missing_value, not_string;
};

static int parse_field_op(struct expr_parser *p, struct bv spec, struct expr *e,
                          const struct field_codes *codes, bool with_value)
{
    static const char *const names[] = {"field", "input", "value"};
    int missing[] = {codes->missing_field, codes->missing_input, codes->missing_value};
    struct biter it = biter(spec);
    struct belem el;
    struct bv v;

    if (spec.type != BV_DOC)
        return op_fail(p->op, codes->not_object, "%s only supports an object as its argument",
                       expr_name(e));
    e->nargs = with_value ? 3 : 2;
    e->args = ARENA_ARRAY(p->a, struct expr *, 3);
    while (biter_next(&it, &el)) {
        uint32_t i = 0;

        while (i < e->nargs && strcmp(el.key, names[i]) != 0)
            i++;
        if (i == e->nargs)
            return op_fail(p->op, codes->unknown, "%s found an unknown argument: %s", expr_name(e),
                           el.key);
        TRY_RETURN(expr_parse_operand(p, el.v, &e->args[i]));
    }
    for (uint32_t i = 0; i < e->nargs; i++) {
        if (e->args[i] == NULL)
            return op_fail(p->op, missing[i], "%s requires '%s' to be specified", expr_name(e),
                           names[i]);
    }
    if (expr_constant(e->args[0], &v) && v.type != BV_STRING)
        return op_fail(p->op, codes->not_string,
                       "%s requires 'field' to evaluate to type String, but got %s", expr_name(e),
                       bv_type_name(v.type));
    return 0;
}

static int field_name(const struct expr *e, struct eval *ev, int code, const char **ret,
                      uint32_t *ret_len)
{
    struct bv v;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    if (v.type != BV_STRING)
        return op_fail(ev->op, code, "%s requires 'field' to evaluate to type String, but got %s",
                       expr_name(e), bv_type_name(v.type));
    *ret = bv_str(v, ret_len);
    if (memchr(*ret, '\0', *ret_len) != NULL)
        return op_fail(ev->op, 16411, "FieldPath field names may not contain '\\0'.");
    return 0;
}

/* A short form: {$getField: <expression>} reads $$CURRENT. */
int parse_get_field(struct expr_parser *p, struct bv spec, struct expr *e)
{
    static const struct field_codes codes = {3041701, 3041701, 3041702, 3041703, 0, 3041704};
    struct belem el;
    struct bv v;
    struct bw w;

    if (spec.type == BV_DOC) {
        bv_first(spec, &el);
        if (bv_empty(spec) || el.key[0] != '$')
            return parse_field_op(p, spec, e, &codes, false);
    }
    bw_init(&w, p->a);
    bw_bv(&w, "field", spec);
    bw_str(&w, "input", "$$CURRENT");
    v = bw_done(&w);
    return parse_field_op(p, v, e, &codes, false);
}

int eval_get_field(const struct expr *e, struct eval *ev, struct bv *ret)
{
    const char *name;
    struct bv input;
    uint32_t n;

    TRY_RETURN(field_name(e, ev, 3041704, &name, &n));
    TRY_RETURN(expr_eval(e->args[1], ev, &input));
    if (input.type == BV_DOC)
        *ret = bv_getn(input, name, n);
    else
        *ret = input.type == BV_NULL ? bv_null : BV_NONE;
    return 0;
}

int parse_set_field(struct expr_parser *p, struct bv spec, struct expr *e)
{
    static const struct field_codes codes = {4161100, 4161101, 4161102, 4161109, 4161103, 4161107};

    return parse_field_op(p, spec, e, &codes, true);
}

int parse_unset_field(struct expr_parser *p, struct bv spec, struct expr *e)
{
    static const struct field_codes codes = {4161110, 4161111, 4161112, 4161109, 0, 4161107};

    return parse_field_op(p, spec, e, &codes, false);
}

/* $setField with a missing value is $unsetField. */
int eval_set_field(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv input, value = BV_NONE;
    const char *name;
    struct biter it;
    struct belem el;
    bool seen = false;
    struct bw w;
    uint32_t n;

    TRY_RETURN(field_name(e, ev, 4161107, &name, &n));
    TRY_RETURN(expr_eval(e->args[1], ev, &input));
    if (bv_is_nullish(input)) {
        *ret = bv_null;
        return 0;
    }
    if (input.type != BV_DOC)
        return op_fail(ev->op, 4161105, "%s requires 'input' to evaluate to type Object",
                       expr_name(e));
    if (e->nargs == 3)
        TRY_RETURN(expr_eval(e->args[2], ev, &value));
    bw_init(&w, ev->scratch);
    it = biter(input);
    while (biter_next(&it, &el)) {
        bool this = el.key_len == n && memcmp(el.key, name, n) == 0;

        bw_bvn(&w, el.key, el.key_len, this ? value : el.v);
        seen |= this;
    }
    if (!seen)
        bw_bvn(&w, name, n, value);
    return expr_done(ev, &w, ret);
}

/* --- $objectToArray $arrayToObject
 * ---------------------------------------------------------------------- */

int eval_object_to_array(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct biter it;
    struct belem el;
    struct bv v;
    struct bw w;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    if (bv_is_nullish(v)) {
        *ret = bv_null;
        return 0;
    }
    if (v.type != BV_DOC)
        return op_fail(ev->op, 40390, "$objectToArray requires a document input, found: %s",
                       bv_type_name(v.type));
    bw_init_array(&w, ev->scratch);
    it = biter(v);
    while (biter_next(&it, &el)) {
        bw_doc_begin(&w, NULL);
        bw_strn(&w, "k", el.key, el.key_len);
        bw_bv(&w, "v", el.v);
        bw_end(&w);
    }
    return expr_done(ev, &w, ret);
}

struct pair {
    struct bv k, v;
};

static int read_pair(struct eval *ev, struct bv item, uint8_t form, struct pair *ret)
{
    if (item.type != form)
        return op_fail(ev->op, form == BV_ARRAY ? 40396 : 40391,
                       "$arrayToObject requires a consistent input format. Elements must all be "
                       "arrays or all be objects. %s was detected, now found: %s",
                       form == BV_ARRAY ? "Array" : "Object", bv_type_name(item.type));
    if (form == BV_ARRAY) {
        if (bv_count(item) != 2)
            return op_fail(ev->op, 40397,
                           "$arrayToObject requires an array of size 2 arrays,found array of size: "
                           "%u",
                           bv_count(item));
        *ret = (struct pair){bv_get(item, "0"), bv_get(item, "1")};
    } else {
        if (bv_count(item) != 2)
            return op_fail(ev->op, 40392,
                           "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect "
                           "number of keys:%u",
                           bv_count(item));
        *ret = (struct pair){bv_get(item, "k"), bv_get(item, "v")};
        if (bv_is_missing(ret->k) || bv_is_missing(ret->v))
            return op_fail(
                ev->op, 40393,
                "$arrayToObject requires an object with keys 'k' and 'v'. Missing either "
                "or both keys from: %s",
                bv_show(ev->scratch, item, 128));
    }
    if (ret->k.type != BV_STRING)
        return op_fail(ev->op, form == BV_ARRAY ? 40395 : 40394,
                       "$arrayToObject requires an array of key-value pairs, where the key must be "
                       "of type string. Found key type: %s",
                       bv_type_name(ret->k.type));
    return 0;
}

/* Writes the pairs; of those with the same key the first gives the place and the last the value. */
static void write_pairs(struct bw *w, struct eval *ev, struct pair *pairs, uint32_t n)
{
    uint32_t nslots = 16;
    uint32_t *slots;

    while (nslots < 2 * n)
        nslots *= 2;
    slots = arena_try(ev->scratch, nslots * sizeof(*slots));
    if (slots == NULL) {
        w->failed = true;
        return;
    }
    memset(slots, 0, nslots * sizeof(*slots));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = (uint32_t)bv_hash(pairs[i].k) & (nslots - 1);

        while (slots[at] != 0 && bv_cmp(pairs[slots[at] - 1].k, pairs[i].k) != 0)
            at = (at + 1) & (nslots - 1);
        if (slots[at] == 0) {
            slots[at] = i + 1;
        } else {
            pairs[slots[at] - 1].v = pairs[i].v;
            pairs[i].v = BV_NONE;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t len;
        const char *key = bv_str(pairs[i].k, &len);

        bw_bvn(w, key, len, pairs[i].v);
    }
}

int eval_array_to_object(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv array, *items;
    struct pair *pairs;
    struct bw w;
    uint32_t n;

    TRY_RETURN(expr_eval(e->args[0], ev, &array));
    if (bv_is_nullish(array)) {
        *ret = bv_null;
        return 0;
    }
    if (array.type != BV_ARRAY)
        return op_fail(ev->op, 40386, "$arrayToObject requires an array input, found: %s",
                       bv_type_name(array.type));
    TRY_RETURN(expr_elements(ev, array, &items, &n));
    if (n > 0 && !bv_is_container(items[0]))
        return op_fail(ev->op, 40398, "Unrecognised input type format for $arrayToObject: %s",
                       bv_type_name(items[0].type));
    pairs = arena_try(ev->scratch, ((size_t)n + 1) * sizeof(*pairs));
    if (pairs == NULL)
        return op_fail(ev->op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory in $arrayToObject");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t len;
        const char *key;

        TRY_RETURN(read_pair(ev, items[i], items[0].type, &pairs[i]));
        key = bv_str(pairs[i].k, &len);
        if (memchr(key, '\0', len) != NULL)
            return op_fail(ev->op, 4940400, "Key field cannot contain an embedded null byte");
    }
    bw_init(&w, ev->scratch);
    write_pairs(&w, ev, pairs, n);
    return expr_done(ev, &w, ret);
}

/* --- sizes
 * --------------------------------------------------------------------------------------------------
 */

int eval_bson_size(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv v;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    if (bv_is_nullish(v)) {
        *ret = bv_null;
        return 0;
    }
    if (v.type != BV_DOC)
        return op_fail(ev->op, 31393, "$bsonSize requires a document input, found: %s",
                       bv_type_name(v.type));
    *ret = bv_new_i32(ev->scratch, (int32_t)v.len);
    return 0;
}

int eval_binary_size(const struct expr *e, struct eval *ev, struct bv *ret)
{
    struct bv v;
    uint32_t n;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    if (bv_is_nullish(v)) {
        *ret = bv_null;
        return 0;
    }
    if (v.type == BV_STRING)
        (void)bv_str(v, &n);
    else if (v.type == BV_BINARY)
        (void)bv_bin(v, &n, NULL);
    else
        return op_fail(ev->op, 51276,
                       "$binarySize requires a string or BinData argument, found: %s",
                       bv_type_name(v.type));
    *ret = bv_new_i32(ev->scratch, (int32_t)n);
    return 0;
}

/* --- timestamps
 * ------------------------------------------------------------------------------------------------
 */

static int timestamp_part(const struct expr *e, struct eval *ev, int code, unsigned shift,
                          struct bv *ret)
{
    struct bv v;

    TRY_RETURN(expr_eval(e->args[0], ev, &v));
    if (bv_is_nullish(v)) {
        *ret = bv_null;
        return 0;
    }
    if (v.type != BV_TIMESTAMP)
        return op_fail(ev->op, code, "Argument to %s must be a timestamp, but is %s", expr_name(e),
                       bv_type_name(v.type));
    *ret = bv_new_i64(ev->scratch, (int64_t)(uint32_t)(bv_ts(v) >> shift));
    return 0;
}

int eval_ts_second(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return timestamp_part(e, ev, 5687301, 32, ret);
}

int eval_ts_increment(const struct expr *e, struct eval *ev, struct bv *ret)
{
    return timestamp_part(e, ev, 5687302, 0, ret);
}
