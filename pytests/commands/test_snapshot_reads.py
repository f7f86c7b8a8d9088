# SPDX-License-Identifier: GPL-3.0-or-later
"""readConcern snapshot outside transactions: reads at one time, their pins, and their end."""

import threading
import time

import pymongo
import pytest
from bson import Timestamp
from pymongo.write_concern import WriteConcern

from disk_server import client, raw, server, stuck_sync  # noqa: F401
from raw import RawClient
from streamutil import error_of

pytestmark = pytest.mark.concurrent

MOST = 100  # snapshots pinned at once


@pytest.fixture
def window(client):
    """Sets how long a snapshot lives, until the end of the test."""
    yield lambda s: client.admin.command("setParameter", 1, minSnapshotHistoryWindowInSeconds=s)
    client.admin.command("setParameter", 1, minSnapshotHistoryWindowInSeconds=300)


def at(time_=None):
    concern = {"level": "snapshot"}
    if time_ is not None:
        concern["atClusterTime"] = time_
    return {"readConcern": concern}


def find(raw, db, time_=None, **more):
    return raw.command({"find": "c", **more, **at(time_)}, db.name)


def ids(reply):
    cursor = reply["cursor"]
    return [d["_id"] for d in cursor.get("firstBatch", cursor.get("nextBatch"))]


# --- one time ----------------------------------------------------------------------------------


def test_tx_07_snapshot_on_commands_that_cannot(raw, db):
    for command in ({"insert": "c", "documents": [{}]}, {"listCollections": 1}):
        reply = raw.command({**command, **at()}, db.name)
        assert (reply["code"], reply["codeName"]) == (72, "InvalidOptions")
    db.c.insert_one({"_id": 1})
    reply = find(raw, db)
    assert reply["ok"] == 1.0 and isinstance(reply["cursor"]["atClusterTime"], Timestamp)


def test_reads_of_one_time_agree(raw, db):
    """find, aggregate and distinct, on several collections, whatever is written meanwhile."""
    db.c.insert_many([{"_id": i, "x": i % 2} for i in range(4)])
    db.d.insert_one({"_id": "d"})
    then = find(raw, db)["cursor"]["atClusterTime"]
    db.c.insert_one({"_id": 4, "x": 7})
    db.c.update_one({"_id": 0}, {"$set": {"x": 9}})
    db.c.delete_one({"_id": 1})
    db.d.insert_one({"_id": "e"})
    for _ in range(2):
        reply = find(raw, db, then)
        assert ids(reply) == [0, 1, 2, 3] and reply["cursor"]["atClusterTime"] == then
        reply = raw.command(
            {"aggregate": "d", "pipeline": [{"$sort": {"_id": 1}}], "cursor": {}, **at(then)}, db.name
        )
        assert ids(reply) == ["d"] and reply["cursor"]["atClusterTime"] == then
        reply = raw.command({"distinct": "c", "key": "x", **at(then)}, db.name)
        assert sorted(reply["values"]) == [0, 1] and reply["atClusterTime"] == then
    assert sorted(ids(find(raw, db))) == [0, 2, 3, 4]


def test_get_more_stays_at_its_time(server, raw, db):
    db.c.insert_many([{"_id": i} for i in range(6)])
    first = find(raw, db, batchSize=2)["cursor"]
    db.c.delete_many({})
    db.c.insert_many([{"_id": i} for i in range(100, 110)])
    with RawClient(server.port) as other:
        more = other.command({"getMore": first["id"], "collection": "c"}, db.name)
    assert ids(more) == [2, 3, 4, 5]
    assert more["cursor"]["atClusterTime"] == first["atClusterTime"]


def test_time_of_a_write_that_is_the_newest(raw, db):
    """The operationTime of the newest write can be read at, and a write later it cannot."""
    now = raw.command({"insert": "c", "documents": [{"_id": 1}]}, db.name)["operationTime"]
    reply = find(raw, db, now)
    assert ids(reply) == [1] and reply["cursor"]["atClusterTime"] == now
    older = raw.command({"insert": "c", "documents": [{"_id": 2}]}, db.name)["operationTime"]
    raw.command({"insert": "c", "documents": [{"_id": 3}]}, db.name)
    reply = find(raw, db, older)
    assert (reply["code"], reply["codeName"]) == (239, "SnapshotTooOld")
    assert reply["errmsg"] == (
        f"Read timestamp Timestamp({older.time}, {older.inc}) is older than the oldest available "
        "timestamp."
    )


