/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "wire/message.h"

#include <stdio.h>

#include "base/crc32c.h"
#include "base/limits.h"

enum { RESERVED_REQUIRED_FLAGS = 0xFFFC, DOC_MIN = 5, FLAGS_END = WIRE_HEADER_BYTES + 4 };

const char wire_http_hint[] =
    "HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n"
    "It looks like you are trying to access MongoDB over HTTP on the native driver port.\r\n";

struct sequence {
    const char *name;
    const uint8_t *docs, *end;
    uint32_t n; /* documents */
};

static int32_t load_i32(const uint8_t *p)
{
    int32_t x;

    memcpy(&x, p, 4);
    return x;
}

static void store_i32(uint8_t *p, int32_t x)
{
    memcpy(p, &x, 4);
}

static bool is_http(const uint8_t *bytes)
{
    static const char methods[][5] = {"GET ", "POST", "HEAD", "PUT ", "DELE", "OPTI"};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (memcmp(bytes, methods[i], 4) == 0)
            return true;
    }
    return false;
}

enum wire_frame wire_frame(const uint8_t *bytes, size_t len, struct wire_header *ret)
{
    int32_t total;

    if (len < 4)
        return WIRE_FRAME_MORE;
    total = load_i32(bytes);
    if (total < WIRE_HEADER_BYTES || total > LIMIT_MESSAGE_BYTES)
        return is_http(bytes) ? WIRE_FRAME_HTTP : WIRE_FRAME_BAD;
    if (len < WIRE_HEADER_BYTES)
        return WIRE_FRAME_MORE;
    memcpy(ret, bytes, sizeof(*ret));
    return len < (size_t)total ? WIRE_FRAME_MORE : WIRE_FRAME_DONE;
}

/* One document at *p: checks it and moves *p behind it. */
static int take_document(const uint8_t **p, const uint8_t *end, struct error *err, struct bv *ret)
{
    int32_t n;

    if (end - *p < DOC_MIN)
        return error_set(err, ERR_INVALID_BSON, "OP_MSG section ends inside a document");
    n = load_i32(*p);
    if (n < DOC_MIN || n > end - *p)
        return error_set(err, ERR_INVALID_BSON, "invalid document length %d in OP_MSG section", n);
    TRY_RETURN(bv_check(*p, (size_t)n, LIMIT_DEPTH_MESSAGE, err));
    *ret = bv_doc(*p);
    *p += n;
    return 0;
}

static int take_sequence(const uint8_t **p, const uint8_t *end, struct error *err,
                         struct sequence *ret)
{
    const uint8_t *nul, *at;
    int32_t size;

    if (end - *p < 5)
        return error_set(err, ERR_INVALID_BSON, "OP_MSG document sequence is truncated");
    size = load_i32(*p);
    if (size < 5 || size > end - *p)
        return error_set(err, ERR_INVALID_BSON, "invalid size %d of an OP_MSG document sequence",
                         size);
    ret->end = *p + size;
    nul = memchr(*p + 4, 0, (size_t)size - 4);
    if (nul == NULL)
        return error_set(err, ERR_INVALID_BSON, "OP_MSG document sequence without a name");
    ret->name = (const char *)*p + 4;
    ret->docs = at = nul + 1;
    ret->n = 0;
    while (at < ret->end) {
        struct bv doc;

        TRY_RETURN(take_document(&at, ret->end, err, &doc));
        ret->n++;
    }
    *p = ret->end;
    return 0;
}

static uint32_t decimal_digits(uint32_t x)
{
    uint32_t n = 1;

    for (; x >= 10; x /= 10)
        n++;
    return n;
}

/* The sequence as an array element "name: [doc, doc...]": its size. */
static size_t element_size(const struct sequence *s)
{
    size_t keys = 0;
    uint32_t from = 0, power = 10, digits = 1;

    /* Keys "0".."9", "10".."99" and so on: type byte, digits, NUL. */
    while (from < s->n) {
        uint32_t to = s->n < power ? s->n : power;

        keys += (size_t)(to - from) * (digits + 2);
        from = to;
        digits++;
        power *= 10;
    }
    return 1 + strlen(s->name) + 1 + 4 + keys + (size_t)(s->end - s->docs) + 1;
}

static uint8_t *write_element(uint8_t *at, const struct sequence *s)
{
    size_t name_len = strlen(s->name) + 1;
    uint8_t *start;
    const uint8_t *doc = s->docs;

    *at++ = BV_ARRAY;
    memcpy(at, s->name, name_len);
    at += name_len;
    start = at;
    at += 4;
    for (uint32_t i = 0; i < s->n; i++) {
        size_t n = (size_t)load_i32(doc);
        uint32_t digits = decimal_digits(i), x = i;

        *at++ = BV_DOC;
        for (uint32_t d = digits; d-- > 0; x /= 10)
            at[d] = (uint8_t)('0' + x % 10);
        at += digits;
        *at++ = 0;
        memcpy(at, doc, n);
        at += n;
        doc += n;
    }
    *at++ = 0;
    store_i32(start, (int32_t)(at - start));
    return at;
}

static int merge(struct bv body, const struct sequence *seqs, size_t n, struct arena *a,
                 struct error *err, struct bv *ret)
{
    size_t size = body.len;
    uint8_t *doc, *at;

