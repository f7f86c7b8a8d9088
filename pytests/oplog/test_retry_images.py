# SPDX-License-Identifier: GPL-3.0-or-later
"""What a retryable findAndModify gave: config.image_collection, and needsRetryImage in the oplog."""

import uuid

import pytest
from bson import Binary, Int64

from raw import RawClient


def lsid():
    return {"id": Binary(uuid.uuid4().bytes, 4)}


def modify(srv, db, session, number=1, **fields):
    with RawClient(srv.port) as raw:
        reply = raw.command({"findAndModify": "c", "lsid": session, "txnNumber": Int64(number),
                             **fields}, db.name)
    assert reply["ok"] == 1, reply
    return reply["value"]


def images(client, *sessions):
    ids = [s["id"] for s in sessions]
    return list(client.config.image_collection.find({"_id.id": {"$in": ids}}))


def last_entry(client, db):
    return client.local["oplog.rs"].find({"ns": db.c.full_name}).sort("$natural", -1).next()


SET = {"$set": {"x": 2}}
BEFORE, AFTER = {"_id": 1, "x": 1}, {"_id": 1, "x": 2}


@pytest.mark.parametrize("fields, kind, image", [
    ({"update": SET}, "preImage", BEFORE),
    ({"update": SET, "new": True}, "postImage", AFTER),
    ({"remove": True}, "preImage", BEFORE),
], ids=["old", "new", "remove"])
def test_an_image_and_the_entry_that_needs_it(srv, client, db, fields, kind, image):
    session = lsid()
    db.c.insert_one(BEFORE)
    for _ in range(2):
        assert modify(srv, db, session, query={"_id": 1}, **fields) == image
        entry = last_entry(client, db)
        row, = images(client, session)
        assert list(row) == ["_id", "txnNum", "ts", "imageKind", "image", "invalidated"]
        assert entry["needsRetryImage"] == kind and row["_id"] == entry["lsid"]
        assert list(row.values())[1:] == [1, entry["ts"], kind, image, False]
        assert isinstance(row["txnNum"], Int64)


@pytest.mark.parametrize("new", [False, True])
def test_an_upsert_that_inserts_has_none(srv, client, db, new):
    session = lsid()
    for _ in range(2):
        value = modify(srv, db, session, query={"_id": 1}, update=SET, upsert=True, new=new)
        assert value == (AFTER if new else None)
        entry = last_entry(client, db)
        assert entry["op"] == "i" and entry["txnNumber"] == 1 and "needsRetryImage" not in entry
        assert images(client, session) == []


def test_only_the_newest_write_of_a_session(srv, client, db):
    session = lsid()
    db.c.insert_one({"_id": 1, "x": 0})
    for number in (1, 2):
        modify(srv, db, session, number, query={"_id": 1}, update={"$inc": {"x": 1}})
    row, = images(client, session)
    assert (row["txnNum"], row["image"]) == (2, {"_id": 1, "x": 1})
    modify(srv, db, session, 3, query={"_id": 7}, update=SET)
    assert images(client, session) == [row], "a statement that did nothing left no record"


def test_not_of_other_writes(srv, client, db):
    session = lsid()
    db.c.insert_one(BEFORE)
    with RawClient(srv.port) as raw:
        assert raw.command({"update": "c", "updates": [{"q": {"_id": 1}, "u": SET}],
                            "lsid": session, "txnNumber": Int64(1)}, db.name)["nModified"] == 1
    assert images(client, session) == [] and "needsRetryImage" not in last_entry(client, db)
    assert client.config.transactions.count_documents({"_id.id": session["id"]}) == 1


def test_images_of_more_than_a_page(srv, client, db):
    big = "x" * 600_000
    sessions = [lsid() for _ in range(5)]
    for i, session in enumerate(sessions):
        db.c.insert_one({"_id": i, "big": big})
        modify(srv, db, session, query={"_id": i}, remove=True)
    rows = images(client, *sessions)
    assert sorted(r["image"]["_id"] for r in rows) == list(range(5))
    assert [bytes(r["_id"]["id"]) for r in rows] == sorted(
        bytes(s["id"]) for s in sessions)
    assert all(r["image"]["big"] == big for r in rows)


def test_it_is_the_server_s_own(client):
    assert "image_collection" in client.config.list_collection_names()
    assert client.config.command({"insert": "image_collection", "documents": [{}]},
                                 check=False).get("code") == 13
