# SPDX-License-Identifier: GPL-3.0-or-later
"""Reported change-stream cases, one test each, named by its id."""

import threading
import time

import pymongo
import pytest
from bson import Timestamp

from streamutil import drain, error_of, get_more, kinds, open_raw, token_time


def test_cs_01_drop_database_per_scope(client, db):
    with db.c1.watch() as s1, db.watch() as s2, client.watch() as s3:
        db.c1.insert_one({"_id": 1})
        db.c2.insert_one({"_id": 1})
        client.drop_database(db.name)
        e1 = drain(s1, 3)
        e2 = drain(s2, 6)
        e3 = [e for e in drain(s3, 5) if e["ns"]["db"] == db.name]
        assert kinds(e1) == ["insert", "drop", "invalidate"]
        assert kinds(e2) == ["insert", "insert", "drop", "drop", "dropDatabase", "invalidate"]
        assert e2[4]["ns"] == {"db": db.name}
        assert kinds(e3) == ["insert", "insert", "drop", "drop", "dropDatabase"]
        assert s1.try_next() is None and not s1.alive
        assert s2.try_next() is None and not s2.alive
        assert s3.try_next() is None and s3.alive


def test_cs_03_rename_tells_source_and_target(db):
    db.a.insert_one({})
    with db.a.watch() as s1, db.watch() as s2, db.b.watch() as s3:
        db.a.rename("b")
        for s in (s1, s3):
            rename, invalidate = drain(s, 2)
            assert rename["operationType"] == "rename"
            assert rename["ns"] == {"db": db.name, "coll": "a"}
            assert rename["to"] == {"db": db.name, "coll": "b"}
            assert "operationDescription" not in rename and "collectionUUID" not in rename
            assert list(invalidate) == ["_id", "operationType", "clusterTime", "wallTime"]
            assert not s.alive
        assert kinds(drain(s2, 1)) == ["rename"]
        assert s2.try_next() is None and s2.alive


@pytest.mark.parametrize(
    "stage",
    [{"$project": {"_id": 0}}, {"$replaceRoot": {"newRoot": "$fullDocument"}}, {"$set": {"_id": 1}}],
    ids=["project", "replaceRoot", "set"],
)
def test_cs_06_pipeline_that_breaks_the_token(db, stage):
    reply = open_raw(db, "c", stages=[stage])
    db.c.insert_one({"x": 1})
    e = error_of(lambda: get_more(db, reply, 5000))
    assert e.code == 280 and e.details["codeName"] == "ChangeStreamFatalError"
    assert e.has_error_label("NonResumableChangeStreamError")


@pytest.mark.parametrize("stage", [{"$project": {"fullDocument": 0}}, {"$unset": "fullDocument"}])
def test_cs_06_pipeline_that_keeps_the_token(db, stage):
    with db.c.watch([stage]) as s:
        db.c.insert_one({"x": 1})
        event = drain(s, 1)[0]
    assert "fullDocument" not in event
    assert set(event["_id"]) == {"_data"}


def test_cs_07_truncated_array(db):
    db.c.insert_one({"_id": 1, "arr": ["a", "b", "c"], "keep": "x"})
    with db.c.watch() as s:
        db.c.update_one({"_id": 1}, [{"$set": {"arr": {"$slice": ["$arr", 1]}}}])
        db.c.update_one({"_id": 1}, {"$set": {"keep": "z"}})
        first, second = drain(s, 2)
    assert first["updateDescription"] == {
        "updatedFields": {},
        "removedFields": [],
        "truncatedArrays": [{"field": "arr", "newSize": 1}],
    }
    assert second["updateDescription"] == {
        "updatedFields": {"keep": "z"},
        "removedFields": [],
        "truncatedArrays": [],
    }


def test_cs_09_no_leak_of_other_collections(client, db):
    other = client[db.name + "_other"]
    try:
        with db.a.watch([{"$match": {"fullDocument.k": 1}}]) as s:
            db.b.insert_one({"k": 1})
            db.a.insert_one({"k": 1})
            db.aa.insert_one({"k": 1})
            other.a.insert_one({"k": 1})
            db.a.insert_one({"k": 2})
            events = drain(s, 1)
            assert events[0]["ns"] == {"db": db.name, "coll": "a"}
            assert s.try_next() is None
    finally:
        client.drop_database(other.name)