    for (size_t i = 0; i < n; i++)
        size += element_size(&seqs[i]);
    doc = size > INT32_MAX ? NULL : arena_try(a, size);
    if (doc == NULL)
        return error_set(err, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory for a message of %zu bytes",
                         size);
    memcpy(doc, body.p, body.len);
    at = doc + body.len - 1;
    for (size_t i = 0; i < n; i++)
        at = write_element(at, &seqs[i]);
    *at++ = 0;
    store_i32(doc, (int32_t)(at - doc));
    ASSERT((size_t)(at - doc) == size);
    *ret = bv_doc(doc);
    return 0;
}

/* Errors after which the peer cannot be trusted any more. */
static int fatal(struct error *err, int code, const char *text)
{
    error_set(err, code, "%s", text);
    return INT_CLOSE;
}

static int check_names(struct bv body, const struct sequence *seqs, size_t n, struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(seqs[i].name, seqs[j].name) == 0)
                return error_set(err, 40431, "Duplicate document sequence: %.200s", seqs[i].name);
        }
        if (!bv_is_missing(bv_path(body, seqs[i].name)) ||
            !bv_is_missing(bv_get(body, seqs[i].name)))
            return error_set(err, 40433,
                             "Duplicate field between body and document sequence %.200s",
                             seqs[i].name);
    }
    return 0;
}

int wire_msg_parse(const uint8_t *msg, size_t len, struct arena *a, struct error *err,
                   struct wire_msg *ret)
{
    struct sequence seqs[LIMIT_SEQUENCES];
    size_t nseqs = 0;
    struct bv body = BV_NONE;
    const uint8_t *p = msg + FLAGS_END, *end = msg + len;

    ret->flags = 0;
    if (len < FLAGS_END)
        return fatal(err, ERR_PROTOCOL, "OP_MSG without flags");
    memcpy(&ret->flags, msg + WIRE_HEADER_BYTES, 4);
    if ((ret->flags & RESERVED_REQUIRED_FLAGS) != 0)
        return fatal(err, ERR_ILLEGAL_OP_MSG_FLAG, "Message contains illegal flags value");
    if ((ret->flags & MSG_CHECKSUM) != 0) {
        uint32_t sum;

        if (end - p < 4)
            return fatal(err, ERR_CHECKSUM_MISMATCH, "OP_MSG is too short for its checksum");
        end -= 4;
        memcpy(&sum, end, 4);
        if (sum != crc32c(msg, len - 4))
            return fatal(err, ERR_CHECKSUM_MISMATCH, "OP_MSG checksum does not match contents");
    }
    while (p < end) {
        uint8_t kind = *p++;

        if (kind == 0) {
            if (!bv_is_missing(body))
                return error_set(err, 40430, "Multiple body sections in message");
            TRY_RETURN(take_document(&p, end, err, &body));
        } else if (kind == 1) {
            if (nseqs == LIMIT_SEQUENCES)
                return fatal(err, ERR_TOO_MANY_SEQUENCES, "Too many document sequences in OP_MSG");
            TRY_RETURN(take_sequence(&p, end, err, &seqs[nseqs]));
            nseqs++;
        } else {
            return error_set(err, 40432, "Unknown section kind %u", kind);
        }
    }
    if (bv_is_missing(body))
        return error_set(err, 40587, "OP_MSG messages must have a body");
    TRY_RETURN(check_names(body, seqs, nseqs, err));
    if (nseqs > 0)
        return merge(body, seqs, nseqs, a, err, &ret->body);
    ret->body = body;
    return 0;
}

/* The first field's name of the document at p. */
static const char *first_name(const uint8_t *p, const uint8_t *end)
{
    if (end - p < 4 + 1 + 1 || memchr(p + 5, 0, (size_t)(end - p) - 5) == NULL)
        return NULL;
    return (const char *)p + 5;
}

const char *wire_peek_command(const uint8_t *msg, size_t len)
{
    const uint8_t *end = msg + len, *nul;

    if (len < FLAGS_END + 1)
        return NULL;
    switch (load_i32(msg + 12)) {
    case WIRE_OP_MSG:
        return msg[FLAGS_END] == 0 ? first_name(msg + FLAGS_END + 1, end) : NULL;
    case WIRE_OP_QUERY:
        nul = memchr(msg + FLAGS_END, 0, len - FLAGS_END);
        return nul != NULL && end - nul > 9 ? first_name(nul + 9, end) : NULL;
    default:
        return NULL;
    }
}

bool wire_peek_body(const uint8_t *msg, size_t len, size_t most, struct bv *ret)
{
    const uint8_t *p = msg + FLAGS_END + 1;
    struct error err;
    size_t n;

    if (len < FLAGS_END + 1 + 5 || load_i32(msg + 12) != WIRE_OP_MSG || msg[FLAGS_END] != 0)
        return false;
    n = (size_t)(uint32_t)load_i32(p);
    if (n > len - FLAGS_END - 1 || n > most || bv_check(p, n, LIMIT_DEPTH_MESSAGE, &err) != 0)
        return false;
    *ret = bv_doc(p);
    return true;
}

void wire_msg_head(uint8_t out[static WIRE_MSG_HEAD_BYTES], size_t doc_len, int32_t request_id,
                   int32_t response_to, uint32_t flags)
{
    size_t total = WIRE_MSG_HEAD_BYTES + doc_len + ((flags & MSG_CHECKSUM) != 0 ? 4 : 0);

    store_i32(out, (int32_t)total);
    store_i32(out + 4, request_id);
    store_i32(out + 8, response_to);
    store_i32(out + 12, WIRE_OP_MSG);
    memcpy(out + 16, &flags, 4);
    out[20] = 0;
}
