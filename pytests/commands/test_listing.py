# SPDX-License-Identifier: GPL-3.0-or-later
"""What there is: listDatabases, listCollections, listIndexes, distinct, and second spellings."""

import pytest
from bson import Binary
from bson.int64 import Int64
from pymongo.errors import OperationFailure


def code_of(database, *args, **kwargs):
    with pytest.raises(OperationFailure) as error:
        database.command(*args, **kwargs)
    return error.value.code


def test_list_databases(client, db):
    db.c.insert_one({"_id": 1})
    reply = client.admin.command("listDatabases")
    rows = {row["name"]: row for row in reply["databases"]}
    assert {"admin", "config", "local", db.name} <= set(rows)
    assert list(rows) == sorted(rows)
    assert list(rows[db.name]) == ["name", "sizeOnDisk", "empty"]
    assert rows[db.name]["empty"] is False
    assert type(rows[db.name]["sizeOnDisk"]) is Int64
    assert list(reply)[:3] == ["databases", "totalSize", "totalSizeMb"] and reply["totalSize"] >= 0


def test_list_databases_options(client, db):
    db.c.insert_one({"_id": 1})
    reply = client.admin.command("listDatabases", nameOnly=True, filter={"name": db.name})
    assert reply["databases"] == [{"name": db.name}]
    assert "totalSize" not in reply
    assert code_of(client.test, "listDatabases") == 13
    assert code_of(client.admin, "listDatabases", filter=5) == 14


def test_list_collections(client, db):
    db.create_collection("b", changeStreamPreAndPostImages={"enabled": True})
    db.create_collection("a")
    cursor = db.command("listCollections")["cursor"]
    assert cursor["ns"] == f"{db.name}.$cmd.listCollections"
    assert cursor["id"] == 0
    first, second = sorted(cursor["firstBatch"], key=lambda row: row["name"])
    assert list(first) == ["name", "type", "options", "info", "idIndex"]
    assert (first["name"], first["type"], first["options"]) == ("a", "collection", {})
    assert first["info"]["readOnly"] is False
    assert first["info"]["uuid"].subtype == 4 and first["info"]["uuid"] != second["info"]["uuid"]
    assert first["idIndex"] == {"v": 2, "key": {"_id": 1}, "name": "_id_"}
    assert second["options"] == {"changeStreamPreAndPostImages": {"enabled": True}}


def test_list_collections_by_name_filter_and_batch(db):
    for name in ("a", "b", "c"):
        db.create_collection(name)
    rows = db.command("listCollections", nameOnly=True, filter={"name": "b"})
    assert rows["cursor"]["firstBatch"] == [{"name": "b", "type": "collection"}]
    cursor = db.command("listCollections", cursor={"batchSize": 2})["cursor"]
    assert len(cursor["firstBatch"]) == 2 and cursor["id"] != 0
    more = db.command("getMore", cursor["id"], collection="$cmd.listCollections")["cursor"]
    assert len(more["nextBatch"]) == 1 and more["id"] == 0
    assert db.client["no_such_database"].command("listCollections")["cursor"]["firstBatch"] == []


def test_list_collections_of_local_has_the_oplog(client):
    rows = {row["name"]: row for row in client.local.command("listCollections")["cursor"]["firstBatch"]}
    options = rows["oplog.rs"]["options"]
    assert options["capped"] is True
    assert options["size"] == 1024 * 1024 * 1024
    assert options.get("max", 0) == 0


def test_list_indexes(db):
    db.c.create_index([("a", 1), ("b", -1)], unique=True, sparse=True)
    cursor = db.command("listIndexes", "c")["cursor"]
    assert cursor["ns"] == f"{db.name}.c"
    assert cursor["firstBatch"] == [
        {"v": 2, "key": {"_id": 1}, "name": "_id_"},
        {"v": 2, "key": {"a": 1, "b": -1}, "name": "a_1_b_-1", "unique": True, "sparse": True},
    ]
    with pytest.raises(OperationFailure, match="ns does not exist") as error:
        db.command("listIndexes", "nope")
    assert error.value.code == 26


def test_distinct(db):
    db.c.insert_many([
        {"a": 1}, {"a": 1.0}, {"a": [1, 2, [3], 2]}, {"a": None}, {}, {"a": {"b": 5}},
        {"a": [{"b": 6}, {"b": 5}]},
    ])
    assert db.command("distinct", "c", key="a")["values"] == [1, 2, [3], None, {"b": 5}, {"b": 6}]
    assert db.c.distinct("a.b") == [5, 6]
    assert db.c.distinct("a.0") == [1, {"b": 6}]
    assert db.c.distinct("a", {"a": {"$gt": 1}}) == [1, 2, [3]]
    assert db.missing.distinct("a") == []
    assert code_of(db, "distinct", "c") == 40414
    assert code_of(db, "distinct", "c", key=5) == 14


def test_distinct_values_of_more_than_a_reply(db):
    big = "x" * (1 << 20)
    db.big.insert_many([{"a": f"{i}{big}"} for i in range(18)])
    assert code_of(db, "distinct", "big", key="a") == 17217


def test_findandmodify_in_small_letters(db):
    db.c.insert_one({"_id": 1, "n": 1})
    reply = db.command("findandmodify", "c", query={"_id": 1}, update={"$inc": {"n": 1}}, new=True)
    assert reply["value"] == {"_id": 1, "n": 2}
    assert reply["lastErrorObject"] == {"n": 1, "updatedExisting": True}


def test_killing_sessions(client, db):
    for command, value in (
        ("killAllSessions", []),
        ("killAllSessionsByPattern", []),
        ("killSessions", [{"id": Binary(b"\1" * 16, 4)}]),
        ("refreshSessions", [{"id": Binary(b"\1" * 16, 4)}]),
        ("endSessions", [{"id": Binary(b"\1" * 16, 4)}]),
    ):
        assert client.admin.command(command, value)["ok"] == 1.0
    db.c.insert_many([{"_id": i} for i in range(10)])
    cursor = db.c.find(batch_size=2)
    next(cursor)
    client.admin.command("killAllSessions", [])
    with pytest.raises(OperationFailure) as error:
        list(cursor)
    assert error.value.code in (43, 237)
