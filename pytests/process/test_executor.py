# SPDX-License-Identifier: GPL-3.0-or-later
"""The executor seen from outside: a stuck pool, slow readers, pipelining, hang-ups."""

import time

import bson
import pymongo
import pytest
from bson.int64 import Int64

from raw import MORE_TO_COME, RawClient, op_msg
from server import Server

pytestmark = pytest.mark.concurrent

MORE_THAN_ALL_WORKERS = 80


@pytest.fixture(scope="module")
def server():
    with Server(memory=True, test_commands=True) as s:
        yield s


def test_stuck_pool_still_answers_quick_commands(server):
    """All workers wait at a fault point: hello and ping are still answered."""
    with RawClient(server.port) as admin:
        assert admin.command({"insert": "c", "documents": [{}]}, "t")["ok"] == 1
        assert admin.command({"runnelFault": "storageWrite:wait"})["ok"] == 1
        writers = [RawClient(server.port) for _ in range(MORE_THAN_ALL_WORKERS)]
        try:
            for w in writers:
                w.send(op_msg({"insert": "c", "documents": [{}], "$db": "t"}))
            while admin.command({"runnelFault": "storageWrite:wait"})["hits"] < 4:
                pass
            for _ in range(3):
                with RawClient(server.port) as late:
                    assert late.command({"hello": 1})["isWritablePrimary"] is True
                    assert late.ping() == 1.0
            assert all(w.silent(0) for w in writers)
        finally:
            assert admin.command({"runnelFault": "off"})["ok"] == 1
        for w in writers:
            assert w.receive().doc["n"] == 1
            w.close()
        assert admin.command({"count": "c"}, "t")["n"] == 1 + MORE_THAN_ALL_WORKERS


def test_unknown_fault_and_without_test_commands(server):
    with RawClient(server.port) as admin:
        assert admin.command({"runnelFault": "nope:kill"})["code"] == 2
        assert admin.command({"runnelFault": "commitBefore:explode"})["code"] == 2
        assert admin.command({"runnelFault": 1})["code"] == 14
        assert admin.command({"runnelFault": "off"}, "t")["code"] == 13
    with Server(memory=True) as plain, RawClient(plain.port) as admin:
        assert admin.command({"runnelFault": "off"})["code"] == 59


def test_pipelined_unacknowledged_writes(server):
    with RawClient(server.port) as raw:
        burst = b"".join(
            op_msg(
                {"insert": "burst", "documents": [{"_id": i}], "writeConcern": {"w": 0}, "$db": "t"},
                flags=MORE_TO_COME,
            )
            for i in range(1000)
        )
        raw.send(burst + op_msg({"count": "burst", "$db": "t"}))
        assert raw.receive().doc["n"] == 1000


def test_slow_reader_gets_everything_and_blocks_nobody(server):
    """Replies far beyond the socket's buffers wait for the reader, who then gets them in order."""
    with RawClient(server.port) as raw, RawClient(server.port) as other:
        big = "x" * (1 << 20)
        for i in range(8):
            assert raw.command({"insert": "big", "documents": [{"_id": i, "x": big}]}, "t")["n"] == 1
        for i in range(8):
            raw.send(op_msg({"find": "big", "sort": {"_id": 1}, "batchSize": 8, "$db": "t"}))
        time.sleep(0.2)
        assert other.ping() == 1.0
        for i in range(8):
            batch = raw.receive().doc["cursor"]["firstBatch"]
            assert [d["_id"] for d in batch] == list(range(8))


def test_message_in_small_pieces(server):
    whole = op_msg({"ping": 1, "$db": "admin", "comment": "y" * 300000})
    with RawClient(server.port) as raw:
        for at in range(0, 200, 7):
            raw.send(whole[at : at + 7])
        raw.send(whole[203:])
        assert raw.receive().doc["ok"] == 1.0


def test_client_that_hangs_up_frees_its_wait(server):
    """The getMore ends with its client, and its cursor with it."""
    with RawClient(server.port) as raw:
        raw.command({"create": "h"}, db="t")
        reply = raw.command({"aggregate": "h", "pipeline": [{"$changeStream": {}}], "cursor": {}}, "t")
        more = {
            "getMore": Int64(reply["cursor"]["id"]), "collection": "h", "maxTimeMS": 60000,
        }
        raw.send(op_msg({**more, "$db": "t"}))
        with RawClient(server.port) as other:
            status = {"serverStatus": 1}
            while other.command(status)["metrics"]["cursor"]["open"]["pinned"] == 0:
                pass
            assert other.command(more, "t")["code"] == 143
    with RawClient(server.port) as other:
        deadline = time.monotonic() + 20
        while (doc := other.command({**more, "maxTimeMS": 1}, "t")).get("code") == 143:
            assert time.monotonic() < deadline
        assert doc["code"] == 43


def test_connections_come_and_go(server):
    with RawClient(server.port) as admin:
        before = admin.command({"serverStatus": 1})["connections"]["current"]
        clients = [RawClient(server.port) for _ in range(300)]
        for c in clients:
            assert c.ping() == 1.0
        assert admin.command({"serverStatus": 1})["connections"]["current"] == before + 300
        for c in clients:
            c.close()
        deadline = time.monotonic() + 20
        while admin.command({"serverStatus": 1})["connections"]["current"] != before:
            assert time.monotonic() < deadline


def test_idle_drivers_stay_quiet(server):
    """A connected client that does nothing causes no requests but its heartbeats."""
    with pymongo.MongoClient(server.uri) as client, RawClient(server.port) as admin:
        client.admin.command("ping")
        time.sleep(0.5)
        first = admin.command({"serverStatus": 1})["network"]["numRequests"]
        time.sleep(3)
        second = admin.command({"serverStatus": 1})["network"]["numRequests"]
        assert second - first <= 4


def test_request_ids_chain_in_an_exhaust_series(server):
    from raw import EXHAUST_ALLOWED

    with RawClient(server.port) as raw:
        raw.command({"insert": "ex", "documents": [{"_id": i} for i in range(10)]}, "t")
        cursor = raw.command({"find": "ex", "batchSize": 2}, "t")["cursor"]
        request = op_msg(
            {"getMore": Int64(cursor["id"]), "collection": "ex", "batchSize": 3, "$db": "t"},
            flags=EXHAUST_ALLOWED, request_id=4242,
        )
        raw.send(request)
        seen, previous = [], 4242
        while True:
            reply = raw.receive()
            assert reply.response_to == previous
            previous = reply.request_id
            seen += [d["_id"] for d in reply.doc["cursor"]["nextBatch"]]
            if not reply.more_to_come:
                break
        assert seen == list(range(2, 10))
        assert reply.doc["cursor"]["id"] == 0
        assert raw.ping() == 1.0


def test_message_beyond_one_read_is_kept_whole(server):
    documents = [{"_id": f"w{i}", "x": "z" * 1000} for i in range(3000)]
    with RawClient(server.port) as raw:
        assert raw.command({"insert": "wide", "documents": documents}, "t")["n"] == 3000
        assert len(bson.encode({"d": documents})) > 3_000_000
