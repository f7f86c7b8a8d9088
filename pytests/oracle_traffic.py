# SPDX-License-Identifier: GPL-3.0-or-later
"""Random operations and random watchers for the randomised tests (see oracle.py)."""

import datetime
import threading
from collections import Counter

import pymongo
from bson import Binary, Decimal128, Int64, ObjectId, Regex, Timestamp
from bson.raw_bson import RawBSONDocument
from bson.codec_options import CodecOptions
from pymongo.errors import BulkWriteError, ConnectionFailure, OperationFailure

from oracle import FILTERS, Options, decode

DATABASES = ("oracle_a", "oracle_b")
COLLECTIONS = ("x", "y", "z")
FIELDS = ("a", "b", "c", "d", "0", "1")

# What random operations may run into: everything else that a server answers is a fault.
REFUSALS = {
    2: "BadValue: operator and value do not fit",
    9: "FailedToParse: array filters",
    14: "TypeMismatch",
    16: "InvalidLength",
    20: "IllegalOperation: rename to itself, a reserved name",
    24: "LockTimeout: in a transaction",
    26: "NamespaceNotFound",
    27: "IndexNotFound",
    28: "PathNotViable",
    40: "ConflictingUpdateOperators",
    48: "NamespaceExists",
    66: "ImmutableField",
    72: "InvalidOptions",
    85: "IndexOptionsConflict",
    86: "IndexKeySpecsConflict",
    112: "WriteConflict: in a transaction",
    171: "CannotIndexParallelArrays",
    246: "SnapshotUnavailable: the collection has changed since the transaction began",
    251: "NoSuchTransaction: it was aborted",
    10003: "the target of a rename exists",
    11000: "DuplicateKey",
    16836: "$push to what is not an array",
    28724: "$slice of what is not an array",
}

PLACE_LOST = (136, 286)  # CappedPositionLost, ChangeStreamHistoryLost

RAW = CodecOptions(document_class=RawBSONDocument)


# --- values -----------------------------------------------------------------------------------------


def scalar(rng):
    return rng.choice(
        (
            rng.randrange(5), Int64(rng.randrange(1 << 40)), rng.random(), float(rng.randrange(5)),
            "s" * rng.randrange(40), True, None, ObjectId(), Decimal128("1.50"), b"bytes",
            Binary(b"u" * 16, 4), Timestamp(5, 6), Regex("^a", "i"),
            datetime.datetime(2020, 1, 1 + rng.randrange(28)),
        )
    )


def value(rng, depth=2):
    shape = rng.random()
    if depth == 0 or shape < 0.55:
        return scalar(rng)
    if shape < 0.8:
        return {rng.choice(FIELDS): value(rng, depth - 1) for _ in range(rng.randrange(4))}
    return [value(rng, depth - 1) for _ in range(rng.randrange(5))]


def numbers(rng):
    return [rng.randrange(10) for _ in range(rng.randrange(6))]


def identity(rng):
    """Few different ones, so that operations meet."""
    n = rng.randrange(25)
    return rng.choice((n, n, n, float(n), f"id{n}", {"k": n}, Decimal128(str(n)), Int64(n)))


def document(rng):
    doc = {"n": rng.randrange(100), "list": numbers(rng), "docs": [{"v": i} for i in range(rng.randrange(4))]}
    for _ in range(rng.randrange(4)):
        doc[rng.choice(FIELDS)] = value(rng)
    if rng.random() < 0.3:
        doc["pad"] = "p" * rng.randrange(600)
    if rng.random() < 0.005:
        doc["pad"] = "p" * 700000  # so that batches end by their bytes
    if rng.random() < 0.1:
        doc["dot.ted"] = rng.randrange(10)
    return doc


def path(rng):
    return ".".join(rng.choice(FIELDS) for _ in range(1 + rng.randrange(3)))


