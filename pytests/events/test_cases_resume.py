# SPDX-License-Identifier: GPL-3.0-or-later
"""Reported resume cases, one test each, named by its id."""

import time

import pymongo
import pytest
from bson import Timestamp

from server import Server
from streamutil import drain, error_of, get_more, kinds, open_raw


def prune_to_newest(client, keep=1):
    """Removes all but the newest entries of the oplog."""
    client.admin.command("setParameter", 1, oplogMaxEntries=keep)
    client.admin.command("pruneOplog", 1)
    client.admin.command("setParameter", 1, oplogMaxEntries=0)


@pytest.fixture
def own():
    """A server of the test's own, whose oplog it may prune."""
    with Server(memory=True) as srv, pymongo.MongoClient(srv.uri) as client:
        yield client


def test_rs_01_start_before_the_oplog(own):
    db = own.rs01
    begin = own.admin.command("ping")["operationTime"]
    for i in range(10):
        db.c.insert_one({"_id": i})
    with db.c.watch(start_at_operation_time=Timestamp(1, 1)) as s:
        assert len(drain(s, 10)) == 10, "an oplog that was never cut is replayed from anywhere"
    prune_to_newest(own)
    oldest = own.local["oplog.rs"].find_one(sort=[("$natural", 1)])["ts"]
    assert oldest > begin
    e = error_of(lambda: db.c.watch(start_at_operation_time=begin).try_next())
    assert e.code == 286 and e.details["codeName"] == "ChangeStreamHistoryLost"
    assert e.has_error_label("NonResumableChangeStreamError")
    assert "resume point may no longer be in the oplog" in e.details["errmsg"]


def test_rs_03_tokens_around_an_invalidate(db):
    db.c.insert_one({})
    with db.c.watch() as s:
        db.c.drop()
        drop, invalidate = drain(s, 2)
    assert (drop["operationType"], invalidate["operationType"]) == ("drop", "invalidate")
    e = error_of(lambda: db.c.watch(resume_after=invalidate["_id"]))
    assert e.code == 260 and e.details["codeName"] == "InvalidResumeToken"
    with db.c.watch(start_after=invalidate["_id"]) as s:
        db.c.insert_one({"_id": "new"})
        assert drain(s, 1)[0]["documentKey"] == {"_id": "new"}
        assert s.alive
    with db.c.watch(resume_after=drop["_id"]) as s:
        again = drain(s, 1)[0]
        assert again == invalidate
        assert s.try_next() is None and not s.alive


def test_rs_04_resume_with_a_narrower_pipeline(db):
    with db.watch([{"$match": {"ns.coll": {"$in": ["t1", "t2"]}}}]) as s:
        db.t1.insert_one({})
        event = drain(s, 1)[0]
    db.t2.insert_one({"_id": 2})
    with db.watch([{"$match": {"ns.coll": "t2"}}], resume_after=event["_id"]) as s:
        assert drain(s, 1)[0]["documentKey"] == {"_id": 2}


def test_rs_04_token_of_another_collection(db):
    with db.t1.watch() as s:
        db.t1.insert_one({})
        event = drain(s, 1)[0]
    db.t2.insert_one({"_id": 2})
    e = error_of(lambda: db.t2.watch(resume_after=event["_id"]).try_next())
    assert e.code == 280 and "resume token was not found" in e.details["errmsg"]
    assert e.has_error_label("NonResumableChangeStreamError")


def test_rs_06_position_cut_away(own):
    db = own.rs06
    reply = open_raw(db, "c")
    for i in range(50):
        db.c.insert_one({"_id": i})
    prune_to_newest(own)
    e = error_of(lambda: get_more(db, reply))
    assert e.code in (136, 286)
    assert error_of(lambda: get_more(db, reply)).code == 43


@pytest.mark.parametrize("option", ["resumeAfter", "startAfter"])
@pytest.mark.parametrize(
    "token, code",
    [
        ({}, 40647),
        ({"_data": 5}, 40647),
        ({"_data": "zz"}, 9),
        ("text", 14),
        (5, 14),
    ],
    ids=["empty", "number", "nothex", "string", "int"],
)
def test_rs_07_tokens_that_cannot_be_decoded(db, option, token, code):
    assert error_of(lambda: open_raw(db, "c", {option: token})).code == code
    assert db.command("ping")["ok"] == 1


def test_rs_07_truncated_tokens(db):
    with db.c.watch() as s:
        db.c.insert_one({"_id": 1})
        whole = drain(s, 1)[0]["_id"]["_data"]
    for cut in range(0, len(whole), 2):
        e = error_of(lambda: get_more(db, open_raw(db, "c", {"resumeAfter": {"_data": whole[:cut]}})))
        assert e.code > 0
    assert error_of(lambda: open_raw(db, "c", {"resumeAfter": {"_data": whole[:-1]}})).code == 9
    with db.c.watch(resume_after={"_data": whole.lower()}) as s:
        db.c.insert_one({"_id": 2})
        assert drain(s, 1)[0]["documentKey"] == {"_id": 2}


