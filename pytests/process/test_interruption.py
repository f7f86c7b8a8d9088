# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that end early: by their time, by killOp or killSessions, by a client that goes away."""

import threading
import time
import uuid

import pymongo
import pytest
from bson import Binary
from bson.int64 import Int64

from raw import MORE_TO_COME, RawClient, op_msg
from server import Server
from streamutil import error_of

pytestmark = pytest.mark.concurrent


@pytest.fixture(scope="module")
def server():
    with Server(memory=True, test_commands=True) as s:
        yield s


@pytest.fixture(scope="module")
def client(server):
    with pymongo.MongoClient(server.uri) as c:
        yield c


def until(look, seconds=30.0):
    """The first true result of look()."""
    end = time.monotonic() + seconds
    while True:
        found = look()
        if found or time.monotonic() > end:
            assert found, "it did not come true in time"
            return found


# --- writes of many documents ------------------------------------------------------------------


def logged(client, db, op):
    """How many entries of this kind the oplog has of the collection."""
    return client.local["oplog.rs"].count_documents({"ns": f"{db.name}.c", "op": op})


@pytest.mark.parametrize("ms", [1, 10, 40, 120])
def test_multi_update_out_of_time(client, db, ms):
    """What it has done by then is done, each document once, and logged; nothing else."""
    db.c.insert_many([{"_id": i, "x": 0} for i in range(60000)])
    statement = {"q": {}, "u": {"$inc": {"x": 1}}, "multi": True}
    command = {"update": "c", "updates": [statement], "maxTimeMS": ms}
    error = error_of(lambda: db.command(command))
    assert error.code == 50
    changed = db.c.count_documents({"x": 1})
    assert db.c.count_documents({"x": 0}) + changed == 60000
    assert logged(client, db, "u") == changed


def test_multi_delete_out_of_time(client, db):
    db.c.insert_many([{"_id": i} for i in range(60000)])
    command = {"delete": "c", "deletes": [{"q": {}, "limit": 0}], "maxTimeMS": 40}
    assert error_of(lambda: db.command(command)).code == 50
    assert db.c.count_documents({}) + logged(client, db, "d") == 60000


def test_killed_multi_update(server, client, db):
    db.c.insert_many([{"_id": i, "x": 0} for i in range(60000)])
    statement = {"q": {}, "u": {"$inc": {"x": 1}}, "multi": True}
    with RawClient(server.port) as writer:
        mine = "%s:%d" % writer.sock.getsockname()
        writer.send(op_msg({"update": "c", "updates": [statement], "$db": db.name}))
        until(lambda: logged(client, db, "u") > 0)
        for row in client.admin.command("currentOp")["inprog"]:
            if row["client"] == mine:
                client.admin.command("killOp", op=row["opid"])
        reply = writer.receive().doc
    changed = db.c.count_documents({"x": 1})
    assert reply.get("code") == 11601 or reply["nModified"] == 60000
    assert logged(client, db, "u") == changed


# --- clients that go away ----------------------------------------------------------------------


def test_unacknowledged_write_of_a_client_that_goes_at_once(server, client, db):
    """Also into collections that must be made first, which takes several runs."""
    for i in range(60):
        insert = {"insert": f"c{i % 30}", "documents": [{"_id": i}], "writeConcern": {"w": 0}}
        with RawClient(server.port) as c:
            c.send(op_msg({**insert, "$db": db.name}, flags=MORE_TO_COME))
    until(lambda: sum(db[f"c{i}"].count_documents({}) for i in range(30)) == 60)


def streams(client):
    return client.admin.command("serverStatus")["metrics"]["changeStreams"]


def test_cursor_of_a_killed_wait_is_freed(server, client, db):
    before = streams(client)["open"]
    watch = {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}}
    with RawClient(server.port) as waiter:
        cursor = waiter.command(watch, db=db.name)["cursor"]
        more = {"getMore": cursor["id"], "collection": "c", "maxTimeMS": 60000}
        waiter.send(op_msg({**more, "$db": db.name}))
        until(lambda: streams(client)["parked"] == 1)
        assert streams(client)["open"] == before + 1
        (row,) = [r for r in client.admin.command("currentOp")["inprog"] if r.get("op") == "getmore"]
        client.admin.command("killOp", op=row["opid"])
        assert waiter.receive().doc["code"] == 11601
        assert waiter.command(more, db=db.name)["code"] == 43
    assert streams(client) == {**streams(client), "open": before, "parked": 0}


