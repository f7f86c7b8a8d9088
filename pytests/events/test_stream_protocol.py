# SPDX-License-Identifier: GPL-3.0-or-later
"""The cursor of a stream: opening, batches, tokens, waiting, ending."""

import threading
import time

import pymongo
import pytest
from bson import Binary, Int64, Timestamp

from server import Server
from streamutil import drain, error_of, get_more, kinds, open_raw, token_time


def is_mark(token):
    """A high-water mark of version 2: no event type, no UUID, no identifier."""
    return token["_data"][18:] == "2B0429296E1404" and set(token) == {"_data"}


def pbrt(reply):
    return reply["cursor"]["postBatchResumeToken"]


def test_namespaces_of_cursors(client, db):
    assert open_raw(db, "c")["cursor"]["ns"] == f"{db.name}.c"
    assert open_raw(db, 1)["cursor"]["ns"] == f"{db.name}.$cmd.aggregate"
    reply = open_raw(client.admin, 1, {"allChangesForCluster": True})
    assert reply["cursor"]["ns"] == "admin.$cmd.aggregate"


def test_opening_creates_nothing(client, db):
    reply = open_raw(db, "c")
    assert reply["cursor"]["id"] != 0 and reply["cursor"]["firstBatch"] == []
    assert db.name not in client.list_database_names()


def test_a_stream_begins_behind_what_was_acknowledged(db):
    for i in range(20):
        db.c.insert_one({"_id": 2 * i})
        reply = open_raw(db, "c")
        db.c.insert_one({"_id": 2 * i + 1})
        batch = get_more(db, reply, 5000)["cursor"]["nextBatch"]
        assert [e["documentKey"]["_id"] for e in batch] == [2 * i + 1]


def test_first_batch_never_waits_but_has_what_is_there(db):
    token = pbrt(open_raw(db, "c"))
    db.c.insert_many([{"_id": i} for i in range(150)])
    first = open_raw(db, "c", {"resumeAfter": token})
    assert len(first["cursor"]["firstBatch"]) == 101
    assert pbrt(first) == first["cursor"]["firstBatch"][-1]["_id"]
    first = open_raw(db, "c", {"resumeAfter": token}, cursor={"batchSize": 0})
    assert first["cursor"]["firstBatch"] == [] and pbrt(first) == token
    first = open_raw(db, "c", {"resumeAfter": token}, cursor={"batchSize": 7})
    assert len(first["cursor"]["firstBatch"]) == 7
    assert len(get_more(db, first, batchSize=3)["cursor"]["nextBatch"]) == 3
    assert len(get_more(db, first)["cursor"]["nextBatch"]) == 140


def test_initial_tokens(db):
    reply = open_raw(db, "c")
    assert is_mark(pbrt(reply))
    assert token_time(pbrt(reply)) > Timestamp(1, 1)
    start = Timestamp(int(time.time()) - 1, 7)
    reply = open_raw(db, "c", {"startAtOperationTime": start}, cursor={"batchSize": 0})
    assert is_mark(pbrt(reply)) and token_time(pbrt(reply)) == start


def test_a_start_before_all_time(db):
    begun = pbrt(open_raw(db, 1))
    reply = open_raw(db, "c", {"startAtOperationTime": Timestamp(0, 0)}, cursor={"batchSize": 0})
    assert token_time(pbrt(reply)) == Timestamp(0, 0)
    db.c.insert_one({"_id": 1})
    more = get_more(db, reply, 5000)
    assert kinds(more["cursor"]["nextBatch"]) == ["insert"]
    assert pbrt(more)["_data"] > begun["_data"]


def test_token_follows_the_oplog_and_never_goes_back(db):
    reply = open_raw(db, "c")
    tokens = [pbrt(reply)]
    written = db.command("insert", "other", documents=[{"_id": 1}])["operationTime"]
    more = get_more(db, reply)
    tokens.append(pbrt(more))
    assert is_mark(pbrt(more)) and token_time(pbrt(more)) >= written
    again = get_more(db, reply)
    assert pbrt(again) == pbrt(more), "an idle stream's token moves only with the oplog"
    db.c.insert_one({"_id": 1})
    more = get_more(db, reply, 5000)
    tokens.append(pbrt(more))
    assert pbrt(more) == more["cursor"]["nextBatch"][-1]["_id"]
    db.c.delete_one({"_id": 1})
    db.other.insert_one({"_id": 2})
    more = get_more(db, reply, 5000)
    if kinds(more["cursor"]["nextBatch"]) == ["delete"]:
        tokens.append(pbrt(more))
        more = get_more(db, reply)
    tokens.append(pbrt(more))
    assert [t["_data"] for t in tokens] == sorted(t["_data"] for t in tokens)


def test_a_filter_moves_the_token(db):
    reply = open_raw(db, "c", stages=[{"$match": {"operationType": "nothing"}}])
    written = db.command("insert", "c", documents=[{"_id": 1}])["operationTime"]
    more = get_more(db, reply)
    assert more["cursor"]["nextBatch"] == []
    assert is_mark(pbrt(more)) and token_time(pbrt(more)) >= written


