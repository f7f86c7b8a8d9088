# SPDX-License-Identifier: GPL-3.0-or-later
"""The clients of the crash harness: writers that log what was acknowledged, watchers that log events
and tokens. Each lives in a thread, speaks over a socket of its own and ends with the server.

A writer's log is a list of operations on documents, `(kind, _id, v)`, in the order in which they must
stand in the oplog. What was sent when the server died is its `doubt`: of that list a beginning may
be there. Every document follows from its `_id` and `v`, so that any mixture of two states shows.
"""

import itertools
import threading

import bson
from bson import Binary, Int64, Timestamp

from raw import Closed, RawClient

DB = "crash"
IMAGES = {"changeStreamPreAndPostImages": {"enabled": True}}
INDEXES = [
    {"key": {"u": 1}, "name": "u_1", "unique": True},
    {"key": {"tags": 1, "v": -1}, "name": "tags_v"},
]
COMMANDS = 400  # of one writer in one life: the oplog must still hold what the last check saw
LIVE = 40  # documents of one writer; older ones are deleted
BIG = 70_000


def document(key, v):
    number = int(key.rsplit(".", 1)[1])
    pad = BIG if number % 100 == 99 else 10 + 37 * number % 500
    return {"_id": key, "v": v, "u": f"{key}/{v}", "tags": [v % 5, f"t{number % 7}"], "pad": "x" * pad}


def change(key, v):
    return {"$set": {"v": v, "u": f"{key}/{v}", "tags": [v % 5, f"t{v % 7}"]}}


def consistent(doc):
    """True when a document is what one insert or one of its updates made."""
    return doc["u"] == f"{doc['_id']}/{doc['v']}" and doc["tags"][0] == doc["v"] % 5


