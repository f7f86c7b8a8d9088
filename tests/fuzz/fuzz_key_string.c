/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Key strings. Values of the text: each comes back as it went in, ascending and descending, and
 * memcmp() of two keys says what bv_cmp() says of the values. The bytes of the input themselves,
 * read as a key string, give values or an error.
 */
#include "storage/key_string.h"

#include <math.h>

#include "base/decimal.h"
#include "tests/fuzz/notation.h"

enum { VALUES_MAX = 8 };

struct key {
    struct ks_builder k;
    const uint8_t *bits;
    size_t bits_len;
};

static int sign(int x)
{
    return (x > 0) - (x < 0);
}

static void encode(struct arena *a, struct bv v, bool descending, struct key *ret)
{
    ks_init(&ret->k, a);
    ks_append(&ret->k, v, descending);
    ks_append_end(&ret->k);
    ret->bits = ks_type_bits(&ret->k, &ret->bits_len);
}

static bool came_back(struct bv back, struct bv v);

static bool fields_came_back(struct bv back, struct bv v)
{
    struct biter i = biter(back), j = biter(v);
    struct belem e, f;

    while (biter_next(&j, &f)) {
        if (!biter_next(&i, &e) || strcmp(e.key, f.key) != 0 || !came_back(e.v, f.v))
            return false;
    }
    return !biter_next(&i, &e);
}

static bool scope_came_back(struct bv back, struct bv v)
{
    uint32_t code_len, at;

    memcpy(&code_len, v.p + 4, 4);
    at = 4 + 4 + code_len;
    return back.len >= at && memcmp(back.p + 4, v.p + 4, at - 4) == 0 &&
           fields_came_back(bv_doc(back.p + at), bv_doc(v.p + at));
}

/* As it went in, but for the sign and the payload of NaN: key strings have one for each type. */
static bool came_back(struct bv back, struct bv v)
{
    if (back.type != v.type)
        return false;
    if (v.type == BV_DOUBLE && isnan(bv_f64(v)))
        return isnan(bv_f64(back));
    if (v.type == BV_DECIMAL && decimal_is_nan(decimal_load(v.p)))
        return decimal_is_nan(decimal_load(back.p));
    if (bv_is_container(v))
        return fields_came_back(back, v);
    if (v.type == BV_CODE_SCOPE)
        return scope_came_back(back, v);
    return bv_identical(back, v);
}

static void check_back(struct arena *a, struct bv v, bool descending)
{
    struct error err = {0};
    struct ks_reader r;
    struct bv back = BV_NONE;
    struct key key;

    encode(a, v, descending, &key);
    ASSERT(ks_reader_init(&r, key.k.buf, key.k.len, key.bits, key.bits_len, &err) == 0);
    r.inverted = descending;
    ASSERT(ks_read(&r, a, &err, &back) == 0);
    ASSERT(came_back(back, v));
    r.inverted = false;
    ASSERT(ks_read(&r, a, &err, &back) == 0 && bv_is_missing(back));
}

static int key_cmp(const struct ks_builder *a, const struct ks_builder *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int c = memcmp(a->buf, b->buf, n);

    return c != 0 ? c : (a->len > b->len) - (a->len < b->len);
}

static void check_order(struct arena *a, struct bv x, struct bv y)
{
    struct key kx, ky;

    encode(a, x, false, &kx);
    encode(a, y, false, &ky);
    ASSERT(sign(key_cmp(&kx.k, &ky.k)) == sign(bv_cmp(x, y)));
    encode(a, x, true, &kx);
    encode(a, y, true, &ky);
    ASSERT(sign(key_cmp(&kx.k, &ky.k)) == -sign(bv_cmp(x, y)));
}

static void read_raw(struct arena *a, const uint8_t *data, size_t size)
{
    size_t bits = size > 0 && data[0] < size ? data[0] : 0;
    struct error err = {0};
    struct ks_reader r;
    struct bv v;

    if (ks_reader_init(&r, data + bits, size - bits, bits > 0 ? data + 1 : NULL,
                       bits > 0 ? bits - 1 : 0, &err) != 0)
        return;
    do {
        v = BV_NONE;
        if (ks_read(&r, a, &err, &v) != 0)
            break;
        if (!bv_is_missing(v)) {
            struct bw w;

            bw_init(&w, a);
            bw_bv(&w, "v", v);
            check_sound(bw_done(&w));
        }
    } while (!bv_is_missing(v));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bv values[VALUES_MAX], v;
    struct input in;
    size_t n = 0;

    input_open(&in, data, size);
    while (n < VALUES_MAX && !bv_is_missing(v = input_next(&in)))
        values[n++] = v;
    for (size_t i = 0; i < n; i++) {
        check_back(&in.op.arena, values[i], false);
        check_back(&in.op.arena, values[i], true);
        for (size_t j = 0; j < n; j++)
            check_order(&in.op.arena, values[i], values[j]);
    }
    read_raw(&in.op.arena, data, size);
    input_close(&in);
    return 0;
}
