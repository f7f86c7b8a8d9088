# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts and sizes just past what the server takes, and just within it."""

import pytest
from bson import Binary, Regex

from raw import RawClient
from streamutil import error_of

MB = 1 << 20


@pytest.mark.parametrize("command, field, statement", [
    ("insert", "documents", {"a": 1}),
    ("update", "updates", {"q": {"_id": 0}, "u": {"$set": {"a": 1}}}),
    ("delete", "deletes", {"q": {"_id": 0}, "limit": 1}),
])
def test_statements_of_one_write(db, command, field, statement):
    e = error_of(lambda: db.command(command, "c", **{field: [statement] * 100001}))
    assert e.code == 16
    assert "Write batch sizes must be between 1 and 100000. Got 100001 operations" in str(e)
    assert error_of(lambda: db.command(command, "c", **{field: []})).code == 16
    assert db.c.count_documents({}) == 0
    if command != "update":
        assert db.command(command, "c", **{field: [statement] * 100000})["ok"] == 1


def test_length_of_a_namespace(db):
    name = "c" * (255 - len(db.name) - 1)
    assert error_of(lambda: db.command("create", name + "c")).code == 73
    db.create_collection(name)
    assert db.list_collection_names() == [name]


def test_fields_and_name_of_an_index(db):
    def create(fields, name):
        key = {f"f{i}": 1 for i in range(fields)}
        return db.command("createIndexes", "c", indexes=[{"key": key, "name": name}])

    assert error_of(lambda: create(33, "n")).code == 13103
    assert error_of(lambda: create(1, "n" * 256)).code == 67
    assert create(32, "n" * 255)["numIndexesAfter"] == 2


def test_stages_of_a_pipeline(db):
    db.c.insert_one({"_id": 1})
    e = error_of(lambda: list(db.c.aggregate([{"$match": {}}] * 1001)))
    assert e.code == 7749501
    assert "Pipeline length must be no longer than 1000 stages" in str(e)
    assert list(db.c.aggregate([{"$match": {}}] * 1000)) == [{"_id": 1}]


def test_length_of_a_regular_expression(db):
    db.c.insert_one({"_id": 1, "a": "x" * 40000})
    assert error_of(lambda: db.c.find_one({"a": Regex("x" * 32765)})).code in (2, 51091)
    assert db.c.find_one({"a": {"$regex": "x" * 32764}})["_id"] == 1


def test_a_pattern_that_never_ends(db):
    db.c.insert_one({"_id": 1, "a": "a" * 40 + "!"})
    e = error_of(lambda: db.c.find_one({"a": Regex("^(a|aa)+$(?<=b)c|^(a+)+$")}))
    assert e.code == 51156
    assert db.command("ping")["ok"] == 1


def test_sessions_ended_at_once(srv):
    one = {"id": Binary(bytes(16), 4)}
    with RawClient(srv.port) as raw:
        assert raw.command({"endSessions": [one] * 10000})["ok"] == 1.0
        assert raw.command({"endSessions": [one] * 10001})["ok"] == 0.0
        assert raw.ping() == 1.0


def test_values_computed_for_one_document(db):
    db.c.insert_one({"_id": 1, "x": "x" * MB})
    wide = {"$map": {"input": {"$range": [0, 1000]}, "in": {"$concat": ["$x", "$x"]}}}
    e = error_of(lambda: list(db.c.aggregate([{"$project": {"n": {"$size": wide}}}])))
    assert e.code in (146, 10334, 17419)
    e = error_of(lambda: list(db.c.aggregate([{"$project": {"n": {"$size": {"$range": [0, 2000000000]}}}}])))
    assert e.code > 0
    assert db.c.count_documents({}) == 1


def test_an_array_that_an_accumulator_holds(db):
    db.c.insert_many([{"_id": i, "x": "x" * (12 * MB)} for i in range(10)])
    for accumulator in ("$push", "$addToSet"):
        value = {"i": "$_id", "x": "$x"}
        e = error_of(lambda: list(db.c.aggregate([{"$group": {"_id": None, "a": {accumulator: value}}}])))
        assert e.code == 146, accumulator
    few = list(db.c.aggregate([{"$group": {"_id": None, "a": {"$push": "$_id"}}}]))
    assert few == [{"_id": None, "a": list(range(10))}]


def nested(levels, wrap, inner):
    for _ in range(levels):
        inner = wrap(inner)
    return inner


def test_depth_of_filters_and_expressions(db):
    """One more level than the stack is sure to hold is an error; far more as well."""
    def find(levels):
        return db.c.find_one(nested(levels, lambda q: {"$nor": [q]}, {"_id": 1}))

    def compute(levels):
        return next(db.c.aggregate([{"$project": {"x": nested(levels, lambda e: {"$abs": e}, -1)}}]))

    db.c.insert_one({"_id": 1})
    assert find(90) == {"_id": 1}
    assert compute(90) == {"_id": 1, "x": 1}
    for call in (find, compute):
        for levels in (101, 180):
            assert error_of(lambda: call(levels)).code in (2, 15, 28)  # noqa: B023


def test_a_document_with_as_many_keys_as_may_be(db):
    """Each of them leads to it; it is given once, and in a time that grows with their number."""
    db.c.create_index("l")
    db.c.insert_one({"_id": 1, "l": list(range(100000))})
    e = error_of(lambda: db.c.insert_one({"_id": 2, "l": list(range(100001))}))
    assert e.code == 10334
    assert db.command("count", "c", query={"l": {"$gte": 0}}, hint="l_1")["n"] == 1
    assert [d["_id"] for d in db.c.find({"l": {"$gte": 5}}, {"_id": 1}).sort("l", -1)] == [1]


def test_keys_that_come_while_a_scan_goes_on(db):
    """A document is given once, whether its new keys stand before or behind where the scan is."""
    db.c.create_index("l")
    db.c.insert_many([{"_id": i, "l": [i, i + 50]} for i in range(1, 41)])
    cursor = db.c.find({"l": {"$gte": 0}}, {"_id": 1}).hint("l_1").batch_size(10)
    seen = [next(cursor)["_id"] for _ in range(10)]
    db.c.update_many({"_id": {"$in": [1, 5, 35]}}, {"$set": {"l": [1, 5, 35, 38, 200]}})
    seen += [d["_id"] for d in cursor]
    assert sorted(seen) == list(range(1, 41))


@pytest.mark.parametrize("parts", [256, 5000])
def test_parts_of_a_path(db, parts):
    path = ".".join(["a"] * parts)
    db.c.insert_one({"_id": 1, "a": 1})
    for call in (
        lambda: db.command("distinct", "c", key=path),
        lambda: db.c.find_one({path: 1}),
        lambda: db.c.find_one({}, {path: 1}),
        lambda: db.c.find_one({}, {path: {"$slice": 1}}),
        lambda: db.c.find_one(sort=[(path, 1)]),
        lambda: db.c.update_one({"_id": 1}, {"$set": {path: 1}}),
        lambda: db.c.update_one({"_id": 1}, {"$unset": {path: 1}}),
        lambda: next(db.c.aggregate([{"$project": {"x": "$" + path}}])),
        lambda: next(db.c.aggregate([{"$unwind": "$" + path}])),
        lambda: next(db.c.aggregate([{"$set": {path: 1}}])),
    ):
        assert error_of(call).code in (2, 15, 28, 40352)
    assert db.c.find_one() == {"_id": 1, "a": 1}
