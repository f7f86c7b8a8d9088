# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands under which one call fails, and what may be there afterwards.

A Bench runs one of COMMANDS in a database of its own with the n-th passing of a fault point failing,
sends it again where a driver would, and compares what is there with the states before and after.
"""

import itertools
import uuid

from bson import Binary, Int64

from crash_history import all_of, shown
from raw import Closed, RawClient

INTERNAL, CONFLICT, NO_SUCH_TRANSACTION = 1, 112, 251
CLOSED, DIED = -1, -2  # in the place of a code: the connection was closed, the process ended
OUT_OF_MEMORY_EXIT = 12
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


def bulk(ordered):
    """Operations of three kinds on three collections, one of them not there; $inc shows what is done twice."""
    return {"bulkWrite": 1, "ordered": ordered,
            "nsInfo": [{"ns": "{db}.c"}, {"ns": "{db}.other"}, {"ns": "{db}.fresh"}],
            "ops": [{"insert": 0, "document": {"_id": 20, "u": 20}},
                    {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"n": 1}}},
                    {"insert": 2, "document": {"_id": 1}},
                    {"delete": 0, "filter": {"_id": 3}},
                    {"update": 1, "filter": {"_id": 7}, "updateMods": {"$inc": {"n": 1}}, "upsert": True}]}


# Where the operations of bulk() show: collection, _id, what is there when it is done (None: nothing).
BULK_EFFECTS = [("c", 20, {"_id": 20, "u": 20}), ("c", 1, {**DOCS[1], "n": 1}), ("fresh", 1, {"_id": 1}),
                ("c", 3, None), ("other", 7, {"_id": 7, "n": 1})]

# name: command, or those of a transaction; {db} stands for the database
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
    "bulkWrite": bulk(True),
    "bulkWriteUnordered": bulk(False),
    "transaction": [
        {"insert": "c", "documents": [{"_id": 10, "u": 10}, {"_id": 11, "u": 11, "tags": [1]}]},
        {"update": "other", "updates": [{"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}]},
        {"delete": "c", "deletes": [{"q": {"_id": 3}, "limit": 1}]},
        {"insert": "empty", "documents": [{"_id": 1}]},
        {"findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"n": 1}}},
        {"commitTransaction": 1},
    ],
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
BULK = {"bulkWrite", "bulkWriteUnordered"}
RETRYABLE = {"insert", "insertMany", "update", "upsert", "replace", "delete", "findAndModify", "transaction"} | BULK

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


def formatted(value, db):
    """Every {db} in the strings of a command replaced."""
    if isinstance(value, str):
        return value.replace("{db}", db)
    if isinstance(value, dict):
        return {k: formatted(v, db) for k, v in value.items()}
    return [formatted(v, db) for v in value] if isinstance(value, list) else value


def numbered(name, commands):
    """The commands of one name with what makes them retryable, or a transaction."""
    ids = {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(1)}
    if name != "transaction":
        return [{**c, **ids} for c in commands] if name in RETRYABLE else commands
    first, *rest = ({**c, **ids, "autocommit": False} for c in commands)
    return [{**first, "startTransaction": True}, *rest]


def failed(reply):
    """The code of an error reply or of the first write error; None: all went well."""
    if reply["ok"] != 1:
        return reply["code"]
    if reply.get("nErrors"):
        return next(r["code"] for r in reply["cursor"]["firstBatch"] if r["ok"] != 1)
    return reply["writeErrors"][0]["code"] if "writeErrors" in reply else None


class Attempt:
    """One run of a command: its last reply, whether the failure came, and the commands themselves."""

    def __init__(self, bench, name):
        self.bench = bench
        commands = COMMANDS[name] if isinstance(COMMANDS[name], list) else [COMMANDS[name]]
        self.commands = [(c, "admin" if {"renameCollection", "bulkWrite", "commitTransaction"} & c.keys() else bench.db)
                         for c in numbered(name, formatted(commands, bench.db))]
        self.reply, self.came = None, False

    def send(self):
        """Until one fails, as a client would."""
        for command, db in self.commands:
            self.reply = self.bench.call(command, db)
            if failed(self.reply) is not None:
                return

    def send_again(self):
        """What a driver repeats: the command, or the commit of the transaction."""
        command, db = self.commands[-1]
        return self.bench.call(command, db)


class Bench:
    """Runs a command in a database of its own, with or without a failure on the way."""

    def __init__(self, server):
        self.server = server
        self.raw = RawClient(server.port, timeout=60)
        self.name, self.number = f"f{uuid.uuid4().hex[:8]}", itertools.count()
        self.db = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.raw.close()

    def prepare(self):
        """A database as setup() makes it: the one of before, when it is untouched."""
        if self.db is None:
            self.db = f"{self.name}_{next(self.number)}"
            setup(self.raw, self.db)

    def state(self):
        return state(self.raw, self.db, f"{self.db}_x")

    def clean(self):
        for db in (self.db, f"{self.db}_x"):
            assert self.raw.command({"dropDatabase": 1}, db)["ok"] == 1
        self.db = None

    def call(self, command, db="admin"):
        """The reply; in its place {"ok": 0, "code": CLOSED or DIED}, with the server up again."""
        try:
            return self.raw.command(command, db)
        except (Closed, ConnectionError):
            pass
        try:
            self.raw.reconnect()
            self.raw.ping()
            return {"ok": 0, "code": CLOSED}
        except (Closed, ConnectionError):
            code = self.server.wait(20)
        assert code == OUT_OF_MEMORY_EXIT, (code, self.server.log_tail())
        assert '"c":"memory","msg":"out of memory' in self.server.log_tail(1000), self.server.log_tail()
        self.server.start()
        self.raw.reconnect()
        return {"ok": 0, "code": DIED}

    def expected(self, name):
        """The states before and after, without any failure."""
        self.prepare()
        before = self.state()
        attempt = Attempt(self, name)
        attempt.send()
        assert failed(attempt.reply) is None, attempt.reply
        after = self.state()
        self.clean()
        return before, after

    def attempt(self, name, point, code, n):
        """The command with the n-th passing of the point failing, counted from when it is armed."""
        self.prepare()
        attempt = Attempt(self, name)
        attempt.reply = self.call({"runnelFault": f"{point}:fail={code}:{n}"})
        if attempt.reply["ok"] == 1:
            attempt.send()
        off = self.call({"runnelFault": f"{point}:off"})
        attempt.came = off["ok"] != 1 or off["hits"] >= n or failed(attempt.reply) == DIED
        return attempt

    def entries_of(self, attempt):
        """How many entries of the oplog say that they are of this transaction."""
        command, _ = attempt.commands[-1]
        query = {"lsid.id": command["lsid"]["id"], "txnNumber": command["txnNumber"]}
        return len(all_of(self.raw, "local", {"find": "oplog.rs", "filter": query}))


def bulk_done(bench):
    """Which operations of bulk() are done, seen from the data."""
    done = set()
    for i, (coll, key, doc) in enumerate(BULK_EFFECTS):
        found = all_of(bench.raw, bench.db, {"find": coll, "filter": {"_id": key}})
        if found == ([] if doc is None else [doc]):
            done.add(i)
    return done


def check_bulk(bench, attempt, where):
    """What is told of each operation is so; what is told of none is a beginning, or what was under way."""
    done = bulk_done(bench)
    if attempt.reply["ok"] == 1:
        told = {r["idx"] for r in attempt.reply["cursor"]["firstBatch"] if r["ok"] == 1}
        assert done == told, (*where, done)
    elif failed(attempt.reply) not in (CLOSED, DIED):
        assert not done, (*where, done)
    elif attempt.commands[0][0]["ordered"]:
        assert done == set(range(len(done))), (*where, done)


def check_left(bench, name, attempt, before, after, where):
    """What a failed command left: nothing, or what such a command may leave."""
    found, lost = bench.state(), failed(attempt.reply) in (CLOSED, DIED)
    if name in BULK:
        check_bulk(bench, attempt, where)
    else:
        assert found == before or (lost and found == after) or may_be(name, found, before, after), where
    if name == "transaction":
        assert bench.entries_of(attempt) == (found == after), where
        again = attempt.send_again()
        assert failed(again) == (None if found == after else NO_SUCH_TRANSACTION), (*where, again)
        assert bench.state() == found, where
    elif name in RETRYABLE:
        again = attempt.send_again()
        assert failed(again) is None and bench.state() == after, (*where, again)
        found = after
    if found != before:
        bench.clean()


def check_one(bench, name, point, code, n, before, after):
    """One command with its n-th passing of a point failing. True: it came to that."""
    attempt = bench.attempt(name, point, code, n)
    error, where = failed(attempt.reply), (name, point, code, n, attempt.reply)
    if error is None:
        found = bench.state()
        assert found == after, where
        if name == "transaction":
            assert bench.entries_of(attempt) == 1 and failed(attempt.send_again()) is None, where
        if found != before:
            bench.clean()
        return attempt.came
    assert attempt.came, where
    assert code != CONFLICT, ("a conflict is tried again, not told", *where)
    assert error not in (CLOSED, DIED) or point in ("allocate", "allocLarge"), where
    check_left(bench, name, attempt, before, after, where)
    return True


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


def check_events(raw, start):
    """A stream shows just what the oplog says, whatever was rolled back in between."""
    entries = all_of(raw, "local", {"find": "oplog.rs", "filter": {"ts": {"$gt": start}, "op": {"$ne": "n"}}})
    should = [(e["ts"], kind) for e in entries
              for kind in map(shown, e["o"].get("applyOps", [e]) if e["op"] == "c" else [e]) if kind]
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
