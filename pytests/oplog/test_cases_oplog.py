# SPDX-License-Identifier: GPL-3.0-or-later
"""Reported oplog cases, one test each, named by its id (op-04 stands with the update operators)."""

import pymongo
import pytest
from bson import Int64, Timestamp
from pymongo.cursor import CursorType

from server import Server
from streamutil import drain, error_of


@pytest.fixture
def oplog(client):
    return client.local["oplog.rs"]


def test_op_01_tailable_needs_capped(client, db, oplog):
    db.plain.insert_one({})
    for kind in (CursorType.TAILABLE, CursorType.TAILABLE_AWAIT):
        e = error_of(lambda: list(db.plain.find({}, cursor_type=kind)))
        assert e.code == 2 and "tailable cursor requested on non capped collection" in str(e)
    assert error_of(lambda: db.command("find", "plain", awaitData=True)).code == 9
    reply = db.command("find", "missing", tailable=True)
    assert reply["cursor"]["id"] == 0 and reply["cursor"]["firstBatch"] == []


def test_op_06_exact_timestamps(db, oplog):
    db.c.insert_many([{"_id": i} for i in range(3)])
    first, second, third = list(oplog.find({"ns": db.c.full_name, "op": "i"}))
    at = second["ts"]
    assert [e["ts"] for e in oplog.find({"ts": at})] == [at]
    assert oplog.find({"ts": {"$gte": at}}).sort("$natural", 1).limit(1)[0] == second
    assert oplog.find_one({"ts": {"$gt": at}}) == third
    assert first["ts"] < at < third["ts"]


def test_op_07_oplog_replay_flag(client, db):
    at = db.command("ping")["operationTime"]
    reply = client.local.command(
        "find", "oplog.rs", filter={"ts": {"$gt": at}}, tailable=True, awaitData=True,
        oplogReplay=True, batchSize=1000,
    )
    assert reply["cursor"]["id"] != 0
    client.local.command("killCursors", "oplog.rs", cursors=[reply["cursor"]["id"]])


def test_op_09_insert_many_is_not_grouped(db, oplog):
    with db.c.watch() as s:
        db.c.insert_many([{"_id": i} for i in range(5)])
        events = drain(s, 5)
    entries = list(oplog.find({"ns": db.c.full_name}))
    assert [e["op"] for e in entries] == ["i"] * 5
    assert [e["o"]["_id"] for e in entries] == list(range(5))
    assert [e["documentKey"]["_id"] for e in events] == list(range(5))
    assert len({e["_id"]["_data"] for e in events}) == 5


def test_op_10_no_streams_on_internal_databases(client, db):
    for target in (
        client.local,
        client.local["oplog.rs"],
        client.config.x,
        client.admin.x,
        db["system.x"],
    ):
        e = error_of(target.watch)
        assert e.code == 73 and e.details["codeName"] == "InvalidNamespace"
    with client.watch() as s:
        client.admin.x.insert_one({"_id": 1})
        client.config.x.insert_one({"_id": 1})
        db.c.insert_one({"_id": "seen"})
        assert [e["ns"]["db"] for e in drain(s)] == [db.name]
    client.admin.x.drop()
    client.config.x.drop()


def test_entry_fields_and_types(client, db, oplog):
    db.c.insert_one({"_id": 1, "a": 1})
    db.c.update_one({"_id": 1}, {"$set": {"a": 2}})
    db.c.replace_one({"_id": 1}, {"b": 1})
    db.c.delete_one({"_id": 1})
    uuid = next(iter(db.list_collections(filter={"name": "c"})))["info"]["uuid"]
    raw = client.local.get_collection(
        "oplog.rs", codec_options=client.codec_options.with_options(document_class=dict)
    )
    create = raw.find_one({"ns": f"{db.name}.$cmd", "o.create": "c"})
    assert create["o"] == {"create": "c", "idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_"}}
    assert create["ui"] == uuid and create["op"] == "c"
    entries = list(raw.find({"ns": db.c.full_name}))
    assert [e["op"] for e in entries] == ["i", "u", "u", "d"]
    insert, update, replace, delete = entries
    assert insert["o"] == {"_id": 1, "a": 1} and insert["o2"] == {"_id": 1}
    assert update["o"] == {"$v": 2, "diff": {"u": {"a": 2}}} and update["o2"] == {"_id": 1}
    assert replace["o"] == {"_id": 1, "b": 1} and replace["o2"] == {"_id": 1}
    assert delete["o"] == {"_id": 1}
    for e in entries:
        assert isinstance(e["ts"], Timestamp)
        assert isinstance(e["t"], Int64) and isinstance(e["v"], Int64) and e["v"] == 2
        assert e["ui"] == uuid
        order = [k for k in e if k not in ("lsid", "txnNumber", "stmtId", "prevOpTime")]
        expected = ["op", "ns", "ui", "o", "o2", "ts", "t", "v", "wall"]
        assert order == [k for k in expected if k in e]


