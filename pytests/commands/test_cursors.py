# SPDX-License-Identifier: GPL-3.0-or-later
"""Cursors and sessions: batches, ownership, waiting, killing; the fields any command may carry."""

import os
import threading
import time

import pytest
from bson import Binary, Timestamp
from bson.int64 import Int64

from raw import RawClient, op_msg


def lsid():
    return {"id": Binary(os.urandom(16), 4)}


def fill(db, n=10, size=0):
    db.c.insert_many([{"_id": i, "x": "x" * size} for i in range(n)])


def find(raw, db, **options):
    return raw.command({"find": "c", **options}, db.name)["cursor"]


def get_more(raw, db, cursor_id, **options):
    return raw.command({"getMore": Int64(cursor_id), "collection": "c", **options}, db.name)


def ids(batch):
    return [d["_id"] for d in batch]


# --- batches ----------------------------------------------------------------------------------


def test_batches_by_count(raw, db):
    fill(db, 250)
    first = find(raw, db)
    assert len(first["firstBatch"]) == 101 and first["id"] > 0
    assert first["ns"] == f"{db.name}.c"
    assert list(first) == ["firstBatch", "id", "ns"]
    more = get_more(raw, db, first["id"], batchSize=49)["cursor"]
    assert ids(more["nextBatch"]) == list(range(101, 150)) and more["id"] == first["id"]
    last = get_more(raw, db, first["id"])["cursor"]
    assert ids(last["nextBatch"]) == list(range(150, 250)) and last["id"] == 0
    assert get_more(raw, db, first["id"])["code"] == 43


def test_batch_size_zero_and_single_batch_and_limit(raw, db):
    fill(db)
    empty = find(raw, db, batchSize=0)
    assert empty["firstBatch"] == [] and empty["id"] != 0
    assert len(get_more(raw, db, empty["id"])["cursor"]["nextBatch"]) == 10
    assert find(raw, db, batchSize=3, singleBatch=True)["id"] == 0
    limited = find(raw, db, batchSize=3, limit=5)
    rest = get_more(raw, db, limited["id"])["cursor"]
    assert ids(rest["nextBatch"]) == [3, 4] and rest["id"] == 0
    exact = find(raw, db, batchSize=5, limit=5)
    assert len(exact["firstBatch"]) == 5 and exact["id"] == 0


def test_batches_by_bytes(raw, db):
    """A row that does not fit is the first one of the next batch, whatever its size."""
    fill(db, 10, 4 << 20)
    cursor = find(raw, db, batchSize=100)
    seen, batches = ids(cursor["firstBatch"]), 1
    assert seen == [0, 1, 2]
    while cursor["id"]:
        cursor = get_more(raw, db, cursor["id"])["cursor"]
        seen += ids(cursor["nextBatch"])
        batches += 1
    assert seen == list(range(10))
    assert batches == 4


def test_cursor_ids_are_hard_to_guess(raw, db):
    fill(db)
    seen = {find(raw, db, batchSize=1)["id"] for _ in range(50)}
    assert len(seen) == 50
    assert all(0 < i < 2**63 for i in seen)
    assert sum(i > 2**40 for i in seen) == 50


# --- ownership --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, code",
    [
        ({"collection": "other"}, 13),
        ({"maxTimeMS": 5}, 2),
        ({"batchSize": -1}, 51024),
        ({"batchSize": "x"}, 14),
        ({"collection": 5}, 14),
        ({"nonsense": 1}, 40415),
        ({"lsid": lsid()}, 50736),
    ],
)
def test_get_more_errors(raw, db, options, code):
    fill(db)
    cursor = find(raw, db, batchSize=1)
    assert get_more(raw, db, cursor["id"], **options)["code"] == code
    assert get_more(raw, db, 12345)["code"] == 43
    assert raw.command({"getMore": 5, "collection": "c"}, db.name)["code"] == 14
    assert raw.command({"getMore": Int64(5)}, db.name)["code"] == 40414


def test_cursor_of_a_session(raw, db):
    fill(db)
    mine, other = lsid(), lsid()
    cursor = find(raw, db, batchSize=1, lsid=mine)
    assert get_more(raw, db, cursor["id"])["code"] == 50737
    assert get_more(raw, db, cursor["id"], lsid=other)["code"] == 50738
    assert get_more(raw, db, cursor["id"], lsid=mine)["cursor"]["id"] == 0


