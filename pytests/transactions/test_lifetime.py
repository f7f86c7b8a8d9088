# SPDX-License-Identifier: GPL-3.0-or-later
"""Who ends transactions that nobody ends, what they held is free again, and what can be seen."""

import threading
import time

import pymongo
import pytest
from bson import Int64, Timestamp

from raw import RawClient, op_msg
from txnutil import RawSession, insert, labels, lsid

SERVER_OPTIONS = dict(test_commands=True)

FIND = {"find": "c"}
LIMIT = "transactionLifetimeLimitSeconds"


@pytest.fixture
def s(raw, db):
    db.c.insert_one({"_id": "old"})
    session = RawSession(raw, db.name)
    yield session
    raw.command({"killSessions": [session.lsid]})


@pytest.fixture
def short(client):
    client.admin.command("setParameter", 1, **{LIMIT: 1})
    yield
    client.admin.command("setParameter", 1, **{LIMIT: 60})


def counts(client):
    return client.admin.command("serverStatus")["transactions"]


def until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def rows(client, **options):
    return [r for r in client.admin.aggregate([{"$currentOp": options}]) if "transaction" in r]


# --- the limit ------------------------------------------------------------------------------------


def test_the_limit_is_a_parameter(client):
    admin = client.admin
    assert admin.command("getParameter", 1, **{LIMIT: 1})[LIMIT] == 60
    for bad in (0, -1, 2**31):
        with pytest.raises(pymongo.errors.OperationFailure) as e:
            admin.command("setParameter", 1, **{LIMIT: bad})
        assert e.value.code == 2
    assert admin.command("setParameter", 1, **{LIMIT: 30})["was"] == 60
    admin.command("setParameter", 1, **{LIMIT: 60})


def test_an_idle_transaction_ends_at_its_limit(client, db, s, short):
    before = counts(client)["totalAborted"]
    s.start(insert(1))
    until(lambda: counts(client)["totalAborted"] == before + 1)
    # What it held is free.
    db.c.update_one({"_id": 1}, {"$set": {"a": 1}}, upsert=True)
    for reply in (s.run(FIND), s.commit()):
        assert reply["code"] == 251 and labels(reply) == ["TransientTransactionError"]


def test_an_index_build_does_not_keep_transactions_alive(srv, client, db, s, short):
    db.big.insert_one({"a": 1})
    fault = "indexBuild:wait"
    before = client.admin.command("runnelFault", fault)["hits"]
    with pymongo.MongoClient(srv.uri) as other:
        build = threading.Thread(target=other[db.name].big.create_index, args=("a",))
        try:
            build.start()
            until(lambda: client.admin.command("runnelFault", fault)["hits"] > before)
            s.start({"find": "c"})
            until(lambda: counts(client)["currentOpen"] == 0)
        finally:
            client.admin.command("runnelFault", "off")
            build.join()
    assert s.commit()["code"] == 251


def test_a_running_request_is_told(s, short):
    """290, and the transaction is gone."""
    s.start(FIND)
    endless = [{"$project": {"a": {"$range": [0, 100000]}}}, {"$unwind": "$a"},
               {"$project": {"b": {"$range": [0, 10000]}}}, {"$unwind": "$b"},
               {"$group": {"_id": None, "n": {"$sum": 1}}}]
    reply = s.run({"aggregate": "c", "pipeline": endless, "cursor": {}, "maxTimeMS": 30000})
    assert reply["code"] == 290, reply
    assert reply["codeName"] == "TransactionExceededLifetimeLimitSeconds"
    assert s.run(FIND)["code"] == 251


# --- commands -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command, kills", [
    (lambda l: {"killSessions": [l]}, True),
    (lambda l: {"killSessions": []}, True),
    (lambda l: {"endSessions": [l]}, True),
    (lambda l: {"killAllSessions": []}, True),
    (lambda l: {"killAllSessions": [{"user": "u", "db": "d"}]}, False),
    (lambda l: {"killAllSessionsByPattern": []}, True),
    (lambda l: {"killAllSessionsByPattern": [{"lsid": l}]}, True),
    (lambda l: {"killAllSessionsByPattern": [{"lsid": lsid()}]}, False),
    (lambda l: {"killSessions": [lsid()]}, False),
    (lambda l: {"endSessions": [lsid()]}, False),
    (lambda l: {"refreshSessions": [l]}, False),
])
def test_commands_that_end_transactions(srv, client, db, s, command, kills):
    assert s.start(insert(1))["ok"] == 1
    assert rows(client)
    with RawClient(srv.port) as other:
        assert other.command(command(s.lsid))["ok"] == 1
    reply = s.commit()
    assert reply.get("code", 0) == (251 if kills else 0), reply
    assert db.c.count_documents({"_id": 1}) == (0 if kills else 1)