def operator_update(rng):
    """(update, options) of a random operator form."""
    n = rng.randrange(10)
    return rng.choice(
        (
            lambda: ({"$set": {path(rng): value(rng)}}, {}),
            lambda: ({"$set": {"n": n, "list.1": n, "docs.0.w": n}}, {}),
            lambda: ({"$unset": {rng.choice(FIELDS): 1, "list.0": 1, "docs.1.v": ""}}, {}),
            lambda: ({"$unset": {path(rng): 1}}, {}),
            lambda: ({"$inc": {"n": 1}}, {}),
            lambda: ({"$inc": {"n": Int64(3), "docs.0.v": 0.5}}, {}),
            lambda: ({"$mul": {"n": 2}, "$min": {"a": n}, "$max": {"b": n}}, {}),
            lambda: ({"$rename": {rng.choice("abcd"): rng.choice(("e", "docs2", "a"))}}, {}),
            lambda: ({"$push": {"list": n}}, {}),
            lambda: ({"$push": {"list": {"$each": numbers(rng)}}}, {}),
            lambda: ({"$push": {"list": {"$each": numbers(rng), "$sort": -1, "$slice": 4}}}, {}),
            lambda: ({"$push": {"list": {"$each": [n], "$position": 1}}}, {}),
            lambda: ({"$addToSet": {"list": {"$each": numbers(rng)}}}, {}),
            lambda: ({"$pull": {"list": {"$gte": n}, "docs": {"v": 1}}}, {}),
            lambda: ({"$pullAll": {"list": [n, 1]}}, {}),
            lambda: ({"$pop": {"list": rng.choice((1, -1))}}, {}),
            lambda: ({"$bit": {"n": {"xor": 5}}}, {}),
            lambda: ({"$currentDate": {"at": True}}, {}),
            lambda: ({"$set": {"list.$[]": n}}, {}),
            lambda: ({"$inc": {"docs.$[e].v": 1}}, {"array_filters": [{"e.v": {"$lt": 3}}]}),
            lambda: ({"$setOnInsert": {"fresh": n}, "$set": {"n": n}}, {}),
        )
    )()


def pipeline_update(rng):
    n = rng.randrange(10)
    return rng.choice(
        (
            lambda: [{"$set": {"n": {"$add": [n, 1]}}}],
            lambda: [{"$set": {path(rng): {"$literal": value(rng)}}}],
            lambda: [{"$unset": [rng.choice(FIELDS), "docs"]}, {"$set": {"docs": [{"v": n}]}}],
            lambda: [{"$set": {"list": {"$slice": [{"$ifNull": ["$list", []]}, 2]}}}],
            lambda: [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"$literal": {"dot.ted": n, "0": value(rng)}}]}}],
            lambda: [{"$replaceWith": {"_id": "$_id", "n": n, "old": "$a", "pad": "$pad"}}],
        )
    )()


# --- writers ----------------------------------------------------------------------------------------