def test_operation_time_covers_the_events(db):
    reply = open_raw(db, "c")
    db.c.insert_one({"_id": 1})
    more = get_more(db, reply, 5000)
    assert more["operationTime"] >= more["cursor"]["nextBatch"][-1]["clusterTime"]


def test_wait_limits(db):
    reply = open_raw(db, "c")
    begun = time.monotonic()
    get_more(db, reply, 300)
    assert 0.25 < time.monotonic() - begun < 5
    begun = time.monotonic()
    ns = reply["cursor"]["ns"].split(".", 1)[1]
    db.command("getMore", reply["cursor"]["id"], collection=ns)
    assert 0.9 < time.monotonic() - begun < 10, "one second without maxTimeMS"


@pytest.mark.concurrent
def test_only_relevant_writes_end_a_wait(srv, db):
    reply = open_raw(db, "c")
    stop, going = threading.Event(), threading.Event()

    def noise():
        with pymongo.MongoClient(srv.uri) as c:
            i = 0
            while not stop.is_set():
                c[db.name].other.insert_one({"_id": i})
                going.set()
                i += 1

    thread = threading.Thread(target=noise)
    thread.start()
    try:
        assert going.wait(60)
        begun = time.monotonic()
        more = get_more(db, reply, 1000)
        assert more["cursor"]["nextBatch"] == []
        assert time.monotonic() - begun > 0.9
        assert pbrt(more)["_data"] > pbrt(reply)["_data"]
    finally:
        stop.set()
        thread.join()


def test_an_invalidated_cursor_is_closed_with_its_batch(db):
    db.c.insert_one({})
    reply = open_raw(db, "c")
    db.c.drop()
    more = get_more(db, reply, 5000)
    assert kinds(more["cursor"]["nextBatch"]) == ["drop", "invalidate"]
    assert more["cursor"]["id"] == 0
    assert list(more["cursor"]) == ["nextBatch", "postBatchResumeToken", "invalidated", "id", "ns"]
    assert more["cursor"]["invalidated"] is True
    assert pbrt(more) == more["cursor"]["nextBatch"][-1]["_id"]
    assert error_of(lambda: get_more(db, reply)).code == 43


def test_a_full_batch_leaves_the_end_to_the_next(db):
    db.c.insert_one({})
    reply = open_raw(db, "c")
    db.c.drop()
    more = get_more(db, reply, 5000, batchSize=2)
    assert kinds(more["cursor"]["nextBatch"]) == ["drop", "invalidate"]
    assert more["cursor"]["id"] != 0 and "invalidated" not in more["cursor"]
    last = get_more(db, reply, 5000)
    assert last["cursor"]["nextBatch"] == [] and last["cursor"]["id"] == 0
    assert last["cursor"]["invalidated"] is True
    assert pbrt(last) == pbrt(more)


def test_a_filtered_invalidate_still_closes(db):
    db.c.insert_one({})
    reply = open_raw(db, "c", stages=[{"$match": {"operationType": "insert"}}])
    db.c.drop()
    more = get_more(db, reply, 5000)
    assert more["cursor"]["nextBatch"] == [] and more["cursor"]["id"] == 0
    with db.c.watch(start_after=pbrt(more)) as s:
        db.c.insert_one({"_id": "new"})
        assert drain(s, 1)[0]["documentKey"] == {"_id": "new"}


def test_a_wait_is_ended_by_kill_cursors(srv, db):
    reply = open_raw(db, "c")
    failed = []

    def wait():
        failed.append(error_of(lambda: get_more(db, reply, 30000)).code)

    with pymongo.MongoClient(srv.uri) as other:
        other.admin.command("ping")
        thread = threading.Thread(target=wait)
        thread.start()
        deadline = time.monotonic() + 20
        pinned = 0
        while pinned == 0 and time.monotonic() < deadline:
            status = other.admin.command("serverStatus")
            pinned = status["metrics"]["cursor"]["open"]["pinned"]
        begun = time.monotonic()
        other[db.name].command("killCursors", "c", cursors=[reply["cursor"]["id"]])
        thread.join(25)
        assert time.monotonic() - begun < 20
    assert failed == [237]
    assert error_of(lambda: get_more(db, reply)).code == 43


def test_batches_are_bounded_in_bytes(db):
    token = pbrt(open_raw(db, "c"))
    for i in range(5):
        db.c.insert_one({"_id": i, "pad": b"x" * (5 << 20)})
    reply = open_raw(db, "c", {"resumeAfter": token})
    seen = [e["documentKey"]["_id"] for e in reply["cursor"]["firstBatch"]]
    assert 1 <= len(seen) < 5
    assert pbrt(reply) == reply["cursor"]["firstBatch"][-1]["_id"]
    while len(seen) < 5:
        more = get_more(db, reply, 5000)["cursor"]["nextBatch"]
        assert more
        seen += [e["documentKey"]["_id"] for e in more]
    assert seen == list(range(5))


