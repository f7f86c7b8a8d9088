# SPDX-License-Identifier: GPL-3.0-or-later
"""While a sync of the log hangs, no optime can be had above the durable ceiling. Writes wait for it with
nothing held, whatever ends a wait ends theirs, and everything else goes on."""

import datetime
import signal
import time

import bson
import pymongo
import pytest
from bson import Timestamp

from disk_server import client, raw, server  # noqa: F401
from raw import MORE_TO_COME, RawClient, op_msg
from server import Server

pytestmark = pytest.mark.concurrent

GROUP = 1000  # documents that an insert commits at once
HOUR_MS = 3600 * 1000
LONG_S = 60  # longer than anything here takes


def wait_for(condition, what):
    until = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.04)


class Disk:
    """Makes the syncs of a server hang, and its clock pass the ceiling."""

    def __init__(self, client):
        self.client = client
        self.admin = client.admin
        self.turned_back = False

    def fault(self, spec):
        return self.admin.command("runnelFault", spec).get("hits")

    def hang(self):
        """From here on nothing becomes durable; there are optimes left, for an hour."""
        self.admin.command("runnelClock", -HOUR_MS)
        self.turned_back = True
        self.fault("flushBefore:wait")
        self.client.stuck.get_collection(
            "bell", write_concern=pymongo.WriteConcern(w=1)).insert_one({})
        wait_for(lambda: self.fault("flushBefore:wait") > 0, "a sync")

    def exhaust(self):
        """And now there are none."""
        reply = self.admin.command("runnelClock", 2 * HOUR_MS)
        self.turned_back = False
        self.now_s = int(reply["now"].replace(tzinfo=datetime.timezone.utc).timestamp())

    def parked(self):
        return self.admin.command("serverStatus")["runnel"]["executor"]["parked"]

    def wait_parked(self, n):
        wait_for(lambda: self.parked() >= n, f"{n} parked requests")

    def go_on(self):
        self.fault("off")
        if self.turned_back:
            self.admin.command("runnelClock", HOUR_MS)
            self.turned_back = False


@pytest.fixture
def hanging(client):
    disk = Disk(client)
    disk.hang()
    yield disk
    disk.go_on()


@pytest.fixture
def db(client):
    name = str(bson.ObjectId())
    client[name].c.insert_one({"_id": 0, "x": 0})
    return client[name]


@pytest.fixture
def disk(db, hanging):
    """No optimes, with a collection that has one document."""
    hanging.exhaust()
    return hanging


class Call:
    """A command on a connection of its own, whose reply is waited for later."""

    def __init__(self, server, db, command):
        self.raw = RawClient(server.port, timeout=LONG_S)
        self.raw.send(op_msg({**command, "$db": db}))

    def reply(self):
        doc = self.raw.receive().doc
        self.raw.close()
        return doc


def kill_op(client, call):
    ops = client.admin.command("currentOp")["inprog"]
    (op,) = [o for o in ops if o["client"] == "%s:%d" % call.raw.sock.getsockname()]
    client.admin.command("killOp", op=op["opid"])


WRITES = [
    {"insert": "c", "documents": [{"_id": 1}]},
    {"insert": "new", "documents": [{"_id": 1}]},
    {"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"x": 1}}}]},
    {"update": "c", "updates": [{"q": {}, "u": {"$inc": {"x": 1}}, "multi": True}]},
    {"update": "c", "updates": [{"q": {"_id": 7}, "u": {"$inc": {"x": 1}}, "upsert": True}]},
    {"delete": "c", "deletes": [{"q": {"_id": 0}, "limit": 1}]},
    {"delete": "c", "deletes": [{"q": {}, "limit": 0}]},
    {"findAndModify": "c", "query": {"_id": 0}, "update": {"$inc": {"x": 1}}},
    {"findAndModify": "c", "query": {"_id": 0}, "remove": True},
    {"create": "new"},
    {"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1"}]},
    {"collMod": "c", "changeStreamPreAndPostImages": {"enabled": True}},
    {"drop": "c"},
    {"dropDatabase": 1},
]


def state(db):
    """All there is to see of a database."""
    return [(c, list(db[c["name"]].find()), list(db[c["name"]].list_indexes()))
            for c in sorted(db.list_collections(), key=lambda c: c["name"])]


# --- what ends the wait ------------------------------------------------------------------------


@pytest.mark.parametrize("command", WRITES, ids=lambda c: " ".join(map(str, c.values()))[:40])
def test_max_time_ends_it(raw, db, disk, command):
    before = state(db)
    reply = raw.command({**command, "maxTimeMS": 50}, db.name)
    assert (reply["ok"], reply["code"], reply["codeName"]) == (0.0, 50, "MaxTimeMSExpired")
    assert "writeConcernError" not in reply
    disk.go_on()
    db.command({"insert": "later", "documents": [{}]})
    assert state(db)[: len(before)] == before