class Writer(threading.Thread):
    """Random operations until told to stop, or until the server is gone; a `patient` one waits for
    it to come back, and has the driver retry what can be retried. One with a master lets it keep
    up: after every few operations it waits for its next batch.

    `told[marker]` is how many changes the server acknowledged of the operation that carried the
    marker; `unsure` are markers whose operation did not end; `faults` what must not happen.
    """

    def __init__(self, uri, rng, name, stop, ddl, patient=False, master=None):
        super().__init__()
        self.patient, self.master = patient, master
        self.uri, self.rng, self.label, self.stop, self.ddl = uri, rng, name, stop, ddl
        self.count = self.marks = 0
        self.told, self.unsure, self.faults = Counter(), set(), []
        self.deleted = 0
        self.kinds = Counter()
        self.dead = False

    def run(self):
        operations = [getattr(self, n) for n in dir(Writer) if n.startswith("do_")]
        changes = [getattr(self, n) for n in dir(Writer) if n.startswith("ddl_")]
        with pymongo.MongoClient(self.uri, retryWrites=self.patient or self.rng.random() < 0.5,
                                 retryReads=False,
                                 serverSelectionTimeoutMS=30000 if self.patient else 3000) as client:
            self.client = client
            while not self.stop.is_set():
                chosen = self.rng.choice(changes if self.rng.random() < self.ddl else operations)
                self.count += 1
                if self.master and self.count % 8 == 0:
                    self.master.wait_batch()
                self.marker = f"{self.label}-{self.count}"
                db = client[self.rng.choice(DATABASES)]
                self.unsure.add(self.marker)
                try:
                    chosen(db[self.rng.choice(COLLECTIONS)])
                    self.kinds[chosen.__name__] += 1
                    self.unsure.discard(self.marker)
                except BulkWriteError as e:
                    self._bulk_failed(e)
                except OperationFailure as e:
                    self._refused(chosen.__name__, e)
                except ConnectionFailure:
                    self.kinds["cut off"] += 1
                    if not self.patient:
                        self.dead = True
                        return

    def _refused(self, operation, e):
        self.kinds["refused"] += 1
        if e.code not in REFUSALS:
            self.faults.append(f"{self.marker} {operation}: {e}")
        # an update of many may have changed some before the one that failed

    def _bulk_failed(self, e):
        for error in e.details["writeErrors"]:
            self._refused("bulk", OperationFailure(error["errmsg"], error["code"]))
        self.deleted += e.details["nRemoved"]
        told = e.details["nInserted"] + e.details["nModified"] + e.details["nUpserted"]
        self.told[self.marker] += told
        if not any("update" in str(error["op"]) or "u" in error["op"] for error in e.details["writeErrors"]):
            self.unsure.discard(self.marker)

    def _query(self):
        rng = self.rng
        return rng.choice((lambda: {"_id": identity(rng)}, lambda: {"n": {"$gt": rng.randrange(100)}},
                           lambda: {"list": rng.randrange(10)}, lambda: {}))()

    def _note(self, result):
        self.told[self.marker] += result.modified_count + (result.upserted_id is not None)

    def _mark(self):
        """The operation's marker with a number, so that each change of a document shows it."""
        self.marks += 1
        return f"{self.marker}.{self.marks}"

    def _marked(self, update):
        """The same update, which also writes the marker."""
        if isinstance(update, list):
            return [*update, {"$set": {"m": self._mark()}}]
        return {**update, "$set": {**update.get("$set", {}), "m": self._mark()}}

    def do_insert(self, coll):
        coll.insert_one({"_id": identity(self.rng), "m": self._mark(), **document(self.rng)})
        self.told[self.marker] += 1

    def do_insert_many(self, coll):
        docs = [{"_id": self.rng.choice((identity(self.rng), ObjectId())), "m": self._mark(),
                 **document(self.rng)} for _ in range(1 + self.rng.randrange(12))]
        self.told[self.marker] += len(coll.insert_many(docs, ordered=self.rng.random() < 0.5).inserted_ids)

    def do_update(self, coll):
        update, options = operator_update(self.rng)
        self._note(coll.update_one(self._query(), self._marked(update), **options))

    def do_update_2(self, coll):
        self.do_update(coll)

    def do_upsert(self, coll):
        update, options = operator_update(self.rng)
        self._note(coll.update_one({"_id": identity(self.rng)}, self._marked(update), upsert=True, **options))

    def do_update_many(self, coll):
        update, options = operator_update(self.rng)
        self._note(coll.update_many({"n": {"$gt": self.rng.randrange(100)}}, self._marked(update), **options))

    def do_positional(self, coll):
        self._note(coll.update_one({"list": self.rng.randrange(10)}, self._marked({"$inc": {"list.$": 1}})))

    def do_same_value(self, coll):
        coll.update_one({"_id": identity(self.rng)}, {"$set": {"n": 1}})
        coll.update_one({"_id": identity(self.rng)}, {"$max": {"n": -1}})

    def do_pipeline(self, coll):
        many = self.rng.random() < 0.2
        update = self._marked(pipeline_update(self.rng))
        self._note((coll.update_many if many else coll.update_one)(self._query(), update))

    def do_replace(self, coll):
        new = {"m": self._mark(), **document(self.rng)}
        self._note(coll.replace_one(self._query(), new, upsert=self.rng.random() < 0.3))

    def do_delete(self, coll):
        self.deleted += coll.delete_one(self._query()).deleted_count

    def do_delete_many(self, coll):
        query = {"_id": identity(self.rng)} if self.rng.random() < 0.7 else {"n": {"$gt": 80}}
        self.deleted += coll.delete_many(query).deleted_count

    def do_find_and_modify(self, coll):
        after = self.rng.choice((pymongo.ReturnDocument.BEFORE, pymongo.ReturnDocument.AFTER))
        sort = self.rng.choice((None, [("n", -1)]))
        kind = self.rng.randrange(4)
        if kind == 0:
            found = coll.find_one_and_delete(self._query(), sort=sort)
            self.deleted += found is not None
            return
        if kind == 1:
            new = {"m": self._mark(), **document(self.rng)}
            found = coll.find_one_and_replace(self._query(), new, sort=sort)
        elif kind == 2:
            found = coll.find_one_and_update(self._query(), self._marked(pipeline_update(self.rng)), sort=sort)
        else:
            update, options = operator_update(self.rng)
            found = coll.find_one_and_update(self._query(), self._marked(update), sort=sort,
                                             return_document=after, **options)
        self.told[self.marker] += found is not None

    def do_bulk(self, coll):
        rng, requests = self.rng, []
        for _ in range(1 + rng.randrange(6)):
            update, options = operator_update(rng)
            requests.append(rng.choice((
                lambda: pymongo.InsertOne({"_id": identity(rng), "m": self._mark(), **document(rng)}),
                lambda: pymongo.UpdateOne(self._query(), self._marked(update), upsert=rng.random() < 0.2, **options),
                lambda: pymongo.ReplaceOne({"_id": identity(rng)}, {"m": self._mark(), **document(rng)}),
                lambda: pymongo.DeleteOne(self._query()),
            ))())
        result = coll.bulk_write(requests, ordered=rng.random() < 0.5)
        self.told[self.marker] += result.inserted_count + result.modified_count + result.upserted_count
        self.deleted += result.deleted_count

    def do_transaction(self, coll):
        """A few changes of any collections, together or not at all."""
        told = deleted = 0
        with self.client.start_session() as session:
            session.start_transaction()
            for _ in range(1 + self.rng.randrange(6)):
                n, d = self._change_in(session)
                told, deleted = told + n, deleted + d
            if self.rng.random() < 0.2:
                session.abort_transaction()
                return
            session.commit_transaction()
        self.told[self.marker] += told
        self.deleted += deleted

    def _change_in(self, session):
        """One change; how many changes carry the marker, and how many documents were deleted."""
        coll = self.client[self.rng.choice(DATABASES)][self.rng.choice(COLLECTIONS)]
        kind = self.rng.randrange(5)
        if kind == 0:
            return 0, coll.delete_one(self._query(), session=session).deleted_count
        if kind == 1:
            coll.insert_one({"_id": ObjectId(), "m": self._mark(), **document(self.rng)}, session=session)
            return 1, 0
        if kind == 2:
            new = {"m": self._mark(), **document(self.rng)}
            return coll.replace_one(self._query(), new, session=session).modified_count, 0
        update, options = operator_update(self.rng)
        change = coll.update_many if kind == 3 and self.rng.random() < 0.3 else coll.update_one
        return change(self._query(), self._marked(update), session=session, **options).modified_count, 0

    def ddl_create(self, coll):
        images = {"changeStreamPreAndPostImages": {"enabled": True}} if self.rng.random() < 0.6 else {}
        coll.database.command("create", coll.name, **images)

    def ddl_drop(self, coll):
        coll.drop()

    def ddl_rename(self, coll):
        coll.rename(self.rng.choice(COLLECTIONS), dropTarget=self.rng.random() < 0.6)

    def ddl_rename_across(self, coll):
        to = f"{self.rng.choice(DATABASES)}.{self.rng.choice(COLLECTIONS)}"
        self.client.admin.command("renameCollection", coll.full_name, to=to, dropTarget=self.rng.random() < 0.6)

    def ddl_drop_database(self, coll):
        if self.rng.random() < 0.5:
            self.client.drop_database(coll.database.name)

    def ddl_images(self, coll):
        coll.database.command("collMod", coll.name, changeStreamPreAndPostImages={"enabled": self.rng.random() < 0.7})

    def ddl_images_2(self, coll):
        self.ddl_images(coll)

    def ddl_create_indexes(self, coll):
        keys = self.rng.sample(("n", "a", "list", "docs.v", "b"), 1 + self.rng.randrange(2))
        coll.create_indexes([pymongo.IndexModel(k, unique=self.rng.random() < 0.05) for k in keys])

    def ddl_drop_indexes(self, coll):
        coll.drop_index(self.rng.choice(("n_1", "a_1", "list_1", "*")))

    def ddl_hide_index(self, coll):
        coll.database.command("collMod", coll.name, index={"name": "n_1", "hidden": self.rng.random() < 0.5})


