# SPDX-License-Identifier: GPL-3.0-or-later
"""A client that sends anything at all. Every answer has the shape that drivers read, a healthy client
beside it is served rightly, and nothing that it opened or made the server hold is left.

    pytest wire/test_hostile.py --hostile-seconds 600 --hostile-seed 7
"""

import collections
import random
import re
import socket
import struct
import time

import bson
import pytest
from bson import Int64
from bson.errors import InvalidBSON
from bson.raw_bson import RawBSONDocument
from bson.codec_options import CodecOptions, DatetimeConversion

import hostile
from raw import MORE_TO_COME, OP_MSG, OP_QUERY, Closed, RawClient, op_msg
from sanitizers import SANITIZED
from server import Server

pytestmark = [pytest.mark.concurrent, pytest.mark.timeout(7200)]

ANSWER_S = 60  # for one request, on a busy machine under a sanitizer
BURST = 150
MB = 1 << 20
SETTINGS = {"transactionLifetimeLimitSeconds": 60, "minSnapshotHistoryWindowInSeconds": 300, "logLevel": 0,
            "requireApiVersion": False, "maxTransactionLockRequestTimeoutMillis": 5,
            "maxNumberOfTransactionOperationsInSingleOplogEntry": 2**31 - 1}
HEALTHY = "healthy"
ANY_TEXT = CodecOptions(unicode_decode_error_handler="surrogateescape",
                        datetime_conversion=DatetimeConversion.DATETIME_MS)
EMPTY = {"admin", "config", "local", HEALTHY}  # databases that stay


@pytest.fixture(scope="module")
def server():
    with Server(memory=True) as s:
        yield s


@pytest.fixture
def admin(server):
    with RawClient(server.port, timeout=ANSWER_S) as r:
        r.decode = decode
        yield r


# --- what an answer must be -------------------------------------------------------------------


def decode(raw):
    """What a client stored comes back as it is: any dates, no UTF-8, and old binaries (subtype 2)
    whose inner length is wrong, which servers do not look at and drivers do."""
    try:
        return bson.decode(raw, ANY_TEXT)
    except InvalidBSON:
        return bson.decode(re.sub(rb"(?s)(\x05[^\x00]*\x00.{4})\x02", rb"\g<1>\0", raw), ANY_TEXT)


def utf8(text):
    """True when it was that before it was read with ANY_TEXT."""
    return not any("\udc80" <= c <= "\udcff" for c in text)


def check_error(e, sent):
    assert type(e["code"]) is int and e["code"] > 0, (sent, e)
    assert e["code"] not in (1, 8), (sent, e)  # InternalError, UnknownError: nobody thought of it
    assert type(e["errmsg"]) is str and e["errmsg"], (sent, e)
    assert utf8(e["errmsg"]), (sent, e)


def check_reply(doc, sent):
    """The shape of a reply; returns the ids of cursors in it."""
    assert doc["ok"] in (0.0, 1.0) and type(doc["ok"]) is float, (sent, doc)
    if doc["ok"] == 0.0:
        check_error(doc, sent)
        assert type(doc["codeName"]) is str and doc["codeName"], (sent, doc)
        assert "cursor" not in doc, (sent, doc)
    for e in doc.get("writeErrors", ()):
        check_error(e, sent)
        assert type(e["index"]) is int, (sent, e)
    if "writeConcernError" in doc:
        check_error(doc["writeConcernError"], sent)
    cursor = doc.get("cursor")
    return [cursor["id"]] if isinstance(cursor, dict) and cursor.get("id") else []


# --- one hostile connection after another -----------------------------------------------------


