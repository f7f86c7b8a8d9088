# SPDX-License-Identifier: GPL-3.0-or-later
"""DDL and listing: create, drop, rename, collMod, indexes; distinct; old spellings."""

import pytest
from bson import Int64

from streamutil import drain, error_of, kinds


def names(db):
    return sorted(db.list_collection_names())


def test_create_is_repeatable_and_checked(db):
    db.command("create", "c")
    assert db.command("create", "c")["ok"] == 1, "the same options: nothing to do"
    e = error_of(lambda: db.command("create", "c", changeStreamPreAndPostImages={"enabled": True}))
    assert e.code == 48
    for options, code in (
        ({"capped": True, "size": 1000}, 238),
        ({"size": 1000}, 72),
        ({"viewOn": "c", "pipeline": []}, 238),
        ({"validator": {}}, 238),
        ({"collation": {"locale": "de"}}, 238),
        ({"timeseries": {"timeField": "t"}}, 238),
        ({"bogus": 1}, 40415),
        ({"changeStreamPreAndPostImages": {"enabled": 1}}, 14),
        ({"changeStreamPreAndPostImages": {"bogus": True, "enabled": True}}, 40415),
    ):
        assert error_of(lambda: db.command("create", "d", **options)).code == code, options
    assert names(db) == ["c"]


@pytest.mark.parametrize("bad", ["", ".x", "a$b", "x" * 250])
def test_names_out_of_bounds(db, bad):
    assert error_of(lambda: db.command("create", bad)).code == 73
    assert error_of(lambda: db.command("insert", bad, documents=[{}])).code == 73


def test_images_only_on_user_databases(client):
    for name in ("admin", "config", "local"):
        e = error_of(
            lambda: client[name].command("create", "x", changeStreamPreAndPostImages={"enabled": True})
        )
        assert e.code == 72


def test_drop(db):
    db.c.insert_one({})
    db.c.create_index("a")
    reply = db.command("drop", "c")
    assert reply["nIndexesWas"] == 2 and reply["ns"] == db.c.full_name
    assert db.command("drop", "c")["ok"] == 1, "dropping nothing is no error"


def test_drop_under_an_open_cursor(db):
    db.c.insert_many([{"_id": i} for i in range(300)])
    cursor = db.c.find(batch_size=10)
    cursor.next()
    db.c.drop()
    e = error_of(lambda: list(cursor))
    assert e.code == 175


def test_rename(client, db):
    db.a.insert_one({"_id": 1})
    db.b.insert_one({"_id": 2})
    assert error_of(lambda: db.a.rename("b")).code == 48
    assert error_of(lambda: db.missing.rename("x")).code == 26
    assert error_of(lambda: db.a.rename("a")).code == 20
    db.a.rename("b", dropTarget=True)
    assert names(db) == ["b"] and list(db.b.find()) == [{"_id": 1}]
    assert error_of(lambda: client.admin.command("renameCollection", "x", to="y")).code == 73


def test_rename_across_databases(client, db):
    other = client[db.name + "_2"]
    db.a.insert_many([{"_id": i, "k": i % 7} for i in range(2500)])
    db.a.create_index("k", name="by_k")
    with db.watch() as source, other.watch() as target:
        client.admin.command("renameCollection", db.a.full_name, to=other.b.full_name)
        assert kinds(drain(source, 1)) == ["drop"]
        assert kinds(drain(target))[-1] == "rename"
    assert names(db) == [] and names(other) == ["b"]
    assert other.b.count_documents({}) == 2500
    assert [i["name"] for i in other.b.list_indexes()] == ["_id_", "by_k"]
    assert other.b.count_documents({"k": 3}, hint="by_k") == len(range(3, 2500, 7))
    client.drop_database(other.name)


