# SPDX-License-Identifier: GPL-3.0-or-later
"""Transactions in the oplog and in change streams; cases cs-25 and op-03."""

import pymongo
import pytest
from bson import Timestamp

from streamutil import drain, error_of, kinds

ENTRY_OPS = "maxNumberOfTransactionOperationsInSingleOplogEntry"


@pytest.fixture
def txn(client):
    with client.start_session() as session:
        session.start_transaction()
        yield session


@pytest.fixture
def two_in_an_entry(client):
    client.admin.command("setParameter", 1, **{ENTRY_OPS: 2})
    yield
    client.admin.command("setParameter", 1, **{ENTRY_OPS: 2**31 - 1})


def last_ts(client):
    return client.local["oplog.rs"].find().sort("$natural", -1).limit(1).next()["ts"]


def entries(client, after):
    """All that was logged since, but for noops."""
    return list(client.local["oplog.rs"].find({"ts": {"$gt": after}, "op": {"$ne": "n"}}))


def test_op_03_one_entry_for_a_transaction(client, db, txn):
    db.a.insert_one({"_id": 0})
    db.b.insert_one({"_id": 1, "x": 1})
    db.c.insert_one({"_id": 2})
    after = last_ts(client)
    db.a.insert_one({"_id": 9, "y": "z"}, session=txn)
    db.b.update_one({"_id": 1}, {"$set": {"x": 2}}, session=txn)
    db.c.delete_one({"_id": 2}, session=txn)
    assert entries(client, after) == []
    txn.commit_transaction()
    entry, = entries(client, after)
    assert list(entry) == ["lsid", "txnNumber", "op", "ns", "o", "ts", "t", "v", "wall", "prevOpTime"]
    assert entry["lsid"]["id"] == txn.session_id["id"] and len(entry["lsid"]["uid"]) == 32
    assert (entry["op"], entry["ns"], entry["v"]) == ("c", "admin.$cmd", 2)
    assert entry["prevOpTime"] == {"ts": Timestamp(0, 0), "t": -1}
    assert list(entry["o"]) == ["applyOps"]
    ui = {c["name"]: c["info"]["uuid"] for c in db.list_collections()}
    assert entry["o"]["applyOps"] == [
        {"op": "i", "ns": f"{db.name}.a", "ui": ui["a"], "o": {"_id": 9, "y": "z"}, "o2": {"_id": 9}},
        {"op": "u", "ns": f"{db.name}.b", "ui": ui["b"],
         "o": {"$v": 2, "diff": {"u": {"x": 2}}}, "o2": {"_id": 1}},
        {"op": "d", "ns": f"{db.name}.c", "ui": ui["c"], "o": {"_id": 2}},
    ]
    assert [list(op)[:4] for op in entry["o"]["applyOps"]] == [["op", "ns", "ui", "o"]] * 3
    row = client.config.transactions.find_one({"_id.id": txn.session_id["id"]})
    assert row["state"] == "committed" and row["txnNum"] == entry["txnNumber"]
    assert row["lastWriteOpTime"] == {"ts": entry["ts"], "t": entry["t"]}


def test_aborted_and_read_only_ones_leave_nothing(client, db, txn):
    db.c.insert_one({"_id": 1})
    after = last_ts(client)
    db.c.insert_one({"_id": 2}, session=txn)
    txn.abort_transaction()
    txn.start_transaction()
    db.c.find_one({}, session=txn)
    txn.commit_transaction()
    assert entries(client, after) == []
    row = client.config.transactions.find_one({"_id.id": txn.session_id["id"]})
    assert row is None or "state" not in row


def test_a_chain(client, db, txn, two_in_an_entry):
    db.c.insert_one({"_id": 0})
    after = last_ts(client)
    db.c.insert_many([{"_id": i} for i in range(1, 6)], session=txn)
    txn.commit_transaction()
    chain = entries(client, after)
    assert [len(e["o"]["applyOps"]) for e in chain] == [2, 2, 1]
    assert [list(e["o"])[1:] for e in chain] == [["partialTxn"], ["partialTxn"], ["count"]]
    assert chain[2]["o"]["count"] == 5
    previous = {"ts": Timestamp(0, 0), "t": -1}
    for e in chain:
        assert e["prevOpTime"] == previous
        assert (e["lsid"], e["txnNumber"], e["wall"]) == (
            chain[0]["lsid"], chain[0]["txnNumber"], chain[0]["wall"])
        previous = {"ts": e["ts"], "t": e["t"]}


def test_a_transaction_of_more_than_16_mb(client, db, txn):
    """Its operations fill three entries, and a stream shows them as one transaction."""
    db.c.insert_one({"_id": 0})
    after = last_ts(client)
    with db.c.watch() as stream:
        for i in range(5):
            db.c.insert_one({"_id": i + 1, "pad": b"x" * (7 << 20)}, session=txn)
        txn.commit_transaction()
        events = drain(stream, 5)
    chain = entries(client, after)
    assert [len(e["o"]["applyOps"]) for e in chain] == [2, 2, 1]
    assert [e["documentKey"]["_id"] for e in events] == [1, 2, 3, 4, 5]
    assert {e["clusterTime"] for e in events} == {chain[-1]["ts"]}


