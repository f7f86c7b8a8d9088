/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Framing and OP_MSG: pure functions between bytes and documents. Any thread.
 *
 *     header: int32 length (of the whole message) | int32 requestID | int32 responseTo | int32 op
 *     OP_MSG: header | uint32 flags | section... | uint32 CRC-32C (when MSG_CHECKSUM)
 *     section: 00 document (the body, once)
 *              01 int32 size, name NUL, documents (a sequence: the array field `name` of the body)
 *
 * All integers are little-endian, as is every machine this runs on.
 */
#ifndef RUNNEL_WIRE_MESSAGE_H
#define RUNNEL_WIRE_MESSAGE_H

#include "base/bv.h"

enum wire_op {
    WIRE_OP_REPLY = 1,
    WIRE_OP_QUERY = 2004,
    WIRE_OP_COMPRESSED = 2012,
    WIRE_OP_MSG = 2013,
};

enum msg_flag {
    MSG_CHECKSUM = 1 << 0,
    MSG_MORE_TO_COME = 1 << 1,
    MSG_EXHAUST_ALLOWED = 1 << 16,
};

enum { WIRE_HEADER_BYTES = 16, WIRE_MSG_HEAD_BYTES = 21 };

struct wire_header {
    int32_t length, request_id, response_to, op_code;
};

enum wire_frame {
    WIRE_FRAME_MORE, /* read on */
    WIRE_FRAME_DONE, /* a whole message lies at the front; *ret is its header */
    WIRE_FRAME_BAD,  /* a length out of bounds: close without a reply */
    WIRE_FRAME_HTTP, /* somebody speaks HTTP: answer wire_http_hint and close */
};

/* Looks at the bytes received so far. *ret is set as soon as the header is there. */
enum wire_frame wire_frame(const uint8_t *bytes, size_t len, struct wire_header *ret);
extern const char wire_http_hint[];

struct wire_msg {
    uint32_t flags;
    struct bv body; /* the command, with every sequence as an array field at its end */
};

/*
 * Parses one whole OP_MSG. The body is a view of the message when there is no sequence, else it
 * is composed in the arena (each document is copied once).
 *
 * Returns 0, or a code to be answered (22, 40430...), or INT_CLOSE when the connection must be
 * closed (illegal flag, checksum, more than LIMIT_SEQUENCES sequences); err then says why.
 * ret->flags is set whenever the message is long enough to have flags, so that an error in a
 * message with MSG_MORE_TO_COME is not answered.
 */
int wire_msg_parse(const uint8_t *msg, size_t len, struct arena *a, struct error *err,
                   struct wire_msg *ret) MUST_CHECK;

/* The name of the command in a framed message, without checking more than that: NULL when it
 * cannot be told cheaply. Points into the message. */
const char *wire_peek_command(const uint8_t *msg, size_t len);
/* The body of a framed OP_MSG whose first section it is, checked; without what sections of their
 * own add to it. False: it cannot be told, or has more than `most` bytes. */
bool wire_peek_body(const uint8_t *msg, size_t len, size_t most, struct bv *ret);

/* What stands before the document of a reply. doc_len excludes the checksum (which the caller
 * appends when flags have MSG_CHECKSUM). */
void wire_msg_head(uint8_t out[static WIRE_MSG_HEAD_BYTES], size_t doc_len, int32_t request_id,
                   int32_t response_to, uint32_t flags);

#endif
