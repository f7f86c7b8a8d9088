# SPDX-License-Identifier: GPL-3.0-or-later
"""A long mixed load: memory, files, threads, disk and everything a client can leave open stay flat.

    pytest process/test_soak.py --soak-seconds 3600      (make soak SOAK_SECONDS=3600)
"""

import os
import random
import socket
import struct
import threading
import time

import bson
import pymongo
import pytest
from pymongo.errors import OperationFailure, PyMongoError

from raw import RawClient, op_msg
from sanitizers import SANITIZED
from server import Server

pytestmark = [pytest.mark.concurrent, pytest.mark.slow]

MB = 1 << 20
DOCUMENTS = 2000  # ids that writers use, so that the data stays about as large as it is
WRITERS, WATCHERS, TRANSACTORS = 3, 3, 2
CACHE_MB = 64
SLOW_S = 300  # under valgrind, beside other work
LOG_MB = 256  # WiredTiger's log may grow by this much before a checkpoint lets it go


def a_session(rnd):
    """One of a few, which churn() leaves with cursors and kill() ends."""
    return {"id": bson.Binary(bytes([rnd.randrange(20)]) * 16, 4)}


class Load:
    """Threads that run until stop(); the first unexpected error ends all of them."""

    def __init__(self, srv):
        self.srv = srv
        self.ended = threading.Event()
        self.error = None
        self.counts = dict.fromkeys(("writes", "events", "reads", "ddl", "connections", "transactions",
                                     "bulks", "kills", "failures"), 0)
        jobs = [self.write] * WRITERS + [self.watch] * WATCHERS + [self.transact] * TRANSACTORS + [
            self.read, self.ddl, self.databases, self.bulk, self.churn, self.kill]
        self.threads = [threading.Thread(target=self.run, args=(job, n)) for n, job in enumerate(jobs)]
        for t in self.threads:
            t.start()

    def run(self, job, n):
        rnd = random.Random(n)
        try:
            with pymongo.MongoClient(self.srv.uri, serverSelectionTimeoutMS=SLOW_S * 1000) as client:
                while not self.ended.is_set():
                    job(client, rnd)
        except Exception as e:  # noqa: BLE001 - told by stop()
            self.error = self.error or e
            self.ended.set()

    def stop(self):
        self.ended.set()
        for t in self.threads:
            t.join(SLOW_S)
        assert not any(t.is_alive() for t in self.threads)
        if self.error is not None:
            raise self.error

    def write(self, client, rnd):
        docs, key = client.soak.docs, rnd.randrange(DOCUMENTS)
        text = "x" * rnd.choice((10, 100, 1000, 10000))
        try:
            match rnd.randrange(6):
                case 0:
                    docs.insert_one({"_id": key, "a": rnd.randrange(100), "x": text})
                case 1 | 2:
                    docs.update_one({"_id": key}, {"$set": {"x": text}, "$inc": {"a": 1}}, upsert=True)
                case 3:
                    docs.delete_one({"_id": key})
                case 4:
                    docs.replace_one({"_id": key}, {"a": 1, "list": [text] * 3}, upsert=True)
                case 5:
                    docs.bulk_write([pymongo.UpdateOne({"_id": (key + i) % DOCUMENTS},
                                                       {"$set": {"b": i}}) for i in range(20)])
            self.counts["writes"] += 1
        except OperationFailure as e:
            if e.code != 11000 and "E11000" not in str(e):
                raise

    def watch(self, client, rnd):
        """A stream for a while, then another one from its token, or the abandoned rest of one."""
        options = {"max_await_time_ms": 50, "full_document": rnd.choice((None, "updateLookup"))}
        pipeline = rnd.choice(([], [{"$match": {"operationType": "update"}}]))
        try:
            with client.soak.docs.watch(pipeline, **options) as stream:
                for _ in range(rnd.randrange(200)):
                    if self.ended.is_set():
                        return
                    if stream.try_next() is not None:
                        self.counts["events"] += 1
                token = stream.resume_token
            with client.soak.docs.watch(pipeline, resume_after=token, **options) as stream:
                stream.try_next()
        except OperationFailure as e:
            if e.code not in (286, 280):  # its place in the oplog is gone
                raise
            self.counts["failures"] += 1

    def read(self, client, rnd):
        docs = client.soak.docs
        cursor = docs.find({"a": {"$gt": 1}}, batch_size=5)
        for _, doc in zip(range(12), cursor):
            assert "_id" in doc
        if rnd.randrange(2):
            cursor.close()
        list(docs.aggregate([{"$group": {"_id": "$a", "n": {"$sum": 1}}}, {"$sort": {"n": -1}}]))
        list(docs.find({}, {"x": 0}).sort("b").limit(50))
        with client.start_session() as session:
            docs.count_documents({}, session=session)
        self.counts["reads"] += 1

    def ddl(self, client, rnd):
        name = f"c{rnd.randrange(5)}"
        coll = client.soak[name]
        coll.insert_many([{"k": i} for i in range(20)])
        coll.create_index("k")
        coll.aggregate([{"$match": {"k": 3}}]).close()
        if rnd.randrange(2):
            coll.rename(f"{name}-moved", dropTarget=True)
        client.soak.drop_collection(rnd.choice((name, f"{name}-moved")))
        self.counts["ddl"] += 1
        time.sleep(0.05)

    def databases(self, client, rnd):
        """Databases that come and go."""
        db = client[f"soak{rnd.randrange(3)}"]
        for i in range(3):
            db[f"c{i}"].insert_one({})
        client.drop_database(db.name)
        self.counts["ddl"] += 1
        time.sleep(0.05)

    def transact(self, client, rnd):
        """Commits, aborts, or leaves a transaction to the next one of its session."""
        docs, log = client.soak.docs, client.soak.log
        with client.start_session() as session:
            for _ in range(rnd.randrange(1, 4)):
                try:
                    session.start_transaction()
                    docs.update_one({"_id": rnd.randrange(DOCUMENTS)}, {"$inc": {"a": 1}}, upsert=True,
                                    session=session)
                    log.replace_one({"_id": rnd.randrange(100)}, {"x": "x" * rnd.randrange(5000)},
                                    upsert=True, session=session)
                    list(docs.find({"a": 3}, session=session, batch_size=2).limit(5))
                    match rnd.randrange(6):
                        case 0:
                            session.abort_transaction()
                        case 1:
                            return  # the end of the session aborts it
                        case _:
                            session.commit_transaction()
                except PyMongoError as e:
                    if not e.has_error_label("TransientTransactionError"):
                        raise
                    self.counts["failures"] += 1
                    if session.in_transaction:
                        session.abort_transaction()
                self.counts["transactions"] += 1

    def bulk(self, client, rnd):
        ops = [{"update": i % 2, "filter": {"_id": rnd.randrange(DOCUMENTS)},
                "updateMods": {"$set": {"bulk": i}}, "upsert": True} for i in range(30)]
        namespaces = [{"ns": "soak.docs"}, {"ns": "soak.log"}]
        reply = client.admin.command("bulkWrite", 1, ops=ops, nsInfo=namespaces,
                                     cursor={"batchSize": rnd.choice((5, 1000))})
        if reply["cursor"]["id"]:
            client.admin.command("killCursors", "$cmd.bulkWrite", cursors=[reply["cursor"]["id"]])
        self.counts["bulks"] += 1
        time.sleep(0.02)

    def kill(self, client, rnd):
        """Ends from outside what is open on a connection of its own: a cursor, a waiting operation, a
        session with a transaction; or the connection itself, without a word."""
        lsid = a_session(rnd)
        stream = {"aggregate": "docs", "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "soak",
                  "lsid": lsid}
        with RawClient(self.srv.port, timeout=SLOW_S) as raw:
            cursor = raw.command(stream)["cursor"]["id"]
            raw.send(op_msg({"getMore": cursor, "collection": "docs", "$db": "soak", "lsid": lsid,
                             "maxTimeMS": 60000}))
            match rnd.randrange(4):
                case 0:
                    client.soak.command("killCursors", "docs", cursors=[cursor])
                case 1:
                    client.admin.command("killSessions", [lsid])
                case 2:
                    for op in client.admin.command("currentOp")["inprog"]:
                        if op.get("client") == "%s:%d" % raw.sock.getsockname():
                            client.admin.command("killOp", op=op["opid"])
                case 3:
                    raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with RawClient(self.srv.port, timeout=SLOW_S) as raw:
            first = {"insert": "log", "documents": [{}], "$db": "soak", "lsid": lsid, "autocommit": False,
                     "txnNumber": bson.Int64(self.counts["kills"] + 1), "startTransaction": True}
            raw.command(first)
        client.admin.command("killSessions", [lsid])
        self.counts["kills"] += 1
        time.sleep(0.02)

    def churn(self, client, rnd):
        """Connections that say something, half of something, or leave while they wait."""
        more = {"aggregate": 1, "pipeline": [{"$changeStream": {}}], "cursor": {}}
        command = rnd.choice(({"ping": 1}, {"find": "docs"}, more))
        message = op_msg({**command, "$db": "soak", "lsid": a_session(rnd)})
        with RawClient(self.srv.port, timeout=SLOW_S) as raw:
            raw.send(message[: rnd.choice((5, 20, len(message)))])
            if rnd.randrange(2):
                raw.silent(0.01)
        if not rnd.randrange(10):  # what they left open does not pile up
            client.admin.command("killSessions", [a_session(rnd)])
        self.counts["connections"] += 1


