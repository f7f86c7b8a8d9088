# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hostile client sends: commands with wrong values in them, damaged BSON, damaged messages.

Everything comes from one random.Random, so that a seed repeats it.
"""

import pathlib
import re
import struct

import bson
from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from raw import CHECKSUM_PRESENT, EXHAUST_ALLOWED, OP_COMPRESSED, OP_MSG, OP_QUERY, crc32c, message

DB = "hostile"
LSIDS = [Binary(bytes([n]) * 16, 4) for n in range(1, 7)]


def _words():
    """Names in the tables of operators and stages."""
    folder = pathlib.Path(__file__).resolve().parent.parent / "query"
    names = set()
    for table in folder.glob("*.def"):
        names |= set(re.findall(r'"(\$[A-Za-z]+)"', table.read_text()))
    return sorted(names) or ["$set", "$and", "$match"]


WORDS = _words()

# --- BSON that drivers do not write -----------------------------------------------------------


class Raw:
    """An element's type byte and the bytes of its value, sound or not."""

    def __init__(self, kind, data):
        self.kind, self.data = kind, data


class Pairs:
    """A document as (name, value) pairs: names may repeat and may be any bytes but NUL."""

    def __init__(self, pairs):
        self.pairs = list(pairs)


class WrongArray(Pairs):
    """An array with these names of its elements."""


def _element(name, value):
    key = name if isinstance(name, bytes) else name.encode("utf-8", "surrogatepass")
    if isinstance(value, Raw):
        return bytes([value.kind]) + key + b"\0" + value.data
    if isinstance(value, (Pairs, dict)):
        return (b"\4" if isinstance(value, WrongArray) else b"\3") + key + b"\0" + encode(value)
    if isinstance(value, list):
        return b"\4" + key + b"\0" + encode({str(i): v for i, v in enumerate(value)})
    plain = bson.encode({"": value})
    return plain[4:5] + key + plain[5:-1]


def encode(document):
    """BSON of a dict or Pairs, with Raw values and any names in it."""
    try:
        return bson.encode(document)
    except (bson.errors.InvalidDocument, TypeError):
        pass  # there is something in it that drivers do not write
    items = document.pairs if isinstance(document, Pairs) else document.items()
    inner = b"".join(_element(k, v) for k, v in items)
    return struct.pack("<i", len(inner) + 5) + inner + b"\0"


def _text(data, size=None):
    return struct.pack("<i", len(data) + 1 if size is None else size) + data + b"\0"


DOC = bson.encode({"a": 1})
BAD_UTF8 = [b"\xff", b"a\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80" * 300]
SIZES = [-(2**31), -1, 0, 1, 2, 4, 5, 100, 2**24, 2**31 - 1]


def old_types(rng):
    """Sound values of types that drivers no longer write, or write otherwise."""
    return rng.choice([
        Raw(0x06, b""), Raw(0x0C, _text(b"db.c") + bytes(12)), Raw(0x0D, _text(b"f()")),
        Raw(0x0E, _text(b"symbol")), Raw(0x05, struct.pack("<iBi", 7, 2, 3) + b"abc"),
        Raw(0x0F, struct.pack("<i", 4 + 6 + len(DOC)) + _text(b"x") + DOC),
        Raw(0x05, struct.pack("<iB", 0, 7)), Raw(0x05, struct.pack("<iB", 3, 128) + b"abc"),
        Raw(0x05, struct.pack("<iB", 5, 4) + b"short"), Raw(0x0B, b"(\0i\0"), Raw(0x0B, b"a\0zzz\0"),
        Raw(0x13, b"\xff" * 16), Raw(0x01, b"\1\0\0\0\0\0\xf8\x7f"), Raw(0x09, b"\xff" * 8),
        Raw(0x02, _text(rng.choice(BAD_UTF8))), Raw(0x0B, rng.choice(BAD_UTF8) + b"\0i\0"),
    ])


