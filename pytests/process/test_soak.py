# SPDX-License-Identifier: GPL-3.0-or-later
"""A long mixed load: memory, files, threads, disk and everything a client can leave open stay flat.

    pytest process/test_soak.py --soak-seconds 3600      (make soak SOAK_SECONDS=3600)
"""

import os
import random
import threading
import time

import pymongo
import pytest
from pymongo.errors import OperationFailure, PyMongoError

from raw import RawClient, op_msg
from server import Server

pytestmark = [pytest.mark.concurrent, pytest.mark.slow]

MB = 1 << 20
DOCUMENTS = 2000  # ids that writers use, so that the data stays about as large as it is
WRITERS, WATCHERS = 3, 3
CACHE_MB = 64
LOG_MB = 256  # WiredTiger's log may grow by this much before a checkpoint lets it go
SANITIZED = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))


class Load:
    """Threads that run until stop(); the first unexpected error ends all of them."""

    def __init__(self, srv):
        self.srv = srv
        self.ended = threading.Event()
        self.error = None
        self.counts = dict.fromkeys(("writes", "events", "reads", "ddl", "connections", "failures"), 0)
        jobs = [self.write] * WRITERS + [self.watch] * WATCHERS + [self.read, self.ddl, self.churn]
        self.threads = [threading.Thread(target=self.run, args=(job, n)) for n, job in enumerate(jobs)]
        for t in self.threads:
            t.start()

    def run(self, job, n):
        rnd = random.Random(n)
        try:
            with pymongo.MongoClient(self.srv.uri, serverSelectionTimeoutMS=60000) as client:
                while not self.ended.is_set():
                    job(client, rnd)
        except Exception as e:  # noqa: BLE001 - told by stop()
            self.error = self.error or e
            self.ended.set()

    def stop(self):
        self.ended.set()
        for t in self.threads:
            t.join(120)
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

    def churn(self, client, rnd):
        """Connections that say something, half of something, or leave while they wait."""
        more = {"aggregate": 1, "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "soak"}
        message = op_msg(rnd.choice(({"ping": 1, "$db": "admin"}, {"find": "docs", "$db": "soak"}, more)))
        with RawClient(self.srv.port) as raw:
            raw.send(message[: rnd.choice((5, 20, len(message)))])
            if rnd.randrange(2):
                raw.silent(0.01)
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


def measure(srv):
    proc = f"/proc/{srv.pid}"
    return {
        "rss": srv.rss(),
        "files": len(os.listdir(f"{proc}/fd")),
        "threads": len(os.listdir(f"{proc}/task")),
        "disk": disk_bytes(srv.path),
    }


def worst(samples):
    return {key: max(s[key] for s in samples) for key in samples[0]}


def sample_for(srv, load, seconds):
    """The greatest values of a stretch of time: single ones go up and down with the load."""
    samples, until = [], time.monotonic() + seconds
    while time.monotonic() < until and not load.ended.is_set():
        samples.append(measure(srv))
        time.sleep(min(1.0, seconds / 5))
    return worst(samples or [measure(srv)])


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
    deadline = time.monotonic() + 60
    with RawClient(srv.port) as admin:
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
    """The last quarter of the time uses no more than the second one did, but for a margin."""
    with Server(path=tmp_path / "data", oplog_max_entries=3000, args=("--cache-mb", CACHE_MB)) as srv:
        with pymongo.MongoClient(srv.uri) as client:
            client.soak.create_collection("docs", changeStreamPreAndPostImages={"enabled": True})
        load = Load(srv)
        try:
            sample_for(srv, load, seconds / 4)
            early = sample_for(srv, load, seconds / 4)
            sample_for(srv, load, seconds / 4)
            late = sample_for(srv, load, seconds / 4)
        finally:
            load.stop()
        record_property("soak", {"counts": load.counts, "early": early, "late": late})
        print(load.counts, "early", early, "late", late, sep="\n")
        assert all(load.counts[k] > 0 for k in load.counts if k != "failures")
        margin = 1.5 if SANITIZED else 1.25
        assert late["rss"] < early["rss"] * margin + CACHE_MB * MB, "the cache may have filled since"
        assert late["disk"] < early["disk"] * margin + (64 + LOG_MB) * MB
        assert late["files"] <= early["files"] + 20
        assert late["threads"] <= early["threads"] + 64, "the pool may grow to its limit"
        check_nothing_left(srv)
        with pymongo.MongoClient(srv.uri) as client:
            for name in client.soak.list_collection_names():
                assert client.soak.validate_collection(name)["valid"]
        try:
            srv.restart()
        except PyMongoError:
            pytest.fail("no clean restart")
