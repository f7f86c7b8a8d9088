# SPDX-License-Identifier: GPL-3.0-or-later
"""SIGKILL under load: what was acknowledged is there, in data, index and oplog, with one event."""

import random
import threading
import time

import pymongo
import pytest
from pymongo.errors import PyMongoError

from server import Server

KILLS = 20
WRITERS = 8


class Writer(threading.Thread):
    """Inserts documents of its own, and updates some, until the server dies.

    The next server may be there before it notices: `died` keeps it from going on with that one.
    """

    def __init__(self, uri, number, first, died):
        super().__init__()
        self.uri, self.number, self.next, self.died = uri, number, first, died
        self.inserted, self.updated = [], []

    def run(self):
        with pymongo.MongoClient(self.uri, retryWrites=False, serverSelectionTimeoutMS=2000) as client:
            coll = client.crash.c
            try:
                while not self.died.is_set():
                    key = f"{self.number}-{self.next}"
                    self.next += 1
                    coll.insert_one({"_id": key, "u": key})
                    self.inserted.append(key)
                    if self.next % 4 == 0:
                        coll.update_one({"_id": key}, {"$set": {"done": True}})
                        self.updated.append(key)
            except PyMongoError:
                pass


class Watcher(threading.Thread):
    """Follows the collection from a token until the server dies; keeps events and its token."""

    def __init__(self, uri, token, seen, died):
        super().__init__()
        self.uri, self.token, self.seen, self.died = uri, token, seen, died
        self.opened = threading.Event()

    def run(self):
        try:
            with pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=2000) as client:
                reply = client.crash.command(
                    "aggregate", "c", pipeline=[{"$changeStream": {"resumeAfter": self.token}}], cursor={}
                )
                batch = reply["cursor"]["firstBatch"]
                while not self.died.is_set():
                    self.opened.set()
                    for event in batch:
                        self.seen.append((event["operationType"], event["documentKey"]["_id"], event["clusterTime"]))
                    self.token = reply["cursor"]["postBatchResumeToken"]
                    reply = client.crash.command(
                        "getMore", reply["cursor"]["id"], collection="c", maxTimeMS=500
                    )
                    batch = reply["cursor"]["nextBatch"]
        except PyMongoError:
            self.opened.set()


def check_data(client, inserted, updated):
    coll = client.crash.c
    by_id = {d["_id"]: d for d in coll.find()}
    by_index = {d["_id"] for d in coll.find({"u": {"$gt": ""}}, {"u": 1}).hint("u_1")}
    assert set(by_id) == by_index, "records and index agree"
    assert inserted <= set(by_id), "an acknowledged insert is missing"
    assert all(by_id[key].get("done") for key in updated), "an acknowledged update is missing"
    result = client.crash.command("validate", "c", full=True)
    assert result["valid"], result
    return set(by_id)


def check_oplog(client, inserted, updated, present):
    entries = list(client.local["oplog.rs"].find({"ns": "crash.c", "op": {"$in": ["i", "u"]}}))
    stamps = [e["ts"] for e in entries]
    assert stamps == sorted(set(stamps)), "optimes grow and are used once"
    inserts = [e["o"]["_id"] for e in entries if e["op"] == "i"]
    updates = [e["o2"]["_id"] for e in entries if e["op"] == "u"]
    assert len(inserts) == len(set(inserts)) and set(inserts) == present
    assert updated <= set(updates) and len(updates) == len(set(updates))
    assert inserted <= set(inserts)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_twenty_kills_with_eight_writers(tmp_path):
    rng = random.Random(1)
    inserted, updated, seen = set(), set(), []
    first = [0] * WRITERS
    with Server(path=tmp_path / "data") as srv:
        with pymongo.MongoClient(srv.uri) as client:
            client.crash.c.create_index("u", unique=True)
            token = client.crash.c.watch().resume_token
        for _ in range(KILLS):
            died = threading.Event()
            watcher = Watcher(srv.uri, token, seen, died)
            watcher.start()
            watcher.opened.wait(30)
            writers = [Writer(srv.uri, i, first[i], died) for i in range(WRITERS)]
            for w in writers:
                w.start()
            time.sleep(rng.uniform(0.15, 0.6))
            srv.kill()
            died.set()
            srv.start()  # before they are joined: a client that closes looks for its server
            for t in [watcher, *writers]:
                t.join()
            token = watcher.token
            first = [w.next for w in writers]
            for w in writers:
                inserted.update(w.inserted)
                updated.update(w.updated)
            with pymongo.MongoClient(srv.uri) as client:
                present = check_data(client, inserted, updated)
                check_oplog(client, inserted, updated, present)
        died = threading.Event()
        watcher = Watcher(srv.uri, token, seen, died)
        watcher.start()
        deadline = time.monotonic() + 60
        wanted = {("insert", k) for k in present} | {("update", k) for k in updated}
        while not wanted <= {(op, key) for op, key, _ in list(seen)}:
            assert time.monotonic() < deadline, "events of acknowledged writes are missing"
            time.sleep(0.05)
        died.set()
        watcher.join()
    assert len(inserted) > 200, "too little load to show anything"
    assert len(seen) == len(set(seen)), "an event came twice"
    stamps = [at for _, _, at in seen]
    assert stamps == sorted(stamps) and len(stamps) == len(set(stamps))
    assert {key for op, key, _ in seen if op == "insert"} == present, "an event without its write"