def damaged(rng):
    """A value that is not what its type says."""
    size = rng.choice(SIZES)
    return rng.choice([
        Raw(0x02, _text(b"abc", size)), Raw(0x02, struct.pack("<i", 3) + b"abc"),
        Raw(0x05, struct.pack("<iB", size, 0) + b"abc"),
        Raw(0x05, struct.pack("<iBi", 7, 2, size) + b"abc"),
        Raw(0x03, struct.pack("<i", size) + b"\0"), Raw(0x04, struct.pack("<i", size) + DOC[4:]),
        Raw(0x03, DOC[:-1] + b"\1"), Raw(0x08, b"\2"), Raw(0x08, b"\xff"),
        Raw(0x0C, _text(b"db.c", size) + bytes(12)), Raw(0x0C, _text(b"db.c") + bytes(3)),
        Raw(0x0D, _text(b"f()", size)), Raw(0x0E, _text(b"s", size)),
        Raw(0x0F, struct.pack("<i", size) + _text(b"x") + DOC),
        Raw(0x0F, struct.pack("<i", 15 + len(DOC)) + _text(b"x", size) + DOC),
        Raw(0x0B, b"abc"), Raw(0x0B, b"a\0b"), Raw(rng.choice([0x14, 0x20, 0x80, 0xEE]), b"\0"),
        Raw(0x07, bytes(5)), Raw(0x13, bytes(7)), Raw(0x11, b"\0"),
    ])


# --- values -----------------------------------------------------------------------------------

NUMBERS = [
    0, 1, -1, 2, 10, 2**31 - 1, -(2**31), Int64(2**31), Int64(2**63 - 1), Int64(-(2**63)), Int64(5),
    0.0, -0.0, 1.5, -1.5, 1e308, -1e308, 5e-324, 2.0**63, float("nan"), float("inf"), float("-inf"),
    Decimal128("NaN"), Decimal128("Infinity"), Decimal128("-0E-6176"), Decimal128("9E+6144"),
    Decimal128("1.5"), Decimal128("9223372036854775808"), Decimal128("1"),
]

NAMES = [
    "", "a", "_id", "$", "$a", "a.b", "a.", ".a", "a..b", "$a.b", "a.$b", "a.$", "a.$[]", "a.$[x]", "0",
    "a.0", "a.1000000", "a.99999999999999999999", "a.-1", "__proto__", "$db", "lsid", "x" * 63, "x" * 255,
    "x" * 256, "x" * 2000, "é€😀", "é" * 200, "a b", "a\u2028b", "-1", "$$ROOT", "$$NOW", "$ref", "$where",
    "a" + ".a" * 120, "system.indexes", "system.views", "oplog.rs", "$cmd.aggregate", "%s%n%d", "\x01",
]

STRINGS = [*NAMES, "a\0b", "\0", "hostile.a", "a.b.c", "x" * 100000, "2d", "text", "hashed", "majority",
           "linearizable", "snapshot", "available", "1970-01-01", "UTC", "+99:99", "Europe/Berlin", "(", "[a",
           "(?<n>a)(?P=n)", "(a+)+$", "a{1000}{1000}"]


def _deep(rng):
    """Nested about as deep as is allowed, or deeper. Wrapped as bytes: the recursion would be Python's."""
    name = rng.choice([b"a", b"0", b"$and", b"$not", b"$or", b"$add", b"$cond"])
    inner = Raw(0x10, bytes(4))
    for _ in range(rng.choice([3, 50, 99, 100, 101, 150, 179, 181, 199, 205, 400])):
        element = bytes([inner.kind]) + (name if rng.random() < 0.5 else b"0") + b"\0" + inner.data
        kind = 0x03 if rng.random() < 0.5 else 0x04
        inner = Raw(kind, struct.pack("<i", len(element) + 5) + element + b"\0")
    return inner


def _big(rng):
    n = rng.choice([100, 1001, 3000])
    return rng.choice([
        lambda: [rng.choice(NUMBERS)] * n,
        lambda: {f"f{i}": rng.choice([1, "x", {}]) for i in range(n)},
        lambda: [{"a": i} for i in range(n)],
        lambda: [[]] * n,
    ])()


