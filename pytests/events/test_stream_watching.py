# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator sees of change streams: serverStatus, $currentOp, explain."""

import time

import pytest
from bson import Int64, Timestamp

from raw import op_msg
from streamutil import get_more, open_raw, token_time


def stream_metrics(client):
    return client.admin.command("serverStatus")["metrics"]["changeStreams"]


def until(look, seconds=20.0):
    """The first true result of look()."""
    end = time.monotonic() + seconds
    while True:
        found = look()
        if found or time.monotonic() > end:
            assert found, "it did not come true in time"
            return found


def rows_of(client, cursor_id, **spec):
    """$currentOp's rows of a cursor."""
    rows = client.admin.aggregate([{"$currentOp": spec}])
    return [row for row in rows if row.get("cursor", {}).get("cursorId") == cursor_id]


def open_by(raw, db):
    """A stream on the collection c; no driver, so no session that it would belong to."""
    return raw.command({"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}}, db=db.name)


def park(raw, reply, db, max_time_ms=60000):
    """Sends a getMore that waits."""
    cursor = reply["cursor"]
    coll = cursor["ns"].split(".", 1)[1]
    raw.send(op_msg({"getMore": cursor["id"], "collection": coll, "maxTimeMS": max_time_ms, "$db": db.name}))


# --- serverStatus ------------------------------------------------------------------------------


def test_metrics_are_longs(client):
    metrics = stream_metrics(client)
    assert list(metrics) == ["open", "parked", "eventsSent", "largeEventsFailed", "largeEventsSplit"]
    assert {type(value) for value in metrics.values()} == {Int64}


def test_events_sent(client, db):
    reply = open_raw(db, "c")
    before = stream_metrics(client)["eventsSent"]
    db.c.insert_many([{"_id": i} for i in range(7)])
    db.other.insert_one({})
    assert len(get_more(db, reply)["cursor"]["nextBatch"]) == 7
    assert stream_metrics(client)["eventsSent"] - before == 7
    filtered = open_raw(db, "c", stages=[{"$match": {"documentKey._id": {"$gt": 7}}}])
    db.c.insert_many([{"_id": i} for i in range(7, 10)])
    assert len(get_more(db, filtered)["cursor"]["nextBatch"]) == 2
    assert stream_metrics(client)["eventsSent"] - before == 9


def test_open_and_parked(client, db, raw):
    before = stream_metrics(client)
    reply = open_by(raw, db)
    plain = client.local.command("find", "oplog.rs", tailable=True, awaitData=True, batchSize=1)
    opened = stream_metrics(client)
    assert opened["open"] - before["open"] == 1  # a tailable cursor is no stream
    assert opened["parked"] == before["parked"]
    park(raw, reply, db)
    until(lambda: stream_metrics(client)["parked"] == before["parked"] + 1)
    db.c.insert_one({"_id": 1})
    assert len(raw.receive().doc["cursor"]["nextBatch"]) == 1
    until(lambda: stream_metrics(client)["parked"] == before["parked"])
    db.command("killCursors", "c", cursors=[reply["cursor"]["id"]])
    client.local.command("killCursors", "oplog.rs", cursors=[plain["cursor"]["id"]])
    assert stream_metrics(client)["open"] == before["open"]


def test_oplog_window(client, db):
    db.c.insert_one({"_id": 1})
    window = client.admin.command("serverStatus")["oplog"]
    entries = list(client.local["oplog.rs"].find().sort("$natural", 1))
    last = client.local["oplog.rs"].find().sort("$natural", -1).limit(1)[0]["ts"]
    assert window["first"] == entries[0]["ts"]
    assert isinstance(window["last"], Timestamp) and entries[-1]["ts"] <= last
    assert window["first"] < window["last"] <= last
    assert type(window["entries"]) is Int64 and window["entries"] > 2
    assert type(window["bytes"]) is Int64 and window["bytes"] > 100
    assert window["hours"] == (window["last"].time - window["first"].time) / 3600
    db.c.insert_many([{"_id": i} for i in range(10, 20)])
    after = client.admin.command("serverStatus")["oplog"]
    assert after["entries"] - window["entries"] >= 10
    assert after["bytes"] - window["bytes"] >= 10 * 100
    assert after["first"] == window["first"] and after["last"] > window["last"]


# --- $currentOp --------------------------------------------------------------------------------


def test_idle_stream(client, db):
    db.c.insert_one({"_id": 0})
    reply = open_raw(db, "c")
    stream = reply["cursor"]["id"]
    assert rows_of(client, stream) == []
    assert rows_of(client, stream, idleCursors=False) == []
    (row,) = rows_of(client, stream, idleCursors=True)
    assert row["type"] == "idleCursor"
    assert row["ns"] == f"{db.name}.c"
    assert row["cursor"]["tailable"] is True and row["cursor"]["awaitData"] is True
    assert row["cursor"]["noCursorTimeout"] is False
    assert (row["cursor"]["nDocsReturned"], row["cursor"]["nBatchesReturned"]) == (0, 1)
    assert row["cursor"]["createdDate"] <= row["cursor"]["lastAccessDate"]
    assert set(row["lsid"]) == {"id", "uid"}
    watch = row["changeStream"]
    assert list(watch) == ["scope", "ns", "waiting", "lastTokenTime", "lagSeconds"]
    assert (watch["scope"], watch["ns"], watch["waiting"]) == ("collection", f"{db.name}.c", False)
    assert watch["lastTokenTime"] == token_time(reply["cursor"]["postBatchResumeToken"])
    db.c.insert_one({"_id": 1})
    more = get_more(db, reply)["cursor"]
    (row,) = rows_of(client, stream, idleCursors=True)
    assert (row["cursor"]["nDocsReturned"], row["cursor"]["nBatchesReturned"]) == (1, 2)
    assert row["changeStream"]["lastTokenTime"] == token_time(more["postBatchResumeToken"])
    db.command("killCursors", "c", cursors=[stream])
    assert rows_of(client, stream, idleCursors=True) == []


def test_scopes(client, db):
    whole = open_raw(db, 1)
    (row,) = rows_of(client, whole["cursor"]["id"], idleCursors=True)
    assert row["ns"] == f"{db.name}.$cmd.aggregate"
    assert (row["changeStream"]["scope"], row["changeStream"]["ns"]) == ("database", db.name)
    every = open_raw(client.admin, 1, {"allChangesForCluster": True})
    (row,) = rows_of(client, every["cursor"]["id"], idleCursors=True)
    assert row["changeStream"]["scope"] == "cluster" and "ns" not in row["changeStream"]


def test_idle_cursor_that_is_no_stream(client, db):
    db.c.insert_many([{} for _ in range(5)])
    found = db.command("find", "c", batchSize=2)["cursor"]
    (row,) = rows_of(client, found["id"], idleCursors=True)
    assert row["type"] == "idleCursor" and "changeStream" not in row
    assert row["cursor"]["nDocsReturned"] == 2 and row["cursor"]["tailable"] is False


def test_lag_grows_while_nobody_reads(client, db):
    db.c.insert_one({})
    now = client.admin.command("hello")["lastWrite"]["opTime"]["ts"]
    start = Timestamp(now.time - 100, 1)
    oldest = client.admin.command("serverStatus")["oplog"]["first"]
    reply = open_raw(db, "c", {"startAtOperationTime": oldest}, cursor={"batchSize": 0})
    (row,) = rows_of(client, reply["cursor"]["id"], idleCursors=True)
    window = client.admin.command("serverStatus")["oplog"]
    assert start < row["changeStream"]["lastTokenTime"] <= oldest
    assert 0 <= row["changeStream"]["lagSeconds"] <= window["last"].time - oldest.time

    def behind():
        db.other.insert_one({})
        (row,) = rows_of(client, reply["cursor"]["id"], idleCursors=True)
        return row["changeStream"]["lagSeconds"] >= 2

    until(behind)
    assert type(rows_of(client, reply["cursor"]["id"], idleCursors=True)[0]["changeStream"]["lagSeconds"]) is Int64
    get_more(db, reply)
    get_more(db, reply)
    (row,) = rows_of(client, reply["cursor"]["id"], idleCursors=True)
    assert row["changeStream"]["lagSeconds"] <= 1


def test_parked_stream(client, db, raw):
    reply = open_by(raw, db)
    stream = reply["cursor"]["id"]
    park(raw, reply, db)
    rows = until(lambda: rows_of(client, stream))
    until(lambda: rows_of(client, stream)[0]["changeStream"]["waiting"])
    (row,) = rows_of(client, stream)
    assert (row["type"], row["op"], row["active"]) == ("op", "getmore", True)
    assert row["ns"] == f"{db.name}.c" and row["client"] == "%s:%d" % raw.sock.getsockname()
    assert row["changeStream"]["scope"] == "collection"
    assert row["changeStream"]["lagSeconds"] == 0
    assert row["opid"] == rows[0]["opid"]
    assert len(rows_of(client, stream, idleCursors=True)) == 1  # once, not as idle too
    (row,) = [
        r
        for r in client.admin.command("currentOp", idleCursors=True)["inprog"]
        if r.get("cursor", {}).get("cursorId") == stream
    ]
    assert row["op"] == "getmore" and row["changeStream"]["waiting"] is True
    db.c.insert_one({"_id": 1})
    assert len(raw.receive().doc["cursor"]["nextBatch"]) == 1
    command = client.admin.command("currentOp", idleCursors=True)["inprog"]
    (row,) = [r for r in command if r.get("cursor", {}).get("cursorId") == stream]
    assert row["type"] == "idleCursor" and row["cursor"]["nDocsReturned"] == 1


# --- explain -----------------------------------------------------------------------------------


def explain_stream(db, match):
    pipeline = [{"$changeStream": {}}, {"$match": match}, {"$project": {"ns": 1}}, {"$changeStreamSplitLargeEvent": {}}]
    command = {"aggregate": "c", "pipeline": pipeline, "cursor": {}}
    return db.command("explain", command, verbosity="queryPlanner")["stages"]


def test_explain_shows_the_chain(db):
    stages = explain_stream(db, {"_id._data": "x"})
    assert stages[0] == {"$changeStream": {}}
    assert stages[1] == {"$match": {"_id._data": "x"}}
    assert list(stages[2]) == ["$project"]
    assert stages[3:] == [{"$changeStreamSplitLargeEvent": {}}]


@pytest.mark.parametrize(
    "match, pushed",
    [
        ({"operationType": "insert"}, [{"operationType": {"$eq": "insert"}}]),
        ({"ns.coll": "c", "_id": 1}, [{"ns.coll": {"$eq": "c"}}]),
        ({"ns.coll": "c", "fullDocument.x": 1}, [{"ns.coll": {"$eq": "c"}}, {"fullDocument.x": {"$eq": 1}}]),
        ({"updateDescription.updatedFields.a": None}, [{"updateDescription.updatedFields.a": {"$eq": None}}]),
        ({"$nor": [{"to": 1}, {"_id": 1}]}, [{"$nor": [{"to": {"$eq": 1}}, {"_id": {"$eq": 1}}]}]),
        ({"documentKey._id": {"$gt": 5}}, [{"documentKey._id": {"$gt": 5}}]),
    ],
)
def test_explain_shows_what_is_pushed_down(db, match, pushed):
    stages = explain_stream(db, match)
    assert stages[0] == {"$changeStream": {}, "pushedDown": pushed}
    assert stages[1] == {"$match": match}
