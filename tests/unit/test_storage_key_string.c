/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/decimal.h"
#include "storage/key_string.h"

#define VALUES_MAX 4000

static struct arena arena;

static int setup(void **state)
{
    (void)state;
    arena_init(&arena);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static const char *hex(const uint8_t *p, size_t n)
{
    char *s = arena_zalloc(&arena, 2 * n + 1);

    for (size_t i = 0; i < n; i++)
        snprintf(s + 2 * i, 3, "%02X", p[i]);
    return s;
}

static const char *key_hex(struct bv v, bool descending)
{
    struct ks_builder k;

    ks_init(&k, &arena);
    ks_append(&k, v, descending);
    return hex(k.buf, k.len);
}

static const char *bits_hex(struct bv v)
{
    struct ks_builder k;
    size_t n;
    const uint8_t *p;

    ks_init(&k, &arena);
    ks_append(&k, v, false);
    p = ks_type_bits(&k, &n);
    return p == NULL ? "" : hex(p, n);
}

static struct bv i32(int32_t x)
{
    return bv_new_i32(&arena, x);
}

static struct bv i64(int64_t x)
{
    return bv_new_i64(&arena, x);
}

static struct bv f64(double x)
{
    return bv_new_f64(&arena, x);
}

static struct bv str(const char *s, size_t n)
{
    return bv_new_str(&arena, s, n);
}

static struct bv raw(uint8_t type, const void *p, size_t n)
{
    return (struct bv){arena_dup(&arena, p, n), (uint32_t)n, type};
}

static struct bv dec(const char *s)
{
    struct decimal d;

    assert_true(decimal_from_str(s, strlen(s), &d));
    return raw(BV_DECIMAL, &d, 16);
}

static void integers_and_doubles_have_the_documented_bytes(void **state)
{
    (void)state;
    assert_string_equal(key_hex(i32(0), false), "29");
    assert_string_equal(key_hex(i32(1), false), "2B02");
    assert_string_equal(key_hex(i64(2), false), "2B04");
    assert_string_equal(key_hex(f64(7), false), "2B0E");
    assert_string_equal(key_hex(i32(64), false), "2B80");
    assert_string_equal(key_hex(i32(127), false), "2BFE");
    assert_string_equal(key_hex(i32(128), false), "2C0100");
    assert_string_equal(key_hex(i32(255), false), "2C01FE");
    assert_string_equal(key_hex(i32(-1), false), "27FD");
    assert_string_equal(key_hex(i64(-129), false), "26FEFD");
    assert_string_equal(key_hex(i64(9007199254740993), false), "3140000000000002");
    assert_string_equal(key_hex(f64(1.5), false), "2B0380000000000000");
    assert_string_equal(key_hex(f64(-2.25), false), "27FABFFFFFFFFFFFFF");
    assert_string_equal(key_hex(f64(0.1), false), "2AFEE6666666666668");
    assert_string_equal(key_hex(f64(1e-100), false), "2AB657FE5DC91C0A60");
    assert_string_equal(key_hex(f64(5e-324), false), "2A59A0000000000000");
    assert_string_equal(key_hex(f64(1e20), false), "33082B5E3AF16B1880");
    assert_string_equal(key_hex(f64(-1e20), false), "1FF7D4A1C50E94E77F");
    assert_string_equal(key_hex(i64(INT64_MIN), false), "1FF83FFFFFFFFFFFFF");
    assert_string_equal(key_hex(f64((double)INFINITY), false), "33FFFFFFFFFFFFFFFF");
    assert_string_equal(key_hex(f64(-(double)INFINITY), false), "1F0000000000000000");
    assert_string_equal(key_hex(f64((double)NAN), false), "1E");
    assert_string_equal(key_hex(f64(-0.0), false), "29");
    assert_string_equal(key_hex(i32(1), true), "D4FD");
}

static void decimals_have_the_documented_bytes(void **state)
{
    (void)state;
    assert_string_equal(key_hex(dec("1"), false), "2B02");
    assert_string_equal(key_hex(dec("1.50"), false), "2B0380000000000000");
    assert_string_equal(key_hex(dec("1E2"), false), key_hex(i32(100), false));
    assert_string_equal(key_hex(dec("-0E+10"), false), "29");
    assert_string_equal(key_hex(dec("NaN"), false), "1E");
    assert_string_equal(key_hex(dec("Infinity"), false), "33FFFFFFFFFFFFFFFF");
    assert_string_equal(key_hex(dec("9223372036854775807"), false), key_hex(i64(INT64_MAX), false));
    assert_string_equal(key_hex(dec("-9223372036854775808"), false), "1FF83FFFFFFFFFFFFF");
    /* the double below 0.1, mark 2: rounded up to 15 digits it is 0.1 */
    assert_string_equal(key_hex(dec("0.1"), false), "2AFEE6666666666666");
    /* 19.99: the whole part is 19, the mark sits in the fraction */
    assert_string_equal(key_hex(dec("19.99"), false), "2B27FD70A3D70A3D02");
    /* an integer above 2^53 with a fraction: 7 bytes, the byte 03, the continuation */
    assert_string_equal(key_hex(dec("9007199254740993.5"), false), "314000000000000303"
                                                                   "06F05B59D3B20000");
}

static void other_types_have_the_documented_bytes(void **state)
{
    struct bw w;
    uint8_t big[300] = {0};

    (void)state;
    assert_string_equal(key_hex(BV_NONE, false), "14");
    assert_string_equal(key_hex(bv_null, false), "14");
    assert_string_equal(key_hex(bv_undefined, false), "0F");
    assert_string_equal(key_hex(bv_minkey, false), "0A");
    assert_string_equal(key_hex(bv_maxkey, false), "F0");
    assert_string_equal(key_hex(bv_false, false), "6E");
    assert_string_equal(key_hex(bv_true, false), "6F");
    assert_string_equal(key_hex(bv_true, true), "90");
    assert_string_equal(key_hex(str("x\0y", 3), false), "3C7800FF7900");
    assert_string_equal(key_hex(bv_new_date(&arena, 1700000000123), false), "788000018BCFE5687B");
    assert_string_equal(key_hex(bv_new_ts(&arena, 5ULL << 32 | 7), false), "820000000500000007");
    assert_string_equal(key_hex(bv_new_bin(&arena, 0, "\1\2\3", 3), false), "5A0300010203");
    assert_memory_equal(key_hex(bv_new_bin(&arena, 5, big, 300), false), "5AFF0000012C0500", 16);
    assert_string_equal(key_hex(raw(BV_REGEX, "a\0i", 4), false), "8C61006900");

    bw_init(&w, &arena);
    bw_i32(&w, "a", 1);
    bw_arr_begin(&w, "b");
    bw_bool(&w, NULL, true);
    bw_null(&w, NULL);
    bw_strn(&w, NULL, "x\0y", 3);
    bw_end(&w);
    assert_string_equal(key_hex(bw_done(&w), false), "461E61002B02506200506F143C7800FF79000000");
}

static void type_bits_have_the_documented_bytes(void **state)
{
    struct ks_builder k;
    size_t n;
    const uint8_t *p;

    (void)state;
    assert_string_equal(bits_hex(i32(1)), "");
    assert_string_equal(bits_hex(str("a", 1)), "");
    assert_string_equal(bits_hex(i64(1)), "02");
    assert_string_equal(bits_hex(f64(1)), "01");
    assert_string_equal(bits_hex(f64(-0.0)), "03");
    ks_init(&k, &arena);
    for (int i = 0; i < 4; i++)
        ks_append(&k, i64(i), false);
    p = ks_type_bits(&k, &n);
    assert_string_equal(hex(p, n), "81AA"); /* the top bit would be read as a length */
    ks_append(&k, i32(5), false);
    p = ks_type_bits(&k, &n);
    assert_string_equal(hex(p, n), "82AA00"); /* zeros at the end are kept */
    for (int i = 0; i < 1000; i++)
        ks_append(&k, i32(5), false);
    p = ks_type_bits(&k, &n);
    assert_int_equal(n, 5 + 252);
    assert_memory_equal(p, "\x80\xfc\0\0\0\xaa\0", 7);
    ks_reset(&k);
    ks_append(&k, i32(5), false);
    assert_null(ks_type_bits(&k, &n));
}

/* --- order and round trips ------------------------------------------------------------------- */

static struct bv values[VALUES_MAX];
static size_t nvalues;

static void add(struct bv v)
{
    assert_true(nvalues < VALUES_MAX);
    values[nvalues++] = v;
}

static uint64_t rng = 88172645463325252u;

static uint64_t rnd(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng;
}

static void add_f64_and_kin(double x)
{
    struct decimal d = decimal_from_f64_exact(x);

    add(f64(x));
    add(f64(nextafter(x, (double)INFINITY)));
    add(f64(-x));
    if (!isfinite(x))
        return;
    add(raw(BV_DECIMAL, &d, 16)); /* equal in 34 digits */
    d.lo ^= 1;                    /* and its neighbour */
    add(raw(BV_DECIMAL, &d, 16));
    d.hi ^= 1ULL << 63;
    add(raw(BV_DECIMAL, &d, 16));
    d = decimal_from_f64(x); /* 15 digits */
    add(raw(BV_DECIMAL, &d, 16));
}

static void add_numbers(void)
{
    static const char *const decimals[] = {"0",
                                           "-0",
                                           "0E-20",
                                           "-0E+6000",
                                           "1",
                                           "1.0",
                                           "1.00000",
                                           "10",
                                           "1E1",
                                           "0.1",
                                           "-0.1",
                                           "0.10",
                                           "19.99",
                                           "-19.99",
                                           "3.14159265358979323846264338327950",
                                           "2.718281828459045",
                                           "0.1000000000000000055511151231257827",
                                           "0.1000000000000000055511151231257828",
                                           "0.1000000000000000055511151231257826",
                                           "0.99999999999999999999999999",
                                           "0.9999999999999999",
                                           "1.0000000000000000000000001",
                                           "9007199254740992.5",
                                           "9007199254740993.0000001",
                                           "9007199254740993",
                                           "4503599627370495.7",
                                           "4503599627370497.3",
                                           "9223372036854775807.5",
                                           "-9223372036854775807.5",
                                           "-9223372036854775808.5",
                                           "9223372036854775808",
                                           "9223372036854775809",
                                           "1E20",
                                           "1E30",
                                           "1.0000000000001E30",
                                           "100000000000000000001",
                                           "1E308",
                                           "1.797693134862315807E308",
                                           "1.7976931348623158E308",
                                           "1.8E308",
                                           "1E309",
                                           "-1E309",
                                           "9.999999999999999999999999999999999E6144",
                                           "-1E6144",
                                           "1E-77",
                                           "1.000000001E-77",
                                           "1.7E-76",
                                           "1E-300",
                                           "3.3E-308",
                                           "2.2250738585072014E-308",
                                           "2.2E-308",
                                           "4.9E-324",
                                           "5E-324",
                                           "4E-324",
                                           "7E-324",
                                           "1E-320",
                                           "-1E-320",
                                           "1E-400",
                                           "-1E-400",
                                           "1E-6176",
                                           "9E-6176",
                                           "Infinity",
                                           "-Infinity",
                                           "NaN",
                                           "123.456",
                                           "-123.456",
                                           "123.4560",
                                           "99999999999999.9",
                                           "999999999999999.9",
                                           "0.00001",
                                           "1.1E-5"};

    for (size_t i = 0; i < sizeof(decimals) / sizeof(decimals[0]); i++)
        add(dec(decimals[i]));
    for (int b = 0; b < 63; b++) {
        for (int64_t d = -1; d <= 1; d++) {
            add(i64(((int64_t)1 << b) + d));
            add(i64(-((int64_t)1 << b) + d));
        }
    }
    add(i64(INT64_MIN));
    add(i64(INT64_MAX));
    for (int32_t i = -300; i < 300; i += 7)
        add(i32(i));
    add_f64_and_kin(0);
    add_f64_and_kin((double)INFINITY);
    add(f64((double)NAN));
    for (int e = -1074; e <= 1023; e += e < -1000 || e > 1000 ? 13 : 29)
        add_f64_and_kin(ldexp(1, e));
    for (int e = -260; e < 66; e += 3)
        add_f64_and_kin(ldexp(1 + (double)(rnd() >> 12) * 0x1p-52, e));
    for (int i = 0; i < 60; i++)
        add_f64_and_kin((double)(int64_t)(rnd() % 2000000) / 100.0);
}

static void add_strings(uint8_t type)
{
    static const char *const texts[] = {"", "a", "ab", "b", "A", "\xff", "\xff\xff", "zz"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct bv v = str(texts[i], strlen(texts[i]));

        v.type = type;
        add(v);
    }
    struct bv nul = str("a\0b", 3), nuls = str("\0\0", 2), end = str("a\0", 2);

    nul.type = nuls.type = end.type = type;
    add(nul);
    add(nuls);
    add(end);
}

static void add_containers(void)
{
    size_t n = nvalues;

    for (size_t i = 0; i < n; i += 41) {
        struct bw w;

        bw_init(&w, &arena);
        bw_bv(&w, i % 2 == 0 ? "a" : "ab", values[i]);
        add(bw_done(&w));
        bw_init(&w, &arena);
        bw_bv(&w, "a", values[i]);
        bw_bv(&w, "z", values[(i * 7) % n]);
        add(bw_done(&w));
        bw_init_array(&w, &arena);
        bw_bv(&w, NULL, values[i]);
        bw_bv(&w, NULL, values[(i * 5) % n]);
        add(bw_done(&w));
    }
    add(bv_empty_doc);
    add(bv_empty_array);
}

static void add_others(void)
{
    uint8_t bytes[400];

    add(bv_null);
    add(bv_undefined);
    add(bv_minkey);
    add(bv_maxkey);
    add(bv_true);
    add(bv_false);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 37);
    for (size_t n = 0; n < 400; n = n * 2 + 1)
        add(bv_new_bin(&arena, (uint8_t)(n % 6), bytes, n));
    add(bv_new_bin(&arena, 0, bytes, 254));
    for (int i = 0; i < 5; i++)
        add(bv_new_oid(&arena, bytes + i));
    add(bv_new_date(&arena, 0));
    add(bv_new_date(&arena, -1));
    add(bv_new_date(&arena, INT64_MAX));
    add(bv_new_date(&arena, INT64_MIN));
    add(bv_new_ts(&arena, 0));
    add(bv_new_ts(&arena, UINT64_MAX));
    add(bv_new_ts(&arena, 1ULL << 32));
    add(raw(BV_REGEX, "a\0i", 4));
    add(raw(BV_REGEX, "a\0", 3));
    add(raw(BV_REGEX, "ab\0", 4));
    add(raw(BV_DBPOINTER, "\4\0\0\0a.b\0abcdefghijkl", 20));
    add(raw(BV_DBPOINTER, "\5\0\0\0a.bb\0abcdefghijkl", 21));
    uint8_t pointer[400] = {300 % 256, 300 / 256};

    memset(pointer + 4, 'a', 299);
    add(raw(BV_DBPOINTER, pointer, 4 + 300 + 12));
    /* scope {} behind "x" and "xy", scope {a: 1} behind "x": the code counts before the length */
    add(raw(BV_CODE_SCOPE, "\x10\0\0\0\3\0\0\0xy\0\5\0\0\0\0", 16));
    add(raw(BV_CODE_SCOPE, "\x0f\0\0\0\2\0\0\0x\0\5\0\0\0\0", 15));
    add(raw(BV_CODE_SCOPE,
            "\x16\0\0\0\2\0\0\0x\0\x0c\0\0\0\x10"
            "a\0\1\0\0\0\0",
            22));
}

