# SPDX-License-Identifier: GPL-3.0-or-later
"""The executor seen from outside: a stuck pool, slow readers, pipelining, hang-ups."""

import os
import pathlib
import socket
import time

import bson
import pymongo
import pytest
from bson.int64 import Int64

from raw import EXHAUST_ALLOWED, MORE_TO_COME, RawClient, op_msg
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


def watch(raw, coll, flags=0):
    """A change stream's first getMore, as bytes; it would wait for a minute."""
    reply = raw.command({"aggregate": coll, "pipeline": [{"$changeStream": {}}], "cursor": {}}, "t")
    more = {"getMore": Int64(reply["cursor"]["id"]), "collection": coll, "maxTimeMS": 60000, "$db": "t"}
    return op_msg(more, flags=flags)


def settled(admin, read, want):
    """Waits until read(serverStatus) is what is wanted."""
    deadline = time.monotonic() + 20
    while (got := read(admin.command({"serverStatus": 1}))) != want:
        assert time.monotonic() < deadline, f"{got}, not {want}"


def test_who_hangs_up_with_his_request_waits_for_nothing(server):
    """The end of what a client sends may be there before its request has begun to wait."""
    with RawClient(server.port) as admin:
        settled(admin, lambda s: s["metrics"]["cursor"]["open"]["pinned"], 0)
        before = admin.command({"serverStatus": 1})
        for i in range(50):
            with RawClient(server.port) as raw:
                more = watch(raw, f"gone{i % 5}")
                raw.sock.sendall(more)
                raw.sock.shutdown(socket.SHUT_WR)
        for read in (lambda s: s["connections"]["current"], lambda s: s["metrics"]["cursor"]["open"]["total"]):
            settled(admin, read, read(before))


def test_what_was_asked_with_the_last_word_is_answered(server):
    """A client that says no more may still read."""
    with RawClient(server.port) as admin:
        before = admin.command({"serverStatus": 1})["connections"]["current"]
        for i in range(50):
            with RawClient(server.port) as raw:
                raw.send(op_msg({"insert": "last", "documents": [{}], "$db": "t"}))
                raw.send(op_msg({"count": "last", "$db": "t"}))
                raw.sock.shutdown(socket.SHUT_WR)
                assert raw.receive().doc["n"] == 1
                assert raw.receive().doc["n"] == i + 1
                assert raw.closed()
        settled(admin, lambda s: s["connections"]["current"], before)


def test_what_comes_while_a_request_works_or_waits_is_served_behind_it(server):
    with RawClient(server.port) as raw, RawClient(server.port) as admin:
        assert raw.command({"create": "behind"}, "t")["ok"] == 1
        more = watch(raw, "behind")
        raw.send(more)
        settled(admin, lambda s: s["metrics"]["cursor"]["open"]["pinned"], 1)
        raw.send(op_msg({"ping": 1, "$db": "admin"}))
        assert raw.silent(0.1)
        admin.send(op_msg({"insert": "behind", "documents": [{"_id": 1}], "$db": "t"}))
        assert admin.receive().doc["n"] == 1
        event = raw.receive().doc["cursor"]["nextBatch"][0]
        assert event["documentKey"] == {"_id": 1}
        assert raw.receive().doc["ok"] == 1
        assert raw.ping() == 1.0


def test_a_hang_up_while_a_request_works_closes_behind_it(server):
    with RawClient(server.port) as admin:
        assert admin.command({"insert": "worked", "documents": [{}]}, "t")["ok"] == 1
        before = admin.command({"serverStatus": 1})["connections"]["current"]
        assert admin.command({"runnelFault": "storageWrite:wait"})["ok"] == 1
        with RawClient(server.port) as raw:
            raw.send(op_msg({"insert": "worked", "documents": [{}], "$db": "t"}))
            while admin.command({"runnelFault": "storageWrite:wait"})["hits"] < 1:
                pass
        assert admin.command({"runnelFault": "off"})["ok"] == 1
        settled(admin, lambda s: s["connections"]["current"], before)
        assert admin.command({"count": "worked"}, "t")["n"] == 2


def test_an_exhaust_series_that_had_to_wait_for_its_reader_ends_with_him(server):
    with RawClient(server.port) as admin:
        settled(admin, lambda s: s["metrics"]["cursor"]["open"]["pinned"], 0)
        with RawClient(server.port) as raw:
            more = watch(raw, "series", flags=EXHAUST_ALLOWED)
            documents = [{"_id": i, "x": "x" * (1 << 20)} for i in range(12)]
            assert admin.command({"insert": "series", "documents": documents}, "t")["n"] == 12
            raw.send(more)
            settled(admin, lambda s: s["network"]["unsentBytes"] > 0, True)
            reply = raw.receive()
            assert reply.more_to_come and len(reply.doc["cursor"]["nextBatch"]) == 12
            settled(admin, lambda s: s["runnel"]["executor"]["parked"], 1)
        settled(admin, lambda s: s["metrics"]["cursor"]["open"]["pinned"], 0)


def test_waiting_for_a_slow_reader_costs_nothing(server):
    """One who has more to say meanwhile, or will say nothing more, is no reason to look again and again."""
    def cpu_seconds():
        fields = pathlib.Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    with RawClient(server.port) as raw, RawClient(server.port) as half:
        documents = [{"_id": i, "x": "x" * (1 << 20)} for i in range(12)]
        assert raw.command({"insert": "slow", "documents": documents}, "t")["n"] == 12
        find = op_msg({"find": "slow", "sort": {"_id": 1}, "batchSize": 12, "$db": "t"})
        for client in (raw, half):
            client.send(find)
            client.send(find)
        half.sock.shutdown(socket.SHUT_WR)
        time.sleep(0.5)
        began = cpu_seconds()
        time.sleep(2)
        assert cpu_seconds() - began < 1.0
        for client in (raw, half):
            for _ in range(2):
                assert [d["_id"] for d in client.receive().doc["cursor"]["firstBatch"]] == list(range(12))
        assert half.closed() and raw.ping() == 1.0


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