def value(rng, depth=0):
    """Any value, mostly an odd one."""
    r = rng.random()
    if r < 0.22:
        return rng.choice(NUMBERS)
    if r < 0.40:
        return rng.choice(STRINGS)
    if r < 0.58:
        return rng.choice([
            None, True, False, {}, [], ObjectId(bytes(12)), Regex("a", "i"), Regex("(", ""), MinKey(),
            MaxKey(), Code("f()"), Code("f()", {"x": 1}), DBRef("c", 1), Binary(b""), rng.choice(LSIDS),
            Binary(b"\0" * 15, 4), Binary(b"\0" * 17, 4), Binary(b"x" * 16, 3), Binary(b"x", 0x80),
            Timestamp(0, 0), Timestamp(2**32 - 1, 2**32 - 1), Timestamp(1, 1), bson.DatetimeMS(0),
            bson.DatetimeMS(2**63 - 1), bson.DatetimeMS(-(2**63)),
        ])
    if r < 0.64:
        return old_types(rng)
    if r < 0.65:
        return damaged(rng)
    if r < 0.66:
        return _deep(rng)
    if r < 0.67:
        return _big(rng)
    if depth > 4:
        return 1
    if r < 0.80:
        return {rng.choice(WORDS): value(rng, depth + 1)}
    if r < 0.92:
        return {rng.choice(NAMES): value(rng, depth + 1) for _ in range(rng.randrange(4))}
    if r < 0.94:
        return Pairs((rng.choice([*NAMES[:12], *BAD_UTF8]), value(rng, depth + 1)) for _ in range(3))
    if r < 0.95:
        return WrongArray((rng.choice(["1", "0", "x", "", "00"]), value(rng, depth + 1)) for _ in range(3))
    return [value(rng, depth + 1) for _ in range(rng.randrange(5))]


# --- commands ---------------------------------------------------------------------------------

TOKEN = {"_data": "82000000010000000129295A1004"}
UUID = Binary(b"u" * 16, 4)