def test_cursor_serves_any_connection(srv, raw, db):
    fill(db)
    cursor = find(raw, db, batchSize=1)
    with RawClient(srv.port) as other:
        assert len(get_more(other, db, cursor["id"])["cursor"]["nextBatch"]) == 9


def test_kill_cursors(raw, db):
    fill(db)
    cursor = find(raw, db, batchSize=1)
    answer = raw.command(
        {"killCursors": "c", "cursors": [Int64(cursor["id"]), Int64(99)]}, db.name
    )
    assert answer["cursorsKilled"] == [cursor["id"]]
    assert answer["cursorsNotFound"] == [99]
    assert answer["cursorsAlive"] == answer["cursorsUnknown"] == []
    assert get_more(raw, db, cursor["id"])["code"] == 43
    assert raw.command({"killCursors": "c", "cursors": [1]}, db.name)["code"] == 14
    assert raw.command({"killCursors": "c", "cursors": 1}, db.name)["code"] == 14


# --- waiting ----------------------------------------------------------------------------------


def stream(raw, db):
    raw.command({"create": "c"}, db.name)
    command = {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}}
    return raw.command(command, db.name)["cursor"]


@pytest.mark.parametrize("options, least, most", [({}, 0.95, 10), ({"maxTimeMS": 3000}, 2.9, 15)])
def test_wait_ends_in_time(raw, db, options, least, most):
    cursor = stream(raw, db)
    begin = time.monotonic()
    answer = get_more(raw, db, cursor["id"], **options)["cursor"]
    assert least <= time.monotonic() - begin < most
    assert answer["nextBatch"] == [] and answer["id"] == cursor["id"]
    assert list(answer) == ["nextBatch", "postBatchResumeToken", "id", "ns"]


def waiting(srv, raw, db, cursor):
    raw.send(op_msg({
        "getMore": Int64(cursor["id"]), "collection": "c", "maxTimeMS": 60000, "$db": db.name,
    }))
    with RawClient(srv.port) as other:
        status = {"serverStatus": 1}
        while other.command(status)["metrics"]["cursor"]["open"]["pinned"] == 0:
            pass


def test_killed_while_it_waits(srv, raw, db):
    cursor = stream(raw, db)
    waiting(srv, raw, db, cursor)
    answer = db.command("killCursors", "c", cursors=[cursor["id"]])
    assert answer["cursorsKilled"] == [cursor["id"]]
    doc = raw.receive().doc
    assert (doc["code"], doc["codeName"]) == (237, "CursorKilled")
    assert "errorLabels" not in doc
    assert get_more(raw, db, cursor["id"])["code"] == 43


def test_wakes_for_an_event_and_not_for_others(srv, raw, db):
    cursor = stream(raw, db)
    waiting(srv, raw, db, cursor)
    db.elsewhere.insert_many([{} for _ in range(20)])
    assert raw.silent(0.2)
    db.c.insert_one({"_id": 7})
    batch = raw.receive().doc["cursor"]["nextBatch"]
    assert [e["documentKey"] for e in batch] == [{"_id": 7}]


