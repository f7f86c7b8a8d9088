# SPDX-License-Identifier: GPL-3.0-or-later
"""Write concerns: what is waited for, what is refused, and the defaults."""

import threading
import time

import pymongo
import pytest
from bson import Timestamp
from pymongo.write_concern import WriteConcern

import disk_server
from disk_server import client, raw, server  # noqa: F401
from raw import RawClient
from server import Server
from streamutil import error_of

pytestmark = pytest.mark.concurrent

INSERT = {"insert": "c", "documents": [{}]}


@pytest.fixture
def stuck_sync(client):
    """While the test runs the log is not synced."""
    with disk_server.stuck_sync(client):
        yield


def write(db, **concern):
    return db.command({**INSERT, "writeConcern": concern})


# --- documents ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "concern",
    [{}, {"w": 1}, {"w": "majority"}, {"j": True}, {"w": 1, "j": True}, {"w": 1, "wtimeout": 1},
     {"fsync": True}, {"w": 1.0}, {"w": "majority", "wtimeout": 10000}, {"w": 0},
     {"w": 1, "provenance": "clientSupplied"}],
)
def test_satisfied(db, concern):
    reply = write(db, **concern)
    assert reply["n"] == 1 and "writeConcernError" not in reply


@pytest.mark.parametrize(
    ("concern", "code", "text"),
    [
        ({"w": -1}, 9, "w has to be a non-negative number and not greater than 50; found: -1"),
        ({"w": 51}, 9, "w has to be a non-negative number and not greater than 50; found: 51"),
        ({"w": True}, 9, "w has to be a number, string, or object; found: bool"),
        ({"w": None}, 9, "w has to be a number, string, or object; found: null"),
        ({"w": 1, "j": "yes"}, 9, "j must be numeric or a boolean value"),
        ({"w": 1, "wtimeout": "1"}, 9, "wtimeout must be a number"),
        ({"j": True, "fsync": True}, 9, "fsync and j options cannot be used together"),
        ({"w": 1, "x": 1}, 40415, "BSON field 'WriteConcern.x' is an unknown field."),
    ],
)
def test_refused_documents(db, concern, code, text):
    error = error_of(lambda: write(db, **concern))
    assert (error.code, error.details["errmsg"]) == (code, text)
    assert db.c.count_documents({}) == 0


def test_the_most_members(db):
    assert write(db, w=50)["writeConcernError"]["code"] == 100


def test_write_concern_is_a_document(db):
    assert error_of(lambda: db.command({**INSERT, "writeConcern": 1})).code == 14


@pytest.mark.parametrize(
    ("w", "code", "name", "text"),
    [
        (2, 100, "UnsatisfiableWriteConcern", "Not enough data-bearing nodes"),
        ("mine", 79, "UnknownReplWriteConcern",
         "No write concern mode named 'mine' found in replica set configuration"),
    ],
)
def test_unsatisfiable(raw, db, w, code, name, text):
    reply = raw.command({**INSERT, "writeConcern": {"w": w, "wtimeout": 7}}, db.name)
    assert reply["ok"] == 1.0 and reply["n"] == 1, reply
    assert reply["writeConcernError"] == {
        "code": code,
        "codeName": name,
        "errmsg": text,
        "errInfo": {"writeConcern": {"w": w, "wtimeout": 7, "provenance": "clientSupplied"}},
    }
    assert list(reply)[-3:] == ["ok", "$clusterTime", "operationTime"]
    assert db.c.count_documents({}) == 1


@pytest.mark.parametrize(
    "command",
    [{"find": "c"}, {"count": "c"}, {"distinct": "c", "key": "x"}, {"listCollections": 1},
     {"listIndexes": "c"}, {"ping": 1}, {"dbStats": 1}, {"explain": {"find": "c"}}],
)
def test_commands_that_take_none(db, command):
    error = error_of(lambda: db.command({**command, "writeConcern": {"w": 1}}))
    assert error.code == 72
    assert error.details["errmsg"] == "Command does not support writeConcern"


def test_aggregate_takes_one(db):
    command = {"aggregate": "c", "pipeline": [], "cursor": {}, "writeConcern": {"w": 1}}
    assert db.command(command)["ok"] == 1.0


