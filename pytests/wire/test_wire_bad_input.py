# SPDX-License-Identifier: GPL-3.0-or-later
"""Malformed messages: each is answered or closed as MongoDB does, and the server stays up."""

import struct

import bson
import pytest

from raw import (
    CHECKSUM_PRESENT,
    MORE_TO_COME,
    OP_MSG,
    Closed,
    RawClient,
    body,
    crc32c,
    message,
    op_msg,
    sequence,
)

PING = {"ping": 1, "$db": "admin"}


@pytest.fixture(autouse=True)
def still_up(srv):
    """Whatever the test did to its own connection, a new one is served."""
    yield
    with RawClient(srv.port) as other:
        assert other.ping() == 1.0


def assert_error(raw, data, *codes):
    """An error reply with one of the codes; the connection goes on."""
    doc = raw.call(data).doc
    assert doc["ok"] == 0.0
    assert doc["code"] in codes, doc
    assert doc["errmsg"]
    assert "codeName" in doc
    assert raw.ping() == 1.0


def assert_closed(raw, data):
    """The connection ends without a reply."""
    raw.send(data)
    with pytest.raises(Closed):
        raw.receive()


# --- flags and checksums ----------------------------------------------------------------------


@pytest.mark.parametrize("bit", range(2, 16))
def test_reserved_required_flag_closes(raw, bit):
    assert_closed(raw, op_msg(PING, flags=1 << bit))


@pytest.mark.parametrize("bit", range(17, 32))
def test_reserved_optional_flag_is_ignored(raw, bit):
    assert raw.call(op_msg(PING, flags=1 << bit)).doc["ok"] == 1.0


def test_checksum_is_verified_and_answered_with_one(raw):
    reply = raw.call(op_msg(PING, checksum=True))
    assert reply.flags & CHECKSUM_PRESENT
    assert reply.checksum_ok
    assert not raw.call(op_msg(PING)).flags & CHECKSUM_PRESENT


def test_wrong_checksum_closes(raw):
    assert_closed(raw, op_msg(PING, checksum=12345))


def test_checksum_flag_without_room_for_one(raw):
    assert_closed(raw, message(OP_MSG, struct.pack("<I", CHECKSUM_PRESENT)))


def test_more_to_come_gets_no_reply(raw):
    raw.send(op_msg(PING, flags=MORE_TO_COME))
    raw.send(op_msg({"noSuchCommand": 1, "$db": "admin"}, flags=MORE_TO_COME))
    raw.send(op_msg(body(PING), body(PING), flags=MORE_TO_COME))
    assert raw.silent(0.3)
    assert raw.ping() == 1.0


# --- sections ---------------------------------------------------------------------------------


def test_three_sequences_close(raw):
    insert = body({"insert": "c", "$db": "test"})
    assert_closed(raw, op_msg(insert, *(sequence(name, [{}]) for name in ("a", "b", "c"))))


def test_two_bodies(raw):
    assert_error(raw, op_msg(body(PING), body(PING)), 40430)


def test_same_sequence_twice(raw):
    insert = body({"insert": "c", "$db": "test"})
    docs = sequence("documents", [{"_id": 1}])
    assert_error(raw, op_msg(insert, docs, docs), 40431)


def test_unknown_section_kind(raw):
    assert_error(raw, op_msg(body(PING) + b"\x07" + b"\x05\0\0\0\0"), 40432)


def test_sequence_that_is_also_a_field(raw):
    insert = body({"insert": "c", "documents": [{}], "$db": "test"})
    assert_error(raw, op_msg(insert, sequence("documents", [{"_id": 1}])), 40433)


def test_no_body(raw):
    assert_error(raw, op_msg(sequence("documents", [{"_id": 1}])), 40587)


def test_no_sections(raw):
    assert_error(raw, message(OP_MSG, struct.pack("<I", 0)), 40587)


def test_sequence_before_body(raw):
    data = op_msg(sequence("nothing", []), body(PING))
    assert raw.call(data).doc["ok"] in (0.0, 1.0)
    assert raw.ping() == 1.0


# --- BSON -------------------------------------------------------------------------------------

VALID = bson.encode(PING)


@pytest.mark.parametrize(
    "document",
    [
        struct.pack("<i", len(VALID) + 100) + VALID[4:],
        struct.pack("<i", len(VALID) - 1) + VALID[4:],
        struct.pack("<i", 4) + VALID[4:],
        struct.pack("<i", -1) + VALID[4:],
        struct.pack("<i", 0x7FFFFFFF) + VALID[4:],
        VALID[:-1] + b"\x01",
        b"\x0c\0\0\0\x99ping\0\x01\0",
        b"\x0d\0\0\0\x08ping\0\x02\0\0",
        b"\x14\0\0\0\x02ping\0\xff\xff\xff\xff\0\0\0\0\0\0",
        b"\x09\0\0\0ping\0",
    ],
    ids=[
        "longer than the message",
        "one short",
        "shorter than any",
        "negative",
        "huge",
        "no terminator",
        "unknown type",
        "bool of 2",
        "negative string length",
        "no element type",
    ],
)
def test_invalid_bson(raw, document):
    assert_error(raw, op_msg(b"\0" + document), 22)


def test_invalid_bson_in_a_sequence(raw, client, db):
    good = bson.encode({"_id": 1})
    bad = good[:-1] + b"\x05"
    insert = body({"insert": "c", "$db": db.name})
    assert_error(raw, op_msg(insert, sequence("documents", [good, bad])), 22)
    assert db.list_collection_names() == []


