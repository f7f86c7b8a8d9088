# SPDX-License-Identifier: GPL-3.0-or-later
"""A server in memory whose cache is full: writes are refused, nothing is lost, and room helps.
Its oplog does not fill it."""

import time

import pymongo
import pytest

from server import Server

FULL = 365


@pytest.fixture
def client():
    with Server(memory=True, oplog_size_mb=8, args=["--cache-mb", 64]) as s:
        with pymongo.MongoClient(s.uri) as c:
            yield c


def fill(coll):
    """Inserts until it is refused; how many were stored, and the refusal."""
    batch = 100
    for at in range(0, 400_000, batch):
        docs = [{"_id": at + i, "pad": "x" * 1000} for i in range(batch)]
        reply = coll.database.command("insert", coll.name, documents=docs)
        if "writeErrors" in reply:
            return at + reply["n"], reply["writeErrors"][0]
    raise AssertionError("never full")


def eventually(call):
    """The result of a call that is refused for want of memory at first."""
    end = time.monotonic() + 60
    while True:
        try:
            return call()
        except pymongo.errors.PyMongoError as e:
            code = e.code or e.details["writeErrors"][0]["code"]
            if code != FULL or time.monotonic() > end:
                raise
            time.sleep(0.1)


def test_full_cache(client):
    db = client.t
    db.other.insert_one({"_id": 1})
    stored, refusal = fill(db.c)
    assert refusal["code"] == FULL
    assert "WT_CACHE_FULL: operation would overflow cache" in refusal["errmsg"]
    # What was refused is not there, what was not is, and both can be read.
    assert db.c.count_documents({"pad": {"$exists": True}}) == stored
    assert db.other.find_one() == {"_id": 1}
    eventually(lambda: db.command("drop", "c"))
    assert db.list_collection_names() == ["other"]
    eventually(lambda: db.command("update", "other", updates=[{"q": {}, "u": {"$set": {"x": 2}}}]))
    eventually(lambda: db.other.insert_one({"_id": 2}))
    assert sorted(d["_id"] for d in db.other.find()) == [1, 2]


def test_the_oplog_leaves_room():
    """Whatever its limit, it takes no more than half of the cache."""
    with (Server(memory=True, args=["--cache-mb", 64]) as s,
          pymongo.MongoClient(s.uri) as client):
        coll = client.t.c
        for i in range(100):
            doc = {"i": i, "pad": "x" * 1_000_000}
            eventually(lambda: coll.replace_one({"_id": 1}, doc, upsert=True))
        eventually(lambda: client.admin.command("pruneOplog"))
        assert client.admin.command("serverStatus")["oplog"]["bytes"] <= 32 << 20
        assert coll.find_one()["i"] == 99
