# SPDX-License-Identifier: GPL-3.0-or-later
"""Pipelines and expressions as a client sees them, over stored documents."""

import datetime

import pymongo
import pytest
from bson import Decimal128, Int64, ObjectId, Regex, Timestamp
from pymongo.errors import OperationFailure


def rows(coll, *stages, **options):
    return list(coll.aggregate(list(stages), **options))


def value(db, expression, doc=None):
    """What an expression gives for one document; None also when it gives nothing."""
    db.one.delete_many({})
    db.one.insert_one({"_id": 0, **(doc or {})})
    return rows(db.one, {"$project": {"_id": 0, "x": expression}})[0].get("x")


def refused(code, coll, *stages, **options):
    with pytest.raises(OperationFailure) as e:
        rows(coll, *stages, **options)
    assert e.value.code == code, e.value.details
    return e.value.details["errmsg"]


def test_ag_01_min_passes_over_null(db):
    ends = {"lo": {"$min": "$s"}, "hi": {"$max": "$s"}, "avg": {"$avg": "$s"}}
    group = {"$group": {"_id": None, **ends}}
    db.c.insert_many([{"s": 100}, {"s": 65}, {"s": None}, {}])
    assert rows(db.c, group) == [{"_id": None, "lo": 65, "hi": 100, "avg": 82.5}]
    nothing = [{"_id": None, "lo": None, "hi": None, "avg": None}]
    assert rows(db.c, {"$match": {"s": None}}, group) == nothing


def test_ag_03_push_after_sort_keeps_the_order(db):
    db.c.insert_many([{"_id": i, "c": i % 3} for i in range(10)])
    got = rows(db.c, {"$sort": {"_id": -1}}, {"$group": {"_id": "$c", "ids": {"$push": "$_id"}}})
    assert {g["_id"]: g["ids"] for g in got} == {0: [9, 6, 3, 0], 1: [7, 4, 1], 2: [8, 5, 2]}


def test_ag_06_a_document_as_group_id_is_an_expression(db):
    db.c.insert_one({"_id": 1})
    project = {"$project": {"_id": 0, "g": "$_id.f"}}
    assert rows(db.c, {"$group": {"_id": {"f": "$_id"}}}, project) == [{"g": 1}]


def test_ag_07_sums_of_nested_expressions(db):
    doc = {"b": 100, "v": [{"u": 5}, {"u": 15}]}
    big = {"$cond": [{"$gt": ["$$i.u", 9]}, "$$i.u", 0]}
    assert value(db, {"$sum": ["$b", {"$arrayElemAt": ["$v.u", -1]}]}, doc) == 115
    assert value(db, {"$sum": {"$map": {"input": "$v", "as": "i", "in": big}}}, doc) == 15


def test_ag_09_unwind(db):
    arrays = [{"_id": 1, "a": 5}, {"_id": 2, "a": []}, {"_id": 5, "a": [1, 2]}]
    db.c.insert_many([*arrays[:2], {"_id": 3, "a": None}, {"_id": 4}, arrays[2]])
    assert [r["a"] for r in rows(db.c, {"$unwind": "$a"})] == [5, 1, 2]
    long = {"path": "$a", "preserveNullAndEmptyArrays": True, "includeArrayIndex": "i"}
    got = rows(db.c, {"$unwind": long})
    assert [(r["_id"], r["i"]) for r in got] == [(1, None), (2, None), (3, None), (4, None), (5, 0), (5, 1)]
    assert isinstance(got[5]["i"], Int64) and "a" not in got[1] and got[2]["a"] is None


def test_bi_04_names_with_dots_are_reached_by_get_field(db):
    db.c.insert_one({"_id": 1, "a.b": 1})
    assert db.c.find_one({"$expr": {"$eq": [{"$getField": "a.b"}, 1]}}) == {"_id": 1, "a.b": 1}
    assert db.c.find_one({"a.b": 1}) is None


def test_bi_06_deep_expressions_are_refused(db):
    db.c.insert_one({"v": -1})
    deep = "$v"
    for _ in range(80):
        deep = {"$abs": deep}
    assert rows(db.c, {"$project": {"_id": 0, "x": deep}}) == [{"x": 1}]
    for _ in range(40):
        deep = {"$abs": deep}
    assert "nested deeper" in refused(15, db.c, {"$project": {"x": deep}})
    nested = 1
    for _ in range(120):
        nested = {"a": nested}
    refused(15, db.c, {"$replaceWith": {"x": nested}})
    assert db.command("ping")["ok"] == 1


