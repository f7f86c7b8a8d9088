# SPDX-License-Identifier: GPL-3.0-or-later
"""The clients of the crash harness that change data and the catalog, and log what was acknowledged. Each
lives in a thread, speaks over a socket of its own and ends with the server.

A writer's log is a list of operations on documents, `(kind, _id, v)`, in the order in which they must
stand in the oplog. What was sent when the server died is its `doubt`: of that list a beginning may
be there. Every document follows from its `_id` and `v`, so that any mixture of two states shows.

Of the database DB the writers use the collections c (with images and indexes) and k, and the definer
changes the others; OTHER comes and goes as a whole, under the writes of the sider.
"""

import itertools
import threading

from bson import Binary, Int64, Timestamp

from raw import Closed, RawClient

DB, OTHER = "crash", "crash_other"
DBS = (DB, OTHER)
IMAGES = {"changeStreamPreAndPostImages": {"enabled": True}}
INDEXES = [
    {"key": {"u": 1}, "name": "u_1", "unique": True},
    {"key": {"tags": 1, "v": -1}, "name": "tags_v"},
]
# Of one client in one life: the oplog must still hold what the last check saw.
OPERATIONS, COPIES = 700, 8
LIVE = 40  # documents of one writer; older ones are deleted
BIG = 70_000
GIANT, GIANTS = 1_900_000, 9  # more than 16 MB in one transaction
SHUTDOWN = (91, 11600)  # ShutdownInProgress, InterruptedAtShutdown
ABORTED = (24, 112, 246)  # LockTimeout, WriteConflict, SnapshotUnavailable


def collection_of(key):
    """Keys of k have it behind the writer's name."""
    return "k" if key.split(".")[1] == "k" else "c"


def document(key, v):
    number = int(key.rsplit(".", 1)[1])
    pad = GIANT if ".giant." in key else BIG if number % 100 == 99 else 10 + 37 * number % 500
    return {"_id": key, "v": v, "u": f"{key}/{v}", "tags": [v % 5, f"t{number % 7}"], "pad": "x" * pad}


def change(key, v):
    return {"$set": {"v": v, "u": f"{key}/{v}", "tags": [v % 5, f"t{v % 7}"]}}


# The same for many documents at once.
CHANGE_MANY = [
    {"$set": {"v": {"$add": ["$v", 1]}}},
    {"$set": {"u": {"$concat": ["$_id", "/", {"$toString": "$v"}]},
              "tags": [{"$mod": ["$v", 5]}, {"$concat": ["t", {"$toString": {"$mod": ["$v", 7]}}]}]}},
]


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
        if reply.get("code") in SHUTDOWN:
            raise Closed()
        return reply

    def sure(self, document, db=DB):
        reply = self.command(document, db)
        assert reply["ok"] == 1 and "writeErrors" not in reply and not reply.get("nErrors"), (document, reply)
        return reply


def db_of(command):
    return "admin" if "bulkWrite" in command else DB


# --- writers ----------------------------------------------------------------------------------------