# A sound form of each command, from which mutations start. Cursor ids are put in when it is sent.
FORMS = {
    "aggregate": [
        {"aggregate": "a", "pipeline": [{"$match": {"x": {"$gt": 1}}}, {"$sort": {"x": -1, "_id": 1}},
                                        {"$skip": 1}, {"$limit": 20}], "cursor": {"batchSize": 2},
         "allowDiskUse": True, "let": {"v": 1}, "hint": "_id_", "collation": {"locale": "simple"}},
        {"aggregate": "a", "pipeline": [{"$group": {"_id": "$k", "n": {"$sum": 1}, "l": {"$push": "$x"}}},
                                        {"$project": {"n": 1, "m": {"$max": ["$n", 2]}, "s": {"$size": "$l"}}}],
         "cursor": {}},
        {"aggregate": "a", "pipeline": [{"$unwind": {"path": "$l", "includeArrayIndex": "i"}},
                                        {"$set": {"z": {"$cond": [{"$gt": ["$l", 1]}, "$l", None]}}},
                                        {"$replaceRoot": {"newRoot": {"d": "$$ROOT"}}}, {"$count": "n"}],
         "cursor": {}},
        {"aggregate": "a", "cursor": {}, "pipeline": [{"$changeStream": {
            "fullDocument": "updateLookup", "fullDocumentBeforeChange": "whenAvailable",
            "resumeAfter": TOKEN, "showExpandedEvents": True}}]},
        {"aggregate": 1, "cursor": {"batchSize": 0}, "pipeline": [{"$changeStream": {
            "startAtOperationTime": Timestamp(1, 1)}}, {"$match": {"operationType": "insert"}}]},
        {"aggregate": "a", "cursor": {}, "pipeline": [{"$changeStream": {"startAfter": TOKEN}},
                                                      {"$changeStreamSplitLargeEvent": {}}]},
        {"aggregate": 1, "$db": "admin", "cursor": {}, "pipeline": [
            {"$currentOp": {"allUsers": True, "idleConnections": True, "idleCursors": True}}]},
        {"aggregate": "a", "cursor": {}, "pipeline": [{"$collStats": {"storageStats": {"scale": 1}, "count": {}}}]},
        {"aggregate": 1, "cursor": {}, "pipeline": [{"$listLocalSessions": {"allUsers": True}}]},
        {"aggregate": "a", "cursor": {}, "pipeline": [{"$indexStats": {}}, {"$sample": {"size": 2}}]},
    ],
    "appendOplogNote": [{"appendOplogNote": 1, "data": {"a": 1}, "$db": "admin"}],
    "bulkWrite": [{"bulkWrite": 1, "$db": "admin", "nsInfo": [{"ns": "hostile.a"}, {"ns": "hostile.b"}],
                   "ops": [{"insert": 1, "document": {"x": 1}},
                           {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"x": 1}}, "multi": True,
                            "upsert": False, "arrayFilters": [], "hint": {"_id": 1}},
                           {"delete": 0, "filter": {"_id": 77}, "multi": False}],
                   "ordered": True, "errorsOnly": False, "cursor": {"batchSize": 1}, "let": {"v": 1}}],
    "collMod": [{"collMod": "a", "changeStreamPreAndPostImages": {"enabled": True}},
                {"collMod": "a", "index": {"name": "k_1", "hidden": False}}],
    "collStats": [{"collStats": "a", "scale": 1}],
    "count": [{"count": "a", "query": {"x": {"$lt": 5}}, "limit": 3, "skip": 1, "hint": "_id_"}],
    "create": [{"create": "c1", "changeStreamPreAndPostImages": {"enabled": True}},
               {"create": "c2", "capped": True, "size": 4096, "max": 5}],
    "createIndexes": [{"createIndexes": "a", "indexes": [
        {"key": {"y.z": 1, "k": -1}, "name": "yz", "unique": False, "sparse": True, "v": 2,
         "expireAfterSeconds": 1000, "partialFilterExpression": {"x": {"$gt": 3}}}], "commitQuorum": 1}],
    "currentOp": [{"currentOp": 1, "$all": True, "$db": "admin"}],
    "dataSize": [{"dataSize": "hostile.a", "estimate": True}],
    "dbStats": [{"dbStats": 1, "scale": 1024, "freeStorage": 1}],
    "delete": [{"delete": "a", "deletes": [{"q": {"x": {"$in": [99, 98]}}, "limit": 0, "hint": "_id_"},
                                           {"q": {"_id": 999}, "limit": 1}], "ordered": False}],
    "distinct": [{"distinct": "a", "key": "x", "query": {"k": {"$gte": 0}}}],
    "drop": [{"drop": "c1"}],
    "dropDatabase": [{"dropDatabase": 1}],
    "dropIndexes": [{"dropIndexes": "a", "index": "yz"}, {"dropIndexes": "a", "index": ["yz", "k_1"]}],
    "endSessions": [{"endSessions": [{"id": LSIDS[0]}], "$db": "admin"}],
    "explain": [{"explain": {"find": "a", "filter": {"k": 2}, "sort": {"x": 1}}, "verbosity": "executionStats"},
                {"explain": {"aggregate": "a", "pipeline": [{"$match": {"k": 1}}], "cursor": {}}}],
    "find": [
        {"find": "a", "filter": {"x": {"$gte": 1, "$ne": 3}, "l": {"$elemMatch": {"$gt": 1}}},
         "projection": {"x": 1, "l": {"$slice": [1, 2]}}, "sort": {"k": 1, "x": -1}, "skip": 1, "limit": 10,
         "batchSize": 2, "singleBatch": False, "hint": {"k": 1}, "let": {"v": 1}, "allowDiskUse": True,
         "showRecordId": True},
        {"find": "a", "filter": {"$or": [{"k": 1}, {"k": {"$in": [2, 3]}}, {"$expr": {"$eq": ["$x", "$$v"]}}]},
         "let": {"v": 1}, "min": {"k": 1}, "max": {"k": 4}, "hint": {"k": 1}, "collation": {"locale": "simple"}},
        {"find": "a", "filter": {"s": {"$regex": "^a", "$options": "i"}, "x": {"$mod": [2, 0]},
                                 "l": {"$size": 3}, "k": {"$type": ["int", "long"], "$bitsAllSet": [1]}}},
        {"find": "oplog.rs", "$db": "local", "filter": {"ts": {"$gt": Timestamp(1, 1)}}, "tailable": True,
         "awaitData": True, "batchSize": 1},
    ],
    "findAndModify": [{"findAndModify": "a", "query": {"k": 1}, "update": {"$inc": {"n": 1}}, "new": True,
                       "upsert": False, "sort": {"x": 1}, "fields": {"x": 1}, "arrayFilters": [], "hint": "_id_"},
                      {"findAndModify": "a", "query": {"_id": 990}, "remove": True}],
    "fsync": [{"fsync": 1, "lock": False, "$db": "admin"}],
    "getLog": [{"getLog": "global", "$db": "admin"}],
    "getMore": [{"getMore": Int64(1), "collection": "a", "batchSize": 2},
                {"getMore": Int64(1), "collection": "$cmd.aggregate", "maxTimeMS": 1}],
    "getParameter": [{"getParameter": {"showDetails": True, "allParameters": True}, "$db": "admin"}],
    "hello": [{"hello": 1, "helloOk": True, "client": {
        "application": {"name": "x"}, "driver": {"name": "d", "version": "1"}, "os": {"type": "t"},
        "platform": "p"}, "compression": ["none", "zlib"], "saslSupportedMechs": "admin.u",
        "speculativeAuthenticate": {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=u,r=x",
                                    "db": "admin"}, "$db": "admin"},
        {"hello": 1, "topologyVersion": {"processId": ObjectId(bytes(12)), "counter": Int64(0)},
         "maxAwaitTimeMS": 1, "$db": "admin"}],
    "insert": [{"insert": "a", "documents": [{"x": 1, "l": [1, 2]}, {"_id": 5, "k": 1}], "ordered": False,
                "bypassDocumentValidation": True}],
    "killAllSessionsByPattern": [{"killAllSessionsByPattern": [{"lsid": {"id": LSIDS[0], "uid": Binary(b"x" * 32)}}]}],
    "killAllSessions": [{"killAllSessions": [{"user": "u", "db": "d"}]}],
    "killCursors": [{"killCursors": "a", "cursors": [Int64(1), Int64(2)]}],
    "killOp": [{"killOp": 1, "op": 999999999, "$db": "admin"}],
    "killSessions": [{"killSessions": [{"id": LSIDS[1]}]}],
    "listCollections": [{"listCollections": 1, "filter": {"name": "a"}, "nameOnly": True, "cursor": {"batchSize": 1}}],
    "listDatabases": [{"listDatabases": 1, "filter": {"name": "x"}, "nameOnly": True, "$db": "admin"}],
    "listIndexes": [{"listIndexes": "a", "cursor": {"batchSize": 1}}],
    "profile": [{"profile": 0, "slowms": 100, "sampleRate": 1.0}],
    "pruneOplog": [{"pruneOplog": 1, "$db": "admin"}],
    "refreshSessions": [{"refreshSessions": [{"id": LSIDS[2]}]}],
    "renameCollection": [{"renameCollection": "hostile.c1", "to": "hostile.c3", "dropTarget": True, "$db": "admin"}],
    "replSetGetStatus": [{"replSetGetStatus": 1, "$db": "admin"}],
    "replSetStepDown": [{"replSetStepDown": 1, "force": False, "$db": "admin"}],
    "serverStatus": [{"serverStatus": 1, "repl": 0, "metrics": {"x": 1}}],
    "setClusterParameter": [{"setClusterParameter": {"changeStreamOptions": {"preAndPostImages": {
        "expireAfterSeconds": 100}}}, "$db": "admin"}],
    "setDefaultRWConcern": [{"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "local"},
                             "defaultWriteConcern": {"w": 1, "wtimeout": 1}, "$db": "admin"}],
    "setFeatureCompatibilityVersion": [{"setFeatureCompatibilityVersion": "8.0", "confirm": True, "$db": "admin"}],
    "setParameter": [{"setParameter": 1, "logLevel": 0, "$db": "admin"},
                     {"setParameter": 1, "transactionLifetimeLimitSeconds": 60, "$db": "admin"},
                     {"setParameter": 1, "minSnapshotHistoryWindowInSeconds": 300, "$db": "admin"}],
    "update": [
        {"update": "a", "updates": [
            {"q": {"k": 2, "l": {"$gt": 0}}, "u": {"$set": {"a.b": 1, "l.$": 7}, "$inc": {"n": 1},
                                                   "$push": {"p": {"$each": [1], "$slice": -5, "$sort": 1}}},
             "multi": False, "upsert": False, "hint": "_id_"},
            {"q": {"_id": 4}, "u": {"$set": {"l.$[e]": 1}}, "arrayFilters": [{"e": {"$gt": 1}}]},
            {"q": {"_id": 6}, "u": [{"$set": {"c": {"$add": ["$x", 1]}}}, {"$unset": "zz"}], "c": {"v": 1}},
            {"q": {"_id": 7}, "u": {"x": 1, "k": 2}}], "ordered": False, "let": {"v": 1}},
        {"update": "a", "updates": [
            {"q": {"_id": 8}, "u": {"$addToSet": {"l": {"$each": [1, 2]}}, "$rename": {"r": "t"},
                                    "$min": {"x": 0}, "$mul": {"n": 2}, "$bit": {"b": {"or": 1}},
                                    "$currentDate": {"d": {"$type": "timestamp"}}, "$pop": {"p": 1}}}]}],
    "validate": [{"validate": "a", "full": True}],
}

