# SPDX-License-Identifier: GPL-3.0-or-later
"""The Stable API: apiVersion, apiStrict, apiDeprecationErrors."""

import uuid

import pytest
from bson import Binary, Int64

SERVER_OPTIONS = dict(test_commands=True)

V1 = {"apiVersion": "1"}
STRICT = {"apiVersion": "1", "apiStrict": True}
DEPRECATION = {"apiVersion": "1", "apiDeprecationErrors": True}


def told(reply):
    return reply.get("code"), reply.get("codeName")


@pytest.mark.parametrize("fields, code, name", [
    ({}, None, None), (V1, None, None), (STRICT, None, None),
    ({**V1, "apiStrict": False, "apiDeprecationErrors": False}, None, None),
    ({"apiVersion": "2"}, 322, "APIVersionError"), ({"apiVersion": ""}, 322, "APIVersionError"),
    ({"apiVersion": 1}, 14, "TypeMismatch"), ({**V1, "apiStrict": 1}, 14, "TypeMismatch"),
    ({"apiStrict": True}, 72, "InvalidOptions"), ({"apiStrict": False}, 72, "InvalidOptions"),
    ({"apiDeprecationErrors": True}, 72, "InvalidOptions"),
])
def test_fields(raw, fields, code, name):
    assert told(raw.command({"ping": 1, **fields})) == (code, name)


IN_V1 = {
    "aggregate": {"pipeline": [], "cursor": {}}, "count": {}, "find": {}, "listIndexes": {},
    "insert": {"documents": [{}]}, "delete": {"deletes": [{"q": {}, "limit": 1}]},
    "update": {"updates": [{"q": {}, "u": {"$set": {"a": 1}}}]},
    "findAndModify": {"remove": True}, "create": {}, "drop": {},
}


@pytest.mark.parametrize("name", IN_V1)
def test_commands_inside(raw, db, name):
    db.create_collection("d")
    coll = "c" if name == "create" else "d"
    assert raw.command({name: coll, **IN_V1[name], **STRICT}, db.name)["ok"] == 1


@pytest.mark.parametrize("name", ["distinct", "buildInfo", "getParameter", "isMaster",
                                  "serverStatus", "validate", "renameCollection"])
def test_commands_outside(raw, name):
    reply = raw.command({name: 1, **STRICT})
    assert told(reply) == (323, "APIStrictError")
    assert f"command {name} is not in API Version 1" in reply["errmsg"]
    assert raw.command({name: 1, **V1}).get("code") != 323


@pytest.mark.parametrize("stage", [
    {"$indexStats": {}}, {"$currentOp": {}}, {"$listLocalSessions": {}}, {"$listSessions": {}},
    {"$planCacheStats": {}}, {"$collStats": {"latencyStats": {}}}, {"$search": {}},
])
def test_stages_outside(raw, db, stage):
    command = {"aggregate": "c", "pipeline": [stage], "cursor": {}}
    assert told(raw.command({**command, **STRICT}, db.name)) == (323, "APIStrictError")
    assert raw.command({**command, **V1}, db.name).get("code") != 323


def test_stages_inside(raw, db):
    db.c.insert_one({})
    for stage in ({"$collStats": {"count": {}}}, {"$match": {}}, {"$changeStream": {}}):
        command = {"aggregate": "c", "pipeline": [stage], "cursor": {}, **STRICT}
        assert raw.command(command, db.name)["ok"] == 1, stage


@pytest.mark.parametrize("command, field", [
    ({"find": "c", "tailable": True}, "find.tailable"),
    ({"find": "c", "returnKey": True}, "find.returnKey"),
    ({"find": "c", "min": {"_id": 1}}, "find.min"),
    ({"create": "c", "capped": True, "size": 1000}, "create.capped"),
    ({"aggregate": "c", "pipeline": [], "explain": True}, "aggregate.explain"),
])
def test_fields_outside(raw, db, command, field):
    reply = raw.command({**command, **STRICT}, db.name)
    assert told(reply) == (323, "APIStrictError")
    assert reply["errmsg"] == f"BSON field '{field}' is not allowed with apiStrict:true."


def test_test_commands(raw):
    assert raw.command({"testDeprecation": 1, **STRICT})["ok"] == 1
    reply = raw.command({"testDeprecation": 1, **DEPRECATION})
    assert told(reply) == (324, "APIDeprecationError")
    assert "command testDeprecation is deprecated in API Version 1" in reply["errmsg"]
    assert raw.command({"testVersion2": 1, **V1})["ok"] == 1
    assert told(raw.command({"testVersion2": 1, **STRICT})) == (323, "APIStrictError")
    assert raw.command({"testRemoval": 1, **STRICT})["ok"] == 1


def test_version_2_is_there_on_request(client, raw):
    strict = {"apiVersion": "2", "apiStrict": True}
    client.admin.command("setParameter", 1, acceptApiVersion2=True)
    try:
        assert client.admin.command("getParameter", 1, acceptApiVersion2=1)["acceptApiVersion2"]
        assert raw.command({"testVersion2": 1, **strict})["ok"] == 1
        assert raw.command({"testVersions1And2": 1, **strict})["ok"] == 1
        assert told(raw.command({"testRemoval": 1, **strict})) == (323, "APIStrictError")
        reply = raw.command({"testDeprecationInVersion2": 1, "apiVersion": "2",
                             "apiDeprecationErrors": True})
        assert told(reply) == (324, "APIDeprecationError")
        assert told(raw.command({"ping": 1, "apiVersion": "3"})) == (322, "APIVersionError")
    finally:
        client.admin.command("setParameter", 1, acceptApiVersion2=False)
    assert told(raw.command({"ping": 1, "apiVersion": "2"})) == (322, "APIVersionError")


def test_a_version_may_be_required(raw):
    assert raw.command({"setParameter": 1, "requireApiVersion": True})["was"] is False
    try:
        assert raw.command({"ping": 1})["code"] == 498870
        assert raw.command({"hello": 1})["code"] == 498870
        assert raw.command({"ping": 1, **V1})["ok"] == 1
        reply = raw.command({"getParameter": 1, "requireApiVersion": 1, **V1})
        assert reply["requireApiVersion"] is True
    finally:
        assert raw.command({"setParameter": 1, "requireApiVersion": False, **V1})["ok"] == 1
    assert raw.ping() == 1


def test_get_more_repeats_what_its_cursor_was_opened_with(raw, db):
    db.c.insert_many([{} for _ in range(5)])
    for opened, more in ((V1, {}), ({}, V1), (V1, STRICT), (STRICT, DEPRECATION)):
        cursor = raw.command({"find": "c", "batchSize": 2, **opened}, db.name)["cursor"]
        get_more = {"getMore": Int64(cursor["id"]), "collection": "c"}
        reply = raw.command({**get_more, **more}, db.name)
        assert told(reply) == (347, "APIMismatchError"), (opened, more)
        assert reply["errmsg"].startswith("API parameter mismatch: getMore used params {")
        assert len(raw.command({**get_more, **opened}, db.name)["cursor"]["nextBatch"]) == 3


def test_a_transaction_repeats_what_it_began_with(raw, db):
    db.c.insert_one({})
    txn = {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(1),
           "autocommit": False}
    find = {"find": "c", **txn}
    assert raw.command({**find, "startTransaction": True, **STRICT}, db.name)["ok"] == 1
    assert told(raw.command({**find, **V1}, db.name)) == (347, "APIMismatchError")
