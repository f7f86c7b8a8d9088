# SPDX-License-Identifier: GPL-3.0-or-later
"""The wire protocol by hand, for tests that drivers would not let us write."""

import itertools
import select
import socket
import struct

import bson

OP_REPLY = 1
OP_QUERY = 2004
OP_COMPRESSED = 2012
OP_MSG = 2013

CHECKSUM_PRESENT = 1
MORE_TO_COME = 2
EXHAUST_ALLOWED = 1 << 16

_ids = itertools.count(1)


def crc32c(data):
    """CRC-32C (Castagnoli), as in OP_MSG checksums."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _crc_row(n):
    for _ in range(8):
        n = (n >> 1) ^ 0x82F63B78 if n & 1 else n >> 1
    return n


_CRC_TABLE = [_crc_row(n) for n in range(256)]


def message(opcode, payload, request_id=None, length=None):
    """A message with its header; `length` lies about the size."""
    size = 16 + len(payload) if length is None else length
    rid = next(_ids) if request_id is None else request_id
    return struct.pack("<iiii", size, rid, 0, opcode) + payload


def body(document):
    """A kind-0 section; bytes are taken as they are."""
    return b"\0" + (document if isinstance(document, bytes) else bson.encode(document))


def sequence(identifier, documents):
    """A kind-1 section."""
    docs = b"".join(d if isinstance(d, bytes) else bson.encode(d) for d in documents)
    name = identifier.encode() + b"\0"
    return b"\1" + struct.pack("<i", 4 + len(name) + len(docs)) + name + docs


def op_msg(*sections, flags=0, request_id=None, checksum=None):
    """An OP_MSG of these sections; documents become kind 0. checksum: True, or a wrong number."""
    if checksum is not None:
        flags |= CHECKSUM_PRESENT
    parts = [s if isinstance(s, bytes) else body(s) for s in sections]
    payload = struct.pack("<I", flags) + b"".join(parts)
    if checksum is None:
        return message(OP_MSG, payload, request_id)
    whole = message(OP_MSG, payload, request_id, length=16 + len(payload) + 4)
    return whole + struct.pack("<I", crc32c(whole) if checksum is True else checksum)


def op_query(document, ns="admin.$cmd", flags=4, skip=0, number=-1, request_id=None):
    payload = struct.pack("<i", flags) + ns.encode() + b"\0" + struct.pack("<ii", skip, number)
    return message(OP_QUERY, payload + bson.encode(document), request_id)


class Reply:
    """A received message: header fields, flags and the one document in it."""

    def __init__(self, data, decode=bson.decode):
        self.length, self.request_id, self.response_to, self.opcode = struct.unpack_from(
            "<iiii", data
        )
        self.checksum_ok = None
        end = len(data)
        if self.opcode == OP_REPLY:
            self.flags, self.cursor_id, self.start, self.count = struct.unpack_from(
                "<iqii", data, 16
            )
            offset = 36
        elif self.opcode == OP_MSG:
            (self.flags,) = struct.unpack_from("<I", data, 16)
            if self.flags & CHECKSUM_PRESENT:
                end -= 4
                self.checksum_ok = struct.unpack_from("<I", data, end)[0] == crc32c(data[:end])
            assert data[20] == 0, "a reply is one kind-0 section"
            offset = 21
        else:
            raise AssertionError(f"unexpected opcode {self.opcode} in a reply")
        self.raw = data[offset:end]
        self.doc = decode(self.raw)

    @property
    def more_to_come(self):
        return self.opcode == OP_MSG and bool(self.flags & MORE_TO_COME)


class Closed(Exception):
    """The server closed the connection."""


class RawClient:
    decode = staticmethod(bson.decode)  # of replies

    def __init__(self, port, host="127.0.0.1", timeout=60):
        self._where = (host, port), timeout
        self.sock = socket.create_connection(*self._where)

    def reconnect(self):
        self.sock.close()
        self.sock = socket.create_connection(*self._where)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def receive(self):
        """The next message. Raises Closed when there will be none."""
        try:
            head = self._exactly(4)
            return Reply(head + self._exactly(struct.unpack("<i", head)[0] - 4), self.decode)
        except ConnectionError:
            raise Closed() from None

    def call(self, data):
        """Sends a ready message and receives its reply."""
        self.send(data)
        reply = self.receive()
        (request_id,) = struct.unpack_from("<i", data, 4)
        assert reply.response_to == request_id
        return reply

    def command(self, document, db="admin"):
        """Runs a command by OP_MSG; returns the reply document, errors included."""
        return self.call(op_msg({**document, "$db": document.get("$db", db)})).doc

    def ping(self):
        return self.command({"ping": 1})["ok"]

    def silent(self, seconds):
        """True when nothing arrives for that long and the connection stays open."""
        return not select.select([self.sock], [], [], seconds)[0]

    def closed(self):
        """True when the server ends the connection without sending anything more."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, n):
        data = bytearray()
        while len(data) < n:
            part = self.sock.recv(min(n - len(data), 1 << 20))
            if not part:
                raise Closed()
            data += part
        return bytes(data)
