# SPDX-License-Identifier: GPL-3.0-or-later
"""collectionUUID: a command that means one collection does nothing on another one of its name."""

import uuid

import pytest
from bson import Binary, Int64
from pymongo.errors import OperationFailure

from raw import RawClient

READS = [
    {"find": "c"},
    {"find": "c", "filter": {"_id": 1}},
    {"aggregate": "c", "pipeline": [], "cursor": {}},
    {"aggregate": "c", "pipeline": [{"$collStats": {"count": {}}}], "cursor": {}},
    {"count": "c"},
    {"count": "c", "query": {"_id": 1}},
    {"distinct": "c", "key": "_id"},
    {"explain": {"find": "c"}},
]
WRITES = [
    {"insert": "c", "documents": [{"_id": 2}, {"_id": 3}]},
    {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]},
    {"update": "c", "updates": [{"q": {"_id": 9}, "u": {"$set": {"a": 1}}, "upsert": True},
                                {"q": {"_id": 8}, "u": {"$set": {"a": 1}}, "upsert": True}]},
    {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
]
MODIFY = {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"b": 1}}, "upsert": True}


@pytest.fixture
def uuids(db):
    db.c.insert_one({"_id": 1})
    db.create_collection("other")
    return {c["name"]: Binary(bytes(c["info"]["uuid"]), 4) for c in db.list_collections()}


def with_uuid(command, identity, coll="c"):
    """The command on `coll`; in an explain it is the inner command that takes the UUID."""
    name, value = next(iter(command.items()))
    if name == "explain":
        return {"explain": with_uuid(value, identity, coll)}
    return {**command, name: coll, "collectionUUID": identity}


def check(error, db, coll, identity, actual):
    assert error["code"] == 361
    assert error["errmsg"] == "Collection UUID does not match that specified"
    assert (error["db"], bytes(error["collectionUUID"])) == (db.name, bytes(identity))
    assert (error["expectedCollection"], error["actualCollection"]) == (coll, actual)


def cases(uuids):
    """What a command may name, with which UUID, and how that collection is called."""
    return (("c", uuids["other"], "other"), ("missing", uuids["c"], "c"),
            ("c", Binary(uuid.uuid4().bytes, 4), None))


@pytest.mark.parametrize("command", READS + WRITES + [MODIFY], ids=str)
def test_the_right_one(db, uuids, command):
    reply = db.command(with_uuid(command, uuids["c"]))
    assert reply["ok"] == 1 and "writeErrors" not in reply
    assert db.command(with_uuid(command, None))["ok"] == 1


@pytest.mark.parametrize("command", READS + [MODIFY], ids=str)
def test_another_one(db, uuids, command):
    for coll, identity, actual in cases(uuids):
        with pytest.raises(OperationFailure) as e:
            db.command(with_uuid(command, identity, coll))
        check(e.value.details, db, coll, identity, actual)
    assert list(db.c.find()) == [{"_id": 1}] and "missing" not in db.list_collection_names()


@pytest.mark.parametrize("command", WRITES, ids=str)
def test_another_one_fails_each_statement(db, uuids, command):
    n = len(command.get("documents") or command.get("updates") or command["deletes"])
    for coll, identity, actual in cases(uuids):
        for ordered in (True, False):
            reply = db.command({**with_uuid(command, identity, coll), "ordered": ordered})
            assert reply["n"] == 0
            assert [e["index"] for e in reply["writeErrors"]] == list(range(1 if ordered else n))
            for error in reply["writeErrors"]:
                check(error, db, coll, identity, actual)
    assert list(db.c.find()) == [{"_id": 1}] and "missing" not in db.list_collection_names()


def test_a_collection_of_another_database_has_no_name_here(client, db, uuids):
    elsewhere = client[db.name + "_2"]
    with pytest.raises(OperationFailure) as e:
        elsewhere.command({"find": "c", "collectionUUID": uuids["c"]})
    check(e.value.details, elsewhere, "c", uuids["c"], None)


def test_what_was_done_before_is_answered_after_a_rename(srv, db, uuids):
    session = {"id": Binary(uuid.uuid4().bytes, 4)}
    commands = [
        {"insert": "c", "documents": [{"_id": 5}, {"_id": 6}]},
        {"update": "c", "updates": [{"q": {"_id": 5}, "u": {"$set": {"a": 1}}}]},
        {"findAndModify": "c", "query": {"_id": 5}, "update": {"$inc": {"a": 1}}},
        {"delete": "c", "deletes": [{"q": {"_id": 6}, "limit": 1}]},
    ]
    for number, command in enumerate(commands, 1):
        command = {**with_uuid(command, uuids["c"]), "lsid": session, "txnNumber": Int64(number)}
        with RawClient(srv.port) as raw:
            first = raw.command(command, db.name)
            db.c.rename("moved")
            second = raw.command(command, db.name)
        assert first["ok"] == 1 and "writeErrors" not in first
        assert second["ok"] == 1 and "writeErrors" not in second
        assert second.get("n") == first.get("n") and second.get("value") == first.get("value")
        assert "retriedStmtIds" in second or "retriedStmtId" in second
        db.moved.rename("c")
    assert list(db.c.find()) == [{"_id": 1}, {"_id": 5, "a": 2}]


def test_in_a_transaction(client, db, uuids):
    with client.start_session() as session, session.start_transaction():
        assert db.command(with_uuid({"find": "c"}, uuids["c"]), session=session)["ok"] == 1
        with pytest.raises(OperationFailure) as e:
            db.command(with_uuid({"find": "c"}, uuids["other"]), session=session)
        check(e.value.details, db, "c", uuids["other"], "other")
        session.abort_transaction()


@pytest.mark.parametrize("command", READS[:1] + READS[2:3] + READS[4:5] + READS[6:7] + WRITES +
                         [MODIFY], ids=str)
def test_what_is_no_uuid(db, uuids, command):
    for value, code in ((Binary(b"x" * 16, 0), 14), (Binary(b"x" * 15, 4), 207), ("x", 14)):
        with pytest.raises(OperationFailure) as e:
            db.command(with_uuid(command, value))
        assert e.value.code == code


def test_aggregations_without_a_collection_of_their_own(client, db, uuids):
    for database, command, code in (
            (db, {"aggregate": "c", "pipeline": [{"$changeStream": {}}]}, 4928900),
            (db, {"aggregate": 1, "pipeline": [{"$documents": [{}]}]}, 4928901),
            (client.admin, {"aggregate": 1, "pipeline": [{"$currentOp": {}}]}, 4928901)):
        with pytest.raises(OperationFailure) as e:
            database.command({**command, "cursor": {}, "collectionUUID": uuids["c"]})
        assert e.value.code == code


def test_the_server_s_own_namespaces_have_none(client, uuids):
    for name, coll in (("local", "oplog.rs"), ("config", "transactions")):
        for command in ({"find": coll}, {"count": coll}):
            with pytest.raises(OperationFailure) as e:
                client[name].command({**command, "collectionUUID": uuids["c"]})
            assert e.value.code == 361
