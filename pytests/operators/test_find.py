# SPDX-License-Identifier: GPL-3.0-or-later
"""find: filters over stored documents, projections, plans, and cursors that outlive changes."""

import re

import pytest
from bson import Int64, MaxKey, MinKey, Regex, Timestamp
from pymongo.errors import OperationFailure


def ids(cursor):
    return [d["_id"] for d in cursor]


def fails(code, call):
    with pytest.raises(OperationFailure) as e:
        call()
    assert e.value.code == code, e.value.details
    return e.value.details["errmsg"]


def plan(cursor):
    """(stage, index name, direction, bounds) of the winning plan."""
    p = cursor.explain()["queryPlanner"]["winningPlan"]
    if p["stage"] != "FETCH":
        return p["stage"], None, p.get("direction"), None
    i = p["inputStage"]
    return i["stage"], i["indexName"], i["direction"], i["indexBounds"]


@pytest.fixture
def letters(db):
    db.c.insert_many([
        {"_id": 1, "a": 1, "t": ["x", "y"], "n": [{"k": 1, "v": "p"}, {"k": 2, "v": "q"}]},
        {"_id": 2, "a": 2.0, "t": [], "n": [{"k": 3}], "s": "Hello"},
        {"_id": 3, "a": Int64(3), "t": "x", "s": "hello\nworld"},
        {"_id": 4, "a": None, "s": Regex("^h")},
        {"_id": 5, "m": MinKey(), "n": {"k": 2}},
        {"_id": 6, "a": [1, 5], "m": MaxKey()},
    ])
    return db.c


@pytest.mark.parametrize("filter_, want", [
    ({"a": 2}, [2]),
    ({"a": {"$gt": 1}}, [2, 3, 6]),
    ({"a": {"$gt": 1, "$lt": 3}}, [2, 6]),
    ({"a": {"$elemMatch": {"$gt": 1, "$lt": 3}}}, []),
    ({"a": None}, [4, 5]),
    ({"a": {"$exists": False}}, [5]),
    ({"a": {"$type": "number"}}, [1, 2, 3, 6]),
    ({"a": {"$in": [None, 3]}}, [3, 4, 5]),
    ({"a": {"$nin": [1, None]}}, [2, 3]),
    ({"a": {"$mod": [2, 1]}}, [1, 3, 6]),
    ({"t": "x"}, [1, 3]),
    ({"t": {"$size": 0}}, [2]),
    ({"t": {"$all": ["y", "x"]}}, [1]),
    ({"t": []}, [2]),
    ({"n.k": 2}, [1, 5]),
    ({"n.0.k": 2}, []),
    ({"n.1.k": 2}, [1]),
    ({"n": {"$elemMatch": {"k": 1, "v": "q"}}}, []),
    ({"n.k": 1, "n.v": "q"}, [1]),
    ({"s": Regex("^h")}, [3, 4]),
    ({"s": {"$regex": "^H", "$options": "i"}}, [2, 3]),
    ({"s": {"$regex": "^w", "$options": "m"}}, [3]),
    ({"s": {"$not": re.compile("^h", re.I)}}, [1, 4, 5, 6]),
    ({"m": {"$gt": MinKey()}}, [1, 2, 3, 4, 6]),
    ({"$or": [{"a": 1}, {"t": "x"}]}, [1, 3, 6]),
    ({"$nor": [{"a": 1}, {"t": "x"}]}, [2, 4, 5]),
    ({"$expr": {"$eq": ["$a", "$_id"]}}, [1, 2, 3]),
    ({"$comment": "hi", "_id": {"$bitsAllSet": 6}}, [6]),
])
def test_filters(letters, filter_, want):
    assert ids(letters.find(filter_).sort("_id", 1)) == want
    letters.create_index("a")
    letters.create_index("n.k")
    letters.create_index([("t", 1), ("a", -1)])
    assert sorted(ids(letters.find(filter_).batch_size(2))) == want
    assert letters.count_documents(filter_) == len(want)