def test_cursor_of_a_waiting_client_that_goes(server, client, db):
    """The getMore is killed and takes its cursor with it; one that nobody waits on stays."""
    before = streams(client)["open"]
    watch = {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}}
    with RawClient(server.port) as other:
        with RawClient(server.port) as waiter:
            idle = waiter.command(watch, db=db.name)["cursor"]["id"]
            waited = waiter.command(watch, db=db.name)["cursor"]["id"]
            more = {"getMore": waited, "collection": "c", "maxTimeMS": 60000}
            waiter.send(op_msg({**more, "$db": db.name}))
            until(lambda: streams(client)["parked"] == 1)
            assert streams(client)["open"] == before + 2
        until(lambda: streams(client)["open"] == before + 1)
        assert other.command(more, db=db.name)["code"] == 43
        assert other.command({**more, "getMore": idle, "maxTimeMS": 1}, db=db.name)["ok"] == 1.0
        assert other.command({"killCursors": "c", "cursors": [idle]}, db=db.name)["cursorsKilled"] == [idle]


# --- who may go on when ------------------------------------------------------------------------


def test_a_cursor_is_free_when_its_batch_has_come(server, client, db):
    db.c.insert_many([{"_id": i} for i in range(4001)])
    with RawClient(server.port) as a, RawClient(server.port) as b:
        cursor = a.command({"find": "c", "batchSize": 1}, db=db.name)["cursor"]["id"]
        for i in range(4000):
            reply = (a, b)[i % 2].command({"getMore": cursor, "collection": "c", "batchSize": 1}, db=db.name)
            assert reply["ok"] == 1.0, reply
            assert [d["_id"] for d in reply["cursor"]["nextBatch"]] == [i + 1]


@pytest.mark.parametrize("insert_first", [False, True])
def test_a_long_first_batch_does_not_hold_up_ddl(server, db, insert_first):
    """Neither from the request that makes the collection, nor from one that wanted to and lost."""
    documents = [{"_id": i, "pad": "x" * 100} for i in range(90000)]
    done = []
    ready = threading.Barrier(2)

    def load():
        ready.wait()
        reply = writer.command({"insert": "c", "documents": documents}, db=db.name)
        done.append(("insert", reply["n"]))

    with RawClient(server.port, timeout=60) as writer, RawClient(server.port, timeout=60) as other:
        thread = threading.Thread(target=load)
        thread.start()
        ready.wait()
        if insert_first:
            other.command({"insert": "c", "documents": [{"_id": -1}]}, db=db.name)
        until(lambda: db.c.estimated_document_count() > 1)
        for i in range(5):
            assert other.command({"create": f"other{i}"}, db=db.name)["ok"] == 1.0
        done.append("create")
        thread.join()
    assert done == ["create", ("insert", 90000)]
    assert db.c.count_documents({}) == 90000 + insert_first


def test_a_long_first_batch_of_upserts_does_not_hold_up_ddl(server, db):
    updates = [{"q": {"_id": i}, "u": {"$set": {"x": i}}, "upsert": True} for i in range(20000)]
    updates.insert(0, {"q": {"_id": -1}, "u": {"$set": {"x": 1}}})  # matches nothing
    done = []

    def load():
        reply = writer.command({"update": "c", "updates": updates}, db=db.name)
        done.append((reply["n"], reply["nModified"], len(reply["upserted"])))

    with RawClient(server.port, timeout=60) as writer, RawClient(server.port, timeout=60) as other:
        thread = threading.Thread(target=load)
        thread.start()
        until(lambda: db.c.estimated_document_count() > 1)
        for i in range(5):
            assert other.command({"create": f"other{i}"}, db=db.name)["ok"] == 1.0
        done.append("create")
        thread.join()
    assert done == ["create", (20000, 0, 20000)]