@pytest.mark.parametrize("count", [1, 3])
def test_resume_from_every_event(db, count):
    with db.c.watch(show_expanded_events=True) as s:
        db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
        db.c.insert_many([{"_id": i} for i in (1, 2.5, "s", Binary(b"\0\1", 5))])
        db.c.insert_one({"_id": {"a": [1, Int64(2), None], "b": "x\0y"}})
        db.c.insert_one({"_id": Int64(1 << 40)})
        db.c.update_many({}, {"$set": {"x": 1}})
        db.c.create_indexes([pymongo.IndexModel("x"), pymongo.IndexModel([("y", -1)])])
        db.c.drop_index("x_1")
        db.command("collMod", "c", changeStreamPreAndPostImages={"enabled": False})
        db.c.delete_many({})
        db.c.drop()
        events = drain(s)
    assert events[-1]["operationType"] == "invalidate"
    for i, e in enumerate(events):
        with db.c.watch(start_after=e["_id"], show_expanded_events=True, batch_size=count) as s:
            assert drain(s) == events[i + 1:]
        # without the type bits it is the same place
        with db.c.watch(start_after={"_data": e["_id"]["_data"]}, show_expanded_events=True) as s:
            assert drain(s) == events[i + 1:]


def test_resume_where_the_filter_hides_the_event(db):
    with db.c.watch() as s:
        db.c.insert_one({"_id": 1})
        event = drain(s, 1)[0]
    db.c.delete_one({"_id": 1})
    with db.c.watch([{"$match": {"operationType": "delete"}}], resume_after=event["_id"]) as s:
        assert kinds(drain(s, 1)) == ["delete"]


def test_high_water_marks_fit_any_namespace(client, db):
    token = pbrt(open_raw(db, "c"))
    db.d.insert_one({"_id": 1})
    with db.d.watch(resume_after=token) as s:
        assert drain(s, 1)[0]["documentKey"] == {"_id": 1}
    with client.watch([{"$match": {"ns.db": db.name}}], start_after=token) as s:
        assert drain(s, 1)[0]["documentKey"] == {"_id": 1}


def test_tokens_of_version_1(db):
    stage = {"$changeStream": {}}
    reply = db.command(
        "aggregate", "c", pipeline=[stage], cursor={}, **{"$_generateV2ResumeTokens": False}
    )
    assert pbrt(reply)["_data"][18:] == "2B0229296E04"
    db.c.insert_many([{"_id": 1}, {"_id": 2}])
    batch = get_more(db, reply, 5000, batchSize=1)["cursor"]["nextBatch"]
    assert batch[0]["_id"]["_data"].endswith("461E5F6964002B020004")
    # a stream of version 2 goes on behind a token of version 1
    reply = open_raw(db, "c", {"resumeAfter": batch[0]["_id"]})
    assert [e["documentKey"]["_id"] for e in reply["cursor"]["firstBatch"]] == [2]
    assert "6F7065726174696F6E54797065" in pbrt(reply)["_data"]
    reply = open_raw(db, "c", {"resumeAfter": batch[0]["_id"]}, cursor={"batchSize": 0})
    assert pbrt(reply) == batch[0]["_id"]


def test_streams_need_an_oplog():
    with Server(memory=True, no_oplog=True) as srv, pymongo.MongoClient(srv.uri) as client:
        assert error_of(lambda: open_raw(client.t, "c")).code == 40573


def test_read_concern(db):
    pipeline = [{"$changeStream": {}}]
    for level, code in (("local", 72), ("available", 72), ("majority", 0)):
        command = dict(pipeline=pipeline, cursor={}, readConcern={"level": level})
        if code:
            e = error_of(lambda: db.command("aggregate", "c", **command))
            assert e.code == code
        else:
            assert db.command("aggregate", "c", **command)["ok"] == 1


@pytest.mark.parametrize("option", [
    "showExpandedEvents", "showMigrationEvents", "showSystemEvents", "showRawUpdateDescription",
    "allowToRunOnConfigDB", "allowToRunOnSystemNS", "matchCollectionUUIDForUpdateLookup",
])
def test_options_outside_the_stable_api(db, option):
    command = {"aggregate": "c", "pipeline": [{"$changeStream": {option: False}}], "cursor": {}}
    assert db.command(command, apiVersion="1")["ok"] == 1.0
    e = error_of(lambda: db.command(command, apiVersion="1", apiStrict=True))
    assert (e.code, option in str(e)) == (323, True)
    command["pipeline"] = [{"$changeStream": {"fullDocument": "updateLookup"}}, {"$match": {}}]
    assert db.command(command, apiVersion="1", apiStrict=True)["ok"] == 1.0
    command["pipeline"].append({"$changeStreamSplitLargeEvent": {}})
    assert error_of(lambda: db.command(command, apiVersion="1", apiStrict=True)).code == 323