def test_killing_a_session_interrupts_its_request(srv, client, s):
    s.start(FIND)
    endless = [{"$project": {"a": {"$range": [0, 100000]}}}, {"$unwind": "$a"},
               {"$project": {"b": {"$range": [0, 10000]}}}, {"$unwind": "$b"},
               {"$group": {"_id": None, "n": {"$sum": 1}}}]
    replies = []
    thread = threading.Thread(target=lambda: replies.append(
        s.run({"aggregate": "c", "pipeline": endless, "cursor": {}, "maxTimeMS": 30000})))
    thread.start()
    until(lambda: any(r["active"] for r in rows(client)))
    with RawClient(srv.port) as other:
        assert other.command({"killSessions": [s.lsid]})["ok"] == 1
    thread.join()
    assert replies[0]["code"] == 11601
    assert s.run(FIND)["code"] == 251


def reap(client, minutes):
    client.admin.command("reapLogicalSessionCacheNow", 1, runnelMinutesLater=minutes)


def test_the_end_of_an_idle_session_ends_what_it_has(srv, client, db, s):
    """Its transaction, with the documents that it holds, and its cursors. Those of a session in use stay."""
    db.c.insert_many([{"_id": i} for i in range(10)])
    s.start({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]})
    idle, used = lsid(), lsid()
    find = {"find": "c", "batchSize": 2}
    cursor = s.raw.command({**find, "lsid": idle}, db.name)["cursor"]
    watch = {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}, "lsid": used}
    with RawClient(srv.port) as other:
        stream = other.command(watch, db.name)["cursor"]
        more = {"getMore": stream["id"], "collection": "c", "lsid": used, "$db": db.name}
        other.send(op_msg({**more, "maxTimeMS": 60000}))
        until(lambda: client.admin.command("serverStatus")["metrics"]["changeStreams"]["parked"])
        reap(client, 29)
        assert counts(client)["currentOpen"] == 1
        reap(client, 31)
        assert counts(client)["currentOpen"] == 0
        for reply in (s.run(FIND), s.commit()):
            assert reply["code"] == 251 and labels(reply) == ["TransientTransactionError"]
        more = {"getMore": cursor["id"], "collection": "c", "lsid": idle}
        assert s.raw.command(more, db.name)["code"] == 43
        db.c.update_one({"_id": 1}, {"$set": {"a": 2}})
        (event,) = other.receive().doc["cursor"]["nextBatch"]
    assert event["updateDescription"]["updatedFields"] == {"a": 2}


def test_a_session_whose_transaction_works_is_not_idle(srv, client, db, s):
    s.start(insert(1))
    replies = []
    thread = threading.Thread(target=lambda: replies.append(s.run(insert(2))))
    client.admin.command("runnelFault", "storageWrite:wait")
    try:
        thread.start()
        until(lambda: client.admin.command("runnelFault", "storageWrite:wait")["hits"])
        reap(client, 31)
    finally:
        client.admin.command("runnelFault", "off")
        thread.join()
    assert replies[0]["n"] == 1 and s.commit()["ok"] == 1
    assert db.c.count_documents({"_id": {"$in": [1, 2]}}) == 2


def test_a_client_that_goes_leaves_its_transaction(srv, db, s):
    with RawClient(srv.port) as other:
        first = RawSession(other, db.name, s.lsid)
        assert first.start(insert(1))["ok"] == 1
    s.number = first.number
    assert s.commit()["ok"] == 1
    assert db.c.find_one({"_id": 1})


def test_shutdown_ends_transactions(disk_srv):
    with RawClient(disk_srv.port) as raw:
        s = RawSession(raw, "t")
        assert s.start(insert(1))["ok"] == 1
        disk_srv.restart()
    with RawClient(disk_srv.port) as raw:
        s.raw = raw
        assert s.commit()["code"] == 251
        assert s.start(insert(1))["ok"] == 1


def test_a_commit_is_known_after_a_crash(disk_srv):
    with RawClient(disk_srv.port) as raw:
        s = RawSession(raw, "t")
        s.start(insert(1))
        assert s.commit()["ok"] == 1
        lost = RawSession(raw, "t")
        lost.start(insert(2))
    disk_srv.kill()
    disk_srv.start()
    with RawClient(disk_srv.port) as raw:
        s.raw = lost.raw = raw
        assert s.commit()["ok"] == 1
        assert s.abort()["code"] == 256
        assert s.retryable(insert(5), s.number)["code"] == 217
        assert s.start(FIND, number=s.number)["code"] == 117
        assert s.start(FIND, number=s.number)["code"] == 117
        reply = lost.commit()
        assert reply["code"] == 251 and labels(reply) == ["TransientTransactionError"]
        with pymongo.MongoClient(disk_srv.uri) as client:
            assert [d["_id"] for d in client.t.c.find()] == [1]
            record, = client.config.transactions.find()
            assert record["state"] == "committed" and record["txnNum"] == 1
            assert list(record)[0] == "_id" and record["_id"]["id"] == s.lsid["id"]


