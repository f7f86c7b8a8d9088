# SPDX-License-Identifier: GPL-3.0-or-later
"""DDL: create, drop, rename, collMod, indexes."""

import pytest

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


def test_database_that_differs_in_case(client, db):
    db.c.insert_one({})
    assert error_of(lambda: client[db.name.upper()].c.insert_one({})).code == 13297