@pytest.mark.parametrize("command", [
    {"insert": "c", "documents": [{"_id": 1}, {"_id": 0}, {"_id": 2}], "ordered": False},
    {"update": "c", "updates": [{"q": {"x": {"$ne": 7}}, "u": {"$inc": {"x": 1}}, "multi": True}]},
], ids=["insert", "update"])
def test_one_that_fails_in_its_midst_waits_before(server, db, hanging, command):
    """What stands before the failure is committed, so it waits, and then it is done once."""
    db.get_collection("c", write_concern=pymongo.WriteConcern(w=1)).insert_one({"_id": 9, "x": "text"})
    hanging.exhaust()
    late = Call(server, db.name, {**command, "maxTimeMS": 50}).reply()
    call = Call(server, db.name, command)
    hanging.wait_parked(1)
    hanging.go_on()
    assert late["code"] == 50
    reply = call.reply()
    assert len(reply["writeErrors"]) == 1, reply
    if "insert" in command:
        assert reply["n"] == 2 and db.c.count_documents({}) == 4
    else:
        assert db.c.find_one({"_id": 0})["x"] == 1


def test_max_time_ends_a_bulk_write(raw, db, disk):
    ops = {"bulkWrite": 1, "ops": [{"insert": 0, "document": {"_id": 1}}],
           "nsInfo": [{"ns": f"{db.name}.c"}], "maxTimeMS": 50}
    assert raw.command(ops)["code"] == 50
    disk.go_on()
    assert db.c.count_documents({}) == 1


def test_wtimeout_ends_it(raw, db, disk):
    reply = raw.command({**WRITES[0], "writeConcern": {"w": "majority", "wtimeout": 50}}, db.name)
    assert (reply["ok"], reply.get("code")) == (0.0, 64), reply
    assert reply["errmsg"] == "waiting for replication timed out"
    disk.go_on()
    assert db.c.count_documents({}) == 1


def test_kill_op_ends_it(server, client, db, disk):
    call = Call(server, db.name, WRITES[0])
    disk.wait_parked(1)
    kill_op(client, call)
    assert call.reply()["code"] == 11601
    disk.go_on()
    assert db.c.count_documents({}) == 1


def test_a_hang_up_ends_it(server, client, db, disk):
    call = Call(server, db.name, WRITES[0])
    disk.wait_parked(1)
    parked = disk.parked()
    call.raw.close()
    wait_for(lambda: disk.parked() < parked, "the end of the wait")
    disk.go_on()
    db.c.insert_one({"_id": 2})
    assert db.c.count_documents({}) == 2


def test_a_write_without_a_reply_goes_on_alone(server, db, disk):
    parked = disk.parked()
    with RawClient(server.port) as raw:
        raw.send(op_msg({**WRITES[0], "$db": db.name, "writeConcern": {"w": 0}}, flags=MORE_TO_COME))
        disk.wait_parked(parked + 1)
    disk.go_on()
    wait_for(lambda: db.c.count_documents({}) == 2, "the write")


def test_it_happens_once(server, client, db, disk):
    calls = [Call(server, db.name, command) for command in (WRITES[0], WRITES[2], WRITES[1])]
    disk.wait_parked(3)
    disk.go_on()
    assert [c.reply()["n"] for c in calls] == [1, 1, 1]
    assert sorted(d["_id"] for d in db.c.find()) == [0, 1] and db.c.find_one({"_id": 0})["x"] == 1
    assert db.new.count_documents({}) == 1


def test_shutdown_ends_it(tmp_path):
    with Server(path=tmp_path / "data", test_commands=True) as own:
        with pymongo.MongoClient(own.uri) as client:
            disk = Disk(client)
            disk.hang()
            disk.exhaust()
            calls = [Call(own, "t", WRITES[0]) for _ in range(3)]
            disk.wait_parked(3)
        own.process.send_signal(signal.SIGTERM)
        assert {c.reply()["code"] for c in calls} == {11600}
        own.kill()
        own.start()
        with pymongo.MongoClient(own.uri) as client:
            assert client.t.c.count_documents({}) == 0


# --- nothing else is held ----------------------------------------------------------------------