GENERIC = {
    "lsid": lambda rng: {"id": rng.choice(LSIDS)},
    "txnNumber": lambda rng: Int64(rng.randrange(5)),
    "autocommit": lambda rng: False,
    "startTransaction": lambda rng: True,
    "readConcern": lambda rng: {"level": rng.choice(["local", "majority", "snapshot"])},
    "writeConcern": lambda rng: {"w": rng.choice([0, 1, "majority", 2]), "wtimeout": 1, "j": True},
    "maxTimeMS": lambda rng: rng.choice([1, 1000, 10000]),
    "comment": value,
    "apiVersion": lambda rng: "1",
    "apiStrict": lambda rng: True,
    "$clusterTime": lambda rng: {"clusterTime": Timestamp(1, 1), "signature": {"hash": b"", "keyId": 0}},
    "$readPreference": lambda rng: {"mode": "primary"},
    "stmtId": lambda rng: rng.randrange(4),
    "stmtIds": lambda rng: [1, 2],
    "afterClusterTime": lambda rng: Timestamp(1, 1),
    "collectionUUID": lambda rng: UUID,
}

# What goes together: a session, a retryable write, the first and a later statement of a transaction.
BUNDLES = [("lsid",), ("lsid", "txnNumber"), ("lsid", "txnNumber", "stmtId"),
           ("lsid", "txnNumber", "autocommit", "startTransaction"), ("lsid", "txnNumber", "autocommit"),
           ("lsid", "readConcern"), ("writeConcern",), ("maxTimeMS",), ("readConcern",)]