def test_unacknowledged_errors_are_dropped(raw, db):
    one = {"insert": "c", "documents": [{"_id": 1}]}
    assert raw.command({**one, "writeConcern": {"w": 0}}, db.name)["n"] == 1
    reply = raw.command({**one, "writeConcern": {"w": 0}}, db.name)
    assert reply["ok"] == 1.0 and "writeErrors" not in reply
    assert raw.command(one, db.name)["writeErrors"][0]["code"] == 11000


# --- waiting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("concern", [{"w": "majority"}, {"w": 1, "j": True}, {"j": True}])
def test_times_out(db, raw, stuck_sync, concern):
    reply = raw.command({**INSERT, "writeConcern": {**concern, "wtimeout": 50}}, db.name)
    assert reply["ok"] == 1.0 and reply["n"] == 1, reply
    error = reply["writeConcernError"]
    assert error["code"] == 64
    assert error["errmsg"] == "waiting for replication timed out"
    assert error["errInfo"]["wtimeout"] is True
    assert error["errInfo"]["writeConcern"]["wtimeout"] == 50
    assert error["errInfo"]["writeConcern"]["provenance"] == "clientSupplied"
    assert list(reply)[-3:] == ["ok", "$clusterTime", "operationTime"]
    assert db.c.count_documents({}) == 1


def test_max_time_ends_the_wait(raw, db, stuck_sync):
    write(db, w=1)
    reply = raw.command({**INSERT, "maxTimeMS": 500}, db.name)
    assert reply["ok"] == 1.0 and reply["n"] == 1, reply
    assert reply["writeConcernError"]["code"] == 50
    assert reply["writeConcernError"]["errInfo"]["writeConcern"]["provenance"] == "implicitDefault"


def test_w1_does_not_wait(db, stuck_sync):
    assert "writeConcernError" not in write(db, w=1, wtimeout=1)


def test_unsatisfiable_names_one_error(raw, db, stuck_sync):
    """It waits for the sync all the same, and is reported once."""
    reply = raw.command({**INSERT, "writeConcern": {"w": 3, "wtimeout": 50}}, db.name)
    assert reply["writeConcernError"]["code"] == 100


def test_durable_in_time_is_no_error(client, db):
    replies = []
    waiting = threading.Thread(
        target=lambda: replies.append(write(db, w="majority", wtimeout=60000))
    )
    with disk_server.stuck_sync(client):
        waiting.start()
        while not db.c.count_documents({}):
            time.sleep(0.01)
    waiting.join()
    assert "writeConcernError" not in replies[0]


def test_durable_already_never_times_out(db):
    """A write that changes nothing waits for nothing that is not long done."""
    write(db, w="majority")
    update = {"update": "c", "updates": [{"q": {"_id": "none"}, "u": {"$set": {"x": 1}}}]}
    for _ in range(20):
        reply = db.command({**update, "writeConcern": {"w": "majority", "wtimeout": 1}})
        assert "writeConcernError" not in reply


# --- defaults ----------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path):
    """A server whose defaults the test may change."""
    with Server(path=tmp_path / "data", test_commands=True) as s:
        yield s


def test_defaults_are_kept(own):
    with pymongo.MongoClient(own.uri) as client:
        before = client.admin.command("getDefaultRWConcern")
        assert before["defaultReadConcernSource"] == before["defaultWriteConcernSource"] == "implicit"
        assert "updateOpTime" not in before and "inMemory" not in before
        changed = client.admin.command(
            "setDefaultRWConcern",
            defaultReadConcern={"level": "majority"},
            defaultWriteConcern={"w": 1, "j": True, "wtimeout": 3},
        )
    own.restart()
    with pymongo.MongoClient(own.uri) as client:
        after = client.admin.command("getDefaultRWConcern")
        stored = client.config.settings.find_one({"_id": "ReadWriteConcernDefaults"})
        assert client.admin.command("getDefaultRWConcern", inMemory=True)["inMemory"] is True
    for reply in (changed, after):
        assert reply["defaultReadConcern"] == {"level": "majority"}
        assert reply["defaultWriteConcern"] == {"w": 1, "j": True, "wtimeout": 3}
        assert reply["defaultReadConcernSource"] == reply["defaultWriteConcernSource"] == "global"
    assert isinstance(after["updateOpTime"], Timestamp)
    for field in ("updateOpTime", "updateWallClockTime", "defaultReadConcern"):
        assert after[field] == changed[field] == stored[field]