def disk_bytes(path):
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


def measure(srv, admin):
    proc = f"/proc/{srv.pid}"
    status = admin.command({"serverStatus": 1})
    runnel, wt = status["runnel"], status["wiredTiger"]
    used = runnel["memory"]["heapUsedBytes"] + runnel["memory"]["mappedBytes"]
    return {
        "rss": srv.rss(),
        "heap": runnel["memory"]["heapBytes"],
        "mapped": runnel["memory"]["mappedBytes"],
        "used outside the cache": used - wt["cache"]["bytes currently in the cache"],
        "files": len(os.listdir(f"{proc}/fd")),
        "threads": len(os.listdir(f"{proc}/task")),
        "disk": disk_bytes(srv.path),
        "storage sessions": wt["session"]["open session count"],
        "storage cursors": wt["session"]["open cursor count"],
        "logical sessions": status["logicalSessionRecordCache"]["activeSessionsCount"],
        "connections": status["connections"]["current"],
        "cursors": status["metrics"]["cursor"]["open"]["total"],
        "transactions": status["transactions"]["currentOpen"],
        "parked": runnel["executor"]["parked"],
        "stuck": runnel["executor"]["stuck"],
    }


# By how much each may seem to grow within the second half of the time: a share of its mean, and so
# much more. Single values go up and down with the load, so the line through all of them counts.
FLAT = {
    "rss": (0.05, CACHE_MB * MB),
    "heap": (0.05, CACHE_MB * MB),
    "mapped": (0.05, CACHE_MB * MB),
    "used outside the cache": (0.05, 16 * MB),
    "files": (0, 20),
    "threads": (0, 10),
    "disk": (0.05, (64 + LOG_MB) * MB),
    "storage sessions": (0, 10),
    "storage cursors": (0.05, 100),
    "logical sessions": (0, 50),
    "connections": (0, 10),
    "cursors": (0, 10),
    "transactions": (0, 5),
    "parked": (0, 10),
    "stuck": (0, 5),
}
OF_A_SANITIZER = {"rss", "heap", "mapped", "used outside the cache"}  # are mostly its own
SHORT_S = 60
# WiredTiger closes the files of dropped tables every ten seconds: less than some of these turns shows
# one side of a saw, whose height is that of ten seconds of making and dropping tables.
SAW = {"files": 250}