def test_cs_10_every_event_has_its_own_token(client, db):
    with client.watch(
        [{"$match": {"ns.db": db.name}}], show_expanded_events=True, max_await_time_ms=500
    ) as s:
        db.create_collection("c")
        db.c.insert_one({"_id": 1})
        db.c.update_one({"_id": 1}, {"$set": {"x": 1}})
        db.c.replace_one({"_id": 1}, {"y": 1})
        db.c.create_index("y")
        db.c.drop_index("y_1")
        db.command("collMod", "c", changeStreamPreAndPostImages={"enabled": True})
        db.c.delete_one({"_id": 1})
        db.c.rename("d")
        db.d.drop()
        db.e.insert_one({})
        client.drop_database(db.name)
        events = drain(s)
    assert kinds(events) == [
        "create", "insert", "update", "replace", "createIndexes", "dropIndexes", "modify", "delete",
        "rename", "drop", "create", "insert", "drop", "dropDatabase",
    ]
    for e in events:
        int(e["_id"]["_data"], 16)
        assert isinstance(e["clusterTime"], Timestamp) and "wallTime" in e
    tokens = [e["_id"]["_data"] for e in events]
    assert tokens == sorted(tokens) and len(set(tokens)) == len(tokens)


def test_cs_12_token_of_an_empty_first_batch(db):
    reply = open_raw(db, "c")
    assert reply["cursor"]["firstBatch"] == []
    token = reply["cursor"]["postBatchResumeToken"]
    db.command("killCursors", "c", cursors=[reply["cursor"]["id"]])
    db.c.insert_one({"_id": 1})
    with db.c.watch(resume_after=token) as s:
        assert drain(s, 1)[0]["documentKey"] == {"_id": 1}


def test_cs_12_every_batch_has_a_token(db):
    reply = open_raw(db, "c")
    assert list(reply["cursor"]) == ["firstBatch", "postBatchResumeToken", "id", "ns"]
    for _ in range(3):
        more = get_more(db, reply)
        assert list(more["cursor"]) == ["nextBatch", "postBatchResumeToken", "id", "ns"]


def test_cs_13_operation_time_on_every_reply(db):
    times = []

    def note(reply):
        assert isinstance(reply["operationTime"], Timestamp)
        assert reply["$clusterTime"]["clusterTime"] >= reply["operationTime"]
        times.append(reply["operationTime"])
        return reply

    note(db.command("ping"))
    note(db.command("insert", "c", documents=[{"_id": 1}]))
    note(db.command("find", "c"))
    stream = note(open_raw(db, "c"))
    note(get_more(db, stream))
    note(error_of(lambda: db.command("noSuchCommand")).details)
    assert times == sorted(times)


def test_cs_15_dotted_name_in_updated_fields(db):
    db.c.insert_one({"_id": 1, "goal": {"ok": False}})
    match = [{"$match": {"updateDescription.updatedFields.goal.ok": True}}]
    with db.c.watch(match) as s, db.c.watch() as p:
        db.c.update_one({"_id": 1}, {"$set": {"goal.ok": True}})
        assert drain(p, 1)[0]["updateDescription"]["updatedFields"] == {"goal.ok": True}
        assert s.try_next() is None


def test_cs_16_filter_on_full_document(db):
    match = [{"$match": {"fullDocument.u": 7}}]
    with db.c.watch(match) as s1, db.c.watch(match, full_document="updateLookup") as s2:
        db.c.insert_one({"_id": 1, "u": 7, "n": 0})
        db.c.update_one({"_id": 1}, {"$set": {"n": 1}})
        assert kinds(drain(s1)) == ["insert"]
        assert kinds(drain(s2)) == ["insert", "update"]
        db.c.delete_one({"_id": 1})
        assert s1.try_next() is None and s2.try_next() is None


