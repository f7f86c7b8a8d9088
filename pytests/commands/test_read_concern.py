# SPDX-License-Identifier: GPL-3.0-or-later
"""Read concerns: which command takes which, what they wait for, and cluster times."""

import threading
import time

import pymongo
import pytest
from bson import Timestamp
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from disk_server import client, raw, server, stuck_sync  # noqa: F401
from raw import RawClient
from streamutil import error_of

pytestmark = pytest.mark.concurrent

LEVELS = ["local", "available", "majority", "linearizable"]
READS = [
    {"find": "c"},
    {"aggregate": "c", "pipeline": [], "cursor": {}},
    {"count": "c"},
    {"distinct": "c", "key": "_id"},
]
BY_NAME = [next(iter(c)) for c in READS]


@pytest.fixture
def fault(client):
    """Arms a fault point until the end of the test."""
    yield lambda spec: client.admin.command("runnelFault", spec)
    client.admin.command("runnelFault", "off")


def ts(value, by):
    return Timestamp(value.time + by, value.inc)


# --- which command takes which -----------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("command", READS, ids=BY_NAME)
def test_reads_take_all_levels(db, command, level):
    db.c.insert_one({"_id": 1})
    assert db.command({**command, "readConcern": {"level": level}})["ok"] == 1.0


@pytest.mark.parametrize(
    "command",
    [
        {"insert": "c", "documents": [{}]},
        {"update": "c", "updates": [{"q": {}, "u": {"$set": {"x": 1}}}]},
        {"delete": "c", "deletes": [{"q": {}, "limit": 1}]},
        {"findAndModify": "c", "remove": True},
        {"listCollections": 1},
        {"listIndexes": "c"},
        {"create": "d"},
        {"getMore": 1, "collection": "c"},
        {"dbStats": 1},
    ],
    ids=lambda c: next(iter(c)),
)
@pytest.mark.parametrize("level", ["majority", "linearizable", "available", "snapshot"])
def test_others_take_none_but_local(db, command, level):
    error = error_of(lambda: db.command({**command, "readConcern": {"level": level}}))
    assert (error.code, error.details["codeName"]) == (72, "InvalidOptions")
    assert error.details["errmsg"] == (
        f"Command {next(iter(command))} does not support {{ readConcern: {{ level: \"{level}\", "
        'provenance: "clientSupplied" } } :: caused by :: read concern not supported'
    )
    assert db.list_collection_names() == []


def test_local_is_taken_by_all(db):
    local = {"readConcern": {"level": "local"}}
    assert db.command({"insert": "c", "documents": [{}], **local})["n"] == 1
    assert db.command({"listCollections": 1, **local})["ok"] == 1.0


def test_count_takes_no_snapshot(db):
    error = error_of(lambda: db.command({"count": "c", "readConcern": {"level": "snapshot"}}))
    assert error.code == 72 and error.details["errmsg"].endswith(
        "read concern snapshot not supported"
    )


@pytest.mark.parametrize("stage", ["$currentOp", "$collStats", "$indexStats"])
def test_stages_that_are_local(client, db, stage):
    target = client.admin if stage == "$currentOp" else db
    command = {
        "aggregate": 1 if stage == "$currentOp" else "c",
        "pipeline": [{stage: {}}],
        "cursor": {},
        "readConcern": {"level": "majority"},
    }
    error = error_of(lambda: target.command(command))
    assert error.code == 72
    assert error.details["errmsg"] == (
        f"Aggregation stage {stage} cannot run with a readConcern other than 'local', or in a "
        "multi-document transaction. Current readConcern: majority"
    )