def growth(values):
    """By how much the line through the values rises from the first to the last one."""
    n = len(values)
    mid, mean = (n - 1) / 2, sum(values) / n
    square = sum((i - mid) ** 2 for i in range(n))
    return sum((i - mid) * (v - mean) for i, v in enumerate(values)) / square * (n - 1) if n > 1 else 0


def sample_for(srv, load, seconds):
    samples, until = [], time.monotonic() + seconds
    with RawClient(srv.port, timeout=SLOW_S) as admin:
        while time.monotonic() < until and not load.ended.is_set():
            samples.append(measure(srv, admin))
            time.sleep(min(1.0, seconds / 20))
    return samples


def summarize(samples):
    return {key: {"min": min(v), "mean": round(sum(v) / len(v)), "max": max(v), "growth": round(growth(v))}
            for key in samples[0] for v in [[int(s[key]) for s in samples]]}


def check_flat(summary, seconds):
    short = seconds < SHORT_S
    slack = 2 if SANITIZED or short else 1
    rising = {key: summary[key] for key, (share, more) in FLAT.items()
              if summary[key]["growth"] > (share * summary[key]["mean"] + more) * slack
              + (SAW.get(key, 0) if short else 0)
              and not (SANITIZED and key in OF_A_SANITIZER)}
    assert not rising, rising


