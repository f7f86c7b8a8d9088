# SPDX-License-Identifier: GPL-3.0-or-later
"""The wall clock jumps by an hour, forward and back: no order and no retention breaks."""

import time

import pymongo
import pytest
from bson import Int64, Timestamp

from server import Server
from streamutil import drain, error_of

HOUR_MS = 3_600_000
JUMPS = [HOUR_MS, -HOUR_MS]


@pytest.fixture
def own():
    with Server(memory=True, test_commands=True) as srv, pymongo.MongoClient(srv.uri) as client:
        yield client


def jump(client, by_ms):
    """Shifts the server's wall clock; returns what it shows."""
    return client.admin.command("runnelClock", by_ms)["now"]


def start_shifted(server, by_ms):
    """Starts the process anew, with a wall clock that is so far off."""
    return server.start(env={"RUNNEL_CLOCK_SHIFT_MS": str(by_ms)})


def entries(client):
    return list(client.local["oplog.rs"].find().sort("$natural", 1))


def written(events):
    return [e["documentKey"]["_id"] for e in events]


def await_gone(client, doc_id, more=lambda: None):
    """Until the entry of the document has been removed."""
    end = time.monotonic() + 30
    while client.local["oplog.rs"].find_one({"o._id": doc_id}) is not None:
        assert time.monotonic() < end, f"the entry of {doc_id} stays"
        more()
        time.sleep(0.05)


def assert_optimes_grow(optimes):
    assert optimes == sorted(set(optimes))


# --- order -------------------------------------------------------------------------------------


def test_the_clock_shifts(own):
    first = own.admin.command("hello")["localTime"]
    assert 3599 <= (jump(own, HOUR_MS) - first).total_seconds() < 3660
    assert abs((jump(own, -HOUR_MS) - first).total_seconds()) < 60
    assert error_of(lambda: jump(own, 2**62)).code == 2


@pytest.mark.parametrize("jumps", [JUMPS, JUMPS[::-1], [HOUR_MS] * 3, [-HOUR_MS] * 3])
def test_order_over_jumps(own, jumps):
    """Optimes grow, open streams see every event in order, tokens and times resume."""
    c = own.t.c
    times, n = [], 0
    with c.watch(max_await_time_ms=100) as stream:
        tokens = [stream.resume_token]
        for by_ms in [0, *jumps]:
            jump(own, by_ms)
            for _ in range(5):
                reply = own.t.command("insert", "c", documents=[{"_id": n}])
                assert reply["$clusterTime"]["clusterTime"] >= reply["operationTime"]
                times.append(reply["operationTime"])
                n += 1
            assert written(drain(stream, 5)) == list(range(n - 5, n))
            tokens.append(stream.resume_token)
    assert_optimes_grow(times)
    assert_optimes_grow([e["ts"] for e in entries(own)])
    for i, token in enumerate(tokens):
        with c.watch(resume_after=token, max_await_time_ms=100) as stream:
            assert written(drain(stream, n - 5 * i)) == list(range(5 * i, n))
    for i, at in enumerate(times):
        with c.watch(start_at_operation_time=at, max_await_time_ms=100) as stream:
            assert written(drain(stream, n - i)) == list(range(i, n))


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("shifts", [[0, HOUR_MS, 0], [0, -HOUR_MS, 0], [HOUR_MS, -HOUR_MS, HOUR_MS]])
def test_order_over_restarts(disk_srv, shifts, crash):
    """Each process finds another hour: its optimes are above all earlier ones."""
    times, token, n = [], None, 0
    for shift in shifts:
        disk_srv.kill() if crash else disk_srv.stop()
        start_shifted(disk_srv, shift)
        with pymongo.MongoClient(disk_srv.uri) as client:
            if token is None:
                token = client.t.c.watch().resume_token
            for _ in range(3):
                reply = client.t.command("insert", "c", documents=[{"_id": n}])
                times.append(reply["operationTime"])
                n += 1
    assert_optimes_grow(times)
    with pymongo.MongoClient(disk_srv.uri) as client:
        assert_optimes_grow([e["ts"] for e in entries(client)])
        with client.t.c.watch(resume_after=token, max_await_time_ms=100) as stream:
            assert written(drain(stream, n)) == list(range(n))
        with client.t.c.watch(start_at_operation_time=times[3], max_await_time_ms=100) as stream:
            assert written(drain(stream, n - 3)) == list(range(3, n))