static void fill_values(void)
{
    nvalues = 0;
    add_numbers();
    add_strings(BV_STRING);
    add_strings(BV_SYMBOL);
    add_strings(BV_CODE);
    add_others();
    add_containers();
}

static int sign(int x)
{
    return (x > 0) - (x < 0);
}

static int cmp_keys(const struct ks_builder *a, const struct ks_builder *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int c = memcmp(a->buf, b->buf, n);

    return c != 0 ? c : (a->len > b->len) - (a->len < b->len);
}

static void check_order(bool descending)
{
    struct ks_builder *keys;

    fill_values();
    keys = arena_alloc(&arena, nvalues * sizeof(*keys));
    for (size_t i = 0; i < nvalues; i++) {
        ks_init(&keys[i], &arena);
        ks_append(&keys[i], values[i], descending);
        ks_append_end(&keys[i]);
    }
    for (size_t i = 0; i < nvalues; i++) {
        for (size_t j = 0; j < nvalues; j++) {
            int want = sign(bv_cmp(values[i], values[j])), got = sign(cmp_keys(&keys[i], &keys[j]));

            if (want != (descending ? -got : got))
                fail_msg("%s and %s: order %d, keys %d (%s, %s)", bv_show(&arena, values[i], 80),
                         bv_show(&arena, values[j], 80), want, got, hex(keys[i].buf, keys[i].len),
                         hex(keys[j].buf, keys[j].len));
        }
    }
}

