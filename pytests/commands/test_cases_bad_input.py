# SPDX-License-Identifier: GPL-3.0-or-later
"""Reported cases of bad input to commands: bi-06, bi-07, bi-10, wp-06, wp-07."""

import math

import pytest

from streamutil import error_of


def nested(levels):
    doc = {"x": 1}
    for _ in range(levels - 1):
        doc = {"x": doc}
    return doc


def test_bi_06_deep_documents(db):
    db.c.insert_one({"_id": 1, "d": nested(100)})
    assert db.c.find_one({"_id": 1})["d"] == nested(100)
    reply = db.command("insert", "c", documents=[{"_id": 2, "d": nested(185)}])
    assert reply["n"] == 0 and reply["writeErrors"][0]["code"] == 15
    e = error_of(lambda: db.command("insert", "c", documents=[{"_id": 2, "d": nested(250)}]))
    assert e.code == 15
    assert db.c.count_documents({}) == 1


@pytest.mark.parametrize("levels", [120, 190])
def test_bi_06_deep_filters_and_expressions(db, levels):
    db.c.insert_one({"_id": 1})
    query, expression = {"a": 1}, {"$add": [1, 1]}
    for _ in range(levels // 2):
        query = {"$and": [query]}
        expression = {"$add": [expression, 1]}
    for call in (
        lambda: db.command("find", "c", filter=query),
        lambda: db.command("aggregate", "c", pipeline=[{"$project": {"x": expression}}], cursor={}),
    ):
        try:
            assert call()["ok"] == 1
        except Exception as e:  # noqa: BLE001 - any clean error will do
            assert e.code > 0
    assert db.command("ping")["ok"] == 1


@pytest.mark.parametrize(
    "spec",
    [
        {"key": {}, "name": "x"},
        {"key": {"a": 0}, "name": "x"},
        {"key": {"a": "nope"}, "name": "x"},
        {"key": {"a": math.nan}, "name": "x"},
        {"key": {"a": 1}, "name": ""},
        {"key": {"a": 1}},
        {"key": {"a": 1}, "name": "x", "unique": "yes"},
        {"key": {"a": 1}, "name": "x", "expireAfterSeconds": -1},
        {"key": {"a": 1}, "name": "x", "expireAfterSeconds": 1e12},
        {"key": {"a": 1}, "name": "x", "bogus": 1},
        {"name": "x"},
        {"key": 5, "name": "x"},
    ],
    ids=lambda s: str(s)[:40],
)
def test_bi_07_malformed_index(db, spec):
    e = error_of(lambda: db.command("createIndexes", "c", indexes=[spec]))
    assert e.code in (2, 9, 14, 67, 197)
    assert db.list_collection_names() == []


def test_bi_07_number_of_indexes(db):
    assert error_of(lambda: db.command("createIndexes", "c", indexes=[])).code == 2
    specs = [{"key": {f"f{i}": 1}, "name": f"i{i}"} for i in range(65)]
    assert error_of(lambda: db.command("createIndexes", "c", indexes=specs)).code == 67
    assert db.command("createIndexes", "c", indexes=specs[:63])["numIndexesAfter"] == 64
    e = error_of(lambda: db.command("createIndexes", "c", indexes=specs[63:64]))
    assert e.code == 67
    assert len(list(db.c.list_indexes())) == 64


def test_bi_10_explain_of_other_commands(db):
    db.c.insert_one({"_id": 1, "a": 1})
    for inner in (
        {"count": "c"},
        {"find": "c", "filter": {"a": 1}},
        {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 2}}}]},
        {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
    ):
        reply = db.command("explain", inner, verbosity="queryPlanner")
        assert "winningPlan" in reply["queryPlanner"], inner
    reply = db.command("explain", {"aggregate": "c", "pipeline": [], "cursor": {}})
    assert reply["ok"] == 1 and ("queryPlanner" in reply or "stages" in reply)
    assert db.c.find_one() == {"_id": 1, "a": 1}, "nothing is written"
    assert error_of(lambda: db.command("explain", {})).code > 0
    assert error_of(lambda: db.command("explain", 5)).code > 0


def test_wp_06_commands_of_compass(client):
    admin = client.admin
    e = error_of(lambda: admin.command("atlasVersion"))
    assert e.code == 59 and e.details["errmsg"] == "no such command: 'atlasVersion'"
    fcv = admin.command("getParameter", 1, featureCompatibilityVersion=1)
    assert fcv["featureCompatibilityVersion"] == {"version": "8.0"}
    for name in ("buildInfo", "hostInfo", "connectionStatus", "top", "getCmdLineOpts"):
        assert admin.command(name)["ok"] == 1, name


def test_wp_07_server_status(client):
    status = client.admin.command("serverStatus")
    for key in ("host", "version", "process", "pid", "uptime", "localTime", "connections", "repl"):
        assert key in status, key
    assert {"current", "available"} <= set(status["connections"])
    assert status["repl"]["setName"] == "rs0"
    assert "metrics" not in client.admin.command("serverStatus", metrics=0)
    info = client.admin.command("buildInfo")
    assert info["version"] == status["version"]
    assert info["version"] == ".".join(map(str, info["versionArray"][:3]))
    assert info["versionArray"][0] == 8
    assert client.admin.command("hello")["maxWireVersion"] == 25