def test_rs_07_token_of_another_server(db):
    foreign = (
        "82635019A0000000012B042C0100296E5A1004AB1154ACACD849A48C61756D70D3B21F463C6F7065726174"
        "696F6E54797065003C696E736572740046646F63756D656E744B65790046645F69640064635019A078BE6742"
        "6D7CF4D2000004"
    )
    e = error_of(lambda: get_more(db, open_raw(db, "c", {"resumeAfter": {"_data": foreign}})))
    assert e.code in (280, 286)


def test_rs_09_several_start_options(db):
    with db.c.watch() as s:
        token = s.resume_token
    now = db.command("ping")["operationTime"]
    both = {"resumeAfter": token, "startAtOperationTime": now}
    assert error_of(lambda: open_raw(db, "c", both)).code == 40674
    both = {"startAfter": token, "startAtOperationTime": now}
    assert error_of(lambda: open_raw(db, "c", both)).code == 40674
    both = {"startAfter": token, "resumeAfter": token}
    assert error_of(lambda: open_raw(db, "c", both)).code == 50865


def test_rs_10_token_advances_on_a_quiet_collection(own):
    db = own.rs10
    reply = open_raw(db, "a")
    t0 = reply["cursor"]["postBatchResumeToken"]
    db.b.insert_many([{"_id": i} for i in range(1000)])
    more = get_more(db, reply, 200)
    t1 = more["cursor"]["postBatchResumeToken"]
    assert more["cursor"]["nextBatch"] == [] and t1["_data"] > t0["_data"]
    prune_to_newest(own)
    db.a.insert_one({"_id": "found"})
    with db.a.watch(resume_after=t1) as s:
        assert drain(s, 1)[0]["documentKey"] == {"_id": "found"}
    assert error_of(lambda: db.a.watch(resume_after=t0).try_next()).code == 286


def test_rs_12_null_options_are_absent(db):
    stage = {"resumeAfter": None, "startAfter": None, "startAtOperationTime": None}
    for name in stage:
        assert open_raw(db, "c", {name: None})["cursor"]["id"] != 0
    assert open_raw(db, "c", stage)["cursor"]["firstBatch"] == []


@pytest.mark.parametrize("recreate", [False, True])
def test_rs_13_resume_from_before_a_drop(db, recreate):
    with db.c.watch() as s:
        db.c.insert_one({"_id": 1})
        event = drain(s, 1)[0]
    db.c.drop()
    if recreate:
        db.c.insert_one({"_id": 2})
    with db.c.watch(resume_after=event["_id"]) as s:
        drop, invalidate = drain(s, 2)
        assert kinds([drop, invalidate]) == ["drop", "invalidate"]
        assert s.try_next() is None and not s.alive
    if recreate:
        with db.c.watch(start_after=invalidate["_id"]) as s:
            assert drain(s, 1)[0]["documentKey"] == {"_id": 2}


def test_rs_15_exclusive_and_inclusive(db):
    with db.c.watch() as s:
        db.c.insert_many([{"_id": 1}, {"_id": 2}])
        first, _ = drain(s, 2)
    for options, ids in (
        ({"resume_after": first["_id"]}, [2]),
        ({"start_after": first["_id"]}, [2]),
        ({"start_at_operation_time": first["clusterTime"]}, [1, 2]),
    ):
        with db.c.watch(**options) as s:
            assert [e["documentKey"]["_id"] for e in drain(s)] == ids


def test_rs_16_start_in_the_future(db):
    future = Timestamp(int(time.time()) + 60, 0)
    reply = open_raw(db, "c", {"startAtOperationTime": future})
    token = reply["cursor"]["postBatchResumeToken"]
    db.c.insert_one({"_id": 1})
    more = get_more(db, reply, 300)
    assert more["cursor"]["nextBatch"] == []
    assert more["cursor"]["postBatchResumeToken"] == token
    assert more["cursor"]["id"] == reply["cursor"]["id"]


@pytest.mark.parametrize("crash", [False, True], ids=["restart", "sigkill"])
def test_tokens_survive(disk_srv, crash):
    with pymongo.MongoClient(disk_srv.uri) as client:
        with client.t.c.watch() as s:
            client.t.c.insert_many([{"_id": i} for i in range(10)])
            events = drain(s, 10)
    if crash:
        disk_srv.kill()
        disk_srv.start()
    else:
        disk_srv.restart()
    with pymongo.MongoClient(disk_srv.uri) as client:
        client.t.c.insert_one({"_id": 10})
        for i, e in enumerate(events):
            with client.t.c.watch(resume_after=e["_id"]) as s:
                assert [x["documentKey"]["_id"] for x in drain(s, 10 - i)] == list(range(i + 1, 11))
