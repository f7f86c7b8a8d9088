# SPDX-License-Identifier: GPL-3.0-or-later
"""Pre-images that expire: the cluster parameter changeStreamOptions, and what it does."""

import time

import pymongo
import pytest
from bson import Int64, Timestamp

from server import Server
from streamutil import drain, error_of

NEVER = 1_000_000


def set_expiry(client, value):
    images = {"preAndPostImages": {"expireAfterSeconds": value}}
    client.admin.command("setClusterParameter", {"changeStreamOptions": images})


def expiry(client):
    (shown,) = client.admin.command("getClusterParameter", "changeStreamOptions")["clusterParameters"]
    assert list(shown) == ["_id", "clusterParameterTime", "preAndPostImages"]
    return shown["preAndPostImages"]["expireAfterSeconds"], shown["clusterParameterTime"]


def images(client):
    return list(client.config["system.preimages"].find())


def with_images(db, n, coll="c"):
    """A collection that keeps images, with n updates of its document; the time before them."""
    db.create_collection(coll, changeStreamPreAndPostImages={"enabled": True})
    start = db.command("insert", coll, documents=[{"_id": 1, "x": 0}])["operationTime"]
    for i in range(n):
        db[coll].update_one({"_id": 1}, {"$inc": {"x": 1}})
    return start


def watch(db, start, **kwargs):
    return db.c.watch(
        start_at_operation_time=Timestamp(start.time, start.inc + 1), max_await_time_ms=100, **kwargs
    )


@pytest.fixture
def off(client):
    """The parameter as it is by default, afterwards too."""
    set_expiry(client, "off")
    yield client
    set_expiry(client, "off")


# --- the parameter -----------------------------------------------------------------------------


def test_default():
    with Server(memory=True) as srv, pymongo.MongoClient(srv.uri) as client:
        assert expiry(client) == ("off", Timestamp(0, 0))


@pytest.mark.parametrize("value", [1, Int64(7), 3600.0, 2**40])
def test_it_is_shown_as_a_long(off, value):
    before = off.admin.command("hello")["lastWrite"]["opTime"]["ts"]
    set_expiry(off, value)
    shown, at = expiry(off)
    assert shown == value and type(shown) is Int64
    assert at >= before
    set_expiry(off, "off")
    assert expiry(off)[0] == "off" and expiry(off)[1] >= at


@pytest.mark.parametrize(
    "parameter, code",
    [
        ({"preAndPostImages": {"expireAfterSeconds": 0}}, 2),
        ({"preAndPostImages": {"expireAfterSeconds": -1}}, 2),
        ({"preAndPostImages": {"expireAfterSeconds": 1.5}}, 2),
        ({"preAndPostImages": {"expireAfterSeconds": float("nan")}}, 2),
        ({"preAndPostImages": {"expireAfterSeconds": "on"}}, 2),
        ({"preAndPostImages": {"expireAfterSeconds": ""}}, 2),
        ({"preAndPostImages": {}}, 2),
        ({}, 2),
        ({"preAndPostImages": {"expireAfterSeconds": True}}, 14),
        ({"preAndPostImages": {"expireAfterSeconds": None}}, 14),
        ({"preAndPostImages": 5}, 14),
        ({"preAndPostImages": {"expireAfterSeconds": 5, "x": 1}}, 40415),
        ({"other": 1}, 40415),
        (5, 14),
    ],
)
def test_bad_values_change_nothing(off, parameter, code):
    set_expiry(off, NEVER)
    before = expiry(off)
    error = error_of(lambda: off.admin.command("setClusterParameter", {"changeStreamOptions": parameter}))
    assert error.code == code
    assert expiry(off) == before


def test_bad_commands(client):
    options = {"preAndPostImages": {"expireAfterSeconds": 5}}

    def code(argument, db=client.admin, **kwargs):
        return error_of(lambda: db.command("setClusterParameter", argument, **kwargs)).code

    assert code({"nope": {}}) == 4
    assert code({}) == 72
    assert code({"changeStreamOptions": options, "b": {}}) == 72
    assert code("changeStreamOptions") == 14
    assert code({"changeStreamOptions": options}, x=1) == 40415
    assert code({"changeStreamOptions": options}, db=client.test) == 13
    assert expiry(client)[0] == "off"


# --- what it does ------------------------------------------------------------------------------


def test_off_keeps_images_with_their_entries(off, db):
    start = with_images(db, 5)
    assert len(images(off)) >= 5
    with watch(db, start, full_document_before_change="required") as stream:
        assert [e["fullDocumentBeforeChange"]["x"] for e in drain(stream, 5)] == [0, 1, 2, 3, 4]


