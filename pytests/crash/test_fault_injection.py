# SPDX-License-Identifier: GPL-3.0-or-later
"""The n-th failing call, for n = 1, 2, 3 ... until a run passes untouched.

In the storage layer each failure is an error reply that has changed nothing, or no failure at all.
On the disk each failure ends the process with a message or is an error reply; what was acknowledged
is there with the next start.
"""

import itertools
import uuid

import pytest
from bson import Binary, Int64

from crash_history import all_of, shown
from raw import Closed, RawClient
from server import Server

INTERNAL, CONFLICT, CLOSED = 1, 112, -1
DOCS = [{"_id": i, "a": i % 3, "u": i, "tags": [i, i + 1]} for i in range(6)]
BIG = "x" * 100_000


def setup(raw, db):
    """A collection with two indexes and images, another one, an empty one."""
    for command in (
        {"create": "c", "changeStreamPreAndPostImages": {"enabled": True}},
        {"createIndexes": "c", "indexes": [{"key": {"u": 1}, "name": "u_1", "unique": True},
                                           {"key": {"tags": 1}, "name": "tags_1"}]},
        {"insert": "c", "documents": DOCS},
        {"insert": "other", "documents": DOCS[:2]},
        {"create": "empty"},
    ):
        reply = raw.command(command, db)
        assert reply["ok"] == 1 and "writeErrors" not in reply, reply


def update(q, u, **more):
    return {"update": "c", "updates": [{"q": q, "u": u, **more}]}


# name: command; {db} stands for the database
COMMANDS = {
    "insert": {"insert": "c", "documents": [{"_id": 10, "u": 10, "tags": [1, 2]}]},
    "insertBig": {"insert": "c", "documents": [{"_id": 10, "u": 10, "big": BIG}]},
    "insertMany": {"insert": "c", "documents": [{"_id": i, "u": i} for i in range(10, 14)]},
    "insertNew": {"insert": "fresh", "documents": [{"_id": 1}]},
    "update": update({"_id": 1}, {"$set": {"u": 100, "tags": [7]}}),
    "updateMulti": update({"a": 1}, {"$inc": {"n": 1}, "$push": {"tags": 99}}, multi=True),
    "updateBig": update({"_id": 1}, {"$set": {"big": BIG}}),
    "upsert": update({"_id": 50}, {"$set": {"u": 50}}, upsert=True),
    "replace": update({"_id": 2}, {"u": 200}),
    "delete": {"delete": "c", "deletes": [{"q": {"_id": 3}, "limit": 1}]},
    "deleteMulti": {"delete": "c", "deletes": [{"q": {"a": 1}, "limit": 0}]},
    "findAndModify": {"findAndModify": "c", "query": {"u": 2}, "update": {"$set": {"u": 77}}, "new": True},
    "find": {"find": "c", "filter": {"u": {"$gt": 2}}, "sort": {"tags": -1}},
    "aggregate": {"aggregate": "c", "pipeline": [{"$group": {"_id": "$a", "n": {"$sum": 1}}}], "cursor": {}},
    "create": {"create": "made"},
    "createIndexes": {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"},
                                                        {"key": {"a": -1}, "name": "a_-1"}]},
    "createIndexEmpty": {"createIndexes": "empty", "indexes": [{"key": {"a": 1}, "name": "a_1"}]},
    "dropIndexes": {"dropIndexes": "c", "index": "tags_1"},
    "collMod": {"collMod": "c", "changeStreamPreAndPostImages": {"enabled": False}},
    "rename": {"renameCollection": "{db}.c", "to": "{db}.new"},
    "renameOver": {"renameCollection": "{db}.c", "to": "{db}.other", "dropTarget": True},
    "renameAcross": {"renameCollection": "{db}.c", "to": "{db}_x.c"},
    "drop": {"drop": "c"},
    "dropDatabase": {"dropDatabase": 1},
}
MANY = {"insertMany", "updateMulti", "deleteMulti"}  # may stop behind some of their documents
RETRYABLE = {"insert", "insertMany", "update", "upsert", "replace", "delete", "findAndModify"}
POINTS = ("allocLarge", "commitBefore", "indexBuild", "optimeTaken", "retryRecord", "storageBegin",
          "storageCommit", "storageOpen", "storageRead", "storageWrite", "tableCreate", "tableDrop")


def state(raw, *dbs):
    """Everything that a client can see of these databases; checks the collections as well."""
    seen = {}
    for i, db in enumerate(dbs):
        for info in all_of(raw, db, {"listCollections": 1}):
            name = info["name"]
            result = raw.command({"validate": name, "full": True}, db)
            assert result["ok"] == 1 and result["valid"], result
            seen[i, name] = (
                sorted((str(d) for d in all_of(raw, db, {"find": name}))),
                sorted(ix["name"] for ix in all_of(raw, db, {"listIndexes": name})),
                str(info["options"]),
            )
    return seen