@pytest.mark.parametrize("filter_, code, text", [
    ({"a": {"$bogus": 1}}, 2, "unknown operator: $bogus"),
    ({"$bogus": 1}, 2, "unknown top level operator: $bogus."),
    ({"a": {"$in": 1}}, 2, "$in needs an array"),
    ({"a": {"$regex": "("}}, 51091, "Regular expression is invalid"),
    ({"$or": []}, 2, "$and/$or/$nor must be a nonempty array"),
    ({"a": {"$regex": "a" * 40000}}, 2, "Regular expression is too long"),
    ({"$where": "true"}, 238, "$where is not supported"),
])
def test_filter_errors(letters, filter_, code, text):
    assert text in fails(code, lambda: letters.find_one(filter_))
    assert letters.find_one({"_id": 1})


def test_hostile_filters(letters):
    deep = {"a": 1}
    for _ in range(98):
        deep = {"$and": [deep]}
    assert ids(letters.find(deep).sort("_id", 1)) == [1, 6]
    for _ in range(60):
        deep = {"$and": [deep]}
    with pytest.raises(OperationFailure) as e:
        letters.find_one(deep)
    assert e.value.code in (2, 15)
    letters.insert_one({"_id": "long", "s": "a" * 60 + "b"})
    fails(51156, lambda: list(letters.find({"s": re.compile("^(a|aa)+$")})))
    fails(2, lambda: letters.find_one({".".join("a" * 300): 1}))


@pytest.mark.parametrize("projection, want", [
    ({"a": 1}, {"_id": 1, "a": 1}),
    ({"_id": 0, "n.v": 1}, {"n": [{"v": "p"}, {"v": "q"}]}),
    ({"n": 0, "t": 0}, {"_id": 1, "a": 1}),
    ({"t": {"$slice": -1}, "n": 0}, {"_id": 1, "a": 1, "t": ["y"]}),
    ({"n": {"$elemMatch": {"k": 2}}}, {"_id": 1, "n": [{"k": 2, "v": "q"}]}),
    ({"n.$": 1}, {"_id": 1, "n": [{"k": 2, "v": "q"}]}),
    ({"_id": 0, "twice": {"$multiply": ["$a", 2]}}, {"twice": 2}),
])
def test_projections(letters, projection, want):
    got = letters.find_one({"n.k": 2}, projection, sort=[("_id", 1)])
    assert got == want
    assert list(got) == list(want)


@pytest.mark.parametrize("projection, code", [
    ({"a": 1, "t": 0}, 31254),
    ({"a": 0, "t": 1}, 31253),
    ({"a": 1, "a.b": 1}, 31249),
    ({"a.b": 1, "a": 1}, 31250),
    ({"a..b": 1}, 15998),
    ({"a.$.b": 1}, 31394),
])
def test_projection_errors(letters, projection, code):
    fails(code, lambda: letters.find_one({"a": 1}, projection))


def test_plans(db):
    db.c.insert_many({"_id": i, "a": i % 10, "b": i % 7} for i in range(200))
    assert plan(db.c.find({"a": 3})) == ("COLLSCAN", None, "forward", None)
    db.c.create_index([("a", 1), ("b", -1)])
    assert plan(db.c.find({"a": 3, "b": {"$gte": 2, "$lt": 5}})) == (
        "IXSCAN", "a_1_b_-1", "forward", {"a": ["[3, 3]"], "b": ["(5, 2]"]})
    assert plan(db.c.find({"a": 3}).sort("b", 1)) == (
        "IXSCAN", "a_1_b_-1", "backward", {"a": ["[3, 3]"], "b": ["[MinKey, MaxKey]"]})
    rows = list(db.c.find({"a": 3}).sort("b", 1).batch_size(3))
    assert [r["b"] for r in rows] == sorted(r["b"] for r in rows) and len(rows) == 20
    assert plan(db.c.find({"_id": 5}))[0] == "IDHACK"
    assert plan(db.c.find({"b": 1}).hint("a_1_b_-1"))[1] == "a_1_b_-1"
    assert plan(db.c.find({"a": 3}).hint([("$natural", -1)])) == (
        "COLLSCAN", None, "backward", None)
    assert plan(db.none.find({"a": 1}))[0] == "EOF"
    assert "hint provided does not correspond to an existing index" in fails(
        2, lambda: list(db.c.find({}).hint("nope")))
    assert ids(db.c.find().hint([("_id", 1)]).min([("_id", 5)]).max([("_id", 8)])) == [5, 6, 7]
    # an array ends what only holds for one key a document
    db.c.insert_one({"_id": "array", "a": [2, 4], "b": 9})
    assert "array" in ids(db.c.find({"a": {"$gt": 3, "$lt": 3}}))
    assert ids(db.c.find({"a": {"$gte": 2, "$lte": 4}, "b": 9})) == ["array"]


