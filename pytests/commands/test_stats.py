# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes and soundness: collStats, dbStats, dataSize, $collStats, validate."""

import bson
import pytest
from bson.int64 import Int64
from pymongo.errors import OperationFailure

DOCUMENTS = [{"_id": i, "s": "x" * 100} for i in range(10)]
BYTES = sum(len(bson.encode(d)) for d in DOCUMENTS)


@pytest.fixture
def filled(db):
    db.c.insert_many(DOCUMENTS)
    return db


@pytest.mark.parametrize("name", ["collStats", "collstats"])
def test_coll_stats(filled, name):
    stats = filled.command(name, "c")
    assert list(stats)[:18] == [
        "ns",
        "size",
        "count",
        "avgObjSize",
        "numOrphanDocs",
        "storageSize",
        "freeStorageSize",
        "capped",
        "wiredTiger",
        "nindexes",
        "indexDetails",
        "indexBuilds",
        "totalIndexSize",
        "totalSize",
        "indexSizes",
        "scaleFactor",
        "ok",
        "$clusterTime",
    ]
    assert stats["ns"] == f"{filled.name}.c"
    assert (stats["size"], stats["count"]) == (BYTES, 10)
    assert stats["avgObjSize"] == BYTES // 10
    assert stats["capped"] is False
    assert stats["nindexes"] == 1
    assert list(stats["indexSizes"]) == ["_id_"]
    assert stats["totalSize"] == stats["storageSize"] + stats["totalIndexSize"]
    assert stats["scaleFactor"] == 1


def test_coll_stats_scale(filled):
    assert filled.command("collStats", "c", scale=100)["size"] == BYTES // 100
    for bad in (0, -1):
        with pytest.raises(OperationFailure):
            filled.command("collStats", "c", scale=bad)


def test_coll_stats_of_nothing(db):
    stats = db.command("collStats", "nope")
    assert (stats["size"], stats["count"], stats["nindexes"]) == (0, 0, 0)
    assert stats["indexSizes"] == {}
    assert "avgObjSize" not in stats


def test_coll_stats_follow_deletes(filled):
    filled.c.delete_many({"_id": {"$gte": 5}})
    assert filled.command("collStats", "c")["count"] == 5


@pytest.mark.parametrize("name", ["dbStats", "dbstats"])
def test_db_stats(filled, name):
    filled.other.insert_one({"_id": 1})
    stats = filled.command(name)
    assert list(stats)[:14] == [
        "db",
        "collections",
        "views",
        "objects",
        "avgObjSize",
        "dataSize",
        "storageSize",
        "indexes",
        "indexSize",
        "totalSize",
        "scaleFactor",
        "ok",
        "$clusterTime",
        "operationTime",
    ]
    assert stats["db"] == filled.name
    assert (stats["collections"], stats["views"], stats["objects"]) == (2, 0, 11)
    assert type(stats["collections"]) is Int64
    size = BYTES + len(bson.encode({"_id": 1}))
    assert type(stats["dataSize"]) is float
    assert stats["dataSize"] == size
    assert stats["avgObjSize"] == size / 11
    assert stats["indexes"] == 2
    assert filled.command("dbStats", scale=1024)["dataSize"] == size / 1024
    assert "freeStorageSize" in filled.command("dbStats", freeStorage=1)


def test_db_stats_of_nothing(db):
    stats = db.command("dbStats")
    assert (stats["collections"], stats["objects"], stats["dataSize"]) == (0, 0, 0)


def test_db_stats_of_local_counts_the_oplog(client):
    assert client.local.command("dbStats")["objects"] >= 1


def test_data_size(filled):
    answer = filled.command("dataSize", f"{filled.name}.c")
    assert (answer["size"], answer["numObjects"], answer["estimate"]) == (BYTES, 10, False)
    assert filled.command("dataSize", f"{filled.name}.nope")["numObjects"] == 0
    for bad, code in (("nodot", 73), (5, 14)):
        with pytest.raises(OperationFailure) as error:
            filled.command("dataSize", bad)
        assert error.value.code == code


def test_coll_stats_stage(filled, srv):
    (row,) = filled.c.aggregate(
        [{"$collStats": {"latencyStats": {}, "storageStats": {}, "count": {}}}]
    )
    assert list(row) == ["ns", "host", "localTime", "latencyStats", "storageStats", "count"]
    assert row["ns"] == f"{filled.name}.c"
    assert row["host"] == f"127.0.0.1:{srv.port}"
    assert row["count"] == 10
    assert row["storageStats"]["size"] == BYTES
    assert "ns" not in row["storageStats"]
    assert row["latencyStats"]["writes"]["ops"] == 1
    assert row["latencyStats"]["writes"]["latency"] > 0
    assert list(row["latencyStats"]) == ["reads", "writes", "commands", "transactions"]


@pytest.mark.parametrize(
    "spec, code",
    [(5, 5447000), ({"nope": {}}, 40415), ({"count": 5}, 14), ({"storageStats": {"scale": 0}}, 51024)],
)
def test_coll_stats_stage_errors(filled, spec, code):
    with pytest.raises(OperationFailure) as error:
        list(filled.c.aggregate([{"$collStats": spec}]))
    assert error.value.code == code


def test_geo_near_is_refused(filled):
    with pytest.raises(OperationFailure) as error:
        list(filled.c.aggregate([{"$geoNear": {"near": [0, 0], "distanceField": "d"}}]))
    assert error.value.code == 238


def test_coll_stats_stage_of_nothing(db):
    with pytest.raises(OperationFailure) as error:
        list(db.nope.aggregate([{"$collStats": {"storageStats": {}}}]))
    assert error.value.code == 26


def test_coll_stats_of_the_oplog(client):
    (row,) = client.local["oplog.rs"].aggregate([{"$collStats": {"storageStats": {}}}])
    stats = row["storageStats"]
    assert stats["capped"] is True
    assert stats["maxSize"] == 1024 * 1024 * 1024
    assert stats["max"] == 0
    assert stats["count"] >= 1


def test_validate(filled):
    filled.c.create_index("s")
    answer = filled.command("validate", "c")
    assert answer["ns"] == f"{filled.name}.c"
    assert answer["valid"] is True
    assert answer["errors"] == [] and answer["warnings"] == []
    assert (answer["nrecords"], answer["nIndexes"], answer["nInvalidDocuments"]) == (10, 2, 0)
    assert answer["keysPerIndex"] == {"_id_": 10, "s_1": 10}
    assert answer["indexDetails"]["s_1"]["valid"] is True
    assert type(answer["nrecords"]) is Int64
    assert filled.validate_collection("c", full=True)["valid"] is True


def test_validate_errors(filled):
    for name, fields, code in (
        ("nope", {}, 26),
        ("c", {"full": True, "background": True}, 72),
        ("c", {"repair": True}, 238),
        ("c", {"nope": 1}, 40415),
        (5, {}, 73),
    ):
        with pytest.raises(OperationFailure) as error:
            filled.command("validate", name, **fields)
        assert error.value.code == code