static void key_order_is_value_order(void **state)
{
    (void)state;
    check_order(false);
    check_order(true);
}

/* -NaN, and NaN with a payload, come back as the plain NaN. */
static bool same_value(struct bv a, struct bv b)
{
    if (bv_identical(a, b))
        return true;
    return a.type == b.type && a.type == BV_DOUBLE && isnan(bv_f64(a)) && isnan(bv_f64(b));
}

static void values_come_back_with_their_types(void **state)
{
    struct ks_builder k;
    struct ks_reader r;
    struct error err;
    const uint8_t *bits;
    size_t nbits;

    (void)state;
    fill_values();
    for (int descending = 0; descending < 2; descending++) {
        ks_init(&k, &arena);
        for (size_t i = 0; i < nvalues; i++)
            ks_append(&k, values[i], descending);
        ks_append_end(&k);
        bits = ks_type_bits(&k, &nbits);
        assert_int_equal(ks_reader_init(&r, k.buf, k.len, bits, nbits, &err), 0);
        for (size_t i = 0; i < nvalues; i++) {
            struct bv v;

            r.inverted = descending;
            assert_int_equal(ks_read(&r, &arena, &err, &v), 0);
            if (!same_value(values[i], v))
                fail_msg("value %zu: wrote %s (%s), read %s (%s)", i,
                         bv_show(&arena, values[i], 80), bv_type_name(values[i].type),
                         bv_show(&arena, v, 80), bv_type_name(v.type));
        }
        r.inverted = false;
        struct bv end = bv_null;

        assert_int_equal(ks_read(&r, &arena, &err, &end), 0);
        assert_true(bv_is_missing(end));
        assert_int_equal(r.end - r.p, 1);
    }
}