def test_default_write_concern_is_used(own):
    with pymongo.MongoClient(own.uri) as client, RawClient(own.port) as raw:
        client.admin.command("setDefaultRWConcern", defaultWriteConcern={"w": 2, "wtimeout": 9})
        error = raw.command(INSERT, "t")["writeConcernError"]
        assert error["code"] == 100
        assert error["errInfo"]["writeConcern"] == {
            "w": 2, "wtimeout": 9, "provenance": "customDefault",
        }
        assert "writeConcernError" not in raw.command({**INSERT, "writeConcern": {"w": 1}}, "t")
        # Without a w the default one is meant.
        error = raw.command({**INSERT, "writeConcern": {"j": True}}, "t")["writeConcernError"]
        assert error["errInfo"]["writeConcern"]["w"] == 2
        assert error["errInfo"]["writeConcern"]["provenance"] == "clientSupplied"
        client.admin.command("setDefaultRWConcern", defaultWriteConcern={"w": 1})
        with disk_server.stuck_sync(client):
            assert "writeConcernError" not in raw.command(INSERT, "t")


def test_default_read_concern_is_used(own):
    """A majority read waits for the sync of what it read, a local one does not."""
    with pymongo.MongoClient(own.uri) as client, RawClient(own.port) as raw:
        client.t.c.insert_one({})
        client.admin.command("setDefaultRWConcern", defaultReadConcern={"level": "majority"})
        with disk_server.stuck_sync(client):
            client.t.get_collection("c", write_concern=WriteConcern(1)).insert_one({})
            late = raw.command({"find": "c", "maxTimeMS": 50}, "t")
            assert late["code"] == 50 and late["codeName"] == "MaxTimeMSExpired"
            local = raw.command({"find": "c", "readConcern": {"level": "local"}}, "t")
            assert len(local["cursor"]["firstBatch"]) == 2
            ops = {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}}
            assert raw.command(ops, "admin")["ok"] == 1.0
        client.admin.command("setDefaultRWConcern", defaultReadConcern={})
        reply = client.admin.command("getDefaultRWConcern")
        assert reply["defaultReadConcern"] == {"level": "local"}
        assert reply["defaultReadConcernSource"] == "implicit"


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({}, 2, 'At least one of the "defaultReadConcern" or "defaultWriteConcern" fields must be '
                "present"),
        ({"defaultReadConcern": {"level": "snapshot"}}, 2,
         "level: 'snapshot' is not suitable for the default read concern"),
        ({"defaultReadConcern": {"level": "linearizable"}}, 2,
         "level: 'linearizable' is not suitable for the default read concern"),
        ({"defaultReadConcern": {"level": "local", "afterClusterTime": Timestamp(1, 1)}}, 2,
         "'afterClusterTime' is not suitable for the default read concern"),
        ({"defaultReadConcern": {"level": "x"}}, 2,
         "Enumeration value 'x' for field 'readConcern.level' is not a valid value."),
        ({"defaultWriteConcern": {"w": 0}}, 2,
         "Unacknowledged write concern is not suitable for the default write concern"),
        ({"defaultWriteConcern": {"w": 99}}, 9,
         "w has to be a non-negative number and not greater than 50; found: 99"),
        ({"defaultWriteConcern": 1}, 14, None),
        ({"other": 1}, 40415, None),
    ],
)
def test_refused_defaults(client, fields, code, text):
    error = error_of(lambda: client.admin.command("setDefaultRWConcern", **fields))
    assert error.code == code
    assert text is None or error.details["errmsg"] == text
    assert client.admin.command("getDefaultRWConcern")["defaultReadConcernSource"] == "implicit"


def test_default_write_concern_stays(own):
    with pymongo.MongoClient(own.uri) as client:
        client.admin.command("setDefaultRWConcern", defaultWriteConcern={})
        client.admin.command("setDefaultRWConcern", defaultWriteConcern={"w": "majority"})
        error = error_of(
            lambda: client.admin.command("setDefaultRWConcern", defaultWriteConcern={})
        )
        assert error.code == 20
        assert error_of(lambda: client.t.command("setDefaultRWConcern")).code == 13