# --- cursors --------------------------------------------------------------------------------------


def get_more(cursor):
    return {"getMore": cursor["id"], "collection": "c"}


@pytest.fixture
def cursor(s, db):
    db.c.insert_many([{"_id": i} for i in range(10)])
    return s.start({"find": "c", "batchSize": 2})["cursor"]


def test_a_cursor_stays_in_its_transaction(srv, s, db, cursor):
    db.c.delete_many({})
    assert len(s.run({**get_more(cursor), "batchSize": 3})["cursor"]["nextBatch"]) == 3
    outside = s.raw.command({**get_more(cursor), "lsid": s.lsid}, db.name)
    assert outside["code"] == 50740, outside
    with RawClient(srv.port) as other:
        assert RawSession(other, db.name).start(get_more(cursor))["code"] == 50738
    rest = s.run(get_more(cursor))["cursor"]
    assert rest["id"] == 0 and len(rest["nextBatch"]) == 6


def test_a_cursor_of_another_time(s, db, cursor):
    plain = s.raw.command({"find": "c", "batchSize": 2, "lsid": s.lsid}, db.name)["cursor"]
    assert s.run(get_more(plain))["code"] == 50739
    s.start(FIND)
    assert s.run(get_more(cursor))["code"] == 43  # gone with its transaction
    assert s.raw.command({**get_more(plain), "lsid": s.lsid}, db.name)["ok"] == 1


@pytest.mark.parametrize("end", ["commit", "abort", "kill", "next"])
def test_cursors_end_with_their_transaction(client, s, cursor, end):
    was = client.admin.command("serverStatus")["metrics"]["cursor"]["open"]["total"]
    {"commit": s.commit, "abort": s.abort, "next": lambda: s.start(FIND),
     "kill": lambda: s.raw.command({"killSessions": [s.lsid]})}[end]()
    now = client.admin.command("serverStatus")["metrics"]["cursor"]["open"]["total"]
    assert now == was - 1


def test_kill_cursors_inside(s, cursor):
    reply = s.run({"killCursors": "c", "cursors": [cursor["id"]]})
    assert reply["cursorsKilled"] == [cursor["id"]]
    assert s.run(FIND)["ok"] == 1
    # A getMore that fails ends the transaction like any other failure.
    assert s.run(get_more(cursor))["code"] == 43
    assert s.run(FIND)["code"] == 251


# --- what can be seen -----------------------------------------------------------------------------


def test_server_status(client, s):
    before = counts(client)
    s.start(insert(1))
    now = counts(client)
    assert now["totalStarted"] == before["totalStarted"] + 1
    assert (now["currentOpen"], now["currentInactive"], now["currentActive"]) == (
        before["currentOpen"] + 1, before["currentInactive"] + 1, before["currentActive"])
    s.commit()
    s.start(FIND)
    s.abort()
    now = counts(client)
    assert now["totalCommitted"] == before["totalCommitted"] + 1
    assert now["totalAborted"] == before["totalAborted"] + 1
    assert now["currentOpen"] == before["currentOpen"]


def test_current_op_of_an_idle_transaction(client, s):
    opened = s.start(FIND, readConcern={"level": "snapshot"})
    row, = [r for r in rows(client) if r["lsid"]["id"] == s.lsid["id"]]
    assert row["type"] == "idleSession" and row["active"] is False
    assert row["desc"] == "inactive transaction"
    t = row["transaction"]
    assert t["parameters"] == {"txnNumber": 1, "autocommit": False,
                               "readConcern": {"level": "snapshot"}}
    assert isinstance(t["parameters"]["txnNumber"], Int64)
    assert isinstance(t["readTimestamp"], Timestamp)
    assert t["readTimestamp"] <= opened["$clusterTime"]["clusterTime"]
    assert t["timeOpenMicros"] == t["timeActiveMicros"] + t["timeInactiveMicros"]
    assert t["startWallClockTime"] < t["expiryTime"]
    assert not [r for r in rows(client, idleSessions=False) if r["type"] == "idleSession"]
    s.commit()
    assert not [r for r in rows(client) if r["lsid"]["id"] == s.lsid["id"]]


def test_current_op_of_an_active_transaction(srv, client, s):
    with RawClient(srv.port) as other:
        mine = RawSession(other, "admin")
        reply = mine.start({"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}})
        assert reply["code"] == 263
    test_killing_a_session_interrupts_its_request(srv, client, s)
