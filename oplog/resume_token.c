/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "oplog/resume_token.h"

#include "storage/key_string.h"

enum { VERSION_MAX = 2 };

/* --- writing -------------------------------------------------------------------------------- */

/* The eight digits of four bytes, all at once: a token is made for every event. */
static void hex_of_4(const uint8_t *p, char *ret)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), low_nibbles = UINT64_C(0x000F000F000F000F);
    uint32_t four;
    uint64_t x, above_9;

    memcpy(&four, p, 4);
    x = (four | (uint64_t)four << 16) & UINT64_C(0x0000FFFF0000FFFF);
    x = (x | x << 8) & UINT64_C(0x00FF00FF00FF00FF);
    x = (x >> 4 & low_nibbles) | (x & low_nibbles) << 8;
    above_9 = (x + ones * 6) >> 4 & ones;
    x += ones * '0' + above_9 * ('A' - '0' - 10);
    memcpy(ret, &x, 8);
}

static char *to_hex(struct arena *a, const uint8_t *p, size_t n)
{
    char *s = arena_try(a, 2 * n + 8);
    uint8_t rest[4] = {0};
    size_t i;

    if (s == NULL)
        return NULL;
    for (i = 0; i + 4 <= n; i += 4)
        hex_of_4(p + i, s + 2 * i);
    memcpy(rest, p + i, n - i);
    hex_of_4(rest, s + 2 * i);
    return s;
}

static void append_i32(struct ks_builder *k, int32_t x)
{
    ks_append(k, (struct bv){(const uint8_t *)&x, 4, BV_INT32}, false);
}

static void append_components(struct ks_builder *k, const struct resume_token *t)
{
    ks_append(k, (struct bv){(const uint8_t *)&t->cluster_time, 8, BV_TIMESTAMP}, false);
    append_i32(k, t->version);
    if (t->version >= 1)
        append_i32(k, t->type);
    append_i32(k, t->txn_op_index);
    if (t->version >= 1)
        ks_append(k, bv_new_bool(t->from_invalidate), false);
    if (t->has_uuid) {
        uint8_t bin[21] = {16, 0, 0, 0, 4};

        memcpy(bin + 5, t->uuid, 16);
        ks_append(k, (struct bv){bin, sizeof(bin), BV_BINARY}, false);
    } else if (t->version >= 2) {
        ks_append(k, bv_null, false);
    }
    if (!bv_is_missing(t->event_id))
        ks_append(k, t->event_id, false);
    if (t->fragment >= 0)
        append_i32(k, t->fragment);
    ks_append_end(k);
}

struct bv token_encode(struct arena *a, const struct resume_token *t)
{
    struct ks_builder k;
    struct bw w;
    const uint8_t *bits;
    const char *hex;
    size_t nbits;

    ASSERT(t->version >= 2 || t->fragment < 0);
    ASSERT(t->version >= 2 || t->has_uuid || bv_is_missing(t->event_id));
    ASSERT(t->version < 2 || (t->type == TOKEN_EVENT) == !bv_is_missing(t->event_id));
    ks_init(&k, a);
    append_components(&k, t);
    bits = ks_type_bits(&k, &nbits);
    hex = k.failed ? NULL : to_hex(a, k.buf, k.len);
    if (hex == NULL)
        return BV_NONE;
    bw_init(&w, a);
    bw_strn(&w, "_data", hex, 2 * k.len);
    if (bits != NULL)
        bw_bin(&w, "_typeBits", 0, bits, nbits);
    return bw_done(&w);
}

struct bv token_high_water_mark(struct arena *a, uint64_t ts, int32_t version)
{
    struct resume_token t = {.cluster_time = ts,
                             .version = version,
                             .type = TOKEN_HIGH_WATER_MARK,
                             .event_id = BV_NONE,
                             .fragment = -1};

    return token_encode(a, &t);
}