static void values_without_type_bits_still_compare_equal(void **state)
{
    struct ks_builder k;
    struct ks_reader r;
    struct error err;
    struct bv v;

    (void)state;
    fill_values();
    ks_init(&k, &arena);
    for (size_t i = 0; i < nvalues; i++) {
        ks_reset(&k);
        ks_append(&k, values[i], false);
        assert_int_equal(ks_reader_init(&r, k.buf, k.len, NULL, 0, &err), 0);
        assert_int_equal(ks_read(&r, &arena, &err, &v), 0);
        if (bv_cmp(values[i], v) != 0)
            fail_msg("wrote %s, read %s", bv_show(&arena, values[i], 80), bv_show(&arena, v, 80));
    }
}

static void broken_bytes_are_refused(void **state)
{
    static const uint8_t header[] = {0x80, 1, 0};
    uint8_t deep[1000];
    struct ks_builder k;
    struct ks_reader r;
    struct error err;
    struct bv v;

    (void)state;
    fill_values();
    ks_init(&k, &arena);
    for (size_t i = 0; i < nvalues; i++) {
        ks_reset(&k);
        ks_append(&k, values[i], false);
        /* what is left of a text with a NUL inside can be a whole text */
        if (values[i].type == BV_STRING || values[i].type == BV_SYMBOL || values[i].type == BV_CODE)
            continue;
        for (size_t n = 1; n < k.len; n++) {
            /* exactly n bytes, so that a read past them is seen by the sanitizer */
            uint8_t *cut = malloc(n);

            assert_non_null(cut);
            memcpy(cut, k.buf, n);
            assert_int_equal(ks_reader_init(&r, cut, n, NULL, 0, &err), 0);
            assert_int_equal(ks_read(&r, &arena, &err, &v), 50811);
            free(cut);
        }
    }
    assert_int_equal(ks_reader_init(&r, (const uint8_t *)"\x05", 1, NULL, 0, &err), 0);
    assert_int_equal(ks_read(&r, &arena, &err, &v), 50811);
    memset(deep, 0x50, sizeof(deep));
    assert_int_equal(ks_reader_init(&r, deep, sizeof(deep), NULL, 0, &err), 0);
    assert_int_equal(ks_read(&r, &arena, &err, &v), 50811);
    assert_int_equal(ks_reader_init(&r, deep, 1, header, sizeof(header), &err), 50811);
    for (int i = 0; i < 200000; i++) {
        size_t n = rnd() % 40;

        for (size_t j = 0; j < n; j++)
            deep[j] = (uint8_t)rnd();
        assert_int_equal(ks_reader_init(&r, deep, n, NULL, 0, &err), 0);
        r.inverted = i % 2 != 0;
        (void)!ks_read(&r, &arena, &err, &v);
        if (i % 1000 == 0)
            arena_reset(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(integers_and_doubles_have_the_documented_bytes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(decimals_have_the_documented_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(other_types_have_the_documented_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(type_bits_have_the_documented_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(key_order_is_value_order, setup, teardown),
        cmocka_unit_test_setup_teardown(values_come_back_with_their_types, setup, teardown),
        cmocka_unit_test_setup_teardown(values_without_type_bits_still_compare_equal, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(broken_bytes_are_refused, setup, teardown),
    };

    return cmocka_run_group_tests_name("key_string", tests, NULL, NULL);
}
