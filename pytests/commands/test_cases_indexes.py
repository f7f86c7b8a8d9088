# SPDX-License-Identifier: GPL-3.0-or-later
"""Reported cases of indexes; each test is named by the id of its case."""

import pytest
from pymongo.errors import DuplicateKeyError, OperationFailure

from streamutil import drain


def test_ix_03_legacy_fields_of_mongorestore(db):
    spec = {"key": {"x": 1}, "name": "x_1", "unique": True, "ns": f"{db.name}.c", "oldOption": 7}
    assert db.command("createIndexes", "c", indexes=[spec],
                      ignoreUnknownIndexOptions=True)["numIndexesAfter"] == 2
    assert [dict(i) for i in db.c.list_indexes()][1] == {
        "v": 2, "key": {"x": 1}, "name": "x_1", "unique": True}
    with pytest.raises(OperationFailure) as e:
        db.command("createIndexes", "c", indexes=[{"key": {"y": 1}, "name": "y_1", "bogus": 1}])
    assert e.value.code == 197
    assert len(list(db.c.list_indexes())) == 2


def test_ix_04_unique_and_sparse(db):
    db.c.create_index("k", unique=True, sparse=True)
    for doc in ({}, {}, {"k": None}):
        db.c.insert_one(doc)
    with pytest.raises(DuplicateKeyError):
        db.c.insert_one({"k": None})
    assert db.c.count_documents({}) == 3


def test_ix_06_unique_over_members_of_arrays(db):
    db.a.create_index("d.n", unique=True)
    db.a.insert_one({"_id": 1})
    with pytest.raises(DuplicateKeyError) as e:
        db.a.insert_one({"_id": 2})
    assert e.value.details["keyValue"] == {"d.n": None}
    db.b.create_index("d.n", unique=True)
    db.b.insert_one({"d": [{"n": 1}, {"n": 1}]})
    with pytest.raises(DuplicateKeyError):
        db.b.insert_one({"d": [{"n": 1}]})


def test_ix_07_unique_over_duplicates(db):
    db.c.insert_many([{"v": 1}, {"v": 1}])
    with db.watch(show_expanded_events=True) as stream:
        with pytest.raises(OperationFailure) as e:
            db.c.create_index("v", unique=True)
        assert e.value.code == 11000 and e.value.details["keyValue"] == {"v": 1}
        assert [i["name"] for i in db.c.list_indexes()] == ["_id_"]
        db.c.insert_one({"_id": "last"})
        assert [ev["operationType"] for ev in drain(stream, 1)] == ["insert"]