def test_time_still_to_come(raw, db):
    """What the cluster has reached, and we have not, becomes our newest time."""
    db.c.insert_one({"_id": 1})
    now = raw.command({"ping": 1}, "admin")["$clusterTime"]["clusterTime"]
    ahead = Timestamp(now.time + 100, 7)
    told = {"$clusterTime": {"clusterTime": ahead}}
    reply = raw.command({"find": "c", **at(ahead), **told}, db.name)
    assert ids(reply) == [1] and reply["cursor"]["atClusterTime"] == ahead
    assert raw.command({"insert": "c", "documents": [{"_id": 2}]}, db.name)["operationTime"] > ahead
    assert ids(find(raw, db, ahead)) == [1]
    beyond = find(raw, db, Timestamp(ahead.time + 5000, 1))
    assert beyond["code"] == 72 and beyond["errmsg"].startswith("readConcern atClusterTime value")


def test_after_cluster_time(raw, db):
    wrote = raw.command({"insert": "c", "documents": [{"_id": 1}]}, db.name)["operationTime"]
    concern = {"level": "snapshot", "afterClusterTime": wrote}
    reply = raw.command({"find": "c", "readConcern": concern}, db.name)
    assert ids(reply) == [1] and reply["cursor"]["atClusterTime"] >= wrote


def test_only_what_a_crash_cannot_undo(client, raw, db):
    db.c.insert_one({"_id": 1})
    with stuck_sync(client):
        db.get_collection("c", write_concern=WriteConcern(1)).insert_one({"_id": 2})
        reply = find(raw, db, maxTimeMS=100)
        assert reply.get("code") == 50, reply
    assert ids(find(raw, db)) == [1, 2]


# --- pins --------------------------------------------------------------------------------------


def test_server_status_tells_of_the_window(client, raw, db):
    def window():
        return client.admin.command("serverStatus")["wiredTiger"]["snapshot-window-settings"]

    db.c.insert_one({"_id": 1})
    at = find(raw, db)["cursor"]["atClusterTime"]
    before = window()
    assert list(before) == [
        "total number of SnapshotTooOld errors",
        "minimum target snapshot window size in seconds",
        "current available snapshot window size in seconds",
        "latest majority snapshot timestamp available",
        "oldest majority snapshot timestamp available",
        "pinned timestamp requests",
        "min pinned timestamp",
    ]
    assert before["minimum target snapshot window size in seconds"] == 300
    assert before["pinned timestamp requests"] >= 1 and before["min pinned timestamp"] <= at
    assert before["latest majority snapshot timestamp available"].count(":") == 3
    long_ago = Timestamp(at.time - 1000, 1)
    assert find(raw, db, long_ago)["code"] == 239
    name = "total number of SnapshotTooOld errors"
    assert window()[name] == before[name] + 1


def test_the_least_recently_used_goes(raw, db):
    """One more than there is room for: the first two were used again, the third was not."""
    db.c.insert_one({"_id": 0})
    times = []
    for i in range(MOST):
        times.append(find(raw, db, limit=1)["cursor"]["atClusterTime"])
        db.c.insert_one({"_id": f"{i}"})
    for used in times[:2]:
        assert ids(find(raw, db, used)) == [0] + [str(i) for i in range(times.index(used))]
    extra = find(raw, db, limit=1)["cursor"]["atClusterTime"]
    assert find(raw, db, times[2])["code"] == 239
    for kept in (times[0], times[1], times[3], extra):
        assert find(raw, db, kept, limit=1)["ok"] == 1.0


def test_reads_with_nothing_between_share(raw, db):
    db.c.insert_one({"_id": 1})
    times = {find(raw, db)["cursor"]["atClusterTime"] for _ in range(5)}
    assert len(times) == 1


def test_window(client, raw, db, window):
    """A snapshot goes when it is too old, and its cursors with it."""
    db.c.insert_many([{"_id": i} for i in range(4)])
    first = find(raw, db, batchSize=2)["cursor"]
    db.c.insert_one({"_id": 4})
    assert ids(find(raw, db, first["atClusterTime"])) == [0, 1, 2, 3]
    window(0)
    end = time.monotonic() + 30
    while find(raw, db, first["atClusterTime"]).get("code") != 239:
        assert time.monotonic() < end
        time.sleep(0.05)
    more = {"getMore": first["id"], "collection": "c"}
    assert raw.command(more, db.name)["code"] == 239
    assert raw.command(more, db.name)["code"] == 43


