# SPDX-License-Identifier: GPL-3.0-or-later
"""Retention by entries, bytes and seconds; pruneOplog; limits changed at run time."""

import datetime
import time

import pymongo
import pytest

from server import Server
from streamutil import error_of


@pytest.fixture
def own():
    with Server(memory=True) as srv, pymongo.MongoClient(srv.uri) as client:
        yield client


def entries(client):
    return list(client.local["oplog.rs"].find().sort("$natural", 1))


def test_prune_by_entries_is_exact(own):
    own.t.c.insert_many([{"_id": i} for i in range(100)])
    own.admin.command("setParameter", 1, oplogMaxEntries=7)
    before = entries(own)
    own.admin.command("pruneOplog", 1)
    assert entries(own) == before[-7:]


def test_prune_by_seconds_takes_now(own):
    own.t.c.insert_many([{"_id": i} for i in range(10)])
    own.admin.command("setParameter", 1, oplogRetentionSeconds=3600.0)
    before = entries(own)
    own.admin.command("pruneOplog", 1)
    assert entries(own) == before, "nothing is an hour old"
    later = before[-1]["wall"] + datetime.timedelta(seconds=3601)
    own.admin.command({"pruneOplog": 1, "now": later})
    assert entries(own) == before[-1:], "the newest entry always stays"


def test_prune_by_bytes(own):
    own.t.c.insert_many([{"_id": i, "pad": "x" * 100_000} for i in range(40)])
    own.admin.command("setParameter", 1, oplogSizeMB=1)
    own.admin.command("pruneOplog", 1)
    kept = entries(own)
    assert kept[-1]["o"]["_id"] == 39
    assert 5 <= len(kept) <= 11


def test_background_retention_by_fractions_of_a_second(own):
    own.admin.command("setParameter", 1, oplogRetentionSeconds=0.5)
    end = time.monotonic() + 60
    own.t.c.insert_one({"_id": "old"})
    while own.local["oplog.rs"].find_one({"o._id": "old"}) is not None:
        assert time.monotonic() < end, "the entry never went away"
        own.t.c.insert_one({})
    assert len(entries(own)) >= 1


def test_limits_from_the_command_line():
    with Server(memory=True, oplog_max_entries=5) as srv, pymongo.MongoClient(srv.uri) as client:
        for i in range(50):
            client.t.c.insert_one({"_id": i})
        client.admin.command("pruneOplog", 1)
        assert [e["o"]["_id"] for e in entries(client)] == [45, 46, 47, 48, 49]
        options = next(iter(client.local.list_collections(filter={"name": "oplog.rs"})))["options"]
        assert options["max"] == 5


def test_images_go_with_their_entries(own):
    db = own.t
    db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    db.c.insert_one({"_id": 1, "x": 0})
    for i in range(10):
        db.c.update_one({"_id": 1}, {"$set": {"x": i + 1}})
    assert len(list(own.config["system.preimages"].find())) == 10
    own.admin.command("setParameter", 1, oplogMaxEntries=3)
    own.admin.command("pruneOplog", 1)
    kept = list(own.config["system.preimages"].find())
    assert [p["preImage"]["x"] for p in kept] == [7, 8, 9]


@pytest.mark.parametrize("bad", [{"oplogSizeMB": 0}, {"oplogMaxEntries": -1}, {"oplogRetentionSeconds": -1}])
def test_limits_out_of_range(own, bad):
    assert error_of(lambda: own.admin.command("setParameter", 1, **bad)).code == 2


def test_pruned_state_survives_a_crash(disk_srv):
    with pymongo.MongoClient(disk_srv.uri) as client:
        client.t.c.insert_many([{"_id": i} for i in range(100)])
        client.admin.command("setParameter", 1, oplogMaxEntries=5)
        client.admin.command("pruneOplog", 1)
        first = entries(client)[0]["ts"]
    disk_srv.kill()
    disk_srv.start()
    with pymongo.MongoClient(disk_srv.uri) as client:
        assert entries(client)[0]["ts"] == first
        assert client.t.c.count_documents({}) == 100


def test_what_is_being_removed_is_lost_and_not_skipped():
    """A stream that needs entries which go at this moment gets an error, not those that stay."""
    with Server(memory=True, test_commands=True) as srv, pymongo.MongoClient(srv.uri) as client:
        token = client.t.c.watch().resume_token
        for i in range(60):  # more than is kept in memory
            client.t.c.insert_one({"_id": i, "pad": "x" * 500_000})
        client.admin.command("runnelFault", "truncateAfter:wait")
        client.admin.command("setParameter", 1, oplogMaxEntries=5)
        end = time.monotonic() + 60
        while client.admin.command("runnelFault", "truncateAfter:wait")["hits"] == 0:
            assert time.monotonic() < end, "nothing is removed"
            time.sleep(0.01)
        assert error_of(lambda: client.t.c.watch(resume_after=token).try_next()).code == 286
        client.admin.command("runnelFault", "off")