# Ends the server when it is asked rightly.
LEFT_OUT = {"shutdown"}


def _places(node, path=()):
    """Every place within a value: paths of keys and indexes."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if type(node) is list else ()
    for key, child in items:
        yield (*path, key)
        yield from _places(child, (*path, key))


def _copy(node):
    if isinstance(node, dict):
        return {k: _copy(v) for k, v in node.items()}
    return [_copy(v) for v in node] if type(node) is list else node


def _mutate(rng, document):
    """One change somewhere in the document, rather deep in it; the command's name mostly stays."""
    places = list(_places(document))
    if rng.random() < 0.9:
        places = [p for p in places[1:] if p != ("$db",)] or places
    if not places:
        return
    place = max(rng.choice(places), rng.choice(places), key=len)
    node = document
    for key in place[:-1]:
        node = node[key]
    last, what = place[-1], rng.random()
    if what < 0.6:
        node[last] = value(rng)
    elif what < 0.7:
        del node[last]
    elif type(node) is list:
        node.insert(rng.randrange(len(node) + 1), value(rng))
    elif what < 0.8:
        node[rng.choice(NAMES)] = node.pop(last)
    elif what < 0.9:
        node[rng.choice(WORDS)] = value(rng)
    else:
        node[last] = [node[last]] * rng.choice([1, 2, 50])