def test_coll_mod(db):
    db.c.create_index("a")
    reply = db.command("collMod", "c", index={"name": "a_1", "hidden": True})
    assert reply["hidden_old"] is False and reply["hidden_new"] is True
    assert db.c.index_information()["a_1"]["hidden"] is True
    for arguments, code in (
        ({"index": {"name": "a_1"}}, 72),
        ({"index": {"name": "no", "hidden": True}}, 27),
        ({"index": {"keyPattern": {"a": 1}, "name": "a_1", "hidden": True}}, 72),
        ({"index": {"name": "a_1", "expireAfterSeconds": 5}}, 238),
        ({"validator": {}}, 238),
        ({"bogus": 1}, 40415),
    ):
        assert error_of(lambda: db.command("collMod", "c", **arguments)).code == code, arguments
    assert error_of(lambda: db.command("collMod", "missing")).code == 26


def test_create_indexes(db):
    reply = db.command("createIndexes", "c", indexes=[{"key": {"a": 1}, "name": "a_1"}])
    assert (reply["numIndexesBefore"], reply["numIndexesAfter"]) == (1, 2)
    assert reply["createdCollectionAutomatically"] is True
    again = db.command("createIndexes", "c", indexes=[{"key": {"a": 1}, "name": "a_1"}])
    assert again["numIndexesBefore"] == again["numIndexesAfter"] == 2
    assert again["note"] == "all indexes already exist"
    same = {"key": {"a": 1}, "name": "other"}
    assert error_of(lambda: db.command("createIndexes", "c", indexes=[same])).code == 85
    same = {"key": {"b": 1}, "name": "a_1"}
    assert error_of(lambda: db.command("createIndexes", "c", indexes=[same])).code == 86
    legacy = {"key": {"n": 1}, "name": "n_1", "unique": True, "ns": db.c.full_name, "bogus": 1}
    db.command("createIndexes", "c", indexes=[legacy], ignoreUnknownIndexOptions=True)
    spec = db.command("listIndexes", "c")["cursor"]["firstBatch"][2]
    assert spec == {"v": 2, "key": {"n": 1}, "name": "n_1", "unique": True}


def test_background_is_listed_as_asked(db):
    db.c.create_index("a", background=True)
    db.c.create_index("b", background=False)
    db.c.create_index("c")
    listed = db.c.index_information()
    assert listed["a_1"]["background"] is True and listed["b_1"]["background"] is False
    assert "background" not in listed["c_1"]
    assert db.c.create_index("a") == "a_1", "it makes no other index"


def test_unique_index_over_duplicates(db):
    db.c.insert_many([{"_id": 1, "v": 1}, {"_id": 2, "v": 1}])
    with db.watch(show_expanded_events=True) as s:
        e = error_of(lambda: db.c.create_index("v", unique=True))
        assert e.code == 11000 and "dup key: { v: 1 }" in e.details["errmsg"]
        db.c.insert_one({"_id": 3})
        assert kinds(drain(s)) == ["insert"]
    assert list(db.c.index_information()) == ["_id_"]


def test_unique_index_is_kept(db):
    db.c.create_index([("a", 1), ("b", -1)], unique=True)
    db.c.insert_one({"_id": 1, "a": 1, "b": 2})
    e = error_of(lambda: db.c.insert_one({"_id": 2, "a": 1.0, "b": 2}))
    assert e.code == 11000
    assert e.details["keyPattern"] == {"a": 1, "b": -1} and e.details["keyValue"] == {"a": 1.0, "b": 2}
    assert db.c.count_documents({}) == 1
    db.c.insert_one({"_id": 2, "a": 1, "b": 3})
    assert error_of(lambda: db.c.update_one({"_id": 2}, {"$set": {"b": 2}})).code == 11000
    assert db.c.find_one({"_id": 2})["b"] == 3


def test_drop_indexes(db):
    for key in ("a", "b", "c", "d"):
        db.c.create_index(key)
    assert db.command("dropIndexes", "c", index="a_1")["nIndexesWas"] == 5
    db.command("dropIndexes", "c", index={"b": 1})
    assert error_of(lambda: db.command("dropIndexes", "c", index="nope")).code == 27
    assert error_of(lambda: db.command("dropIndexes", "c", index="_id_")).code == 72
    assert error_of(lambda: db.command("dropIndexes", "missing", index="*")).code == 26
    db.command("dropIndexes", "c", index=["c_1"])
    db.command("dropIndexes", "c", index="*")
    assert list(db.c.index_information()) == ["_id_"]