@pytest.mark.concurrent
def test_many_waiters_and_writers(srv, client, db):
    """Each of many streams sees each of many writes, once and in order."""
    db.create_collection("c")
    streams = [db.c.watch(max_await_time_ms=500) for _ in range(20)]
    results = []

    def watch(s):
        seen = []
        while len(seen) < 80:
            event = s.try_next()
            if event is not None:
                seen.append(event["documentKey"]["_id"])
        results.append(seen)

    def write(n):
        for i in range(20):
            db.c.insert_one({"_id": f"{n}-{i}"})

    threads = [threading.Thread(target=watch, args=(s,)) for s in streams]
    threads += [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 20
    assert all(r == results[0] for r in results)
    assert len(set(results[0])) == 80
    for s in streams:
        s.close()


# --- sessions ---------------------------------------------------------------------------------


def test_start_session(raw):
    answer = raw.command({"startSession": 1})
    assert answer["id"]["id"].subtype == 4 and len(answer["id"]["id"]) == 16
    assert answer["timeoutMinutes"] == 30
    assert raw.command({"refreshSessions": [answer["id"]]})["ok"] == 1
    assert raw.command({"endSessions": [answer["id"], lsid()]})["ok"] == 1


@pytest.mark.parametrize("command", ["endSessions", "killSessions"])
def test_cursors_end_with_their_session(raw, db, command):
    fill(db)
    mine = lsid()
    cursor, kept = find(raw, db, batchSize=1, lsid=mine), find(raw, db, batchSize=1)
    assert raw.command({command: [mine]})["ok"] == 1
    assert get_more(raw, db, cursor["id"], lsid=mine)["code"] == 43
    assert get_more(raw, db, kept["id"])["ok"] == 1


@pytest.mark.parametrize(
    "command",
    [
        {"killAllSessions": []},
        {"killAllSessionsByPattern": [{}]},
        {"killSessions": []},
    ],
)
def test_kill_all_sessions(raw, db, command):
    fill(db)
    mine = lsid()
    cursor, kept = find(raw, db, batchSize=1, lsid=mine), find(raw, db, batchSize=1)
    assert raw.command(command)["ok"] == 1
    assert get_more(raw, db, cursor["id"], lsid=mine)["code"] == 43
    assert get_more(raw, db, kept["id"])["ok"] == 1


def test_kill_sessions_by_pattern(raw, db):
    fill(db)
    one, two = lsid(), lsid()
    first, second = find(raw, db, batchSize=1, lsid=one), find(raw, db, batchSize=1, lsid=two)
    assert raw.command({"killAllSessionsByPattern": [{"lsid": one}]})["ok"] == 1
    assert get_more(raw, db, first["id"], lsid=one)["code"] == 43
    assert get_more(raw, db, second["id"], lsid=two)["ok"] == 1


def test_killing_a_session_interrupts_what_it_runs(srv, raw, db):
    mine = lsid()
    raw.command({"create": "c"}, db.name)
    command = {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}, "lsid": mine}
    cursor = raw.command(command, db.name)["cursor"]
    raw.send(op_msg({
        "getMore": Int64(cursor["id"]), "collection": "c", "maxTimeMS": 60000, "lsid": mine,
        "$db": db.name,
    }))
    with RawClient(srv.port) as other:
        while other.command({"serverStatus": 1})["metrics"]["cursor"]["open"]["pinned"] == 0:
            pass
        assert other.command({"killSessions": [mine]})["ok"] == 1
    assert raw.receive().doc["code"] in (237, 11601)


@pytest.mark.parametrize(
    "ids, code",
    [
        ([{"id": Binary(b"x" * 16, 4)}] * 10001, 2),
        ([{"id": 5}], 14),
        ([{}], 40414),
        ([5], 14),
        (5, 14),
        ([{"id": Binary(b"short", 4)}], 207),
        ([{"id": Binary(b"x" * 16, 0)}], 14),
        ([{"id": Binary(b"x" * 16, 4), "more": 1}], 40415),
    ],
)
def test_bad_session_ids(raw, ids, code):
    assert raw.command({"endSessions": ids})["code"] == code


# --- the envelope -----------------------------------------------------------------------------


S = {"id": Binary(b"s" * 16, 4)}


@pytest.mark.parametrize(
    "fields, code",
    [
        ({"lsid": 5}, 14),
        ({"lsid": {**S, "uid": Binary(b"z" * 32)}}, 13),
        ({"txnNumber": Int64(1)}, 72),
        ({"lsid": S, "txnNumber": Int64(-1)}, 72),
        ({"lsid": S, "txnNumber": 1}, 14),
        ({"lsid": S, "txnNumber": Int64(1)}, 50768),
        ({"lsid": S, "autocommit": False}, 72),
        ({"lsid": S, "txnNumber": Int64(1), "autocommit": True}, 72),
        ({"lsid": S, "txnNumber": Int64(1), "startTransaction": True}, 72),
        ({"lsid": S, "txnNumber": Int64(1), "autocommit": False, "startTransaction": False}, 72),
        ({"lsid": S, "txnNumber": Int64(1), "autocommit": False, "startTransaction": True}, 263),
        ({"readConcern": 5}, 14),
        ({"readConcern": {"level": "x"}}, 2),
        ({"readConcern": {"level": 5}}, 14),
        ({"readConcern": {"nope": 1}}, 40415),
        ({"readConcern": {"afterClusterTime": 5}}, 14),
        ({"readConcern": {"afterClusterTime": Timestamp(2**32 - 1, 1)}}, 72),
        ({"readConcern": {"atClusterTime": Timestamp(1, 1)}}, 72),
        ({"writeConcern": 5}, 14),
        ({"writeConcern": {"w": -1}}, 9),
        ({"writeConcern": {"w": 51}}, 9),
        ({"writeConcern": {"w": True}}, 9),
        ({"writeConcern": {"j": "x"}}, 9),
        ({"writeConcern": {"j": True, "fsync": True}}, 9),
        ({"writeConcern": {"nope": 1}}, 40415),
        ({"maxTimeMS": "x"}, 2),
        ({"maxTimeMS": -1}, 2),
        ({"maxTimeMS": 1.5}, 2),
        ({"maxTimeMS": 2**31}, 2),
        ({"$readPreference": 5}, 14),
        ({"$readPreference": {"mode": "sometimes"}}, 9),
        ({"$clusterTime": 5}, 14),
        ({"apiVersion": "2"}, 322),
        ({"apiVersion": 1}, 14),
        ({"apiStrict": True}, 72),
    ],
)
def test_envelope_errors(raw, fields, code):
    answer = raw.command({"count": "c", **fields}, "test")
    assert (answer["ok"], answer["code"]) == (0.0, code), answer
    assert raw.ping() == 1.0