def test_upserts_behind_a_faulty_statement_make_no_collection(db):
    bad = {"q": {}, "u": {"$nonsense": {"x": 1}}}
    upsert = {"q": {"_id": 1}, "u": {"$set": {"x": 1}}, "upsert": True}
    reply = db.command("update", "c", updates=[bad, upsert], check=False)
    assert [e["code"] for e in reply["writeErrors"]] == [9]
    assert db.list_collection_names() == []
    reply = db.command("update", "c", updates=[bad, upsert], ordered=False, check=False)
    assert [e["index"] for e in reply["writeErrors"]] == [0]
    assert reply["n"] == 1 and db.c.find_one() == {"_id": 1, "x": 1}


def index_entries(client, db):
    rows = client.local["oplog.rs"].find({"ns": f"{db.name}.$cmd", "o.indexBuildUUID": {"$exists": True}})
    return [next(iter(row["o"])) for row in rows]


def test_killed_index_build_leaves_nothing(server, client, db):
    db.c.insert_many([{"_id": i, "x": f"{i:020}"} for i in range(90000)])
    build = {"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1"}], "$db": db.name}
    with RawClient(server.port, timeout=60) as builder:
        mine = "%s:%d" % builder.sock.getsockname()
        builder.send(op_msg(build))
        until(lambda: index_entries(client, db))
        for row in client.admin.command("currentOp")["inprog"]:
            if row["client"] == mine:
                client.admin.command("killOp", op=row["opid"])
        reply = builder.receive().doc
    killed = reply.get("code") == 11601
    assert killed or reply["numIndexesAfter"] == 2
    assert index_entries(client, db) == ["startIndexBuild", "abortIndexBuild" if killed else "commitIndexBuild"]
    assert len(db.c.index_information()) == (1 if killed else 2)
    assert db.command("validate", "c")["valid"] is True
    assert db.c.create_index("x") == "x_1"


def test_index_build_of_a_client_that_goes(server, client, db):
    db.c.insert_many([{"_id": i, "x": i} for i in range(40000)])
    build = {"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1"}], "$db": db.name}
    with RawClient(server.port) as builder:
        builder.send(op_msg(build))
    until(lambda: "x_1" in db.c.index_information())
    assert index_entries(client, db) == ["startIndexBuild", "commitIndexBuild"]


def test_collection_that_goes_under_a_get_more(db):
    db.c.insert_many([{"_id": i, "x": -i} for i in range(300)])
    for pipeline in ([], [{"$match": {"x": {"$lt": 5}}}]):
        found = db.command("aggregate", "c", pipeline=pipeline, cursor={"batchSize": 10})["cursor"]
        db.c.drop()
        more = error_of(lambda: db.command("getMore", found["id"], collection="c"))
        assert more.code == 175
        assert error_of(lambda: db.command("getMore", found["id"], collection="c")).code == 43
        db.c.insert_many([{"_id": i, "x": -i} for i in range(300)])
    found = db.command("aggregate", "c", pipeline=[{"$sort": {"x": 1}}], cursor={"batchSize": 10})["cursor"]
    db.c.drop()
    rest = db.command("getMore", found["id"], collection="c")["cursor"]
    assert [d["_id"] for d in rest["nextBatch"]] == list(range(289, -1, -1))  # all was read before


# --- cursors that are killed while they are opened --------------------------------------------------


@pytest.mark.parametrize("opening", [
    {"find": "c", "batchSize": 1},
    {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}},
], ids=["find", "changeStream"])
def test_killed_before_its_reply_is_whole(server, client, db, opening):
    """Whoever kills the session may come before the reply has named the cursor."""
    db.c.insert_many([{}, {}])
    lsid = {"id": Binary(uuid.uuid4().bytes, 4)}
    with RawClient(server.port) as raw, RawClient(server.port) as admin:
        admin.command({"runnelFault": "cursorRegistered:wait"})
        try:
            raw.send(op_msg({**opening, "lsid": lsid, "$db": db.name}))
            until(lambda: admin.command({"runnelFault": "cursorRegistered:wait"})["hits"])
            assert admin.command({"killAllSessionsByPattern": [{"lsid": lsid}]})["ok"] == 1
        finally:
            admin.command({"runnelFault": "off"})
        reply = raw.receive().doc
        if reply["ok"]:
            assert reply["cursor"]["ns"] == f"{db.name}.c"
            more = {"getMore": Int64(reply["cursor"]["id"]), "collection": "c", "lsid": lsid}
            assert raw.command(more, db.name)["code"] == 43
        else:
            assert reply["code"] == 11601