def test_expired_images_are_missing_and_go(off, db):
    start = with_images(db, 5)
    young = {"full_document_before_change": "required", "full_document": "required"}
    with watch(db, start, **young) as stream:  # also fills what is kept of built events
        assert [e["fullDocument"]["x"] for e in drain(stream, 5)] == [1, 2, 3, 4, 5]
    set_expiry(off, NEVER)
    with watch(db, start, **young) as stream:
        assert [e["fullDocument"]["x"] for e in drain(stream, 5)] == [1, 2, 3, 4, 5]
    assert len([i for i in images(off) if i["preImage"]["_id"] == 1]) >= 5
    set_expiry(off, 1)
    newest = max(i["operationTime"] for i in images(off))
    end = time.monotonic() + 30
    while images(off):
        assert time.monotonic() < end, "images stay"
    assert off.admin.command("hello")["localTime"] >= newest
    lost = error_of(lambda: next(watch(db, start, full_document_before_change="required")))
    assert lost.code == 47
    with watch(db, start, full_document_before_change="whenAvailable", full_document="whenAvailable") as stream:
        events = drain(stream, 5)
    assert [e["fullDocumentBeforeChange"] for e in events] == [None] * 5
    assert [e["fullDocument"] for e in events] == [None] * 5
    assert [e["updateDescription"]["updatedFields"]["x"] for e in events] == [1, 2, 3, 4, 5]
    set_expiry(off, "off")
    db.c.update_one({"_id": 1}, {"$inc": {"x": 1}})
    assert [i["preImage"]["x"] for i in images(off)] == [5]


def test_an_image_is_missing_at_its_second(off, db):
    """Not only when the keeper has come by: a stream that opens later is told so at once."""
    start = with_images(db, 1)
    (changed,) = [i["operationTime"] for i in images(off) if i["preImage"]["x"] == 0 and i["_id"]["ts"] > start]
    set_expiry(off, 2)
    while True:
        opened = off.admin.command("hello")["localTime"]
        with watch(db, start, full_document_before_change="whenAvailable") as stream:
            event = drain(stream, 1)[0]
            read = off.admin.command("hello")["localTime"]
        if (opened - changed).total_seconds() >= 2:
            assert event["fullDocumentBeforeChange"] is None
            break
        if (read - changed).total_seconds() < 2:
            assert event["fullDocumentBeforeChange"] == {"_id": 1, "x": 0}


def test_many_images_go_and_young_ones_stay(off, db):
    db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    db.c.insert_many([{"_id": i} for i in range(9000)])  # more than the keeper takes in a step
    db.c.update_many({}, {"$set": {"x": 1}})
    assert len(images(off)) >= 9000
    set_expiry(off, 1)
    end = time.monotonic() + 60
    while images(off):
        assert time.monotonic() < end, "images stay"
    set_expiry(off, NEVER)
    db.c.update_many({"_id": {"$lt": 10}}, {"$set": {"x": 2}})
    time.sleep(1.2)  # a turn of the keeper and more
    assert [i["preImage"] for i in images(off)] == [{"_id": i, "x": 1} for i in range(10)]


def test_the_entries_are_not_touched(off, db):
    start = with_images(db, 3)
    set_expiry(off, 1)
    end = time.monotonic() + 30
    while images(off):
        assert time.monotonic() < end, "images stay"
    with watch(db, start) as stream:
        assert [e["operationType"] for e in drain(stream, 3)] == ["update"] * 3


# --- restarts ----------------------------------------------------------------------------------


def test_it_survives_a_crash(disk_srv):
    with pymongo.MongoClient(disk_srv.uri) as client:
        with_images(client.t, 4)
        set_expiry(client, 3600)
        before = expiry(client)
        assert len(images(client)) == 4
    disk_srv.kill()
    disk_srv.start()
    with pymongo.MongoClient(disk_srv.uri) as client:
        assert expiry(client) == before and before[0] == 3600
        assert len(images(client)) == 4
        set_expiry(client, 1)
        end = time.monotonic() + 30
        while images(client):
            assert time.monotonic() < end, "images stay"
    disk_srv.restart()
    with pymongo.MongoClient(disk_srv.uri) as client:
        assert expiry(client)[0] == 1
        assert images(client) == []
        client.t.c.update_one({"_id": 1}, {"$inc": {"x": 1}})
        set_expiry(client, "off")
    disk_srv.kill()
    disk_srv.start()
    with pymongo.MongoClient(disk_srv.uri) as client:
        assert expiry(client)[0] == "off" and expiry(client)[1] > before[1]


def test_images_that_expire_while_the_server_is_down_go_after_start(disk_srv):
    with pymongo.MongoClient(disk_srv.uri) as client:
        with_images(client.t, 4)
        set_expiry(client, 1)
    disk_srv.restart()
    with pymongo.MongoClient(disk_srv.uri) as client:
        end = time.monotonic() + 30
        while images(client):
            assert time.monotonic() < end, "images stay"


# --- config.system.preimages -------------------------------------------------------------------


def test_listing_images_needs_no_memory_for_all(srv, off, db):
    db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    pad = "x" * 500_000
    db.c.insert_many([{"_id": i, "pad": pad} for i in range(120)])
    db.c.update_many({}, {"$set": {"pad": ""}})
    listing = off.config["system.preimages"]
    mine = {"preImage.pad": pad}
    found = [i["preImage"]["_id"] for i in listing.find(mine, {"preImage._id": 1}, batch_size=7)]
    assert found == list(range(120))
    assert listing.count_documents(mine) == 120
    assert listing.find_one({**mine, "preImage._id": 77})["preImage"]["_id"] == 77
    if hasattr(srv, "rss"):
        before = srv.rss()
        for _ in range(5):
            assert listing.count_documents({"preImage._id": 119, **mine}) == 1
        assert srv.rss() - before < 40_000_000