/* --- reading -------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int from_hex(struct op *op, struct bv data, uint8_t **ret, size_t *ret_len)
{
    uint32_t n;
    const char *s = bv_str(data, &n);
    uint8_t *p = arena_try(&op->arena, n / 2);

    if (p == NULL)
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory");
    for (uint32_t i = 0; i + 1 < n; i += 2) {
        int hi = hex_digit(s[i]), lo = hex_digit(s[i + 1]);

        if (hi < 0 || lo < 0)
            n = 1;
        else
            p[i / 2] = (uint8_t)(hi << 4 | lo);
    }
    if (n % 2 != 0)
        return op_fail(op, ERR_FAILED_TO_PARSE, "resume token string was not a valid hex string");
    *ret = p;
    *ret_len = n / 2;
    return 0;
}

struct token_reader {
    struct op *op;
    struct ks_reader r;
    struct bv v; /* the component at hand; BV_NONE at the end */
};

static int advance(struct token_reader *t)
{
    return ks_read(&t->r, &t->op->arena, t->op->err, &t->v);
}

static int bad(struct token_reader *t, int code, const char *what)
{
    return op_fail(t->op, code, "Resume Token: %s", what);
}

/* Takes an int32 component; codes for an absent one and for another type. */
static int take_i32(struct token_reader *t, int absent, int mistyped, const char *name,
                    int32_t *ret)
{
    if (bv_is_missing(t->v))
        return op_fail(t->op, absent, "Resume Token: no %s", name);
    if (t->v.type != BV_INT32)
        return op_fail(t->op, mistyped, "Resume Token: wrong type for %s", name);
    *ret = bv_i32(t->v);
    return advance(t);
}

static int take_time_and_version(struct token_reader *t, struct resume_token *ret)
{
    TRY_RETURN(advance(t));
    if (bv_is_missing(t->v))
        return bad(t, 40649, "the token is empty");
    if (t->v.type != BV_TIMESTAMP)
        return bad(t, 40650, "wrong type for clusterTime");
    ret->cluster_time = bv_ts(t->v);
    TRY_RETURN(advance(t));
    TRY_RETURN(take_i32(t, 50796, 50854, "version", &ret->version));
    if (ret->version < 0 || ret->version > VERSION_MAX)
        return bad(t, 50795, "unknown version");
    return 0;
}

static int take_kind(struct token_reader *t, struct resume_token *ret)
{
    ret->type = TOKEN_EVENT;
    if (ret->version >= 1) {
        TRY_RETURN(take_i32(t, 51055, 51056, "tokenType", &ret->type));
        if (ret->type != TOKEN_EVENT && ret->type != TOKEN_HIGH_WATER_MARK)
            return bad(t, 51057, "unknown tokenType");
    }
    TRY_RETURN(take_i32(t, 50793, 50855, "txnOpIndex", &ret->txn_op_index));
    if (ret->txn_op_index < 0)
        return bad(t, 50794, "negative txnOpIndex");
    if (ret->version >= 1) {
        if (bv_is_missing(t->v))
            return bad(t, 50872, "no fromInvalidate");
        if (t->v.type != BV_BOOL)
            return bad(t, 50870, "wrong type for fromInvalidate");
        ret->from_invalidate = bv_bool(t->v);
        TRY_RETURN(advance(t));
    }
    return 0;
}

static int take_uuid(struct token_reader *t, struct resume_token *ret)
{
    const uint8_t *p;
    uint32_t n;
    uint8_t subtype;

    if (bv_is_missing(t->v))
        return ret->version >= 2 ? bad(t, 6189500, "expected a UUID or null") : 0;
    if (t->v.type == BV_NULL && ret->version >= 2)
        return advance(t);
    if (t->v.type != BV_BINARY)
        return bad(t, ret->version >= 2 ? 6189500 : 40646, "wrong type for the UUID");
    p = bv_bin(t->v, &n, &subtype);
    if (n != 16 || subtype != 4)
        return bad(t, ret->version >= 2 ? 6189500 : 40646, "the UUID is none");
    memcpy(ret->uuid, p, 16);
    ret->has_uuid = true;
    return advance(t);
}