class Bench:
    """Runs a command in a database of its own, with or without a failure on the way."""

    def __init__(self, raw):
        self.raw = raw
        self.name, self.number = f"f{uuid.uuid4().hex[:8]}", itertools.count()

    def prepare(self):
        self.db = f"{self.name}_{next(self.number)}"
        setup(self.raw, self.db)

    def command(self, name):
        command = {k: v.format(db=self.db) if isinstance(v, str) else v for k, v in COMMANDS[name].items()}
        if name in RETRYABLE:
            command |= {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(1)}
        return command, "admin" if "renameCollection" in command else self.db

    def state(self):
        return state(self.raw, self.db, f"{self.db}_x")

    def clean(self):
        for db in (self.db, f"{self.db}_x"):
            assert self.raw.command({"dropDatabase": 1}, db)["ok"] == 1

    def expected(self, name):
        """The states before and after, without any failure."""
        self.prepare()
        before = self.state()
        command, db = self.command(name)
        reply = self.raw.command(command, db)
        assert reply["ok"] == 1 and "writeErrors" not in reply, reply
        after = self.state()
        self.clean()
        return before, after

    def run(self, name, point, code, n):
        """(reply, state, the same command once more, whether the failure came)"""
        self.prepare()
        command, db = self.command(name)
        assert self.raw.command({"runnelFault": f"{point}:fail={code}:{n}"})["ok"] == 1
        try:
            reply = self.raw.command(command, db)
        except (Closed, ConnectionError):  # no memory to receive the message, or to send a reply
            assert point == "allocLarge", (name, point, n)
            self.raw.reconnect()
            reply = {"ok": 0, "code": CLOSED}
        hits = self.raw.command({"runnelFault": f"{point}:off"})["hits"]
        return reply, hits >= n, lambda: self.raw.command(command, db)


def failed(reply):
    """The code of an error reply or a write error; None: all went well."""
    if reply["ok"] != 1:
        return reply["code"]
    return reply["writeErrors"][0]["code"] if "writeErrors" in reply else None


def may_be(name, found, before, after):
    """True for what a failed command may leave: whole documents of many, an empty new collection."""
    if name == "insertNew":
        return found == {**before, (0, "fresh"): ([], ["_id_"], "{}")}
    if name == "renameAcross":  # as in MongoDB, the target is there before the source goes
        return found == {**before, **after}
    if name not in MANY:
        return False
    docs = {key: set(docs) for key, (docs, _, _) in found.items()}
    either = {key: set(before[key][0]) | set(after[key][0]) for key in before}
    return found.keys() == before.keys() and all(docs[k] <= either[k] for k in docs)


def check_one(bench, name, point, code, n, before, after):
    """One command with its n-th passing of a point failing. True: it came to that."""
    reply, came, again = bench.run(name, point, code, n)
    found, error = bench.state(), failed(reply)
    where = (name, point, code, n, reply)
    if error is None:
        assert found == after, where
    else:
        assert came, where
        if code == CONFLICT:
            raise AssertionError(("a conflict is tried again, not told", *where))
        assert found == before or may_be(name, found, before, after), where
        if name in RETRYABLE:
            reply = again()
            assert failed(reply) is None and bench.state() == after, (*where, reply)
    bench.clean()
    return came


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", COMMANDS)
def test_storage_calls_fail_one_by_one(inject_srv, name):
    """An error reply and nothing changed, whichever call it is; the server stays up."""
    with RawClient(inject_srv.port, timeout=60) as raw:
        bench = Bench(raw)
        start = raw.command({"appendOplogNote": 1, "data": {}})["operationTime"]
        before, after = bench.expected(name)
        failures = 0
        for point in POINTS:
            n = 1
            while check_one(bench, name, point, INTERNAL, n, before, after):
                n += 1
            failures += n - 1
        assert failures > 0
        check_events(raw, start)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RETRYABLE | {"updateMulti", "deleteMulti"}))
def test_conflicts_are_tried_again(inject_srv, name):
    with RawClient(inject_srv.port, timeout=60) as raw:
        bench = Bench(raw)
        before, after = bench.expected(name)
        for point in ("storageWrite", "commitBefore"):
            n = 1
            while check_one(bench, name, point, CONFLICT, n, before, after):
                n += 1
            assert n > 1, point


def check_events(raw, start):
    """A stream shows just what the oplog says, whatever was rolled back in between."""
    entries = all_of(raw, "local", {"find": "oplog.rs", "filter": {"ts": {"$gt": start}, "op": {"$ne": "n"}}})
    should = [(e["ts"], shown(e)) for e in entries if shown(e)]
    stage = {"startAtOperationTime": start, "showExpandedEvents": True, "allChangesForCluster": True}
    reply = raw.command({"aggregate": 1, "pipeline": [{"$changeStream": stage}], "cursor": {}})
    found = []
    while len(found) < len(should):
        assert reply["ok"] == 1, reply
        cursor = reply["cursor"]
        batch = cursor.get("firstBatch", cursor.get("nextBatch"))
        assert batch or not found, "events are missing"
        found += [(e["clusterTime"], e["operationType"]) for e in batch]
        reply = raw.command({"getMore": Int64(cursor["id"]), "collection": "$cmd.aggregate", "maxTimeMS": 2000})
    assert found == should
    raw.command({"killCursors": "$cmd.aggregate", "cursors": [Int64(cursor["id"])]})


@pytest.fixture(scope="module")
def inject_srv(request):
    """In memory: the same calls, and each round makes eight tables."""
    if request.config.getoption("--uri"):
        pytest.skip("needs fault points")
    with Server(memory=True, test_commands=True) as server:
        yield server