class Writer(Client):
    """Inserts, updates, replaces and deletes documents of its own, one or several with a command."""

    extra = {}
    whole = False  # of what is in doubt not just a beginning, but all or nothing
    multi = True  # one statement may change several documents

    def __init__(self, port, name, life, rng, docs):
        super().__init__(port)
        self.name, self.life, self.rng = name, life, rng
        self.docs = {"c": {}, "k": {}}  # _id -> v
        for key, v in docs.items():
            self.docs[collection_of(key)][key] = v
        self.numbers = itertools.count()
        self.log, self.doubt = [], []

    def work(self):
        while len(self.log) < OPERATIONS:
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
            docs = self.docs[collection_of(key)]
            if kind == "d":
                del docs[key]
            else:
                docs[key] = v

    def execute(self, command):
        self.sure({**command, **self.extra}, db_of(command))

    def next_command(self):
        """A command and what it does."""
        docs = self.docs["c"]
        if len(docs) > LIVE:
            return self.delete(sorted(docs)[: self.rng.choice((1, 1, 5, 9))])
        if not docs or self.rng.random() < 0.45:
            return self.insert(self.rng.choice((1, 1, 1, 6)))
        ways = [self.update, self.update, self.replace, self.modify, self.remove, self.upsert, self.several,
                self.bulk]
        ways += [self.many] if self.multi else []
        return self.rng.choice(ways)(self.rng.choice(sorted(docs)))

    def new_key(self, where=""):
        return f"{self.name}.{where}{self.life:04}.{next(self.numbers):06}"

    def insert(self, n):
        keys = [self.new_key() for _ in range(n)]
        return {"insert": "c", "documents": [document(k, 0) for k in keys]}, [("i", k, 0) for k in keys]

    def delete(self, keys):
        """One by one, or the whole range; nobody else has keys in it."""
        operations = [("d", k, None) for k in keys]
        if self.multi and self.rng.random() < 0.5:
            whole = {"q": {"_id": {"$gte": keys[0], "$lte": keys[-1]}}, "limit": 0, "hint": "_id_"}
            return {"delete": "c", "deletes": [whole]}, operations
        return {"delete": "c", "deletes": [{"q": {"_id": k}, "limit": 1} for k in keys]}, operations

    def update(self, key):
        v = self.docs["c"][key] + 1
        return {"update": "c", "updates": [{"q": {"_id": key}, "u": change(key, v)}]}, [("u", key, v)]

    def replace(self, key):
        v = self.docs["c"][key] + 1
        return {"update": "c", "updates": [{"q": {"_id": key}, "u": document(key, v)}]}, [("r", key, v)]

    def modify(self, key):
        v = self.docs["c"][key] + 1
        new = self.rng.random() < 0.5
        return {"findAndModify": "c", "query": {"_id": key}, "update": change(key, v), "new": new}, [("u", key, v)]

    def upsert(self, _):
        key = self.new_key()
        if self.rng.random() < 0.5:
            command = {"findAndModify": "c", "query": {"_id": key}, "update": document(key, 0), "upsert": True}
        else:
            command = {"update": "c", "updates": [{"q": {"_id": key}, "u": document(key, 0), "upsert": True}]}
        return command, [("i", key, 0)]

    def remove(self, key):
        return {"findAndModify": "c", "query": {"_id": key}, "remove": True}, [("d", key, None)]

    def several(self, _):
        docs = self.docs["c"]
        keys = self.rng.sample(sorted(docs), min(4, len(docs)))
        updates = [{"q": {"_id": k}, "u": change(k, docs[k] + 1)} for k in keys]
        return {"update": "c", "updates": updates}, [("u", k, docs[k] + 1) for k in keys]

    def many(self, key):
        """A range of documents by one statement, in the order of their keys."""
        docs = self.docs["c"]
        keys = [k for k in sorted(docs) if k >= key][:12]
        q = {"_id": {"$gte": keys[0], "$lte": keys[-1]}}
        update = {"q": q, "u": CHANGE_MANY, "multi": True, "hint": "_id_"}
        return {"update": "c", "updates": [update]}, [("u", k, docs[k] + 1) for k in keys]

    def bulk(self, key):
        """Several kinds of changes in both collections, in order."""
        new, new_k, v = self.new_key(), self.new_key("k."), self.docs["c"][key] + 1
        ops = [
            ({"insert": 1, "document": document(new_k, 0)}, ("i", new_k, 0)),
            ({"update": 0, "filter": {"_id": key}, "updateMods": change(key, v)}, ("u", key, v)),
            ({"insert": 0, "document": document(new, 0)}, ("i", new, 0)),
        ]
        old = [k for k in sorted(self.docs["k"]) if ".giant." not in k]
        for k in old[:2]:
            v = self.docs["k"][k] + 1
            ops.append(({"update": 1, "filter": {"_id": k}, "updateMods": document(k, v)}, ("r", k, v)))
        for k in old[2:4] if len(old) > 10 else []:
            ops.append(({"delete": 1, "filter": {"_id": k}}, ("d", k, None)))
        info = [{"ns": f"{DB}.c"}, {"ns": f"{DB}.k"}]
        return {"bulkWrite": 1, "ops": [o for o, _ in ops], "nsInfo": info}, [what for _, what in ops]


class Unsynced(Writer):
    """Does not wait for the disk: what it was told may be gone after a crash."""

    extra = {"writeConcern": {"w": 1, "j": False}}


class Retrier(Writer):
    """Numbers its writes, so that each can be sent again after a crash."""

    multi = False  # cannot be sent again

    def __init__(self, *args):
        super().__init__(*args)
        self.lsid = {"id": Binary(self.rng.randbytes(16), 4)}
        self.number = 0
        self.sent = []  # the newest two commands with their replies; the last may have none

    def execute(self, command):
        self.number += 1
        command = {**command, "lsid": self.lsid, "txnNumber": Int64(self.number)}
        self.sent = [*self.sent[-1:], (command, None)]
        self.sent[-1] = (command, self.sure(command, db_of(command)))