static int take_event_id(struct token_reader *t, struct resume_token *ret)
{
    if (bv_is_missing(t->v)) {
        if (ret->version >= 2 && ret->type == TOKEN_EVENT)
            return bad(t, 6189501, "an event token needs an event identifier");
        return 0;
    }
    if (ret->type == TOKEN_HIGH_WATER_MARK)
        return bad(t, 6189504, "a high-water mark has no event identifier");
    if (t->v.type != BV_DOC)
        return bad(t, 6189503, "the event identifier is not an object");
    ret->event_id = t->v;
    return advance(t);
}

static int take_fragment(struct token_reader *t, struct resume_token *ret)
{
    if (bv_is_missing(t->v))
        return 0;
    if (ret->version < 2)
        return bad(t, 40646, "unexpected components at the end");
    if (t->v.type != BV_INT32 || bv_i32(t->v) < 0)
        return bad(t, 7182501, "fragmentNum is not a non-negative int");
    ret->fragment = bv_i32(t->v);
    return advance(t);
}

/* _data and _typeBits into a reader. */
static int open_reader(struct op *op, struct bv doc, struct ks_reader *ret)
{
    struct bv data = bv_get(doc, "_data"), bits = bv_get(doc, "_typeBits");
    const uint8_t *bit_bytes = NULL;
    uint32_t nbits = 0;
    uint8_t subtype = 0, *bytes = NULL;
    size_t n = 0;

    if (data.type != BV_STRING)
        return op_fail(op, 40647,
                       "Bad resume token: _data of missing or of wrong type. Expected string, "
                       "got %s",
                       bv_type_name(data.type));
    if (bits.type == BV_BINARY)
        bit_bytes = bv_bin(bits, &nbits, &subtype);
    if (!bv_is_missing(bits) && (bits.type != BV_BINARY || subtype != 0))
        return op_fail(op, 40648,
                       "Bad resume token: _typeBits of wrong type. Expected binData of subtype 0, "
                       "got %s",
                       bv_type_name(bits.type));
    TRY_RETURN(from_hex(op, data, &bytes, &n));
    return ks_reader_init(ret, bytes, n, bit_bytes, nbits, op->err);
}

int token_decode(struct op *op, struct bv doc, struct resume_token *ret)
{
    struct token_reader t = {.op = op};
    struct resume_token out = {.fragment = -1, .event_id = BV_NONE};

    TRY_RETURN(open_reader(op, doc, &t.r));
    TRY_RETURN(take_time_and_version(&t, &out));
    TRY_RETURN(take_kind(&t, &out));
    TRY_RETURN(take_uuid(&t, &out));
    TRY_RETURN(take_event_id(&t, &out));
    TRY_RETURN(take_fragment(&t, &out));
    if (!bv_is_missing(t.v) || t.r.end - t.r.p > 1)
        return bad(&t, 40646, "unexpected components at the end");
    if (t.r.p == t.r.end)
        return bad(&t, 50811, "the token is cut short");
    *ret = out;
    return 0;
}

int token_cmp(const struct resume_token *a, const struct resume_token *b)
{
    int c;

    if (a->cluster_time != b->cluster_time)
        return a->cluster_time < b->cluster_time ? -1 : 1;
    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    if (a->txn_op_index != b->txn_op_index)
        return a->txn_op_index < b->txn_op_index ? -1 : 1;
    if (a->from_invalidate != b->from_invalidate)
        return (int)a->from_invalidate - (int)b->from_invalidate;
    if (a->has_uuid != b->has_uuid)
        return (int)a->has_uuid - (int)b->has_uuid;
    c = a->has_uuid ? memcmp(a->uuid, b->uuid, 16) : 0;
    if (c == 0)
        c = bv_cmp(a->event_id, b->event_id);
    if (c == 0)
        c = (a->fragment > b->fragment) - (a->fragment < b->fragment);
    return c;
}