class Client(threading.Thread):
    """Runs until the server hangs up. `fault`: what should never have happened."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port = port
        self.fault = None
        self.ready = threading.Event()
        self.newest = Timestamp(0, 0)  # of the times that replies told

    def run(self):
        try:
            with RawClient(self.port, timeout=60) as self.raw:
                self.work()
        except (Closed, OSError):
            pass
        except Exception as e:  # the harness looks at it
            self.fault = e
        finally:
            self.ready.set()

    def command(self, document, db=DB):
        """The reply, of whatever kind; remembers its time."""
        reply = self.raw.command(document, db)
        self.newest = max(self.newest, reply.get("operationTime", self.newest))
        return reply

    def sure(self, document, db=DB):
        reply = self.command(document, db)
        assert reply["ok"] == 1 and "writeErrors" not in reply, (document, reply)
        return reply


# --- writers ----------------------------------------------------------------------------------------


class Writer(Client):
    """Inserts, updates, replaces and deletes documents of its own, one or several with a command."""

    extra = {}
    whole = False  # of what is in doubt not just a beginning, but all or nothing

    def __init__(self, port, name, life, rng, docs):
        super().__init__(port)
        self.name, self.life, self.rng = name, life, rng
        self.docs = dict(docs)  # _id -> v
        self.numbers = itertools.count()
        self.log, self.doubt = [], []

    def work(self):
        for _ in range(COMMANDS):
            command, operations = self.next_command()
            self.doubt = operations
            self.execute(command)
            self.log += operations
            self.doubt = []
            self.apply(operations)
            self.ready.set()
        self.raw.closed()

    def apply(self, operations):
        for kind, key, v in operations:
            if kind == "d":
                del self.docs[key]
            else:
                self.docs[key] = v

    def execute(self, command):
        self.sure({**command, **self.extra})

    def next_command(self):
        """A command and what it does."""
        if len(self.docs) > LIVE:
            keys = sorted(self.docs)[: self.rng.choice((1, 1, 5))]
            deletes = [{"q": {"_id": k}, "limit": 1} for k in keys]
            return {"delete": "c", "deletes": deletes}, [("d", k, None) for k in keys]
        if not self.docs or self.rng.random() < 0.5:
            return self.insert(self.rng.choice((1, 1, 1, 6)))
        key = self.rng.choice(sorted(self.docs))
        return self.rng.choice((self.update, self.update, self.replace, self.modify, self.many))(key)

    def insert(self, n):
        keys = [f"{self.name}.{self.life:04}.{next(self.numbers):06}" for _ in range(n)]
        return {"insert": "c", "documents": [document(k, 0) for k in keys]}, [("i", k, 0) for k in keys]

    def update(self, key):
        v = self.docs[key] + 1
        return {"update": "c", "updates": [{"q": {"_id": key}, "u": change(key, v)}]}, [("u", key, v)]

    def replace(self, key):
        v = self.docs[key] + 1
        return {"update": "c", "updates": [{"q": {"_id": key}, "u": document(key, v)}]}, [("r", key, v)]

    def modify(self, key):
        v = self.docs[key] + 1
        return {"findAndModify": "c", "query": {"_id": key}, "update": change(key, v), "new": True}, [("u", key, v)]

    def many(self, _):
        keys = self.rng.sample(sorted(self.docs), min(4, len(self.docs)))
        updates = [{"q": {"_id": k}, "u": change(k, self.docs[k] + 1)} for k in keys]
        return {"update": "c", "updates": updates}, [("u", k, self.docs[k] + 1) for k in keys]


class Unsynced(Writer):
    """Does not wait for the disk: what it was told may be gone after a crash."""

    extra = {"writeConcern": {"w": 1, "j": False}}


class Retrier(Writer):
    """Numbers its writes, so that each can be sent again after a crash."""

    def __init__(self, *args):
        super().__init__(*args)
        self.lsid = {"id": Binary(self.rng.randbytes(16), 4)}
        self.number = 0
        self.sent = []  # the newest two commands with their replies; the last may have none

    def execute(self, command):
        self.number += 1
        command = {**command, "lsid": self.lsid, "txnNumber": Int64(self.number)}
        self.sent = [*self.sent[-1:], (command, None)]
        self.sent[-1] = (command, self.sure(command))


class Transactor(Writer):
    """Writes in transactions: all of one is there, or nothing."""

    whole = True

    def __init__(self, *args):
        super().__init__(*args)
        self.lsid = {"id": Binary(self.rng.randbytes(16), 4)}
        self.number = 0
        self.commit = None  # the newest

    def work(self):
        for _ in range(COMMANDS // 4):
            self.transaction()
            self.ready.set()
        self.raw.closed()

    def transaction(self):
        self.number += 1
        fields = {"lsid": self.lsid, "txnNumber": Int64(self.number), "autocommit": False}
        begin, operations = {"startTransaction": True}, []
        for _ in range(self.rng.randint(1, 3)):
            command, more = self.next_command()
            self.sure({**command, **fields, **begin})
            self.apply(more)
            operations += more
            begin = {}
        self.commit, self.doubt = {"commitTransaction": 1, **fields}, operations
        self.sure(self.commit, "admin")
        self.log += operations
        self.doubt = []


class Definer(Client):
    """Creates, indexes, renames and drops collections. Its log holds first fields of entries."""

    def __init__(self, port, rng, names):
        super().__init__(port)
        self.rng = rng
        self.names = {n: set(ix) for n, ix in names.items()}
        self.log, self.doubt = [], []

    def work(self):
        while True:
            self.step()
            self.ready.set()

    def step(self):
        free = [n for n in ("d0", "d1", "d2", "d3") if n not in self.names]
        used = sorted(self.names)
        choice = self.rng.random()
        if free and (not used or choice < 0.3):
            self.do({"create": free[0], **IMAGES}, ["create"])
            self.names[free[0]] = {"_id_"}
            if self.rng.random() < 0.7:
                self.sure({"insert": free[0], "documents": [{"n": i} for i in range(30)]})
        elif choice < 0.6:
            self.index(self.rng.choice(used))
        elif choice < 0.7:
            self.do({"collMod": used[0], "changeStreamPreAndPostImages": {"enabled": choice < 0.65}}, ["collMod"])
        elif choice < 0.85 and free:
            self.rename(self.rng.choice(used), free[-1])
        else:
            self.do({"drop": used[-1]}, ["drop"])
            del self.names[used[-1]]

    def index(self, name):
        if "n_1" in self.names[name]:
            self.do({"dropIndexes": name, "index": "n_1"}, ["dropIndexes"])
            self.names[name].discard("n_1")
        else:
            self.do({"createIndexes": name, "indexes": [{"key": {"n": 1}, "name": "n_1"}]}, ["createIndexes"])
            self.names[name].add("n_1")

    def rename(self, old, new):
        command = {"renameCollection": f"{DB}.{old}", "to": f"{DB}.{new}"}
        self.do(command, ["renameCollection"], "admin")
        self.names[new] = self.names.pop(old)

    def do(self, command, entries, db=DB):
        self.doubt = entries
        self.sure(command, db)
        self.log += entries
        self.doubt = []


class Checkpointer(Client):
    """Asks for a checkpoint again and again."""

    def work(self):
        while True:
            self.sure({"fsync": 1}, "admin")
            self.ready.set()


# --- watchers ---------------------------------------------------------------------------------------


def summary(event):
    """What an event says about a document, in the terms of the writers' logs."""
    key = event["documentKey"]["_id"]
    kind = event["operationType"]
    if kind == "delete":
        return "d", key, None
    if kind == "update":
        return "u", key, event["updateDescription"]["updatedFields"]["v"]
    return {"insert": "i", "replace": "r"}[kind], key, event["fullDocument"]["v"]


