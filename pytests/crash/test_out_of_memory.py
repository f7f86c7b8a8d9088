# SPDX-License-Identifier: GPL-3.0-or-later
"""The n-th failing allocation, for n = 1, 2, 3 ... until a run passes untouched.

It is an error of that request, or the process ends with its exit code for that and a line in the log. The
next one has what was acknowledged, whole commands only, and streams that show what the oplog says.
`--fault-step 1` tries every n, the default one in so many.
"""

import uuid

import pytest
from bson import Binary, Int64

from crash_history import all_of
from fault_bench import BIG, CLOSED, DIED, INTERNAL, Bench, check_events, check_one, failed
from server import Server

POINT = "allocate"
COMMANDS = ("aggregate", "bulkWriteUnordered", "createIndexes", "deleteMulti", "findAndModify", "insertBig",
            "insertMany", "insertNew", "renameAcross", "transaction", "update", "updateBig")
BATCH = [{"_id": 100 + i, "u": 100 + i} for i in range(3)]


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    if request.config.getoption("--uri"):
        pytest.skip("needs fault points")
    with Server(path=tmp_path_factory.mktemp("memory") / "data", test_commands=True) as server:
        yield server


@pytest.fixture
def bench(server):
    with Bench(server) as bench:
        yield bench


def numbers(request, name, names):
    """The n to try: not the same ones of each command."""
    step = request.config.getoption("--fault-step")
    return (1, 1) if step == 1 else (3 * step, 1 + sorted(names).index(name) * 2 % step)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", COMMANDS)
def test_of_a_command(request, bench, name):
    start = bench.raw.command({"appendOplogNote": 1, "data": {}})["operationTime"]
    before, after = bench.expected(name)
    step, n = numbers(request, name, COMMANDS)
    while check_one(bench, name, POINT, INTERNAL, n, before, after):
        n += step
    check_events(bench.raw, start)
    print(f"{name}: {n} allocations")
    assert n > step or step > 1


READS = {
    "find": {"find": "c", "filter": {"u": {"$gte": 0}}, "sort": {"a": 1, "_id": -1}},
    "group": {"aggregate": "c", "cursor": {}, "pipeline": [
        {"$group": {"_id": "$a", "docs": {"$push": "$$ROOT"}}}, {"$sort": {"_id": 1}}]},
    "distinct": {"distinct": "c", "key": "tags"},
    "listIndexes": {"listIndexes": "c"},
}


def answer(reply):
    return reply.get("values") or reply["cursor"]["firstBatch"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", READS)
def test_of_a_read(request, bench, name):
    """The whole answer, or an error."""
    bench.prepare()
    whole = answer(bench.call(READS[name], bench.db))
    step, n = numbers(request, name, READS)
    came = True
    while came:
        reply = bench.call({"runnelFault": f"{POINT}:fail={INTERNAL}:{n}"})
        if reply["ok"] == 1:
            reply = bench.call(READS[name], bench.db)
            assert reply["ok"] != 1 or answer(reply) == whole, (n, reply)
        off = bench.call({"runnelFault": f"{POINT}:off"})
        came = off["ok"] != 1 or off["hits"] >= n or failed(reply) == DIED
        assert came or reply["ok"] == 1, (n, reply)
        n += step
    bench.clean()


def open_stream(bench, **resume):
    reply = bench.call({"aggregate": "c", "pipeline": [{"$changeStream": resume}], "cursor": {}}, bench.db)
    assert reply["ok"] == 1, reply
    return reply["cursor"]["id"], reply["cursor"]["postBatchResumeToken"], reply["cursor"]["firstBatch"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_of_a_stream(request, bench):
    """getMore gives all events, or fails; a stream that goes on behind the last token gives the rest."""
    bench.prepare()
    step = 1 if request.config.getoption("--fault-step") == 1 else 3
    came, first, n = True, 100, 1
    while came:
        cursor, token, _ = open_stream(bench)
        docs = [{**d, "_id": first + i, "u": first + i} for i, d in enumerate(BATCH)]
        first += len(docs)
        assert bench.call({"insert": "c", "documents": docs}, bench.db)["n"] == len(docs)
        reply = bench.call({"runnelFault": f"{POINT}:fail={INTERNAL}:{n}"})
        if reply["ok"] == 1:
            reply = bench.call({"getMore": Int64(cursor), "collection": "c"}, bench.db)
        off = bench.call({"runnelFault": f"{POINT}:off"})
        came = off["ok"] != 1 or off["hits"] >= n or failed(reply) == DIED
        events = []
        if reply["ok"] == 1 and "cursor" in reply:
            events = reply["cursor"]["nextBatch"]
            token = reply["cursor"]["postBatchResumeToken"]
        else:
            assert came, reply
        if len(events) < len(docs):
            events += open_stream(bench, resumeAfter=token)[2]
        assert [e["fullDocument"] for e in events] == docs, (n, reply)
        n += step
    bench.clean()


def test_a_retry_is_not_done_twice(bench):
    """A record that cannot be read for want of memory is not one that is not there."""
    bench.prepare()
    command = {"findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"n": 1}, "$set": {"big": BIG}},
               "new": True, "lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(1)}
    first = bench.call(command, bench.db)
    assert first["value"]["n"] == 1, first
    n = failures = 0
    came = True
    while came:
        n += 1
        bench.call({"runnelFault": f"allocLarge:fail={INTERNAL}:{n}"})
        reply = bench.call(command, bench.db)
        came = bench.call({"runnelFault": "allocLarge:off"})["hits"] >= n
        assert failed(reply) in (CLOSED, 146) if reply["ok"] != 1 else reply["value"] == first["value"], (n, reply)
        failures += reply["ok"] != 1
    assert failures > 1
    assert bench.call({"find": "c", "filter": {"_id": 1}}, bench.db)["cursor"]["firstBatch"][0]["n"] == 1
    bench.clean()


@pytest.mark.slow
def test_nothing_is_left_of_it(bench):
    """Errors by want of memory, many times over: no cursor, no lock, no session in use stays behind."""
    bench.prepare()
    counts = lambda: all_of(bench.raw, "admin", {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}})
    before, cursors = len(counts()), bench.raw.command({"serverStatus": 1})["metrics"]["cursor"]["open"]
    big = {"insert": "c", "documents": [{"_id": 10, "u": 10, "big": "x" * 300_000}]}
    failures = 0
    for n in range(1, 9):
        assert bench.call({"runnelFault": f"allocLarge:fail={INTERNAL}:{n}"})["ok"] == 1
        for command in (big, {"find": "c", "batchSize": 2, "sort": {"u": -1}}, {"delete": "c", "deletes": [
                {"q": {"_id": 10}, "limit": 1}]}):
            reply = bench.call(command, bench.db)
            assert failed(reply) in (None, CLOSED, 146), reply
            failures += failed(reply) is not None
            if reply.get("cursor", {}).get("id"):
                bench.call({"killCursors": "c", "cursors": [Int64(reply["cursor"]["id"])]}, bench.db)
        assert bench.call({"runnelFault": "allocLarge:off"})["ok"] == 1
    assert failures > 3
    assert len(counts()) == before
    assert bench.raw.command({"serverStatus": 1})["metrics"]["cursor"]["open"] == cursors
    bench.clean()
