# SPDX-License-Identifier: GPL-3.0-or-later
"""A small cache, and transactions that would fill it."""

import time

import pymongo
import pytest

from raw import RawClient
from server import Server
from txnutil import RawSession, labels

CACHE_MB = 24


@pytest.fixture(scope="module")
def srv(request, tmp_path_factory):
    if request.config.getoption("--uri"):
        pytest.skip("starts its own server")
    path = tmp_path_factory.mktemp("cache") / "data"
    with Server(path=path, args=["--cache-mb", CACHE_MB]) as server:
        yield server


def open_now(client):
    return client.admin.command("serverStatus")["transactions"]["currentOpen"]


def test_the_oldest_one_goes_under_pressure(srv, client, db):
    """An idle snapshot keeps every version that others write, until it is aborted; younger ones
    and the writers go on."""
    db.c.insert_many([{"_id": i, "p": ""} for i in range(500)])
    with RawClient(srv.port) as raw:
        old = RawSession(raw, db.name)
        assert old.start({"find": "c", "limit": 1})["ok"] == 1
        young = None
        deadline = time.monotonic() + 60
        writes = 0
        while open_now(client) == (1 if young is None else 2):
            assert time.monotonic() < deadline
            db.c.bulk_write([pymongo.UpdateOne({"_id": i}, {"$set": {"p": f"{writes}" * 1000}})
                             for i in range(0, 500, 5)], ordered=False)
            writes += 1
            if young is None and writes == 10:
                young = RawSession(raw, db.name)
                assert young.start({"find": "c", "limit": 1})["ok"] == 1
        reply = old.run({"find": "c"})
        assert reply["code"] == 251 and labels(reply) == ["TransientTransactionError"]
        assert young.run({"find": "c", "limit": 1})["ok"] == 1
        young.abort()
    assert srv.log_contains("keeps the cache from being cleaned")


def test_one_that_is_too_large_by_itself(srv, client, db):
    db.create_collection("c")
    with RawClient(srv.port) as raw:
        s = RawSession(raw, db.name)
        document = {"p": "x" * (1 << 20)}
        reply = s.start({"insert": "c", "documents": [document]})
        deadline = time.monotonic() + 60
        while reply["ok"] == 1 and s.number:
            assert time.monotonic() < deadline and not reply.get("writeErrors")
            reply = s.run({"insert": "c", "documents": [document]})
        assert reply["code"] == 388, reply
        assert reply["codeName"] == "TransactionTooLargeForCache" and labels(reply) == []
        assert s.commit()["code"] == 251
    assert db.c.count_documents({}) == 0
    assert db.c.insert_one(document).acknowledged