@pytest.mark.parametrize("by_ms", JUMPS)
def test_writing_goes_on_at_once(own, by_ms):
    """A jump forward is past the durable ceiling of optimes, which must follow; both with w: 1."""
    with own.start_session() as session:
        before = own.t.command("insert", "c", documents=[{}], session=session)["operationTime"]
        jump(own, by_ms)
        after = own.t.command("insert", "c", documents=[{}], session=session)["operationTime"]
        assert after > before
        assert (after.time - before.time >= 3599) == (by_ms > 0)
        with session.start_transaction():
            own.t.c.insert_one({}, session=session)
        assert session.operation_time > after
    assert own.t.c.with_options(read_concern=pymongo.read_concern.ReadConcern("snapshot")).count_documents({}) == 3


def test_cluster_time_never_goes_back(own):
    seen = [own.admin.command("ping")["$clusterTime"]["clusterTime"]]
    for by_ms in [HOUR_MS, -2 * HOUR_MS, HOUR_MS, HOUR_MS]:
        jump(own, by_ms)
        own.t.c.insert_one({})
        seen.append(own.admin.command("ping")["$clusterTime"]["clusterTime"])
    assert_optimes_grow(seen)


def test_a_snapshot_of_the_time_before_a_jump_back(own):
    """Its optimes are in what the clock calls the future; reading at them still works."""
    jump(own, HOUR_MS)
    at = own.t.command("insert", "c", documents=[{"_id": 1}])["operationTime"]
    jump(own, -HOUR_MS)
    reply = own.t.command("find", "c", readConcern={"level": "snapshot", "atClusterTime": at})
    assert [d["_id"] for d in reply["cursor"]["firstBatch"]] == [1]
    own.t.c.insert_one({"_id": 2})
    assert own.t.command("find", "c", readConcern={"level": "majority", "afterClusterTime": at})["ok"] == 1


# --- what waits and what is idle ---------------------------------------------------------------


@pytest.mark.parametrize("by_ms", JUMPS)
def test_nothing_idle_times_out(own, by_ms):
    """Cursors, sessions and transactions live by a clock that does not jump."""
    own.t.c.insert_many([{"_id": i} for i in range(10)])
    with own.start_session() as session:
        cursor = own.t.c.find(batch_size=2)
        next(cursor)
        session.start_transaction()
        own.t.c.insert_one({"_id": "txn"}, session=session)
        jump(own, by_ms)
        time.sleep(2.5)  # sweeps come each second
        assert len(list(cursor)) == 9
        session.commit_transaction()
    assert own.t.c.find_one({"_id": "txn"})


@pytest.mark.parametrize("by_ms", JUMPS)
def test_waits_are_as_long_as_asked(own, by_ms):
    with own.t.c.watch(max_await_time_ms=300) as stream:
        jump(own, by_ms)
        start = time.monotonic()
        assert stream.try_next() is None
        assert 0.2 <= time.monotonic() - start < 20


# --- retention ---------------------------------------------------------------------------------


@pytest.mark.parametrize("by_ms", JUMPS)
def test_nothing_goes_too_early(own, by_ms):
    """Kept for half an hour: a jump by a whole one takes nothing away."""
    own.admin.command("setParameter", 1, oplogRetentionSeconds=1800.0)
    own.t.c.insert_many([{"_id": i} for i in range(20)])
    before = entries(own)
    jump(own, by_ms)
    own.t.c.insert_many([{"_id": i} for i in range(20, 30)])
    time.sleep(2.5)  # two turns of the keeper
    assert own.admin.command("pruneOplog", 1)["removed"] == 0
    assert entries(own)[: len(before)] == before
    jump(own, -by_ms)
    time.sleep(1.5)
    assert own.admin.command("pruneOplog", 1)["removed"] == 0
    assert entries(own)[: len(before)] == before