class Attack:
    def __init__(self, server, names, rng):
        self.server, self.rng = server, rng
        self.hostile = hostile.Hostile(rng, names)
        self.codes = collections.Counter()
        self.sent = self.unanswered = self.released = 0
        self.slowest = (0, None)
        self.conn = None

    def connection(self):
        if self.conn is None:
            self.conn = RawClient(self.server.port, timeout=ANSWER_S)
            self.conn.decode = decode
        return self.conn

    def hang_up(self, reset=False):
        if self.conn is None:
            return
        if reset:
            self.conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("<ii", 1, 0))
        self.conn.close()
        self.conn = None

    def answer(self, name, data):
        """Waits for what this message gives: a reply or the end of the connection."""
        begin = time.monotonic()
        if self.conn.silent(0.5):
            self.release()
        try:
            if self.conn.silent(ANSWER_S):
                raise AssertionError(f"no answer to {name}: {data[:3000]}")
            reply = self.conn.receive()
        except (Closed, ConnectionError):
            self.hang_up()
            self.codes["closed"] += 1
            return
        took = time.monotonic() - begin
        if took > self.slowest[0]:
            self.slowest = (took, data[:2000])
        legacy = data[12:16] == struct.pack("<i", OP_QUERY)
        if legacy and "$err" in reply.doc:
            assert reply.doc["ok"] == 0.0 and type(reply.doc["code"]) is int, reply.doc
            return
        self.hostile.cursors += check_reply(reply.doc, (name, data))
        del self.hostile.cursors[:-30]
        self.codes[reply.doc.get("code", 0)] += 1
        if reply.more_to_come:
            self.hang_up()

    def release(self):
        """Ends transactions, for whose documents a write may wait."""
        with RawClient(self.server.port, timeout=ANSWER_S) as admin:
            assert admin.command({"killSessions": [{"id": i} for i in hostile.LSIDS]})["ok"] == 1.0
        self.released += 1

    def may_wait(self, name):
        """True for what waits on purpose: a tailing getMore or hello; who knows what damage made."""
        return name in ("hello", "isMaster", "getMore", "broken", "sections", "OP_QUERY")

    def one(self):
        rng = self.rng
        kind = rng.choices(["message", "sectioned", "broken", "query", "compressed"], [75, 8, 12, 3, 2])[0]
        name, data = getattr(self.hostile, kind)()
        self.sent += 1
        try:
            self.connection().send(data)
        except ConnectionError:
            self.hang_up()
            return
        whole = len(data) >= 16 and struct.unpack("<i", data[:4])[0] == len(data)
        if (not whole or self.may_wait(name)) and self.conn.silent(0.05):
            self.unanswered += 1
            self.hang_up(rng.random() < 0.5)
            return
        self.answer(name, data)
        if not whole:
            self.hang_up()  # the rest may be the beginning of a message

    def pipelined(self):
        """Many requests at once; some of the answers are read."""
        rng = self.rng
        batch = [self.hostile.message() for _ in range(rng.randrange(2, 12))]
        try:
            self.connection().send(b"".join(data for _, data in batch))
        except ConnectionError:
            pass
        self.sent += len(batch)
        self.hang_up(rng.random() < 0.5)

    def unheard(self):
        """Requests that want no reply, and a ping to know when they are done."""
        datas = [bytearray(self.hostile.message()[1]) for _ in range(5)]
        for data in datas:
            data[16] |= MORE_TO_COME
        self.hang_up()
        try:
            self.connection().send(b"".join(datas))
            self.conn.send(op_msg({"ping": 1, "$db": "admin"}))
            if self.conn.silent(2):
                self.unanswered += 1
                self.hang_up()
            else:
                assert self.conn.receive().doc["ok"] == 1.0
        except (Closed, ConnectionError):
            self.hang_up()
        self.sent += len(datas)

    def half(self):
        """Connections that stop within a message."""
        left = []
        for _ in range(3):
            data = self.hostile.message()[1]
            c = RawClient(self.server.port, timeout=ANSWER_S)
            c.send(data[: self.rng.randrange(len(data))])
            left.append(c)
        return left

    def burst(self):
        left = self.half()
        for _ in range(BURST):
            r = self.rng.random()
            if r < 0.03:
                self.pipelined()
            elif r < 0.05:
                self.unheard()
            else:
                self.one()
        self.hang_up()
        for c in left:
            c.close()


# --- the healthy client and what is left ------------------------------------------------------


