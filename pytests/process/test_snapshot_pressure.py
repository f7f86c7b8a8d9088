# SPDX-License-Identifier: GPL-3.0-or-later
"""A small cache, and snapshots of reads that would fill it."""

import time

import pymongo

from raw import RawClient
from server import Server

SNAPSHOT = {"readConcern": {"level": "snapshot"}}


def test_the_oldest_snapshot_goes_under_pressure(tmp_path):
    """A pinned snapshot keeps every version that others write, until it is given up; the writers go
    on, and so do new snapshots."""
    with Server(path=tmp_path / "data", args=["--cache-mb", 24]) as srv:
        with pymongo.MongoClient(srv.uri) as client, RawClient(srv.port) as raw:
            coll = client.t.c
            coll.insert_many([{"_id": i, "p": ""} for i in range(500)])
            first = raw.command({"find": "c", "batchSize": 2, **SNAPSHOT}, "t")["cursor"]
            at = {"level": "snapshot", "atClusterTime": first["atClusterTime"]}
            deadline = time.monotonic() + 60
            writes = 0
            while not srv.log_contains("the oldest snapshot of reads"):
                assert time.monotonic() < deadline
                coll.bulk_write([pymongo.UpdateOne({"_id": i}, {"$set": {"p": f"{writes}" * 1000}})
                                 for i in range(0, 500, 5)], ordered=False)
                writes += 1
            old = raw.command({"find": "c", "readConcern": at}, "t")
            assert (old["code"], old["codeName"]) == (239, "SnapshotTooOld")
            more = raw.command({"getMore": first["id"], "collection": "c"}, "t")
            assert more["code"] == 239
            new = raw.command({"find": "c", "filter": {"_id": 0}, **SNAPSHOT}, "t")
            assert new["cursor"]["firstBatch"] == [{"_id": 0, "p": f"{writes - 1}" * 1000}]