class Transactor(Writer):
    """Writes in transactions: all of one is there, or nothing. Some make a collection and an index, and
    in some lives one is larger than an oplog entry may be."""

    whole = True

    def __init__(self, *args):
        super().__init__(*args)
        self.lsid = {"id": Binary(self.rng.randbytes(16), 4)}
        self.number = 0
        self.commit = None  # the newest
        self.giant_at = self.rng.choice((3, 0, 0))

    def work(self):
        while len(self.log) < OPERATIONS:
            self.transaction()
            self.ready.set()
        self.raw.closed()

    def statements(self):
        """Commands and what they do."""
        if self.number == self.giant_at:
            old = [k for k in self.docs["k"] if ".giant." in k]
            if old:
                deletes = [{"q": {"_id": k}, "limit": 1} for k in old]
                yield {"delete": "k", "deletes": deletes}, [("d", k, None) for k in old]
            for _ in range(GIANTS // 3):
                keys = [self.new_key("k.giant.") for _ in range(3)]
                yield {"insert": "k", "documents": [document(k, 0) for k in keys]}, [("i", k, 0) for k in keys]
        elif self.number % 5 == 0:
            yield {"create": MADE}, []
            yield {"createIndexes": MADE, "indexes": [{"key": {"tags": 1}, "name": "tags_1"}]}, []
            yield {"insert": MADE, "documents": [document("m.0", 0)]}, []
        for _ in range(self.rng.randint(1, 3)):
            yield self.next_command()

    def transaction(self):
        self.number += 1
        if self.number % 5 == 0 and self.number != self.giant_at:
            self.sure({"drop": MADE})
        fields = {"lsid": self.lsid, "txnNumber": Int64(self.number), "autocommit": False}
        begin, operations = {"startTransaction": True}, []
        before = {name: dict(docs) for name, docs in self.docs.items()}
        for command, more in self.statements():
            reply = self.command({**command, **fields, **begin}, db_of(command))
            if reply.get("code") in ABORTED:  # a schema change was in the way
                self.docs = before
                return
            assert reply["ok"] == 1 and "writeErrors" not in reply and not reply.get("nErrors"), (command, reply)
            self.apply(more)
            operations += more
            begin = {}
        self.commit, self.doubt = {"commitTransaction": 1, **fields}, operations
        self.sure(self.commit, "admin")
        self.log += operations
        self.doubt = []


class Sider(Writer):
    """Writes into collections of OTHER, whether they are there or not: each insert makes its collection
    where it is missing, and what was inserted may be gone with it."""

    def work(self):
        known = {}  # _id -> collection, v
        while len(self.log) < OPERATIONS:
            coll = self.rng.choice(SIDES)
            if not known or self.rng.random() < 0.4:
                keys = [self.new_key() for _ in range(self.rng.choice((1, 3, 8)))]
                self.doubt = [("i", k, 0) for k in keys]
                self.sure({"insert": coll, "documents": [document(k, 0) for k in keys]}, OTHER)
                known.update({k: (coll, 0) for k in keys})
                self.log += self.doubt
            else:
                key = self.rng.choice(sorted(known)[-20:])
                coll, v = known.pop(key)
                self.doubt = [("u", key, v + 1)]
                update = {"q": {"_id": key}, "u": change(key, v + 1)}
                if self.sure({"update": coll, "updates": [update]}, OTHER)["n"] == 1:
                    self.log += self.doubt
                    known[key] = coll, v + 1
            self.doubt = []
            self.ready.set()
        self.raw.closed()


# --- the catalog ------------------------------------------------------------------------------------

MADE = "m"  # the collection that transactions make
SIDES = ("e0", "e1")  # the sider's
KEYS = {"v_1": {"v": 1}, "tags_1": {"tags": 1}}
NOT_FOUND, DUPLICATE = 26, 11000


class Definer(Client):
    """Changes the catalog: of collections of its own in DB, of c under the writers, of OTHER under the
    sider. Its log holds what was done, as `History.done` tells it by the oplog."""

    def __init__(self, port, life, rng, names):
        super().__init__(port)
        self.life, self.rng = life, rng
        self.names = {n: set(ix) for n, ix in names.items()}  # its own and c, with their indexes
        self.filled = set()  # with documents that have one v
        self.numbers = itertools.count()
        self.copies = 0
        self.wanted = None  # the step to make more often than the others
        self.log, self.doubt = [], []

    def work(self):
        steps = (self.create, self.create, self.index, self.index, self.index_under_writers, self.bad_index,
                 self.images, self.images_of_side, self.rename, self.rename_over, self.copy_out, self.copy_in,
                 self.drop, self.drop_database)
        while True:
            step = self.rng.choice(steps)
            if self.wanted and self.rng.random() < 0.5:
                step = getattr(self, self.wanted)
            step()
            self.ready.set()

    def own(self):
        return sorted(n for n in self.names if n != "c")

    def free(self):
        return [n for n in ("d0", "d1", "d2", "d3") if n not in self.names]

    def create(self):
        for name in self.free()[:1]:
            self.do({"create": name, **IMAGES}, ("create", f"{DB}.{name}"))
            self.names[name] = {"_id_"}
            if self.rng.random() < 0.7:
                keys = [self.new_key() for _ in range(30)]
                self.sure({"insert": name, "documents": [document(k, 0) for k in keys]})
                self.filled.add(name)

    def new_key(self):
        return f"x.{self.life:04}.{next(self.numbers):06}"

    def change_index(self, coll, name):
        if name in self.names[coll]:
            self.do({"dropIndexes": coll, "index": name}, ("dropIndexes", f"{DB}.{coll}"))
            self.names[coll].discard(name)
        else:
            indexes = [{"key": KEYS[name], "name": name}]
            self.do({"createIndexes": coll, "indexes": indexes}, ("createIndexes", f"{DB}.{coll}"))
            self.names[coll].add(name)

    def index(self):
        if self.own():
            self.change_index(self.rng.choice(self.own()), self.rng.choice(sorted(KEYS)))

    def index_under_writers(self):
        self.change_index("c", self.rng.choice(sorted(KEYS)))

    def bad_index(self):
        """Fails when the documents are looked at."""
        if not self.filled:
            (self.create if self.free() else self.drop)()
        for name in sorted(self.filled)[:1]:
            indexes = [{"key": {"v": 1, "tags": 1}, "name": "bad", "unique": True}]
            reply = self.command({"createIndexes": name, "indexes": indexes})
            assert reply.get("code") == DUPLICATE, reply

    def images(self):
        if self.own():
            name = self.rng.choice(self.own())
            self.do(self.images_command(name), ("collMod", f"{DB}.{name}"))

    def images_command(self, name):
        return {"collMod": name, "changeStreamPreAndPostImages": {"enabled": self.rng.random() < 0.6}}

    def images_of_side(self):
        name = self.rng.choice(SIDES)
        self.attempt(self.images_command(name), ("collMod", f"{OTHER}.{name}"), OTHER, NOT_FOUND)

    def move(self, old, new):
        self.names[new] = self.names.pop(old)
        self.filled.discard(new)
        if old in self.filled:
            self.filled.remove(old)
            self.filled.add(new)

    def rename(self):
        if self.own() and self.free():
            old, new = self.rng.choice(self.own()), self.free()[-1]
            self.rename_to(f"{DB}.{old}", f"{DB}.{new}", "rename")
            self.move(old, new)

    def rename_over(self):
        if len(self.own()) > 1:
            old, new = self.rng.sample(self.own(), 2)
            self.rename_to(f"{DB}.{old}", f"{DB}.{new}", "rename", dropTarget=True)
            self.move(old, new)

    def rename_to(self, old, new, kind, code=None, **options):
        command = {"renameCollection": old, "to": new, **options}
        return self.attempt(command, (kind, old, new), "admin", code)

    def copying(self):
        """Copies are many entries, so there are not too many of them."""
        self.copies += 1
        return self.copies <= COPIES

    def copy_out(self):
        if self.own() and self.copying():
            old = self.rng.choice(self.own())
            self.rename_to(f"{DB}.{old}", f"{OTHER}.{self.rng.choice(SIDES)}", "across", dropTarget=True)
            del self.names[old]
            self.filled.discard(old)

    def copy_in(self):
        if self.copying():
            new = self.rng.choice(("d0", "d1", "d2", "d3"))
            old = f"{OTHER}.{self.rng.choice(SIDES)}"
            if self.rename_to(old, f"{DB}.{new}", "across", NOT_FOUND, dropTarget=True):
                found = self.sure({"listIndexes": new})["cursor"]["firstBatch"]
                self.names[new] = {ix["name"] for ix in found}
                self.filled.discard(new)

    def drop(self):
        for name in self.own()[-1:]:
            self.do({"drop": name}, ("drop", f"{DB}.{name}"))
            del self.names[name]
            self.filled.discard(name)

    def drop_database(self):
        """There is one to drop, also when the sider has written enough."""
        self.sure({"insert": SIDES[0], "documents": [document(self.new_key(), 0)]}, OTHER)
        self.doubt = [("dropDatabase", OTHER)]
        if "dropped" in self.sure({"dropDatabase": 1}, OTHER):
            self.log += self.doubt
        self.doubt = []

    def do(self, command, what, db=DB):
        self.attempt(command, what, db)

    def attempt(self, command, what, db, code=None):
        """False when it was refused with this code."""
        self.doubt = [what]
        reply = self.command(command, db)
        assert reply["ok"] == 1 or (code and reply["code"] == code), (command, reply)
        if reply["ok"] == 1:
            self.log += self.doubt
        self.doubt = []
        return reply["ok"] == 1


class Checkpointer(Client):
    """Asks for a checkpoint again and again."""

    def work(self):
        while True:
            self.sure({"fsync": 1}, "admin")
            self.ready.set()