class Watcher(Client):
    """One change stream, from life to life: `events` and `tokens` belong to the whole run."""

    def __init__(self, port, stream):
        super().__init__(port)
        self.stream = stream

    def work(self):
        s = self.stream
        reply = self.sure(s.aggregate())
        while True:
            s.take(reply["cursor"])
            self.ready.set()
            reply = self.sure({
                "getMore": Int64(reply["cursor"]["id"]),
                "collection": s.cursor_collection,
                "maxTimeMS": 500,
            }, s.db)


class Stream:
    """What a watcher saw, briefly, and where it goes on. `how`: which token it resumes by."""

    def __init__(self, target, how, options=None):
        self.target, self.how, self.options = target, how, options or {}
        self.db = "admin" if self.options.get("allChangesForCluster") else DB
        self.cursor_collection = target if isinstance(target, str) else "$cmd.aggregate"
        self.events, self.token, self.batch_token = [], None, None
        self.start = None
        self.checked = 0  # so many events are known to be right
        self.expiring = False  # images may be missing

    def aggregate(self):
        token = self.token if self.how == "event" and self.token else self.batch_token
        where = {"startAtOperationTime": self.start} if token is None else {
            "startAfter" if self.how == "after" else "resumeAfter": token
        }
        return {
            "aggregate": self.target,
            "pipeline": [{"$changeStream": {**self.options, **where}}],
            "cursor": {},
            "$db": self.db,
        }

    def take(self, cursor):
        for event in cursor.get("firstBatch", cursor.get("nextBatch")):
            self.events.append((event["clusterTime"], self.brief(event)))
            self.token = event["_id"]
        self.batch_token = cursor["postBatchResumeToken"]

    def brief(self, event):
        if not isinstance(self.target, str):
            return event["operationType"]
        self.check_images(event)
        return summary(event)

    def check_images(self, event):
        """Each image shows one state of the document, before and after."""
        before, after = event.get("fullDocumentBeforeChange"), event.get("fullDocument")
        kind = event["operationType"]
        if not self.expiring:
            assert (before is None) == (kind == "insert") and (after is None) == (kind == "delete"), event
        assert all(consistent(d) for d in (before, after) if d), event
        assert not (before and after) or after["v"] == before["v"] + 1, event


class Tailer(Client):
    """Reads the oplog as far as it is visible, durable or not: every optime that was ever used."""

    def __init__(self, port, after):
        super().__init__(port)
        self.after = after
        self.entries = {}

    def work(self):
        reply = self.sure({
            "find": "oplog.rs",
            "filter": {"ts": {"$gt": self.after}},
            "tailable": True,
            "awaitData": True,
        }, "local")
        while True:
            self.ready.set()
            cursor = reply["cursor"]
            for entry in cursor.get("firstBatch", cursor.get("nextBatch")):
                self.entries[entry["ts"]] = bson.encode(entry)
            reply = self.sure({"getMore": Int64(cursor["id"]), "collection": "oplog.rs", "maxTimeMS": 500}, "local")