def test_cs_21_implicit_creation_and_index_builds(db):
    two = [pymongo.IndexModel("a"), pymongo.IndexModel("b")]
    with db.watch(show_expanded_events=True) as s:
        db.new.insert_one({"_id": 1})
        db.new.create_indexes(two)
        db.empty.create_indexes(two)
        events = drain(s)
    assert [(e["operationType"], e["ns"]["coll"]) for e in events] == [
        ("create", "new"), ("insert", "new"), ("createIndexes", "new"),
        ("create", "empty"), ("createIndexes", "empty"), ("createIndexes", "empty"),
    ]
    names = [[i["name"] for i in e["operationDescription"]["indexes"]]
             for e in events if e["operationType"] == "createIndexes"]
    assert names == [["a_1", "b_1"], ["a_1"], ["b_1"]]


def test_cs_22_tokens_of_ddl_outlive_the_server(disk_srv):
    with pymongo.MongoClient(disk_srv.uri) as client:
        with client.cs22.watch(show_expanded_events=True) as s:
            client.cs22.create_collection("n", changeStreamPreAndPostImages={"enabled": True})
            spec = {"key": {"a": 1.0}, "name": "a_1"}  # a double makes type bits
            client.cs22.command("createIndexes", "n", indexes=[spec])
            client.cs22.command("collMod", "n", changeStreamPreAndPostImages={"enabled": False})
            client.cs22.command("collMod", "n", index={"name": "a_1", "hidden": True})
            client.cs22.n.drop_index("a_1")
            client.cs22.n.rename("m")
            client.cs22.m.drop()
            events = drain(s, 7)
    assert kinds(events) == [
        "create", "createIndexes", "modify", "modify", "dropIndexes", "rename", "drop",
    ]
    assert "nsType" not in events[0] and "type" not in events[0]["operationDescription"]
    disk_srv.restart()
    with pymongo.MongoClient(disk_srv.uri) as client:
        for i, e in enumerate(events):
            with client.cs22.watch(show_expanded_events=True, resume_after=e["_id"]) as s:
                assert drain(s) == events[i + 1 :]


def test_cs_24_when_available_without_and_with_images(db):
    db.create_collection("c")
    options = dict(full_document="whenAvailable", full_document_before_change="whenAvailable")
    with db.c.watch(**options) as s:
        db.c.insert_one({"_id": 1, "x": 1})
        db.c.update_one({"_id": 1}, {"$set": {"x": 2}})
        db.c.delete_one({"_id": 1})
        insert, update, delete = drain(s, 3)
        assert "fullDocumentBeforeChange" not in insert
        assert update["fullDocument"] is None and update["fullDocumentBeforeChange"] is None
        assert delete["fullDocumentBeforeChange"] is None and "fullDocument" not in delete
        db.command("collMod", "c", changeStreamPreAndPostImages={"enabled": True})
        db.c.insert_one({"_id": 2, "x": 1})
        db.c.update_one({"_id": 2}, {"$set": {"x": 2}})
        db.c.delete_one({"_id": 2})
        _, update, delete = drain(s, 3)
        assert update["fullDocumentBeforeChange"] == {"_id": 2, "x": 1}
        assert update["fullDocument"] == {"_id": 2, "x": 2}
        assert delete["fullDocumentBeforeChange"] == {"_id": 2, "x": 2}


def test_cs_24_required_without_an_image(db):
    db.create_collection("c")
    reply = open_raw(db, "c", {"fullDocument": "required"})
    db.c.insert_one({"_id": 1})
    db.c.update_one({"_id": 1}, {"$set": {"x": 2}})
    e = error_of(lambda: get_more(db, reply, 5000))
    assert e.code == 47 and e.details["codeName"] == "NoMatchingDocument"
    assert "errorLabels" not in e.details
    assert error_of(lambda: get_more(db, reply)).code == 43


def test_cs_27_cluster_time_agrees(client, db):
    with db.c.watch() as s:
        reply = db.command("insert", "c", documents=[{"_id": 1}])
        event = drain(s, 1)[0]
    assert reply["operationTime"] == event["clusterTime"] == token_time(event["_id"])
    entry = client.local["oplog.rs"].find_one({"ts": event["clusterTime"]})
    assert entry["op"] == "i" and entry["o"] == {"_id": 1}