def test_cursors_over_changes(db):
    db.c.insert_many({"_id": i, "a": i} for i in range(20))
    db.c.create_index("a")
    for query in ({}, {"a": {"$gte": 0}}):
        cursor = db.c.find(query).batch_size(5)
        first = [next(cursor)["_id"] for _ in range(5)]
        assert first == [0, 1, 2, 3, 4]
        db.c.delete_many({"_id": {"$in": [4, 5, 6]}})
        db.c.insert_one({"_id": 100, "a": 100})
        assert ids(cursor) == [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 100]
        db.c.delete_one({"_id": 100})
        db.c.insert_many({"_id": i, "a": i} for i in (4, 5, 6))
        db.c.delete_many({"_id": {"$gt": 6}})
        db.c.insert_many({"_id": i, "a": i} for i in range(7, 20))
    cursor = db.c.find({"a": {"$gte": 0}}).batch_size(2)
    next(cursor)
    db.c.drop_index("a_1")
    fails(175, lambda: list(cursor))
    cursor = db.c.find().batch_size(2)
    next(cursor)
    db.c.drop()
    assert "collection dropped" in fails(175, lambda: list(cursor))


def test_an_index_becomes_multikey_under_a_scan(db):
    """What has not been given is, also when its first key now lies behind the scan."""
    db.c.insert_many([{"_id": i, "a": i} for i in range(40)])
    db.c.create_index("a")
    cursor = db.c.find({"a": {"$gte": 0}}).hint("a_1").batch_size(10)
    got = [next(cursor)["_id"] for _ in range(10)]
    db.c.update_one({"_id": 30}, {"$set": {"a": [0, 35]}})
    got += [d["_id"] for d in cursor]
    assert sorted(got) == list(range(40))


def test_oplog_is_sought_by_ts(db, client):
    db.c.insert_many({"_id": i} for i in range(5))
    oplog = client.local["oplog.rs"]
    entries = list(oplog.find({"ns": f"{db.name}.c", "op": "i"}))
    ts = entries[2]["ts"]
    explained = oplog.find({"ts": {"$gt": ts}}).explain()["queryPlanner"]["winningPlan"]
    assert explained["stage"] == "COLLSCAN"
    assert explained["minRecord"] == Timestamp(ts.time, ts.inc + 1)
    backward = oplog.find({"ts": {"$lt": ts}, "ns": f"{db.name}.c", "op": "i"}).sort("ts", -1)
    assert [e["o"]["_id"] for e in backward] == [1, 0]


def test_keys_as_long_as_a_document(db):
    long = 2 * 1024 * 1024
    db.c.create_index("a")
    for letter in "bac":
        db.c.insert_one({"_id": letter * long, "a": "\0" * long})
    fails(11000, lambda: db.c.insert_one({"_id": "a" * long}))
    assert [d["_id"][0] for d in db.c.find({}, {"_id": 1}).sort("_id")] == ["a", "b", "c"]
    assert db.c.count_documents({"a": "\0" * long}, hint="a_1") == 3
    assert db.command("validate", "c")["valid"]
    db.c.delete_many({"_id": {"$gte": "b"}})
    assert db.c.count_documents({}, hint="_id_") == 1
