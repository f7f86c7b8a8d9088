# SPDX-License-Identifier: GPL-3.0-or-later
"""The find of one _id, which has a path of its own: what it answers is what any find would.

With a hint the same query goes the way of all others, so each answer has one to be compared with.
"""

import datetime
import threading
import time
import uuid

import bson
import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from raw import RawClient
from txnutil import RawSession

SERVER_OPTIONS = {"test_commands": True}
OID = ObjectId()
IDS = [
    OID, "text", "", "with \0 in it", 5, -5, Int64(1 << 40), 1.5, 7.0, float("inf"), Decimal128("2.5"), True,
    datetime.datetime(2026, 1, 2, 3, 4, 5), Binary(b"abc"), Binary(b"abc", 5), Binary.from_uuid(uuid.UUID(int=7)),
    Timestamp(1, 2), None, {"a": 1}, {"a": {"b": 2}}, MinKey(), MaxKey(), Code("f()"),
]
ABSENT = [ObjectId(), "Text", 6, Int64(5) + 1, 1.25, datetime.datetime(2026, 1, 2), Binary(b"abd"), Binary(b"abc", 4)]


def find(raw, db, filter, coll="c", **options):
    reply = raw.command({"find": coll, "filter": filter, **options}, db.name)
    return {k: v for k, v in reply.items() if k not in ("operationTime", "$clusterTime")}


def both(raw, db, filter, **options):
    """The reply of the short way; the long way's must be the same."""
    short = find(raw, db, filter, **options)
    long = find(raw, db, filter, hint="_id_", **options)
    assert bson.encode(short) == bson.encode(long)
    return short


@pytest.fixture
def filled(db):
    db.c.insert_many([{"_id": v, "n": i} for i, v in enumerate(IDS)])
    return db


@pytest.mark.parametrize("n", range(len(IDS)), ids=lambda n: type(IDS[n]).__name__)
def test_found(raw, filled, n):
    reply = both(raw, filled, {"_id": IDS[n]})
    assert list(reply) == ["cursor", "ok"] and list(reply["cursor"]) == ["firstBatch", "id", "ns"]
    assert [d["n"] for d in reply["cursor"]["firstBatch"]] == [n]
    assert (reply["cursor"]["id"], reply["cursor"]["ns"]) == (0, f"{filled.name}.c")


@pytest.mark.parametrize("value", ABSENT, ids=lambda v: type(v).__name__)
def test_absent(raw, filled, value):
    assert both(raw, filled, {"_id": value})["cursor"]["firstBatch"] == []


@pytest.mark.parametrize("asked, n", [(5.0, 4), (Int64(5), 4), (Decimal128("5"), 4), (7, 8), (Int64(7), 8), (1 << 40, 6)])
def test_numbers_are_equal_across_types(raw, filled, asked, n):
    assert [d["n"] for d in both(raw, filled, {"_id": asked})["cursor"]["firstBatch"]] == [n]


@pytest.mark.parametrize("filter, n", [
    ({"_id": Regex("^tex")}, [1]), ({"_id": {"$in": ["text"]}}, [1]), ({"_id": {"$gt": "s"}}, [1, 3]), ({"_id": "text", "n": 2}, []),
    ({"n": 1, "_id": "text"}, [1]), ({"_id": "text", "n": 1}, [1]), ({"_id": "text", "$expr": {"$eq": ["$n", 2]}}, [])])
def test_other_filters_on_id(raw, filled, filter, n):
    assert [d["n"] for d in both(raw, filled, filter)["cursor"]["firstBatch"]] == n


@pytest.mark.parametrize("options, want", [
    ({"skip": 1}, []), ({"limit": 1}, [{"_id": 5, "n": 4}]), ({"limit": 3}, [{"_id": 5, "n": 4}]),
    ({"projection": {"_id": 0}}, [{"n": 4}]), ({"sort": {"n": 1}}, [{"_id": 5, "n": 4}]),
    ({"singleBatch": True, "limit": 1}, [{"_id": 5, "n": 4}]), ({"let": {"x": 1}}, [{"_id": 5, "n": 4}])])
def test_options(raw, filled, options, want):
    assert both(raw, filled, {"_id": 5}, **options)["cursor"]["firstBatch"] == want