class Healthy:
    """Writes and reads of one collection, and a stream that must see exactly those writes."""

    def __init__(self, port):
        self.raw = RawClient(port, timeout=ANSWER_S)
        self.n = 0
        self.ok({"create": "c"})
        self.watch({})

    def ok(self, command):
        doc = self.raw.command(command, HEALTHY)
        assert doc["ok"] == 1.0 and "writeErrors" not in doc, doc
        return doc

    def watch(self, since):
        cursor = self.ok({"aggregate": "c", "pipeline": [{"$changeStream": since}], "cursor": {}})["cursor"]
        self.stream, self.token = Int64(cursor["id"]), cursor["postBatchResumeToken"]
        return cursor["firstBatch"]

    def more(self):
        """The next events. Whoever kills all sessions kills this cursor too: then it is resumed."""
        more = {"getMore": self.stream, "collection": "c", "maxTimeMS": 1000}
        doc = self.raw.command(more, HEALTHY)
        if doc.get("code") == 43:
            return self.watch({"resumeAfter": self.token})
        assert doc["ok"] == 1.0, doc
        self.token = doc["cursor"]["postBatchResumeToken"]
        return doc["cursor"]["nextBatch"]

    def check(self):
        self.n += 1
        n = self.n
        assert self.ok({"insert": "c", "documents": [{"_id": n, "x": n}]})["n"] == 1
        assert self.ok({"update": "c", "updates": [{"q": {"_id": n}, "u": {"$inc": {"x": 1}}}]})["nModified"] == 1
        assert self.ok({"find": "c", "filter": {"_id": n}})["cursor"]["firstBatch"] == [{"_id": n, "x": n + 1}]
        assert self.ok({"count": "c", "query": {"x": {"$gt": 0}}})["n"] == 1
        assert self.ok({"delete": "c", "deletes": [{"q": {"_id": n}, "limit": 1}]})["n"] == 1
        seen, deadline = [], time.monotonic() + ANSWER_S
        while len(seen) < 3 and time.monotonic() < deadline:
            seen += self.more()
        assert [(e["operationType"], e["documentKey"]) for e in seen] == [
            ("insert", {"_id": n}), ("update", {"_id": n}), ("delete", {"_id": n})]

    def close(self):
        self.raw.command({"killCursors": "c", "cursors": [self.stream]}, HEALTHY)
        self.raw.close()


def wait_until(condition, show):
    deadline = time.monotonic() + ANSWER_S
    while not condition():
        assert time.monotonic() < deadline, show()
        time.sleep(0.01)


def status(admin):
    return admin.command({"serverStatus": 1})


def command_of_bytes(admin, document, db):
    """As command(), but names may be of bytes that are no UTF-8, which no driver would send."""
    parts = []
    for key, value in {**document, "$db": db}.items():
        if isinstance(value, str):
            text = value.encode("utf-8", "surrogateescape")
            parts.append(b"\2" + key.encode() + b"\0" + struct.pack("<i", len(text) + 1) + text + b"\0")
        else:
            parts.append(bson.encode({key: value})[4:-1])
    body = b"".join(parts)
    raw = struct.pack("<i", len(body) + 5) + body + b"\0"
    return admin.call(op_msg(RawBSONDocument(raw))).doc


def end_leftovers(admin):
    """Sessions and cursors that clients may leave behind; a request may outlast its client."""
    listed = admin.command({"aggregate": 1, "pipeline": [{"$listLocalSessions": {"allUsers": True}}],
                            "cursor": {"batchSize": 10000}})["cursor"]["firstBatch"]
    for at in range(0, len(listed), 1000):
        ids = [{"id": s["_id"]["id"]} for s in listed[at : at + 1000]]
        assert admin.command({"killSessions": ids})["ok"] == 1.0
        assert admin.command({"endSessions": ids})["ok"] == 1.0
    idle = admin.command({"aggregate": 1, "pipeline": [{"$currentOp": {"idleCursors": True}}], "cursor": {}})
    for op in idle["cursor"]["firstBatch"]:
        cursor = op.get("cursor", {}).get("cursorId")
        if op.get("type") == "idleCursor" and not op["ns"].startswith(HEALTHY + "."):
            db, coll = op["ns"].split(".", 1)
            kill = {"killCursors": coll, "cursors": [Int64(cursor)]}
            assert command_of_bytes(admin, kill, db)["ok"] == 1.0