def test_errors_carry_their_codes(db):
    db.c.insert_one({"_id": 0, "s": "x"})
    assert "Unrecognized pipeline stage name: '$nope'" in refused(40324, db.c, {"$nope": 1})
    assert "Unrecognized expression '$nope'" in refused(168, db.c, {"$project": {"x": {"$nope": 1}}})
    refused(238, db.c, {"$lookup": {}})
    refused(17276, db.c, {"$project": {"x": "$$nope"}})
    refused(16020, db.c, {"$project": {"x": {"$abs": [1, 2]}}})
    refused(14, db.c, {"$project": {"x": {"$add": ["$s", 1]}}})
    refused(2, db.c, {"$project": {"x": {"$divide": [1, "$_id"]}}})
    hour = {"$hour": {"date": "$$NOW", "timezone": "No/Where"}}
    refused(40485, db.c, {"$project": {"x": hour}})


def test_command_variables(db):
    db.c.insert_many([{"_id": i} for i in range(5)])
    let = {"least": {"$add": [1, 1]}}
    match = {"$match": {"$expr": {"$gt": ["$_id", "$$least"]}}}
    assert rows(db.c, match, {"$count": "n"}, let=let) == [{"n": 2}]
    assert rows(db.c, {"$limit": 1}, {"$set": {"x": "$$least"}}, let=let) == [{"_id": 0, "x": 2}]
    refused(4890500, db.c, {"$limit": 1}, let={"x": "$a"})


def test_system_variables(db):
    db.c.insert_one({"_id": 0, "a": {"b": 1}})
    names = {"now": "$$NOW", "time": "$$CLUSTER_TIME", "root": "$$ROOT", "gone": "$$REMOVE"}
    got = rows(db.c, {"$project": names})[0]
    assert abs(got["now"] - datetime.datetime.utcnow()) < datetime.timedelta(minutes=1)
    assert isinstance(got["time"], Timestamp) and got["time"].time > 0
    assert got["root"] == {"_id": 0, "a": {"b": 1}} and "gone" not in got


def test_value_types(db):
    assert type(value(db, {"$add": [1, Int64(1)]})) is Int64
    assert type(value(db, {"$multiply": [2**30, 4]})) is Int64
    assert value(db, {"$add": [Decimal128("0.1"), 1]}) == Decimal128("1.1")
    assert type(value(db, {"$divide": [4, 2]})) is float
    oid = "0123456789abcdef01234567"
    assert value(db, {"$toObjectId": oid}) == ObjectId(oid)
    found = value(db, {"$regexFind": {"input": "caf\u00e9 42", "regex": Regex("\\d+")}})
    assert found == {"match": "42", "idx": 5, "captures": []}
    when = {"d": datetime.datetime(2024, 3, 31, 0, 30)}
    text = {"$dateToString": {"date": "$d", "timezone": "Europe/Paris"}}
    assert value(db, text, when) == "2024-03-31T01:30:00.000"


def test_rows_come_in_batches_of_any_size(db):
    db.c.insert_many([{"_id": i, "k": (i * 37) % 1000, "a": [i, i]} for i in range(1000)])
    for size in (1, 7, 1000):
        got = rows(db.c, {"$sort": {"k": 1}}, {"$unwind": "$a"}, {"$skip": 5}, batchSize=size)
        assert len(got) == 1995 and [g["k"] for g in got[1:5]] == [3, 3, 4, 4]
        got = rows(db.c, {"$group": {"_id": "$k"}}, batchSize=size)
        assert sorted(g["_id"] for g in got) == list(range(1000))


def test_find_sorts_with_skip_and_limit(db):
    db.c.insert_many([{"_id": i, "k": (i * 37) % 100} for i in range(100)])
    assert [d["k"] for d in db.c.find().sort("k", -1).skip(3).limit(4)] == [96, 95, 94, 93]
    assert [d["k"] for d in db.c.find({"k": {"$lt": 5}}).sort("k", 1)] == [0, 1, 2, 3, 4]


def test_blocking_stages_spill_to_disk(disk_srv):
    with pymongo.MongoClient(disk_srv.uri) as client:
        coll, n, pad = client.t.c, 120, "x" * 1_000_000
        for i in range(n):
            coll.insert_one({"_id": i, "k": (i * 37) % n, "pad": pad})
        assert [d["k"] for d in rows(coll, {"$sort": {"k": 1}}, allowDiskUse=True)] == list(range(n))
        refused(292, coll, {"$sort": {"k": 1}}, allowDiskUse=False)
        assert len(rows(coll, {"$sort": {"k": 1}}, {"$limit": 3}, allowDiskUse=False)) == 3
        group = {"$group": {"_id": "$k", "p": {"$first": "$pad"}}}
        got = rows(coll, group, {"$set": {"n": {"$strLenBytes": "$p"}}}, allowDiskUse=True)
        assert sorted((g["_id"], g["n"]) for g in got) == [(i, len(pad)) for i in range(n)]