# --- watchers ---------------------------------------------------------------------------------------


class Part:
    """One life of a stream: how it began, what it gave (bytes), its tokens, how it ended."""

    def __init__(self, options, start):
        self.options, self.start = options, start
        self.events, self.tokens = [], []
        self.initial = None
        self.ended = False
        self.failed = False  # with error 47: an image that was required is missing


class Stream:
    """A change stream by its commands, so that every reply and every token is seen."""

    def __init__(self, client, options, start, batch=None):
        self.part = Part(options, start)
        scope = options.scope
        self.db = client.get_database(scope[0] if scope else "admin", codec_options=RAW)
        self.coll = scope[1] if len(scope) == 2 else 1
        self.batch = {} if batch is None else {"batchSize": batch}
        version = {} if options.version == 2 else {"$_generateV2ResumeTokens": False}
        reply = self._command("aggregate", self.coll, pipeline=options.pipeline(**start), cursor=self.batch, **version)
        if reply is None:
            return
        self.part.initial = reply["cursor"]["postBatchResumeToken"]["_data"]
        self.ns = reply["cursor"]["ns"].split(".", 1)[1]
        self._take(reply["cursor"]["firstBatch"], reply["cursor"])

    def _command(self, *args, **kwargs):
        """The reply; None: an image is missing, and the stream is at its end."""
        try:
            return self.db.command(*args, **kwargs, codec_options=RAW)
        except OperationFailure as e:
            if e.code != 47:
                raise
            self.part.failed = self.part.ended = True
            self.id = 0
            return None

    def _take(self, batch, cursor):
        self.part.events += [event.raw for event in batch]
        self.part.tokens.append(decode(cursor["postBatchResumeToken"].raw))
        self.token = self.part.tokens[-1]["_data"]
        self.id = cursor["id"]
        self.part.ended = self.id == 0
        return len(batch)

    def more(self, max_time_ms):
        """One getMore; the number of events it brought."""
        reply = self._command("getMore", Int64(self.id), collection=self.ns, maxTimeMS=max_time_ms, **self.batch)
        return 0 if reply is None else self._take(reply["cursor"]["nextBatch"], reply["cursor"])

    def kill(self):
        if self.id:
            self.db.command("killCursors", self.ns, cursors=[Int64(self.id)])