def test_what_is_too_old_goes_after_a_jump_forward(own):
    own.admin.command("setParameter", 1, oplogRetentionSeconds=1.0)
    own.t.c.insert_one({"_id": "before"})
    jump(own, HOUR_MS)
    own.t.c.insert_one({"_id": "after"})
    await_gone(own, "before", lambda: own.t.c.insert_one({}))
    await_gone(own, "after", lambda: own.t.c.insert_one({}))


def test_what_is_too_old_goes_after_a_jump_back(own):
    """Later by the jump, if by age; by number at once."""
    own.admin.command("setParameter", 1, oplogRetentionSeconds=1.0)
    own.t.c.insert_one({"_id": "before"})
    jump(own, -HOUR_MS)
    own.t.c.insert_one({"_id": "after"})
    time.sleep(2.5)
    jump(own, HOUR_MS)  # the hour is over
    await_gone(own, "before", lambda: own.t.c.insert_one({}))
    await_gone(own, "after", lambda: own.t.c.insert_one({}))
    jump(own, -HOUR_MS)
    own.t.c.insert_many([{} for _ in range(20)])
    own.admin.command("setParameter", 1, oplogMaxEntries=5)
    own.admin.command("pruneOplog", 1)
    assert len(entries(own)) <= 5


def test_over_a_restart_the_hour_counts_as_passed(disk_srv):
    with pymongo.MongoClient(disk_srv.uri) as client:
        client.t.c.insert_one({"_id": "before"})
    disk_srv.stop()
    start_shifted(disk_srv, HOUR_MS)
    with pymongo.MongoClient(disk_srv.uri) as client:
        client.admin.command("setParameter", 1, oplogRetentionSeconds=1800.0)
        client.t.c.insert_one({"_id": "after"})
        client.admin.command("pruneOplog", 1)
        assert client.local["oplog.rs"].find_one({"o._id": "before"}) is None
        assert client.local["oplog.rs"].find_one({"o._id": "after"})


# --- images, retries ---------------------------------------------------------------------------


def set_expiry(client, seconds):
    images = {"preAndPostImages": {"expireAfterSeconds": seconds}}
    client.admin.command("setClusterParameter", {"changeStreamOptions": images})


@pytest.mark.parametrize("by_ms", JUMPS)
def test_images_do_not_expire_too_early(own, by_ms):
    set_expiry(own, 1800)
    own.t.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    start = own.t.command("insert", "c", documents=[{"_id": 1, "x": 0}])["operationTime"]
    own.t.c.update_one({"_id": 1}, {"$inc": {"x": 1}})
    jump(own, by_ms)
    own.t.c.update_one({"_id": 1}, {"$inc": {"x": 1}})
    time.sleep(2.5)
    at = Timestamp(start.time, start.inc + 1)
    with own.t.c.watch(
        start_at_operation_time=at, full_document_before_change="required", max_await_time_ms=100
    ) as stream:
        assert [e["fullDocumentBeforeChange"]["x"] for e in drain(stream, 2)] == [0, 1]
    assert len(list(own.config["system.preimages"].find())) == 2


def test_images_expire_after_a_jump_forward(own):
    set_expiry(own, 1)
    own.t.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    own.t.c.insert_one({"_id": 1, "x": 0})
    own.t.c.update_one({"_id": 1}, {"$inc": {"x": 1}})
    jump(own, HOUR_MS)
    own.t.c.update_one({"_id": 1}, {"$inc": {"x": 1}})
    end = time.monotonic() + 30
    while list(own.config["system.preimages"].find()):
        assert time.monotonic() < end, "images stay"
        time.sleep(0.05)


@pytest.mark.parametrize("by_ms", JUMPS)
def test_a_retry_after_a_jump_is_not_done_twice(own, by_ms):
    def write(session):
        update = {"q": {"_id": 1}, "u": {"$inc": {"x": 1}}, "upsert": True}
        own.t.command("update", "c", updates=[update], lsid=session.session_id, txnNumber=Int64(1))

    def records():
        return own.config.transactions.count_documents({})

    with own.start_session() as session:
        write(session)
        own.admin.command("reapLogicalSessionCacheNow")
        jump(own, by_ms)
        for _ in range(3):  # the first one notes the jump
            own.admin.command("reapLogicalSessionCacheNow")
            time.sleep(0.01)
        write(session)
        assert records() == 1
    assert own.t.c.find_one() == {"_id": 1, "x": 1}