def test_a_hundred_stuck_writers_hold_nobody(server, client, db, disk):
    workers = client.admin.command("serverStatus")["runnel"]["executor"]["workers"]
    with db.c.watch(max_await_time_ms=50) as stream:
        token = stream.resume_token
        calls = [Call(server, db.name, {"insert": "c", "documents": [{"_id": i}]})
                 for i in range(1, 101)]
        disk.wait_parked(100)
        assert client.admin.command("ping")["ok"] and client.admin.command("hello")["ok"]
        assert db.c.count_documents({}) == 1 and db.list_collection_names() == ["c"]
        assert stream.try_next() is None and stream.resume_token["_data"] >= token["_data"]
        status = client.admin.command("serverStatus")
        assert status["runnel"]["executor"]["workers"] <= workers + 2
        disk.go_on()
        assert all(c.reply()["n"] == 1 for c in calls)
        seen = [stream.next()["documentKey"]["_id"] for _ in range(100)]
    assert sorted(seen) == list(range(1, 101))


def test_a_time_that_clients_tell_holds_nobody(raw, client, db, disk):
    """Gossip moves the clock, when the disk allows."""
    ahead = Timestamp(disk.now_s + 600, 1)
    gossip = {"$clusterTime": {"clusterTime": ahead, "signature": {"hash": b"\0" * 20, "keyId": 0}}}
    assert raw.command({"ping": 1, **gossip})["$clusterTime"]["clusterTime"] == ahead
    after = {"readConcern": {"level": "local", "afterClusterTime": ahead}}
    assert raw.command({"find": "c", **after, "maxTimeMS": 50}, db.name)["code"] == 50
    disk.go_on()
    assert raw.command({"find": "c", **after}, db.name)["ok"] == 1
    assert raw.command(WRITES[0], db.name)["operationTime"] > ahead


def test_a_linearizable_read_waits_for_the_sync(raw, db, disk):
    read = {"find": "c", "readConcern": {"level": "linearizable"}}
    assert raw.command({**read, "maxTimeMS": 50}, db.name)["code"] == 50
    disk.go_on()
    assert len(raw.command(read, db.name)["cursor"]["firstBatch"]) == 1


# --- in the midst of a command -------------------------------------------------------------------


@pytest.fixture
def amid(server, client, db):
    """Starts inserts of two groups and lets each commit the first one before the disk is stuck."""
    disk = Disk(client)
    calls = []

    def start(n, **fields):
        disk.hang()
        disk.fault("commitAfter:wait")
        for i in range(n):
            docs = [{"_id": (i + 1) * 10_000 + j} for j in range(GROUP + 1)]
            calls.append(Call(server, db.name, {"insert": "c", "documents": docs, **fields}))
        wait_for(lambda: disk.fault("commitAfter:wait") >= n, "the first groups")
        disk.exhaust()
        disk.fault("commitAfter:off")
        return disk, calls

    yield start
    disk.go_on()


@pytest.mark.parametrize("concern", [{"w": 1}, {"w": "majority"}])
def test_kill_op_ends_the_rest(client, db, amid, concern):
    """What was done stays, and the reply tells if it may not be durable."""
    disk, calls = amid(1, writeConcern=concern)
    kill_op(client, calls[0])
    reply = calls[0].reply()
    assert (reply["ok"], reply["code"]) == (0.0, 11601)
    assert ("writeConcernError" in reply) == (concern["w"] == "majority")
    assert db.c.count_documents({}) == 1 + GROUP


def test_the_rest_is_done_once(db, amid):
    disk, calls = amid(3)
    disk.go_on()
    assert [c.reply()["n"] for c in calls] == [GROUP + 1] * 3
    assert db.c.count_documents({}) == 1 + 3 * (GROUP + 1)


def test_more_stuck_threads_than_the_pool_has(server, client, db, amid):
    """Those who can not park do not count: the pool grows beyond its limit for them."""
    disk, calls = amid(56, writeConcern={"w": 1})
    disk.fault("scanSnapshot:wait")
    reads = [Call(server, db.name, {"find": "c", "limit": 1}) for _ in range(12)]
    wait_for(lambda: disk.fault("scanSnapshot:wait") >= 12, "the reads")
    assert client.admin.command("serverStatus")["runnel"]["executor"]["workers"] > 64
    assert Call(server, db.name, {**WRITES[0], "maxTimeMS": 50}).reply()["code"] == 50
    disk.go_on()
    assert all(c.reply()["ok"] == 1 for c in reads + calls)


# --- transactions --------------------------------------------------------------------------------