def test_cs_25_only_events_of_transactions_have_a_session(client, db, txn):
    with db.c.watch() as stream:
        db.c.insert_one({"_id": 0})
        outside, = drain(stream, 1)
        assert "lsid" not in outside and "txnNumber" not in outside
        db.c.insert_one({"_id": 1}, session=txn)
        db.c.insert_one({"_id": 2}, session=txn)
        db.c.update_one({"_id": 1}, {"$set": {"x": 1}}, session=txn)
        assert drain(stream) == []
        txn.commit_transaction()
        events = drain(stream, 3)
    assert kinds(events) == ["insert", "insert", "update"]
    for e in events:
        assert e["lsid"] == events[0]["lsid"] and set(e["lsid"]) == {"id", "uid"}
        assert e["lsid"]["id"] == txn.session_id["id"]
        assert e["clusterTime"] == events[0]["clusterTime"] > outside["clusterTime"]
        assert e["txnNumber"] == events[0]["txnNumber"]
    tokens = [e["_id"]["_data"] for e in events]
    assert tokens == sorted(set(tokens))
    with db.c.watch(resume_after=events[0]["_id"]) as stream:
        assert drain(stream, 2) == events[1:]
    with db.c.watch(resume_after=events[2]["_id"]) as stream:
        assert drain(stream) == []
    with db.c.watch(start_at_operation_time=events[0]["clusterTime"]) as stream:
        assert drain(stream, 3) == events


@pytest.mark.parametrize("chained", [False, True])
def test_events_are_in_order_wherever_they_are_watched(client, db, txn, chained, request):
    if chained:
        request.getfixturevalue("two_in_an_entry")
    db.a.insert_one({"_id": 0})
    db.b.insert_one({"_id": 0})
    before = client.admin.command("ping")["operationTime"]
    expected = []
    for i in range(1, 6):
        for coll in (db.a, db.b):
            coll.insert_one({"_id": i}, session=txn)
            expected.append((coll.name, i))
    txn.commit_transaction()
    start = Timestamp(before.time, before.inc + 1)

    def watched(target):
        with target.watch([{"$match": {"ns.db": db.name}}], start_at_operation_time=start) as stream:
            events = drain(stream, 5 if target == db.a else 10)
        for e in events:
            with target.watch([{"$match": {"ns.db": db.name}}], resume_after=e["_id"]) as stream:
                rest = events[events.index(e) + 1:]
                assert drain(stream, len(rest)) == rest
        return [(e["ns"]["coll"], e["documentKey"]["_id"]) for e in events]

    assert watched(client) == watched(db) == expected
    assert watched(db.a) == [pair for pair in expected if pair[0] == "a"]


def test_created_collections_have_events(client, db, txn):
    db.seed.insert_one({"_id": 0})
    with db.watch(show_expanded_events=True) as stream:
        db.made.create_index("x", session=txn)
        db.made.insert_one({"_id": 1}, session=txn)
        txn.commit_transaction()
        events = drain(stream, 3)
    assert kinds(events) == ["create", "createIndexes", "insert"]
    assert len({(e["clusterTime"], e["txnNumber"]) for e in events}) == 1


def test_images_of_a_transaction(client, db, txn, two_in_an_entry):
    db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    db.c.insert_many([{"_id": i, "n": 0} for i in range(3)])
    with db.c.watch(full_document="required", full_document_before_change="required") as stream:
        db.other.insert_one({"_id": 1}, session=txn)
        for i in (0, 1, 0):
            db.c.update_one({"_id": i}, {"$inc": {"n": 1}}, session=txn)
        db.c.delete_one({"_id": 2}, session=txn)
        txn.commit_transaction()
        db.c.update_one({"_id": 0}, {"$inc": {"n": 10}})
        events = drain(stream, 5)
    assert [e["fullDocumentBeforeChange"]["n"] for e in events] == [0, 0, 1, 0, 2]
    assert [e["fullDocument"]["n"] for e in events if e["operationType"] == "update"] == [1, 1, 2, 12]


def test_half_a_chain_is_lost_history(client, db, txn, two_in_an_entry):
    """A stream that would begin inside a chain whose first entries are gone says so."""
    db.c.insert_one({"_id": 0})
    db.c.insert_many([{"_id": i} for i in range(1, 5)], session=txn)
    txn.commit_transaction()
    last = last_ts(client)
    db.c.insert_one({"_id": 5})
    limits = client.admin.command("getParameter", 1, oplogMaxEntries=1)["oplogMaxEntries"]
    client.admin.command("setParameter", 1, oplogMaxEntries=2)
    client.admin.command("pruneOplog", 1)
    client.admin.command("setParameter", 1, oplogMaxEntries=limits)
    if client.local["oplog.rs"].find_one({})["ts"] == last:
        e = error_of(lambda: drain(db.c.watch(start_at_operation_time=last), 5))
        assert e.code == 286


def test_survives_a_restart(disk_srv):
    # After the kill the client's goodbyes have nobody to go to.
    with (pymongo.MongoClient(disk_srv.uri, serverSelectionTimeoutMS=1000) as client,
          client.start_session() as session):
        with session.start_transaction():
            client.d.c.insert_one({"_id": 1}, session=session)
        after = client.admin.command("ping")["operationTime"]
        with client.d.c.watch() as stream:
            token = stream.resume_token
            with session.start_transaction():
                client.d.c.insert_many([{"_id": 2}, {"_id": 3}], session=session)
            first, _ = drain(stream, 2)
        session.start_transaction()
        client.d.c.insert_one({"_id": 4}, session=session)
        disk_srv.kill()
    disk_srv.start()
    with pymongo.MongoClient(disk_srv.uri) as client:
        assert [d["_id"] for d in client.d.c.find()] == [1, 2, 3]
        entry, = entries(client, after)
        assert [op["o"]["_id"] for op in entry["o"]["applyOps"]] == [2, 3]
        with client.d.c.watch(resume_after=token) as stream:
            assert [e["documentKey"]["_id"] for e in drain(stream, 2)] == [2, 3]
        with client.d.c.watch(resume_after=first["_id"]) as stream:
            assert [e["documentKey"]["_id"] for e in drain(stream, 1)] == [3]
