# SPDX-License-Identifier: GPL-3.0-or-later
"""Retryable writes and sessions: cases tx-01 and tx-06, and what surrounds them."""

import uuid

import pymongo
import pytest
from bson import Binary, Int64

from streamutil import drain


def lsid():
    return {"id": Binary(uuid.uuid4().bytes, 4)}


@pytest.mark.parametrize("crash", [None, "stop", "kill"])
def test_tx_01_retries_are_answered_once(disk_srv, crash):
    from raw import RawClient

    session = lsid()
    first = {
        "update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}],
        "lsid": session, "txnNumber": Int64(1),
    }
    second = {"insert": "c", "documents": [{"_id": 7}], "lsid": session, "txnNumber": Int64(2)}
    third = {
        "findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"n": 1}}, "new": True,
        "lsid": session, "txnNumber": Int64(3),
    }
    with pymongo.MongoClient(disk_srv.uri) as client:
        client.t.c.insert_one({"_id": 1, "n": 0})
        token = client.t.c.watch().resume_token
    for command, check in (
        (first, lambda r: (r["n"], r["nModified"])),
        (second, lambda r: r["n"]),
        (third, lambda r: (r["value"], r["lastErrorObject"])),
    ):
        with RawClient(disk_srv.port) as raw:
            one = raw.command(command, "t")
            assert one["ok"] == 1, one
        if crash == "kill":
            disk_srv.kill()
            disk_srv.start()
        elif crash == "stop":
            disk_srv.restart()
        with RawClient(disk_srv.port) as raw:
            two = raw.command(command, "t")
        assert check(one) == check(two) and "writeErrors" not in two
    with RawClient(disk_srv.port) as raw:
        late = raw.command(first, "t")
        assert late["code"] == 225 and late["codeName"] == "TransactionTooOld"
    with pymongo.MongoClient(disk_srv.uri) as client:
        assert client.t.c.find_one({"_id": 1})["n"] == 2
        with client.t.c.watch(resume_after=token) as s:
            assert [e["operationType"] for e in drain(s)] == ["update", "insert", "update"]
        record = client.config.transactions.find_one({"_id.id": session["id"]})
        assert record["txnNum"] == 3


def test_retried_batch_does_only_the_rest(srv, db, client):
    from raw import RawClient

    session = lsid()
    command = {
        "insert": "c", "documents": [{"_id": i} for i in range(3)],
        "lsid": session, "txnNumber": Int64(1),
    }
    with RawClient(srv.port) as raw:
        assert raw.command(command, db.name)["n"] == 3
        command["documents"] = [{"_id": i} for i in range(5)]
        reply = raw.command(command, db.name)
    assert reply["n"] == 5 and "writeErrors" not in reply
    assert reply["retriedStmtIds"] == [0, 1, 2]
    assert db.c.count_documents({}) == 5


def test_multi_is_not_retryable(srv, db):
    from raw import RawClient

    base = {"lsid": lsid(), "txnNumber": Int64(1)}
    with RawClient(srv.port) as raw:
        update = {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "multi": True}]}
        assert raw.command({**update, **base}, db.name)["code"] == 72
        delete = {"delete": "c", "deletes": [{"q": {}, "limit": 0}]}
        assert raw.command({**delete, **base}, db.name)["code"] == 72
        assert raw.command({"ping": 1, **base}, db.name)["ok"] == 0


def test_oplog_entry_of_a_retryable_write(client, db):
    db.c.insert_one({"_id": 1})
    entry = client.local["oplog.rs"].find_one({"ns": db.c.full_name, "op": "i"})
    keys = list(entry)
    assert keys[:2] == ["lsid", "txnNumber"] and entry["stmtId"] == 0
    assert set(entry["lsid"]) == {"id", "uid"}
    assert bytes(entry["lsid"]["uid"]).hex().startswith("e3b0c44298fc1c14")
    with db.c.watch() as s:
        db.c.insert_one({"_id": 2})
        event = drain(s, 1)[0]
    assert "lsid" not in event and "txnNumber" not in event


def test_tx_06_session_commands(client):
    admin = client.admin
    session = lsid()
    assert admin.command("endSessions", [session])["ok"] == 1
    assert admin.command("refreshSessions", [session])["ok"] == 1
    assert admin.command("killSessions", [])["ok"] == 1
    started = admin.command("startSession")
    assert started["timeoutMinutes"] == 30 and started["id"]["id"].subtype == 4
    assert admin.command("endSessions", [lsid()])["ok"] == 1