@pytest.mark.parametrize(
    ("concern", "code", "text"),
    [
        ("majority", 14, None),
        ({"level": 1}, 14, None),
        ({"level": "strong"}, 2,
         "Enumeration value 'strong' for field 'readConcern.level' is not a valid value."),
        ({"x": 1}, 40415, "BSON field 'readConcern.x' is an unknown field."),
        ({"afterClusterTime": 5}, 14,
         "BSON field 'readConcern.afterClusterTime' is the wrong type 'int', expected type "
         "'timestamp'"),
        ({"afterClusterTime": Timestamp(0, 0)}, 72, "afterClusterTime cannot be a null timestamp"),
        ({"level": "snapshot", "atClusterTime": Timestamp(0, 0)}, 72,
         "atClusterTime cannot be a null timestamp"),
        ({"atClusterTime": Timestamp(1, 1)}, 72,
         "atClusterTime field can be set only if level is equal to snapshot"),
        ({"level": "linearizable", "afterClusterTime": Timestamp(1, 1)}, 72,
         "afterClusterTime field can be set only if level is equal to majority, local, or snapshot"),
        ({"level": "available", "afterClusterTime": Timestamp(1, 1)}, 72,
         "afterClusterTime field can be set only if level is equal to majority, local, or snapshot"),
        ({"level": "snapshot", "afterClusterTime": Timestamp(1, 1),
          "atClusterTime": Timestamp(1, 1)}, 72, None),
    ],
)
def test_refused_documents(db, concern, code, text):
    error = error_of(lambda: db.command({"find": "c", "readConcern": concern}))
    assert error.code == code
    assert text is None or error.details["errmsg"] == text


# --- what a level promises ---------------------------------------------------------------------


@pytest.mark.parametrize("level", ["majority", "linearizable"])
@pytest.mark.parametrize("command", READS, ids=BY_NAME)
def test_waits_for_the_sync(client, db, raw, command, level):
    """What a crash could undo is not given: here it can never be synced."""
    db.c.insert_one({"_id": 1})
    with stuck_sync(client):
        db.get_collection("c", write_concern=WriteConcern(1)).insert_one({"_id": 2})
        assert raw.command({**command, "readConcern": {"level": "local"}}, db.name)["ok"] == 1.0
        reply = raw.command(
            {**command, "readConcern": {"level": level}, "maxTimeMS": 100}, db.name
        )
        assert (reply["ok"], reply["code"]) == (0.0, 50), reply
    reply = raw.command({**command, "readConcern": {"level": level}}, db.name)
    assert "2" in str(reply.get("n") or reply.get("values") or reply["cursor"]["firstBatch"])


def test_get_more_keeps_the_level(client, db, raw):
    db.c.insert_many([{"_id": i} for i in range(4)])
    command = {"find": "c", "batchSize": 2, "readConcern": {"level": "majority"}}
    cursor = raw.command(command, db.name)["cursor"]
    got = []
    more = threading.Thread(
        target=lambda: got.append(raw.command({"getMore": cursor["id"], "collection": "c"}, db.name))
    )
    with stuck_sync(client):
        db.get_collection("c", write_concern=WriteConcern(1)).insert_one({"_id": 9})
        more.start()
        more.join(0.2)
        assert more.is_alive() and got == []
    more.join()
    assert [d["_id"] for d in got[0]["cursor"]["nextBatch"]] == [2, 3, 9]


def test_nothing_read_at_majority_is_lost(disk_srv):
    """The read comes between the commit and the sync; then the server is killed."""
    with pymongo.MongoClient(disk_srv.uri, serverSelectionTimeoutMS=5000) as client:
        client.t.c.insert_one({"_id": 0})
        seen = set()
        fast = client.t.get_collection("c", write_concern=WriteConcern(1))
        durable = client.t.get_collection("c", read_concern=ReadConcern("majority"))
        for i in range(1, 200):
            fast.insert_one({"_id": i})
            if i % 7 == 0:
                seen = {d["_id"] for d in durable.find()}
        disk_srv.kill()
        disk_srv.start()
    with pymongo.MongoClient(disk_srv.uri) as client:
        assert seen <= {d["_id"] for d in client.t.c.find()}


def test_linearizable_writes_a_noop(client, db):
    db.c.insert_one({"_id": 1})
    oplog = client.local["oplog.rs"]
    before = oplog.count_documents({"o.msg": "linearizable read"})
    reply = db.command({"find": "c", "readConcern": {"level": "linearizable"}})
    assert oplog.count_documents({"o.msg": "linearizable read"}) == before + 1
    newest = next(oplog.find({"o.msg": "linearizable read"}).sort("$natural", -1))
    assert newest["op"] == "n" and reply["operationTime"] >= newest["ts"]


# --- cluster times -----------------------------------------------------------------------------


