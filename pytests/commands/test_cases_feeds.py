# SPDX-License-Identifier: GPL-3.0-or-later
"""Reported cases of cursors and feeds, one test each, named by its id."""

import random
import threading
import time

import pymongo
import pytest

from streamutil import drain, get_more, open_raw


@pytest.mark.concurrent
def test_fd_01_cursors_belong_to_the_session(srv, db):
    db.c.insert_many([{"_id": i} for i in range(250)])
    errors = []

    def reader():
        try:
            for _ in range(10):
                with pymongo.MongoClient(srv.uri) as c:
                    assert len(list(c[db.name].c.find())) == 250
        except Exception as e:  # noqa: BLE001 - reported by the main thread
            errors.append(e)

    threads = [threading.Thread(target=reader) for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []


def test_fd_03_batch_that_ends_at_the_limit(db):
    db.c.insert_many([{"_id": i} for i in range(10)])
    reply = db.command("find", "c", limit=4, batchSize=2)
    assert len(reply["cursor"]["firstBatch"]) == 2 and reply["cursor"]["id"] != 0
    more = db.command("getMore", reply["cursor"]["id"], collection="c")
    assert [d["_id"] for d in more["cursor"]["nextBatch"]] == [2, 3]
    assert more["cursor"]["id"] == 0
    reply = db.command("find", "c", limit=2, batchSize=2)
    assert len(reply["cursor"]["firstBatch"]) == 2
    if reply["cursor"]["id"] != 0:
        more = db.command("getMore", reply["cursor"]["id"], collection="c")
        assert more["cursor"]["nextBatch"] == [] and more["cursor"]["id"] == 0


def test_fd_04_tailing_without_max_time(client, db):
    last = client.local["oplog.rs"].find().sort("$natural", -1).limit(1)[0]["ts"]
    query = {"ts": {"$gt": last}, "ns": "no.such"}
    for await_data, floor in ((True, 0.8), (False, 0.0)):
        reply = client.local.command("find", "oplog.rs", filter=query, tailable=True, awaitData=await_data)
        cursor_id = reply["cursor"]["id"]
        assert cursor_id != 0
        begun = time.monotonic()
        more = client.local.command("getMore", cursor_id, collection="oplog.rs")
        took = time.monotonic() - begun
        assert more["cursor"]["nextBatch"] == [] and more["cursor"]["id"] == cursor_id
        assert took >= floor
        assert await_data or took < 0.8
        client.local.command("killCursors", "oplog.rs", cursors=[cursor_id])


@pytest.mark.concurrent
def test_fd_06_snapshot_plus_feed_is_the_table(srv, db):
    """500 random writes by 4 threads, a copy made of a find and the events: never different."""
    stop = threading.Event()

    def writer(seed):
        rng = random.Random(seed)
        with pymongo.MongoClient(srv.uri) as c:
            coll = c[db.name].c
            for n in range(125):
                key = rng.randrange(20)
                match rng.randrange(4):
                    case 0:
                        coll.delete_one({"_id": key})
                    case 1:
                        coll.replace_one({"_id": key}, {"r": n}, upsert=True)
                    case _:
                        coll.update_one({"_id": key}, {"$set": {f"f{n % 3}": n}}, upsert=True)
        stop.set()

    for run in range(5):
        token = open_raw(db, "c")["cursor"]["postBatchResumeToken"]
        threads = [threading.Thread(target=writer, args=(run * 10 + i,)) for i in range(4)]
        for t in threads:
            t.start()
        copy = {d["_id"]: d for d in db.c.find()}
        for t in threads:
            t.join()
        with db.c.watch(resume_after=token) as s:
            for e in drain(s):
                key = e["documentKey"]["_id"]
                if e["operationType"] in ("insert", "replace"):
                    copy[key] = e["fullDocument"]
                elif e["operationType"] == "delete":
                    copy.pop(key, None)
                elif key in copy:
                    copy[key].update(e["updateDescription"]["updatedFields"])
        assert copy == {d["_id"]: d for d in db.c.find()}


def test_fd_07_quiet_source_advances(client, db):
    """Noops are written about every 10 s, so that a quiet stream's token moves."""
    reply = open_raw(db, "c")
    before = client.admin.command("hello")["lastWrite"]["opTime"]["ts"]
    token = reply["cursor"]["postBatchResumeToken"]["_data"]
    end = time.monotonic() + 60
    while True:
        more = get_more(db, reply, 5000)
        now = client.admin.command("hello")["lastWrite"]["opTime"]["ts"]
        new = more["cursor"]["postBatchResumeToken"]["_data"]
        assert now >= before and new >= token
        if new > token and now > before:
            break
        assert time.monotonic() < end, "no noop in a minute"
    with db.c.watch(resume_after={"_data": new}) as s:
        db.c.insert_one({"_id": 1})
        assert drain(s, 1)[0]["documentKey"] == {"_id": 1}


def test_bi_09_batches_are_bounded_by_bytes(db):
    big = "x" * (1 << 20)
    token = open_raw(db, "c")["cursor"]["postBatchResumeToken"]
    db.c.insert_many([{"_id": i, "pad": big} for i in range(25)])
    reply = db.command("find", "c", batchSize=1000)
    assert 0 < len(reply["cursor"]["firstBatch"]) < 17 and reply["cursor"]["id"] != 0
    assert len(list(db.c.find())) == 25
    with db.c.watch(resume_after=token) as s:
        assert [e["documentKey"]["_id"] for e in drain(s, 25)] == list(range(25))