def clean_up(admin, cursors):
    """Ends what a client may leave open by right, and puts the settings back."""
    for setting, v in SETTINGS.items():
        assert admin.command({"setParameter": 1, setting: v, "apiVersion": "1"})["ok"] == 1.0
    assert admin.command({"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "local"},
                          "defaultWriteConcern": {"w": 1}})["ok"] == 1.0
    end_leftovers(admin)
    cursors.clear()
    for database in admin.command({"listDatabases": 1, "nameOnly": True})["databases"]:
        if database["name"] not in EMPTY:
            assert command_of_bytes(admin, {"dropDatabase": 1}, database["name"])["ok"] == 1.0
    fill(admin)


def fill(admin):
    docs = [{"_id": i, "x": i % 7, "k": i % 5, "l": [i, i + 1], "s": "a" * (i % 9), "n": i} for i in range(40)]
    assert admin.command({"insert": "a", "documents": docs}, hostile.DB)["n"] == 40
    indexes = [{"key": {"k": 1}, "name": "k_1"}, {"key": {"l": 1, "x": -1}, "name": "l_x"}]
    assert admin.command({"createIndexes": "a", "indexes": indexes}, hostile.DB)["ok"] == 1.0


def check_nothing_left(admin):
    """Connections, bytes, cursors, sessions and transactions are back to those of the healthy client."""
    def left():
        end_leftovers(admin)
        s = status(admin)
        return {"connections": s["connections"]["current"], "bytes": s["network"]["inFlightBytes"],
                "unsent": s["network"]["unsentBytes"], "cursors": s["metrics"]["cursor"]["open"]["total"],
                "pinned": s["metrics"]["cursor"]["open"]["pinned"], "transactions": s["transactions"]["currentOpen"],
                "sessions": s["logicalSessionRecordCache"]["activeSessionsCount"]}

    want = {"connections": 2, "bytes": 0, "unsent": 0, "cursors": 1, "pinned": 0, "transactions": 0, "sessions": 0}
    wait_until(lambda: left() == want, left)


def test_anything_at_all(request, server, admin):
    seconds = request.config.getoption("--hostile-seconds")
    seed = request.config.getoption("--hostile-seed")
    print(f"--hostile-seed {seed}")
    names = sorted(admin.command({"listCommands": 1})["commands"])
    healthy = Healthy(server.port)
    attack = Attack(server, names, random.Random(seed))
    clean_up(admin, [])
    end = time.monotonic() + seconds
    bursts, early = 0, 0
    while time.monotonic() < end or bursts < 2:
        attack.burst()
        clean_up(admin, attack.hostile.cursors)
        healthy.check()
        check_nothing_left(admin)
        bursts += 1
        if bursts == max(2, min(20, bursts)):
            early = server.rss()
    print(f"{attack.sent} sent in {bursts} bursts, {attack.unanswered} left unanswered, {attack.released} waited; slowest "
          f"{attack.slowest[0]:.3f} s: {attack.slowest[1]}\n{attack.codes.most_common()}")
    assert attack.codes[0] > 0 and len(attack.codes) > 15, "what is sent does reach the commands"
    if not SANITIZED:
        assert server.rss() < early + 128 * MB
    healthy.close()


def test_a_database_whose_name_is_no_utf8(server, admin):
    name = "a\udcff"
    docs = [{"_id": i} for i in range(5)]
    assert command_of_bytes(admin, {"insert": "c", "documents": docs}, name)["n"] == 5
    assert command_of_bytes(admin, {"find": "c", "batchSize": 1}, name)["cursor"]["ns"] == f"{name}.c"
    clean_up(admin, [])
    assert {d["name"] for d in admin.command({"listDatabases": 1})["databases"]} <= EMPTY | {hostile.DB}
    wait_until(lambda: status(admin)["metrics"]["cursor"]["open"]["total"] == 0, lambda: status(admin)["metrics"])