class Hostile:
    """The commands and messages; `names` are all commands the server has."""

    def __init__(self, rng, names):
        self.rng = rng
        self.names = [n for n in names if n not in LEFT_OUT]
        self.formed = [n for n in self.names for _ in FORMS.get(n, ())]
        self.cursors = []  # ids that replies showed

    def command(self):
        """A command with up to four things wrong with it, as (name, document)."""
        rng = self.rng
        name = rng.choice(self.names if rng.random() < 0.3 else self.formed)
        document = _copy(rng.choice(FORMS.get(name) or [{name: rng.choice([1, "a"])}]))
        fields = rng.choice(BUNDLES) if rng.random() < 0.4 else ()
        for field in [*fields, *rng.sample(sorted(GENERIC), rng.choice([0, 0, 0, 0, 1, 2]))]:
            document[field] = GENERIC[field](rng)
        if name == "getMore" and self.cursors:
            document[name] = Int64(rng.choice(self.cursors))
        elif name == "killCursors" and self.cursors:
            document["cursors"] = [Int64(c) for c in rng.sample(self.cursors, 1)]
        document.setdefault("$db", rng.choice(["admin", DB]) if name not in FORMS else DB)
        for _ in range(rng.choice([0, 1, 1, 1, 2, 4])):
            _mutate(rng, document)
        if rng.random() < 0.04:
            document = Pairs([*document.items(), (rng.choice(list(document) or ["x"]), value(rng))])
        return name, document

    def message(self):
        """A sound OP_MSG of such a command, as (name, bytes)."""
        name, document = self.command()
        return name, _pack(body_section(document))

    def sectioned(self):
        """An OP_MSG with sections and flags at random."""
        rng = self.rng
        sections = []
        for _ in range(rng.choice([1, 1, 2, 3, 4, 6])):
            kind = rng.random()
            if kind < 0.5:
                sections.append(body_section(self.command()[1]))
            elif kind < 0.95:
                sections.append(self._sequence())
            else:
                sections.append(bytes([rng.randrange(256)]) + rng.randbytes(rng.randrange(30)))
        flags = rng.choice([0, 0, 0, CHECKSUM_PRESENT, EXHAUST_ALLOWED, 1 << rng.randrange(32)]) & ~2
        return "sections", _pack(*sections, flags=flags)

    def _sequence(self):
        rng = self.rng
        name = rng.choice(["documents", "updates", "deletes", "ops", "nsInfo", "pipeline", "cursor", *NAMES])
        docs = b"".join(
            encode({"_id": value(rng), "x": value(rng)}) if rng.random() < 0.8 else
            encode({"q": value(rng), "u": value(rng), "limit": value(rng)}) for _ in range(rng.randrange(4)))
        docs *= rng.choice([1, 1, 1, 300])
        data = name.encode().replace(b"\0", b"") + b"\0" + docs
        size = 4 + len(data) if rng.random() < 0.9 else rng.choice(SIZES)
        return b"\1" + struct.pack("<i", size) + data

    def query(self):
        """An OP_QUERY, sound or not."""
        rng = self.rng
        document = self.command()[1] if rng.random() < 0.5 else {rng.choice(["hello", "isMaster"]): 1}
        ns = rng.choice(["admin.$cmd", "hostile.a", "", "$cmd", "x" * 300 + ".$cmd", "a.b.$cmd"]).encode()
        payload = struct.pack("<i", rng.choice([0, 4, 2**31 - 1, -1])) + ns + b"\0"
        payload += struct.pack("<ii", rng.choice(SIZES), rng.choice([-1, 1, *SIZES])) + encode(document)
        if rng.random() < 0.3:
            payload += encode({"a": 1})
        return "OP_QUERY", message(OP_QUERY, payload)

    def compressed(self):
        """An OP_COMPRESSED, which nobody agreed upon."""
        rng = self.rng
        inner = rng.choice([b"", rng.randbytes(20), self.message()[1][16:]])
        head = struct.pack("<iiB", rng.choice([OP_MSG, OP_QUERY, OP_COMPRESSED, 0]), rng.choice([len(inner), *SIZES]),
                           rng.choice([0, 1, 2, 3, 4, 255]))
        return "OP_COMPRESSED", message(OP_COMPRESSED, (head + inner)[: rng.choice([3, 9, None])])

    def broken(self):
        """A message with bytes of it changed; its length mostly put right again."""
        rng = self.rng
        data = bytearray(rng.choice([self.message, self.sectioned, self.query])()[1])
        for _ in range(rng.choice([1, 1, 2, 8])):
            at = rng.randrange(len(data))
            what = rng.random()
            if what < 0.4:
                data[at] ^= 1 << rng.randrange(8)
            elif what < 0.6:
                data[at : at + 4] = struct.pack("<i", rng.choice([*SIZES, len(data), len(data) - 16]))
            elif what < 0.75 and len(data) > 30:
                del data[at : at + rng.randrange(1, 20)]
            elif what < 0.9:
                data[at:at] = rng.randbytes(rng.randrange(1, 20))
            else:
                data[at:at] = data[at : at + rng.randrange(1, 60)]
        if rng.random() < 0.8 and len(data) >= 16:
            data[:4] = struct.pack("<i", len(data))
        if len(data) > 20 and data[12:16] == struct.pack("<i", OP_MSG):
            data[16] &= ~2  # moreToCome: nothing to wait for
        return "broken", bytes(data)


def body_section(document):
    return b"\0" + encode(document)


def _pack(*sections, flags=0):
    payload = struct.pack("<I", flags) + b"".join(sections)
    if len(payload) > 5000:
        flags &= ~CHECKSUM_PRESENT  # Python takes long for the sum
        payload = struct.pack("<I", flags) + payload[4:]
    if not flags & CHECKSUM_PRESENT:
        return message(OP_MSG, payload)
    whole = message(OP_MSG, payload, length=16 + len(payload) + 4)
    return whole + struct.pack("<I", crc32c(whole))