def test_ddl_entries(client, db, oplog):
    db.c.insert_one({"_id": 1})
    db.c.create_index("a", name="a1")
    db.d.create_index([("b", -1)], unique=True)
    db.c.drop_index("a1")
    db.c.rename("e")
    db.e.drop()
    client.drop_database(db.name)
    entries = [
        next(iter(e["o"])) for e in oplog.find({"ns": f"{db.name}.$cmd"}).sort("$natural", 1)
    ]
    assert entries == [
        "create", "startIndexBuild", "commitIndexBuild", "create", "createIndexes", "dropIndexes",
        "renameCollection", "drop", "drop", "dropDatabase",
    ]
    drop = oplog.find_one({"ns": f"{db.name}.$cmd", "o.drop": "e"})
    assert drop["o"] == {"drop": "e"} and drop["o2"] == {"numRecords": 1}
    index = oplog.find_one({"ns": f"{db.name}.$cmd", "o.dropIndexes": "c"})
    assert index["o"] == {"dropIndexes": "c", "index": "a1"}
    assert index["o2"] == {"v": 2, "key": {"a": 1}, "name": "a1"}
    rename = oplog.find_one({"ns": f"{db.name}.$cmd", "o.renameCollection": {"$exists": True}})
    assert rename["o"] == {
        "renameCollection": f"{db.name}.c", "to": f"{db.name}.e", "stayTemp": False,
    }


def test_reading_both_ways(db, oplog):
    db.c.insert_many([{"_id": i} for i in range(10)])
    ours = {"ns": db.c.full_name}
    forward = [e["o"]["_id"] for e in oplog.find(ours).sort("$natural", 1)]
    backward = [e["o"]["_id"] for e in oplog.find(ours).sort("$natural", -1)]
    by_time = [e["o"]["_id"] for e in oplog.find(ours).sort("ts", -1).limit(3)]
    assert forward == list(range(10)) and backward == forward[::-1] and by_time == [9, 8, 7]
    counted = list(oplog.aggregate([{"$match": ours}, {"$group": {"_id": "$op", "n": {"$sum": 1}}}]))
    assert counted == [{"_id": "i", "n": 10}]
    assert oplog.count_documents(ours) == 10


@pytest.mark.concurrent
def test_tailing_with_await(client, db, oplog):
    last = oplog.find().sort("$natural", -1).limit(1)[0]["ts"]
    tail = oplog.find({"ts": {"$gt": last}, "ns": db.c.full_name}, cursor_type=CursorType.TAILABLE_AWAIT)
    tail.max_await_time_ms(20000)
    db.c.insert_one({"_id": "one"})
    assert tail.next()["o"] == {"_id": "one"}
    db.c.insert_one({"_id": "two"})
    assert tail.next()["o"] == {"_id": "two"}
    assert tail.alive
    tail.close()


def test_listed_as_capped(client):
    listed = next(iter(client.local.list_collections(filter={"name": "oplog.rs"})))
    assert listed["type"] == "collection"
    assert listed["options"]["capped"] is True
    assert listed["options"]["size"] == 1 << 30 and listed["options"]["max"] == 0
    assert list(client.local["oplog.rs"].list_indexes()) == []
    stats = client.local.command("collStats", "oplog.rs")
    assert stats["capped"] is True and stats["maxSize"] == 1 << 30 and stats["count"] > 0


@pytest.mark.parametrize("ordered", [True, False])
def test_writes_are_refused(client, ordered):
    local = client.local
    for command in (
        {"insert": "oplog.rs", "documents": [{"_id": 1}], "ordered": ordered},
        {"update": "oplog.rs", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}], "ordered": ordered},
        {"delete": "oplog.rs", "deletes": [{"q": {}, "limit": 0}], "ordered": ordered},
        {"findAndModify": "oplog.rs", "query": {}, "remove": True},
        {"drop": "oplog.rs"},
        {"create": "oplog.rs"},
        {"createIndexes": "oplog.rs", "indexes": [{"key": {"a": 1}, "name": "a_1"}]},
    ):
        e = error_of(lambda: local.command(command))
        assert e.code == 13 and e.details["codeName"] == "Unauthorized", command


def test_no_oplog_hides_everything():
    with Server(memory=True, no_oplog=True) as srv, pymongo.MongoClient(srv.uri) as client:
        client.t.c.insert_one({"_id": 1})
        assert client.t.c.find_one() == {"_id": 1}
        assert "local" not in client.list_database_names()
        assert client.local.list_collection_names() == []
        assert error_of(client.t.c.watch).code == 40573


def test_no_oplog_voids_the_window(tmp_path):
    path = tmp_path / "data"
    with Server(path=path) as srv, pymongo.MongoClient(srv.uri) as client:
        with client.t.c.watch() as s:
            token = s.resume_token
            client.t.c.insert_one({"_id": 1})
    with Server(path=path, no_oplog=True) as srv, pymongo.MongoClient(srv.uri) as client:
        client.t.c.insert_one({"_id": 2})
    with Server(path=path) as srv, pymongo.MongoClient(srv.uri) as client:
        e = error_of(lambda: client.t.c.watch(resume_after=token).try_next())
        assert e.code == 286
        e = error_of(lambda: client.t.c.watch(start_at_operation_time=Timestamp(1, 1)).try_next())
        assert e.code == 286