class Txn:
    """A transaction with one insert, on a connection of its own."""

    def __init__(self, server, db):
        self.server, self.db = server, db
        self.lsid = {"id": bson.Binary(bson.ObjectId().binary + b"\0" * 4, 4)}
        self.fields = {"lsid": self.lsid, "txnNumber": bson.Int64(1), "autocommit": False}
        first = {**WRITES[0], **self.fields, "startTransaction": True}
        assert Call(server, db.name, first).reply()["n"] == 1

    def commit(self, **fields):
        return Call(self.server, "admin", {"commitTransaction": 1, **self.fields, **fields})


@pytest.fixture
def txn(server, db, hanging):
    return Txn(server, db)


def test_max_time_ends_a_commit(db, hanging, txn):
    hanging.exhaust()
    assert txn.commit(maxTimeMS=50).reply()["code"] == 50
    hanging.go_on()
    again = txn.commit().reply()
    assert again["code"] == 251 and again["errorLabels"] == ["TransientTransactionError"]
    assert db.c.count_documents({}) == 1


@pytest.mark.parametrize("how", ["killSessions", "killAllSessions"])
def test_killed_while_it_waits_to_commit(client, db, hanging, txn, how):
    hanging.exhaust()
    commit = txn.commit()
    hanging.wait_parked(1)
    client.admin.command({how: [txn.lsid] if how == "killSessions" else []})
    assert commit.reply()["code"] == 11601
    hanging.go_on()
    assert txn.commit().reply()["code"] == 251
    assert db.c.count_documents({}) == 1


def test_killed_while_its_commit_waits_for_the_sync(client, db, hanging, txn):
    """It has committed: the reply says so, and that it may not be durable."""
    commit = txn.commit()
    wait_for(lambda: db.c.count_documents({}) == 2, "the commit")
    client.admin.command({"killSessions": [txn.lsid]})
    reply = commit.reply()
    assert reply["ok"] == 1 and reply["writeConcernError"]["code"] == 11601
    late = txn.commit(writeConcern={"w": "majority", "wtimeout": 50}).reply()
    assert late["ok"] == 1 and late["writeConcernError"]["code"] == 64
    hanging.go_on()
    again = txn.commit().reply()
    assert again["ok"] == 1 and "writeConcernError" not in again
    assert db.c.count_documents({}) == 2


def test_a_commit_that_waited_is_done_once(db, hanging, txn):
    with db.c.watch(max_await_time_ms=50) as stream:
        hanging.exhaust()
        commit = txn.commit()
        hanging.wait_parked(1)
        assert db.c.count_documents({}) == 1
        hanging.go_on()
        assert commit.reply()["ok"] == 1
        assert stream.next()["documentKey"] == {"_id": 1} and stream.try_next() is None
    assert txn.commit().reply()["ok"] == 1
    assert db.c.count_documents({}) == 2


def test_a_transaction_that_made_a_collection_waits(server, db, hanging):
    made = Txn.__new__(Txn)
    made.server, made.db = server, db
    made.fields = {"lsid": {"id": bson.Binary(b"m" * 16, 4)}, "txnNumber": bson.Int64(1),
                   "autocommit": False}
    first = {**WRITES[1], **made.fields, "startTransaction": True}
    assert Call(server, db.name, first).reply()["n"] == 1
    hanging.exhaust()
    commit = made.commit()
    hanging.wait_parked(1)
    assert db.list_collection_names() == ["c"]
    hanging.go_on()
    assert commit.reply()["ok"] == 1
    assert sorted(db.list_collection_names()) == ["c", "new"] and db.new.count_documents({}) == 1


def test_kill_op_ends_the_wait_for_the_sync(server, client, db, hanging):
    call = Call(server, db.name, WRITES[0])
    wait_for(lambda: db.c.count_documents({}) == 2, "the write")
    kill_op(client, call)
    reply = call.reply()
    assert (reply["n"], reply["writeConcernError"]["code"]) == (1, 11601)


def test_current_op_shows_nothing_of_others(server, hanging):
    """A write that waits for its sync has done with its message, and the memory it lay in is used on."""
    with RawClient(server.port) as writer, RawClient(server.port) as admin:
        mine = writer.command({"whatsmyuri": 1})["you"]
        parked = hanging.parked()
        writer.send(op_msg({"insert": "bell", "documents": [{"_id": 1}], "$db": "stuck", "comment": "mine"}))
        hanging.wait_parked(parked + 1)
        for _ in range(20):
            with RawClient(server.port) as other:
                assert other.command({"ping": 1, "comment": "other" * 50})["ok"] == 1
            ops = admin.command({"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}})
            (op,) = [o for o in ops["cursor"]["firstBatch"] if o["client"] == mine]
            assert op.get("command", {}).get("comment", "mine") == "mine" and op.get("ns", "stuck.bell") == "stuck.bell"
        hanging.go_on()
        assert writer.receive().doc["n"] == 1