def left_open(admin):
    status = admin.command({"serverStatus": 1})
    return {
        "connections": status["connections"]["current"] - 1,
        "cursors": status["metrics"]["cursor"]["open"]["total"],
        "in flight": status["network"]["inFlightBytes"],
        "unsent": status["network"]["unsentBytes"],
    }


def check_nothing_left(srv):
    """What clients opened and did not close goes with their sessions."""
    deadline = time.monotonic() + SLOW_S
    with RawClient(srv.port, timeout=SLOW_S) as admin:
        admin.command({"killAllSessions": []})
        with pymongo.MongoClient(srv.uri) as client:
            for op in client.admin.aggregate([{"$currentOp": {"idleCursors": True}}]):
                if op.get("type") == "idleCursor":
                    db, coll = op["ns"].split(".", 1)
                    client[db].command("killCursors", coll, cursors=[op["cursor"]["cursorId"]])
        while any(left_open(admin).values()):
            assert time.monotonic() < deadline, left_open(admin)
            time.sleep(0.1)


@pytest.fixture
def seconds(request):
    return request.config.getoption("--soak-seconds")


@pytest.mark.timeout(0)
def test_a_mixed_load_leaves_everything_flat(tmp_path, seconds, record_property):
    """The line through the second half of the time does not rise, but for a margin."""
    with Server(path=tmp_path / "data", oplog_max_entries=3000, args=("--cache-mb", CACHE_MB)) as srv:
        with pymongo.MongoClient(srv.uri) as client:
            client.soak.create_collection("docs", changeStreamPreAndPostImages={"enabled": True})
            client.soak.create_collection("log")
        load = Load(srv)
        try:
            sample_for(srv, load, seconds / 2)
            samples = sample_for(srv, load, seconds / 2)
        finally:
            load.stop()
        summary = summarize(samples)
        record_property("soak", {"counts": load.counts, "second half": summary})
        print(load.counts, *(f"{key}: {v}" for key, v in summary.items()), sep="\n")
        assert all(load.counts[k] > 0 for k in load.counts if k != "failures")
        check_flat(summary, seconds)
        check_nothing_left(srv)
        with pymongo.MongoClient(srv.uri) as client:
            for name in client.soak.list_collection_names():
                assert client.soak.validate_collection(name)["valid"]
        try:
            srv.restart()
        except PyMongoError:
            pytest.fail("no clean restart")