def test_envelope_is_accepted(raw):
    answer = raw.command(
        {
            "count": "c", "lsid": S,
            "readConcern": {"level": "majority", "provenance": "clientSupplied"},
            "maxTimeMS": 10000, "comment": None, "apiVersion": "1", "apiStrict": True,
            "$readPreference": {"mode": "secondaryPreferred"},
            "$clusterTime": {"clusterTime": Timestamp(1, 1), "signature": {}},
        },
        "test",
    )
    assert answer["ok"] == 1.0
    assert raw.command({"distinct": "c", "key": "x", "apiVersion": "1", "apiStrict": True})["code"] == 323
    aggregate = {"aggregate": 1, "cursor": {}, "pipeline": [{"$listLocalSessions": {}}]}
    assert raw.command({**aggregate, "apiVersion": "1"})["ok"] == 1
    assert raw.command({**aggregate, "apiVersion": "1", "apiStrict": True})["code"] == 323
    assert raw.command({"count": "c", "help": True}, "test")["help"]


def test_admin_commands_want_the_admin_database(raw):
    answer = raw.command({"listDatabases": 1}, "test")
    assert answer["code"] == 13
    assert answer["errmsg"] == "listDatabases may only be run against the admin database."


def test_write_concerns(raw, db):
    def insert(concern):
        return raw.command({"insert": "c", "documents": [{}], "writeConcern": concern}, db.name)

    for concern in ({}, {"w": 1}, {"w": "majority"}, {"w": 1, "j": True}, {"w": 0}):
        answer = insert(concern)
        assert answer["ok"] == 1.0 and "writeConcernError" not in answer
    answer = insert({"w": 2, "wtimeout": 100})
    assert answer["n"] == 1
    assert answer["writeConcernError"]["code"] == 100
    assert answer["writeConcernError"]["errmsg"] == "Not enough data-bearing nodes"
    assert insert({"w": "sometag"})["writeConcernError"]["code"] == 79
    assert db.c.count_documents({}) == 7


def test_operation_times(raw, db):
    one = raw.command({"insert": "c", "documents": [{}]}, db.name)
    two = raw.command({"insert": "c", "documents": [{}]}, db.name)
    assert two["operationTime"] > one["operationTime"]
    assert two["$clusterTime"]["clusterTime"] >= two["operationTime"]
    read = raw.command({"find": "c"}, db.name)
    assert read["operationTime"] >= two["operationTime"]
    error = raw.command({"nonsense": 1})
    assert error["operationTime"] >= two["operationTime"]


def test_after_a_cluster_time_seen_elsewhere(raw, db):
    """Gossip moves the clock: a read after a time of another member waits until it is reached."""
    now = raw.command({"ping": 1})["$clusterTime"]["clusterTime"]
    ahead = Timestamp(now.time + 30, 5)
    answer = raw.command(
        {
            "find": "c", "readConcern": {"afterClusterTime": ahead},
            "$clusterTime": {"clusterTime": ahead, "signature": {}},
        },
        db.name,
    )
    assert answer["ok"] == 1.0
    assert answer["operationTime"] >= ahead
    later = raw.command({"insert": "c", "documents": [{}]}, db.name)
    assert later["operationTime"] > ahead


def test_causal_session_reads_its_writes(client, db):
    with client.start_session(causal_consistency=True) as session:
        for i in range(50):
            db.c.insert_one({"_id": i}, session=session)
            assert db.c.find_one({"_id": i}, session=session) is not None


def test_max_time_of_the_first_command_bounds_later_batches(db):
    db.c.insert_many([{"_id": i} for i in range(10)])
    cursor = db.c.find({}, batch_size=2, max_time_ms=50)
    next(cursor)
    time.sleep(0.2)
    assert sum(1 for _ in cursor) == 9  # time between batches does not count