def test_list_collections(db):
    db.create_collection("a", changeStreamPreAndPostImages={"enabled": True})
    db.create_collection("b")
    reply = db.command("listCollections")
    assert reply["cursor"]["ns"] == f"{db.name}.$cmd.listCollections" and reply["cursor"]["id"] == 0
    a, b = sorted(reply["cursor"]["firstBatch"], key=lambda c: c["name"])
    assert list(a) == ["name", "type", "options", "info", "idIndex"]
    assert a["options"] == {"changeStreamPreAndPostImages": {"enabled": True}}
    assert b["options"] == {} and b["info"]["readOnly"] is False and b["info"]["uuid"].subtype == 4
    assert b["idIndex"] == {"v": 2, "key": {"_id": 1}, "name": "_id_"}
    only = db.command("listCollections", nameOnly=True, filter={"name": "b"})
    assert only["cursor"]["firstBatch"] == [{"name": "b", "type": "collection"}]
    first = db.command("listCollections", cursor={"batchSize": 1})
    assert len(first["cursor"]["firstBatch"]) == 1 and first["cursor"]["id"] != 0


def test_list_databases(client, db):
    db.c.insert_one({})
    reply = client.admin.command("listDatabases")
    listed = {d["name"]: d for d in reply["databases"]}
    assert {"admin", "config", "local", db.name} <= set(listed)
    assert type(listed[db.name]["sizeOnDisk"]) is Int64 and listed[db.name]["empty"] is False
    assert list(reply)[:3] == ["databases", "totalSize", "totalSizeMb"]
    only = client.admin.command("listDatabases", nameOnly=True, filter={"name": db.name})
    assert only["databases"] == [{"name": db.name}]
    assert error_of(lambda: db.command("listDatabases")).code == 13


def test_list_indexes(db):
    assert error_of(lambda: db.command("listIndexes", "missing")).code == 26
    db.c.create_index([("a", 1), ("b", -1)], unique=True, sparse=True)
    reply = db.command("listIndexes", "c")
    assert reply["cursor"]["ns"] == db.c.full_name
    assert reply["cursor"]["firstBatch"] == [
        {"v": 2, "key": {"_id": 1}, "name": "_id_"},
        {"v": 2, "key": {"a": 1, "b": -1}, "name": "a_1_b_-1", "unique": True, "sparse": True},
    ]


def test_database_that_differs_in_case(client, db):
    db.c.insert_one({})
    assert error_of(lambda: client[db.name.upper()].c.insert_one({})).code == 13297


def test_distinct(db):
    db.c.insert_many(
        [{"a": 1}, {"a": 1.0}, {"a": [1, 2, [3]]}, {"a": None}, {}, {"a": {"b": 5}}, {"a": [{"b": 6}, {"b": 5}]}]
    )
    assert db.c.distinct("a") == [1, 2, [3], None, {"b": 5}, {"b": 6}]
    assert db.c.distinct("a.b") == [5, 6]
    assert db.c.distinct("a", {"a": 2}) == [1, 2, [3]]
    assert db.c.distinct("a.0") == [1, {"b": 6}]
    assert db.missing.distinct("a") == []
    assert error_of(lambda: db.command("distinct", "c")).code == 40414
    big = "x" * (1 << 20)
    db.big.insert_many([{"a": f"{i}{big}"} for i in range(18)])
    assert error_of(lambda: db.big.distinct("a")).code == 17217


def test_old_spellings(db):
    db.c.insert_one({"_id": 1})
    reply = db.command("findandmodify", "c", query={"_id": 1}, update={"$set": {"a": 1}})
    assert reply["value"] == {"_id": 1}


def test_sessions_are_killed(client):
    assert client.admin.command("killAllSessions", [])["ok"] == 1
    assert client.admin.command("killAllSessionsByPattern", [])["ok"] == 1