def test_a_time_ahead_is_reached_by_a_noop(raw, db):
    now = raw.command({"insert": "c", "documents": [{"_id": 1}]}, db.name)["operationTime"]
    ahead = ts(now, 1000)
    gossip = {"$clusterTime": {"clusterTime": ahead}}
    reply = raw.command({"find": "c", "readConcern": {"afterClusterTime": ahead}, **gossip}, db.name)
    assert reply["ok"] == 1.0 and reply["operationTime"] >= ahead, reply
    later = raw.command({"insert": "c", "documents": [{"_id": 2}]}, db.name)
    assert later["operationTime"] > ahead


def test_a_time_beyond_the_clusters(raw, db):
    now = raw.command({"ping": 1}, "admin")["$clusterTime"]["clusterTime"]
    far = Timestamp(now.time + 5000, 3)
    for name, concern in (
        ("afterClusterTime", {"afterClusterTime": far}),
        ("atClusterTime", {"level": "snapshot", "atClusterTime": far}),
    ):
        reply = raw.command({"find": "c", "readConcern": concern}, db.name)
        assert reply["code"] == 72
        assert reply["errmsg"].startswith(
            f"readConcern {name} value must not be greater than the current clusterTime. "
            f"Requested clusterTime: Timestamp({far.time}, 3); current clusterTime: Timestamp("
        )


def test_gossip_moves_the_clock(raw, db):
    now = raw.command({"ping": 1}, "admin")["$clusterTime"]["clusterTime"]
    ahead = ts(now, 300)
    # The signature is another's: nobody checks it.
    told = {"clusterTime": ahead, "signature": {"hash": b"x" * 20, "keyId": 7}}
    reply = raw.command({"ping": 1, "$clusterTime": told}, "admin")
    assert reply["$clusterTime"]["clusterTime"] >= ahead
    reply = raw.command({"insert": "c", "documents": [{}]}, db.name)
    assert reply["operationTime"] > ahead


def test_absurd_gossip_is_ignored(raw):
    now = raw.command({"ping": 1}, "admin")["$clusterTime"]["clusterTime"]
    told = {"clusterTime": ts(now, 400 * 86400)}
    reply = raw.command({"ping": 1, "$clusterTime": told}, "admin")
    assert reply["ok"] == 1.0
    assert reply["$clusterTime"]["clusterTime"] < ts(now, 86400)
    for wrong in (1, {"clusterTime": 5}):
        assert raw.command({"ping": 1, "$clusterTime": wrong}, "admin")["code"] == 14


@pytest.mark.parametrize("command", [{"find": "c"}, {"insert": "c", "documents": [{"_id": "w"}]}],
                         ids=["read", "write"])
def test_waits_for_what_is_being_committed(server, client, db, fault, command):
    """An optime that was handed out, but is not visible yet, is waited for."""
    db.c.insert_one({"_id": 0})
    fault("commitAfter:wait")
    with RawClient(server.port) as writer, RawClient(server.port) as reader:
        writing = threading.Thread(
            target=lambda: writer.command({"insert": "c", "documents": [{"_id": 1}]}, db.name)
        )
        writing.start()
        while client.admin.command("runnelFault", "commitAfter:wait")["hits"] < 1:
            time.sleep(0.01)
        after = reader.command({"ping": 1}, "admin")["$clusterTime"]["clusterTime"]
        waiting = {**command, "readConcern": {"afterClusterTime": after}}
        late = reader.command({**waiting, "maxTimeMS": 50}, db.name)
        assert (late.get("code"), late.get("codeName")) == (50, "MaxTimeMSExpired"), late
        fault("off")
        writing.join()
        reply = reader.command(waiting, db.name)
        assert reply["ok"] == 1.0 and reply["operationTime"] >= after
    if "find" in command:
        assert [d["_id"] for d in reply["cursor"]["firstBatch"]] == [0, 1]


def test_causal_chain(client, db):
    """A session reads its own writes on whatever connection, at every level."""
    with client.start_session(causal_consistency=True) as session:
        for i in range(30):
            db.c.insert_one({"_id": i}, session=session)
            for level in ("local", "majority"):
                coll = db.get_collection("c", read_concern=ReadConcern(level))
                assert coll.find_one({"_id": i}, session=session) is not None
            assert session.operation_time is not None