@pytest.mark.parametrize("size", [-1, 0, 3, 4, 1 << 20, 0x7FFFFFFF])
def test_sequence_of_impossible_size(raw, size):
    section = b"\1" + struct.pack("<i", size) + b"documents\0" + bson.encode({"_id": 1})
    assert_error(raw, op_msg(body({"insert": "c", "$db": "test"}), section), 22, 17, 9, 40432)


def nested(depth):
    document = bson.encode({"x": 1})
    for _ in range(depth):
        document = struct.pack("<i", len(document) + 8) + b"\x03a\0" + document + b"\0"
    return document


def nested_fast(depth):
    """The same without quadratic copying."""
    inner = bson.encode({"x": 1})
    sizes = [len(inner) + 8 * (i + 1) for i in range(depth)]
    head = b"".join(struct.pack("<i", s) + b"\x03a\0" for s in reversed(sizes))
    return head + inner + b"\0" * depth


@pytest.mark.parametrize("depth", [201, 1000, 100000])
def test_bi_06_nesting_too_deep(raw, depth):
    assert nested_fast(3) == nested(3)
    assert_error(raw, op_msg(body(PING)[:-1].replace(
        struct.pack("<i", len(VALID)), struct.pack("<i", len(VALID) + 3 + len(nested_fast(depth))))
        + b"\x03d\0" + nested_fast(depth) + b"\0"), 15, 22)


# --- the body ---------------------------------------------------------------------------------


def test_missing_db(raw):
    data = op_msg({"ping": 1})
    assert raw.call(data).doc["errmsg"].startswith("OP_MSG requests require a $db argument")
    assert_error(raw, data, 40571)


@pytest.mark.parametrize("db", [5, None, True, [], {}, b"x"])
def test_db_of_wrong_type(raw, db):
    assert_error(raw, op_msg({"ping": 1, "$db": db}), 14, 73)


@pytest.mark.parametrize("db", ["", "a.b", "a b", "a/b", "a\\b", 'a"b', "a$b", "x" * 64, "a\0b"])
def test_db_with_bad_name(raw, db):
    assert_error(raw, op_msg({"insert": "c", "documents": [{"_id": 1}], "$db": db}), 73)


def test_empty_body(raw):
    assert_error(raw, op_msg({}), 59, 9, 40571)
    assert_error(raw, op_msg({"$db": "admin"}), 59, 9)


def test_unknown_command(raw):
    doc = raw.command({"frobnicate": 1})
    assert doc["code"] == 59
    assert doc["codeName"] == "CommandNotFound"
    assert doc["errmsg"] == "no such command: 'frobnicate'"
    assert doc["ok"] == 0.0
    assert isinstance(doc["operationTime"], bson.Timestamp)
    assert "$clusterTime" in doc


# --- framing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [-1, 0, 15, 48000001, 0x7FFFFFFF, -(2**31)])
def test_impossible_message_length_closes(raw, length):
    assert_closed(raw, message(OP_MSG, struct.pack("<I", 0) + body(PING), length=length))


def test_header_only(raw):
    assert_closed(raw, message(OP_MSG, b""))


def test_message_cut_off(srv):
    whole = op_msg(PING)
    for cut in (1, 4, 15, 16, 20, 21, len(whole) - 1):
        with RawClient(srv.port) as r:
            r.send(whole[:cut])


def test_message_byte_by_byte(raw):
    data = op_msg(PING)
    for i in range(len(data)):
        raw.send(data[i : i + 1])
    assert raw.receive().doc["ok"] == 1.0


def test_two_messages_at_once(raw):
    raw.send(op_msg(PING, request_id=11) + op_msg(PING, request_id=12))
    assert [raw.receive().response_to for _ in range(2)] == [11, 12]


@pytest.mark.parametrize("opcode", [0, 1, 2001, 2002, 2005, 2006, 2007, 2010, 2011, 2014, 99999])
def test_other_opcodes_close(raw, opcode):
    assert_closed(raw, message(opcode, b"\0" * 40))


def test_http_is_told_so(raw):
    raw.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    while part := raw.sock.recv(4096):
        answer += part
    assert answer.startswith(b"HTTP/1.")
    assert b"native driver port" in answer


def test_compressed_without_negotiation_closes(raw):
    assert_closed(raw, message(2012, struct.pack("<iiB", OP_MSG, 100, 200) + b"x" * 20))


# --- sizes ------------------------------------------------------------------------------------


def document_of(size):
    """A document of exactly this many BSON bytes."""
    empty = len(bson.encode({"_id": 1, "s": ""}))
    return bson.encode({"_id": 1, "s": "x" * (size - empty)})


def test_bi_01_document_just_over_the_limit(raw, db):
    insert = body({"insert": "c", "$db": db.name})
    doc = raw.call(op_msg(insert, sequence("documents", [document_of(16777217)]))).doc
    assert (doc["ok"], doc["n"]) == (1.0, 0)
    assert [e["index"] for e in doc["writeErrors"]] == [0]
    assert doc["writeErrors"][0]["code"] in (2, 10334)
    assert raw.ping() == 1.0
    assert db.c.count_documents({}) == 0


def test_bi_01_largest_document_is_stored(raw, db):
    insert = body({"insert": "c", "$db": db.name})
    doc = raw.call(op_msg(insert, sequence("documents", [document_of(16777216)]))).doc
    assert (doc["ok"], doc["n"]) == (1.0, 1)
    assert "writeErrors" not in doc
    assert len(next(db.c.find_raw_batches())) == 16777216


def test_bi_01_message_over_the_limit_closes(raw):
    raw.send(struct.pack("<iiii", 48000001, 1, 0, OP_MSG))
    assert raw.closed()


def test_crc32c_of_the_test_itself():
    assert crc32c(b"123456789") == 0xE3069283