def test_window_parameter(client, window):
    get = client.admin.command("getParameter", minSnapshotHistoryWindowInSeconds=1)
    assert get["minSnapshotHistoryWindowInSeconds"] == 300
    for bad, code in ((-1, 2), ("x", 14)):
        assert error_of(lambda bad=bad: window(bad)).code == code


def test_one_reader_at_a_time(server, client, raw, db):
    """A second request at the same time waits for the first; maxTimeMS bounds the wait."""
    db.c.insert_many([{"_id": i} for i in range(3)])
    then = find(raw, db)["cursor"]["atClusterTime"]
    db.c.insert_one({"_id": 3})
    client.admin.command("runnelFault", "scanSnapshot:wait")
    replies = []
    with RawClient(server.port) as slow, RawClient(server.port) as waiting:
        try:
            reading = threading.Thread(target=lambda: replies.append(find(slow, db, then)))
            reading.start()
            while client.admin.command("runnelFault", "scanSnapshot:wait")["hits"] < 1:
                time.sleep(0.01)
            late = find(raw, db, then, maxTimeMS=50)
            assert late["code"] == 50, late
            second = threading.Thread(target=lambda: replies.append(find(waiting, db, then)))
            second.start()
            second.join(0.1)
            assert second.is_alive() and replies == []
        finally:
            client.admin.command("runnelFault", "off")
        reading.join()
        second.join()
    assert [ids(r) for r in replies] == [[0, 1, 2]] * 2


# --- the catalog -------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["drop", "rename", "create", "index"])
def test_the_catalog_has_changed(raw, db, change):
    """A collection is not what it was at that time: the read is refused, not wrong."""
    if change != "create":
        db.c.insert_one({"_id": 1})
    db.other.insert_one({"_id": 1})
    then = raw.command({"find": "other", **at()}, db.name)["cursor"]["atClusterTime"]
    if change == "drop":
        db.c.drop()
    elif change == "rename":
        db.c.rename("d")
    elif change == "create":
        db.c.insert_one({"_id": 1})
    else:
        db.c.create_index("x")
    reply = find(raw, db, then)
    assert (reply["code"], reply["codeName"]) == (246, "SnapshotUnavailable"), reply
    if change == "rename":
        assert raw.command({"find": "d", **at(then)}, db.name)["code"] == 246
    assert ids(raw.command({"find": "other", **at(then)}, db.name)) == [1]
    assert find(raw, db)["ok"] == 1.0


def test_cursor_outlives_its_collection(raw, db):
    """An open cursor has what it needs: its rows stay, also when the collection goes."""
    db.c.create_index("x")
    db.c.insert_many([{"_id": i, "x": 1} for i in range(4)])
    first = find(raw, db, filter={"x": 1}, batchSize=2)["cursor"]
    db.c.drop()
    more = raw.command({"getMore": first["id"], "collection": "c"}, db.name)
    assert ids(more) == [2, 3]


# --- many --------------------------------------------------------------------------------------


def test_a_snapshot_never_tears(server, db):
    """A find in two batches and another at its time read the same, however writers, readers and
    getMores meet."""
    db.c.insert_many([{"_id": i, "n": 0} for i in range(20)])
    stop = threading.Event()
    wrong = []

    def write():
        with pymongo.MongoClient(server.uri) as c:
            fast = c[db.name].get_collection("c", write_concern=WriteConcern(1))
            while not stop.is_set():
                fast.update_many({}, {"$inc": {"n": 1}})

    def read():
        with RawClient(server.port) as r:
            for _ in range(40):
                first = find(r, db, batchSize=5)["cursor"]
                rows = [d["n"] for d in first["firstBatch"]]
                again = find(r, db, first["atClusterTime"])
                more = r.command({"getMore": first["id"], "collection": "c"}, db.name)
                rows += [d["n"] for d in more["cursor"]["nextBatch"]]
                if again["ok"] != 1.0 or rows != [d["n"] for d in again["cursor"]["firstBatch"]]:
                    wrong.append((rows, again))

    writer = threading.Thread(target=write)
    readers = [threading.Thread(target=read) for _ in range(3)]
    writer.start()
    for r in readers:
        r.start()
    for r in readers:
        r.join()
    stop.set()
    writer.join()
    assert wrong == []