def random_options(rng):
    scope = rng.choice(((), (rng.choice(DATABASES),), (rng.choice(DATABASES), rng.choice(COLLECTIONS)),
                        (rng.choice(DATABASES), rng.choice(COLLECTIONS))))
    full = rng.choice(("default", "updateLookup", "whenAvailable", "required"))
    before = rng.choice(("off", "whenAvailable", "required"))
    chosen = rng.choice(sorted(FILTERS)) if rng.random() < 0.4 else None
    if chosen and "document" in chosen:
        # what a lookup gives cannot be told beforehand; whether an image is missing that the filter
        # could have done without must not matter
        full = rng.choice(("default", "whenAvailable")) if before != "required" else "default"
    raw = rng.random() < 0.2 and chosen not in ("change", "removed")
    version = 1 if rng.random() < 0.2 else 2
    return Options(scope, rng.random() < 0.5, full, before, chosen, raw, rng.random() < 0.2, version)


class Watcher(threading.Thread):
    """Streams of some shapes, killed and resumed at random tokens of theirs, until told to stop.

    `lossy`: the oplog is so short that a stream may lose its place.
    """

    def __init__(self, uri, rng, stop, shapes, lossy=False):
        super().__init__()
        self.uri, self.rng, self.stop, self.shapes, self.lossy = uri, rng, stop, shapes, lossy
        self.lost = 0
        self.parts, self.faults = [], []
        self.dead = False

    def run(self):
        try:
            with pymongo.MongoClient(self.uri, retryReads=False, serverSelectionTimeoutMS=3000) as client:
                while not self.stop.is_set():
                    self._family(client, self.rng.choice(self.shapes))
        except ConnectionFailure:
            self.dead = True
        except OperationFailure as e:
            self.faults.append(f"{self.parts[-1].options if self.parts else ''}: {e}")

    def _family(self, client, options):
        """One set of options, resumed a few times."""
        start = {}
        known = []
        for _ in range(1 + self.rng.randrange(6)):
            try:
                part = self._live(client, options, start)
            except OperationFailure as e:
                if not self.lossy or e.code not in PLACE_LOST:
                    raise
                self.lost += 1
                return
            known += [("token", t) for t in part.tokens]
            known += [("event", e) for e in part.events]
            if self.stop.is_set() or not known:
                return
            start = self._start(self.rng.choice(known[-8:] if self.rng.random() < 0.5 else known))

    def _start(self, chosen):
        kind, what = chosen
        if kind == "token":
            return {"startAfter": what}
        event = decode(what)
        if self.rng.random() < 0.2:
            return {"startAtOperationTime": event["clusterTime"]}
        ends = event["operationType"] == "invalidate"
        return {"startAfter" if ends or self.rng.random() < 0.5 else "resumeAfter": event["_id"]}

    def _live(self, client, options, start):
        stream = Stream(client, options, start, self.rng.choice((None, 1, 2, 7)))
        self.parts.append(stream.part)
        for _ in range(self.rng.randrange(1, 60)):
            if stream.part.ended or self.stop.is_set():
                break
            if self.lossy and self.rng.random() < 0.05:
                self.stop.wait(self.rng.random())
            stream.more(self.rng.choice((1, 20, 200)))
        if self.rng.random() < 0.5:
            stream.kill()
        return stream.part


class Master(threading.Thread):
    """The stream that sees everything, until its token has passed `until`."""

    OPTIONS = Options((), expanded=True, full="whenAvailable", before="whenAvailable")

    def __init__(self, uri, start):
        super().__init__()
        self.uri, self.start_at, self.until = uri, start, None
        self.events, self.tokens, self.faults = [], [], []
        self.dead = False
        self.batch = threading.Condition()

    def wait_batch(self):
        with self.batch:
            self.batch.wait(1.0)

    def run(self):
        try:
            with pymongo.MongoClient(self.uri, retryReads=False, serverSelectionTimeoutMS=3000) as client:
                stream = Stream(client, self.OPTIONS, self.start_at)
                self.events, self.tokens = stream.part.events, stream.part.tokens
                while self.until is None or stream.token <= self.until:
                    stream.more(100)
                    with self.batch:
                        self.batch.notify_all()
        except ConnectionFailure:
            self.dead = True
        except OperationFailure as e:
            self.faults.append(f"master: {e}")