@pytest.mark.parametrize("options, code", [
    ({"sort": {"n": 5}}, 15975), ({"projection": {"a": 1, "b": 0}}, 31254), ({"min": {"_id": 1}}, 51173),
    ({"max": {"_id": 1}}, 51173), ({"hint": "nope"}, 2), ({"hint": {"n": 1}}, 2), ({"awaitData": True}, 9), ({"tailable": True}, 2),
    ({"collectionUUID": Binary.from_uuid(uuid.UUID(int=7))}, 361), ({"collation": {"strength": 1}}, 40414)])
def test_options_that_are_wrong(raw, filled, options, code):
    assert find(raw, filled, {"_id": 5}, **options)["code"] == code


def test_record_id(raw, filled):
    assert "$recordId" in both(raw, filled, {"_id": 5}, showRecordId=True)["cursor"]["firstBatch"][0]


@pytest.mark.parametrize("options, is_open", [
    ({}, False), ({"batchSize": 0}, True), ({"batchSize": 1}, True), ({"batchSize": 2}, False),
    ({"batchSize": 1, "limit": 1}, False), ({"batchSize": 1, "singleBatch": True}, False)])
def test_whether_a_cursor_is_left(raw, filled, options, is_open):
    for hint in ({}, {"hint": "_id_"}):
        cursor = find(raw, filled, {"_id": 5}, **options, **hint)["cursor"]
        assert (cursor["id"] != 0) == is_open
        assert len(cursor["firstBatch"]) == (0 if options.get("batchSize") == 0 else 1)


def test_no_collection_and_views_of_the_server(raw, client, db):
    assert find(raw, db, {"_id": 1})["cursor"] == {"firstBatch": [], "id": 0, "ns": f"{db.name}.c"}
    config = find(raw, client["local"], {"_id": "rs0"}, coll="system.replset")["cursor"]["firstBatch"]
    assert [c["_id"] for c in config] == ["rs0"]


def test_in_a_transaction(raw, db):
    db.c.insert_one({"_id": 1, "x": "before"})
    txn = RawSession(raw, db.name)
    txn.start({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": "within"}}}]})
    assert txn.run({"find": "c", "filter": {"_id": 1}})["cursor"]["firstBatch"] == [{"_id": 1, "x": "within"}]
    assert find(raw, db, {"_id": 1})["cursor"]["firstBatch"] == [{"_id": 1, "x": "before"}]
    txn.abort()


def test_of_a_snapshot(raw, db):
    db.c.insert_one({"_id": 1, "x": 1})
    concern = {"level": "snapshot"}
    then = find(raw, db, {"_id": 1}, readConcern=concern)["cursor"]["atClusterTime"]
    db.c.update_one({"_id": 1}, {"$set": {"x": 2}})
    old = find(raw, db, {"_id": 1}, readConcern={**concern, "atClusterTime": then})["cursor"]
    assert old["firstBatch"] == [{"_id": 1, "x": 1}] and old["atClusterTime"] == then


def test_an_error_says_where_it_came_up(raw, client, db):
    """As the reading of any find fails, in the same words."""
    db.c.insert_one({"_id": 1})
    replies = []
    for hint in ({}, {"hint": "_id_"}):
        client.admin.command("runnelFault", "storageRead:error=1")
        try:
            replies.append(find(raw, db, {"_id": 1}, **hint))
        finally:
            client.admin.command("runnelFault", "off")
    assert replies[0] == replies[1]
    assert replies[0]["ok"] == 0.0
    assert replies[0]["errmsg"].startswith("Executor error during find command :: caused by :: ")


@pytest.mark.concurrent
@pytest.mark.parametrize("again", [False, True])
def test_the_collection_goes_meanwhile(srv, client, db, again):
    """The snapshot still has the old collection's document; it is not the answer."""
    db.c.insert_one({"_id": 1, "x": "old"})
    replies = []
    with RawClient(srv.port) as reader:
        client.admin.command("runnelFault", "scanSnapshot:wait")
        try:
            reading = threading.Thread(target=lambda: replies.append(find(reader, db, {"_id": 1})))
            reading.start()
            while client.admin.command("runnelFault", "scanSnapshot:wait")["hits"] < 1:
                time.sleep(0.01)
            db.c.drop()
            if again:
                db.c.insert_one({"_id": 1, "x": "new"})
        finally:
            client.admin.command("runnelFault", "off")
        reading.join()
    assert replies[0]["cursor"]["firstBatch"] == ([{"_id": 1, "x": "new"}] if again else [])