def test_cs_28_snapshot_then_stream(client, db):
    db.c.insert_one({"_id": "A"})
    start = client.admin.command("ping")["operationTime"]
    with client.start_session(causal_consistency=True) as session:
        session.advance_operation_time(start)
        assert [d["_id"] for d in db.c.find({}, session=session)] == ["A"]
    db.c.insert_one({"_id": "B"})
    db.c.update_one({"_id": "A"}, {"$set": {"x": 1}})
    with db.c.watch(start_at_operation_time=start) as s:
        after = [e for e in drain(s) if e["clusterTime"] > start]
    assert [(e["operationType"], e["documentKey"]["_id"]) for e in after] == [
        ("insert", "B"),
        ("update", "A"),
    ]


def test_cs_30_insert_is_never_looked_up(db):
    with db.c.watch() as s:
        token = s.resume_token
    db.c.insert_one({"_id": 1, "x": 1})
    db.c.update_one({"_id": 1}, {"$set": {"x": 2}})
    db.c.update_one({"_id": 1}, {"$set": {"x": 3}})
    with db.c.watch(full_document="updateLookup", resume_after=token) as s:
        insert, first, second = drain(s, 3)
    assert insert["fullDocument"]["x"] == 1
    assert first["updateDescription"]["updatedFields"] == {"x": 2}
    assert first["fullDocument"]["x"] == 3 and second["fullDocument"]["x"] == 3


def test_cs_31_images_are_of_their_time(db):
    db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    with db.c.watch() as s:
        token = s.resume_token
    db.c.insert_one({"_id": 1, "x": 1})
    db.c.update_one({"_id": 1}, {"$set": {"x": 2}})
    db.c.update_one({"_id": 1}, {"$set": {"x": 3}})
    db.c.delete_one({"_id": 1})
    options = dict(full_document="required", full_document_before_change="required")
    with db.c.watch(resume_after=token, **options) as s:
        _, first, second, delete = drain(s, 4)
    assert first["fullDocumentBeforeChange"]["x"] == 1 and first["fullDocument"]["x"] == 2
    assert second["fullDocumentBeforeChange"]["x"] == 2 and second["fullDocument"]["x"] == 3
    assert delete["fullDocumentBeforeChange"] == {"_id": 1, "x": 3}


@pytest.mark.concurrent
def test_cs_33_waits_and_wakes(srv, db):
    reply = open_raw(db, "c")
    for _ in range(5):
        assert get_more(db, reply, 100)["cursor"]["nextBatch"] == []
    with pymongo.MongoClient(srv.uri) as writer:
        for i in range(20):
            timer = threading.Timer(0.05, writer[db.name].c.insert_one, ({"_id": i},))
            timer.start()
            begun = time.monotonic()
            batch = get_more(db, reply, 30000)["cursor"]["nextBatch"]
            assert time.monotonic() - begun < 15, "the wait ran its full time"
            assert [e["documentKey"]["_id"] for e in batch] == [i]
            timer.join()


@pytest.mark.concurrent
def test_cs_34_no_squashing_no_reordering(srv, client, db):
    db.c.insert_many([{"_id": i, "n": 0} for i in range(10)])

    def increments(begin, count):
        with pymongo.MongoClient(srv.uri) as c:
            for i in range(begin, begin + count):
                c[db.name].c.update_one({"_id": i % 10}, {"$inc": {"n": 1}})

    for threads in (1, 4):
        with db.c.watch() as s:
            workers = [
                threading.Thread(target=increments, args=(w * 250, 1000 // threads))
                for w in range(threads)
            ]
            for w in workers:
                w.start()
            events = drain(s, 1000, seconds=60)
            for w in workers:
                w.join()
            assert s.try_next() is None
        seen = {}
        for e in events:
            n = e["updateDescription"]["updatedFields"]["n"]
            key = e["documentKey"]["_id"]
            assert n == seen.get(key, n - 1) + 1
            seen[key] = n
        stamps = [e["clusterTime"] for e in events]
        assert stamps == sorted(stamps)
        entries = client.local["oplog.rs"].find(
            {"ns": db.c.full_name, "ts": {"$gte": stamps[0], "$lte": stamps[-1]}}
        )
        assert [x["ts"] for x in entries] == stamps
